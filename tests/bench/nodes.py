"""nodes.py BENCH: a short run of `muster-bench nodes` with 2 processes; checks the tables, the list at the end, the JSON file and the picture."""
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml

COLUMNS = ["size", "avg", "min", "max", "p50", "p95", "p99", "MB/s", "x", "lim", "m/this", "#wrong", "program"]
OPS = ["latency", "bandwidth", "bidirectional_bandwidth", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier"]
PARTS = ["all_gather", "reduce_scatter", "all_to_all"]
SIZES = [4, 1024]
PEERS = {"muster over OpenMPI", "muster over OpenMPI, again", "wire of OpenMPI", "OpenMPI, default"}


def run(*options):
    bench = subprocess.run([sys.argv[1], "nodes", *options], stdout=subprocess.PIPE, text=True, check=False)
    print(bench.stdout)
    return bench


def tables(output):
    """{op: [(size, columns, program)]}"""
    found = {}
    for line in output.splitlines():
        words = line.split()
        if line.startswith("# ") and "processes x" in line:
            rows = found[words[1].rstrip(",")] = []
        elif line.startswith("#") and "program" in line:
            assert words == ["#"] + COLUMNS or [words[0].lstrip("#")] + words[1:] == COLUMNS or words[1:] == COLUMNS, line
        elif words and words[0].isdigit() and len(words) > 11 and "row" not in line:
            rows.append((int(words[0]), words[1:11], " ".join(words[11:])))
    return found


def check_table(op, rows):
    sizes = [0] if op == "barrier" else [8 if op in PARTS and size == 4 else size for size in SIZES]
    assert sorted({size for size, _, _ in rows}) == sizes, (op, rows)
    for size in sizes:
        programs = [program for s, _, program in rows if s == size]
        assert PEERS <= set(programs) and len(programs) == len(set(programs)), (op, programs)
    for size, columns, program in rows:
        avg, least, largest, p50, p95, p99 = (float(column) for column in columns[:6])
        assert 0 < least <= avg * 1.01 and avg <= largest * 1.01 and 0 < p50 <= p95 <= p99, (op, size, program, columns)
        assert columns[9] == "0", f"wrong results: {op}, {size}, {program}: {columns}"


def check_json(path):
    rows = json.load(open(path))["rows"]
    assert [row["op"] for row in rows] == [op for op in OPS for _ in range(1 if op == "barrier" else len(SIZES))]
    for row in rows:
        assert row["processes"] == 2 and row["devices"] == 1 and row["calls"] == 3, row["name"]
        for contender in row["contenders"]:
            assert contender["measured"] and contender["wrong"] == 0 and contender["median_of_rounds"] > 0, (row["name"], contender["name"])


def check_picture(path):
    """A panel for each operation but barriers, which have no size; Muster's curve has a point for each size."""
    space = "{http://www.w3.org/2000/svg}"
    panels = [panel for panel in xml.parse(path).getroot().findall(space + "g") if panel.find(space + "polyline") is not None]
    titles = [next(text.text for text in panel.findall(space + "text") if text.get("font-weight") == "bold") for panel in panels]
    assert titles == [f"{op}, 2 processes" for op in OPS if op != "barrier"], titles
    for panel in panels:
        assert len(panel.find(space + "polyline").get("points").split()) == len(SIZES)


def main():
    short = ["--mpi", "openmpi", "--rounds", "1", "-n", "3", "-w", "1"]
    bench = run(*short, "-b", "4", "-e", "1K", "-f", "256", "--op", ",".join(OPS), "--json", "nodes.json", "--plot", "nodes.svg")
    assert bench.returncode == 0, bench.returncode
    found = tables(bench.stdout)
    assert list(found) == OPS, list(found)
    for op, rows in found.items():
        check_table(op, rows)
    check_json("nodes.json")
    check_picture("nodes.svg")
    # The rows of the list that want launches of their own.
    calls = run(*short, "--row", "empty call")
    kept = [line.split()[0] for line in calls.stdout.splitlines() if line.endswith(("met", "MISSED"))]
    assert calls.returncode == 0 and kept == ["1", "2"], kept
    two = run(*short, "--quick", "--row", "x 2 devices")
    assert two.returncode == 0 and "all_reduce, 2 processes x 2 devices, 1048576 bytes" in two.stdout
    # What is refused, with the reason.
    refused = run("--op", "sing")
    assert refused.returncode == 1 and "--op" in refused.stdout
    launched = subprocess.run([sys.argv[1], "nodes"], stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2"})
    assert launched.returncode == 1 and "without mpirun" in launched.stdout, launched.stdout


main()
