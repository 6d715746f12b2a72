/* Poison on the simulated wire: one process fails while the others wait for it in a collective;
 * all meet in the end round, which says who has failed, and the next call is right. In every
 * order for two and three processes, by seeds, and among many. */
#include "base_check.h"
#include "base_seed.h"
#include "nodes/arrive_private.h"
#include "nodes/control_private.h"
#include "wire_clock.h"
#include "wire_explore.h"

#include <stdlib.h>

enum { L = 1300000, O = 110000, GAP = 50000, BYTE = 85, CALLS = 2, EPOCH = 5 };

typedef struct plan {
    int32_t size, failing, failing_looks; /* in the first call; failing_looks: in the collective, before it fails */
} plan;

typedef struct process {
    mst_control control;
    mst_arrival collective, end;
    int32_t call, looks, given_up;
    bool ending, begun, failed;
} process;

typedef struct group {
    plan plan;
    mst_wire **wires;
    process *processes;
    int64_t paths, given_up;
} group;

static uint64_t group_epoch(const process *s) { return EPOCH + (uint64_t)s->call; }

static void group_begin(group *g) {
    g->processes = calloc((size_t)g->plan.size, sizeof *g->processes);
    for (int32_t p = 0; p < g->plan.size; p++) {
        process *s = &g->processes[p];
        mst_control_open(&s->control, g->wires[p]);
        assert_ok(mst_arrival_open(&s->end, &(mst_channel){.wire = g->wires[p], .lane = 0, .size = g->plan.size, .rank = p}, 0));
        assert_ok(mst_arrival_open(&s->collective, &(mst_channel){.wire = g->wires[p], .lane = 1, .size = g->plan.size, .rank = p}, 0));
    }
}

static void group_end(group *g) {
    for (int32_t p = 0; p < g->plan.size; p++) {
        process *s = &g->processes[p];
        g->given_up += s->given_up;
        mst_control_close(&s->control);
        mst_arrival_close(&s->end);
        mst_arrival_close(&s->collective);
    }
    free(g->processes);
}

static void group_go_to_the_end(process *s) {
    s->ending = true;
    s->begun = false;
}

static void group_fail(const group *g, int32_t p) {
    process *s = &g->processes[p];
    mst_control_message message = {.type = MST_CONTROL_FAILED, .epoch = group_epoch(s), .status = MUSTER_USER, .rank = p, .process = p};
    strcpy(message.text, "planted");
    assert_true(mst_control_poison(&s->control, &message));
    assert_false(mst_control_poison(&s->control, &message)); /* once for each epoch */
    s->failed = true;
    group_go_to_the_end(s);
}

static void group_begin_arrival(const group *g, int32_t p) {
    process *s = &g->processes[p];
    const bool aborted = s->given_up && !s->call;
    mst_arrival_begin(s->ending ? &s->end : &s->collective, &(mst_arrival_input){.epoch = group_epoch(s),
                                                                                 .sequence = s->ending,
                                                                                 .kind = s->ending,
                                                                                 .matched = s->ending,
                                                                                 .status = !s->ending || s->call ? MUSTER_OK
                                                                                           : s->failed           ? MUSTER_USER
                                                                                           : aborted             ? MUSTER_ABORTED
                                                                                                                 : MUSTER_OK,
                                                                                 .rank = p});
    s->begun = true;
}

/* An arrival of this process is done. */
static void group_done(const group *g, process *s) {
    const mst_arrival_header *header = &(s->ending ? &s->end : &s->collective)->header;
    const bool fails = s->ending && !s->call && g->plan.failing >= 0;
    assert_int_equal(header->epoch, group_epoch(s));
    assert_true(header->kind.least == s->ending && header->kind.most == s->ending);
    assert_int_equal(header->status, fails ? MUSTER_USER : MUSTER_OK);
    if (fails) assert_int_equal(header->rank, g->plan.failing);
    if (fails) assert_int_equal(header->at, g->plan.failing);
    s->call += s->ending;
    s->ending = !s->ending;
    s->begun = false;
}

/* As a wait does it: control messages first. */
static bool group_step(void *user, int32_t p) {
    group *g = user;
    process *s = &g->processes[p];
    for (;;) {
        while (mst_control_progress(&s->control, group_epoch(s)) == MST_PROGRESS_RUNNING) {}
        if (s->call == CALLS) return !mst_control_is_sending(&s->control);
        const bool fails = p == g->plan.failing && !s->call && !s->ending && !s->failed;
        if (fails && s->looks++ == g->plan.failing_looks) {
            group_fail(g, p);
        } else if (!s->ending && mst_control_is_poisoned(&s->control, MST_CONTROL_FAILED, group_epoch(s))) {
            assert_int_equal(s->control.poison[MST_CONTROL_FAILED].rank, g->plan.failing);
            assert_string_equal(s->control.poison[MST_CONTROL_FAILED].text, "planted");
            s->given_up++;
            group_go_to_the_end(s);
        }
        if (!s->begun) group_begin_arrival(g, p);
        const mst_progress progress = mst_arrival_progress(s->ending ? &s->end : &s->collective);
        if (progress == MST_PROGRESS_RUNNING) return false;
        if (progress != MST_PROGRESS_DONE) fail_msg("process %d: %s", (int)p, muster_last_error());
        if (fails && !s->failed)
            group_fail(g, p); /* too quick: it fails behind the collective */
        else
            group_done(g, s);
    }
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

static uint64_t hash_arrival(uint64_t hash, const mst_arrival *a) {
    const int32_t words[] = {a->step, a->posted, a->sent_steps, a->input.matched, a->used, a->ended};
    hash = wire_explore_mix(wire_explore_mix(hash, words, sizeof words), &a->header, sizeof a->header);
    for (int32_t step = 0; step < a->steps; step++) {
        const int64_t bytes[] = {a->receives[step] != 0, a->sends[step] != 0, a->received_bytes[step]};
        hash = wire_explore_mix(hash, bytes, sizeof bytes);
        hash = wire_explore_mix(hash, a->received[step], a->received_bytes[step]);
    }
    return hash;
}

static uint64_t explore_hash(void *user, int32_t p) {
    const group *g = user;
    const process *s = &g->processes[p];
    const mst_control *c = &s->control;
    const int32_t words[] = {s->call,
                             s->looks,
                             s->given_up,
                             s->ending,
                             s->begun,
                             s->failed,
                             c->receive != 0,
                             c->there,
                             (int32_t)c->to_flood[0],
                             (int32_t)atomic_load(&c->poisoned[0])};
    uint64_t hash = wire_explore_mix(1, words, sizeof words);
    if (c->there) hash = wire_explore_mix(hash, &c->incoming, sizeof c->incoming);
    for (int32_t step = 0; step < c->steps; step++) hash = wire_explore_mix(hash, &(bool){c->flood[0][step].request != 0}, 1);
    return hash_arrival(hash_arrival(hash, &s->collective), &s->end);
}

static int64_t explore(plan plan, int64_t most) {
    group g = {.plan = plan};
    wire_explore explore = {.options = {.processes = plan.size},
                            .begin = explore_begin,
                            .step = group_step,
                            .end = explore_end,
                            .hash = explore_hash,
                            .user = &g,
                            .most_states = most};
    assert_true(wire_explore_run(&explore));
    if (explore.stuck) fail_msg("%d processes, %d fails, stuck after%s", plan.size, plan.failing, explore.trace);
    if (!most) assert_true(explore.complete);
    assert_in_range(explore.paths, 1, INT64_MAX);
    assert_int_equal(g.paths, explore.paths);
    return explore.states;
}

static void test_every_order(void **state) {
    (void)state;
    int32_t cases = 0;
    int64_t states = 0;
    for (int32_t failing = -1; failing < 2; failing++)
        for (int32_t looks = 0; looks < 3; looks++, cases++) states += explore((plan){2, failing, looks}, 0);
    for (int32_t failing = 0; failing < (test_is_full() ? 3 : 1); failing++, cases++)
        states += explore((plan){3, failing, 0}, test_is_full() ? 300000 : 20000); /* not all of them */
    assert_int_equal(cases, test_is_full() ? 12 : 10);
    print_message("%d cases, %lld states\n", (int)cases, (long long)states);
}

/* ---- with a clock ---- */

static void run(plan plan, int64_t jitter, uint64_t seed) {
    group g = {.plan = plan, .wires = calloc((size_t)plan.size, sizeof *g.wires)};
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = plan.size, .seed = seed});
    assert_true(wire_clock_start(launch, &(wire_clock_options){.latency = L, .overhead = O, .gap = GAP, .byte = BYTE, .jitter = jitter}));
    assert_true(wire_clock_open(launch, g.wires));
    group_begin(&g);
    for (int32_t p = 0; seed && p < plan.size; p++) wire_clock_work(launch, p, (int64_t)((seed * 31 + (uint64_t)p * 77) % 97) * L / 20);
    wire_drive drive = {.step = group_step, .user = &g, .idle_calls = seed ? 6 : 2};
    const wire_verdict verdict = wire_clock_drive(launch, &drive);
    if (verdict != WIRE_ALL_OVER) fail_msg("%d processes, seed %llu: verdict %d", plan.size, (unsigned long long)seed, (int)verdict);
    group_end(&g);
    for (int32_t p = 0; p < plan.size; p++) g.wires[p]->close(g.wires[p], MST_WIRE_LOST);
    wire_launch_destroy(launch);
    free(g.wires);
    /* Who does not begin keeps all others in the collective until they hear of it. */
    if (plan.failing >= 0 && !plan.failing_looks) assert_int_equal(g.given_up, plan.size - 1);
}

static void test_seeds(void **state) {
    (void)state;
    const int32_t seeds = test_is_full() ? 10000 : 400;
    for (int32_t i = 0; i < seeds; i++) {
        const uint64_t seed = test_seed() * 900007 + (uint64_t)i;
        const int32_t size = 1 + i % 17;
        run((plan){.size = size, .failing = (int32_t)(seed % (uint64_t)size), .failing_looks = i % 4}, 4 * (int64_t)L, seed);
    }
}

static void test_many_processes(void **state) {
    (void)state;
    const int32_t sizes[] = {33, 100, 1024, 16384, 65536};
    for (int32_t i = 0; i < (test_is_full() ? 5 : 3); i++) run((plan){.size = sizes[i], .failing = sizes[i] / 3}, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_order),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_many_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
