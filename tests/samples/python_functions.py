#!/usr/bin/env python3
"""python_functions.py SOURCE [--check]: prints samples/python/muster_functions.py, the types of all public functions, as the headers declare
them and lib/muster.abi lists them. --check: compares it with the file, and says how to write the file anew."""
import difflib
import pathlib
import re
import sys

HEAD = '''"""The types of Muster's public functions, printed from the headers by tests/samples/python_functions.py; the test samples/python_types
compares. First the result: "status" is checked, "void" is none; then a letter for each argument. Letters (muster_ctypes.TYPES): P a handle or
another pointer, T a tensor, A a kernel argument, S a string, I int32, L int64, U uint64, Z size_t, D double, F float, H uint16; and for a
pointer to several that are only read, which may be a list: i int32, j uint32, l int64, d double, t tensors, a kernel arguments, s strings,
p handles."""
FUNCTIONS = {
'''
LETTERS = {"int32_t": "I", "int64_t": "L", "uint64_t": "U", "size_t": "Z", "double": "D", "float": "F", "uint16_t": "H", "muster_tensor": "T",
           "muster_argument": "A", "const char *": "S", "const int32_t *": "i", "const uint32_t *": "j", "const int64_t *": "l", "const double *": "d",
           "const muster_tensor *": "t", "const muster_argument *": "a", "const char *const *": "s"}


def read_headers(folder):
    """The public headers without comments, and the integers that have a name of their own."""
    text = "\n".join(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S) for path in sorted(folder.glob("*.h")))
    return text, set(re.findall(r"typedef int32_t (muster_\w+);", text))


def letter(kind, integers):
    """kind: the type as C writes it, without the name."""
    kind = re.sub(r"muster_\w+", lambda name: "int32_t" if name.group() in integers else name.group(), kind)
    if kind in LETTERS:
        return LETTERS[kind]
    if re.fullmatch(r"muster_\w+ \*(const )?\*", kind):
        return "p" if "const" in kind else "P"
    if "*" in kind or kind in ("muster_body", "muster_completion_function", "muster_rule_function", "muster_destroy_function"):
        return "P"
    sys.exit(f"no letter for the type \"{kind}\"")


def argument_kind(text):
    if text == "...":
        return "const char *"  # pairs that begin with a name; NULL ends them
    if "(*" in text:
        return "void *"  # the address of a function
    array = re.fullmatch(r"(.*?)\s*\w+\[\d+\]", text)
    return array.group(1) + " *" if array else re.fullmatch(r"(.*?)\s*\w+", text).group(1)


def split_arguments(text):
    depth, parts = 0, [""]
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def table(source):
    text, integers = read_headers(source / "include/muster")
    rows = {}
    for result, name, arguments in re.findall(r"MUSTER_API\s+(?:MUSTER_NODISCARD\s+)?([^;{}()]*?)\s*\bmuster_(\w+)\(([^;]*)\);", text):
        # muster_fail returns the status that its caller gives
        kind = result if result == "void" else "status" if result == "muster_status" and name != "fail" else letter(result, integers)
        arguments = " ".join(arguments.split())
        letters = "" if arguments == "void" else "".join(letter(argument_kind(one), integers) for one in split_arguments(arguments))
        rows[name] = f"{kind} {letters}".strip()
    return rows


def main():
    source = pathlib.Path(sys.argv[1])
    rows = table(source)
    listed = set(re.findall(r"^MUSTER_\S+ muster_(\w+)$", (source / "lib/muster.abi").read_text(), flags=re.M))
    if set(rows) != listed:
        sys.exit(f"lib/muster.abi and the headers differ: {sorted(set(rows) ^ listed)}")
    printed = HEAD + "".join(f'    "{name}": "{rows[name]}",\n' for name in sorted(rows)) + "}\n"
    if sys.argv[2:] != ["--check"]:
        print(printed, end="")
        return
    file = source / "samples/python/muster_functions.py"
    difference = list(difflib.unified_diff(file.read_text().splitlines(True), printed.splitlines(True), str(file), "the headers"))
    if difference:
        sys.exit("".join(difference) + f"the command that writes it: {sys.argv[0]} {source} >{file}")
    print(f"{len(rows)} functions, as in the headers and in lib/muster.abi")


main()
