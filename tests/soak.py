#!/usr/bin/env python3
"""soak.py BUILD PRESET SECONDS ASKED: looks for failures with new seeds, for so long. Called by script/test --soak, which has built BUILD.

It repeats three rounds, each with a new seed from the clock: all suites with random cases (MUSTER_SEED); one suite with all its cases
(MUSTER_TEST_FULL); and an eighth of all suites, for which the seed changes the delays of the simulated machine. The clock says which suite and which
eighth come first, so that the next run goes on to others. ASKED is a file to which the programs write what they ask for (tests/support/base_seed.h);
where it is missing, the first round runs every suite. What the end of the time cuts off is no failure. For each failure one line says what
repeats it. Exit 1 if there was any."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml


NOT_RANDOM = tuple(f"{folder}/" for folder in "abi bench explore format package readme modules words".split())  # these say the same every time


class Soak:
    def __init__(self, build, preset, seconds, asked):
        self.build, self.preset, self.end = build, preset, time.monotonic() + seconds
        self.asked, self.folder = pathlib.Path(asked).resolve(), tempfile.TemporaryDirectory()
        self.failures, self.finished, self.seed = [], 0, 0
        listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
        self.programs = {test["name"]: [pathlib.Path(word).name for word in test.get("command", [])] for test in json.loads(listing)["tests"]
                         if not test["name"].startswith(NOT_RANDOM)}

    def time_left(self):
        return self.end - time.monotonic()

    def next_seed(self):
        self.seed = max(int(time.time()), self.seed + 1)
        return self.seed

    def run(self, suites, full):
        """Runs these suites with a new seed. Those that the end of the time cuts off are not counted."""
        seed = self.next_seed()
        what = suites[0] if len(suites) == 1 else f"{len(suites)} suites"
        print(f"soak: {self.preset}: {what}{', all cases' if full else ''}: MUSTER_SEED={seed}, {int(self.time_left())} s left", flush=True)
        environment = dict(os.environ, MUSTER_SEED=str(seed), MUSTER_SIM_SEED=str(seed), MUSTER_DISCRETE_SEED=str(seed), MUSTER_TEST_ASKED=str(self.asked))
        environment.pop("MUSTER_TEST_FULL", None)
        if full:
            environment["MUSTER_TEST_FULL"] = "1"
        report = pathlib.Path(self.folder.name, "report.xml")
        report.unlink(missing_ok=True)
        # Long suites first: so that no processor waits for one at the end.
        command = ["ctest", "--test-dir", self.build, f"-j{os.cpu_count() + 1}", "--output-on-failure", "--no-tests=error", "--output-junit", str(report),
                   "--stop-time", time.strftime("%H:%M:%S", time.localtime(time.time() + self.time_left() + 1))]
        command += ["-R", "^(" + "|".join(name.replace("+", "[+]").replace(".", "[.]") for name in suites) + ")$"]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        for case in xml.parse(report).getroot().iter("testcase") if report.exists() else []:
            failed = case.get("status") == "fail" and not self.was_cut_off(case, result.stdout)
            self.finished += case.get("status") == "run"
            if failed:
                self.report(case, seed, full, result.stdout)

    def was_cut_off(self, case, output):
        return self.time_left() <= 3 and re.search(rf": {re.escape(case.get('name'))} [.]*\*\*\*Timeout", output) is not None

    def report(self, case, seed, full, output):
        name = case.get("name")
        again = f"MUSTER_SEED={seed} MUSTER_SIM_SEED={seed} MUSTER_DISCRETE_SEED={seed} {'MUSTER_TEST_FULL=1 ' if full else ''}" \
                f"ctest --test-dir {self.build} -R '^{re.escape(name)}$' --output-on-failure"
        print("\n".join((case.findtext("system-out") or output).splitlines()[-40:]))
        print(f"failed: {self.preset}: {name}\n    repeat: {again}", flush=True)
        self.failures.append((name, again))

    def suites_that_asked(self, what):
        lines = set(self.asked.read_text().splitlines()) if self.asked.exists() else set()
        return sorted(name for name, words in self.programs.items() if any(f"{word} {what}" in lines for word in words))

    def go(self):
        if not self.suites_that_asked("seed"):
            self.run(sorted(self.programs), False)
        random, whole, every = self.suites_that_asked("seed"), self.suites_that_asked("full"), sorted(self.programs)
        print(f"soak: {self.preset}: {len(random)} suites have random cases, {len(whole)} have more cases with --full", flush=True)
        turn = int(time.time()) // 60
        while self.time_left() > 5 and random:
            for suites, full in (random, False), (whole[turn % len(whole) :][:1], True), (every[turn % 8 :: 8], False):
                if self.time_left() > 5 and suites:
                    self.run(suites, full)
            turn += 1
        for name, again in self.failures:
            print(f"failed: {self.preset}: {name}: {again}")
        print(f"soak: {self.preset}: {self.finished} suites passed, {len(self.failures)} failed")
        return 1 if self.failures or not self.finished else 0


if __name__ == "__main__":
    build, preset, seconds, asked = sys.argv[1:]
    sys.exit(Soak(build, preset, int(seconds), asked).go())
