"""Writes tests/graph/recurrent_fixtures.def: recurrent layers, and what PyTorch computes.

    python3 tests/graph/recurrent_fixtures.py > tests/graph/recurrent_fixtures.def   (needs PyTorch; written with 1.13)

Each case is a text of muster_expr_parse, its operands, the gradients gy, gh and gc of the results, and
PyTorch's results y, hn, cn and gradients of the operands, in f64. tests/graph/test_recurrent.c reads the file.
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
LAYERS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def draw(*shape):
    return (torch.randint(-64, 65, shape) / 64).requires_grad_()


def array(name, t):
    form = "%d" if t.dtype == torch.int64 else "%.17g"
    values = " ".join(form % v for v in t.detach().reshape(-1).tolist())
    return f'    {{"{name}", "{" ".join(map(str, t.shape))}", "{values}"}}'


def layer_of(kind, d, h, reverse, relu, w, r, b):
    """A layer of PyTorch with these weights; in reverse, the second direction of one with both."""
    options = {"nonlinearity": "relu"} if relu else {}
    layer = LAYERS[kind](d, h, batch_first=True, bidirectional=reverse, **options)
    zero = torch.zeros(h)
    bias_r = torch.cat([zero, zero, b[3 * h:]]) if kind == "gru" else torch.zeros_like(b)
    parts = {"weight_ih": w, "weight_hh": r, "bias_ih": b[:GATES[kind] * h], "bias_hh": bias_r}
    for name, value in parts.items():
        for suffix in ["_l0"] + ["_l0_reverse"] * reverse:
            delattr(layer, name + suffix)
            setattr(layer, name + suffix, value)
    return layer


def case(kind, n, t, d, h, reverse=False, relu=False, lengths=None, h0=None, c0=None):
    gates = GATES[kind]
    x, w, r, b = draw(n, t, d), draw(gates * h, d), draw(gates * h, h), draw((4 if kind == "gru" else gates) * h)
    named, names = {"x": x, "w": w, "r": r, "b": b}, ["x", "w", "r", "b"]
    states = [h0] + [c0] * (kind == "lstm")
    for name, state in zip(["h0", "c0"], states):
        if state is not None:
            named[name] = draw(*state)
        if state is not None or lengths or name == "h0" and c0:
            names.append(name if state is not None else "0")
    if lengths:
        named["lengths"] = torch.tensor(lengths)
        names.append("lengths")
    attributes = ["reverse=1"] * reverse + ["relu=1"] * relu
    layer = layer_of(kind, d, h, reverse, relu, w, r, b)
    begin = [named[name].expand(n, h) if name in named else torch.zeros(n, h) for name in ["h0", "c0"][:len(states)]]
    directions = 2 if reverse else 1
    begin = [s.unsqueeze(0).expand(directions, n, h).contiguous() for s in begin]
    inner = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False) if lengths else x
    y, end = layer(inner, tuple(begin) if kind == "lstm" else begin[0])
    if lengths:
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=t)
    y = y[..., -h:]
    results = {"y": y}
    for name, state in zip(["hn", "cn"], end if kind == "lstm" else [end]):
        results[name] = state[-1]
    weights = {f"g{name[0]}": draw(*value.shape) for name, value in results.items()}
    loss = sum((value * weights[f"g{name[0]}"]).sum() for name, value in results.items())
    floats = [name for name in named if name != "lengths"]
    gradients = torch.autograd.grad(loss, [named[name] for name in floats])
    rows = [array(name, value) for name, value in {**named, **weights, **results}.items()]
    rows += [array("d" + name, value) for name, value in zip(floats, gradients)]
    print(f'CASE("{kind}({", ".join(names + attributes)})",')
    print(",\n".join(rows) + ")")


print(f"/* Written by tests/graph/recurrent_fixtures.py with PyTorch {torch.__version__.split('a')[0]}. */")
for kind in LAYERS:
    case(kind, 2, 3, 4, 3)
    case(kind, 3, 4, 2, 5, h0=(3, 5), c0=(3, 5))
    case(kind, 2, 5, 3, 2, reverse=True, h0=(2,), c0=(2,))
    case(kind, 4, 5, 3, 3, lengths=[5, 1, 3, 2])
    case(kind, 3, 4, 1, 2, reverse=True, lengths=[2, 4, 1], h0=(3, 2), c0=(1, 2))
    case(kind, 1, 1, 1, 1, h0=(1, 1))
    case(kind, 2, 2, 1, 17)
case("rnn", 3, 4, 3, 4, relu=True)
case("rnn", 3, 4, 3, 4, relu=True, reverse=True, lengths=[3, 1, 4], h0=(4,))
