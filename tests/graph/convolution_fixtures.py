"""Writes tests/graph/convolution_fixtures.def: convolutions, and what PyTorch computes.

    python3 tests/graph/convolution_fixtures.py > tests/graph/convolution_fixtures.def   (needs PyTorch; written with 2.15)

Each case is a text of muster_expr_parse, its operands x, w and b, the gradient g of the result y, and
PyTorch's y and gradients of the operands, in f64. The numbers are eighths, so that all sums are exact.
tests/graph/test_convolution.c reads the file.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(1)
PLAIN = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def draw(shape):
    return (torch.randint(-16, 17, shape).double() / 8).requires_grad_()


def array(t):
    if t is None:
        return '"", ""'
    values = " ".join(f"{v:.17g}" for v in t.detach().reshape(-1).tolist())
    return f'"{" ".join(map(str, t.shape))}", "{values}"'


def case(x, w, bias=False, transposed=False, padding=(), **attributes):
    axes = len(x) - 2
    x, w = draw(x), draw(w)
    groups = attributes.get("groups", 1)
    outputs = w.shape[1] * groups if transposed else w.shape[0]
    b = draw((outputs,)) if bias else None
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}
    inner = x
    if len(padding) == 2 * axes and not transposed:  # PyTorch pads the last axis first, and both sides of it together
        pairs = [p for d in reversed(range(axes)) for p in (padding[d], padding[axes + d])]
        inner = F.pad(x, pairs)
        y = PLAIN[axes](inner, w, b, **given)
    else:
        y = (TRANSPOSED if transposed else PLAIN)[axes](x, w, b, padding=list(padding) or 0, **given)
    g = draw(y.shape)
    (y * g).sum().backward()
    words = ["x", "w"] + ["b"] * bias
    for name, value in {**attributes, **({"padding": padding} if padding else {})}.items():
        words.append(f"{name}={list(value) if isinstance(value, tuple) else value}")
    text = f"convolution{'_transpose' if transposed else ''}({', '.join(words)})"
    arrays = [x, w, b, g, y, x.grad, w.grad, b.grad if bias else None]
    print(f'CASE("{text}",\n' + ",\n".join("     " + array(a) for a in arrays) + ")")


print("/* Written by tests/graph/convolution_fixtures.py with PyTorch " + torch.__version__.split("+")[0] + ". */")
case((2, 3, 7), (4, 3, 3))
case((2, 3, 8), (2, 3, 3), bias=True, stride=(2,), padding=(1,))
case((1, 2, 9), (3, 2, 2), dilation=(3,), padding=(0, 2))
case((2, 4, 7), (6, 2, 3), bias=True, groups=2, padding=(1,))
case((2, 3, 5, 6), (2, 3, 3, 2), bias=True)
case((1, 2, 7, 7), (3, 2, 3, 3), stride=(2, 2), padding=(1, 1))
case((1, 2, 6, 5), (2, 2, 3, 3), bias=True, stride=(2, 1), padding=(1, 0, 0, 2))
case((1, 2, 7, 6), (2, 2, 3, 2), dilation=(2, 3), padding=(2, 1))
case((2, 4, 4, 5), (4, 2, 3, 3), groups=2, padding=(1, 1), bias=True)
case((2, 6, 5, 4), (6, 1, 3, 3), groups=6, padding=(1, 1))
case((1, 3, 6, 6), (6, 1, 3, 2), groups=3, stride=(2, 2), bias=True)
case((2, 5, 3, 4), (4, 5, 1, 1), bias=True)
case((2, 4, 5, 5), (3, 4, 1, 1), stride=(2, 2))
case((1, 1, 2, 3), (2, 1, 4, 4), padding=(1, 1))
case((1, 1, 1, 1), (1, 1, 1, 1), bias=True)
case((3, 2, 3, 3), (2, 2, 3, 3))
case((1, 2, 3, 4, 5), (2, 2, 2, 3, 2), bias=True)
case((1, 2, 4, 3, 4), (2, 1, 2, 2, 3), groups=2, stride=(2, 1, 1), padding=(1, 0, 1))
case((1, 2, 3, 5, 3), (3, 2, 2, 2, 2), dilation=(1, 2, 1), padding=(0, 1, 0, 1, 0, 1))
case((2, 3, 5), (3, 2, 3), transposed=True, bias=True)
case((1, 2, 4), (2, 3, 3), transposed=True, stride=(2,), padding=(1,), output_padding=(1,))
case((2, 3, 3, 4), (3, 2, 3, 2), transposed=True, bias=True, stride=(2, 3), output_padding=(1, 2))
case((1, 4, 3, 3), (4, 2, 3, 3), transposed=True, groups=2, bias=True, padding=(1, 1))
case((1, 2, 3, 2), (2, 2, 2, 2), transposed=True, stride=(1, 1), dilation=(3, 2), output_padding=(2, 1))
case((1, 3, 3, 3), (3, 1, 3, 3), transposed=True, groups=3, stride=(2, 2), padding=(1, 1), bias=True)
case((1, 2, 2, 3, 2), (2, 2, 2, 2, 3), transposed=True, stride=(1, 2, 1), bias=True)
