#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static bool plain_predicate(muster_predicate op, double v) {
    switch (op) {
    case MUSTER_LOGICAL_NOT:
        return fpclassify(v) == FP_ZERO;
    case MUSTER_ISNAN:
        return fpclassify(v) == FP_NAN;
    case MUSTER_ISINF:
        return fpclassify(v) == FP_INFINITE;
    default:
        return fpclassify(v) != FP_NAN && fpclassify(v) != FP_INFINITE;
    }
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_predicate op = 1 + (muster_predicate)ops_random(MUSTER_ISINF);
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, MUSTER_BOOL, s),
             x = dtype == MUSTER_BOOL && ops_random(2) ? y : ops_input(w, dtype, ops_random_repeated(&s));
    FOR_EVERY(y, plain_predicate(op, ELEMENT(x)));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

/* NaN, infinities and numbers at the bounds of every float dtype, alone and in a vector. */
static void test_specials(muster_worker *w, muster_dtype dtype) {
    static const double values[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1, -1, 65504, -65504, 0x1p-24, -0x1p-24, 0.5};
    enum { COUNT = sizeof values / sizeof *values };
    for (int64_t count = 1; count <= COUNT; count += COUNT - 1)
        for (int64_t first = 0; first < COUNT; first++) {
            ops_pair x = ops_laid_out(w, dtype, 1, count, 0, 0), y = ops_laid_out(w, MUSTER_BOOL, 1, count, 0, 0);
            for (int64_t i = 0; i < count; i++) mst_convert(dtype, ops_place_of(x.host, &i), MUSTER_F64, &values[(first + i) % COUNT], 1);
            ops_send(w, &x);
            for (muster_predicate op = MUSTER_LOGICAL_NOT; op <= MUSTER_ISINF; op++) {
                assert_ok(muster_predicate_op(w, op, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < count; i++) assert_int_equal(ops_at(&y, i, 0), plain_predicate(op, values[(first + i) % COUNT]));
            }
        }
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_predicate op = MUSTER_LOGICAL_NOT; op <= MUSTER_ISINF; op++)
            for (int layouts = 0; layouts < 9; layouts++) {
                ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3), y = ops_laid_out(w, MUSTER_BOOL, 2, 4, 5, layouts / 3);
                assert_ok(muster_predicate_op(w, op, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++) assert_int_equal(ops_at(&y, i / 5, i % 5), plain_predicate(op, ops_at(&x, i / 5, i % 5)));
                ops_count_case(o, dtype);
            }
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++) test_specials(w, dtype);
    ops_pair y = ops_laid_out(w, MUSTER_BOOL, 1, 3, 0, 0);
    const int32_t no_ops[] = {0, -1, INT32_MIN, MUSTER_ISINF + 1, INT32_MAX};
    for (int i = 0; i < 5; i++)
        assert_refused(muster_predicate_op(w, no_ops[i], y.device, y.device), MUSTER_INVALID_ARGUMENT,
                       "muster_predicate_op: op: expected MUSTER_LOGICAL_NOT to MUSTER_ISINF, received");
}

const ops_oracle ops_oracle_predicate = {.draw = draw, .cases = cases, .case_count = 12 * 4 * 9, .values = {{.integer = MUSTER_ISNAN}}};
