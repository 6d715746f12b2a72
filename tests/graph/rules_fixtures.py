"""Writes tests/graph/rules_fixtures.def: what NumPy makes of parameters in 100 steps of each update rule, in f64.

    python3 tests/graph/rules_fixtures.py > tests/graph/rules_fixtures.def        (needs NumPy; written with 1.24)

The rules are the recursions of Lasagne's updates.py, with the changes that muster/rule.h names. Each runs with given gradients, in five variants,
with its defaults and with other numbers; and on a layer, tanh(x @ w + b), whose gradients are written by hand.
tests/graph/test_rules_fixtures.c reads the file.
"""
import numpy as np

STEPS, ROWS, INPUTS, OUTPUTS = 100, 11, 2, 3
SIZE = INPUTS * OUTPUTS + OUTPUTS  # w, then b
VARIANTS = ("PLAIN", "COUPLED", "DECOUPLED", "CLIPPED", "SCHEDULED")
COUPLED, DECOUPLED, CLIP_NORM = 0.05, 0.04, 2.5
RANDOM = np.random.default_rng(15)
SCALE = 64  # all inputs are multiples of 1 / SCALE


def draw(shape, most):
    return RANDOM.integers(-most, most + 1, shape)


GRADIENTS = draw((STEPS, SIZE), 90) * (RANDOM.uniform(size=(STEPS, SIZE)) < 0.9)  # some of them 0
RATES = RANDOM.integers(1, 6, STEPS)
START = draw(SIZE, 64)
X, T = draw((ROWS, INPUTS), 96), draw((ROWS, OUTPUTS), 60)


# ---- the rules: p and the states, given the gradient g, the rate and the options ----

def sgd(p, g, rate, o, s):
    return p - rate * g


def momentum(p, g, rate, o, s):
    s["velocity"] = o["momentum"] * s["velocity"] - rate * g
    return p + s["velocity"]


def nesterov(p, g, rate, o, s):
    s["velocity"] = o["momentum"] * s["velocity"] - rate * g
    return p + o["momentum"] * s["velocity"] - rate * g


def adagrad(p, g, rate, o, s):
    s["squares"] = s["squares"] + g ** 2
    return p - rate * g / (np.sqrt(s["squares"]) + o["epsilon"])


def rmsprop(p, g, rate, o, s):
    s["squares"] = o["rho"] * s["squares"] + (1 - o["rho"]) * g ** 2
    return p - rate * g / np.sqrt(s["squares"] + o["epsilon"])


def adadelta(p, g, rate, o, s):
    s["squares"] = o["rho"] * s["squares"] + (1 - o["rho"]) * g ** 2
    change = g * np.sqrt(s["changes"] + o["epsilon"]) / np.sqrt(s["squares"] + o["epsilon"])
    s["changes"] = o["rho"] * s["changes"] + (1 - o["rho"]) * change ** 2
    return p - rate * change


def adam(p, g, rate, o, s):
    s["step"] = t = s["step"] + 1
    s["moment"] = o["beta1"] * s["moment"] + (1 - o["beta1"]) * g
    s["squares"] = o["beta2"] * s["squares"] + (1 - o["beta2"]) * g ** 2
    return p - rate * np.sqrt(1 - o["beta2"] ** t) / (1 - o["beta1"] ** t) * s["moment"] / (np.sqrt(s["squares"]) + o["epsilon"])


def adamax(p, g, rate, o, s):
    s["step"] = t = s["step"] + 1
    s["moment"] = o["beta1"] * s["moment"] + (1 - o["beta1"]) * g
    s["largest"] = np.maximum(o["beta2"] * s["largest"], np.abs(g))
    return p - rate / (1 - o["beta1"] ** t) * s["moment"] / (s["largest"] + o["epsilon"])


# function: its states; what the documentation has as its defaults
RULES = {
    sgd: ((), dict(rate=0.01)),
    momentum: (("velocity",), dict(rate=0.01, momentum=0.9)),
    nesterov: (("velocity",), dict(rate=0.01, momentum=0.9)),
    adagrad: (("squares",), dict(rate=1., epsilon=1e-6)),
    rmsprop: (("squares",), dict(rate=1., rho=0.9, epsilon=1e-6)),
    adadelta: (("squares", "changes"), dict(rate=1., rho=0.95, epsilon=1e-6)),
    adam: (("moment", "squares"), dict(rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8)),
    adamax: (("moment", "largest"), dict(rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8)),
}
OTHERS = dict(rate=0.05, momentum=0.5, beta1=0.8, beta2=0.95, rho=0.7, epsilon=1e-3)


def options_of(rule, own):
    defaults = RULES[rule][1]
    return {name: OTHERS[name] for name in defaults} if own else dict(defaults)


def states_of(rule):
    return dict({name: np.zeros(SIZE) for name in RULES[rule][0]}, step=0)


def update(rule, variant, o, p, g, t, s):
    rate = RATES[t] / SCALE if variant == "SCHEDULED" else o["rate"]
    if variant == "CLIPPED":
        g = g * min(1, CLIP_NORM / np.linalg.norm(g))
    if variant == "COUPLED":
        g = g + COUPLED * p
    new = rule(p, g, rate, o, s)
    return new - rate * DECOUPLED * p if variant == "DECOUPLED" else new


def layer_gradient(p, x, t):
    """The gradient of mean((tanh(x @ w + b) - t)^2)."""
    w, b = p[:INPUTS * OUTPUTS].reshape(INPUTS, OUTPUTS), p[INPUTS * OUTPUTS:]
    h = np.tanh(x @ w + b)
    d = 2 * (h - t) * (1 - h ** 2) / h.size
    return np.concatenate([(x.T @ d).ravel(), d.sum(0)])


def train(rule, start):
    o, s, p = options_of(rule, True), states_of(rule), start
    for t in range(STEPS):
        p = update(rule, "PLAIN", o, p, layer_gradient(p, X / SCALE, T / SCALE), t, s)
    return p, s


# ---- the file ----

def integers(values):
    return " ".join(str(value) for value in values)


def row(rule, variant, own, name, values):
    print('VALUES(MUSTER_%s, %s, %d, "%s", "%s")' % (rule.__name__.upper(), variant, own, name, " ".join("%.17g" % v for v in values)))


def main():
    print("/* Written by tests/graph/rules_fixtures.py with NumPy. INPUT(name, multiples of 1/%d); VALUES(rule, variant, with numbers of the program?,"
          "\n * parameter or state, values of w and then of b). */" % SCALE)
    print('INPUT("start", "%s")' % integers(START))
    print('INPUT("rates", "%s")' % integers(RATES))
    print('INPUT("x", "%s")' % integers(X.ravel()))
    print('INPUT("t", "%s")' % integers(T.ravel()))
    for gradient in GRADIENTS:
        print('INPUT("gradient", "%s")' % integers(gradient))
    for rule in RULES:
        for variant in VARIANTS:
            for own in (False, True):
                o, s, p = options_of(rule, own), states_of(rule), START / SCALE
                for t in range(STEPS):
                    p = update(rule, variant, o, p, GRADIENTS[t] / SCALE, t, s)
                row(rule, variant, own, "p", p)
                for name in RULES[rule][0] if variant == "PLAIN" else ():
                    row(rule, variant, own, name, s[name])
        p, s = train(rule, START / SCALE)
        near, _ = train(rule, START / SCALE * (1 + 1e-14))  # training that magnifies errors would test nothing
        assert np.abs(near - p).max() < 1e-12, rule.__name__
        row(rule, "TRAINED", True, "p", p)
        for name in RULES[rule][0]:
            row(rule, "TRAINED", True, name, s[name])


main()
