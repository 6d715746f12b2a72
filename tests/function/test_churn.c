/* Functions and variables that are made and ended again and again: each takes as much memory as the
 * first, and what reads their names beside them reads whole ones. */
#include "base_check.h"
#include "memory_impl.h"
#include "muster/function.h"

#include <pthread.h>
#include <stdio.h>

enum { RING = 16, CHURN = 4000, NAMES = 2 * (RING + 64) };

static void ignore_line(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static muster_runtime *open_ring(void) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.recorder_events = RING;
    options.log = ignore_line;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_status no_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static void call_function(muster_runtime *runtime, const char *name) {
    muster_function *function;
    assert_ok(muster_function_create(runtime, name, no_body, NULL, &function));
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_function_destroy(function));
}

static void make_variable(muster_runtime *runtime, const char *name) {
    float value = 0;
    muster_variable *variable;
    assert_ok(muster_variable_create(runtime, name, muster_f32(&value), &variable));
    assert_ok(muster_variable_destroy(variable));
}

static void churn(muster_runtime *runtime, void (*once)(muster_runtime *runtime, const char *name), int first, int count) {
    for (int i = first; i < first + count; i++) {
        char name[32];
        snprintf(name, sizeof name, "short lived %d", i);
        once(runtime, name);
    }
}

static void objects_that_end_leave_no_memory_behind(void **state) {
    (void)state;
    void (*const kinds[])(muster_runtime * runtime, const char *name) = {call_function, make_variable};
    muster_runtime *runtime = open_ring();
    for (int kind = 0; kind < 2; kind++) {
        churn(runtime, kinds[kind], 0, 1000);
        const int64_t live = mst_memory_live();
        churn(runtime, kinds[kind], 1000, CHURN);
        assert_true(mst_memory_live() - live <= NAMES);
    }
    assert_ok(muster_runtime_close(runtime));
}

static void *dump_again(void *runtime) {
    for (int i = 0; i < 200; i++)
        if (muster_runtime_dump(runtime, RING) != MUSTER_OK) return runtime;
    return NULL;
}

/* AddressSanitizer sees a name that is read after its end. */
static void dumps_beside_functions_that_end_read_whole_names(void **state) {
    (void)state;
    muster_runtime *runtime = open_ring();
    pthread_t thread;
    void *failed;
    assert_int_equal(pthread_create(&thread, NULL, dump_again, runtime), 0);
    churn(runtime, call_function, 0, 1000);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_that_end_leave_no_memory_behind),
        cmocka_unit_test(dumps_beside_functions_that_end_read_whole_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
