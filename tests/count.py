#!/usr/bin/env python3
"""count.py [--write-times] LOGS PRESET...: adds up the results that CTest wrote to LOGS/PRESET.xml, and prints the counts as the last line.
LOGS/PRESET-other-turns.txt names the suites that wait for another turn in this preset (cmake/test.cmake).
count.py --suites BUILD: BUILD is a release build; configures builds with the sanitizers, compiles nothing, and compares their suites with left_out.txt.

Beside this file lie
  skips.txt     the suites and cases that may skip themselves: any other that does is a failure, and so is a line that names no suite of its preset
  left_out.txt  the suites that builds with a sanitizer, or all builds, leave out: any other that they lack is a failure, and so is a line that names none
  times.txt     the seconds that each suite takes on two quiet cores: those that take more than 1.5 times as long are marked
A preset without results (its build failed) counts as one failure. --write-times replaces the times of these presets in times.txt."""
import dataclasses
import fnmatch
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).parent
PRESETS = ["release", "asan", "tsan"]  # the columns of times.txt
SLOW = 1.5


def takes_turns(preset, name, seconds):
    """As in cmake/test.cmake."""
    return seconds >= 3 if preset in ("asan", "tsan") else "@" in name and seconds >= 5


@dataclasses.dataclass
class Result:
    state: str  # passed, failed, skipped, left out, waiting (for another turn)
    seconds: float
    skipped_cases: dict  # of a suite that ran: {case: reason}


def read_lines(name, fields):
    """The lines of a list: `fields` words each, the last with all that follows; # begins a comment."""
    path, lines = HERE / name, []
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.strip() and not line.startswith("#"):
            parts = line.split(None, fields - 1)
            if len(parts) != fields:
                raise SystemExit(f"{path}: expected {fields} words, received '{line}'")
            lines.append(parts)
    return lines


def read_skipped_cases(output):
    """The cases that the macro SKIP of tests/support/base_skip.h tells of; a case that skips in another way has no reason."""
    reasons = dict(re.findall(r"^SKIP (\w+): (.*)$", output, flags=re.M))
    names = re.findall(r"^\[  SKIPPED \] (?!\d+ test\(s\))(\w+)", output, flags=re.M)
    return {name: reasons.get(name, "") for name in [*names, *reasons]}


def read_results(path):
    """{suite: Result}; CTest also writes 'notrun' for a program that does not exist, which is a failure."""
    results, turns = {}, path.with_name(f"{path.stem}-other-turns.txt")
    waiting = set(turns.read_text().split()) if turns.exists() else set()
    for case in xml.parse(path).getroot().iter("testcase") if path.exists() else []:
        skipped, message = case.find("skipped"), ""
        if skipped is not None:
            message = skipped.get("message", "")
        state = "failed"
        if case.get("status") == "run" and case.find("failure") is None:
            state = "passed"
        elif case.get("status") == "disabled":
            state = "waiting" if case.get("name") in waiting else "left out"
        elif case.get("status") == "notrun" and message.startswith("SKIP_"):
            state = "skipped"
        cases = read_skipped_cases(case.findtext("system-out") or "") if state == "passed" else {}
        results[case.get("name")] = Result(state, float(case.get("time") or 0), cases)
    return results


class Count:
    def __init__(self):
        self.passed, self.skipped, self.skipped_cases, self.left_out, self.waiting, self.failures = 0, 0, 0, 0, 0, []

    def add(self, preset, results):
        times = read_times()
        reasons = {name: reason for pattern, name, reason in read_lines("skips.txt", 3) if fnmatch.fnmatch(preset, pattern)}
        for name, result in results.items():
            if result.state == "passed":
                self.passed += 1
                for case, reason in result.skipped_cases.items():
                    self.skipped_cases += 1
                    if f"{name}:{case}" not in reasons:
                        self.failures.append(f"{preset}: {name}: case {case} skipped itself ({reason or 'no reason'}), but is not listed in tests/skips.txt")
            elif result.state == "skipped" and name in reasons:
                print(f"skipped: {preset}: {name}: {reasons[name]}")
                self.skipped += 1
            elif result.state == "left out" and any(
                    fnmatch.fnmatch(name, pattern) for when, pattern, _ in read_lines("left_out.txt", 3)
                    if when == "long" or (when == "full" and preset in ("asan", "tsan")) or (when == "thread" and preset == "tsan")):
                self.left_out += 1
            elif result.state == "waiting" and takes_turns(preset, name, times.get(name, {}).get(preset, 0)):
                self.waiting += 1
            else:
                what = {"failed": "", "waiting": ": waits for another turn, but does not take long by tests/times.txt", "skipped": ": skipped, but not listed in tests/skips.txt", "left out": ": disabled, but not listed in tests/left_out.txt"}
                self.failures.append(f"{preset}: {name}{what[result.state]}")
        if not results:
            self.failures.append(f"{preset}: no tests were run")
        else:
            self.failures += [f"{preset}: tests/skips.txt lists {name}, which does not exist" for name in reasons if name.split(":")[0] not in results]

    def compare(self, suites):
        """{preset: names of its suites}: those of a build with a sanitizer are those of release, but for those that are listed."""
        if not suites.get("release"):
            return
        lines = read_lines("left_out.txt", 3)
        for when, pattern, _ in lines:
            if not any(fnmatch.fnmatch(name, pattern) for name in suites["release"]):
                self.failures.append(f"tests/left_out.txt lists {pattern}, which matches no suite")
        patterns = [pattern for when, pattern, _ in lines if when == "release"]
        for preset in [preset for preset in suites if preset in ("asan", "tsan") and suites[preset]]:
            for name in suites["release"]:
                listed = any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
                if (name not in suites[preset]) != listed:
                    self.failures.append(f"{preset}: {name} " + ("runs, but tests/left_out.txt lists it" if listed else "is missing, but not listed in tests/left_out.txt"))


def read_times():
    """{suite: {preset: seconds}}"""
    return {name: {preset: int(text) for preset, text in zip(PRESETS, times) if text != "-"}
            for name, *times in read_lines("times.txt", 1 + len(PRESETS))}


def print_times(results, written):
    def cell(preset, name):
        result = results[preset].get(name)
        if not result or result.state in ("skipped", "left out", "waiting"):
            return "-  "
        limit = written.get(name, {}).get(preset)
        return f"{result.seconds:.1f}" + (" ?" if limit is None else " *" if result.seconds > SLOW * limit else "  ")

    names = sorted({name for of_preset in results.values() for name in of_preset},
                   key=lambda name: -sum(of_preset[name].seconds for of_preset in results.values() if name in of_preset))
    print(f"seconds of every suite; *: more than {SLOW} times its time in tests/times.txt; ?: it has no time there")
    print("".join(f"{preset:>12}" for preset in results))
    for name in names:
        print("".join(f"{cell(preset, name):>12}" for preset in results) + f"  {name}")
    marked = [f"{preset}: {name}" for preset in results for name in names if cell(preset, name).endswith("*")]
    print(f"{len(marked)} suites took more than {SLOW} times their written time" + "".join(f"\n    {mark}" for mark in marked))


def write_times(results, written):
    for preset, suites in results.items():
        for name in written:
            if name not in suites or suites[name].state != "waiting":
                written[name].pop(preset, None)
        for name, result in suites.items():
            if result.state == "passed":
                written.setdefault(name, {})[preset] = max(1, math.ceil(result.seconds))
    head = "# Seconds of each suite on two quiet cores, at least 1: suite, " + ", ".join(PRESETS) + ". tests/count.py --write-times makes this file.\n"
    rows = [f"{name} {' '.join(str(times.get(preset, '-')) for preset in PRESETS)}\n" for name, times in sorted(written.items()) if times]
    (HERE / "times.txt").write_text(head + "".join(rows))


def list_suites(build):
    text = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {test["name"] for test in json.loads(text)["tests"]}


def compare_suites(build):
    suites, count = {"release": list_suites(build)}, Count()
    for preset in ("asan", "tsan"):
        with tempfile.TemporaryDirectory() as folder:
            configured = subprocess.run(["cmake", "--preset", preset, "-B", folder], cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if configured.returncode:
                raise SystemExit(f"{preset}: cmake failed:\n{configured.stdout}")
            suites[preset] = list_suites(folder)
    count.compare(suites)
    print(", ".join(f"{preset}: {len(names)} suites" for preset, names in suites.items()))
    for failure in count.failures:
        print(f"failed: {failure}")
    return 1 if count.failures or not all(suites.values()) else 0


def main(arguments):
    if arguments[:1] == ["--suites"]:
        return compare_suites(arguments[1])
    writes = "--write-times" in arguments
    logs, *presets = [argument for argument in arguments if argument != "--write-times"]
    results = {preset: read_results(pathlib.Path(logs, f"{preset}.xml")) for preset in presets}
    count = Count()
    for preset in presets:
        count.add(preset, results[preset])
    count.compare(results)
    print_times(results, read_times())
    if writes:
        write_times(results, read_times())
    print(f"{count.waiting} suites wait for another turn (cmake/test.cmake)")
    print(f"{count.left_out} suites left out (tests/left_out.txt), {count.skipped_cases} cases of passed suites skipped (tests/skips.txt)")
    for failure in count.failures:
        print(f"failed: {failure}")
    print(f"{count.passed} passed, {len(count.failures)} failed, {count.skipped} skipped")
    return 1 if count.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
