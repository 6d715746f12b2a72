#!/bin/sh
# The reader of section files under libFuzzer: the kept corpus, then new inputs.
# usage: fuzz.sh SOURCE [SECONDS]
set -eu
source=$1
seconds=${2:-60}
[ "${MUSTER_TEST_FULL:-}" != 1 ] || seconds=60
here=$source/tests/kernel/fuzz
folder=$(mktemp -d)
[ -z "${MUSTER_TEST_ASKED:-}" ] || echo "fuzz.sh seed" >>"$MUSTER_TEST_ASKED" # it has random cases: see tests/soak.py
trap 'rm -rf "$folder"' EXIT
clang=$(command -v clang || command -v clang-15 || command -v clang-14 || true)
[ -n "$clang" ] || { echo "clang is not on this machine"; exit 77; }
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n ? 0 : 0; }' >"$folder/probe.c"
"$clang" -fsanitize=fuzzer,address -o "$folder/probe" "$folder/probe.c" 2>/dev/null || { echo "this clang has no libFuzzer"; exit 77; }
"$clang" -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -I"$source/include" -I"$source/lib/base" -I"$source/lib/device" \
    -I"$source/lib/kernel" -o "$folder/fuzz" "$here/fuzz_sections.c" "$source"/lib/kernel/section.c "$source"/lib/kernel/types.c "$source"/lib/kernel/string.c \
    "$source"/lib/base/memory.c "$source"/lib/base/allocator.c "$source"/lib/base/options.c "$source"/lib/base/owned.c "$source"/lib/base/status.c
mkdir "$folder/corpus"
# Where the leak checker cannot stop threads (a container without ptrace), the harness counts blocks itself.
export ASAN_OPTIONS="detect_leaks=0"
cd "$folder"
./fuzz -runs=0 "$here/corpus" 2>&1 | tail -n 3
./fuzz -seed="${MUSTER_SEED:-1}" -max_total_time="$seconds" -max_len=2048 -dict="$here/words.dict" -print_final_stats=1 corpus "$here/corpus" >log 2>&1 || { tail -n 40 log; exit 1; }
tail -n 8 log
if [ -n "${MUSTER_FUZZ_KEEP:-}" ]; then ./fuzz -merge=1 "$MUSTER_FUZZ_KEEP" corpus >/dev/null 2>&1; fi
