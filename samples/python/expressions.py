#!/usr/bin/env python3
"""Trains a small network by expressions, on all devices, and compares with NumPy: python3 expressions.py [path of libmuster.so], or with
MUSTER_LIBRARY set to that path."""
import sys

import numpy

import muster_ctypes as muster
from muster_expressions import PER_WORKER, ROWS, Graph

INPUTS, HIDDEN, SAMPLES, STEPS, RATE = 3, 16, 240, 30, 0.2


def describe(runtime, weights):
    """step([x, t, rate], [loss]) trains the variables; predict([x], [y]) uses them."""
    variables = [runtime.variable(f"w{i}", value) for i, value in enumerate(weights)]
    graph = Graph(runtime, "step")
    graph.input("x", "float64", (ROWS, INPUTS), muster.SCATTER)
    t = graph.input("t", "float64", (ROWS,), muster.SCATTER)
    rate = graph.input("rate", "float64", (), muster.BROADCAST)
    w = [graph.parameter(variable) for variable in variables]
    y = graph.parse("tanh(x @ w0 + w1) @ w2")
    loss = ((y - t) ** 2).apply("mean")
    for variable, value, gradient in zip(variables, w, graph.gradient(loss, w)):
        graph.update(variable, value - rate * gradient)
    graph.output("loss", loss)
    step = graph.compile(PER_WORKER)  # main() averages the weights of all workers
    graph.close()
    graph = Graph(runtime, "predict")
    x = graph.input("x", "float64", (ROWS, INPUTS), muster.SCATTER)
    w = [graph.parameter(variable) for variable in variables]
    graph.output("y", (x @ w[0] + w[1]).apply("tanh") @ w[2], muster.GATHER)
    predict = graph.compile()
    graph.close()
    return variables, step, predict


def numpy_step(x, t, w):
    """The same by hand."""
    h = numpy.tanh(x @ w[0] + w[1])
    error = h @ w[2] - t
    dy = 2 * error / len(x)
    dz = numpy.outer(dy, w[2]) * (1 - h * h)
    for value, gradient in zip(w, (x.T @ dz, dz.sum(axis=0), h.T @ dy)):
        value -= RATE * gradient
    return (error ** 2).mean()


def main():
    generator = numpy.random.default_rng(1)
    x = generator.standard_normal((SAMPLES, INPUTS))
    t = numpy.sin(x[:, 0]) + x[:, 1] * x[:, 2] / 2
    w = [generator.standard_normal(shape) / 2 for shape in ((INPUTS, HIDDEN), HIDDEN, HIDDEN)]
    with muster.Runtime(library=sys.argv[1] if len(sys.argv) > 1 else None) as runtime:
        variables, step, predict = describe(runtime, w)
        loss, losses = numpy.zeros(()), []
        handles = [variable.handle for variable in variables]
        for _ in range(STEPS):
            step([x, t, numpy.array(RATE)], [loss])
            weights = numpy.zeros(len(runtime))
            runtime.library.function_weights(step.handle, len(runtime), weights.ctypes.data)
            runtime.library.variables_all_reduce_weighted(handles, len(handles), weights.ctypes.data, len(runtime))
            losses.append(float(loss))
            assert abs(losses[-1] - numpy_step(x, t, w)) < 1e-12
        print(f"loss on {len(runtime)} devices: {losses[0]:.6f} before, {losses[-1]:.6f} after {STEPS} steps, as by NumPy")
        assert losses[-1] < losses[0] / 2
        for variable, value in zip(variables, w):
            mine = numpy.zeros_like(value)
            variable.get(0, mine)
            assert numpy.allclose(mine, value, 1e-12, 1e-12)
        y = numpy.zeros(SAMPLES)
        predict([x], [y])
        assert numpy.allclose(y, numpy.tanh(x @ w[0] + w[1]) @ w[2], 1e-12, 1e-12)

        graph = Graph(runtime, "operations")
        x = graph.input("x", "float64", (ROWS, INPUTS), muster.SCATTER)
        graph.output("r", graph.apply("einsum", x, x, subscripts="ij,ij->i").apply("clip", high=4).apply("cast", dtype="float32"), muster.GATHER)
        graph.output("s", (1 - 2 / (x * x + 1)).apply("sum", axis=[0]), muster.SUM)
        function, r, s = graph.compile(), numpy.zeros(SAMPLES, numpy.float32), numpy.zeros(INPUTS)
        values = generator.standard_normal((SAMPLES, INPUTS))
        function([values], [r, s])
        assert numpy.allclose(r, numpy.minimum((values * values).sum(axis=1), 4), 1e-6)
        assert numpy.allclose(s, (1 - 2 / (values ** 2 + 1)).sum(axis=0), 1e-12)
        graph.close()

        graph = Graph(runtime, "wrong")
        try:
            graph.input("a", "float64", (ROWS, 3), muster.SCATTER) @ graph.input("b", "float64", (4, 2), muster.BROADCAST)
            raise SystemExit("a wrong product was taken")
        except muster.MusterError as error:
            print(f"refused: {str(error).rsplit('/', 1)[-1]}")
            assert "expressions.py:" in str(error) and "expected extent 3" in str(error)
        graph.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
