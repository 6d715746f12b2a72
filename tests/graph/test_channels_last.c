/* Values between convolutions lie with their channels last: the results are those of row-major
 * order, on one device and several, and a step neither reorders an operand in such a chain nor
 * allocates memory. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"
#include "memory_impl.h"
#include "nn_onednn.h"

enum { CALLS = 2 };

/* ---- the same results ---- */

#define IMAGES(c, h, w) \
    { .name = "x", SHAPE_OF(ROWS, c, h, w) }
#define WEIGHT(title, ...) \
    { .name = (title), SHAPE_OF(__VA_ARGS__) }
static const invariance_case chains[] = {
    {.name = "convolution, relu, pooling",
     .inputs = {IMAGES(3, 9, 8)},
     .variables = {WEIGHT("k", 8, 3, 3, 3), WEIGHT("b", 8), WEIGHT("l", 4, 8, 2, 3)},
     .let = "convolution(max_pool(relu(convolution(x, k, b, padding=1)), size=2), l)",
     .loss = "sum(tanh(it)) * 0.01",
     .outputs = {{"y", "it"}, {"rows", "reshape(it, [rows, -1])"}, {"first", "convolution(x, k, b, padding=1)"}}},
    {.name = "a residual block",
     .inputs = {IMAGES(4, 6, 5)},
     .variables = {WEIGHT("k", 8, 4, 1, 1), WEIGHT("l", 8, 8, 3, 3), WEIGHT("m", 8, 4, 1, 1), WEIGHT("mean", 8), WEIGHT("one", 8)},
     .let = "relu(batch_norm(convolution(relu(convolution(x, k)), l, padding=1), mean, square(mean), one, mean, training=1) + "
            "convolution(x, m))",
     .loss = "mean(tanh(it))",
     .outputs = {{"y", "it"}, {"pooled", "global_average_pool(it)"}, {"largest", "global_max_pool(it)"}},
     .needs_rows = true},
    {.name = "averages and normalisation over channels",
     .inputs = {IMAGES(6, 7, 7)},
     .variables = {WEIGHT("k", 6, 6, 3, 3), WEIGHT("t", 6, 4, 2, 2)},
     .let = "local_response_norm(convolution(average_pool(convolution(x, k, padding=1), size=3, stride=2, padding=1), k, padding=1), 3)",
     .loss = "mean(tanh(convolution_transpose(it, t)))",
     .outputs = {{"y", "it"}, {"l2", "l2_pool(convolution(x, k), size=2)"}, {"sum", "it + transpose(it, [0, 1, 3, 2])"}},
     .needs_rows = true},
    {.name = "one extent, and three",
     .inputs = {{.name = "x", SHAPE_OF(ROWS, 3, 8)}},
     .variables = {WEIGHT("k", 4, 3, 3), WEIGHT("l", 2, 3, 8)},
     .let = "convolution(reshape(x, [rows, 3, 2, 2, 2]), reshape(l, [2, 3, 2, 2, 2]))",
     .loss = "sum(tanh(max_pool(relu(convolution(x, k)), size=2))) * 0.01 + sum(it) * 0.01",
     .outputs = {{"y", "it"}, {"c", "concatenate(convolution(x, k), convolution(x, k) * 2, axis=1)"}}},
    {.name = "depthwise, dilated and cut",
     .inputs = {IMAGES(4, 8, 8)},
     .variables = {WEIGHT("d", 8, 1, 3, 3), WEIGHT("k", 4, 8, 1, 1)},
     .let = "convolution(where(convolution(x, d, groups=4, dilation=2) > 0, convolution(x, d, groups=4, dilation=2), x[:, :1, :4, :4]), k)",
     .loss = "sum(it * it) * 0.01",
     .outputs = {{"y", "it"}, {"part", "it[:, 1:3, ::2]"}, {"wide", "cast(it, f64) * 2"}, {"max", "max(it, axis=1)"}}},
};
enum { CHAINS = sizeof chains / sizeof *chains };

static const invariance_case exact = {.name = "whole numbers",
                                      .inputs = {{.name = "x", .kind = WHOLES, SHAPE_OF(ROWS, 8, 6, 6)}},
                                      .variables = {{.name = "k", .kind = WHOLES, SHAPE_OF(8, 8, 3, 3)}},
                                      .let = "max_pool(relu(convolution(x, k, padding=1)) + x, size=2)",
                                      .outputs = {{"y", "it"}, {"again", "convolution(it, k)"}}};

static void compare(const invariance_case *its, const char *devices, invariance_way way, double tolerance) {
    invariance_values expected, values;
    way.plain_layout = true;
    invariance_run(devices_open("host:1"), its, &way, &expected);
    if (*expected.message) fail_msg("%s: %s", its->name, expected.message);
    way.plain_layout = false;
    invariance_run(devices_open(devices), its, &way, &values);
    const double distance = invariance_distance(&expected, &values);
    if (!(distance <= tolerance)) fail_msg("%s on %s: differs by %g from row-major order %s", its->name, devices, distance, values.message);
    invariance_free(&expected);
    invariance_free(&values);
}

static void the_layout_changes_results_by_rounding_only(void **state) {
    static const char *const machines[] = {"host:1", "host:2", "host:3"};
    static const int64_t rows[CALLS] = {7, 7};
    enum { MACHINES = sizeof machines / sizeof *machines, WAYS = 5 };
    static const invariance_way ways[WAYS] = {{.calls = CALLS},
                                              {.calls = CALLS, .unfused = true},
                                              {.calls = CALLS, .unshared = true},
                                              {.calls = CALLS, .checked = true},
                                              {.calls = CALLS, .micro_batches = 2}};
    int32_t compared = 0;
    (void)state;
    for (int32_t c = 0; c < CHAINS; c++)
        for (int32_t m = 0; m < MACHINES; m++)
            for (int32_t w = 0; w < WAYS; w++)
                for (int32_t wide = 0; wide < 2; wide++, compared++) {
                    invariance_way way = ways[w];
                    way.dtype = wide ? MUSTER_F64 : MUSTER_F32;
                    way.rows = rows;
                    compare(&chains[c], machines[m], way, wide ? 1e-11 : 2e-5);
                }
    for (int32_t m = 0; m < MACHINES; m++, compared++)
        compare(&exact, machines[m], (invariance_way){.dtype = MUSTER_F32, .rows = rows, .calls = CALLS}, 0);
    assert_int_equal(compared, CHAINS * MACHINES * WAYS * 2 + MACHINES);
}

/* ---- no reordering, no allocation ---- */

enum { BATCH = 4, SIDE = 12, CHANNELS = 16, MOST = 9 };

/* A convolution of the images, and so many blocks of two convolutions with normalisation, ReLU and
 * the sum with what they began with; the gradients of all weights are outputs. */
static muster_function *blocks_make(muster_runtime *runtime, const char *name, int32_t blocks, bool plain) {
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    muster_expr *w[MOST], *gradients[MOST];
    char text[16];
    int32_t count = 0;
    assert_ok(muster_graph_create(runtime, name, &graph));
    muster_expr *h = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, SIDE, SIDE), MUSTER_SCATTER);
    w[count++] = muster_graph_input(graph, "w0", MUSTER_F32, MUSTER_SHAPE(CHANNELS, 3, 3, 3), MUSTER_BROADCAST);
    muster_expr *z = muster_graph_input(graph, "z", MUSTER_F32, MUSTER_SHAPE(CHANNELS), MUSTER_BROADCAST);
    h = muster_expr_parse(graph, "max_pool(convolution(h, w, padding=1), size=3, stride=1, padding=1)", "h", h, "w", w[0]);
    for (int32_t b = 0; b < 2 * blocks; b += 2) {
        for (int32_t k = 0; k < 2; k++, count++) {
            snprintf(text, sizeof text, "w%d", (int)count);
            w[count] = muster_graph_input(graph, text, MUSTER_F32, MUSTER_SHAPE(CHANNELS, CHANNELS, 3, 3), MUSTER_BROADCAST);
        }
        h = muster_expr_parse(graph,
                              "relu(h + batch_norm(convolution(relu(batch_norm(convolution(h, w, padding=1), z, z, "
                              "training=1)), v, padding=1), z, z, training=1))",
                              "h", h, "w", w[count - 2], "v", w[count - 1], "z", z);
    }
    assert_ok(muster_gradient(muster_expr_parse(graph, "mean(square(h))", "h", h), w, count, gradients));
    for (int32_t k = 0; k < count; k++) {
        snprintf(text, sizeof text, "g%d", (int)k);
        assert_ok(muster_graph_output(graph, text, gradients[k], MUSTER_AUTO));
    }
    muster_graph_options_init(&options);
    options.plain_layout = plain;
    if (muster_graph_compile(graph, &options, &function) != MUSTER_OK) fail_msg("%s", muster_last_error());
    assert_ok(muster_graph_destroy(graph));
    return function;
}

typedef struct counts {
    int64_t reordered, of_weights, allocated;
} counts;

typedef struct call {
    float x[BATCH * 3 * SIDE * SIDE], w[CHANNELS * CHANNELS * 9], g[MOST][CHANNELS * CHANNELS * 9];
    muster_tensor in[MOST + 2], out[MOST];
} call;

static call *call_make(int32_t blocks) {
    static const float z[CHANNELS];
    call *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < sizeof c->x / sizeof *c->x; i++) c->x[i] = (float)(i * 7 % 13) / 13 - 0.5f;
    for (size_t i = 0; i < sizeof c->w / sizeof *c->w; i++) c->w[i] = (float)(i * 5 % 11) / 11 - 0.5f;
    c->in[0] = muster_f32(c->x, BATCH, 3, SIDE, SIDE);
    c->in[1] = muster_f32(c->w, CHANNELS, 3, 3, 3);
    c->in[2] = muster_f32((float *)z, CHANNELS);
    c->out[0] = muster_f32(c->g[0], CHANNELS, 3, 3, 3);
    for (int32_t k = 1; k <= 2 * blocks; k++) {
        c->in[2 + k] = muster_f32(c->w, CHANNELS, CHANNELS, 3, 3);
        c->out[k] = muster_f32(c->g[k], CHANNELS, CHANNELS, 3, 3);
    }
    return c;
}

static muster_status call_run(call *c, muster_function *function, int32_t blocks) {
    return muster_function_call(function, c->in, 3 + 2 * blocks, c->out, 1 + 2 * blocks, NULL);
}

/* What a call of a function that has been called before takes. */
static counts steady_call(muster_function *function, int32_t blocks) {
    call *c = call_make(blocks);
    counts before = {0};
    for (int32_t k = 0; k < 3; k++) {
        before = (counts){mst_convolution_onednn_reorders(false), mst_convolution_onednn_reorders(true), mst_memory_count()};
        assert_ok(call_run(c, function, blocks));
    }
    free(c);
    return (counts){mst_convolution_onednn_reorders(false) - before.reordered, mst_convolution_onednn_reorders(true) - before.of_weights,
                    mst_memory_count() - before.allocated};
}

/* The images are reordered: for the first convolution and for the gradient of its weights. */
static void blocks_reorder_nothing_but_the_images(void **state) {
    enum { IMAGES = 2 };
    int32_t compared = 0;
    (void)state;
    assert_non_null(mst_onednn_get());
    for (int32_t devices = 1; devices <= 2; devices++)
        for (int32_t blocks = 1; blocks <= (on_gpus() ? 1 : 4); blocks++, compared++) {
            muster_runtime *runtime = graph_runtime(devices == 1 ? "host:1" : "host:2");
            const counts last = steady_call(blocks_make(runtime, "last", blocks, false), blocks);
            const counts plain = steady_call(blocks_make(runtime, "plain", blocks, true), blocks);
            assert_int_equal(last.reordered, on_gpus() ? 0 : IMAGES * devices);
            assert_true(on_gpus() || plain.reordered > IMAGES * devices * blocks); /* the counter counts */
            assert_true(on_gpus() || (last.of_weights > 0 && last.of_weights <= devices * (2 + 3 * 2 * blocks)));
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(compared, on_gpus() ? 2 : 8);
}

static void a_steady_step_with_convolutions_allocates_nothing(void **state) {
    static const mst_convolution_library *const none[] = {NULL};
    const mst_convolution_library *const *before = mst_convolution_libraries;
    int32_t compared = 0;
    (void)state;
    for (int32_t own = 0; own < 2; own++)
        for (int32_t plain = 0; plain < 2; plain++)
            for (int32_t devices = 1; devices <= 2; devices++, compared++) {
                mst_convolution_libraries = own ? none : before;
                muster_runtime *runtime = graph_runtime(devices == 1 ? "host:1" : "host:2");
                assert_int_equal(steady_call(blocks_make(runtime, "blocks", 2, plain), 2).allocated, 0);
                assert_ok(muster_runtime_close(runtime));
                mst_convolution_libraries = before;
            }
    assert_int_equal(compared, 8);
}

/* Each allocation of the first call fails once: the next call has the bits that it would have
 * had. */
static void a_failed_allocation_changes_no_later_bits(void **state) {
    enum { BLOCKS = 1 };
    call *expected = call_make(BLOCKS), *c = call_make(BLOCKS);
    muster_runtime *runtime = graph_runtime("host:1");
    int32_t failed = 0;
    (void)state;
    muster_function *function = blocks_make(runtime, "expected", BLOCKS, false);
    assert_ok(call_run(expected, function, BLOCKS));
    for (int64_t k = 1, done = 0; !done; k += on_gpus() && !test_is_full() ? 5 : 1) {
        function = blocks_make(runtime, "tight", BLOCKS, false);
        mst_memory_fail_at(k);
        const muster_status status = call_run(c, function, BLOCKS);
        mst_memory_fail_at(0);
        done = status == MUSTER_OK;
        failed += !done;
        if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
        assert_ok(call_run(c, function, BLOCKS));
        if (memcmp(c->g, expected->g, sizeof c->g) != 0) fail_msg("other bits after the failure of allocation %d", (int)k);
        assert_ok(muster_function_destroy(function));
    }
    assert_true(failed > (on_gpus() ? 4 : 20));
    free(expected);
    free(c);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_changes_results_by_rounding_only), cmocka_unit_test(blocks_reorder_nothing_but_the_images),
        cmocka_unit_test(a_steady_step_with_convolutions_allocates_nothing), cmocka_unit_test(a_failed_allocation_changes_no_later_bits),
        cmocka_unit_test(onednn_is_the_one_that_was_asked_for)};
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
