"""operations.py BENCH TABLE: `muster-bench operations` lists and measures exactly the operations of the registry, in its order, and then
measures the rows of operation_more.def. TABLE prints the registry."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

MORE_ROWS = pathlib.Path(__file__).resolve().parents[2] / "bench/cases/operation_more.def"


def run(*command):
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0, f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}"
    return result.stdout


def measure(bench):
    """(the JSON objects of the rows, the names of operations that miss a library here)"""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        output = run(bench, "operations", "--quick", "--rounds", "1", "--json", file.name)
        rows = json.load(open(file.name))["rows"]
    return rows, [line.split(": ")[2].split(",")[0] for line in output.splitlines() if line.startswith("not measured: operations: ")]


def check_row(name, row):
    assert row["name"] == f"operations: {name}, 1 CPU core", row["name"]
    muster = [contender for contender in row["contenders"] if contender["name"].startswith("muster")]
    assert len(muster) == 2 and all(contender["p50"] > 0 and contender["wrong"] == 0 for contender in muster), row


def main(bench, table):
    names = run(table, "--names").split()
    assert len(names) > 10, names
    listed = run(bench, "operations", "--list").split()
    assert listed == names, f"the bench lists {listed}, the registry has {names}"
    rows, missing = measure(bench)
    assert set(missing) <= {"gemm"}, missing
    measured = [name for name in names if name not in missing]
    more = re.findall(r"^OPERATION_ROW\((\w+),", open(MORE_ROWS).read(), re.MULTILINE)
    assert len(more) == 8, more
    assert len(rows) == len(measured) + len(more), [row["name"] for row in rows]
    for name, row in zip(measured + more, rows):
        check_row(name, row)
    print(f"{len(rows)} operations measured")


if __name__ == "__main__":
    main(*sys.argv[1:])
