"""Muster through ctypes: NumPy arrays in and out, function bodies in Python, nothing to compile.

Bodies run on Muster's worker threads; ctypes takes Python's lock for them, and the worker operations that they call release it, so the
devices compute at the same time. A tensor argument is a view: the array must stay alive until the call returns.
"""
import ctypes
import os

import numpy

MAX_DIMS = 8
OK, USER = 0, 12
SCATTER, BROADCAST, MINIBATCH = 1, 2, 3
SUM, PROD, MAX, MIN, AVG, GATHER, MASTER = 1, 2, 3, 4, 5, 6, 7
READ, READ_WRITE, READ_SLICEABLE = 1, 2, 3
DTYPES = {"float16": 1, "float32": 3, "float64": 4, "int8": 5, "uint8": 6, "int16": 7, "int32": 8, "int64": 9, "uint32": 10, "uint64": 11,
          "bool": 12}


class MusterError(Exception):
    """A call that failed: `status` is its code, the text is muster_last_error()."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Tensor(ctypes.Structure):
    """muster_tensor, field by field; strides in elements."""
    _fields_ = [("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * MAX_DIMS),
                ("strides", ctypes.c_int64 * MAX_DIMS), ("data", ctypes.c_void_p), ("byte_offset", ctypes.c_int64),
                ("device", ctypes.c_int32), ("reserved0", ctypes.c_int32), ("reserved", ctypes.c_int64 * 2)]

    @classmethod
    def of(cls, array):
        """A view of a NumPy array; None means "no tensor"."""
        if array is None:
            return cls()
        if array.dtype.name not in DTYPES:
            raise TypeError(f"expected one of {', '.join(DTYPES)}, received {array.dtype.name}")
        n = array.ndim
        strides = [s // array.itemsize for s in array.strides]
        return cls(DTYPES[array.dtype.name], n, (ctypes.c_int64 * MAX_DIMS)(*array.shape), (ctypes.c_int64 * MAX_DIMS)(*strides),
                   array.ctypes.data, 0, -1)


class Options(ctypes.Structure):
    """muster_runtime_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("devices", ctypes.c_char_p), ("spin_ns", ctypes.c_int64),
                ("warn_after_ns", ctypes.c_int64), ("fail_after_ns", ctypes.c_int64), ("keep_blas_threads", ctypes.c_int32),
                ("no_pinning", ctypes.c_int32), ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p)]


BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.POINTER(Tensor), ctypes.c_void_p)
P, I, D, S, T = ctypes.c_void_p, ctypes.c_int32, ctypes.c_double, ctypes.c_char_p, Tensor
PP, TP = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(Tensor)
STATUS_FUNCTIONS = {
    "runtime_open": [P, PP], "runtime_close": [P], "function_create": [P, S, BODY, P, PP], "function_input": [P, S, I, I, I],
    "function_output": [P, S, I, I, I], "function_variable": [P, P, I], "function_call": [P, TP, I, TP, I, P],
    "variable_create": [P, S, T, PP], "variable_get": [P, I, T], "variable_set": [P, I, T],
    "gemm": [P, D, T, T, D, T], "gemv": [P, D, T, T, D, T], "axpy": [P, D, T, T], "mean": [P, T, T], "sum": [P, T, T],
    "reduce": [P, I, T, I, T], "unary_op": [P, I, T, T], "binary_op": [P, I, T, T, T], "scale_add": [P, D, T, D, T], "copy": [P, T, T],
    "worker_all_reduce": [P, P, I, T, T]}
OTHER_FUNCTIONS = {
    "last_error": (S, []), "constant": (ctypes.c_int64, [S]), "fail": (I, [I, S]), "runtime_size": (I, [P]),
    "worker_scratch": (T, [P, I, I, ctypes.POINTER(ctypes.c_int64)]),
    "worker_variable": (T, [P, P]), "worker_rank": (I, [P])}


class Library:
    """The shared library: library.mean(worker, x, y) is muster_mean, raising MusterError where it fails."""

    def __init__(self, path=None):
        self._c = ctypes.CDLL(path or os.environ.get("MUSTER_LIBRARY", "libmuster.so.0.1"))
        for name, arguments in STATUS_FUNCTIONS.items():
            function = getattr(self._c, "muster_" + name)
            function.argtypes, function.restype = arguments, ctypes.c_int32
            setattr(self, name, self._checked(function))
        for name, (result, arguments) in OTHER_FUNCTIONS.items():
            function = getattr(self._c, "muster_" + name)
            function.argtypes, function.restype = arguments, result
            setattr(self, name, function)
        # A tensor never changes; options grow at their end, and a library that knows more fields takes the shorter struct.
        if self.constant(b"sizeof(muster_tensor)") != ctypes.sizeof(Tensor) or self.constant(b"sizeof(muster_runtime_options)") < ctypes.sizeof(Options):
            raise ImportError("the library's muster_tensor or muster_runtime_options is not the one described here")

    def _checked(self, function):
        def call(*arguments):
            status = function(*arguments)
            if status != OK:
                raise MusterError(status, self.last_error().decode())
        return call

    def scratch(self, worker, dtype, *shape):
        return self.worker_scratch(worker, DTYPES[dtype], len(shape), (ctypes.c_int64 * max(len(shape), 1))(*shape))


class Runtime:
    """All devices, or those that the text names ("host:2"). Use it with `with`."""

    def __init__(self, devices=None, library=None):
        self.library = Library(library)
        self._bodies = []  # ctypes callbacks must outlive the functions
        self._handle = ctypes.c_void_p()
        options = Options()
        options.struct_size = ctypes.sizeof(options)  # zero in a field means its default, also in those that Options does not declare
        options.devices = devices.encode() if devices else None
        self.library.runtime_open(ctypes.byref(options), ctypes.byref(self._handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.runtime_close(self._handle)

    def __len__(self):
        return self.library.runtime_size(self._handle)

    def function(self, name, body, inputs, outputs):
        """inputs, outputs: (name, dtype, ndim, mode). body(library, worker, inputs, outputs), a Python function."""
        def run(worker, in_, out, _):
            try:
                body(self.library, worker, in_[:len(inputs)], out[:len(outputs)])
                return OK
            except MusterError as error:
                return self.library.fail(error.status, str(error).encode())
            except BaseException as error:  # no exception may pass through C
                return self.library.fail(USER, f"{type(error).__name__}: {error}".encode())
        callback = BODY(run)
        self._bodies.append(callback)
        handle = ctypes.c_void_p()
        self.library.function_create(self._handle, name.encode(), callback, None, ctypes.byref(handle))
        for describe, list_ in (self.library.function_input, inputs), (self.library.function_output, outputs):
            for item, dtype, ndim, mode in list_:
                describe(handle, item.encode(), DTYPES[dtype], ndim, mode)
        return lambda in_, out: self._call(handle, in_, out)

    def _call(self, handle, inputs, outputs):
        ins = (Tensor * len(inputs))(*map(Tensor.of, inputs))
        outs = (Tensor * len(outputs))(*map(Tensor.of, outputs))
        self.library.function_call(handle, ins, len(inputs), outs, len(outputs), None)
