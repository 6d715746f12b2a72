#!/bin/sh
# clang.sh TEST HEADERS LIBRARY: the test of muster.hpp, compiled and run by clang++.
set -eu
test=$1 headers=$2 library=$3
command -v clang++ >/dev/null || { echo "clang++ is not here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
clang++ -std=c++17 -Wall -Wextra -Wold-style-cast -Wcast-qual -pedantic-errors -Werror -I"$headers" "$test" "$library" -Wl,-rpath,"$(dirname "$library")" \
    -pthread -o "$folder/test"
"$folder/test"
