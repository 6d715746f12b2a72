/* Groups with transposed operands, whose tiles are narrow: the last axis is cut where it has a
 * divisor of a fitting size. Against plain loops in C, on both sides of each bound. */
#include "graph_fixture.h"
#include "tensor_impl.h"

#include <string.h>

static muster_runtime *runtime;
static int32_t cases;

/* y, z = x with its last two axes exchanged, with a term for each element, each column, each row
 * and all: in i32, whose sums are exact. x is (batch, k, n). */
static void group_of(int64_t batch, int64_t n, int64_t k, bool both) {
    enum { MOST = 3 * 33 * 1024 };
    static int32_t x[MOST], w[MOST], column[1024], row[64], y[MOST + 1], z[MOST + 1];
    muster_graph *graph;
    muster_function *function;
    assert_true(batch * n * k <= MOST && k <= 1024 && n <= 64);
    for (int64_t i = 0; i < batch * n * k; i++) x[i] = (int32_t)(i * 7919 % 10007), w[i] = (int32_t)(i * 31 % 997) << 8;
    for (int64_t i = 0; i < k; i++) column[i] = (int32_t)(i * 13) << 4;
    for (int64_t i = 0; i < n; i++) row[i] = (int32_t)i << 20;
    y[batch * n * k] = z[batch * n * k] = -7;
    assert_ok(muster_graph_create(runtime, "transposed", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_I32, MUSTER_SHAPE(batch, k, n), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "w", MUSTER_I32, MUSTER_SHAPE(batch, n, k), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "c", MUSTER_I32, MUSTER_SHAPE(k), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "r", MUSTER_I32, MUSTER_SHAPE(n, 1), MUSTER_BROADCAST);
    (void)muster_graph_output(graph, "y", muster_expr_parse(graph, "swapaxes(x, 1, 2) + w + c + r + 3"), MUSTER_AUTO);
    if (both) (void)muster_graph_output(graph, "z", muster_expr_parse(graph, "swapaxes(x, 1, 2) + w - c"), MUSTER_AUTO);
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in[] = {muster_i32(x, batch, k, n), muster_i32(w, batch, n, k), muster_i32(column, k), muster_i32(row, n, 1)},
                        out[] = {muster_i32(y, batch, n, k), muster_i32(z, batch, n, k)};
    assert_ok(muster_function_call(function, in, 4, out, both ? 2 : 1, NULL));
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < k; j++) {
                const int64_t e = (b * n + i) * k + j;
                const int32_t sum = x[(b * k + j) * n + i] + w[e];
                if (y[e] != sum + column[j] + row[i] + 3 || (both && z[e] != sum - column[j]))
                    fail_msg("%d x %d x %d: element %d", (int)batch, (int)n, (int)k, (int)e);
            }
    assert_true(y[batch * n * k] == -7 && z[batch * n * k] == -7);
    assert_ok(muster_function_destroy(function));
    cases++;
}

static void test_groups_with_transposed_operands(void **state) {
    static const int64_t rows[] = {1, 7, 8, 9, 16, 17, 33}, columns[] = {7, 255, 256, 257, 258, 259, 264, 512, 1000, 1024};
    (void)state;
    for (int64_t batch = 1; batch <= 3; batch += 2)
        for (int r = 0; r < 7; r++)
            for (int c = 0; c < 10; c++) group_of(batch, rows[r], columns[c], (r + c) % 2);
    assert_int_equal(cases, 2 * 7 * 10);
}

/* Values of other sizes, and truth values between them. */
static void test_dtypes(void **state) {
    static const struct {
        muster_dtype dtype;
        const char *text;
    } each[] = {{MUSTER_F16, "x.T + w"}, {MUSTER_F32, "where(x.T > w, x.T, w)"}, {MUSTER_F64, "maximum(x.T, w)"}, {MUSTER_U8, "x.T + w"}};
    enum { N = 40, K = 512 };
    static unsigned char x[8 * N * K], w[8 * N * K], y[8 * N * K];
    (void)state;
    for (int d = 0; d < 4; d++) {
        const muster_dtype dtype = each[d].dtype;
        const int64_t size = muster_dtype_size(dtype);
        muster_graph *graph;
        muster_function *function;
        for (int64_t e = 0; e < N * K; e++) {
            const double p = (double)(e * 7919 % 101), q = (double)(e * 31 % 103);
            mst_convert(dtype, x + e * size, MUSTER_F64, &p, 1);
            mst_convert(dtype, w + e * size, MUSTER_F64, &q, 1);
        }
        assert_ok(muster_graph_create(runtime, "dtypes", &graph));
        (void)muster_graph_input(graph, "x", dtype, MUSTER_SHAPE(K, N), MUSTER_BROADCAST);
        (void)muster_graph_input(graph, "w", dtype, MUSTER_SHAPE(N, K), MUSTER_BROADCAST);
        (void)muster_graph_output(graph, "y", muster_expr_parse(graph, each[d].text), MUSTER_AUTO);
        assert_ok(muster_graph_compile(graph, NULL, &function));
        assert_ok(muster_graph_destroy(graph));
        const muster_tensor in[] = {muster_tensor_make(dtype, x, 2, (const int64_t[]){K, N}),
                                    muster_tensor_make(dtype, w, 2, (const int64_t[]){N, K})},
                            out = muster_tensor_make(dtype, y, 2, (const int64_t[]){N, K});
        assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
        for (int64_t e = 0; e < N * K; e++) {
            const double p = (double)((e % K * N + e / K) * 7919 % 101), q = (double)(e * 31 % 103);
            double received;
            mst_convert(MUSTER_F64, &received, dtype, y + e * size, 1);
            assert_true(received == (d == 0 || d == 3 ? p + q : p > q ? p : q));
        }
        assert_ok(muster_function_destroy(function));
    }
}

int main(void) {
    runtime = graph_runtime("host:1");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups_with_transposed_operands), cmocka_unit_test(test_dtypes)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    assert_ok(muster_runtime_close(runtime));
    return failed;
}
