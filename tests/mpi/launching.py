"""Launches of suites: as subprocess.run, but what hangs is ended with all that it has started, and the suite says so.

subprocess.run would end the launcher alone: the processes of an MPI would go on computing, and the suite would end in a traceback."""
import os
import pathlib
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
