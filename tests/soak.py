#!/usr/bin/env python3
"""soak.py BUILD PRESET SECONDS: looks for failures with new seeds, for so long. Called by script/test --soak, which has built BUILD.

The first round runs every suite with a seed from the clock, and learns from the programs which of them have random cases (MUSTER_SEED) and which
have more cases than they run otherwise (MUSTER_TEST_FULL; see tests/support/base_seed.h). Then, in turn: a round of all suites with random cases
with a new seed, and one suite with all its cases; the clock says which suite comes first, so that every run goes on to others. Suites that
the end of the time cuts off are no failures. For each failure one line says what repeats it. Exit 1 if there was any."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml


class Soak:
    def __init__(self, build, preset, seconds):
        self.build, self.preset, self.end = build, preset, time.monotonic() + seconds
        self.asked = pathlib.Path(tempfile.mkdtemp()) / "asked"
        self.failures, self.finished, self.seed = [], 0, 0
        listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
        self.programs = {test["name"]: [pathlib.Path(word).name for word in test.get("command", [])] for test in json.loads(listing)["tests"]}

    def time_left(self):
        return self.end - time.monotonic()

    def next_seed(self):
        self.seed = max(int(time.time()), self.seed + 1)
        return self.seed

    def run(self, suites, full):
        """Runs these suites, or all for None, with a new seed. Those that the end of the time cuts off are not counted."""
        seed = self.next_seed()
        what = "every suite" if suites is None else suites[0] if len(suites) == 1 else f"{len(suites)} suites"
        print(f"soak: {self.preset}: {what}{', all cases' if full else ''}: MUSTER_SEED={seed}, {int(self.time_left())} s left", flush=True)
        environment = dict(os.environ, MUSTER_SEED=str(seed), MUSTER_SIM_SEED=str(seed), MUSTER_FAR_SEED=str(seed), MUSTER_TEST_ASKED=str(self.asked))
        environment.pop("MUSTER_TEST_FULL", None)
        if full:
            environment["MUSTER_TEST_FULL"] = "1"
        report = self.asked.with_name("report.xml")
        report.unlink(missing_ok=True)
        # Long suites first: so that no processor waits for one at the end.
        command = ["ctest", "--test-dir", self.build, f"-j{os.cpu_count() + 1}", "--output-on-failure", "--no-tests=error", "--output-junit", str(report),
                   "--stop-time", time.strftime("%H:%M:%S", time.localtime(time.time() + self.time_left() + 1))]
        if suites is not None:
            command += ["-R", "^(" + "|".join(map(re.escape, suites)) + ")$"]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        for case in xml.parse(report).getroot().iter("testcase") if report.exists() else []:
            failed = case.get("status") == "fail" and not self.was_cut_off(case)
            self.finished += case.get("status") == "run"
            if failed:
                self.report(case, seed, full, result.stdout)

    def was_cut_off(self, case):
        return self.time_left() <= 2 and "Timeout" in (case.find("failure").get("message", "") if case.find("failure") is not None else "")

    def report(self, case, seed, full, output):
        name = case.get("name")
        again = f"MUSTER_SEED={seed} MUSTER_SIM_SEED={seed} MUSTER_FAR_SEED={seed} {'MUSTER_TEST_FULL=1 ' if full else ''}" \
                f"ctest --test-dir {self.build} -R '^{re.escape(name)}$' --output-on-failure"
        print("\n".join((case.findtext("system-out") or output).splitlines()[-40:]))
        print(f"failed: {self.preset}: {name}\n    repeat: {again}", flush=True)
        self.failures.append((name, again))

    def suites_that_asked(self, what):
        lines = set(self.asked.read_text().splitlines()) if self.asked.exists() else set()
        return sorted(name for name, words in self.programs.items() if any(f"{word} {what}" in lines for word in words))

    def go(self):
        self.run(None, False)
        random, whole = self.suites_that_asked("seed"), self.suites_that_asked("full")
        print(f"soak: {self.preset}: {len(random)} suites have random cases, {len(whole)} have more cases with --full", flush=True)
        turn = int(time.time()) // 60
        while self.time_left() > 5 and random:
            self.run(random, False)
            if self.time_left() > 5 and whole:
                self.run([whole[turn % len(whole)]], True)
                turn += 1
        for name, again in self.failures:
            print(f"failed: {self.preset}: {name}: {again}")
        print(f"soak: {self.preset}: {self.finished} suites passed, {len(self.failures)} failed")
        return 1 if self.failures or not self.finished else 0


if __name__ == "__main__":
    build, preset, seconds = sys.argv[1:]
    sys.exit(Soak(build, preset, int(seconds)).go())
