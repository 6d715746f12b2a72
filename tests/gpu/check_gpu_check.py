"""check_gpu_check.py SOURCE SIM BUILD: script/gpu-check as a whole, on the simulated machine and without a GPU.

The programs that it runs are stand-ins, written here: some pass, some fail, one hangs. What is looked at is what the script itself does: the environment
without nvidia-smi, the choice of steps, the limits, the table, the exit code, and that the file to send tells nobody's name."""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

source, sim, real_build = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-check-"))
HOST, USER, HOME = "verysecrethost.example.org", "nobodyknows", str(folder / "home" / "nobodyknows")
checks = 0


def check(condition, text):
    global checks
    checks += 1
    if not condition:
        sys.exit(f"check_gpu_check.py: {text}")


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# The tools that the script uses, without nvidia-smi; uname and id tell names that must not come out.
tools = folder / "tools"
tools.mkdir()
for name in ("bash sh env sed grep awk cut tr head tail find date git nproc mkdir rm cat tee timeout du wc sort basename dirname ls cc gcc as ld ldconfig python3 sleep nm rev"
             " collect2 printf xargs uname").split():
    path = shutil.which(name)
    if path and name != "uname":
        (tools / name).symlink_to(path)
put(tools / "uname", f'case $1 in -n) echo {HOST} ;; *) echo "Linux 6.1 x86_64" ;; esac')
put(tools / "id", f"echo {USER}")

programs = folder / "built"
passing = ("sim_test_contract_driver sim_test_contract_edges sim_test_contract_nvrtc sim_test_contract_program sim_test_contract_cublas sim_test_contract_cudnn gpu_test_convolutions gpu_test_open gpu_test_spoiled gpu_test_sizes gpu_test_pairs"
           " gpu_test_bits gpu_test_nccl_life device_test_conformance ops_test_conformance muster-bench").split()
for name in passing:
    put(programs / name, "echo '[       OK ] one'; echo '[       OK ] two'")
put(programs / "gpu_test_collectives", 'echo "[       OK ] $MUSTER_DEVICES by ${MUSTER_COLLECTIVE_ALGORITHM-choice} of $MUSTER_CACHE_DIR"; env | sort >>"$GPU_CHECK_TRACE"')
put(programs / "gpu_test_products", f'echo "on {HOST}, by {USER}, in {HOME}/x, /home/other/y, {HOST.split(".")[0]}, GPU-01234567-89ab-cdef-0123-456789abcdef, 10.20.30.40" >&2; exit 3')
put(programs / "sim_test_contract_nccl", "trap '' TERM; sleep 60 & wait; sleep 60")
put(programs / "gpu_test_measure", "echo 'measured: all_reduce way=p2p type=f32 ranks=4 bytes=8 us=5.5'; echo 'measured: all_reduce way=nccl type=f32 ranks=4 bytes=8 us=40.25'")


def run(*words, devices=None, built=programs, **variables):
    report = folder / "report"
    shutil.rmtree(report, ignore_errors=True)
    environment = {"PATH": str(tools), "HOME": HOME, "USER": USER, "LOGNAME": USER, "HOSTNAME": HOST, "GPU_CHECK_TRACE": str(folder / "trace"), "LANG": "C", **variables}
    if devices:
        environment["MUSTER_SIM_DEVICES"] = str(devices)
    (folder / "trace").unlink(missing_ok=True)
    began = time.monotonic()
    done = subprocess.run([str(source / "script/gpu-check"), "--build", str(folder / "build"), "--report", str(report), *(["--built", str(built)] if built else []), *map(str, words)],
                          env=environment, capture_output=True, text=True, cwd=folder)
    text = (report / "gpu-check.txt").read_text() if (report / "gpu-check.txt").exists() else ""
    return done, text, time.monotonic() - began


def steps(text):
    """Of the table: {name: kind}"""
    table = text.split("== the table\n")[1]
    return {match[2].strip(): match[1] for match in re.finditer(r"^simulated: (passed|FAILED|skipped|left out) +(.{1,52}?)(?: {2,}.*)?$", table, re.M)}


# four GPUs, all steps: one fails, one hangs and is killed with what it started, the others pass, in order
done, text, seconds = run("--simulated", sim, "--step-seconds", 1, devices=4)
table = steps(text)
check(done.returncode == 1, f"expected exit 1, received {done.returncode}: {done.stderr}")
check("devices: 4" in text and "peer access: all pairs" in text and "driver: CUDA 13." in text, f"the environment is not told: {text}")
check(all(f"{key}: " in text for key in ("/dev/shm", "locked memory", "IOMMU groups", "module loading", "NVRTC", "NCCL", "library: cuBLAS")), "the environment lacks a line")
check(table["4 products"] == "FAILED" and table["9 products behind an all-reduce"] == "FAILED", f"a step that fails: {table}")
check(table["3 contract nccl"] == "FAILED" and "killed after 1 s" in text and seconds < 60, f"a step that hangs: {table}")
check(sum(kind == "FAILED" for kind in table.values()) == 3, f"expected 3 failures, received {table}")
check(table["6 memcheck of operations"] == "left out" and table["2 compile, cold"] == "passed", f"{table}")
check("2 tests" in text, "the table does not count tests")
numbers = [int(match) for match in re.findall(r"^simulated: (\d+) .{30,}(?:passed|FAILED|left out)", text.split("== the table")[0], re.M)]
check(numbers == sorted(numbers) and set(numbers) == set(range(2, 11)), f"the steps are not in order: {numbers}")
check("all_reduce     f32       4            8        5.5      40.25" in text, f"the table of times: {text}")
check("simulated: measured: all_reduce way=p2p" in text, "the report does not keep what was measured")
trace = (folder / "trace").read_text()
check(all(f"MUSTER_COLLECTIVE_ALGORITHM={way}\n" in trace for way in ("p2p", "nccl", "staged")), "not every way was forced")
check("MUSTER_DEVICES=cuda:4\n" in trace and "CUDA_DEVICE_MAX_CONNECTIONS=1\n" in trace and f"MUSTER_CACHE_DIR={folder}/build/cache\n" in trace, "the steps' environment")
# nobody's name, in the file or on the terminal
for where, what in (("the file", text), ("the terminal", done.stdout.replace(f"the file to send: {folder}", ""))):
    for secret in (HOST, HOST.split(".")[0], USER, HOME, "/home/", "01234567-89ab", "10.20.30.40"):
        check(secret.lower() not in what.lower(), f"{where} has {secret}")
check("on HOST, by USER, in ~/x, ~/y, HOST, GPU-..., ADDRESS" in text, f"the failure is not told: {text}")
check(not [line for line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines() if str(programs) in line], "a killed step goes on")

# one GPU: nothing between GPUs, and that is said
done, text, _ = run("--simulated", sim, "--only", "^(2|8|10) ", devices=1)
table = steps(text)
check(done.returncode == 0 and table["8 several GPUs"] == "left out" and "8 pairs" not in table and "4 products" not in table, f"one GPU: {done.returncode}, {table}")
check("peer access: one device" in text, "one GPU has peers")
# no peers
done, text, _ = run("--simulated", sim, "--only", "^8 pairs", devices=2, MUSTER_SIM_PEERS="0")
check(done.returncode == 0 and "peer access: none" in text and "peers of 1: 0 -" in text and steps(text) == {"8 pairs": "passed"}, f"no peers: {text}")

# instances of a GPU in MIG mode
done, text, _ = run("--simulated", sim, "--only", "^2 compile, warm", devices=2, MUSTER_SIM_MIG="1")
check(done.returncode == 0 and "MIG: device 0 is an instance" in text and "MIG: device 1" not in text and "peer access: none" in text, f"MIG: {text}")

# no driver: 77 without device files, 1 with some
empty, files = folder / "empty", folder / "devices"
empty.mkdir()
files.mkdir()
done, text, _ = run("--libraries", empty, "--device-files", files)
check(done.returncode == 77 and "has no NVIDIA GPU" in text and "no GPU: no driver" in text, f"no GPU: {done.returncode}, {done.stdout}")
(files / "nvidiactl").touch()
check(run("--libraries", empty, "--device-files", files)[0].returncode == 77, "nvidiactl alone is no GPU")
(files / "nvidia0").touch()
done, text, _ = run("--libraries", empty, "--device-files", files)
check(done.returncode == 1 and "there are device files of a GPU" in text and "library: driver: libcuda.so.1: missing" in text, f"no driver: {done.returncode}, {done.stdout}")
(files / "nvidia0").unlink()
(files / "dxg").touch()
check(run("--libraries", empty, "--device-files", files)[0].returncode == 1, "a GPU of WSL is not seen")

# a build: every program that a step runs is asked for, and is a target of the build of this tree
put(tools / "cmake", f'case $1 in --version) echo "cmake version 3.25.1" ;; --build) echo "$@" >>{folder}/targets ;; esac')
put(tools / "ninja", "true")
done, text, _ = run("--simulated", sim, "--only", "no step", built=None)
asked = set(re.findall(r"--target (\S+)", (folder / "targets").read_text()))
used = {name for name in re.findall(r"\b(?:gpu_test|sim_test_contract|device_test|ops_test)_[a-z_]+", (source / "script/gpu-check").read_text()) if not name.endswith("_")}
check(done.returncode == 0 and used <= asked and {"muster", "muster-bench", "gpu_test_open"} <= asked, f"built: {sorted(asked)}, run: {sorted(used)}")
ninja = real_build / "build.ninja"
check(not ninja.exists() or all(re.search(rf"^build {name}: phony", ninja.read_text(), re.M) for name in asked), f"no target of the build: {sorted(asked)}")
for name in ("cmake", "ninja"):
    (tools / name).unlink()

# wrong options
for words, expected in ((("--seconds", "x"), "expected a number from 1 on"), (("--step-seconds", "0"), "expected a number from 1 on"), (("--only",), "expected a value"),
                        (("--simulated", empty), "no simulated machine"), (("--libraries", folder / "none"), "no such folder"), (("x",), "unexpected \"x\"")):
    done, _, _ = run(*words)
    check(done.returncode == 2 and expected in done.stderr, f"{words}: {done.returncode}, {done.stderr}")

# thresholds from its report; no real build is needed for that
done, text, _ = run("--simulated", sim, "--only", "^10 measure", devices=4)
done = subprocess.run([sys.executable, str(source / "script/thresholds"), "--simulated", str(folder / "report/gpu-check.txt")], capture_output=True, text=True)
check(done.returncode == 0 and re.search(r'MST_THRESHOLD\(8, p2p_bytes, "[^"]+"\) /\* measured \d{4}-\d\d-\d\d, simulated \*/', done.stdout), f"thresholds: {done.stdout}{done.stderr}")
shutil.rmtree(folder)
if checks != 46:
    sys.exit(f"check_gpu_check.py: expected 46 checks, received {checks}")
print(f"{checks} checks")
