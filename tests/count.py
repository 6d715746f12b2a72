#!/usr/bin/env python3
"""count.py [--quick] [--write-times] LOGS PRESET...: adds up the results that CTest wrote to LOGS/PRESET.xml and LOGS/PRESET-beside.xml, and prints the
counts as the last line. LOGS/PRESET-timed.txt has the CPU seconds (tests/timed.c), LOGS/PRESET-other-turns.txt the suites that wait for another turn in
this preset, and LOGS/PRESET-lacks.txt what this machine lacks (cmake/test.cmake). --quick: the quick set alone was run.
count.py --suites BUILD: BUILD is a release build; configures builds with the sanitizers, compiles nothing, and compares their suites with left_out.txt,
and the names in quick.txt and needs.txt with the suites.

Beside this file lie
  quick.txt     the suites of the quick set
  skips.txt     the suites and cases that may skip themselves: any other that does is a failure, and so is a line that names no suite of its preset
  needs.txt     what suites need of the machine: they skip themselves where it lacks that, and nowhere else
  left_out.txt  the suites that builds with a sanitizer, or all builds, leave out: any other that they lack is a failure, and so is a line that names none
  times.txt     the CPU seconds of each suite, and the wall seconds of those that wait: those that take more than 1.5 times as many are marked
A preset without results (its build failed) counts as one failure. --write-times replaces the CPU seconds of these presets in times.txt, and on a machine
that does nothing else the wall seconds, too."""
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).parent
PRESETS = ["release", "asan", "tsan"]  # the columns of times.txt
SLOW = 1.5
WAITS = 2  # seconds that a suite waits, and times its CPU seconds, so that it runs beside those that compute


def takes_turns(preset, name, seconds):
    """As in cmake/test.cmake."""
    if name.startswith("sim/trace_"):
        return False
    if preset in ("asan", "tsan"):
        return seconds >= 2
    names = re.search(r'^set\(MUSTER_TURN_NAMES "(@\|.*)"\)$', (HERE.parent / "cmake/test.cmake").read_text(), flags=re.M).group(1)
    return seconds >= 4 and re.search(names, name) is not None and name not in read_quick()


@dataclasses.dataclass
class Result:
    state: str  # passed, failed, skipped, left out, waiting (for another turn)
    seconds: float
    cpu: float
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


def read_quick():
    return {name for name, in read_lines("quick.txt", 1)}


def read_skipped_cases(output):
    """The cases that the macro SKIP of tests/support/base_skip.h tells of; a case that skips in another way has no reason.
    cmocka's line above its list begins with a number, from cmocka 1.1.7 on with the name of the group."""
    reasons = dict(re.findall(r"^SKIP (\w+): (.*)$", output, flags=re.M))
    names = re.findall(r"^\[  SKIPPED \] (?!(?:\w+: )?\d+ test\(s\))(\w+)", output, flags=re.M)
    return {name: reasons.get(name, "") for name in [*names, *reasons]}


def read_results(path):
    """{suite: Result}; CTest also writes 'notrun' for a program that does not exist, which is a failure."""
    results, turns, timed = {}, path.with_name(f"{path.stem}-other-turns.txt"), path.with_name(f"{path.stem}-timed.txt")
    waiting = set(turns.read_text().split()) if turns.exists() else set()
    cpu = {name: float(seconds) for name, seconds, _ in map(str.split, timed.read_text().splitlines())} if timed.exists() else {}
    parts = [part for part in (path, path.with_name(f"{path.stem}-beside.xml")) if part.exists()]
    for case in [case for part in parts for case in xml.parse(part).getroot().iter("testcase")]:
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
        seconds = float(case.get("time") or 0)
        results[case.get("name")] = Result(state, seconds, cpu.get(case.get("name"), seconds), cases)
    return results


class Count:
    def __init__(self):
        self.passed, self.skipped, self.skipped_cases, self.left_out, self.waiting, self.failures = 0, 0, 0, 0, 0, []
        self.lacking = {}  # {need: suites that skipped themselves}

    def add(self, preset, results, lacks=None, quick=False):
        """lacks: {what this machine lacks: how it says so}"""
        times, needs = read_times(), [(pattern, need) for need, pattern in read_lines("needs.txt", 2) if need in (lacks or {})]
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
            elif result.state == "skipped" and any(fnmatch.fnmatch(name, pattern) for pattern, _ in needs):
                self.lacking.setdefault(next(need for pattern, need in needs if fnmatch.fnmatch(name, pattern)), []).append(name)
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
            known = read_quick() if quick else None
            self.failures += [f"{preset}: tests/skips.txt lists {name}, which does not exist" for name in reasons
                              if name.split(":")[0] not in results and (known is None or name.split(":")[0] in known)]
            self.failures += [f"{preset}: {name} is in tests/quick.txt, but was not run" for name in (known or ()) if name not in results]
        for need, names in self.lacking.items():
            print(f"skipped: {preset}: {len(names)} suites, for this machine lacks {need}: {lacks[need]}: {', '.join(sorted(names))}")
        self.lacking = {}

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


def read_cells():
    """{suite: {preset: "CPU" or "CPU/WALL"}}"""
    return {name: {preset: text for preset, text in zip(PRESETS, times) if text != "-"} for name, *times in read_lines("times.txt", 1 + len(PRESETS))}


def read_times():
    """{suite: {preset: CPU seconds}}"""
    return {name: {preset: float(text.split("/")[0]) for preset, text in cells.items()} for name, cells in read_cells().items()}


def class_of(name):
    folder, _, rest = name.partition("/")
    if "@" not in rest or folder in ("docs", "samples"):
        return folder + ("/test_cuda_*" if rest.startswith("test_cuda") else "")
    return "*@" + re.sub("_.*|-.*", "", rest.split("@")[1])


def print_classes(results):
    print("CPU seconds, wall seconds and suites by class")
    for preset, suites in results.items():
        classes = {}
        for name, result in suites.items():
            if result.state in ("passed", "failed"):
                sums = classes.setdefault(class_of(name), [0, 0, 0])
                for i, value in enumerate((result.cpu, result.seconds, 1)):
                    sums[i] += value
        for name, (cpu, seconds, count) in sorted(classes.items(), key=lambda item: -item[1][0]):
            print(f"{preset:>12} {cpu:8.1f} {seconds:8.1f} {count:5d}  {name}")
        print(f"{preset:>12} {sum(c[0] for c in classes.values()):8.1f} {sum(c[1] for c in classes.values()):8.1f} {sum(c[2] for c in classes.values()):5d}  together")


def print_times(results, written, most):
    def cell(preset, name):
        result = results[preset].get(name)
        if not result or result.state in ("skipped", "left out", "waiting"):
            return "-  "
        limit = written.get(name, {}).get(preset)
        return f"{result.cpu:.1f}" + (" ?" if limit is None else " *" if result.cpu > SLOW * max(limit, 1) else "  ")

    names = sorted({name for of_preset in results.values() for name in of_preset},
                   key=lambda name: -sum(of_preset[name].cpu for of_preset in results.values() if name in of_preset))
    print(f"CPU seconds of {f'the {most} dearest suites' if most else 'every suite'}; *: more than {SLOW} times those in tests/times.txt; ?: it has none there")
    print("".join(f"{preset:>12}" for preset in results))
    for name in names[:most]:
        print("".join(f"{cell(preset, name):>12}" for preset in results) + f"  {name}")
    marked = [f"{preset}: {name}" for preset in results for name in names if cell(preset, name).endswith("*")]
    print(f"{len(marked)} suites took more than {SLOW} times their written CPU seconds" + "".join(f"\n    {mark}" for mark in marked))


def write_times(results, written):
    """Walls say something on a machine that does nothing else: on another one those of before stay, and suites that had none get none."""
    quiet = os.getloadavg()[2] <= 4 * os.cpu_count()  # the run itself is in it
    for preset, suites in results.items():
        for name in written:
            if name not in suites or suites[name].state == "left out":
                written[name].pop(preset, None)
        for name, result in suites.items():
            if result.state == "passed":
                cpu, wall = result.cpu, ""
                before = written.get(name, {}).get(preset, "").partition("/")[2]
                if quiet and result.seconds >= max(WAITS * cpu, cpu + WAITS):
                    wall = f"/{round(result.seconds + 0.5)}"
                elif not quiet and before:
                    wall = f"/{before}"
                written.setdefault(name, {})[preset] = f"{cpu:.1f}{wall}"
    head = "# CPU seconds of each suite, and of those that wait /wall seconds on two quiet cores: suite, " + ", ".join(PRESETS) + ". script/test --write-times makes this file.\n"
    rows = [f"{name} {' '.join(times.get(preset, '-') for preset in PRESETS)}\n" for name, times in sorted(written.items()) if times]
    (HERE / "times.txt").write_text(head + "".join(rows))
    if not quiet:
        print("tests/times.txt: wall seconds are as before, for this machine is busy")


def list_suites(build):
    text = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, stdout=subprocess.PIPE, text=True).stdout
    tests = json.loads(text)["tests"]
    for test in tests:
        if not test.get("command", ["muster-timed"])[0].endswith("muster-timed"):
            raise SystemExit(f"{test['name']}: nothing ends it when it hangs: it is to be added by muster_add_test (cmake/test.cmake)")
    return {test["name"] for test in tests}


def compare_suites(build):
    suites, count = {"release": list_suites(build)}, Count()
    for kind, names in (("quick", read_quick()), ("needs", {pattern for _, pattern in read_lines("needs.txt", 2)})):
        count.failures += [f"tests/{kind}.txt lists {name}, which matches no suite" for name in sorted(names) if not fnmatch.filter(suites["release"], name)]
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
    writes, quick = "--write-times" in arguments, "--quick" in arguments
    logs, *presets = [argument for argument in arguments if not argument.startswith("--")]
    results = {preset: read_results(pathlib.Path(logs, f"{preset}.xml")) for preset in presets}
    count = Count()
    for preset in presets:
        lacks = pathlib.Path(logs, f"{preset}-lacks.txt")
        count.add(preset, results[preset], dict(line.split(" ", 1) for line in lacks.read_text().splitlines()) if lacks.exists() else {}, quick)
    if not quick:
        count.compare(results)
    print_times(results, read_times(), 20 if quick else None)
    print_classes(results)
    if writes:
        write_times(results, read_cells())
    print(f"{count.waiting} suites wait for another turn (cmake/test.cmake)")
    print(f"{count.left_out} suites left out (tests/left_out.txt), {count.skipped_cases} cases of passed suites skipped (tests/skips.txt)")
    for failure in count.failures:
        print(f"failed: {failure}")
    print(f"{count.passed} passed, {len(count.failures)} failed, {count.skipped} skipped")
    return 1 if count.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
