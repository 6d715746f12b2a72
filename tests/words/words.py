#!/usr/bin/env python3
"""words.py SOURCE [--list]: no identifier and no file name of the library, the bench and the samples bears a retired word.

retired.txt has the words, allowed.txt the exceptions with their reasons. Comments, strings and included names are not read.
--list prints each identifier that fails, once, with the number of its occurrences and its files."""
import collections
import fnmatch
import pathlib
import sys

from identifiers import identifiers, words

FOLDERS = "lib collectives scheduler include bench samples".split()
SUFFIXES = {".c", ".h", ".hpp", ".cc", ".hh", ".cpp", ".cu", ".cuh", ".cl"}
HERE = pathlib.Path(__file__).parent


def read_rules(text):
    """[(words in a row, whether they are the whole identifier, folders or none, what to say instead)]"""
    rules = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            stems, instead = line.split(":", 1)
            for stem in stems.split():
                stem, _, folders = stem.partition("@")
                rules.append((words(stem), stem.startswith("="), folders.split(",") if folders else [], instead.strip()))
    return rules


def read_allowed(text):
    return dict(line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#"))


def broken_rule(name, file, rules):
    parts = words(name)
    for stem, alone, folders, instead in rules:
        if folders and not any(file.startswith(folder + "/") for folder in folders):
            continue
        if name.lower() == "_".join(stem) if alone else any(parts[i : i + len(stem)] == stem for i in range(len(parts))):
            return "_".join(stem), instead
    return None


def names_of(source):
    """(name, file, line) of every identifier, and of every file by the name without its ending."""
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(source, folder).rglob("*")):
            file = str(path.relative_to(source))
            if path.is_dir() or path.suffix in SUFFIXES:
                yield path.stem, file, 0
            if path.suffix in SUFFIXES:
                for name, line in identifiers(path.read_text()):
                    yield name, file, line


def find_faults(source, rules, allowed):
    """({name: [(file, line, word, instead)]}, the patterns of allowed that were of use, the number of names read)"""
    faults, used, cache, read = collections.defaultdict(list), set(), {}, 0
    for name, file, line in names_of(source):
        read += 1
        key = name, file
        if key not in cache:
            cache[key] = broken_rule(name, file, rules)
        if cache[key]:
            pattern = next((pattern for pattern in allowed if fnmatch.fnmatchcase(name, pattern)), None)
            if pattern:
                used.add(pattern)
            else:
                faults[name].append((file, line, *cache[key]))
    return faults, used, read


def main(source, listed):
    rules = read_rules((HERE / "retired.txt").read_text())
    allowed = read_allowed((HERE / "allowed.txt").read_text())
    faults, used, read = find_faults(source, rules, allowed)
    if listed:
        for name, places in sorted(faults.items(), key=lambda item: (item[1][0][2], item[0])):
            print(f"{places[0][2]:12} {name:32} {len(places):4}  {' '.join(sorted({place[0] for place in places})[:4])}")
    else:
        for name, places in faults.items():
            for file, line, word, instead in places[:3]:
                print(f"{file}:{line}: {name}: '{word}' is retired, expected: {instead}")
    unused = set(allowed) - used
    for pattern in sorted(unused):
        print(f"tests/words/allowed.txt: {pattern} is used nowhere")
    print(f"{read} names read, {len(rules)} retired words, {len(allowed)} exceptions, {len(faults)} identifiers with a retired word")
    return 0 if not faults and not unused and read > 10000 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--list" in sys.argv[2:]))
