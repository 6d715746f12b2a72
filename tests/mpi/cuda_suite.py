"""Simulated GPUs over several processes, each of which has a machine of its own: cuda_suite.py BUILD PROGRAM.

ChainerMN's cases by the library's choice and as non_cuda_aware, as 2 processes, with --full also 3 and 4; and how the processes of a host share
out its GPUs (lib/runtime/nodes.c): PROGRAM says what each has."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import launching

build, program = sys.argv[1:3]
full = os.environ.get("MUSTER_TEST_FULL")
SUITES = "arrays gradients places".split()
REPORT = re.compile(r"process (\d+) of (\d+): (\d+) joint, (\d+) alone, (\d+) tasks, (\d+) rows of (\d+), (\d+) bytes sent, (\d+) devices\n")
environment = {key: value for key, value in launching.environment().items() if not key.startswith("CUDA_")}
environment.update(MUSTER_MPI_SHIM=f"{build}/libmuster-mpi-openmpi.so",
                   MUSTER_CUDA_LIBRARIES=f"{build}/tests/sim", MUSTER_SIM_DEVICES="8", MUSTER_SIM_DELAY="20", MUSTER_SIM_DELAY_ONE_OF="8",
                   MUSTER_DEVICE_MEMORY="4194304", MUSTER_SIM_MEMORY="536870912", MUSTER_CACHE_DIR=f"{build}/tests/code_cache")
faults = cases = 0


def fail(what):
    global faults
    faults += 1
    print(f"FAILED {what}", flush=True)


def launch(processes, *command, **variables):
    """(exit code, the lines of each process). Variables of one process have its number behind them, as in MUSTER_HOSTNAME_0."""
    each = [["env", *own] if own else [] for own in ([f"{name[:-2]}={value}" for name, value in variables.items() if name[-2:] == f"_{process}"] for process in range(processes))]
    shared = {name: value for name, value in variables.items() if name[-2] != "_"}
    with tempfile.TemporaryDirectory() as folder:
        done = launching.run([*launching.launcher("openmpi", processes, outputs=folder, each=each), *command],
                              env={**environment, **shared}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
        return done.returncode, launching.outputs_of(folder, "stdout", processes), done.stdout + "".join(launching.outputs_of(folder, "stderr", processes))


# ---- ChainerMN's cases ----
for suite in SUITES:
    for processes in (2, 3, 4) if full else (2,):
        cases += 1
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as reports:
            code, outputs, words = launch(processes, f"{build}/tests/function_test_chainermn_{suite}", MUSTER_TEST_DEVICES="cuda", MUSTER_TEST_PROCESSES="mpi",
                                          MUSTER_TEST_PROCESSES_REPORT=reports, CMOCKA_TEST_ABORT="1")
            passed = [re.findall(r"\[ +OK +\] (\w+)", text) for text in outputs]
            written = [pathlib.Path(reports, str(process)) for process in range(processes)]
            numbers = [[int(number) for number in REPORT.fullmatch(path.read_text()).groups()] if path.exists() else None for path in written]
        if code or not passed[0] or any(names != passed[0] for names in passed):
            fail(f"{suite} as {processes} processes: exit {code}: {words[-4000:]}")
        elif any(not one or one[:2] != [process, processes] or one[2] == 0 or one[7] == 0 for process, one in enumerate(numbers)):
            fail(f"{suite} as {processes} processes: expected shared runtimes and bytes on the wire, received {numbers}")
        else:
            print(f"{suite} x {processes}: {len(passed[0])} tests, {numbers[0][2]} runtimes shared, {time.monotonic() - started:.1f} s", flush=True)

# ---- the GPUs of a host ----
# GPUs, processes, variables; of each process which GPUs, and how many rows of 96 each of them computes.
SHARES = [
    (8, 2, {}, [("0 1 2 3", 12), ("4 5 6 7", 12)]),
    (8, 3, {}, [("0 1", 12), ("2 3 4", 12), ("5 6 7", 12)]),
    (8, 1, {}, [("0 1 2 3 4 5 6 7", 12)]),
    (3, 3, {}, [("0", 32), ("1", 32), ("2", 32)]),
    (2, 3, {}, [("0", 32), ("1", 32), ("0", 32)]),  # fewer GPUs than processes: they take turns
    (1, 2, {}, [("0", 48), ("0", 48)]),
    # those of another host are its own, and so are those of a process whose launcher shows it others
    (2, 2, {"MUSTER_HOSTNAME_0": "a", "MUSTER_HOSTNAME_1": "b"}, [("0 1", 24), ("0 1", 24)]),
    (4, 3, {"MUSTER_HOSTNAME_0": "a", "MUSTER_HOSTNAME_1": "b", "MUSTER_HOSTNAME_2": "a"}, [("0 1", 12), ("0 1 2 3", 12), ("2 3", 12)]),
    (2, 2, {"CUDA_VISIBLE_DEVICES_0": "0,1", "CUDA_VISIBLE_DEVICES_1": "2,3"}, [("0 1", 24), ("0 1", 24)]),
    # a choice of the program or the user is each process's own
    (4, 2, {"MUSTER_DEVICES": "cuda:2"}, [("0 1", 24), ("0 1", 24)]),
]
LINE = re.compile(r"process (\d+) of (\d+), total (\S+):((?: cuda:\d+ Simulated GPU x \d+)+)\n")
for gpus, processes, variables, shares in SHARES:
    cases += 1
    code, outputs, words = launch(processes, program, MUSTER_NODES="mpi", MUSTER_SIM_DEVICES=str(gpus), **variables)
    expected = [(process, processes, "4560", "".join(f" cuda:{gpu} Simulated GPU x {rows}" for gpu in ids.split())) for process, (ids, rows) in enumerate(shares)]
    found = sorted((int(match[1]), int(match[2]), match[3], match[4]) for match in map(LINE.fullmatch, outputs) if match)
    if code or found != expected:
        fail(f"{gpus} GPUs on {processes} processes, {variables}: exit {code}: expected\n{expected}\nreceived\n{found}\n{outputs}\n{words}")
print(f"{cases} cases, {faults} faults")
if cases != len(SUITES) * (3 if full else 1) + 10:
    fail(f"expected 10 shares of GPUs and the suites, ran {cases}")
sys.exit(faults != 0)
