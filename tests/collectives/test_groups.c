/* Groups: collectives and messages that run together, in one round. */
#include "collectives_values.h"

static int64_t sum_of_ranks(int32_t size) { return (int64_t)size * (size - 1) / 2; }

/* ---- collectives ---- */

static muster_status several_task(muster_worker *w, void *argument) {
    int64_t count = *(int64_t *)argument, n = muster_worker_size(w);
    muster_tensor a = values_make(w, count, muster_worker_rank(w), 1), sum = values_make(w, count, -1, 0),
                  b = values_make(w, count, muster_worker_rank(w) * 10, 2);
    muster_tensor c = values_make(w, count, muster_worker_rank(w), 0), all = values_make(w, count * n, -1, 0),
                  part = values_make(w, count, -1, 0);
    muster_tensor d = values_make(w, count * n, 5, 1), e = values_make(w, count * n, muster_worker_rank(w), 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, a, sum));
    MUSTER_TRY(muster_worker_broadcast(w, NULL, muster_worker_size(w) - 1, b, b));
    MUSTER_TRY(muster_worker_all_gather(w, NULL, c, all));
    MUSTER_TRY(muster_worker_reduce_scatter(w, NULL, MUSTER_MAX, d, part));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_worker_all_to_all(w, NULL, e, e));
    MUSTER_TRY(values_expect(w, sum, -1, 0)); /* only noted so far */
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    MUSTER_TRY(values_expect(w, sum, sum_of_ranks(muster_worker_size(w)), n));
    MUSTER_TRY(values_expect(w, b, (n - 1) * 10, 2));
    MUSTER_TRY(values_expect(w, part, 5 + muster_worker_rank(w) * count, 1));
    for (int64_t r = 0; r < n; r++) {
        MUSTER_TRY(values_expect_part(w, all, r * count, (r + 1) * count, r, 0));
        MUSTER_TRY(values_expect_part(w, e, r * count, (r + 1) * count, r, 0));
    }
    return MUSTER_OK;
}

static void test_several_collectives_in_one_round(void **state) {
    (void)state;
    static int64_t counts[] = {0, 1, 100, 20000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) values_run_on_all(several_task, &counts[i], 1);
}

static muster_status rooted_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t n = muster_worker_size(w);
    muster_tensor sums = values_make(w, n, -1, 0), scattered = values_make(w, n, -1, 0), gathered = values_make(w, n, -1, 0),
                  none = muster_tensor_none();
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    /* rank r ends with the sum, the gathered values and what everybody scattered */
    for (int32_t root = 0; root < n; root++) {
        bool own = muster_worker_rank(w) == root;
        MUSTER_TRY(muster_worker_reduce(w, NULL, MUSTER_SUM, root, values_make(w, 1, muster_worker_rank(w) + root, 0),
                                        own ? muster_tensor_slice(sums, 0, 1) : none));
        MUSTER_TRY(muster_worker_gather(w, NULL, root, values_make(w, 1, muster_worker_rank(w) * 100 + root, 0), own ? gathered : none));
        MUSTER_TRY(muster_worker_scatter(w, NULL, root, own ? values_make(w, n, root * 100, 1) : none,
                                         muster_tensor_slice(scattered, root, root + 1)));
    }
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    MUSTER_TRY(values_expect_part(w, sums, 0, 1, sum_of_ranks(muster_worker_size(w)) + n * muster_worker_rank(w), 0));
    MUSTER_TRY(values_expect(w, gathered, muster_worker_rank(w), 100));
    return values_expect(w, scattered, muster_worker_rank(w), 100);
}

static void test_rooted_collectives_of_every_root_in_one_round(void **state) {
    (void)state;
    values_run_on_all(rooted_task, NULL, 1);
}

static muster_status uneven_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t sent[16], received[16], total_sent = 0, total_received = 0;
    for (int32_t r = 0; r < muster_worker_size(w); r++) { /* as many elements as its number to each rank */
        total_sent += sent[r] = r;
        total_received += received[r] = muster_worker_rank(w);
    }
    muster_tensor x = values_make(w, total_sent, muster_worker_rank(w), 0), y = values_make(w, total_received, -1, 0),
                  p = values_make(w, 50, 1, 0);
    double one[50], two[50];
    for (int i = 0; i < 50; i++) one[i] = 1, two[i] = i;
    muster_tensor gradient = values_copy(w, muster_f64(one, 50)), parameter = values_copy(w, muster_f64(two, 50));
    for (int i = 0; i < 50; i++) two[i] = i - 0.5 * muster_worker_size(w);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_all_to_all_uneven(w, NULL, x, sent, y, received));
    MUSTER_TRY(muster_worker_all_reduce_axpy(w, NULL, -0.5, gradient, parameter));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, p, p));
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    for (int32_t r = 0; r < muster_worker_size(w); r++)
        MUSTER_TRY(values_expect_part(w, y, r * muster_worker_rank(w), (r + 1) * muster_worker_rank(w), r, 0));
    MUSTER_TRY(values_same(w, parameter, muster_f64(two, 50)));
    return values_expect(w, p, muster_worker_size(w), 0);
}

static void test_uneven_exchange_and_update_in_one_round(void **state) {
    (void)state;
    values_run_on_all(uneven_task, NULL, 1);
}

static muster_status repeated_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 10, muster_worker_rank(w), 0), y = values_make(w, 10, 1, 0);
    for (int64_t i = 0; i < 50; i++) {
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        MUSTER_TRY(muster_worker_broadcast(w, NULL, (int32_t)(i % muster_worker_size(w)), x, x));
        if (i % 3) MUSTER_TRY(muster_worker_broadcast(w, NULL, 0, y, y));
        MUSTER_TRY(muster_worker_group_end(w, NULL));
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_MIN, y, y)); /* and by itself, between them */
    }
    MUSTER_TRY(values_expect(w, y, 1, 0));
    return values_expect(w, x, 0, 0);
}

static void test_groups_again_and_again(void **state) {
    (void)state;
    values_run_on_all(repeated_task, NULL, 1);
}

/* ---- messages ---- */

static muster_status ring_task(muster_worker *w, void *argument) {
    int64_t count = *(int64_t *)argument;
    int32_t right = (muster_worker_rank(w) + 1) % muster_worker_size(w),
            left = (muster_worker_rank(w) + muster_worker_size(w) - 1) % muster_worker_size(w);
    muster_tensor a = values_make(w, count, muster_worker_rank(w), 1), b = values_make(w, count, -muster_worker_rank(w), 2),
                  c = values_make(w, count, -1, 0), d = values_make(w, count, -1, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, right, 1, a));
    MUSTER_TRY(muster_worker_send(w, NULL, left, 2, b));
    MUSTER_TRY(muster_worker_recv(w, NULL, left, 1, c));
    MUSTER_TRY(muster_worker_recv(w, NULL, right, 2, d));
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    MUSTER_TRY(values_expect(w, c, left, 1));
    return values_expect(w, d, -right, 2);
}

static void test_a_ring_in_both_directions(void **state) {
    (void)state;
    static int64_t counts[] = {0, 1, 1000, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) values_run_on_all(ring_task, &counts[i], 1);
}

/* Everybody to everybody, itself too, several messages per pair, asked for in another order than
 * sent. */
static muster_status everybody_task(muster_worker *w, void *argument) {
    (void)argument;
    enum { EACH = 3, COUNT = 20 };
    muster_tensor received[16][EACH];
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int32_t r = 0; r < muster_worker_size(w); r++) {
        for (int32_t tag = 0; tag < EACH; tag++) {
            received[r][EACH - 1 - tag] = values_make(w, COUNT, -1, 0);
            MUSTER_TRY(muster_worker_recv(w, NULL, r, EACH - 1 - tag, received[r][EACH - 1 - tag]));
        }
    }
    for (int32_t tag = 0; tag < EACH; tag++) {
        for (int32_t r = 0; r < muster_worker_size(w); r++)
            MUSTER_TRY(muster_worker_send(w, NULL, r, tag, values_make(w, COUNT, muster_worker_rank(w) * 1000 + r * 100, tag)));
    }
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    for (int32_t r = 0; r < muster_worker_size(w); r++) {
        for (int32_t tag = 0; tag < EACH; tag++)
            MUSTER_TRY(values_expect(w, received[r][tag], r * 1000 + muster_worker_rank(w) * 100, tag));
    }
    return MUSTER_OK;
}

static void test_messages_from_everybody_to_everybody_with_tags_out_of_order(void **state) {
    (void)state;
    values_run_on_all(everybody_task, NULL, 1);
}

/* Equal tags of a pair: in the order of the sends. */
static muster_status equal_tags_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x[5];
    int32_t peer = 1 - muster_worker_rank(w);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int32_t i = 0; i < 5; i++) {
        x[i] = values_make(w, 4, -1, 0);
        MUSTER_TRY(muster_worker_send(w, NULL, peer, 3, values_make(w, 4, i, 0)));
        MUSTER_TRY(muster_worker_recv(w, NULL, peer, 3, x[i]));
    }
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    for (int32_t i = 0; i < 5; i++) MUSTER_TRY(values_expect(w, x[i], i, 0));
    return MUSTER_OK;
}

static void test_equal_tags_arrive_in_the_order_of_the_sends(void **state) {
    (void)state;
    values_run_on(equal_tags_task, NULL, 2);
}

/* One side in a group, the other message by message. */
static muster_status half_grouped_task(muster_worker *w, void *argument) {
    bool senders = *(bool *)argument;
    muster_tensor x = values_make(w, 6, -1, 0), y = values_make(w, 6, -1, 0);
    bool grouped = (muster_worker_rank(w) == 0) == senders;
    if (grouped) MUSTER_TRY(muster_worker_group_begin(w, NULL));
    if (muster_worker_rank(w) == 0) {
        MUSTER_TRY(muster_worker_send(w, NULL, 1, 1, values_make(w, 6, 10, 0)));
        MUSTER_TRY(muster_worker_send(w, NULL, 1, 2, values_make(w, 6, 20, 0)));
    } else {
        MUSTER_TRY(muster_worker_recv(w, NULL, 0, 1, x));
        MUSTER_TRY(muster_worker_recv(w, NULL, 0, 2, y));
    }
    if (grouped) MUSTER_TRY(muster_worker_group_end(w, NULL));
    if (muster_worker_rank(w) == 0) return MUSTER_OK;
    MUSTER_TRY(values_expect(w, x, 10, 0));
    return values_expect(w, y, 20, 0);
}

static void test_a_group_meets_single_messages(void **state) {
    (void)state;
    bool sides[] = {false, true};
    for (int i = 0; i < 2; i++) values_run_on(half_grouped_task, &sides[i], 2);
}

/* ---- both ---- */

static muster_status mixed_task(muster_worker *w, void *argument) {
    int64_t count = *(int64_t *)argument;
    int32_t right = (muster_worker_rank(w) + 1) % muster_worker_size(w),
            left = (muster_worker_rank(w) + muster_worker_size(w) - 1) % muster_worker_size(w);
    muster_tensor x = values_make(w, count, muster_worker_rank(w), 1), y = values_make(w, count, -1, 0),
                  z = values_make(w, count, muster_worker_rank(w), 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_recv(w, NULL, left, 8, y));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_MAX, z, z));
    if (muster_worker_rank(w) % 2) MUSTER_TRY(muster_worker_send(w, NULL, right, 8, x)); /* among the collectives anywhere */
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    if (muster_worker_rank(w) % 2 == 0) MUSTER_TRY(muster_worker_send(w, NULL, right, 8, x));
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    MUSTER_TRY(values_expect(w, y, left, 1));
    return values_expect(w, z, muster_worker_size(w) - 1, 0);
}

static void test_collectives_and_messages_together(void **state) {
    (void)state;
    static int64_t counts[] = {0, 1, 3000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) values_run_on_all(mixed_task, &counts[i], 1);
}

/* Messages between some ranks only, beside one collective of all. */
static muster_status some_messages_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 100, muster_worker_rank(w), 0), y = values_make(w, 100, -1, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_send(w, NULL, 1, 0, values_make(w, 100, 7, 1)));
    if (muster_worker_rank(w) == 1) MUSTER_TRY(muster_worker_recv(w, NULL, 0, 0, y));
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    if (muster_worker_rank(w) == 1) MUSTER_TRY(values_expect(w, y, 7, 1));
    return values_expect(w, x, sum_of_ranks(muster_worker_size(w)), 0);
}

static void test_messages_of_some_ranks_beside_a_collective_of_all(void **state) {
    (void)state;
    values_run_on_all(some_messages_task, NULL, 2);
}

/* ---- the group itself ---- */

static muster_status empty_task(muster_worker *w, void *argument) {
    (void)argument;
    for (int i = 0; i < 3; i++) {
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        MUSTER_TRY(muster_worker_group_end(w, NULL));
    }
    /* on some ranks only, as nobody is met */
    if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_group_begin(w, NULL));
    if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_group_end(w, NULL));
    return muster_worker_barrier(w, NULL);
}

static void test_an_empty_group_does_nothing(void **state) {
    (void)state;
    values_run_on_all(empty_task, NULL, 1);
}

static muster_status left_open_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 10, muster_worker_rank(w), 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values_expect(w, x, muster_worker_rank(w), 0);
}

static muster_status after_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 10, muster_worker_rank(w), 0);
    VALUES_REFUSED(muster_worker_group_end(w, NULL), MUSTER_BAD_STATE, "expected an open group, received none");
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x)); /* at once */
    MUSTER_TRY(values_expect(w, x, sum_of_ranks(muster_worker_size(w)), 0));
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    return muster_worker_group_end(w, NULL);
}

static void test_a_group_left_open_by_a_body_is_lost(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 4; size++) {
        collectives_pool c;
        collectives_open(&c, size, 0);
        assert_ok(collectives_run(&c, left_open_task, NULL));
        assert_ok(collectives_run(&c, after_task, NULL));
        collectives_close(&c);
    }
}

static muster_status many_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 1024, muster_worker_rank(w), 0), y = values_make(w, 1, 4, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int64_t i = 0; i < 1024; i++) {
        muster_tensor one = muster_tensor_slice(x, i, i + 1);
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, one, one));
    }
    VALUES_REFUSED(muster_worker_all_reduce(w, NULL, MUSTER_SUM, y, y), MUSTER_OUT_OF_RANGE,
                   "expected at most 1024 collectives in a group, received one more");
    VALUES_REFUSED(muster_worker_send(w, NULL, 0, 0, y), MUSTER_OUT_OF_RANGE,
                   "expected at most 1024 collectives in a group, received one more");
    MUSTER_TRY(muster_worker_group_end(w, NULL)); /* those that were accepted */
    MUSTER_TRY(values_expect(w, y, 4, 0));
    return values_expect(w, x, sum_of_ranks(muster_worker_size(w)), 0);
}

static void test_a_group_holds_1024_and_refuses_one_more(void **state) {
    (void)state;
    values_run_on_all(many_task, NULL, 1);
}

static muster_status many_messages_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 512, muster_worker_rank(w), 1), y = values_make(w, 512, -1, 0);
    int32_t peer = (muster_worker_rank(w) + 1) % muster_worker_size(w),
            from = (muster_worker_rank(w) + muster_worker_size(w) - 1) % muster_worker_size(w);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int32_t i = 0; i < 512; i++) {
        MUSTER_TRY(muster_worker_send(w, NULL, peer, i, muster_tensor_slice(x, i, i + 1)));
        MUSTER_TRY(muster_worker_recv(w, NULL, from, 511 - i, muster_tensor_slice(y, 511 - i, 512 - i)));
    }
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    return values_expect(w, y, from, 1);
}

static void test_a_group_of_1024_messages(void **state) {
    (void)state;
    values_run_on_all(many_messages_task, NULL, 1);
}

static muster_status states_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part = NULL;
    VALUES_REFUSED(muster_worker_group_end(w, NULL), MUSTER_BAD_STATE,
                   "muster_worker_group_end: communicator: expected an open group, received none");
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    VALUES_REFUSED(muster_worker_group_begin(w, NULL), MUSTER_BAD_STATE, "muster_worker_group_begin: communicator: expected no open group");
    VALUES_REFUSED(muster_worker_split(w, NULL, 0, 0, &part), MUSTER_BAD_STATE,
                   "muster_worker_split: communicator: expected no open group");
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    VALUES_REFUSED(muster_worker_group_end(w, NULL), MUSTER_BAD_STATE, "expected an open group, received none");
    return MUSTER_OK;
}

static void test_a_group_begins_and_ends_once(void **state) {
    (void)state;
    values_run_on_all(states_task, NULL, 1);
}

/* ---- groups in parts ---- */

static muster_status part_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) % 2, -muster_worker_rank(w), &part));
    int32_t size = muster_communicator_size(part), rank = muster_communicator_rank(part, w);
    int32_t right = (rank + 1) % size, left = (rank + size - 1) % size;
    muster_tensor x = values_make(w, 30, rank, 0), y = values_make(w, 30, -1, 0), z = values_make(w, 30, 1, 0);
    MUSTER_TRY(muster_worker_group_begin(w, part));
    MUSTER_TRY(muster_worker_send(w, part, right, 1, x));
    MUSTER_TRY(muster_worker_recv(w, part, left, 1, y));
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, z, z));
    MUSTER_TRY(muster_worker_barrier(w, NULL)); /* of another communicator: at once */
    MUSTER_TRY(values_expect(w, z, 1, 0));
    MUSTER_TRY(muster_worker_group_end(w, part));
    MUSTER_TRY(values_expect(w, y, left, 0));
    MUSTER_TRY(values_expect(w, z, size, 0));
    return muster_worker_release(w, part);
}

static void test_a_group_in_a_part(void **state) {
    (void)state;
    values_run_on_all(part_task, NULL, 1);
}

/* ---- what does not fit ---- */

static muster_status other_number_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int32_t i = 0; i < 2 + (muster_worker_rank(w) == 1); i++) MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return muster_worker_group_end(w, NULL);
}

static muster_status other_order_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0), y = values_make(w, 5, 0, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, muster_worker_rank(w) == 2 ? y : x, muster_worker_rank(w) == 2 ? y : x));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, muster_worker_rank(w) == 2 ? x : y, muster_worker_rank(w) == 2 ? x : y));
    return muster_worker_group_end(w, NULL);
}

static muster_status alone_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0);
    if (muster_worker_rank(w) == 1) return muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int32_t i = 0; i < 2; i++) MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return muster_worker_group_end(w, NULL);
}

static muster_status other_tag_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0), y = values_make(w, 4, 0, 0);
    int32_t peer = 1 - muster_worker_rank(w);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, peer, muster_worker_rank(w) == 0 ? 3 : 4, x));
    MUSTER_TRY(muster_worker_recv(w, NULL, peer, 4, y));
    return muster_worker_group_end(w, NULL);
}

static void test_groups_that_differ_are_refused_on_every_rank(void **state) {
    (void)state;
    values_refused_on(other_number_task, NULL, 3, -1, MUSTER_INVALID_ARGUMENT,
                      "collective mismatch: rank 1 called group of 3, rank 0 called group of 2");
    values_refused_on(other_order_task, NULL, 3, -1, MUSTER_INVALID_ARGUMENT,
                      "collective mismatch: rank 2 called all_reduce sum of 5 i64, rank 0 called all_reduce sum of 4 i64");
    values_refused_on(alone_task, NULL, 3, -1, MUSTER_INVALID_ARGUMENT,
                      "collective mismatch: rank 1 called all_reduce sum of 4 i64, rank 0 called group of 2");
    values_refused_on(other_tag_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
                      "rank 1 expected 4 i64 with tag 4 from rank 0, which waits to send 4 i64 with tag 3");
}

/* ---- messages of a rank to itself: nobody else can send or receive them ---- */

static muster_status lone_send_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_send(w, NULL, 0, 3, x));
    return muster_worker_group_end(w, NULL);
}

static muster_status lone_recv_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0), y = values_make(w, 4, 0, 0);
    int32_t last = muster_worker_size(w) - 1;
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x)); /* which the others then wait for */
    if (muster_worker_rank(w) == last) MUSTER_TRY(muster_worker_recv(w, NULL, last, 3, y));
    return muster_worker_group_end(w, NULL);
}

/* Two with one tag, of which one has no other side. */
static muster_status third_side_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0), y = values_make(w, 4, 0, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    if (muster_worker_rank(w) == 0) MUSTER_TRY(muster_worker_recv(w, NULL, 0, 3, y));
    for (int i = 0; i < 2 && muster_worker_rank(w) == 0; i++) MUSTER_TRY(muster_worker_send(w, NULL, 0, 3, x));
    return muster_worker_group_end(w, NULL);
}

static void test_a_message_to_itself_without_its_other_side_is_refused_at_once(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 2; size++) {
        values_refused_on(lone_send_task, NULL, size, -1, MUSTER_INVALID_ARGUMENT,
                          "send: rank 0: expected a recv with tag 3 in the same group, since it is a message to itself, received none");
        values_refused_on(lone_recv_task, NULL, size, -1, MUSTER_INVALID_ARGUMENT,
                          "expected a send with tag 3 in the same group, since it is a message to itself, received none");
        values_refused_on(third_side_task, NULL, size, -1, MUSTER_INVALID_ARGUMENT, "send: rank 0: expected a recv with tag 3");
    }
}

static muster_status itself_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, muster_worker_rank(w), 1), y = values_make(w, 4, -1, 0),
                  z = values_make(w, 3, muster_worker_rank(w), 5), same = values_make(w, 2, muster_worker_rank(w), 7);
    muster_tensor third = values_make(w, 3, -1, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_recv(w, NULL, muster_worker_rank(w), 3, y));
    MUSTER_TRY(muster_worker_send(w, NULL, muster_worker_rank(w), 3, x));
    MUSTER_TRY(muster_worker_send(w, NULL, muster_worker_rank(w), 3, z)); /* of another count, and in the order of the group */
    MUSTER_TRY(muster_worker_recv(w, NULL, muster_worker_rank(w), 3, third));
    MUSTER_TRY(muster_worker_send(w, NULL, muster_worker_rank(w), 4, same));
    MUSTER_TRY(muster_worker_recv(w, NULL, muster_worker_rank(w), 4, same));
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    MUSTER_TRY(values_expect(w, y, muster_worker_rank(w), 1));
    MUSTER_TRY(values_expect(w, third, muster_worker_rank(w), 5));
    return values_expect(w, same, muster_worker_rank(w), 7);
}

static void test_a_message_to_itself_is_a_copy(void **state) {
    (void)state;
    values_run_on_all(itself_task, NULL, 1);
}

static muster_status shorter_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0), y = values_make(w, 3, 0, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, muster_worker_rank(w), 3, x));
    MUSTER_TRY(muster_worker_recv(w, NULL, muster_worker_rank(w), 3, y));
    return muster_worker_group_end(w, NULL);
}

static muster_status overlapping_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 8, 0, 0);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, muster_worker_rank(w), 3, muster_tensor_slice(x, 0, 5)));
    MUSTER_TRY(muster_worker_recv(w, NULL, muster_worker_rank(w), 3, muster_tensor_slice(x, 3, 8)));
    return muster_worker_group_end(w, NULL);
}

static void test_both_sides_of_a_message_to_itself_must_fit(void **state) {
    (void)state;
    values_refused_on(shorter_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
                      "recv: output: expected 4 i64 as the rank sends to itself with tag 3, received 3 i64");
    values_refused_on(overlapping_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT, "or memory apart from it, received an overlap");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_collectives_in_one_round),
        cmocka_unit_test(test_rooted_collectives_of_every_root_in_one_round),
        cmocka_unit_test(test_uneven_exchange_and_update_in_one_round),
        cmocka_unit_test(test_groups_again_and_again),
        cmocka_unit_test(test_a_ring_in_both_directions),
        cmocka_unit_test(test_messages_from_everybody_to_everybody_with_tags_out_of_order),
        cmocka_unit_test(test_equal_tags_arrive_in_the_order_of_the_sends),
        cmocka_unit_test(test_a_group_meets_single_messages),
        cmocka_unit_test(test_collectives_and_messages_together),
        cmocka_unit_test(test_messages_of_some_ranks_beside_a_collective_of_all),
        cmocka_unit_test(test_an_empty_group_does_nothing),
        cmocka_unit_test(test_a_group_left_open_by_a_body_is_lost),
        cmocka_unit_test(test_a_group_holds_1024_and_refuses_one_more),
        cmocka_unit_test(test_a_group_of_1024_messages),
        cmocka_unit_test(test_a_group_begins_and_ends_once),
        cmocka_unit_test(test_a_group_in_a_part),
        cmocka_unit_test(test_groups_that_differ_are_refused_on_every_rank),
        cmocka_unit_test(test_a_message_to_itself_without_its_other_side_is_refused_at_once),
        cmocka_unit_test(test_a_message_to_itself_is_a_copy),
        cmocka_unit_test(test_both_sides_of_a_message_to_itself_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
