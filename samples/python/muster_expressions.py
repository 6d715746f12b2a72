"""Expressions (muster/graph.h) through ctypes: write the mathematics, get the function and its gradients.

    graph = Graph(runtime, "mean")
    x = graph.input("x", "float32", (ROWS, 10), muster.SCATTER)
    graph.output("r", graph.parse("mean(x, axis=0)"))
    f = graph.compile()

An expression has Python's operators. x.apply("clip", low=0, high=1) is any operation of docs/expressions.md; the text of graph.parse has
them all, and x[...], too. A mistake is a MusterError at once, with the line of the program.
"""
import ctypes
import sys

import numpy

from muster_ctypes import DTYPES, Function, describe, dtype_number, is_integer

ROWS, INFER, AUTO, ONE_DEVICE, PER_WORKER = -1000, -1, 0, 0, 1


class Attribute(ctypes.Structure):
    """muster_attribute; kind says which field holds the value"""
    _fields_ = [("name", ctypes.c_char_p), ("number", ctypes.c_double), ("integer", ctypes.c_int64), ("integers", ctypes.POINTER(ctypes.c_int64)),
                ("count", ctypes.c_int32), ("kind", ctypes.c_int32), ("text", ctypes.c_char_p)]
    NUMBER, INTEGER, DTYPE, LIST, TEXT, TRUTH = 1, 2, 3, 4, 6, 7

    @classmethod
    def of(cls, name, value):
        """A list of integers, True or False, an integer, a float, a dtype by its name, or another text."""
        key = name.encode()
        if isinstance(value, numpy.ndarray) and value.ndim:
            value = list(value)
        if isinstance(value, (list, tuple)):
            entries = [cls.integer_of(f"{name}[{i}]", entry) for i, entry in enumerate(value)]
            return cls(key, integers=(ctypes.c_int64 * max(len(entries), 1))(*entries), count=len(entries), kind=cls.LIST)
        if isinstance(value, str):
            return cls(key, integer=DTYPES[value], kind=cls.DTYPE) if value in DTYPES else cls(key, text=value.encode(), kind=cls.TEXT)
        if isinstance(value, (bool, numpy.bool_)):
            return cls(key, integer=bool(value), kind=cls.TRUTH)
        if is_integer(value):
            return cls(key, integer=cls.integer_of(name, value), kind=cls.INTEGER)
        if isinstance(value, (float, numpy.floating)):
            return cls(key, number=value, kind=cls.NUMBER)
        raise TypeError(f"{name}: expected a number, a list of integers or a text, received {describe(value)}")

    @staticmethod
    def integer_of(name, value):
        if not is_integer(value):
            raise TypeError(f"{name}: expected an integer, received {describe(value)}")
        if not -2**63 <= value < 2**63:
            raise OverflowError(f"{name}: expected an integer of 64 bits, received {value}")
        return int(value)


class GraphOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("meaning", ctypes.c_int32), ("unshared_memory", ctypes.c_int32)]


def place():
    """The line of the program that calls this module, for messages."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}".encode()


class Expression:
    """An expression of a graph. Numbers beside it take its dtype."""
    __array_ufunc__ = None  # array + expression is refused, not an array of expressions

    def __init__(self, graph, handle):
        self.graph, self.handle = graph, ctypes.c_void_p(handle)
        graph.library.graph_status(graph.handle)  # raises the graph's first mistake

    def apply(self, operation, *others, **attributes):
        return self.graph.apply(operation, self, *others, **attributes)

    def __repr__(self):
        return f"<expression {self.graph.library.expr_shape(self.handle).decode()}>"

    def __neg__(self):
        return self.apply("negative")

    def __abs__(self):
        return self.apply("absolute")

    def __invert__(self):
        return self.apply("bitwise_not")

    def __bool__(self):
        raise TypeError("an expression has no truth value: its elements are computed by calls; use where(condition, a, b), and logical_and in place of `and`")

    __hash__ = object.__hash__  # == makes an expression


def add_operators():
    for name, operation in dict(add="add", sub="subtract", mul="multiply", truediv="divide", matmul="matmul", pow="power", floordiv="floor_divide",
                                mod="remainder", lshift="left_shift", rshift="right_shift", lt="less", le="less_equal", gt="greater",
                                ge="greater_equal", eq="equal", ne="not_equal", xor="bitwise_xor",
                                **{"and": "bitwise_and", "or": "bitwise_or"}).items():
        setattr(Expression, f"__{name}__", lambda a, b, operation=operation: a.graph.apply(operation, a, b))
        setattr(Expression, f"__r{name}__", lambda a, b, operation=operation: a.graph.apply(operation, b, a))


add_operators()


class Graph:
    def __init__(self, runtime, name):
        self.runtime, self.library, self.handle, self.inputs, self.outputs = runtime, runtime.library, ctypes.c_void_p(), [], []
        if self.library.constant(b"sizeof(muster_attribute)") != ctypes.sizeof(Attribute):
            raise ImportError("the library's muster_attribute is not the one described here")
        self.library.graph_create(runtime._open(), name.encode(), ctypes.byref(self.handle))

    def input(self, name, dtype, shape, mode):
        self.inputs.append(name)
        return Expression(self, self.library.graph_input_at(place(), self.handle, name.encode(), dtype_number(dtype, name), len(shape), list(shape), mode))

    def parameter(self, variable):
        return Expression(self, self.library.graph_parameter(self.handle, variable.handle))

    def size(self, name):
        return self.library.graph_size(self.handle, name.encode())

    def number(self, value):
        return Expression(self, self.library.graph_number(self.handle, value))

    def parse(self, text, **names):
        """Names stand for expressions, or for numbers."""
        handles = [(one if isinstance(one, Expression) else self.number(one)).handle for one in names.values()]
        return Expression(self, self.library.expr_parse_named(self.handle, text.encode(), [name.encode() for name in names], handles, len(names)))

    def apply(self, operation, *inputs, **attributes):
        handles = [(one if isinstance(one, Expression) else self.number(one)).handle for one in inputs]
        given = [Attribute.of(*one) for one in attributes.items() if one[1] is not None]  # None: not given
        values = (Attribute * (len(given) + 1))(*given)
        result = ctypes.c_void_p()
        self.library.expr_apply(self.handle, operation.encode(), handles, len(handles), values, place(), ctypes.byref(result))
        return Expression(self, result.value)

    def gradient(self, loss, expressions):
        results = (ctypes.c_void_p * len(expressions))()
        self.library.gradient_at(place(), loss.handle, [one.handle for one in expressions], len(expressions), results)
        return [Expression(self, result) for result in results]

    def output(self, name, value, mode=AUTO):
        self.library.graph_output(self.handle, name.encode(), value.handle, mode)
        self.outputs.append(name)

    def update(self, variable, value, mode=AUTO):
        self.library.graph_update(self.handle, variable.handle, value.handle, mode)

    def compile(self, meaning=ONE_DEVICE):
        """An ordinary function: what one device with all rows computes, or with PER_WORKER what each worker does with its own. The
        graph takes no more expressions."""
        function = Function(self.runtime, None, self.inputs, self.outputs)
        options = GraphOptions(ctypes.sizeof(GraphOptions), meaning)
        self.library.graph_compile(self.handle, ctypes.byref(options), ctypes.byref(function.handle))
        self.runtime._kept.append(function)
        return function

    def close(self):
        """Functions go on. Closing again changes nothing."""
        if self.handle:
            self.library.graph_destroy(self.handle)
        self.handle = None
