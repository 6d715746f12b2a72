/* The time of each schedule on the simulated wire against a calculation by LogGP. */
#include "base_check.h"
#include "collectives_fleet.h"

#include <stdlib.h>

enum { L = FLEET_L, O = FLEET_O, GAP = FLEET_GAP, BYTE = FLEET_BYTE };

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* When the i-th (1, 2, ...) of the messages leaves that a process begins at `time`, one after
 * the other. */
static int64_t hand_leaves(int64_t time, int32_t i, int64_t bytes) {
    int64_t leaves = time + O;
    for (int32_t k = 2; k <= i; k++) leaves = larger(time + (int64_t)k * O, leaves + bytes * BYTE + GAP);
    return leaves;
}

/* All send to all others at `time`, the message of distance d as the d-th: when a process has
 * been told of those that are for it. */
static int64_t hand_exchange(int64_t time, int32_t size, int64_t bytes) {
    int64_t told = time + (int64_t)(size - 1) * O;
    for (int32_t d = 1; d < size; d++) told = larger(told, hand_leaves(time, d, bytes) + bytes * BYTE + L) + O;
    return told;
}

/* When all of a tree are done below the process `number`, which has its bytes at `time`. */
static int64_t hand_tree(int64_t time, int32_t number, int32_t size, int64_t bytes) {
    int64_t end = time;
    for (int32_t child = 1; child <= 2 && 2 * number + child < size; child++) {
        const int64_t leaves = hand_leaves(time, child, bytes), there = leaves + bytes * BYTE + L;
        end = larger(end, larger(there + L, hand_tree(there + O, 2 * number + child, size, bytes)));
    }
    return end;
}

/* All others send to one at once: its wire takes them one by one. */
static int64_t hand_incast(int32_t size, int64_t bytes) {
    int64_t told = 0, there = 0;
    for (int32_t i = 1; i < size; i++) {
        there = O + L + i * bytes * BYTE + (i - 1) * (int64_t)GAP;
        told = larger(told, there) + O;
    }
    return larger(told, there + L);
}

/* The MPI's own collectives, as the clock has them. */
static int64_t hand_mpi(int32_t size, int64_t bytes) {
    int64_t steps = 0;
    for (int32_t reach = 1; reach < size; reach *= 2) steps++;
    return steps * (L + 2 * O + bytes * BYTE);
}

enum { HAND_MOST = 64, HAND_EAGER = 4096, HAND_ACTIVE = 8 };

/* One sends to all others, to eight at a time: to the i-th when all up to the one eight before it
 * are known to have it, L after it is there. */
static int64_t hand_scatter(int32_t size, int64_t bytes) {
    int64_t known[HAND_MOST] = {0}, busy = 0, out = 0, there = 0;
    for (int32_t i = 1; i < size; i++) {
        busy = larger(busy, i > HAND_ACTIVE ? known[i - HAND_ACTIVE] : 0) + O;
        const int64_t leaves = larger(busy, out);
        out = leaves + bytes * BYTE + GAP;
        there = leaves + bytes * BYTE + L;
        known[i] = there + L;
    }
    return size > 1 ? larger(known[size - 1], there + O) : 0;
}

/* All others send to one, which has receives for eight at a time: what comes before its receive
 * waits for that. Returns when the last sender knows that it is received. */
static int64_t hand_gather(int32_t size, int64_t bytes) {
    int64_t done[HAND_MOST], now = 0;
    for (int32_t i = 1; i < size; i++) done[i] = O + L + i * bytes * BYTE + (i - 1) * (int64_t)GAP;
    for (int32_t told = 0, posted = HAND_ACTIVE; told + 1 < size;) {
        const int64_t looks = now = larger(now, done[told + 1]);
        for (; told + 1 < size && told < posted && done[told + 1] <= looks; told++) now += O;
        for (; posted < told + HAND_ACTIVE && posted + 1 < size; posted++) done[posted + 1] = larger(done[posted + 1], now);
    }
    int64_t end = now;
    for (int32_t i = 1; i < size; i++) end = larger(end, done[i] + L);
    return end;
}

/* The most parts of a message of Bruck's algorithm. */
static int32_t hand_most_parts(int32_t size) {
    int32_t most = 0;
    for (int32_t reach = 1; reach < size; reach *= 2) {
        const int32_t count = reach < size - reach ? reach : size - reach;
        most = count > most ? count : most;
    }
    return most;
}

/* Bruck: in each step a member sends what it has, as one message or, around the end of the
 * concatenation, as two, and goes on when what it gets is there. The members differ in which of
 * them send two. */
static int64_t hand_bruck(int32_t size, int64_t n) {
    int64_t time[HAND_MOST] = {0}, out[HAND_MOST] = {0}, in[HAND_MOST] = {0}, end = 0;
    for (int32_t reach = 1; reach < size; reach *= 2) {
        const int32_t count = reach < size - reach ? reach : size - reach;
        int64_t leaves[HAND_MOST][2], begun[HAND_MOST];
        for (int32_t m = 0; m < size; m++) begun[m] = time[m];
        for (int32_t m = 0; m < size; m++) {
            const int32_t parts[2] = {m + count > size ? size - m : count, m + count > size ? m + count - size : 0};
            for (int32_t i = 0; i < 2 && parts[i]; i++) {
                if (parts[i] * n > HAND_EAGER) return -1; /* longer ones ask first */
                time[m] += O;
                leaves[m][i] = larger(time[m], out[m]);
                out[m] = leaves[m][i] + parts[i] * n * BYTE + GAP;
            }
        }
        for (int32_t m = 0; m < size; m++) {
            const int32_t from = (m + reach) % size;
            const int32_t parts[2] = {from + count > size ? size - from : count, from + count > size ? from + count - size : 0};
            for (int32_t i = 0; i < 2 && parts[i]; i++) {
                const int64_t there = larger(leaves[from][i] + L, in[m]) + parts[i] * n * BYTE;
                in[m] = there + GAP;
                time[m] = larger(time[m], there) + O;
                if (i == 1 || !parts[1]) end = larger(end, larger(there, begun[m]) + L); /* it is told of the match */
            }
            end = larger(end, time[m]);
        }
    }
    return end;
}

/* The time of a move whose messages all have `part` bytes and are eager; what is folded costs
 * nothing. A member's last message to another is done when the word of its match is back: L after
 * it is there. -1: not computed. */
static int64_t by_hand(fleet_plan plan) {
    const int64_t n = plan.part, hop = O + n * BYTE + L + O, ends = larger(L, O) - O;
    const int32_t size = plan.size, steps = size - 1;
    if (size == 1) return plan.algorithm == MST_MOVE_MPI ? -1 : 0;
    switch (plan.algorithm) {
    case MST_MOVE_TREE:
        return hand_tree(0, 0, size, n);
    case MST_MOVE_RING:
        return steps * hop + ends;
    case MST_MOVE_CHAIN:
        if (plan.kind == MST_MOVE_ALL_REDUCE) return 2 * steps * hop + ends;
        return (plan.root == size - 1 ? steps : steps + 1) * hop + ends; /* and from the last member to root */
    case MST_MOVE_EXCHANGE:
        if (plan.kind == MST_MOVE_REDUCE) return hand_exchange(0, size, n) + hand_incast(size, n); /* then the slices go to root */
        if (plan.kind == MST_MOVE_REDUCE_SCATTER)
            return larger(hand_exchange(0, size, n), hand_leaves(0, steps, n) + n * BYTE + 2 * (int64_t)L);
        return larger(hand_exchange(hand_exchange(0, size, n), size, n),
                      hand_leaves(hand_exchange(0, size, n), steps, n) + n * BYTE + 2 * (int64_t)L);
    case MST_MOVE_BRUCK:
        return hand_bruck(size, n);
    case MST_MOVE_MPI:
        return hand_mpi(size, n * (plan.kind == MST_MOVE_REDUCE_SCATTER || plan.kind == MST_MOVE_ALL_GATHER ? size : 1));
    case MST_MOVE_GATHER_FOLD:
        return plan.kind == MST_MOVE_REDUCE ? hand_incast(size, n) : hand_bruck(size, n);
    case MST_MOVE_DIRECT:
        if (plan.kind == MST_MOVE_GATHER) return hand_gather(size, n);
        if (plan.kind == MST_MOVE_SCATTER) return hand_scatter(size, n);
        if (steps > HAND_ACTIVE) return -1; /* of each kind eight at a time: test_time_of_all_to_all */
        return larger(hand_exchange(0, size, n), hand_leaves(0, steps, n) + n * BYTE + 2 * (int64_t)L);
    default:
        return -1;
    }
}

static int32_t hand_compared;

static void pair_time(fleet_plan plan) {
    const int32_t part = plan.part;
    /* The vector of an all_reduce by exchange is cut into slices, which are the messages. */
    if (plan.algorithm == MST_MOVE_EXCHANGE && plan.kind != MST_MOVE_REDUCE_SCATTER) plan.part *= plan.size;
    const fleet_outcome result = fleet_run(plan, 0, 0);
    plan.part = part;
    const int64_t expected = by_hand(plan);
    if (expected < 0) return;
    if (result.time != expected)
        fail_msg("%s by %s, %d processes, %d bytes: expected %lld ps, received %lld", mst_move_kind_name(plan.kind),
                 mst_move_algorithm_name(plan.algorithm), plan.size, plan.part, (long long)expected, (long long)result.time);
    hand_compared++;
}

static void test_time_by_hand(void **state) {
    (void)state;
    const int32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33};
    const int32_t parts[] = {64, 256, 1024, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int32_t j = 0; j < 4; j++) {
            hand_compared = 0;
            fleet_for_each_pair((fleet_plan){.size = sizes[i], .part = parts[j]}, pair_time);
            const int32_t by_bruck = hand_most_parts(sizes[i]) * parts[j] <= HAND_EAGER ? 2 : 0;
            assert_int_equal(hand_compared, sizes[i] == 1 ? 13 : (sizes[i] <= 9 ? 15 : 14) + by_bruck);
        }
}

/* Bruck: step k moves min(2^k, P - 2^k) parts, in one message or, around the end, in two. */
static void test_time_of_bruck(void **state) {
    (void)state;
    for (int32_t size = 2; size <= 33; size++) {
        const int64_t n = 64, bytes = (size - 1) * n * BYTE;
        int64_t steps = 0;
        for (int32_t reach = 1; reach < size; reach *= 2) steps++;
        const int64_t time = fleet_run((fleet_plan){MST_MOVE_ALL_GATHER, MST_MOVE_BRUCK, .size = size, .part = (int32_t)n}, 0, 0).time;
        assert_in_range(time, steps * (2 * O + L) + bytes, steps * (4 * O + L + GAP) + bytes + L);
    }
}

/* Longer messages ask first, for 2 L more in each step. Of two processes exactly. */
static void test_time_of_long_bruck(void **state) {
    (void)state;
    const int64_t n = 2 * HAND_EAGER;
    for (int32_t size = 2; size <= 33; size++) {
        const int64_t bytes = (size - 1) * n * BYTE;
        int64_t steps = 0;
        for (int32_t reach = 1; reach < size; reach *= 2) steps++;
        const int64_t time = fleet_run((fleet_plan){MST_MOVE_ALL_GATHER, MST_MOVE_BRUCK, .size = size, .part = (int32_t)n}, 0, 0).time;
        if (size == 2) assert_int_equal(time, 3 * (int64_t)L + 2 * O + bytes);
        assert_in_range(time, steps * (3 * (int64_t)L + 2 * O) + bytes, steps * (3 * (int64_t)L + 4 * O + 2 * GAP) + bytes);
    }
}

/* In rounds of eight messages of which each one waits for the last of the round before it would be
 * slower; each process is busy for an o with each message of either direction. */
static void test_time_of_all_to_all(void **state) {
    (void)state;
    const int32_t parts[] = {64, 1024, 4096};
    for (int32_t size = 10; size <= 64; size += size < 33 ? 1 : 31)
        for (int32_t j = 0; j < 3; j++) {
            const int64_t n = parts[j], steps = size - 1, rounds = (steps + HAND_ACTIVE - 1) / HAND_ACTIVE;
            const int64_t round = larger(hand_exchange(0, HAND_ACTIVE + 1, n), hand_leaves(0, HAND_ACTIVE, n) + n * BYTE + 2 * (int64_t)L);
            const int64_t time = fleet_run((fleet_plan){MST_MOVE_ALL_TO_ALL, MST_MOVE_DIRECT, .size = size, .part = parts[j]}, 0, 0).time;
            assert_in_range(time, larger(2 * steps * O, steps * (n * BYTE + GAP) - GAP + O + L), rounds * round);
        }
}

/* ---- a broadcast among many ---- */

typedef struct many {
    int32_t size;
    mst_wire **wires;
    struct many_member {
        mst_channel channel;
        mst_schedule schedule;
        mst_move move;
        uint32_t words[16];
    } * members;
} many;
enum { MANY_BYTES = 64, MANY_ROOT = 5 };

static bool many_step(void *user, int32_t p) {
    const many *m = user;
    const mst_progress progress = mst_schedule_progress(&m->members[p].schedule);
    assert_true(progress <= MST_PROGRESS_DONE);
    return progress == MST_PROGRESS_DONE;
}

static void many_open(many *m) {
    m->wires = calloc((size_t)m->size, sizeof *m->wires);
    m->members = calloc((size_t)m->size, sizeof *m->members);
    assert_true(m->wires && m->members);
}

static void many_begin(many *m) {
    for (int32_t p = 0; p < m->size; p++) {
        struct many_member *own = &m->members[p];
        own->channel = (mst_channel){.wire = m->wires[p], .lane = 1, .size = m->size, .rank = p};
        own->move =
            (mst_move){.kind = MST_MOVE_BROADCAST, .algorithm = MST_MOVE_TREE, .root = MANY_ROOT, .count = MANY_BYTES, .to = own->words};
        for (int32_t i = 0; i < 16 && p == MANY_ROOT; i++) own->words[i] = (uint32_t)i * 2654435761u + 1;
        assert_ok(mst_schedule_prepare(&own->schedule, &own->channel, 1u << MST_MOVE_TREE, 1));
        assert_ok(mst_schedule_begin(&own->schedule, &own->move));
    }
}

static void test_a_broadcast_among_many(void **state) {
    (void)state;
#ifdef MUSTER_TEST_SANITIZED
    many m = {.size = 4096};
#else
    many m = {.size = 65536};
#endif
    many_open(&m);
    wire_launch *launch = fleet_launch(m.size, false, 0, 0, m.wires);
    many_begin(&m);
    wire_drive drive = {.step = many_step, .user = &m};
    assert_int_equal(wire_clock_drive(launch, &drive), WIRE_ALL_OVER);
    assert_int_equal(wire_clock_time(launch, -1), hand_tree(0, 0, m.size, MANY_BYTES));
    for (int32_t p = 0; p < m.size; p++) {
        assert_memory_equal(m.members[p].words, m.members[MANY_ROOT].words, MANY_BYTES);
        mst_schedule_free(&m.members[p].schedule);
        m.wires[p]->close(m.wires[p], MST_WIRE_FREE);
    }
    assert_int_equal(m.members[0].words[3], 3 * 2654435761u + 1);
    const wire_launch_counts counts = wire_launch_count(launch);
    assert_int_equal(counts.sent, m.size - 1);
    assert_int_equal(counts.messages + counts.requests, 0);
    wire_launch_destroy(launch);
    free(m.wires);
    free(m.members);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_time_by_hand), cmocka_unit_test(test_time_of_bruck),
                                       cmocka_unit_test(test_time_of_long_bruck), cmocka_unit_test(test_time_of_all_to_all),
                                       cmocka_unit_test(test_a_broadcast_among_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
