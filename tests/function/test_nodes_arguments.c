/* Processes that call the same function with other arguments: all return the same sentence, which
 * names the first argument that differs, with the value of process 0 and the other one; and the
 * next call that all make alike is right. The processes are threads with runtimes of their own. */
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/variable.h"
#include "runtime_launch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 3, ODD = 1, ROWS = 6, OUTPUTS = 40, LAST = OUTPUTS - 1 };

/* What process ODD passes otherwise. */
typedef enum argument {
    NOTHING,
    SHAPE,
    LAST_SHAPE,
    NOT_WANTED,
    DTYPE,
    SLICES,
    BATCH,
    RANGE,
    LIST,
    REPLICA_BATCH,
    UPDATE,
    OTHER_ROWS,
    OWN_BATCH,
    OWN_SLICES,
    ARGUMENTS
} argument;

/* Each is in process 0 as the first one, in process ODD as the second one. NULL: a hash. */
static const struct {
    const char *label, *expected, *received;
} sentences[ARGUMENTS] = {
    [SHAPE] = {"output 'o0'", "(3,) f32", "(4,) f32"},
    [LAST_SHAPE] = {"output 'o39'", "(3,) f32", "(4,) f32"}, /* in the second part of what travels */
    [NOT_WANTED] = {"output 'o0'", "(3,) f32", "not wanted"},
    [DTYPE] = {"input 'x'", "(6, 2) f32", "(6, 2) f64"},
    [SLICES] = {"options.slices", "1", "2"},
    [BATCH] = {"options.batch", "all rows", "4 rows"},
    [RANGE] = {"options.batch", "all rows", "rows 1 to 5"},
    [LIST] = {"options.batch", "all rows", "a list of 4 rows"},
    [REPLICA_BATCH] = {"options.replica_batch_count", "0", "1"},
    [UPDATE] = {"the inputs, outputs and variables of the function", NULL, NULL},
    /* beside what may differ: rows of a list, without MUSTER_CHECK; batches of own rows */
    [OTHER_ROWS] = {"the inputs, outputs and variables of the function", NULL, NULL},
    [OWN_BATCH] = {"the inputs, outputs and variables of the function", NULL, NULL},
    [OWN_SLICES] = {"options.slices", "1", "2"}, /* beside other numbers of rows */
};

static _Atomic int checked;

static muster_status fill(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    for (int32_t i = 0; i < OUTPUTS; i++)
        if (out[i].dtype != MUSTER_DTYPE_NONE) MUSTER_TRY(muster_fill(worker, 1, out[i]));
    return MUSTER_OK;
}

static muster_status describe(muster_runtime *runtime, const char *name, argument a, bool odd, muster_variable *w, muster_function **f) {
    char output[8];
    MUSTER_TRY(muster_function_create(runtime, name, fill, NULL, f));
    MUSTER_TRY(muster_function_input(*f, "x", odd && a == DTYPE ? MUSTER_F64 : MUSTER_F32, 2, MUSTER_SCATTER));
    if (a == OWN_BATCH || a == OWN_SLICES) MUSTER_TRY(muster_function_set_source(*f, "x", MUSTER_SOURCE_OWN));
    for (int32_t i = 0; i < OUTPUTS; i++) {
        snprintf(output, sizeof output, "o%d", (int)i);
        MUSTER_TRY(muster_function_output(*f, output, MUSTER_F32, 1, MUSTER_SUM));
    }
    return muster_function_variable(*f, w, MUSTER_USE_READ_SLICEABLE);
}

static muster_status call(muster_function *f, argument given, bool odd) {
    static const double x[ROWS * 2];
    static const int64_t rows[] = {0, 2, 4, 5}, other_rows[] = {1, 2, 3, 4};
    const argument a = odd ? given : NOTHING;
    float values[OUTPUTS][4];
    muster_tensor out[OUTPUTS];
    muster_call_options options;
    const muster_selection count = {.kind = MUSTER_SELECT_COUNT, .stop = 2};
    muster_call_options_init(&options);
    for (int32_t i = 0; i < OUTPUTS; i++) {
        const int64_t size = (a == SHAPE && i == 0) || (a == LAST_SHAPE && i == LAST) ? 4 : 3;
        out[i] = muster_tensor_make(MUSTER_F32, values[i], 1, &size);
    }
    if (a == NOT_WANTED) out[0] = (muster_tensor){0};
    if (a == SLICES || a == OWN_SLICES) options.slices = 2;
    if (a == BATCH || a == OWN_BATCH) options.batch = (muster_selection){.kind = MUSTER_SELECT_COUNT, .stop = 4};
    if (a == RANGE) options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 1, .stop = 5};
    if (a == LIST) options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = 4};
    if (given == OTHER_ROWS)
        options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = odd ? other_rows : rows, .index_count = 4};
    if (a == REPLICA_BATCH) options.replica_batch = &count, options.replica_batch_count = 1;
    const muster_tensor in = muster_tensor_make(a == DTYPE ? MUSTER_F64 : MUSTER_F32, (void *)(uintptr_t)x, 2,
                                                (int64_t[]){a == OWN_SLICES ? ROWS - 2 : ROWS, 2});
    MUSTER_TRY(muster_function_call(f, &in, 1, out, OUTPUTS, &options));
    return values[LAST][0] == PROCESSES ? MUSTER_OK : muster_fail(MUSTER_USER, "another sum");
}

static void expect(launch_process *p, argument a) {
    char sentence[400];
    const int written =
        sentences[a].expected
            ? snprintf(sentence, sizeof sentence,
                       "muster_function_call: %s: expected %s as in process 0 (host host0), received %s in process 1 (host host0), call ",
                       sentences[a].label, sentences[a].expected, sentences[a].received)
            : snprintf(sentence, sizeof sentence,
                       "muster_function_call: %s: expected the same as in process 0 (host host0), received others in process 1 (host "
                       "host0), call ",
                       sentences[a].label);
    const char *call_text = a == OWN_BATCH || a == OWN_SLICES ? ", function 'many' (x [rows]x2" : ", function 'many' (x 6x2";
    if (strncmp(muster_last_error(), sentence, (size_t)written) != 0 || !strstr(muster_last_error(), call_text))
        launch_fail(p, "%d: expected \"%s...\", received \"%s\"", (int)a, sentence, muster_last_error());
}

static void pass_another(launch_process *p) {
    const argument a = *(const argument *)p->context;
    const bool odd = p->process == ODD, uses_w = odd && (a == UPDATE || a == OTHER_ROWS || a == OWN_BATCH);
    const muster_runtime_options options = launch_options("host:1");
    muster_runtime *runtime;
    muster_variable *v, *w;
    muster_function *many, *plain;
    float zeros[4] = {0};
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, muster_variable_create(runtime, "v", muster_tensor_make(MUSTER_F32, zeros, 1, (int64_t[]){4}), &v));
    launch_ok(p, muster_variable_create(runtime, "w", muster_tensor_make(MUSTER_F32, zeros, 1, (int64_t[]){4}), &w));
    launch_ok(p, describe(runtime, "many", a, odd, uses_w ? w : v, &many));
    launch_ok(p, describe(runtime, "plain", NOTHING, odd, v, &plain));
    const muster_status status = call(many, a, odd);
    launch_check(p, status == (a == NOTHING ? MUSTER_OK : MUSTER_INVALID_ARGUMENT));
    if (a != NOTHING) expect(p, a);
    launch_ok(p, call(plain, NOTHING, odd));
    if (!p->error[0]) atomic_fetch_add(&checked, 1);
    launch_ok(p, muster_runtime_close(runtime));
}

static void test_the_argument_that_differs_is_named(void **state) {
    (void)state;
    int32_t cases = 0;
    for (argument a = NOTHING; a < ARGUMENTS; a++, cases++) {
        checked = 0;
        launch_run(&(wire_launch_options){.processes = PROCESSES}, pass_another, &a);
        assert_int_equal(checked, PROCESSES);
    }
    assert_int_equal(cases, 14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_argument_that_differs_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
