"""A process that meets an error ends the whole launch, with a status that is not 0, within seconds: error_suite.py NAME FOLDER PROGRAM LIBRARY. NAME is an
MPI, FOLDER holds the shims, PROGRAM is error_program, LIBRARY is libmuster.so. The last of 2, 3 and 4 processes with a device each, and of 2 with two each, aborts, exits without closing, or fails in its body. And what is said, once, when the launcher binds each process to one CPU of several;
and processes with another build of the library, or with another number of logical shards."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

import launching

name, folder, program, library = sys.argv[1:5]
SECONDS = 30  # far above what it takes
HOST = re.escape(socket.gethostname())
# By what the last process does: the exit status that it asks for, and what is said, with the number of its process.
WAYS = {
    "abort": (77, None),
    "abort_outside": (78, None),
    "exit": (3, r"muster: process {last} \(host " + HOST + r"\) exits with code 3 and an open runtime, and other processes do not exit: the launch is aborted"),
    "exit_outside": (4, r"muster: process {last} \(host " + HOST + r"\) exits with code 4 and an open runtime, and other processes do not exit: the launch is aborted"),
    "fail": (1, r"process \d: function 'step': the batch is empty \(rank {rank}\)"),
}
environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_MPI_SHIM=folder, MUSTER_NODES="mpi")


def launch(way, processes, each):
    """True where it ends as it should."""
    status, sentence = WAYS[way]
    begin = time.monotonic()
    try:
        done = launching.run([*launching.launcher(name, processes), program, way, f"host:{each}"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=2 * SECONDS)
        code, output = done.returncode, done.stdout.decode(errors="replace")
    except launching.Hangs as hung:
        code, output = 0, str(hung)
    seconds = time.monotonic() - begin
    said = len(re.findall(sentence.format(last=processes - 1, rank=processes * each - 1), output)) if sentence else 0
    most = {"fail": processes}.get(way, 1)
    # A launcher may end a process before it has written; Open MPI's passes the status on.
    right = (seconds < SECONDS or seconds < launching.patience(SECONDS)) and (code == status if name == "openmpi" else code != 0) and (not sentence or 1 <= said <= most)
    print(f"{way} x {processes} x {each}: exit {code}, {seconds:.1f} s, {'right' if right else 'WRONG'}\n{'' if right else output}", end="", flush=True)
    return right


# most of the time a launcher waits for processes that have ended
with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
    results = [pool.submit(launch, way, *layout) for way in WAYS for layout in ((2, 1), (3, 1), (4, 1), (2, 2))]
faults = sum(not result.result() for result in results)


def binding(bound):
    """The lines about it, of two processes that are, each on a host of its own, bound to one CPU or not."""
    command = [*launching.launcher(name, 2, each=[["env", f"MUSTER_HOSTNAME={host}", *bound] for host in "ab"]), program, "well"]
    done = launching.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * SECONDS)
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if "CPU" in line]
    print(f"{' '.join(command)}: exit {done.returncode}, {lines}")
    return lines if done.returncode == 0 else None


def refused(what, sentence, *others, processes=3):
    """1 unless all processes, of which the last one has `others` in its environment, refuse with the same sentence."""
    command = [*launching.launcher(name, processes, each=[[]] * (processes - 1) + [["env", *others]]), program, "well"]
    done = launching.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * SECONDS)
    output = done.stdout.decode(errors="replace")
    said = re.findall(rf"process -1: (muster_runtime_open: {sentence})\n", output)
    # They refuse together, so that MPI is finalised by all of them.
    right = done.returncode != 0 and 1 <= len(said) <= processes and len(set(said)) == 1 and "without MPI_Finalize" not in output
    print(f"{what}: exit {done.returncode}, said {len(said)} times by {processes} processes{'' if right else ', WRONG: ' + output}", flush=True)
    return not right


def build_id_place(data):
    """(begin, end) of the build id in the bytes of an ELF file of this machine's kind, of 64 bits; its length is the linker's choice."""
    table, entry, entries = struct.unpack_from("Q", data, 32)[0], *struct.unpack_from("HH", data, 54)
    for i in range(entries):
        kind, _, at, _, _, size = struct.unpack_from("IIQQQQ", data, table + i * entry)
        end = at + size
        while kind == 4 and at + 12 <= end:  # PT_NOTE
            name_size, id_size, note = struct.unpack_from("III", data, at)
            begin = at + 12 + (name_size + 3) // 4 * 4
            if note == 3 and data[at + 12 : at + 16] == b"GNU\0":  # NT_GNU_BUILD_ID
                return begin, begin + id_size
            at = begin + (id_size + 3) // 4 * 4
    return None


def other_build(path):
    """Writes a copy of the library with another build id; returns both ids as messages have them. The text is that of every process which has the
    library itself."""
    data = bytearray(pathlib.Path(library).read_bytes())
    place = build_id_place(data)
    if place is None:
        return None
    begin, end = place
    own = bytes(data[begin:end]).hex()
    data[begin] ^= 0xFF
    path.write_bytes(data)
    return own, bytes(data[begin:end]).hex()


PLACES = r"'{0}' in process 0 \(host " + HOST + r"\) and '{1}' in process 2 \(host " + HOST + r"\)"
with tempfile.TemporaryDirectory() as folder_of_other:
    # Loaded first, it serves whatever the program's own path says of the library; what was to be loaded first still is, after it.
    other = pathlib.Path(folder_of_other, pathlib.Path(library).resolve().name)
    builds = other_build(other)
    if builds is None:
        print("the library has no build id: the linker's option --build-id makes one")
        faults += 1
    else:
        preloaded = ":".join([str(other), *filter(None, [os.environ.get("LD_PRELOAD")])])
        faults += refused("another build", "build: expected the same in all processes, received " + PLACES.format(*builds), f"LD_PRELOAD={preloaded}")
faults += refused("other shards", r"logical_shards: expected the same in all processes, received " + PLACES.format(0, 6), "MUSTER_LOGICAL_SHARDS=6")
faults += refused("a wrong grace", r"the environment's MUSTER_EXIT_AFTER: expected seconds, from 0 to 86400, received 'x', in process 2 \(host " + HOST + r"\)",
                  "MUSTER_EXIT_AFTER=x")
if os.cpu_count() > 1 and shutil.which("taskset"):
    LINE = (f"this process may run on 1 of the {os.cpu_count()} CPUs of its host: the launcher binds it (mpirun --bind-to none, srun --cpu-bind=none or "
            "--cpus-per-task)")
    lines = binding(["taskset", "-c", "0"])
    faults += lines is None or len(lines) != 2 or not all(line.endswith(LINE) for line in lines)
    faults += binding([]) != []
print(f"{len(results)} launches, {faults} faults")
sys.exit(faults != 0 or len(results) != 20)
