#!/usr/bin/env python3
"""wrong_symbols.py CC NM: what frozen.py says of libraries whose symbols are wrong, each made here of a few lines of C."""
import pathlib
import subprocess
import sys
import tempfile

HEADER = "#define MUSTER_API\nMUSTER_API int muster_one(void);\nMUSTER_API int muster_two(void);\n"
LIST = "# a list\nMUSTER_0.1 muster_one\nMUSTER_0.2 muster_two\n"
SOURCE = "int muster_one(void) { return 1; }\nint muster_two(void) { return 2; }\nint muster_three(void) { return 3; }\n"
SCRIPT = "MUSTER_0.1 { global: muster_one; local: *; };\nMUSTER_0.2 { global: muster_two; } MUSTER_0.1;\n"
OLD = '__asm__(".symver old_two, muster_two@MUSTER_0.2");\nint old_two(void) { return 2; }\n'

CASES = [  # name, header, list, source, version script, what is said (None: nothing is wrong)
    ("right", HEADER, LIST, SOURCE, SCRIPT, None),
    ("in another node", HEADER, LIST, SOURCE, SCRIPT.replace("muster_one;", "muster_one; muster_two;").replace("global: muster_two;", "", 1),
     "muster_two: expected version node MUSTER_0.2, found MUSTER_0.1"),
    ("under a wildcard", HEADER, LIST, SOURCE, "MUSTER_0.1 { global: muster_*; local: *; };\n", "muster_three is there but not in"),
    ("not exported", HEADER, LIST, SOURCE, SCRIPT.replace("global: muster_two;", ""), "exported symbols: muster_two is in"),
    ("not defined", HEADER, LIST, SOURCE.replace("int muster_two", "int muster_four"), SCRIPT, "exported symbols: muster_two is in"),
    ("exported and not listed", HEADER, LIST, SOURCE, SCRIPT.replace("muster_two;", "muster_two; muster_three;"), "muster_three is there but not in"),
    ("without versions", HEADER, LIST, SOURCE, None, "muster_one: expected version node MUSTER_0.1, found none"),
    ("not the default version", HEADER, LIST, SOURCE.replace("int muster_two", "int muster_four") + OLD, SCRIPT,
     "muster_two: expected version node MUSTER_0.2, found @MUSTER_0.2"),
    ("listed and not in the headers", HEADER, LIST + "MUSTER_0.1 muster_three\n", SOURCE, SCRIPT.replace("muster_one;", "muster_one; muster_three;"),
     "muster_three is there but not in the headers"),
    ("in the headers and not listed", HEADER.replace("two", "five") + HEADER, LIST, SOURCE, SCRIPT, "muster_five is in the headers but missing"),
    ("listed twice", HEADER, LIST + "MUSTER_0.1 muster_two\n", SOURCE, SCRIPT, "muster_two stands in two lines"),
]


def verdict(folder, cc, nm, header, symbol_list, source, script):
    (folder / "muster").mkdir()
    (folder / "muster" / "all.h").write_text(header)
    (folder / "symbols").write_text(symbol_list)
    (folder / "source.c").write_text(source)
    options = []
    if script:
        (folder / "script").write_text(script)
        options = [f"-Wl,--version-script={folder / 'script'}"]
    library = folder / "lib.so"
    subprocess.run([cc, "-shared", "-fPIC", "-nostdlib", "-o", library, folder / "source.c", *options], check=True)
    frozen = pathlib.Path(__file__).with_name("frozen.py")
    done = subprocess.run([sys.executable, frozen, "symbols", folder, folder / "symbols", library, nm], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main(cc, nm):
    wrong = 0
    for name, header, symbol_list, source, script, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            code, said = verdict(pathlib.Path(folder), cc, nm, header, symbol_list, source, script)
        if (code, said) != (0, "") if expected is None else code == 0 or expected not in said:
            wrong += 1
            print(f"{name}: expected {expected or 'no complaint'}, received exit status {code} and:\n{said}")
    print(f"{len(CASES)} libraries, {wrong} of them judged wrongly")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
