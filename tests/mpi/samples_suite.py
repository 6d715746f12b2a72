"""The samples, unchanged, as two processes, with --full also as one and four: samples_suite.py FOLDER_OF_SHIMS FOLDER_OF_SAMPLES WATCH SHARDS.

Each process prints what one process with as many devices prints, but that sentences of errors also name the process and its host; networks print
losses that are near. WATCH is a library
that counts the rows that a process computes and the bytes that it sends: together they compute the rows of one process. What a sample needs that does
not exist over several processes yet is in LEFT, with the sentence that refuses it. The training gets the parameters of one process with as many
devices, and in the reproducible mode the bits; so does SHARDS, a program with bodies that are written by hand."""
import array
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import launching

shims, samples, watch, shards = sys.argv[1:5]
full = os.environ.get("MUSTER_TEST_FULL")
SECONDS = 500  # of a program, at most
SAME = """first own_cost expression expression_eye five_expressions newton modes event_loop data variables batch_slices replica_batch mesh two_backends eye
kernel_reduction half_plus_one cpp17 cpp17_objects from_chainermn from_jax from_neon from_theano_op""".split()
FOUR = "mesh from_jax".split()  # show what four devices do
TWO = "five_expressions modes variables replica_batch".split()  # show what two devices do, and refuse others
LEFT = {
    "downpour": "there is no parameter server over several yet",
    "from_torchmpi": "there is no parameter server over several yet",
    "easgd": "there is no parameter server over several yet",
}
# Networks, which print how fast they are: their losses are compared.
NETWORKS = {
    "lenet": "--steps 2",
    "lstm": "--steps 2 --layers 1 --width 64 --time 32 --bytes 20",
    "resnet50": "--steps 2 --batch 4 --size 64",
    "transformer": "--steps 2 --layers 1 --width 64 --time 32 --heads 2 --bytes 20",
}
LONG_NETWORKS = {"alexnet": "--steps 1 --batch 2"}  # with --full: 61 million parameters
environment = launching.environment(MUSTER_MPI_SHIM=f"{shims}/libmuster-mpi-openmpi.so")
faults = 0
DRAWN = SAME if full else random.Random(int(os.environ.get("MUSTER_SEED") or 1)).sample(SAME, 5)
DRAWN_NETWORKS = NETWORKS if full else ["lenet"]


def fail(sample, what):
    global faults
    faults += 1
    print(f"{sample}: {what}", flush=True)


# Compiled graphs, and functions with a body for each backend: their rows are not counted.
NO_ROWS = "from_chainermn from_neon from_theano_op own_cost expression expression_eye five_expressions newton two_backends cpp17_objects".split()


def counts(path):
    """(rows, bytes) of a process, or None."""
    text = path.read_text().split() if path.exists() else []
    return (int(text[0]), int(text[2])) if len(text) == 3 else None


def alone(sample, devices):
    """(output, rows) of one process that has not joined any other."""
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder, "counts")
        done = launching.run([f"{samples}/{sample}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                              env={**environment, "MUSTER_DEVICES": devices, "MUSTER_NODES": "none", "LD_PRELOAD": watch, "MUSTER_SAMPLE_WATCH": str(written)})
        found = counts(written)
    if done.returncode or not found or found[1] != 0:
        fail(sample, f"one process: expected exit 0 and no bytes sent, received {done.returncode}, {found}: {done.stderr}")
    return done.stdout, found[0] if found else -1


def together(processes, devices, *command):
    """(exit code, outputs of the processes, what they say on stderr, what each has counted)."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as written:
        each = [["env", f"MUSTER_SAMPLE_WATCH={written}/{process}", f"LD_PRELOAD={watch}"] for process in range(processes)]
        done = launching.run([*launching.launcher("openmpi", processes, outputs=folder, each=each), *command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=SECONDS,
                              env={**environment, "MUSTER_DEVICES": devices, "MUSTER_NODES": "mpi"})
        read = [launching.outputs_of(folder, what, processes) for what in ("stdout", "stderr")]
        return done.returncode, *read, [counts(pathlib.Path(written, str(process))) for process in range(processes)]


def compare(sample, processes, each):
    """A sample as so many processes with so many devices, beside one process with as many devices."""
    expected, rows = alone(sample, f"host:{processes * each}")
    code, outputs, errors, counted = together(processes, f"host:{each}", f"{samples}/{sample}")
    if code:
        return fail(sample, f"{processes} processes: expected exit 0, received {code}: {errors}")
    if [re.sub(r", in process [0-3] \(host [^)]+\)$", "", text, flags=re.MULTILINE) for text in outputs] != [expected] * processes:
        fail(sample, f"expected from each of {processes} processes:\n{expected}received:\n{outputs}")
    if sum("muster: MPI: Open MPI" in text for text in errors) != processes:
        fail(sample, f"expected {processes} processes that say which MPI they use, received {errors}")
    if None in counted or sum(own for own, _ in counted) != rows or (rows == 0) != (sample in NO_ROWS) or (rows and min(counted)[0] == 0):
        fail(sample, f"{processes} processes: expected {rows} rows, some from each process, received (rows, bytes) {counted}")
    if any((sent > 0) != (processes > 1) for _, sent in counted):
        fail(sample, f"{processes} processes: expected each to send bytes where there are several, received (rows, bytes) {counted}")


def losses(text):
    return [float(number) for number in re.findall(r"^step \d+: (?:loss )?([0-9.]+)", text, flags=re.MULTILINE)]


def compare_network(sample, arguments, processes):
    """The losses of so many processes with a device each are near those of one process with as many, and each process prints them."""
    with tempfile.TemporaryDirectory() as folder:
        done = launching.run([f"{samples}/{sample}", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=SECONDS, cwd=folder,
                              env={**environment, "MUSTER_DEVICES": f"host:{processes}", "MUSTER_NODES": "none"})
    code, outputs, errors, counted = together(processes, "host:1", f"{samples}/{sample}", *arguments)
    expected, received = losses(done.stdout), [losses(text) for text in outputs]
    if done.returncode or code or not expected or None in counted or any((sent > 0) != (processes > 1) for _, sent in counted):
        fail(sample, f"{processes} processes: expected losses and bytes sent, received exit {done.returncode} and {code}, {expected}, {counted}: {done.stderr} {errors}")
    near = [len(own) == len(expected) and all(abs(a - b) <= 0.01 * abs(b) for a, b in zip(own, expected)) for own in received]
    if near != [True] * processes:
        fail(sample, f"expected the losses {expected} from {processes} processes, received {received}")


# ---- training ----
def parameters(processes, devices, shards, *options):
    """The parameters after a few steps, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "parameters")
        environment["MUSTER_LOGICAL_SHARDS"] = str(shards)
        code, _, errors, counted = together(processes, f"host:{devices}", f"{samples}/train", "--batch", "100", "--dump-params", str(file), *options)
        del environment["MUSTER_LOGICAL_SHARDS"]
        if code or not file.exists() or (processes > 1 and any(rows == 0 or sent == 0 for rows, sent in counted)):
            fail("train", f"{processes} x {devices} {options}: exit {code}, (rows, bytes) {counted}: {errors}")
            return b""
        return file.read_bytes()


def distance(one, other):
    a, b = array.array("f", one), array.array("f", other)
    return max(map(abs, map(float.__sub__, a, b)), default=float("inf")) if len(a) == len(b) else float("inf")


def compare_trainings():
    """Near the parameters of one process in the ordinary mode, and their bits in the reproducible one; far from those at the start."""
    for way in ((), ("--by-hand",)):
        start = parameters(1, 2, 0, *way, "--steps", "0")
        for layouts in ([(1, 2), (2, 1)], [(1, 4), (2, 2), (4, 1)])[: 2 if full else 1]:
            one, *others = [parameters(*layout, 0, *way, "--steps", "8") for layout in layouts]
            apart, moved = max(distance(one, other) for other in others), distance(start, one)
            print(f"train {' '.join(way)} as {layouts}: differ by at most {apart:.1e}, and from the start by {moved:.1e}", flush=True)
            if not (one and apart <= moved / 100):
                fail("train", f"{way} as {layouts}: expected to be near one process, received a distance of {apart}, {moved} from the start")
    layouts = [(1, 4), (2, 2), (4, 1), (1, 2), (2, 1)] if full else [(1, 2), (2, 1)]
    results = [parameters(*layout, 4, "--steps", "4") for layout in layouts]
    if not results[0] or any(result != results[0] for result in results):
        fail("train", f"expected the same bits as {layouts} in the reproducible mode, distances are {[distance(results[0], result) for result in results]}")


def compare_by_hand():
    """The bits of bodies that are written by hand, in the reproducible mode; without it they differ with the number of devices."""
    layouts = [(1, 4), (2, 2), (4, 1), (1, 2), (2, 1), (1, 1)] if full else [(1, 1), (1, 2), (2, 1)]
    said = {}
    for shards_of_call in (4, 0):
        environment["MUSTER_LOGICAL_SHARDS"] = str(shards_of_call)
        texts = []
        for processes, devices in layouts:
            code, outputs, errors, counted = together(processes, f"host:{devices}", shards)
            if code or len(set(outputs)) != 1 or any(not own or own[0] == 0 or (own[1] == 0 and processes > 1) for own in counted):
                fail("shards", f"{processes} x {devices}: exit {code}, (rows, bytes) {counted}: {outputs} {errors}")
            texts.append(outputs[0] if outputs else "")
        said[shards_of_call] = texts
        del environment["MUSTER_LOGICAL_SHARDS"]
    if len(set(said[4])) != 1 or not re.fullmatch(r"apart: .*\ntogether: .*\n", said[4][0]):
        fail("shards", f"expected the same bits as {layouts}, received {said[4]}")
    if len(set(said[0])) == 1:
        fail("shards", f"expected other bits without logical shards, received {said[0]}")


def interrupt_one():
    """Ctrl-C that reaches one process of a training: both finish the same step, write what they have, and end with 130."""
    with tempfile.TemporaryDirectory() as folder:
        script = f'echo $$ >"{folder}/$OMPI_COMM_WORLD_RANK.new" && mv "{folder}/$OMPI_COMM_WORLD_RANK.new" "{folder}/$OMPI_COMM_WORLD_RANK" && exec "$@"'
        train = [f"{samples}/train", "--by-hand", "--devices", "host:1", "--epochs", "100000", "--batch", "500", "--dump-params", f"{folder}/parameters"]
        launch = subprocess.Popen([*launching.launcher("openmpi", 2), "env", "--default-signal=INT", "sh", "-c", script, "sh", *train], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**environment, "MUSTER_NODES": "mpi"})
        files = [pathlib.Path(folder) / str(rank) for rank in range(2)]
        end = time.monotonic() + SECONDS
        while launch.poll() is None and not all(catches(file) for file in files):
            if time.monotonic() > end and time.monotonic() > end - SECONDS + launching.patience(SECONDS):
                launching.hangs(launch, SECONDS, "not all its processes have caught SIGINT")
            time.sleep(0.05)
        if launch.poll() is None:
            os.kill(int(files[1].read_text()), signal.SIGINT)
        output = launching.wait(launch, SECONDS)[0]
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


for sample in DRAWN:
    for processes in ((1, 2) if sample in TWO else (1, 2, 4)) if full else (2,):
        compare(sample, processes, 4 // processes if sample in FOUR else max(1, 2 // processes))
for sample, sentence in LEFT.items():
    code, _, errors, _ = together(2, "host:1", f"{samples}/{sample}")
    if code == 0 or not any(sentence in text for text in errors):
        fail(sample, f"expected a refusal with \"{sentence}\", received exit {code}: {errors}")
made = {path.name for path in pathlib.Path(samples).iterdir() if path.is_file() and os.access(path, os.X_OK) and "." not in path.name}
for sample, arguments in {**{name: NETWORKS[name] for name in DRAWN_NETWORKS}, **(LONG_NETWORKS if full else {})}.items():
    for processes in (1, 2, 4) if full and sample in NETWORKS else (2,):
        compare_network(sample, arguments.split(), processes)
missing = made - set(SAME) - set(LEFT) - set(NETWORKS) - set(LONG_NETWORKS) - {"train", "foreign_cuda"}  # reads data, needs a GPU
if missing:
    fail("samples", f"expected each in one of the lists, received others: {sorted(missing)}")
interrupt_one()
compare_trainings()
compare_by_hand()
print(f"{len(DRAWN)} samples alike as one process and as {'1, 2 and, but for those of two devices, 4' if full else 'two'}, "
      f"{len(DRAWN_NETWORKS) + (len(LONG_NETWORKS) if full else 0)} networks with the same losses, {len(LEFT)} refused, {faults} faults")
sys.exit(faults != 0)
