"""Launches of suites: as subprocess.run, but what hangs is ended with all that it has started, and the suite says so.

subprocess.run would end the launcher alone: the processes of an MPI would go on computing, and the suite would end in a traceback."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

_slowest = 1.0


class Hangs(SystemExit):
    """Its text says which command, how long, and what it had said. Not caught, it ends the suite as failed."""


def pace():
    """How many times slower than a quiet core this machine has been at its slowest, as far as the suite has asked; at least 1 (support/base_pace.h)."""
    global _slowest
    begin, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() - cpu < 0.02:
        pass
    _slowest = max(_slowest, (time.monotonic() - begin) / 0.02, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
    return _slowest


def patience(seconds):
    """A time limit for this machine, from one for a quiet machine. Ask late: when the limit for a quiet machine is over."""
    return seconds * pace()


def descendants(pid):
    """The processes below one, as far as they have not been given to another parent."""
    children = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def end(child, grace=20):
    """The launcher is asked to end its processes, which may be in groups of their own; then nobody is asked. Returns what was still said."""
    below = descendants(child.pid)
    child.send_signal(signal.SIGTERM)
    try:
        return child.communicate(timeout=grace)[0]
    except subprocess.TimeoutExpired:
        pass
    for pid in {child.pid, *below, *descendants(child.pid)}:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    try:
        return child.communicate(timeout=grace)[0]
    except subprocess.TimeoutExpired:  # somebody else holds its output open
        return None


def words(output):
    return (output if isinstance(output, str) else (output or b"").decode(errors="replace"))[-4000:]


def hangs(child, seconds, what):
    """Ends the child. Never returns."""
    said = end(child)
    raise Hangs(f"FAILED: {' '.join(map(str, child.args))}: {what} in {seconds} s, and was ended; it had said: {words(said)}") from None


def wait(child, seconds):
    """What it has written to its two pipes, when it has ended; `seconds` are those of a quiet machine."""
    begin, limit = time.monotonic(), seconds
    while True:
        try:
            return child.communicate(timeout=max(0.01, begin + limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            limit = max(limit, patience(seconds))
            if time.monotonic() >= begin + limit:
                return hangs(child, f"{limit:.3g}", "it has not ended")


def run(command, *, timeout, check=False, capture_output=False, **arguments):
    """A CompletedProcess. Hangs, when it has not ended in `timeout` seconds of a quiet machine."""
    if capture_output:
        arguments.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with subprocess.Popen(command, **arguments) as child:
        stdout, stderr = wait(child, timeout)
    done = subprocess.CompletedProcess(command, child.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


# ---- the launchers ----
# ob1: Debian's ucx asks for InfiniBand, and says so in each process.
OPTIONS = {"openmpi": ["--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--oversubscribe", "--bind-to", "none"], "mpich": []}
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"


def environment(**variables):
    """This process's environment without what names an MPI or sets Muster, with these variables; both MPIs may be started by root."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "OMPI_", "PMI", "SLURM_", "MPI"))}
    return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}


def mpirun(mpi):
    """The launcher of Open MPI ("openmpi") or MPICH ("mpich")."""
    return shutil.which(f"mpirun.{mpi}") or shutil.which("mpirun")


def launcher(mpi, processes, *, outputs=None, each=()):
    """The words in front of a program that start it as so many processes. outputs: a folder in which process 0 writes 0.stdout and 0.stderr, and so
    on. each: for each process the words in front of its program, such as ["env", "NAME=VALUE"].

    A shell in each process does both: several programs behind one mpirun end that of Open MPI 5.0.7 by a segmentation fault, and its own
    files for the output have other names in each version."""
    script = ""
    if any(each):
        cases = "".join(f"{rank}) set -- {shlex.join(map(str, words))} \"$@\" ;; " for rank, words in enumerate(each) if words)
        script += f"case {RANK} in {cases}esac; "
    if outputs:
        script += f"exec >{shlex.quote(str(outputs))}/{RANK}.stdout 2>{shlex.quote(str(outputs))}/{RANK}.stderr; "
    shell = ["sh", "-c", script + 'exec "$@"', "sh"] if script else []
    return [mpirun(mpi), *OPTIONS[mpi], "-n", str(processes), *shell]


def outputs_of(folder, what, processes):
    """What each process has written to "stdout" or "stderr" in the folder of a launch; of one that has not begun, nothing."""
    files = [pathlib.Path(folder, f"{process}.{what}") for process in range(processes)]
    return [path.read_text(errors="replace") if path.exists() else "" for path in files]
