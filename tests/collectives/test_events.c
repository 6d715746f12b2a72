/* What the recorder keeps of messages and of splits. */
#include "collectives_values.h"

#include <string.h>

/* The newest events of a worker of this process that are no calls, newest last. */
static int64_t events_of(collectives_pool *c, int32_t rank, mst_recorded events[MST_RECORDER_EVENTS]) {
    return mst_recorder_read(&mst_pool_worker(c->pool, rank - c->first)->recorder, events, MST_RECORDER_EVENTS, NULL);
}
static bool is_here(const collectives_pool *c, int32_t rank) { return rank >= c->first && rank < c->first + c->count; }

/* Workers 3 and 2 are ranks 0 and 1 of the part. */
static muster_status message_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    muster_tensor x = values_make(w, 3, 0, 0);
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) < 2 ? -1 : 0, -muster_worker_rank(w), &part));
    if (muster_worker_rank(w) == 3) MUSTER_TRY(muster_worker_send(w, part, 1, INT32_MAX, x));
    if (muster_worker_rank(w) == 2) MUSTER_TRY(muster_worker_recv(w, part, 0, INT32_MAX, x));
    return muster_worker_release(w, part);
}

static void is_message(const mst_recorded *event, const char *name, int32_t peer) {
    assert_int_equal(event->kind, MST_EVENT_MESSAGE);
    assert_string_equal(event->name, name);
    assert_int_equal(event->peer, peer);
    assert_int_equal(event->tag, INT32_MAX);
    assert_int_equal(event->bytes, 24);
    /* behind the rendezvous of the split, of which two more are for the communicators of NCCL */
    assert_int_equal(event->sequence, collectives_devices() == COLLECTIVES_GPUS ? 5 : 3);
    assert_true(event->end >= event->start);
}

static void test_a_message_is_recorded_with_its_peer_and_tag(void **state) {
    (void)state;
    mst_recorded events[MST_RECORDER_EVENTS];
    collectives_pool c;
    collectives_open(&c, 4, 0);
    assert_ok(collectives_run(&c, message_task, NULL));
    if (is_here(&c, 3)) is_message(&events[events_of(&c, 3, events) - 1], "send", 2);
    if (is_here(&c, 2)) is_message(&events[events_of(&c, 2, events) - 1], "recv", 3);
    collectives_close(&c);
}

static void test_a_split_is_recorded(void **state) {
    (void)state;
    mst_recorded events[MST_RECORDER_EVENTS];
    collectives_pool c;
    collectives_open(&c, 4, 0);
    assert_ok(collectives_run(&c, message_task, NULL));
    for (int32_t r = c.first; r < c.first + c.count; r++) {
        assert_int_equal(events_of(&c, r, events), r < 2 ? 1 : 2);
        assert_string_equal(events[0].name, "split");
        assert_int_equal(events[0].kind, MST_EVENT_COLLECTIVE);
        assert_int_equal(events[0].sequence, 1);
        assert_int_equal(events[0].peer, -1);
        assert_true(events[0].end >= events[0].start);
    }
    collectives_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_is_recorded_with_its_peer_and_tag),
        cmocka_unit_test(test_a_split_is_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
