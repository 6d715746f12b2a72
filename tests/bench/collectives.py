"""collectives.py BENCH: a short run of `muster-bench collectives` without peers; checks the table, the JSON file and the picture."""
import json
import subprocess
import sys
import xml.etree.ElementTree as xml

RATE = ["time", "algbw", "busbw", "#wrong"]
SPREAD = ["p50", "p95", "p99", "x lim", "m/this"]
HEADING = ["size", "count", "type", "redop", "root"] + 2 * RATE + 2 * SPREAD + ["program"]
OPS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all", "gather", "scatter"]
SIZES = [8, 32, 128, 512]
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda n: 1, "reduce": lambda n: 1}


def expected_size(op, ranks, size):
    """Where ranks hold parts, the size is a multiple of a part for each."""
    return size if op in FACTORS else size // (4 * ranks) * 4 * ranks


def tables(output):
    """{(op, ranks): rows} of the lines of Muster, each a list of columns."""
    found = {}
    rows = None
    for line in output.splitlines():
        words = line.split()
        if line.startswith("# ") and len(words) > 3 and words[3].startswith("ranks"):
            rows = found[words[1].rstrip(","), int(words[2])] = []
        elif line.startswith("#") and "program" in line:
            assert words == ["#"] + " ".join(HEADING).split(), line
        elif words and words[0].isdigit() and words[-1] == "muster":
            rows.append(words)
    return found


def check_row(op, ranks, size, words):
    size = expected_size(op, ranks, size)
    count = size // 4 if op in FACTORS else size // 4 // ranks
    sums = op in ("all_reduce", "reduce_scatter", "reduce")
    root = "0" if op in ("broadcast", "reduce", "gather", "scatter") else "-1"
    assert words[:5] == [str(size), str(count), "float", "sum" if sums else "none", root], words
    assert len(words) == len(HEADING), words
    for at in 5, 9:
        assert float(words[at]) > 0, words
        assert words[at + 3] == "0", f"wrong results: {words}"


def check_json(path):
    rows = json.load(open(path))["rows"]
    assert len(rows) == len(OPS) * 2 * len(SIZES) * 2
    for row in rows:
        factor = FACTORS.get(row["op"], lambda n: (n - 1) / n)(row["ranks"])
        assert abs(row["bus_factor"] - factor) < 1e-5, row["name"]
        assert row["calls"] == 5, row["name"]
        for contender in row["contenders"]:
            assert contender["measured"] and contender["wrong"] == 0, (row["name"], contender["name"])
            assert contender["median_of_rounds"] > 0, (row["name"], contender["name"])


def check_faults(output, path):
    """A limit is at fault exactly where something took less than 0.95 of its time; the last line counts them."""
    rows = json.load(open(path))["rows"]
    faults = 0
    for row in rows:
        others = [contender for contender in row["contenders"] if contender["kind"] != "limit"]
        assert any(contender["kind"] == "limit" for contender in row["contenders"]), row["name"]
        fault = any(contender["over_limit"]["median"] < 0.95 for contender in others)
        assert row["limit_at_fault"] == fault, row["name"]
        faults += fault
    assert output.count("FAULT of the limit: ") == faults
    assert output.splitlines()[-1].startswith(f"limits at fault: {faults} of {len(rows)} "), output.splitlines()[-1]


def check_picture(path):
    """Two panels for each table, out of place and in place; Muster's curve has a point for each size that is not 0."""
    space = "{http://www.w3.org/2000/svg}"
    root = xml.parse(path).getroot()
    assert root.tag == space + "svg", root.tag
    panels = [panel for panel in root.findall(space + "g") if panel.find(space + "polyline") is not None]
    wanted = [(ranks, op, form) for ranks in (2, 4) for op in OPS for form in ("out of place", "in place")]
    assert len(panels) == len(wanted), len(panels)
    for panel, (ranks, op, form) in zip(panels, wanted):
        title = next(text.text for text in panel.findall(space + "text") if text.get("font-weight") == "bold")
        assert title == f"{op}, {ranks} ranks, {form}", title
        points = panel.find(space + "polyline").get("points").split()
        assert len(points) == sum(expected_size(op, ranks, size) > 0 for size in SIZES), (op, ranks, points)


def main():
    command = [sys.argv[1], "collectives", "-b", "8", "-e", "1K", "-f", "4", "-n", "5", "-w", "1", "--rounds", "1", "--ranks", "2,4", "--no-peers",
               "--json", "collectives.json", "--plot", "collectives.svg"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(run.stdout)
    assert run.returncode == 0, run.returncode
    found = tables(run.stdout)
    assert list(found) == [(op, ranks) for ranks in (2, 4) for op in OPS], list(found)
    for (op, ranks), rows in found.items():
        assert len(rows) == len(SIZES), (op, ranks, len(rows))
        for size, words in zip(SIZES, rows):
            check_row(op, ranks, size, words)
    check_json("collectives.json")
    check_faults(run.stdout, "collectives.json")
    check_picture("collectives.svg")
    refused = subprocess.run([sys.argv[1], "collectives", "--op", "sing", "--no-peers"], stdout=subprocess.PIPE, text=True)
    assert refused.returncode == 1 and "--op" in refused.stdout, refused.stdout


main()
