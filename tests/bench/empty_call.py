"""An empty call takes the same instructions whether the program could be one of several processes or not: empty_call.py COUNT PROGRAM, where COUNT is
bench/count/count.py and PROGRAM muster-bench-count. What a launcher has set changes nothing as long as the program does not join. Two cases, and
five with --full."""
import os
import sys

import callgrind

count = callgrind.load(sys.argv[1])
LAUNCHERS = {
    "Open MPI": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
    "MPICH": {"PMI_SIZE": "2", "PMI_RANK": "0", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "0"},
    "Slurm": {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"},
}
CASES = {"nothing is set": {}}
CASES.update({f"{name} has started two processes": variables for name, variables in LAUNCHERS.items()})
CASES["MUSTER_NODES=none"] = {"MUSTER_NODES": "none"}
if not os.environ.get("MUSTER_TEST_FULL"):
    CASES = dict(list(CASES.items())[:2])
for name in [name for name in os.environ if name.startswith(("MUSTER_", "OMPI_", "PMI", "SLURM_", "MPI"))]:
    del os.environ[name]
FEW, MANY = 1000, 101000
parts = {}
for name, variables in CASES.items():
    os.environ.update(variables)
    # What opening a runtime takes differs from run to run, by less than half an instruction of a function for each call.
    found = count.per_call(sys.argv[2], "empty", FEW, MANY)
    parts[name] = {function: round(instructions) for function, instructions in found.items() if round(instructions) > 0}
    print(f"{name}: {sum(parts[name].values())} instructions of the loop and the call, in {len(parts[name])} functions", flush=True)
    for variable in variables:
        del os.environ[variable]
first = parts["nothing is set"]
others = {name: sorted(set(its.items()) ^ set(first.items())) for name, its in parts.items() if its != first}
if len(parts) != len(CASES) or others or not 100 < sum(first.values()) < 5000:
    print(f"FAILED: expected the same instructions in all cases, different are {others}")
    sys.exit(1)
