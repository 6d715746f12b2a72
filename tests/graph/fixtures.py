"""Writes tests/graph/fixtures.def: expressions as texts, their operands, and what NumPy computes.

    python3 tests/graph/fixtures.py > tests/graph/fixtures.def        (needs NumPy; written with 1.24)

Each case is a text of muster_expr_parse and a Python function of the same meaning, whose parameters
are the operands that the text names. Operands of float dtypes hold numbers that the dtype has; NumPy
computes in f64. Results of integers have the dtypes that NumPy gives them. tests/graph/test_fixtures.c reads the file.
"""
import inspect
import math
import re

import numpy as np

HALVES, SINGLES = ["f16", "bf16"], ["f32", "f64"]
FLOATS, INTEGERS = HALVES + SINGLES, ["i8", "u8", "i16", "i32", "i64", "u32", "u64"]
NUMBERS, ALL = FLOATS + INTEGERS, FLOATS + INTEGERS + ["bool"]
NUMPY = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64,
         "bool": np.bool_}
NAMES = {np.dtype(t): name for name, t in NUMPY.items()}


def rounded(values, dtype):
    values = np.array(values, np.float64)
    if dtype == "f16":
        return values.astype(np.float16).astype(np.float64)
    if dtype == "bf16":  # to the nearest, halves to even, of the upper 16 bits of f32
        bits = np.atleast_1d(values).astype(np.float32).view(np.uint32).astype(np.uint64)
        kept = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
        return np.where(np.isnan(values), values, kept.reshape(values.shape)).astype(np.float64)
    return values.astype(np.float32).astype(np.float64) if dtype == "f32" else values


# ---- operands: the same numbers for all dtypes, rounded to each ----

RANDOM = np.random.default_rng(1)
def draw(shape, low, high):
    return np.round(RANDOM.uniform(low, high, shape) * 64) / 64


OPERANDS = {
    "x": draw((2, 3), -2, 2), "y": draw((2, 3), -2, 2), "v": draw((3,), -2, 2), "s": draw((), 0.5, 2), "c": draw((2, 1), -2, 2),
    "m": draw((3, 3), -2, 2), "r": draw((3, 4), -2, 2), "t": draw((2, 3, 4), -2, 2), "k": draw((2, 4, 2), -2, 2),
    "p": draw((2, 3), 0.25, 4), "q": draw((2, 3), 0.25, 4), "u": draw((2, 3), -0.9, 0.9), "e": draw((0, 3), -1, 1),
    "f": draw((2, 0), -1, 1), "h": np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]), "one": draw((1, 3, 1), -2, 2),
    "tied": np.array([[1, 2, 2, 0], [0, 0, -1, 0]]), "sides": np.array([[1., -1, 1], [-1, -1, 1]]),
    "part": np.array([[0, 1, 0.25], [1, 0.5, 0]]),
    "w": np.array([np.nan, np.inf, -np.inf, 0., -0., 1.5, -2.5, 40.]),
    "z": np.array([1., -1, np.inf, 2.5, np.nan, -np.inf, 0, 3]),
    "image": draw((1, 2, 5, 4), -2, 2), "box": draw((1, 2, 3, 4, 2), -2, 2),
}
INTEGER_OPERANDS = {
    "x": [[7, -3, 0], [5, 100, -128]], "y": [[2, -2, 5], [-3, 7, 3]], "v": [3, -1, 2], "s": 3, "c": [[4], [-5]],
    "m": [[1, -2, 3], [0, 5, -6], [7, 8, 9]], "r": [[1, -2, 3, 4], [0, 5, -6, 7], [7, 8, 9, -1]],
    "t": [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 8, 7, 6]], [[0, -1, 2, 3], [3, 2, 1, 0], [1, 1, 1, 1]]],
    "k": [[[1, 2], [3, 4], [5, 6], [7, 8]], [[0, 1], [1, 0], [2, 2], [3, 1]]], "e": np.zeros((0, 3)), "f": np.zeros((2, 0)),
    "one": [[[1], [2], [3]]], "tied": [[1, 2, 2, 0], [0, 0, -1, 0]],
}
INDICES = {"i": [2, 0, 1, 2], "j": [[0, 2], [1, 1]], "l": [[2, 0, 1], [1, 1, 0]], "rows": [0, 1, 1], "labels": [2, 0], "g": [[1, 3, 0], [2, 2, 0]]}
CONDITIONS = {"a": [[True, False, True], [False, False, True]], "b": [True, False, True]}


def operand(name, dtype):
    if name in INDICES:
        return name, "i64", np.array(INDICES[name], np.int64)
    if name in CONDITIONS:
        return name, "bool", np.array(CONDITIONS[name])
    if dtype in FLOATS:
        return f"{name}_{dtype}", dtype, rounded(OPERANDS[name], dtype)
    values = np.array(INTEGER_OPERANDS[name], np.int64)
    if dtype == "bool":
        return f"{name}_bool", dtype, values > 0
    if dtype in ("u8", "u32", "u64"):
        values = np.abs(values)
    return f"{name}_{dtype}", dtype, values.astype(NUMPY[dtype])


# ---- what NumPy lacks ----

def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x
def sigmoid(x):
    return 1 / (1 + np.exp(-x))
def softplus(x):
    return np.logaddexp(0, x)
def softmax(x, axis=None):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)
def logsumexp(x, axis=None, keepdims=False):
    return np.log(np.exp(x).sum(axis, keepdims=keepdims))
def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))
def towards_0(a, b):  # the division of C
    return (np.sign(a).astype(np.int64) * np.sign(b) * (np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64)))).astype(a.dtype)
def quotient(a, b):
    return a / b if a.dtype == np.float64 else towards_0(a, b)
def scattered(x, indices, size, axis=0):
    result = np.zeros(x.shape[:axis] + (size,) + x.shape[axis + 1:], x.dtype)
    np.add.at(result, (slice(None),) * axis + (indices,), x)
    return result
def added_along(x, indices, size, axis):
    shape = list(x.shape)
    shape[axis] = size
    result = np.zeros(shape, x.dtype)
    places = list(np.indices(x.shape))
    places[axis] = indices
    np.add.at(result, tuple(places), x)
    return result
def log_softmax(x, axis=None):
    return np.log(softmax(x, axis))
def row_losses(logits, labels):
    return -np.take_along_axis(log_softmax(logits, -1), labels[..., None], -1)[..., 0]
def standard(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
def over_root_mean_square(x, axes, epsilon=1e-5):
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + epsilon)
def over_neighbours(x, size, alpha, beta, k):
    sums = np.zeros_like(x)
    for c in range(x.shape[1]):
        sums[:, c] = (x[:, max(0, c - size // 2):c + (size - 1) // 2 + 1] ** 2).sum(1)
    return x / (k + alpha / size * sums) ** beta
def pooled(x, how, size, stride=None, padding=0, dilation=1, ceil=False, counts_padding=True):
    """how: a function of the elements of all windows of one place (n, c, elements), and of how many the average counts."""
    axes, extents = x.ndim - 2, x.shape[2:]
    def each(value):
        return (value,) * axes if isinstance(value, int) else tuple(value)
    size, stride, dilation, padding = each(size), each(stride or size), each(dilation), each(padding)
    before, after, places = padding[:axes], padding[-axes:], []
    for d in range(axes):
        rest = extents[d] + before[d] + after[d] - (size[d] - 1) * dilation[d] - 1
        count = (-(-rest // stride[d]) if ceil else rest // stride[d]) + 1
        places.append(count - (ceil and (count - 1) * stride[d] >= extents[d] + before[d]))
    result = np.empty(x.shape[:2] + tuple(places))
    for place in np.ndindex(*places):
        at = [[place[d] * stride[d] - before[d] + k * dilation[d] for k in range(size[d])] for d in range(axes)]
        inside = [[i for i in at[d] if 0 <= i < extents[d]] for d in range(axes)]
        counted = [[i for i in at[d] if i < extents[d] + after[d]] for d in range(axes)] if counts_padding else inside
        window = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)].reshape(*x.shape[:2], -1)
        result[(slice(None), slice(None)) + place] = how(window, math.prod(len(positions) for positions in counted))
    return result
def max_pooled(x, *arguments, **more):
    return pooled(x, lambda window, count: window.max(-1), *arguments, **more)
def average_pooled(x, *arguments, **more):
    return pooled(x, lambda window, count: window.sum(-1) / count, *arguments, **more)
def l2_pooled(x, *arguments, **more):
    return pooled(x, lambda window, count: np.sqrt((window * window).sum(-1)), *arguments, **more)
def by_channel(numbers, x):
    return numbers.reshape((-1,) + (1,) * (x.ndim - 2))
def batch_norm(x, mean, variance, scale, bias, epsilon=1e-5):
    return (x - by_channel(mean, x)) / np.sqrt(by_channel(variance, x) + epsilon) * by_channel(scale, x) + by_channel(bias, x)
def descending(x, axis):  # NaN first, equal elements in their order
    index = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return np.take_along_axis(x, index, axis), index
def largest(x, k):
    return -np.sort(-x.astype(np.int64 if x.dtype != np.float64 else np.float64), -1)[..., :k]


# ---- cases ----

arrays, cases = {}, []


def case(dtypes, text, function, of=None, result=None, loose=1):
    """of: the operands, where the function's parameters have other names. loose: the multiple of the dtype's error that is allowed, for
    results of many roundings."""
    names = of.split() if of is not None else [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    for dtype in dtypes:
        here, values = text, []
        for name in names:
            full, kind, value = operand(name, dtype)
            arrays[full] = (kind, value)
            values.append(value)
            here = re.sub(rf"\b{name}\b(?![=(])", full, here)
        with np.errstate(all="ignore"):
            computed = np.asarray(function(*values))
        if result:
            kind = result
            computed = computed if kind in FLOATS else computed.astype(NUMPY[kind])
        elif computed.dtype == np.float64:
            kind = dtype if dtype in FLOATS else "f64"
        else:
            kind = NAMES[computed.dtype]
        cases.append((kind, computed, loose, here.replace("DTYPE", dtype)))


UNARY = {
    "sqrt": (np.sqrt, "p"), "log": (np.log, "p"), "reciprocal": (np.reciprocal, "p"), "log2": (np.log2, "p"), "log10": (np.log10, "p"),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "p"), "exp": (np.exp, "x"), "tanh": (np.tanh, "x"), "sigmoid": (sigmoid, "x"),
    "softplus": (softplus, "x"), "sin": (np.sin, "x"), "cos": (np.cos, "x"), "tan": (np.tan, "u"), "asin": (np.arcsin, "u"),
    "acos": (np.arccos, "u"), "atan": (np.arctan, "x"), "sinh": (np.sinh, "x"), "cosh": (np.cosh, "x"), "erf": (erf, "x"),
    "log1p": (np.log1p, "u"), "expm1": (np.expm1, "x"), "exp2": (np.exp2, "x"), "gelu": (lambda x: x * (1 + erf(x / 2 ** .5)) / 2, "x"),
    "gelu_derivative": (lambda x: (1 + erf(x / 2 ** .5)) / 2 + x * np.exp(-x * x / 2) / (2 * np.pi) ** .5, "x"),
    "silu": (lambda x: x * sigmoid(x), "x"), "floor": (np.floor, "x"), "ceil": (np.ceil, "x"), "round": (np.round, "h"),
    "trunc": (np.trunc, "x"), "selu": (lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772), "x"),
    "hard_swish": (lambda x: x * np.clip(x / 6 + .5, 0, 1), "x"), "mish": (lambda x: x * np.tanh(softplus(x)), "x"),
    "softsign": (lambda x: x / (1 + np.abs(x)), "x"), "log_sigmoid": (lambda x: -np.logaddexp(0, -x), "x"),
}
for name, (function, of) in UNARY.items():
    case(FLOATS, f"{name}({of})", function, of, loose=2)
    case(SINGLES, f"{name}(broadcast_to(c, [2, 2, 4]) * 0.25 + 0.5)", lambda c: function(np.broadcast_to(c, (2, 2, 4)) * .25 + .5), loose=4)
    case(["f32"], f"{name}(e)", function, "e")
    if name not in ("hard_swish", "mish", "silu", "gelu", "gelu_derivative", "softsign", "selu"):
        case(SINGLES, f"{name}(w)", function, "w", loose=2)
for name, function in {"leaky_relu(x, 0.125)": lambda x: np.where(x > 0, x, .125 * x), "leaky_relu(x)": lambda x: np.where(x > 0, x, .01 * x),
                       "elu(x, 0.5)": lambda x: elu(x, .5), "elu(x)": lambda x: elu(x, 1),
                       "celu(x, 0.5)": lambda x: np.where(x > 0, x, .5 * np.expm1(np.minimum(x, 0) / .5)),
                       "hard_sigmoid(x)": lambda x: np.clip(.2 * x + .5, 0, 1),
                       "hard_sigmoid(x, alpha=0.5, beta=0.25)": lambda x: np.clip(.5 * x + .25, 0, 1)}.items():
    case(FLOATS, name, function, loose=3)
case(SINGLES, "selu(w)", lambda w: 1.0507009873554805 * elu(w, 1.6732632423543772))
case(SINGLES, "elu(w, 1)", lambda w: elu(w, 1))
case(NUMBERS, "negative(x)", lambda x: -x)
for name in ("floor", "ceil", "round", "trunc"):
    case(INTEGERS, f"{name}(x)", lambda x: x)
case(NUMBERS, "absolute(x)", lambda x: np.abs(x))
case(NUMBERS, "square(v)", lambda v: np.square(v))
case(NUMBERS, "relu(x)", lambda x: np.maximum(x, 0).astype(x.dtype))
case(NUMBERS, "sign(x)", lambda x: np.sign(x))
case(INTEGERS + ["bool"], "bitwise_not(x)", lambda x: ~x)
for name in ("absolute", "square", "negative", "sign"):
    case(SINGLES, f"{name}(w)", getattr(np, name), "w")
case(SINGLES, "relu(w)", lambda w: np.maximum(w, 0))

BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide, "maximum": np.maximum, "minimum": np.minimum,
          "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod}
FLOAT_BINARY = {"atan2": np.arctan2, "hypot": np.hypot}
for name, function in list(BINARY.items()) + list(FLOAT_BINARY.items()):
    dtypes = NUMBERS if name in BINARY else FLOATS
    case(dtypes, f"{name}(x, y)", function, "x y")
    case(SINGLES + (["i32"] if name in BINARY else []), f"{name}(c, v)", function, "c v")
    case(SINGLES, f"{name}(x, s)", function, "x s")
    case(SINGLES, f"{name}(x, 3)", lambda x: function(x, np.float64(3)))
    case(SINGLES, f"{name}(3, x)", lambda x: function(np.float64(3), x))
    case(["f64", "i64"] if name in BINARY else ["f64"], f"{name}(e, v)", function, "e v")
    case(SINGLES, f"{name}(w, z)", function, "w z")
for name in ("add", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"):
    case(["bool"], f"{name}(x, y)", getattr(np, name), "x y")
case(["bool"], "x * 1 + (y * 0)", lambda x, y: x)
case(["bool"], "divide(x, y)", np.true_divide, "x y")
case(INTEGERS, "trunc_divide(x, y)", quotient, "x y")
case(["i32"], "trunc_divide(c, v)", quotient, "c v")
case(INTEGERS + ["bool"], "x / 1.5", lambda x: x / 1.5)
case(INTEGERS + ["bool"], "300 / x", lambda x: 300 / x)
case(["i32", "f32"], "divide(x, y, dtype=f64)", np.true_divide, "x y", result="f64")
case(["i64", "bool", "f64"], "divide(x, y, dtype=f32)", np.true_divide, "x y", result="f32")
case(["bf16"], "divide(x, y, dtype=f16)", np.true_divide, "x y", result="f16")
case(FLOATS, "power(p, x)", lambda p, x: p ** x, loose=4)
case(SINGLES, "power(w, z)", lambda w, z: w ** z)
case(SINGLES, "p ** 2 - x / v + -y", lambda p, x, v, y: p ** 2 - x / v - y)
for name in ("and", "or", "xor"):
    case(INTEGERS, f"bitwise_{name}(x, y)", getattr(np, f"bitwise_{name}"), "x y")
    case(ALL, f"logical_{name}(x, y)", getattr(np, f"logical_{name}"), "x y")
    case(SINGLES, f"logical_{name}(w, z)", getattr(np, f"logical_{name}"), "w z")
for name in ("left", "right"):
    case(INTEGERS, f"{name}_shift(x, y)", getattr(np, f"{name}_shift"), "x y")
    case(["i8", "u32", "i64"], f"{name}_shift(c, v)", getattr(np, f"{name}_shift"), "c v")
case(INTEGERS, "x + 1 << 2 >> 1", lambda x: x + 1 << 2 >> 1)
case(["i32"], "x << 2 < y", lambda x, y: x << 2 < y)
for exponent in (0, 1, 2, 3, 7, 64):
    case(INTEGERS, f"x ** {exponent}", lambda x: x ** exponent)
for name in ("logaddexp", "logaddexp2"):
    case(FLOATS, f"{name}(x, y)", getattr(np, name), "x y", loose=2)
    case(SINGLES, f"{name}(c, v)", getattr(np, name), "c v", loose=2)
    case(SINGLES, f"{name}(x * 1000, 999)", lambda x: getattr(np, name)(x * 1000, 999), loose=2)
    case(SINGLES, f"{name}(w, z)", getattr(np, name), "w z", loose=2)
    case(SINGLES, f"{name}(w, w)", lambda w: getattr(np, name)(w, w), loose=2)
for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    case(ALL, f"{name}(tied, tied[:, ::-1])", lambda tied: getattr(np, name)(tied, tied[:, ::-1]))
    case(SINGLES, f"{name}(w, z)", getattr(np, name), "w z")
    case(["f32"], f"{name}(c, v)", getattr(np, name), "c v")
case(ALL, "logical_not(x)", lambda x: np.logical_not(x))
for name in ("isnan", "isfinite", "isinf"):
    case(FLOATS, f"{name}(w)", getattr(np, name), "w")
    case(["i32"], f"{name}(x)", getattr(np, name), "x")
case(ALL, "where(a, x, y)", lambda a, x, y: np.where(a, x, y))
case(["f32", "i8"], "where(b, c, v)", lambda b, c, v: np.where(b, c, v))
case(["f64"], "where(isnan(w), 7, w)", lambda w: np.where(np.isnan(w), 7, w))
case(NUMBERS, "x * where(a, 1, 0)", lambda x, a: x * np.where(a, 1, 0).astype(x.dtype))
case(["f32"], "sum(where(a, 1, 0), axis=0)", lambda a: np.where(a, 1, 0).sum(0))
case(["f64"], "max(where(a, 0.5, -2))", lambda a: np.where(a, .5, -2).max())
case(["f32", "i16"], "where(b, 5, where(a, 3, 2)) - v", lambda b, a, v: np.where(b, 5, np.where(a, 3, 2)).astype(v.dtype) - v)
case(SINGLES, "minimum(w, inf) + where(isnan(w), -inf, 0)", lambda w: np.minimum(w, np.inf) + np.where(np.isnan(w), -np.inf, 0))
case(SINGLES, "where(a, x, nan)", lambda a, x: np.where(a, x, np.nan))
case(NUMBERS, "abs(x)", lambda x: np.abs(x))
case(SINGLES, "x * sqrt(2) + exp(-1.5) - log(3) * sin(1)", lambda x: x * np.sqrt(2) + np.exp(-1.5) - np.log(3) * np.sin(1))
case(SINGLES, "x * log_sigmoid(-2) - logaddexp(1, 2) + logaddexp2(3, 3)",
     lambda x: x * -np.logaddexp(0, 2) - np.logaddexp(1, 2) + np.logaddexp2(3, 3))
case(["i32"], "x + abs(-3) * trunc(2.5) - (1 << 3)", lambda x: x + np.int32(3 * 2 - 8))
case(NUMBERS, "clip(x, 0, 1)", lambda x: np.clip(x, 0, 1))
case(NUMBERS, "clip(x, 3, 1)", lambda x: np.minimum(np.maximum(x, x.dtype.type(3)), x.dtype.type(1)))
case(SINGLES, "clip(w, 3, 1)", lambda w: np.minimum(np.maximum(w, 3), 1))
case(SINGLES, "clip(w, -1, 2)", lambda w: np.clip(w, -1, 2))
case(["f32"], "cast(x, f64)", lambda x: x, result="f64")
case(["f64"], "cast(cast(x, f32), f64)", lambda x: x.astype(np.float32).astype(np.float64))
case(INTEGERS + ["bool"], "cast(x, f32)", lambda x: x, result="f32")
case(FLOATS, "relu_gradient(x, y)", lambda x, y: np.where(x > 0, y, 0))
case(ALL, "stop_gradient(x)", lambda x: x)

# constants
case(ALL, "full_like(x, 1)", lambda x: np.full_like(x, 1))
case(ALL, "zeros_like(t)", lambda t: np.zeros_like(t))
case(ALL, "ones_like(e)", lambda e: np.ones_like(e))
case(FLOATS, "full([2, 3], 1.5, DTYPE)", lambda: np.full((2, 3), 1.5))
case(FLOATS, "arange([5], 1, 0.5, DTYPE)", lambda: np.arange(5) * .5 + 1)
case(["i32"], "arange([4], 10, -3, DTYPE)", lambda: np.arange(10, -2, -3), result="i32")
case(FLOATS, "linspace(-1, 2, 7, DTYPE)", lambda: np.linspace(-1, 2, 7))
case(["f64"], "linspace(0.1, 0.7, 1, DTYPE)", lambda: np.linspace(.1, .7, 1))
case(["f64"], "linspace(0, 1, 0, DTYPE)", lambda: np.linspace(0, 1, 0))
case(FLOATS, "eye([3, 4], 1, DTYPE)", lambda: np.eye(3, 4, 1))
case(["f32"], "eye([3, 2], k=-1, dtype=DTYPE)", lambda: np.eye(3, 2, -1))

# reductions
for name in ("sum", "prod", "max", "min", "mean", "var", "std"):
    function = getattr(np, name)
    kinds, own = NUMBERS if name in ("max", "min") else ALL, function
    case(kinds, f"{name}(x)", lambda x: own(x), loose=4)
    case(kinds, f"{name}(t, axis=1)", lambda t: own(t, axis=1), loose=4)
    case(kinds, f"{name}(t, axis=[0, -1], keepdims=True)", lambda t: own(t, axis=(0, 2), keepdims=True), loose=4)
    case(SINGLES, f"{name}(s)", lambda s: own(s))
    if name in ("sum", "prod"):
        case(["f64", "i32"], f"{name}(e, 0)", lambda e: own(e, axis=0))
        case(["f32"], f"{name}(f)", own, "f")
    case(SINGLES, f"{name}(e, 1)", lambda e: own(e, axis=1))
    case(SINGLES, f"{name}(w)", lambda w: own(w))
    if name in ("max", "min"):
        continue
    case(["i8", "u32", "bool"], f"{name}(s)", lambda s: own(s))
    for dtype in SINGLES:
        case(ALL, f"{name}(t, axis=1, dtype={dtype})", lambda t: own(t, axis=1, dtype=np.float64), result=dtype, loose=4)
    case(INTEGERS + ["bool"], f"{name}(x, dtype=f16)", lambda x: own(x / 1.), result="f16", loose=4)
for name in ("sum", "prod"):
    function = getattr(np, name)
    for dtype in INTEGERS + ["bool"]:
        case(INTEGERS + ["bool"], f"{name}(t, axis=[0, 2], dtype={dtype})", lambda t: function(t, axis=(0, 2), dtype=NUMPY[dtype]))
        case(["u8", "i64"], f"{name}(x, keepdims=True, dtype={dtype})", lambda x: function(x, keepdims=True, dtype=NUMPY[dtype]))
        if dtype != "bool":
            case(INTEGERS + ["bool"], f"cumsum(t, 1, dtype={dtype})", lambda t: np.cumsum(t, 1, dtype=NUMPY[dtype])) if name == "sum" else None
for dtype in SINGLES:
    case(ALL, f"cumsum(t, 0, dtype={dtype})", lambda t: np.cumsum(t, 0, dtype=np.float64), result=dtype, loose=4)
case(["i64", "u64"], "mean(x * 65536 * 65536 * 65536)", lambda x: (x * x.dtype.type(65536) * x.dtype.type(65536) * x.dtype.type(65536)).mean(), loose=4)
for name in ("any", "all"):
    function = getattr(np, name)
    case(ALL, f"{name}(x)", function, "x")
    case(ALL, f"{name}(tied, axis=0)", lambda tied: function(tied, axis=0))
    case(["f32", "bool"], f"{name}(tied, axis=1, keepdims=True)", lambda tied: function(tied, axis=1, keepdims=True))
    case(["f32", "i64"], f"{name}(e, 0)", lambda e: function(e, axis=0))
    case(["f64"], f"{name}(w)", function, "w")
for ord in (1, 2, 3, 0.5):
    case(FLOATS, f"norm(t, {ord}, axis=1)", lambda t: (np.abs(t) ** ord).sum(1) ** (1 / ord), loose=8)
case(FLOATS, "norm(x)", lambda x: np.linalg.norm(x), loose=4)
case(SINGLES, "norm(x, axis=0, keepdims=True)", lambda x: np.linalg.norm(x, axis=0, keepdims=True))
case(SINGLES, "norm(w)", lambda w: np.linalg.norm(w))
case(SINGLES, "norm(x * 0)", lambda x: np.linalg.norm(x * 0))
case(FLOATS, "logsumexp(t, axis=[0, 2])", lambda t: logsumexp(t, (0, 2)), loose=4)
case(FLOATS, "logsumexp(x, keepdims=True)", lambda x: logsumexp(x, keepdims=True), loose=4)
case(FLOATS, "softmax(t, axis=1)", lambda t: softmax(t, 1), loose=4)
case(SINGLES, "softmax(x * 1000)", lambda x: softmax(x * 1000), loose=4)
case(FLOATS, "log_softmax(x, axis=-1)", lambda x: log_softmax(x, -1), loose=4)
for name in ("argmax", "argmin"):
    function = getattr(np, name)
    case(NUMBERS, f"{name}(tied, 1)", lambda tied: function(tied, 1))
    case(SINGLES, f"{name}(t)", function, "t")
    case(["f32", "i32"], f"{name}(t, axis=0)", lambda t: function(t, 0))
    case(["f32", "i32"], f"{name}(t, axis=1, keepdims=True)", lambda t: function(t, 1, keepdims=True))
    case(["f64"], f"{name}(x, keepdims=True)", lambda x: function(x, keepdims=True))
    case(["f64"], f"{name}(x, -1, keepdims=True)", lambda x: function(x, -1, keepdims=True))
case(ALL, "cumsum(t, 1)", lambda t: np.cumsum(t, 1), loose=4)
case(SINGLES, "cumsum(e, 0)", lambda e: np.cumsum(e, 0))
case(ALL, "sort(tied)", lambda tied: np.sort(tied, -1))
case(SINGLES, "sort(w)", lambda w: np.sort(w))
case(ALL, "argsort(tied)", lambda tied: np.argsort(tied, -1, kind="stable"))
for axis in (0, 1):
    case(ALL, f"sort(tied, axis={axis})", lambda tied: np.sort(tied, axis))
    case(ALL, f"argsort(tied, axis={axis})", lambda tied: np.argsort(tied, axis, kind="stable"))
    case(ALL, f"sort(tied, {axis}, descending=True)", lambda tied: descending(tied, axis)[0])
    case(ALL, f"argsort(tied, {axis}, descending=True)", lambda tied: descending(tied, axis)[1])
case(["f32", "i16"], "sort(t, axis=1)", lambda t: np.sort(t, 1))
case(SINGLES, "sort(w, descending=1)", lambda w: descending(w, 0)[0])
case(SINGLES, "argsort(w, descending=1)", lambda w: descending(w, 0)[1])
case(SINGLES, "sort(e, 0, descending=1)", lambda e: e)
case(SINGLES, "argsort(f, 0, 1)", lambda f: np.zeros((2, 0), np.int64))
for axis in (0, 1, 2):
    case(ALL, f"cumprod(t, {axis})", lambda t: np.cumprod(t, axis), loose=4)
case(NUMBERS, "cumprod(x, -1)", lambda x: np.cumprod(x, -1), loose=4)
case(["f16", "f32", "i8", "u32"], "cumprod(x, 1, dtype=f64)", lambda x: np.cumprod(x, 1, dtype=np.float64), result="f64", loose=4)
case(["f32", "i8", "bool"], "cumprod(x, 1, dtype=i32)", lambda x: np.cumprod(x, 1, dtype=np.float64), result="i32")
for name, function in {"var": np.var, "std": np.std}.items():
    case(ALL, f"{name}(x, ddof=1)", lambda x: function(x, ddof=1), loose=4)
    case(FLOATS, f"{name}(t, axis=1, ddof=2, keepdims=True)", lambda t: function(t, axis=1, ddof=2, keepdims=True), loose=4)
    case(SINGLES, f"{name}(t, axis=[0, 2], ddof=1)", lambda t: function(t, axis=(0, 2), ddof=1), loose=4)
    case(SINGLES, f"{name}(x, axis=0, ddof=2)", lambda x: function(x, axis=0, ddof=2))
    case(SINGLES, f"{name}(e, axis=0, ddof=1)", lambda e: np.full(3, np.nan))
case(SINGLES, "cumprod(e, 0)", lambda e: np.cumprod(e, 0))
case(SINGLES, "cumprod(f, 1)", lambda f: np.cumprod(f, 1))
case(SINGLES, "cumprod(w, 0)", lambda w: np.cumprod(w))
case(NUMBERS, "top_k(tied, 2)", lambda tied: largest(tied, 2).astype(tied.dtype))
for name in ("tril", "triu"):
    function = getattr(np, name)
    case(ALL, f"{name}(m)", function, "m")
    case(["f32"], f"{name}(t, k=-1)", lambda t: function(t, -1))
    case(["f64"], f"{name}(r, 1)", lambda r: function(r, 1))

# products
case(NUMBERS, "matmul(m, r)", lambda m, r: m @ r, loose=4)
case(NUMBERS, "matmul(t, k)", lambda t, k: t @ k, loose=4)
case(INTEGERS, "matmul(t, k[0])", lambda t, k: t @ k[0])
case(INTEGERS, "v @ m @ v", lambda v, m: v @ m @ v)
case(["i32"], "matmul(e, m)", lambda e, m: e @ m)
case(SINGLES, "v @ m @ v", lambda v, m: v @ m @ v, loose=4)
case(SINGLES, "matmul(e, m)", lambda e, m: e @ m)
case(SINGLES, "matmul(f, f.T)", lambda f: f @ f.T)
case(FLOATS, "dot(s, x)", lambda s, x: s * x)
case(NUMBERS, "dot(x, v)", lambda x, v: x @ v, loose=4)
case(NUMBERS, "inner(x, y)", lambda x, y: np.inner(x, y), loose=4)
case(NUMBERS, "outer(v, c)", lambda v, c: np.outer(v, c))
for text, of in {"ij,kj->ik": "x y", "ij,kj": "x y", "bij,bjk->bki": "t k", "ij,ij->": "x y", "i,j->ji": "v v", "ij,ij->ji": "x y",
                 "ii->i": "m", "ii": "m", "ij->j": "x", "ij->ji": "x", "ijk->": "t", "ii,ij->j": "m m", "ijk,l->kl": "t v",
                 "abc,ab->c": "t x", "...ij,...jk->...ik": "t k", "...i,i": "x v", "...": "t", "i...->...": "t", "...i->...": "t", "...,...": "x c",
                 "i...,...i->...": "m m", "...ii->...i": "m", "a...,b...->...ba": "x y", "...ij,kj": "t r", "ij,jk,kl->il": "x m r",
                 "ij,j,ik->": "x v c", "bij,bjk,...->b...": "t k v", "ij,jk,kl,lm->im": "x m m r", "i,i,i->i": "v v v", "ij,...j,ik->...k": "x m y",
                 "i,j,k->": "v v v", "ij,ij->j": "x c", "...,...,->...": "x c s"}.items():
    case(NUMBERS, f"einsum('{text}', {of.replace(' ', ', ')})", lambda *given: np.einsum(text, *given), of, loose=4)
case(["f64"], "einsum('ij,jk->ik', e, m)", lambda e, m: np.einsum("ij,jk->ik", e, m))
case(["f64"], "einsum('ij,kj->ik', f, f)", lambda f: np.einsum("ij,kj->ik", f, f))

# movement
for text, function in {
        "reshape(t, [4, -1])": lambda t: t.reshape(4, -1), "ravel(t)": lambda t: t.ravel(), "ravel(s)": lambda s: s.ravel(),
        "broadcast_to(c, [3, 2, 4])": lambda c: np.broadcast_to(c, (3, 2, 4)), "expand_dims(x, 1)": lambda x: x[:, None],
        "squeeze(one)": lambda one: one.squeeze(), "squeeze(one, 0)": lambda one: one.squeeze(0), "transpose(t)": lambda t: t.T,
        "transpose(t, [1, 2, 0])": lambda t: t.transpose(1, 2, 0), "swapaxes(t, 0, -1)": lambda t: t.swapaxes(0, -1),
        "moveaxis(t, 0, -1)": lambda t: np.moveaxis(t, 0, -1), "moveaxis(t, [2, 0], [0, 1])": lambda t: np.moveaxis(t, [2, 0], [0, 1]),
        "slice(t, [0, 1], [2, 3], [1, 2])": lambda t: t[0:2, 1:3:2], "t[1, ::-2, None, -3:]": lambda t: t[1, ::-2, None, -3:],
        "t[..., 1]": lambda t: t[..., 1], "flip(t)": lambda t: np.flip(t), "flip(t, [0, 2])": lambda t: np.flip(t, (0, 2)),
        "pad(x, 1)": lambda x: np.pad(x, 1), "pad(t, 1, 2)": lambda t: np.pad(t, (1, 2)), "pad(x, [0, 2])": lambda x: np.pad(x, ((0, 0), (2, 2))),
        "pad(x, after=[1, 0])": lambda x: np.pad(x, ((0, 1), (0, 0))), "pad(v, [3], [0])": lambda v: np.pad(v, (3, 0)),
        "pad(x, [1, 0], [2, 3])": lambda x: np.pad(x, ((1, 2), (0, 3))), "pad(e, [1, 0], [0, 1])": lambda e: np.pad(e, ((1, 0), (0, 1))),
        "concatenate(x, y)": lambda x, y: np.concatenate([x, y]), "concatenate([x, c, y], axis=1)": lambda x, c, y: np.concatenate([x, c, y], 1),
        "concatenate(x, e)": lambda x, e: np.concatenate([x, e]), "stack(x, y, axis=-1)": lambda x, y: np.stack([x, y], -1),
        "split(t, 2, 1, axis=2)": lambda t: np.split(t, 2, 2)[1], "split(t, 3, 0, 1)": lambda t: np.split(t, 3, 1)[0],
        "tile(x, [2])": lambda x: np.tile(x, 2), "tile(x, [3, 2, 1])": lambda x: np.tile(x, (3, 2, 1)), "tile(s, [2, 3])": lambda s: np.tile(s, (2, 3)),
        "tile(x, [0, 2])": lambda x: np.tile(x, (0, 2)), "repeat(t, 2, axis=1)": lambda t: np.repeat(t, 2, 1),
        "repeat(x, 3)": lambda x: np.repeat(x, 3), "repeat(x, 0, 0)": lambda x: np.repeat(x, 0, 0), "diagonal(m)": lambda m: np.diagonal(m),
        "diagonal(r, 2)": lambda r: np.diagonal(r, 2), "diagonal(r, offset=-1)": lambda r: np.diagonal(r, -1),
        "diagonal(r, 4)": lambda r: np.diagonal(r, 4), "diagonal(t, 1, 2, 1)": lambda t: np.diagonal(t, 1, 2, 1),
        "take(r, i)": lambda r, i: r[i], "take(m, j, axis=1)": lambda m, j: np.take(m, j, 1),
        "embedding(m, j)": lambda m, j: m[j], "take_along_axis(m, l, 0)": lambda m, l: np.take_along_axis(m, l, 0), "take_along_axis(x, l, axis=1)": lambda x, l: np.take_along_axis(x, l, 1),
        "take_along_axis(r[:2].T, l.T, -2)": lambda r, l: np.take_along_axis(r[:2].T, l.T, -2)}.items():
    case(ALL if "t[" not in text else ["f32"], text, function)
case(ALL, "trace(m)", lambda m: np.trace(m), loose=4)
case(["u8"], "trace(m, dtype=DTYPE)", lambda m: np.trace(m, dtype=m.dtype))
case(["f32"], "trace(t, 0, 0, 2)", lambda t: np.trace(t, 0, 0, 2), loose=4)
case(NUMBERS, "scatter_add(r, rows, 3)", lambda r, rows: scattered(r, rows, 3))
case(NUMBERS, "scatter_add(t, rows, rows=2, axis=1)", lambda t, rows: scattered(t, rows, 2, 1))
case(NUMBERS, "add_along_axis(x, g, 4, 1)", lambda x, g: added_along(x, g, 4, 1))
case(NUMBERS, "add_along_axis(x, g, 5, 0)", lambda x, g: added_along(x, g, 5, 0))
case(["f32"], "one_hot(i, 4, DTYPE)", lambda i: np.eye(4)[i])
case(["i8"], "one_hot(labels, 3, DTYPE)", lambda labels: np.eye(3)[labels], result="i8")

# attention
def attended(q, k, v, scale=None, mask=0, causal=False):
    scores = q @ k.swapaxes(-1, -2) * (scale or 1 / np.sqrt(q.shape[-1])) + mask
    if causal:
        scores = np.where(np.arange(k.shape[-2]) > np.arange(q.shape[-2])[:, None], -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300) @ v


case(FLOATS, "attention(t, t, t)", lambda t: attended(t, t, t), loose=8)
case(FLOATS, "attention(t, t, t, causal=1)", lambda t: attended(t, t, t, causal=True), loose=8)
case(FLOATS, "attention(x, m, r, y, scale=0.5)", lambda x, m, r, y: attended(x, m, r, .5, y), loose=8)
case(FLOATS, "attention(x, m, r, v, 2, 1)", lambda x, m, r, v: attended(x, m, r, 2, v, True), loose=8)
case(SINGLES, "attention(x, e, e)", lambda x, e: attended(x, e, e), loose=8)
case(SINGLES, "attention(t, t, t, one, scale=-1)", lambda t, one: attended(t, t, t, -1, one), loose=8)

# normalisation
case(FLOATS, "layer_norm(x)", lambda x: standard(x, -1), loose=8)
case(FLOATS, "layer_norm(x, v, v, epsilon=0.25)", lambda x, v: standard(x, -1, .25) * v + v, loose=8)
case(FLOATS, "layer_norm(t, r, axis=1)", lambda t, r: standard(t, (1, 2)) * r, loose=8)
case(SINGLES, "layer_norm(t, axis=-3, epsilon=0)", lambda t: standard(t, (0, 1, 2), 0), loose=8)
case(FLOATS, "rms_norm(x, v)", lambda x, v: over_root_mean_square(x, -1) * v, loose=8)
case(FLOATS, "rms_norm(t, axis=1, epsilon=2)", lambda t: over_root_mean_square(t, (1, 2), 2), loose=8)
case(FLOATS, "group_norm(k, groups=2)", lambda k: standard(k.reshape(2, 2, 2, 2), (2, 3)).reshape(k.shape), loose=8)
case(FLOATS, "group_norm(t, v, v, groups=1, epsilon=0.5)",
     lambda t, v: standard(t, (1, 2), .5) * v[:, None] + v[:, None], loose=8)
case(SINGLES, "group_norm(t, v, groups=3)", lambda t, v: standard(t, 2) * v[:, None], loose=8)
case(FLOATS, "instance_norm(t)", lambda t: standard(t, 2), loose=8)
case(FLOATS, "instance_norm(t, v, v, epsilon=0.5)", lambda t, v: standard(t, 2, .5) * v[:, None] + v[:, None], loose=8)
case(FLOATS, "local_response_norm(k, size=3)", lambda k: over_neighbours(k, 3, 1e-4, .75, 1), loose=8)
case(FLOATS, "local_response_norm(k, 2, 1.5, 0.5, 0.25)", lambda k: over_neighbours(k, 2, 1.5, .5, .25), loose=8)
case(SINGLES, "local_response_norm(x, 9, 1)", lambda x: over_neighbours(x, 9, 1, .75, 1), loose=8)

# pooling
case(FLOATS, "max_pool(t, 2)", lambda t: max_pooled(t, 2))
case(FLOATS, "max_pool(t, 3, stride=1, padding=1)", lambda t: max_pooled(t, 3, 1, 1))
case(FLOATS, "max_pool(image, [2, 3], [1, 2], padding=[1, 0, 0, 1])", lambda image: max_pooled(image, [2, 3], [1, 2], [1, 0, 0, 1]))
case(SINGLES, "max_pool(image, 2, 3, dilation=2)", lambda image: max_pooled(image, 2, 3, dilation=2))
case(SINGLES, "max_pool(image, 2, ceil_mode=1)", lambda image: max_pooled(image, 2, ceil=True))
case(SINGLES, "max_pool(image, 3, padding=1, ceil_mode=1)", lambda image: max_pooled(image, 3, padding=1, ceil=True))
case(SINGLES, "max_pool(box, 2, stride=[1, 2, 1], padding=[0, 1, 0])", lambda box: max_pooled(box, 2, [1, 2, 1], [0, 1, 0]))
case(FLOATS, "average_pool(t, 2)", lambda t: average_pooled(t, 2), loose=2)
case(FLOATS, "average_pool(t, 3, 2, 1)", lambda t: average_pooled(t, 3, 2, 1), loose=2)
case(FLOATS, "average_pool(t, 3, 2, 1, exclude_padding=1)", lambda t: average_pooled(t, 3, 2, 1, counts_padding=False), loose=2)
case(FLOATS, "average_pool(image, [3, 2], stride=2, padding=1, ceil_mode=1)",
     lambda image: average_pooled(image, [3, 2], 2, 1, ceil=True), loose=2)
case(SINGLES, "average_pool(image, 3, stride=2, padding=[0, 1, 1, 0], ceil_mode=1, exclude_padding=1)",
     lambda image: average_pooled(image, 3, 2, [0, 1, 1, 0], ceil=True, counts_padding=False), loose=2)
case(SINGLES, "average_pool(image, 2, stride=2, padding=1, dilation=2, ceil_mode=1)",
     lambda image: average_pooled(image, 2, 2, 1, 2, True), loose=2)
case(SINGLES, "average_pool(box, 2, padding=[1, 0, 0])", lambda box: average_pooled(box, 2, padding=[1, 0, 0]), loose=2)
case(FLOATS, "l2_pool(image, 2, stride=1)", lambda image: l2_pooled(image, 2, 1), loose=4)
case(SINGLES, "l2_pool(t, 3, 2, padding=1, ceil_mode=1)", lambda t: l2_pooled(t, 3, 2, 1, ceil=True), loose=4)
case(FLOATS, "global_max_pool(image)", lambda image: image.max((2, 3), keepdims=True))
case(FLOATS, "global_max_pool(t)", lambda t: t.max(2, keepdims=True))
case(FLOATS, "global_average_pool(box)", lambda box: box.mean((2, 3, 4), keepdims=True), loose=2)
case(FLOATS, "batch_norm(t, v, absolute(v), v, v)", lambda t, v: batch_norm(t, v, abs(v), v, v), loose=8)
case(FLOATS, "batch_norm(x, v, absolute(v), epsilon=0.5)", lambda x, v: batch_norm(x, v, abs(v), np.ones(3), np.zeros(3), .5), loose=8)
case(FLOATS, "batch_norm(x, v, v, training=1)", lambda x, v: standard(x, 0), loose=8)
case(FLOATS, "batch_norm(t, v, v, v, v, training=1, epsilon=0.5)",
     lambda t, v: standard(t, (0, 2), .5) * v[:, None] + v[:, None], loose=8)
case(SINGLES, "batch_norm(one, v, v, v, training=1, per_device=1)", lambda one, v: standard(one, (0, 2)) * v[:, None], loose=8)
case(FLOATS, "batch_norm_mean(t, v)", lambda t, v: .9 * v + .1 * t.mean((0, 2)), loose=8)
case(FLOATS, "batch_norm_mean(x, v, 1)", lambda x, v: x.mean(0), loose=8)
case(FLOATS, "batch_norm_variance(x, v, v)", lambda x, v: .9 * v + .1 * x.var(0), loose=8)
case(FLOATS, "batch_norm_variance(t, v, v, 0.25, ddof=1)", lambda t, v: .75 * v + .25 * t.var((0, 2), ddof=1), loose=8)
case(SINGLES, "batch_norm_variance(one, v, v, 1, 5)", lambda one, v: one.var((0, 2)), loose=8)

# losses
case(SINGLES, "softmax_cross_entropy(x, labels)", lambda x, labels: row_losses(x, labels).sum(), loose=5)
case(FLOATS, "cross_entropy(x, labels)", lambda x, labels: row_losses(x, labels), loose=4)
case(FLOATS, "cross_entropy(t, l, ignore=1)",
     lambda t, l: np.where(l == 1, 0, row_losses(t, l)), loose=4)
case(SINGLES, "cross_entropy(x, labels, -100)", lambda x, labels: row_losses(x, labels), loose=4)
case(FLOATS, "negative_log_likelihood(x, labels)", lambda x, labels: -x[[0, 1], labels])
case(FLOATS, "sigmoid_cross_entropy(x, part)", lambda x, part: -part * np.log(sigmoid(x)) - (1 - part) * np.log(1 - sigmoid(x)), loose=4)
case(FLOATS, "mean_squared_error(x, v, axis=0)", lambda x, v: ((x - v) ** 2).mean(0), loose=4)
case(FLOATS, "mean_squared_error(x, y)", lambda x, y: ((x - y) ** 2).mean(), loose=4)
case(FLOATS, "huber(x, y, 0.5)", lambda x, y: np.where(np.abs(x - y) <= .5, (x - y) ** 2 / 2, .5 * (np.abs(x - y) - .25)), loose=4)
case(FLOATS, "hinge(x, sides)", lambda x, sides: np.maximum(0, 1 - x * sides), loose=2)


# ---- the file ----

def number(v):
    if isinstance(v, (bool, np.bool_)) or np.issubdtype(type(v), np.integer):
        return str(int(v))
    text = repr(float(v))
    return text[:-2] if text.endswith(".0") else text


def values(array):
    return " ".join(number(v) for v in array.ravel())


def shape(array):
    return " ".join(str(n) for n in array.shape)


print("/* Written by tests/graph/fixtures.py: operands, and the results of NumPy. ARRAY(name, dtype, shape, values);")
print(" * CASE(dtype of the result, multiple of its error that is allowed, shape, text, values). */")
for name, (kind, array) in arrays.items():
    print(f'ARRAY("{name}", "{kind}", "{shape(array)}", "{values(array)}")')
for kind, array, loose, text in cases:
    print(f'CASE("{kind}", {loose}, "{shape(array)}", "{text}", "{values(array)}")')
