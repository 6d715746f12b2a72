/* Exact values on 1, 2 and 3 devices, in micro-batches and by logical shards: the means and
 * variances of equal elements, the bits of rows that are taken from other devices, products of
 * integers. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "graph_invariance.h"
#include "graph_private.h"

#include <float.h>

enum { ROWS_OF_CALL = 9, COLUMNS = 8, ELEMENTS = ROWS_OF_CALL * COLUMNS, MACHINES = 6 };
static const struct {
    const char *devices;
    int64_t micro_batches;
    int32_t shards;
} machines[MACHINES] = {{"host:1", 0, 0}, {"host:2", 0, 0}, {"host:3", 0, 0}, {"host:1", 2, 0}, {"host:2", 0, 6}, {"host:3", 2, 0}};

/* On simulated GPUs, which compile the kernels of each graph, one of the machines. */
static bool is_tried(int32_t number, int32_t m) { return !on_gpus() || number % MACHINES == m; }

static muster_tensor tensor_for(muster_graph *graph, const muster_expr *node, void *memory) {
    int64_t shape[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < node->type.ndim; d++) {
        shape[d] = mst_dim_constant(graph->graph, node->type.dims[d]);
        if (shape[d] < 0) shape[d] = ROWS_OF_CALL;
    }
    return muster_tensor_make(node->type.dtype, memory, node->type.ndim, shape);
}

/* ---- equal elements ---- */

static void mean_and_variance_of_equals_are_exact(void **state) {
    static const struct {
        const char *text;
        int32_t results;
        bool is_mean;
    } rows[] = {
        {"var(x, axis=0)", COLUMNS, false},
        {"var(x, axis=1)", ROWS_OF_CALL, false},
        {"var(x)", 1, false},
        {"std(x, axis=0)", COLUMNS, false},
        {"std(x)", 1, false},
        {"var(x, axis=0, ddof=1)", COLUMNS, false},
        {"mean(x, axis=0)", COLUMNS, true},
        {"mean(x, axis=1)", ROWS_OF_CALL, true},
        {"mean(x)", 1, true},
    };
    static const float values[] = {3e38f, FLT_MAX, -3e38f, 1e30f, 0.1f, 1e-30f};
    float x[ELEMENTS], y[ELEMENTS];
    int32_t compared = 0, tried = 0;
    (void)state;
    for (size_t c = 0; c < sizeof rows / sizeof *rows; c++)
        for (int32_t m = 0; m < MACHINES; m++) {
            muster_graph *graph;
            muster_function *function;
            muster_graph_options options;
            if (!is_tried((int32_t)c, m)) continue;
            tried++;
            assert_ok(muster_graph_create(devices_open_shards(machines[m].devices, machines[m].shards), "equals", &graph));
            const muster_expr *a = muster_graph_input(graph, "x", MUSTER_F32, 2, (const int64_t[]){MUSTER_ROWS, COLUMNS}, MUSTER_SCATTER);
            const muster_expr *value = muster_expr_parse(graph, rows[c].text);
            assert_ok(muster_graph_output(graph, "y", (muster_expr *)(uintptr_t)value, MUSTER_AUTO));
            muster_graph_options_init(&options);
            options.micro_batches = machines[m].micro_batches;
            assert_ok(muster_graph_compile(graph, &options, &function));
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                const muster_tensor in = tensor_for(graph, a, x);
                muster_tensor out = tensor_for(graph, value, y);
                for (int32_t i = 0; i < ELEMENTS; i++) x[i] = values[v];
                assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
                for (int32_t i = 0; i < rows[c].results; i++)
                    if (y[i] != (rows[c].is_mean ? values[v] : 0))
                        fail_msg("%s of %g on %s, %d micro-batches, %d shards: received %.9g", rows[c].text, (double)values[v],
                                 machines[m].devices, (int)machines[m].micro_batches, (int)machines[m].shards, (double)y[i]);
                compared++;
            }
            assert_ok(muster_function_destroy(function));
            assert_ok(muster_graph_destroy(graph));
        }
    assert_int_equal(compared, 6 * tried);
    assert_int_equal(tried, on_gpus() ? 9 : 9 * MACHINES);
}

/* ---- the bits of taken rows ---- */

/* -0, 0, a NaN with other bits than the usual one, a subnormal, an infinity, the largest number. */
static uint64_t bits_of(int32_t place, int64_t size) {
    static const uint64_t f16[] = {0x8000, 0, 0x7e2a, 0x8001, 0xfc00, 0x7bff}, bf16[] = {0x8000, 0, 0x7fca, 0x8001, 0xff80, 0x7f7f},
                          f32[] = {0x80000000, 0, 0x7fc0002a, 0x80000001, 0xff800000, 0x7f7fffff},
                          f64[] = {0x8000000000000000, 0, 0x7ff800000000002a, 0x8000000000000001, 0xfff0000000000000, 0x7fefffffffffffff};
    const uint64_t *const tables[] = {f16, bf16, f32, f64};
    return tables[size][place % 6];
}

static void rows_that_are_taken_keep_their_bits(void **state) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    static const char *const texts[] = {"take(x, i)", "take_along_axis(x, stack(i, i, i, axis=1), axis=0)"};
    enum { TABLE = 48, WIDTH = 3, PICKED = 4 }; /* few of many rows: cheaper than bringing the table together */
    char x[TABLE * WIDTH * 8], y[PICKED * WIDTH * 8];
    int64_t i[PICKED] = {5, 46, 0, 23}, taken = 0;
    (void)state;
    for (int32_t t = 0; t < 2; t++)
        for (int32_t d = 0; d < 4; d++)
            for (int32_t m = 0; m < MACHINES; m++) {
                const int64_t size = muster_dtype_size(dtypes[d]);
                muster_graph *graph;
                muster_function *function;
                muster_graph_options options;
                if (!is_tried(t + d, m)) continue;
                for (int32_t e = 0; e < TABLE * WIDTH; e++)
                    memcpy(x + e * size, &(uint64_t){bits_of(e / WIDTH + e % WIDTH, d)}, (size_t)size);
                assert_ok(muster_graph_create(devices_open_shards(machines[m].devices, machines[m].shards), "taken", &graph));
                (void)muster_graph_input(graph, "x", dtypes[d], 2, (const int64_t[]){MUSTER_ROWS, WIDTH}, MUSTER_SCATTER);
                (void)muster_graph_input(graph, "i", MUSTER_I64, 1, (const int64_t[]){PICKED}, MUSTER_BROADCAST);
                muster_expr *value = muster_expr_parse(graph, texts[t]);
                assert_ok(muster_graph_output(graph, "y", value, MUSTER_AUTO));
                muster_graph_options_init(&options);
                options.micro_batches = machines[m].micro_batches;
                assert_ok(muster_graph_compile(graph, &options, &function));
                const int64_t table[] = {TABLE, WIDTH}, shape[] = {PICKED, WIDTH};
                const muster_tensor in[] = {muster_tensor_make(dtypes[d], x, 2, table), muster_tensor_make(MUSTER_I64, i, 1, shape)};
                muster_tensor out = muster_tensor_make(dtypes[d], y, 2, shape);
                if (muster_function_call(function, in, 2, &out, 1, NULL) != MUSTER_OK) fail_msg("%s: %s", texts[t], muster_last_error());
                for (int32_t r = 0; r < PICKED; r++)
                    if (memcmp(y + r * WIDTH * size, x + i[r] * WIDTH * size, (size_t)(WIDTH * size)) != 0)
                        fail_msg("%s of %s on %s, %d micro-batches, %d shards: row %d has other bits", texts[t],
                                 muster_dtype_name(dtypes[d]), machines[m].devices, (int)machines[m].micro_batches, (int)machines[m].shards,
                                 (int)r);
                taken++;
                assert_ok(muster_function_destroy(function));
                assert_ok(muster_graph_destroy(graph));
            }
    assert_int_equal(taken, on_gpus() ? 8 : 8 * MACHINES);
}

/* ---- products of integers ---- */

/* As the definition says, in a step that multiplies and adds the elements as they are stored. */
static void integers_are_multiplied_as_they_are_stored(void **state) {
    static const struct {
        muster_dtype dtype;
        const char *text; /* of a, (rows, 5), and b, (5, 3) or its transpose */
        bool turned;
    } rows[] = {
        {MUSTER_I8, "a @ b", false},
        {MUSTER_I16, "a @ b", false},
        {MUSTER_I32, "a @ b", false},
        {MUSTER_I64, "a @ b", false},
        {MUSTER_U8, "a @ b", false},
        {MUSTER_U32, "a @ transpose(b)", true},
        {MUSTER_U64, "a @ b", false},
        {MUSTER_I8, "inner(a, b)", true},
        {MUSTER_U8, "transpose(transpose(b) @ transpose(a))", false},
        {MUSTER_I16, "reshape(stack(a, a, axis=0) @ b, [2, rows, 3])[0]", false},
    };
    enum { INNER = 5, WIDTH = 3 };
    int32_t compared = 0, tried = 0;
    (void)state;
    for (size_t c = 0; c < sizeof rows / sizeof *rows; c++)
        for (int32_t m = 0; m < MACHINES; m++) {
            if (!is_tried((int32_t)c, m)) continue;
            tried++;
            const int64_t size = muster_dtype_size(rows[c].dtype),
                          b_shape[] = {rows[c].turned ? WIDTH : INNER, rows[c].turned ? INNER : WIDTH};
            uint64_t a[ROWS_OF_CALL * INNER], b[INNER * WIDTH], expected, received;
            char stored_a[sizeof a], stored_b[sizeof b], y[ROWS_OF_CALL * WIDTH * 8];
            muster_graph *graph;
            muster_function *function;
            muster_graph_options options;
            for (int32_t i = 0; i < ROWS_OF_CALL * INNER; i++)
                memcpy(stored_a + i * size, &(uint64_t){a[i] = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15}, (size_t)size);
            for (int32_t i = 0; i < INNER * WIDTH; i++)
                memcpy(stored_b + i * size, &(uint64_t){b[i] = (uint64_t)(i + 1) * 0xd1342543de82ef95}, (size_t)size);
            assert_ok(muster_graph_create(devices_open_shards(machines[m].devices, machines[m].shards), "integers", &graph));
            (void)muster_graph_input(graph, "a", rows[c].dtype, 2, (const int64_t[]){MUSTER_ROWS, INNER}, MUSTER_SCATTER);
            (void)muster_graph_input(graph, "b", rows[c].dtype, 2, b_shape, MUSTER_BROADCAST);
            muster_expr *value = muster_expr_parse(graph, rows[c].text);
            if (muster_graph_status(graph) != MUSTER_OK) fail_msg("%s: %s", rows[c].text, muster_last_error());
            assert_ok(muster_graph_output(graph, "y", value, MUSTER_AUTO));
            muster_graph_options_init(&options);
            options.micro_batches = machines[m].micro_batches;
            assert_ok(muster_graph_compile(graph, &options, &function));
            const muster_tensor in[] = {muster_tensor_make(rows[c].dtype, stored_a, 2, (const int64_t[]){ROWS_OF_CALL, INNER}),
                                        muster_tensor_make(rows[c].dtype, stored_b, 2, b_shape)};
            muster_tensor out = tensor_for(graph, value, y);
            if (muster_function_call(function, in, 2, &out, 1, NULL) != MUSTER_OK) fail_msg("%s: %s", rows[c].text, muster_last_error());
            if (!on_gpus()) { /* device code multiplies elements and sums them */
                char *dump = graph_dump_text(function);
                if (!strstr(dump, "matmul(") || strstr(dump, "multiply(")) fail_msg("%s", dump);
                free(dump);
            }
            for (int32_t i = 0; i < ROWS_OF_CALL; i++)
                for (int32_t j = 0; j < WIDTH; j++, compared++) {
                    expected = received = 0;
                    for (int32_t k = 0; k < INNER; k++) expected += a[i * INNER + k] * b[rows[c].turned ? j * INNER + k : k * WIDTH + j];
                    memcpy(&received, y + (i * WIDTH + j) * size, (size_t)size);
                    if (size < 8) expected &= (UINT64_C(1) << (8 * size)) - 1;
                    if (received != expected)
                        fail_msg("%s of %s on %s: element %d, %d: expected the bits %llx, received %llx", rows[c].text,
                                 muster_dtype_name(rows[c].dtype), machines[m].devices, (int)i, (int)j, (unsigned long long)expected,
                                 (unsigned long long)received);
                }
            assert_ok(muster_function_destroy(function));
            assert_ok(muster_graph_destroy(graph));
        }
    assert_int_equal(tried, on_gpus() ? 10 : 10 * MACHINES);
    assert_int_equal(compared, tried * ROWS_OF_CALL * WIDTH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_and_variance_of_equals_are_exact),
        cmocka_unit_test(rows_that_are_taken_keep_their_bits),
        cmocka_unit_test(integers_are_multiplied_as_they_are_stored),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
