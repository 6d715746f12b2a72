#!/usr/bin/env python3
"""verbs.py SOURCE: the verbs of the public functions are those of the table in docs/design.md, each of which some function has."""
import pathlib
import re
import sys

# What a public function acts on; the functions of operations.def and the like have no such noun.
OBJECTS = ("argument buffer call_options client communicator downpour driver driver_options dtype easgd expr function graph graph_options initialiser_options "
           "kernel kernel_options kernels library operator operator_options pending request requests runtime runtime_options runtime_tensor server server_options status "
           "tensor threshold variable variables worker worker_scratch").split()
# The first word of a name that asks a question, declares a part of a function, or makes a view.
NOUNS = set("address alpha attribute backend base bits buffer buffers bytes cancelled capacity client communicator count cublas cuda data description device "
            "dtype elements fetched first float function graph host hosts input int is kernel lengths log mark name ndim number outgoing output parameter port "
            "process processes rank result rows scratch shape shard shards size slices ssize state status strided tensor total update variable weight weights whole".split())


def table_of(page):
    section = page.split("## Verbs", 1)[1].split("\n## ", 1)[0]
    verbs = set()
    for row in re.findall(r"^\| (`.*?) \|", section, flags=re.M):
        verbs.update(name.removesuffix("_*") for name in re.findall(r"`([a-z_*]+)`", row))
    return verbs


def tail_of(symbol):
    """What follows the longest noun; None where the function is an operation or a question of the library."""
    name = symbol.removeprefix("muster_")
    objects = [noun for noun in OBJECTS if name.startswith(noun + "_")]
    return name.removeprefix(max(objects, key=len) + "_") if objects else None


def main(source):
    verbs = table_of(pathlib.Path(source, "docs/design.md").read_text())
    symbols = re.findall(r"^MUSTER_\S+ (muster_\w+)", pathlib.Path(source, "lib/muster.abi").read_text(), flags=re.M)
    symbols = [symbol for symbol in symbols if not symbol.endswith("_p")]  # twins (muster/pointers.h)
    used, faults, seen = set(), 0, 0
    for symbol in symbols:
        tail = tail_of(symbol)
        if tail is None:
            continue
        seen += 1
        first = tail.split("_")[0]
        if first in verbs:
            used.add(first)
        elif first not in NOUNS:
            print(f"{symbol}: '{first}' is no verb of the table in docs/design.md, and no noun of tests/words/verbs.py")
            faults += 1
    for verb in sorted(verbs - used):
        print(f"docs/design.md: no public function has the verb '{verb}'")
        faults += 1
    print(f"{seen} functions of objects, {len(used)} verbs, {faults} faults")
    return faults > 0 or seen < 100 or len(verbs) < 30


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
