"""Collectives by an MPI's own, as a file says: ways_suite.py NAME FOLDER PROGRAM ERRORS. NAME is an MPI, FOLDER holds the shims, PROGRAM is
ways_program, ERRORS is error_program. 2 processes, with --full also 3 and 4."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import launching

name, folder, program, errors = sys.argv[1:5]
full = os.environ.get("MUSTER_TEST_FULL")
TEXT = {"openmpi": "Open MPI", "mpich": "MPICH"}
ALL = "".join(f'MST_NODES_WAY(mpi, "{TEXT[name]}", one_host, {collective}, 0, 0, 1, 1000)\n' for collective in "all_reduce reduce_scatter broadcast all_gather".split())
NONE = ALL.replace("(mpi, ", "(own, ")
OTHER = f'MST_NODES_WAY(mpi, "any", several_hosts, all_reduce, 0, 0, 1, 1000)\nMST_NODES_WAY(mpi, "{TEXT["mpich" if name == "openmpi" else "openmpi"]}", one_host, all_reduce, 0, 0, 1, 1000)\n' + 'MST_NODES_WAY(own, "any", any_hosts, all_gather, 0, 0, 1, 1000)\n'
CASES = 1784 + 22
launches = 0


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def run(processes, command, *tables):
    """(exit code, output) of a launch. The processes have one table, or each has its own."""
    global launches
    launches += 1
    environment = launching.environment(MUSTER_CACHE_DIR="off", MUSTER_MPI_SHIM=folder, MUSTER_NODES="mpi")
    with tempfile.TemporaryDirectory() as written:
        paths = [pathlib.Path(written, str(number)) for number in range(len(tables))]
        for path, table in zip(paths, tables):
            path.write_text(table)
        each = [["env", f"MUSTER_NODES_TABLE={paths[process % len(paths)]}"] for process in range(processes)]
        command = [*launching.launcher(name, processes, each=each), *command]
        done = launching.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    output = done.stdout.decode(errors="replace")
    print(f"== {' '.join(command)}: exit {done.returncode}\n{output}", flush=True)
    return done.returncode, output


def counts(table, processes, ranks):
    """The collectives of the MPI in each process, the same in all; and what the description says."""
    code, output = run(processes, (program, str(ranks)), table)
    found = re.findall(rf"process \d of {processes}: {CASES} cases of {ranks}, (\d+) collectives of the MPI at open and (\d+) then; (.*)", output)
    expect(code == 0 and len(found) == processes and len(set((at_open, then) for at_open, then, _ in found)) == 1, "the same count in all processes")
    return int(found[0][0]), int(found[0][1]), found[0][2]


layouts = [(2, 1)] + ([(2, 2), (3, 1), (4, 1)] if full else [])
for processes, ranks in layouts:
    at_open, then, text = counts(ALL, processes, ranks)
    expect(at_open == 10, "what the open tries")
    # test_nodes_ways.c counts them for 2 processes; with more the pieces of some are smaller
    expect(then == 41 + 20 + 5 + 14 + 8 + (30 if ranks == 1 else 24) if processes == 2 else then > 90, "by the MPI")
    expect("collectives of the MPI itself: all_reduce of at least 0 bytes by it, reduce_scatter of" in text and "(4 of the file" in text, "the description")
    if full:
        expect(counts(NONE, processes, ranks)[:2] == (0, 0), "by Muster")
expect(counts(OTHER, 2, 1)[:2] == (0, 0), "rows of another MPI and of several hosts")

# ---- processes with different files ----
code, output = run(2, (errors, "well"), ALL, NONE)
expect(code != 0, "refused")
sentence = r"muster_runtime_open: MUSTER_NODES_TABLE: expected the same in all processes, received 'a file with hash [0-9a-f]{16}' in process 0 \(host \S+\) and 'a file with hash [0-9a-f]{16}' in process 1 \(host \S+\)"
expect(1 <= len(re.findall(sentence, output)) <= 2, "the sentence")
code, output = run(2, (errors, "well"), ALL)
expect(code == 0, "equal files are accepted")
print(f"{launches} launches")
expect(launches == 4 + (2 * len(layouts) - 1 if full else 0), "the number of launches")
