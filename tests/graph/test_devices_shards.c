/* Graphs that mean one device, in a runtime with logical shards: the bits of outputs, parameters
 * and states are the same for every number of devices that divides the number of shards. */
#include "base_machine.h"
#include "base_seed.h"
#include "base_skip.h"
#include "graph_shards.h"
#include "runtime_impl.h"

#include <stdio.h>

static void train(int32_t devices, int32_t shards, int64_t rows, muster_update_rule rule, shards_results *r) {
    char text[16];
    snprintf(text, sizeof text, "host:%d", (int)devices);
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = text;
    options.logical_shards = shards;
    assert_ok(muster_runtime_open(&options, &runtime));
    shards_train(runtime, rows, rule, r);
    assert_ok(muster_runtime_close(runtime));
}

static void test_bits_do_not_depend_on_the_number_of_devices(void **state) {
    static const int32_t sets[2][5] = {{8, 1, 2, 4, 8}, {6, 1, 2, 3, 6}};
    static const int64_t row_counts[] = {1, 7, 64};
    static shards_results one, several;
    const bool gpus = on_gpus();
    int32_t cases = 0;
    (void)state;
    for (int32_t s = 0; s < 2; s++)
        for (int32_t n = 0; n < 3; n++)
            for (muster_update_rule rule = MUSTER_SGD; rule <= MUSTER_ADAMAX; rule++) {
                if (!test_is_full() && (rule + n + s) % (gpus ? 8 : 3)) continue; /* a sample */
                train(1, sets[s][0], row_counts[n], rule, &one);
                for (int32_t d = 2; d < (gpus ? 4 : 5); d++, cases++) {
                    train(sets[s][d], sets[s][0], row_counts[n], rule, &several);
                    if (!shards_equal(&one, &several))
                        fail_msg("%d shards, %lld rows, rule %d: expected the bits of 1 device on %d", (int)sets[s][0],
                                 (long long)row_counts[n], (int)rule, (int)sets[s][d]);
                }
            }
    assert_int_equal(cases, test_is_full() ? (gpus ? 96 : 144) : gpus ? 12 : 48);
}

/* The scratch memory of a call that sums over the rows what a running sum makes of the transpose of
 * (MANY_ROWS, columns), in SHARDS shards. */
enum { MANY_ROWS = 4096, SHARDS = 4, SHARD_BYTES = MANY_ROWS / SHARDS * 4 };

static int64_t scratch_of_sums(int32_t columns) {
    static float x[MANY_ROWS * 2];
    float sums[2];
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_graph *g;
    muster_function *f;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.logical_shards = SHARDS;
    for (int32_t i = 0; i < MANY_ROWS * columns; i++) x[i] = (float)(1 + i % columns);
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_graph_create(runtime, "sums", &g));
    muster_expr *rows = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, columns), MUSTER_SCATTER);
    assert_ok(muster_graph_output(g, "sums", muster_expr_parse(g, "sum(cumsum(transpose(x), axis=0), axis=1)", "x", rows), MUSTER_AUTO));
    assert_ok(muster_graph_compile(g, NULL, &f));
    muster_worker *worker = mst_pool_worker(runtime->pool, 0);
    const int64_t before = mst_worker_scratch_watch(worker);
    const muster_tensor in = muster_f32(x, MANY_ROWS, columns), out = muster_f32(sums, columns);
    assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
    const int64_t bytes = worker->scratch_peak - before;
    for (int32_t c = 0; c < columns; c++) assert_float_equal(sums[c], MANY_ROWS * (c ? 3 : 1), 0);
    assert_ok(muster_graph_destroy(g));
    assert_ok(muster_runtime_close(runtime));
    return bytes;
}

/* Shards are copied where their strides depend on the other shards of the worker: not for an axis
 * of size 1, however far it reaches. */
static void test_shards_are_copied_only_where_layouts_differ(void **state) {
    (void)state;
    if (on_gpus()) SKIP("host devices run it");
    const int64_t one = scratch_of_sums(1), two = scratch_of_sums(2);
    print_message("scratch: %lld bytes for a column, %lld for two\n", (long long)one, (long long)two);
    assert_true(two - one >= 2 * SHARD_BYTES);
    assert_true(one < SHARD_BYTES + MANY_ROWS * 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits_do_not_depend_on_the_number_of_devices),
                                       cmocka_unit_test(test_shards_are_copied_only_where_layouts_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
