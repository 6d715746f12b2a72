#!/usr/bin/env python3
"""The public headers read as text: their constants, struct fields and functions.

    frozen.py check  HEADERS FROZEN        every constant, struct and field of the headers is in frozen.def, and nothing else
    frozen.py symbols HEADERS LIBRARY NM   the library exports the functions of the headers, in the version node, and nothing else
"""
import pathlib
import re
import subprocess
import sys


def read(folder):
    text = "\n".join(path.read_text() for path in sorted(pathlib.Path(folder, "muster").glob("*.h")))
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def functions(text):
    return set(re.findall(r"\bMUSTER_API\b[^;{#]*?\b(muster_\w+)\s*\(", re.sub(r"#define[^\n]*(\\\n[^\n]*)*", "", text)))


def constants(text):
    names = set(re.findall(r"#define\s+(MUSTER_VERSION_\w+)\s+\d+", text))
    for body in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", text, flags=re.S):
        for item in filter(None, map(str.strip, body.split(","))):
            names.add(re.match(r"\w+", item).group(0))
    return names


def fields(text):
    """'type' and 'type.field' of every public struct."""
    names = set()
    for struct, body in re.findall(r"\bstruct\s+(\w+)\s*\{(.*?)\}", text, flags=re.S):
        names.add(struct)
        for declaration in filter(None, map(str.strip, body.split(";"))):
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", declaration)
            for part in [pointer.group(1)] if pointer else declaration.split(","):
                field = re.search(r"(\w+)\s*(\[[^]]*\])*$", part.strip()).group(1)
                names.add(f"{struct}.{field}")
    return names


def compare(what, expected, found):
    for name in sorted(expected - found):
        print(f"{what}: {name} is in the headers but missing")
    for name in sorted(found - expected):
        print(f"{what}: {name} is there but not in the headers")
    if not expected:
        print(f"{what}: the headers were not understood")
    return expected == found and bool(expected)


def check(headers, frozen):
    text, table = read(headers), pathlib.Path(frozen).read_text()
    listed = set(re.findall(r"^SIZE\((\w+),", table, flags=re.M))
    listed |= {f"{a}.{b}" for a, b in re.findall(r"^OFFSET\((\w+), (\w+),", table, flags=re.M)}
    ok = compare("frozen.def constants", constants(text), set(re.findall(r"^CONSTANT\((\w+),", table, flags=re.M)))
    return compare("frozen.def structs", fields(text), listed) and ok


def symbols(headers, library, nm):
    lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.split()[-1] for line in lines if line.split()[-2] != "A"]
    wrong = [name for name in names if not name.endswith("@@MUSTER_0.1")]
    for name in wrong:
        print(f"exported outside the version node MUSTER_0.1: {name}")
    return compare("exported symbols", functions(read(headers)), {name.split("@")[0] for name in names}) and not wrong


if __name__ == "__main__":
    sys.exit(0 if {"check": check, "symbols": symbols}[sys.argv[1]](*sys.argv[2:]) else 1)
