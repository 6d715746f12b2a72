#!/usr/bin/env python3
"""rounding.py SOURCE COMPILE_COMMANDS: results have the same bits whatever options a user gives the compiler. Each source of the library is compiled with
-ffp-contract=off, behind the user's options, but for FAST and FAST_FOLDERS. Options that change formulas end the compilation with a sentence.

They are compared in both directions, so that they stay the whole truth."""
import json
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile

# Loops that promise no bits and are slower with products and sums that are rounded one by one.
FAST = {"lib/nn/recurrent/host.c"}
FAST_FOLDERS = ("lib/ops/binary", "lib/ops/scale_add", "lib/ops/softmax", "lib/ops/unary")
HEADER = "lib/base/rounding_private.h"
FOLDERS = ("lib", "collectives", "scheduler")
# A source whose bits are promised and in which a compiler may join products and sums.
PROMISED = "lib/ops/random_uniform/random.c"
REFUSED = (["-ffast-math"], []), (["-ffinite-math-only"], []), ([], ["-Ofast"])  # in front of the build's options, and behind them
SENTENCE = "expected options that keep IEEE arithmetic"
# Instructions that compute a product and a sum with one rounding, and the option by which a compiler uses them.
JOINED = {"x86_64": (r"\bvfn?m(add|sub)[0-9]", ["-march=x86-64-v3"]), "aarch64": (r"\bfn?m(add|sub|la|ls)\b", [])}


def command(entry, options, last, output):
    """The command of a source with the user's options in front, as CFLAGS are, and others at the end."""
    words = shlex.split(entry["command"])
    out = words.index("-o")
    del words[out : out + 2]
    while not re.search(r"/(c\+\+|cc|g\+\+|gcc|clang)[^/]*$", words[0]):  # ccache
        words.pop(0)
    return [words[0], *options, *words[1:], *last, "-o", str(output)]


def joined(entry, pattern, options, last):
    """How many instructions of the source's object match."""
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "made.o")
        subprocess.run(command(entry, options, last, made), cwd=entry["directory"], check=True)
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", made], check=True, capture_output=True, text=True).stdout
        return len(re.findall(pattern, text))


def refuses(entry, options, last):
    said = subprocess.run(command(entry, options, [*last, "-fsyntax-only", "-w"], "/dev/null"), cwd=entry["directory"], capture_output=True, text=True)
    return said.returncode != 0 and SENTENCE in said.stderr


def options_wrong(entries, source):
    wrong = 0
    for name, entry in entries.items():
        words = shlex.split(entry["command"])
        contract = [word for word in words if word.startswith("-ffp-contract=")]
        expected = ["-ffp-contract=off"] + ["-ffp-contract=fast"] * (name in FAST or str(pathlib.Path(name).parent) in FAST_FOLDERS)
        if contract != expected or f"-include {source / HEADER}" not in entry["command"]:
            wrong += 1
            print(f"{name}: expected {' '.join(expected)} and -include {HEADER}, received {entry['command']}")
    return wrong


def main(source, path):
    source = pathlib.Path(source).resolve()
    entries = {}
    for entry in json.loads(pathlib.Path(path).read_text()):
        file = pathlib.Path(entry["file"])
        if source in file.parents and file.relative_to(source).parts[0] in FOLDERS and "muster_module_" in entry["command"]:
            entries[str(file.relative_to(source))] = entry
    wrong = options_wrong(entries, source) + len(FAST - set(entries))
    pattern, options = JOINED.get(platform.machine(), (None, None))
    if pattern:
        found, planted = (joined(entries[PROMISED], pattern, options, ["-O2", *last]) for last in ([], ["-ffp-contract=fast"]))
        print(f"{PROMISED}: {found} joined products and sums, {planted} where the compiler may join them")
        wrong += found != 0 or planted == 0
    cpp = next(entry for entry in json.loads(pathlib.Path(path).read_text()) if entry["file"].endswith(".cpp"))
    for entry in (entries[PROMISED], cpp):
        for options, last in REFUSED:
            if not refuses(entry, options, last):
                wrong += 1
                print(f"{entry['file']}: expected {' '.join(options + last)} to be refused with \"{SENTENCE}\"")
        if refuses(entry, ["-march=native"], ["-O3"]):
            wrong += 1
            print(f"{entry['file']}: -march=native -O3 is refused")
    print(f"{len(entries)} sources of the library, {wrong} wrong")
    return 0 if wrong == 0 and len(entries) > 400 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
