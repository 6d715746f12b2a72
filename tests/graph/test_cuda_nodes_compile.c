/* Graphs with rules that several processes compile, each a thread of this program, where one of
 * them compiles in another way, or cannot: all do as it does, or all refuse in the same round. And
 * calls that one of them gives up when the others have begun. After each the next calls meet. */
#include "base_pace.h"
#include "base_seed.h"
#include "call_private.h"
#include "communicator_impl.h"
#include "graph_fixture.h"
#include "memory_impl.h"
#include "muster/rule.h"
#include "nodes/rounds_private.h"
#include "processes_private.h"
#include "runtime_impl.h"
#include "runtime_launch.h"
#include "sim.h"

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

static void add_graph_with(training *t, muster_update_rule rule) {
    muster_rule_options how;
    muster_expr *d[1];
    assert_ok(muster_graph_create(t->runtime, "line", &t->graph));
    (void)muster_graph_input(t->graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, WIDTH), MUSTER_SCATTER);
    muster_expr *p[] = {muster_graph_parameter(t->graph, t->w)};
    muster_expr *loss = muster_expr_parse(t->graph, "mean((x @ w - 1) ** 2)");
    assert_ok(muster_gradient(loss, p, 1, d));
    muster_rule_options_init(&how);
    assert_ok(muster_graph_minimise(t->graph, p, d, 1, rule, &how));
    assert_ok(muster_graph_output(t->graph, "loss", loss, MUSTER_AUTO));
}

static void add_graph(training *t) { add_graph_with(t, cell.rule); }

static void prepare(muster_runtime *runtime, training *t) {
    static double zeros[WIDTH];
    t->runtime = runtime;
    assert_ok(muster_variable_create(t->runtime, "w", muster_f64(zeros, WIDTH, 1), &t->w));
    add_graph(t);
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
    if (status == MUSTER_OK)
        status = mst_rounds_give_up(f->object.runtime->nodes, mst_error(MUSTER_TIMEOUT, "process given up by the test"));
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
static void open_on(launch_process *p, const char *devices, training *t) {
    muster_runtime_options options = launch_options(devices);
    muster_runtime *runtime;
    options.fail_after_ns = test_patience(5000000000);
    launch_ok(p, muster_runtime_open(&options, &runtime));
    prepare(runtime, t);
}

static void open_with(launch_process *p, training *t) { open_on(p, "host:2", t); }

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

/* Beside compilations: what one process alone refuses of a split, of a state and of a check. */
static void operations_refused_in_one(launch_process *p) {
    training t;
    muster_function *f;
    muster_gradient_check_options checked;
    double velocity[WIDTH], zeros[WIDTH] = {0};
    const bool odd = p->process == cell.odd;
    open_with(p, &t);
    if (p->error[0]) return;
    muster_variable *v;
    muster_graph *graph;
    launch_ok(p, muster_variable_create(t.runtime, "v", muster_f64(zeros, WIDTH, 1), &v));
    launch_ok(p, muster_graph_create(t.runtime, "other", &graph));
    launch_refused(p, muster_graph_split(muster_graph_parameter(graph, v), odd ? 2 : 0), MUSTER_OUT_OF_RANGE, "axis: expected one of");
    launch_ok(p, muster_graph_destroy(graph));
    launch_ok(p, muster_graph_create(t.runtime, "other", &graph));
    muster_expr *parameter = muster_graph_parameter(graph, v);
    muster_expr *loss = muster_expr_parse(graph, "sum(v ** 2)");
    muster_gradient_check_options_init(&checked);
    if (odd) checked.struct_size = 1 << 20;
    launch_refused(p, muster_gradient_check(loss, &parameter, 1, &checked, NULL), MUSTER_INVALID_ARGUMENT, "struct_size");
    launch_ok(p, muster_graph_destroy(graph));
    launch_ok(p, muster_graph_compile(t.graph, NULL, &f));
    if (cell.rule == MUSTER_MOMENTUM) {
        launch_refused(p, muster_function_state_get(f, t.w, odd ? "speed" : "velocity", muster_f64(velocity, WIDTH, 1)),
                       MUSTER_INVALID_ARGUMENT, "speed");
        launch_refused(p, muster_function_state_set(f, t.w, "velocity", muster_f64(zeros, odd ? 1 : WIDTH, 1)), MUSTER_SHAPE_MISMATCH,
                       "value: state \"velocity\"");
    }
    steps_of(p, &t, f);
    if (!p->error[0]) close_with(p, &t);
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
    const int64_t size = options.struct_size;
    if (p->process == cell.odd) options.struct_size = 1 << 20;
    launch_refused(p, muster_graph_compile(t.graph, &options, &f), MUSTER_INVALID_ARGUMENT, "struct_size");
    options.struct_size = size;
    launch_refused(p, muster_graph_compile(t.graph, &options, p->process == cell.odd ? NULL : &f), MUSTER_INVALID_ARGUMENT, "function: ");
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

/* The GPU of one process compiles no groups, of which it learns when it has compiled the graph. */
static void groups_refused_in_one(launch_process *p) {
    training t;
    muster_function *f;
    const bool odd = p->process == cell.odd;
    open_on(p, odd ? "cuda:1" : "host:2", &t);
    if (p->error[0]) return;
    const uint64_t compiled = muster_sim_calls("nvrtcCompileProgram");
    if (odd) muster_sim_inject_for_ever("nvrtcCompileProgram", 1, 6);
    const muster_status status = muster_graph_compile(t.graph, NULL, &f);
    if (odd) muster_sim_inject_clear();
    launch_ok(p, status);
    launch_check(p, !odd || muster_sim_calls("nvrtcCompileProgram") > compiled);
    steps_of(p, &t, f);
    if (!p->error[0]) close_with(p, &t);
}

/* The k-th allocation fails, in whichever process makes it: before, between or in the rounds of a
 * compilation. */
enum { ALLOCATIONS = 1200 };
static struct {
    muster_status statuses[PROCESSES];
    int64_t before;
    int32_t unfused; /* without a pass, so that the states of rules are cut in rounds, behind other work */
    int32_t failed;
    bool done; /* no allocation is left to fail */
} poor;

static void graph_again(launch_process *p, training *t) {
    launch_ok(p, muster_graph_destroy(t->graph));
    add_graph(t);
}

static void compile_without_memory(launch_process *p) {
    training t;
    muster_function *f;
    muster_graph_options options;
    open_with(p, &t);
    if (p->error[0]) return;
    muster_graph_options_init(&options);
    options.unfused = poor.unfused;
    for (int32_t k = 0; k < ALLOCATIONS; k += (int32_t)test_one_in(5, 7, 11)) {
        double w[WIDTH];
        launch_check(p, launch_meet(p));
        if (p->process == 0) poor.before = mst_memory_count();
        launch_check(p, launch_fail_allocation(p, k + 1));
        const muster_status status = poor.statuses[p->process] = muster_graph_compile(t.graph, &options, &f);
        launch_check(p, launch_meet(p));
        if (p->process == 0) {
            poor.failed += status != MUSTER_OK;
            poor.done = mst_memory_count() - poor.before <= k;
        }
        launch_check(p, launch_fail_allocation(p, 0));
        if (poor.statuses[0] != poor.statuses[1] || (status != MUSTER_OK && status != MUSTER_OUT_OF_MEMORY))
            launch_fail(p, "allocation %d: %s", (int)k, muster_last_error());
        launch_ok(p, muster_variable_get(t.w, 0, muster_f64(w, WIDTH, 1))); /* the next call meets */
        if (poor.done) break;
        if (status == MUSTER_OK) launch_ok(p, muster_function_destroy(f));
        graph_again(p, &t);
        if (p->error[0]) return;
    }
    launch_check(p, poor.done);
    steps_of(p, &t, f);
    if (!p->error[0]) close_with(p, &t);
}

static void all_fail_where_one_lacks_memory(void **state) {
    (void)state;
    cell.compared = 0;
    for (int32_t c = 0; c < 2 * RULES; c++) {
        cell.rule = rules[c / 2];
        memset(&poor, 0, sizeof poor);
        poor.unfused = c % 2;
        expect();
        launch_run(&(wire_launch_options){.processes = PROCESSES, .processes_per_host = 1}, compile_without_memory, NULL);
        assert_in_range(poor.failed, 60 / test_one_in(5, 7, 11), ALLOCATIONS);
    }
    assert_int_equal(cell.compared, 2 * RULES * PROCESSES);
}

/* Rules with other states: with a pass the programs differ, and without one the rounds in which
 * states are cut. */
static void another_rule_in_one(launch_process *p) {
    training t;
    muster_function *f;
    const muster_update_rule rule = cell.rule;
    open_with(p, &t);
    if (p->error[0]) return;
    muster_graph_options options;
    muster_graph_options_init(&options);
    for (options.unfused = 0; options.unfused < 2; options.unfused++) {
        launch_ok(p, muster_graph_destroy(t.graph));
        add_graph_with(&t, p->process == cell.odd ? MUSTER_SGD : rule);
        launch_check(p, muster_graph_compile(t.graph, &options, &f) == MUSTER_INVALID_ARGUMENT);
        double w[WIDTH];
        launch_ok(p, muster_variable_get(t.w, 0, muster_f64(w, WIDTH, 1))); /* the next call meets */
    }
    graph_again(p, &t);
    if (!p->error[0]) steps_with(p, &t, NULL);
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

static void all_compute_each_operation_by_itself_where_a_gpu_refuses_groups(void **state) {
    (void)state;
    muster_sim_reset(&(muster_sim_options){.devices = 1});
    setenv("MUSTER_CACHE_DIR", "off", 1);
    all_compile(groups_refused_in_one);
    unsetenv("MUSTER_CACHE_DIR");
    if (muster_sim_hazard_count()) fail_msg("%s", muster_sim_hazards());
    assert_int_equal(muster_sim_check_leaks(), 0);
}

static void all_learn_of_operations_that_one_refuses(void **state) {
    (void)state;
    all_compile(operations_refused_in_one);
}

static void all_refuse_where_one_has_another_rule(void **state) {
    (void)state;
    all_compile(another_rule_in_one);
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
    launch_refused(p, step_or_not(f, p->process == cell.odd), MUSTER_TIMEOUT, "process given up by the test");
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
        cmocka_unit_test(all_compute_each_operation_by_itself_where_a_gpu_refuses_groups),
        cmocka_unit_test(all_learn_of_operations_that_one_refuses),
        cmocka_unit_test(all_refuse_where_one_has_another_rule),
        cmocka_unit_test(all_fail_where_one_lacks_memory),
        cmocka_unit_test(a_call_that_one_gives_up_is_not_asked_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
