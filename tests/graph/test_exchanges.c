/* Which exchanges a graph needs on several devices: read from the dump of its function. Training
 * with rows on all devices exchanges the gradients of the parameters, and nothing else, whatever
 * the loss; and it computes what one device does. */
#include "base_machine.h"
#include "base_seed.h"
#include "base_skip.h"
#include "graph_fixture.h"
#include "muster/operator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 6, HIDDEN = 5, CLASSES = 4, PARAMETERS = 4, MOST_ROWS = 64 };
static const int64_t parameter_shapes[PARAMETERS][2] = {{INPUTS, HIDDEN}, {1, HIDDEN}, {HIDDEN, CLASSES}, {1, CLASSES}};
enum { PARAMETER_ELEMENTS = INPUTS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES };

/* The losses, as texts: z is the result of the two layers, t are the labels, y are the targets. */
static const char *const losses[] = {
    "mean(cross_entropy(z, t))",
    "mean(cross_entropy(z, t, ignore=1))",
    "sum(negative_log_likelihood(log_softmax(z, axis=-1), t))",
    "softmax_cross_entropy(z, t)",
    "mean(sigmoid_cross_entropy(z, y))",
    "mean_squared_error(z, y)",
    "mean(huber(z, y, delta=0.5))",
    "mean(hinge(z, y))",
    "mean(logsumexp(z, axis=1))",
    "mean(max(z, axis=1) - min(z, axis=1))",
    "mean(norm(z, axis=1))",
    "mean(var(z, axis=1))",
    "mean(std(z, axis=1))",
    "-mean(sum(y * log_softmax(z, axis=1), axis=1))",
    "mean(square(softmax(z, axis=1) - y))",
    "mean(cross_entropy(dropout(z, 3, p=0.5, seed=1), t))",
    "mean(top_k(z, 2))",
    "mean(square(cumsum(sort(z), axis=1) - y))",
    "mean(cross_entropy(concatenate(z, y, axis=1)[:, 1:6], t))",
    "mean(einsum(z, y, subscripts=\"rc,rc->r\"))",
    "mean(matmul(reshape(z, [rows, 1, 4]), reshape(y, [rows, 4, 1])))",
    "mean(tril(reshape(z, [rows, 2, 2])) * reshape(y, [rows, 2, 2]))",
};
enum { LOSSES = sizeof losses / sizeof *losses };

/* On GPUs every seventh loss, unless all are asked for. */
static int32_t loss_step(void) { return on_gpus() && !test_is_full() ? 7 : 1; }

typedef struct trained {
    muster_runtime *runtime;
    muster_variable *variables[PARAMETERS];
    muster_function *function;
} trained;

static double number_at(int64_t i) { return sin(0.7 + 1.3 * (double)i + 0.1 * (double)(i % 7)); }

static void variables_make(trained *t) {
    static const char *const names[PARAMETERS] = {"w1", "b1", "w2", "b2"};
    double values[INPUTS * HIDDEN];
    for (int32_t p = 0; p < PARAMETERS; p++) {
        const int64_t *shape = parameter_shapes[p];
        for (int64_t i = 0; i < shape[0] * shape[1]; i++) values[i] = number_at(i + 100 * p);
        assert_ok(muster_variable_create(t->runtime, names[p], muster_f64(values, shape[0], shape[1]), &t->variables[p]));
    }
}

/* Two layers, the loss, and one step of gradient descent. */
static void train_make(trained *t, const char *devices, const char *loss_text) {
    muster_graph_options options;
    muster_graph *graph;
    muster_expr *p[PARAMETERS], *d[PARAMETERS];
    t->runtime = graph_runtime(devices);
    variables_make(t);
    assert_ok(muster_graph_create(t->runtime, "training", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "t", MUSTER_I64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "y", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, CLASSES), MUSTER_SCATTER);
    for (int32_t i = 0; i < PARAMETERS; i++) p[i] = muster_graph_parameter(graph, t->variables[i]);
    muster_expr *h = muster_expr_parse(graph, "relu(x @ w1 + b1)");
    muster_expr *z = muster_expr_parse(graph, "h @ w2 + b2", "h", h);
    muster_expr *loss = muster_expr_parse(graph, loss_text, "z", z);
    assert_ok(muster_gradient(loss, p, PARAMETERS, d));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    for (int32_t i = 0; i < PARAMETERS; i++)
        assert_ok(muster_graph_update(graph, t->variables[i], muster_expr_parse(graph, "p - 0.5 * d", "p", p[i], "d", d[i]), MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.unfused = on_gpus() && !test_is_full(); /* hundreds of groups would be compiled */
    assert_ok(muster_graph_compile(graph, &options, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

static void train_call(const trained *t, int64_t rows, double *loss) {
    double x[MOST_ROWS * INPUTS], y[MOST_ROWS * CLASSES];
    int64_t labels[MOST_ROWS];
    for (int64_t i = 0; i < rows * INPUTS; i++) x[i] = number_at(3 * i);
    for (int64_t i = 0; i < rows * CLASSES; i++) y[i] = 0.5 + 0.4 * number_at(5 * i);
    for (int64_t i = 0; i < rows; i++) labels[i] = (i * i + 1) % CLASSES;
    const muster_tensor in[] = {muster_f64(x, rows, INPUTS), muster_i64(labels, rows), muster_f64(y, rows, CLASSES)};
    const muster_tensor out = muster_f64(loss);
    assert_ok(muster_function_call(t->function, in, 3, &out, 1, NULL));
}

static void train_end(trained *t) {
    assert_ok(muster_function_destroy(t->function));
    for (int32_t p = 0; p < PARAMETERS; p++) assert_ok(muster_variable_destroy(t->variables[p]));
    assert_ok(muster_runtime_close(t->runtime));
}

static int32_t count_of(const char *text, const char *operation) {
    char beginning[64];
    int32_t count = 0;
    snprintf(beginning, sizeof beginning, "= %s(", operation);
    for (const char *at = text; (at = strstr(at, beginning)); at++) count++;
    return count;
}

/* Each gradient is summed once: whole, or in parts, of which the new parameters are gathered. */
static void expect_gradients_only(const char *loss, const char *text) {
    const int32_t whole = count_of(text, "all_reduce"), parts = count_of(text, "reduce_scatter"), gathered = count_of(text, "all_gather");
    char bytes[96];
    if (whole + parts != PARAMETERS || gathered != parts || count_of(text, "all_to_all"))
        fail_msg("%s: expected %d sums, received %d whole, %d in parts, %d gathered in\n%s", loss, PARAMETERS, whole, parts, gathered,
                 text);
    snprintf(bytes, sizeof bytes, "each receives %d bytes in %d exchanges", PARAMETER_ELEMENTS * 8, whole + 2 * parts);
    if (!strstr(text, bytes)) fail_msg("%s: expected \"%s\" in\n%s", loss, bytes, text);
}

static void training_exchanges_gradients_only(void **state) {
    double loss;
    (void)state;
    for (int32_t l = 0; l < LOSSES; l += loss_step()) {
        trained t;
        train_make(&t, "host:2", losses[l]);
        train_call(&t, 12, &loss);
        char *text = graph_dump_text(t.function);
        expect_gradients_only(losses[l], text);
        free(text);
        train_end(&t);
    }
}

static int32_t same_numbers(const trained *one, const trained *many, int64_t rows, const char *what) {
    double losses_of[2], a[INPUTS * HIDDEN], b[INPUTS * HIDDEN];
    int32_t compared = 1;
    train_call(one, rows, &losses_of[0]);
    train_call(many, rows, &losses_of[1]);
    if (!(fabs(losses_of[0] - losses_of[1]) <= 1e-11 * (1 + fabs(losses_of[0]))))
        fail_msg("%s, %lld rows: loss %.17g, on one device %.17g", what, (long long)rows, losses_of[1], losses_of[0]);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        const int64_t *shape = parameter_shapes[p];
        assert_ok(muster_variable_get(one->variables[p], 0, muster_f64(a, shape[0], shape[1])));
        for (int32_t r = 0; r < 2; r++) { /* the first and the second replica */
            assert_ok(muster_variable_get(many->variables[p], r, muster_f64(b, shape[0], shape[1])));
            for (int64_t i = 0; i < shape[0] * shape[1]; i++, compared++)
                if (!(fabs(a[i] - b[i]) <= 1e-11 * (1 + fabs(a[i]))))
                    fail_msg("%s, %lld rows: parameter %d, element %lld: %.17g, on one device %.17g", what, (long long)rows, (int)p,
                             (long long)i, b[i], a[i]);
        }
    }
    return compared;
}

static void training_computes_what_one_device_does(void **state) {
    static const char *const devices[] = {"host:2", "host:3", "host:8"};
    static const int64_t rows[] = {1, 7, 64};
    int32_t compared = 0;
    (void)state;
    for (int32_t l = 0; l < LOSSES; l += loss_step())
        for (int32_t n = 0; n < 3; n++) {
            trained one, many;
            train_make(&one, "host:1", losses[l]);
            train_make(&many, devices[n], losses[l]);
            for (int32_t r = 0; r < 3; r++) compared += same_numbers(&one, &many, rows[r], losses[l]);
            train_end(&one);
            train_end(&many);
        }
    assert_int_equal(compared, (LOSSES + loss_step() - 1) / loss_step() * 3 * 3 * (1 + 2 * PARAMETER_ELEMENTS));
}

/* More workers than a word of 32 bits has digits, and more than there are rows. */
static void thirty_three_workers_compute_what_one_device_does(void **state) {
    static const int64_t rows[] = {7, 64};
    int32_t compared = 0, cases = 0;
    (void)state;
    if (on_gpus()) SKIP("the simulated machine has 8 GPUs");
    for (int32_t l = 0; l < LOSSES; l += test_is_full() ? 1 : 7, cases++) {
        trained one, many;
        train_make(&one, "host:1", losses[l]);
        train_make(&many, "host:33", losses[l]);
        assert_int_equal(muster_runtime_size(many.runtime), 33);
        for (int32_t r = 0; r < 2; r++) compared += same_numbers(&one, &many, rows[r], losses[l]);
        train_end(&one);
        train_end(&many);
    }
    assert_int_equal(compared, cases * 2 * (1 + 2 * PARAMETER_ELEMENTS));
}

/* An index outside is refused by its worker, and by the call; the next call is right. */
static void labels_outside_are_refused(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3"};
    (void)state;
    for (int32_t n = 0; n < 3; n++) {
        trained t;
        double loss, x[7 * INPUTS] = {0}, y[7 * CLASSES] = {0};
        train_make(&t, devices[n], losses[0]);
        for (int32_t wrong = 0; wrong < 14; wrong++) {
            int64_t labels[7] = {0, 1, 2, 3, 0, 1, 2};
            labels[wrong % 7] = wrong < 7 ? CLASSES : -1;
            const muster_tensor in[] = {muster_f64(x, 7, INPUTS), muster_i64(labels, 7), muster_f64(y, 7, CLASSES)};
            const muster_tensor out = muster_f64(&loss);
            assert_refused(muster_function_call(t.function, in, 3, &out, 1, NULL), MUSTER_OUT_OF_RANGE,
                           wrong < 7 ? "labels: expected labels in [0, 4), received 4" : "labels: expected labels in [0, 4), received -1");
        }
        train_call(&t, 7, &loss);
        assert_true(isfinite(loss));
        train_end(&t);
    }
}

/* ---- operators of the program ---- */

static muster_status product_rule(muster_operator_node *node, muster_expr *const *x, int32_t count, void *user) {
    (void)count;
    (void)user;
    return muster_operator_result(node, 0, MUSTER_F64, 2, (const int64_t[]){muster_expr_size(x[0], 0), muster_expr_size(x[1], 1)});
}

static muster_status product_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                  void *user) {
    (void)node;
    (void)user;
    return muster_gemm(worker, 1, in[0], in[1], 0, out[0]);
}

/* sum(product(x, w) * 2), by rows or whole; by an operator made of a text, if `text`. */
static void product_compare(const char *devices, int32_t distribution, const char *text, int32_t gathered) {
    static const muster_operator_backend everywhere = {NULL, product_body};
    muster_operator_options options;
    muster_operator *product;
    muster_graph *graph;
    muster_function *function;
    double x[7 * 3], w[3 * 3], got[7][3];
    muster_runtime *runtime = graph_runtime(devices);
    for (int32_t i = 0; i < 21; i++) x[i] = number_at(i);
    for (int32_t i = 0; i < 9; i++) w[i] = number_at(50 + i);
    muster_operator_options_init(&options);
    options.operands = (const char *const[]){"x", "w", NULL};
    if (text) {
        options.text = text;
    } else {
        options.rule = product_rule;
        options.bodies = &everywhere;
        options.body_count = 1;
        options.distribution = distribution;
    }
    assert_ok(muster_operator_create(runtime, "product", &options, &product));
    assert_ok(muster_graph_create(runtime, "products", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, 3), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "w", MUSTER_F64, MUSTER_SHAPE(3, 3), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "product(x, w) * 2"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    const muster_tensor in[] = {muster_f64(x, 7, 3), muster_f64(w, 3, 3)}, out = muster_f64(got, 7, 3);
    assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
    for (int32_t i = 0; i < 7; i++)
        for (int32_t k = 0; k < 3; k++) {
            double sum = 0;
            for (int32_t j = 0; j < 3; j++) sum += 2 * x[3 * i + j] * w[3 * j + k];
            assert_true(fabs(sum - got[i][k]) < 1e-12);
        }
    char *dump = graph_dump_text(function);
    if (count_of(dump, "all_gather") != gathered) fail_msg("expected %d gathered, received\n%s", gathered, dump);
    free(dump);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_operator_destroy(product));
    assert_ok(muster_runtime_close(runtime));
}

static void operators_of_the_program_are_computed_whole_or_by_rows(void **state) {
    static const char *const devices[] = {"host:2", "host:3", "host:8"};
    (void)state;
    for (int32_t n = 0; n < 3; n++) {
        product_compare(devices[n], MUSTER_OPERATOR_NEEDS_ALL, NULL, 1);
        product_compare(devices[n], MUSTER_OPERATOR_ROWWISE, NULL, 0);
        product_compare(devices[n], MUSTER_OPERATOR_NEEDS_ALL, "x @ w", 0);
    }
    product_compare("host:1", MUSTER_OPERATOR_ROWWISE, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_exchanges_gradients_only),
        cmocka_unit_test(training_computes_what_one_device_does),
        cmocka_unit_test(thirty_three_workers_compute_what_one_device_does),
        cmocka_unit_test(labels_outside_are_refused),
        cmocka_unit_test(operators_of_the_program_are_computed_whole_or_by_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
