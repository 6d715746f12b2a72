/* Programs of a launch that do not make the same calls: each process returns the same whole
 * sentence, nothing hangs, and the next call that all make is right. The processes are threads with
 * runtimes of their own, on three hosts. */
#include "base_await.h"
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/variable.h"
#include "runtime_launch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 3, ODD = 2 }; /* the process that does otherwise */

static _Atomic int checked;

/* What each process has, with its runtime open. */
typedef struct program {
    launch_process *p;
    muster_runtime *runtime;
    muster_function *train, *evaluate;
    muster_variable *w;
    float x[6];
    int64_t rows; /* of the tensor that train takes */
    muster_collect_mode collected;
    bool odd;
} program;
typedef void (*program_body)(launch_process *p, program *g);

static muster_status train_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return muster_fill(worker, muster_worker_rank(worker), out[0]);
}

static muster_status make_functions(program *g) {
    MUSTER_TRY(muster_function_create(g->runtime, "train", train_body, NULL, &g->train));
    MUSTER_TRY(muster_function_input(g->train, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    MUSTER_TRY(muster_function_output(g->train, "loss", MUSTER_F32, 0, g->collected));
    MUSTER_TRY(muster_function_create(g->runtime, "evaluate", train_body, NULL, &g->evaluate));
    return muster_function_output(g->evaluate, "error", MUSTER_F32, 0, MUSTER_SUM);
}

/* Calls give 0 + 1 + 2 as the sum of the ranks. */
static muster_status call(program *g, muster_function *f, const muster_call_options *options) {
    float sum = -1;
    const muster_tensor x = muster_tensor_make(MUSTER_F32, g->x, 1, &g->rows), out = muster_tensor_make(MUSTER_F32, &sum, 0, NULL);
    MUSTER_TRY(muster_function_call(f, &x, f == g->train, &out, 1, options));
    return sum == 3 || (f == g->train && g->collected == MUSTER_MAX) ? MUSTER_OK : muster_fail(MUSTER_USER, "another sum");
}

static void run_program(launch_process *p) {
    program g = {.p = p, .x = {1, 2, 3, 4, 5, 6}, .rows = 3, .collected = MUSTER_SUM, .odd = p->process == ODD};
    program_body body;
    memcpy(&body, p->context, sizeof body);
    const muster_runtime_options options = launch_options("host:1");
    float w = 1;
    launch_ok(p, muster_runtime_open(&options, &g.runtime));
    launch_ok(p,
              muster_variable_create(g.runtime, "w", muster_tensor_make(MUSTER_F32, &w, 0, NULL), &g.w)); /* call 4: opening takes three */
    body(p, &g);
    if (!p->error[0]) atomic_fetch_add(&checked, 1);
    const muster_status closed = muster_runtime_close(g.runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

static void run_body(program_body body) {
    checked = 0;
    launch_run(&(wire_launch_options){.processes = PROCESSES, .processes_per_host = 1}, run_program, &body);
    assert_int_equal(checked, PROCESSES);
}

/* ---- calls that differ ---- */

static void call_another_function(launch_process *p, program *g) {
    launch_ok(p, make_functions(g));
    launch_says(p, call(g, g->odd ? g->evaluate : g->train, NULL), MUSTER_INVALID_ARGUMENT,
                "muster_function_call: process 2 (host host2): call 5 is function 'evaluate' (-> error sum) here and "
                "function 'train' (x 3 -> loss sum) in process 0 (host host0)");
    launch_ok(p, call(g, g->train, NULL));
}

static void test_another_function(void **state) {
    (void)state;
    run_body(call_another_function);
}

static void call_in_another_order(launch_process *p, program *g) {
    launch_ok(p, make_functions(g));
    launch_says(p, call(g, g->odd ? g->evaluate : g->train, NULL), MUSTER_INVALID_ARGUMENT,
                "muster_function_call: process 2 (host host2): call 5 is function 'evaluate' (-> error sum) here and "
                "function 'train' (x 3 -> loss sum) in process 0 (host host0)");
    launch_says(p, call(g, g->odd ? g->train : g->evaluate, NULL), MUSTER_INVALID_ARGUMENT,
                "muster_function_call: process 2 (host host2): call 6 is function 'train' (x 3 -> loss sum) here and "
                "function 'evaluate' (-> error sum) in process 0 (host host0)");
    launch_ok(p, call(g, g->evaluate, NULL));
}

static void test_another_order(void **state) {
    (void)state;
    run_body(call_in_another_order);
}

static void pass_another_shape(launch_process *p, program *g) {
    launch_ok(p, make_functions(g));
    g->rows = g->odd ? 6 : 3;
    launch_says(p, call(g, g->train, NULL), MUSTER_INVALID_ARGUMENT,
                "muster_function_call: process 2 (host host2): call 5 is function 'train' (x 6 -> loss sum) here and "
                "function 'train' (x 3 -> loss sum) in process 0 (host host0)");
    g->rows = 3;
    launch_ok(p, call(g, g->train, NULL));
}

static void test_another_shape(void **state) {
    (void)state;
    run_body(pass_another_shape);
}

static void describe_otherwise(launch_process *p, program *g) {
    g->collected = g->odd ? MUSTER_MAX : MUSTER_SUM;
    launch_ok(p, make_functions(g));
    for (int32_t i = 0; i < 2; i++) {
        char sentence[200];
        snprintf(sentence, sizeof sentence,
                 "muster_function_call: process 2 (host host2): call %d is function 'train' (x 3 -> loss max) here and "
                 "function 'train' (x 3 -> loss sum) in process 0 (host host0)",
                 (int)i + 5);
        launch_says(p, call(g, g->train, NULL), MUSTER_INVALID_ARGUMENT, sentence);
    }
    launch_ok(p, call(g, g->evaluate, NULL));
}

static void test_another_description(void **state) {
    (void)state;
    run_body(describe_otherwise);
}

static void set_a_variable(launch_process *p, program *g) {
    float value = 2;
    launch_ok(p, make_functions(g));
    if (g->odd)
        launch_says(p, muster_variable_set(g->w, 0, muster_tensor_make(MUSTER_F32, &value, 0, NULL)), MUSTER_INVALID_ARGUMENT,
                    "muster_variable_set: process 2 (host host2): call 5 is muster_variable_set of variable 'w' here and "
                    "function 'train' (x 3 -> loss sum) in process 0 (host host0)");
    else
        launch_says(p, call(g, g->train, NULL), MUSTER_INVALID_ARGUMENT,
                    "muster_function_call: process 2 (host host2): call 5 is muster_variable_set of variable 'w' here and "
                    "function 'train' (x 3 -> loss sum) in process 0 (host host0)");
    launch_ok(p, muster_variable_get(g->w, 1, muster_tensor_make(MUSTER_F32, &value, 0, NULL)));
    launch_check(p, value == 1);
}

static void test_an_operation_on_a_variable_beside_a_call(void **state) {
    (void)state;
    run_body(set_a_variable);
}

/* ---- calls that one process refuses ---- */

/* The deadline lets a process that waits in vain end the test. */
static muster_call_options with_deadline(void) {
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = test_patience(2000000000);
    return options;
}

typedef enum refused_call { CALL, SINGLE, PREPARE, NAMED, ANOTHER_NAME, REFUSED_CALLS } refused_call;
static refused_call refused_as;

/* The odd process passes queue_timeout_ns = -1, or the name of no input. */
static void pass_what_is_refused(launch_process *p, program *g) {
    muster_call_options options = with_deadline();
    float sum = -1;
    const char *const inputs[] = {g->odd && refused_as == ANOTHER_NAME ? "z" : "x"}, *const outputs[] = {"loss"};
    const muster_tensor x = muster_tensor_make(MUSTER_F32, g->x, 1, &g->rows), out = muster_tensor_make(MUSTER_F32, &sum, 0, NULL);
    launch_ok(p, make_functions(g));
    if (g->odd && refused_as != ANOTHER_NAME) options.queue_timeout_ns = -1;
    const muster_status status = refused_as == CALL      ? muster_function_call(g->train, &x, 1, &out, 1, &options)
                                 : refused_as == SINGLE  ? muster_function_call_single(g->train, &x, 1, &out, 1, &options)
                                 : refused_as == PREPARE ? muster_function_prepare(g->train, &x, 1, &out, 1, &options)
                                                         : muster_function_call_named(g->train, inputs, &x, 1, outputs, &out, 1, &options);
    launch_check(p, status == MUSTER_INVALID_ARGUMENT);
    launch_check(p, strstr(muster_last_error(), refused_as == ANOTHER_NAME ? "received 'z'" : "queue_timeout_ns: expected") != NULL);
    options = with_deadline();
    launch_ok(p, call(g, g->train, &options));
}

static void test_options_and_names_that_one_process_refuses(void **state) {
    (void)state;
    for (refused_as = CALL; refused_as < REFUSED_CALLS; refused_as++) run_body(pass_what_is_refused);
    assert_int_equal(refused_as, 5);
}

/* ---- asynchronous calls that one process refuses ---- */

/* 1: the odd process has refused its call, and the others may make theirs. */
static _Atomic int refused_at_once;

static muster_status call_in_the_background(program *g, float *sum, muster_pending **pending) {
    const muster_tensor x = muster_tensor_make(MUSTER_F32, g->x, 1, &g->rows), out = muster_tensor_make(MUSTER_F32, sum, 0, NULL);
    return muster_function_call_async(g->train, &x, 1, &out, 1, NULL, pending);
}

static void refuse_in_the_background(launch_process *p, program *g) {
    static const char sentence[] = "inputs: expected the 1 of function 'train', received NULL";
    muster_pending *before, *pending, *after;
    float sums[3] = {-1, -1, -1};
    const muster_tensor out = muster_tensor_make(MUSTER_F32, &sums[1], 0, NULL);
    launch_ok(p, make_functions(g));
    TEST_AWAIT(g->odd || refused_at_once || launch_has_failed(), 0);
    launch_ok(p, call_in_the_background(g, &sums[0], &before));
    if (g->odd) {
        const muster_status refused = muster_function_call_async(g->train, NULL, 1, &out, 1, NULL, &pending);
        refused_at_once = 1;
        launch_refused(p, refused, MUSTER_INVALID_ARGUMENT, sentence);
        launch_check(p, pending == NULL);
    } else {
        launch_ok(p, call_in_the_background(g, &sums[1], &pending));
    }
    launch_ok(p, call_in_the_background(g, &sums[2], &after));
    launch_ok(p, muster_pending_wait(&before));
    if (!g->odd) {
        launch_refused(p, muster_pending_wait(&pending), MUSTER_INVALID_ARGUMENT, sentence);
        launch_check(p, strstr(muster_last_error(), "process 2 (host host2)") != NULL);
    }
    launch_ok(p, muster_pending_wait(&after));
    launch_check(p, sums[0] == 3 && sums[1] == -1 && sums[2] == 3);
    launch_ok(p, call(g, g->train, NULL));
}

static void test_an_asynchronous_call_that_one_process_refuses(void **state) {
    (void)state;
    refused_at_once = 0;
    run_body(refuse_in_the_background);
    assert_int_equal(refused_at_once, 1);
}

/* The function ends behind the refusal, which has been queued before. */
static void destroy_behind_a_refusal(launch_process *p, program *g) {
    muster_pending *pending;
    float sum = -1;
    const muster_tensor out = muster_tensor_make(MUSTER_F32, &sum, 0, NULL);
    launch_ok(p, make_functions(g));
    if (g->odd) {
        launch_check(p, muster_function_call_async(g->train, NULL, 1, &out, 1, NULL, &pending) == MUSTER_INVALID_ARGUMENT);
    } else {
        launch_ok(p, call_in_the_background(g, &sum, &pending));
        launch_check(p, muster_pending_wait(&pending) == MUSTER_INVALID_ARGUMENT);
    }
    launch_ok(p, muster_function_destroy(g->train));
    launch_ok(p, call(g, g->evaluate, NULL));
}

static void test_a_function_that_ends_behind_a_refusal(void **state) {
    (void)state;
    run_body(destroy_behind_a_refusal);
}

/* The k-th allocation fails, in whichever process makes it. */
enum { FAILING_ALLOCATIONS = 30 };
static muster_status poor_statuses[PROCESSES][FAILING_ALLOCATIONS];

static void call_without_memory(launch_process *p, program *g) {
    launch_ok(p, make_functions(g));
    launch_ok(p, call(g, g->train, NULL));
    for (int k = 0; k < FAILING_ALLOCATIONS; k++) {
        muster_pending *pending;
        float sum = -1;
        launch_check(p, launch_fail_allocation(p, k + 1));
        muster_status status = call_in_the_background(g, &sum, &pending);
        if (!status) status = muster_pending_wait(&pending);
        poor_statuses[p->process][k] = status;
        launch_check(p, launch_fail_allocation(p, 0));
        launch_ok(p, call(g, g->train, NULL));
    }
}

static void test_an_asynchronous_call_without_memory(void **state) {
    (void)state;
    int failed = 0;
    run_body(call_without_memory);
    for (int k = 0; k < FAILING_ALLOCATIONS; k++) {
        for (int p = 1; p < PROCESSES; p++) assert_int_equal(poor_statuses[p][k], poor_statuses[0][k]);
        failed += poor_statuses[0][k] != MUSTER_OK;
    }
    assert_in_range(failed, PROCESSES, FAILING_ALLOCATIONS - 1); /* each keeps the arguments of its call */
}

/* ---- more asynchronous calls than the queue of one process takes ---- */

enum { QUEUED = 200 };
static _Atomic int all_are_queued;

static muster_status held_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const program *g = user;
    (void)in;
    TEST_AWAIT(g->odd || all_are_queued || launch_has_failed(), 0);
    return muster_fill(worker, 1, out[0]);
}

/* The first call lasts until the odd process has queued all that it makes; the others wait for each
 * of theirs. */
static void queue_many_calls(launch_process *p, program *g) {
    static float results[PROCESSES][QUEUED];
    muster_pending *pending[QUEUED] = {NULL};
    muster_function *held;
    float *const r = results[p->process];
    memset(r, 0, sizeof results[p->process]);
    launch_ok(p, muster_function_create(g->runtime, "held", held_body, g, &held));
    launch_ok(p, muster_function_output(held, "r", MUSTER_F32, 0, MUSTER_SUM));
    for (int32_t i = 0; i < QUEUED; i++) {
        const muster_tensor out = muster_tensor_make(MUSTER_F32, &r[i], 0, NULL);
        if (g->odd)
            launch_ok(p, muster_function_call_async(held, NULL, 0, &out, 1, NULL, &pending[i]));
        else
            launch_ok(p, muster_function_call(held, NULL, 0, &out, 1, NULL));
    }
    if (g->odd) all_are_queued = 1;
    for (int32_t i = 0; g->odd && i < QUEUED; i++) launch_ok(p, muster_pending_wait(&pending[i]));
    for (int32_t i = 0; i < QUEUED; i++) launch_check(p, r[i] == PROCESSES);
}

static void test_a_queue_takes_more_calls_than_that_of_one_process(void **state) {
    (void)state;
    all_are_queued = 0;
    run_body(queue_many_calls);
    assert_int_equal(all_are_queued, 1);
}

/* ---- calls that not all make ---- */

/* `if (process == 0) call();`, and then what all call. */
static void call_in_process_0(launch_process *p, program *g) {
    launch_ok(p, make_functions(g));
    launch_says(p, call(g, p->process == 0 ? g->train : g->evaluate, NULL), MUSTER_INVALID_ARGUMENT,
                "muster_function_call: process 1 (host host1): call 5 is function 'evaluate' (-> error sum) here and "
                "function 'train' (x 3 -> loss sum) in process 0 (host host0)");
    launch_ok(p, call(g, g->evaluate, NULL));
}

static void test_a_call_of_process_0_before_one_of_all(void **state) {
    (void)state;
    run_body(call_in_process_0);
}

/* The same where the others have nothing left to call. */
static void call_in_process_0_at_the_end(launch_process *p, program *g) {
    launch_ok(p, make_functions(g));
    if (p->process != 0) return;
    for (int32_t i = 0; i < 2; i++)
        launch_says(p, call(g, g->train, NULL), MUSTER_BAD_STATE,
                    "muster_function_call: process 1 (host host1) has closed its runtime, without which there are no calls");
}

static void test_a_call_of_process_0_after_those_of_all(void **state) {
    (void)state;
    run_body(call_in_process_0_at_the_end);
}

static void make_no_call(launch_process *p, program *g) {
    const int64_t deadline = 400000000;
    muster_call_options options;
    char sentence[300];
    launch_ok(p, make_functions(g));
    muster_call_options_init(&options);
    options.fail_after_ns = deadline;
    launch_ok(p, call(g, g->evaluate, NULL));
    if (g->odd) launch_check(p, launch_meet(p)); /* when the others have given up */
    const muster_status status = call(g, g->train, &options);
    if (!g->odd) launch_check(p, launch_meet(p));
    launch_check(p, status == MUSTER_TIMEOUT);
    /* the process whose deadline comes first decides the sentence of all */
    bool right = false;
    for (int32_t first = 0; first < ODD && !right; first++) {
        snprintf(sentence, sizeof sentence,
                 "muster_function_call: process %d (host host%d) waited N s in call 6 (function 'train' (x 3 -> loss sum)) for process 2 "
                 "(host host2), which has made no call; its last was call 5 (function 'evaluate' (-> error sum))",
                 (int)first, (int)first);
        right = launch_is_sentence(sentence);
    }
    if (!right) launch_fail(p, "expected a sentence as \"%s\", received \"%s\"", sentence, muster_last_error());
    launch_ok(p, call(g, g->train, NULL));
}

static void test_a_process_that_makes_no_call(void **state) {
    (void)state;
    run_body(make_no_call);
}

/* ---- what is compared where it is asked for ---- */

static void select_other_rows(launch_process *p, program *g) {
    const int64_t rows[] = {2, 0, g->odd ? 2 : 1};
    muster_call_options options;
    launch_ok(p, make_functions(g));
    muster_call_options_init(&options);
    options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = 3};
    launch_says(p, call(g, g->train, &options), MUSTER_INVALID_ARGUMENT,
                "muster_function_call: the rows of options.batch: expected the same as in process 0 (host host0), received others in "
                "process 2 (host host2), call 5, function 'train' (x 3 -> loss sum)");
    options.batch.index_count = 2;
    launch_ok(p, call(g, g->train, &options));
}

static void test_other_rows_of_a_list(void **state) {
    (void)state;
    assert_int_equal(setenv("MUSTER_CHECK", "1", 1), 0);
    run_body(select_other_rows);
    unsetenv("MUSTER_CHECK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_function),
        cmocka_unit_test(test_another_order),
        cmocka_unit_test(test_another_shape),
        cmocka_unit_test(test_another_description),
        cmocka_unit_test(test_an_operation_on_a_variable_beside_a_call),
        cmocka_unit_test(test_options_and_names_that_one_process_refuses),
        cmocka_unit_test(test_an_asynchronous_call_that_one_process_refuses),
        cmocka_unit_test(test_a_function_that_ends_behind_a_refusal),
        cmocka_unit_test(test_an_asynchronous_call_without_memory),
        cmocka_unit_test(test_a_queue_takes_more_calls_than_that_of_one_process),
        cmocka_unit_test(test_a_call_of_process_0_before_one_of_all),
        cmocka_unit_test(test_a_call_of_process_0_after_those_of_all),
        cmocka_unit_test(test_a_process_that_makes_no_call),
        cmocka_unit_test(test_other_rows_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
