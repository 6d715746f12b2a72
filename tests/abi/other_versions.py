#!/usr/bin/env python3
"""other_versions.py BUILD CMAKE CC FROZEN: programs that were compiled with older and newer headers, run against the installed library.

For every struct that begins with struct_size other_versions.c is compiled with the installed headers after one change to that struct:
  minus   its last field is gone (with `reserved`, which only fills the struct up, and with one of 4 bytes, also the field before)
  oldest  struct_size alone is left
  plus    three more words at its end
At last the programs of "minus" run with initialisers that write the library's size, which they have to notice.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

OPTIONS = ["muster_runtime_options", "muster_call_options", "muster_kernel_options", "muster_server_options", "muster_driver_options",
           "muster_allocator_options", "muster_graph_options", "muster_gradient_check_options",
           "muster_operator_options", "muster_rule_options", "muster_initialiser_options"]
RESULTS = ["muster_device_info", "muster_kernel_limits", "muster_server_statistics", "muster_driver_counts", "muster_state_description",
           "muster_graph_memory", "muster_library_info", "muster_threshold_info"]
VARIANTS = ["minus", "oldest", "plus"]
STRUCT = r"(typedef struct (%s) \{)(.*?)(\} \2;)"


def sized_structs(text):
    """The names of the structs whose first field is struct_size."""
    found = re.findall(STRUCT % r"muster_\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.S), flags=re.S)
    return {name for _, name, body, _ in found if re.match(r"\s*size_t struct_size;", body)}


def without_last(declarations):
    """The declarations without their last field."""
    *others, last = declarations
    if "(*" in last or "," not in last:
        return others, re.search(r"(\w+)\s*(\[\d+\])*$|\(\*(\w+)\)", last).group(0)
    kept, name = last.rsplit(",", 1)
    return [*others, kept], name.strip()


def changed(body, variant):
    declarations = [part.strip() for part in body.split(";") if part.strip()]
    if variant == "plus":
        declarations.append("int64_t added[3]")
    elif variant == "oldest":
        declarations = declarations[:1]
    else:
        name, removed = "reserved", 0
        while removed < 8 or re.fullmatch(r"reserved\d*", name):
            removed += 4 if re.match(r"(u?int32_t|muster_log_level|muster_graph_meaning)\b", declarations[-1]) else 8
            declarations, name = without_last(declarations)
    return "".join(f"    {declaration};\n" for declaration in declarations)


def write_headers(installed, folder, struct, variant):
    """Returns whether struct_size alone is left of the struct."""
    shutil.copytree(installed, folder)
    bodies = []
    for path in sorted(folder.glob("muster/*.h")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        bodies += [changed(body, variant) for _, _, body, _ in re.findall(STRUCT % struct, text, flags=re.S)]
        path.write_text(re.sub(STRUCT % struct, lambda m: m[1] + "\n" + bodies[-1] + m[4], text, flags=re.S))
    if len(bodies) != 1:
        raise ValueError(f"{struct}: expected one definition in the installed headers, found {len(bodies)}")
    return bodies[0].split() == ["size_t", "struct_size;"]


class Test:
    def __init__(self, work, build, cmake, cc, frozen):
        self.work, self.cc = work, cc
        prefix = work / "prefix"
        subprocess.run([cmake, "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        self.include = prefix / "include"
        self.lib = next(prefix.rglob("libmuster.so")).parent
        self.sizes = dict(re.findall(r"^SIZE\((\w+), (\d+)\)", pathlib.Path(frozen).read_text(), flags=re.M))
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_") or name.startswith("MUSTER_OPENCL")}
        self.environment |= {"MUSTER_DEVICES": "host:2", "LD_LIBRARY_PATH": str(self.lib)}

    def compile(self, *arguments):
        subprocess.run([self.cc, "-std=c11", "-Wall", "-Wextra", "-Werror", *arguments], check=True)

    def program(self, struct, variant):
        folder = self.work / f"{struct}_{variant}"
        folder.mkdir()
        oldest = [f"-DOLDEST_{struct}"] if write_headers(self.include, folder / "include", struct, variant) else []
        source = pathlib.Path(__file__).with_suffix(".c")
        self.compile("-O1", *oldest, "-I", folder / "include", source, "-o", folder / "program", "-L", self.lib, "-lmuster")
        return folder / "program"

    def run(self, program, struct, variant, **environment):
        command = [program, struct, variant, self.sizes[struct]]
        if struct in ("muster_graph_options", "muster_gradient_check_options", "muster_rule_options", "muster_state_description"):  # the default meaning of a graph is for one device
            environment["MUSTER_DEVICES"] = "host:1"
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment | environment, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def verdict(self, case):
        code, said = self.run(self.program(*case), *case)
        if code:
            print(f"{' '.join(case)}: exit status {code}\n{said}")
        return code == 0

    def careless(self):
        """Initialisers that write the library's size, as they once did: how many of the programs notice."""
        source = "#include <string.h>\n" + "".join(
            f"void {struct}_init_sized(void *options, size_t size) {{ memset(options, 0, {self.sizes[struct]}); memcpy(options, &size, sizeof size); }}\n"
            for struct in OPTIONS)
        (self.work / "careless.c").write_text(source)
        library = self.work / "careless.so"
        self.compile("-shared", "-fPIC", "-Wno-missing-prototypes", self.work / "careless.c", "-o", library)
        noticed = 0
        for struct in OPTIONS:
            code, said = self.run(self.work / f"{struct}_minus" / "program", struct, "minus", LD_PRELOAD=str(library))
            if code == 1 and "the library has written beyond the program's" in said:
                noticed += 1
            else:
                print(f"{struct}: an initialiser that writes the library's size was not noticed: exit status {code}\n{said}")
        return noticed


def main(build, cmake, cc, frozen):
    with tempfile.TemporaryDirectory() as work:
        test = Test(pathlib.Path(work), build, cmake, cc, frozen)
        structs = sized_structs("\n".join(path.read_text() for path in test.include.glob("muster/*.h")))
        if structs != {*OPTIONS, *RESULTS}:
            print(f"expected the sized structs {sorted([*OPTIONS, *RESULTS])}, found {sorted(structs)} in the installed headers")
            return 1
        cases = [(struct, variant) for struct in [*OPTIONS, *RESULTS] for variant in VARIANTS]
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            passed = sum(threads.map(test.verdict, cases))
        noticed = test.careless()
        print(f"{len(OPTIONS)} option structs, {len(RESULTS)} result structs, {passed} of {len(cases)} programs passed, "
              f"{noticed} of {len(OPTIONS)} careless initialisers noticed")
        return 0 if passed == 51 and noticed == 11 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
