/* newton.c: Newton's method, with the gradient and the matrix of second derivatives as expressions.
 *
 * The loss is that of a logistic regression: mean(log(1 + exp(-t (x @ w)))) + sum(w w) / 100, with
 * t = 1 or -1. Each device computes the averages over its own rows; their average, weighted by
 * rows, is that over all. The program solves the small system of equations itself. */
#include "sample.h"

enum { ROWS = 500, K = 4, STEPS = 8 };

static double x[ROWS][K], t[ROWS];

static void make_data(void) {
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < K; k++) x[i][k] = (double)((i * (7 + 4 * k) + 3 * k) % 101 - 50) / 25;
        const double sign = x[i][0] - 2 * x[i][1] + 0.5 * x[i][3] + (double)(i * 31 % 17 - 8) / 4; /* not separable */
        t[i] = sign > 0 ? 1 : -1;
    }
}

/* Outputs loss (), gradient (K) and hessian (K, K), all of them averages. */
static muster_function *describe(muster_runtime *rt) {
    muster_graph *g;
    muster_function *f;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    CHECK(muster_graph_create(rt, "newton", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *w = muster_graph_input(g, "w", MUSTER_F64, MUSTER_SHAPE(K), MUSTER_BROADCAST);
    muster_expr *loss = muster_expr_parse(g, "mean(softplus(-t * (x @ w))) + sum(w * w) / 100"), *gradient, *rows[K];
    (void)muster_gradient(loss, &w, 1, &gradient);
    for (int k = 0; k < K; k++) { /* row k: the gradient of element k of the gradient */
        muster_expr *element = muster_expr_sum(muster_expr_slice(gradient, MUSTER_LIST(start, k), MUSTER_LIST(stop, k + 1)));
        (void)muster_gradient(element, &w, 1, &rows[k]);
    }
    (void)muster_graph_output(g, "loss", loss, MUSTER_AUTO);
    (void)muster_graph_output(g, "gradient", gradient, MUSTER_AUTO);
    (void)muster_graph_output(g, "hessian", muster_expr_stack(rows, K), MUSTER_AUTO);
    CHECK(muster_graph_compile(g, &options, &f));
    CHECK(muster_graph_destroy(g));
    return f;
}

/* w -= inverse of h times d, by Gauss's elimination; h is positive definite. */
static void step(double w[K], double h[K][K], double d[K]) {
    for (int i = 0; i < K; i++)
        for (int r = i + 1; r < K; r++) {
            const double factor = h[r][i] / h[i][i];
            for (int k = i; k < K; k++) h[r][k] -= factor * h[i][k];
            d[r] -= factor * d[i];
        }
    for (int i = K - 1; i >= 0; i--) {
        for (int k = i + 1; k < K; k++) d[i] -= h[i][k] * d[k];
        d[i] /= h[i][i];
        w[i] -= d[i];
    }
}

/* The gradient by a loop, and its largest element. */
static double largest_gradient(const double w[K]) {
    double d[K], largest = 0;
    for (int k = 0; k < K; k++) d[k] = w[k] / 50;
    for (int i = 0; i < ROWS; i++) {
        double z = 0;
        for (int k = 0; k < K; k++) z += x[i][k] * w[k];
        for (int k = 0; k < K; k++) d[k] -= t[i] * x[i][k] / (1 + exp(t[i] * z)) / ROWS;
    }
    for (int k = 0; k < K; k++) largest = fmax(largest, fabs(d[k]));
    return largest;
}

int main(void) {
    make_data();
    muster_runtime *rt = sample_open("host:2");
    muster_function *f = describe(rt);
    double w[K] = {0}, loss = 0, gradient[K], hessian[K][K];
    const muster_tensor in[] = {muster_f64(x, ROWS, K), muster_f64(t, ROWS), muster_f64(w, K)};
    const muster_tensor out[] = {muster_f64(&loss), muster_f64(gradient, K), muster_f64(hessian, K, K)};
    for (int i = 0; i < STEPS; i++) {
        CHECK(muster_function_call(f, in, 3, out, 3, NULL));
        double largest = 0;
        for (int k = 0; k < K; k++) largest = fmax(largest, fabs(gradient[k]));
        printf("step %d: loss %.6f, largest element of the gradient %.1e\n", i, loss, largest < 1e-12 ? 0 : largest);
        EXPECT(fabs(largest - largest_gradient(w)) < 1e-12);
        step(w, hessian, gradient);
    }
    EXPECT(largest_gradient(w) < 1e-14); /* the square of the distance at each step: 8 steps are plenty */
    CHECK(muster_runtime_close(rt));
    return 0;
}
