/* Training by the rules over several processes, each a thread of this program: the steps of one
 * device; and a failure at every exchange, on one rank of each process, leaves all parameters as
 * they were in all processes, or undefined in all of them. */
#include "base_await.h"
#include "communicator_impl.h"
#include "graph_network.h"
#include "muster/rule.h"
#include "runtime_impl.h"
#include "runtime_launch.h"

#include <math.h>
#include <pthread.h>

typedef struct layout {
    int32_t processes;
    const char *devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[] = {{2, {"host:2", "host:2"}}, {4, {"host:1", "host:1", "host:1", "host:1"}}, {2, {"host:3", "host:1"}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, RULES = 8, STEPS = 3, TRAINED_ROWS = 101, RANKS = 4, EXCHANGES = 6 };
static const muster_update_rule rules[RULES] = {MUSTER_SGD,     MUSTER_MOMENTUM, MUSTER_NESTEROV, MUSTER_ADAGRAD,
                                                MUSTER_RMSPROP, MUSTER_ADADELTA, MUSTER_ADAM,     MUSTER_ADAMAX};

/* ---- the steps of one device ---- */

typedef struct training {
    const layout *layout;
    network_results expected[RULES][2][STEPS];
    _Atomic int32_t compared;
} training;
static training all;

static void train(const char *devices, int32_t rule, bool clips, network_results *results) {
    network net;
    muster_graph_options options;
    muster_graph_options_init(&options);
    assert_ok(network_open(&net, devices, rules[rule], clips ? 0.05 : 0, &options));
    for (int32_t s = 0; s < STEPS; s++) {
        assert_ok(network_call(&net, TRAINED_ROWS - 50 * s, &results[s]));
        network_parameters(&net, muster_runtime_size(net.runtime) - 1, &results[s]);
    }
    assert_ok(muster_runtime_close(net.runtime));
}

static void train_all(launch_process *p) {
    training *t = p->context;
    network_results *results = calloc(STEPS, sizeof *results);
    for (int32_t rule = 0; rule < RULES; rule++)
        for (int32_t clips = 0; clips < 2; clips++) {
            train(t->layout->devices[p->process], rule, clips, results);
            for (int32_t s = 0; s < STEPS; s++)
                if (!(network_distance(&results[s], &t->expected[rule][clips][s]) <= 1e-11))
                    launch_fail(p, "rule %d, clipped %d, step %d: differs from one device by %g", (int)rule, (int)clips, (int)s,
                                network_distance(&results[s], &t->expected[rule][clips][s]));
            if (p->process == 0) t->compared++;
        }
    free(results);
}

static void the_rules_take_the_steps_of_one_device(void **state) {
    (void)state;
    for (int32_t rule = 0; rule < RULES; rule++)
        for (int32_t clips = 0; clips < 2; clips++) train("host:1", rule, clips, all.expected[rule][clips]);
    for (int32_t l = 0; l < LAYOUTS; l++) {
        all.layout = &layouts[l];
        launch_run(&(wire_launch_options){.processes = layouts[l].processes, .processes_per_host = 1}, train_all, &all);
    }
    assert_int_equal(all.compared, LAYOUTS * RULES * 2);
}

/* ---- failures ---- */

static struct {
    int32_t rank, exchange; /* rank -1: none */
    mst_rendezvous_moment moment;
    bool no_memory;
    _Atomic bool struck;
    int32_t entered[RANKS];
} fault = {.rank = -1};

static bool hook(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    const int32_t rank = mst_worker_public_rank(worker);
    (void)collective;
    if (moment == MST_MOMENT_ENTERS) fault.entered[rank]++;
    if (rank != fault.rank || moment != fault.moment || fault.entered[rank] != fault.exchange + 1) return false;
    fault.struck = true;
    *status = fault.no_memory ? mst_out_of_memory("the cat", 100) : mst_error(MUSTER_USER, "the cat sat on the keys");
    return true;
}

typedef struct outcomes {
    const layout *layout;
    bool clips;
    int32_t cases, undefined;
    await_barrier barrier; /* of all processes */
} outcomes;

/* 0: as `before`; 1: undefined; 2: else. */
static int32_t state_of(const network *net, const network_results *before) {
    network_results *now = calloc(1, sizeof *now);
    int32_t state = 0;
    for (int32_t v = 0; v < NETWORK_PARAMETERS && state == 0; v++) {
        int64_t shape[2];
        assert_ok(muster_variable_shape(net->parameters[v], 0, 2, shape));
        for (int32_t r = 0; r < RANKS && state == 0; r++) {
            const muster_status status = muster_variable_get(net->parameters[v], r, muster_f64(now->parameters[v], shape[0], shape[1]));
            if (status != MUSTER_OK)
                state = status == MUSTER_BAD_STATE ? 1 : 2;
            else if (memcmp(now->parameters[v], before->parameters[v], (size_t)(shape[0] * shape[1]) * sizeof(double)) != 0)
                state = 2;
        }
    }
    free(now);
    return state;
}

/* Parameters as at the start, and the states 0. */
static void reset(const network *net, const network_results *start) {
    static const char *const names[] = {"network/w/velocity", "network/b/velocity", "network/v/velocity"};
    static double zeros[NETWORK_IN * NETWORK_HIDDEN];
    for (int32_t v = 0; v < NETWORK_PARAMETERS; v++) {
        int64_t shape[2];
        muster_variable *velocity;
        assert_ok(muster_variable_shape(net->parameters[v], 0, 2, shape));
        assert_ok(muster_variable_set_whole(net->parameters[v], muster_f64((double *)(uintptr_t)start->parameters[v], shape[0], shape[1])));
        assert_ok(muster_variable_find(net->runtime, names[v], &velocity));
        assert_ok(muster_variable_set_whole(velocity, muster_f64(zeros, shape[0], shape[1])));
    }
}

static void fail_all(launch_process *p) {
    outcomes *o = p->context;
    network net;
    muster_graph_options options;
    network_results *start = calloc(3, sizeof *start), *right = start + 1, *now = start + 2;
    muster_graph_options_init(&options);
    assert_ok(network_open(&net, o->layout->devices[p->process], MUSTER_MOMENTUM, o->clips ? 0.05 : 0, &options));
    const muster_runtime *runtime = net.runtime;
    network_parameters(&net, 0, start);
    launch_ok(p, network_call(&net, TRAINED_ROWS, right));
    network_parameters(&net, 0, right);
    reset(&net, start);
    for (int32_t kind = 0; kind < 3; kind++) /* fails, lacks memory, fails when all have agreed */
        for (int32_t q = 0; q < p->processes; q++)
            for (int32_t k = 0; k < EXCHANGES; k++) {
                int32_t state;
                if (p->process == 0) {
                    fault.no_memory = kind == 1;
                    fault.moment = kind == 2 ? MST_MOMENT_WRITES : MST_MOMENT_ENTERS;
                    fault.exchange = k;
                    fault.struck = false;
                    memset(fault.entered, 0, sizeof fault.entered);
                    fault.rank = muster_runtime_first_rank(runtime, q);
                }
                await_barrier_wait(&o->barrier); /* the first process has set the fault */
                const muster_status status = network_call(&net, TRAINED_ROWS, now);
                await_barrier_wait(&o->barrier);
                const bool struck = fault.struck;
                if (p->process == 0) fault.rank = -1;
                await_barrier_wait(&o->barrier);
                state = state_of(&net, start);
                if (!struck && status == MUSTER_OK) {
                    reset(&net, start);
                    continue;
                }
                if (!struck || status == MUSTER_OK || state == 2)
                    launch_fail(p, "kind %d, rank of process %d, exchange %d: struck %d, %s, state %d", (int)kind, (int)q, (int)k, struck,
                                muster_status_name(status), (int)state);
                if (kind < 2 && k == 0) launch_check(p, state == 0);
                if (state == 1) reset(&net, start);
                if (p->process == 0) {
                    o->cases++;
                    o->undefined += state == 1;
                }
                launch_ok(p, network_call(&net, TRAINED_ROWS, now));
                network_parameters(&net, 0, now);
                launch_check(p, network_distance(now, right) <= 1e-11);
                reset(&net, start);
            }
    launch_ok(p, muster_runtime_close(net.runtime));
    free(start);
}

static void a_failure_leaves_all_processes_as_they_were_or_undefined(void **state) {
    (void)state;
    mst_rendezvous_test_hook = hook;
    for (int32_t clips = 0; clips < 2; clips++) {
        outcomes o = {.layout = &layouts[0], .clips = clips};
        o.barrier.threads = 2;
        launch_run(&(wire_launch_options){.processes = 2, .processes_per_host = 1}, fail_all, &o);
        print_message("%d failures, of which %d have left parameters undefined\n", o.cases, o.undefined);
        assert_int_equal(o.cases, clips ? 16 : 6);
        assert_int_equal(o.undefined, 2);
    }
    mst_rendezvous_test_hook = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rules_take_the_steps_of_one_device),
        cmocka_unit_test(a_failure_leaves_all_processes_as_they_were_or_undefined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
