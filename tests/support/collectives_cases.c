#include "collectives_cases.h"

#include "base_check.h"
#include "collectives_case_run.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"

/* Where the cases run, and what the results are compared with: `alone` is the same pool, but for
 * the cases that several processes share, whose bits are those of one process. */
typedef struct case_pools {
    collectives_pool shared, own, *run, *alone;
    muster_communicator *communicators[CASE_ALGORITHMS], *reference; /* NULL: its cases run elsewhere */
    bool any_order, any_order_applied;
} case_pools;

static bool every_root(const matrix_case *c) { return case_rooted(c) && case_count(c) <= 1000; }
static int32_t one_root(const matrix_case *c) { return case_rooted(c) ? (c->dtype + c->op + c->in_place) % c->ranks : 0; }

static muster_status run_cases(const case_member *member) {
    batch *b = member->batch;
    int64_t run = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const matrix_case *c = &b->cases[i];
        if (!b->communicators[c->algorithm]) continue;
        int32_t first = every_root(c) ? 0 : one_root(c), last = every_root(c) ? c->ranks - 1 : first;
        for (int32_t root = first; root <= last; root++, run++) MUSTER_TRY(case_member_run(member, c, root));
    }
    if (member->worker->rank == 0) b->run = run;
    return MUSTER_OK;
}

static muster_status batch_task(muster_worker *worker, void *argument) {
    case_member member;
    MUSTER_TRY(case_member_open(&member, worker, argument));
    muster_status status = run_cases(&member);
    case_member_close(&member);
    return status;
}

static muster_status write_vector(muster_worker *worker, const batch *b, int which, muster_tensor to) {
    return muster_worker_write(worker, muster_tensor_make(to.dtype, b->vectors[which], 1, &b->length), to);
}

/* What rank 0 has. */
static muster_status keep(muster_worker *worker, const batch *b, muster_tensor from, char *kept) {
    return muster_worker_rank(worker) == 0 ? muster_worker_read(worker, from, muster_tensor_make(from.dtype, kept, 1, &b->length))
                                           : MUSTER_OK;
}

/* x: the gradient; y, z: for the parameter and the velocity. */
static muster_status reference_updates(muster_worker *worker, const batch *b, muster_tensor x, muster_tensor y, muster_tensor z) {
    MUSTER_TRY(write_vector(worker, b, CASE_RANKS, y));
    MUSTER_TRY(muster_worker_all_reduce_axpy(worker, b->reference, CASE_ALPHA, x, y));
    MUSTER_TRY(keep(worker, b, y, b->updated));
    MUSTER_TRY(write_vector(worker, b, CASE_RANKS, y));
    MUSTER_TRY(muster_fill(worker, 0, z));
    for (int i = 0; i < CASE_STEPS; i++)
        MUSTER_TRY(muster_worker_all_reduce_momentum(worker, b->reference, CASE_ALPHA, x, CASE_BETA, z, y));
    return keep(worker, b, y, b->stepped);
}

/* The bits that all others are compared with: those of the reference algorithm on rank 0. */
static muster_status reference_task(muster_worker *worker, void *argument) {
    batch *b = argument;
    muster_dtype dtype = b->cases->dtype;
    muster_tensor x, y;
    MUSTER_TRY(muster_worker_scratch(worker, dtype, 1, &b->length, &x));
    MUSTER_TRY(muster_worker_scratch(worker, dtype, 1, &b->length, &y));
    muster_tensor z;
    MUSTER_TRY(muster_worker_scratch(worker, dtype, 1, &b->length, &z));
    MUSTER_TRY(write_vector(worker, b, muster_worker_rank(worker), x));
    if (b->cases->op == MUSTER_SUM) MUSTER_TRY(reference_updates(worker, b, x, y, z));
    MUSTER_TRY(muster_worker_all_reduce(worker, b->reference, b->cases->op, x, y));
    return keep(worker, b, y, b->combined);
}

static void check_reference(const batch *b, const char *what, int64_t differs, const char *received) {
    const matrix_case *c = b->cases;
    if (differs < 0) return;
    fail_msg("%s%s of %s on %d ranks: element %lld is %.17g", what, mst_reduction_name(c->op), muster_dtype_name(c->dtype), c->ranks,
             (long long)differs, oracle_value(c->dtype, received, differs));
}

static void check_references(const batch *b) {
    const matrix_case *c = b->cases;
    void *const *vectors = (void *const *)b->vectors;
    const oracle_steps steps = {CASE_ALPHA, CASE_BETA, CASE_STEPS};
    check_reference(b, "", oracle_float(c->op, c->dtype, vectors, c->ranks, NULL, 0, b->combined, b->length), b->combined);
    if (c->op != MUSTER_SUM) return;
    check_reference(b, "update by the ",
                    oracle_float(c->op, c->dtype, vectors, c->ranks, vectors[CASE_RANKS], CASE_ALPHA, b->updated, b->length), b->updated);
    check_reference(b, "steps with momentum by the ",
                    oracle_momentum(c->dtype, vectors, c->ranks, vectors[CASE_RANKS], &steps, b->stepped, b->length), b->stepped);
}

static void set_expected(batch *b, collectives_pool *pool) {
    const matrix_case *c = b->cases;
    if (c->dtype > MUSTER_F64) {
        oracle_whole(c->op, c->dtype, (void *const *)b->vectors, c->ranks, b->combined, b->length);
        return;
    }
    assert_ok(collectives_run(pool, reference_task, b));
    check_references(b);
}

/* ---- batches ---- */

/* Cases from `begin` that have the first `fields` fields in common. */
static int64_t end_of(const matrix_case *cases, int64_t begin, int64_t count, size_t fields) {
    int64_t end = begin;
    while (end < count && memcmp(&cases[end], &cases[begin], fields) == 0) end++;
    return end;
}

static int64_t longest(const matrix_case *cases, int64_t count) {
    int64_t length = 0;
    for (int64_t i = 0; i < count; i++) length = case_count(&cases[i]) > length ? case_count(&cases[i]) : length;
    return length + CASE_SLACK;
}

/* A communicator knows who has served last. A transport need not have all_reduce_apply: then
 * another one serves it. Of no case there is nothing to know. */
static bool is_known_who_served(const batch *b, int algorithm) {
    for (int64_t i = b->count - 1; i >= 0; i--)
        if (b->cases[i].algorithm == algorithm)
            return b->cases[i].kind != CASE_ALL_REDUCE_APPLY && b->cases[i].kind != CASE_ALL_REDUCE_APPLY_BEGIN;
    return false;
}

static bool has_cases(const batch *b) {
    for (int64_t i = 0; i < b->count; i++)
        if (b->communicators[b->cases[i].algorithm]) return true;
    return false;
}

static void run_op(case_pools *pools, batch *b, int64_t *run) {
    if (!has_cases(b)) return;
    set_expected(b, pools->alone);
    assert_ok(collectives_run(pools->run, batch_task, b));
    for (int a = 0; a < CASE_ALGORITHMS && !b->shared; a++)
        if (is_known_who_served(b, a)) assert_ok(collectives_check_served(b->communicators[a]));
    *run += b->run;
}

static void run_dtype(case_pools *pools, const matrix_case *cases, int64_t count, int64_t *run) {
    batch b = {.length = longest(cases, count),
               .reference = pools->reference,
               .shared = pools->run->nodes != NULL,
               .any_order = pools->any_order,
               .any_order_applied = pools->any_order_applied,
               .first = pools->run->first,
               .after = pools->run->first + pools->run->count};
    size_t bytes = (size_t)(b.length * muster_dtype_size(cases->dtype));
    memcpy(b.communicators, pools->communicators, sizeof b.communicators);
    char *block = mst_alloc_uninitialised((CASE_RANKS + 4) * bytes);
    assert_non_null(block);
    for (int r = 0; r <= CASE_RANKS; r++) {
        b.vectors[r] = block + (size_t)r * bytes;
        if (r < cases->ranks || r == CASE_RANKS) oracle_fill(cases->dtype, b.vectors[r], b.length, (uint64_t)r);
    }
    b.combined = block + (CASE_RANKS + 1) * bytes;
    b.updated = b.combined + bytes;
    b.stepped = b.updated + bytes;
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = end_of(cases, begin, count, 4);
        b.cases = cases + begin;
        b.count = end - begin;
        b.length = longest(b.cases, b.count);
        run_op(pools, &b, run);
    }
    mst_free(block);
}

/* On GPUs that lack the transport of this name, `staged` serves these cases instead. That the
 * communicator is refused is asserted. */
static muster_communicator *open_communicator(collectives_pool *pool, const matrix_case *c, const char *algorithm) {
    muster_communicator *made = NULL;
    const bool available = case_available(c, algorithm);
    muster_status status = collectives_create(pool->pool, algorithm, &made);
    if (!available) assert_int_equal(status, MUSTER_UNAVAILABLE);
    if (!available) status = collectives_create(pool->pool, "staged", &made);
    assert_ok(status);
    return made;
}

static bool has_algorithm(const matrix_case *cases, int64_t count, int a) {
    for (int64_t i = 0; i < count; i++)
        if (cases[i].algorithm == a) return true;
    return false;
}

static void run_dtypes(case_pools *pools, const matrix_case *cases, int64_t count, int64_t *run) {
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = end_of(cases, begin, count, 3);
        run_dtype(pools, cases + begin, end - begin, run);
    }
}

static void run_alone(const matrix_case *cases, int64_t count, int32_t host, int64_t *run) {
    case_pools pools = {.run = &pools.own, .alone = &pools.own};
    collectives_open(&pools.own, host, cases->ranks - host);
    for (int a = 0; a < CASE_ALGORITHMS; a++) pools.communicators[a] = open_communicator(&pools.own, cases, case_algorithm(a));
    pools.reference = pools.communicators[0];
    run_dtypes(&pools, cases, count, run);
    for (int a = 0; a < CASE_ALGORITHMS; a++) mst_communicator_destroy(pools.communicators[a]);
    collectives_close(&pools.own);
}

/* The cases of each algorithm in a pool of its own. By `naive` and `flat` floats have the bits of
 * one process, and by the others where they combine in the order of the ranks, as every second of
 * these pools does. */
static void run_shared(const matrix_case *cases, int64_t count, int32_t host, int64_t *run) {
    case_pools pools = {.run = &pools.shared, .alone = &pools.own};
    collectives_open_alone(&pools.own, cases->ranks, 0);
    assert_ok(collectives_create(pools.own.pool, "reference", &pools.reference));
    for (int a = 0; a < CASE_ALGORITHMS; a++) {
        const char *name = case_algorithm(a);
        if (!has_algorithm(cases, count, a)) continue;
        const bool in_order = name && (strcmp(name, "reference") == 0 || strcmp(name, "direct") == 0);
        collectives_fixed_order = !in_order && (cases->ranks + a) % 2;
        pools.any_order = !in_order && !collectives_fixed_order;
        pools.any_order_applied = true; /* processes add up their own sums first, whatever the name */
        collectives_open_with(&pools.shared, host, cases->ranks - host, name, 60LL * 1000000000);
        collectives_fixed_order = false;
        memset(pools.communicators, 0, sizeof pools.communicators);
        pools.communicators[a] = pools.shared.communicator->global;
        run_dtypes(&pools, cases, count, run);
        collectives_close(&pools.shared);
    }
    mst_communicator_destroy(pools.reference);
    collectives_close(&pools.own);
}

static void run_pool(const matrix_case *cases, int64_t count, int64_t *run) {
    const int32_t ranks = cases->ranks, host = cases->devices == CASE_HOST ? ranks : cases->devices == CASE_DISCRETE ? 0 : (ranks + 1) / 2;
    if (collectives_are_shared(ranks))
        run_shared(cases, count, host, run);
    else
        run_alone(cases, count, host, run);
}

int64_t cases_run(const matrix_case *cases, int64_t count) {
    int64_t run = 0;
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = end_of(cases, begin, count, 2);
        run_pool(cases + begin, end - begin, &run);
    }
    return run;
}
