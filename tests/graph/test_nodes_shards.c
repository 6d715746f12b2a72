/* Graphs that mean one device, in runtimes with logical shards over several processes, each a
 * thread of this program: outputs, parameters and states have the bits of one device, however the
 * devices are spread over processes. */
#include "base_seed.h"
#include "graph_invariance.h"
#include "graph_shards.h"
#include "runtime_launch.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct layout {
    int32_t shards, processes, devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[] = {{8, 1, {4}},       {8, 2, {2, 2}}, {8, 4, {1, 1, 1, 1}}, {8, 2, {3, 1}},
                                 {8, 3, {1, 2, 1}}, {8, 2, {1, 1}}, {6, 2, {1, 2}},       {6, 3, {1, 1, 1}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, RULES = 8, ROW_COUNTS = 3 };
static const int64_t row_counts[ROW_COUNTS] = {1, 7, 64};
static const muster_update_rule rules[RULES] = {MUSTER_SGD,     MUSTER_MOMENTUM, MUSTER_NESTEROV, MUSTER_ADAGRAD,
                                                MUSTER_RMSPROP, MUSTER_ADADELTA, MUSTER_ADAM,     MUSTER_ADAMAX};

static muster_status open_shards(int32_t devices, int32_t shards, muster_runtime **runtime) {
    char text[16];
    snprintf(text, sizeof text, "host:%d", (int)devices);
    muster_runtime_options options = launch_options(text);
    options.logical_shards = shards;
    return muster_runtime_open(&options, runtime);
}

static void launch_layout(const layout *l, launch_body body, void *context) {
    launch_run(&(wire_launch_options){.processes = l->processes, .processes_per_host = 2}, body, context);
}

/* ---- training ---- */

typedef struct training {
    const layout *layout;
    int64_t rows;
    muster_update_rule rule;
    shards_results expected;
    _Atomic int32_t compared;
} training;
static training now;

static void train(launch_process *p) {
    training *t = p->context;
    muster_runtime *runtime;
    shards_results *results = malloc(sizeof *results);
    launch_ok(p, open_shards(t->layout->devices[p->process], t->layout->shards, &runtime));
    launch_check(p, muster_runtime_processes(runtime) == t->layout->processes);
    shards_train(runtime, t->rows, t->rule, results);
    launch_check(p, shards_equal(results, &t->expected));
    launch_ok(p, muster_runtime_close(runtime));
    free(results);
    atomic_fetch_add(&t->compared, 1);
}

static void expect_one_device(training *t, int32_t shards) {
    muster_runtime *runtime;
    assert_ok(open_shards(1, shards, &runtime));
    shards_train(runtime, t->rows, t->rule, &t->expected);
    assert_ok(muster_runtime_close(runtime));
}

/* Each layout meets some of the trainings, of which there are 8. */
static bool is_drawn(int32_t rule, int32_t rows, int32_t layout) {
    return test_is_full() || ((rule + rows) % 3 == 0 && (rule + layout) % 6 == 0);
}

static void training_has_the_bits_of_one_device(void **state) {
    int32_t trainings = 0, processes = 0;
    (void)state;
    for (int32_t n = 0; n < ROW_COUNTS; n++)
        for (int32_t r = 0; r < RULES; r++)
            for (int32_t l = 0, shards = 0; l < LAYOUTS; l++) {
                if (!is_drawn(r, n, l)) continue;
                now.layout = &layouts[l];
                now.rows = row_counts[n];
                now.rule = rules[r];
                if (shards != now.layout->shards) expect_one_device(&now, shards = now.layout->shards);
                launch_layout(now.layout, train, &now);
                processes += now.layout->processes;
                trainings++;
            }
    assert_int_equal(now.compared, processes);
    assert_int_equal(trainings, test_is_full() ? ROW_COUNTS * RULES * LAYOUTS : 11);
}

/* ---- the fixed list of graphs ---- */

enum { CALLS = 2, DRAWN_OF = 16 };
static const int64_t rows_of_calls[CALLS] = {7, 64};
static const invariance_way way = {.dtype = MUSTER_F32, .rows = rows_of_calls, .calls = CALLS};

typedef struct listed {
    const layout *layout;
    int32_t first;
    invariance_values *expected; /* of each case that is drawn */
    _Atomic int32_t compared;
} listed;

static void run_list(launch_process *p) {
    listed *list = p->context;
    muster_runtime *runtime;
    launch_ok(p, open_shards(list->layout->devices[p->process], list->layout->shards, &runtime));
    for (int32_t c = list->first; c < invariance_case_count; c += test_is_full() ? 1 : DRAWN_OF) {
        invariance_values values;
        invariance_run(runtime, &invariance_cases[c], &way, &values);
        const double distance = invariance_distance(&list->expected[c], &values);
        if (distance != 0)
            launch_fail(p, "%s: differs from one device by %g (\"%.200s\", \"%.200s\")", invariance_cases[c].name, distance,
                        list->expected[c].message, values.message);
        invariance_free(&values);
        atomic_fetch_add(&list->compared, 1);
    }
    launch_ok(p, muster_runtime_close(runtime));
}

static void a_list_of_graphs_has_the_bits_of_one_device(void **state) {
    static const layout spread[] = {{8, 2, {2, 2}}, {8, 4, {1, 1, 1, 1}}, {8, 2, {3, 1}}};
    listed list = {.first = test_is_full() ? 0 : (int32_t)(test_seed() % DRAWN_OF)};
    int32_t drawn = 0, computed = 0;
    (void)state;
    list.expected = calloc((size_t)invariance_case_count, sizeof *list.expected);
    for (int32_t c = list.first; c < invariance_case_count; c += test_is_full() ? 1 : DRAWN_OF, drawn++) {
        invariance_run(devices_open_shards("host:1", 8), &invariance_cases[c], &way, &list.expected[c]);
        computed += !list.expected[c].message[0];
    }
    for (int32_t l = 0; l < 3; l++) {
        list.layout = &spread[l];
        launch_layout(&spread[l], run_list, &list);
    }
    assert_true(drawn >= invariance_case_count / DRAWN_OF && (!test_is_full() || drawn == invariance_case_count));
    assert_true(computed > drawn / 2); /* the mode refuses some */
    assert_int_equal(list.compared, drawn * (2 + 4 + 2));
    for (int32_t c = 0; c < invariance_case_count; c++) invariance_free(&list.expected[c]);
    free(list.expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_has_the_bits_of_one_device),
        cmocka_unit_test(a_list_of_graphs_has_the_bits_of_one_device),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
