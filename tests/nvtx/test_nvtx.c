/* Each event of the recorder is a range for the profiler that is attached when the runtime is
 * opened, and for none otherwise. NVTX looks for a profiler once in a process, so every test is a
 * process of its own. */
#include "base_check.h"
#include "base_skip.h"
#include "profiler.h"
#include "runtime_impl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PROFILER
int main(void) { return SKIP_SUITE("nvtx3/nvToolsExt.h was not found when this was configured"); }
#else

static muster_runtime *open_two(void) {
    muster_runtime_options options;
    muster_runtime *runtime = NULL;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    return muster_runtime_open(&options, &runtime) == MUSTER_OK ? runtime : NULL;
}

/* An event with two events in it. */
static muster_status record_task(muster_worker *worker, void *argument) {
    (void)argument;
    uint64_t outer = mst_record_begin(&worker->recorder, MST_EVENT_CALL, "outer", 1, 0);
    for (int i = 0; i < 2; i++)
        mst_record_end(&worker->recorder, mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, "inner", (uint64_t)i, 4096));
    mst_record_end(&worker->recorder, outer);
    return MUSTER_OK;
}

static bool run_task(muster_runtime *runtime, mst_task task) {
    if (mst_pool_enter(runtime->pool, "test", 0) != MUSTER_OK) return false;
    muster_status status = mst_pool_run(runtime->pool, task, NULL);
    mst_pool_leave(runtime->pool);
    return status == MUSTER_OK;
}

static bool run_once(muster_runtime *runtime) { return run_task(runtime, record_task); }

static bool profiler_is_loaded(void) {
    void *library = dlopen(PROFILER, RTLD_NOW | RTLD_NOLOAD);
    if (library) dlclose(library);
    return library != NULL;
}

static bool look(profiler_seen *seen) {
    void *library = dlopen(PROFILER, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return false;
    profiler_look *look_at;
    *(void **)&look_at = dlsym(library, "profiler_look_at");
    if (look_at) look_at(seen);
    dlclose(library);
    return look_at != NULL;
}

/* In the process of a test: says what is wrong and ends it. */
#define require(condition)                                                                            \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, muster_last_error()); \
            _exit(1);                                                                                 \
        }                                                                                             \
    } while (0)

static void in_own_process(void (*body)(void)) {
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

static void attached(void) {
    static profiler_seen seen;
    setenv("NVTX_INJECTION64_PATH", PROFILER, 1);
    muster_runtime *runtime = open_two();
    require(runtime && strstr(muster_runtime_description(runtime), "\nNVTX ranges: on\n"));
    require(run_once(runtime) && run_once(runtime));
    require(look(&seen));
    require(seen.domains == 1 && strcmp(seen.domain, "muster") == 0);
    require(seen.pushes == 12 && seen.pops == 12 && seen.faults == 0); /* 2 workers, 2 runs, 3 events */
    int32_t outer = 0, inner = 0, here = 0;
    for (int32_t i = 0; i < 12; i++) {
        const profiler_range *range = &seen.ranges[i];
        outer += strcmp(range->name, "outer") == 0 && range->category == MST_EVENT_CALL && range->payload == 0 && range->depth == 0;
        inner +=
            strcmp(range->name, "inner") == 0 && range->category == MST_EVENT_COLLECTIVE && range->payload == 4096 && range->depth == 1;
        here += range->thread == getpid(); /* rank 0 is served by the caller's thread */
    }
    require(outer == 4 && inner == 8 && here == 6);
    require(muster_runtime_close(runtime) == MUSTER_OK);
}

/* More events inside one than the ring holds: its own end is no longer recorded, but its range
 * ends. */
static muster_status overrun_task(muster_worker *worker, void *argument) {
    (void)argument;
    uint64_t outer = mst_record_begin(&worker->recorder, MST_EVENT_CALL, "outer", 1, 0);
    for (int i = 0; i < 2 * MST_RECORDER_EVENTS; i++)
        mst_record_end(&worker->recorder, mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, "inner", 1, 8));
    mst_record_end(&worker->recorder, outer);
    return MUSTER_OK;
}

static void overrun(void) {
    static profiler_seen seen;
    setenv("NVTX_INJECTION64_PATH", PROFILER, 1);
    muster_runtime *runtime = open_two();
    require(runtime && run_task(runtime, overrun_task) && run_task(runtime, overrun_task) && look(&seen));
    require(seen.pushes == 4 * (2 * MST_RECORDER_EVENTS + 1) && seen.pops == seen.pushes && seen.faults == 0);
    require(muster_runtime_close(runtime) == MUSTER_OK);
}

static void nothing_attached(void) {
    unsetenv("NVTX_INJECTION64_PATH");
    muster_runtime *runtime = open_two();
    require(runtime && strstr(muster_runtime_description(runtime), "\nNVTX ranges: off, no profiler is attached\n"));
    require(run_once(runtime) && !profiler_is_loaded());
    require(mst_recorder_progress(&mst_pool_worker(runtime->pool, 1)->recorder) == 6);
    require(muster_runtime_close(runtime) == MUSTER_OK);
}

static void attached_for_the_second_runtime(void) {
    static profiler_seen seen;
    unsetenv("NVTX_INJECTION64_PATH");
    muster_runtime *first = open_two();
    setenv("NVTX_INJECTION64_PATH", PROFILER, 1);
    muster_runtime *second = open_two(), *third = open_two();
    require(first && second && third && run_once(first) && run_once(second) && run_once(third) && look(&seen));
    require(seen.domains == 1 && seen.pushes == 12 && seen.pops == 12 && seen.faults == 0);
    require(muster_runtime_close(third) == MUSTER_OK && muster_runtime_close(second) == MUSTER_OK &&
            muster_runtime_close(first) == MUSTER_OK);
}

static void missing_profiler(void) {
    setenv("NVTX_INJECTION64_PATH", "/no/such/profiler.so", 1);
    muster_runtime *runtime = open_two();
    require(runtime &&
            strstr(muster_runtime_description(runtime), "\nNVTX ranges: off, the profiler of NVTX_INJECTION64_PATH does not answer\n"));
    require(run_once(runtime));
    require(muster_runtime_close(runtime) == MUSTER_OK);
}

static void test_events_are_ranges_of_an_attached_profiler(void **state) { (void)state, in_own_process(attached); }
static void test_a_range_ends_that_the_ring_has_lost(void **state) { (void)state, in_own_process(overrun); }
static void test_no_profiler_sees_nothing(void **state) { (void)state, in_own_process(nothing_attached); }
static void test_a_profiler_is_looked_for_at_every_open(void **state) { (void)state, in_own_process(attached_for_the_second_runtime); }
static void test_a_profiler_that_is_not_there_changes_nothing(void **state) { (void)state, in_own_process(missing_profiler); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_ranges_of_an_attached_profiler),
        cmocka_unit_test(test_a_range_ends_that_the_ring_has_lost),
        cmocka_unit_test(test_no_profiler_sees_nothing),
        cmocka_unit_test(test_a_profiler_is_looked_for_at_every_open),
        cmocka_unit_test(test_a_profiler_that_is_not_there_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
