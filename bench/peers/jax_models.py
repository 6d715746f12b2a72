"""The networks of samples/models by JAX: a training step, compiled, channels last, its parameters given away to the next ones."""
import math

import jax
import jax.numpy as jnp
import numpy
from jax import lax


class Scope:
    """The parameters of a network in the order in which it asks for them: first they are made, afterwards those of a step are given."""

    def __init__(self, gain, parameters=None, running=None, key=None):
        self.gain = gain  # of the deviation of weights before a ReLU
        self.made, self.parameters, self.running, self.key = [], parameters, running, key
        self.random = numpy.random.default_rng(1)
        self.statistics = []  # of each normalisation, behind this step
        self.taken = 0

    def take(self, shape, deviation=0.0, value=0.0):
        if self.parameters is None:
            self.made.append((value + deviation * self.random.standard_normal(shape)).astype(numpy.float32))
            return jnp.asarray(self.made[-1])
        self.taken += 1
        return self.parameters[self.taken - 1]

    def keep(self, new):
        """The running statistics."""
        old = jnp.zeros_like(new) if self.running is None else self.running[len(self.statistics)]
        self.statistics.append(0.9 * old + 0.1 * lax.stop_gradient(new))

    def dropout(self, x):
        key = jax.random.key(0) if self.key is None else jax.random.fold_in(self.key, self.taken)
        return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), 2 * x, 0)


def convolution(s, x, outputs, size, stride=1, padding=0, bias=True):
    w = s.take((size, size, x.shape[3], outputs), s.gain * math.sqrt(2 / (size * size * x.shape[3])))
    y = lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + s.take((outputs,)) if bias else y


def max_pool(x, size, stride, padding=0):
    around = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), around)


def norm(s, x):
    mean = x.mean((0, 1, 2))
    variance = jnp.square(x - mean).mean((0, 1, 2))
    s.keep(mean)
    s.keep(variance)
    return (x - mean) * (lax.rsqrt(variance + 1e-5) * s.take(mean.shape, value=1.0)) + s.take(mean.shape)


def dense(s, x, outputs, deviation=None):
    return x @ s.take((x.shape[1], outputs), s.gain * math.sqrt(2 / x.shape[1]) if deviation is None else deviation) + s.take((outputs,))


def flat(x):
    return x.reshape(x.shape[0], -1)


def lenet(s, x):
    x = max_pool(jax.nn.relu(convolution(s, x, 16, 5)), 2, 2)
    x = flat(max_pool(jax.nn.relu(convolution(s, x, 32, 5)), 2, 2))
    return dense(s, jax.nn.relu(dense(s, x, 500)), 10)


def alexnet(s, x):
    x = max_pool(jax.nn.relu(convolution(s, x, 64, 11, 4, 2)), 3, 2)
    x = max_pool(jax.nn.relu(convolution(s, x, 192, 5, 1, 2)), 3, 2)
    for outputs in (384, 256, 256):
        x = jax.nn.relu(convolution(s, x, outputs, 3, 1, 1))
    x = s.dropout(flat(max_pool(x, 3, 2)))
    x = s.dropout(jax.nn.relu(dense(s, x, 4096)))
    return dense(s, jax.nn.relu(dense(s, x, 4096)), 1000, 0.01)


def block(s, x, width, stride):
    normal = lambda x, outputs, size, stride: norm(s, convolution(s, x, outputs, size, stride, size // 2, bias=False))
    h = jax.nn.relu(normal(x, width, 1, 1))
    h = jax.nn.relu(normal(h, width, 3, stride))
    h = normal(h, 4 * width, 1, 1)
    return jax.nn.relu(h + (x if x.shape[3] == 4 * width else normal(x, 4 * width, 1, stride)))


def resnet50(s, x):
    x = max_pool(jax.nn.relu(norm(s, convolution(s, x, 64, 7, 2, 3, bias=False))), 3, 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            x = block(s, x, 64 << stage, 2 if stage and not i else 1)
    return dense(s, x.mean((1, 2)), 1000, 0.01)


def model_case(name, batch):
    """A training step on images that are there: forward, backward, SGD with momentum. Returns the step, and what is wrong with its result."""
    network = {"lenet": lenet, "alexnet": alexnet, "resnet50": resnet50}[name]
    shape, classes = ((batch, 28, 28, 1), 10) if name == "lenet" else ((batch, 224, 224, 3), 1000)
    x = jnp.asarray(numpy.random.default_rng(2).random(shape, dtype=numpy.float32))
    labels = jnp.asarray(numpy.arange(batch) * 37 % classes)
    gain = 0.6 if name == "alexnet" else 1  # a pooling keeps the largest, so that what goes through it grows
    first = Scope(gain)
    jax.eval_shape(lambda x: network(first, x), x)
    parameters = [jnp.asarray(p) for p in first.made]

    def loss_of(parameters, running, key):
        s = Scope(gain, parameters, running, key)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(network(s, x)), labels[:, None], 1)
        return -chosen.mean(), s.statistics

    def train(parameters, velocities, running, key):
        (loss, running), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters, running, key)
        velocities = [0.9 * v + g for v, g in zip(velocities, gradients)]
        return [p - 0.001 * v for p, v in zip(parameters, velocities)], velocities, running, loss

    sizes = [statistic.shape for statistic in first.statistics]
    state = [parameters, [jnp.zeros_like(p) for p in parameters], [jnp.zeros(size, jnp.float32) for size in sizes], 0]
    compiled = jax.jit(train, donate_argnums=(0, 1, 2))

    def step():
        *state[:3], loss = compiled(*state[:3], jax.random.key(state[3]))
        state[3] += 1
        return loss.item()

    return step, lambda loss: not 0 < loss < 20
