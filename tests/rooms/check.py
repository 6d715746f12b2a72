#!/usr/bin/env python3
"""check.py SOURCE ROOMS CC: in every room, includes of its own headers and of the exported headers of the rooms to its left compile.
Includes of private headers of other rooms, and of any header of a room to its right, do not compile.

A header <file>_loops.h is a template: loops that a source file includes once for each type, with the type as a macro. So it does not compile alone, and
its name is the same whether it is exported or private. Everything else is checked of it, too.

ROOMS: a file with one line "name;folder;folder of exported headers;include path..." per room, leftmost first."""
import dataclasses
import pathlib
import re
import subprocess
import sys


def is_template(header):
    return header.endswith("_loops.h")


@dataclasses.dataclass
class Room:
    name: str
    folder: pathlib.Path
    export: pathlib.Path
    path: list  # folders of its include path
    exported: list  # as in #include "..."
    private: list

    def sees(self, other, rooms):
        return rooms.index(other) <= rooms.index(self)


def read_rooms(table):
    rooms = []
    for line in pathlib.Path(table).read_text().splitlines():
        name, folder, export, *path = line.split(";")
        folder, export = pathlib.Path(folder), pathlib.Path(export)
        exported = sorted(str(file.relative_to(export)) for file in export.rglob("*.h"))
        headers = {str(file.relative_to(folder)) for file in folder.rglob("*.h") if "nvrtc" not in file.relative_to(folder).parts[:-1]}
        rooms.append(Room(name, folder, export, path, exported, sorted(headers - set(exported))))
    return rooms


def run(cc, options, source, path):
    command = [cc, "-std=gnu11", "-D_GNU_SOURCE", *options, "-x", "c", "-"] + [f"-I{folder}" for folder in path]
    return subprocess.run(command, input=source, text=True, capture_output=True, cwd="/")


def found(cc, headers, path):
    """Those of the headers to which the include path leads. A Muster installed on this machine is not asked: hence -nostdinc."""
    source = "".join(f'#if __has_include("{header}")\nfound {header}\n#endif\n' for header in headers)
    result = run(cc, ["-E", "-P", "-nostdinc"], source, path)
    if result.returncode:
        raise SystemExit(result.stderr)
    return {line.removeprefix("found ") for line in result.stdout.splitlines() if line.startswith("found ")}


def check_right_includes(cc, rooms):
    """What a room may include does compile in it."""
    wrong = tried = 0
    for room in rooms:
        headers = [header for other in rooms if room.sees(other, rooms) for header in other.exported] + room.private
        headers = [header for header in headers if not is_template(header)]
        result = run(cc, ["-fsyntax-only"], "".join(f'#include "{header}"\n' for header in headers), room.path)
        tried += len(headers)
        if result.returncode:
            print(f"room {room.name}: a right include fails\n{result.stderr}")
            wrong += 1
    print(f"{tried} right includes tried, {wrong} faults")
    return wrong == 0 and tried > 0


def check_exported(cc, rooms):
    """Each room finds the exported headers of the rooms to its left and its own, and no others."""
    wrong = tried = 0
    for room in rooms:
        owner = {header: other for other in rooms for header in other.exported}
        seen = found(cc, owner, room.path)
        for header, other in owner.items():
            if (header in seen) != room.sees(other, rooms):
                print(f'room {room.name}: #include "{header}" of room {other.name} is {"found" if header in seen else "not found"}')
                wrong += 1
            tried += not room.sees(other, rooms)
    print(f"{tried} exported headers of rooms to the right tried, {wrong} faults")
    return wrong == 0 and tried > len(rooms)


def check_private(cc, rooms):
    """No other room finds a private header by its path, by its name alone or by way of an include folder ("../x" relative to the file itself is
    check_no_way_around's), and a file of another room that includes it does not compile."""
    wrong = tried = 0
    for owner in rooms:
        for room in (room for room in rooms if room is not owner):
            own = {way for header in room.private + room.exported for way in (header, pathlib.Path(header).name)}
            ways = {way for header in owner.private for way in (header, pathlib.Path(header).name, f"{owner.folder.name}/{header}")} - own
            around = {f"../{way}" for header in owner.private for way in (header, f"{owner.folder.name}/{header}", f"{owner.name}/{header}")}
            for way in sorted(found(cc, ways, room.path) | found(cc, around, room.path[1:])):
                print(f'room {room.name}: #include "{way}" finds a private header of room {owner.name}')
                wrong += 1
        other = next((room for room in reversed(rooms) if room is not owner), None)
        for header in owner.private:
            result = run(cc, ["-fsyntax-only"], f'#include "{header}"\n', other.path)
            if result.returncode == 0 or f"{header}: No such file" not in result.stderr and f"'{header}' file not found" not in result.stderr:
                print(f'room {other.name}: #include "{header}", private to room {owner.name}, compiles or fails for another reason\n{result.stderr}')
                wrong += 1
            tried += 1
    print(f"{tried} private headers tried in the {len(rooms) - 1} other rooms, {wrong} faults")
    return wrong == 0 and tried > 0


def check_names(rooms):
    """The suffix says who may include a header: _impl.h every room to the right, _private.h its own room alone."""
    wrong = 0
    for room in rooms:
        for header in room.exported:
            if not header.startswith("muster/") and not header.endswith("_impl.h") and not is_template(header):
                print(f"room {room.name}: {header} is exported: expected the name <file>_impl.h")
                wrong += 1
        for header in room.private:
            if not header.endswith("_private.h") and not is_template(header):
                print(f"room {room.name}: {header} is not exported: expected the name <file>_private.h")
                wrong += 1
    return wrong == 0


def check_no_way_around(rooms):
    """A path with ".." would reach any room: it may only lead to the file's own room. An absolute path belongs to no room."""
    wrong = 0
    for room in rooms:
        for file in sorted(room.folder.rglob("*.[ch]")):
            for path in re.findall(r'^\s*#\s*include\s*["<]([^">]*\.\./[^">]*|/[^">]*)', file.read_text(), flags=re.M):
                if path.startswith("/") or room.folder.resolve() not in (file.parent / path).resolve().parents:
                    print(f'{file}: #include "{path}" leaves the room')
                    wrong += 1
    return wrong == 0


def check_public_headers_have_a_room(source, rooms):
    headers = {path.name for path in pathlib.Path(source, "include/muster").glob("*.h")}
    homes = {path.name for room in rooms for path in (room.export / "muster").glob("*.h")}
    print("public headers that no room owns:", ", ".join(sorted(headers - homes)) or "none")
    return headers == homes


if __name__ == "__main__":
    source, table, compiler = sys.argv[1:]
    rooms = read_rooms(table)
    checks = [check_right_includes(compiler, rooms), check_exported(compiler, rooms), check_private(compiler, rooms), check_names(rooms), check_no_way_around(rooms),
              check_public_headers_have_a_room(source, rooms)]
    sys.exit(0 if all(checks) else 1)
