/* A call that fails while data are on their way between processes: the next one uses the same
 * communicators, and what is left of the first does not meet its data. */
#include "base_await.h"
#include "base_check.h"
#include "base_pace.h"
#include "collectives_spans.h"
#include "nodes/rounds_private.h"
#include "nodes/slabs_private.h"
#include "wire_launch.h"

#include <stdlib.h>
#include <string.h>

enum { LONG = 16 << 20, BYTES_BEFORE = 1 << 20, AWAIT_NS = 10000 };

static spans_launch launch;
static muster_communicator *parts[SPANS_RANKS];
static int64_t bytes_before;

static muster_tensor vector(void *data, int64_t count) { return muster_tensor_make(MUSTER_F32, data, 1, &count); }

/* Ranks 0 and 2 are a part over both processes, rank 1 is alone. */
static muster_status split_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_split(w, NULL, spans_rank(w) % 2, 0, &parts[spans_rank(w)]);
}

/* Rank 1 gives up when its part of the other ranks' data is on its way. */
static muster_status fail_inside(muster_worker *w, void *argument) {
    (void)argument;
    if (spans_rank(w) == 1) {
        TEST_AWAIT(spans_sent_bytes(&launch) >= bytes_before + BYTES_BEFORE, AWAIT_NS);
        return mst_error(MUSTER_USER, "rank 1 gives up");
    }
    float *x = calloc(LONG, sizeof *x);
    muster_status status = muster_worker_all_reduce(w, parts[spans_rank(w)], MUSTER_SUM, vector(x, LONG), vector(x, LONG));
    free(x);
    return status == MUSTER_OK ? mst_error(MUSTER_USER, "it has come to an end") : status;
}

static muster_status check_sum(muster_worker *w, muster_communicator *communicator, int64_t count, float expected) {
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = (float)(spans_rank(w) + i % 100);
    muster_status status = muster_worker_all_reduce(w, communicator, MUSTER_SUM, vector(x, count), vector(x, count));
    const int32_t size = communicator ? muster_communicator_size(communicator) : spans_size(w);
    for (int64_t i = 0; i < count && status == MUSTER_OK; i++)
        if (x[i] != expected + (float)(size * (i % 100)))
            status = mst_error(MUSTER_USER, "rank %d: element %lld is %g", spans_rank(w), (long long)i, (double)x[i]);
    free(x);
    return status;
}

static muster_status check_task(muster_worker *w, void *argument) {
    static const int64_t counts[] = {1, 5000, 300000};
    (void)argument;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (spans_rank(w) != 1) MUSTER_TRY(check_sum(w, parts[spans_rank(w)], counts[i], 2));
        MUSTER_TRY(check_sum(w, NULL, counts[i], 3));
    }
    return MUSTER_OK;
}

static muster_status release_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_release(w, parts[spans_rank(w)]);
}

static void test_a_part(void **state) {
    (void)state;
    spans_open(&launch, &(spans_options){.counts = (const int32_t[]){2, 1}, .processes = 2});
    for (int32_t turn = 0; turn < 3; turn++) {
        const int64_t leaked = mst_slabs_leaked();
        assert_ok(spans_run(&launch, split_task, NULL));
        for (int32_t fault = 0; fault < 2; fault++) {
            bytes_before = spans_sent_bytes(&launch);
            assert_int_equal(spans_run(&launch, fail_inside, NULL), MUSTER_USER);
            assert_non_null(strstr(launch.process[0].message, "rank 1 gives up"));
            assert_string_equal(launch.process[0].message, launch.process[1].message);
            assert_ok(spans_run(&launch, check_task, NULL));
            assert_ok(spans_run(&launch, check_task, NULL));
        }
        assert_ok(spans_run(&launch, release_task, NULL));
        assert_true(mst_slabs_leaked() > leaked); /* so a transfer was really given up */
    }
    spans_close(&launch);
}

/* ---- a deadline ---- */

static muster_status sum_all(muster_worker *w, void *argument) {
    (void)argument;
    float *x = calloc(LONG, sizeof *x);
    const muster_status status = muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(x, LONG), vector(x, LONG));
    free(x);
    return status;
}

static muster_status check_all(muster_worker *w, void *argument) {
    (void)argument;
    MUSTER_TRY(check_sum(w, NULL, 3, 1));
    return check_sum(w, NULL, 300000, 1);
}

static bool has_given_up(const spans_process *process) {
    const mst_nodes *nodes = process->nodes;
    pthread_mutex_lock(&nodes->wire->lock);
    const bool given_up = mst_control_is_poisoned(&nodes->rounds->control, MST_CONTROL_FAILED, mst_nodes_epoch(nodes));
    pthread_mutex_unlock(&nodes->wire->lock);
    return given_up;
}

/* Nothing comes through while data are on their way, until both processes have given up. */
static void *cut_and_heal(void *context) {
    (void)context;
    TEST_AWAIT(spans_sent_bytes(&launch) >= bytes_before + BYTES_BEFORE, AWAIT_NS);
    wire_launch_cut(launch.wire, 0, 1);
    for (int32_t p = 0; p < 2; p++) TEST_AWAIT(has_given_up(&launch.process[p]), AWAIT_NS);
    wire_launch_heal(launch.wire, 0, 1);
    return NULL;
}

static void test_a_deadline(void **state) {
    (void)state;
    spans_open(&launch, &(spans_options){.counts = (const int32_t[]){1, 1}, .processes = 2, .fail_after_ns = test_patience(2000000000)});
    pthread_t thread;
    const int64_t leaked = mst_slabs_leaked();
    bytes_before = spans_sent_bytes(&launch);
    assert_int_equal(pthread_create(&thread, NULL, cut_and_heal, NULL), 0);
    assert_int_equal(spans_run(&launch, sum_all, NULL), MUSTER_TIMEOUT);
    pthread_join(thread, NULL);
    assert_non_null(strstr(launch.process[0].message, "in all_reduce for process"));
    assert_string_equal(launch.process[0].message, launch.process[1].message);
    assert_ok(spans_run(&launch, check_all, NULL));
    assert_true(mst_slabs_leaked() > leaked);
    spans_close(&launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_part), cmocka_unit_test(test_a_deadline)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
