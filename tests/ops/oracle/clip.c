#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static double plain_clip(double low, double high, double v) { return fmin(fmax(v, low), high); }

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    const double low = (double)ops_random(3) - (ops_is_unsigned(dtype) ? 0 : 2), high = low + (double)ops_random(4);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    FOR_EVERY(y, plain_clip(low, high, ELEMENT(x)));
    assert_ok(ops_apply(w, o, VALUES({.number = low}, {.number = high}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

/* Bounds that the dtype does not hold: they are rounded into the interval. */
static const struct {
    double low, high, rounded_low, rounded_high;
} bounds[] = {{0.5, 2.5, 1, 2}, {1, INFINITY, 1, 1e9}, {-INFINITY, 1, -1e9, 1}, {-0.5, 0.5, 0, 0}, {2, 2, 2, 2}};

static void refuse_bounds(muster_worker *w, muster_dtype dtype) {
    ops_pair x = ops_laid_out(w, dtype, 1, 3, 0, 0);
    assert_refused(muster_clip(w, 2, 1, x.device, x.device), MUSTER_INVALID_ARGUMENT, "low: expected low <= high, received 2 and 1");
    assert_refused(muster_clip(w, NAN, 1, x.device, x.device), MUSTER_INVALID_ARGUMENT, "low: expected low <= high, received nan and 1");
    assert_refused(muster_clip(w, 1, NAN, x.device, x.device), MUSTER_INVALID_ARGUMENT, "low: expected low <= high");
    if (mst_dtype_is_float(dtype)) return;
    assert_refused(muster_clip(w, 0.25, 0.75, x.device, x.device), MUSTER_OUT_OF_RANGE, "low: expected a value of ");
    assert_refused(muster_clip(w, 0x1p65, INFINITY, x.device, x.device), MUSTER_OUT_OF_RANGE, "low: expected a value of ");
    assert_refused(muster_clip(w, -INFINITY, -0x1p65, x.device, x.device), MUSTER_OUT_OF_RANGE, "low: expected a value of ");
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
        if (dtype == MUSTER_BOOL) continue;
        refuse_bounds(w, dtype);
        for (int layouts = 0; layouts < 9; layouts++)
            for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
                ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3), y = ops_laid_out(w, dtype, 2, 4, 5, layouts / 3);
                const bool rounds = !mst_dtype_is_float(dtype);
                assert_ok(muster_clip(w, bounds[b].low, bounds[b].high, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++) {
                    const double v = ops_at(&x, i / 5, i % 5);
                    ops_assert_near(ops_at(&y, i / 5, i % 5),
                                    rounds ? plain_clip(bounds[b].rounded_low, bounds[b].rounded_high, v)
                                           : plain_clip(bounds[b].low, bounds[b].high, v),
                                    0);
                }
                ops_count_case(o, dtype);
            }
    }
    ops_pair x = ops_laid_out(w, MUSTER_F32, 1, 3, 0, 0);
    const double nan = NAN;
    for (int64_t i = 0; i < 3; i++) mst_convert(MUSTER_F32, ops_place_of(x.host, &i), MUSTER_F64, &nan, 1);
    ops_send(w, &x);
    assert_ok(muster_clip(w, -1, 1, x.device, x.device));
    ops_fetch(w, &x);
    for (int64_t i = 0; i < 3; i++) assert_true(isnan(ops_at(&x, i, 0)));
}

const ops_oracle ops_oracle_clip = {.draw = draw, .cases = cases, .case_count = 11 * 9 * 5, .values = {{.number = -1}, {.number = 1}}};
