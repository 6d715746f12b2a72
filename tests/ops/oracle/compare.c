#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static bool plain_compare(muster_comparison op, double a, double b) {
    switch (op) {
    case MUSTER_EQUAL:
        return a == b;
    case MUSTER_NOT_EQUAL:
        return !(a == b);
    case MUSTER_LESS:
        return a < b;
    case MUSTER_LESS_EQUAL:
        return a < b || a == b;
    case MUSTER_GREATER:
        return b < a;
    case MUSTER_GREATER_EQUAL:
        return b < a || a == b;
    case MUSTER_LOGICAL_AND:
        return a != 0 && b != 0;
    case MUSTER_LOGICAL_OR:
        return a != 0 || b != 0;
    default:
        return (a != 0) != (b != 0);
    }
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_comparison op = 1 + (muster_comparison)ops_random(MUSTER_LOGICAL_XOR);
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, MUSTER_BOOL, s),
             a = dtype == MUSTER_BOOL && ops_random(2) ? y : ops_input(w, dtype, ops_random_repeated(&s)),
             b = ops_input(w, dtype, ops_random_repeated(&s));
    FOR_EVERY(y, plain_compare(op, ELEMENT(a), ELEMENT(b)));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}), PAIRS(&a, &b, &y)));
    ops_check(w, o, &y, ops_results);
}

/* Every pair of special values. */
static void compare_specials(muster_worker *w) {
    const float values[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1, -1, 0x1p-149f};
    enum { COUNT = sizeof values / sizeof *values };
    ops_pair a = ops_laid_out(w, MUSTER_F32, 2, COUNT, 1, 0), b = ops_laid_out(w, MUSTER_F32, 1, COUNT, 0, 0),
             y = ops_laid_out(w, MUSTER_BOOL, 2, COUNT, COUNT, 0);
    for (int64_t i = 0; i < COUNT; i++) {
        *(float *)ops_place_of(a.host, (const int64_t[]){i, 0}) = values[i];
        *(float *)ops_place_of(b.host, &i) = values[i];
    }
    ops_send(w, &a);
    ops_send(w, &b);
    for (muster_comparison op = MUSTER_EQUAL; op <= MUSTER_LOGICAL_XOR; op++) {
        assert_ok(muster_compare(w, op, a.device, b.device, y.device));
        ops_fetch(w, &y);
        for (int64_t i = 0; i < COUNT; i++)
            for (int64_t j = 0; j < COUNT; j++) assert_int_equal(ops_at(&y, i, j), plain_compare(op, (double)values[i], (double)values[j]));
    }
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_comparison op = MUSTER_EQUAL; op <= MUSTER_LOGICAL_XOR; op++)
            for (int layouts = 0; layouts < 27; layouts++) {
                ops_pair a = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3),
                         b = ops_laid_out(w, dtype, 1, layouts % 2 ? 5 : 1, 0, layouts / 3 % 3),
                         y = ops_laid_out(w, MUSTER_BOOL, 2, 4, 5, layouts / 9);
                assert_ok(muster_compare(w, op, a.device, b.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++)
                    assert_int_equal(ops_at(&y, i / 5, i % 5),
                                     plain_compare(op, ops_at(&a, i / 5, i % 5), ops_at(&b, layouts % 2 ? i % 5 : 0, 0)));
                ops_count_case(o, dtype);
            }
    compare_specials(w);
    ops_pair y = ops_laid_out(w, MUSTER_BOOL, 1, 3, 0, 0);
    const int32_t no_ops[] = {0, -1, INT32_MIN, MUSTER_LOGICAL_XOR + 1, INT32_MAX};
    for (int i = 0; i < 5; i++)
        assert_refused(muster_compare(w, no_ops[i], y.device, y.device, y.device), MUSTER_INVALID_ARGUMENT,
                       "muster_compare: op: expected MUSTER_EQUAL to MUSTER_LOGICAL_XOR, received");
}

const ops_oracle ops_oracle_compare = {.draw = draw, .cases = cases, .case_count = 12 * 9 * 27, .values = {{.integer = MUSTER_LESS}}};
