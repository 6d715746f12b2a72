/* Returned ranks on the simulated wire: one process ends its part of a call while the others wait
 * for it in one more collective. They ask, one of them at least is told, and all meet in the end
 * round. Where all have entered the same collectives, no process is told so at any time. In every
 * order for two and three processes, by seeds, and among many. */
#include "base_check.h"
#include "base_seed.h"
#include "memory_impl.h"
#include "nodes/arrive_private.h"
#include "nodes/control_private.h"
#include "nodes/nodes_impl.h"
#include "wire_clock.h"
#include "wire_explore.h"

#include <stdlib.h>

enum { L = 1300000, O = 110000, GAP = 50000, BYTE = 85, CALLS = 2, EPOCH = 5, LANE = 1 };

typedef struct plan {
    int32_t size, absent, collectives; /* in the first call: the process that enters only so many; the others enter one more */
    bool asks;                         /* they ask; else they would wait for ever */
    bool releases;                     /* each releases its communicator behind its collectives, and has it again in the next call */
    int32_t before;                    /* so many communicators have had the lane before in the first call, with a collective of all each */
} plan;

typedef struct process {
    mst_control control;
    mst_control_lane *lane;
    mst_control_waiter waiter;
    mst_arrival collective, end;
    int32_t number, call, before, entered, told, no, given_up; /* before: communicators of the call, before this one */
    bool ending, begun, released;
} process;

typedef struct group {
    plan plan;
    mst_wire **wires;
    process *processes;
    int64_t paths, told, no;
} group;

static mst_round round_without_failure;

static uint64_t group_epoch(const process *s) { return EPOCH + (uint64_t)s->call; }

/* What a communicator with one rank in each process says: the rank waits, or it has ended. */
static int32_t group_returned(mst_control_lane *lane, const mst_control_waiter *waiter, const mst_control_wanted *wanted,
                              char text[MST_MESSAGE_SIZE]) {
    const process *s = lane->owner;
    (void)wanted, (void)text;
    return waiter->ended ? s->number : MST_CONTROL_NO_RANK;
}

/* Each time another communicator. */
static void group_make(process *s) {
    s->lane = mst_alloc(sizeof *s->lane);
    *s->lane = (mst_control_lane){.lane = LANE, .birth = (uint64_t)(s->call * 100 + s->before), .returned = group_returned, .owner = s};
    mst_control_add(&s->control, s->lane);
}

static void group_begin(group *g) {
    g->processes = calloc((size_t)g->plan.size, sizeof *g->processes);
    for (int32_t p = 0; p < g->plan.size; p++) {
        process *s = &g->processes[p];
        s->number = p;
        mst_control_open(&s->control, g->wires[p]);
        group_make(s);
        assert_ok(mst_arrival_open(&s->end, &(mst_channel){.wire = g->wires[p], .lane = 0, .size = g->plan.size, .rank = p}, 0));
        assert_ok(mst_arrival_open(&s->collective, &(mst_channel){.wire = g->wires[p], .lane = LANE, .size = g->plan.size, .rank = p}, 0));
    }
}

static void group_end(group *g) {
    for (int32_t p = 0; p < g->plan.size; p++) {
        process *s = &g->processes[p];
        g->told += s->told;
        g->no += s->no;
        mst_control_remove(&s->control, s->lane);
        mst_control_close(&s->control);
        mst_arrival_close(&s->end);
        mst_arrival_close(&s->collective);
    }
    free(g->processes);
}

static int32_t group_wanted(const group *g, const process *s) {
    if (s->call || s->before < g->plan.before) return 1;
    return g->plan.collectives + (s->number == g->plan.absent || g->plan.absent < 0 ? 0 : 1);
}

static void group_leave(process *s) {
    mst_control_leave(&s->control, &s->waiter);
    s->begun = false;
}

static muster_status group_status(const process *s) {
    if (s->call) return MUSTER_OK;
    return s->told ? MUSTER_INVALID_ARGUMENT : s->given_up ? MUSTER_ABORTED : MUSTER_OK;
}

static void group_begin_arrival(const group *g, process *s) {
    mst_arrival *arrival = s->ending ? &s->end : &s->collective;
    if (!s->ending) s->entered++;
    mst_arrival_begin(arrival, &(mst_arrival_input){.epoch = group_epoch(s),
                                                    .sequence = s->ending ? 0 : (uint64_t)(s->before * 100 + s->entered),
                                                    .kind = s->ending,
                                                    .matched = s->ending,
                                                    .status = s->ending ? group_status(s) : MUSTER_OK,
                                                    .rank = s->number});
    s->waiter = (mst_control_waiter){.machine = &arrival->machine, .doing = "it", .epoch = group_epoch(s), .lane = s->ending ? 0 : LANE};
    if (s->ending && group_status(s) == MUSTER_OK) s->waiter.ended = &round_without_failure;
    /* a worker that waits: only whether there is one matters here */
    if (!s->ending) s->waiter.worker = (const struct muster_worker *)(const void *)s;
    if (!s->ending) s->waiter.enters = s->lane;
    s->waiter.arrival = (uint64_t)s->entered;
    mst_control_enter(&s->control, &s->waiter);
    s->begun = true;
    (void)g;
}

static void group_told(const group *g, process *s) {
    const mst_control_message message = {
        .type = MST_CONTROL_FAILED, .epoch = group_epoch(s), .status = MUSTER_INVALID_ARGUMENT, .rank = s->number, .process = s->number};
    assert_int_equal(s->call, 0);
    /* A process without the communicator answers for all its ranks. Nobody, if all enter the
     * same. */
    if (!g->plan.releases || g->plan.absent < 0 || s->waiter.returned.answer.rank != MST_CONTROL_ALL_RANKS)
        assert_int_equal(s->waiter.returned.answer.rank, g->plan.absent);
    assert_int_equal(s->before, g->plan.before);
    assert_int_equal(s->entered, g->plan.collectives + 1);
    s->told++;
    mst_control_poison(&s->control, &message);
    group_leave(s);
    s->ending = true;
}

/* In its last collective of the first call: asks whom it waits for, again and again. */
static void group_ask(const group *g, process *s) {
    mst_control_question *question = &s->waiter.returned;
    if (s->ending || !g->plan.asks || s->call || (g->plan.before == s->before && s->entered < group_wanted(g, s))) return;
    if (question->answered && question->answer.rank != MST_CONTROL_NO_RANK) {
        group_told(g, s);
        return;
    }
    if (question->answered) { /* as if it had not asked: so the same states come again */
        question->number = 0;
        question->answered = false;
        s->control.questions--;
        s->no = 1;
    }
    const int32_t process = s->collective.machine.waits_for(&s->collective.machine);
    const mst_control_message what = {.type = MST_CONTROL_RETURNED,
                                      .epoch = group_epoch(s),
                                      .lane = LANE,
                                      .wanted = {.birth = s->lane->birth, .arrival = (uint64_t)s->entered}};
    if (question->number == 0 && process >= 0) (void)mst_control_ask(&s->control, question, &what, process);
}

static void group_done(const group *g, process *s) {
    const mst_arrival_header *header = &(s->ending ? &s->end : &s->collective)->header;
    const bool fails = s->ending && !s->call && g->plan.absent >= 0 && g->plan.size > 1;
    assert_int_equal(header->epoch, group_epoch(s));
    assert_true(header->kind.least == s->ending && header->kind.most == s->ending);
    assert_int_equal(header->status, fails ? MUSTER_INVALID_ARGUMENT : MUSTER_OK);
    if (fails) assert_int_not_equal(header->rank, g->plan.absent);
    group_leave(s);
    if (!s->ending) return;
    s->call++;
    if (s->released) group_make(s);
    s->ending = s->released = false;
    s->entered = s->before = 0;
}

/* Another communicator gets the lane. */
static void group_split_again(process *s) {
    mst_control_remove(&s->control, s->lane);
    s->before++;
    s->entered = 0;
    group_make(s);
}

static void group_end_task(const group *g, process *s) {
    if (!s->call && s->before < g->plan.before) {
        group_split_again(s);
        return;
    }
    s->ending = true;
    if (!g->plan.releases) return;
    mst_control_remove(&s->control, s->lane);
    s->lane = NULL;
    s->released = true;
}

/* As a wait does it: control messages, the machine, questions, poison. */
static bool group_step(void *user, int32_t p) {
    group *g = user;
    process *s = &g->processes[p];
    for (;;) {
        while (mst_control_progress(&s->control, group_epoch(s)) == MST_PROGRESS_RUNNING) {}
        if (s->call == CALLS) return !mst_control_is_sending(&s->control);
        while (!s->ending && !s->begun && s->entered == group_wanted(g, s)) group_end_task(g, s);
        if (!s->begun) group_begin_arrival(g, s);
        const mst_progress progress = mst_arrival_progress(s->ending ? &s->end : &s->collective);
        if (progress > MST_PROGRESS_DONE) fail_msg("process %d: %s", (int)p, muster_last_error());
        if (progress == MST_PROGRESS_DONE) {
            group_done(g, s);
            continue;
        }
        const bool was_ending = s->ending;
        group_ask(g, s);
        if (!s->ending && mst_control_is_poisoned(&s->control, MST_CONTROL_FAILED, group_epoch(s))) {
            s->given_up++;
            group_leave(s);
            s->ending = true;
        }
        if (was_ending == s->ending) return false;
    }
}

/* ---- what is remembered of released communicators ---- */

static mst_control_lane *made(mst_control *control, int32_t lane, uint64_t birth, uint64_t epoch, uint64_t arrival) {
    mst_control_lane *one = mst_alloc(sizeof *one);
    *one = (mst_control_lane){.lane = lane, .birth = birth, .epoch = epoch, .arrival = arrival};
    mst_control_add(control, one);
    return one;
}

static bool entered(const mst_control *control, int32_t lane, uint64_t birth, uint64_t epoch, uint64_t arrival) {
    return mst_control_has_entered(control,
                                   &(mst_control_message){.epoch = epoch, .lane = lane, .wanted = {.birth = birth, .arrival = arrival}});
}

/* Of many that have had two lanes in a call, one after the other, each is known by its birth; the
 * last one on lane 2 is not released. A later call forgets them all. */
static void test_released_communicators_are_remembered(void **state) {
    enum { MANY = 1000 };
    int32_t cases = 0;
    (void)state;
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = 1});
    mst_wire *wire = NULL;
    mst_control control;
    wire_launch_join(launch, 0);
    assert_true(wire_launch_open(&wire));
    mst_control_open(&control, wire);
    const int64_t before = mst_memory_live();
    for (uint64_t k = 1; k <= MANY; k++) mst_control_remove(&control, made(&control, 1 + (int32_t)(k % 2), k, EPOCH, k));
    mst_control_lane *open = made(&control, 2, MANY + 1, EPOCH, 0);
    mst_control_remove(&control, made(&control, 3, 1, EPOCH - 1, 7)); /* not entered in this call */
    mst_control_remove(&control, NULL);
    for (uint64_t k = 1; k <= MANY; k++, cases++) {
        const int32_t lane = 1 + (int32_t)(k % 2);
        assert_true(entered(&control, lane, k, EPOCH, k) && entered(&control, lane, k, EPOCH, 1));
        assert_false(entered(&control, lane, k, EPOCH, k + 1) || entered(&control, 3 - lane, k, EPOCH, 1));
        assert_false(entered(&control, lane, k, EPOCH + 1, 1) || entered(&control, lane, k, EPOCH - 1, 1));
    }
    assert_false(entered(&control, 2, MANY + 1, EPOCH, 1) || entered(&control, 3, 1, EPOCH - 1, 7));
    mst_control_remove(&control, made(&control, 1, 1, EPOCH + 1, 1));
    assert_true(entered(&control, 1, 1, EPOCH + 1, 1) && !entered(&control, 1, 1, EPOCH + 1, 2));
    for (uint64_t k = 1; k <= MANY; k++, cases++) assert_false(entered(&control, 1 + (int32_t)(k % 2), k, EPOCH, 1));
    mst_control_remove(&control, open);
    mst_control_close(&control);
    assert_int_equal(mst_memory_live(), before);
    assert_int_equal(cases, 2 * MANY);
    wire->close(wire, MST_WIRE_FREE);
    wire_launch_join(NULL, 0);
    wire_launch_destroy(launch);
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
    const mst_control_question *question = &s->waiter.returned;
    const int32_t words[] = {s->call,
                             s->before,
                             s->entered,
                             s->told,
                             s->given_up,
                             s->ending,
                             s->begun,
                             c->receive != 0,
                             c->there,
                             (int32_t)c->to_flood[0],
                             (int32_t)atomic_load(&c->poisoned[0]),
                             (int32_t)c->questions,
                             (int32_t)question->number,
                             question->answered,
                             question->answered ? question->answer.rank : 0,
                             s->released,
                             c->left != NULL,
                             c->left ? (int32_t)c->left->epoch : 0,
                             c->left ? (int32_t)c->left->arrival : 0,
                             s->lane ? (int32_t)s->lane->epoch : 0,
                             s->lane ? (int32_t)s->lane->arrival : 0};
    uint64_t hash = wire_explore_mix(1, words, sizeof words);
    if (c->there) hash = wire_explore_mix(hash, &c->incoming, sizeof c->incoming);
    for (int32_t step = 0; step < c->steps; step++) hash = wire_explore_mix(hash, &(bool){c->flood[0][step].request != 0}, 1);
    for (int32_t i = 0; i < MST_CONTROL_SLOTS; i++) hash = wire_explore_mix(hash, &(bool){c->slots[i].request != 0}, 1);
    return hash_arrival(hash_arrival(hash, &s->collective), &s->end);
}

/* Returns the states, and adds to *no the paths on which some process was told that nobody has
 * returned. */
static int64_t explore(plan plan, int64_t most, int64_t *no) {
    group g = {.plan = plan};
    wire_explore explore = {.options = {.processes = plan.size},
                            .begin = explore_begin,
                            .step = group_step,
                            .end = explore_end,
                            .hash = explore_hash,
                            .user = &g,
                            .most_states = most};
    assert_true(wire_explore_run(&explore));
    if (plan.asks && explore.stuck)
        fail_msg("%d processes, %d is absent, %d collectives, stuck after%s", plan.size, plan.absent, plan.collectives, explore.trace);
    if (!plan.asks) {
        assert_true(explore.stuck);
        return 0;
    }
    if (!most) assert_true(explore.complete);
    assert_in_range(explore.paths, 1, INT64_MAX);
    assert_int_equal(g.paths, explore.paths);
    if (plan.absent < 0) assert_int_equal(g.told, 0);
    *no += g.no;
    print_message("%d processes, %d is absent, %d collectives, %d communicators before: %lld states\n", plan.size, plan.absent,
                  plan.collectives, plan.before, (long long)explore.states);
    return explore.states;
}

static void test_every_order(void **state) {
    (void)state;
    int32_t cases = 0;
    int64_t states = 0, no = 0;
    for (int32_t absent = -1; absent < 2; absent++)
        for (int32_t collectives = 0; collectives < 3; collectives++, cases++)
            states += explore((plan){2, absent, collectives, .asks = true}, 0, &no);
    for (int32_t absent = -1; absent < (test_is_full() ? 3 : 1); absent++, cases++)
        states += explore((plan){3, absent, 1, .asks = true}, test_is_full() ? 300000 : 15000, &no); /* not all of them */
    for (int32_t absent = -1; absent < 2; absent++)
        for (int32_t collectives = 0; collectives < 3; collectives++, cases++)
            states += explore((plan){2, absent, collectives, .asks = true, .releases = true}, 0, &no);
    states += explore((plan){3, -1, 1, .asks = true, .releases = true}, test_is_full() ? 300000 : 15000, &no), cases++;
    for (int32_t absent = -1; absent < 2; absent++, cases++)
        states += explore((plan){2, absent, absent < 0, .asks = true, .before = 1}, test_is_full() ? 0 : 20000, &no);
    assert_int_equal(cases, test_is_full() ? 26 : 24);
    assert_true(no > 0);
    print_message("%d cases, %lld states\n", (int)cases, (long long)states);
}

/* So it is the questions that end the waits. */
static void test_without_questions_they_wait(void **state) {
    int64_t no = 0;
    (void)state;
    explore((plan){.size = 2}, 0, &no);
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
    if (plan.absent >= 0 && plan.size > 1)
        assert_in_range(g.told, 1, plan.size - 1);
    else
        assert_int_equal(g.told, 0);
}

static void test_seeds(void **state) {
    (void)state;
    const int32_t seeds = test_is_full() ? 10000 : 300;
    for (int32_t i = 0; i < seeds; i++) {
        const uint64_t seed = test_seed() * 900007 + (uint64_t)i;
        const int32_t size = 1 + i % 17;
        run((plan){.size = size,
                   .absent = i % 3 ? (int32_t)(seed % (uint64_t)size) : -1,
                   .collectives = i % 4,
                   .asks = true,
                   .releases = i % 5 < 2,
                   .before = i % 7 % 3},
            4 * (int64_t)L, seed);
    }
}

static void test_many_processes(void **state) {
    (void)state;
    const int32_t sizes[] = {33, 100, 1024, 4096};
    for (int32_t i = 0; i < (test_is_full() ? 4 : 2); i++)
        run((plan){.size = sizes[i], .absent = sizes[i] / 3, .collectives = 1, .asks = true}, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_communicators_are_remembered),
        cmocka_unit_test(test_every_order),
        cmocka_unit_test(test_without_questions_they_wait),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_many_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
