/* The schedules on the simulated wire: results against plain loops, nothing left behind; seeds with
 * delays; dead processes, which those who wait name; many processes. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_fleet.h"
#include "wire_explore.h"

#include <stdio.h>

static void pair_runs(fleet_plan plan) { assert_true(fleet_run(plan, 0, 0).served); }

static void test_all_sizes(void **state) {
    (void)state;
    const int32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64, 100};
    const int32_t count = test_is_full() ? 22 : 17;
    int32_t cases = 0;
    for (int32_t i = 0; i < count; i++)
        for (int32_t variant = 0; variant < 4; variant++) {
            const int32_t size = sizes[i], parts[] = {4, 64, 1000, 20000};
            if (size > 9 && variant == 3 && !test_is_full()) continue;
            const fleet_plan plan = {
                .size = size, .root = variant * 3 % size, .part = parts[variant], .floats = variant & 1, .uneven = variant & 2};
            const int32_t pairs = fleet_for_each_pair(plan, pair_runs);
            assert_int_equal(pairs, variant & 1 ? 15 : 17);
            cases += pairs;
        }
    print_message("%d runs\n", (int)cases);
}

/* ---- chance ---- */

static uint64_t pair_seed;

static void pair_by_chance(fleet_plan plan) {
    pair_seed++;
    fleet_run(plan, 4 * (int64_t)FLEET_L, pair_seed);
}

static void test_seeds(void **state) {
    (void)state;
    const int32_t rounds = test_is_full() ? 600 : 24;
    int32_t runs = 0;
    pair_seed = test_seed() * 7000003;
    for (int32_t i = 0; i < rounds; i++) {
        const int32_t size = 2 + i % 11, parts[] = {4, 128, 5000, 40000};
        runs += fleet_for_each_pair(
            (fleet_plan){.size = size, .root = i % size, .part = parts[i / 11 % 4], .floats = i & 1, .uneven = i & 2}, pair_by_chance);
    }
    assert_int_equal(runs, rounds / 2 * (15 + 17));
}

/* ---- a process that is dead, or takes no part ---- */

static int32_t dead_runs, dead_named;

/* Who has not ended waits for somebody, who waits for somebody, ... who is the dead one. */
static void dead_is_named(const fleet *f, int32_t dead) {
    for (int32_t p = 0; p < f->plan.size; p++) {
        int32_t at = p;
        if (p == dead || f->members[p].progress != MST_PROGRESS_RUNNING) continue;
        for (int32_t i = 0; i < f->plan.size && at >= 0 && at != dead; i++)
            at = f->members[at].schedule.machine.waits_for(&f->members[at].schedule.machine);
        if (at != dead)
            fail_msg("%s by %s, %d processes: process %d ends at %d, not at %d", mst_move_kind_name(f->plan.kind),
                     mst_move_algorithm_name(f->plan.algorithm), f->plan.size, (int)p, (int)at, (int)dead);
        dead_named++;
    }
}

static void dead_run(fleet_plan plan, int32_t dead, bool fault_tolerance) {
    bool left_out[16] = {false};
    fleet f = {.left_out = left_out};
    mst_wire *wires[16];
    left_out[dead] = true;
    wire_launch *launch = fleet_launch(plan.size, fault_tolerance, 0, 0, wires);
    fleet_open(&f, plan, wires);
    assert_true(fleet_begin(&f));
    wire_launch_kill(launch, dead);
    wire_drive drive = {.step = fleet_step, .user = &f, .idle_calls = 8, .most_steps = 1000000};
    const wire_verdict verdict = wire_clock_drive(launch, &drive);
    if (fault_tolerance) {
        assert_int_equal(verdict, WIRE_ALL_OVER);
        for (int32_t p = 0; p < plan.size; p++) {
            int32_t lost[16], count = 0;
            if (p == dead || f.members[p].progress == MST_PROGRESS_DONE) continue;
            assert_int_equal(f.members[p].progress, MST_PROGRESS_LOST);
            assert_int_equal(wires[p]->table->lost(wires[p]->state, lost, 16, &count), MUSTER_WIRE_OK);
            assert_int_equal(count, 1);
            assert_int_equal(lost[0], dead);
        }
    } else if (verdict == WIRE_STUCK) {
        dead_is_named(&f, dead);
    } else {
        assert_int_equal(verdict, WIRE_ALL_OVER); /* nobody needs the dead one */
    }
    fleet_close(&f);
    for (int32_t p = 0; p < plan.size; p++) wires[p]->close(wires[p], MST_WIRE_LOST);
    wire_launch_destroy(launch);
    dead_runs++;
}

static void pair_dead(fleet_plan plan) {
    if (plan.algorithm == MST_MOVE_MPI) return;
    for (int32_t dead = 0; dead < plan.size; dead++)
        for (int32_t fault_tolerance = 0; fault_tolerance < 2; fault_tolerance++) dead_run(plan, dead, fault_tolerance);
}

static void test_dead_processes_are_named(void **state) {
    (void)state;
    const int32_t parts[] = {64, 20000};
    for (int32_t size = 2; size <= 9; size++)
        for (int32_t i = 0; i < 2; i++) fleet_for_each_pair((fleet_plan){.size = size, .root = size / 2, .part = parts[i]}, pair_dead);
    assert_int_equal(dead_runs, 44 * 2 * 2 * 13);
    assert_in_range(dead_named, 1000, 44 * 2 * 13 * 9);
}

/* ---- every order ---- */

typedef struct explored {
    fleet fleet;
    fleet_plan plan;
    int64_t paths;
} explored;

static void explore_begin(void *user, wire_launch *launch, mst_wire **wires) {
    explored *e = user;
    (void)launch;
    fleet_open(&e->fleet, e->plan, wires);
    assert_true(fleet_begin(&e->fleet));
}

/* Some calls only copy or fold. */
static bool explore_step(void *user, int32_t p) {
    explored *e = user;
    bool over = false;
    for (int32_t i = 0; i < 4 && !over; i++) over = fleet_step(&e->fleet, p);
    return over;
}

static void explore_end(void *user, bool over) {
    explored *e = user;
    for (int32_t p = 0; over && p < e->plan.size; p++) assert_int_equal(fleet_wrong(&e->fleet, p), 0);
    e->paths += over;
    fleet_close(&e->fleet);
}

static int64_t explore_states, explore_complete, explore_complete_states, explore_most;

static void pair_every_order(fleet_plan plan) {
    explored e = {.plan = plan};
    wire_explore explore = {.options = {.processes = plan.size},
                            .begin = explore_begin,
                            .step = explore_step,
                            .end = explore_end,
                            .user = &e,
                            .most_states = test_is_full() ? 300000 : explore_most};
    assert_true(wire_explore_run(&explore));
    if (explore.stuck)
        fail_msg("%s by %s, %d processes: stuck after%s", mst_move_kind_name(plan.kind), mst_move_algorithm_name(plan.algorithm), plan.size,
                 explore.trace);
    assert_in_range(explore.paths, 1, INT64_MAX);
    assert_int_equal(e.paths, explore.paths);
    explore_states += explore.states;
    explore_complete += explore.complete;
    if (explore.complete) explore_complete_states += explore.states;
}

/* Two members: all orders. Three and four: all orders of most schedules; of the others, in which
 * all members send at the same time, the first ones: with four members each has more than 20,000
 * states. */
static void test_orders(void **state) {
    (void)state;
    const int32_t complete[] = {17, 12, 11}, most[] = {1000, 1000, 6000};
    const int64_t states[] = {905, 2744, 19727}; /* of the schedules whose orders have all been searched */
    for (int32_t size = 2; size <= 4; size++) {
        explore_states = explore_complete = explore_complete_states = 0;
        explore_most = most[size - 2];
        const int32_t pairs = fleet_for_each_pair((fleet_plan){.size = size, .part = 64}, pair_every_order);
        assert_int_equal(pairs, 17);
        print_message("%d members: %d of %d complete with %lld of %lld states\n", (int)size, (int)explore_complete, (int)pairs,
                      (long long)explore_complete_states, (long long)explore_states);
        if (test_is_full()) {
            assert_in_range(explore_complete, complete[size - 2], pairs);
            continue;
        }
        assert_int_equal(explore_complete, complete[size - 2]);
        assert_int_equal(explore_complete_states, states[size - 2]);
    }
}

/* ---- many processes ---- */

static void test_1024_processes(void **state) {
    (void)state;
#ifdef MUSTER_TEST_SANITIZED
    const int32_t size = 200;
#else
    const int32_t size = 1024;
#endif
    const fleet_plan plans[] = {
        {MST_MOVE_BROADCAST, MST_MOVE_TREE, size, 5, 4096, false, false},
        {MST_MOVE_ALL_GATHER, MST_MOVE_BRUCK, size, 0, 8, false, false},
        {MST_MOVE_ALL_REDUCE, MST_MOVE_CHAIN, size, 0, 64, true, false},
        {MST_MOVE_GATHER, MST_MOVE_DIRECT, size, 7, 8, false, false},
        {MST_MOVE_SCATTER, MST_MOVE_DIRECT, size, 7, 8, false, false},
        {MST_MOVE_REDUCE, MST_MOVE_GATHER_FOLD, size, 3, 64, true, false},
        {MST_MOVE_ALL_REDUCE, MST_MOVE_GATHER_FOLD, size, 0, 8, false, false},
        {MST_MOVE_REDUCE, MST_MOVE_CHAIN, size, 9, 64, false, false},
        {MST_MOVE_ALL_GATHER, MST_MOVE_RING, size, 0, 8, false, false},
        {MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, size, 0, 65536, false, false},
        {MST_MOVE_REDUCE_SCATTER, MST_MOVE_EXCHANGE, size, 0, 8, false, false},
        {MST_MOVE_ALL_TO_ALL, MST_MOVE_DIRECT, size, 0, 8, false, false},
        {MST_MOVE_REDUCE, MST_MOVE_EXCHANGE, size, 5, 65536, true, false},
    };
    for (size_t i = 0; i < (test_is_full() ? 13 : 6); i++) {
        const fleet_outcome result = fleet_run(plans[i], 0, 0);
        assert_true(result.served);
        print_message("%s by %s: %lld ns\n", mst_move_kind_name(plans[i].kind), mst_move_algorithm_name(plans[i].algorithm),
                      (long long)result.time / 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sizes), cmocka_unit_test(test_seeds),          cmocka_unit_test(test_dead_processes_are_named),
        cmocka_unit_test(test_orders),    cmocka_unit_test(test_1024_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
