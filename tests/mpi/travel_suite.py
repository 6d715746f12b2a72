"""Processes on hosts of their own, of which one computes behind each collective: travel_suite.py MPI SOURCES FOLDER PROGRAM. FOLDER holds the shims, PROGRAM is
travel_program. The hosts are joined by links with a delay, and by slow ones. No process waits for the one that computes."""
import pathlib
import subprocess
import sys
import tempfile

import launching

mpi, sources, folder, program = sys.argv[1:5]
PROCESSES, ROUNDS = 3, 2 * 3 * 5 * 3
LINKS = (["--delay", "1"], ["--rate", "100"])
environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_NODES="mpi", MUSTER_MPI_SHIM=f"{folder}/libmuster-mpi-{mpi}.so")
names = ["MUSTER_CACHE_DIR", "MUSTER_NODES", "MUSTER_MPI_SHIM"]
mpirun = launching.mpirun(mpi)
exports = [word for name in names for word in ("-x", name)] if mpi == "openmpi" else ["-genvlist", ",".join(names)]
failures = 0
for link in LINKS:
    with tempfile.TemporaryDirectory(prefix="muster-travel-") as out:
        hosts = [f"{sources}/tests/net/hosts", str(PROCESSES), *link, "--see", out, "--"]
        done = launching.run([*hosts, mpirun, "-n", str(PROCESSES), *exports, program, out], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280, check=False)
        text = done.stdout.decode(errors="replace")
        if done.returncode == 77:
            print(text)
            sys.exit(77)
        seen = len(list(pathlib.Path(out).glob("*.*")))
    expected = [f"process {process} of {PROCESSES}: {ROUNDS} rounds" for process in range(PROCESSES)]
    # MPICH's launcher now and then ends by SIGPIPE when all processes have ended well. It also fails where they leave MPI_Finalize because it
    # does not return, as MPICH before 4.2 over UCX does now and then (collectives/mpi/mpi_exit.c).
    left = any("MPI_Finalize has not returned" in line for line in text.splitlines())
    ended = done.returncode == 0 or (mpi == "mpich" and (done.returncode == 128 + 13 or left))
    if not ended or not all(line in text.splitlines() for line in expected) or seen != ROUNDS * (PROCESSES - 1):
        failures += 1
        print(f"FAILED {mpi} {link}: expected exit 0, {expected} and {ROUNDS * (PROCESSES - 1)} files, received {done.returncode}, {seen} files:\n{text}")
    print(f"{mpi} {' '.join(link)}: {seen} results while another process computed", flush=True)
sys.exit(bool(failures))
