/* Mailboxes: a message is a rendezvous of two; what one side cannot finish ends with the run, never
 * with a hang. */
#include "base_pace.h"
#include "scheduler_device.h"
#include "team_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MESSAGES = 50 };

typedef struct post_office {
    mst_team *team;
    int32_t failing; /* rank that fails before it takes part; -1: none */
} post_office;

static muster_status send_number(post_office *o, muster_worker *worker, int32_t to, const int64_t *number) {
    char payload[MST_BOX_PAYLOAD] = {0};
    memcpy(payload, &number, sizeof number);
    uint64_t tag = mst_box_post(o->team, worker, to, payload);
    return mst_box_wait_taken(o->team, worker, to, tag, "send", 7);
}

static muster_status receive_number(post_office *o, muster_worker *worker, int32_t from, int64_t *number) {
    mst_post post;
    const int64_t *offered;
    MUSTER_TRY(mst_box_wait_post(o->team, worker, from, "recv", 7, &post));
    MUSTER_TRY(mst_box_read_begin(o->team, worker, from, post.tag));
    memcpy(&offered, post.payload, sizeof offered);
    *number = *offered;
    mst_box_take(o->team, worker, from, post.tag);
    return MUSTER_OK;
}

/* The numbers 0, 1, ... go round the ring, each rank adding one; rank 0 begins. */
static muster_status ring_task(muster_worker *worker, void *argument) {
    post_office *o = argument;
    int32_t next = (worker->rank + 1) % worker->size, before = (worker->rank + worker->size - 1) % worker->size;
    MUSTER_TRY(mst_box_open(o->team, next));
    MUSTER_TRY(mst_box_open(o->team, worker->rank));
    if (worker->rank == o->failing) return mst_error(MUSTER_USER, "rank %d fails", worker->rank);
    for (int64_t round = 0; round < MESSAGES; round++) {
        int64_t number = round;
        if (worker->rank == 0) {
            MUSTER_TRY(send_number(o, worker, next, &number));
            MUSTER_TRY(receive_number(o, worker, before, &number));
            if (number != round + worker->size - 1)
                return mst_error(MUSTER_INTERNAL, "round %lld: received %lld", (long long)round, (long long)number);
        } else {
            MUSTER_TRY(receive_number(o, worker, before, &number));
            number++;
            MUSTER_TRY(send_number(o, worker, next, &number));
        }
    }
    return MUSTER_OK;
}

static void messages_go_round_a_ring_in_order(void **state) {
    (void)state;
    for (int32_t size = 2; size <= PLAIN_DEVICES; size++) {
        mst_pool *pool = plain_pool(size, 0, -1, -1);
        post_office o = {.failing = -1};
        assert_int_equal(mst_team_create(pool, NULL, 0, &o.team), MUSTER_OK);
        for (int32_t run = 0; run < 3; run++) assert_int_equal(mst_pool_run(pool, ring_task, &o), MUSTER_OK);
        mst_team_destroy(o.team);
        mst_pool_destroy(pool);
    }
}

static void a_failing_rank_ends_every_wait_and_the_next_run_is_right(void **state) {
    (void)state;
    for (int32_t failing = 0; failing < 3; failing++) {
        mst_pool *pool = plain_pool(3, 0, -1, -1);
        post_office o = {.failing = failing};
        assert_int_equal(mst_team_create(pool, NULL, 0, &o.team), MUSTER_OK);
        assert_int_equal(mst_pool_run(pool, ring_task, &o), MUSTER_USER);
        o.failing = -1;
        assert_int_equal(mst_pool_run(pool, ring_task, &o), MUSTER_OK);
        mst_team_destroy(o.team);
        mst_pool_destroy(pool);
    }
}

static muster_status lonely_sender(muster_worker *worker, void *argument) {
    post_office *o = argument;
    int64_t number = 1;
    MUSTER_TRY(mst_box_open(o->team, 1));
    return worker->rank == 0 ? send_number(o, worker, 1, &number) : MUSTER_OK;
}

static muster_status lonely_receiver(muster_worker *worker, void *argument) {
    post_office *o = argument;
    int64_t number = 1;
    MUSTER_TRY(mst_box_open(o->team, 1));
    return worker->rank == 1 ? receive_number(o, worker, 0, &number) : MUSTER_OK;
}

static void a_peer_that_returns_is_named_with_the_tag(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, -1, -1);
    post_office o = {0};
    assert_int_equal(mst_team_create(pool, NULL, 0, &o.team), MUSTER_OK);
    assert_int_equal(mst_pool_run(pool, lonely_sender, &o), MUSTER_INVALID_ARGUMENT);
    assert_non_null(
        strstr(muster_last_error(), "rank 1 returned without receiving the message of send with tag 7, for which rank 0 waits"));
    assert_int_equal(mst_pool_run(pool, lonely_receiver, &o), MUSTER_INVALID_ARGUMENT);
    assert_non_null(strstr(muster_last_error(), "rank 0 returned without sending the message of recv with tag 7, for which rank 1 waits"));
    mst_team_destroy(o.team);
    mst_pool_destroy(pool);
}

static muster_status both_send(muster_worker *worker, void *argument) {
    post_office *o = argument;
    int64_t number = 1;
    MUSTER_TRY(mst_box_open(o->team, 0));
    MUSTER_TRY(mst_box_open(o->team, 1));
    return send_number(o, worker, 1 - worker->rank, &number);
}

static void two_that_send_to_each_other_are_refused_without_a_deadline(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, -1, -1);
    post_office o = {0};
    assert_int_equal(mst_team_create(pool, NULL, 0, &o.team), MUSTER_OK);
    assert_int_equal(mst_pool_run(pool, both_send, &o), MUSTER_INVALID_ARGUMENT);
    assert_non_null(strstr(muster_last_error(), "waits in send with tag 7 for rank "));
    assert_non_null(strstr(muster_last_error(), ": neither can go on"));
    o.failing = -1;
    assert_int_equal(mst_pool_run(pool, ring_task, &o), MUSTER_OK);
    mst_team_destroy(o.team);
    mst_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_round_a_ring_in_order),
        cmocka_unit_test(a_failing_rank_ends_every_wait_and_the_next_run_is_right),
        cmocka_unit_test(a_peer_that_returns_is_named_with_the_tag),
        cmocka_unit_test(two_that_send_to_each_other_are_refused_without_a_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
