"""Writes tests/graph/layer_fixtures.def: layers of networks, and what PyTorch computes.

    python3 tests/graph/layer_fixtures.py > tests/graph/layer_fixtures.def   (needs PyTorch; written with 1.13)

Each case has a name of its layer, a text of muster_expr_parse and arrays: the operands, the gradient g of the
result y, PyTorch's y and gradients of the operands (d and the operand's name), all in f64. A shape that begins
with * has a first axis of rows. An array whose name begins with = is what another text gives. Operands are
eighths, which all dtypes of a layer hold. tests/graph/test_layer_fixtures.c reads the file.

PyTorch 1.13 has no attention, no RMS normalisation and no L2 pooling over three axes: these are written by its
other operations, and so are the gradients of batch normalisation by running statistics, which it does not give.
"""
import math

import torch
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)


def draw(*shape, most=16):
    return (torch.randint(-most, most + 1, shape) / 8).requires_grad_()


def positive(*shape):
    return (torch.randint(4, 17, shape) / 8).requires_grad_()


def different(*shape):
    """No two elements are equal, and none is 0: the largest is one element."""
    count = math.prod(shape)
    numbers = torch.randperm(2 * count)[:count] - count
    return ((numbers + (numbers >= 0)) / 8).reshape(shape).requires_grad_()


def array(name, t, rows):
    values = " ".join("%.17g" % v for v in t.detach().reshape(-1).tolist())
    return f'    {{"{name}", "{"*" if rows else ""}{" ".join(map(str, t.shape))}", "{values}"}}'


def case(layer, text, operands, y, rows=("x",), more=None, result_rows=True):
    """rows: the operands whose first axis has rows. more: other texts and what they give."""
    g = draw(*y.shape)
    leaves = {name: t for name, t in operands.items() if t.requires_grad}
    gradients = torch.autograd.grad((y * g).sum(), list(leaves.values()), allow_unused=True)
    arrays = [array(name, t, name in rows) for name, t in operands.items()]
    arrays += [array("g", g, result_rows), array("y", y, result_rows)]
    arrays += [array("=" + other, t, False) for other, t in (more or {}).items()]
    for name, d in zip(leaves, gradients):
        arrays.append(array("d" + name, torch.zeros_like(leaves[name]) if d is None else d, name in rows))
    print(f'CASE("{layer}", "{text}",\n' + ",\n".join(arrays) + ")")


# ---- pooling ----

POOLS = {"max": [F.max_pool1d, F.max_pool2d, F.max_pool3d], "average": [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d]}
WORDS = {"kernel_size": "size", "dilation": "dilation", "padding": "padding", "stride": "stride"}


def attribute(name, value):
    return f"{name}={list(value) if isinstance(value, tuple) else int(value)}"


def pool_text(kind, given):
    words = ["x", str(list(given["size"]))]
    words += [attribute(name, value) for name, value in given.items() if name != "size"]
    return f"{kind}_pool({', '.join(words)})"


def pool(kind, shape, size, **given):
    x = different(*shape)
    options = {name: value for name, value in given.items() if name not in ("exclude_padding", "ceil_mode")}
    if kind == "average":
        options["count_include_pad"] = not given.get("exclude_padding")
    y = POOLS[kind][len(size) - 1](x, size, ceil_mode=bool(given.get("ceil_mode")), **options)
    case(f"{kind}_pool", pool_text(kind, {"size": size, **given}), {"x": x}, y)


def l2_pool(shape, size, stride=None, padding=None):
    """PyTorch's lp_pool has no padding: zeros are put around x. Over three axes it is a convolution of the squares."""
    x, axes = different(*shape), len(size)
    pairs = [p for d in reversed(range(axes)) for p in (padding[d], padding[d])] if padding else []
    inner = F.pad(x, pairs) if padding else x
    if axes == 3:
        ones = torch.ones(x.shape[1], 1, *size)
        y = F.conv3d(inner * inner, ones, stride=stride or size, groups=x.shape[1]).sqrt()
    else:
        y = [F.lp_pool1d, F.lp_pool2d][axes - 1](inner, 2, size[0] if axes == 1 else size, (stride[0] if axes == 1 else stride) if stride else None)
    given = {"size": size, **({"stride": stride} if stride else {}), **({"padding": padding} if padding else {})}
    case("l2_pool", pool_text("l2", given), {"x": x}, y)


def poolings():
    pool("max", (2, 3, 7), (2,))
    pool("max", (4, 2, 9), (3,), stride=(2,), padding=(1,), ceil_mode=1)
    pool("max", (2, 3, 5, 7), (3, 2), stride=(2, 3))
    pool("max", (1, 2, 7, 6), (2, 3), stride=(1, 2), padding=(1, 1), dilation=(3, 1))
    pool("max", (3, 2, 6, 5), (3, 3), stride=(2, 2), padding=(1, 0), ceil_mode=1)
    pool("max", (2, 1, 3, 5, 4), (2, 3, 2), stride=(1, 2, 2), padding=(0, 1, 1))
    pool("max", (1, 2, 5, 4, 5), (2, 2, 3), dilation=(2, 1, 2))
    pool("average", (2, 3, 7), (3,))
    pool("average", (4, 2, 8), (3,), stride=(2,), padding=(1,))
    pool("average", (2, 3, 5, 7), (3, 2), stride=(2, 3), padding=(1, 1))
    pool("average", (2, 2, 5, 6), (3, 3), stride=(2, 2), padding=(1, 1), exclude_padding=1)
    pool("average", (3, 1, 6, 7), (2, 4), stride=(3, 2), padding=(0, 2), ceil_mode=1)
    pool("average", (1, 2, 6, 5), (4, 2), stride=(3, 2), padding=(2, 1), ceil_mode=1, exclude_padding=1)
    pool("average", (2, 1, 3, 5, 4), (2, 3, 2), stride=(2, 1, 3), padding=(1, 1, 0))
    l2_pool((2, 3, 7), (2,))
    l2_pool((4, 2, 9), (3,), (2,), (1,))
    l2_pool((2, 3, 5, 7), (3, 2))
    l2_pool((1, 2, 6, 5), (2, 3), (3, 1), (1, 1))
    l2_pool((2, 2, 3, 5, 4), (2, 3, 2), (1, 2, 2))
    for shape in ((2, 3, 7), (4, 2, 3, 5), (1, 2, 2, 3, 4)):
        axes = tuple(range(2, len(shape)))
        x = different(*shape)
        case("global_max_pool", "global_max_pool(x)", {"x": x}, x.amax(axes, keepdim=True))
        x = draw(*shape)
        case("global_average_pool", "global_average_pool(x)", {"x": x}, x.mean(axes, keepdim=True))


# ---- normalisations ----


def batch_norm(shape, training, momentum, epsilon=1e-5, parameters=True):
    channels = shape[1]
    x, mean, variance = draw(*shape), draw(channels, most=8), positive(channels)
    scale, bias = (positive(channels), draw(channels)) if parameters else (None, None)
    named = {"x": x, "mean": mean, "variance": variance}
    words = ["x", "mean", "variance"]
    if parameters:
        named.update(scale=scale, bias=bias)
        words += ["scale", "bias"]
    words += ["training=1"] * training + [f"epsilon={epsilon}"]
    more = {}
    if training:
        new_mean, new_variance = mean.detach().clone(), variance.detach().clone()
        y = F.batch_norm(x, new_mean, new_variance, scale, bias, True, momentum, epsilon)
        more[f"batch_norm_mean(x, mean, {momentum})"] = new_mean
        more[f"batch_norm_variance(x, mean, variance, {momentum}, ddof=1)"] = new_variance
        mean.requires_grad_(False)
        variance.requires_grad_(False)
    else:
        by_channel = [1, channels] + [1] * (len(shape) - 2)
        y = (x - mean.reshape(by_channel)) / (variance.reshape(by_channel) + epsilon).sqrt()
        if parameters:
            y = y * scale.reshape(by_channel) + bias.reshape(by_channel)
        same = F.batch_norm(x, mean.detach(), variance.detach(), scale, bias, False, momentum, epsilon)
        assert torch.allclose(y, same, rtol=1e-12)
    case("batch_norm", f"batch_norm({', '.join(words)})", named, y, more=more)


def normalisations():
    for training in (False, True):
        batch_norm((5, 3), training, 0.25)
        batch_norm((4, 3, 5), training, 0.125, 0.5)
        batch_norm((2, 3, 3, 5), training, 0.5, 1e-3, parameters=False)
        batch_norm((1, 2, 2, 3, 4), training, 0.25, 0.125)
    for shape, axis, parts in (((5, 7), -1, 2), ((3, 4, 5), -1, 1), ((2, 3, 5), 1, 2), ((4, 3, 2, 3), 2, 2), ((1, 9), -1, 0)):
        inner = shape[axis:]
        x, scale, bias = draw(*shape), draw(*inner), draw(*inner)
        named = {"x": x, **({"scale": scale} if parts > 0 else {}), **({"bias": bias} if parts > 1 else {})}
        text = f"layer_norm({', '.join(named)}, axis={axis}, epsilon=0.125)"
        case("layer_norm", text, named, F.layer_norm(x, inner, named.get("scale"), named.get("bias"), 0.125))
        x = draw(*shape)
        named = {"x": x, **({"scale": scale} if parts > 0 else {})}
        axes = tuple(range(len(shape) + axis if axis < 0 else axis, len(shape)))
        y = x / ((x * x).mean(axes, keepdim=True) + 0.125).sqrt()
        case("rms_norm", f"rms_norm({', '.join(named)}, axis={axis}, epsilon=0.125)", named, y * scale if parts > 0 else y)
    for shape, groups in (((3, 4, 5), 2), ((2, 6, 3, 2), 3), ((4, 3), 1), ((1, 4, 2, 3, 2), 4)):
        x, scale, bias = draw(*shape), draw(shape[1]), draw(shape[1])
        y = F.group_norm(x, groups, scale, bias, 0.125)
        case("group_norm", f"group_norm(x, scale, bias, groups={groups}, epsilon=0.125)", {"x": x, "scale": scale, "bias": bias}, y)
    for shape in ((3, 2, 7), (2, 3, 3, 5), (1, 2, 2, 3, 4)):
        x, scale, bias = draw(*shape), draw(shape[1]), draw(shape[1])
        y = F.instance_norm(x, weight=scale, bias=bias, eps=0.125)
        case("instance_norm", "instance_norm(x, scale, bias, epsilon=0.125)", {"x": x, "scale": scale, "bias": bias}, y)
    for shape, size, alpha, beta, k in (((2, 5, 3), 3, 0.5, 0.75, 1), ((3, 7, 2, 3), 4, 2, 0.5, 0.5), ((1, 3, 4), 5, 1, 0.75, 2)):
        x = draw(*shape)
        text = f"local_response_norm(x, {size}, alpha={alpha}, beta={beta}, k={k})"
        case("local_response_norm", text, {"x": x}, F.local_response_norm(x, size, alpha, beta, k))


# ---- attention ----


def attention(q, k, v, mask=None, causal=False, scale=None, mask_rows=False, hidden=False):
    """q, k, v, mask: shapes. hidden: the mask hides keys, by -inf, and needs no gradient."""
    q, k, v = draw(*q, most=8), draw(*k, most=8), draw(*v)
    named = {"q": q, "k": k, "v": v}
    words = ["q", "k", "v"]
    heads = q.shape[-3] // k.shape[-3] if q.dim() > 2 else 1
    keys, values = (t.repeat_interleave(heads, -3) if heads > 1 else t for t in (k, v))
    scores = q @ keys.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if mask:
        named["mask"] = draw(*mask)
        if hidden:
            named["mask"] = torch.where(torch.rand(*mask) < 0.375, torch.tensor(-math.inf), named["mask"].detach())
            named["mask"][..., 0] = 0
        words.append("mask")
        scores = scores + named["mask"]
    if causal:
        n, m = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(n, m).triu(1).bool(), -math.inf)
    words += ["causal=1"] * causal + ([f"scale={scale}"] if scale else [])
    more = ("mask",) if mask_rows else ()
    case("attention", f"attention({', '.join(words)})", named, scores.softmax(-1) @ values, rows=("q", "k", "v") + more)


def attentions():
    attention((2, 5, 3), (2, 7, 3), (2, 7, 4))
    attention((4, 2, 3, 5), (4, 2, 6, 5), (4, 2, 6, 2), scale=0.75)
    attention((2, 3, 7, 2), (2, 3, 7, 2), (2, 3, 7, 3), causal=True)
    attention((1, 2, 3, 4), (1, 2, 9, 4), (1, 2, 9, 3), causal=True, scale=-1.5)
    attention((3, 1, 9, 2), (3, 1, 4, 2), (3, 1, 4, 2), causal=True)
    attention((2, 2, 4, 3), (2, 2, 6, 3), (2, 2, 6, 2), mask=(4, 6), hidden=True)
    attention((4, 2, 3, 2), (4, 2, 5, 2), (4, 2, 5, 3), mask=(4, 1, 1, 5), hidden=True, mask_rows=True)
    attention((2, 1, 1, 3), (2, 1, 1, 3), (2, 1, 1, 1))
    # the gradient of a mask that repeats rows, heads, queries or keys
    attention((4, 2, 3, 2), (4, 2, 5, 2), (4, 2, 5, 3), mask=(3, 5))
    attention((5, 2, 3, 2), (5, 2, 4, 2), (5, 2, 4, 3), mask=(2, 1, 4), causal=True)
    attention((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 1), mask=(2, 1, 3, 5), mask_rows=True, scale=0.75)
    attention((1, 3, 4, 2), (1, 3, 6, 2), (1, 3, 6, 2), mask=(1, 3, 4, 6))
    attention((4, 3, 2), (4, 3, 2), (4, 3, 2), mask=(3, 1), causal=True)
    # fewer heads of keys and values than of queries
    attention((2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 3))
    attention((3, 6, 3, 2), (3, 1, 4, 2), (3, 1, 4, 2), causal=True)
    attention((1, 6, 2, 3), (1, 3, 5, 3), (1, 3, 5, 2), mask=(6, 2, 5))


# ---- convolutions that convolution_fixtures.py lacks ----

PLAIN = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def convolution(x, w, bias=False, transposed=False, **given):
    axes = len(x) - 2
    x, w = draw(*x), draw(*w)
    outputs = w.shape[1] * given.get("groups", 1) if transposed else w.shape[0]
    named = {"x": x, "w": w, **({"b": draw(outputs)} if bias else {})}
    name = "convolution_transpose" if transposed else "convolution"
    text = f"{name}({', '.join(list(named) + [attribute(key, value) for key, value in given.items()])})"
    case(name, text, named, (TRANSPOSED if transposed else PLAIN)[axes](x, w, named.get("b"), **given))


def convolutions():
    convolution((2, 6, 7), (6, 1, 3), True, padding=(2,), dilation=(2,), groups=6)
    convolution((3, 4, 5, 7), (4, 1, 3, 2), True, stride=(2, 3), padding=(1, 1), groups=4)
    convolution((4, 3, 6, 5), (6, 1, 2, 3), dilation=(3, 2), padding=(2, 1), groups=3)
    convolution((1, 3, 4, 3, 5), (3, 1, 2, 3, 3), True, padding=(1, 1, 1), groups=3)
    convolution((2, 4, 3, 4, 3), (4, 2, 2, 2, 2), stride=(2, 1, 2), dilation=(1, 2, 1), groups=2, padding=(1, 1, 0))
    convolution((3, 2, 9, 7), (3, 2, 3, 3), True, dilation=(4, 3), padding=(3, 2))
    convolution((2, 2, 5), (2, 3, 4), True, transposed=True, stride=(3,), padding=(2,), output_padding=(2,))
    convolution((3, 4, 3, 2), (4, 2, 3, 2), True, transposed=True, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2)
    convolution((1, 3, 3, 4), (3, 1, 2, 3), transposed=True, stride=(3, 2), dilation=(2, 1), output_padding=(2, 1), groups=3)
    convolution((2, 2, 2, 3, 2), (2, 2, 2, 2, 3), True, transposed=True, stride=(2, 2, 1), padding=(0, 1, 1), output_padding=(1, 1, 0))
    convolution((4, 2, 2, 2, 3), (2, 1, 3, 1, 2), transposed=True, dilation=(1, 1, 3), groups=2)


# ---- what the sections above lack, here so that their numbers stay ----


def more_poolings():
    # With ceil_mode PyTorch's lp_pool multiplies the sum under a window that reaches beyond x: zeros are put there.
    for shape, size, stride in (((2, 3, 6), (4,), (3,)), ((3, 2, 5, 6), (2, 3), (2, 2))):
        x, axes = different(*shape), len(size)
        sizes = (size[0], stride[0]) if axes == 1 else (size, stride)
        y = [F.lp_pool1d, F.lp_pool2d][axes - 1](F.pad(x, (0, 1) * axes), 2, *sizes)
        case("l2_pool", pool_text("l2", {"size": size, "stride": stride, "ceil_mode": 1}), {"x": x}, y)
    # padding before and behind an axis that differs
    x = different(2, 3, 5, 4)
    y = F.max_pool2d(F.pad(x, (1, 0, 0, 1), value=-math.inf), (2, 3), (2, 1))
    case("max_pool", "max_pool(x, [2, 3], stride=[2, 1], padding=[0, 1, 1, 0])", {"x": x}, y)
    x = different(3, 2, 6)
    case("average_pool", "average_pool(x, [3], stride=[2], padding=[0, 1])", {"x": x}, F.avg_pool1d(F.pad(x, (0, 1)), 3, 2))


def more_convolutions():
    x, w, b = draw(2, 4, 5, 6), draw(6, 2, 3, 2), draw(6)
    y = F.conv2d(F.pad(x, (0, 3, 2, 1)), w, b, stride=(2, 1), groups=2)
    case("convolution", "convolution(x, w, b, stride=[2, 1], padding=[2, 0, 1, 3], groups=2)", {"x": x, "w": w, "b": b}, y)
    x, w = draw(3, 3, 6), draw(3, 1, 4)
    case("convolution", "convolution(x, w, padding=[0, 3], groups=3)", {"x": x, "w": w}, F.conv1d(F.pad(x, (0, 3)), w, groups=3))
    # less of the result of a transposed convolution, where there would be padding
    x, w = draw(2, 3, 4, 3), draw(3, 2, 3, 3)
    y = F.conv_transpose2d(x, w, stride=2)[:, :, 1:, :-2]
    case("convolution_transpose", "convolution_transpose(x, w, stride=[2, 2], padding=[1, 0, 0, 2])", {"x": x, "w": w}, y)


def more_normalisations():
    x = draw(3, 6, 4)
    case("group_norm", "group_norm(x, groups=3, epsilon=0.125)", {"x": x}, F.group_norm(x, 3, eps=0.125))
    x = draw(2, 3, 4, 3)
    case("instance_norm", "instance_norm(x, epsilon=0.125)", {"x": x}, F.instance_norm(x, eps=0.125))


def recurrent_layers(kind, n, t, d, h):
    """Two layers in both directions of time."""
    gates, biases = {"rnn": 1, "lstm": 4, "gru": 3}[kind] * h, {"rnn": 1, "lstm": 4, "gru": 4}[kind] * h
    module = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](d, h, 2, batch_first=True, bidirectional=True)
    x = draw(n, t, d, most=8)
    named, texts, below = {"x": x}, [], "x"
    for layer in range(2):
        for direction in range(2):
            i = 2 * layer + direction + 1
            w, r, b = draw(gates, d if layer == 0 else 2 * h, most=8), draw(gates, h, most=8), draw(biases, most=8)
            zeros = torch.zeros(2 * h)
            parts = {"weight_ih": w, "weight_hh": r, "bias_ih": b[:gates], "bias_hh": torch.cat([zeros, b[gates:]]) if kind == "gru" else torch.zeros(gates)}
            for name, value in parts.items():
                full = f"{name}_l{layer}" + "_reverse" * direction
                delattr(module, full)
                setattr(module, full, value)
            named.update({f"w{i}": w, f"r{i}": r, f"b{i}": b})
            texts.append(f"{kind}({below}, w{i}, r{i}, b{i}{', reverse=1' * direction})")
        below = f"concatenate({texts[-2]}, {texts[-1]}, axis=2)"
    case(kind, below, named, module(x)[0])


print(f"/* Written by tests/graph/layer_fixtures.py with PyTorch {torch.__version__.split('a')[0]}. */")
poolings()
normalisations()
attentions()
convolutions()
more_poolings()
more_convolutions()
more_normalisations()
for of_kind in ("rnn", "lstm", "gru"):
    recurrent_layers(of_kind, 3, 4, 2, 3)
    recurrent_layers(of_kind, 1, 3, 4, 2)
