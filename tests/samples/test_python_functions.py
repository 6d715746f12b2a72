#!/usr/bin/env python3
"""test_python_functions.py SAMPLE LIBRARY: all public functions from Python, by the types of muster_functions.py."""
import ctypes
import os
import sys
import unittest
import unittest.mock

import numpy

sys.path.insert(0, sys.argv[1])
os.environ["MUSTER_LIBRARY"] = sys.argv[2]
import muster_ctypes as muster  # noqa: E402
from muster_functions import FUNCTIONS  # noqa: E402

F, I = "float32", "int64"


class Functions(unittest.TestCase):
    def setUp(self):
        self.runtime = muster.Runtime("host:3")
        self.library = self.runtime.library
        self.addCleanup(self.runtime.close)

    def run_body(self, body, arrays, results, **options):
        """arrays: [(array, mode)]; results: [(array, mode)]."""
        ports = [[(f"{kind}{i}", array.dtype.name, array.ndim, mode) for i, (array, mode) in enumerate(rows)]
                 for kind, rows in (("in", arrays), ("out", results))]
        f = self.runtime.function(self.id(), body, *ports, **options)
        f([array for array, _ in arrays], [array for array, _ in results])
        f.close()

    def test_every_function_has_its_types(self):
        for name in FUNCTIONS:
            self.assertTrue(callable(getattr(self.library, name)))
        self.assertGreater(len(FUNCTIONS), 250)
        with self.assertRaisesRegex(AttributeError, "muster_sine: no function of muster_functions.py"):
            self.library.sine
        with self.assertRaisesRegex(AttributeError, "MUSTER_SINE: no constant of this library"):
            self.library.SINE

    def test_constants_by_name(self):
        for name, value in ("MUSTER_F32", muster.DTYPES[F]), ("sizeof(muster_tensor)", ctypes.sizeof(muster.Tensor)), ("MUSTER_SINE", muster.UNKNOWN):
            self.assertEqual((self.library.constant(name), self.library.constant(name.encode())), (value, value))
        self.assertEqual(self.library.F32, muster.DTYPES[F])
        with self.assertRaisesRegex(TypeError, "muster_constant: argument 1: "):
            self.library.constant(3)

    def test_a_missing_library_says_where_it_is_looked_for(self):
        with self.assertRaisesRegex(OSError, "MUSTER_LIBRARY or in Library.path., .*, received '/nonexistent/libmuster.so'"):
            muster.Library("/nonexistent/libmuster.so")
        with unittest.mock.patch.dict(os.environ, MUSTER_LIBRARY="/nonexistent/other.so"):
            with self.assertRaisesRegex(OSError, "received '/nonexistent/other.so'"):
                muster.Runtime("host:1")

    def test_operations(self):
        x = numpy.arange(12, dtype=F).reshape(6, 2)
        y, taken = numpy.zeros_like(x), numpy.zeros_like(x)

        def body(lib, worker, inputs, outputs):
            lib.unary_op(worker, lib.EXP, inputs[0], outputs[0])
            lib.take(worker, inputs[0], inputs[1], outputs[1])

        self.run_body(body, [(x, muster.SCATTER), (numpy.array([1, 0], I), muster.BROADCAST)], [(y, muster.GATHER), (taken, muster.GATHER)])
        self.assertTrue(numpy.allclose(y, numpy.exp(x), rtol=1e-6))
        self.assertTrue((taken == x[[1, 0, 3, 2, 5, 4]]).all())  # two rows on each device

    def test_random_numbers_are_those_of_the_library(self):
        x = numpy.zeros(6, F)

        def body(lib, worker, inputs, outputs):
            lib.random_uniform(worker, 2**64 - 1, 2**63, outputs[0])

        self.run_body(body, [], [(x, muster.MASTER)])
        counter, key, out = [0, 2**31, 0, 0], [2**32 - 1] * 2, (ctypes.c_uint32 * 4)()
        self.library.philox4x32(counter, key, out)
        self.assertEqual(len(set(out)), 4)
        self.assertTrue(((x >= 0) & (x < 1)).all() and len(set(x)) == 6)

    def test_collectives_with_fewer_rows_than_devices(self):
        sums, ranks = numpy.zeros(1, F), numpy.zeros(3, I)

        def body(lib, worker, inputs, outputs):
            part = lib.scratch(worker, F, 1)
            lib.fill(worker, lib.worker_rows(worker), part)
            lib.worker_all_reduce(worker, lib.worker_communicator(worker), muster.SUM, part, part)
            lib.copy(worker, part, outputs[0])
            rank = lib.scratch(worker, I, 1)
            lib.fill(worker, lib.worker_rank(worker), rank)
            lib.worker_all_gather(worker, None, rank, outputs[1])

        self.run_body(body, [(numpy.ones((1, 2), F), muster.SCATTER)], [(sums, muster.MAX), (ranks, muster.MAX)], runs_without_rows=True)
        self.assertEqual((list(sums), list(ranks)), ([1], [0, 1, 2]))

    def test_variables(self):
        a = self.runtime.variable("a", numpy.array([1, 2], F))
        for rank in range(3):
            a.set(rank, numpy.array([rank, 10 * rank], F))
        self.library.variables_all_reduce([a.handle], 1, muster.SUM)
        value = numpy.zeros(2, F)
        a.get(2, value)
        self.assertEqual(list(value), [3, 30])
        self.library.variables_broadcast([a.handle], [muster.Tensor.of(numpy.array([7, 8], F))], 1)
        a.get(1, value)
        self.assertEqual(list(value), [7, 8])

    def test_a_server_and_its_client(self):
        server, client, value = ctypes.c_void_p(), ctypes.c_void_p(), numpy.zeros(4, F)
        self.library.server_create(self.runtime._handle, b"s", [muster.Tensor.of(numpy.ones(4, F))], 1, None, ctypes.byref(server))
        self.library.client_open(server, ctypes.byref(client))
        self.library.client_send(client, 0, self.library.RULE_ADD_SCALED, 0.5, muster.Tensor.of(numpy.full(4, 6, F)), 0, None)
        self.library.client_receive(client, 0, muster.Tensor.of(value), None)
        self.assertEqual(list(value), [4] * 4)
        self.library.client_close(client)
        self.library.server_destroy(server)

    def test_arguments_of_kernels(self):
        for argument, bits in (self.library.argument_int(self.library.I64, -1), 2**64 - 1), (self.library.argument_float(self.library.F32, 1), 0x3F800000):
            self.assertEqual(argument.bits, bits)
        self.assertEqual(self.library.dtype_kernel_name(self.library.F32), b"ga_float")

    def test_dlpack_lends_an_array_and_takes_it_back(self):
        array, managed, handle, taken = numpy.arange(6, dtype=F).reshape(2, 3), ctypes.c_void_p(), ctypes.c_void_p(), muster.Tensor()
        self.library.dlpack_export(None, muster.Tensor.of(array), 0, None, None, ctypes.byref(managed))
        self.library.dlpack_import(None, managed, ctypes.byref(taken), ctypes.byref(handle))
        view = self.library.view(None, taken)
        self.assertEqual(view.ctypes.data, array.ctypes.data)
        self.assertTrue((view == array).all())
        self.library.dlpack_release(handle)


class Views(Functions):
    def test_a_body_computes_with_numpy_in_place(self):
        x = numpy.arange(10, dtype=F).reshape(5, 2)
        y = numpy.zeros_like(x)

        def body(lib, worker, inputs, outputs):
            lib.view(worker, outputs[0])[:] = lib.view(worker, inputs[0]) ** 2

        self.run_body(body, [(x, muster.SCATTER)], [(y, muster.GATHER)])
        self.assertTrue((y == x ** 2).all())

    def test_any_strides(self):
        x = numpy.arange(24, dtype=F).reshape(2, 3, 4)
        cases = [x, x.transpose(2, 0, 1), x[::-1, ::2, ::-1], x[:, :0], x[1, 2, 3:], numpy.broadcast_to(x[0], (5, 3, 4)), numpy.array(3, F)]
        for array in cases:
            view = self.library.view(None, muster.Tensor.of(array))
            self.assertTrue(view.shape == array.shape and (view == array).all())
        transposed = self.library.tensor_transpose(muster.Tensor.of(x[0]))
        self.assertTrue((self.library.view(None, transposed) == x[0].T).all())

    def test_bf16_are_bits(self):
        bits = numpy.array([0x3F80, 0x4000], numpy.uint16)
        self.assertEqual(list(self.library.view(None, muster.Tensor.of(muster.BFloat16(bits)))), list(bits))

    def test_what_is_no_host_memory_is_refused(self):
        tensor = muster.Tensor.of(numpy.ones(2, F))
        tensor.device = 0
        with self.assertRaisesRegex(TypeError, "view: expected a tensor in host memory"):
            self.library.view(None, tensor)
        with self.assertRaisesRegex(TypeError, "view: expected a tensor, received no tensor"):
            self.library.view(None, muster.Tensor())


class Refusals(Functions):
    def test_an_array_is_no_tensor(self):
        def body(lib, worker, inputs, outputs):
            lib.copy(worker, numpy.ones(2, F), outputs[0])

        with self.assertRaisesRegex(muster.MusterError, r"muster_copy: argument 2: .*expected a Tensor, received a NumPy float32 array of shape \(2,\)"):
            self.run_body(body, [], [(numpy.zeros(2, F), muster.MASTER)])

    def test_a_bad_port_leaves_no_function(self):
        good, results = [("x", F, 1, muster.SCATTER)], [("y", F, 1, muster.GATHER)]
        for inputs, outputs in ([("x", F, 1, 99)], results), (good, [("y", F, 9, muster.GATHER)]), (good, [("y", "f4", 1, muster.GATHER)]), ([("x", F, "1", 1)], results):
            with self.assertRaises((muster.MusterError, TypeError, ValueError)):
                self.runtime.function("f", lambda *_: None, inputs, outputs)
        x, y = numpy.ones(6, F), numpy.zeros(6, F)
        self.runtime.function("f", lambda lib, worker, inputs, outputs: lib.copy(worker, inputs[0], outputs[0]), good, results)([x], [y])
        self.assertTrue((y == 1).all())


# The classes share setUp; each case runs in the class that defines it.
CASES = [cls(name) for cls in (Functions, Views, Refusals) for name in vars(cls) if name.startswith("test")]

if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(CASES))
    sys.exit(0 if result.wasSuccessful() and result.testsRun == 16 else 1)
