#!/usr/bin/env python3
"""messages.py SOURCE: the messages of the library have one form.

A function is named without parentheses. A NULL argument is refused by mst_error_null, unless the message holds more than its words."""
import pathlib
import re
import sys

FOLDERS = "lib collectives scheduler".split()
# Comments first, so that a quotation mark in one begins no string. Adjacent strings are one literal.
TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])+'|(?P<text>"(?:\\.|[^"\\\n])*"(?:\s*(?:PRI\w+\s*)?"(?:\\.|[^"\\\n])*")*)""", flags=re.S)
RULES = [
    (re.compile(r"\w\(\)"), "expected the name of a function without ()"),
    (re.compile(r"^(?:%s|muster_\w+): \w+: expected [^%]*, received NULL"), "expected a call of mst_error_null"),
]


def literals(text):
    """[(content, line)]"""
    for match in TOKEN.finditer(text):
        if match["text"]:
            yield "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match["text"])), text.count("\n", 0, match.start()) + 1


def main(source):
    read = faults = 0
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(source, folder).rglob("*.[ch]")):
            for text, line in literals(path.read_text()):
                read += 1
                for pattern, expected in RULES:
                    if pattern.search(text):
                        faults += 1
                        print(f'{path.relative_to(source)}:{line}: {expected}, received "{text}"')
    print(f"{read} strings read, {faults} faults")
    return 0 if faults == 0 and read > 2000 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
