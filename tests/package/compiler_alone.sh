#!/bin/sh
# compiler_alone.sh SOURCE CMAKE CC CXX: a compiler, CMake and make are enough. Where zlib, pkg-config with cmocka, Python, OpenMP and ninja are
# missing, a plain configuration says what is left out, nothing that is built needs them, and suites that need them skip themselves.
set -eu
source=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/log.txt" >&2; echo "$1" >&2; exit 1; }
# As in a plain configuration everything is on. Variables of CMake hide what is here.
"$cmake" -S "$source" -B "$work/build" -G "Unix Makefiles" -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON -DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON -DMUSTER_PYTHON= -DMUSTER_MPI_COMPILERS= >"$work/log.txt" 2>&1 ||
    fail "the configuration failed"
for expected in 'a few suites that need cmocka itself' 'suites that need python: there is no python3' 'suites that need zlib' 'the samples train, lenet, downpour and easgd'; do
    grep "^-- Left out: $expected" "$work/log.txt" >/dev/null || fail "expected a line \"Left out: $expected...\""
done
make -C "$work/build" help | grep -E ' (train|sample_lenet|samples_test_idx)$' && fail "a program that needs zlib is built"
make -C "$work/build" -n 2>&1 | grep -E -i 'python|-lz( |$)|-lcmocka|libz\.so|libcmocka' | head -n 3 >"$work/log.txt"
[ ! -s "$work/log.txt" ] || fail "the build uses what is missing"
# Built on the stand-in for cmocka, a suite runs.
make -C "$work/build" base_tests -j2 >"$work/log.txt" 2>&1 || fail "the build failed"
ctest=$(dirname "$cmake")/ctest
"$ctest" --test-dir "$work/build" -R '^(base/.*|samples/train_interrupted|abi/pointers)$' >"$work/log.txt" 2>&1 || fail "suites failed"
grep -E 'samples/train_interrupted \.+\*\*\*Skipped' "$work/log.txt" >/dev/null || fail "expected samples/train_interrupted to skip itself"
grep -E 'base/test_status \.+ +Passed' "$work/log.txt" >/dev/null || fail "expected base/test_status to pass"
