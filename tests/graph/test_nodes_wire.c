/* A wire dtype and graphs: the gradients that rules get travel between processes as halves, one
 * rounding for each process; parameters and all else that a graph sums do not. */
#include "graph_fixture.h"
#include "runtime_launch.h"

#include <math.h>
#include <stdlib.h>

typedef struct layout {
    int32_t processes;
    const char *devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[] = {{2, {"host:2", "host:2"}}, {4, {"host:1", "host:1", "host:1", "host:1"}}, {2, {"host:3", "host:1"}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, ROWS = 8, WIDTH = 3001 };

static struct {
    const layout *layout;
    const char *name;
    double clip;
    muster_dtype wire;
    _Atomic int32_t compared;
} cell;

/* The mean over the rows, whose bits f32 has and no half. A process has part of the rows, and so a
 * part of the mean: what it rounds is an estimate of all of it. */
static float mean_at(int64_t i) { return ldexpf(1, -20) * (float)(1 + i % 5) * (1 + ldexpf((float)(1 + 2 * (i % 511)), -13)); }

static float rounded(float x) {
    int exponent;
    (void)frexpf(x, &exponent);
    int digits = cell.wire == MUSTER_F16 ? 11 : 8;
    if (cell.wire == MUSTER_F16 && exponent < -13) digits -= -13 - exponent; /* a subnormal half */
    return ldexpf(nearbyintf(ldexpf(x, digits - exponent)), exponent - digits);
}

static muster_function *compile(muster_runtime *runtime, muster_variable **w) {
    static float zeros[WIDTH];
    muster_graph *g;
    muster_rule_options how;
    muster_function *function;
    muster_expr *d[1];
    assert_ok(muster_variable_create(runtime, "w", muster_f32(zeros, WIDTH, 1), w));
    assert_ok(muster_graph_create(runtime, "line", &g));
    muster_expr *x = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, WIDTH), MUSTER_SCATTER);
    muster_expr *p[] = {muster_graph_parameter(g, *w)};
    muster_expr *loss = muster_expr_parse(g, "mean(x @ w)");
    assert_ok(muster_gradient(loss, p, 1, d));
    muster_rule_options_init(&how);
    how.learning_rate = 1;
    how.clip_norm = cell.clip;
    assert_ok(muster_graph_minimise(g, p, d, 1, MUSTER_SGD, &how));
    assert_ok(muster_graph_output(g, "centred", muster_expr_parse(g, "x - mean(x, 0)", "x", x), MUSTER_AUTO));
    assert_ok(muster_graph_compile(g, NULL, &function));
    assert_ok(muster_graph_destroy(g));
    return function;
}

static void step(launch_process *p) {
    muster_runtime_options options = launch_options(cell.layout->devices[p->process]);
    muster_runtime *runtime;
    muster_variable *w;
    float *x = malloc(ROWS * WIDTH * sizeof *x), *centred = malloc(ROWS * WIDTH * sizeof *centred), *after = malloc(WIDTH * sizeof *after);
    options.wire_dtype = cell.wire;
    options.collective_algorithm = cell.name;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    muster_function *f = compile(runtime, &w);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) x[i] = mean_at(i % WIDTH);
    launch_ok(p, muster_function_call(f, (const muster_tensor[]){muster_f32(x, ROWS, WIDTH)}, 1,
                                      (const muster_tensor[]){muster_f32(centred, ROWS, WIDTH)}, 1, NULL));
    for (int64_t i = 0; i < ROWS * WIDTH; i++)
        if (fabsf(centred[i]) > 1e-6f * mean_at(i % WIDTH))
            launch_fail(p, "x - mean(x): %g in element %lld", (double)centred[i], (long long)i);
    for (int32_t r = 0; r < muster_runtime_size(runtime); r++) {
        launch_ok(p, muster_variable_get(w, r, muster_f32(after, WIDTH, 1)));
        for (int64_t i = 0; i < WIDTH; i++)
            if (-after[i] != (cell.wire ? rounded(mean_at(i)) : mean_at(i)))
                launch_fail(p, "device %d, parameter %lld: expected %.9g, received %.9g", (int)r, (long long)i,
                            (double)(cell.wire ? rounded(mean_at(i)) : mean_at(i)), (double)-after[i]);
    }
    launch_ok(p, muster_runtime_close(runtime));
    free(x);
    free(centred);
    free(after);
    cell.compared++;
}

static void test_gradients_of_rules_travel_as_halves_and_nothing_else(void **state) {
    static const char *const names[] = {NULL, "naive", "two_dimensional"};
    static const muster_dtype wires[] = {MUSTER_DTYPE_NONE, MUSTER_F16, MUSTER_BF16};
    int32_t expected = 0;
    (void)state;
    for (int32_t l = 0; l < LAYOUTS; l++)
        for (int32_t n = 0; n < 3; n++)
            for (int32_t w = 0; w < 3; w++) {
                cell.layout = &layouts[l];
                cell.name = names[n];
                cell.wire = wires[w];
                cell.clip = (l + n + w) % 2 ? 0 : 1e9; /* which clips nothing, but is another way */
                launch_run(&(wire_launch_options){.processes = layouts[l].processes, .processes_per_host = 1}, step, NULL);
                expected += layouts[l].processes;
            }
    assert_int_equal(cell.compared, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_of_rules_travel_as_halves_and_nothing_else)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
