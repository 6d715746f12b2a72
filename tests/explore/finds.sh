#!/bin/sh
# finds.sh EXPLORER REAL PLANTED SCENARIO...: passes if and only if the fault is in the planted file and the explorer finds it.
explorer=$1 real=$2 planted=$3
shift 3
if cmp -s "$real" "$planted"; then
    echo "the fault is not in $planted: its expression in CMakeLists.txt no longer fits $real"
    exit 1
fi
diff "$real" "$planted"
exec "$explorer" --find "$@"
