#!/bin/sh
# no_pkg_config.sh SOURCE CMAKE CC CXX: where pkg-config is missing, the configuration of the tests says what to do, and that of the
# library alone works.
set -eu
source=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
configure() { # tests ON or OFF
    "$cmake" -S "$source" -B "$work/$1" -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON \
        -DMUSTER_BUILD_TESTS="$1" -DMUSTER_BUILD_SAMPLES=OFF -DMUSTER_BUILD_BENCH=OFF -G "$2" >"$work/$1.txt" 2>&1
}
configure OFF Ninja "$3" "$4" || { cat "$work/OFF.txt" >&2; exit 1; }
if configure ON Ninja "$3" "$4"; then
    echo "the tests were configured without pkg-config" >&2
    exit 1
fi
if ! tr -s ' \n' ' ' <"$work/ON.txt" | grep -q 'the tests need pkg-config and cmocka .* -DMUSTER_BUILD_TESTS=OFF'; then
    cat "$work/ON.txt" >&2
    exit 1
fi
