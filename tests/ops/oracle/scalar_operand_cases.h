/* The oracles of muster_binary_scalar and muster_scalar_binary, which differ in the order of the
 * operands. The including file defines SCALAR_FIRST as true or false. */
#include "plain_binary.h"

#include "base_check.h"

#include <math.h>

static muster_status combine(muster_worker *w, muster_binary op, muster_tensor x, double value, muster_tensor y) {
    return SCALAR_FIRST ? muster_scalar_binary(w, op, value, x, y) : muster_binary_scalar(w, op, x, value, y);
}

static double plain(muster_binary op, muster_dtype dtype, double x, double value) {
    const bool integer = !mst_dtype_is_float(dtype);
    return SCALAR_FIRST ? plain_binary(op, integer, value, x) : plain_binary(op, integer, x, value);
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype;
    const muster_binary op = binary_draw(o, &dtype);
    const double value = (double)ops_random(5) - (ops_is_unsigned(dtype) ? 0 : 2);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    FOR_EVERY(y, plain(op, dtype, ELEMENT(x), value));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}, {.number = value}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void refuse(muster_worker *w, muster_dtype dtype, double value, bool held) {
    ops_pair x = ops_laid_out(w, dtype, 1, 3, 0, 0);
    if (held)
        assert_ok(combine(w, MUSTER_ADD, x.device, value, x.device));
    else
        assert_refused(combine(w, MUSTER_ADD, x.device, value, x.device), MUSTER_OUT_OF_RANGE, "value: expected a number that ");
}

static void refuse_values(muster_worker *w) {
    refuse(w, MUSTER_I8, 127, true), refuse(w, MUSTER_I8, 128, false), refuse(w, MUSTER_I8, -128, true), refuse(w, MUSTER_I8, -129, false);
    refuse(w, MUSTER_U8, 255, true), refuse(w, MUSTER_U8, 256, false), refuse(w, MUSTER_U8, 0, true), refuse(w, MUSTER_U8, -1, false);
    refuse(w, MUSTER_I32, 0.5, false), refuse(w, MUSTER_I32, NAN, false), refuse(w, MUSTER_I32, INFINITY, false);
    refuse(w, MUSTER_I64, 0x1p63, false), refuse(w, MUSTER_I64, -0x1p63, true), refuse(w, MUSTER_U64, 0x1p64, false);
    refuse(w, MUSTER_U64, 0x1p63, true), refuse(w, MUSTER_F16, 1e9, true), refuse(w, MUSTER_F32, NAN, true);
    ops_pair x = ops_laid_out(w, MUSTER_F32, 1, 3, 0, 0), flags = ops_laid_out(w, MUSTER_BOOL, 1, 3, 0, 0);
    const int32_t no_ops[] = {0, -1, INT32_MIN, MUSTER_RIGHT_SHIFT + 1, INT32_MAX};
    for (int i = 0; i < 5; i++)
        assert_refused(combine(w, no_ops[i], x.device, 1, x.device), MUSTER_INVALID_ARGUMENT,
                       "op: expected MUSTER_ADD to MUSTER_RIGHT_SHIFT, received");
    assert_refused(combine(w, MUSTER_ADD, flags.device, 1, flags.device), MUSTER_UNSUPPORTED, "x: expected a number dtype, received bool");
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_binary op = MUSTER_ADD; op <= MUSTER_RIGHT_SHIFT; op++)
            for (int layouts = 0; layouts < 9; layouts++) {
                ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3), y = ops_laid_out(w, dtype, 2, 4, 5, layouts / 3);
                if (!binary_exists(op, dtype)) continue;
                assert_ok(combine(w, op, x.device, 2, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++) {
                    const double expected = plain(op, dtype, ops_at(&x, i / 5, i % 5), 2);
                    if (ops_is_unsigned(dtype) && expected < 0) continue; /* it wraps, which the draws compare */
                    ops_assert_near(ops_at(&y, i / 5, i % 5), expected, ops_precision(dtype));
                }
                ops_count_case(o, dtype);
            }
    refuse_values(w);
}

#undef SCALAR_FIRST
