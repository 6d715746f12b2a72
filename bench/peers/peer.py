"""Serves timing blocks of NumPy, JAX or PyTorch over its standard input and output; process.h has the protocol.

usage: peer.py numpy|torch call ROWS COLUMNS
       peer.py numpy operation NAME SIDE LONG
       peer.py torch train INPUTS HIDDEN CLASSES BATCH COMPILED
       peer.py torch model lenet|alexnet|resnet50 BATCH eager|channels_last|compiled
       peer.py jax model lenet|alexnet|resnet50 BATCH compiled
       peer.py numpy|jax|torch chain 2|4|8|exp|tanh|log COUNT
       peer.py torch network lstm|lstm_forward|attention|attention_forward|block
The thread counts come from the environment (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS): some builds read only one of them.
"""
import os
import struct
import sys
import time

ANSWERS = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)  # whatever a library prints must not get between the answers


def say(line):
    ANSWERS.write((line.replace("\n", " ") + "\n").encode())


def load(library):
    if library == "numpy":
        import numpy
        return numpy, "NumPy " + numpy.__version__
    if library == "jax":
        if os.environ.get("OMP_NUM_THREADS") == "1":  # the only setting that its thread pool obeys
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        return jax, "JAX " + jax.__version__
    import torch
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    return torch, "PyTorch " + torch.__version__


def call_case(name, library, rows, columns):
    """mean(x @ y) of the data that the other contenders have: x[i] = (7919 i mod 17) / 16, y[j] = (31 j mod 11) / 8."""
    import numpy
    pattern = ((7919 * numpy.arange(17)) % 17 / 16).astype(numpy.float32)
    x = numpy.resize(pattern, rows * columns).reshape(rows, columns)
    y = ((31 * numpy.arange(columns)) % 11 / 8).astype(numpy.float32)
    # sum over i of x[i] @ y = (sum over i of x[i]) @ y, in double precision
    right = float(x.sum(axis=0, dtype=numpy.float64) @ y.astype(numpy.float64)) / rows
    if name == "torch":
        x, y = library.from_numpy(x), library.from_numpy(y)
        step = lambda: (x @ y).mean().item()
    else:
        step = lambda: (x @ y).mean()
    return step, lambda result: abs(float(result) - right) > 1e-4 * abs(right)


def train_case(torch, inputs, hidden, classes, batch, compiled):
    """A step of the perceptron as the training loop of a PyTorch program has it: gather, forward, backward, SGD with momentum. COMPILED 1: the
    forward and backward pass by torch.compile."""
    torch.manual_seed(1)
    count = 20 * batch
    data = torch.rand(count, inputs)
    labels = torch.randint(0, classes, (count,))
    model = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
                                torch.nn.Linear(hidden, classes))
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    order = torch.randperm(count)
    position = 0
    loss_at = lambda x, y: loss_of(model(x), y)
    if compiled:
        loss_at = torch.compile(loss_at)

    def step():
        nonlocal position
        rows = order[position:position + batch]
        position = (position + batch) % count
        optimizer.zero_grad(set_to_none=True)
        loss = loss_at(data[rows], labels[rows])
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, lambda loss: not 0 < loss < 10


def network(torch, name):
    """The networks of samples/models."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            conv = lambda i, o, k, s: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))
            self.body = nn.Sequential(conv(channels, width, 1, 1), nn.ReLU(), conv(width, width, 3, stride), nn.ReLU(), conv(width, 4 * width, 1, 1))
            self.shortcut = nn.Identity() if channels == 4 * width else conv(channels, 4 * width, 1, stride)

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    if name == "lenet":
        return nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                             nn.Linear(512, 500), nn.ReLU(), nn.Linear(500, 10))
    if name == "alexnet":
        pool = lambda: nn.MaxPool2d(3, 2)
        return nn.Sequential(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), pool(), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), pool(),
                             nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
                             nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), pool(), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(),
                             nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))
    layers, channels = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            layers.append(Block(channels, 64 << stage, 2 if stage and not i else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def model_case(torch, name, batch, way):
    """A training step on images that are there: forward, backward, SGD with momentum."""
    torch.manual_seed(1)
    model = network(torch, name)
    x = torch.rand(batch, *((1, 28, 28) if name == "lenet" else (3, 224, 224)))
    labels = torch.arange(batch) * 37 % (10 if name == "lenet" else 1000)
    if way == "channels_last":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    loss_at = lambda: loss_of(model(x), labels)
    if way == "compiled":
        loss_at = torch.compile(loss_at)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_at()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, lambda loss: not 0 < loss < 20


def jax_model_case(jax, name, batch, way):
    import jax_models
    return jax_models.model_case(name, batch)


def operation_case(numpy, name, side, long):
    """What NumPy has for a row of the case `operations`: matrices of side x side and vectors of `long` f32, results into memory that is there."""
    random = numpy.random.default_rng(1)
    one = numpy.float32(1)
    matrix, square = (random.normal(1, 0.25, (side, side)).astype(numpy.float32) for _ in range(2))
    x, y, z = (random.normal(1, 0.25, long).astype(numpy.float32) for _ in range(3))
    ones, truth, row = numpy.ones(side, numpy.int32), numpy.ones(long, bool), numpy.ones(side, numpy.float32)
    indices, half, small = numpy.zeros(side, numpy.int64), numpy.zeros(long, numpy.float16), numpy.ones((256, 256), numpy.float32)
    product = numpy.zeros((256, 256), numpy.float32)

    def one_hot():
        square.fill(0)
        square[numpy.arange(side), ones] = 1

    steps = {
        "argmax": lambda: numpy.argmax(matrix, axis=1, out=indices),
        "argmin": lambda: numpy.argmin(matrix, axis=1, out=indices),
        "binary": lambda: numpy.add(x, y, out=z),
        "binary_scalar": lambda: numpy.multiply(x, 3 * one, out=z),
        "clip": lambda: numpy.clip(x, -one / 2, one / 2, out=z),
        "compare": lambda: numpy.less_equal(x, y, out=truth),
        "copy": lambda: numpy.copyto(half, x),
        "dot": lambda: numpy.dot(x, y),
        "exp": lambda: numpy.exp(x, out=z),
        "fill": lambda: z.fill(3),
        "gemm": lambda: numpy.matmul(small, small, out=product),
        "gemv": lambda: numpy.matmul(matrix, row, out=square[0]),
        "log": lambda: numpy.log(x, out=z),
        "max": lambda: x.max(),
        "max_columns": lambda: numpy.max(matrix, axis=0, out=row),
        "max_rows": lambda: numpy.max(matrix, axis=1, out=row),
        "one_hot": one_hot,
        "pow": lambda: numpy.power(x, y, out=z),
        "random_normal": lambda: random.standard_normal(out=z, dtype=numpy.float32),
        "random_uniform": lambda: random.random(out=z, dtype=numpy.float32),
        "reduce": lambda: numpy.sum(matrix, axis=0, out=row),
        "predicate": lambda: numpy.isfinite(x, out=truth),
        "scalar_binary": lambda: numpy.subtract(3 * one, x, out=z),
        "scatter_add": lambda: numpy.add.at(square, ones, matrix),
        "softplus": lambda: numpy.logaddexp(x, 0 * one, out=z),
        "sqrt": lambda: numpy.sqrt(x, out=z),
        "take": lambda: numpy.take(matrix, ones, axis=0, out=square, mode="clip"),
        "tanh": lambda: numpy.tanh(x, out=z),
        "unary": lambda: numpy.exp(x, out=z),
        "where": lambda: numpy.where(truth, x, y),
    }
    if name not in steps:
        raise LookupError("function of its own for " + name)
    return steps[name], lambda result: False


def chain_case(name, library, chain, count):
    """A chain of elementwise operations: NumPy and PyTorch into memory that is there, one operation after the other; JAX compiles it whole,
    and its result takes the memory of the one before."""
    import numpy
    x, y = (((step * numpy.arange(count, dtype=numpy.int64)) % 101 + 50).astype(numpy.float32) / 100 for step in (7919, 31))
    z = numpy.empty_like(x)

    def whole(np, x, y):
        if chain in ("exp", "tanh", "log"):
            return getattr(np, chain)(x)
        t = x * y + x
        if chain == "2":
            return t
        t = np.maximum(t, y) - x
        return t if chain == "4" else (np.abs(t * y) + y) * np.float32(0.5)

    def parts(np, x, y, z):
        if chain in ("exp", "tanh", "log"):
            return getattr(np, chain)(x, out=z)
        np.add(np.multiply(x, y, out=z), x, out=z)
        if chain == "2":
            return z
        np.subtract(np.maximum(z, y, out=z), x, out=z)
        if chain == "4":
            return z
        np.add(np.abs(np.multiply(z, y, out=z), out=z), y, out=z)
        return np.multiply(z, half, out=z)

    right = whole(numpy, x[:1000].astype(numpy.float64), y[:1000].astype(numpy.float64))
    half = numpy.float32(0.5)
    if name == "numpy":
        step = lambda: parts(numpy, x, y, z)
    elif name == "torch":
        half, (a, b, c) = library.tensor(0.5), (library.from_numpy(array) for array in (x, y, z))
        step = lambda: parts(library, a, b, c)
    else:
        compiled = library.jit(lambda x, y, z: whole(library.numpy, x, y), donate_argnums=2, keep_unused=True)
        a, b, c = (library.numpy.asarray(array) for array in (x, y, z))

        def step():
            nonlocal c
            c = compiled(a, b, c).block_until_ready()
            return c
    return step, lambda result: not numpy.allclose(numpy.asarray(result)[:1000], right, 1e-5, 1e-6)


def network_case(torch, name):
    """The layers of the case `networks`, with a given gradient of the result."""
    torch.manual_seed(1)
    functional = torch.nn.functional

    def attention(q, k, v, causal):
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1), -float("inf"))
        return scores.softmax(-1) @ v

    class Block(torch.nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, linear = heads, torch.nn.Linear
            self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.all, self.merge = linear(width, 3 * width), linear(width, width)
            self.expand, self.contract = linear(width, 4 * width), linear(4 * width, width)

        def forward(self, x):
            n, t, width = x.shape
            q, k, v = self.all(self.norm1(x)).reshape(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            x = x + self.merge(attention(q, k, v, True).transpose(1, 2).reshape(n, t, width))
            return x + self.contract(functional.gelu(self.expand(self.norm2(x))))

    kind, forward = name.split("_")[0], name.endswith("_forward")
    layer = {"lstm": lambda: torch.nn.LSTM(256, 256, batch_first=True), "block": lambda: Block(256, 4)}.get(kind, lambda: None)()
    shapes = {"lstm": [(64, 32, 256)], "block": [(16, 128, 256)], "attention": [(8, 8, 512, 64)] * 3}[kind]
    inputs = [torch.rand(shape).sub(0.5).requires_grad_(not forward) for shape in shapes]
    g = torch.rand(shapes[0]).sub(0.5)
    apply = (lambda: attention(*inputs, False)) if kind == "attention" else (lambda: layer(*inputs))

    def step():
        if forward:
            with torch.no_grad():
                y = apply()
            return y[0] if kind == "lstm" else y
        for t in inputs + (list(layer.parameters()) if layer else []):
            t.grad = None
        y = apply()
        y = y[0] if kind == "lstm" else y
        y.backward(g)
        return inputs[0].grad

    return step, lambda result: not bool(result.isfinite().all())


def block(step, wrong, warm, calls, pause_ns):
    now = time.perf_counter_ns
    times = []
    result = None
    for i in range(-warm, calls):
        if pause_ns:
            end = now() + pause_ns
            while now() < end:
                pass
        begin = now()
        result = step()
        end = now()
        if i >= 0:
            times.append(float(end - begin))
    return struct.pack("=q%ddc" % calls, int(wrong(result)), *times, b"\n")


def main():
    name, case = sys.argv[1:3]
    cases = {"call": lambda *sizes: call_case(name, library, *sizes), "train": lambda *sizes: train_case(library, *sizes),
             "operation": lambda *sizes: operation_case(library, sys.argv[3], *sizes),
             "model": lambda *sizes: (jax_model_case if name == "jax" else model_case)(library, sys.argv[3], *sizes),
             "chain": lambda *sizes: chain_case(name, library, sys.argv[3], *sizes), "network": lambda: network_case(library, sys.argv[3])}
    sizes = [int(size) if size.isdigit() else size for size in sys.argv[4 if case in ("operation", "chain", "model", "network") else 3:]]
    try:
        library, description = load(name)
        step, wrong = cases[case](*sizes)
        step()
    except Exception as error:  # a missing library, or one too old for this
        say("no %s" % error)
        return
    say("ok " + description + (", compiled" if case == "train" and sizes[-1] else ", " + sizes[-1] if case == "model" else ""))
    request = struct.Struct("=iiq")
    while True:
        message = os.read(0, request.size)
        if len(message) < request.size:
            return
        answer = block(step, wrong, *request.unpack(message))
        while answer:
            answer = answer[ANSWERS.write(answer):]


main()
