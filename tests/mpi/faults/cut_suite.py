"""Links between hosts that are cut and healed while Open MPI's processes call: cut_suite.py SOURCES FOLDER PROGRAM. FOLDER holds the shims, PROGRAM is
fault_program. 40 cuts of 20 to 80 ms, drawn by seed, of the host of one process among three: each call returns the same everywhere, OK or a deadline,
the call after it is right, and nothing is left."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import launching

sources, folder, program = sys.argv[1:4]
PROCESSES, CUTS = 3, 40
numbers = random.Random(os.environ.get("MUSTER_SEED") or "1")
cells = [f"cut:{numbers.choice(['begin', 'arrival', 'data', 'end'])}:{numbers.randrange(PROCESSES)}:{numbers.randrange(1 << 24)}" for _ in range(CUTS)]
environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_MPI_SHIM=f"{folder}/libmuster-mpi-openmpi.so")
mpirun = launching.mpirun("openmpi")
failures, late = 0, 0


def fail(text):
    global failures
    failures += 1
    print(f"FAILED: {text}", flush=True)


with tempfile.TemporaryDirectory(prefix="muster-cut-") as out:
    hosts = [f"{sources}/tests/net/hosts", str(PROCESSES), "--relay", "--see", out, "--"]
    launch = [mpirun, "-n", str(PROCESSES), "-x", "MUSTER_CACHE_DIR", "-x", "MUSTER_MPI_SHIM", program, "cells", out, *cells]
    done = launching.run([*hosts, *launch], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    if done.returncode == 77:
        print(done.stdout.decode(errors="replace"))
        sys.exit(77)
    rows = [[line.split(" ", 5) for line in pathlib.Path(out, str(process)).read_text(errors="replace").splitlines()] for process in range(PROCESSES)]
if done.returncode:
    fail(f"expected exit 0, received {done.returncode}: {done.stdout.decode(errors='replace')}")
for number, cell in enumerate(cells, 1):
    calls = [row for lines in rows for row in lines if row[0] == str(number) and row[1] == "call"]
    after = [row for lines in rows for row in lines if row[0] == str(number) and row[1] == "after"]
    statuses = {row[2] for row in calls}
    if len(calls) != PROCESSES or len(statuses) != 1 or not statuses <= {"OK", "TIMEOUT"}:
        fail(f"{number} {cell}: expected OK or TIMEOUT from all, received {calls}")
    late += "TIMEOUT" in statuses
    if any(row[2] == "OK" and row[3] != "right" for row in calls):
        fail(f"{number} {cell}: expected right results, received {calls}")
    if len(after) != PROCESSES or any(row[2:4] != ["OK", "right"] for row in after):
        fail(f"{number} {cell}: expected that the next call is right, received {after}")
print(f"{len(cells)} cuts, {late} of them longer than the deadline, {failures} failures")
sys.exit(bool(failures))
