"""Processes that fail, under the mpirun of one MPI: fault_suite.py NAME FOLDER PROGRAM. FOLDER holds the shims, PROGRAM is fault_program.

A cell is what goes wrong (kind) and where (place). A lethal cell is a launch of its own, which must end soon; a survivable one is a call in a
launch of 100, which must return the same everywhere, and the call after it must be right. CI runs a seeded part of them, MUSTER_TEST_FULL=1 all
with many seeds. What a process sees is in the file that it writes (fault_program.c)."""
import concurrent.futures
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import launching

name, folder, program = sys.argv[1:4]
full = os.environ.get("MUSTER_TEST_FULL") == "1"
seed = int(os.environ.get("MUSTER_SEED") or 1)
HOST = socket.gethostname()
PLACES = ["open", "begin", "arrival", "data", "end", "close"]
# Kinds that a launch does not survive, and where. A process that hangs in a thread beside its body (data) does not hang.
LETHAL = [(kind, place) for kind in ("kill", "stop", "exit_0", "exit_1") for place in PLACES]
LETHAL += [("hang", place) for place in PLACES if place != "data"]
# A body that only takes long is waited for, and so is one that has stopped where nobody waits for it inside of the call: the launch is ended here.
WAITED = [("stop", "end"), ("hang", "end")]
LETHAL += [(kind, "open") for kind in ("fail", "refuse", "different", "memory")] + [("order", "close")]
# A body that is late is waited for by the end round, and by moves of data for less than the deadline.
SURVIVABLE = [("fail", "arrival"), ("fail", "data"), ("fail", "end"), ("memory", "begin"), ("memory", "arrival"), ("memory", "data"), ("memory", "end")]
SURVIVABLE += [("refuse", place) for place in PLACES[1:5]] + [(kind, place) for kind in ("different", "order") for place in PLACES[1:4]]
SURVIVABLE += [("stop", place) for place in PLACES[1:5]]
LATE = [("hang", "begin"), ("hang", "arrival"), ("hang", "end")]  # these take as long as a deadline
DEADLINE, PATIENCE = 0.3, 15  # seconds of a quiet machine: of a call; from a deadline to the end of the launch
GRACES = dict(MUSTER_ABORT_AFTER="0.3", MUSTER_EXIT_AFTER="0.3")
faults, soft = [], []
deadlines, without_memory = [], []  # of cells that are late: does the error name the process? cells whose call lacked memory


def fail(what, text):
    faults.append(what)
    print(f"FAILED: {what}\n{text}", flush=True)


def left_of(word):
    """The processes whose command line has the word, but for zombies, which have none; the launcher's children end with it, or soon after."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and int(path.parent.name) != os.getpid():
            found.append(f"{path.parent.name} {line}")
    return found


def shared_memory():
    """Segments of this MPI that no process has mapped; suites of other MPIs may run beside this one. Open MPI 5 leaves those of processes that are
    killed (sm_segment.*)."""
    mapped = ""
    for path in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            mapped += path.read_text()
        except OSError:
            continue
    return {path for path in pathlib.Path("/dev/shm").iterdir() if re.match({"openmpi": "vader|osc|ompi|sm_(?!segment)", "mpich": "mpich"}[name], path.name) and str(path) not in mapped}


class Launch:
    def __init__(self, processes, mode, arguments, limit, waited=None):
        environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_MPI_SHIM=folder, FAULT_FAIL_AFTER_MS=str(int(launching.patience(2000))), **GRACES)
        self.processes, self.what, self.hung = processes, f"{mode} {' '.join(arguments)[:60]} x {processes}", False
        with tempfile.TemporaryDirectory(prefix="muster-fault-") as out:
            begin = time.monotonic()
            child = subprocess.Popen([*launching.launcher(name, processes), program, mode, out, *arguments], env=environment, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                limit = launching.patience(limit)
                if waited is not None:
                    self.wait_for_word(out, waited, begin + limit)
                    child.terminate()
                self.said = child.communicate(timeout=limit)[0].decode(errors="replace")
            except subprocess.TimeoutExpired:
                self.hung = True
                for line in left_of(out):
                    os.kill(int(line.split()[0]), 9)
                self.said = launching.words(launching.end(child))
            self.code, self.seconds = child.returncode, time.monotonic() - begin
            end = time.monotonic() + launching.patience(5)
            while (left := left_of(out)) and time.monotonic() < end:
                time.sleep(0.02)
            self.left = left
            self.lines = [self.read(pathlib.Path(out, str(process))) for process in range(processes)]

    @staticmethod
    def wait_for_word(out, victim, until):
        """Until another process than the victim has logged a warning."""
        while time.monotonic() < until:
            if any(" log 3 " in path.read_text(errors="replace") for path in pathlib.Path(out).iterdir() if path.name != str(victim)):
                return
            time.sleep(0.05)

    @staticmethod
    def read(path):
        """[(number, what, status, right, message)]."""
        text = path.read_text(errors="replace") if path.exists() else ""
        rows = [line.split(" ", 5) for line in text.splitlines()]
        return [(int(row[0]), row[1], row[2], row[3] == "right", row[5] if len(row) > 5 else "") for row in rows if len(row) >= 5]

    def text(self):
        return f"{self.what}: exit {self.code}, {self.seconds:.1f} s\n{self.said}" + "".join(
            f"-- process {p}\n" + "".join(f"   {' '.join(map(str, line))}\n" for line in lines) for p, lines in enumerate(self.lines))

    def expect(self, condition, what):
        if not condition:
            fail(what, self.text())
        return condition


# ---- lethal launches ----


def lethal(kind, place, victim, number, processes):
    waited = (kind, place) in WAITED
    launch = Launch(processes, "lethal", [kind, place, str(victim), str(number)], 40, victim if waited else None)
    him = f"process {victim} (host {HOST})"
    launch.expect(not launch.hung and launch.seconds < launching.patience(PATIENCE + 5), "the launch ends")
    launch.expect(not launch.left, f"no process is left: {launch.left}")
    spoken = 0
    for process, lines in enumerate(launch.lines):
        for number, what, status, right, message in lines:
            if status == "OK":
                launch.expect(right, "a call that returns OK is right")
            elif process != victim and (what != "log" or status == "4" or status == "3" and (waited or place == "close")):
                spoken += 1
                launch.expect(him in message, f"process {process} names {him}")
    if kind in ("stop", "hang", "order") or place == "open" and kind in ("fail", "refuse", "different"):
        launch.expect(spoken >= 1, "a survivor says what has happened")
    if kind.startswith("exit") and place != "data" and spoken == 0:  # (beside data that moves the call may come to its end meanwhile)
        launch.expect(f"{him} exits with code {kind[-1]}" in launch.said, "who exits says so")
    return launch


# ---- survivable faults ----


def draw(random_numbers, count, processes):
    cells = []
    for i in range(count):
        kind, place = LATE[i // 20 % 3] if i % 20 == 19 else random_numbers.choice(SURVIVABLE)
        number = random_numbers.randrange(1 << 24)
        if kind == "stop":  # long ones take as long as a deadline
            number = number // 3 * 3 + (0 if i % 10 == 0 else 1)
        cells.append((kind, place, random_numbers.randrange(processes), number))
    return cells


EXPECTED = {"fail": "USER", "refuse": "INVALID_ARGUMENT", "different": "INVALID_ARGUMENT", "order": "INVALID_ARGUMENT", "memory": "OUT_OF_MEMORY"}


def judge(launch, number, cell):
    kind, place, victim, drawn = cell
    rows = [[line for line in lines if line[0] == number and line[1] != "log"] for lines in launch.lines]
    what = f"cell {number}, {kind}:{place}:{victim}:{drawn}"
    after = [line for row in rows for line in row if line[1] == "after"]
    if not launch.expect(len(after) == launch.processes, f"{what}: the call after it returns in all processes"):
        return
    launch.expect(all(line[2] == "OK" and line[3] for line in after), f"{what}: the call after it is right")
    for name_of_call in ("call", "second") if kind == "order" and place == "begin" else ("call",):
        lines = [line for row in rows for line in row if line[1] == name_of_call]
        statuses = {line[2] for line in lines}
        if not launch.expect(len(lines) == launch.processes and len(statuses) == 1, f"{what}: all return the same, received {statuses}"):
            return
        status, text = statuses.pop(), f"process {victim} (host {HOST})"
        late = kind == "hang" and place != "end" or kind == "stop" and drawn % 3 == 0 and place != "end"
        named = [text in line[4] for process, line in enumerate(lines) if process != victim]
        if late:
            deadlines.append(status == "TIMEOUT" and all(named))
        if status == "OK":
            launch.expect(all(line[3] for line in lines), f"{what}: what returns OK is right")
            if late:
                soft.append(what)  # the others were late, too
            launch.expect(late or kind in ("memory", "hang", "stop"), f"{what}: expected an error, received OK")
            continue
        expected = "TIMEOUT" if kind in ("hang", "stop") else "SHAPE_MISMATCH" if (kind, place) == ("refuse", "begin") else EXPECTED[kind]
        if status == "TIMEOUT" and (expected != "TIMEOUT" or not late):
            soft.append(what)  # the machine is so busy that another process was late
            continue
        launch.expect(status == expected, f"{what}: expected {expected}, received {status}")
        if kind == "memory":
            without_memory.append(what)
        if status == "TIMEOUT" and not all(named):
            soft.append(what)
        else:
            launch.expect(all(named), f"{what}: all name {text}: {lines[victim - 1][4]}")


def survivable(launch_number, count, processes):
    cells = draw(random.Random(f"{seed} {launch_number} {name}"), count, processes)
    launch = Launch(processes, "cells", [f"{kind}:{place}:{victim}:{number}" for kind, place, victim, number in cells], 300)
    launch.expect(not launch.hung, "the launch ends")
    launch.expect(launch.code == 0, "exit 0")
    launch.expect(not launch.left, f"no process is left: {launch.left}")
    before = len(faults)
    for number, cell in enumerate(cells, 1):
        if len(faults) - before < 3:
            judge(launch, number, cell)
    return launch, cells


def main():
    shared = shared_memory()
    numbers = random.Random(f"{seed} {name}")
    launches = len(LETHAL) * 8 if full else 30
    chosen = [cell for _ in range(-(-launches // len(LETHAL))) for cell in numbers.sample(LETHAL, len(LETHAL))][:launches]
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = []
        for kind, place in chosen:
            processes = numbers.choice((3, 3, 4))
            runs.append(pool.submit(lethal, kind, place, numbers.randrange(processes), numbers.randrange(1 << 24), processes))
        done = [run.result() for run in runs]
    print(f"{len(done)} lethal launches, {time.monotonic() - begin:.1f} s, the longest {max(launch.seconds for launch in done):.1f} s", flush=True)
    begin, seen, total, memory = time.monotonic(), set(chosen), 0, 0
    for launch_number in range(20 if full else 5):
        launch, drawn = survivable(launch_number, 100, 3 + launch_number % 2)
        total += len(drawn)
        memory += sum(cell[0] == "memory" for cell in drawn)
        seen |= {cell[:2] for cell in drawn}
    print(f"{total} survivable faults, {time.monotonic() - begin:.1f} s, {len(seen)} cells of the matrix, {len(soft)} of a busy machine: {soft}", flush=True)
    if len(seen) < 40:
        fail("the number of cells", f"expected 40 or more, received {len(seen)}")
    print(f"{len(deadlines)} of them later than the deadline, {sum(deadlines)} named so by all; {len(without_memory)} of {memory} without memory", flush=True)
    if len(without_memory) <= memory // 4:  # the others end before the allocation that would fail
        fail("memory", f"expected more than a quarter of {memory} calls to lack memory, received {len(without_memory)}")
    if not deadlines or sum(deadlines) < len(deadlines) // 2:
        fail("deadlines", f"expected half of {len(deadlines)} to end with the name of the late process, received {sum(deadlines)}")
    most = min(total // 4, int(launching.patience(total // 20)))
    if len(soft) > most:
        fail("a busy machine", f"expected {most} at most, received {len(soft)}")
    end = time.monotonic() + launching.patience(5)
    while (left := shared_memory() - shared) and time.monotonic() < end:
        time.sleep(0.1)
    if left:
        fail("shared memory", f"expected none of a launch that has ended, found {left}")
    print(f"{len(faults)} failures")
    sys.exit(bool(faults))


main()
