/* The arrival on the simulated wire: every order for up to four processes, also where one of
 * them gives an arrival up; 65,536 processes; its time by LogGP; and seeds with delays and lost
 * processes. */
#include "base_check.h"
#include "base_seed.h"
#include "nodes/arrive_private.h"
#include "wire_clock.h"
#include "wire_explore.h"

#include <stdio.h>
#include <stdlib.h>

enum { L = 1300000, O = 110000, GAP = 50000, BYTE = 85, HEADER = (int)sizeof(mst_arrival_header) };

/* What each process does: `rounds` arrivals one after the other. `failing`: a process that gives
 * up `failing_at`, after so many looks, tells the others, and goes to the last arrival, as a
 * call that fails does. */
typedef struct plan {
    int32_t size, rounds, payload_bytes;
    int32_t failing, failing_at, failing_looks; /* failing -1: none */
    bool explored;
} plan;

typedef struct process {
    mst_arrival arrival;
    muster_wire_request poison_receive, poison_sends[4];
    int32_t round, looks, poison_in, poison_out;
    bool begun, given_up;
} process;

typedef struct group {
    plan plan;
    mst_wire **wires;
    process *processes;
    int64_t paths, given_up;
} group;

static uint32_t group_value(int32_t round, int32_t p) { return (uint32_t)(p * 2654435761u + (uint32_t)round * 97u + 5u); }

static void group_begin(group *g) {
    g->processes = calloc((size_t)g->plan.size, sizeof *g->processes);
    for (int32_t p = 0; p < g->plan.size; p++) {
        process *s = &g->processes[p];
        const mst_channel channel = {.wire = g->wires[p], .lane = 0, .size = g->plan.size, .rank = p};
        assert_ok(mst_arrival_open(&s->arrival, &channel, g->plan.payload_bytes));
        if (g->plan.failing >= 0 && g->plan.failing != p)
            assert_int_equal(
                g->wires[p]->table->receive(g->wires[p]->state, &s->poison_in, 4, g->plan.failing, MST_KIND_CONTROL, &s->poison_receive),
                MUSTER_WIRE_OK);
    }
}

/* Begins the arrival of the round; the last one carries how the process has fared. */
static void group_begin_round(group *g, int32_t p) {
    process *s = &g->processes[p];
    const bool last = s->round == g->plan.rounds - 1, failed = g->plan.failing == p && last;
    uint32_t payload[64];
    for (int32_t i = 0; i < g->plan.payload_bytes / 4; i++) payload[i] = group_value(s->round, p) + (uint32_t)i;
    mst_arrival_begin(&s->arrival, &(mst_arrival_input){.epoch = 7 + (uint64_t)last,
                                                        .sequence = (uint64_t)s->round,
                                                        .signature = 10 + (uint64_t)s->round,
                                                        .kind = s->round,
                                                        .status = failed        ? MUSTER_USER
                                                                  : s->given_up ? MUSTER_ABORTED
                                                                                : MUSTER_OK,
                                                        .rank = failed || s->given_up ? p : -1,
                                                        .payload = payload,
                                                        .payload_bytes = g->plan.payload_bytes,
                                                        .matched = last});
    s->begun = true;
}

static void group_give_up(group *g, int32_t p) {
    process *s = &g->processes[p];
    s->round = g->plan.rounds - 1;
    s->given_up = true;
    s->begun = false;
    g->given_up++;
}

/* The process fails: tells all others. */
static void group_fail(group *g, int32_t p) {
    process *s = &g->processes[p];
    int32_t count = 0;
    for (int32_t to = 0; to < g->plan.size; to++) {
        if (to == p) continue;
        assert_int_equal(g->wires[p]->table->send(g->wires[p]->state, &s->poison_out, 4, to, MST_KIND_CONTROL, &s->poison_sends[count++]),
                         MUSTER_WIRE_OK);
    }
    group_give_up(g, p);
}

static void group_look_at_poison(group *g, int32_t p) {
    process *s = &g->processes[p];
    const muster_wire_table *table = g->wires[p]->table;
    int32_t done = 0;
    for (int32_t i = 0; i < 4; i++) assert_int_equal(table->test(g->wires[p]->state, &s->poison_sends[i], &done, NULL), MUSTER_WIRE_OK);
    if (!s->poison_receive) return;
    assert_int_equal(table->test(g->wires[p]->state, &s->poison_receive, &done, NULL), MUSTER_WIRE_OK);
    if (done && s->round < g->plan.rounds - 1) group_give_up(g, p);
}

static void group_check(const group *g, int32_t p) {
    const process *s = &g->processes[p];
    const mst_arrival_header *header = &s->arrival.header;
    const bool failed = g->plan.failing >= 0 && s->round == g->plan.rounds - 1;
    assert_true(mst_arrival_matches(&s->arrival));
    assert_int_equal(header->least, 10 + (uint64_t)s->round);
    assert_int_equal(header->most, 10 + (uint64_t)s->round);
    assert_int_equal(header->status, failed ? MUSTER_USER : MUSTER_OK);
    if (failed) assert_int_equal(header->rank, g->plan.failing);
    if (failed) assert_int_equal(header->at, g->plan.failing);
    for (int32_t m = 0; m < g->plan.size; m++)
        for (int32_t i = 0; i < g->plan.payload_bytes / 4; i++) {
            uint32_t value;
            memcpy(&value, s->arrival.all + (int64_t)m * g->plan.payload_bytes + i * 4, 4);
            assert_int_equal(value, group_value(s->round, m) + (uint32_t)i);
        }
}

static bool group_step(void *user, int32_t p) {
    group *g = user;
    process *s = &g->processes[p];
    if (g->plan.failing >= 0) group_look_at_poison(g, p);
    while (s->round < g->plan.rounds) {
        const bool fails = p == g->plan.failing && !s->given_up && s->round >= g->plan.failing_at;
        if (fails && (s->round == g->plan.rounds - 1 || s->looks++ == g->plan.failing_looks)) { /* it may have been too quick */
            group_fail(g, p);
            continue;
        }
        if (!s->begun) group_begin_round(g, p);
        const mst_progress progress = mst_arrival_progress(&s->arrival);
        if (progress == MST_PROGRESS_RUNNING) return false;
        if (progress != MST_PROGRESS_DONE) fail_msg("process %d: %s", (int)p, muster_last_error());
        group_check(g, p);
        s->round++;
        s->begun = false;
    }
    for (int32_t i = 0; i < 4; i++)
        if (s->poison_sends[i]) return false;
    return !s->poison_receive;
}

static void group_end(group *g) {
    for (int32_t p = 0; p < g->plan.size; p++) mst_arrival_close(&g->processes[p].arrival);
    free(g->processes);
}

/* ---- every order ---- */

static void explore_begin(void *user, wire_launch *launch, mst_wire **wires) {
    group *g = user;
    (void)launch;
    g->wires = wires;
    group_begin(g);
}

static void explore_end(void *user, bool over) {
    group *g = user;
    g->paths += over;
    group_end(g);
}

/* What a process will decide by. */
static uint64_t explore_hash(void *user, int32_t p) {
    const group *g = user;
    const process *s = &g->processes[p];
    const mst_arrival *a = &s->arrival;
    const int32_t words[] = {a->step,  a->posted, a->sent_steps, a->input.matched,      a->used, a->ended, s->round,
                             s->looks, s->begun,  s->given_up,   s->poison_receive != 0};
    uint64_t hash = wire_explore_mix(1, words, sizeof words);
    hash = wire_explore_mix(hash, &a->header, sizeof a->header);
    for (int32_t step = 0; step < a->steps; step++) {
        const int64_t bytes[] = {a->receives[step] != 0, a->sends[step] != 0, a->received_bytes[step]};
        hash = wire_explore_mix(hash, bytes, sizeof bytes);
        hash = wire_explore_mix(hash, a->received[step], a->received_bytes[step]);
    }
    for (int32_t i = 0; i < 4; i++) hash = wire_explore_mix(hash, &(bool){s->poison_sends[i] != 0}, 1);
    return hash;
}

/* Returns the number of states. */
static int64_t explore(plan plan, int64_t eager_bytes, int64_t most) {
    group g = {.plan = plan};
    wire_explore explore = {.options = {.processes = plan.size, .eager_bytes = eager_bytes},
                            .begin = explore_begin,
                            .step = group_step,
                            .end = explore_end,
                            .hash = explore_hash,
                            .user = &g,
                            .most_states = most};
    assert_true(wire_explore_run(&explore));
    if (explore.stuck) fail_msg("%d processes, %d rounds, stuck after%s", plan.size, plan.rounds, explore.trace);
    if (!most) assert_true(explore.complete);
    assert_int_equal(g.paths, explore.paths);
    assert_in_range(explore.paths, 1, INT64_MAX);
    if (plan.failing >= 0) assert_in_range(g.given_up, 1, INT64_MAX);
    return explore.states;
}

static void test_every_order(void **state) {
    (void)state;
    int32_t cases = 0;
    int64_t states = 0;
    for (int32_t size = 1; size <= 4; size++)
        for (int32_t rounds = 1; rounds <= (size < 4 || test_is_full() ? 2 : 1); rounds++)
            for (int32_t eager = 0; eager < 2; eager++, cases++)
                states += explore((plan){.size = size, .rounds = rounds, .payload_bytes = 8, .failing = -1}, eager ? -1 : 0, 0);
    assert_int_equal(cases, test_is_full() ? 16 : 14);
    assert_in_range(states, 1000, INT64_MAX);
    print_message("%d cases, %lld states\n", (int)cases, (long long)states);
}

/* A process takes no part in an arrival, or gives it up after one or two looks; the others hear
 * of it when they do, and all meet in the next one. */
static void test_every_order_with_a_failure(void **state) {
    (void)state;
    int32_t cases = 0;
    int64_t states = 0;
    for (int32_t size = 2; size <= 3; size++)
        for (int32_t failing = 0; failing < size; failing++)
            for (int32_t looks = 0; looks < 3; looks++) {
                if (size == 3 && (looks > 0 || failing > 0) && !test_is_full()) continue;
                states += explore((plan){.size = size, .rounds = 2, .payload_bytes = 8, .failing = failing, .failing_looks = looks}, 0, 0);
                cases++;
            }
    assert_int_equal(cases, test_is_full() ? 15 : 7);
    if (test_is_full()) /* of four the first millions of states */
        explore((plan){.size = 4, .rounds = 2, .failing = 2, .failing_looks = 1}, 0, 3000000);
    print_message("%d cases, %lld states\n", (int)cases, (long long)states);
}

/* ---- with a clock ---- */

typedef struct outcome {
    wire_verdict verdict;
    int64_t time, peak_bytes; /* of the wire, per process */
    int64_t left;             /* messages and requests */
} outcome;

static outcome run(plan plan, int64_t jitter, uint64_t seed) {
    group g = {.plan = plan, .wires = calloc((size_t)plan.size, sizeof *g.wires)};
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = plan.size, .seed = seed});
    assert_true(wire_clock_start(launch, &(wire_clock_options){.latency = L, .overhead = O, .gap = GAP, .byte = BYTE, .jitter = jitter}));
    assert_true(wire_clock_open(launch, g.wires));
    group_begin(&g);
    uint64_t random = seed;
    for (int32_t p = 0; seed && p < plan.size; p++) { /* some come late */
        random = random * 6364136223846793005u + 1442695040888963407u;
        wire_clock_work(launch, p, (int64_t)(random >> 33) % (4 * (int64_t)L));
    }
    wire_drive drive = {.step = group_step, .user = &g, .idle_calls = seed ? 6 : 1};
    outcome result = {.verdict = wire_clock_drive(launch, &drive)};
    result.time = wire_clock_time(launch, -1);
    wire_clock_settle(launch);
    const wire_launch_counts counts = wire_launch_count(launch);
    result.left = counts.messages + counts.requests;
    result.peak_bytes = counts.peak_bytes / plan.size;
    group_end(&g);
    for (int32_t p = 0; p < plan.size; p++) g.wires[p]->close(g.wires[p], MST_WIRE_LOST);
    wire_launch_destroy(launch);
    free(g.wires);
    return result;
}

/* By hand: step k of an arrival moves a header and the payloads of min(2^k, P - 2^k) members. A
 * message of n bytes takes o + n G + L + o, and 2 L more if it is longer than eager sends. The
 * sends of a first or last arrival are done only when the receiver's word is back: L after the
 * last match. The last one of three does not wait where twice its bytes are no more than may be in
 * flight. */
static int64_t by_hand(int32_t size, int32_t rounds, int64_t payload) {
    int64_t time = 0;
    for (int32_t round = 0; round < rounds; round++) {
        int64_t last = 0;
        for (int32_t reach = 1; reach < size; reach *= 2) {
            const int64_t n = HEADER + payload * (reach < size - reach ? reach : size - reach);
            last = O + n * BYTE + L + (n > WIRE_EAGER_BYTES ? 2 * (int64_t)L : 0);
            time += last + O;
            const bool in_flight = round < 2 || 2 * n > MST_ARRIVAL_IN_FLIGHT, waits = round == 0 || (round == rounds - 1 && in_flight);
            if (reach * 2 >= size && waits && n <= WIRE_EAGER_BYTES) time += L - O;
        }
    }
    return time;
}

static void test_time_by_hand(void **state) {
    (void)state;
    const int32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64, 100, 1024};
    const int32_t payloads[] = {0, 4, 24, 200};
    int32_t cases = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int32_t j = 0; j < 4; j++)
            for (int32_t rounds = 1; rounds <= 3; rounds++) {
                if (sizes[i] == 1024 && (j > 1 || rounds > 1) && !test_is_full()) continue;
                const outcome result = run((plan){.size = sizes[i], .rounds = rounds, .payload_bytes = payloads[j], .failing = -1}, 0, 0);
                assert_int_equal(result.verdict, WIRE_ALL_OVER);
                assert_int_equal(result.left, 0);
                assert_int_equal(result.time, by_hand(sizes[i], rounds, payloads[j]));
                cases++;
            }
    assert_int_equal(cases, test_is_full() ? 23 * 12 : 22 * 12 + 2);
}

/* Anybody may be late, and messages take their time: all agree. */
static void test_seeds(void **state) {
    (void)state;
    const int32_t seeds = test_is_full() ? 10000 : 400;
    int32_t failures = 0;
    for (int32_t i = 0; i < seeds; i++) {
        const uint64_t seed = test_seed() * 1000003 + (uint64_t)i;
        plan plan = {.size = 1 + i % 9, .rounds = 1 + i % 4, .payload_bytes = i % 3 * 4, .failing = -1};
        if (plan.size > 1 && plan.size <= 5 && i % 2) {
            plan.rounds += 1;
            plan.failing = (int32_t)(seed % (uint64_t)plan.size);
            plan.failing_at = i / 2 % (plan.rounds - 1);
            plan.failing_looks = i / 8 % 3;
            failures++;
        }
        const outcome result = run(plan, 3 * (int64_t)L, seed);
        if (result.verdict != WIRE_ALL_OVER) fail_msg("seed %llu: verdict %d", (unsigned long long)seed, (int)result.verdict);
    }
    assert_in_range(failures, seeds / 5, seeds / 3);
}

static void test_many_processes(void **state) {
    (void)state;
#ifdef MUSTER_TEST_SANITIZED
    const int32_t size = 4096;
#else
    const int32_t size = 65536;
#endif
    const outcome result = run((plan){.size = size, .rounds = 1, .failing = -1}, 0, 0);
    assert_int_equal(result.verdict, WIRE_ALL_OVER);
    assert_int_equal(result.left, 0);
    assert_int_equal(result.time, by_hand(size, 1, 0));
    assert_in_range(result.peak_bytes, 1, 12000); /* of the wire */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_order),    cmocka_unit_test(test_every_order_with_a_failure),
        cmocka_unit_test(test_time_by_hand),   cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_many_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
