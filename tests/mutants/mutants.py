#!/usr/bin/env python3
"""mutants.py SOURCE BUILD [FOLDER...] [--count N] [--seed S] [--jobs N] [--seconds N] [--minutes N] [--only TEXT]: do the suites notice small faults?

Draws N faults of one line (operators.py) in the C files of the FOLDERS, each folder in turn, without --only TEXT in all of their files. Each file is compiled
as BUILD compiles it, though with -O1, the programs of tests that hold its object are linked with it again, and the suites of the quick set that these programs run are run, those
of the file's own module first, until one fails. SOURCE and BUILD stay as they are: what is made lies in the folder mutants.<process> of the current one, which
is removed. Only a build by ninja tells its commands.

A line for each fault says what killed it. A fault that no suite notices is a missing test, or one that changes nothing that anybody can see: then it has a line in
survivors.txt, with the reason. Exit 1: another fault has survived. The seed chooses faults by their text, so that a change of other lines does not change
the choice."""
import argparse
import concurrent.futures
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from operators import faults_of  # noqa: E402

FOLDERS = ("lib/ops", "lib/nn", "lib/device", "lib/tensor", "lib/base", "lib/runtime", "lib/variable", "lib/function", "lib/kernel", "lib/graph", "lib/server",
           "lib/driver", "lib/interop", "scheduler", "collectives", "tests/sim/wire")
SLACK = 20  # seconds that a suite may take beside ten times what it takes without a fault
LISTED = re.compile(r"^([^ :]+): (.+) -> (.+): (.+)$")


def fail(text):
    print(text, flush=True)
    sys.exit(2)


def run(words, seconds, environment, folder):
    """The exit status, or None where it did not end by itself; what it has started ends with it."""
    process = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


class Build:
    """What a build by ninja says of its objects, programs and suites."""

    def __init__(self, source, build):
        self.source, self.build, self.commands, self.taken, self.lock = source, build, {}, {}, threading.Lock()
        if not (build / "build.ninja").exists():
            print(f"{build} is not a build by ninja")
            sys.exit(77)
        self.objects = {}
        for entry in json.loads((build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            made = words[words.index("-o") + 1]
            if re.search(r"(^|/)(muster_module_\w+|muster_sim_wire)\.dir/", made):
                self.objects[str(pathlib.Path(entry["file"]).relative_to(source))] = (made, words)
        times = (line.split() for line in (source / "tests/times.txt").read_text().splitlines() if line and not line.startswith("#"))
        seconds = {row[0]: float(row[1].split("/")[-1]) for row in times if row[1] != "-"}
        listed = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, text=True, stdout=subprocess.PIPE, check=True).stdout)
        self.suites = []
        for test in listed["tests"]:
            rules = {rule["name"]: rule["value"] for rule in test.get("properties", [])}
            program = pathlib.Path(test["command"][3]) if len(test.get("command", [])) > 3 else None
            if "quick" in rules.get("LABELS", []) and program and build / "tests" in program.parents and program.exists() and not rules.get("DISABLED"):
                environment = {**os.environ, **dict(pair.split("=", 1) for pair in rules.get("ENVIRONMENT", [])), "MUSTER_SEED": "1"}
                environment.pop("MUSTER_TEST_FULL", None)
                self.suites.append({"name": test["name"], "link": program.name, "path": program, "arguments": test["command"][4:], "seconds": seconds.get(test["name"], 1),
                                    "program": program.resolve().name, "environment": environment})

    def link_command(self, program):
        with self.lock:
            if program not in self.commands:
                said = subprocess.run(["ninja", "-C", str(self.build), "-t", "commands", program], text=True, stdout=subprocess.PIPE)
                lines = [line for line in said.stdout.strip().split("\n") if not line.startswith("ninja: ")]
                self.commands[program] = lines[-1] if said.returncode == 0 else ""
            return self.commands[program]

    def place(self, program, made):
        """What an object is in the link of a program: itself, a member of an archive, or nothing."""
        command = self.link_command(program)
        if f" {made} " in command:
            return made
        target = re.search(r"/?(\w+)\.dir/", made).group(1)
        archive = re.search(rf" (\S*lib{target}\.a) ", command + " ")
        return archive.group(1) if archive else None

    def suites_of(self, file):
        """The suites that run the object of a file: those of its module first, of these those that bear words of its path, then the shortest."""
        made = self.objects[file][0]
        module = re.search(r"muster_module_(\w+)\.dir", made)
        own = module.group(1) if module else "sim"  # of the simulated wire
        words = set(re.split(r"[/_.]", file)) - {"lib", "c", "test", own}
        def order(suite):
            return (not suite["name"].startswith(own + "/"), -len(words & set(re.split(r"[/_@]", suite["name"]))), suite["seconds"], suite["name"])
        return sorted((suite for suite in self.suites if self.place(suite["program"], made)), key=order)

    def seconds_of(self, suite):
        """How long it takes without a fault; None where it does not pass."""
        with self.lock:
            known = self.taken.setdefault(suite["name"], {"lock": threading.Lock()})
        with known["lock"]:
            if "seconds" not in known:
                begin = time.monotonic()
                status = run([str(suite["path"]), *suite["arguments"]], 3600, suite["environment"], self.build / "tests")
                known["seconds"] = time.monotonic() - begin if status == 0 else None
                if status not in (0, 77):
                    print(f"{suite['name']}: left out, since it fails without a fault (exit {status})", flush=True)
            return known["seconds"]


class Mutant:
    def __init__(self, file, number, kind, old, new):
        self.file, self.number, self.kind, self.old, self.new = file, number, kind, old.strip(), new.strip()
        self.changed = new

    def key(self, seed):
        return hashlib.sha256(f"{seed}:{self.file}:{self.old}:{self.new}".encode()).digest()

    def __str__(self):
        return f"{self.file}:{self.number + 1}: {self.kind}: {self.old} -> {self.new}"


def compiled(build, work, file, text, name):
    """The object, or None where it does not compile."""
    made, words = build.objects[file]
    copy, target = work / "mutant.c", work / name
    copy.write_text(text)
    words = [str(copy) if word == str(build.source / file) else word for word in words]
    words[words.index("-o") + 1] = str(target)
    words[1:1] = ["-iquote", str((build.source / file).parent)]
    words.insert(words.index("-c"), "-O1")  # a fifth of the time, for the loops that are compiled for each dtype and processor
    return target if run(words, 600, None, build.build) == 0 else None


def linked(build, work, suite, made, ours):
    program = work / suite["program"]
    if not program.exists():
        command, theirs = build.link_command(suite["program"]), build.place(suite["program"], made)
        # In front of an archive: what the object defines is then not taken from there.
        new = shlex.quote(str(ours)) if theirs == made else f"{shlex.quote(str(ours))} {theirs}"
        command = re.sub(rf" -o \S*{re.escape(suite['program'])}(?= )", f" -o {shlex.quote(str(program))}", command.replace(f" {theirs} ", f" {new} ", 1))
        if run(["sh", "-c", command], 600, None, build.build) != 0:
            return None
    link = work / suite["link"]
    if not link.exists():
        link.symlink_to(program)
    return link


def judged(build, folder, mutant, most):
    """("killed", "survived", "nothing changed" or "does not compile", and by what)."""
    work = folder / hashlib.sha256(str(mutant).encode()).hexdigest()[:16]
    work.mkdir()
    try:
        text = (build.source / mutant.file).read_text()
        lines = text.split("\n")
        lines[mutant.number] = mutant.changed
        right, ours = compiled(build, work, mutant.file, text, "right.o"), compiled(build, work, mutant.file, "\n".join(lines), "mutant.o")
        if not right or not ours:
            return "does not compile", ""
        if right.read_bytes() == ours.read_bytes():
            return "nothing changed", ""
        spent, tried = 0.0, 0
        for suite in build.suites_of(mutant.file):
            if spent + suite["seconds"] > most or (usual := build.seconds_of(suite)) is None:
                continue
            program = linked(build, work, suite, build.objects[mutant.file][0], ours)
            if not program:
                return "does not compile", "the link failed"
            status = run([str(program), *suite["arguments"]], SLACK + 10 * usual, suite["environment"], build.build / "tests")
            if status not in (0, 77):
                return "killed", f"{suite['name']}{' by its time' if status is None else ''}"
            spent, tried = spent + suite["seconds"], tried + 1
        return "survived", f"{tried} suites" if tried else "no suite of the quick set runs it"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def drawn(build, options):
    """Faults, as many as asked for and more in case that some do not compile: of each folder in turn and of each kind in turn, by the seed and their text."""
    queues = []
    for folder in options.folders or FOLDERS:
        found = {}
        for file in build.objects:
            if (file == folder or file.startswith(folder.rstrip("/") + "/")) and fnmatch.fnmatch(file, f"*{options.only}*"):
                text = (build.source / file).read_text()
                for number, kind, changed in faults_of(text):
                    mutant = Mutant(file, number, kind, text.split("\n")[number], changed)
                    found.setdefault((file, mutant.old, mutant.new), mutant)
        if not found:
            fail(f"{folder}: expected C files of the library or of the simulated wire, found none")
        turns, seen = [], {}
        for mutant in sorted(found.values(), key=lambda mutant: mutant.key(options.seed)):
            turns.append((seen.get(mutant.kind, 0), mutant.key(options.seed), mutant))
            seen[mutant.kind] = seen.get(mutant.kind, 0) + 1
        queues.append([mutant for _, _, mutant in sorted(turns, key=lambda turn: turn[:2])])
    result = []
    for turn in range(max(map(len, queues))):
        result += [queue[turn] for queue in queues if turn < len(queue)]
    return result


def survivors(path):
    """The faults that are known to change nothing, by file, old and new line."""
    known = set()
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            match = LISTED.match(line)
            if not match:
                fail(f"{path}: expected \"FILE: OLD -> NEW: REASON\", received \"{line}\"")
            known.add(match.groups()[:3])
    return known


def options_read():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=lambda text: int(text, 0), default=int(os.environ.get("MUSTER_SEED", "1")))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=120, help="of suites for a fault, by tests/times.txt")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no other fault is planted")
    parser.add_argument("--only", default="")
    parser.add_argument("--full-only", action="store_true", help="skip without MUSTER_TEST_FULL=1")
    return parser.parse_args()


def main():
    options = options_read()
    if options.full_only and os.environ.get("MUSTER_TEST_FULL") != "1":
        print("it takes minutes: MUSTER_TEST_FULL=1 asks for it")
        sys.exit(77)
    build = Build(options.source.resolve(), options.build.resolve())
    known = survivors(pathlib.Path(__file__).parent / "survivors.txt")
    folder = pathlib.Path.cwd() / f"mutants.{os.getpid()}"
    folder.mkdir()
    counts, lock, waiting, unlisted = {}, threading.Lock(), iter(drawn(build, options)), []
    until = time.monotonic() + 60 * options.minutes

    def work():
        while True:
            with lock:
                if counts.get("taken", 0) >= options.count or time.monotonic() > until or not (mutant := next(waiting, None)):
                    return
                counts["taken"] = counts.get("taken", 0) + 1
            begin = time.monotonic()
            result, by = judged(build, folder, mutant, options.seconds)
            with lock:
                listed = result == "survived" and (mutant.file, mutant.old, mutant.new) in known
                result = "listed" if listed else result
                counts[result] = counts.get(result, 0) + 1
                if result in ("does not compile", "nothing changed"):  # another one takes its place
                    counts["taken"] -= 1
                if result == "survived":
                    unlisted.append(mutant)
                print(f"{mutant}: {result.upper() if result == 'survived' else result}{', ' + by if by else ''}, {time.monotonic() - begin:.1f} s", flush=True)

    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for job in [pool.submit(work) for _ in range(options.jobs)]:
                job.result()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    names = ("killed", "survived", "listed", "nothing changed", "does not compile")
    print(f"seed {options.seed:#x}: " + ", ".join(f"{counts.get(name, 0)} {name}" for name in names))
    judged_count = sum(counts.get(name, 0) for name in names[:3])
    return 0 if not unlisted and (judged_count >= options.count or time.monotonic() > until) else 1


if __name__ == "__main__":
    sys.exit(main())
