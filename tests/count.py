#!/usr/bin/env python3
"""count.py SKIPS LOGS PRESET...: adds up the results that CTest wrote to LOGS/PRESET.xml, and prints the counts as the last line.

A skip passes only if SKIPS lists it with its reason; a line of SKIPS that names no test of its preset fails too. A preset without
results (its build failed) counts as one failure."""
import fnmatch
import pathlib
import sys
import xml.etree.ElementTree as xml


def read_skips(path):
    """[preset pattern, test, reason] of each line; # begins a comment."""
    skips = []
    for line in pathlib.Path(path).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            parts = line.split(None, 2)
            if len(parts) != 3:
                raise SystemExit(f"{path}: expected 'preset test reason', received '{line}'")
            skips.append(parts)
    return skips


def read_results(path):
    """{test: passed | failed | skipped}; CTest also writes 'notrun' for a program that does not exist, which is a failure."""
    results = {}
    for case in xml.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if case.get("status") == "run" and case.find("failure") is None:
            results[case.get("name")] = "passed"
        elif case.get("status") == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            results[case.get("name")] = "skipped"
        else:
            results[case.get("name")] = "failed"
    return results


def count(skips, logs, presets):
    passed, failures, skipped = 0, [], 0
    for preset in presets:
        path = pathlib.Path(logs, f"{preset}.xml")
        results = read_results(path) if path.exists() else {}
        if not results:
            failures.append(f"{preset}: no tests were run")
        reasons = {test: reason for pattern, test, reason in skips if fnmatch.fnmatch(preset, pattern)}
        for test, result in results.items():
            if result == "passed":
                passed += 1
            elif result == "skipped" and test in reasons:
                print(f"skipped: {preset}: {test}: {reasons[test]}")
                skipped += 1
            else:
                failures.append(f"{preset}: {test}" + (": skipped, but not listed in tests/skips.txt" if result == "skipped" else ""))
        if results:
            failures += [f"{preset}: tests/skips.txt lists {test}, which does not exist" for test in reasons if test not in results]
    for failure in failures:
        print(f"failed: {failure}")
    print(f"{passed} passed, {len(failures)} failed, {skipped} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(count(read_skips(sys.argv[1]), sys.argv[2], sys.argv[3:]))
