/* The clocks of processes, compared when runtimes open that write traces. */
#include "clock_impl.h"
#include "runtime_launch.h"

#include "clocks_private.h"
#include "runtime_impl.h"

/* Ahead of process 0, whose own clock is far from the real one, too. */
static const int64_t shifts[LAUNCH_PROCESSES] = {5000000000000, 8000000000000, 1000, 5000000000000};

static int64_t shifted(void *user) { return mst_now_ns() + *(const int64_t *)user; }

/* Whatever the rounds take, the true distance lies between the bounds. */
static void compare(launch_process *p) {
    const muster_runtime_options options = launch_options("host:1");
    muster_runtime *runtime;
    mst_clock_bounds bounds;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    int64_t shift = shifts[p->process];
    const int64_t ahead = shift - shifts[0];
    launch_ok(p, mst_clocks_compare(runtime->nodes, shifted, &shift, &bounds));
    launch_check(p, bounds.least <= ahead && ahead <= bounds.most);
    launch_check(p, p->process == 0 ? bounds.least == bounds.most : bounds.least < bounds.most);
    /* in the middle: 0 only where that is possible */
    const int64_t guess = mst_clock_ahead(&bounds);
    launch_check(p, guess - ahead <= bounds.most - bounds.least && ahead - guess <= bounds.most - bounds.least);
    launch_check(p, (guess == 0) == (ahead == 0));
    launch_ok(p, muster_runtime_close(runtime));
}

static void the_distance_lies_between_the_bounds(void **state) {
    (void)state;
    for (int32_t processes = 2; processes <= 4; processes++)
        launch_run(&(wire_launch_options){.processes = processes, .processes_per_host = 1}, compare, NULL);
}

static void the_guess_is_the_middle_or_0(void **state) {
    (void)state;
    static const struct {
        mst_clock_bounds bounds;
        int64_t ahead;
    } cases[] = {{{10, 20}, 15}, {{-20, -10}, -15}, {{-1, 1000}, 0}, {{0, 10}, 0}, {{-10, 0}, 0}, {{1, 10}, 5}, {{7, 7}, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_int_equal(mst_clock_ahead(&cases[i].bounds), cases[i].ahead);
}

/* Of one launch where one process traces all compare, and the program goes on as ever. */
static void trace_in_one(launch_process *p) {
    muster_runtime_options options = launch_options("host:1");
    muster_runtime *runtime;
    if (p->process == 1) options.trace = p->context;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_check(p, runtime->clock_ahead_ns == 0); /* they have one clock */
    launch_ok(p, muster_runtime_close(runtime));
}

static void one_process_may_trace_alone(void **state) {
    (void)state;
    char folder[] = "/tmp/muster-clocks-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/trace", folder);
    launch_run(&(wire_launch_options){.processes = 3}, trace_in_one, path);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distance_lies_between_the_bounds),
        cmocka_unit_test(the_guess_is_the_middle_or_0),
        cmocka_unit_test(one_process_may_trace_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
