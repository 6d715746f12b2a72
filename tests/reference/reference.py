#!/usr/bin/env python3
"""reference.py SOURCE: Doxygen makes the reference of the public headers without a warning, and each function is documented in it.

The functions are those of lib/muster.abi. Each has a text of its own, the version that brought it, and the group of its header; what
behaviour.txt says of blocking and of calling back is there, and every pattern in it means a function."""
import fnmatch
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HAS_NO_COMMENT = "_options_init_sized"  # what the initialisers call is described in muster/status.h


def text_of(element):
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def run_doxygen(source, folder):
    return subprocess.run(["doxygen", "docs/reference/Doxyfile"], cwd=source, env={**os.environ, "MUSTER_REFERENCE": folder, "LC_ALL": "C"},
                          capture_output=True, text=True)


def documented_functions(folder):
    """{function: (text, {title: paragraph}, groups)}"""
    found = {}
    for path in sorted(pathlib.Path(folder, "xml").glob("*_8h.xml")) + sorted(pathlib.Path(folder, "xml").glob("group__*.xml")):
        tree = xml.etree.ElementTree.parse(path)
        for member in tree.iter("memberdef"):
            if member.get("kind") == "function":
                detail = member.find("detaileddescription")
                facts = {text_of(part.find("title")) or part.get("kind"): text_of(part.find("para")) for part in detail.iter("simplesect")}
                text = text_of(member.find("briefdescription")) + text_of(detail)
                found[member.findtext("name")] = (text, facts, path.name)
    return found


def main(source):
    if not shutil.which("doxygen"):
        print("doxygen is not here: script/reference installs it")
        return 77
    nodes = {name: node.removeprefix("MUSTER_") for node, name in
             (line.split() for line in pathlib.Path(source, "lib/muster.abi").read_text().splitlines() if line.startswith("MUSTER_"))}
    with tempfile.TemporaryDirectory() as folder:
        done = run_doxygen(source, folder)
        faults = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        found = documented_functions(folder)
    rules = [[part.strip() for part in line.split("|")] for line in
             pathlib.Path(source, "docs/reference/behaviour.txt").read_text().splitlines() if line and not line.startswith("#")]
    for function, node in sorted(nodes.items()):
        text, facts, page = found.get(function, ("", {}, "no page"))
        if function not in found or not page.startswith("group__"):
            faults.append(f"{function}: expected it in the group of its header, found it on {page}")
        elif facts.get("since") != node:
            faults.append(f"{function}: expected since {node}, found {facts.get('since')}")
        elif len(text) < 10 and not function.endswith(HAS_NO_COMMENT):
            faults.append(f"{function}: expected a text, found {text!r}")
        for kind, title in ("blocks", "May block"), ("calls", "May call back"):
            said = any(rule[0] == kind and any(fnmatch.fnmatch(function.removesuffix("_p"), name) for name in rule[1].split()) for rule in rules)
            if function in found and said != (title in facts):
                faults.append(f"{function}: {title}: expected it to be {'' if said else 'not '}there")
    for _, names, _ in rules:
        faults += [f"behaviour.txt: {name} is no function" for name in names.split() if not any(fnmatch.fnmatch(f, name) for f in nodes)]
    print("\n".join(faults[:60]))
    print(f"{len(nodes)} functions, {sum('May block' in facts for _, facts, _ in found.values())} of them may block, {len(faults)} faults")
    return 0 if done.returncode == 0 and not faults and len(nodes) > 150 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
