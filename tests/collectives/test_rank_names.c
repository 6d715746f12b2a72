/* Who is who in messages: ranks of the communicator, and beside them the workers' numbers where
 * those differ. The part is of workers 3 and 2 of four, which are its ranks 0 and 1. */
#include "base_pace.h"
#include "collectives_values.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { MILLISECOND = 1000000 };

typedef muster_status (*part_body)(muster_worker *w, muster_communicator *part, int32_t rank);

static muster_status in_part(muster_worker *w, void *argument) {
    part_body *body = argument;
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) < 2 ? -1 : 0, -muster_worker_rank(w), &part));
    return part ? (*body)(w, part, muster_communicator_rank(part, w)) : MUSTER_OK;
}

static void refused(part_body body, int64_t deadline, muster_status code, const char *text) {
    values_refused_on(in_part, &body, 4, deadline, code, text);
}

static muster_status other_counts(muster_worker *w, muster_communicator *part, int32_t rank) {
    muster_tensor x = values_make(w, 4 + rank, 0, 0);
    return muster_worker_all_reduce(w, part, MUSTER_SUM, x, x);
}

static void test_a_mismatch(void **state) {
    (void)state;
    refused(other_counts, -1, MUSTER_INVALID_ARGUMENT,
            "collective mismatch: rank 1 (worker 2) called all_reduce sum of 5 i64, rank 0 (worker 3) called all_reduce sum of 4 i64");
}

static muster_status other_roots(muster_worker *w, muster_communicator *part, int32_t rank) {
    muster_tensor x = values_make(w, 4, 0, 0);
    return muster_worker_broadcast(w, part, rank, x, x);
}

static void test_the_roots_of_a_mismatch(void **state) {
    (void)state;
    refused(other_roots, -1, MUSTER_INVALID_ARGUMENT,
            "collective mismatch: rank 1 (worker 2) called broadcast of 4 i64 from rank 1 (worker 2), rank 0 (worker 3) called broadcast "
            "of 4 i64 from rank 0 "
            "(worker 3) (rank ");
}

static muster_status wrong_sum(muster_worker *w, muster_communicator *part, int32_t rank) {
    return muster_worker_gather(w, part, 0, values_make(w, 2, 0, 0), rank == 0 ? values_make(w, 5, 0, 0) : muster_tensor_none());
}

static void test_the_root_whose_count_is_wrong(void **state) {
    (void)state;
    refused(wrong_sum, -1, MUSTER_SHAPE_MISMATCH, "gather: output of rank 0 (worker 3): expected 4 elements");
}

static muster_status wrong_block(muster_worker *w, muster_communicator *part, int32_t rank) {
    int64_t sent[2] = {1, 1}, received[2] = {1, rank == 0 ? 2 : 1};
    return muster_worker_all_to_all_uneven(w, part, values_make(w, 2, 0, 0), sent, values_make(w, 1 + received[1], 0, 0), received);
}

static void test_both_ends_of_a_wrong_block(void **state) {
    (void)state;
    refused(wrong_block, -1, MUSTER_SHAPE_MISMATCH,
            "muster_worker_all_to_all_uneven: rank 1 (worker 2) sends 1 elements to rank 0 (worker 3), which expects 2 from it");
}

static muster_status rank_1_returns(muster_worker *w, muster_communicator *part, int32_t rank) {
    return rank == 1 ? MUSTER_OK : muster_worker_barrier(w, part);
}

static void test_a_rank_that_returns(void **state) {
    (void)state;
    refused(rank_1_returns, -1, MUSTER_INVALID_ARGUMENT,
            "barrier: rank 1 (worker 2) returned without entering barrier, for which rank 0 (worker 3) waits (rank 3)");
}

static muster_status both_receive(muster_worker *w, muster_communicator *part, int32_t rank) {
    return muster_worker_recv(w, part, 1 - rank, 6, values_make(w, 4, 0, 0));
}

static void test_two_that_wait_for_each_other(void **state) {
    (void)state;
    part_body body = both_receive;
    collectives_pool c;
    collectives_open_with(&c, 4, 0, NULL, -1);
    assert_refused(collectives_run(&c, in_part, &body), MUSTER_INVALID_ARGUMENT, "recv: rank ");
    /* whoever waits later finds it */
    const bool zero =
        strstr(muster_last_error(), "recv: rank 0 (worker 3) waits in recv with tag 6 for rank 1 (worker 2), which waits in recv");
    assert_true(zero ||
                strstr(muster_last_error(), "recv: rank 1 (worker 2) waits in recv with tag 6 for rank 0 (worker 3), which waits in recv"));
    collectives_close(&c);
}

static muster_status only_rank_0_receives(muster_worker *w, muster_communicator *part, int32_t rank) {
    while (rank == 1 && !muster_worker_cancelled(w)) usleep(1000);
    return rank == 0 ? muster_worker_recv(w, part, 1, 6, values_make(w, 4, 0, 0)) : MUSTER_OK;
}

static void test_a_deadline(void **state) {
    (void)state;
    part_body body = only_rank_0_receives;
    collectives_pool c;
    collectives_open_with(&c, 4, 0, NULL, test_patience(50 * MILLISECOND));
    assert_refused(collectives_run(&c, in_part, &body), MUSTER_TIMEOUT, "recv: rank 0 (worker 3) waited ");
    assert_non_null(strstr(muster_last_error(), " for rank 1 (worker 2), which made no progress; rank 1 (worker 2) did last: "));
    assert_non_null(strstr(muster_last_error(), "; rank 0 (worker 3) waits for recv with tag 6"));
    collectives_close(&c);
}

static muster_status other_tags(muster_worker *w, muster_communicator *part, int32_t rank) {
    muster_tensor x = values_make(w, 4, 0, 0);
    return rank == 0 ? muster_worker_send(w, part, 1, 5, x) : muster_worker_recv(w, part, 0, 6, x);
}

static void test_both_ends_of_a_message(void **state) {
    (void)state;
    refused(other_tags, -1, MUSTER_INVALID_ARGUMENT,
            "recv: rank 1 (worker 2) expected 4 i64 with tag 6 from rank 0 (worker 3), which waits to send 4 i64 with tag 5");
}

static muster_status to_itself(muster_worker *w, muster_communicator *part, int32_t rank) {
    if (rank == 0)
        VALUES_REFUSED(muster_worker_send(w, part, 0, 0, values_make(w, 1, 0, 0)), MUSTER_INVALID_ARGUMENT,
                       "expected another than rank 0 (worker 3), received this one");
    MUSTER_TRY(muster_worker_group_begin(w, part));
    if (rank == 0) MUSTER_TRY(muster_worker_send(w, part, 0, 2, values_make(w, 1, 0, 0)));
    return muster_worker_group_end(w, part);
}

static void test_a_message_to_itself(void **state) {
    (void)state;
    refused(to_itself, -1, MUSTER_INVALID_ARGUMENT, "send: rank 0 (worker 3): expected a recv with tag 2");
}

/* What a rank is told of a failure elsewhere: worker 0 is no member of the part. */
static muster_status told_task(muster_worker *w, void *argument) {
    char *told = argument;
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) < 2 ? -1 : 0, -muster_worker_rank(w), &part));
    if (muster_worker_rank(w) == 0) return muster_fail(MUSTER_USER, "worker 0 fails");
    while (muster_worker_rank(w) == 2 && !mst_pool_aborted(w)) sched_yield(); /* else its return would be the failure */
    if (muster_worker_rank(w) != 3) return MUSTER_OK;
    muster_status status = muster_worker_barrier(w, part);
    mst_error_save(told);
    return status;
}

static void test_a_rank_that_gives_up_is_told_of_a_worker_that_is_no_member(void **state) {
    (void)state;
    char told[MST_MESSAGE_SIZE] = "";
    collectives_pool c;
    collectives_open(&c, 4, 0);
    assert_refused(collectives_run(&c, told_task, told), MUSTER_USER, "worker 0 fails (rank 0)");
    bool late = strstr(told, "after"); /* had it not begun to wait yet? */
    assert_string_equal(told, late ? "muster_worker_barrier: rank 0 (worker 3) entered it after the call was aborted"
                                   : "muster_worker_barrier: rank 0 (worker 3) gave up because worker 0 failed with USER");
    collectives_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mismatch),
        cmocka_unit_test(test_the_roots_of_a_mismatch),
        cmocka_unit_test(test_the_root_whose_count_is_wrong),
        cmocka_unit_test(test_both_ends_of_a_wrong_block),
        cmocka_unit_test(test_a_rank_that_returns),
        cmocka_unit_test(test_two_that_wait_for_each_other),
        cmocka_unit_test(test_a_deadline),
        cmocka_unit_test(test_both_ends_of_a_message),
        cmocka_unit_test(test_a_message_to_itself),
        cmocka_unit_test(test_a_rank_that_gives_up_is_told_of_a_worker_that_is_no_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
