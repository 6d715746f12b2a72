#!/usr/bin/env python3
"""test_python_pointers.py LIBRARY: Muster as a language sees it that has no structs: tensors are memory of sizeof(muster_tensor) bytes, made
and read by functions, and every argument is a number or an address (muster/pointers.h). Needs neither NumPy nor the Python module."""
import array
import ctypes
import struct
import sys

ADDRESS, I32, I64, F64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double
SIGNATURES = {
    "last_error": (ctypes.c_char_p,), "constant": (I64, ctypes.c_char_p), "runtime_open": (I32, ADDRESS, ADDRESS), "runtime_close": (I32, ADDRESS),
    "runtime_options_init_sized": (None, ADDRESS, ctypes.c_size_t), "function_create": (I32, ADDRESS, ctypes.c_char_p, ADDRESS, ADDRESS, ADDRESS),
    "function_input": (I32, ADDRESS, ctypes.c_char_p, I32, I32, I32), "function_output": (I32, ADDRESS, ctypes.c_char_p, I32, I32, I32),
    "function_call": (I32, ADDRESS, ADDRESS, I32, ADDRESS, I32, ADDRESS), "variable_create_p": (I32, ADDRESS, ctypes.c_char_p, ADDRESS, ADDRESS),
    "function_variable": (I32, ADDRESS, ADDRESS, I32),
    "variable_get_p": (I32, ADDRESS, I32, ADDRESS), "worker_variable": (I32, ADDRESS, ADDRESS, ADDRESS),
    "worker_scratch": (I32, ADDRESS, I32, I32, ADDRESS, ADDRESS), "gemm_p": (I32, ADDRESS, F64, ADDRESS, ADDRESS, F64, ADDRESS),
    "sum_p": (I32, ADDRESS, ADDRESS, ADDRESS), "worker_all_reduce_p": (I32, ADDRESS, ADDRESS, I32, ADDRESS, ADDRESS),
    "tensor_make_p": (None, I32, ADDRESS, I32, ADDRESS, ADDRESS), "tensor_none_p": (None, ADDRESS), "tensor_transpose_p": (None, ADDRESS, ADDRESS),
    "tensor_slice_axis_p": (None, ADDRESS, I32, I64, I64, ADDRESS), "tensor_reshape_p": (None, ADDRESS, I32, ADDRESS, ADDRESS),
    "tensor_count_p": (I64, ADDRESS), "tensor_rows_p": (I64, ADDRESS), "tensor_is_contiguous_p": (I32, ADDRESS),
    "tensor_address_p": (ADDRESS, ADDRESS), "tensor_print_p": (I32, ADDRESS, ADDRESS, I64, ADDRESS), "argument_int_p": (None, I32, I64, ADDRESS),
}
checks = 0


class Library:
    def __init__(self, path):
        loaded = ctypes.CDLL(path)
        for name, (result, *arguments) in SIGNATURES.items():
            function = getattr(loaded, "muster_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.bytes = self.constant(b"sizeof(muster_tensor)")

    def number(self, name):
        value = self.constant(b"MUSTER_" + name)
        assert value != -2**63, name
        return value

    def ok(self, status):
        same(status, 0, self.last_error())

    def empty(self):
        """Memory for a tensor, which the twin has to fill."""
        return ctypes.create_string_buffer(b"\xee" * self.bytes, self.bytes)

    def make(self, numbers, *shape):
        """A tensor of an array of floats."""
        tensor = self.empty()
        self.tensor_make_p(self.number(b"F32"), numbers.buffer_info()[0], len(shape), (I64 * 8)(*shape), tensor)
        return tensor

    def text(self, tensor):
        line, length = ctypes.create_string_buffer(200), I64()
        self.ok(self.tensor_print_p(tensor, line, 200, ctypes.byref(length)))
        same(length.value, len(line.value))
        return line.value.decode()


def same(received, expected, why=""):
    global checks
    checks += 1
    assert received == expected, f"expected {expected!r}, received {received!r} {why}"


def floats(*numbers):
    return array.array("f", numbers)


def views(m):
    numbers = floats(1, 2, 3, 4, 5, 6)
    x, y = m.make(numbers, 2, 3), m.empty()
    same(m.tensor_count_p(x), 6)
    same(m.tensor_rows_p(x), 2)
    same(m.tensor_address_p(x), numbers.buffer_info()[0])
    same(m.text(x), "f32 (2, 3) [[1, 2, 3], [4, 5, 6]]")
    m.tensor_slice_axis_p(x, 1, 1, 3, y)
    same(m.text(y), "f32 (2, 2) [[2, 3], [5, 6]]")
    same(m.tensor_address_p(y), numbers.buffer_info()[0] + 4)
    same(m.tensor_is_contiguous_p(y), 0)
    m.tensor_reshape_p(y, 1, (I64 * 1)(4), y)  # not contiguous: no tensor
    none = m.empty()
    m.tensor_none_p(none)
    for empty in y, none:
        same(struct.unpack_from("i", empty)[0], m.number(b"DTYPE_NONE"))
    m.tensor_transpose_p(x, x)  # the result may take the argument's place
    same(m.text(x), "f32 (3, 2) [[1, 4], [2, 5], [3, 6]]")
    m.tensor_transpose_p(x, None)  # nobody wants the result
    same(m.tensor_count_p(None), m.tensor_count_p(none))
    same(m.tensor_address_p(None), None)
    argument = ctypes.create_string_buffer(m.constant(b"sizeof(muster_argument)"))
    m.argument_int_p(m.number(b"I64"), -7, argument)
    same(struct.unpack_from("i", argument)[0], m.number(b"I64"))
    same(struct.unpack_from("q", argument, len(argument) - 8)[0], -7)


def call(m):
    """On two devices: the sum of the elements of 10 x b, and the sum of a variable over both."""
    options, runtime, function, variable = ctypes.create_string_buffer(512), ADDRESS(), ADDRESS(), ADDRESS()
    m.runtime_options_init_sized(options, m.constant(b"sizeof(muster_runtime_options)"))
    devices = ctypes.c_char_p(b"host:2")
    struct.pack_into("P", options, 8, ctypes.cast(devices, ADDRESS).value)
    m.ok(m.runtime_open(options, ctypes.byref(runtime)))
    v, taken, b = floats(100, 200), floats(0, 0), floats(1, 2, 3, 4)
    m.ok(m.variable_create_p(runtime, b"v", m.make(v, 2), ctypes.byref(variable)))
    m.ok(m.variable_get_p(variable, 1, m.make(taken, 2)))
    same(list(taken), [100, 200])
    totals, refusals = [], []

    def body(worker, inputs, outputs, _):
        mine, total, product = m.empty(), m.empty(), m.empty()
        for status in (m.worker_variable(worker, variable, mine), m.worker_scratch(worker, m.number(b"F32"), 0, None, total),
                       m.worker_scratch(worker, m.number(b"F32"), 2, (I64 * 2)(1, 2), product)):
            if status:
                return status
        refusals.append((m.sum_p(worker, mine, None), m.last_error()))
        for status in (m.sum_p(worker, mine, total), m.gemm_p(worker, 10, inputs, m.make(b, 2, 2), 0, product), m.sum_p(worker, product, outputs),
                       m.worker_all_reduce_p(worker, None, m.number(b"SUM"), total, total)):
            if status:
                return status
        totals.append(ctypes.c_float.from_address(m.tensor_address_p(total)).value)
        return 0

    callback = ctypes.CFUNCTYPE(I32, ADDRESS, ADDRESS, ADDRESS, ADDRESS)(body)
    m.ok(m.function_create(runtime, b"f", ctypes.cast(callback, ADDRESS), None, ctypes.byref(function)))
    m.ok(m.function_variable(function, variable, m.number(b"USE_READ")))
    m.ok(m.function_input(function, b"x", m.number(b"F32"), 2, m.number(b"SCATTER")))
    m.ok(m.function_output(function, b"y", m.number(b"F32"), 0, m.number(b"SUM")))
    x, y = floats(1, 0, 0, 1), floats(0)
    m.ok(m.function_call(function, m.make(x, 2, 2), 1, m.make(y), 1, None))
    same(list(y), [100])  # 10 * (1 + 2 + 3 + 4)
    same(totals, [600, 600])  # the variable's 300 on both devices
    same(len(refusals), 2)
    for status, message in refusals:
        same(status, m.number(b"INVALID_ARGUMENT"))
        same(message[:13], b"muster_sum: y", message)  # the function's own message
    m.ok(m.runtime_close(runtime))


library = Library(sys.argv[1])
views(library)
call(library)
print(f"{checks} checks")
sys.exit(checks != 37)
