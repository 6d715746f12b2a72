"""Launches that hang are ended with all that they have started, and said (launching.py); without an MPI."""
import os
import re
import subprocess
import sys
import tempfile
import time

import launching

cases = 0


def expect(condition, what):
    global cases
    cases += 1
    if not condition:
        sys.exit(f"FAILED: {what}")


def shell(script, **arguments):
    return launching.run(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **arguments)


def hung(script, **arguments):
    """What is said of the script."""
    try:
        shell(script, timeout=0.5, **arguments)
    except launching.Hangs as hangs:
        return str(hangs)
    return "it has ended"


def runs(pid):
    """Is there such a process, which is not a zombie?"""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_end(pids):
    end = time.monotonic() + 20
    while any(map(runs, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(runs, pids))


done = shell("echo here; exit 3", timeout=60)
expect((done.returncode, done.stdout) == (3, b"here\n"), "the status and the output of what ends")
text = hung("echo here; exec sleep 1000")
expect(re.match(r"FAILED: sh -c echo here; exec sleep 1000: it has not ended in [0-9.]+ s, and was ended; it had said: here", text), text)
expect(float(re.search(r"ended in ([0-9.]+) s", text).group(1)) >= 0.5, f"at least 0.5 s: {text}")

# One that ignores SIGTERM, as does a process of its own session below it.
grace = launching.end.__defaults__
launching.end.__defaults__ = (0.5,)
with tempfile.TemporaryDirectory() as folder:
    text = hung(f"trap '' TERM; setsid sh -c 'echo $$ >{folder}/below; while :; do sleep 1; done' & echo $$ >{folder}/above; wait")
    pids = [int(open(os.path.join(folder, name)).read()) for name in ("above", "below")]
    expect("it has not ended in " in text, text)
    expect(wait_for_end(pids), f"expected the processes {pids} to be ended")
launching.end.__defaults__ = grace
# A busy machine makes limits longer, and none shorter.
slow = launching.pace()
expect(slow >= 1 and launching.patience(3) >= 3 * slow, "a limit grows with the pace")
launching._slowest = 50.0
expect(launching.pace() >= 50, "the slowest pace counts")
launching._slowest = 1e6  # a launch that a quiet machine would end after a tenth of a second
expect(shell("sleep 0.5; echo late", timeout=0.1).stdout == b"late\n", "what is late on a busy machine is waited for")
expect(cases == 8, "8 cases before this one")
