/* A rank that returns from its task without what ranks of other processes wait for ends the call,
 * in every layout of four ranks over two to four processes, without a deadline; the next call is
 * right. And ranks that return early after they have done all that others wait for end nothing. */
#include "base_check.h"
#include "base_pace.h"
#include "base_seed.h"
#include "collectives_spans.h"
#include "nodes/rounds_private.h"
#include "wire_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t close_grace_ns = 200000000;

enum { RANKS = 4 };
static const int32_t layouts[][RANKS] = {{1, 3}, {2, 2}, {3, 1}, {1, 1, 2}, {1, 2, 1}, {2, 1, 1}, {1, 1, 1, 1}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static int32_t processes_of(const int32_t *counts) {
    int32_t processes = 0;
    while (processes < RANKS && counts[processes] > 0) processes++;
    return processes;
}

static muster_tensor vector(void *data, int64_t count) { return muster_tensor_make(MUSTER_F32, data, 1, &count); }

/* ---- what the ranks do ---- */

typedef enum { BARRIER, SMALL, LARGE, SPLIT, PART, PART_AND_WAIT, RECV, SEND, GROUP, LATE, REUSED, MANY, KINDS } kind;
typedef struct one_case {
    kind kind;
    int32_t absent; /* the rank that returns */
} one_case;

static float memory[RANKS][2][100000];

static void pause_ms(int64_t ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static muster_status all_reduce(muster_worker *w, muster_communicator *c, int64_t count) {
    float(*own)[100000] = memory[spans_rank(w)];
    return muster_worker_all_reduce(w, c, MUSTER_SUM, vector(own[0], count), vector(own[1], count));
}

/* The part of the absent rank and the one after it, which waits for it there. The other two ranks
 * end; or they wait for the one after it. */
static muster_status part(muster_worker *w, const one_case *c, bool others_wait) {
    const int32_t rank = spans_rank(w), next = (c->absent + 1) % RANKS;
    const bool member = rank == c->absent || rank == next;
    muster_communicator *both;
    MUSTER_TRY(muster_worker_split(w, NULL, member ? 7 : -1, 0, &both));
    if (rank == c->absent) return MUSTER_OK; /* without a release */
    if (member) MUSTER_TRY(muster_worker_barrier(w, both));
    return others_wait ? muster_worker_barrier(w, NULL) : MUSTER_OK;
}

/* `parts` parts of all ranks, one after the other on the same lane, in each of which all enter
 * barriers, and release it; then one more, if `last`, whose first barrier the absent rank does not
 * enter. */
static muster_status reused(muster_worker *w, const one_case *c, int32_t parts, bool last) {
    const bool absent = spans_rank(w) == c->absent;
    muster_communicator *all;
    for (int32_t k = 0; k < parts; k++) {
        MUSTER_TRY(muster_worker_split(w, NULL, 0, spans_rank(w), &all));
        for (int32_t i = 0; i < 3; i++) MUSTER_TRY(muster_worker_barrier(w, all));
        MUSTER_TRY(muster_worker_release(w, all));
    }
    all = NULL;
    if (last) MUSTER_TRY(muster_worker_split(w, NULL, 0, spans_rank(w), &all));
    return absent ? MUSTER_OK : muster_worker_barrier(w, all);
}

static muster_status message(muster_worker *w, const one_case *c, bool sends) {
    const int32_t rank = spans_rank(w), next = (c->absent + 1) % RANKS;
    float x[3] = {1, 2, 3};
    if (rank != next) return MUSTER_OK;
    return sends ? muster_worker_send(w, NULL, c->absent, 4, vector(x, 3)) : muster_worker_recv(w, NULL, c->absent, 4, vector(x, 3));
}

/* The rank after the absent one: a message that comes, from the rank behind it, and one that does
 * not. */
static muster_status group(muster_worker *w, const one_case *c) {
    const int32_t rank = spans_rank(w), next = (c->absent + 1) % RANKS, last = (c->absent + 2) % RANKS;
    float x[3] = {1, 2, 3}, y[3];
    if (rank == last) return muster_worker_send(w, NULL, next, 5, vector(x, 3));
    if (rank != next) return MUSTER_OK;
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_recv(w, NULL, last, 5, vector(y, 3)));
    MUSTER_TRY(muster_worker_recv(w, NULL, c->absent, 4, vector(x, 3)));
    return muster_worker_group_end(w, NULL);
}

static muster_status task(muster_worker *w, void *argument) {
    const one_case *c = argument;
    const bool absent = spans_rank(w) == c->absent;
    switch (c->kind) {
    case BARRIER:
        return absent ? MUSTER_OK : muster_worker_barrier(w, NULL);
    case SMALL:
        return absent ? MUSTER_OK : all_reduce(w, NULL, 10);
    case LARGE: /* the second of two */
        MUSTER_TRY(all_reduce(w, NULL, 100000));
        return absent ? MUSTER_OK : all_reduce(w, NULL, 100000);
    case SPLIT: {
        muster_communicator *made;
        return absent ? MUSTER_OK : muster_worker_split(w, NULL, 0, 0, &made);
    }
    case PART:
        return part(w, c, false);
    case PART_AND_WAIT:
        return part(w, c, true);
    case RECV:
        return message(w, c, false);
    case SEND:
        return message(w, c, true);
    case GROUP:
        return group(w, c);
    case REUSED:
        return reused(w, c, 1, true);
    case MANY:
        return reused(w, c, 20, false);
    default: /* the others have waited for a while when it returns */
        if (absent) pause_ms(20);
        return absent ? MUSTER_OK : muster_worker_barrier(w, NULL);
    }
}

/* Without the processes. */
static void expected_of(const one_case *c, char text[120]) {
    static const char *const names[] = {"barrier", "all_reduce", "all_reduce", "split"};
    const char *name = c->kind < PART ? names[c->kind] : "barrier";
    if (c->kind == SEND)
        snprintf(text, 120, "rank %d returned without receiving the message of send with tag 4, for which rank %d waits", (int)c->absent,
                 (int)((c->absent + 1) % RANKS));
    else if (c->kind == RECV || c->kind == GROUP)
        snprintf(text, 120, "rank %d returned without sending the message of recv with tag 4, for which rank %d waits", (int)c->absent,
                 (int)((c->absent + 1) % RANKS));
    else
        snprintf(text, 120, "rank %d returned without entering %s, for which rank ", (int)c->absent, name);
}

/* In a part a rank has another number, unless that is the same. */
static bool names_of_part(const one_case *c, const char *message) {
    const int32_t number = c->absent < (c->absent + 1) % RANKS ? 0 : 1;
    char text[40];
    snprintf(text, sizeof text, number == c->absent ? "rank %d " : "rank %d (worker %d", (int)number, (int)c->absent);
    const char *at = strstr(message, text);
    return at && strstr(at, "returned without entering barrier, for which rank ");
}

static muster_status right_task(muster_worker *w, void *argument) {
    float x = (float)spans_rank(w), sum = -1;
    (void)argument;
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(&x, 1), vector(&sum, 1)));
    return sum == 6 ? MUSTER_OK : mst_error(MUSTER_USER, "expected 6, received %g", (double)sum);
}

static void run_case(spans_launch *launch, const one_case *c) {
    char text[120];
    expected_of(c, text);
    assert_int_equal(spans_run(launch, task, (void *)(uintptr_t)c), MUSTER_INVALID_ARGUMENT);
    for (int32_t p = 0; p < launch->processes; p++) {
        const char *message = launch->process[p].message;
        assert_int_equal(launch->process[p].status, MUSTER_INVALID_ARGUMENT);
        const bool in_part = (c->kind == PART || c->kind == PART_AND_WAIT) && names_of_part(c, message);
        /* in PART_AND_WAIT the barrier of all may be the first to find it */
        if (!in_part && (c->kind == PART || !test_says(message, text)))
            fail_msg("process %d, kind %d, rank %d: \"%s\" lacks \"%s\"", p, c->kind, c->absent, message, text);
        if (!strstr(message, "host")) fail_msg("\"%s\" names no host", message);
        assert_string_equal(message, launch->process[0].message);
    }
    assert_ok(spans_run(launch, right_task, NULL));
}

static void test_every_layout(void **state) {
    int32_t cases = 0;
    (void)state;
    for (int32_t l = 0; l < LAYOUTS; l++) {
        spans_launch launch;
        spans_open(&launch, &(spans_options){.counts = layouts[l],
                                             .processes = processes_of(layouts[l]),
                                             .fail_after_ns = -1,
                                             .close_grace_ns = test_patience(close_grace_ns)});
        for (int32_t k = 0; k < KINDS; k++)
            for (int32_t absent = 0; absent < RANKS; absent++, cases++) run_case(&launch, &(one_case){(kind)k, absent});
        spans_close(&launch);
    }
    assert_int_equal(cases, LAYOUTS * KINDS * RANKS);
}

/* ---- names ---- */

static void test_processes_and_hosts_are_named(void **state) {
    static const int32_t two_by_two[] = {2, 2};
    spans_launch launch;
    const one_case barrier = {RECV, 1};
    (void)state;
    spans_open(&launch, &(spans_options){
                            .counts = two_by_two, .processes = 2, .fail_after_ns = -1, .close_grace_ns = test_patience(close_grace_ns)});
    assert_int_equal(spans_run(&launch, task, (void *)(uintptr_t)&barrier), MUSTER_INVALID_ARGUMENT);
    for (int32_t p = 0; p < 2; p++)
        assert_string_equal(launch.process[p].message,
                            "muster_worker_recv: rank 1 (process 0 (host host0)) returned without sending the message of recv with tag 4, "
                            "for which rank 2 (process 1 (host host1)) waits (rank 2)");
    spans_close(&launch);
}

/* ---- ranks that have done all ---- */

/* Each round all but one rank return at once; that one makes the others' questions possible: it
 * takes its time before what all enter, and after it. */
static muster_status slow_task(muster_worker *w, void *argument) {
    const int32_t rank = spans_rank(w), slow = *(const int32_t *)argument;
    float x = (float)rank, y = -1;
    if (rank == slow) pause_ms(8);
    MUSTER_TRY(all_reduce(w, NULL, 100000));
    if (rank == slow) pause_ms(8);
    if (rank == slow) return muster_worker_recv(w, NULL, (rank + 1) % RANKS, 9, vector(&y, 1));
    if (rank == (slow + 1) % RANKS) return muster_worker_send(w, NULL, slow, 9, vector(&x, 1));
    return MUSTER_OK;
}

/* The receiver is there first, and the sender returns as soon as it has sent. */
static muster_status slow_sender_task(muster_worker *w, void *argument) {
    const int32_t rank = spans_rank(w), slow = *(const int32_t *)argument;
    float x = (float)rank, y = -1;
    if (rank == (slow + 1) % RANKS) return muster_worker_recv(w, NULL, slow, 9, vector(&y, 1));
    if (rank != slow) return MUSTER_OK;
    pause_ms(8);
    return muster_worker_send(w, NULL, (slow + 1) % RANKS, 9, vector(&x, 1));
}

static void test_ranks_that_have_done_all_end_nothing(void **state) {
    int32_t cases = 0;
    (void)state;
    for (int32_t l = 0; l < LAYOUTS; l++) {
        spans_launch launch;
        spans_open(&launch, &(spans_options){.counts = layouts[l],
                                             .processes = processes_of(layouts[l]),
                                             .fail_after_ns = -1,
                                             .close_grace_ns = test_patience(close_grace_ns),
                                             .seed = 3});
        for (int32_t slow = 0; slow < RANKS; slow++, cases++) {
            assert_ok(spans_run(&launch, slow_task, &slow));
            assert_ok(spans_run(&launch, slow_sender_task, &slow));
        }
        spans_close(&launch);
    }
    assert_int_equal(cases, LAYOUTS * RANKS);
}

/* ---- answers that have become old ---- */

typedef struct old_answer {
    spans_launch launch;
    pthread_t healer;
} old_answer;

static void *heal(void *argument) {
    old_answer *o = argument;
    pause_ms(25);
    wire_launch_heal(o->launch.wire, 0, 2);
    return NULL;
}

/* Rank 0 waits for rank 1, which is late, and asks it; then for rank 2, whose messages to rank 0
 * are held. Meanwhile rank 1 has done all, and has released the communicator; it may answer so. */
static muster_status old_answer_task(muster_worker *w, void *argument) {
    old_answer *o = argument;
    const int32_t rank = spans_rank(w);
    muster_communicator *part;
    float x[3] = {1, 2, 3}, y[3];
    MUSTER_TRY(muster_worker_split(w, NULL, 0, rank, &part));
    MUSTER_TRY(muster_worker_barrier(w, part));
    if (rank == 0) {
        wire_launch_cut(o->launch.wire, 0, 2);
        if (pthread_create(&o->healer, NULL, heal, o) != 0) return mst_error(MUSTER_SYSTEM, "no thread");
    }
    if (rank == 1) pause_ms(5);
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, vector(x, 3), vector(y, 3)));
    return muster_worker_release(w, part);
}

static void test_an_old_answer_ends_nothing(void **state) {
    static const int32_t counts[] = {1, 1, 1};
    const uint64_t seeds = test_is_full() ? 200 : 20;
    int32_t cases = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++, cases++) {
        old_answer o;
        spans_open(
            &o.launch,
            &(spans_options){
                .counts = counts, .processes = 3, .fail_after_ns = -1, .close_grace_ns = test_patience(close_grace_ns), .seed = seed});
        const muster_status status = spans_run(&o.launch, old_answer_task, &o);
        pthread_join(o.healer, NULL);
        if (status != MUSTER_OK) fail_msg("seed %d: %s", (int)seed, o.launch.process[0].message);
        spans_close(&o.launch);
    }
    assert_int_equal(cases, seeds);
}

/* ---- questions that are dropped ---- */

enum { HELD_NS = 200000000 };

/* Half of the slots of process 1 seem to be on their way to process 0 for long: receives that
 * nothing is ever sent to. For HELD_NS. */
typedef struct held_slots {
    spans_launch launch;
    pthread_t thread;
    char nothing[MST_CONTROL_SLOTS / 2];
} held_slots;

static void hold_slots(held_slots *h) {
    mst_nodes *nodes = h->launch.process[1].nodes;
    mst_wire *wire = nodes->wire;
    pthread_mutex_lock(&wire->lock);
    for (int32_t i = 0; i < MST_CONTROL_SLOTS / 2; i++) {
        struct mst_control_slot *slot = &nodes->rounds->control.slots[i];
        slot->to = 0;
        slot->sent_ns = 0;
        assert_int_equal(slot->request, 0);
        wire->table->receive(wire->state, &h->nothing[i], 1, 0, mst_wire_tag(0, MST_KIND_FREE), &slot->request);
    }
    pthread_mutex_unlock(&wire->lock);
}

static void *free_slots(void *argument) {
    held_slots *h = argument;
    mst_nodes *nodes = h->launch.process[1].nodes;
    mst_wire *wire = nodes->wire;
    nanosleep(&(struct timespec){.tv_nsec = HELD_NS}, NULL);
    pthread_mutex_lock(&wire->lock);
    for (int32_t i = 0; i < MST_CONTROL_SLOTS / 2; i++) wire->table->cancel(wire->state, &nodes->rounds->control.slots[i].request);
    pthread_mutex_unlock(&wire->lock);
    return NULL;
}

/* Rank 1 returns; rank 0 waits for it, and is waited for by rank 2, so that process 1 takes what
 * comes. */
static muster_status drop_task(muster_worker *w, void *argument) {
    held_slots *h = argument;
    const int32_t rank = spans_rank(w);
    float x;
    if (rank == 1) {
        hold_slots(h);
        if (pthread_create(&h->thread, NULL, free_slots, h) != 0) return mst_error(MUSTER_SYSTEM, "no thread");
    }
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    return rank == 1 ? MUSTER_OK : muster_worker_recv(w, NULL, rank == 0 ? 1 : 0, 4, vector(&x, 1));
}

static void test_a_question_that_is_dropped_is_asked_again(void **state) {
    static const int32_t counts[] = {1, 2};
    held_slots h;
    struct timespec begin, end;
    (void)state;
    spans_open(&h.launch,
               &(spans_options){.counts = counts, .processes = 2, .fail_after_ns = -1, .close_grace_ns = test_patience(close_grace_ns)});
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const muster_status status = spans_run(&h.launch, drop_task, &h);
    clock_gettime(CLOCK_MONOTONIC, &end);
    pthread_join(h.thread, NULL);
    assert_int_equal(status, MUSTER_INVALID_ARGUMENT);
    assert_non_null(strstr(h.launch.process[0].message, "returned without sending the message of recv with tag 4"));
    assert_true((end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec > HELD_NS); /* the first one was dropped */
    spans_close(&h.launch);
    assert_int_equal(h.launch.left, 0);
}

/* ---- a failure decides ---- */

static muster_status failing_task(muster_worker *w, void *argument) {
    (void)argument;
    if (spans_rank(w) == 3) pause_ms(8);
    if (spans_rank(w) == 3) return mst_error(MUSTER_USER, "rank 3 has had enough");
    return muster_worker_barrier(w, NULL);
}

static void test_a_failure_is_no_return(void **state) {
    int32_t cases = 0;
    (void)state;
    for (int32_t l = 0; l < LAYOUTS; l++) {
        spans_launch launch;
        spans_open(&launch, &(spans_options){.counts = layouts[l],
                                             .processes = processes_of(layouts[l]),
                                             .fail_after_ns = -1,
                                             .close_grace_ns = test_patience(close_grace_ns)});
        for (int32_t turn = 0; turn < 3; turn++, cases++) {
            assert_int_equal(spans_run(&launch, failing_task, NULL), MUSTER_USER);
            for (int32_t p = 0; p < launch.processes; p++) assert_non_null(strstr(launch.process[p].message, "rank 3 has had enough"));
        }
        spans_close(&launch);
    }
    assert_int_equal(cases, LAYOUTS * 3);
}

int main(void) {
    setenv("MUSTER_TEST_PROCESSES", "threads", 1); /* for test_says */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout),
        cmocka_unit_test(test_processes_and_hosts_are_named),
        cmocka_unit_test(test_ranks_that_have_done_all_end_nothing),
        cmocka_unit_test(test_an_old_answer_ends_nothing),
        cmocka_unit_test(test_a_question_that_is_dropped_is_asked_again),
        cmocka_unit_test(test_a_failure_is_no_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
