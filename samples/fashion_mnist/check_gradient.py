#!/usr/bin/env python3
"""Compares one gradient of the training program with the same gradient computed by NumPy in float64.

usage: check_gradient.py PARAMETERS GRADIENT [BATCH] [DATA]
PARAMETERS, GRADIENT: what `train --steps 0 --batch BATCH --dump-params PARAMETERS --dump-gradient GRADIENT` wrote (f32)."""
import gzip
import os
import sys

import numpy

SIZES = [784, 800, 800, 10]


def read_idx(path, header):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), numpy.uint8)[header:]


def cut(flat):
    """(weight, bias) of each layer, views into the flat vector."""
    layers, at = [], 0
    for inputs, outputs in zip(SIZES, SIZES[1:]):
        middle, end = at + inputs * outputs, at + inputs * outputs + outputs
        layers.append((flat[at:middle].reshape(inputs, outputs), flat[middle:end]))
        at = end
    if at != flat.size:
        raise SystemExit(f"expected {at} parameters, received {flat.size}")
    return layers


def gradient(parameters, x, y):
    layers, result = cut(parameters), numpy.empty_like(parameters)
    parts, activations = cut(result), [x]
    for i, (weight, bias) in enumerate(layers):
        z = activations[-1] @ weight + bias
        activations.append(numpy.maximum(z, 0) if i < len(layers) - 1 else z)
    e = numpy.exp(z - z.max(1, keepdims=True))
    delta = e / e.sum(1, keepdims=True)
    delta[numpy.arange(len(y)), y] -= 1
    delta /= len(y)
    for i in reversed(range(len(layers))):
        parts[i][0][...] = activations[i].T @ delta
        parts[i][1][...] = delta.sum(0)
        if i:
            delta = (delta @ layers[i][0].T) * (activations[i] > 0)
    return result


def main():
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    data = sys.argv[4] if len(sys.argv) > 4 else "/usr/share/datasets/fashion-mnist"
    x = read_idx(os.path.join(data, "train-images-idx3-ubyte.gz"), 16).reshape(-1, SIZES[0])[:batch] / 255.0
    y = read_idx(os.path.join(data, "train-labels-idx1-ubyte.gz"), 8)[:batch]
    parameters, received = (numpy.fromfile(path, numpy.float32).astype(float) for path in sys.argv[1:3])
    expected = gradient(parameters, x, y)
    if received.shape != expected.shape:
        raise SystemExit(f"expected {expected.size} numbers, received {received.size}")
    in_norm = numpy.linalg.norm(received - expected) / numpy.linalg.norm(expected)
    largest = abs(received - expected).max() / abs(expected).max()
    print(f"gradient of {batch} rows: relative difference {in_norm:.1e} in norm, {largest:.1e} at the largest (norm {numpy.linalg.norm(expected):.3g})")
    return 0 if in_norm < 1e-5 and largest < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
