"""Writes tests/graph/rules_onnx.def: the node tests of ONNX's operators Adagrad, Adam and Momentum, with the results that the package has.

    python3 tests/graph/rules_onnx.py > tests/graph/rules_onnx.def        (needs onnx from PyPI; written with 1.23.2)

A test of several tensors becomes a row for each. tests/graph/test_rules_fixtures.c reads the file.
"""
import onnx
from onnx.backend.test.case.node import collect_testcases


def braces(values):
    return "{%s}" % ", ".join("%.9g" % float(v) for v in values)


def main():
    print("/* Written by tests/graph/rules_onnx.py. ONNX(test, operator, Nesterov's?, T, rate, alpha, beta, epsilon, norm_coefficient,\n"
          " * elements, states, {x, g, states}, {new x, new states}). A state is V or H. */")
    for case in collect_testcases(None):
        node = case.model.graph.node[0]
        if node.op_type not in ("Adagrad", "Adam", "Momentum"):
            continue
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        states = 2 if node.op_type == "Adam" else 1
        for inputs, outputs in case.data_sets:
            rate, t, tensors = float(inputs[0]), int(inputs[1]), inputs[2:]
            count = len(tensors) // (2 + states)
            if node.op_type == "Adagrad":
                assert t == 0  # no decay_factor yet
            for i in range(count):
                numbers = ["%.9g" % attributes.get(name, 0) for name in ("alpha", "beta", "epsilon", "norm_coefficient")]
                print('ONNX("%s", "%s", %d, %d, %.9g, %s, %d, %d, {%s}, {%s})' % (
                    case.name, node.op_type, attributes.get("mode") == b"nesterov", t, rate, ", ".join(numbers), len(tensors[i]), states,
                    ", ".join(braces(x) for x in tensors[i::count]), ", ".join(braces(x) for x in outputs[i::count])))


main()
