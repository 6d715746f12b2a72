/* What the oracles of softmax, log_softmax and logsumexp share: long double rows, without
 * subtracting anything where exp does not overflow there. The including file defines FUNCTION,
 * OF(x, log_of_sum), the result of one element, and PER_ROW, 1 if a row has one result. */
#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

/* Fills ops_results from x, whose last axis is the row. */
static void plain_rows(const ops_pair *x) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, result = 0;
    const int32_t last = x->host.ndim - 1;
    const int64_t length = x->host.shape[last];
    ops_shape rows = {.ndim = last};
    int64_t count = 1;
    for (int32_t d = 0; d < last; d++) count *= rows.size[d] = x->host.shape[d];
    for (int64_t row = 0; row < count; row++) {
        long double sum = 0;
        for (index[last] = 0; index[last] < length; index[last]++) sum += expl((long double)ops_element(x->host, last + 1, index));
        const long double log_of_sum = logl(sum);
        if (PER_ROW)
            ops_results[result++] = (double)log_of_sum;
        else
            for (index[last] = 0; index[last] < length; index[last]++)
                ops_results[result++] = (double)OF((long double)ops_element(x->host, last + 1, index), log_of_sum);
        index[last] = 0;
        (void)ops_next(last, rows.size, index);
    }
}

static ops_shape shape_of_result(ops_shape s) {
    if (PER_ROW) s.ndim--;
    return s;
}

static void one_call(muster_worker *w, const mst_op_row *o, const ops_pair *x, const ops_pair *y) {
    plain_rows(x);
    assert_ok(ops_apply(w, o, NULL, PAIRS(x, y)));
    ops_check(w, o, y, ops_results);
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    if (s.ndim == 0) s = (ops_shape){2, {ops_random_size(4), ops_random_size(400)}};
    ops_pair y = ops_output(w, dtype, shape_of_result(s)), x = PER_ROW || ops_random(3) ? ops_input(w, dtype, s) : y;
    one_call(w, o, &x, &y);
}

/* Rows on both sides of a block of the host's loops, and of what one thread of a device
 * computes. */
static void cases(muster_worker *w, const mst_op_row *o) {
    static const int64_t lengths[] = {1, 15, 16, 17, 64, 65, 255, 256, 257, 520};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int i = 0; i < LENGTHS; i++)
            for (int layout = 0; layout < OPS_LAYOUTS; layout++) {
                ops_pair x = ops_laid_out(w, dtype, 2, 3, lengths[i], layout),
                         y = ops_laid_out(w, dtype, PER_ROW ? 1 : 2, 3, lengths[i], layout);
                plain_rows(&x);
                assert_ok(FUNCTION(w, x.device, y.device));
                ops_check(w, o, &y, ops_results);
                ops_count_case(o, dtype);
            }
    static const double rows[][4] = {{1000, 0, -1000, 1000},
                                     {-1000, -1000, -1000, -1000},
                                     {-INFINITY, 0, 1, 2},
                                     {NAN, 1, 2, 3},
                                     {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    enum { ROWS = sizeof rows / sizeof *rows };
    for (int wide = 0; wide < 2; wide++) { /* by one thread of a device and by one block */
        const int64_t length = wide ? 100 : 4;
        ops_pair x = ops_laid_out(w, MUSTER_F32, 2, ROWS, length, 0), y = ops_laid_out(w, MUSTER_F32, PER_ROW ? 1 : 2, ROWS, length, 0);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < length; j++) ((float *)x.host.data)[i * length + j] = (float)(j < 4 ? rows[i][j] : -INFINITY);
        ops_send(w, &x);
        assert_ok(FUNCTION(w, x.device, y.device));
        ops_fetch(w, &y);
        const double expected[ROWS] = {1000 + log(2), -1000 + log(4), log(1 + exp(1) + exp(2)), NAN, -INFINITY};
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < (PER_ROW ? 1 : 4); j++) {
                const double value = ops_at(&y, i, j);
                if (i >= 3 && !PER_ROW)
                    assert_true(isnan(value));
                else
                    ops_assert_near(value, PER_ROW ? expected[i] : (double)OF(rows[i][j], expected[i]), 1e-6);
            }
    }
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 3, 0, 0), y = ops_laid_out(w, MUSTER_F32, PER_ROW ? 1 : 2, 3, 0, 0);
    assert_ok(FUNCTION(w, x.device, y.device));
    ops_fetch(w, &y);
    for (int64_t i = 0; i < (PER_ROW ? 3 : 0); i++) assert_true(ops_at(&y, i, 0) == -INFINITY);
    ops_pair one = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0);
    assert_refused(FUNCTION(w, one.device, one.device), MUSTER_SHAPE_MISMATCH, "x: expected at least 1 dimension, received shape");
}
