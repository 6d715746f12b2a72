#!/usr/bin/env python3
"""planted.py SOURCE BUILD [TEXT] [--faults FILE] [--least N]: plants the faults of FILE (faults.txt beside this) one by one, or those whose names have TEXT,
and demands that a suite finds each, and that there are N of them at least.

A fault is a change of one file of the library, or of the simulated wire of the tests. The file is compiled as BUILD compiles it, from a copy of the FOLDERS in
the current folder, and the suites that are named with the fault are linked with it in place of the right one; BUILD itself stays as it is. Only a build by ninja
tells its commands. A suite finds a fault if it fails, or runs ten times as long as without the fault. Without a fault each must pass.

FILE:
  file PATH                 the file of the faults that follow
  fault NAME: SUITE...      a fault and the suites that may find it, tried in this order
  -LINE                     lines that are in the file exactly once
  +LINE                     what comes in their place; nothing: the lines go"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

LEAST = 117  # faults of the graph's list
FOLDERS = ("lib/graph", "lib/nn", "lib/device", "collectives", "tests/sim/wire")
SLACK = 30  # seconds
WIRE = "tests/sim/wire/CMakeFiles/muster_sim_wire.dir"  # its objects are members of an archive
WIRE_ARCHIVE = "tests/sim/wire/libmuster_sim_wire.a"


def fail(text):
    print(text, flush=True)
    sys.exit(1)


def faults_read(path):
    faults, file = [], None
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith("file "):
            file = line[5:]
        elif line.startswith("fault "):
            name, suites = line[6:].rsplit(": ", 1)
            faults.append({"name": name, "file": file, "suites": suites.split(), "old": [], "new": []})
        elif line.startswith(("-", "+")):
            faults[-1]["old" if line[0] == "-" else "new"].append(line[1:])
        elif line and not line.startswith("#"):
            fail(f"{path}:{number}: expected file, fault, - or +, received \"{line}\"")
    return faults


def planted(source, fault):
    """The text of the file with the fault."""
    text = (source / fault["file"]).read_text()
    old, new = "\n".join(fault["old"]) + "\n", "".join(line + "\n" for line in fault["new"])
    found = re.findall(r"^" + re.escape(old), text, flags=re.M)
    if len(found) != 1:
        fail(f"{fault['name']}: expected its lines once in {fault['file']}, found them {len(found)} times")
    return text.replace(old, new)


def last_command(build, target):
    result = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        fail(f"ninja -t commands {target}: {result.stdout[-1000:]}")
    lines = [line for line in result.stdout.strip().split("\n") if not line.startswith("ninja: ")]
    return lines[-1]


def run(command, build):
    result = subprocess.run(command, cwd=build, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        fail(f"{command[:300]}: exit {result.returncode}\n{result.stdout[-3000:]}")


def object_of(build, source, file):
    """The object of a file of the library or of the simulated wire, as ninja names it."""
    places = [module / f"{file}.o" for module in sorted(build.glob("CMakeFiles/muster_module_*.dir"))]
    places.append(build / WIRE / f"{pathlib.Path(file).name}.o")
    place = next((p for p in places if p.exists()), None)
    if not place:
        fail(f"{file}: expected its object in {build}, found none")
    return str(place.relative_to(build))


def compile_file(source, build, work, file, text):
    """Returns the object in the build, and the one that is made here."""
    theirs = object_of(build, source, file)
    ours = work / "planted.o"
    (work / file).write_text(text)
    words = shlex.split(last_command(build, theirs))
    words = [str(work / file) if word == str(source / file) else word for word in words]
    words[words.index("-o") + 1] = str(ours)
    words[words.index("-MF") + 1] = str(work / "planted.d")
    run(shlex.join(words), build)
    (work / file).write_text((source / file).read_text())
    return theirs, ours


def link_suite(build, work, suite, theirs=None, ours=None):
    """The program that holds a suite, linked here; returns a link by which it runs that suite alone (tests/programs.cmake)."""
    name = suite["program"]
    program, alone = work / name, work / suite["test"]
    command = last_command(build, name)
    found = re.search(r" -o (\S*" + re.escape(name) + r")(?= )", command)
    in_archive = bool(theirs) and theirs.startswith(WIRE)
    old = WIRE_ARCHIVE if in_archive else theirs
    if not found or (old and f" {old} " not in command):
        fail(f"{name}: expected a link of {old}, received {command[:300]}")
    command = command.replace(found.group(0), f" -o {shlex.quote(str(program))}")
    # Before the archive: what the object defines is then not taken from there.
    new = f"{shlex.quote(str(ours))} {old}" if in_archive else shlex.quote(str(ours))
    run(command.replace(f" {old} ", f" {new} ", 1) if old else command, build)
    if alone != program:
        alone.unlink(missing_ok=True)
        alone.symlink_to(program)
    return alone


def suites_find(build, names):
    """By name: the test, the program that holds it, and the environment that ctest gives."""
    listed = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, text=True, stdout=subprocess.PIPE, check=True).stdout)
    suites = {}
    for test in listed["tests"]:
        if test["name"] in names:
            pairs = next((p["value"] for p in test.get("properties", []) if p["name"] == "ENVIRONMENT"), [])
            command = pathlib.Path(test["command"][0])
            suites[test["name"]] = {"test": command.name, "program": command.resolve().name, "environment": dict(pair.split("=", 1) for pair in pairs)}
    missing = sorted(set(names) - set(suites))
    if missing:
        fail(f"expected the suites {', '.join(missing)} in {build}, found none of these names")
    return suites


def passes(program, suite, seconds):
    """Samples of the suite's cases, with the seed 1."""
    environment = {**os.environ, **suite["environment"], "MUSTER_SEED": "1"}
    environment.pop("MUSTER_TEST_FULL", None)
    try:
        result = subprocess.run([str(program)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def finds(build, work, suite, theirs, ours):
    return not passes(link_suite(build, work, suite, theirs, ours), suite, SLACK + 10 * suite["seconds"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--faults", type=pathlib.Path, default=pathlib.Path(__file__).parent / "faults.txt")
    parser.add_argument("--least", type=int, default=LEAST)
    options = parser.parse_args()
    source, build, chosen = options.source, options.build, options.text
    faults = [fault for fault in faults_read(options.faults) if chosen in fault["name"]]
    for fault in faults:  # in every run: a change of the library may take a fault's lines away
        planted(source, fault)
    if os.environ.get("MUSTER_TEST_FULL") != "1":
        print("it takes minutes: MUSTER_TEST_FULL=1 asks for it")
        sys.exit(77)
    work = pathlib.Path(os.getcwd()) / "planted"
    shutil.rmtree(work, ignore_errors=True)
    for folder in FOLDERS:
        shutil.copytree(source / folder, work / folder)
    suites = suites_find(build, {name for fault in faults for name in fault["suites"]})
    for name, suite in suites.items():
        begin = time.monotonic()
        if not passes(link_suite(build, work, suite), suite, 3600):
            fail(f"{name}: expected it to pass without a fault, received a failure")
        suite["seconds"] = time.monotonic() - begin
    missed = 0
    for fault in faults:
        theirs, ours = compile_file(source, build, work, fault["file"], planted(source, fault))
        finder = next((name for name in fault["suites"] if finds(build, work, suites[name], theirs, ours)), None)
        missed += not finder
        print(f"{fault['file']}: {fault['name']}: {'found by ' + finder if finder else 'NOT FOUND by ' + ', '.join(fault['suites'])}", flush=True)
    shutil.rmtree(work)
    print(f"{len(faults)} faults, {len(faults) - missed} found")
    if missed or (not chosen and len(faults) < options.least):
        fail(f"expected {options.least} faults or more, and all of them found, received {len(faults)} and {missed} that no suite found")


main()
