"""mpi4py and Muster in one process: mpi4py_program.py LIBRARY mpi4py|muster, which says who initialises MPI. Two processes."""
import sys

import mpi4py
import numpy

library, first = sys.argv[1:]
if first == "mpi4py":
    from mpi4py import MPI  # initialises
else:
    mpi4py.rc.initialize = mpi4py.rc.finalize = False

import muster_ctypes as muster


def total(lib, worker, inputs, outputs):
    lib.sum(worker, inputs[0], outputs[0])


with muster.Runtime(devices="host:1", library=library) as runtime:
    if first == "muster":
        from mpi4py import MPI
    assert MPI.Is_initialized() and MPI.COMM_WORLD.size == 2
    f = runtime.function("total", total, [("x", "float32", 1, muster.SCATTER)], [("sum", "float32", 0, muster.SUM)])
    for turn in range(10):  # in turn: calls of Muster, and of the program's own
        result = numpy.zeros((), numpy.float32)
        f([numpy.arange(101, dtype=numpy.float32) + turn], [result])
        assert result == 5050 + 101 * turn, result
        assert MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank + turn) == 1 + 2 * turn
    ranks = len(runtime)
assert ranks == 2, ranks
assert MPI.COMM_WORLD.allreduce(1) == 2  # MPI goes on behind the runtime
print(f"rank {MPI.COMM_WORLD.rank}, {first} first: {' '.join(MPI.Get_library_version().split()[:4])}", flush=True)
