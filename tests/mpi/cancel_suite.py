"""Calls that one process ends by muster_runtime_cancel in a signal handler return CANCELLED in all, with its name: cancel_suite.py NAME FOLDER PROGRAM. NAME is
an MPI, FOLDER holds the shims, PROGRAM is cancel_program. The last of 2 and 3 processes ends them while all bodies only look, while the others wait for it in an
exchange, and with 64 calls behind the one that runs; and steps of a training end at instants drawn by seed, after which the parameters are those before or after the step."""
import os
import re
import socket
import subprocess
import sys

import launching

name, folder, program = sys.argv[1:4]
SECONDS = 60  # far above what it takes
QUEUED = 64
full = os.environ.get("MUSTER_TEST_FULL")
seed = os.environ.get("MUSTER_SEED") or "1"
trials = "10000" if full else "200"
environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_MPI_SHIM=folder, MUSTER_NODES="mpi")
launches = faults = 0


def expected(way, processes, each):
    """The lines that must come, as often."""
    ended = f"in process {processes - 1} (host {socket.gethostname()})"
    for process in range(processes):
        yield f"process {process}: first: CANCELLED muster_function_call_async: function 'f': muster_runtime_cancel has ended the call, {ended}", 1
        yield f"process {process}: {QUEUED} queued: CANCELLED muster_function_call_async: muster_runtime_cancel has ended the call, {ended}", way == "queued"
        yield f"process {process}: then {processes * each}, {each} bodies", 1


def launch(way, processes, each, *more):
    global launches, faults
    launches += 1
    try:
        done = launching.run([*launching.launcher(name, processes), program, way, f"host:{each}", *more], env=environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS * (20 if full else 1))
        code, output = done.returncode, done.stdout.decode(errors="replace")
    except launching.Hangs as hung:
        code, output = -1, str(hung)
    lines = output.splitlines()
    if way == "train":
        counts = [re.fullmatch(r"process \d+: (\d+) steps, (\d+) ended", line) for line in lines]
        counts = [(int(found[1]), int(found[2])) for found in counts if found]
        right = len(counts) == processes and len(set(counts)) == 1 and min(counts[0]) > 0 and sum(counts[0]) >= int(trials) and "WRONG" not in output
        print(f"steps and ended: {counts}")
    else:
        right = all(lines.count(line) == times for line, times in expected(way, processes, each))
    right = right and code == 0
    faults += not right
    print(f"{way} x {processes} x {each}: exit {code}, {'right' if right else 'WRONG'}\n{'' if right else output}", end="", flush=True)


for way in "look", "meet", "queued":
    for layout in (2, 1), (2, 2), (3, 1):
        launch(way, *layout)
for each in 1, 2:
    launch("train", 2, each, trials, str(int(seed) + each))
print(f"{launches} launches, {faults} wrong")
sys.exit(faults > 0 or launches != 11)
