/* The oracles of muster_argmax and muster_argmin. The including file defines FUNCTION, BETTER(a, b)
 * and BEST_OF_0_AND_1. */
#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random_size(9), k = 1 + ops_random(ops_random(4) ? 30 : 200);
    ops_pair x = ops_matrix(w, dtype, n, k, true), y = ops_vector(w, MUSTER_I64, n, false);
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0;
        for (int64_t j = 1; j < k; j++)
            if (BETTER(ops_at(&x, i, j), ops_at(&x, i, best))) best = j;
        ops_results[i] = (double)best;
    }
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

/* Sets element `at` of a row to a number or NaN. */
static void set(ops_pair *x, int64_t at, double value) {
    mst_convert(x->host.dtype, ops_place_of(x->host, (const int64_t[]){0, at}), MUSTER_F64, &value, 1);
}

static void assert_index(muster_worker *w, const ops_pair *x, ops_pair *index, int64_t expected) {
    ops_send(w, x);
    assert_ok(FUNCTION(w, x->device, index->device));
    ops_fetch(w, index);
    assert_int_equal(ops_at(index, 0, 0), expected);
}

/* Rows of several blocks of the loop: the best at the edges of the blocks, twice, and NaN. */
static void search_long_rows(muster_worker *w, muster_dtype dtype) {
    enum { K = 9000 };
    static const int64_t places[] = {0, 1, 31, 32, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8998, 8999};
    enum { PLACES = sizeof places / sizeof *places };
    const double best = BEST_OF_0_AND_1, usual = 1 - best;
    ops_pair x = ops_make(w, dtype, K), index = ops_laid_out(w, MUSTER_I64, 1, 1, 0, 0);
    x.host = muster_tensor_make(dtype, x.host_storage.data, 2, (const int64_t[]){1, K});
    ops_place(&x);
    for (int64_t i = 0; i < K; i++) set(&x, i, usual);
    assert_index(w, &x, &index, 0);
    for (int a = 0; a < PLACES; a++)
        for (int b = a; b < PLACES; b++) {
            set(&x, places[a], best), set(&x, places[b], best);
            assert_index(w, &x, &index, places[a]);
            set(&x, places[a], usual), set(&x, places[b], usual);
        }
    for (int a = 0; a < PLACES && mst_dtype_is_float(dtype); a++) {
        set(&x, 17, best), set(&x, places[a], NAN), set(&x, 8999, NAN);
        assert_index(w, &x, &index, places[a]);
        set(&x, 17, usual), set(&x, places[a], usual), set(&x, 8999, usual);
    }
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layout = 0; layout < OPS_LAYOUTS; layout++) {
            ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layout), index = ops_laid_out(w, MUSTER_I64, 1, 4, 0, layout);
            assert_ok(FUNCTION(w, x.device, index.device));
            ops_fetch(w, &index);
            for (int64_t i = 0; i < 4; i++) {
                int64_t best = 0;
                for (int64_t j = 1; j < 5; j++)
                    if (BETTER(ops_at(&x, i, j), ops_at(&x, i, best))) best = j;
                assert_int_equal(ops_at(&index, i, 0), best);
            }
            ops_count_case(o, dtype);
        }
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) search_long_rows(w, dtype);
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 4, 0, 0), index = ops_laid_out(w, MUSTER_I64, 1, 4, 0, 0);
    assert_refused(FUNCTION(w, x.device, index.device), MUSTER_INVALID_ARGUMENT, "expected at least one column, received shape (4, 0)");
}

#undef FUNCTION
#undef BETTER
#undef BEST_OF_0_AND_1
