/* Graphs with rules that several processes compile, each a thread of this program, where one of
 * them compiles in another way: all do as it does, or all refuse in the same round. And
 * calls that one of them gives up when the others have begun. After each the next calls meet. */
#include "call_private.h"
#include "communicator_impl.h"
#include "graph_fixture.h"
#include "muster/rule.h"
#include "nodes/rounds_private.h"
#include "processes_private.h"
#include "runtime_impl.h"
#include "runtime_launch.h"

#include <math.h>
#include <sched.h>

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
    _Atomic bool exchanges;
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

static bool note_exchange(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    (void)worker, (void)collective, (void)moment, (void)status;
    cell.exchanges = true;
    return false;
}

/* The begin round is complete in all processes, and this one has given it up at its deadline: the
 * others run by then. */
static muster_status give_up(muster_function *f, const muster_tensor *in, const muster_tensor *out) {
    const mst_arguments arguments = {"muster_function_call", in, out, 1, 1, &mst_call_options_default, false};
    mst_pool *pool = f->object.runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, arguments.where, 0));
    cell.exchanges = false;
    muster_status status = mst_processes_prepare(f, &arguments);
    while (status == MUSTER_OK && !cell.exchanges) sched_yield();
    if (status == MUSTER_OK) status = mst_rounds_give_up(f->object.runtime->nodes, mst_error(MUSTER_TIMEOUT, "the cat slept"));
    mst_pool_leave(pool);
    return status;
}

static muster_status step_or_not(muster_function *f, bool gives_up) {
    double x[ROWS * WIDTH], loss;
    for (int32_t i = 0; i < ROWS * WIDTH; i++) x[i] = (double)((i * 31 + 7) % 97 - 48) / 40;
    const muster_tensor in[] = {muster_f64(x, ROWS, WIDTH)}, out[] = {muster_f64(&loss)};
    return gives_up ? give_up(f, in, out) : muster_function_call(f, in, 1, out, 1, NULL);
}

static muster_status step(muster_function *f) { return step_or_not(f, false); }

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

static void steps_of(launch_process *p, const training *t, muster_function *f) {
    double w[WIDTH];
    for (int32_t s = 0; s < 2; s++) launch_ok(p, step(f));
    launch_ok(p, muster_variable_get(t->w, 0, muster_f64(w, WIDTH, 1)));
    for (int32_t i = 0; i < WIDTH; i++)
        if (!(fabs(w[i] - cell.expected[i]) <= 1e-12)) launch_fail(p, "w[%d]: %g, expected %g", (int)i, w[i], cell.expected[i]);
    cell.compared++;
}

static void steps_with(launch_process *p, const training *t, const muster_graph_options *options) {
    muster_function *f;
    launch_ok(p, muster_graph_compile(t->graph, options, &f));
    steps_of(p, t, f);
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

static void another_option_in_one(launch_process *p) {
    training t;
    muster_function *f;
    muster_graph_options options;
    open_with(p, &t);
    if (p->error[0]) return;
    muster_graph_options_init(&options);
    options.check_memory = p->process == cell.odd;
    launch_refused(p, muster_graph_compile(t.graph, &options, &f), MUSTER_INVALID_ARGUMENT, "options.check_memory");
    options.check_memory = 0;
    if (p->process == cell.odd) options.meaning = MUSTER_PER_WORKER;
    launch_refused(p, muster_graph_compile(t.graph, &options, &f), MUSTER_INVALID_ARGUMENT, "options.meaning: expected MUSTER_");
    if (p->process == cell.odd) options.meaning = 7;
    launch_refused(p, muster_graph_compile(t.graph, &options, &f), MUSTER_INVALID_ARGUMENT, "expected a muster_graph_meaning, received 7");
    options.meaning = MUSTER_ONE_DEVICE;
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

static void all_refuse_where_one_has_another_option(void **state) {
    (void)state;
    all_compile(another_option_in_one);
}

/* The others cannot ask what has been written: all is undefined there, and the next call refused in
 * all processes. */
static void given_up_by_one(launch_process *p) {
    static double zeros[WIDTH];
    training t;
    muster_function *f;
    muster_variable *state;
    open_with(p, &t);
    if (p->error[0]) return;
    launch_ok(p, muster_graph_compile(t.graph, NULL, &f));
    launch_ok(p, step(f));
    launch_refused(p, step_or_not(f, p->process == cell.odd), MUSTER_TIMEOUT, "the cat slept");
    launch_refused(p, step(f), MUSTER_BAD_STATE, "undefined");
    assert_ok(muster_variable_find(t.runtime, "line/w/velocity", &state));
    launch_ok(p, muster_variable_set_whole(t.w, muster_f64(zeros, WIDTH, 1)));
    launch_ok(p, muster_variable_set_whole(state, muster_f64(zeros, WIDTH, 1)));
    steps_of(p, &t, f);
    if (!p->error[0]) close_with(p, &t);
}

static void a_call_that_one_gives_up_is_not_asked_about(void **state) {
    (void)state;
    cell.compared = 0;
    cell.rule = MUSTER_MOMENTUM;
    expect();
    mst_rendezvous_test_hook = note_exchange;
    for (cell.odd = 0; cell.odd < PROCESSES; cell.odd++)
        launch_run_failing(&(wire_launch_options){.processes = PROCESSES, .processes_per_host = 1}, given_up_by_one, NULL);
    mst_rendezvous_test_hook = NULL;
    assert_int_equal(cell.compared, PROCESSES * PROCESSES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_compute_each_operation_by_itself_where_one_does),
        cmocka_unit_test(all_refuse_where_one_has_another_option),
        cmocka_unit_test(a_call_that_one_gives_up_is_not_asked_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
