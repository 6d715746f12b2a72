#!/usr/bin/env python3
"""test_python_attributes.py SAMPLE LIBRARY: the attributes of Expression.apply are those of the same text, whatever kind of value Python
has for them, and what the operation does not take is refused by name."""
import os
import sys
import unittest

import numpy

sys.path.insert(0, sys.argv[1])
os.environ["MUSTER_LIBRARY"] = sys.argv[2]
import muster_ctypes as muster  # noqa: E402
from muster_expressions import Graph, ROWS  # noqa: E402

X = numpy.arange(12, dtype="f4").reshape(4, 3) % 5 - 2


class Attributes(unittest.TestCase):
    def setUp(self):
        self.runtime = muster.Runtime("host:2")
        self.addCleanup(self.runtime.close)
        self.graphs = 0

    def value(self, make, result):
        """What make(x) is for X, in an array like `result`."""
        self.graphs += 1
        graph = Graph(self.runtime, f"g{self.graphs}")
        expression = make(graph.input("x", "float32", (ROWS, 3), muster.SCATTER))
        graph.output("y", expression)
        y = numpy.full_like(result, 77)
        graph.compile()([X], [y])
        graph.close()
        return y

    def equal(self, expected, *operation, **attributes):
        expected = numpy.asarray(expected)
        numpy.testing.assert_allclose(self.value(lambda x: x.apply(*operation, **attributes), expected), expected, rtol=1e-6)

    def refused(self, words, *operation, kind=muster.MusterError, **attributes):
        self.graphs += 1
        graph = Graph(self.runtime, f"g{self.graphs}")
        x = graph.input("x", "float32", (ROWS, 3), muster.SCATTER)
        with self.assertRaisesRegex(kind, words):
            x.apply(*operation, **attributes)

    def test_an_integer_is_a_list_of_one(self):
        for axis in (1, -1, [1], (1,), numpy.int64(1), numpy.array([1]), [numpy.int32(1)]):
            self.equal(X.sum(axis=1), "sum", axis=axis)
        for axis in (0, [0]):
            self.equal(X.sum(axis=0), "sum", axis=axis)
        self.equal(X.mean(axis=1), "mean", axis=1)
        self.equal(X.max(axis=1), "max", axis=1)
        self.equal(numpy.exp(X) / numpy.exp(X).sum(axis=-1, keepdims=True), "softmax", axis=-1)
        self.equal(X[:, ::-1], "flip", axis=1)
        self.equal(numpy.sqrt((X * X).sum(axis=1)), "norm", axis=1)

    def test_none_is_not_given(self):
        self.equal(X.sum(), "sum", axis=None)
        self.equal(X.sum(axis=1, keepdims=True), "sum", axis=1, keepdims=True)

    def test_an_axis_that_is_not_there_is_refused(self):
        for axis in (7, 2, -3, [2]):
            self.refused("axis: expected an axis of x", "sum", axis=axis)

    def test_floats_and_texts_for_integers_are_refused(self):
        self.refused("axis: expected a list of integers, received the number 1.5", "sum", axis=1.5)
        self.refused("axis: expected an integer, received the number 1.7", "cumsum", axis=1.7)
        self.refused("repeats: expected an integer, received the number 2.9", "repeat", repeats=2.9, axis=1)
        self.refused('axis: expected a list of integers, received the text "1"', "sum", axis="1")
        self.refused("ord: expected a number, received True", "norm", ord=True)
        self.refused('low: expected a number, received the text "0"', "clip", low="0", high=1)
        self.refused("axis: expected a list of integers, received True", "sum", axis=True)
        self.refused("dtype: expected a dtype, received the integer 3", "cast", dtype=3)
        self.refused(r"^axis\[1\]: expected an integer, received float$", "sum", axis=[0, 1.0], kind=TypeError)
        self.refused(r"^axis\[0\]: expected an integer, received bool$", "sum", axis=[True], kind=TypeError)
        self.refused("^axis: expected a number, a list of integers or a text, received dict$", "sum", axis={}, kind=TypeError)
        self.refused("^axis: expected an integer of 64 bits, received 9223372036854775808$", "sum", axis=2**63, kind=OverflowError)

    def test_a_list_for_an_integer_is_refused(self):
        self.refused("axis: expected an integer, received a list of integers", "argmax", axis=[1])
        self.equal(X.argmax(axis=1).astype("i8"), "argmax", axis=1)

    def test_an_integer_in_other_lists_is_that_of_the_text(self):
        """Expressions that are equal are one."""
        graph = Graph(self.runtime, "lists")
        x = graph.input("x", "float32", (4, 3), muster.BROADCAST)
        for operation, name, integer in ("tile", "reps", 2), ("pad", "before", 1), ("squeeze", "axis", 0), ("reshape", "shape", 12):
            operand = graph.parse("x[:1]") if operation == "squeeze" else x
            text = graph.parse(f"{operation}(y, {name}=[{integer}])", y=operand)
            self.assertEqual(operand.apply(operation, **{name: integer}).handle.value, text.handle.value)
        row = graph.parse("x[0]")
        self.assertEqual(row.apply("slice", start=1).handle.value, graph.parse("x[0][1:]").handle.value)
        self.refused("axes: expected", "transpose", axes=0)

    def test_numbers_are_given_with_a_text(self):
        self.equal(X * 0.5, "multiply", 0.5)
        for number in (0.5, 2, numpy.float32(0.5), numpy.int64(2)):
            expected = X * float(number)
            numpy.testing.assert_array_equal(self.value(lambda x: x.graph.parse("x * c", c=number), expected), expected)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    assert result.testsRun == 7, result.testsRun
    sys.exit(not result.wasSuccessful())
