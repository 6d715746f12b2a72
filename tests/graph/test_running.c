/* Products and running products, with their gradients, where elements are 0, infinite or NaN: what
 * plain loops over closed formulas give. On one device and on several, whose rows are cut, in
 * micro-batches too. And the logarithm of a sum where both operands are equal. */
#include "graph_fixture.h"

#include <math.h>
#include <string.h>

static const char *const machines[] = {"host:1", "host:2", "host:3"};
enum { MACHINES = 3, ROWS = 7, MOST = 130 };
static int64_t compared;

typedef struct call {
    const char *text; /* of the loss, of x and w */
    bool second;      /* d is the gradient of the sum of u times the gradient, with u = w */
    int64_t k, micro_batches;
    int32_t w_ndim;
    int64_t w_shape[2];
} call;

/* ---- operands ---- */

/* x (ROWS, k): row 0 has no 0, row 1 one, row 2 two, row 3 one at the end. Row 5 has a NaN unless c
 * asks for a second derivative, whose recurrences multiply zeros that the loops leave out by it.
 * And only where nothing is added, row 4 has an infinity and row 6 a 0 and an infinity: the loops
 * add such products, and the recurrence adds before it multiplies. */
static void fill(const call *c, double *x) {
    const int64_t k = c->k;
    for (int64_t i = 0; i < ROWS * k; i++) x[i] = ((double)(i * 7 % 5) - 2.25) * (i % 3 ? 0.25 : 0.5);
    if (k < 2) return;
    x[k + k / 2] = 0;
    x[2 * k] = x[2 * k + k - 1] = 0;
    x[3 * k + k - 1] = -0.0;
    if (!c->second) x[5 * k] = NAN;
    if (!c->second && !strstr(c->text, "cumprod")) x[4 * k + 1] = INFINITY, x[6 * k] = 0, x[6 * k + 1] = -INFINITY;
}

static double weight(int64_t i) { return 1 + (double)(i % 4) / 4; }

/* The product of x[from] to x[to - 1] but for the places p and q. */
static double product(const double *x, int64_t stride, int64_t from, int64_t to, int64_t p, int64_t q) {
    double made = 1;
    for (int64_t j = from; j < to; j++)
        if (j != p && j != q) made *= x[j * stride];
    return made;
}

/* ---- one function ---- */

static void gradient_of(muster_runtime *runtime, const call *c, muster_dtype dtype, const void *x, const void *w, void *d) {
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    muster_expr *dx;
    const int64_t shape[] = {ROWS, c->k};
    const bool by_row = c->w_ndim && c->w_shape[0] == ROWS;
    const int64_t declared[] = {by_row ? MUSTER_ROWS : c->w_shape[0], c->w_shape[1]};
    assert_ok(muster_graph_create(runtime, "products", &graph));
    muster_expr *in = muster_graph_input(graph, "x", dtype, MUSTER_SHAPE(MUSTER_ROWS, c->k), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "w", dtype, c->w_ndim, declared, by_row ? MUSTER_SCATTER : MUSTER_BROADCAST);
    muster_expr *loss = muster_expr_parse(graph, c->text);
    if (muster_expr_ndim(loss) < 0) fail_msg("%s: %s", c->text, muster_last_error());
    assert_ok(muster_gradient(loss, &in, 1, &dx));
    if (c->second) assert_ok(muster_gradient(muster_expr_parse(graph, "sum(d * w)", "d", dx), &in, 1, &dx));
    assert_ok(muster_graph_output(graph, "d", dx, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.micro_batches = c->micro_batches;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor given[] = {muster_tensor_make(dtype, (void *)(uintptr_t)x, 2, shape),
                                   muster_tensor_make(dtype, (void *)(uintptr_t)w, c->w_ndim, c->w_shape)};
    const muster_tensor out = muster_tensor_make(dtype, d, 2, shape);
    assert_ok(muster_function_call(function, given, 2, &out, 1, NULL));
    assert_ok(muster_function_destroy(function));
}

static void check(const call *c, muster_dtype dtype, int64_t i, double expected, double received) {
    const double error = dtype == MUSTER_F64 ? 1e-12 : 1e-6;
    if (dtype == MUSTER_F32) expected = (double)(float)expected;
    const bool equal =
        isnan(expected) ? isnan(received) : received == expected || fabs(received - expected) <= error * (1 + fabs(expected));
    if (!equal)
        fail_msg("%s, k = %lld, %s, %lld micro-batches, element %lld: expected %.17g, received %.17g", c->text, (long long)c->k,
                 muster_dtype_name(dtype), (long long)c->micro_batches, (long long)i, expected, received);
    compared++;
}

/* The gradients by closed formulas: expected[row][j]. */
typedef void (*formula)(const call *c, const double *x, const double *w, double *expected);

static void run(muster_runtime *runtime, call c, formula expect) {
    static double x[ROWS * MOST], w[ROWS * MOST], d[ROWS * MOST], expected[ROWS * MOST];
    static float x_f32[ROWS * MOST], w_f32[ROWS * MOST], d_f32[ROWS * MOST];
    fill(&c, x);
    for (int64_t i = 0; i < ROWS * MOST; i++) w[i] = weight(i), w_f32[i] = (float)w[i];
    for (int64_t i = 0; i < ROWS * c.k; i++) x_f32[i] = (float)x[i];
    memset(expected, 0, sizeof expected);
    expect(&c, x, w, expected);
    for (c.micro_batches = 0; c.micro_batches < 3; c.micro_batches += 2) {
        gradient_of(runtime, &c, MUSTER_F64, x, w, d);
        for (int64_t i = 0; i < ROWS * c.k; i++) check(&c, MUSTER_F64, i, expected[i], d[i]);
        gradient_of(runtime, &c, MUSTER_F32, x_f32, w_f32, d_f32);
        for (int64_t i = 0; i < ROWS * c.k; i++) check(&c, MUSTER_F32, i, expected[i], (double)d_f32[i]);
    }
}

/* ---- formulas ---- */

static void of_rows(const call *c, const double *x, const double *w, double *expected) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t j = 0; j < c->k; j++) expected[r * c->k + j] = w[r] * product(x + r * c->k, 1, 0, c->k, j, j);
}

static void of_columns(const call *c, const double *x, const double *w, double *expected) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t j = 0; j < c->k; j++) expected[r * c->k + j] = w[j] * product(x + j, c->k, 0, ROWS, r, r);
}

static void of_all(const call *c, const double *x, const double *w, double *expected) {
    for (int64_t i = 0; i < ROWS * c->k; i++) expected[i] = w[0] * product(x, 1, 0, ROWS * c->k, i, i);
}

/* The derivative by x[m] of the sum over i of w[r][i] times the product of all but x[i]. */
static void second_of_rows(const call *c, const double *x, const double *w, double *expected) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t m = 0; m < c->k; m++)
            for (int64_t i = 0; i < c->k; i++)
                if (i != m) expected[r * c->k + m] += w[r * c->k + i] * product(x + r * c->k, 1, 0, c->k, i, m);
}

static void running_rows(const call *c, const double *x, const double *w, double *expected) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t m = 0; m < c->k; m++)
            for (int64_t j = m; j < c->k; j++) expected[r * c->k + m] += w[r * c->k + j] * product(x + r * c->k, 1, 0, j + 1, m, m);
}

static void running_columns(const call *c, const double *x, const double *w, double *expected) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t m = 0; m < c->k; m++)
            for (int64_t j = r; j < ROWS; j++) expected[r * c->k + m] += w[j * c->k + m] * product(x + m, c->k, 0, j + 1, r, r);
}

/* Of the gradient g[i] of running_rows, the derivative by x[m] of the sum of w[i] g[i]. */
static void second_of_running(const call *c, const double *x, const double *w, double *expected) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t m = 0; m < c->k; m++)
            for (int64_t i = 0; i < c->k; i++)
                for (int64_t j = i > m ? i : m; i != m && j < c->k; j++)
                    expected[r * c->k + m] += w[r * c->k + i] * w[r * c->k + j] * product(x + r * c->k, 1, 0, j + 1, i, m);
}

static void gradients_are_those_of_closed_formulas(void **state) {
    static const int64_t lengths[] = {0, 1, 2, 5, 70, MOST};
    (void)state;
    compared = 0;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        for (int l = 0; l < 6; l++) {
            const int64_t k = lengths[l];
            run(runtime, (call){"sum(w * prod(x, axis=1))", .k = k, .w_ndim = 1, .w_shape = {ROWS}}, of_rows);
            run(runtime, (call){"sum(w * prod(x, axis=0))", .k = k, .w_ndim = 1, .w_shape = {k}}, of_columns);
            run(runtime, (call){"w[0] * prod(x)", .k = k, .w_ndim = 1, .w_shape = {1}}, of_all);
            run(runtime, (call){"sum(w * cumprod(x, axis=1))", .k = k, .w_ndim = 2, .w_shape = {ROWS, k}}, running_rows);
            run(runtime, (call){"sum(w * cumprod(x, axis=0))", .k = k, .w_ndim = 2, .w_shape = {ROWS, k}}, running_columns);
            if (k > 5) continue;
            run(runtime, (call){"sum(prod(x, axis=1) + 0 * sum(w))", .second = true, .k = k, .w_ndim = 2, .w_shape = {ROWS, k}},
                second_of_rows);
            run(runtime, (call){"sum(w * cumprod(x, axis=1))", .second = true, .k = k, .w_ndim = 2, .w_shape = {ROWS, k}},
                second_of_running);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(compared, MACHINES * ROWS * 4 * (5 * (0 + 1 + 2 + 5 + 70 + MOST) + 2 * (0 + 1 + 2 + 5)));
}

/* ---- logaddexp ---- */

/* Both derivatives of two equal numbers are 1/2, and the second ones 1/4; of two equal infinities a
 * has the gradient. */
static void equal_operands_share_the_gradient(void **state) {
    static const struct {
        double a, b, da, second; /* the derivative by a, and by a again */
    } rows[] = {
        {0, 0, 0.5, 0.25},   {-700, -700, 0.5, 0.25},    {1e300, 1e300, 0.5, 0.25},    {1, 0, 0.7310585786300049, 0.19661193324148185},
        {0, 800, 0, 0},      {INFINITY, INFINITY, 1, 0}, {-INFINITY, -INFINITY, 1, 0}, {INFINITY, 3, 1, 0},
        {3, INFINITY, 0, 0}, {-INFINITY, 3, 0, 0}};
    enum { COUNT = sizeof rows / sizeof *rows };
    double a[COUNT], b[COUNT], da[COUNT], db[COUNT], second[COUNT];
    muster_graph *graph;
    muster_function *function;
    muster_expr *x[2], *d[2], *dd;
    assert_ok(muster_graph_create(*state, "logaddexp", &graph));
    x[0] = muster_graph_input(graph, "a", MUSTER_F64, MUSTER_SHAPE(COUNT), MUSTER_BROADCAST);
    x[1] = muster_graph_input(graph, "b", MUSTER_F64, MUSTER_SHAPE(COUNT), MUSTER_BROADCAST);
    assert_ok(muster_gradient(muster_expr_parse(graph, "sum(logaddexp(a, b))"), x, 2, d));
    assert_ok(muster_gradient(APPLY(graph, "sum", d[0]), x, 1, &dd));
    assert_ok(muster_graph_output(graph, "da", d[0], MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "db", d[1], MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "second", dd, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    for (int i = 0; i < COUNT; i++) a[i] = rows[i].a, b[i] = rows[i].b;
    assert_ok(muster_function_call(function, (const muster_tensor[]){muster_f64(a, COUNT), muster_f64(b, COUNT)}, 2,
                                   (const muster_tensor[]){muster_f64(da, COUNT), muster_f64(db, COUNT), muster_f64(second, COUNT)}, 3,
                                   NULL));
    assert_ok(muster_function_destroy(function));
    for (int i = 0; i < COUNT; i++)
        if (fabs(da[i] - rows[i].da) > 1e-14 || fabs(da[i] + db[i] - 1) > 1e-14 || fabs(second[i] - rows[i].second) > 1e-14)
            fail_msg("logaddexp(%g, %g): received the derivatives %.17g, %.17g and %.17g", a[i], b[i], da[i], db[i], second[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_those_of_closed_formulas),
                                       cmocka_unit_test(equal_operands_share_the_gradient)};
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
