#!/usr/bin/env python3
"""first_program.py SOURCE: the first program in README.md is samples/first.c, letter by letter."""
import pathlib
import sys

source = pathlib.Path(sys.argv[1])
same = "```c\n" + (source / "samples/first.c").read_text() + "```" in (source / "README.md").read_text()
print("README.md and samples/first.c", "agree" if same else "differ")
sys.exit(0 if same else 1)
