/* Gradients whose operands and results fit their dtype, though values between them do not: each is
 * compared with a formula in f64, for one element and a gradient of 1024, as scaled losses have. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "muster/expr.h"

#include <math.h>
#include <string.h>

enum { UPSTREAM = 1024 };

typedef struct row {
    const char *dtype, *text;
    double x, gradient; /* of the text by x, times UPSTREAM */
} row;

static muster_function *compile(muster_runtime *runtime, const row *r) {
    char narrow[64];
    muster_graph *graph;
    muster_expr *dx;
    muster_function *function;
    muster_graph_options options;
    assert_ok(muster_graph_create(runtime, "wide", &graph));
    muster_expr *in = muster_graph_input(graph, "x64", MUSTER_F64, MUSTER_SHAPE(1), MUSTER_BROADCAST);
    snprintf(narrow, sizeof narrow, "cast(x64, %s)", r->dtype);
    muster_expr *y = muster_expr_parse(graph, r->text, "x", muster_expr_parse(graph, narrow));
    muster_expr *loss = muster_expr_parse(graph, "sum(cast(y, f64)) * 1024", "y", y);
    if (muster_expr_ndim(loss) < 0) fail_msg("%s: %s", r->text, muster_last_error());
    assert_ok(muster_gradient(loss, &in, 1, &dx));
    assert_ok(muster_graph_output(graph, "dx", dx, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.unfused = on_gpus(); /* the simulated machine would compile a program for each group */
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

/* The gradient may have an error of so many units in the last place of the dtype. */
static void compare(muster_runtime *runtime, const row *r, double units) {
    static const struct {
        const char *dtype;
        int32_t digits, least; /* the exponents of the unit of numbers from 1 on, and of the smallest number */
    } dtypes[] = {{"f16", -10, -24}, {"bf16", -7, -133}, {"f32", -23, -149}, {"f64", -52, -1074}};
    double x = r->x, dx = NAN, unit = 0;
    for (int32_t i = 0; i < 4; i++)
        if (strcmp(dtypes[i].dtype, r->dtype) == 0) unit = fmax(ldexp(fabs(r->gradient), dtypes[i].digits), ldexp(1, dtypes[i].least));
    assert_true(unit > 0);
    muster_function *function = compile(runtime, r);
    const muster_tensor in = muster_f64(&x, 1), out = muster_f64(&dx, 1);
    assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    assert_ok(muster_function_destroy(function));
    if (!(fabs(dx - r->gradient) <= units * unit))
        fail_msg("%s of %s at %g: expected %.9g, received %.9g", r->text, r->dtype, r->x, r->gradient, dx);
}

static void gradients_that_fit_the_dtype_are_right(void **state) {
    const row rows[] = {
        {"f16", "10000 / x", 100, -UPSTREAM * 1.0},
        {"bf16", "1e30 / x", 1e20, -UPSTREAM * 1e-10},
        {"f16", "reciprocal(x)", 5000, -UPSTREAM / 25e6},
        {"f16", "reciprocal(x)", 6400, -UPSTREAM / 6400. / 6400},
        {"f16", "atan(x)", 300, UPSTREAM / 90001.},
        {"f16", "atan(x)", -60000, UPSTREAM / 36e8},
        {"f16", "log2(x)", 60000, UPSTREAM / (60000 * log(2))},
        {"f16", "log10(x)", 30000, UPSTREAM / (30000 * log(10))},
        {"f16", "rsqrt(x)", 10000, -UPSTREAM * 0.5e-6},
        {"f16", "rsqrt(x)", 60000, -UPSTREAM * 0.5 / (60000 * sqrt(60000))},
        {"f16", "atan2(x, 60000)", 60000, UPSTREAM / 120000.},
        {"f16", "atan2(60000, x)", 60000, -UPSTREAM / 120000.},
        {"f16", "softsign(x)", 1000, UPSTREAM / (1001. * 1001)},
        {"bf16", "softsign(x)", -1000, UPSTREAM / (1001. * 1001)},
    };
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, compared++) compare(*state, &rows[i], 2);
    assert_int_equal(compared, 14);
}

/* The gradient of a norm, x[0] / norm, is at most 1. */
static void norms_of_small_and_of_large_numbers_have_gradients(void **state) {
    const row rows[] = {
        {"f32", "norm(x)", 1e-39, UPSTREAM},
        {"bf16", "norm(x)", -0x1p-130, -UPSTREAM * 1.0},
        {"f32", "norm(x, 3)", 1e15, UPSTREAM},
        {"f32", "norm(x, 3)", -1e-16, -UPSTREAM * 1.0},
        {"f32", "norm(x, 1.5, axis=0)", 2e30, UPSTREAM},
        {"f16", "norm(x, 7)", 60000, UPSTREAM},
        {"bf16", "norm(x, 5)", 0x1p100, UPSTREAM},
    };
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, compared++) compare(*state, &rows[i], 2);
    assert_int_equal(compared, 7);
}

/* d of gelu_derivative at x is p(x) (2 - x^2), with p the density of the normal distribution. */
static void the_second_derivative_of_gelu_is_a_number_everywhere(void **state) {
    const double inside = 0.3989422804014327 * exp(-0.5 * 1.5 * 1.5) * (2 - 1.5 * 1.5) * UPSTREAM;
    const row rows[] = {
        {"f16", "gelu_derivative(x)", 257, 0},      {"f16", "gelu_derivative(x)", -65504, 0}, {"bf16", "gelu_derivative(x)", 0x1p100, 0},
        {"f32", "gelu_derivative(x)", 2e19, 0},     {"f64", "gelu_derivative(x)", -1e200, 0}, {"f32", "gelu_derivative(x)", 1.5, inside},
        {"f64", "gelu_derivative(x)", 1.5, inside}, {"f32", "gelu_derivative(x)", 99, 0},
    };
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, compared++) compare(*state, &rows[i], 8);
    assert_int_equal(compared, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_that_fit_the_dtype_are_right),
        cmocka_unit_test(norms_of_small_and_of_large_numbers_have_gradients),
        cmocka_unit_test(the_second_derivative_of_gelu_is_a_number_everywhere),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
