#!/bin/sh
# The parser of texts under libFuzzer: the kept corpus, then new inputs.
# usage: fuzz.sh SOURCE [SECONDS]
set -eu
source=$1
seconds=${2:-60}
[ "${MUSTER_TEST_FULL:-}" != 1 ] || seconds=60
here=$source/tests/graph/fuzz
folder=$(mktemp -d)
[ -z "${MUSTER_TEST_ASKED:-}" ] || echo "fuzz.sh seed" >>"$MUSTER_TEST_ASKED" # it has random cases: see tests/soak.py
trap 'rm -rf "$folder"' EXIT
clang=$(command -v clang || command -v clang-15 || command -v clang-14 || true)
[ -n "$clang" ] || { echo "clang is not on this machine"; exit 77; }
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n ? 0 : 0; }' >"$folder/probe.c"
"$clang" -fsanitize=fuzzer,address -o "$folder/probe" "$folder/probe.c" 2>/dev/null || { echo "this clang has no libFuzzer"; exit 77; }
headers=$(find "$source/lib" "$source/scheduler" "$source/collectives" -name '*_impl.h' -printf '-I%h\n' | sort -u)
graph=$source/lib/graph base=$source/lib/base
# -O0: at -O1 compiling takes 80 s more of CPU time, for ten seconds of inputs.
# The whole module is linked. What it calls in other modules when a graph runs stays unresolved: the
# parser never gets there.
# shellcheck disable=SC2086 # the list of folders, none with blanks
"$clang" -std=gnu11 -D_GNU_SOURCE -g -O0 -no-pie -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Wl,--unresolved-symbols=ignore-all \
    -I"$source/include" -I"$graph" $headers -o "$folder/fuzz" "$here/fuzz_text.c" "$graph"/*.c "$graph"/*/*.c \
    "$base/memory.c" "$base/allocator.c" "$base/options.c" "$base/owned.c" "$base/status.c" "$base/dtype.c" "$source/lib/ops/operation.c" 2>"$folder/warnings" ||
    { cat "$folder/warnings"; exit 1; }
mkdir "$folder/corpus"
# Where the leak checker cannot stop threads (a container without ptrace), the harness counts blocks itself.
export ASAN_OPTIONS="detect_leaks=0"
cd "$folder"
./fuzz -runs=0 "$here/corpus" 2>&1 | tail -n 3
./fuzz -seed="${MUSTER_SEED:-1}" -max_total_time="$seconds" -max_len=2048 -dict="$here/words.dict" -print_final_stats=1 corpus "$here/corpus" >log 2>&1 || { tail -n 40 log; exit 1; }
tail -n 8 log
if [ -n "${MUSTER_FUZZ_KEEP:-}" ]; then ./fuzz -merge=1 "$MUSTER_FUZZ_KEEP" corpus >/dev/null 2>&1; fi
