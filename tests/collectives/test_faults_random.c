/* 10,000 runs by MUSTER_SEED: sequences of collectives of random kinds and sizes, in all workers or
 * in a part, on random devices, with any spin and random delays; in many of them something goes
 * wrong on a rank. Every run ends, what is told of it is true, and the next run on the same pool is
 * right. In a build with a sanitizer fewer runs. MUSTER_FAULTS_WORLD=n: only the n-th pool, to
 * repeat what a failure names. MUSTER_TEST_FULL=1: ten times as many. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_faults.h"
#include "device_discrete.h"
#include "nodes/slabs_private.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS_OF_A_WORLD = 20, MILLISECOND = 1000000 };

/* A pool, and what has been run on it. */
typedef struct world {
    collectives_pool c;
    const char *algorithm;
    uint64_t random;
    int32_t number;
    bool hooked;
} world;

static uint64_t seed;
static int64_t counted[FAULTS], repeated;

/* ---- a pool ---- */

static void open_world(world *w, int32_t number) {
    static const char *const algorithms[] = {NULL, NULL, "reference", "inline", "direct"};
    static const int64_t spins[] = {0, 1, 20000, -1};
    *w = (world){.random = seed * 1000003 + (uint64_t)number, .number = number};
    int32_t size = 2 + (int32_t)faults_random(&w->random, 3);
    w->algorithm = algorithms[faults_random(&w->random, 5)];
    w->hooked = faults_random(&w->random, 2);
    int64_t spin = spins[faults_random(&w->random, 4)];
    if (spin < 0) spin = faults_random(&w->random, 100000);
    int64_t warn = faults_random(&w->random, 2) ? -1 : MILLISECOND;
    mst_pool_options options = {.spin_ns = spin, .warn_after_ns = warn, .fail_after_ns = 60000LL * MILLISECOND, .log = faults_log_nothing};
    if (w->hooked)
        faults_install_hook();
    else
        mst_wait_test_hook = NULL;
    mst_discrete_set_delays(faults_random(&w->random, 4) ? 0 : 50, w->random);
    int32_t discrete = faults_random(&w->random, 3) ? 0 : (int32_t)faults_random(&w->random, (uint32_t)size + 1);
    collectives_open_options(&w->c, size - discrete, discrete, w->algorithm, &options);
}

/* ---- a run ---- */

static int64_t draw_count(uint64_t *random) {
    switch (faults_random(random, 12)) {
    case 0:
        return 0;
    case 1:
        return faults_random(random, 12000);
    case 2:
        return faults_random(random, 2500);
    default:
        return faults_random(random, 100);
    }
}

static faults_call draw_call(const world *w, uint64_t *random) {
    static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_I32, MUSTER_I64};
    faults_call call = {.kind = (faults_kind)faults_random(random, FAULTS_KINDS), .op = 1 + (int32_t)faults_random(random, 5)};
    call.dtype = dtypes[faults_random(random, 4)];
    if (call.kind == FAULTS_ALL_REDUCE_AXPY) {
        call.op = MUSTER_SUM;
        call.dtype = dtypes[faults_random(random, 2)];
    }
    if (call.op == MUSTER_AVG && call.dtype > MUSTER_F64) call.op = MUSTER_SUM;
    call.root = (int32_t)faults_random(random, (uint32_t)w->c.size);
    call.count = draw_count(random);
    call.salt = (int32_t)faults_random(random, 50);
    return call;
}

/* A wrong order needs two that differ, and another collective one that the others do not enter by
 * chance. */
static void place_order(faults_plan *plan) {
    faults_call *call = &plan->calls[plan->step], next = *call;
    if (faults_sends(call->kind))
        next.salt++;
    else
        next.kind = call->kind == FAULTS_BARRIER ? FAULTS_ALL_REDUCE : FAULTS_BARRIER;
    if (next.kind == FAULTS_ALL_REDUCE && next.dtype > MUSTER_F64) next.op = MUSTER_SUM;
    plan->calls[plan->step + 1] = next;
    if (plan->steps == plan->step + 1) plan->steps++;
}

static faults_fault draw_fault(uint64_t *random) {
    if (faults_random(random, 100) < 25) return FAULT_NONE;
    if (faults_random(random, 100) < 4) return FAULT_STAYS_AWAY;
    static const faults_fault quick[] = {FAULT_FAILS, FAULT_RETURNS, FAULT_COUNT, FAULT_DTYPE,  FAULT_OP,
                                         FAULT_ROOT,  FAULT_ORDER,   FAULT_OTHER, FAULT_MEMORY, FAULT_DELAYS};
    return quick[faults_random(random, sizeof quick / sizeof *quick)];
}

static faults_plan draw_plan(const world *w, uint64_t *random) {
    faults_plan plan = {.size = w->c.size, .steps = 1 + (int32_t)faults_random(random, 5), .fault = draw_fault(random)};
    for (int32_t i = 0; i < plan.steps; i++) plan.calls[i] = draw_call(w, random);
    plan.rank = (int32_t)faults_random(random, (uint32_t)w->c.size);
    plan.step = (int32_t)faults_random(random, (uint32_t)plan.steps);
    plan.late_entry = faults_random(random, 2);
    plan.delays = faults_random(random, 3) == 0 || plan.fault == FAULT_DELAYS ? w->random | 1 : 0;
    plan.through_part = faults_random(random, 8) == 0;
    plan.allocation = 1 + faults_random(random, 6);
    bool possible = !faults_excuse(plan.calls[plan.step].kind, plan.fault);
    /* The hook lets the others go when an allocation is to fail; and of a part, split and release
     * allocate, too. */
    if (plan.fault == FAULT_MEMORY) possible = possible && w->hooked && !plan.through_part;
    if (!possible) plan.fault = FAULT_NONE;
    if (plan.fault == FAULT_ORDER) place_order(&plan);
    plan.stubborn = faults_random(random, 10) == 0 && plan.fault != FAULT_MEMORY && plan.fault != FAULT_STAYS_AWAY;
    return plan;
}

static void describe(char text[400], const world *w, const faults_plan *plan, int32_t run) {
    int used = snprintf(text, 400, "MUSTER_SEED=%llu MUSTER_FAULTS_WORLD=%d, run %d: %s, %d ranks, %s on rank %d in step %d%s%s of",
                        (unsigned long long)seed, (int)w->number, (int)run, w->algorithm ? w->algorithm : "selected", (int)plan->size,
                        faults_fault_name(plan->fault), (int)plan->rank, (int)plan->step, plan->stubborn ? ", stubborn" : "",
                        plan->through_part ? ", in a part" : "");
    for (int32_t i = 0; i < plan->steps && used < 360; i++) {
        used += snprintf(text + used, (size_t)(400 - used), " %s(%lld)", faults_kind_name(plan->calls[i].kind),
                         (long long)plan->calls[i].count);
    }
}

static void run_one(world *w, faults_plan *plan, int32_t number) {
    char where[400];
    describe(where, w, plan, number);
    faults_say(w->c.pool, "%s", where);
    const char *complaint = faults_try(&w->c, plan, &repeated);
    if (complaint) fail_msg("%s: %s", where, complaint);
    counted[plan->fault]++;
}

static void run_world(int32_t number) {
    world w;
    const int64_t live = mst_memory_live(), kept = mst_wire_kept() + mst_slabs_kept();
    open_world(&w, number);
    for (int32_t run = 0; run < RUNS_OF_A_WORLD; run++) {
        faults_plan plan = draw_plan(&w, &w.random);
        if (run == RUNS_OF_A_WORLD - 1) plan.fault = FAULT_NONE; /* whatever happened before, the last one is right */
        /* the workers have their scratch before anything can fail */
        if (plan.fault == FAULT_MEMORY) {
            faults_plan before = plan;
            before.fault = FAULT_NONE;
            run_one(&w, &before, run);
        }
        run_one(&w, &plan, run);
    }
    collectives_close(&w.c);
    /* What the wire may still write to when a process has given up stays on purpose, and is
     * counted. */
    const int64_t leaked = mst_memory_live() - live - (mst_wire_kept() + mst_slabs_kept() - kept);
    if (leaked)
        fail_msg("MUSTER_SEED=%llu MUSTER_FAULTS_WORLD=%d: %lld blocks leaked", (unsigned long long)seed, (int)number, (long long)leaked);
    assert_int_equal(mst_discrete_live(), 0);
}

static int32_t worlds(void) {
    if (faults_joint()) return test_is_full() ? 100 : 10;
    if (!faults_whole()) return 100;
    return test_is_full() ? 5000 : 200;
}

static void random_runs_end_and_are_right(void **unused) {
    (void)unused;
    const char *only = getenv("MUSTER_FAULTS_WORLD");
    if (only) {
        run_world(atoi(only));
        return;
    }
    for (int32_t number = 0; number < worlds(); number++) run_world(number);
    int64_t sum = 0;
    printf("runs:");
    for (faults_fault f = FAULT_NONE; f < FAULTS; sum += counted[f++]) printf(" %s %lld", faults_fault_name(f), (long long)counted[f]);
    printf("; together %lld, %lld repeated with a longer deadline\n", (long long)sum, (long long)repeated);
    fflush(stdout);
    assert_true(sum >= worlds() * RUNS_OF_A_WORLD);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_runs_end_and_are_right)};
    assert_int_equal(mst_discrete_register(), MUSTER_OK);
    faults_watch();
    seed = faults_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
