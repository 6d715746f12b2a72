/* Large outputs are combined by all workers together, after the body. That rendezvous is not
 * the body's: the ranks that wait inside the body for a rank that has returned early fail, and user
 * code that takes its time is no failure. */
#include "base_check.h"
#include "base_machine.h"
#include "muster/communicator.h"

#include "base_pace.h"
#include "base_skip.h"
#include "muster/function.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

enum { LARGE = 65536 };

/* Lines of the log about a wait. */
static _Atomic int32_t warnings;

static void count_warning(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    if (strstr(line, "has waited")) atomic_fetch_add(&warnings, 1);
}

/* Warns after twice the time after which it fails. */
static muster_runtime *open_devices(const char *devices, int64_t fail_after_ns) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.fail_after_ns = fail_after_ns;
    options.warn_after_ns = fail_after_ns > 0 ? 2 * fail_after_ns : 0;
    options.log = count_warning;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_function *summing(muster_runtime *runtime, muster_body body) {
    muster_function *function;
    assert_ok(muster_function_create(runtime, "summing", body, NULL, &function));
    assert_ok(muster_function_output(function, "sum", MUSTER_F32, 1, MUSTER_SUM));
    return function;
}

static muster_status call(muster_function *function, float *result) {
    muster_tensor output = muster_f32(result, LARGE);
    return muster_function_call(function, NULL, 0, &output, 1, NULL);
}

static muster_status early_return(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    MUSTER_TRY(muster_fill(w, 1, out[0]));
    return muster_worker_rank(w) == 1 ? MUSTER_OK : muster_worker_barrier(w, NULL);
}

static muster_status missing_send(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    MUSTER_TRY(muster_fill(w, 1, out[0]));
    const int64_t one = 1;
    muster_tensor received;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &one, &received));
    return muster_worker_rank(w) == 0 ? muster_worker_recv(w, NULL, 1, 3, received) : MUSTER_OK;
}

static muster_status right(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return muster_fill(w, 1, out[0]);
}

static void assert_next_call_is_right(muster_runtime *runtime, float *result) {
    muster_function *function;
    assert_ok(muster_function_create(runtime, "right", right, NULL, &function));
    assert_ok(muster_function_output(function, "sum", MUSTER_F32, 1, MUSTER_SUM));
    assert_ok(call(function, result));
    for (int32_t i = 0; i < LARGE; i++) assert_true(result[i] == (float)muster_runtime_size(runtime));
}

static void assert_fails_at_once(muster_body body, const char *text) {
    float *result = calloc(LARGE, sizeof *result);
    /* no deadline: a rank that waited in vain would wait for ever */
    muster_runtime *runtime = open_devices("host:3", -1);
    assert_refused(call(summing(runtime, body), result), MUSTER_INVALID_ARGUMENT, text);
    assert_next_call_is_right(runtime, result);
    assert_ok(muster_runtime_close(runtime));
    free(result);
}

static void a_rank_that_returns_early_fails_the_barrier_of_the_others(void **state) {
    (void)state;
    assert_fails_at_once(early_return, "rank 1");
    assert_fails_at_once(early_return, "function 'summing': muster_worker_barrier: ");
}

static void a_receive_whose_sender_returned_fails_at_once(void **state) {
    (void)state;
    assert_fails_at_once(missing_send,
                         "function 'summing': muster_worker_recv: rank 1 returned without sending the message of recv with tag 3");
}

static muster_status slow(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    const int patience = muster_worker_rank(w) == 1 ? (int)(20000 * test_pace()) : 0;
    for (int i = 0; i < patience && atomic_load(&warnings) == 0; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
    return muster_fill(w, 1, out[0]);
}

static void a_slow_body_without_collectives_is_no_failure(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: the deadline is also that of waits for the device, which may be busy for so long");
    float *result = calloc(LARGE, sizeof *result);
    muster_runtime *runtime = open_devices("host:2", test_patience(20000000));
    atomic_store(&warnings, 0);
    assert_ok(call(summing(runtime, slow), result));
    assert_true(atomic_load(&warnings) > 0); /* rank 0 has waited for twice the deadline */
    assert_true(result[LARGE - 1] == 2);
    assert_ok(muster_runtime_close(runtime));
    free(result);
}

static muster_status give_communicator(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_communicator **where = user;
    if (!*where)
        *where = muster_worker_communicator(w);
    else
        return muster_worker_barrier(w, *where);
    return MUSTER_OK;
}

static void a_communicator_of_another_runtime_is_refused(void **state) {
    (void)state;
    muster_communicator *communicator = NULL;
    muster_runtime *one = open_devices("host:1", -1), *two = open_devices("host:3", -1);
    muster_function *take, *use;
    assert_ok(muster_function_create(one, "take", give_communicator, &communicator, &take));
    assert_ok(muster_function_create(two, "use", give_communicator, &communicator, &use));
    assert_ok(muster_function_call(take, NULL, 0, NULL, 0, NULL));
    assert_refused(muster_function_call(use, NULL, 0, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "expected one of this runtime, received one of another");
    assert_ok(muster_runtime_close(two));
    assert_ok(muster_runtime_close(one));
}

static muster_status huge_shards(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    const int64_t shape[] = {INT64_C(1) << 62, 0}, four = 4;
    muster_tensor output;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &four, &output));
    muster_tensor shards = muster_tensor_make(MUSTER_F32, NULL, 2, shape);
    shards.device = output.device;
    return muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, shards, output);
}

static muster_status forgotten_end(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    return muster_worker_group_begin(w, NULL);
}

static void assert_call_fails(muster_body body, muster_status status, const char *text) {
    muster_runtime *runtime = open_devices("host:2", -1);
    muster_function *function;
    assert_ok(muster_function_create(runtime, "f", body, NULL, &function));
    assert_refused(muster_function_call(function, NULL, 0, NULL, 0, NULL), status, text);
    assert_ok(muster_runtime_close(runtime));
}

static void more_shards_than_numbers_are_refused(void **state) {
    (void)state;
    assert_call_fails(huge_shards, MUSTER_SHAPE_MISMATCH, "as shards times the output, received 0");
}

static void a_group_left_open_is_told(void **state) {
    (void)state;
    assert_call_fails(forgotten_end, MUSTER_BAD_STATE, "the body returned with an open group");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_returns_early_fails_the_barrier_of_the_others),
        cmocka_unit_test(a_receive_whose_sender_returned_fails_at_once),
        cmocka_unit_test(a_slow_body_without_collectives_is_no_failure),
        cmocka_unit_test(a_communicator_of_another_runtime_is_refused),
        cmocka_unit_test(more_shards_than_numbers_are_refused),
        cmocka_unit_test(a_group_left_open_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
