"""Muster for Spack: copy this folder as `packages/muster` into a repository of packages (`spack repo create`), then `spack install muster`.

Without releases there is one version, which is built from a tree of the sources: `spack dev-build -d DIR muster@main`."""

from spack.package import *


class Muster(CMakePackage):
    """A function is called once, and all CPUs and GPUs of the machine answer it, each for its rows; under MPI those of several machines."""

    license("BSD-3-Clause")
    version("main")

    variant("mpi", default=True, description="Compile the shim of the MPI that is built beside it")
    variant("openblas", default=True, description="Build OpenBLAS, which products of matrices open at run time")
    variant("hwloc", default=True, description="Build hwloc, which the placing of workers opens at run time")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi", when="+mpi")
    depends_on("openblas+dynamic_dispatch", when="+openblas", type="run")
    depends_on("hwloc", when="+hwloc", type="run")

    generator("ninja")

    def cmake_args(self):
        return [
            # Empty: no shim, also where the machine has an MPI that Spack does not know of.
            self.define("MUSTER_MPI_COMPILERS", self.spec["mpi"].mpicc if self.spec.satisfies("+mpi") else ""),
            self.define("MUSTER_BUILD_TESTS", False),
            self.define("MUSTER_BUILD_SAMPLES", False),
            self.define("MUSTER_BUILD_BENCH", False),
            self.define("MUSTER_INSTALL", True),
        ]

    def setup_run_environment(self, env):
        """The libraries that are opened at run time are found by the loader's path."""
        for name in ("openblas", "hwloc"):
            if self.spec.satisfies(f"+{name}"):
                env.prepend_path("LD_LIBRARY_PATH", self.spec[name].prefix.lib)
