#!/usr/bin/env python3
"""circles.py SOURCE MODULES: reads the includes of the library and of its public headers.

1. No include leads upwards, to a module that is not to the left.
2. There is no circle between files of different folders. A source file and the headers that bear its name (x.c, x_impl.h, x_private.h in one folder)
   count as one, because a circle that goes through the source file of a header is one, too.

MODULES: see check.py."""
import pathlib
import re
import sys

from check import read_modules

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', flags=re.M)


def includes(source, modules):
    """[(including file, its module, included file, its module)]: of this project's files, all paths real."""
    module_of = {}
    for module in modules:
        for header in module.exported:
            module_of[(module.export / header).resolve()] = module
        for file in list(module.folder.rglob("*.[ch]")) + list(module.folder.rglob("*.cu*")):
            module_of[file.resolve()] = module
    everywhere = {}
    for file in module_of:
        everywhere.setdefault(file.name, []).append(file)
    edges = []
    for file, module in module_of.items():
        for name in INCLUDE.findall(file.read_text()):
            texts = [file.parent] if file.suffix.startswith(".cu") else []
            places = [file.parent, *map(pathlib.Path, module.path), pathlib.Path(source, "include"), *texts]
            target = next((path.resolve() for path in (place / name for place in places) if path.is_file()), None)
            if target is None:  # not on the include path: a header of the system, a kernel text known by its name, or one of another module
                own = [other for other in everywhere.get(pathlib.Path(name).name, []) if "nvrtc" not in other.parts[:-1]]
                target = own[0] if len(own) == 1 else None
            if target in module_of:
                edges.append((file, module, target, module_of[target]))
    return edges


def check_upwards(source, modules, edges):
    wrong = [edge for edge in edges if not edge[1].sees(edge[3], modules)]
    for file, module, target, other in wrong:
        print(f"{file.relative_to(source)} of module {module.name} includes {target.relative_to(source)} of module {other.name}, which is not to its left")
    return not wrong


def unit(file):
    return file.parent / re.sub(r"(_parameters)?(_impl|_private)?$", "", file.stem)


def knots(edges):
    """The strongly connected components of more than one folder (Tarjan), each as a set of units."""
    after = {}
    for file, target in edges:
        after.setdefault(unit(file), set()).add(unit(target))
        after.setdefault(unit(target), set())
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(after[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            knot = set(stack[stack.index(node):])
            del stack[stack.index(node):]
            if len({member.parent for member in knot}) > 1:
                found.append(knot)

    for node in sorted(after):
        if node not in number:
            visit(node)
    return found


def check_finder():
    """A circle of two folders through a source file and its headers is found, and one inside a folder is none."""
    a, b = pathlib.Path("a"), pathlib.Path("b")
    circle = [(a / "x.c", b / "y_impl.h"), (b / "y.c", a / "x_parameters_private.h")]
    inside = [(a / "x.c", a / "y_impl.h"), (a / "y.c", a / "x_private.h"), (a / "y.c", b / "z_impl.h")]
    found = (knots(circle), knots(inside))
    if found != ([{a / "x", b / "y"}], []):
        print(f"of two planted cases, one with a circle, these circles were found: {found}")
    return found == ([{a / "x", b / "y"}], [])


def check_circles(source, edges):
    pairs = sorted({(file, target) for file, _, target, _ in edges})
    found = knots(pairs)
    for knot in found:
        print("a circle between files of different folders:")
        for file, target in pairs:
            if unit(file) in knot and unit(target) in knot and unit(file) != unit(target):
                print(f"    {file.relative_to(source)} includes {target.relative_to(source)}")
    print(f"{len(pairs)} includes between {len({unit(file) for pair in pairs for file in pair})} units read, {len(found)} circles")
    return not found and len(pairs) > 100


if __name__ == "__main__":
    source = pathlib.Path(sys.argv[1]).resolve()
    modules = read_modules(sys.argv[2])
    edges = includes(source, modules)
    checks = [check_finder(), check_upwards(source, modules, edges), check_circles(source, edges)]
    sys.exit(0 if all(checks) else 1)
