"""check_thresholds.py SOURCE PROGRAM: script/thresholds on reports whose thresholds are known, its round trip, and what it refuses.

PROGRAM opens a runtime (gpu_test_open), which must take each table that the script writes as MUSTER_THRESHOLDS."""
import os
import pathlib
import subprocess
import sys
import tempfile

source, program = pathlib.Path(sys.argv[1]), sys.argv[2]
script = source / "script/thresholds"
original = source / "lib/device/thresholds.def"
folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-thresholds-"))
checks = 0


def check(condition, text):
    global checks
    checks += 1
    if not condition:
        sys.exit(f"check_thresholds.py: {text}")


def run(*words):
    done = subprocess.run([sys.executable, script, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def report(name, lines, head=("date: 2030-01-02", "model: NVIDIA H100 80GB HBM3", "model: NVIDIA H100 80GB HBM3")):
    path = folder / name
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path


def series(what, times, kind="f32", ranks=4):
    """times: {way: {bytes: us}}"""
    return [f"measured: {what} way={way} type={kind} ranks={ranks} bytes={size} us={us}" for way, sizes in times.items() for size, us in sizes.items()]


def rows(text, kind):
    return {line.split("(")[1].split(",")[1].strip(): int(line.split("(")[1].split(",")[0]) for line in text.splitlines() if line.startswith("MST_THRESHOLD(") and f'"{kind}"' in line}


sizes = [8 * 4**i for i in range(10)]  # 8 bytes to 2 MiB
H100 = "NVIDIA H100 80GB HBM3"
p2p = {s: 5 + s / 1000 for s in sizes}
nccl = {s: 40 + s / 10000 for s in sizes}  # crosses p2p at 38889 bytes
staged = {s: 20 + s / 100 for s in sizes}  # crosses nccl at 2020 bytes
folded = {s: 50 + s / 100 for s in sizes}
reduced = {s: 150 + s / 1000 for s in sizes}  # crosses at 11111 bytes
below = max(s for s in sizes if p2p[s] < nccl[s])

# the table as it is: printed and read again, the same bytes
code, text, _ = run()
check(code == 0 and text == original.read_text(), "without a report the table is not printed as it is")

# peers: the crossing of p2p and NCCL, and of folded and reduced outputs
full = report("peers.txt", series("all_reduce", {"p2p": p2p, "nccl": nccl, "staged": staged}) + series("output", {"folded": folded, "reduced": reduced})
              + series("all_reduce", {"p2p": nccl, "nccl": p2p}, kind="f16"))  # which NCCL does not combine: no part of it
code, text, words = run(full)
found = rows(text, H100)
wanted = {"p2p_bytes": below, "reduced_saved_bytes": 3 * min(s for s in sizes if reduced[s] < folded[s])}
check(code == 0 and found == wanted, f"peers: expected {wanted}, received {found}: {words}")
check(rows(text, "any") == rows(original.read_text(), "any"), "the rows of other kinds have changed")
check("/* measured 2030-01-02 */" in text, "a row does not say when it was measured")

# written, read, written: the same; the same report again changes nothing
table = folder / "table.def"
check(run("--write", table, full) == (0, "", ""), "writing says something")
check(table.read_text() == text, "what is written is not what is printed")
check(run("--table", table)[1] == text and run("--table", table, full)[1] == text, "the round trip changes the table")

# without peers: staged; every sum of one way is better: the ends
apart = report("apart.txt", series("all_reduce", {"staged": staged, "nccl": nccl}))
check(rows(run(apart)[1], H100) == {"staged_bytes": max(s for s in sizes if staged[s] < nccl[s])}, "without peers")
always = report("always.txt", series("broadcast", {"p2p": {s: 1 for s in sizes}, "nccl": nccl}) + series("output", {"folded": {s: 1 for s in sizes}, "reduced": reduced}))
check(rows(run(always)[1], H100) == {"p2p_bytes": sizes[-1], "reduced_saved_bytes": 2**63 - 1}, "the small way always")
never = report("never.txt", series("broadcast", {"p2p": nccl, "nccl": {s: 1 for s in sizes}}) + series("output", {"folded": folded, "reduced": {s: 1 for s in sizes}}))
check(rows(run(never)[1], H100) == {"p2p_bytes": 0, "reduced_saved_bytes": 3 * sizes[0]}, "the small way never")
# one size out of line does not move the crossing
noisy = dict(p2p)
noisy[sizes[1]] = nccl[sizes[1]] * 1.1
check(rows(run(report("noisy.txt", series("all_reduce", {"p2p": noisy, "nccl": nccl})))[1], H100) == {"p2p_bytes": below}, "one size out of line")

# kinds
check(rows(run("--kind", "sm_90", full)[1], "sm_90") == wanted, "--kind")
mixed = report("mixed.txt", series("all_reduce", {"p2p": p2p, "nccl": nccl}), head=("model: A", "model: B"))
for words, text in (((mixed,), "expected GPUs of one model"), ((report("empty.txt", []),), "expected measurements of two ways"),
                    ((report("alone.txt", series("all_reduce", {"p2p": p2p})),), "expected measurements of two ways"), ((folder / "none.txt",), "no such file"),
                    ((report("sim.txt", ["simulated: " + line for line in series("all_reduce", {"p2p": p2p, "nccl": nccl})], ()),), "received the report of a simulated machine")):
    code, out, err = run(*words)
    check(code == 1 and text in err and not out, f"expected a refusal with \"{text}\", received {code}: {err}")
bad = folder / "bad.def"
for line, text in (('MST_THRESHOLD(1, other, "any")', ":1: expected p2p_bytes"), ('MST_THRESHOLD(x, p2p_bytes, "any")', ":1: expected a row")):
    bad.write_text(line + "\n")
    code, out, err = run("--table", bad)
    check(code == 1 and text in err, f"expected a refusal with \"{text}\", received {code}: {err}")

# the library takes what the script writes, and its own table
for path in (table, original):
    done = subprocess.run([program], env={**os.environ, "MUSTER_THRESHOLDS": str(path)}, capture_output=True, text=True)
    check(done.returncode == 0, f"{path}: the library refuses it: {done.stderr}")
done = subprocess.run([program], env={**os.environ, "MUSTER_THRESHOLDS": str(bad)}, capture_output=True, text=True)
check(done.returncode != 0 and "expected a file of thresholds" in done.stderr, f"the library takes {bad}")
for path in folder.iterdir():
    path.unlink()
folder.rmdir()
if checks != 22:
    sys.exit(f"check_thresholds.py: expected 22 checks, received {checks}")
print(f"{checks} checks")
