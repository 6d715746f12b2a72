#!/usr/bin/env python3
"""spack.py SOURCE CMAKE: Spack's recipe, read with a stand-in of Spack's words: its options are CMake's, and CMake takes them.

Spack itself is in neither Debian nor PyPI. The stand-in knows the words that the recipe uses and refuses others."""
import pathlib
import re
import subprocess
import sys
import tempfile
import types

source, cmake = pathlib.Path(sys.argv[1]), sys.argv[2]
said = []


def word(name):
    return lambda *values, **options: said.append((name, values, options))


class Package:
    def define(self, name, value):
        return f"-D{name}:{'BOOL' if isinstance(value, bool) else 'STRING'}={({True: 'ON', False: 'OFF'}[value]) if isinstance(value, bool) else value}"


class Spec:
    def __init__(self, variants, mpicc):
        self.variants, self.mpicc = variants, mpicc

    def satisfies(self, text):
        return self.variants[text.lstrip("+")]

    def __getitem__(self, name):
        return types.SimpleNamespace(mpicc=self.mpicc, prefix=types.SimpleNamespace(lib=f"/prefix/{name}/lib"))


names = {name: word(name) for name in ("license", "version", "variant", "depends_on", "generator")}
module = types.ModuleType("spack.package")
module.__dict__.update(names, CMakePackage=Package)
sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": module})
recipe = source / "packaging/spack/package.py"
space = {}
exec(compile(recipe.read_text(), str(recipe), "exec"), space)
package = space["Muster"]()

variants = [values[0] for name, values, _ in said if name == "variant"]
assert variants == ["mpi", "openblas", "hwloc"], variants
for name, _, options in said:  # what a dependence asks for is a variant
    assert options.get("when", "+mpi").lstrip("+") in variants, options
wanted = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", (source / "CMakeLists.txt").read_text()).group(1)
assert ("depends_on", (f"cmake@{wanted}:",), {"type": "build"}) in said, wanted

# The options of CMake's files that a user sets, and those that a developer sets.
texts = [path.read_text() for path in [source / "CMakeLists.txt", *(source / "cmake").glob("*.cmake")]]
options = set(re.findall(r"^option\((MUSTER_\w+)|^set\((MUSTER_\w+) \S+ CACHE \w+", "\n".join(texts), re.M))
options = {first or second for first, second in options} - {"MUSTER_SANITIZE", "MUSTER_WERROR", "MUSTER_CMOCKA_STAND_IN", "MUSTER_FASHION_MNIST"}
for mpi, mpicc in ((True, "/opt/mpi/bin/mpicc"), (False, None)):
    package.spec = Spec({"mpi": mpi, "openblas": True, "hwloc": False}, mpicc)
    arguments = package.cmake_args()
    given = {re.match(r"-D(\w+):", argument).group(1) for argument in arguments}
    assert given <= options, f"CMake has no {given - options}"
    assert options <= given, f"the recipe leaves out {options - given}"
    assert f"-DMUSTER_MPI_COMPILERS:STRING={mpicc or ''}" in arguments, arguments
paths = []
package.setup_run_environment(types.SimpleNamespace(prepend_path=lambda *path: paths.append(path)))
assert paths == [("LD_LIBRARY_PATH", "/prefix/openblas/lib")], paths

# CMake takes the last arguments, without an MPI, and makes the rules of installing.
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([cmake, "-S", source, "-B", folder, "-G", "Ninja", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not used by the project" not in done.stderr, done.stderr
    assert "MPI: none is here, so no shim is compiled; muster-mpi-shim compiles one later" in done.stdout, done.stdout
    assert (pathlib.Path(folder) / "muster.pc").exists()
print(f"{len(said)} words, {len(options)} options")
assert len(said) == 13, len(said)
