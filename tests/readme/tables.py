#!/usr/bin/env python3
"""tables.py SOURCE: the tables of the READMEs and of the pages of documentation agree with the tree.

- Tables of files and folders: what they name exists, and no source file of the README's folder is missing.
- CONTRIBUTING.md: every module is in the table of folders, every program of script/ in that of commands, and every option of script/test.
- docs/environment.md: the table of variables has those that the library reads, and no others.
- tests/README.md: the suites that its tables name exist."""
import fnmatch
import pathlib
import re
import sys

SOURCES = {".c", ".cc", ".cu", ".cuh", ".py"}


def tables(text):
    """[(head cells, [first cell of each row])]"""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in block.splitlines()]
        if len(lines) > 2 and set("".join(lines[1])) <= set("-: "):
            found.append((lines[0], [line[0] for line in lines[2:]]))
    return found


def quoted(cells):
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def first_column(text, *heads):
    return quoted([cell for head, cells in tables(text) if head[0] in heads for cell in cells])


class Check:
    def __init__(self, source):
        self.source, self.wrong, self.names = source, 0, 0

    def fail(self, message):
        print(message)
        self.wrong += 1

    def files(self, readme):
        """A name is a path from the README's folder, from the source folder, or of a file in a folder below the README."""
        folder = readme.parent
        covered = set()
        listed = " ".join(first_column(readme.read_text(), "file", "folder")).split()
        for name in listed:
            self.names += 1
            places = [path for path in (folder / name, self.source / name) if path.exists()]
            places = places or [path for path in folder.rglob(name) if "build" not in path.relative_to(folder).parts[:1]]
            if not places:
                self.fail(f"{readme.relative_to(self.source)}: there is no {name}")
            covered.update(path.resolve() for path in places)
        if not listed or folder == self.source:
            return
        for path in sorted(folder.rglob("*")):
            if path.suffix in SOURCES and not path.name.startswith("test_") and not covered & {path.resolve(), *path.resolve().parents}:
                self.fail(f"{readme.relative_to(self.source)}: no table has {path.relative_to(folder)}")

    def modules(self, text):
        named = {name.rstrip("/") for name in first_column(text, "folder")}
        modules = [path.parent for top in ("lib", "scheduler", "collectives") for path in pathlib.Path(self.source, top).rglob("CMakeLists.txt")]
        for module in {str(path.relative_to(self.source)) for path in modules if "muster_module_sources" in (path / "CMakeLists.txt").read_text()}:
            if module not in named and module.count("/") < 2:
                self.fail(f"CONTRIBUTING.md: the table of folders has no {module}")

    def commands(self, text):
        commands = first_column(text, "command")
        programs = {command.split()[0] for command in commands}
        for name in sorted(path.name for path in pathlib.Path(self.source, "script").iterdir()):
            if f"script/{name}" not in programs:
                self.fail(f"CONTRIBUTING.md: the table of commands has no script/{name}")
        for program in programs:
            self.names += 1
            if not program.startswith("build/") and not pathlib.Path(self.source, program).exists():
                self.fail(f"CONTRIBUTING.md: there is no {program}")
        for command in commands:
            program = pathlib.Path(self.source, command.split()[0])
            for option in re.findall(r"--[a-z-]+", command):
                if program.exists() and option.encode() not in program.read_bytes():
                    self.fail(f"CONTRIBUTING.md: {command.split()[0]} has no option {option}")
        options = set(re.findall(r"^ +(--[a-z-]+)\)", (self.source / "script/test").read_text(), flags=re.M))
        for option in sorted(options - set(re.findall(r"--[a-z-]+", " ".join(commands)))):
            self.fail(f"CONTRIBUTING.md: the table of commands has no {option} of script/test")

    def variables(self, text):
        """A variable is read by getenv or by another function whose first argument is its name."""
        listed = set(first_column(text, "variable"))
        read = {match for top in ("lib", "scheduler", "collectives") for path in pathlib.Path(self.source, top).rglob("*.c")
                for match in re.findall(r'\w\("(MUSTER_[A-Z_0-9]+)"[,)]', path.read_text())}
        for name in sorted(listed ^ read):
            self.fail(f"docs/environment.md: the table of variables has {name}, which the library does not read" if name in listed
                      else f"docs/environment.md: the table of variables has no {name}")
        self.names += len(listed)

    def suites(self, text):
        """By their files: CTest's names are folder/name, and some have a variant behind @ or a number."""
        for name in first_column(text, "suite", "tests", "test"):
            self.names += 1
            folder, _, rest = name.partition("/")
            stem = rest.split("@")[0].strip("*")
            if "@" in folder or folder in ("*", "") or name.startswith("-") or (not rest and (self.source / "tests" / folder).is_dir()):
                continue
            lists = [path.read_text() for path in (self.source / "tests").rglob("CMakeLists.txt")]
            files = [path.stem for path in (self.source / "tests" / folder).rglob("test_*.c")]
            if not any(fnmatch.fnmatch(file, f"{stem}*") for file in files) and not any(f"{folder}/{stem.rstrip('0123456789_N')}" in text for text in lists):
                self.fail(f"tests/README.md: there is no suite {name}")


def main(source):
    check = Check(source)
    readmes = sorted(path for path in source.rglob("README.md") if not {"build", ".git"} & set(path.relative_to(source).parts))
    for readme in readmes:
        check.files(readme)
    contributing = source / "CONTRIBUTING.md"
    check.files(contributing)
    check.modules(contributing.read_text())
    check.commands(contributing.read_text())
    check.variables((source / "docs/environment.md").read_text())
    check.suites((source / "tests/README.md").read_text())
    print(f"{check.names} names of {len(readmes)} READMEs compared with the tree, {check.wrong} faults")
    return 0 if check.wrong == 0 and check.names > 100 else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
