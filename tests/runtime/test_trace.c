/* The trace of a runtime: by call, by the environment, while others run, and what the environment
 * may say. */
#include "base_await.h"
#include "base_check.h"
#include "runtime_impl.h"
#include "scheduler_trace_check.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct place {
    char folder[200], path[260];
} place;

static place make_place(void) {
    place p;
    mst_trace_folder(p.folder, sizeof p.folder);
    snprintf(p.path, sizeof p.path, "%s/trace.json", p.folder);
    return p;
}

static char logged[1000];
static void keep_line(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

static muster_status try_open(muster_runtime **runtime) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.log = keep_line;
    return muster_runtime_open(&options, runtime);
}

static muster_runtime *open_two(void) {
    muster_runtime *runtime;
    assert_ok(try_open(&runtime));
    return runtime;
}

static muster_status record_task(muster_worker *worker, void *argument) {
    int32_t events = *(int32_t *)argument;
    for (int32_t i = 0; i < events; i++) {
        uint64_t outer = mst_record_begin(&worker->recorder, MST_EVENT_CALL, "outer", (uint64_t)i, 0);
        mst_record_end(&worker->recorder, mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, "inner", (uint64_t)i, worker->rank));
        mst_record_end(&worker->recorder, outer);
    }
    return MUSTER_OK;
}

static void run(muster_runtime *runtime, mst_task task, void *argument) {
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    muster_status status = mst_pool_run(runtime->pool, task, argument);
    mst_pool_leave(runtime->pool);
    assert_ok(status);
}

static void record_events(muster_runtime *runtime, int32_t events) { run(runtime, record_task, &events); }

static void a_trace_has_a_track_for_each_worker(void **state) {
    (void)state;
    place p = make_place();
    char expression[300];
    muster_runtime *runtime = open_two();
    record_events(runtime, 3);
    assert_ok(muster_runtime_trace(runtime, p.path));
    assert_trace(p.path,
                 "all([e['name'] for e in of(r)] == ['outer', 'inner'] * 3 and all(e['ph'] == 'X' for e in of(r)) for r in (0, 1))");
    assert_trace(p.path, "[of(r)[1]['args'] for r in (0, 1)] == [{'sequence': 0, 'bytes': r, 'kind': 'collective'} for r in (0, 1)]");
    for (int r = 0; r < 2; r++) {
        snprintf(expression, sizeof expression, "meta(%d, 'thread_name') == [{'name': 'rank %d %s'}]", r, r,
                 muster_runtime_device(runtime, r));
        assert_trace(p.path, expression);
    }
    snprintf(expression, sizeof expression, "{e['pid'] for e in trace['traceEvents']} == {%d}", (int)getpid());
    assert_trace(p.path, expression);
    assert_ok(muster_runtime_close(runtime));
    mst_trace_folder_remove(p.folder);
}

static void a_trace_that_cannot_be_written_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_two();
    int64_t live = mst_memory_live();
    assert_refused(muster_runtime_trace(NULL, "x"), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_trace: runtime: expected a runtime, received NULL");
    assert_refused(muster_runtime_trace(runtime, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_trace: path: expected the path of a file, received NULL");
    assert_refused(muster_runtime_trace(runtime, "/no/such/folder/x"), MUSTER_SYSTEM,
                   "received '/no/such/folder/x': No such file or directory");
    for (int64_t k = 1; k <= 2; k++) {
        mst_memory_fail_at(k);
        muster_status status = muster_runtime_trace(runtime, "/tmp/never");
        mst_memory_fail_at(0);
        assert_refused(status, MUSTER_OUT_OF_MEMORY, "muster_runtime_trace: out of memory");
    }
    assert_int_equal(mst_memory_live(), live);
    assert_ok(muster_runtime_close(runtime));
}

static void a_child_cannot_trace_its_parent(void **state) {
    (void)state;
    place p = make_place();
    muster_runtime *runtime = open_two();
    pid_t child = fork();
    if (child == 0) _exit(muster_runtime_trace(runtime, p.path) == MUSTER_BAD_STATE && strstr(muster_last_error(), "fork") ? 0 : 1);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_int_equal(mst_trace_folder_entries(p.folder), 0);
    assert_ok(muster_runtime_close(runtime));
    mst_trace_folder_remove(p.folder);
}

typedef struct tracing_task {
    muster_runtime *runtime;
    const char *path;
} tracing_task;

static muster_status trace_from_inside(muster_worker *worker, void *argument) {
    tracing_task *t = argument;
    int32_t events = 1;
    MUSTER_TRY(record_task(worker, &events));
    mst_record_begin(&worker->recorder, MST_EVENT_CALL, "running", 7, 0);
    return worker->rank == 1 ? muster_runtime_trace(t->runtime, t->path) : MUSTER_OK;
}

static void a_body_may_trace_and_sees_itself_running(void **state) {
    (void)state;
    place p = make_place();
    muster_runtime *runtime = open_two();
    run(runtime, trace_from_inside, &(tracing_task){runtime, p.path});
    assert_trace(p.path, "[(e['name'], e['ph']) for e in of(1)] == [('outer', 'X'), ('inner', 'X'), ('running', 'B')]");
    assert_ok(muster_runtime_close(runtime));
    mst_trace_folder_remove(p.folder);
}

typedef struct caller {
    muster_runtime *runtime;
    _Atomic bool stop;
    _Atomic int32_t runs;
} caller;

static void *keep_calling(void *context) {
    caller *c = context;
    while (!atomic_load(&c->stop)) {
        record_events(c->runtime, 50);
        atomic_fetch_add(&c->runs, 1);
    }
    return NULL;
}

static void a_trace_beside_calls_holds_whole_events(void **state) {
    (void)state;
    enum { TRACES = 5 };
    place p = make_place();
    char paths[TRACES][260];
    caller c = {.runtime = open_two()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, keep_calling, &c), 0);
    TEST_AWAIT(atomic_load(&c.runs) >= 1, 0);
    for (int i = 0; i < TRACES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.json", p.folder, i);
        assert_ok(muster_runtime_trace(c.runtime, paths[i]));
    }
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < TRACES; i++) {
        assert_trace(paths[i],
                     "all(e['name'] == ('outer' if e['args']['kind'] == 'call' else 'inner') and e.get('dur', 0) >= 0 for e in events) and "
                     "all(e['args']['bytes'] == (e['tid'] if e['name'] == 'inner' else 0) for e in events)");
    }
    assert_ok(muster_runtime_close(c.runtime));
    mst_trace_folder_remove(p.folder);
}

static void names_outlive_what_they_named(void **state) {
    (void)state;
    place p = make_place();
    muster_runtime *runtime = open_two();
    char name[] = "short lived";
    mst_object first = {.name = NULL}, second = {.name = NULL};
    assert_ok(mst_runtime_add(runtime, &first, "function", name, "test"));
    const char *kept = first.name;
    mst_record_begin(&mst_pool_worker(runtime->pool, 0)->recorder, MST_EVENT_CALL, kept, 1, 0);
    mst_runtime_remove(&first);
    memset(name, 'x', sizeof name - 1);
    assert_ok(muster_runtime_trace(runtime, p.path));
    assert_trace(p.path, "[e['name'] for e in events] == ['short lived']");
    assert_ok(mst_runtime_add(runtime, &second, "variable", "short lived", "test"));
    assert_ptr_equal(second.name, kept);
    mst_runtime_remove(&second);
    assert_ok(muster_runtime_close(runtime));
    mst_trace_folder_remove(p.folder);
}

/* The environment's count of traced runtimes belongs to the process, so these tests have one of
 * their own. */
static void in_own_process(void (*body)(const place *p)) {
    place p = make_place();
    pid_t child = fork();
    if (child == 0) {
        body(&p);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    mst_trace_folder_remove(p.folder);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

#define require(condition)                                                                            \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, muster_last_error()); \
            _exit(1);                                                                                 \
        }                                                                                             \
    } while (0)

static muster_runtime *open_and_record(int32_t events) {
    muster_runtime *runtime;
    require(try_open(&runtime) == MUSTER_OK && mst_pool_enter(runtime->pool, "test", 0) == MUSTER_OK);
    require(mst_pool_run(runtime->pool, record_task, &events) == MUSTER_OK);
    mst_pool_leave(runtime->pool);
    return runtime;
}

static void three_runtimes(const place *p) {
    char pattern[300], path[300], line[400];
    snprintf(pattern, sizeof pattern, "%s/%%p-%%p%%q.json", p->folder);
    setenv("MUSTER_TRACE", pattern, 1);
    muster_runtime *runtimes[3];
    for (int i = 0; i < 3; i++) {
        runtimes[i] = open_and_record(i + 1);
        snprintf(path, sizeof path, "%s/%d-%d%%q.json", p->folder, (int)getpid(), (int)getpid());
        if (i > 0) snprintf(path + strlen(path), 5, ".%d", i);
        snprintf(line, sizeof line, "\ntrace: at close to %s\n", path);
        require(strstr(muster_runtime_description(runtimes[i]), line));
    }
    require(mst_trace_folder_entries(p->folder) == 0);
    for (int i = 2; i >= 0; i--) require(muster_runtime_close(runtimes[i]) == MUSTER_OK);
    require(mst_trace_folder_entries(p->folder) == 3);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%d-%d%%q.json", p->folder, (int)getpid(), (int)getpid());
        if (i > 0) snprintf(path + strlen(path), 5, ".%d", i);
        snprintf(line, sizeof line, "len(of(0)) == len(of(1)) == %d", 2 * (i + 1));
        require(mst_trace_holds(path, line));
    }
}

static void the_environment_asks_for_a_trace_at_close(void **state) { (void)state, in_own_process(three_runtimes); }

static void traced_ring(const place *p) {
    setenv("MUSTER_TRACE", p->path, 1);
    muster_runtime *runtime = open_and_record(10000);
    require(strstr(muster_runtime_description(runtime), "\nrecorder: 65536 events of each worker\n"));
    require(muster_runtime_close(runtime) == MUSTER_OK);
    require(mst_trace_holds(p->path, "len(of(0)) == len(of(1)) == 20000 and trace['otherData']['events lost'] == 0"));
}

static void a_traced_runtime_keeps_more_events(void **state) { (void)state, in_own_process(traced_ring); }

static void unwritable_at_close(const place *p) {
    char path[300];
    snprintf(path, sizeof path, "%s/none/x", p->folder);
    setenv("MUSTER_TRACE", path, 1);
    muster_runtime *runtime = open_and_record(1);
    mst_error(MUSTER_USER, "an older error");
    require(muster_runtime_close(runtime) == MUSTER_OK);
    require(strstr(logged, "muster_runtime_close: the environment's MUSTER_TRACE: path: expected a file that can be written, received '"));
    require(strcmp(muster_last_error(), "an older error") == 0);
    require(mst_trace_folder_entries(p->folder) == 0);
}

static void a_trace_that_fails_at_close_is_logged(void **state) { (void)state, in_own_process(unwritable_at_close); }

static void no_trace(const place *p) {
    (void)p;
    setenv("MUSTER_TRACE", "", 1);
    int64_t live = mst_memory_live();
    muster_runtime *runtime = open_and_record(1);
    require(strstr(muster_runtime_description(runtime), "\nrecorder: 256 events of each worker\ntrace: off\nNVTX ranges: "));
    require(muster_runtime_close(runtime) == MUSTER_OK && mst_memory_live() == live);
}

static void an_empty_variable_asks_for_nothing(void **state) { (void)state, in_own_process(no_trace); }

static void failing_open(const place *p) {
    setenv("MUSTER_TRACE", p->path, 1);
    setenv("MUSTER_RECORDER_EVENTS", "1024", 1);
    int64_t live = mst_memory_live();
    muster_runtime *runtime = NULL;
    for (int64_t k = 1; !runtime; k++) {
        mst_memory_fail_at(k);
        muster_status status = try_open(&runtime);
        mst_memory_fail_at(0);
        require((status == MUSTER_OK) == (runtime != NULL));
        require(runtime || mst_memory_live() == live);
        if (runtime && k < 20) { /* an allocation whose failure has a fallback */
            require(muster_runtime_close(runtime) == MUSTER_OK);
            runtime = NULL;
        }
    }
    require(muster_runtime_close(runtime) == MUSTER_OK && mst_memory_live() == live);
}

static void every_allocation_of_a_traced_open_may_fail(void **state) { (void)state, in_own_process(failing_open); }

static void the_environment_sets_the_length_of_the_rings(void **state) {
    (void)state;
    place p = make_place();
    setenv("MUSTER_RECORDER_EVENTS", "16", 1);
    muster_runtime *runtime = open_two();
    unsetenv("MUSTER_RECORDER_EVENTS");
    assert_non_null(strstr(muster_runtime_description(runtime), "\nrecorder: 16 events of each worker\n"));
    record_events(runtime, 100);
    assert_ok(muster_runtime_trace(runtime, p.path));
    assert_trace(p.path, "len(of(0)) == len(of(1)) == 15 and trace['otherData']['events lost'] == 370");
    assert_ok(muster_runtime_close(runtime));
    mst_trace_folder_remove(p.folder);
}

static void the_environment_turns_the_recorders_off(void **state) {
    (void)state;
    place p = make_place();
    setenv("MUSTER_RECORDER_EVENTS", "0", 1);
    muster_runtime *runtime = open_two();
    unsetenv("MUSTER_RECORDER_EVENTS");
    assert_non_null(strstr(muster_runtime_description(runtime), "\nrecorder: 0 events of each worker\n"));
    record_events(runtime, 100);
    assert_ok(muster_runtime_trace(runtime, p.path));
    assert_trace(p.path, "len(of(0)) == len(of(1)) == 0 and trace['otherData']['events lost'] == 0");
    assert_ok(muster_runtime_close(runtime));
    mst_trace_folder_remove(p.folder);
}

static void lengths_that_are_no_powers_of_two_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"8", "100", "33554432", "99999999999999999999", "-256", "256 ", "0x100", "many"};
    muster_runtime *runtime;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[200];
        setenv("MUSTER_RECORDER_EVENTS", wrong[i], 1);
        snprintf(message, sizeof message, "MUSTER_RECORDER_EVENTS: expected 0, or a power of two from 16 to 16777216, received '%s'",
                 wrong[i]);
        assert_refused(try_open(&runtime), MUSTER_INVALID_ARGUMENT, message);
    }
    unsetenv("MUSTER_RECORDER_EVENTS");
    assert_ok(muster_runtime_close(open_two()));
}

static int setup(void **state) {
    (void)state;
    unsetenv("MUSTER_DEVICES");
    unsetenv("MUSTER_TRACE");
    unsetenv("MUSTER_RECORDER_EVENTS");
    unsetenv("NVTX_INJECTION64_PATH");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_has_a_track_for_each_worker),
        cmocka_unit_test(a_trace_that_cannot_be_written_is_refused),
        cmocka_unit_test(a_child_cannot_trace_its_parent),
        cmocka_unit_test(a_body_may_trace_and_sees_itself_running),
        cmocka_unit_test(a_trace_beside_calls_holds_whole_events),
        cmocka_unit_test(names_outlive_what_they_named),
        cmocka_unit_test(the_environment_asks_for_a_trace_at_close),
        cmocka_unit_test(a_traced_runtime_keeps_more_events),
        cmocka_unit_test(a_trace_that_fails_at_close_is_logged),
        cmocka_unit_test(an_empty_variable_asks_for_nothing),
        cmocka_unit_test(every_allocation_of_a_traced_open_may_fail),
        cmocka_unit_test(the_environment_sets_the_length_of_the_rings),
        cmocka_unit_test(the_environment_turns_the_recorders_off),
        cmocka_unit_test(lengths_that_are_no_powers_of_two_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
