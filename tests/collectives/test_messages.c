/* Messages between two ranks: rings, tags, sizes, dtypes, and what cannot be received. */
#include "collectives_values.h"

#include <time.h>

enum { SECOND = 1000000000 };

/* ---- what arrives ---- */

/* Rank 0 begins, everybody passes on what it received plus one. */
static muster_status chain_task(muster_worker *w, void *argument) {
    int64_t count = *(int64_t *)argument;
    int32_t last = muster_worker_size(w) - 1;
    muster_tensor x = values_make(w, count, 0, 3), y = values_make(w, count, -1, 0);
    if (muster_worker_rank(w) > 0) {
        MUSTER_TRY(muster_worker_recv(w, NULL, muster_worker_rank(w) - 1, 7, y));
        MUSTER_TRY(values_expect(w, y, muster_worker_rank(w) - 1, 3));
        x = values_make(w, count, muster_worker_rank(w), 3);
    }
    if (muster_worker_rank(w) < last) MUSTER_TRY(muster_worker_send(w, NULL, muster_worker_rank(w) + 1, 7, x));
    return values_expect(w, x, muster_worker_rank(w), 3); /* a send leaves its input alone */
}

static void test_a_chain_of_messages_of_every_size(void **state) {
    (void)state;
    static int64_t counts[] = {0, 1, 1000, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) values_run_on_all(chain_task, &counts[i], 1);
}

/* Every pair, in an order in which all find their partner: first the lower ranks send. */
static muster_status pairs_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor y = values_make(w, 10, -1, 0);
    for (int32_t from = 0; from < muster_worker_size(w); from++) {
        for (int32_t to = 0; to < muster_worker_size(w); to++) {
            if (from == to) continue;
            if (muster_worker_rank(w) == from) MUSTER_TRY(muster_worker_send(w, NULL, to, from * 100 + to, values_make(w, 10, from, to)));
            if (muster_worker_rank(w) == to) MUSTER_TRY(muster_worker_recv(w, NULL, from, from * 100 + to, y));
            if (muster_worker_rank(w) == to) MUSTER_TRY(values_expect(w, y, from, to));
        }
    }
    return MUSTER_OK;
}

static void test_messages_between_all_pairs(void **state) {
    (void)state;
    values_run_on_all(pairs_task, NULL, 1);
}

/* More messages than a box holds at a time, with a collective between some of them, in the order in
 * which they were sent. */
static muster_status stream_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 1, 0, 0);
    for (int32_t i = 0; i < 300; i++) {
        if (muster_worker_rank(w) == 1) MUSTER_TRY(muster_worker_send(w, NULL, 0, i % 3, values_make(w, 1, i, 0)));
        if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_recv(w, NULL, 1, i % 3, x));
        if (muster_worker_rank(w) == 0) MUSTER_TRY(values_expect(w, x, i, 0));
        if (i % 100 == 99) MUSTER_TRY(muster_worker_barrier(w, NULL));
        mst_worker_scratch_rewind(w);
        x = values_make(w, 1, 0, 0);
    }
    return MUSTER_OK;
}

static void test_messages_of_a_pair_keep_their_order(void **state) {
    (void)state;
    values_run_on(stream_task, NULL, 2);
    values_run_on(stream_task, NULL, 3);
}

static muster_status dtypes_task(muster_worker *w, void *argument) {
    (void)argument;
    static const uint64_t bits[] = {0x0123456789abcdef, 0x7ff0000000000001, 0x8000000000000000, 0x0101010001000101};
    for (muster_dtype dtype = MUSTER_F16; dtype < MST_DTYPE_COUNT; dtype++) {
        int64_t count = 32 / muster_dtype_size(dtype);
        muster_tensor host = muster_tensor_make(dtype, (void *)bits, 1, &count);
        muster_tensor y;
        MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &count, &y));
        if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_send(w, NULL, 1, dtype, values_copy(w, host)));
        if (muster_worker_rank(w) == 1) MUSTER_TRY(muster_worker_recv(w, NULL, 0, dtype, y));
        if (muster_worker_rank(w) == 1) MUSTER_TRY(values_same(w, y, host));
    }
    return MUSTER_OK;
}

static void test_messages_of_every_dtype_arrive_bit_for_bit(void **state) {
    (void)state;
    values_run_on_all(dtypes_task, NULL, 2);
}

static muster_status largest_tag_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 3, muster_worker_rank(w), 1);
    if (muster_worker_rank(w) == 0) return muster_worker_send(w, NULL, 1, INT32_MAX, x);
    MUSTER_TRY(muster_worker_recv(w, NULL, 0, INT32_MAX, x));
    return values_expect(w, x, 0, 1);
}

static void test_the_largest_tag(void **state) {
    (void)state;
    values_run_on(largest_tag_task, NULL, 2);
}

/* Rank 0 sends two tensors, one by one or in a group, and overwrites them at once. The device of
 * rank 1 has much to do before it copies them. */
static muster_status overwritten_task(muster_worker *w, void *argument) {
    enum { FILLS = 300, TIMES = 3 };
    const bool group = *(bool *)argument;
    const int64_t count = 1000;
    muster_tensor busy;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &busy));
    for (int32_t i = 0; i < TIMES; i++) {
        muster_tensor x = values_make(w, count, muster_worker_rank(w) == 0 ? i : -1, 3),
                      y = values_make(w, count, muster_worker_rank(w) == 0 ? -i : -1, 5);
        for (int32_t k = 0; muster_worker_rank(w) == 1 && k < FILLS; k++) MUSTER_TRY(muster_fill(w, k, busy));
        if (group) MUSTER_TRY(muster_worker_group_begin(w, NULL));
        if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_send(w, NULL, 1, 0, x));
        if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_send(w, NULL, 1, 1, y));
        if (muster_worker_rank(w) == 1) MUSTER_TRY(muster_worker_recv(w, NULL, 0, 0, x));
        if (muster_worker_rank(w) == 1) MUSTER_TRY(muster_worker_recv(w, NULL, 0, 1, y));
        if (group) MUSTER_TRY(muster_worker_group_end(w, NULL));
        if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_fill(w, 77, x));
        if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_fill(w, 77, y));
        if (muster_worker_rank(w) == 1) MUSTER_TRY(values_expect(w, x, i, 3));
        if (muster_worker_rank(w) == 1) MUSTER_TRY(values_expect(w, y, -i, 5));
    }
    return MUSTER_OK;
}

static void test_a_sent_tensor_may_be_overwritten_at_once(void **state) {
    (void)state;
    for (int group = 0; group < 2; group++) values_run_on_all(overwritten_task, &(bool){group}, 2);
}

/* ---- what cannot be received ---- */

static muster_status other_tag_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 3, 0, 1);
    return muster_worker_rank(w) == 0 ? muster_worker_send(w, NULL, 1, 5, x) : muster_worker_recv(w, NULL, 0, 6, x);
}

static muster_status other_count_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, muster_worker_rank(w) == 0 ? 3 : 4, 0, 1);
    return muster_worker_rank(w) == 0 ? muster_worker_send(w, NULL, 1, 5, x) : muster_worker_recv(w, NULL, 0, 5, x);
}

static muster_status other_dtype_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t count = 3;
    muster_tensor x = values_make(w, count, 0, 1);
    muster_tensor y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F64, 1, &count, &y));
    return muster_worker_rank(w) == 0 ? muster_worker_send(w, NULL, 1, 5, x) : muster_worker_recv(w, NULL, 0, 5, y);
}

static void test_a_message_with_another_tag_count_or_dtype_is_refused_at_once(void **state) {
    (void)state;
    values_refused_on(other_tag_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
                      "recv: rank 1 expected 3 i64 with tag 6 from rank 0, which waits to send 3 i64 with tag 5");
    values_refused_on(other_count_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
                      "rank 1 expected 4 i64 with tag 5 from rank 0, which waits to send 3 i64");
    values_refused_on(other_dtype_task, NULL, 3, -1, MUSTER_INVALID_ARGUMENT,
                      "rank 1 expected 3 f64 with tag 5 from rank 0, which waits to send 3 i64");
}

static muster_status unsent_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 3, 0, 1);
    return muster_worker_rank(w) == 1 ? muster_worker_recv(w, NULL, 0, 4, x) : MUSTER_OK;
}

static muster_status unreceived_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 3, 0, 1);
    return muster_worker_rank(w) == 0 ? muster_worker_send(w, NULL, 1, 4, x) : MUSTER_OK;
}

static void test_a_peer_that_returns_without_its_message_is_named_at_once(void **state) {
    (void)state;
    values_refused_on(unsent_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
                      "rank 0 returned without sending the message of recv with tag 4, for which rank 1 waits");
    values_refused_on(unreceived_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
                      "rank 1 returned without receiving the message of send with tag 4, for which rank 0 waits");
}

/* Everybody sends first: nobody receives. */
static muster_status cycle_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 3, 0, 1);
    MUSTER_TRY(muster_worker_send(w, NULL, (muster_worker_rank(w) + 1) % muster_worker_size(w), 9, x));
    return muster_worker_recv(w, NULL, (muster_worker_rank(w) + muster_worker_size(w) - 1) % muster_worker_size(w), 9, x);
}

/* Rank 0 sends to the last rank, which is in a collective with all, in whichever order they
 * come. */
static muster_status send_and_collective_task(muster_worker *w, void *argument) {
    const int32_t *late = argument, last = muster_worker_size(w) - 1;
    muster_tensor x = values_make(w, 3, 0, 1);
    if (*late == muster_worker_rank(w)) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (muster_worker_rank(w) == 0) return muster_worker_send(w, NULL, last, 9, x);
    return muster_worker_rank(w) == last && last % 2 ? muster_worker_barrier(w, NULL) : muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
}

/* Two sends that can never end, and a send against a collective, without any deadline. */
static void test_two_ranks_that_wait_for_each_other_are_refused_at_once(void **state) {
    (void)state;
    int32_t refused = 0;
    for (int32_t again = 0; again < 5; again++, refused++)
        values_refused_on(cycle_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT, ", which waits in send for rank ");
    for (int32_t size = 2; size <= 4; size++)
        for (int32_t late = 0; late <= size; late += size - 1, refused++)
            values_refused_on(send_and_collective_task, &late, size, -1, MUSTER_INVALID_ARGUMENT, ": neither can go on");
    assert_int_equal(refused, 12);
}

static void test_a_longer_cycle_of_sends_is_refused_at_once(void **state) {
    (void)state;
    for (int32_t size = 3; size <= 5; size++)
        values_refused_on(cycle_task, NULL, size, -1, MUSTER_INVALID_ARGUMENT,
                          ": none can go on; between muster_worker_group_begin and _end a send does not wait for its receive");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain_of_messages_of_every_size),
        cmocka_unit_test(test_messages_between_all_pairs),
        cmocka_unit_test(test_messages_of_a_pair_keep_their_order),
        cmocka_unit_test(test_messages_of_every_dtype_arrive_bit_for_bit),
        cmocka_unit_test(test_the_largest_tag),
        cmocka_unit_test(test_a_sent_tensor_may_be_overwritten_at_once),
        cmocka_unit_test(test_a_message_with_another_tag_count_or_dtype_is_refused_at_once),
        cmocka_unit_test(test_a_peer_that_returns_without_its_message_is_named_at_once),
        cmocka_unit_test(test_two_ranks_that_wait_for_each_other_are_refused_at_once),
        cmocka_unit_test(test_a_longer_cycle_of_sends_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
