"""The suites of a folder of tests as several processes: suites.py BUILD MPI FOLDER. Of the suites that suites.txt does not list one of five, by MUSTER_SEED, is
started by mpirun with 2 processes; with --full each, also with 1 and 4, and 3 where the list says so: the same program, whose devices are shared out (support/collectives_processes.h). Every process passes
the same tests, the processes share runtimes, each row of a call is computed in one of them, and each has sent bytes."""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import launching

build, mpi, folder = sys.argv[1:4]
tests = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = "function variable collectives".split()
LOCAL_PERCENT = 20
full = os.environ.get("MUSTER_TEST_FULL")
only = os.environ.get("MUSTER_SUITE")  # one of them, by hand
ONE_IN = 1 if full or only else 5  # of the suites, by the seed
ALWAYS = {"function/test_chainermn_gradients", "variable/test_variable", "collectives/test_reference_cases"}
faults = 0
spread = {}  # (suite, processes): has each process computed rows?
REPORT = re.compile(r"process (\d+) of (\d+): (\d+) joint, (\d+) alone, (\d+) tasks, (\d+) rows of (\d+), (\d+) bytes sent, (\d+) devices\n")


def fail(suite, what):
    global faults
    faults += 1
    print(f"FAILED {suite}: {what}", flush=True)


def all_suites(module):
    return [f"{module}/{path.stem}" for path in sorted((tests / module).glob("test_*.c"))]


def read_list():
    """{kind: {suite or suite:test: reason}}; what it names exists."""
    kinds = {"local": {}, "launch": {}, "test": {}, "full": {}, "three": {}, "later": {}}
    for number, line in enumerate((tests / "mpi/suites.txt").read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        kind, name, reason = line.split(maxsplit=2)
        suite, _, test = name.partition(":")
        if kind in ("launch", "three") and "*" in name:
            found = fnmatch.filter(all_suites(name.partition("/")[0]), name)
            kinds[kind].update(dict.fromkeys(found, reason))
            if not found:
                fail("suites.txt", f"line {number}: {line}")
            continue
        text = (tests / f"{suite}.c").read_text() if (tests / f"{suite}.c").exists() else None
        if kind not in kinds or text is None or (kind == "test" and not test) or (test and kind not in ("test", "later")) or not re.search(rf"\b{test}\b", text) or name in kinds[kind]:
            fail("suites.txt", f"line {number}: {line}")
            continue
        kinds[kind][name] = reason
    return kinds


def check_share(kinds):
    """At most a fifth is local, or has something that does not run yet: of the suites that have one process by themselves."""
    suites = [suite for module in FOLDERS for suite in all_suites(module) if suite not in kinds["launch"]]
    left_out = {*kinds["local"], *(name.partition(":")[0] for name in kinds["later"])}
    local = [suite for suite in suites if suite in left_out]
    if 100 * len(local) > LOCAL_PERCENT * len(suites):
        fail("suites.txt", f"expected at most {LOCAL_PERCENT} % of {len(suites)} suites to be local, received {len(local)}")
    print(f"{len(local)} of {len(suites)} suites are local or do not run yet, {len(kinds['launch'])} more make launches of their own", flush=True)


def environment(reports, skipped):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMI", "SLURM_", "MPI"))}
    kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", MUSTER_MPI_SHIM=f"{build}/libmuster-mpi-{mpi}.so",
                MUSTER_TEST_PROCESSES="mpi", MUSTER_TEST_PROCESSES_REPORT=reports, MUSTER_TEST_PROCESSES_SKIP=" ".join(skipped),
                CMOCKA_TEST_ABORT="1")  # a process whose test fails ends the launch
    return kept


def outcomes(outputs, processes):
    """[process] -> the outcomes of its tests in order, and all that it says."""
    texts = map("\n".join, zip(*(launching.outputs_of(outputs, what, processes) for what in ("stderr", "stdout"))))
    return [(sorted(re.findall(r"\[ +(OK|SKIPPED|FAILED) +\] (\w+)", text)), text) for text in texts]


def check_reports(suite, processes, folder):
    rows = joint = 0
    for process in range(processes):
        path = pathlib.Path(folder, str(process))
        match = REPORT.fullmatch(path.read_text() if path.exists() else "")
        if not match:
            return fail(suite, f"process {process} has written no report")
        number, of, joint, _, tasks, own, of_calls, sent, devices = map(int, match.groups())
        rows += own
        if (number, of) != (process, processes) or tasks == 0:
            fail(suite, f"expected process {process} of {processes} with tasks, received: {match.group().strip()}")
        alone = processes == 1 or (processes > 2 and devices < processes and suite not in kinds["three"])  # 2 devices are not shared by 4 processes
        if (joint > 0) != (sent > 0) or (joint > 0) == alone:
            fail(suite, f"expected shared runtimes and bytes on the wire where there are several processes: {match.group().strip()}")
        spread[suite, processes] = spread.get((suite, processes), True) and own > 0
    if rows != of_calls:
        fail(suite, f"{processes} processes: expected {of_calls} rows to be computed, received {rows}")
    return f"{joint} runtimes or pools shared, {rows} rows"


def run(suite, processes, skipped):
    with tempfile.TemporaryDirectory() as outputs, tempfile.TemporaryDirectory() as reports:
        program = f"{build}/tests/{suite.replace('/', '_', 1)}"
        started = time.monotonic()
        try:
            done = launching.run([*launching.launcher(mpi, processes, outputs=outputs), program], env=environment(reports, skipped), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3000 if full else 400)
            code, words = done.returncode, done.stdout.decode(errors="replace")
        except launching.Hangs as hung:
            code, words = "none", str(hung)
        of_processes = outcomes(outputs, processes)
        lists = [entry for entry, _ in of_processes]
        if code != 0 or any(entry != lists[0] for entry in lists) or not lists[0]:
            for process, (_, text) in enumerate(of_processes):
                print(f"---- process {process}\n{text[-4000:]}")
            return fail(suite, f"{processes} processes: exit {code}: {words[-2000:]}\nexpected the same outcomes in all, received {lists}")
        for _, test in (entry for entry in lists[0] if entry[0] == "SKIPPED" and entry[1] not in skipped):
            fail(suite, f"{processes} processes: {test} skipped itself")
        what = check_reports(suite, processes, reports)
        print(f"{suite} x {processes}: {len(lists[0])} tests, {what}, {time.monotonic() - started:.1f} s", flush=True)


kinds = read_list()
check_share(kinds)
ran = 0
for number, suite in enumerate(all_suites(folder)):
    if (number - int(os.environ.get("MUSTER_SEED") or 1)) % ONE_IN and suite not in ALWAYS:
        continue
    if any(suite in kinds[kind] for kind in ("local", "launch", "later")) or (only and suite != only) or (suite in kinds["full"] and not full and not only):
        continue
    skipped = [name.partition(":")[2] for kind in ("test", "later") for name in kinds[kind] if name.startswith(suite + ":")]
    for processes in ((1, 2, 3, 4) if suite in kinds["three"] else (1, 2, 4)) if full else (2,):
        run(suite, processes, skipped)
    ran += 1
everywhere = sum(spread.values())
if folder == "function" and not full and everywhere != len(spread):
    fail(folder, f"expected that each process computes rows, received {[suite for (suite, _), own in spread.items() if not own]}")
print(f"{folder}: {ran} suites, {everywhere} of {len(spread)} runs with rows in every process, {faults} faults")
sys.exit(faults != 0)
