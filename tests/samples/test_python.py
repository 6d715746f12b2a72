#!/usr/bin/env python3
"""test_python.py SAMPLE LIBRARY: samples/python/muster_ctypes.py takes what it can describe, refuses the rest, and survives Ctrl-C."""
import asyncio
import ctypes
import os
import pathlib
import signal
import sys
import threading
import time
import unittest

import numpy

sys.path.insert(0, sys.argv[1])
os.environ["MUSTER_LIBRARY"] = sys.argv[2]
import muster_ctypes as muster  # noqa: E402
import muster_expressions  # noqa: E402

DEVICES = "host:2"


def copies(lib, worker, inputs, outputs):
    lib.copy(worker, inputs[0], outputs[0])


def copy_function(runtime, dtype, ndim, name="copies"):
    return runtime.function(name, copies, [("x", dtype, ndim, muster.SCATTER)], [("y", dtype, ndim, muster.GATHER)])


class Arrays(unittest.TestCase):
    def setUp(self):
        self.runtime = muster.Runtime(DEVICES)
        self.addCleanup(self.runtime.close)

    def refused(self, kind, words, inputs, outputs, dtype="float32", ndim=1):
        function = copy_function(self.runtime, dtype, ndim, f"copies {words}")
        with self.assertRaisesRegex(kind, words):
            function(inputs, outputs)

    def test_every_dtype_comes_back(self):
        for dtype in set(muster.DTYPES) - {"bfloat16"}:
            x = numpy.arange(12).reshape(6, 2).astype(dtype)
            y = numpy.zeros_like(x)
            copy_function(self.runtime, dtype, 2, dtype)([x], [y])
            numpy.testing.assert_array_equal(x, y)

    def test_strided_arrays_go_in_and_out_as_they_are(self):
        x, y = numpy.arange(24, dtype="f4").reshape(4, 6), numpy.zeros((6, 4), "f4")
        copy_function(self.runtime, "float32", 2)([x[::-1, ::2]], [y[::2].T[:, ::-1][:, :3]])
        numpy.testing.assert_array_equal(y[::2].T[:, ::-1], x[::-1, ::2])
        self.assertFalse(y[1::2].any())

    def test_a_tensor_keeps_its_array(self):
        array = numpy.full(1000, 3, "f4")
        references = sys.getrefcount(array)
        tensor = muster.Tensor.of(array)
        self.assertEqual(sys.getrefcount(array), references + 1)
        part = self.runtime.library.tensor_slice(tensor, 1, 3)
        del tensor
        self.assertEqual(sys.getrefcount(array), references + 1)
        seen = self.runtime.library.view(None, part)
        del part
        self.assertEqual(sys.getrefcount(array), references + 1)
        self.assertEqual(list(seen), [3, 3])
        del seen
        self.assertEqual(sys.getrefcount(array), references)
        bits = muster.BFloat16.rounded(array)
        self.assertIs(muster.Tensor.of(bits).kept, bits.bits)

    def test_views_of_inputs_are_read_only(self):
        seen = []

        def body(lib, worker, inputs, outputs):
            view, part = lib.view(worker, inputs[0]), lib.view(worker, lib.tensor_slice(inputs[0], 0, 1))
            seen.append((view.flags.writeable, part.flags.writeable, lib.view(worker, outputs[0]).flags.writeable,
                         lib.view(worker, lib.scratch(worker, "float32", 2)).flags.writeable))
            lib.view(worker, outputs[0])[...] = view

        x, y = numpy.arange(4, dtype="f4"), numpy.zeros(4, "f4")
        x.flags.writeable = False
        self.runtime.function("body", body, [("x", "float32", 1, muster.SCATTER)], [("y", "float32", 1, muster.GATHER)])([x], [y])
        self.assertEqual(seen, [(False, False, True, True)] * 2)
        numpy.testing.assert_array_equal(x, y)

    def test_too_few_arguments_are_refused_by_the_name_of_the_function(self):
        with self.assertRaisesRegex(TypeError, "^muster_tensor_bytes: "):
            self.runtime.library.tensor_bytes()

    def test_another_byte_order_is_refused(self):
        other = numpy.dtype("f4").newbyteorder()
        self.refused(TypeError, "^input 0: expected the byte order of this machine, received [<>]f4", [numpy.ones(3, other)], [numpy.ones(3, "f4")])

    def test_lists_numbers_and_masked_arrays_are_refused(self):
        y = numpy.zeros(3, "f4")
        self.refused(TypeError, "^input 0: expected a numpy.ndarray, received list$", [[1.0, 2.0, 3.0]], [y])
        self.refused(TypeError, "^input 0: expected a numpy.ndarray, received float32$", [numpy.float32(1)], [y])
        self.refused(TypeError, "^input 0: expected a numpy.ndarray, received a masked one$", [numpy.ma.masked_equal(y, 0)], [y])

    def test_a_dtype_that_muster_lacks_is_refused(self):
        self.refused(TypeError, "^input 0: expected one of .*, received complex64$", [numpy.ones(3, "c8")], [numpy.ones(3, "f4")])

    def test_strides_within_an_element_are_refused(self):
        records = numpy.zeros(4, [("number", "f8"), ("letter", "u1")])
        self.refused(ValueError, r"multiples of 8 bytes, received strides \(9,\)", [records["number"]], [numpy.zeros(4)], "float64")

    def test_unaligned_elements_are_refused(self):
        shifted = numpy.zeros(17, "u1")[1:].view("f4")
        self.refused(ValueError, "expected aligned elements", [shifted], [numpy.zeros(4, "f4")])

    def test_an_odd_stride_of_a_single_row_is_no_fault(self):
        x = numpy.lib.stride_tricks.as_strided(numpy.full(3, 5, "f4"), (1, 3), (7, 4))
        y = numpy.zeros((1, 3), "f4")
        copy_function(self.runtime, "float32", 2)([x], [y])
        self.assertTrue((y == 5).all())

    def test_a_read_only_array_goes_in_but_not_out(self):
        constant, y = numpy.ones(3, "f4"), numpy.zeros(3, "f4")
        constant.flags.writeable = False
        function = copy_function(self.runtime, "float32", 1)
        function([constant], [y])
        self.assertTrue((y == 1).all())
        with self.assertRaisesRegex(ValueError, "^output 0: expected an array to write to, received a read-only one$"):
            function([y], [constant])

    def test_nine_dimensions_are_refused(self):
        self.refused(ValueError, "^input 0: expected at most 8 dimensions, received 9$", [numpy.zeros((1,) * 9, "f4")], [numpy.zeros(1, "f4")])

    def test_bf16_rounds_and_comes_back(self):
        # 1 + 2^-8 lies between two bf16 numbers: a tie, which goes to the even one, 1; 1 + 3 * 2^-8 goes to 1 + 2^-6.
        values = numpy.array([1, -2.5, 1 + 2**-8, 1 + 3 * 2**-8, numpy.inf, numpy.nan, 0], "f4")
        x, y = muster.BFloat16.rounded(values), muster.BFloat16(numpy.zeros(7, "u2"))
        copy_function(self.runtime, "bfloat16", 1)([x], [y])
        numpy.testing.assert_array_equal(y.float32(), numpy.array([1, -2.5, 1, 1 + 2**-6, numpy.inf, numpy.nan, 0], "f4"))
        with self.assertRaisesRegex(TypeError, "^BFloat16: expected a uint16 array, received float32 array of shape "):
            muster.BFloat16(values)

    def test_a_bf16_scalar_comes_back(self):
        value = muster.BFloat16.rounded(numpy.array(-2.5, "f4")).float32()
        self.assertEqual((value.dtype, value.shape, value), (numpy.float32, (), -2.5))

    def test_the_rounding_is_that_of_the_library(self):
        convert = self.runtime.library._c.muster_f32_to_bf16
        convert.argtypes, convert.restype = [ctypes.c_float], ctypes.c_uint16
        values = numpy.arange(0, 2**32, 65537 * 3, dtype="u8").astype("u4").view("f4")
        self.assertGreater(values.size, 20000)
        numpy.testing.assert_array_equal(muster.BFloat16.rounded(values).bits, [convert(float(v)) for v in values])


class Options(unittest.TestCase):
    def test_the_structs_are_whole(self):
        library = muster.Library()
        for name, struct in ("runtime_options", muster.Options), ("call_options", muster.CallOptions):
            self.assertEqual(library.constant(b"sizeof(muster_%s)" % name.encode()), ctypes.sizeof(struct), f"add the new fields of muster_{name} to muster_ctypes.py")

    def test_options_of_the_runtime_arrive(self):
        lines = []
        with muster.Runtime(DEVICES, log=lambda level, line: lines.append((level, line)), log_level=3, logical_shards=4, collective_algorithm="direct", stream_bytes=-1, warn_after_ns=5_000_000_000, spin_ns=-1,
                            keep_blas_threads=1, no_pinning=1) as runtime:
            self.assertEqual(len(runtime), 2)
            x = numpy.ones(4, "f4")
            copy_function(runtime, "float32", 1)([x], [x.copy()])
            self.assertEqual(runtime.library._c.muster_runtime_dump(runtime._open(), 4), muster.OK)
        self.assertTrue(lines)
        self.assertEqual({level for level, _ in lines}, {muster.Library().LOG_WARNING})
        with self.assertRaisesRegex(muster.MusterError, "shards"):
            muster.Runtime(DEVICES, logical_shards=3)
        with self.assertRaisesRegex(TypeError, "^Runtime: spin: no option of muster_runtime_options$"):
            muster.Runtime(DEVICES, spin=1)

    def test_options_of_a_call_arrive(self):
        with muster.Runtime(DEVICES) as runtime:
            x, f = numpy.arange(10, dtype="f4"), copy_function(runtime, "float32", 1)
            for batch, expected in (4, x[:4]), (slice(2, 7), x[2:7]), ([9, 0, 9], x[[9, 0, 9]]), (numpy.array([3, 1], "u1"), x[[3, 1]]):
                y = numpy.zeros(expected.size, "f4")
                f([x], [y], batch=batch, slices=2, queue_timeout_ns=10**12, warn_after_ns=-1, fail_after_ns=-1)
                numpy.testing.assert_array_equal(y, expected)
            with self.assertRaisesRegex(muster.MusterError, "slices"):
                f([x], [x.copy()], slices=-1)
            with self.assertRaisesRegex(TypeError, "^call: slice: no option of muster_call_options$"):
                f([x], [x.copy()], slice=1)
            with self.assertRaisesRegex(TypeError, "or a list of indices, received"):
                f([x], [x.copy()], batch=[0.5])


class Calls(unittest.TestCase):
    def setUp(self):
        self.runtime = muster.Runtime(DEVICES)
        self.addCleanup(self.runtime.close)

    def test_selections_and_numbers_of_another_kind_are_refused(self):
        x, y = numpy.ones(3, "f4"), numpy.zeros(3, "f4")
        function = copy_function(self.runtime, "float32", 1)
        for kind, words, options in [(ValueError, "^batch: expected at least one row, received none$", {"batch": []}),
                                     (TypeError, "^batch: expected None, a number of rows, .*, received bool$", {"batch": True}),
                                     (TypeError, "^batch: expected None, .*, received str$", {"batch": "3"}),
                                     (TypeError, "^replica_batch: expected None, .*, received float$", {"replica_batch": 1.5}),
                                     (TypeError, "^slices: expected an integer, received str$", {"slices": "3"}),
                                     (TypeError, "^slices: expected an integer, received bool$", {"slices": True}),
                                     (TypeError, "^fail_after_ns: expected an integer, received float$", {"fail_after_ns": 1e9}),
                                     (muster.MusterError, "slices: expected at least 0", {"slices": -1})]:
            with self.subTest(options=options), self.assertRaisesRegex(kind, words):
                function([x], [y], **options)
        for dtype in "f4", "float8", 3, None:
            with self.subTest(dtype=dtype), self.assertRaisesRegex(ValueError, "^dtype of 'x': expected one of float16, .*, received "):
                copy_function(self.runtime, dtype, 1, "never")
        with self.assertRaisesRegex(ValueError, "^scratch: dtype: expected one of float16, .*, received 'double'$"):
            self.runtime.library.scratch(None, "double", 3)

    def test_functions_and_variables_end(self):
        x, y = numpy.ones(3, "f4"), numpy.zeros(3, "f4")
        for _ in range(2):  # the name is free again
            function, variable = copy_function(self.runtime, "float32", 1), self.runtime.variable("v", x)
            function([x], [y])
            variable.set(1, 2 * x)
            variable.get(1, y)
            numpy.testing.assert_array_equal(y, 2 * x)
            self.runtime.library.function_variable(copy_function(self.runtime, "float32", 1, "uses").handle, variable.handle, muster.READ)
            with self.assertRaisesRegex(muster.MusterError, "expected no function that uses it, 1 still do"):
                variable.close()
            self.runtime._kept[-1].close()
            for ended in function, variable, function, variable:
                ended.close()
            with self.assertRaisesRegex(muster.MusterError, "the function is closed"):
                function([x], [y])
        self.assertEqual(self.runtime._kept, [])

    def test_asyncio_goes_on_while_the_devices_compute(self):
        async def main():
            x, y = numpy.arange(6, dtype="f4"), numpy.zeros(6, "f4")
            go_on = threading.Event()

            def body(lib, worker, inputs, outputs):
                if not go_on.wait(60):
                    raise RuntimeError("the loop did not go on")
                lib.copy(worker, inputs[0], outputs[0])

            function = self.runtime.function("waits", body, [("x", "float32", 1, muster.SCATTER)], [("y", "float32", 1, muster.GATHER)])
            call = asyncio.create_task(function.awaited([x], [y]))
            await asyncio.sleep(0)
            self.assertFalse(call.done())
            go_on.set()  # by the thread of the loop, which the call has not stopped
            await call
            numpy.testing.assert_array_equal(x, y)
            with self.assertRaisesRegex(muster.MusterError, "input 'x'"):
                await function.awaited([x.astype("f8")], [y])
            return "end"

        self.assertEqual(asyncio.run(main()), "end")

    def test_an_exception_of_a_body_reaches_the_coroutine(self):
        def body(lib, worker, inputs, outputs):
            raise ZeroDivisionError("none")

        async def main():
            function = self.runtime.function("fails", body, [("x", "float32", 1, muster.SCATTER)], [("y", "float32", 1, muster.GATHER)])
            with self.assertRaises(muster.MusterError) as raised:
                await function.awaited([numpy.ones(2, "f4")], [numpy.ones(2, "f4")])
            self.assertIsInstance(raised.exception.__cause__, ZeroDivisionError)

        asyncio.run(main())

    def test_a_cancelled_coroutine_ends_its_call(self):
        async def main():
            running = threading.Event()

            def body(lib, worker, inputs, outputs):
                while True:
                    lib.copy(worker, inputs[0], outputs[0])
                    running.set()

            function = self.runtime.function("goes on", body, [("x", "float32", 1, muster.SCATTER)], [("y", "float32", 1, muster.GATHER)])
            x, y = numpy.ones(2, "f4"), numpy.zeros(2, "f4")
            call = asyncio.create_task(function.awaited([x], [y]))
            while not running.is_set():
                await asyncio.sleep(0.001)
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call
            copy_function(self.runtime, "float32", 1)([x], [y])
            numpy.testing.assert_array_equal(x, y)

        asyncio.run(main())


class Expressions(unittest.TestCase):
    def setUp(self):
        self.runtime = muster.Runtime(DEVICES)
        self.addCleanup(self.runtime.close)
        self.graph = muster_expressions.Graph(self.runtime, "g")
        self.x = self.graph.input("x", "float32", (muster_expressions.ROWS,), muster.SCATTER)

    def test_comparisons_are_expressions(self):
        x, y = numpy.array([0, 1, 0, 2, 3], "f4"), numpy.zeros(5, "f4")
        makers = {"equal": lambda e: e == 0, "not_equal": lambda e: e != 0, "reversed": lambda e: 1 == e, "less": lambda e: e < 2}
        for name, make in makers.items():
            self.graph.output(name, self.graph.apply("where", make(self.x), 1, self.x))
        self.graph.output("abs", abs(-self.x))
        results = [numpy.zeros(5, "f4") for _ in range(5)]
        self.graph.compile()([x], results)
        for result, make in zip(results, makers.values()):
            numpy.testing.assert_array_equal(result, numpy.where(make(x), 1, x))
        numpy.testing.assert_array_equal(results[4], x)

    def test_an_expression_has_no_truth_value(self):
        for use in (lambda: bool(self.x), lambda: 0 < self.x < 1, lambda: self.x and self.x, lambda: not self.x):
            with self.assertRaisesRegex(TypeError, "an expression has no truth value"):
                use()
        self.assertEqual(len({self.x: 1, self.graph.number(1): 2}), 2)  # it can be a key


class Failures(unittest.TestCase):
    def test_an_exception_of_a_body_is_the_cause(self):
        def fails(lib, worker, inputs, outputs):
            raise ValueError(f"rank {lib.worker_rank(worker)}")

        with muster.Runtime(DEVICES) as runtime:
            with self.assertRaisesRegex(muster.MusterError, "ValueError: rank [01]") as caught:
                runtime.function("fails", fails, [], [])([], [])
            self.assertIsInstance(caught.exception.__cause__, ValueError)

    def test_the_cause_is_of_the_same_call(self):
        def fails(lib, worker, inputs, outputs):
            raise ValueError(f"row {int(lib.view(worker, inputs[0])[0])}")

        with muster.Runtime("host:1") as runtime:
            f, wrong = runtime.function("fails", fails, [("x", "float32", 1, muster.SCATTER)], []), []

            def call(i):
                try:
                    f([numpy.full(1, i, "f4")], [])
                except muster.MusterError as error:
                    if str(error.__cause__) != f"row {i}":
                        wrong.append((i, error.__cause__))

            threads = [threading.Thread(target=lambda first=first: [call(first + k) for k in range(50)]) for first in range(0, 400, 100)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            self.assertEqual(wrong, [])
            self.assertEqual(f.failures, [])

    def test_what_ends_a_program_comes_out_of_the_call_itself(self):
        for kind in SystemExit, KeyboardInterrupt:
            def ends(lib, worker, inputs, outputs):
                raise kind("the end")

            with muster.Runtime(DEVICES) as runtime:
                with self.assertRaisesRegex(kind, "^the end$"):
                    runtime.function("ends", ends, [], [])([], [])

    def test_a_body_can_clean_up_after_ctrl_c(self):
        running, cleaned = threading.Event(), []

        def endless(lib, worker, inputs, outputs):
            try:
                for _ in range(10**8):
                    running.set()
                    lib.copy(worker, inputs[0], inputs[0])
            finally:
                lib.copy(worker, inputs[0], inputs[0])
                cleaned.append(lib.worker_rank(worker))

        with muster.Runtime(DEVICES) as runtime:
            f = runtime.function("endless", endless, [("x", "float32", 1, muster.SCATTER)], [])
            killer = threading.Thread(target=lambda: (running.wait(), os.kill(os.getpid(), signal.SIGINT)))
            killer.start()
            with self.assertRaises(KeyboardInterrupt):
                f([numpy.ones(8, "f4")], [])
            killer.join()
            self.assertEqual(sorted(cleaned), [0, 1])

    def test_ctrl_c_ends_the_call_and_leaves_the_runtime_usable(self):
        running = threading.Event()

        def endless(lib, worker, inputs, outputs):
            for _ in range(10**8):
                running.set()
                lib.copy(worker, inputs[0], inputs[0])

        with muster.Runtime(DEVICES) as runtime:
            x, y = numpy.ones(8, "f4"), numpy.zeros(8, "f4")
            f = runtime.function("endless", endless, [("x", "float32", 1, muster.SCATTER)], [])
            for _ in range(2):
                running.clear()
                killer = threading.Thread(target=lambda: (running.wait(), os.kill(os.getpid(), signal.SIGINT)))
                killer.start()
                with self.assertRaises(KeyboardInterrupt):
                    f([x], [])
                killer.join()
            copy_function(runtime, "float32", 1)([x], [y])
            self.assertTrue((y == 1).all())

    def test_ctrl_c_ends_a_compiled_graph(self):
        with muster.Runtime(DEVICES) as runtime:
            graph, rows = muster_expressions.Graph(runtime, "long"), muster_expressions.ROWS
            x, m = graph.input("x", "float32", (rows, 400), muster.SCATTER), graph.input("m", "float32", (400, 400), muster.BROADCAST)
            h = x
            for _ in range(400):
                h = (h @ m).apply("tanh")
            graph.output("mean", h.apply("mean"))
            f = graph.compile()
            arguments = [numpy.ones((400, 400), "f4"), numpy.zeros((400, 400), "f4")], [numpy.zeros((), "f4")]
            f(*arguments)
            killer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
            killer.start()
            with self.assertRaises(KeyboardInterrupt):
                for _ in range(100):
                    f(*arguments)
            killer.join()
            f(*arguments)

    def test_a_second_ctrl_c_ends_waits_of_bodies(self):
        running, ended = threading.Event(), threading.Event()

        def waits(lib, worker, inputs, outputs):
            running.set()
            while lib.worker_rank(worker) == 0 and not lib.worker_cancelled(worker):
                time.sleep(0.001)  # two that wait for each other would be refused
            if lib.worker_rank(worker) > 0:
                lib.worker_recv(worker, None, 0, 1, inputs[0])

        def kill():
            running.wait()
            while not ended.wait(0.1):
                os.kill(os.getpid(), signal.SIGINT)

        def interrupt(*_):
            if not ended.is_set():
                ended.set()
                raise KeyboardInterrupt

        with muster.Runtime(DEVICES) as runtime:
            f = runtime.function("waits", waits, [("x", "float32", 1, muster.SCATTER)], [])
            killer, before = threading.Thread(target=kill), signal.signal(signal.SIGINT, interrupt)
            killer.start()
            with self.assertRaises(KeyboardInterrupt):
                f([numpy.ones(8, "f4")], [])
            killer.join()
            signal.signal(signal.SIGINT, before)
            copy_function(runtime, "float32", 1)([numpy.ones(8, "f4")], [numpy.zeros(8, "f4")])

    def test_a_closed_runtime_is_refused(self):
        with muster.Runtime(DEVICES) as runtime:
            f = copy_function(runtime, "float32", 1)
        x = numpy.ones(4, "f4")
        for use in lambda: f([x], [x.copy()]), lambda: len(runtime), lambda: runtime.function("g", copies, [], []):
            with self.assertRaisesRegex(muster.MusterError, "^the runtime is closed$"):
                use()
        runtime.close()

    def test_a_forked_child_is_refused_and_can_close(self):
        with muster.Runtime(DEVICES) as runtime:
            f = copy_function(runtime, "float32", 1)
            array, copy = numpy.ones(4, numpy.float32), numpy.zeros(4, numpy.float32)
            f([array], [copy])  # the thread that makes the calls of this process has started
            child = os.fork()
            if child == 0:
                signal.alarm(100)  # a child that hangs ends
                seen = 1
                try:
                    f([array], [copy])
                except muster.MusterError as error:
                    seen = 0 if error.status == muster.BAD_STATE else 2
                finally:
                    runtime.close()
                    os._exit(seen)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            f([array], [copy])  # the parent's runtime works on

    def test_calls_from_several_threads(self):
        with muster.Runtime(DEVICES) as runtime:
            f, results = copy_function(runtime, "float32", 1), [numpy.zeros(5, "f4") for _ in range(4)]
            threads = [threading.Thread(target=f, args=([numpy.full(5, i, "f4")], [result])) for i, result in enumerate(results)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            self.assertEqual([list(result) for result in results], [[i] * 5 for i in range(4)])


if __name__ == "__main__":
    cases = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    print(f"{cases.countTestCases()} cases of {pathlib.Path(muster.__file__).name}")
    result = unittest.TextTestRunner(verbosity=2).run(cases)
    sys.exit(0 if result.wasSuccessful() and result.testsRun == 36 else 1)
