/* What the oracles of the gradients of softmax and log_softmax share. The including file defines
 * FUNCTION, TERM(y, dy), of which a row has the sum, and RESULT(y, dy, sum). */
#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static void plain_rows(const ops_pair *y, const ops_pair *dy, int64_t count, int64_t length) {
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < length; j++) sum += TERM(ops_at(y, i, j), ops_at(dy, i, j));
        for (int64_t j = 0; j < length; j++) ops_results[i * length + j] = RESULT(ops_at(y, i, j), ops_at(dy, i, j), sum);
    }
}

/* y holds small numbers of either sign: exp(y) stays small. */
static void tame(muster_worker *w, const ops_pair *y) {
    for (int64_t i = 0; i < y->host_storage.shape[0]; i++) {
        double value = (double)(i % 5) / 4 - 1;
        mst_convert(y->host.dtype, ops_place_of(y->host_storage, &i), MUSTER_F64, &value, 1);
    }
    ops_send(w, y);
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    const int64_t n = ops_random_size(4), k = ops_random_size(ops_random(4) ? 20 : 300);
    ops_pair y = ops_matrix(w, dtype, n, k, false), dy = ops_matrix(w, dtype, n, k, true);
    ops_pair dx = ops_random(3) == 0 ? y : ops_matrix(w, dtype, n, k, false);
    tame(w, &y);
    plain_rows(&y, &dy, n, k);
    assert_ok(ops_apply(w, o, NULL, PAIRS(&y, &dy, &dx)));
    ops_check(w, o, &dx, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    static const int64_t lengths[] = {1, 17, 64, 65, 255, 256, 257};
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int i = 0; i < 7; i++)
            for (int layouts = 0; layouts < 27; layouts++) {
                ops_pair y = ops_laid_out(w, dtype, 2, 2, lengths[i], layouts % 3),
                         dy = ops_laid_out(w, dtype, 2, 2, lengths[i], layouts / 3 % 3),
                         dx = ops_laid_out(w, dtype, 2, 2, lengths[i], layouts / 9);
                tame(w, &y);
                plain_rows(&y, &dy, 2, lengths[i]);
                assert_ok(FUNCTION(w, y.device, dy.device, dx.device));
                ops_check(w, o, &dx, ops_results);
                ops_count_case(o, dtype);
            }
    /* dx in the place of dy */
    ops_pair y = ops_laid_out(w, MUSTER_F32, 2, 2, 100, 0), dy = ops_laid_out(w, MUSTER_F32, 2, 2, 100, 0);
    tame(w, &y);
    plain_rows(&y, &dy, 2, 100);
    assert_ok(FUNCTION(w, y.device, dy.device, dy.device));
    ops_check(w, o, &dy, ops_results);
}
