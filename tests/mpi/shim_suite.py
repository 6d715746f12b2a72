"""What libmuster.so and the shims may need, and what is said of wrong ones: shim_suite.py SOURCE CMAKE CC BUILD LIBRARY PROGRAM [MPI...].

MPI are the names of those that have a shim in BUILD. Without any the suite skips itself behind what needs none."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import launching

source, cmake, compiler, build, library, program, *mpis = sys.argv[1:]
source, build = pathlib.Path(source), pathlib.Path(build)
cases = 0


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def output(*command, **variables):
    """Of a command that succeeds, without what a launcher around this suite has set."""
    environment = launching.environment(MUSTER_CACHE_DIR="off", **variables)
    done = launching.run(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=500, check=False)
    expect(done.returncode == 0, f"{command} {variables}: exit {done.returncode}: {done.stdout}")
    return done.stdout


def says(line, *arguments, **variables):
    """The program says exactly this line, once."""
    global cases
    cases += 1
    text = output(program, *arguments, **variables)
    expect(text.splitlines().count(line) == 1, f"{arguments} {variables}: expected {line!r} once, received {text!r}")


# ---- the values of `nodes` and MUSTER_NODES ----
EXPECTED = 'expected "none", "mpi" or "mpi:PATH", received'
for wrong in ("1", "MPI", "mpi:", "mpix", "mpi ", " mpi", "none ", "yes", "mpi;/x.so", "openmpi"):
    says(f'refused INVALID_ARGUMENT: muster_runtime_open: nodes: {EXPECTED} "{wrong}"', "nodes", wrong)
    says(f'refused INVALID_ARGUMENT: muster_runtime_open: MUSTER_NODES: {EXPECTED} "{wrong}"', "alone", MUSTER_NODES=wrong)
says(f'refused INVALID_ARGUMENT: muster_runtime_open: nodes: {EXPECTED} ""', "nodes", "")
says(f'refused UNSUPPORTED: muster_runtime_open: nodes: {EXPECTED} "nccl", which a later version will bring', "nodes", "nccl")
says(f'refused UNSUPPORTED: muster_runtime_open: MUSTER_NODES: {EXPECTED} "nccl", which a later version will bring', "alone", MUSTER_NODES="nccl")
says("alone", "nodes", "none", MUSTER_NODES="mpi")  # the option goes before the variable
for none in ({}, {"MUSTER_NODES": ""}, {"MUSTER_NODES": "none"}):
    says("process 0 of 1, ", "alone", **none)
expect(cases == 27, f"27 values, ran {cases}")

# ---- shims that are missing or wrong ----
REFUSED = "refused UNAVAILABLE: muster_runtime_open: nodes: "
with tempfile.TemporaryDirectory() as folder:
    says(f'{REFUSED}there is no libmuster-mpi-*.so in {folder}: "muster-mpi-shim [MPICC]" compiles one, and MUSTER_MPI_SHIM names one',
         "nodes", "mpi", MUSTER_MPI_SHIM=folder)
    missing = f"{folder}/missing.so"
    for where, word, variables in (("nodes", f"mpi:{missing}", {}), ("MUSTER_MPI_SHIM", "mpi", {"MUSTER_MPI_SHIM": missing})):
        says(f'refused UNAVAILABLE: muster_runtime_open: {where}: expected a shim (libmuster-mpi-*.so) or a folder of shims, received "{missing}": '
             "No such file or directory", "nodes", word, **variables)
    text = f"{folder}/text.so"
    pathlib.Path(text).write_text("no library\n" * 100)
    says(f"{REFUSED}{text} cannot be opened, whose MPI must be installed, or its module loaded: {text}: invalid ELF header", "nodes", f"mpi:{text}")
    ABI = '#include "wire_abi.h"\n#include <stddef.h>\n'
    HEAD = ABI + "const muster_wire_table *muster_wire_1(int32_t abi) { "
    OTHER = "was compiled for another version of Muster: muster-mpi-shim compiles it again"
    for name, code, sentence in (
        ("none", "int nothing;", "is no shim of this version of Muster, since it lacks muster_wire_1: muster-mpi-shim compiles it again"),
        ("older", HEAD + "(void)abi; return NULL; }", OTHER),
        ("newer", HEAD + "static muster_wire_table t; t.abi = abi + 1; t.bytes = sizeof t; return &t; }", OTHER),
        ("shorter", HEAD + "static muster_wire_table t; t.abi = abi; t.bytes = sizeof t - 8; return &t; }", OTHER),
    ):
        path = f"{folder}/{name}.so"
        pathlib.Path(f"{folder}/{name}.c").write_text(code + "\n")
        output(compiler, "-shared", "-fPIC", "-I", source / "collectives/wire", f"{folder}/{name}.c", "-o", path)
        says(f"{REFUSED}{path} {sentence}", "nodes", f"mpi:{path}")
expect(cases == 35, f"35 sentences, ran {cases}")

# ---- what the library and the source of the shim may name ----
MPI = re.compile(r"\bP?MPIX?_\w+")
dynamic = output("nm", "-D", library)
expect(len(dynamic.splitlines()) > 300 and not MPI.search(dynamic), f"{library} knows no symbol of an MPI")
needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", library))
expect(needed and not [name for name in needed if "mpi" in name], f"{library} is linked with no MPI: {needed}")
shim = (source / "collectives/mpi/shim/shim.c").read_text()
code = re.sub(r'/\*.*?\*/|"[^"\n]*"', "", shim, flags=re.S)
CALLS = """Abort Cancel Comm_free Comm_get_errhandler Comm_group Comm_idup Comm_rank Comm_set_errhandler Comm_size Comm_test_inter Errhandler_free
    Error_class Error_string Finalize Finalized Get_count Get_library_version Get_processor_name Group_free Group_size Group_translate_ranks
    Iallgatherv Iallreduce Ialltoallv Ibcast Initialized Init_thread Iprobe Irecv Ireduce_scatter Isend Issend Query_thread Test Testsome
    Comm_f2c Comm_failure_ack Comm_failure_get_acked Comm_revoke""".split()
# In lower case behind the first letter: a function; Comm, Group, Op, Request, Status and so on are types.
TYPES = "Comm Datatype Errhandler Fint Group Op Request Status".split()
named = {name for name in re.findall(r"\bMPIX?_([A-Z][a-z]\w*)", code)}
expect(named - set(TYPES) == set(CALLS), f"the shim calls what never waits: {sorted(named - set(TYPES) ^ set(CALLS))}")
expect("PMPI" not in code, "the shim calls MPI by its own names")
expect(len(shim.splitlines()) < 400, f"shim.c has {len(shim.splitlines())} lines")
includes = re.findall(r'#include [<"](.*)[>"]', shim)
expect([name for name in includes if "muster" in name or "impl" in name or "/" in name] == [], f"of Muster the shim knows wire_abi.h only: {includes}")

# ---- a machine without mpicc: the build says so aloud ----
with tempfile.TemporaryDirectory() as folder:
    without = [f"-DMUSTER_FOUND_{name}=" for name in ("mpicc.openmpi", "mpicc.mpich", "mpicc")]
    flags = ["-DMUSTER_BUILD_TESTS=OFF", "-DMUSTER_BUILD_SAMPLES=OFF", "-DMUSTER_BUILD_BENCH=OFF"]
    text = output(cmake, "-S", source, "-B", folder, "-G", "Ninja", *flags, *without)
    expect("MPI: none is here, so no shim is compiled; muster-mpi-shim compiles one later" in text, "configure says that no MPI is here")
    for name in ("mpicc.openmpi", "mpicc.mpich", "mpicc"):
        expect(f"MPI: missing: {name}\n" in text, f"configure names {name}")
    output(cmake, "--build", folder, "--target", "muster_mpi")
    expect(not list(pathlib.Path(folder).glob("*.so")), "no shim is made")
    wrong = launching.run([cmake, "-S", source, "-B", folder, "-DMUSTER_MPI_COMPILERS=/bin/false"], capture_output=True, text=True, timeout=500)
    expect(wrong.returncode != 0 and "MUSTER_MPI_COMPILERS: /bin/false compiles no program with MPI" in " ".join(wrong.stderr.split()),
           f"an mpicc that was named, and does not work, is refused: {wrong.stderr}")

if not mpis:
    print("no MPI has a compiler here: what is said of launches is not tested")
    sys.exit(77)

# ---- each shim, and launches ----
LIBRARY = {"openmpi": "libmpi.so", "mpich": "libmpich.so"}
for name in mpis:
    path = build / f"libmuster-mpi-{name}.so"
    exported = [line.split()[-1] for line in output("nm", "-D", "--defined-only", path).splitlines()]
    expect(exported == ["muster_wire_1"], f"{path} exports {exported}")
    imported = {match[1] for match in re.finditer(r" U MPIX?_(\w+)", output("nm", "-D", "--undefined-only", path))}
    expect(len(imported) > 25 and imported <= set(CALLS), f"{path} calls {sorted(imported - set(CALLS))}")
    if name not in LIBRARY:
        continue
    expect(LIBRARY[name] in output("readelf", "-d", path), f"{path} is linked with its MPI")
    launch = launching.launcher(name, 2)
    variable = "OMPI_COMM_WORLD_SIZE" if name == "openmpi" else "PMI_SIZE"
    line = (f"log 2: one of 2 processes ({variable}), each with a runtime of its own: MUSTER_NODES=mpi makes them one runtime, "
            "MUSTER_NODES=none drops this line")
    text = output(*launch, program, "alone")
    expect(text.splitlines().count(line) == 2, f"{name}: expected {line!r} twice, received {text!r}")
    for drops in ("none", "mpi"):
        text = output(*launch, program, "alone", MUSTER_NODES=drops, MUSTER_MPI_SHIM=str(build))
        expect("one of 2 processes" not in text, f"{name}: MUSTER_NODES={drops} drops the line")
    # Under srun the way that it starts processes says which MPI they have; without a server behind the variables MPI may then refuse.
    rank, text = {"openmpi": ("PMIX_RANK", "Open MPI"), "mpich": ("PMI_RANK", "MPICH")}[name]
    slurm = {**os.environ, "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0", rank: "0", "MUSTER_NODES": "mpi", "MUSTER_MPI_SHIM": str(build),
             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    said = launching.run([program, "alone"], env=slurm, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, check=False).stdout
    expect(f"(the launcher is that of {text})" in said, f"{name}: srun's processes with {rank} have {text}: {said!r}")
print(f"{cases} sentences, {len(mpis)} MPIs")
