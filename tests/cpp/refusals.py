#!/usr/bin/env python3
"""refusals.py HEADERS CXX: what muster.hpp does not compile, each for its reason; beside each stands what does."""
import re
import subprocess
import sys

HEAD = """#include "muster/muster.hpp"
#include <complex>
#include <vector>
using worker = muster_worker *;
using in = const muster_tensor *;
using out = muster_tensor *;
void use(const muster::runtime &rt, std::vector<float> &x, const muster::variable &v);
void use(const muster::runtime &rt, std::vector<float> &x, const muster::variable &v) {
    static_cast<void>(rt), static_cast<void>(x), static_cast<void>(v);
    int n = 0;
    static_cast<void>(n);
    %s
}
"""
CASES = [  # refused, the compiler's words (a part), accepted
    ('muster::function f(rt, "f", [n](worker, in, out) mutable { n++; });', "expected a body that can be called as const",
     'muster::function f(rt, "f", [n](worker, in, out) { static_cast<void>(n); });'),
    ('muster::function f(rt, "f", [](worker) {});', "expected a body that can be called as const", 'muster::function f(rt, "f", [](worker, in, out) {});'),
    ("muster::tensor(static_cast<std::complex<float> *>(nullptr), {2});", "expected an element type that Muster has",
     "muster::tensor(static_cast<float *>(nullptr), {2});"),
    ("muster::tensor(static_cast<uint16_t *>(nullptr), {2});", "expected an element type that Muster has", "muster::tensor(static_cast<int16_t *>(nullptr), {2});"),
    ("muster::tensor(std::vector<float>(3));", "[rl]value", "muster::tensor(x);"),
    ("muster::variable w(v);", "deleted", 'muster::variable w(rt, "w", muster::tensor(x));'),
    ('muster::function(rt, "f", [](worker, in, out) {}).async({});', "nodiscard",
     'auto p = muster::function(rt, "f", [](worker, in, out) {}).async({});'),
    ("muster_runtime_dump(rt, 1); muster_runtime_trace(rt, nullptr);", "muster_runtime_trace", "muster_runtime_dump(rt, 1);"),
]


def compile_text(compiler, headers, statement):
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-I", headers, "-c", "-o", "/dev/null", "-x", "c++", "-"]
    done = subprocess.run(command, input=HEAD % statement, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return done.returncode == 0, done.stderr


def main(headers, compiler):
    wrong = 0
    for refused, words, accepted in CASES:
        compiles, errors = compile_text(compiler, headers, refused)
        if compiles or not re.search(words, errors):
            print(f"{refused}: expected it refused with \"{words}\", received: {'accepted' if compiles else errors}")
            wrong += 1
        compiles, errors = compile_text(compiler, headers, accepted)
        if not compiles:
            print(f"{accepted}: expected it accepted, received: {errors}")
            wrong += 1
    print(f"{len(CASES)} refusals, {wrong} faults")
    return wrong == 0 and len(CASES) == 8


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
