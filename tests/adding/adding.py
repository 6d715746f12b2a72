#!/usr/bin/env python3
"""adding.py EXAMPLE SOURCE BUILD CMAKE: applies a worked example of an addition to a scratch copy of the tree, builds it and runs its tests.

EXAMPLE holds `files`, which are new in the tree, and example.json:
  lines    [file, prefix of a line, new line, "before" (else after)]: the only changes of files that exist
  targets  what is built; tests: the tests that run with MUSTER_TEST_FULL=1, each of which must exist and pass
  sample   those of the tests that run otherwise, and sample_targets what is built for them; all, where they are missing
  environment  {name: value} for the tests, if they need any
  optimisation  the options of the compiler in place of those of the build, for an example after which all is compiled anew
  output   {text: least number of times that the output of the tests has it}
  page     the page whose line suites='NAME|...' lists exactly these tests
  served   {"name": of a transport, "tests": that say that it served some run, and all pools whose devices are host devices}
Without MUSTER_TEST_FULL=1 one of EXAMPLES, which MUSTER_SEED chooses, is built; of the others only the lines are applied.
Prints git diff --stat, and fails if more than these files and lines has changed, or more than ALLOWED says."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys


EXAMPLES = ["device_backend", "host_algorithm", "operation", "transport"]

# What may be added to the library for each kind: the folder of the new files, how many files it may be (None: a new folder with any number),
# and how many lines of files that exist may be new. New files outside lib and collectives are tests.
ALLOWED = {
    "device_backend": ("lib/device/shared", None, 1),
    "host_algorithm": ("collectives/host", 1, 1),
    "operation": ("lib/ops/leaky_relu", None, 5),
    "transport": ("collectives/buffer", None, 1),
}


def run(*command, cwd, environment=None):
    result = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **(environment or {})}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout[-6000:]}")
    return result.stdout


def copy_tree(source, tree):
    """What git would commit, or, where there is no git folder, everything but build."""
    if (source / ".git").exists():
        names = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=source).split("\0")
    else:
        names = [str(path.relative_to(source)) for path in source.rglob("*") if path.relative_to(source).parts[0] != "build"]
    for name in names:
        if name and (source / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, tree / name)


def git(tree, *words):
    return run("git", "-c", "user.name=adding", "-c", "user.email=adding@localhost", "-c", "core.excludesFile=/dev/null", *words, cwd=tree)


def add_line(tree, file, prefix, line, where="after"):
    path = tree / file
    lines = path.read_text().split("\n")
    at = [i for i, text in enumerate(lines) if text.startswith(prefix)]
    if not at:
        sys.exit(f"{file}: no line begins with \"{prefix}\"")
    lines.insert(at[0] + (where == "after"), line)
    path.write_text("\n".join(lines))


def apply(example, tree, lines):
    added = sorted(str(path.relative_to(example / "files")) for path in (example / "files").rglob("*") if path.is_file())
    for name in added:
        if (tree / name).exists():
            sys.exit(f"{name} is in the tree already")
    shutil.copytree(example / "files", tree, dirs_exist_ok=True)
    for line in lines:
        add_line(tree, *line)
    return added


def check_changes(example, tree, added, lines):
    git(tree, "add", "-A", "-f")
    print(git(tree, "diff", "--cached", "--stat"))
    changed = {}
    for row in git(tree, "diff", "--cached", "--numstat").splitlines():
        plus, minus, name = row.split("\t")
        if name not in added:
            changed[name] = (int(plus), int(minus))
    expected = {}
    for file, *_ in lines:
        expected[file] = (expected.get(file, (0, 0))[0] + 1, 0)
    folders = sorted({str(pathlib.Path(name).parent) for name in added})
    print(f"{len(added)} new files in {', '.join(folders)}; {len(lines)} lines in {', '.join(sorted(expected))}")
    if changed != expected:
        sys.exit(f"expected changes {expected}, received {changed}")
    folder, files, most = ALLOWED[example]
    inside = [name for name in added if not name.startswith("tests/")]
    if any(str(pathlib.Path(name).parent) != folder for name in inside) or len(inside) != (files or len(inside)) or not inside:
        sys.exit(f"expected {files or 'new'} files in {folder} alone, received {inside}")
    if sum(plus for plus, _ in changed.values()) != most:
        sys.exit(f"expected {most} new lines in files that exist, received {changed}")


def configure(tree, build, cmake, old, spec):
    """With the generator and the compilers of the build that runs this test."""
    cache = (old / "CMakeCache.txt").read_text()
    def cached(name):
        found = re.search(rf"^{name}:\w+=(.*)$", cache, flags=re.M)
        return found.group(1) if found else ""
    names = ["CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER",
             "MUSTER_CMOCKA_STAND_IN"]
    options = [f"-D{name}={cached(name)}" for name in names if cached(name)]
    if "optimisation" in spec:
        options += [f"-DCMAKE_{language}_FLAGS_{cached('CMAKE_BUILD_TYPE').upper()}={spec['optimisation']}" for language in ("C", "CXX")]
    run(cmake, "-S", tree, "-B", build, "-G", cached("CMAKE_GENERATOR"), "-DMUSTER_BUILD_SAMPLES=OFF", "-DMUSTER_BUILD_BENCH=OFF", *options,
        cwd=tree)


def check_served(output, name, tests):
    """What tests/support/collectives_pool.c prints: the runs that the transport served, and the pools that it refused."""
    suites = dict(re.findall(r"^ +Start +(\d+): (\S+)$", output, flags=re.M))
    line = rf"^(\d+): {name} served (\d+) runs; (\d+) pools of host devices and (\d+) others went without it"
    received = {suites[number]: tuple(map(int, counts)) for number, *counts in re.findall(line, output, flags=re.M)}
    for test in tests:
        runs, host, others = received.get(test, (0, 0, 0))
        if runs == 0 or host != 0:
            sys.exit(f"{test}: expected {name} to serve every pool of host devices, received {runs} runs and {host} pools without it")
        print(f"{test}: {name} served {runs} runs; {others} pools have other devices, which it refuses")


def check_page(source, spec):
    """The command that a reader copies runs the tests of the example."""
    text = (source / spec["page"]).read_text()
    found = re.search(r"^suites='([^']+)'$", text, flags=re.M)
    listed = sorted(f"collectives/test_{name}" for name in found.group(1).split("|")) if found else []
    if listed != sorted(spec["tests"]):
        sys.exit(f"{spec['page']}: suites: expected {sorted(spec['tests'])}, received {listed}")


def take_sample(spec):
    """Leaves in spec the tests and the targets of this run."""
    unknown = sorted(set(spec.get("sample", [])) - set(spec["tests"]))
    if unknown:
        sys.exit(f"sample: expected some of the tests, received {unknown}")
    if os.environ.get("MUSTER_TEST_FULL") != "1" and "sample" in spec:
        spec["tests"], spec["targets"] = spec["sample"], spec.get("sample_targets", spec["targets"])
        if "served" in spec:
            spec["served"]["tests"] = [name for name in spec["served"]["tests"] if name in spec["tests"]]


def is_built(example):
    """A build takes minutes."""
    return os.environ.get("MUSTER_TEST_FULL") == "1" or EXAMPLES[int(os.environ.get("MUSTER_SEED") or 1) % len(EXAMPLES)] == example


def run_tests(build, ctest, spec):
    pattern = "^(" + "|".join(re.escape(name) for name in spec["tests"]) + ")$"
    output = run(ctest, "--test-dir", build, "-R", pattern, "-V", "-j", "2", cwd=build, environment=spec.get("environment"))
    for name in spec["tests"]:
        if not re.search(rf"Test +#\d+: {re.escape(name)} \.+ +Passed", output):
            sys.exit(f"the test {name} has not passed\n{output[-4000:]}")
    if "served" in spec:
        check_served(output, spec["served"]["name"], spec["served"]["tests"])
    for text, least in spec.get("output", {}).items():
        if output.count(text) < least:
            sys.exit(f"expected \"{text}\" at least {least} times in the output of the tests, received {output.count(text)}")
    print(f"{len(spec['tests'])} tests passed")


def main():
    example, source, old, cmake = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
    spec = json.loads((example / "example.json").read_text())
    if "page" in spec:
        check_page(source, spec)
    take_sample(spec)
    work = pathlib.Path(os.getcwd()) / f"adding_{example.name}"
    shutil.rmtree(work, ignore_errors=True)
    # The build lies in the tree as that of the project does, so that ccache finds what the project has compiled.
    tree = work / "tree"
    build = tree / "build"
    tree.mkdir(parents=True)
    copy_tree(source, tree)
    git(tree, "init", "-q")
    git(tree, "add", "-A", "-f")
    git(tree, "commit", "-qm", "before")
    check_changes(example.name, tree, apply(example, tree, spec["lines"]), spec["lines"])
    if is_built(example.name):
        configure(tree, build, cmake, old, spec)
        run(cmake, "--build", build, "--parallel", "2", "--target", *spec["targets"], cwd=tree)
        run_tests(build, cmake.parent / "ctest", spec)
    else:
        print(f"applied, but not built: MUSTER_SEED={EXAMPLES.index(example.name)}, or MUSTER_TEST_FULL=1, builds it")
    shutil.rmtree(work)


main()
