#!/usr/bin/env python3
"""The public headers read as text: their constants, struct fields and functions. expr.h is left out: it is made of inline functions and their
structs, of which the library sees nothing.

    frozen.py check HEADERS FROZEN             every constant, struct and field of the headers is in frozen.def, and nothing else
    frozen.py symbols HEADERS LIST LIBRARY NM  the library exports the functions of the headers, each in the version node that the list
                                               (lib/muster.abi) gives it, and nothing else
    frozen.py statuses HEADERS                 the functions whose status a program must look at are marked MUSTER_NODISCARD, and no others
"""
import pathlib
import re
import subprocess
import sys


CXX = "#if defined(__cplusplus) && !defined(__CUDACC_RTC__)"  # the end of a header: what C++ programs get in place of macros


def read(folder):
    text = "\n".join(path.read_text().split(CXX)[0] for path in sorted(pathlib.Path(folder, "muster").glob("*.h")) if path.name != "expr.h")
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def functions(text):
    return set(re.findall(r"\bMUSTER_API\b[^;{#]*?\b(muster_\w+)\s*\(", re.sub(r"#define[^\n]*(\\\n[^\n]*)*", "", text)))


def constants(text):
    names = set(re.findall(r"#define\s+(MUSTER_\w+)\s+(?:\d+|INT64_MIN)$", text, flags=re.M))
    for body in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", text, flags=re.S):
        for item in filter(None, map(str.strip, body.split(","))):
            names.add(re.match(r"\w+", item).group(0))
    return {name for name in names if not name.endswith("_")}  # private to the headers


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


def fixed(text):
    """The public structs that do not begin with struct_size, and so can never grow."""
    return {struct for struct, body in re.findall(r"\bstruct\s+(\w+)\s*\{(.*?)\}", text, flags=re.S) if not re.match(r"\s*size_t struct_size;", body)}


def compare(what, expected, found, source="the headers"):
    for name in sorted(expected - found):
        print(f"{what}: {name} is in {source} but missing")
    for name in sorted(found - expected):
        print(f"{what}: {name} is there but not in {source}")
    if not expected:
        print(f"{what}: {source} could not be understood")
    return expected == found and bool(expected)


def check(headers, frozen):
    text, table = read(headers), pathlib.Path(frozen).read_text()
    listed = set(re.findall(r"^SIZE\((\w+),", table, flags=re.M))
    listed |= {f"{a}.{b}" for a, b in re.findall(r"^OFFSET\((\w+), (\w+),", table, flags=re.M)}
    ok = compare("frozen.def FROZEN", fixed(text), set(re.findall(r"^FROZEN\((\w+)\)", table, flags=re.M)))
    ok = compare("frozen.def constants", constants(text), set(re.findall(r"^CONSTANT\((\w+),", table, flags=re.M))) and ok
    return compare("frozen.def structs", fields(text), listed) and ok


def listed(path):
    """The version node of each symbol in the list; a symbol in two lines is an error."""
    nodes = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            node, name = line.split()
            if name in nodes:
                sys.exit(f"{path}: {name} stands in two lines")
            nodes[name] = node
    return nodes


def exported(library, nm):
    """The version node of each exported symbol; a version that is not the default one begins with a single @."""
    command = [nm, "-D", "--defined-only", "--with-symbol-versions", library]
    nodes = {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        kind, symbol = line.split()[-2:]
        if kind != "A":  # the nodes themselves
            name, at, node = symbol.partition("@@" if "@@" in symbol else "@")
            nodes[name] = (at if at == "@" else "") + (node or "none")
    return nodes


# What else returns a status that a program may drop.
MAY_DROP = {
    "muster_fail": "returns its argument",
    "muster_runtime_abort": "ends the process; returns only where it is called wrongly",
    "muster_graph_output": "its graph keeps the error, and muster_graph_compile returns it",
    "muster_graph_clip": "its graph keeps the error, and muster_graph_compile returns it",
    "muster_graph_minimise": "its graph keeps the error, and muster_graph_compile returns it",
    "muster_graph_update": "its graph keeps the error, and muster_graph_compile returns it",
    "muster_expr_apply": "its graph keeps the error, and muster_graph_compile returns it",
    "muster_gradient": "its graph keeps the error, and muster_graph_compile returns it",
    "muster_gradient_at": "its graph keeps the error, and muster_graph_compile returns it",
}


def statuses(headers):
    """A program may drop the status of a function that ends or reports something, and of those of MAY_DROP."""
    declarations = re.findall(r"\bMUSTER_API (MUSTER_NODISCARD )?muster_status\s+(muster_\w+)\(", read(headers))
    may_drop = {name for _, name in declarations if re.search("_(destroy|close|release|unregister(_memory|_buffer)?|dump)(_p)?$", name)} | set(MAY_DROP)
    marked = {name for mark, name in declarations if mark}
    for name in sorted(MAY_DROP.keys() - {name for _, name in declarations}):
        print(f"MUSTER_NODISCARD: {name}, an exception of this list, is no public function")
        return False
    print(f"{len(marked)} functions are marked, {len(may_drop)} are not")
    return compare("MUSTER_NODISCARD", {name for _, name in declarations} - may_drop, marked) and len(marked) > 100 and len(may_drop) > 10


def symbols(headers, path, library, nm):
    wanted, found = listed(path), exported(library, nm)
    ok = compare(path, functions(read(headers)), set(wanted))
    ok = compare("exported symbols", set(wanted), set(found), path) and ok
    for name in sorted(wanted.keys() & found.keys()):
        if wanted[name] != found[name]:
            print(f"exported symbols: {name}: expected version node {wanted[name]}, found {found[name]}")
            ok = False
    return ok


if __name__ == "__main__":
    sys.exit(0 if {"check": check, "symbols": symbols, "statuses": statuses}[sys.argv[1]](*sys.argv[2:]) else 1)
