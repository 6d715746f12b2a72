/* Values and gradients of elements whose squares no f32 holds, beside their definitions in long
 * double: norms, variances and normalisation of 1e20, of 3e38 with mixed signs and of 1e-30, on 1,
 * 2 and 3 devices, in micro-batches and by logical shards. Gradients are compared with
 * differences. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "graph_invariance.h"
#include "graph_private.h"

#include <float.h>
#include <math.h>

enum { ROWS_OF_CALL = 9, COLUMNS = 8, ELEMENTS = ROWS_OF_CALL * COLUMNS, MACHINES = 6 };
static const struct {
    const char *devices;
    int64_t micro_batches;
    int32_t shards;
} machines[MACHINES] = {{"host:1", 0, 0}, {"host:2", 0, 0}, {"host:3", 0, 0}, {"host:1", 2, 0}, {"host:2", 0, 6}, {"host:3", 2, 0}};

/* On simulated GPUs, which compile the kernels of each graph, one of the machines. */
static bool is_tried(int32_t number, int32_t m) { return !on_gpus() || number % MACHINES == m; }

/* ---- the definitions ---- */

typedef long double real;
typedef real elements[ELEMENTS];

/* The group of an element: the row, half a row, the column, or one of all. */
typedef enum group { ROW, HALF_ROW, COLUMN, ALL, GROUP_KINDS } group;
static int32_t group_of(group kind, int32_t i) {
    const int32_t r = i / COLUMNS, c = i % COLUMNS;
    return kind == ROW ? r : kind == HALF_ROW ? 2 * r + c / (COLUMNS / 2) : kind == COLUMN ? c : 0;
}

static real sum_of(group kind, int32_t g, const real *x, int32_t *count) {
    real sum = 0;
    *count = 0;
    for (int32_t i = 0; i < ELEMENTS; i++)
        if (group_of(kind, i) == g) sum += x[i], ++*count;
    return sum;
}

/* The mean and the mean of the squares of the distances from it, or from 0. */
static void statistics_of(group kind, int32_t g, const real *x, bool centred, real *mean, real *squares) {
    int32_t count;
    elements distances;
    *mean = centred ? sum_of(kind, g, x, &count) / (real)count : 0;
    for (int32_t i = 0; i < ELEMENTS; i++) distances[i] = (x[i] - *mean) * (x[i] - *mean);
    *squares = sum_of(kind, g, distances, &count) / (real)count;
}

typedef void definition(group kind, real epsilon, const real *x, const real *w, real *y);

static void normalised(group kind, real epsilon, const real *x, bool centred, real *y) {
    for (int32_t i = 0; i < ELEMENTS; i++) {
        real mean, squares;
        statistics_of(kind, group_of(kind, i), x, centred, &mean, &squares);
        y[i] = (x[i] - mean) / sqrtl(squares + epsilon);
    }
}
static void define_normal(group kind, real epsilon, const real *x, const real *w, real *y) {
    (void)w;
    normalised(kind, epsilon, x, true, y);
}
static void define_rms(group kind, real epsilon, const real *x, const real *w, real *y) {
    (void)w;
    normalised(kind, epsilon, x, false, y);
}

#define REDUCTION(name, centred, result)                                                         \
    static void define_##name(group kind, real epsilon, const real *x, const real *w, real *y) { \
        (void)epsilon, (void)w;                                                                  \
        for (int32_t i = 0; i < ELEMENTS; i++) {                                                 \
            real mean, squares;                                                                  \
            statistics_of(kind, group_of(kind, i), x, centred, &mean, &squares);                 \
            y[group_of(kind, i)] = (result);                                                     \
        }                                                                                        \
    }
REDUCTION(mean, true, mean)
REDUCTION(var, true, squares)
REDUCTION(std, true, sqrtl(squares))
REDUCTION(norm, false, sqrtl(squares *(kind == ROW ? COLUMNS : kind == COLUMN ? ROWS_OF_CALL : ELEMENTS)))

static void define_error(group kind, real epsilon, const real *x, const real *w, real *y) {
    elements distances;
    real mean;
    (void)epsilon, (void)w;
    for (int32_t i = 0; i < ELEMENTS; i++) distances[i] = x[i] / 2;
    for (int32_t i = 0; i < ELEMENTS; i++) statistics_of(kind, group_of(kind, i), distances, false, &mean, &y[group_of(kind, i)]);
}

/* ---- the cases ---- */

static const struct row {
    const char *text; /* %s: the dtype; of x and w, (rows, 8) */
    definition *define;
    group kind;
    int32_t results; /* 0: one for each element of x */
} cases[] = {
    {"layer_norm(x, epsilon=1e-70)", define_normal, ROW, 0},
    {"layer_norm(x, full([8], 1, %s), full([8], 0, %s), epsilon=1e-70)", define_normal, ROW, 0},
    {"rms_norm(x, epsilon=1e-70)", define_rms, ROW, 0},
    {"reshape(group_norm(reshape(x, [rows, 8, 1]), groups=2, epsilon=1e-70), [rows, 8])", define_normal, HALF_ROW, 0},
    {"reshape(instance_norm(reshape(x, [rows, 2, 4]), epsilon=1e-70), [rows, 8])", define_normal, HALF_ROW, 0},
    {"batch_norm(x, full([8], 0, %s), full([8], 1, %s), training=1, epsilon=1e-70)", define_normal, COLUMN, 0},
    {"batch_norm(x, full([8], 0, %s), full([8], 1, %s), full([8], 1, %s), full([8], 0, %s), training=1, epsilon=1e-70)", define_normal,
     COLUMN, 0},
    {"x * 0.25 / norm(x * 0.25, axis=1, keepdims=1) * 2.8284271247461903", define_rms, ROW, 0},
    {"norm(x, axis=1)", define_norm, ROW, ROWS_OF_CALL},
    {"norm(x, axis=0)", define_norm, COLUMN, COLUMNS},
    {"norm(x)", define_norm, ALL, 1},
    {"mean(x, axis=0)", define_mean, COLUMN, COLUMNS},
    {"mean(x)", define_mean, ALL, 1},
    {"var(x, axis=1)", define_var, ROW, ROWS_OF_CALL},
    {"var(x, axis=0)", define_var, COLUMN, COLUMNS},
    {"std(x, axis=1)", define_std, ROW, ROWS_OF_CALL},
    {"std(x, axis=0)", define_std, COLUMN, COLUMNS},
    {"std(x)", define_std, ALL, 1},
    {"mean_squared_error(x, x * 0.5)", define_error, ALL, 1},
    {"mean_squared_error(x, x * 0.5, axis=0)", define_error, COLUMN, COLUMNS},
};
enum { CASES = sizeof cases / sizeof *cases };

static const struct data {
    muster_dtype dtype;
    real scale;   /* of the largest element */
    real weights; /* of the gradients that come in, so that those that go out are in the range */
    bool lone;    /* one of four elements has the other sign: its distance from the mean is no f32 */
} sets[] = {
    {MUSTER_F32, 1, 1, false},          {MUSTER_F32, 1e20L, 1e8L, false},   {MUSTER_F32, 3e38L, 1e12L, false},
    {MUSTER_F32, 3.4e38L, 1e12L, true}, {MUSTER_F32, 1e-30L, 1e-8L, false}, {MUSTER_BF16, 1, 1, false},
    {MUSTER_BF16, 1e20L, 1e8L, false},  {MUSTER_BF16, 3e38L, 1e12L, true},  {MUSTER_BF16, 1e-30L, 1e-8L, false},
    {MUSTER_F16, 1, 1, false},          {MUSTER_F16, 6e4L, 100, true},
};
enum { SETS = sizeof sets / sizeof *sets };

static real stored(muster_dtype dtype, real value, void *to) {
    uint16_t half = 0;
    if (dtype == MUSTER_F32) {
        *(float *)to = (float)value;
        return (real) * (float *)to;
    }
    half = dtype == MUSTER_F16 ? muster_f32_to_f16((float)value) : muster_f32_to_bf16((float)value);
    *(uint16_t *)to = half;
    return (real)(dtype == MUSTER_F16 ? muster_f16_to_f32(half) : muster_bf16_to_f32(half));
}

static real loaded(muster_dtype dtype, const void *from) {
    if (dtype == MUSTER_F32) return (real) * (const float *)from;
    return (real)(dtype == MUSTER_F16 ? muster_f16_to_f32(*(const uint16_t *)from) : muster_bf16_to_f32(*(const uint16_t *)from));
}

/* Sines, of mixed signs and of sizes that are not alike. */
static void data_make(const struct data *set, real *x, real *w, void *stored_x, void *stored_w) {
    const int64_t size = muster_dtype_size(set->dtype);
    for (int32_t i = 0; i < ELEMENTS; i++) {
        const real lone = i % 4 == i / COLUMNS % 4 ? set->scale : -set->scale;
        x[i] = stored(set->dtype, set->lone ? lone : set->scale * sinl((real)(i + 1) * 1.7L), (char *)stored_x + i * size);
        w[i] = stored(set->dtype, set->weights * cosl((real)i * 0.9L), (char *)stored_w + i * size);
    }
}

/* The sum of the results, times w where there is one for each element of x. */
static real loss_of(const struct row *c, real epsilon, const real *x, const real *w) {
    elements y;
    real loss = 0;
    c->define(c->kind, epsilon, x, w, y);
    for (int32_t i = 0; i < (c->results ? c->results : ELEMENTS); i++) loss += c->results ? y[i] : y[i] * w[i];
    return loss;
}

static void differences_take(const struct row *c, real epsilon, real scale, const real *x, const real *w, real *dx) {
    elements moved;
    const real h = 1e-6L * scale;
    memcpy(moved, x, sizeof moved);
    for (int32_t i = 0; i < ELEMENTS; i++) {
        moved[i] = x[i] + h;
        const real above = loss_of(c, epsilon, moved, w);
        moved[i] = x[i] - h;
        dx[i] = (above - loss_of(c, epsilon, moved, w)) / (2 * h);
        moved[i] = x[i];
    }
}

/* ---- the comparison ---- */

/* What is added up may be as large as the largest element of all, and what is stored may be
 * subnormal. What the dtype does not hold is infinite. */
static void compare(const char *text, const char *what, const struct data *set, int32_t m, const void *received, const real *expected,
                    int32_t count) {
    const bool f32 = set->dtype == MUSTER_F32;
    const real most = f32 ? (real)FLT_MAX : set->dtype == MUSTER_F16 ? 65504 : 3.3895313892515355e38L;
    const real unit = f32 ? 0x1p-149L : set->dtype == MUSTER_F16 ? 0x1p-24L : 0x1p-133L;
    const real part = f32 ? 4e-6L : set->dtype == MUSTER_F16 ? 0x1p-9L : 0x1p-6L;
    real largest = 0;
    for (int32_t i = 0; i < count; i++)
        if (fabsl(expected[i]) <= most) largest = fmaxl(largest, fabsl(expected[i]));
    for (int32_t i = 0; i < count; i++) {
        const real r = loaded(set->dtype, (const char *)received + i * muster_dtype_size(set->dtype));
        const real slack = part * largest + 2 * unit;
        const bool infinite = isinf((double)r) && fabsl(expected[i]) >= most * (1 - part) && (r > 0) == (expected[i] > 0);
        if (!infinite && !(fabsl(r - expected[i]) <= slack))
            fail_msg("%s of %s by %Lg, %s on %s, %d micro-batches, %d shards: element %d: expected %Lg, received %Lg", text,
                     muster_dtype_name(set->dtype), set->scale, what, machines[m].devices, (int)machines[m].micro_batches,
                     (int)machines[m].shards, (int)i, expected[i], r);
    }
}

static muster_tensor tensor_for(muster_graph *graph, const muster_expr *node, void *memory) {
    int64_t shape[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < node->type.ndim; d++) {
        shape[d] = mst_dim_constant(graph->graph, node->type.dims[d]);
        if (shape[d] < 0) shape[d] = ROWS_OF_CALL;
    }
    return muster_tensor_make(node->type.dtype, memory, node->type.ndim, shape);
}

/* What a case is compared with: the elements of x and w, and the value and the gradient. */
typedef struct expectation {
    float x[ELEMENTS], w[ELEMENTS];
    elements y, dx;
} expectation;

static void expectation_find(const struct row *c, const struct data *set, expectation *e) {
    const real epsilon = 1e-70L;
    elements x, w;
    data_make(set, x, w, e->x, e->w);
    c->define(c->kind, epsilon, x, w, e->y);
    differences_take(c, epsilon, set->scale, x, w, e->dx);
}

static void case_compare(const struct row *c, const struct data *set, expectation *e, int32_t m) {
    static float memory[2][ELEMENTS];
    char text[256];
    const char *dtype = muster_dtype_name(set->dtype);
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    snprintf(text, sizeof text, c->text, dtype, dtype, dtype, dtype);
    assert_ok(muster_graph_create(devices_open_shards(machines[m].devices, machines[m].shards), "extremes", &graph));
    muster_expr *a = muster_graph_input(graph, "x", set->dtype, 2, (const int64_t[]){MUSTER_ROWS, COLUMNS}, MUSTER_SCATTER), *by;
    muster_expr *b = muster_graph_input(graph, "w", set->dtype, 2, (const int64_t[]){MUSTER_ROWS, COLUMNS}, MUSTER_SCATTER);
    muster_expr *value = muster_expr_parse(graph, text);
    if (muster_graph_status(graph) != MUSTER_OK) fail_msg("%s: %s", text, muster_last_error());
    assert_ok(muster_gradient(APPLY(graph, "sum", c->results ? value : APPLY(graph, "multiply", value, b)), &a, 1, &by));
    assert_ok(muster_graph_output(graph, "y", value, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "dx", by, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.micro_batches = machines[m].micro_batches;
    if (muster_graph_compile(graph, &options, &function) != MUSTER_OK) fail_msg("%s: %s", text, muster_last_error());
    const muster_tensor in[] = {tensor_for(graph, a, e->x), tensor_for(graph, b, e->w)};
    muster_tensor out[] = {tensor_for(graph, value, memory[0]), tensor_for(graph, by, memory[1])};
    if (muster_function_call(function, in, 2, out, 2, NULL) != MUSTER_OK) fail_msg("%s: %s", text, muster_last_error());
    compare(text, "the value", set, m, memory[0], e->y, c->results ? c->results : ELEMENTS);
    compare(text, "the gradient", set, m, memory[1], e->dx, ELEMENTS);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

static void squares_that_no_f32_holds_are_summed(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t c = 0; c < CASES; c++)
        for (int32_t s = 0; s < SETS; s++) {
            expectation expected;
            expectation_find(&cases[c], &sets[s], &expected);
            for (int32_t m = 0; m < MACHINES; m++) {
                if (!is_tried(c + s, m)) continue;
                case_compare(&cases[c], &sets[s], &expected, m);
                compared++;
            }
        }
    assert_int_equal(compared, 20 * 11 * (on_gpus() ? 1 : MACHINES));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares_that_no_f32_holds_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
