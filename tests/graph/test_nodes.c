/* Graphs with one meaning over several processes, each a thread of this program: a fixed list of
 * graphs and random ones give the values of one device, however many devices each process has. */
#include "base_seed.h"
#include "graph_invariance.h"
#include "runtime_launch.h"

typedef struct layout {
    int32_t processes;
    const char *devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[] = {
    {2, {"host:2", "host:2"}}, {4, {"host:1", "host:1", "host:1", "host:1"}}, {2, {"host:3", "host:1"}}, {1, {"host:4"}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static const int64_t rows_of_calls[] = {7, 1, 64};
enum { CALLS = 3, MOST_CASES = 200, RANDOM_GRAPHS = 50 };
/* One of eight by the seed, and all with MUSTER_TEST_FULL: what one device gives takes most of the
 * time. */
enum { DRAWN_OF = 8 };
static bool is_drawn(int32_t i) { return test_is_full() || (uint64_t)i % DRAWN_OF == test_seed() % DRAWN_OF; }

/* Which cases, and what one device gives. */
typedef struct comparison {
    const layout *layout;
    invariance_case cases[MOST_CASES];
    invariance_way ways[MOST_CASES];
    invariance_values expected[MOST_CASES];
    int32_t count;
    _Atomic int32_t compared;
} comparison;
static comparison all;

static void add(const invariance_case *its, muster_dtype dtype) {
    assert_true(all.count < MOST_CASES);
    all.cases[all.count] = *its;
    all.ways[all.count] = (invariance_way){.dtype = dtype, .rows = rows_of_calls, .calls = CALLS};
    invariance_run(devices_open("host:1"), its, &all.ways[all.count], &all.expected[all.count]);
    all.count++;
}

static void body(launch_process *p) {
    comparison *c = p->context;
    muster_runtime *runtime;
    const muster_runtime_options options = launch_options(c->layout->devices[p->process]);
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_check(p, muster_runtime_size(runtime) == 4 && muster_runtime_processes(runtime) == p->processes);
    for (int32_t i = 0; i < c->count; i++) {
        if (!test_is_full() && (i + i / 2) % LAYOUTS != c->layout - layouts) continue; /* a sample: each case meets one of them */
        const invariance_case *its = &c->cases[i];
        invariance_values values;
        invariance_run(runtime, its, &c->ways[i], &values);
        const double distance = invariance_distance(&c->expected[i], &values);
        const double most = its->exact ? 0 : c->ways[i].dtype == MUSTER_F64 ? 1e-11 : 1e-5;
        if (!(distance <= most))
            launch_fail(p, "%s, seed %llu, %s: differs from one device by %g (\"%.200s\", \"%.200s\")", its->name,
                        (unsigned long long)its->seed, muster_dtype_name(c->ways[i].dtype), distance, c->expected[i].message,
                        values.message);
        invariance_free(&values);
        if (p->process == 0) c->compared++;
    }
    launch_ok(p, muster_runtime_close(runtime));
}

static void compare_all(int32_t expected) {
    for (int32_t l = 0; l < LAYOUTS; l++) {
        all.layout = &layouts[l];
        launch_run(&(wire_launch_options){.processes = layouts[l].processes, .processes_per_host = 1}, body, &all);
    }
    assert_int_equal(all.compared, test_is_full() ? LAYOUTS * expected : expected);
    for (int32_t i = 0; i < all.count; i++) invariance_free(&all.expected[i]);
    all.count = 0;
    all.compared = 0;
}

static void a_list_of_graphs_gives_the_values_of_one_device(void **state) {
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t wide = 0; wide < 2 && is_drawn(c); wide++) add(&invariance_cases[c], wide ? MUSTER_F64 : MUSTER_F32);
    assert_true(all.count >= 2 * (invariance_case_count / DRAWN_OF) && (!test_is_full() || all.count == 2 * invariance_case_count));
    compare_all(all.count);
}

static void random_graphs_give_the_values_of_one_device(void **state) {
    (void)state;
    for (int32_t i = 0; i < RANDOM_GRAPHS; i++) {
        const invariance_case its = invariance_random(test_seed() * 1000003u + (uint64_t)i);
        if (is_drawn(i)) add(&its, MUSTER_F64);
    }
    assert_true(all.count >= RANDOM_GRAPHS / DRAWN_OF && (!test_is_full() || all.count == RANDOM_GRAPHS));
    compare_all(all.count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_graphs_gives_the_values_of_one_device),
        cmocka_unit_test(random_graphs_give_the_values_of_one_device),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
