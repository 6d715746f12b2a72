#!/bin/sh
# Every sample on that many CPU devices: it is right or, where its values are those of another number, says so and ends with 2.
# usage: on_devices.sh COUNT SAMPLE...
set -eu
count=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tried=0 other=0
for sample in "$@"; do
    tried=$((tried + 1))
    case $(basename "$sample") in
    mesh | from_jax) needs=4 ;;
    modes | replica_batch | variables | five_expressions) needs=2 ;;
    *) needs=$count ;;
    esac
    code=0
    MUSTER_DEVICES=host:$count "$sample" >"$log" 2>&1 || code=$?
    expected=0
    [ "$needs" -eq "$count" ] || expected=2 other=$((other + 1))
    [ $code -eq $expected ] || { echo "$sample on $count devices: expected exit $expected, received $code"; cat "$log"; exit 1; }
    [ $code -eq 0 ] || grep -q "^this sample shows what $needs devices do: expected $needs in MUSTER_DEVICES, such as host:$needs, received $count (host:$count)$" "$log" ||
        { echo "$sample on $count devices: another message:"; cat "$log"; exit 1; }
done
echo "$tried samples on $count devices, $other of them made for another number"
[ $tried -ge 20 ]
case $count in 2) [ $other -eq 2 ] ;; 4) [ $other -eq 4 ] ;; *) [ $other -eq 6 ] ;; esac
