/* Every collective x algorithm x fault x rank, of 2, 3 and 4 ranks: the call ends, the caller and
 * every rank are told what is true, and the next call on the same pool is right. In a build with a
 * sanitizer a sample by MUSTER_SEED in which every two values that can meet do meet; the whole with
 * MUSTER_TEST_FULL=1. */
#include "base_check.h"
#include "base_pairs.h"
#include "base_seed.h"
#include "collectives_faults.h"

#include <stdio.h>

enum { ALGORITHMS = 4, MEMBERS = 9 /* 2 + 3 + 4 ranks */, DEVICES = 3, MILLISECOND = 1000000 };
enum { EMPTY, RUN, EXCUSED };

static const char *const algorithms[ALGORITHMS] = {"reference", "inline", "direct", NULL};

typedef struct fault_case {
    faults_kind kind;
    int32_t algorithm, member;
    faults_fault fault;
} fault_case;

static struct {
    collectives_pool pools[ALGORITHMS][FAULTS_RANKS + 1][DEVICES]; /* size 0: not open */
    uint8_t state[FAULTS_KINDS][ALGORITHMS][FAULTS][MEMBERS];
    int64_t runs, repeated, refused; /* refused: allocations */
    uint64_t seed;
} matrix;

static int32_t size_of(int32_t member) { return member < 2 ? 2 : member < 5 ? 3 : 4; }
static int32_t rank_of(int32_t member) { return member < 2 ? member : member < 5 ? member - 2 : member - 5; }

/* ---- what is run ---- */

/* Mostly on host devices, else on some or only on discrete ones. */
static collectives_pool *pool_for(const fault_case *c, uint64_t *random) {
    int32_t size = size_of(c->member), devices = (int32_t)faults_random(random, 5) - 2;
    if (devices < 0) devices = 0;
    collectives_pool *pool = &matrix.pools[c->algorithm][size][devices];
    int32_t discrete = devices == 0 ? 0 : devices == 1 ? size / 2 : size;
    if (pool->size == 0) collectives_open_with(pool, size - discrete, discrete, algorithms[c->algorithm], 60000LL * MILLISECOND);
    return pool;
}

static faults_call call_for(const fault_case *c, uint64_t *random) {
    static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_I32, MUSTER_I64};
    faults_call call = {.kind = c->kind, .dtype = dtypes[faults_random(random, 4)], .op = 1 + (int32_t)faults_random(random, 5)};
    if (c->kind == FAULTS_ALL_REDUCE_AXPY) {
        call.op = MUSTER_SUM;
        call.dtype = dtypes[faults_random(random, 2)];
    }
    if (call.op == MUSTER_AVG && call.dtype > MUSTER_F64) call.op = MUSTER_SUM;
    call.root = (int32_t)faults_random(random, (uint32_t)size_of(c->member));
    call.count = 1 + faults_random(random, faults_random(random, 4) ? 200 : 3000);
    call.salt = (int32_t)faults_random(random, 50);
    return call;
}

/* What stands in the way of a wrong order: another message, or another collective. */
static faults_call next_call(faults_call call) {
    if (faults_sends(call.kind))
        call.salt++;
    else
        call.kind = call.kind == FAULTS_BARRIER ? FAULTS_ALL_REDUCE : FAULTS_BARRIER;
    if (call.kind == FAULTS_ALL_REDUCE && call.op == MUSTER_AVG) call.op = MUSTER_MAX;
    return call;
}

static void describe(char text[300], const fault_case *c, const collectives_pool *pool) {
    const char *algorithm = algorithms[c->algorithm];
    snprintf(text, 300, "MUSTER_SEED=%llu: %s, %s, %s on rank %d of %d (first device %s, last %s)", (unsigned long long)matrix.seed,
             faults_kind_name(c->kind), algorithm ? algorithm : "selected", faults_fault_name(c->fault), (int)rank_of(c->member),
             (int)size_of(c->member), pool->devices[0]->name, pool->devices[pool->count - 1]->name);
}

static void must_be(const char *complaint, const char *what, const char *where) {
    if (complaint) fail_msg("%s: %s: %s", where, what, complaint);
}

/* Without a fault; also the next call after one. */
static void run_clean(collectives_pool *pool, const faults_plan *plan, const char *what, const char *where) {
    faults_plan clean = {.calls = {plan->calls[0]}, .steps = 1, .size = plan->size, .delays = plan->delays};
    clean.calls[0].salt += 2; /* other values, in memory of the same owner */
    faults_say(pool->pool, "%s: %s", where, what);
    muster_status status = faults_run(pool, &clean, 0);
    must_be(faults_verdict(&clean, status, muster_last_error()), what, where);
}

static void run_fault(collectives_pool *pool, faults_plan *plan, const char *where) {
    faults_say(pool->pool, "%s", where);
    must_be(faults_try(pool, plan, &matrix.repeated), "the fault", where);
    matrix.runs++;
}

/* Each time with a new communicator, so that it makes again what it makes once; until no allocation
 * is left to fail. */
static void run_allocations(collectives_pool *pool, faults_plan *plan, int32_t algorithm, const char *where) {
    run_clean(pool, plan, "before", where); /* the workers have their scratch */
    for (plan->allocation = 1;; plan->allocation++) {
        mst_communicator_destroy(pool->communicator);
        assert_ok(
            mst_communicator_create(pool->pool, &(mst_communicator_options){.algorithm = algorithms[algorithm]}, &pool->communicator));
        run_fault(pool, plan, where);
        bool failed = plan->allocations >= plan->allocation;
        run_clean(pool, plan, "the next call", where);
        if (!failed) break;
        matrix.refused++;
    }
    mst_communicator_destroy(pool->communicator);
    assert_ok(mst_communicator_create(pool->pool, &(mst_communicator_options){.algorithm = algorithms[algorithm]}, &pool->communicator));
    run_clean(pool, plan, "after", where);
}

static void run_case(const fault_case *c) {
    uint8_t *state = &matrix.state[c->kind][c->algorithm][c->fault][c->member];
    if (*state != EMPTY) return;
    *state = faults_excuse(c->kind, c->fault) ? EXCUSED : RUN;
    if (*state == EXCUSED) return;
    uint64_t random =
        matrix.seed * 1000003 + (uint64_t)(((c->kind * ALGORITHMS + c->algorithm) * FAULTS + (int32_t)c->fault) * MEMBERS + c->member);
    collectives_pool *pool = pool_for(c, &random);
    faults_plan plan = {.size = size_of(c->member), .fault = c->fault, .rank = rank_of(c->member), .steps = 1};
    char where[300];
    plan.calls[0] = call_for(c, &random);
    if (c->fault == FAULT_ORDER) plan.calls[plan.steps++] = next_call(plan.calls[0]);
    plan.late_entry = faults_random(&random, 2);
    plan.delays = c->fault == FAULT_DELAYS || faults_random(&random, 4) == 0 ? random : 0;
    describe(where, c, pool);
    if (c->fault == FAULT_MEMORY)
        run_allocations(pool, &plan, c->algorithm, where);
    else
        run_fault(pool, &plan, where);
    run_clean(pool, &plan, "the next call", where);
}

/* ---- which cases ---- */

static bool is_whole(void) { return test_is_full() && faults_whole(); }

static void run_whole(void) {
    for (fault_case c = {0}; (int)c.kind < FAULTS_KINDS; c.kind++) {
        for (c.algorithm = 0; c.algorithm < ALGORITHMS; c.algorithm++) {
            for (c.fault = FAULT_FAILS; c.fault < FAULTS; c.fault++) {
                for (c.member = 0; c.member < MEMBERS; c.member++) run_case(&c);
            }
        }
    }
}

static bool occurs(const int32_t *at) { return !faults_excuse((faults_kind)at[0], (faults_fault)(at[2] + FAULT_FAILS)); }

/* Every two values meet; on --full several times over, and so much of what three do together. */
static void run_sample(void) {
    static const int32_t extents[] = {FAULTS_KINDS, ALGORITHMS, FAULTS - FAULT_FAILS, MEMBERS};
    for (uint64_t pass = 0; pass < (test_is_full() ? 4 : 1); pass++) {
        int32_t count;
        pairs_case *cases = pairs_draw(extents, 4, matrix.seed * 977 + pass, occurs, &count);
        for (int32_t i = 0; i < count; i++) {
            const int32_t *at = cases[i].at;
            run_case(&(fault_case){(faults_kind)at[0], at[1], at[3], (faults_fault)(at[2] + FAULT_FAILS)});
        }
        free(cases);
    }
}

/* ---- what was run ---- */

static int32_t count_state(faults_kind kind, faults_fault fault, int32_t wanted) {
    int32_t count = 0;
    for (int32_t a = 0; a < ALGORITHMS; a++) {
        for (int32_t s = 0; s < MEMBERS; s++) count += matrix.state[kind][a][fault][s] == wanted;
    }
    return count;
}

static void print_table(void) {
    printf("runs by collective and fault, over algorithms and ranks (-: see below)\n%-18s", "");
    for (faults_fault f = FAULT_FAILS; f < FAULTS; f++) printf("%8s", faults_fault_name(f));
    for (faults_kind k = 0; k < FAULTS_KINDS; k++) {
        printf("\n%-18s", faults_kind_name(k));
        for (faults_fault f = FAULT_FAILS; f < FAULTS; f++)
            faults_excuse(k, f) ? printf("%8s", "-") : printf("%8d", (int)count_state(k, f, RUN));
    }
    printf("\n");
    for (faults_kind k = 0; k < FAULTS_KINDS; k++) {
        for (faults_fault f = FAULT_FAILS; f < FAULTS; f++) {
            if (faults_excuse(k, f)) printf("- %s of %s: %s\n", faults_fault_name(f), faults_kind_name(k), faults_excuse(k, f));
        }
    }
    printf("%lld faulty runs, %lld of them with an allocation that failed, %lld repeated with a longer deadline\n", (long long)matrix.runs,
           (long long)matrix.refused, (long long)matrix.repeated);
    fflush(stdout);
}

static void no_case_is_empty(void) {
    for (faults_kind k = 0; k < FAULTS_KINDS; k++) {
        for (faults_fault f = FAULT_FAILS; f < FAULTS; f++) {
            int32_t empty = count_state(k, f, EMPTY);
            if (faults_excuse(k, f) ? count_state(k, f, RUN) > 0 : empty > (is_whole() ? 0 : ALGORITHMS * MEMBERS - 1))
                fail_msg("%s, %s: %d cases are empty", faults_kind_name(k), faults_fault_name(f), (int)empty);
        }
    }
}

static void every_fault_of_every_rank_in_every_collective_ends_and_is_told(void **unused) {
    (void)unused;
    if (is_whole())
        run_whole();
    else
        run_sample();
    print_table();
    no_case_is_empty();
}

static int close_pools(void **unused) {
    (void)unused;
    for (int32_t a = 0; a < ALGORITHMS; a++) {
        for (int32_t n = 2; n <= FAULTS_RANKS; n++) {
            for (int32_t d = 0; d < DEVICES; d++) {
                if (matrix.pools[a][n][d].size > 0) collectives_close(&matrix.pools[a][n][d]);
            }
        }
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_fault_of_every_rank_in_every_collective_ends_and_is_told)};
    faults_install_hook();
    faults_watch();
    matrix.seed = faults_seed();
    return cmocka_run_group_tests(tests, NULL, close_pools);
}
