"""The samples, unchanged, as two processes: samples_suite.py FOLDER_OF_SHIMS FOLDER_OF_SAMPLES. Each process prints what one process with as many
devices prints, but that sentences of errors also name the process and its host; what a sample needs that does not exist over several processes yet is in LEFT, with the sentence that refuses it."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

shims, samples = sys.argv[1:3]
SAME = """first own_cost expression expression_eye five_expressions newton modes event_loop data variables batch_slices replica_batch mesh two_backends eye
kernel_reduction half_plus_one cpp17 cpp17_objects""".split()
LEFT = {
    "downpour": "there is no parameter server over several yet",
    "easgd": "there is no parameter server over several yet",
}
mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
LAUNCH = [mpirun, "--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--oversubscribe", "--bind-to", "none", "-n", "2"]
environment = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "OMPI_", "PMI", "SLURM_", "MPI"))}
environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", MUSTER_MPI_SHIM=f"{shims}/libmuster-mpi-openmpi.so")
faults = 0


def fail(sample, what):
    global faults
    faults += 1
    print(f"{sample}: {what}", flush=True)


def alone(sample, devices):
    done = subprocess.run([f"{samples}/{sample}"], env={**environment, "MUSTER_DEVICES": devices, "MUSTER_NODES": "none"}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=500)
    if done.returncode:
        fail(sample, f"one process: expected exit 0, received {done.returncode}: {done.stderr}")
    return done.stdout


def together(sample, devices):
    """(exit code, outputs of both processes, what they say on stderr)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*LAUNCH, "--output-filename", folder, f"{samples}/{sample}"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=500, env={**environment, "MUSTER_DEVICES": devices, "MUSTER_NODES": "mpi"})
        read = [[path.read_text() for path in sorted(pathlib.Path(folder).rglob(what))] for what in ("stdout", "stderr")]
        return done.returncode, *read


def interrupt_one():
    """Ctrl-C that reaches one process of a training: both finish the same step, write what they have, and end with 130."""
    with tempfile.TemporaryDirectory() as folder:
        script = f'echo $$ >"{folder}/$OMPI_COMM_WORLD_RANK.new" && mv "{folder}/$OMPI_COMM_WORLD_RANK.new" "{folder}/$OMPI_COMM_WORLD_RANK" && exec "$@"'
        train = [f"{samples}/train", "--by-hand", "--devices", "host:1", "--epochs", "100000", "--batch", "500", "--dump-params", f"{folder}/parameters"]
        launch = subprocess.Popen([*LAUNCH, "env", "--default-signal=INT", "sh", "-c", script, "sh", *train], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**environment, "MUSTER_NODES": "mpi"})
        files = [pathlib.Path(folder) / str(rank) for rank in range(2)]
        while launch.poll() is None and not all(catches(file) for file in files):
            time.sleep(0.05)
        if launch.poll() is None:
            os.kill(int(files[1].read_text()), signal.SIGINT)
        output = launch.communicate(timeout=500)[0]
        written = pathlib.Path(folder) / "parameters"
        size = written.stat().st_size if written.exists() else 0
        # Of the processes one prints; a process that stops alone gives "waited" and a TIMEOUT.
        if launch.returncode != 130 or output.count("stopped by Ctrl-C") != 1 or size != 5107240 or "TIMEOUT" in output:
            fail("train", f"interrupted in one of 2 processes: exit {launch.returncode}, {size} bytes of parameters: {output}")


def catches(file):
    """Whether the process of the number in the file is the training, and catches SIGINT, which is signal 2."""
    if not file.exists():
        return False
    status = pathlib.Path(f"/proc/{file.read_text().strip()}/status").read_text()
    return status.startswith("Name:\ttrain\n") and bool(int(status.split("SigCgt:")[1].split()[0], 16) & 2)


for sample in SAME:
    each = 2 if sample == "mesh" else 1  # which shows what 4 devices do
    expected = alone(sample, f"host:{2 * each}")
    code, outputs, errors = together(sample, f"host:{each}")
    if code:
        fail(sample, f"2 processes: expected exit 0, received {code}: {errors}")
    if [re.sub(r", in process [01] \(host [^)]+\)$", "", text, flags=re.MULTILINE) for text in outputs] != [expected, expected]:
        fail(sample, f"expected from each process:\n{expected}received:\n{outputs}")
    if sum("muster: MPI: Open MPI" in text for text in errors) != 2:
        fail(sample, f"expected 2 processes that say which MPI they use, received {errors}")
for sample, sentence in LEFT.items():
    code, _, errors = together(sample, "host:1")
    if code == 0 or not any(sentence in text for text in errors):
        fail(sample, f"expected a refusal with \"{sentence}\", received exit {code}: {errors}")
made = {path.name for path in pathlib.Path(samples).iterdir() if path.is_file() and os.access(path, os.X_OK) and "." not in path.name}
missing = made - set(SAME) - set(LEFT) - {"train", "mlp", "asynchronous", "foreign_cuda"}  # read data, print times, or need a GPU
if missing:
    fail("samples", f"expected each in one of the lists, received others: {sorted(missing)}")
interrupt_one()
print(f"{len(SAME)} samples alike as one process and as two, {len(LEFT)} refused, {faults} faults")
sys.exit(faults != 0)
