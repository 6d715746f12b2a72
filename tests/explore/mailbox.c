/* Messages: a rendezvous of two, in order, and what is left of it when the run is aborted in
 * between. */
#include "rank.h"

#include <string.h>

enum { FAILS_BEFORE = 1, FAILS_POSTED, FAILS_READING, STAYS_AWAY };

/* What is sent is where the memory lies, and a number. */
typedef struct letter {
    const int64_t *memory;
    int64_t number;
} letter;
_Static_assert(sizeof(letter) == MST_BOX_PAYLOAD, "a letter fills the payload");

static uint64_t post(muster_worker *worker, int32_t to, int32_t round) {
    explore_write(&s->offered[worker->rank], rank_value(round, worker->rank));
    letter sent = {&s->offered[worker->rank], rank_value(round, worker->rank) + 50};
    return mst_box_post(s->team, worker, to, &sent);
}

static muster_status until_taken(muster_worker *worker, int32_t to, uint64_t tag) {
    muster_status status = mst_box_wait_taken(s->team, worker, to, tag, "send", 7);
    explore_write(&s->offered[worker->rank], 0); /* it is this rank's alone again */
    return status;
}

static muster_status send(muster_worker *worker, const run_plan *plan, int32_t to, int32_t round) {
    uint64_t tag = post(worker, to, round);
    bool fails = rank_fails(worker, plan, round, FAILS_POSTED);
    if (fails) mst_pool_abort(worker, MUSTER_USER);
    muster_status status = until_taken(worker, to, tag);
    return fails ? MUSTER_USER : status;
}

static void check_letter(const letter *received, int32_t from, int32_t round) {
    EXPLORE_CHECK(received->number == rank_value(round, from) + 50, "message %d of rank %d is %lld", (int)round, (int)from,
                  (long long)received->number);
    int64_t found = explore_read(received->memory);
    EXPLORE_CHECK(found == rank_value(round, from), "the memory of message %d of rank %d is %lld", (int)round, (int)from, (long long)found);
}

/* Reads it in two sections, as one who has to go and do something else in between. */
static muster_status receive(muster_worker *worker, const run_plan *plan, int32_t from, int32_t round) {
    mst_post post;
    letter received;
    MUSTER_TRY(mst_box_wait_post(s->team, worker, from, "recv", 7, &post));
    memcpy(&received, post.payload, sizeof(received));
    MUSTER_TRY(mst_box_read_begin(s->team, worker, from, post.tag));
    bool fails = rank_fails(worker, plan, round, FAILS_READING);
    if (fails) mst_pool_abort(worker, MUSTER_USER);
    check_letter(&received, from, round);
    mst_box_read_end(s->team, worker, from);
    if (fails) return MUSTER_USER;
    MUSTER_TRY(mst_box_read_begin(s->team, worker, from, post.tag));
    check_letter(&received, from, round);
    mst_box_take(s->team, worker, from, post.tag);
    return MUSTER_OK;
}

static bool may_go_on(muster_worker *worker, const run_plan *plan, int32_t round, muster_status *status) {
    *status = rank_fails(worker, plan, round, FAILS_BEFORE) ? MUSTER_USER : MUSTER_OK;
    return *status == MUSTER_OK && !rank_fails(worker, plan, round, STAYS_AWAY);
}

static muster_status one_way(muster_worker *worker, const run_plan *plan) {
    muster_status status;
    for (int32_t round = 0; round < plan->rounds; round++) {
        if (!may_go_on(worker, plan, round, &status)) return status;
        if (worker->rank == 0)
            MUSTER_TRY(send(worker, plan, 1, round));
        else
            MUSTER_TRY(receive(worker, plan, 0, round));
    }
    return MUSTER_OK;
}

static muster_status open_and_one_way(muster_worker *worker, const run_plan *plan) {
    MUSTER_TRY(mst_box_open(s->team, 1));
    return one_way(worker, plan);
}

/* Both post before they receive. */
static muster_status across(muster_worker *worker, const run_plan *plan) {
    int32_t other = 1 - worker->rank;
    muster_status status;
    for (int32_t round = 0; round < plan->rounds; round++) {
        if (!may_go_on(worker, plan, round, &status)) return status;
        uint64_t tag = post(worker, other, round);
        status = receive(worker, plan, other, round);
        if (status != MUSTER_OK) mst_pool_abort(worker, status);
        muster_status taken = until_taken(worker, other, tag);
        if (status != MUSTER_OK) return status;
        MUSTER_TRY(taken);
    }
    return MUSTER_OK;
}

/* Rank 0 begins. */
static muster_status ring(muster_worker *worker, const run_plan *plan) {
    int32_t next = (worker->rank + 1) % worker->size, before = (worker->rank + worker->size - 1) % worker->size;
    muster_status status;
    if (!may_go_on(worker, plan, 0, &status)) return status;
    if (worker->rank == 0) MUSTER_TRY(send(worker, plan, next, 0));
    MUSTER_TRY(receive(worker, plan, before, 0));
    return worker->rank == 0 ? MUSTER_OK : send(worker, plan, next, 0);
}

/* Two send to one. */
static muster_status to_one(muster_worker *worker, const run_plan *plan) {
    if (worker->rank != 0) return send(worker, plan, 0, 0);
    MUSTER_TRY(receive(worker, plan, 2, 0));
    return receive(worker, plan, 1, 0);
}

/* Each waits for the message of the other. */
static muster_status both_receive(muster_worker *worker, const run_plan *plan) {
    if (s->run == 1) return MUSTER_OK;
    MUSTER_TRY(receive(worker, plan, 1 - worker->rank, 0));
    return send(worker, plan, 1 - worker->rank, 0);
}

/* Each waits for the message of the one before. */
static muster_status each_receives(muster_worker *worker, const run_plan *plan) {
    if (s->run == 1) return MUSTER_OK;
    return receive(worker, plan, (worker->rank + worker->size - 1) % worker->size, 0);
}

#define FAILED .outcomes = {MUSTER_USER, MUSTER_USER, MUSTER_USER}
#define ALL_ABORTED .statuses = {MUSTER_ABORTED, MUSTER_ABORTED, MUSTER_ABORTED}
#define ABSENT                                                                               \
    .outcomes = {MUSTER_INVALID_ARGUMENT, MUSTER_INVALID_ARGUMENT, MUSTER_INVALID_ARGUMENT}, \
    .statuses = {MUSTER_INVALID_ARGUMENT, MUSTER_ABORTED, MUSTER_ABORTED}
#define LATE \
    .deadline = true, .outcomes = {MUSTER_OK, MUSTER_TIMEOUT, MUSTER_TIMEOUT}, .statuses = {MUSTER_OK, MUSTER_TIMEOUT, MUSTER_ABORTED}
#define LOSES(name, n, function, times, who, way, ...) \
    static const rank_scenario name = {                \
        .size = n,                                     \
        .boxes = true,                                 \
        .runs = {{.body = function, .rounds = times, .failing = who, .how = way, __VA_ARGS__}, {.body = function, .rounds = 1}}}

static const rank_scenario three_messages = {.size = 2, .boxes = true, .runs = {{.body = one_way, .rounds = 3}}};
static const rank_scenario fresh_boxes = {.size = 2, .runs = {{.body = open_and_one_way, .rounds = 1}}};
static const rank_scenario both_ways = {.size = 2, .boxes = true, .runs = {{.body = across, .rounds = 2}}};
static const rank_scenario round_the_ring = {.size = 3, .boxes = true, .runs = {{.body = ring, .rounds = 1}}};
static const rank_scenario two_to_one = {.size = 3, .boxes = true, .runs = {{.body = to_one, .rounds = 1}}};
LOSES(receiver_before, 2, one_way, 2, 1, FAILS_BEFORE, FAILED, ALL_ABORTED);
LOSES(sender_before, 2, one_way, 2, 0, FAILS_BEFORE, FAILED, ALL_ABORTED);
LOSES(receiver_reading, 2, one_way, 1, 1, FAILS_READING, FAILED, ALL_ABORTED);
LOSES(sender_posted, 2, one_way, 1, 0, FAILS_POSTED, FAILED, .statuses = {MUSTER_OK, MUSTER_ABORTED, MUSTER_ABORTED});
LOSES(receiver_away, 2, one_way, 2, 1, STAYS_AWAY, ABSENT);
LOSES(sender_away, 2, one_way, 2, 0, STAYS_AWAY, ABSENT);
LOSES(across_reading, 2, across, 1, 1, FAILS_READING, FAILED, ALL_ABORTED);
LOSES(late_message, 2, one_way, 1, 0, 0, LATE);
LOSES(waiting_for_each_other, 2, both_receive, 1, 0, 0, ABSENT);
LOSES(three_waiting_for_each_other, 3, each_receives, 1, 0, 0, ABSENT);
LOSES(ring_before, 3, ring, 1, 1, FAILS_BEFORE, FAILED, ALL_ABORTED);

const explore_scenario explore_mailbox_scenarios[] = {
    RANK_SCENARIO("mailbox/three_messages", three_messages),
    RANK_SCENARIO("mailbox/boxes_made_by_both_sides", fresh_boxes),
    RANK_SCENARIO("mailbox/both_ways_2_rounds", both_ways),
    RANK_SCENARIO("mailbox/receiver_fails_before", receiver_before),
    RANK_SCENARIO("mailbox/sender_fails_before", sender_before),
    RANK_SCENARIO("mailbox/receiver_fails_while_reading", receiver_reading),
    RANK_SCENARIO("mailbox/sender_fails_after_its_post", sender_posted),
    RANK_SCENARIO("mailbox/receiver_stays_away", receiver_away),
    RANK_SCENARIO("mailbox/sender_stays_away", sender_away),
    RANK_SCENARIO("mailbox/both_ways_fails_while_reading", across_reading),
    RANK_SCENARIO("mailbox/late", late_message),
    RANK_SCENARIO("mailbox/both_receive_first", waiting_for_each_other),
    BOUND_SCENARIO("mailbox/each_of_3_receives_first", three_waiting_for_each_other, 4),
    BOUND_SCENARIO("mailbox/ring_of_3_ranks", round_the_ring, 3),
    BOUND_SCENARIO("mailbox/two_ranks_to_one", two_to_one, 3),
    BOUND_SCENARIO("mailbox/ring_of_3_ranks_fails_before", ring_before, 2),
    {0},
};
