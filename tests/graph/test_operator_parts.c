/* The parts of operators that depend on the device: state, values on the host, bodies for a
 * backend, kernels. Among them Theano's Eye, both ways. */
#include "device_discrete.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "kernel_texts.h"
#include "muster/operator.h"

#include <stdlib.h>

enum { ROWS = 6, K = 3 };
static float x[ROWS][K];

static void fill_numbers(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((7 * i + 3 * k) % 11 - 5) / 4;
}

static bool on_gpus(void) { return getenv("MUSTER_TEST_DEVICES") != NULL; }

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

static muster_function *compile(muster_graph *graph) {
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static const char *const one_operand[] = {"x", NULL};

/* ---- state ---- */

static atomic_int prepared, released, ran;

typedef struct counted_state {
    int32_t rank;
    int64_t rows;
} counted_state;

static muster_status counted_prepare(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in,
                                     const muster_tensor *out, void **made, void *user) {
    counted_state *state = malloc(sizeof *state);
    assert_ptr_equal(user, &prepared);
    assert_null(muster_operator_state(node));
    assert_true(state && in[0].shape[0] == out[0].shape[0]);
    *state = (counted_state){muster_worker_rank(worker), in[0].shape[0]};
    *made = state;
    atomic_fetch_add(&prepared, 1);
    return MUSTER_OK;
}

static void counted_release(void *made, void *user) {
    assert_ptr_equal(user, &prepared);
    free(made);
    atomic_fetch_add(&released, 1);
}

static muster_status counted_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                  void *user) {
    const counted_state *state = muster_operator_state(node);
    (void)user;
    assert_true(state->rank == muster_worker_rank(worker) && state->rows == in[0].shape[0]);
    atomic_fetch_add(&ran, 1);
    return muster_copy(worker, in[0], out[0]);
}

/* One state for each of two applications, on each device, for each of ten shapes; of the shapes the
 * last eight stay, and the function's end ends them. */
static void state_belongs_to_a_device_and_a_shape(void **state) {
    static const muster_operator_backend body = {NULL, counted_body};
    (void)state;
    muster_runtime *runtime = graph_runtime("host:2");
    muster_operator_options options;
    muster_operator *counted;
    muster_operator_options_init(&options);
    options.operands = one_operand;
    options.bodies = &body;
    options.body_count = 1;
    options.prepare = counted_prepare;
    options.release = counted_release;
    options.user = &prepared;
    assert_ok(muster_operator_create(runtime, "counted", &options, &counted));
    muster_graph *graph = graph_named(runtime, "counting");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    assert_ok(muster_graph_output(graph, "y", APPLY(graph, "counted", APPLY(graph, "counted", a)), MUSTER_GATHER));
    muster_function *function = compile(graph);
    float values[20] = {3, 4}, got[20];
    for (int32_t call = 0; call < 2; call++)
        for (int64_t rows = 2; rows <= 20; rows += 2) {
            const muster_tensor in = muster_f32(values, rows), out = muster_f32(got, rows);
            for (int32_t again = 0; again < 3; again++) assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
            assert_memory_equal(got, values, (size_t)rows * sizeof *got);
            const int32_t shapes = call * 10 + (int32_t)(rows / 2);
            assert_int_equal(atomic_load(&prepared), 4 * shapes);
            assert_int_equal(atomic_load(&released), shapes > 8 ? 4 * (shapes - 8) : 0);
        }
    assert_int_equal(atomic_load(&ran), 4 * 3 * 20);
    assert_ok(muster_function_destroy(function));
    assert_int_equal(atomic_load(&released), atomic_load(&prepared));
    assert_ok(muster_operator_destroy(counted));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- values on the host ---- */

/* The row of x that `index`, read on the host, says. */
static muster_status pick_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    (void)count;
    (void)user;
    return muster_operator_result(node, 0, muster_expr_dtype(operands[0]), 1, (const int64_t[]){muster_expr_size(operands[0], 1)});
}

static muster_status pick_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                               void *user) {
    (void)node;
    (void)user;
    assert_true(in[1].ndim == 1 && in[1].shape[0] == 2);
    const int64_t *index = (const int64_t *)((const char *)in[1].data + in[1].byte_offset);
    muster_tensor row = in[0];
    row.ndim = 1;
    row.shape[0] = in[0].shape[1];
    row.strides[0] = in[0].strides[1];
    row.byte_offset += index[0] * in[0].strides[0] * (int64_t)sizeof(float); /* the first is read, whatever its stride */
    assert_true(index[in[1].strides[0]] == 77);
    return muster_copy(worker, row, out[0]);
}

/* The index is an input, a computed value, a view in reverse: each is readable on the host. */
static void operands_are_readable_on_the_host(void **state) {
    static const char *const machines[] = {"host:1", "discrete:1", "discrete:2"}, *const operands[] = {"x", "index", NULL};
    static const char *const ways[] = {"pick(a, i)", "pick(a, i + 0 * i)", "pick(a, flip(j))"};
    static const muster_operator_backend body = {NULL, pick_body};
    int32_t compared = 0;
    (void)state;
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            muster_runtime *runtime = graph_runtime(machines[m]);
            muster_operator_options options;
            muster_operator *pick;
            muster_operator_options_init(&options);
            options.operands = operands;
            options.rule = pick_rule;
            options.bodies = &body;
            options.body_count = 1;
            options.host_operands = 2;
            assert_ok(muster_operator_create(runtime, "pick", &options, &pick));
            muster_graph *graph = graph_named(runtime, "picking");
            (void)muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(ROWS, K), MUSTER_BROADCAST);
            (void)muster_graph_input(graph, "i", MUSTER_I64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
            (void)muster_graph_input(graph, "j", MUSTER_I64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
            assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, ways[w]), MUSTER_MAX));
            muster_function *function = compile(graph);
            for (int64_t index = 0; index < ROWS; index++) {
                int64_t forward[2] = {index, 77}, backward[2] = {77, index};
                float got[K];
                const muster_tensor in[] = {muster_f32(x, ROWS, K), muster_i64(forward, 2), muster_i64(backward, 2)},
                                    out = muster_f32(got, K);
                assert_ok(muster_function_call(function, in, 3, &out, 1, NULL));
                assert_memory_equal(got, x[index], sizeof got);
                compared++;
            }
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(compared, 3 * 3 * ROWS);
}

/* ---- bodies for a backend ---- */

static muster_status add_user(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                              void *user) {
    (void)node;
    (void)user;
    return muster_binary_scalar(worker, MUSTER_ADD, in[0], strcmp(muster_worker_backend(worker), "host") == 0 ? 1 : 2, out[0]);
}

static muster_status add_hundred(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                 void *user) {
    (void)node;
    (void)user;
    return muster_binary_scalar(worker, MUSTER_ADD, in[0], 100, out[0]);
}

static void a_device_runs_the_body_of_its_backend(void **state) {
    (void)state;
    const char *other = on_gpus() ? "cuda" : "discrete";
    const muster_operator_backend named[] = {{NULL, add_user}, {other, add_hundred}}, host_only[] = {{"host", add_user}};
    muster_operator_options options;
    muster_operator *made;
    muster_function *function;
    muster_operator_options_init(&options);
    options.operands = one_operand;
    for (int32_t missing = 0; missing < 2; missing++) {
        muster_runtime *runtime = graph_runtime("host:1,discrete:1");
        options.bodies = missing ? host_only : named;
        options.body_count = missing ? 1 : 2;
        assert_ok(muster_operator_create(runtime, "plus", &options, &made));
        muster_graph *graph = graph_named(runtime, "bodies");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
        assert_ok(muster_graph_output(graph, "y", APPLY(graph, "plus", a), MUSTER_GATHER));
        if (missing) {
            char message[200];
            muster_graph_options per_worker;
            muster_graph_options_init(&per_worker);
            per_worker.meaning = MUSTER_PER_WORKER;
            snprintf(message, sizeof message, "backend \"%s\", or for every backend, received none", other);
            assert_refused(muster_graph_compile(graph, &per_worker, &function), MUSTER_UNSUPPORTED, message);
            assert_non_null(
                strstr(muster_last_error(), "muster_graph_compile: test.c:1: muster_expr_plus: bodies: expected one for device 1"));
            assert_ok(muster_graph_destroy(graph));
        } else {
            function = compile(graph);
            float values[2] = {0.5f, 0.25f}, got[2];
            const muster_tensor in = muster_f32(values, 2), out = muster_f32(got, 2);
            assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
            assert_true(got[0] == 1.5f && got[1] == 100.25f);
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

/* ---- kernels: Theano's Eye ---- */

static muster_status eye_rule(muster_operator_node *node, muster_expr *const *operands, int32_t count, void *user) {
    muster_attribute n, m, dtype;
    (void)operands;
    (void)user;
    assert_int_equal(count, 0);
    MUSTER_TRY(muster_operator_attribute_value(node, "n", &n));
    MUSTER_TRY(muster_operator_attribute_value(node, "m", &m));
    MUSTER_TRY(muster_operator_attribute_value(node, "dtype", &dtype));
    return muster_operator_result(node, 0, (muster_dtype)dtype.integer, 2, (const int64_t[]){n.integer, m.integer});
}

/* The ancestor's text, unchanged, which writes the ones. Its unsigned sums do not hold for a
 * diagonal outside of the matrix. */
static muster_status eye_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                              void *user) {
    muster_attribute k;
    const int64_t n = out[0].shape[0], m = out[0].shape[1];
    (void)in;
    (void)user;
    muster_kernel *kernel = muster_operator_kernel(node, "eye");
    if (!kernel) return MUSTER_INVALID_ARGUMENT;
    MUSTER_TRY(muster_operator_attribute_value(node, "k", &k));
    MUSTER_TRY(muster_fill(worker, 0, out[0]));
    if (k.integer >= m || -k.integer >= n) return MUSTER_OK;
    const muster_grid grid = {.dims = 1, .groups = {1}, .threads = {64}};
    const muster_argument arguments[] = {muster_argument_base(out[0]), muster_argument_size((uint64_t)out[0].byte_offset),
                                         muster_argument_size((uint64_t)n), muster_argument_size((uint64_t)m),
                                         muster_argument_ssize(k.integer)};
    return muster_kernel_launch(worker, kernel, &grid, arguments, 5);
}

/* The same without a body: every element, by its place. */
static const char eye_elements[] = "#section kernels\n"
                                   "#kernel eye : size, *, size, ssize :\n"
                                   "KERNEL void eye(ga_size count, GLOBAL_MEM DTYPE_OUTPUT_0 *a, ga_size m, ga_ssize k) {\n"
                                   "    MUSTER_EACH(i, count) {\n"
                                   "        const ga_ssize row = (ga_ssize)(i / m), column = (ga_ssize)(i % m);\n"
                                   "        a[i] = MUSTER_STORE(DTYPE_OUTPUT_0, column - row == k ? 1 : 0);\n"
                                   "    }\n"
                                   "}\n";

static const int64_t eyes[][3] = {{3, 3, 0}, {3, 5, 0}, {5, 3, 0},  {3, 3, 1},  {3, 3, -1}, {3, 5, 1},  {3, 5, -1}, {5, 3, 1}, {5, 3, -1},
                                  {5, 3, 3}, {3, 5, 3}, {5, 3, -3}, {3, 5, -3}, {5, 3, 6},  {3, 5, -6}, {0, 4, 0},  {4, 0, 0}, {1, 1, 0}};
enum { EYES = sizeof eyes / sizeof *eyes };

static bool eye_is_right(const void *values, muster_dtype dtype, const int64_t eye[3]) {
    const float f = 1;
    const int32_t i32 = 1;
    const uint16_t half = 0x3c00;
    const void *one = dtype == MUSTER_F32 ? (const void *)&f : dtype == MUSTER_I32 ? (const void *)&i32 : (const void *)&half;
    const size_t size = (size_t)muster_dtype_size(dtype);
    static const char zero[8];
    bool right = true;
    for (int64_t i = 0; i < eye[0]; i++)
        for (int64_t j = 0; j < eye[1]; j++)
            right = right && memcmp((const char *)values + (size_t)(i * eye[1] + j) * size, j - i == eye[2] ? one : zero, size) == 0;
    return right;
}

static const muster_operator_attribute eye_attributes[] = {{"n", 0, MUSTER_ATTRIBUTE_INTEGER, 1},
                                                           {"m", 0, MUSTER_ATTRIBUTE_INTEGER, 1},
                                                           {"k", 0, MUSTER_ATTRIBUTE_INTEGER, 0},
                                                           {"dtype", MUSTER_F32, MUSTER_ATTRIBUTE_DTYPE, 0},
                                                           {.name = NULL}};

static muster_operator_options eye_options(bool by_body) {
    static const muster_operator_backend body = {NULL, eye_body};
    muster_operator_options options;
    muster_operator_options_init(&options);
    options.rule = eye_rule;
    options.attributes = eye_attributes;
    options.halves = 1;
    options.kernels = by_body ? kernel_file_eye : eye_elements;
    if (by_body) {
        options.bodies = &body;
        options.body_count = 1;
    } else {
        options.launch = "result.elements, result, result.shape[1], k";
    }
    return options;
}

/* All cases of one dtype are outputs of one graph, which the kernel of the dtype serves. */
static int32_t eyes_run(muster_runtime *runtime, muster_dtype dtype) {
    muster_graph *graph = graph_named(runtime, "eyes");
    static char values[EYES][25 * 8];
    muster_tensor out[EYES];
    int32_t right = 0;
    for (int32_t c = 0; c < EYES; c++) {
        char name[16];
        snprintf(name, sizeof name, "eye %d", c);
        muster_expr *y = apply(graph, "diagonal_of_ones", NULL, 0,
                               ATTRIBUTES({.name = "n", .integer = eyes[c][0]}, {.name = "m", .integer = eyes[c][1]},
                                          {.name = "k", .integer = eyes[c][2]}, {.name = "dtype", .integer = dtype}));
        assert_ok(muster_graph_output(graph, name, y, MUSTER_MASTER));
        out[c] = (muster_tensor){.data = values[c], .dtype = dtype, .ndim = 2, .device = MUSTER_DEVICE_HOST};
        out[c].shape[0] = eyes[c][0], out[c].shape[1] = out[c].strides[0] = eyes[c][1], out[c].strides[1] = 1;
        memset(values[c], 0x5a, sizeof values[c]);
    }
    muster_function *function = compile(graph);
    assert_ok(muster_function_call(function, NULL, 0, out, EYES, NULL));
    for (int32_t c = 0; c < EYES; c++) right += eye_is_right(values[c], dtype, eyes[c]);
    assert_ok(muster_function_destroy(function));
    return right;
}

static void eye_is_right_both_ways(void **state) {
    static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_I32, MUSTER_F16};
    int32_t right = 0;
    (void)state;
    for (int32_t by_body = 0; by_body < 2; by_body++) {
        muster_runtime *runtime = graph_runtime("host:2");
        const muster_operator_options options = eye_options(by_body);
        muster_operator *eye;
        assert_ok(muster_operator_create(runtime, "diagonal_of_ones", &options, &eye));
        for (size_t d = 0; d < 3; d++) right += eyes_run(runtime, dtypes[d]);
        assert_ok(muster_operator_destroy(eye));
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(right, 2 * 3 * EYES);
}

/* alpha x + i, with strides of x, sizes, and an attribute that is a number. */
static void a_launch_passes_strides_and_numbers(void **state) {
    static const char text[] =
        "#section kernels\n"
        "#kernel scaled : *, *, float32, size, ssize, ssize, size :\n"
        "KERNEL void scaled(GLOBAL_MEM ga_float *y, GLOBAL_MEM ga_float *x, ga_float alpha, ga_size columns, ga_ssize down,\n"
        "                   ga_ssize across, ga_size count) {\n"
        "    MUSTER_EACH(i, count) {\n"
        "        y[i] = alpha * x[(ga_ssize)(i / columns) * down + (ga_ssize)(i % columns) * across] + (ga_float)i;\n"
        "    }\n"
        "}\n";
    static const muster_operator_attribute alpha[] = {{"alpha", 0.5, MUSTER_ATTRIBUTE_NUMBER, 0}, {.name = NULL}};
    static const struct {
        const char *launch, *message;
    } wrong[] = {
        {"x, z", "launch: expected an operand, \"result\" or an attribute, received \"z\""},
        {"x, result1", "launch: expected an operand, \"result\" or an attribute, received \"result1\""},
        {"x.size", "launch: expected elements, shape[d] or strides[d] behind the point, received \"x.size\""},
        {"x.shape[9]", "launch: expected elements, shape[d] or strides[d] behind the point"},
        {"x,,x", "launch: expected an operand"},
        {"x,", "launch: expected an operand"},
    };
    (void)state;
    muster_runtime *runtime = graph_runtime("host:1");
    muster_operator_options options;
    muster_operator *scaled;
    muster_operator_options_init(&options);
    options.operands = one_operand;
    options.attributes = alpha;
    options.kernels = text;
    int32_t refused = 0;
    for (; refused < 6; refused++) {
        options.launch = wrong[refused].launch;
        assert_refused(muster_operator_create(runtime, "scaled", &options, &scaled), MUSTER_INVALID_ARGUMENT, wrong[refused].message);
    }
    options.launch = "result, x, alpha, x.shape[1], x.strides[0] , x.strides[1],result.elements";
    options.strided_operands = 1;
    assert_ok(muster_operator_create(runtime, "scaled", &options, &scaled));
    muster_graph *graph = graph_named(runtime, "scaling");
    muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(ROWS, K), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", APPLY(graph, "scaled", APPLY(graph, "transpose", a)), MUSTER_MASTER));
    muster_function *function = compile(graph);
    float got[K][ROWS];
    const muster_tensor in = muster_f32(x, ROWS, K), out = muster_f32(got, K, ROWS);
    assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    for (int32_t k = 0; k < K; k++)
        for (int32_t i = 0; i < ROWS; i++) assert_true(got[k][i] == 0.5f * x[i][k] + (float)(k * ROWS + i));
    assert_ok(muster_runtime_close(runtime));
}

/* What the compiler of kernels says comes when the graph is compiled, with the operator and the
 * line. A launch with wrong arguments says so in the call. */
static void wrong_kernels_are_said(void **state) {
    static const char broken
        [] = "#section kernels\n#kernel one : * :\nKERNEL void one(GLOBAL_MEM ga_float *y) { y[0] = nothing; }\n",
  good[] =
        "#section kernels\n#kernel one : *, size :\nKERNEL void one(GLOBAL_MEM ga_float *y, ga_size n) { MUSTER_EACH(i, n) y[i] = 1; }\n";
    (void)state;
    for (int32_t compiles = 0; compiles < 2; compiles++) {
        muster_runtime *runtime = graph_runtime("host:1");
        muster_operator_options options;
        muster_operator *made;
        muster_function *function = NULL;
        muster_operator_options_init(&options);
        options.operands = one_operand;
        options.kernels = compiles ? good : broken;
        options.launch = "result";
        assert_ok(muster_operator_create(runtime, "ones", &options, &made));
        muster_graph *graph = graph_named(runtime, "kernels");
        muster_expr *a = muster_graph_input(graph, "a", MUSTER_F32, MUSTER_SHAPE(2), MUSTER_BROADCAST);
        assert_ok(muster_graph_output(graph, "y", APPLY(graph, "ones", a), MUSTER_AUTO));
        const muster_status status = muster_graph_compile(graph, NULL, &function);
        if (compiles) {
            float values[2] = {0, 0}, got[2];
            const muster_tensor in = muster_f32(values, 2), out = muster_f32(got, 2);
            assert_ok(status);
            assert_refused(muster_function_call(function, &in, 1, &out, 1, NULL), MUSTER_INVALID_ARGUMENT, "operator \"ones\": launch: ");
            assert_non_null(strstr(muster_last_error(), "(in ones, test.c:1)"));
        } else {
            assert_refused(status, MUSTER_INVALID_ARGUMENT, "test.c:1: muster_expr_ones: kernels: ");
            assert_non_null(strstr(muster_last_error(), "'one'"));
        }
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_runtime_close(runtime));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_belongs_to_a_device_and_a_shape), cmocka_unit_test(operands_are_readable_on_the_host),
        cmocka_unit_test(a_device_runs_the_body_of_its_backend), cmocka_unit_test(eye_is_right_both_ways),
        cmocka_unit_test(a_launch_passes_strides_and_numbers),   cmocka_unit_test(wrong_kernels_are_said),
    };
    fill_numbers();
    if (mst_discrete_register() != MUSTER_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
