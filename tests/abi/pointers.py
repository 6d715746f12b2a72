#!/usr/bin/env python3
"""pointers.py HEADERS CC CXX: which pointers muster_f32 and its like take, in C11 and C++17, by the build's compilers and by clang.

Accepted: pointers to the element type, arrays of one to three dimensions, with and without const, and void *. They compile without a warning,
and a muster_tensor_make of this test's own receives what the call says. Refused: pointers to every other type, each by the compiler's
sentence about this very type."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-Wcast-qual"]
LANGUAGES = {"c": ["-x", "c", "-std=c11"], "c++": ["-x", "c++", "-std=c++17", "-Wold-style-cast", "-Wno-unused-function"]}
MACROS = {"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t"}
# int64_t is one of long and long long.
ELEMENTS = [*MACROS.items(), ("i64", "long"), ("i64", "long long")]
OTHERS = ["float", "double", "int32_t", "int64_t", "uint8_t", "int8_t", "uint32_t", "float *", "struct other", "long long", "unsigned long long"]
# A declaration of x with the element type T, and the shape of the view.
ACCEPTED = [("static T *x = cells;", "2, 3"), ("static const T *x = cells;", "2, 3"), ("static T x[6];", "6"), ("static T x[2][3];", "2, 3"),
            ("static T x[2][3][4];", "2, 3, 4"), ("static const T x[6] = {0};", "6"), ("static const T x[2][3] = {{0}};", "2, 3"),
            ("static const T x[2][3][4] = {{{0}}};", "2, 3, 4"), ("static void *x = cells;", "3, 2"), ("static const void *x = cells;", "3, 2"),
            ("static T (*x)[3] = rows;", "2, 3"), ("static const T (*x)[3] = constant_rows;", "2, 3"), ("static T x[1];", "")]
REFUSED = ["static T *x;", "static const T *x;", "static T x[2][3];", "static T x[2][3][4];"]

HEAD = """#include "muster/muster.h"
#include <stdio.h>
struct other { float value; };
static const void *expected_data;
static muster_dtype expected_dtype;
static int32_t expected_ndim;
static const int64_t *expected_shape;
static int calls, wrong;
muster_tensor muster_tensor_make(muster_dtype dtype, void *data, int32_t ndim, const int64_t *shape) {
    static const muster_tensor none = MUSTER_NO_TENSOR;
    int right = dtype == expected_dtype && data == expected_data && ndim == expected_ndim;
    for (int32_t i = 0; right && i < ndim; i++) right = shape[i] == expected_shape[i];
    calls++;
    wrong += !right;
    return none;
}
"""


def view(language, macro, shape):
    arguments = shape if language == "c" else "{%s}" % shape
    return f"muster_{macro}(x{', ' if shape else ''}{arguments if shape else ''})"


def with_type(declaration, element):
    return re.sub(r"\bT\b", element, declaration)


def accepted_program(language):
    """(text, number of cases): a program that exits 0 if each call brought the data, dtype and shape that it says."""
    cases = []
    for macro, element in ELEMENTS:
        for declaration, shape in ACCEPTED:
            sizes = [size for size in shape.split(", ") if size]
            cases.append(f"""static void case_{len(cases)}(void) {{
    static const int64_t shape[] = {{{', '.join(sizes + ['0'])}}};
    static {element} cells[6], rows[2][3];
    static const {element} constant_rows[2][3] = {{{{0}}}};
    {with_type(declaration, element)}
    (void)cells, (void)rows, (void)constant_rows;
    expected_data = x, expected_dtype = MUSTER_{macro.upper()}, expected_ndim = {len(sizes)}, expected_shape = shape;
    (void){view(language, macro, shape)};
}}""")
    calls = "".join(f"    case_{i}();\n" for i in range(len(cases)))
    head = HEAD.replace("MUSTER_NO_TENSOR", "{0}" if language == "c" else "{}")
    return head + "\n".join(cases) + f"\nint main(void) {{\n{calls}    printf(\"%d calls, %d wrong\\n\", calls, wrong);\n    return wrong != 0;\n}}\n", len(cases)


def refused_program(language):
    """(text, {line: (macro, declaration)}): one call in each line of its own, none of which may compile."""
    lines, cases = ['#include "muster/muster.h"', "struct other { float value; };"], {}
    for macro, element in MACROS.items():
        for other in OTHERS:
            for form in REFUSED if (macro, other) not in ELEMENTS else []:
                declaration = with_type(form, other)
                lines.append(f"void f{len(lines)}(void); void f{len(lines)}(void) {{ {declaration} (void){view(language, macro, '2, 3')}; }}")
                cases[len(lines)] = macro, declaration
    return "\n".join(lines) + "\n", cases


def reasons(output):
    """{line: the compiler's words about it}. g++ names the call before the error in the header, the others after it."""
    start = r"^.*: In instantiation of" if ": In instantiation of" in output else r"^.* error: "
    blocks = re.split(f"(?={start})", output, flags=re.M)[1:]
    return {int(line): block for block in blocks for line in re.findall(r"^refused\.txt:(\d+):", block, flags=re.M)}


def right_reason(text, language):
    if language == "c":
        return re.search("(selector of|controlling expression) type .*not compatible with any (generic )?association", text)
    return "expected a pointer to the element type, to rows or matrices of it, or to void" in text


def run(compiler, language, headers):
    text, count = accepted_program(language)
    pathlib.Path("accepted.txt").write_text(text)
    command = [compiler, *LANGUAGES[language], *FLAGS, "-I", headers]
    subprocess.run([*command, "accepted.txt", "-o", "accepted"], check=True)
    output = subprocess.run(["./accepted"], capture_output=True, text=True).stdout.strip()
    good = output == f"{count} calls, 0 wrong"
    text, cases = refused_program(language)
    pathlib.Path("refused.txt").write_text(text)
    limit = "-ferror-limit=0" if "clang" in compiler else "-fmax-errors=0"
    result = subprocess.run([*command, limit, "-fsyntax-only", "refused.txt"], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    found = reasons(result.stderr)
    for line, (macro, declaration) in cases.items():
        if line not in found or not right_reason(found[line], language):
            print(f"{compiler}, {language}: {declaration} muster_{macro}(x, 2, 3): expected it refused for its type, received: {found.get(line, 'accepted')}")
            good = False
    print(f"{compiler}, {language}: accepted: {output}; {len(cases)} refused")
    return good, count, len(cases)


def main(headers, cc, cxx):
    compilers = [("c", cc), ("c++", cxx)]
    for language, name in ("c", "clang"), ("c++", "clang++"):
        if shutil.which(name) and "clang" not in (cc + cxx):
            compilers.append((language, shutil.which(name)))
    if len(compilers) == 2:
        print("clang is not here: only the build's own compilers are tried")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        results = [run(compiler, language, headers) for language, compiler in compilers]
    return all(good and accepted == 91 and refused == 196 for good, accepted, refused in results)


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
