/* Graphs with rules that several processes compile, each a thread of this program, where one of
 * them compiles in another way: all do as it does, or all refuse in the same round. After each the
 * next call of all meets. */
#include "graph_fixture.h"
#include "muster/rule.h"
#include "runtime_launch.h"

#include <math.h>

enum { PROCESSES = 2, ROWS = 8, WIDTH = 12, RULES = 2 };
static const muster_update_rule rules[RULES] = {MUSTER_MOMENTUM, MUSTER_ADAM};

typedef struct training {
    muster_runtime *runtime;
    muster_variable *w;
    muster_graph *graph;
} training;

static struct {
    muster_update_rule rule;
    int32_t odd; /* the process that differs */
    double expected[WIDTH];
    _Atomic int32_t compared;
} cell;

static void prepare(muster_runtime *runtime, training *t) {
    static double zeros[WIDTH];
    muster_rule_options how;
    muster_expr *d[1];
    t->runtime = runtime;
    assert_ok(muster_variable_create(t->runtime, "w", muster_f64(zeros, WIDTH, 1), &t->w));
    assert_ok(muster_graph_create(t->runtime, "line", &t->graph));
    (void)muster_graph_input(t->graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, WIDTH), MUSTER_SCATTER);
    muster_expr *p[] = {muster_graph_parameter(t->graph, t->w)};
    muster_expr *loss = muster_expr_parse(t->graph, "mean((x @ w - 1) ** 2)");
    assert_ok(muster_gradient(loss, p, 1, d));
    muster_rule_options_init(&how);
    assert_ok(muster_graph_minimise(t->graph, p, d, 1, cell.rule, &how));
    assert_ok(muster_graph_output(t->graph, "loss", loss, MUSTER_AUTO));
}

static muster_status step(muster_function *f) {
    double x[ROWS * WIDTH], loss;
    for (int32_t i = 0; i < ROWS * WIDTH; i++) x[i] = (double)((i * 31 + 7) % 97 - 48) / 40;
    return muster_function_call(f, (const muster_tensor[]){muster_f64(x, ROWS, WIDTH)}, 1, (const muster_tensor[]){muster_f64(&loss)}, 1,
                                NULL);
}

/* Far below the deadline of launch_options, so that a process that waits alone fails the test. */
static void open_with(launch_process *p, training *t) {
    muster_runtime_options options = launch_options("host:2");
    muster_runtime *runtime;
    options.fail_after_ns = 5000000000;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    prepare(runtime, t);
}

static void close_with(launch_process *p, training *t) {
    assert_ok(muster_graph_destroy(t->graph));
    launch_ok(p, muster_runtime_close(t->runtime));
}

static void steps_with(launch_process *p, const training *t, muster_graph_options *options) {
    muster_function *f;
    double w[WIDTH];
    launch_ok(p, muster_graph_compile(t->graph, options, &f));
    for (int32_t s = 0; s < 2; s++) launch_ok(p, step(f));
    launch_ok(p, muster_variable_get(t->w, 0, muster_f64(w, WIDTH, 1)));
    for (int32_t i = 0; i < WIDTH; i++)
        if (!(fabs(w[i] - cell.expected[i]) <= 1e-12)) launch_fail(p, "w[%d]: %g, expected %g", (int)i, w[i], cell.expected[i]);
    cell.compared++;
}

static void expect(void) {
    muster_runtime *runtime = graph_runtime("host:1");
    training t;
    muster_function *f;
    prepare(runtime, &t);
    assert_ok(muster_graph_compile(t.graph, NULL, &f));
    for (int32_t s = 0; s < 2; s++) assert_ok(step(f));
    assert_ok(muster_variable_get(t.w, 0, muster_f64(cell.expected, WIDTH, 1)));
    assert_ok(muster_graph_destroy(t.graph));
    assert_ok(muster_runtime_close(runtime));
}

static void unfused_in_one(launch_process *p) {
    training t;
    muster_graph_options options;
    open_with(p, &t);
    if (p->error[0]) return;
    muster_graph_options_init(&options);
    options.unfused = p->process == cell.odd;
    steps_with(p, &t, &options);
    if (!p->error[0]) close_with(p, &t);
}

static void checked_in_one(launch_process *p) {
    training t;
    muster_function *f;
    muster_graph_options options;
    open_with(p, &t);
    if (p->error[0]) return;
    muster_graph_options_init(&options);
    options.check_memory = p->process == cell.odd;
    launch_refused(p, muster_graph_compile(t.graph, &options, &f), MUSTER_INVALID_ARGUMENT, "options.check_memory");
    options.check_memory = 0;
    steps_with(p, &t, &options);
    if (!p->error[0]) close_with(p, &t);
}

static void all_compile(launch_body body) {
    cell.compared = 0;
    for (int32_t r = 0; r < RULES; r++)
        for (cell.odd = 0; cell.odd < PROCESSES; cell.odd++) {
            cell.rule = rules[r];
            expect();
            launch_run(&(wire_launch_options){.processes = PROCESSES, .processes_per_host = 1}, body, NULL);
        }
    assert_int_equal(cell.compared, RULES * PROCESSES * PROCESSES);
}

static void all_compute_each_operation_by_itself_where_one_does(void **state) {
    (void)state;
    all_compile(unfused_in_one);
}

static void all_refuse_where_one_checks_memory(void **state) {
    (void)state;
    all_compile(checked_in_one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_compute_each_operation_by_itself_where_one_does),
        cmocka_unit_test(all_refuse_where_one_checks_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
