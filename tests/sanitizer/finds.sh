#!/bin/sh
# finds.sh PROGRAM: the program with a planted fault must fail with a sanitizer's report. Exits 77 where the kernel does not let the
# leak checker look at its own threads (a container without ptrace).
program=$1
report=$(mktemp)
trap 'rm -f "$report"' EXIT
"$program" >"$report" 2>&1
status=$?
cat "$report"
if grep -q 'LeakSanitizer has encountered a fatal error' "$report" || [ "${MUSTER_NO_LEAK_CHECK:-0}" = 1 ]; then exit 77; fi
[ $status -ne 0 ] && grep -qE 'LeakSanitizer: detected memory leaks|ThreadSanitizer: data race|runtime error: signed integer overflow' "$report"
