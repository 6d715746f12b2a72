#!/usr/bin/env python3
"""includes.py HEADERS: every public header includes the headers that declare the names it uses, and no others.

Two headers are not asked for: status.h, which comes with every header, and dtype.h, which comes with tensor.h. A name that only a comment
mentions (the constants that an argument takes) is reason enough for an include."""
import pathlib
import re
import sys

IMPLIED = {"status", "dtype"}


def without_comments(text):
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def declared(code):
    """The types, constants, macros and functions that a header brings."""
    names = set(re.findall(r"#define\s+(\w+)", code)) | set(re.findall(r"\}\s*(muster_\w+)\s*;", code))
    names |= set(re.findall(r"\btypedef\s+[\w\s*]*?\b(muster_\w+)\s*;", code)) | set(re.findall(r"\btypedef\b[^;{]*\(\*(muster_\w+)\)", code))
    names |= set(re.findall(r"\b(muster_\w+)\s*\((?!\s*\*)", code))
    for body in re.findall(r"\benum\s*\w*\s*\{(.*?)\}", code, flags=re.S):
        names |= set(re.findall(r"\bMUSTER_\w+", body))
    return names


def main(folder):
    texts = {path.stem: path.read_text() for path in sorted(pathlib.Path(folder, "muster").glob("*.h")) if path.stem != "muster"}
    names = {header: declared(without_comments(text)) for header, text in texts.items()}
    wrong = 0
    for header, text in texts.items():
        included = set(re.findall(r'^#include "muster/(\w+)\.h"', text, flags=re.M))
        body = re.sub(r"^#include.*$", "", text, flags=re.M)
        for other in sorted(texts.keys() - {header}):
            foreign = names[other] - names[header]
            used = sorted(foreign & set(re.findall(r"\b(?:muster|MUSTER)_\w+", without_comments(body))))
            mentioned = foreign & set(re.findall(r"\b(?:muster|MUSTER)_\w+", body))
            if used and other not in included | IMPLIED:
                print(f"{header}.h: uses {', '.join(used[:3])} of {other}.h, which it does not include")
                wrong += 1
            if other in included and not mentioned:
                print(f"{header}.h: includes {other}.h, of which it uses nothing")
                wrong += 1
    print(f"{len(texts)} headers read, {wrong} faults")
    return wrong == 0 and len(texts) > 1


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
