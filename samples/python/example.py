#!/usr/bin/env python3
"""mean(x @ y) and more from Python: python3 example.py [path of libmuster.so], or with MUSTER_LIBRARY set to that path."""
import sys

import numpy

import muster_ctypes as muster


def mean_dot(lib, worker, inputs, outputs):
    x, y = inputs
    z = lib.scratch(worker, "float32", x.shape[0])
    lib.gemv(worker, 1, x, y, 0, z)
    lib.mean(worker, z, outputs[0])


def columns(lib, worker, inputs, outputs):
    lib.reduce(worker, muster.SUM, inputs[0], 0, outputs[0])
    lib.reduce(worker, muster.MAX, inputs[0], 1, outputs[1])


def fails(lib, worker, inputs, outputs):
    raise ValueError(f"rank {lib.worker_rank(worker)} does not like its rows")


def main():
    generator = numpy.random.default_rng(1)
    x = generator.standard_normal((1001, 40)).astype(numpy.float32)
    y = generator.standard_normal(40).astype(numpy.float32)
    with muster.Runtime(library=sys.argv[1] if len(sys.argv) > 1 else None) as runtime:
        f = runtime.function("mean_dot", mean_dot, [("x", "float32", 2, muster.SCATTER), ("y", "float32", 1, muster.BROADCAST)],
                             [("r", "float32", 0, muster.AVG)])
        result = numpy.zeros((), numpy.float32)
        f([x, y], [result])
        print(f"mean(x @ y) on {len(runtime)} devices: {result:.6f}, NumPy: {(x @ y).mean():.6f}")
        assert abs(result - (x.astype(float) @ y).mean()) < 1e-5

        g = runtime.function("columns", columns, [("x", "float32", 2, muster.SCATTER)],
                             [("sums", "float32", 1, muster.SUM), ("largest", "float32", 1, muster.GATHER)])
        sums, largest = numpy.zeros(10, numpy.float32), numpy.zeros(1001, numpy.float32)
        part = x[:, ::4]  # a strided array goes in as it is
        g([part], [sums, largest])
        print(f"column sums: {sums[:3].round(3)} ..., largest of each row: {largest[:3].round(3)} ...")
        assert numpy.allclose(sums, part.sum(0, dtype=float), atol=1e-3)
        assert (largest == part.max(1)).all()

        h = runtime.function("fails", fails, [("x", "float32", 2, muster.SCATTER)], [])
        try:
            h([x], [])
            raise SystemExit("a failing body did not fail")
        except muster.MusterError as error:
            print(f"a body failed: {error}")
        f([x, y], [result])  # and the runtime is usable again
    return 0


if __name__ == "__main__":
    sys.exit(main())
