#!/usr/bin/env python3
"""The twins that take addresses (include/muster/pointers.h), made from the prototypes of the other public headers.

    pointer_twins.py SOURCE          writes include/muster/pointers.h, lib/api/pointers.c and their lines of lib/muster.abi
    pointer_twins.py SOURCE --check  says whether these files are what it would write
    pointer_twins.py SOURCE --test   prints a header for tests: each call of a function with a twin becomes a call of the twin

A function has a twin, named with _p at its end, if it takes or gives a struct by value, which some foreign function interfaces cannot, or if
it is inline, which none can call. Initialisers have none: they write the size of the struct that the program's header has, which the library
does not know (a binding calls _init_sized with its own, and sets struct_size of a result struct)."""
import difflib
import pathlib
import re
import sys

WIDTH = 140
HEADER, SOURCE, ABI = "include/muster/pointers.h", "lib/api/pointers.c", "lib/muster.abi"
HEAD = """/* muster/pointers.h: twins of functions, for languages whose foreign function interface passes no
 * structs by value and calls no inline functions. muster.h does not include it. Written by
 * tests/abi/pointer_twins.py.
 *
 * muster_sum_p is muster_sum with the addresses of the tensors in place of the tensors, and so for
 * every function that takes a struct by value. NULL stands for "no tensor". A function that gives a
 * struct writes it to *result, its last argument, which may be the address of an argument too, or
 * NULL if it is not wanted. All else is as for the function itself: the status, the message (which
 * names the function without _p), ownership, threads and errors. An address is borrowed for the
 * call; what the function keeps of a tensor, it copies. */
#ifndef MUSTER_POINTERS_H
#define MUSTER_POINTERS_H

"""
PARTS = """static muster_tensor pointers_tensor(const muster_tensor *tensor) { return tensor ? *tensor : muster_tensor_none(); }
static void pointers_give_tensor(muster_tensor value, muster_tensor *result) {
    if (result) *result = value;
}
static void pointers_give_argument(muster_argument value, muster_argument *result) {
    if (result) *result = value;
}
"""
GIVERS = {"muster_tensor": "pointers_give_tensor", "muster_argument": "pointers_give_argument"}


class Function:
    def __init__(self, header, mark, result, name, arguments):
        self.header, self.mark, self.result, self.name = header, mark, result, name
        self.arguments = []  # [(type, name, the whole declaration)]
        for text in re.split(r",(?![^()]*\))", " ".join(arguments.split())):
            text = text.strip()
            if text not in ("void", "..."):
                match = re.search(r"\(\*(\w+)\)", text) or re.search(r"(\w+)(\[\d*\])?$", text)
                self.arguments.append((text[:match.start()].strip(), match.group(1), text))

    def is_inline(self):
        return "inline" in self.mark

    def gives(self):
        return self.result in GIVERS

    def by_value(self, structs):
        return self.result in structs or any(kind in structs for kind, _, _ in self.arguments)

    def twin(self, name=None):
        """The prototype of the twin, without marks and semicolon."""
        arguments = [f"const {kind} *{variable}" if kind in GIVERS else text for kind, variable, text in self.arguments]
        arguments += [f"{self.result} *result"] if self.gives() else []
        return declaration("void" if self.gives() else self.result, name or f"{self.name}_p", arguments)


def declaration(result, name, arguments):
    return f"{result}{'' if result.endswith('*') else ' '}{name}({', '.join(arguments) or 'void'})"


def read(source):
    """(functions, names of structs, {type: its header}), of the headers but pointers.h."""
    functions, structs, types = [], set(), {}
    for path in sorted((source / "include/muster").glob("*.h")):
        if path.name in ("pointers.h", "expr.h"):
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        text = re.sub(r"^#.*(?:\\\n.*)*$", "", text, flags=re.M)
        structs |= set(re.findall(r"\btypedef struct (\w+) \{", text))
        types |= {name: path.name for name in re.findall(r"\btypedef [\w\s*]*?\b(muster_\w+);", text) + re.findall(r"^\} (muster_\w+);", text, flags=re.M)}
        pattern = r"(MUSTER_API(?: MUSTER_NODISCARD)?|static inline) ([\w\s]+?[\s*]+)(muster_\w+)\(((?:[^;{()]|\([^()]*\))*)\)\s*[;{]"
        for mark, result, name, arguments in re.findall(pattern, text):
            if not name.endswith("_"):  # what a macro is made of
                functions.append(Function(path.name, mark, result.strip(), name, arguments))
    return functions, structs, types


def with_twins(source):
    """(the functions that have twins, the headers with their types)"""
    functions, structs, types = read(source)
    twins = [function for function in functions
             if function.by_value(structs) or (function.is_inline() and not re.fullmatch(r"void muster_\w+_init", f"{function.result} {function.name}"))]
    for function in twins:
        used = {kind for kind, _, _ in function.arguments if kind in structs} - {"muster_tensor"}
        if used or (function.result in structs and not function.gives()):
            sys.exit(f"{function.header}: {function.name}: expected muster_tensor or a result {list(GIVERS)} by value, received {used or function.result}")
    names = {name for twin in twins for name in re.findall(r"\bmuster_\w+", " ".join([twin.result, *(kind for kind, _, _ in twin.arguments)]))}
    return twins, {types[name] for name in names}


def wrapped(text):
    """A line broken as clang-format breaks it: at commas, the rest under the first argument."""
    lines, indent = [], " " * (text.index("(") + 1)
    while len(text) > WIDTH:
        at = text.rindex(", ", 0, WIDTH + 1)
        if at < len(indent):
            sys.exit(f"no place to break: {text}")
        lines.append(text[:at + 1])
        text = indent + text[at + 2:]
    return "\n".join([*lines, text])


def header_of(twins, includes):
    implied = {"status.h", "dtype.h"}  # which tensor.h brings
    text = HEAD + "".join(f'#include "muster/{name}"\n' for name in sorted(includes - implied)) + '\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
    for name in sorted({twin.header for twin in twins}):
        text += f"\n/* The twins of functions of muster/{name}. */\n"
        for twin in twins:
            if twin.header == name:
                mark = "MUSTER_API" if twin.is_inline() else twin.mark
                text += wrapped(f"{mark} {twin.twin()};") + "\n"
    return text + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"


def body_of(twin):
    values = [f"pointers_tensor({variable})" if kind == "muster_tensor" else variable for kind, variable, _ in twin.arguments]
    call = f"{twin.name}({', '.join(values)})"
    if twin.gives():
        return f"{GIVERS[twin.result]}({call}, result);"
    return f"{'' if twin.result == 'void' else 'return '}{call};"


def definition(twin):
    whole = f"{twin.twin()} {{ {body_of(twin)} }}"
    if len(whole) <= WIDTH:
        return whole
    return f"{wrapped(twin.twin() + ' {')}\n{wrapped('    ' + body_of(twin))}\n}}"


def source_of(twins):
    headers = "".join(f'#include "muster/{name}"\n' for name in ["pointers.h", *sorted({twin.header for twin in twins})])
    return "/* The twins that take addresses. Written by tests/abi/pointer_twins.py. */\n" + headers + "\n" + PARTS + "\n" + "\n".join(definition(twin) for twin in twins) + "\n"


def abi_of(text, twins):
    """Every twin in the version node that its line has already, new ones in that of the newest function."""
    lines = text.splitlines()
    nodes = {line.split()[1]: line.split()[0] for line in lines if line.startswith("MUSTER_")}
    newest = max(nodes.values(), key=lambda node: [int(part) for part in node.removeprefix("MUSTER_").split(".")])
    nodes = {name: node for name, node in nodes.items() if not name.endswith("_p")} | {f"{twin.name}_p": nodes.get(f"{twin.name}_p", newest) for twin in twins}
    comment = [line for line in lines if not line.startswith("MUSTER_")]
    return "\n".join(comment + [f"{nodes[name]} {name}" for name in sorted(nodes)]) + "\n"


TEST_HEAD = """/* Written by tests/abi/pointer_twins.py: every call of a function with a twin calls the twin. */
#include "muster/muster.h"
#include "muster/pointers.h"
#include <string.h>

/* How often each twin was called, in this program. */
__attribute__((weak)) long twin_calls[TWINS];
static inline const muster_tensor *twin_address(const muster_tensor *tensor) {
    const muster_tensor none = muster_tensor_none();
    return memcmp(tensor, &none, sizeof none) == 0 ? NULL : tensor;
}
"""


def test_of(twins):
    lines = [TEST_HEAD.replace("TWINS", str(len(twins)))]
    lines.append("static const char *const twin_names[] __attribute__((unused)) = {" + ", ".join(f'"{twin.name}"' for twin in twins) + "};")
    for i, twin in enumerate(twins):
        values = [f"twin_address(&{variable})" if kind == "muster_tensor" else variable for kind, variable, _ in twin.arguments]
        call = f"{twin.name}_p({', '.join(values + ['&given_'] * twin.gives())});"
        lines.append(declaration(f"static inline {twin.result}", f"through_{twin.name}", [text for _, _, text in twin.arguments]) + " {")
        lines.append(f"    __atomic_fetch_add(&twin_calls[{i}], 1, __ATOMIC_RELAXED);")
        if twin.gives():
            lines.append(f"    {twin.result} given_;\n    memset(&given_, 0xEE, sizeof given_);\n    {call}\n    return given_;\n}}")
        else:
            lines.append(f"    return {call}\n}}")
        lines.append(f"#define {twin.name}(...) through_{twin.name}(__VA_ARGS__)")
    return "\n".join(lines) + "\n"


def main(folder, how=""):
    source = pathlib.Path(folder)
    twins, includes = with_twins(source)
    if how == "--test":
        print(test_of(twins), end="")
        return 0
    files = {HEADER: header_of(twins, includes), SOURCE: source_of(twins), ABI: abi_of((source / ABI).read_text(), twins)}
    faults = 0
    for name, text in files.items():
        path = source / name
        if how != "--check":
            path.write_text(text)
            continue
        found = path.read_text() if path.exists() else ""
        difference = list(difflib.unified_diff(found.splitlines(True), text.splitlines(True), name, "what the headers ask for"))
        if difference:
            faults += 1
            print("".join(difference) + f"the command that writes it: {sys.argv[0]} {folder}")
    print(f"{len(twins)} twins, {faults} files differ")
    return faults > 0 or len(twins) < 80


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
