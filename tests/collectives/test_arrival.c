/* The arrival, on the simulated wire, with one thread for all processes. */
#include "base_check.h"
#include "base_seed.h"
#include "nodes/arrive_private.h"
#include "wire_launch.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 40, STALLS = 1000000 };

typedef struct group {
    wire_launch *launch;
    int32_t size;
    mst_wire *wires[MOST];
    mst_arrival arrivals[MOST];
    bool begun[MOST], done[MOST];
    uint64_t random;
} group;

static uint64_t group_random(group *g) {
    uint64_t z = g->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 27;
}

static void group_open(group *g, int32_t size, int32_t capacity, bool lazy, uint64_t seed) {
    *g = (group){.size = size, .random = seed};
    g->launch = wire_launch_create(&(wire_launch_options){.processes = size, .lazy = lazy, .seed = seed});
    assert_non_null(g->launch);
    const muster_wire_table *table = wire_launch_table(g->launch);
    muster_wire *states[MOST];
    muster_wire_request requests[MOST];
    for (int32_t p = 0; p < size; p++) {
        wire_launch_join(g->launch, p);
        assert_int_equal(table->open(0, 0, &states[p], &requests[p]), MUSTER_WIRE_OK);
    }
    wire_launch_join(NULL, 0);
    for (int32_t p = 0; p < size; p++) {
        for (int32_t done = 0; !done;) assert_int_equal(table->test(states[p], &requests[p], &done, NULL), MUSTER_WIRE_OK);
        g->wires[p] = wire_launch_wrap(g->launch, states[p]);
        const mst_channel channel = {.wire = g->wires[p], .lane = 3, .size = size, .rank = p};
        assert_ok(mst_arrival_open(&g->arrivals[p], &channel, capacity));
    }
}

static void group_close(group *g, bool clean) {
    const wire_launch_counts counts = wire_launch_count(g->launch);
    if (clean) assert_int_equal(counts.messages + counts.requests, 0);
    for (int32_t p = 0; p < g->size; p++) mst_arrival_close(&g->arrivals[p]);
    for (int32_t p = 0; p < g->size; p++) g->wires[p]->close(g->wires[p], MST_WIRE_FREE);
    wire_launch_destroy(g->launch);
}

/* Lets processes make progress in any order. left_out: one that does not, or -1. Returns how many
 * are done after all have been, or after `turns`. */
static int32_t group_drive(group *g, int32_t left_out, int64_t turns) {
    int32_t count = 0;
    for (int32_t p = 0; p < g->size; p++) g->done[p] = false;
    for (int64_t turn = 0; turn < turns && count < g->size; turn++) {
        const int32_t p = (int32_t)(group_random(g) % (uint64_t)g->size);
        if (p == left_out || g->done[p] || !g->begun[p]) continue;
        const mst_progress progress = g->arrivals[p].machine.progress(&g->arrivals[p].machine);
        if (progress > MST_PROGRESS_DONE) fail_msg("process %d: %s", (int)p, muster_last_error());
        g->done[p] = progress == MST_PROGRESS_DONE;
        count += g->done[p];
    }
    return count;
}

static void begin(group *g, int32_t p, const mst_arrival_input *input) {
    mst_arrival_begin(&g->arrivals[p], input);
    g->begun[p] = true;
}

static int32_t log2_up(int32_t size) {
    int32_t steps = 0;
    for (int32_t reach = 1; reach < size; reach *= 2) steps++;
    return steps;
}

/* ---- the tests ---- */

static unsigned char byte_of(int32_t member, int32_t i) { return (unsigned char)(member * 31 + i * 7 + 1); }

static void check_gathered(group *g, int32_t bytes, const uint64_t *signatures) {
    int32_t least = 0, most = 0;
    for (int32_t p = 1; p < g->size; p++) {
        if (signatures[p] < signatures[least]) least = p;
        if (signatures[p] > signatures[most]) most = p;
    }
    for (int32_t p = 0; p < g->size; p++) {
        const mst_arrival_header *header = &g->arrivals[p].header;
        assert_true(mst_arrival_matches(&g->arrivals[p]));
        assert_true(header->least == signatures[least] && header->most == signatures[most]);
        assert_int_equal(header->least_at, least);
        assert_int_equal(header->most_at, most);
        assert_int_equal(header->status, MUSTER_OK);
        for (int32_t m = 0; m < g->size; m++)
            for (int32_t i = 0; i < bytes; i++) assert_int_equal(g->arrivals[p].all[(int64_t)m * bytes + i], byte_of(m, i));
    }
}

static void test_all_learn_what_all_bring(void **state) {
    (void)state;
    static const int32_t payloads[] = {0, 1, 24, 700, 4096};
    static group g;
    unsigned char payload[4096];
    int32_t cases = 0;
    for (int32_t size = 1; size <= 33; size += size < 9 ? 1 : 8)
        for (int32_t lazy = 0; lazy < 2; lazy++)
            for (int32_t k = 0; k < 5; k++, cases++) {
                uint64_t signatures[MOST];
                group_open(&g, size, 4096, lazy, test_seed() + (uint64_t)cases);
                for (int32_t p = 0; p < size; p++) {
                    signatures[p] = group_random(&g) % 5;
                    for (int32_t i = 0; i < payloads[k]; i++) payload[i] = byte_of(p, i);
                    begin(&g, p,
                          &(mst_arrival_input){.epoch = 9, .signature = signatures[p], .payload = payload, .payload_bytes = payloads[k]});
                }
                assert_int_equal(group_drive(&g, -1, STALLS), size);
                check_gathered(&g, payloads[k], signatures);
                assert_int_equal(wire_launch_count(g.launch).sent, size * log2_up(size));
                group_close(&g, true);
            }
    assert_int_equal(cases, 12 * 2 * 5);
}

static void test_nobody_is_done_before_all_have_begun(void **state) {
    (void)state;
    static group g;
    int32_t cases = 0;
    for (int32_t size = 2; size <= 9; size++)
        for (int32_t late = 0; late < size; late++, cases++) {
            group_open(&g, size, 0, false, test_seed() + (uint64_t)cases);
            for (int32_t p = 0; p < size; p++) begin(&g, p, &(mst_arrival_input){.epoch = 1});
            assert_int_equal(group_drive(&g, late, 5000), 0);
            assert_int_equal(group_drive(&g, -1, STALLS), size);
            group_close(&g, true);
        }
    assert_int_equal(cases, 44);
}

/* Which failure decides: the one of the lowest rank, ABORTED only where there is no other. */
static void test_lowest_failing_rank_decides(void **state) {
    (void)state;
    static group g;
    int32_t failures = 0;
    for (int32_t k = 0; k < 300; k++) {
        group_open(&g, 2 + k % 6, 0, false, test_seed() + (uint64_t)k);
        int32_t decides = -1, ranks[MOST];
        muster_status statuses[MOST];
        for (int32_t p = 0; p < g.size; p++) {
            static const muster_status some[] = {MUSTER_OK, MUSTER_OK, MUSTER_ABORTED, MUSTER_USER, MUSTER_OUT_OF_MEMORY};
            statuses[p] = some[group_random(&g) % 5];
            ranks[p] = (int32_t)(group_random(&g) % 4);
            begin(&g, p, &(mst_arrival_input){.epoch = 1, .status = statuses[p], .rank = ranks[p]});
        }
        for (int32_t aborted = 0; aborted < 2 && decides < 0; aborted++)
            for (int32_t p = 0; p < g.size; p++)
                if (statuses[p] != MUSTER_OK && (statuses[p] == MUSTER_ABORTED) == aborted && (decides < 0 || ranks[p] < ranks[decides]))
                    decides = p;
        assert_int_equal(group_drive(&g, -1, STALLS), g.size);
        for (int32_t p = 0; p < g.size; p++) {
            assert_int_equal(g.arrivals[p].header.status, decides < 0 ? MUSTER_OK : statuses[decides]);
            if (decides >= 0) assert_int_equal(g.arrivals[p].header.at, decides);
            if (decides >= 0) assert_int_equal(g.arrivals[p].header.rank, ranks[decides]);
        }
        failures += decides >= 0;
        group_close(&g, true);
    }
    assert_in_range(failures, 200, 299);
}

/* One member brings another kind, or more or fewer bytes, or carries instead of gathering. */
static void test_mismatches_reach_all(void **state) {
    (void)state;
    static group g;
    const unsigned char payload[64] = {1};
    int32_t cases = 0;
    for (int32_t size = 2; size <= 9; size++)
        for (int32_t odd = 0; odd < size; odd++)
            for (int32_t k = 0; k < 4; k++, cases++) {
                group_open(&g, size, 64, k % 2, test_seed() + (uint64_t)cases);
                mst_arrival_input input = {.epoch = 5, .kind = 1, .payload = payload, .payload_bytes = 16};
                for (int32_t p = 0; p < size; p++) begin(&g, p, &input);
                if (k == 0) input.kind = 2;
                if (k == 1) input.payload_bytes = 64;
                if (k == 2) input.payload_bytes = 0;
                if (k == 3) input.carry = true;
                begin(&g, odd, &input);
                assert_int_equal(group_drive(&g, -1, STALLS), size);
                for (int32_t p = 0; p < size; p++) {
                    const mst_arrival_header *header = &g.arrivals[p].header;
                    assert_false(mst_arrival_matches(&g.arrivals[p]));
                    assert_int_equal(k == 0 ? header->kind.most : header->payload.least, k == 0 ? 2 : k == 1 ? 16 : k == 2 ? 0 : -16);
                    assert_int_equal(k == 0 ? header->kind.most_at : k == 1 ? header->payload.most_at : header->payload.least_at, odd);
                    assert_int_equal(header->kind.least_at, k == 0 && odd == 0 ? 1 : 0);
                }
                group_close(&g, true);
            }
    assert_int_equal(cases, 44 * 4);
}

static void test_carried_halves_reach_all(void **state) {
    (void)state;
    static group g;
    int32_t cases = 0;
    for (int32_t size = 2; size <= 9; size++)
        for (int32_t one = 0; one < size; one++)
            for (int32_t other = 0; other < size; other++, cases++) {
                group_open(&g, size, 64, false, test_seed() + (uint64_t)cases);
                for (int32_t p = 0; p < size; p++) {
                    char halves[2][32] = {"not this", "nor this"};
                    if (p == one) snprintf(halves[0], 32, "first of %d", (int)p);
                    if (p == other) snprintf(halves[1], 32, "second of %d", (int)p);
                    const uint32_t carried = (p == one ? 1 : 0) | (p == other ? 2 : 0);
                    begin(&g, p,
                          &(mst_arrival_input){.epoch = 5, .payload = halves, .payload_bytes = 64, .carry = true, .carried = carried});
                }
                assert_int_equal(group_drive(&g, -1, STALLS), size);
                for (int32_t p = 0; p < size; p++) {
                    char first[32], second[32];
                    snprintf(first, 32, "first of %d", (int)one);
                    snprintf(second, 32, "second of %d", (int)other);
                    assert_int_equal(g.arrivals[p].header.carried, 3);
                    assert_string_equal((char *)g.arrivals[p].all, first);
                    assert_string_equal((char *)g.arrivals[p].all + 32, second);
                }
                group_close(&g, true);
            }
    assert_int_equal(cases, 284);
}

/* Arrivals that are given up by all after some turns, and by some before they have begun; the next
 * one is right all the same. Not one allocation in all of that. */
static void test_stale_messages_are_dropped(void **state) {
    (void)state;
    static group g;
    int32_t ended = 0, given_up = 0;
    for (int32_t k = 0; k < 40; k++) {
        group_open(&g, 2 + k % 8, 16, k & 1, test_seed() + (uint64_t)k);
        const int64_t allocations = mst_memory_count();
        for (uint64_t epoch = 1; epoch <= 30; epoch++)
            for (uint64_t sequence = 0; sequence < 2; sequence++) {
                const bool whole = sequence == 1;
                for (int32_t p = 0; p < g.size; p++) {
                    const uint64_t payload[2] = {epoch * 100 + sequence, (uint64_t)p};
                    if (!whole && group_random(&g) % 4 == 0) continue;
                    begin(&g, p,
                          &(mst_arrival_input){.epoch = epoch,
                                               .sequence = sequence,
                                               .payload = payload,
                                               .payload_bytes = 16,
                                               .signature = epoch * 2 + sequence,
                                               .matched = group_random(&g) & 1});
                }
                const int32_t done = group_drive(&g, -1, whole ? STALLS : (int64_t)(group_random(&g) % 60));
                if (!whole) {
                    given_up += done < g.size;
                    continue;
                }
                assert_int_equal(done, g.size);
                ended++;
                for (int32_t p = 0; p < g.size; p++) {
                    assert_true(g.arrivals[p].header.least == epoch * 2 + 1 && g.arrivals[p].header.most == epoch * 2 + 1);
                    for (int32_t m = 0; m < g.size; m++) {
                        uint64_t payload[2];
                        memcpy(payload, g.arrivals[p].all + m * 16, 16);
                        assert_true(payload[0] == epoch * 100 + 1 && payload[1] == (uint64_t)m);
                    }
                }
            }
        assert_int_equal(mst_memory_count() - allocations, 0);
        group_close(&g, false);
    }
    assert_int_equal(ended, 40 * 30);
    assert_in_range(given_up, 400, 40 * 30);
}

/* A message of a program that is no Muster, and of one that is wrong about its payload. */
static void test_foreign_messages_are_refused(void **state) {
    (void)state;
    static group g;
    for (int32_t k = 0; k < 2; k++) {
        group_open(&g, 2, 64, false, test_seed());
        mst_arrival_header header = {.epoch = 1, .magic = k ? MST_ARRIVAL_MAGIC : 7, .payload = {16, 16, 1, 1}};
        muster_wire_request request = 0;
        const int32_t tag = mst_wire_tag(3, MST_KIND_ARRIVAL);
        assert_int_equal(mst_wire_send(g.wires[1], &header, sizeof header, 0, tag, false, &request), MUSTER_WIRE_OK);
        begin(&g, 0, &(mst_arrival_input){.epoch = 1, .payload = &header, .payload_bytes = 16});
        mst_progress progress = MST_PROGRESS_RUNNING;
        for (int32_t turn = 0; progress == MST_PROGRESS_RUNNING && turn < 1000; turn++) progress = mst_arrival_progress(&g.arrivals[0]);
        assert_int_equal(progress, MST_PROGRESS_FAILED);
        assert_string_equal(
            muster_last_error(),
            k ? "an arrival: expected 16 bytes behind the header of process 1, received 0"
              : "an arrival: process 1 sent 128 bytes that are no header of this version of Muster: do all processes run the same one?");
        group_close(&g, false);
    }
}

/* ---- which sends wait until they have been taken ---- */

static const muster_wire_table *plain;
static int32_t waiting_sends;

static int32_t count_waiting(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    waiting_sends++;
    return plain->send_matched(wire, from, bytes, to, tag, request);
}

/* An arrival of all members that turn to other work behind it. Returns how many of its sends
 * wait. */
static int32_t waiting_sends_of(group *g, uint64_t sequence, int32_t bytes) {
    static const unsigned char payload[8192];
    muster_wire_table counting = *(plain = wire_launch_table(g->launch));
    counting.send_matched = count_waiting;
    waiting_sends = 0;
    for (int32_t p = 0; p < g->size; p++) {
        g->wires[p]->table = &counting;
        begin(g, p, &(mst_arrival_input){.sequence = sequence, .payload = payload, .payload_bytes = bytes, .matched = true});
    }
    assert_int_equal(group_drive(g, -1, STALLS), g->size);
    for (int32_t p = 0; p < g->size; p++) g->wires[p]->table = plain;
    return waiting_sends;
}

static void open_two(group *g) {
    group_open(g, 2, 8192, false, test_seed());
    assert_int_equal(waiting_sends_of(g, 1, 0), 2);
    assert_int_equal(waiting_sends_of(g, 2, 0), 2);
    assert_int_equal(waiting_sends_of(g, 3, 0), 0);
}

static void test_behind_two_arrivals_little_does_not_wait(void **state) {
    (void)state;
    static group g;
    const int32_t most = MST_ARRIVAL_IN_FLIGHT / 2 - (int32_t)sizeof(mst_arrival_header);
    open_two(&g);
    assert_int_equal(waiting_sends_of(&g, 4, most), 0);
    assert_int_equal(waiting_sends_of(&g, 5, most), 0);
    assert_int_equal(waiting_sends_of(&g, 6, most + 1), 2);
    assert_int_equal(waiting_sends_of(&g, 7, 0), 0);
    group_close(&g, true);
}

/* Both members send each other so many bytes on another channel. */
static void exchange_bytes(group *g, int64_t bytes) {
    static char from[2][MST_ARRIVAL_IN_FLIGHT], to[2][MST_ARRIVAL_IN_FLIGHT];
    muster_wire_request requests[4] = {0};
    for (int32_t p = 0; p < 2; p++) {
        mst_wire *wire = g->wires[p];
        assert_int_equal(wire->table->receive(wire->state, to[p], bytes, 1 - p, 77, &requests[p]), MUSTER_WIRE_OK);
        assert_int_equal(mst_wire_send(wire, from[p], bytes, 1 - p, 77, false, &requests[2 + p]), MUSTER_WIRE_OK);
    }
    for (int32_t i = 0; i < 4; i++)
        for (int32_t done = 0; !done;)
            assert_int_equal(g->wires[i % 2]->table->test(g->wires[i % 2]->state, &requests[i], &done, NULL), MUSTER_WIRE_OK);
}

static void test_behind_much_of_another_channel_sends_wait(void **state) {
    (void)state;
    static group g;
    const int64_t most = MST_ARRIVAL_IN_FLIGHT - 2 * (int64_t)sizeof(mst_arrival_header);
    open_two(&g);
    exchange_bytes(&g, most);
    assert_int_equal(waiting_sends_of(&g, 4, 0), 0);
    assert_int_equal(waiting_sends_of(&g, 5, 0), 0); /* that arrival 4 has ended well does not say that all have taken these bytes */
    exchange_bytes(&g, most + 1);
    assert_int_equal(waiting_sends_of(&g, 6, 0), 2);
    assert_int_equal(waiting_sends_of(&g, 7, 0), 2);
    assert_int_equal(waiting_sends_of(&g, 8, 0), 0);
    group_close(&g, true);
}

static void test_behind_a_collective_of_the_mpi_sends_wait(void **state) {
    (void)state;
    static group g;
    open_two(&g);
    for (int32_t p = 0; p < 2; p++) atomic_fetch_add(&g.wires[p]->collectives, 1);
    assert_int_equal(waiting_sends_of(&g, 4, 0), 2);
    assert_int_equal(waiting_sends_of(&g, 5, 0), 2);
    assert_int_equal(waiting_sends_of(&g, 6, 0), 0);
    group_close(&g, true);
}

static void test_behind_an_arrival_that_was_given_up_sends_wait(void **state) {
    (void)state;
    static group g;
    open_two(&g);
    begin(&g, 0, &(mst_arrival_input){.sequence = 4, .matched = true});
    assert_int_equal(waiting_sends_of(&g, 5, 0), 1);
    assert_int_equal(waiting_sends_of(&g, 6, 0), 1);
    assert_int_equal(waiting_sends_of(&g, 7, 0), 0);
    group_close(&g, true);
}

static void test_too_many_members_are_refused(void **state) {
    (void)state;
    mst_arrival arrival;
    assert_refused(mst_arrival_open(&arrival, &(mst_channel){.size = 65537}, 0), MUSTER_UNSUPPORTED,
                   "an arrival: expected at most 65536 processes, received 65537");
    assert_ok(mst_arrival_open(&arrival, &(mst_channel){.size = 65536}, 0));
    mst_arrival_close(&arrival);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_learn_what_all_bring),
        cmocka_unit_test(test_nobody_is_done_before_all_have_begun),
        cmocka_unit_test(test_lowest_failing_rank_decides),
        cmocka_unit_test(test_mismatches_reach_all),
        cmocka_unit_test(test_carried_halves_reach_all),
        cmocka_unit_test(test_stale_messages_are_dropped),
        cmocka_unit_test(test_foreign_messages_are_refused),
        cmocka_unit_test(test_too_many_members_are_refused),
        cmocka_unit_test(test_behind_two_arrivals_little_does_not_wait),
        cmocka_unit_test(test_behind_much_of_another_channel_sends_wait),
        cmocka_unit_test(test_behind_a_collective_of_the_mpi_sends_wait),
        cmocka_unit_test(test_behind_an_arrival_that_was_given_up_sends_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
