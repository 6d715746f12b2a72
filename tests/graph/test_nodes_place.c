/* Expressions on one device of several processes: the device's worker computes them from its own
 * rows, the workers of all processes see its value, and gradients are summed there. The oracle is
 * loops over the rows of each worker. */
#include "graph_fixture.h"
#include "runtime_launch.h"

enum { ROWS = 8, K = 3, DEVICES = 4, PROCESSES = 2 };
static const char *const devices[][PROCESSES] = {{"host:2", "host:2"}, {"host:1", "host:3"}};
enum { LAYOUTS = sizeof devices / sizeof *devices };

typedef struct checks {
    const char *const *devices;
    _Atomic int32_t values;
} checks;

static float x_of(int32_t row, int32_t k) { return (float)((7 * row + 3 * k) % 11 - 5); }

static muster_status compile(muster_graph *graph, muster_function **function) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    return muster_graph_compile(graph, &options, function);
}

/* seen = the sum over the rows of the worker of `owner`, in each row of each worker. */
static void values_on_each_device(launch_process *p) {
    checks *c = p->context;
    muster_runtime *runtime;
    const muster_runtime_options options = launch_options(c->devices[p->process]);
    launch_ok(p, muster_runtime_open(&options, &runtime));
    for (int32_t owner = 0; owner < DEVICES; owner++) {
        muster_graph *graph;
        muster_function *function;
        char name[8], graph_name[16];
        float x[ROWS][K], seen[ROWS][K];
        snprintf(name, sizeof name, "%d", (int)owner);
        snprintf(graph_name, sizeof graph_name, "place%d", (int)owner);
        launch_ok(p, muster_graph_create(runtime, graph_name, &graph));
        (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        muster_expr *sum = muster_expr_place(muster_expr_parse(graph, "sum(x, axis=0)"), name);
        launch_ok(p, muster_graph_output(graph, "seen", muster_expr_parse(graph, "0 * x + s", "s", sum), MUSTER_GATHER));
        launch_ok(p, compile(graph, &function));
        for (int32_t i = 0; i < ROWS; i++)
            for (int32_t k = 0; k < K; k++) x[i][k] = x_of(i, k);
        for (int32_t call = 0; call < 2; call++) {
            memset(seen, 0, sizeof seen);
            launch_ok(p, muster_function_call(function, (muster_tensor[]){muster_f32(x, ROWS, K)}, 1,
                                              (muster_tensor[]){muster_f32(seen, ROWS, K)}, 1, NULL));
            for (int32_t i = 0; i < ROWS; i++)
                for (int32_t k = 0; k < K; k++, c->values++) launch_check(p, seen[i][k] == x_of(2 * owner, k) + x_of(2 * owner + 1, k));
        }
        launch_ok(p, muster_graph_destroy(graph));
    }
    launch_ok(p, muster_runtime_close(runtime));
}

/* The loss of each worker is the sum of x @ v, v = w w on `owner`: the gradient is 2 w times the
 * sum of all rows there, and 0 elsewhere. */
static void gradients_on_each_device(launch_process *p) {
    checks *c = p->context;
    muster_runtime *runtime;
    const muster_runtime_options options = launch_options(c->devices[p->process]);
    launch_ok(p, muster_runtime_open(&options, &runtime));
    for (int32_t owner = 0; owner < DEVICES; owner++) {
        muster_graph *graph;
        muster_function *function;
        muster_variable *weights, *gradient;
        char name[8], graph_name[16], weights_name[16], gradient_name[16];
        float x[ROWS][K], start[K] = {1, -2, 3}, zeros[K] = {0};
        snprintf(name, sizeof name, "%d", (int)owner);
        snprintf(graph_name, sizeof graph_name, "gradient%d", (int)owner);
        snprintf(weights_name, sizeof weights_name, "w%d", (int)owner);
        snprintf(gradient_name, sizeof gradient_name, "g%d", (int)owner);
        launch_ok(p, muster_variable_create(runtime, weights_name, muster_f32(start, K), &weights));
        launch_ok(p, muster_variable_create(runtime, gradient_name, muster_f32(zeros, K), &gradient));
        launch_ok(p, muster_graph_create(runtime, graph_name, &graph));
        (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
        muster_expr *w = muster_graph_parameter(graph, weights), *d;
        muster_expr *v = muster_expr_place(APPLY(graph, "multiply", w, w), name);
        launch_ok(p, muster_gradient(muster_expr_parse(graph, "sum(x @ v)", "v", v), &w, 1, &d));
        launch_ok(p, muster_graph_update(graph, gradient, d, MUSTER_MASTER));
        launch_ok(p, compile(graph, &function));
        for (int32_t i = 0; i < ROWS; i++)
            for (int32_t k = 0; k < K; k++) x[i][k] = x_of(i, k);
        for (int64_t rows = 1; rows <= ROWS; rows += 7) { /* of one row three devices have none, and keep their value */
            launch_ok(p, muster_function_call(function, (muster_tensor[]){muster_f32(x, rows, K)}, 1, NULL, 0, NULL));
            for (int32_t rank = 0; rank < DEVICES; rank++) {
                float got[K];
                launch_ok(p, muster_variable_get(gradient, rank, muster_f32(got, K)));
                for (int32_t k = 0; k < K; k++, c->values++) {
                    float sum = 0;
                    for (int32_t i = 0; i < rows; i++) sum += x_of(i, k);
                    const bool writes = rank == owner && (rows == ROWS || rank == DEVICES - 1);
                    launch_check(p, got[k] == (writes ? 2 * start[k] * sum : 0));
                }
            }
        }
        launch_ok(p, muster_graph_destroy(graph));
    }
    launch_ok(p, muster_runtime_close(runtime));
}

/* "host:1" is the second device of each process, so that they mean different ones. */
static void different_devices(launch_process *p) {
    checks *c = p->context;
    muster_runtime *runtime;
    muster_graph *graph;
    muster_function *function;
    const muster_runtime_options options = launch_options("host:2");
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, muster_graph_create(runtime, "place", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *sum = muster_expr_place(muster_expr_parse(graph, "sum(x, axis=0)"), "host:1");
    launch_ok(p, muster_graph_output(graph, "seen", muster_expr_parse(graph, "0 * x + s", "s", sum), MUSTER_GATHER));
    launch_refused(p, compile(graph, &function), MUSTER_INVALID_ARGUMENT, "graph 'place'");
    c->values++;
    launch_ok(p, muster_graph_destroy(graph));
    launch_ok(p, muster_runtime_close(runtime));
}

static void run(launch_body body, int32_t values_of_a_process) {
    for (int32_t l = 0; l < LAYOUTS; l++) {
        checks c = {.devices = devices[l]};
        launch_run(&(wire_launch_options){.processes = PROCESSES, .processes_per_host = 1}, body, &c);
        assert_int_equal(c.values, PROCESSES * values_of_a_process);
    }
}

static void one_device_computes_what_all_processes_see(void **state) {
    (void)state;
    run(values_on_each_device, DEVICES * 2 * ROWS * K);
}

static void gradients_of_all_processes_are_summed_on_the_device(void **state) {
    (void)state;
    run(gradients_on_each_device, DEVICES * 2 * DEVICES * K);
}

static void processes_that_name_different_devices_are_refused(void **state) {
    (void)state;
    run(different_devices, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_computes_what_all_processes_see),
        cmocka_unit_test(processes_that_name_different_devices_are_refused),
        cmocka_unit_test(gradients_of_all_processes_are_summed_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
