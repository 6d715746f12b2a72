#!/bin/sh
# A CMake project of its own finds the installed library with find_package, builds and runs; a too new version is refused.
. "$(dirname "$0")/install.sh"
"$cmake" -S "$consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx"
"$cmake" --build "$work/build"
"$work/build/consumer"
"$work/build/consumer_cxx"
mkdir "$work/newer"
printf 'cmake_minimum_required(VERSION 3.22)\nproject(newer NONE)\nfind_package(Muster 0.2 CONFIG REQUIRED)\n' >"$work/newer/CMakeLists.txt"
if "$cmake" -S "$work/newer" -B "$work/newer/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/newer.txt" 2>&1; then
    echo "version 0.2 was found though 0.1 is installed" >&2
    exit 1
fi
grep -q 'requested version "0.2"' "$work/newer.txt"
