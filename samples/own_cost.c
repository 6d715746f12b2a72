/* own_cost.c: a cost of the program's own, one text, minimised on all devices. It fits
 * a line to readings of which one in ten is far off: they would draw squared errors to them. */
#include <math.h>

#include "sample.h"

enum { ROWS = 1001, STEPS = 200 };

int main(void) {
    static float x[ROWS][2], t[ROWS]; /* t = 2 x + 1; the second column of x is 1 */
    float w[2] = {0}, cost = 0;
    for (int i = 0; i < ROWS; i++) {
        x[i][0] = 2 * (float)i / (ROWS - 1) - 1;
        x[i][1] = 1;
        t[i] = 2 * x[i][0] + 1 + (i % 10 == 3 ? 50.0f : 0);
    }
    muster_runtime *rt = sample_open("host:2");
    muster_graph *g;
    muster_function *step;
    muster_variable *line;
    CHECK(muster_variable_create(rt, "w", muster_f32(w, 2), &line));
    CHECK(muster_graph_create(rt, "own cost", &g));
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 2), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *p = muster_graph_parameter(g, line), *gradient;
    muster_expr *mean = muster_expr_parse(g, "e = x @ w - t; mean(log(1 + e * e))"); /* over the rows of all devices */
    (void)muster_gradient(mean, &p, 1, &gradient);
    (void)muster_graph_minimise(g, &p, &gradient, 1, MUSTER_MOMENTUM,
                                &(muster_rule_options){sizeof(muster_rule_options), .learning_rate = 0.1});
    (void)muster_graph_output(g, "cost", mean, MUSTER_AUTO);
    CHECK(muster_graph_compile(g, NULL, &step)); /* returns the first error of all this */
    CHECK(muster_graph_destroy(g));
    const muster_tensor in[] = {muster_f32(x, ROWS, 2), muster_f32(t, ROWS)}, out[] = {muster_f32(&cost)};
    for (int i = 0; i < STEPS; i++) CHECK(muster_function_call(step, in, 2, out, 1, NULL));
    CHECK(muster_variable_get(line, 0, muster_f32(w, 2)));
    printf("%.2f x + %.2f, cost %.3f\n", (double)w[0], (double)w[1], (double)cost);
    EXPECT(fabs(w[0] - 2.0) < 0.01 && fabs(w[1] - 1.0) < 0.01);
    CHECK(muster_runtime_close(rt));
    return 0;
}
