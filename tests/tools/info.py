#!/usr/bin/env python3
"""info.py PROGRAM SIMULATED [LIBRARY]: muster-info as text and as JSON, with libraries that are there and that are missing, on simulated GPUs (SIMULATED: the
folder of the simulated libraries), with thresholds from a file, and with wrong arguments. LIBRARY: libmuster.so, whose description of a runtime says the same."""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NAMES = ["OpenBLAS", "oneDNN", "hwloc", "OpenCL", "CUDA driver", "NVRTC", "cuBLAS", "cuDNN", "NCCL", "MPI shim"]
CHECKS = 0


def expect(condition, what):
    global CHECKS
    CHECKS += 1
    if not condition:
        sys.exit(f"wrong: {what}")


class Info:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.base = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "CUDA_", "OMPI_", "PMI"))}

    def run(self, *arguments, **variables):
        """Variables with None are left out."""
        given = {key: value for key, value in {"MUSTER_CUDA_LIBRARIES": "/nowhere", **variables}.items() if value is not None}
        return subprocess.run([self.program, *arguments], env={**self.base, **given}, capture_output=True)

    def json(self, **variables):
        done = self.run("--json", **variables)
        expect(done.returncode == 0, done)
        return json.loads(done.stdout.decode("utf-8"))

    def library(self, name, **variables):
        return next(one for one in self.json(**variables)["libraries"] if one["name"] == name)


def shapes(info):
    """What every output has, whatever the machine has."""
    found = info.json()
    expect(list(found) == ["version", "devices", "libraries", "thresholds"], list(found))
    expect(re.fullmatch(r"\d+\.\d+\.\d+", found["version"]), found["version"])
    expect([one["name"] for one in found["libraries"]] == NAMES, found["libraries"])
    expect([one["index"] for one in found["libraries"]] == list(range(len(NAMES))), found["libraries"])
    for one in found["libraries"]:
        expect(one["work"], one)
        expect(pathlib.Path(one["path"]).is_file() and re.search(r"\d", one["version"]) if one["found"] else one["path"] == one["version"] == "" and one["text"], one)
    expect(found["devices"] and all(one["backend"] == "host" and one["name"].startswith("host") for one in found["devices"]), found["devices"])
    memory = int(re.search(r"MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
    expect(all(one["memory_total"] == memory for one in found["devices"]), (memory, found["devices"]))
    expect([(one["device"], one["name"]) for one in found["thresholds"]] == [(0, "p2p_bytes"), (0, "staged_bytes"), (0, "reduced_saved_bytes")], found)
    return found


def texts(info, found):
    done = info.run()
    text = done.stdout.decode()
    expect(done.returncode == 0 and not done.stderr, done)
    expect(text.startswith(f"Muster {found['version']}\ndevices:\n"), text)
    heads = re.findall(r"^(\S.*):$", text, flags=re.M)
    expect([head for head in heads if head != "libraries"] == ["devices", "missing", "thresholds of device 0"], heads)
    there, missing = text.split("\nmissing:\n")
    for one in found["libraries"]:
        part = there if one["found"] else missing
        expect(re.search(rf"^  {re.escape(one['name'])} +{re.escape(one['work'])}$", part, flags=re.M), (one, text))
        expect(f"      version {one['version']}, {one['path']}\n" in part if one["found"] else f"      {one['text']}\n" in part, (one, text))


def missing(info, library):
    """Each library that is missing is named with the sentence that the library itself has."""
    cases = [
        ("OpenBLAS", {"MUSTER_BLAS": "none"}, 'no BLAS: MUSTER_BLAS is "none"'),
        ("OpenBLAS", {"MUSTER_BLAS": "/nowhere/libopenblas.so.0"}, "no BLAS: /nowhere/libopenblas.so.0: cannot open shared object file"),
        ("oneDNN", {"MUSTER_ONEDNN": "none"}, 'not used, MUSTER_ONEDNN is "none"'),
        ("oneDNN", {"MUSTER_ONEDNN": "/nowhere/dnnl.so"}, 'none: MUSTER_ONEDNN: expected a library, received "/nowhere/dnnl.so"'),
        ("OpenCL", {"MUSTER_OPENCL_LIBRARY": "none"}, "kernels on CPU cores need OpenCL: install the package pocl-opencl-icd"),
        ("CUDA driver", {}, "the CUDA driver was not found: tried libcuda.so.1 in /nowhere: "),
        ("NVRTC", {}, "not looked for without the CUDA driver: the CUDA driver was not found: tried libcuda.so.1 in /nowhere: "),
        ("cuBLAS", {}, "not looked for without the CUDA driver: "),
        ("cuDNN", {}, "not looked for without the CUDA driver: "),
        ("NCCL", {}, "not looked for without the CUDA driver: "),
        ("MPI shim", {"MUSTER_MPI_SHIM": "/nowhere/shim.so"}, "expected a shim (libmuster-mpi-*.so) or a folder of shims, received \"/nowhere/shim.so\""),
    ]
    for name, variables, words in cases:
        one = info.library(name, **variables)
        expect(not one["found"] and words in one["text"] and one["path"] == one["version"] == "", (words, one))
        text = info.run(**variables).stdout.decode()
        expect(one["text"] in text.split("\nmissing:\n")[1], text)
    if library:
        described(info, library)


def described(info, library):
    """The description of a runtime says the same, word for word."""
    for blas in ("none", "/nowhere/libopenblas.so.0", ""):
        code = ("import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\nruntime = ctypes.c_void_p()\n"
                "assert library.muster_runtime_open(None, ctypes.byref(runtime)) == 0\n"
                "library.muster_runtime_description.restype = ctypes.c_char_p\nprint(library.muster_runtime_description(runtime).decode())\n")
        variables = {**info.base, "MUSTER_CUDA_LIBRARIES": "/nowhere", "MUSTER_DEVICES": "host:1", "MUSTER_BLAS": blas}
        lines = subprocess.run([sys.executable, "-c", code, library], env=variables, capture_output=True, text=True, check=True).stdout.splitlines()
        said = dict(line.split(": ", 1) for line in lines if ": " in line)
        expect(said["BLAS"] == info.library("OpenBLAS", MUSTER_BLAS=blas)["text"], (said, blas))
        hwloc = info.library("hwloc")
        expect(said["topology"].startswith(f"hwloc {hwloc['version']}," if hwloc["found"] else "kernel,"), (said, hwloc))


def simulated(info, simulated_folder):
    found = info.json(MUSTER_CUDA_LIBRARIES=simulated_folder, MUSTER_SIM_DEVICES="2")
    gpus = [one for one in found["devices"] if one["backend"] == "cuda"]
    expect([(one["index"], one["ordinal"], one["name"]) for one in gpus] == [(0, 0, "cuda:0 Simulated GPU"), (1, 1, "cuda:1 Simulated GPU")], found["devices"])
    expect(all((one["capability_major"], one["capability_minor"], one["memory_free"]) == (9, 0, None) and one["uuid"].startswith("GPU-") for one in gpus), gpus)
    for name in NAMES[4:9]:
        one = next(one for one in found["libraries"] if one["name"] == name)
        expect(one["found"] and pathlib.Path(one["path"]).parent == pathlib.Path(simulated_folder).resolve(), one)
    expect([one["device"] for one in found["thresholds"]] == [0, 0, 0, 1, 1, 1], found["thresholds"])
    text = info.run(MUSTER_CUDA_LIBRARIES=simulated_folder, MUSTER_SIM_DEVICES="2").stdout.decode()
    expect("  0  cuda:0 Simulated GPU, " in text and ", compute capability 9.0, GPU-" in text and "thresholds of device 1:\n" in text, text)


def thresholds(info, simulated_folder):
    rows = info.folder / "rows"
    rows.write_text('MST_THRESHOLD(17, p2p_bytes, "sm_90")\nMST_THRESHOLD(18, staged_bytes, "any")\nMST_THRESHOLD(19, reduced_saved_bytes, "sm_80")\n')
    variables = {"MUSTER_THRESHOLDS": str(rows), "MUSTER_CUDA_LIBRARIES": simulated_folder, "MUSTER_SIM_DEVICES": "1"}
    found = [(one["bytes"], one["kind"], one["source"]) for one in info.json(**variables)["thresholds"]]
    expect(found[:2] == [(17, "sm_90", str(rows)), (18, "any", str(rows))] and found[2][1:] == ("any", ""), found)
    text = info.run(**variables).stdout.decode()
    expect(f"  p2p_bytes            17 bytes (for sm_90, from {rows})\n" in text and "(for any, from the library's table)\n" in text, text)
    rows.write_text("no row\n")
    wrong = info.json(**variables)["thresholds"]
    expect(len(wrong) == 3 and all("line 1: expected a row" in one["error"] for one in wrong), wrong)


def arguments(info):
    for given, named in [(["--jsno"], "--jsno"), (["--json", "twice"], "twice"), ([""], ""), (["-h"], "-h")]:
        done = info.run(*given)
        words = f'muster-info: expected no argument, --json, --help or --version, received "{named}"\n'
        expect(done.returncode == 2 and not done.stdout and done.stderr.decode() == words, done)
    text = info.run("--help").stdout.decode()
    expect(re.findall(r"^([A-Z ]+)$", text, flags=re.M) == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT"], text)
    expect(all(len(line) <= 100 for line in text.splitlines()), text)
    expect(info.run("--version").stdout.decode() == f"muster-info {info.json()['version']}\n", "--version")
    with open("/dev/full", "w") as full:
        done = subprocess.run([info.program], env={**info.base, "MUSTER_CUDA_LIBRARIES": "/nowhere"}, stdout=full, stderr=subprocess.PIPE)
    expect(done.returncode == 1 and b"muster-info: the output could not be written: " in done.stderr, done)


def odd_names(info):
    """Any bytes of a file's name leave JSON that others read."""
    for name in (b'/no"where\\x', b"/no\nwhere\t", b"/no\xffwhere", "/nö/wö".encode(), b"/cut\xc3"):
        text = info.library("OpenBLAS", MUSTER_BLAS=os.fsdecode(name))["text"]
        expect("cannot open shared object file" in text, text)


def main(program, simulated_folder, library=None):
    with tempfile.TemporaryDirectory() as folder:
        info = Info(program, pathlib.Path(folder))
        texts(info, shapes(info))
        missing(info, library)
        simulated(info, simulated_folder)
        thresholds(info, simulated_folder)
        arguments(info)
        odd_names(info)
    print(f"{CHECKS} checks")
    return CHECKS != (130 if library else 118)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
