#!/usr/bin/env python3
"""dlpack_peers.py LIBRARY ENVIRONMENT: DLPack with NumPy (2.1 or later), JAX and, where it is there, PyTorch: in and out, without a copy.

Runs itself by the interpreter of the virtual environment that script/fetch-peers makes, and skips (77) where that is missing."""
import ctypes
import gc
import os
import sys

LIBRARY, ENVIRONMENT = sys.argv[1], sys.argv[2]
INTERPRETER = os.path.join(ENVIRONMENT, "bin", "python")
if os.path.realpath(sys.prefix) != os.path.realpath(ENVIRONMENT):
    if not os.access(INTERPRETER, os.X_OK):
        print(f"{INTERPRETER} is not here: script/fetch-peers makes it")
        sys.exit(77)
    os.execv(INTERPRETER, [INTERPRETER, *sys.argv])

import numpy  # noqa: E402

library = ctypes.CDLL(LIBRARY)
DTYPES = {"float16": 1, "float32": 3, "float64": 4, "int8": 5, "uint8": 6, "int16": 7, "int32": 8, "int64": 9, "uint32": 10, "uint64": 11, "bool": 12}
NAMES = {number: name for name, number in DTYPES.items()}
HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
READ_ONLY, COPIED = 1, 2
VERSIONED, UNVERSIONED = (b"dltensor_versioned", b"used_dltensor_versioned"), (b"dltensor", b"used_dltensor")  # capsules keep the pointers


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8),
                ("data", ctypes.c_void_p), ("byte_offset", ctypes.c_int64), ("device", ctypes.c_int32), ("reserved0", ctypes.c_int32),
                ("reserved", ctypes.c_int64 * 2)]


P = ctypes.c_void_p
library.muster_last_error.restype = ctypes.c_char_p
library.muster_dlpack_export.argtypes = [P, Tensor, ctypes.c_uint64, HOOK, P, ctypes.POINTER(P)]
library.muster_dlpack_export_unversioned.argtypes = [P, Tensor, HOOK, P, ctypes.POINTER(P)]
library.muster_dlpack_import.argtypes = library.muster_dlpack_import_unversioned.argtypes = [P, P, ctypes.POINTER(Tensor), ctypes.POINTER(P)]
library.muster_dlpack_release.argtypes = library.muster_dlpack_flags.argtypes = [P]
library.muster_dlpack_flags.restype = ctypes.c_uint64
api = ctypes.pythonapi
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [P, ctypes.c_char_p, P]
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = P, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


def check(status):
    assert status == 0, library.muster_last_error()


def tensor_of(address, dtype, shape, strides):
    return Tensor(DTYPES[dtype], len(shape), (ctypes.c_int64 * 8)(*shape), (ctypes.c_int64 * 8)(*strides), address, 0, -1)


class Lent:
    """A Muster tensor as a producer of DLPack: what numpy.from_dlpack and its like take."""

    def __init__(self, memory, dtype, shape, strides, flags=0):
        self.memory, self.flags, self.released = memory, flags, 0
        self.tensor = tensor_of(memory.ctypes.data, dtype, shape, strides)
        self.hook = HOOK(self._release)

    def _release(self, _):
        self.released += 1

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        managed = P()
        if max_version is None or max_version[0] < 1:
            check(library.muster_dlpack_export_unversioned(None, self.tensor, self.hook, None, ctypes.byref(managed)))
            return api.PyCapsule_New(managed, b"dltensor", None)
        check(library.muster_dlpack_export(None, self.tensor, self.flags, self.hook, None, ctypes.byref(managed)))
        return api.PyCapsule_New(managed, b"dltensor_versioned", None)


class Taken:
    """An array of another library as a Muster tensor."""

    def __init__(self, array, **arguments):
        capsule = array.__dlpack__(**arguments)
        self.tensor, self.handle = Tensor(), P()
        self.versioned = bool(api.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
        name, used = VERSIONED if self.versioned else UNVERSIONED
        take = library.muster_dlpack_import if self.versioned else library.muster_dlpack_import_unversioned
        check(take(None, api.PyCapsule_GetPointer(capsule, name), ctypes.byref(self.tensor), ctypes.byref(self.handle)))
        api.PyCapsule_SetName(capsule, used)
        self.flags = library.muster_dlpack_flags(self.handle)

    def numpy(self):
        t = self.tensor
        size = numpy.dtype(NAMES[t.dtype]).itemsize
        strides = [stride * size for stride in t.strides[:t.ndim]]
        interface = {"version": 3, "typestr": numpy.dtype(NAMES[t.dtype]).str, "shape": tuple(t.shape[:t.ndim]), "strides": tuple(strides),
                     "data": (t.data + t.byte_offset, False)}
        return numpy.asarray(type("View", (), {"__array_interface__": interface})())

    def release(self):
        library.muster_dlpack_release(self.handle)


def out_of_muster(peer, from_dlpack, dtypes, host=numpy.asarray):
    for dtype in dtypes:
        memory = numpy.arange(24).astype(dtype)
        lent = Lent(memory, dtype, (4, 6), (6, 1))
        array = from_dlpack(lent)
        assert tuple(array.shape) == (4, 6), (peer, dtype, array.shape)
        numpy.testing.assert_array_equal(host(array), memory.reshape(4, 6))
        assert lent.released == 0 or peer == "jax", (peer, dtype)  # a consumer may copy and release at once
        del array
        gc.collect()
        assert lent.released == 1, (peer, dtype, lent.released)
    print(f"{peer}: {len(dtypes)} dtypes out of Muster")
    return len(dtypes)


def into_muster(peer, make, dtypes, address=None, host=numpy.asarray):
    for dtype in dtypes:
        array = make(numpy.arange(24).astype(dtype).reshape(4, 6))
        taken = Taken(array)
        numpy.testing.assert_array_equal(taken.numpy(), host(array))
        if address:
            assert taken.tensor.data + taken.tensor.byte_offset == address(array), (peer, dtype)
        taken.release()
    print(f"{peer}: {len(dtypes)} dtypes into Muster")
    return len(dtypes)


def with_numpy():
    assert tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 1), numpy.__version__
    count = out_of_muster("numpy", numpy.from_dlpack, list(DTYPES))
    count += into_muster("numpy", lambda a: a, list(DTYPES), lambda a: a.ctypes.data)
    # Writes through either are seen by the other; strides go both ways; the flags arrive.
    memory = numpy.arange(24, dtype="f4")
    view = numpy.from_dlpack(Lent(memory, "float32", (3, 4), (2, 6)))
    view[2, 3] = -1
    assert memory[2 * 2 + 3 * 6] == -1
    assert not numpy.from_dlpack(Lent(memory, "float32", (24,), (1,), READ_ONLY)).flags.writeable
    assert numpy.from_dlpack(Lent(memory, "float32", (24,), (1,))).flags.writeable
    array = numpy.arange(24.0).reshape(4, 6)[1:3, ::-2]
    old, new = Taken(array), Taken(array, max_version=(1, 0))
    assert (old.versioned, new.versioned, new.flags) == (False, True, 0)
    numpy.testing.assert_array_equal(new.numpy(), array)
    new.numpy()[0, 0] = 99
    assert array[0, 0] == 99 and old.numpy()[0, 0] == 99
    old.release(), new.release()
    constant = numpy.ones(3)
    constant.flags.writeable = False
    read_only, copy = Taken(constant, max_version=(1, 0)), Taken(constant, max_version=(1, 0), copy=True)
    assert (read_only.flags, copy.flags) == (READ_ONLY, COPIED), (read_only.flags, copy.flags)
    held = sys.getrefcount(constant)
    read_only.release(), copy.release()
    assert sys.getrefcount(constant) == held - 1  # the release gave the array back
    return count


def with_jax():
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    jax.config.update("jax_enable_x64", True)
    count = out_of_muster("jax", jax.dlpack.from_dlpack, list(DTYPES))
    return count + into_muster("jax", jax.numpy.asarray, list(DTYPES), lambda a: a.unsafe_buffer_pointer())


def with_torch():
    try:
        import torch
    except ImportError:
        print("torch: not in this environment (script/fetch-peers --full)")
        return 0
    dtypes = [dtype for dtype in DTYPES if dtype not in ("uint32", "uint64")]
    count = out_of_muster("torch", torch.from_dlpack, dtypes, lambda t: t.numpy())
    return count + into_muster("torch", torch.from_numpy, dtypes, lambda t: t.data_ptr(), lambda t: t.numpy())


if __name__ == "__main__":
    counts = [with_numpy(), with_jax(), with_torch()]
    sys.exit(0 if counts[:2] == [22, 22] and counts[2] in (0, 18) else 1)
