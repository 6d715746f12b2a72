#!/usr/bin/env python3
"""check.py SOURCE ROOMS CC: in every room, includes its own headers and those of the rooms to its left compile, all others do not.

ROOMS: a file with one line "name;folder;public headers folder;include path..." per room, leftmost first."""
import pathlib
import re
import subprocess
import sys


def run(cc, options, source, path):
    command = [cc, "-std=gnu11", "-D_GNU_SOURCE", *options, "-o", "/dev/null", "-x", "c", "-"] + [f"-I{folder}" for folder in path]
    return subprocess.run(command, input=source, text=True, capture_output=True)


def finds(cc, header, path):
    """Whether the room's own include path leads to the header. A Muster installed on this machine is not asked: hence -nostdinc."""
    return run(cc, ["-E", "-nostdinc"], f'#if !__has_include("{header}")\n#error not found\n#endif\n', path).returncode == 0


def check_includes(cc, rooms):
    wrong = tried = 0
    owned = []  # (position of the room, header)
    for position, (_, folder, public, *_) in enumerate(rooms):
        owned += [(position, path.name) for path in sorted(pathlib.Path(folder).glob("*_impl.h"))]
        owned += [(position, f"muster/{path.name}") for path in sorted(pathlib.Path(public, "muster").glob("*.h"))]
    for position, (name, _, _, *path) in enumerate(rooms):
        right = run(cc, ["-fsyntax-only"], "".join(f'#include "{header}"\n' for owner, header in owned if owner <= position), path)
        if right.returncode:
            print(f"room {name}: a right include fails\n{right.stderr}")
            wrong += 1
        for owner, header in owned:
            if finds(cc, header, path) != (owner <= position):
                print(f'room {name}: #include "{header}" of room {rooms[owner][0]} is {"not found" if owner <= position else "found"}')
                wrong += 1
            tried += owner > position
    print(f"{tried} wrong includes tried, {wrong} faults")
    return wrong == 0 and tried > len(rooms)


def check_no_way_around(rooms):
    """A path with ".." would reach any room: it may only lead to the file's own room. One from the root is nobody's."""
    wrong = 0
    for _, folder, *_ in rooms:
        for file in sorted(pathlib.Path(folder).rglob("*.[ch]")):
            for path in re.findall(r'^\s*#\s*include\s*["<]([^">]*\.\./[^">]*|/[^">]*)', file.read_text(), flags=re.M):
                if path.startswith("/") or pathlib.Path(folder).resolve() not in (file.parent / path).resolve().parents:
                    print(f'{file}: #include "{path}" leaves the room')
                    wrong += 1
    return wrong == 0


def check_public_headers_have_a_room(source, rooms):
    headers = {path.name for path in pathlib.Path(source, "include/muster").glob("*.h")}
    homes = {path.name for _, _, public, *_ in rooms for path in pathlib.Path(public, "muster").glob("*.h")}
    print("public headers that no room owns:", ", ".join(sorted(headers - homes)) or "none")
    return headers == homes


if __name__ == "__main__":
    source, table, compiler = sys.argv[1:]
    rooms = [line.split(";") for line in pathlib.Path(table).read_text().split("\n") if line]
    checks = [check_includes(compiler, rooms), check_no_way_around(rooms), check_public_headers_have_a_room(source, rooms)]
    sys.exit(0 if all(checks) else 1)
