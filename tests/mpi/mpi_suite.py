"""Programs under the mpirun of one MPI: mpi_suite.py NAME FOLDER PROGRAM [SECOND]. FOLDER holds the shims, SECOND is the name of another MPI that has one."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import launching

name, folder, program = sys.argv[1:4]
second = sys.argv[4] if len(sys.argv) > 4 else None
TEXT = {"openmpi": "Open MPI", "mpich": "MPICH"}
shim = f"{folder}/libmuster-mpi-{name}.so"
cases = 0


def run(processes, *arguments, of=name, patience=500, started=program, **variables):
    """(exit code, output). processes 0: without a launcher. What hangs is ended after `patience` seconds, and fails."""
    global cases
    cases += 1
    environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_MPI_SHIM=folder, MUSTER_NODES="mpi")
    environment.update({key: value for key, value in variables.items() if value is not None})
    for key, value in variables.items():
        if value is None:
            environment.pop(key, None)
    command = (launching.launcher(of, processes) if processes else []) + [started, *map(str, arguments)]
    start = time.monotonic()
    done = launching.run(command, timeout=patience, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    print(f"== {' '.join(command[-len(arguments) - 1:])} x {processes}: exit {done.returncode}, {time.monotonic() - start:.1f} s\n{output}", flush=True)
    return done.returncode, output


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def found(output, pattern, count):
    matches = re.findall(pattern, output)
    expect(len(matches) == count, f"{pattern!r}: expected {count} times, received {len(matches)}")


full = os.environ.get("MUSTER_TEST_FULL")
# ---- the contract of the wire ----
# 1 process: through the shim itself, since a wire of one process is none.
for processes in (2, 4) if full else (2,):
    code, output = run(processes, "contract")
    expect(code == 0, "exit 0")
    found(output, r"contract of process \d+: right, 26 cases, 0 left out", processes)

# ---- opening ----
code, output = run(2, "again")
expect(code == 0, "exit 0")
found(output, r"process [01] of 2, [^,]*" + TEXT[name] + r"[^,]* by \S+libmuster-mpi-" + name + r"\.so \(the launcher is that of " + TEXT[name] + r"\)", 4)
found(output, r"log 2: MPI: " + TEXT[name], 2)
code, output = run(2, "late")
expect(code == 0, "exit 0")
found(output, r"log 3: process 0 \(host \S+\) has waited 0\.2 s in MPI_Init for the other processes of the launch: each of them opens a runtime with "
      "MUSTER_NODES=mpi or the option nodes, and one that has ended or does not open one keeps the others waiting without end", 1)
code, output = run(1, "alone")
expect(code == 0, "exit 0")
found(output, "log 1: MPI: the launch has one process", 1)
found(output, "process 0 of 1", 1)
code, output = run(0, "alone", MUSTER_MPI_SHIM=shim)
expect(code == 0, "exit 0")
found(output, r"process 0 of 1, .*\(named by MUSTER_MPI_SHIM\)", 1)
code, output = run(0, "alone", MUSTER_NODES="mpi:" + shim, MUSTER_MPI_SHIM="/nowhere")
found(output, r"process 0 of 1, .*\(named by nodes\)", 1)

# ---- a launcher of another MPI, or none that this MPI knows ----
code, output = run(0, "alone", MUSTER_MPI_SHIM=shim, SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="2")
found(output, r"refused BAD_STATE: muster_runtime_open: nodes: the launcher has started 4 processes \(SLURM_STEP_NUM_TASKS\), and " + TEXT[name]
      + r" [^ ]+ knows of 1: .* srun --mpi=pmix", 1)
if second:
    code, output = run(2, "alone", MUSTER_MPI_SHIM=f"{folder}/libmuster-mpi-{second}.so")
    found(output, r"refused BAD_STATE: .*the launcher has started 2 processes .*" + TEXT[second] + " [^ ]+ knows of 1", 2)

# ---- the program initialises MPI ----
for level, word in enumerate(("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")):
    code, output = run(2, "initialised", shim, level, "late")
    expect(code == 0, "exit 0")
    if "refused" in output or level < 2 and name == "mpich":
        expect(level < 2, "refused")
        found(output, r"refused BAD_STATE: .*MPI_THREAD_SERIALIZED or more, .* found MPI_THREAD_" + word, 2)
    else:  # an MPI may give more than it is asked for
        found(output, r"process [01] of 2, .* \(.* is in the process already\)", 2)
code, output = run(2, "initialised", shim, 3, "early")
expect(code == 0, "exit 0")
code, output = run(2, "initialised", shim, 3, "first")
found(output, "refused BAD_STATE: .*MPI was finalised in this process", 2)
code, output = run(2, "part", shim)
found(output, "refused SYSTEM: .*mpi_communicator: MPI_Comm", 2)

# ---- MPI_Finalize before the close ----
code, output = run(2, "ended", shim)
expect(code == 0, "the close returns")
found(output, "call refused BAD_STATE: muster_function_call: expected MPI to be in use, but the program has called MPI_Finalize", 2)
found(output, "closed after MPI_Finalize", 2)
if name == "mpich":
    code, output = run(2, "handle", shim)
    expect(code == 0, "exit 0")
    found(output, "a negative communicator: process [01] of 2", 2)

# ---- the program's own communicators: several runtimes of one launch, or a runtime of some of its processes ----
source = pathlib.Path(__file__).resolve().parent
with tempfile.TemporaryDirectory() as compiled:
    parts = f"{compiled}/parts_program"
    compiler = shutil.which(f"mpicc.{name}") or "mpicc"
    subprocess.run([compiler, "-std=c11", source / "parts_program.c", f"-I{source.parent.parent}/include", f"-L{folder}", "-lmuster", f"-Wl,-rpath,{folder}", "-o", parts], check=True)
    PART = r"part {}: place {} is process {} of 2 with 4 devices, 20 calls right"
    for way, colours in (("halves", (0, 1)), ("reversed", (0, 1)), ("half", (1,))):
        code, output = run(4, way, started=parts)
        expect(code == 0, "exit 0")
        for colour in colours:
            for place in (0, 1):
                found(output, PART.format(colour, place, place), 1)
        found(output, "part [01]: place", 2 * len(colours))
        for rank in range(4):
            found(output, f"rank {rank} of 4: the ranks of its part are {(2, 4)[rank % 2]} together", 1)

# ---- ends ----
code, output = run(2, "end", "all_open", MUSTER_EXIT_AFTER="300")  # on a busy machine they come to their exit seconds apart
expect(code == 0 and "aborted" not in output, "processes that all exit are let go")
code, output = run(2, "end", "one_open")
expect(code != 0, "the launch is aborted")
found(output, r"muster: process 1 \(host \S+\) exits with code 3 and an open runtime, and other processes do not exit: the launch is aborted", 1)
code, output = run(2, "end", "late")
expect(code == 0, "a process that works on is waited for")
found(output, "process 0 has ended its work", 1)
code, output = run(2, "end", "later", MUSTER_EXIT_AFTER="0.3")
expect(code != 0 and "process 0 has ended its work" not in output, "aborted")
found(output, r"muster: process 1 \(host \S+\) exits with code 0, and other processes", 1)
code, output = run(2, "end", "sooner", MUSTER_EXIT_AFTER="300")
expect(code != 0 and "process 0 has ended its work" not in output, "the option goes before the environment")
found(output, r"muster: process 1 \(host \S+\) exits with code 0, and other processes", 1)
code, output = run(2, "end", "patient", MUSTER_EXIT_AFTER="0.3")
expect(code == 0, "a negative option waits without end")
found(output, "process 0 has ended its work", 1)
code, output = run(2, "end", "child")
expect(code == 0 and "aborted" not in output, "a child that exits does nothing")
code, output = run(2, "end", "lost")
expect(re.search(r"muster: process [01] \(host \S+\) exits without MPI_Finalize", output), "it says so")  # the launcher may end the other one before it does

# ---- a process closes, and waits no longer for one that works on ----
for way, processes in (("closes", 2), ("closes", 3), ("calls", 2), ("calls", 3), ("leaves", 2), ("again", 2), ("finalises", 2)):
    with tempfile.TemporaryDirectory(prefix="muster-work-") as closed:
        code, output = run(processes, "work", way, closed + "/", shim)
    turns = 2 if way == "again" else 1
    expect(code == 0, "a process that works on is waited for")
    found(output, "result [1-5] of 5", 5 * turns)
    found(output, "process 0 has ended its work", 0 if way == "leaves" else turns)
    if processes == 2:  # among three the first one that says so ends the wait of the other
        found(output, r"waited \S+ s in the close of the runtime for process 0 \(host \S+\)", turns)
    expect("lost" not in output and "without MPI_Finalize" not in output, "nobody is lost")
    found(output, r"process 0 calls: BAD_STATE: muster_function_call: process [12] \(host \S+\) has closed its runtime", way == "calls")
with tempfile.TemporaryDirectory(prefix="muster-work-") as closed:
    code, output = run(2, "work", "fails", closed + "/", shim)
expect(code == 5, "a process that fails does not wait without end for one that did not close with it")
found(output, r"muster: process 1 \(host \S+\) exits with code 5, and other processes do not exit", 1)

code, output = run(2, "end", "finalise", LD_PRELOAD=os.path.join(os.path.dirname(program), "libmpi_stuck_finalise.so"))
expect(re.search(r"muster: process [01] \(host \S+\): MPI_Finalize has not returned for 10 s, though all processes are in it: exits without it", output), "it says so")  # the launcher ends the other one
expect(code == (1 if name == "openmpi" else 0), "the launcher of Open MPI calls that abnormal")

print(f"{cases} launches")
expect(cases == (36 if full else 35) + bool(second) + (name == "mpich"), "the number of launches")
