"""Muster through ctypes: NumPy arrays in and out, function bodies in Python, nothing to compile.

Bodies run on Muster's worker threads; ctypes takes Python's lock for them, and the worker operations that they call release it, so the
devices compute at the same time. A tensor argument is a view: nothing is copied or converted, and an array that Muster would read wrongly
is refused. An exception in a body comes out of the call as the cause of a MusterError, SystemExit and KeyboardInterrupt as themselves.
Ctrl-C during a call raises KeyboardInterrupt in every body at its next worker operation, once, so that `finally` can call the library. A
second one ends the call by muster_runtime_cancel, wherever bodies wait, and so does the first one a call of a compiled graph, at its next step.
The call then raises KeyboardInterrupt, its outputs are undefined, and the runtime can be used again.
"""
import asyncio
import concurrent.futures
import ctypes
import os
import signal
import threading

import numpy

from muster_functions import FUNCTIONS

MAX_DIMS = 8
OK, BAD_STATE, USER = 0, 9, 12
SCATTER, BROADCAST, MINIBATCH = 17, 18, 19
STRIDED = 128  # a flag of modes: the body takes the strides of the caller
SUM, PROD, MAX, MIN, AVG, GATHER, MASTER = 1, 2, 3, 4, 5, 6, 7
READ, READ_WRITE, READ_SLICEABLE = 1, 2, 3
DTYPES = {"float16": 1, "bfloat16": 2, "float32": 3, "float64": 4, "int8": 5, "uint8": 6, "int16": 7, "int32": 8, "int64": 9, "uint32": 10,
          "uint64": 11, "bool": 12}
ALL, COUNT, RANGE, LIST = 0, 1, 2, 3
UNKNOWN = -2**63  # what muster_constant says of a name that it does not know


class CallInterrupted(KeyboardInterrupt):
    """What Ctrl-C raises in a body. The call raises what the handler of the signal does."""


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
    kept = None  # what holds the memory: an array, or the tensors that this one is a view of
    read_only = False  # an input, or a view of one

    @classmethod
    def from_param(cls, value):
        """ctypes asks it for what an argument becomes."""
        if isinstance(value, numpy.ndarray):
            raise TypeError(f"expected a Tensor, received a NumPy {describe(value)}; Tensor.of(array) makes one of the array's memory")
        if not isinstance(value, cls):
            raise TypeError(f"expected a Tensor, received {describe(value)}")
        return value

    @classmethod
    def of(cls, array, name="array", written=False):
        """A view of a NumPy array, or of BFloat16 bits, which lives as long as the view; None means "no tensor". written: the array is an
        output."""
        if array is None:
            return cls()
        dtype = "bfloat16" if isinstance(array, BFloat16) else None
        array = array.bits if dtype else array
        check_array(array, dtype, name, written)
        strides = [stride // array.itemsize for stride in array.strides]
        tensor = cls(DTYPES[dtype or array.dtype.name], array.ndim, (ctypes.c_int64 * MAX_DIMS)(*array.shape),
                     (ctypes.c_int64 * MAX_DIMS)(*strides), array.ctypes.data, 0, -1)
        tensor.kept = array
        tensor.read_only = not array.flags.writeable
        return tensor


class BFloat16:
    """bf16 elements as the bits that a uint16 array holds: NumPy has no such type. (Arrays of the package ml_dtypes need no wrapper.)"""

    def __init__(self, bits):
        if not isinstance(bits, numpy.ndarray) or bits.dtype != numpy.uint16:
            raise TypeError(f"BFloat16: expected a uint16 array, received {describe(bits)}")
        self.bits = bits

    @classmethod
    def rounded(cls, array):
        """The nearest bf16 of each float32, ties to even; NaN stays NaN."""
        bits = numpy.ascontiguousarray(array, numpy.float32).view(numpy.uint32).reshape(numpy.shape(array))
        rounded = (bits + (0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
        return cls(numpy.where(numpy.isnan(array), (bits >> 16 | 0x40).astype(numpy.uint16), rounded))

    def float32(self):
        return numpy.asarray(numpy.left_shift(self.bits, 16, dtype=numpy.uint32)).view(numpy.float32)  # << makes int64 of a scalar


def describe(value):
    return f"{value.dtype} array of shape {value.shape}" if isinstance(value, numpy.ndarray) else type(value).__name__


def dtype_number(dtype, name):
    number = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if number is None:
        raise ValueError(f"{name}: expected one of {', '.join(DTYPES)}, received {dtype!r}")
    return number


def is_integer(value):
    """bool is a kind of int for Python, and no number here."""
    return isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)


def check_array(array, dtype, name, written):
    """Refuses what a muster_tensor cannot describe, where NumPy itself would convert, copy or ignore."""
    if not isinstance(array, numpy.ndarray) or isinstance(array, numpy.ma.MaskedArray):
        raise TypeError(f"{name}: expected a numpy.ndarray, received {describe(array) if not isinstance(array, numpy.ndarray) else 'a masked one'}")
    if not dtype and array.dtype.name not in DTYPES:
        raise TypeError(f"{name}: expected one of {', '.join(DTYPES)}, received {array.dtype.name}")
    if not array.dtype.isnative:
        raise TypeError(f"{name}: expected the byte order of this machine, received {array.dtype.str}; copy it with .astype({array.dtype.name!r})")
    if array.ndim > MAX_DIMS:
        raise ValueError(f"{name}: expected at most {MAX_DIMS} dimensions, received {array.ndim}")
    odd = [stride for size, stride in zip(array.shape, array.strides) if size > 1 and stride % array.itemsize]
    if odd or not array.flags.aligned:
        raise ValueError(f"{name}: expected aligned elements and strides that are multiples of {array.itemsize} bytes, "
                         f"received strides {array.strides}; copy it with .copy()")
    if written and not array.flags.writeable:
        raise ValueError(f"{name}: expected an array to write to, received a read-only one")


class Options(ctypes.Structure):
    """muster_runtime_options, all of it"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("devices", ctypes.c_char_p), ("spin_ns", ctypes.c_int64),
                ("warn_after_ns", ctypes.c_int64), ("fail_after_ns", ctypes.c_int64), ("keep_blas_threads", ctypes.c_int32),
                ("no_pinning", ctypes.c_int32), ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p),
                ("logical_shards", ctypes.c_int32), ("tf32", ctypes.c_int32), ("collective_algorithm", ctypes.c_char_p),
                ("stream_bytes", ctypes.c_int64), ("log_destroy", ctypes.c_void_p), ("trace", ctypes.c_char_p),
                ("recorder_events", ctypes.c_int64), ("device_memory", ctypes.c_int64), ("log_level", ctypes.c_int32),
                ("p2p", ctypes.c_int32), ("on_lost", ctypes.c_int32), ("nodes", ctypes.c_char_p), ("mpi_communicator", ctypes.c_int64),
                ("wire_dtype", ctypes.c_int32), ("abort_after_ns", ctypes.c_int64), ("exit_after_ns", ctypes.c_int64)]


class Selection(ctypes.Structure):
    """muster_selection: all rows (None), the first n (n), slice(start, stop), or an array or list of indices"""
    _fields_ = [("kind", ctypes.c_int32), ("reserved", ctypes.c_int32), ("start", ctypes.c_int64), ("stop", ctypes.c_int64),
                ("indices", ctypes.c_void_p), ("index_count", ctypes.c_int64)]

    @classmethod
    def of(cls, rows, name="selection"):
        if rows is None:
            return cls()
        if is_integer(rows):
            return cls(COUNT, 0, 0, int(rows))
        if isinstance(rows, slice):
            if rows.step not in (None, 1) or rows.stop is None:
                raise ValueError(f"{name}: expected slice(start, stop), received {rows}")
            return cls(RANGE, 0, rows.start or 0, rows.stop)
        indices = numpy.asarray(rows)
        if indices.size == 0 and indices.ndim == 1:
            raise ValueError(f"{name}: expected at least one row, received none")
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise TypeError(f"{name}: expected None, a number of rows, slice(start, stop) or a list of indices, received {describe(rows)}")
        indices = numpy.ascontiguousarray(indices, numpy.int64)
        selection = cls(LIST, 0, 0, 0, indices.ctypes.data, indices.size)
        selection.kept = indices  # the memory must live as long as the selection
        return selection


class CallOptions(ctypes.Structure):
    """muster_call_options, all of it"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("batch", Selection), ("replica_batch", ctypes.POINTER(Selection)),
                ("replica_batch_count", ctypes.c_int32), ("reserved", ctypes.c_int32), ("slices", ctypes.c_int64),
                ("queue_timeout_ns", ctypes.c_int64), ("warn_after_ns", ctypes.c_int64), ("fail_after_ns", ctypes.c_int64),
                ("output_buffers", ctypes.POINTER(ctypes.c_void_p))]


LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.POINTER(Tensor), ctypes.c_void_p)


class Argument(ctypes.Structure):
    """muster_argument: what library.argument_float(type, value) and its relatives give"""
    _fields_ = [("type", ctypes.c_int32), ("form", ctypes.c_int32), ("tensor", Tensor), ("bits", ctypes.c_uint64)]


class Several:
    """The type of an argument that points to several values: a list of them, or what ctypes takes for a pointer."""

    def __init__(self, kind):
        self.kind = kind

    def from_param(self, value):
        if isinstance(value, (list, tuple)):
            return (self.kind * max(len(value), 1))(*value)
        return ctypes.c_void_p.from_param(value)


TYPES = {"P": ctypes.c_void_p, "T": Tensor, "A": Argument, "S": ctypes.c_char_p, "I": ctypes.c_int32, "L": ctypes.c_int64, "U": ctypes.c_uint64,
         "Z": ctypes.c_size_t, "D": ctypes.c_double, "F": ctypes.c_float, "H": ctypes.c_uint16, "i": Several(ctypes.c_int32),
         "j": Several(ctypes.c_uint32), "l": Several(ctypes.c_int64), "d": Several(ctypes.c_double), "t": Several(Tensor),
         "a": Several(Argument), "s": Several(ctypes.c_char_p), "p": Several(ctypes.c_void_p)}


class Library:
    """The shared library: library.mean(worker, x, y) is muster_mean, raising MusterError where it fails, and library.EXP is MUSTER_EXP. All
    public functions and constants are here; muster_functions.py has their types."""

    def __init__(self, path=None):
        chosen = path or os.environ.get("MUSTER_LIBRARY", "libmuster.so.0.1")
        try:
            self._c = ctypes.CDLL(chosen)
        except OSError as error:
            raise OSError(f"the library cannot be loaded: {error}; expected the path of libmuster.so in MUSTER_LIBRARY or in Library(path), or "
                          f"libmuster.so.0.1 where the loader looks, received {chosen!r}") from None
        self.running = threading.local()  # .function: whose body this thread runs
        # A tensor never changes; options grow at their end, and a library that knows more fields takes the shorter struct.
        for name, struct in ("tensor", Tensor), ("selection", Selection), ("argument", Argument):
            if self.constant(b"sizeof(muster_%s)" % name.encode()) != ctypes.sizeof(struct):
                raise ImportError(f"the library's muster_{name} is not the one described here")
        for name, struct in ("runtime_options", Options), ("call_options", CallOptions):
            if self.constant(b"sizeof(muster_%s)" % name.encode()) < ctypes.sizeof(struct):
                raise ImportError(f"the library's muster_{name} is older than the one described here")

    def __getattr__(self, name):
        """Called once for each name, which is an attribute from then on."""
        if name.isupper():
            value = self.constant(f"MUSTER_{name}".encode())
            if value == UNKNOWN:
                raise AttributeError(f"MUSTER_{name}: no constant of this library")
        elif name in FUNCTIONS:
            value = self._function(name)
        else:
            raise AttributeError(f"muster_{name}: no function of muster_functions.py")
        setattr(self, name, value)
        return value

    def constant(self, name):
        """muster_constant; name: a text or bytes, such as "MUSTER_F32" or "sizeof(muster_tensor)"."""
        return self._function("constant")(name.encode() if isinstance(name, str) else name)

    def _function(self, name):
        result, *arguments = FUNCTIONS[name].split()
        function = getattr(self._c, "muster_" + name)
        function.argtypes = [TYPES[letter] for letter in "".join(arguments)]
        function.restype = {"status": ctypes.c_int32, "void": None}.get(result) or TYPES.get(result)

        def call(*arguments):
            try:
                return function(*arguments)
            except (ctypes.ArgumentError, TypeError) as error:
                raise TypeError(f"muster_{name}: {error}") from None

        def tensor(*arguments):
            """A view of what the arguments are views of."""
            made, origins = call(*arguments), [one for one in arguments if isinstance(one, Tensor)]
            made.kept, made.read_only = origins, any(one.read_only for one in origins)
            return made

        def checked(*arguments):
            running = getattr(self.running, "function", None)
            if running and running.interrupted > self.running.seen:
                self.running.seen = running.interrupted
                raise CallInterrupted("Ctrl-C during the call")
            status = call(*arguments)
            if status != OK:
                raise MusterError(status, self.last_error().decode())

        return checked if result == "status" else tensor if result == "T" else call

    def scratch(self, worker, dtype, *shape):
        """Memory of the worker's device until the body returns, as a tensor."""
        tensor = Tensor()
        self.worker_scratch(worker, dtype_number(dtype, "scratch: dtype"), len(shape), shape, ctypes.byref(tensor))
        return tensor

    def replica(self, worker, variable):
        """Inside a body: the worker's replica of a Variable that the function uses, as a tensor."""
        tensor = Tensor()
        self.worker_variable(worker, variable.handle, ctypes.byref(tensor))
        return tensor

    def update(self, worker, variable):
        """Inside a body: the memory for the new value of a Variable that the function updates, as a tensor."""
        tensor = Tensor()
        self.worker_update(worker, variable.handle, ctypes.byref(tensor))
        return tensor

    def view(self, worker, tensor):
        """The memory of a tensor as a NumPy array, without a copy: of a body's tensor on a host device, valid while the body runs. worker: may
        be None for a tensor in host memory. bf16 elements come as their bits (uint16). The view of an input is read-only."""
        name = next((name for name, number in DTYPES.items() if number == tensor.dtype), None)
        if name is None:
            raise TypeError("view: expected a tensor, received no tensor")
        if tensor.device != self.DEVICE_HOST and (worker is None or self.worker_backend(worker) != b"host"):
            raise TypeError("view: expected a tensor in host memory, received one in the memory of a GPU; copy it by worker_read")
        dtype = numpy.dtype("uint16" if name == "bfloat16" else name)
        shape, strides = tensor.shape[:tensor.ndim], [stride * dtype.itemsize for stride in tensor.strides[:tensor.ndim]]
        if 0 in shape:
            array = numpy.empty(shape, dtype)
            array.flags.writeable = not tensor.read_only
            return array
        reach = [(size - 1) * stride for size, stride in zip(shape, strides)]
        below = -sum(one for one in reach if one < 0)  # bytes before the first element
        total = below + sum(one for one in reach if one > 0) + dtype.itemsize
        memory = (ctypes.c_char * total).from_address(self.tensor_address_p(ctypes.byref(tensor)) - below)
        memory.kept = tensor  # the array holds `memory`
        array = numpy.ndarray(shape, dtype, memory, below, strides)
        array.flags.writeable = not tensor.read_only
        return array


class Runtime:
    """All devices, or those that the text names ("host:2"). Use it with `with`. options: the fields of muster_runtime_options by name;
    log is a Python function of a level (LOG_WARNING of the library, for example) and a line."""

    def __init__(self, devices=None, library=None, *, log=None, **options):
        self.library = Library(library)
        self._kept = []  # ctypes callbacks must outlive the functions
        handle = ctypes.c_void_p()
        unknown = set(options) - {name for name, _ in Options._fields_} | set(options) & {"struct_size", "log_user", "log_destroy"}
        if unknown:
            raise TypeError(f"Runtime: {', '.join(sorted(unknown))}: no option of muster_runtime_options")
        values = Options(**{name: value.encode() if isinstance(value, str) else value for name, value in options.items()})
        values.struct_size = ctypes.sizeof(values)  # zero in a field means its default, also in those that Options does not declare
        values.devices = devices.encode() if devices else None
        if log:
            self._kept.append(LOG(lambda _, level, line: log(level, line.decode(errors="replace"))))
            values.log = ctypes.cast(self._kept[-1], ctypes.c_void_p)
        self.library.runtime_open(ctypes.byref(values), ctypes.byref(handle))
        self._handle = handle
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._process = os.getpid()  # a forked child has the objects, and none of the threads

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Later calls raise; closing again changes nothing."""
        if self._handle is not None:
            self.library.runtime_close(self._handle)
            self._handle = None
            self._thread.shutdown()

    def _open(self):
        if self._handle is None:
            raise MusterError(BAD_STATE, "the runtime is closed")
        return self._handle

    def __len__(self):
        return self.library.runtime_size(self._open())

    def function(self, name, body, inputs, outputs, *, runs_without_rows=False):
        """inputs, outputs: (name, dtype, ndim, mode). body(library, worker, inputs, outputs), a Python function. runs_without_rows: the body
        also runs on devices that get no rows, as a body with collectives must. A failure leaves no function behind."""
        function = Function(self, body, inputs, outputs)
        for port, dtype, _, _ in [*inputs, *outputs]:
            dtype_number(dtype, f"dtype of '{port}'")
        self.library.function_create(self._open(), name.encode(), function.callback, None, ctypes.byref(function.handle))
        self._kept.append(function)
        try:
            for describe_port, ports in (self.library.function_input, inputs), (self.library.function_output, outputs):
                for port, dtype, ndim, mode in ports:
                    describe_port(function.handle, port.encode(), DTYPES[dtype], ndim, mode | STRIDED)  # arrays have strides
            self.library.function_set_runs_without_rows(function.handle, runs_without_rows)
        except BaseException:
            function.close()
            raise
        return function

    def variable(self, name, array):
        """A variable with a copy of the array on every device."""
        return Variable(self, name, array)


class Variable:
    """What Runtime.variable gives; a body finds its tensor by library.replica(worker, variable)."""

    def __init__(self, runtime, name, array):
        self.runtime, self.handle = runtime, ctypes.c_void_p()
        runtime.library.variable_create(runtime._open(), name.encode(), Tensor.of(array, "value"), ctypes.byref(self.handle))

    def get(self, rank, array):
        """Copies the replica of a device into the array, which has its shape."""
        self.runtime._open()
        self.runtime.library.variable_get(self.handle, rank, Tensor.of(array, "value", True))

    def set(self, rank, array):
        self.runtime._open()
        self.runtime.library.variable_set(self.handle, rank, Tensor.of(array, "value"))

    def close(self):
        """Refused while a function uses the variable. Closing again, or after the runtime, changes nothing."""
        if self.handle and self.runtime._handle is not None:
            self.runtime.library.variable_destroy(self.handle)
        self.handle = None


class Function:
    """What Runtime.function gives: f(inputs, outputs) runs the body on all devices. Every option of muster_call_options is a keyword;
    batch is a selection, replica_batch one selection or a list of them."""

    def __init__(self, runtime, body, inputs, outputs):
        self.runtime, self.body, self.inputs, self.outputs = runtime, body, inputs, outputs
        self.handle, self.callback = ctypes.c_void_p(), BODY(self._run)
        self.failures = []  # (text, exception) of the bodies of calls that have not ended
        self.calls, self.lock = 0, threading.Lock()
        self.interrupted = 0  # how often Ctrl-C was pressed in the call that runs

    def _run(self, worker, in_, out, _):
        library = self.runtime.library
        library.running.function, library.running.seen = self, 0
        try:
            inputs = in_[:len(self.inputs)]
            for tensor in inputs:
                tensor.read_only = True
            self.body(library, worker, inputs, out[:len(self.outputs)])
            return OK
        except BaseException as error:  # no exception may pass through C
            text = str(error) if isinstance(error, MusterError) else f"{type(error).__name__}: {error}"
            self.failures.append((text, error))
            return library.fail(error.status if isinstance(error, MusterError) else USER, text.encode())
        finally:
            library.running.function = None

    def __call__(self, inputs, outputs, **options):
        self._wait(*self._arguments(inputs, outputs, **options))

    async def awaited(self, inputs, outputs, **options):
        """The same in a coroutine of asyncio: the event loop serves others while the devices compute. A descriptor that becomes readable
        tells it that the call has ended. If the coroutine is cancelled, the bodies end at their next worker operation, and the loop waits
        for that, since the call uses the arrays until then."""
        memory, *arguments = self._arguments(inputs, outputs, **options)
        library, loop, pending = self.runtime.library, asyncio.get_running_loop(), ctypes.c_void_p()
        ended, descriptor = asyncio.Event(), os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            library.function_call_async(*arguments, ctypes.byref(pending))
            library.pending_notify_fd(pending, descriptor)
            loop.add_reader(descriptor, ended.set)
            await ended.wait()
        except asyncio.CancelledError:
            self.interrupted += 1
            raise
        finally:
            loop.remove_reader(descriptor)
            self._end(pending, memory)
            os.close(descriptor)

    def _end(self, pending, memory):
        """Raises what the call has failed with, but for the KeyboardInterrupt that a cancelled coroutine has put into its bodies."""
        interrupted = self.interrupted
        try:
            self._ended(lambda: self.runtime.library.pending_wait(ctypes.byref(pending)))
        except MusterError:
            if not interrupted:
                raise
        finally:
            self.interrupted = 0

    def _ended(self, wait):
        """Calls wait, which returns with the end of a call, and raises what that has failed with. Calls of one function run one after
        another, and several may have been made: the message says whose exception it is."""
        with self.lock:
            self.calls += 1
        try:
            wait()
        except MusterError as error:
            own = [one for one in self.failures if one[0] and one[0] in str(error)]
            failure = max(own, key=lambda one: len(one[0]))[1] if own else None  # the text of another one may be a part of it
            if failure and not isinstance(failure, (Exception, CallInterrupted)):
                raise failure  # SystemExit, KeyboardInterrupt
            raise error from failure
        finally:
            with self.lock:
                self.calls -= 1
                if not self.calls:
                    self.failures.clear()

    def close(self):
        """Ends the function. Closing again, or after the runtime, changes nothing."""
        if self.handle and self.runtime._handle is not None:
            self.runtime.library.function_destroy(self.handle)
            self.runtime._kept.remove(self)
        self.handle = None

    def _arguments(self, inputs, outputs, *, batch=None, replica_batch=None, **options):
        """What the call uses, and the arguments of muster_function_call."""
        self.runtime._open()
        if not self.handle:
            raise MusterError(BAD_STATE, "the function is closed")
        ins = (Tensor * len(inputs))(*(Tensor.of(array, f"input {i}") for i, array in enumerate(inputs)))
        outs = (Tensor * len(outputs))(*(Tensor.of(array, f"output {i}", True) for i, array in enumerate(outputs)))
        unknown = set(options) - {"slices", "queue_timeout_ns", "warn_after_ns", "fail_after_ns"}
        if unknown:
            raise TypeError(f"call: {', '.join(sorted(unknown))}: no option of muster_call_options")
        for name, value in options.items():
            if not is_integer(value):
                raise TypeError(f"{name}: expected an integer, received {describe(value)}")
        rows = Selection.of(batch, "batch")
        if replica_batch is None:
            replicas = []
        elif isinstance(replica_batch, list) and not all(is_integer(index) for index in replica_batch):
            replicas = [Selection.of(one, "replica_batch") for one in replica_batch]
        else:
            replicas = [Selection.of(replica_batch, "replica_batch")]
        values = CallOptions(struct_size=ctypes.sizeof(CallOptions), batch=rows, replica_batch_count=len(replicas), **options)
        if replicas:
            values.replica_batch = (Selection * len(replicas))(*replicas)
        return (inputs, outputs, rows, replicas), self.handle, ins, len(ins), outs, len(outs), ctypes.byref(values)

    def _wait(self, memory, *arguments):
        """Python serves Ctrl-C in the main thread, between its own instructions only. So this thread waits in Python, and another one, which
        keeps the memory alive, makes the call: that costs two changes of threads. A KeyboardInterrupt in the middle of this function would leave the call running: until the
        call has ended, a handler that raises nothing takes the signal and ends the call, and then the handler before it is called."""
        handler, forked = signal.getsignal(signal.SIGINT), os.getpid() != self.runtime._process
        if forked or threading.current_thread() is not threading.main_thread() or not callable(handler):
            return self._call(memory, arguments)
        frames = []

        def cancel():
            if len(frames) > (self.body is not None):  # what Python runs is asked to end first
                self.runtime.library.runtime_cancel(self.runtime._handle)

        def interrupt(_, frame):
            self.interrupted += 1
            frames.append(frame)
            cancel()

        signal.signal(signal.SIGINT, interrupt)
        try:
            call = self.runtime._thread.submit(self._call, memory, arguments)
            while not call.done():
                cancel()  # again and again: the call may not have begun when the signal came
                concurrent.futures.wait([call], 0.1)  # a signal just before a wait does not end the wait
        finally:
            self.interrupted = 0
            signal.signal(signal.SIGINT, handler)
        if frames:
            handler(signal.SIGINT, frames[0])
        call.result()

    def _call(self, memory, arguments):
        self._ended(lambda: self.runtime.library.function_call(*arguments))
