/* all_reduce_apply: parameters go the way that plain loops compute, by every transport and
 * algorithm, on 1 to 8 ranks, however the vector is cut into segments. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_apply.h"
#include "collectives_matrix.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"

#include <stdlib.h>

#if defined(MUSTER_TEST_SANITIZED) || !defined(__OPTIMIZE__)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif

/* Plans: of 4 dtypes, 12 counts and 24 kinds of tables, but for tiny segments of many elements.
 * Each communicator takes one of plans_one_in() of them: another sample for each communicator, and
 * for each MUSTER_SEED. */
enum { RANKS = 8, ALL_KINDS = APPLY_CUTS * 8, PLANS = 4 * (12 * 24 - 2 * 8) };

/* What one run of the ranks does. */
typedef struct training {
    muster_communicator *communicator;
    const char *transport, *algorithm; /* that must have served; NULL: any */
    int64_t plans_run, paired_steps;
    int64_t first, one_in; /* of the sample */
} training;

/* Around a cache line of f32, around the step of the host, around pages as the unit of portions. */
static const int64_t counts[] = {0, 1, 9, 15, 16, 17, 129, 1023, 1024, 1025, 65536 + 1, 131072 - 1};
enum { COUNTS = sizeof counts / sizeof *counts };

static muster_status check_server(const training *t, const apply_rank *a) {
    const mst_member *own = &t->communicator->members[a->worker->rank];
    if (a->size == 1) return MUSTER_OK; /* which needs no transport for one vector */
    if ((!t->transport || strcmp(own->served_transport, t->transport) == 0) &&
        (!t->algorithm || strcmp(own->served_algorithm, t->algorithm) == 0))
        return MUSTER_OK;
    return mst_error(MUSTER_USER, "expected %s (%s) to serve, received %s (%s)", t->transport, t->algorithm ? t->algorithm : "any",
                     own->served_transport, own->served_algorithm ? own->served_algorithm : "none");
}

/* Between two ranks of a process `direct` makes no sum if the rule takes pairs, but of whole steps
 * only. */
static muster_status check_pairs(training *t, const apply_rank *a, bool whole) {
    const mst_member *own = &t->communicator->members[a->worker->rank];
    const apply_plan *plan = &a->plan;
    const mst_apply_layout layout = {plan->dtype, plan->count, plan->buckets ? a->bucket_ends : NULL, plan->buckets ? APPLY_BUCKETS : 0};
    const bool pairs = plan->pairs && whole && a->size == 2 && !collectives_are_shared(2) && mst_device_is_host(a->worker->device) &&
                       own->served_algorithm && strcmp(own->served_algorithm, "direct") == 0;
    const int64_t expected = pairs ? mst_apply_portion(&layout, a->size, muster_worker_rank(a->worker)) : 0;
    if (a->pair_count != expected || (expected > 0 && !own->served_pairs))
        return mst_error(MUSTER_USER, "expected %lld pairs, received %lld", (long long)expected, (long long)a->pair_count);
    if (muster_worker_rank(a->worker) == 0) t->paired_steps += expected > 0;
    return MUSTER_OK;
}

/* One step in one pass, then one in two phases, then one whose sums are made bucket by bucket. */
static muster_status train(muster_worker *w, training *t, const apply_plan *plan) {
    apply_rank a;
    mst_worker_scratch_rewind(w);
    muster_status status = apply_open(&a, w, muster_worker_size(w), plan);
    for (int32_t s = 0; s < APPLY_STEPS && status == MUSTER_OK; s++) {
        const bool whole = s == 0 || plan->sharded;
        a.pair_count = 0;
        status = apply_write_gradients(&a, s);
        if (status == MUSTER_OK && whole) status = apply_enter(&a, t->communicator);
        if (status == MUSTER_OK && !whole) status = apply_enter_phases(&a, t->communicator, s > 1);
        if (status == MUSTER_OK) status = check_server(t, &a);
        if (status == MUSTER_OK) status = check_pairs(t, &a, whole);
    }
    if (status == MUSTER_OK) status = apply_check(&a, APPLY_STEPS, NULL);
    apply_close(&a);
    return status;
}

static bool on_gpus(void) { return collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE; }
static bool takes_few(void) { return on_gpus() || (processes_count() > 1 && !test_is_full()); }
/* Of two ranks of one process, which add pairs, more. */
static int64_t plans_one_in(int32_t ranks) {
    if (takes_few()) return on_gpus() && test_is_full() ? 61 : test_one_in(61, 127, 127);
    if (test_is_full()) return SLOW_BUILD ? 19 : 3;
    return ranks == 2 ? test_one_in(19, 19, 61) : test_one_in(61, 61, 251);
}

/* Which dtypes, counts and kinds of tables the plans have had. */
static bool seen_dtype[MUSTER_F64 + 1], seen_count[COUNTS], seen_kind[ALL_KINDS];
static void note_plan(int32_t d, int32_t n, int32_t kind) { seen_dtype[d] = seen_count[n] = seen_kind[kind] = true; }
static void assert_all_seen(void) {
    for (int32_t d = MUSTER_F16; d <= MUSTER_F64; d++) assert_true(seen_dtype[d]);
    for (int32_t n = 0; n < COUNTS; n++) assert_true(seen_count[n]);
    for (int32_t kind = 0; kind < ALL_KINDS; kind++) assert_true(seen_kind[kind]);
}

static muster_status train_all(muster_worker *w, void *argument) {
    training *t = argument;
    int64_t run = 0, number = t->first;
    for (int32_t d = MUSTER_F16; d <= MUSTER_F64; d++) {
        for (int32_t n = 0; n < COUNTS; n++) {
            for (int32_t kind = 0; kind < ALL_KINDS; kind++) {
                const apply_plan plan = {(muster_dtype)d, counts[n], (apply_cut)(kind / 8), kind & 1,
                                         kind & 2,        kind & 4,  (kind + n + d) % 2,    (kind / 2 + n) % 2};
                if (plan.cut == APPLY_TINY && plan.count > APPLY_TINY_COUNT) continue;
                if (!test_keeps(number++, t->one_in)) continue;
                MUSTER_TRY(train(w, t, &plan));
                if (w->rank == 0) note_plan(d, n, kind);
                run++;
            }
        }
    }
    if (w->rank == 0) t->plans_run += run;
    return MUSTER_OK;
}

static void train_by(collectives_pool *pool, training *t, int64_t *run, int64_t *paired_steps) {
    static int64_t communicators;
    t->first = communicators++;
    t->one_in = plans_one_in(pool->size);
    assert_ok(collectives_run(pool, train_all, t));
    assert_ok(collectives_check_served(t->communicator));
    assert_int_equal(t->plans_run, test_kept(t->first + PLANS, t->one_in) - test_kept(t->first, t->one_in));
    *run += t->plans_run;
    *paired_steps += t->paired_steps;
}

static void train_alone(collectives_pool *pool, int32_t host, const char *name, bool is_algorithm, int64_t *run, int64_t *paired_steps) {
    training t = {.algorithm = is_algorithm ? strcmp(name, "reference") == 0 ? name : "direct" : NULL};
    assert_ok(collectives_create(pool->pool, name, &t.communicator));
    if (is_algorithm)
        t.transport = on_gpus() || host < pool->size ? "staged" : "host";
    else if (name)
        t.transport = name;
    train_by(pool, &t, run, paired_steps);
    mst_communicator_destroy(t.communicator);
}

/* Each name has a pool of its own. */
static void train_shared(int32_t host, int32_t discrete, const char *name, int64_t *run, int64_t *paired_steps) {
    collectives_pool pool;
    collectives_open_with(&pool, host, discrete, name, 60LL * 1000000000);
    training t = {.communicator = pool.communicator->global, .transport = "nodes"};
    train_by(&pool, &t, run, paired_steps);
    collectives_close(&pool);
}

static void test_every_transport_takes_the_steps_of_plain_loops(void **state) {
    (void)state;
    static const int32_t mixed[][2] = {{0, 1}, {0, 2}, {2, 1}, {1, 3}};
    int64_t run = 0, pools = 0, paired_steps = 0;
    for (int32_t g = 0; g < RANKS + 4; g++) {
        const bool few_ranks = on_gpus() || (SLOW_BUILD && !test_is_full());
        if (few_ranks && g > 2 && g != RANKS - 1 && (on_gpus() || g < RANKS)) continue;
        const int32_t host = g < RANKS ? g + 1 : mixed[g - RANKS][0], discrete = g < RANKS ? 0 : mixed[g - RANKS][1];
        collectives_pool pool;
        const bool shared = collectives_are_shared(host + discrete);
        if (!shared) collectives_open(&pool, host, discrete);
        for (int i = 0; i < CASE_ALGORITHMS; i++) {
            const char *name = case_algorithm(i);
            const matrix_case c = {.ranks = (uint8_t)(host + discrete)};
            const bool gpus = on_gpus();
            if (!case_available(&c, name)) continue;
            if (shared && !test_is_full() && (g + i) % 2) continue; /* each launch of a pool takes a while */
            if (shared)
                train_shared(host, discrete, name, &run, &paired_steps);
            else
                train_alone(&pool, host, name, name && (!gpus || i == 0), &run, &paired_steps);
            pools++;
        }
        if (!shared) collectives_close(&pool);
    }
    print_message("%lld trainings on %lld communicators, %lld steps of pairs\n", (long long)run, (long long)pools, (long long)paired_steps);
    assert_true(pools > 0);
    if (!on_gpus() && processes_count() == 1) assert_true(paired_steps >= 60 * 19 / plans_one_in(2));
    if (processes_count() == 1) assert_all_seen();
}

/* ---- the bits of the sums ---- */

typedef struct sums {
    muster_communicator *communicator;
    muster_dtype dtype;
    int64_t count;
    bool sharded;
    const mst_nodes *nodes; /* NULL: one process */
} sums;

static muster_status takes_the_sum(void *context, muster_worker *worker, const mst_apply_part *part) {
    (void)context;
    muster_tensor from = muster_tensor_make(part->dtype, (void *)(uintptr_t)part->gradient, 1, &part->count),
                  to = muster_tensor_make(part->dtype, part->after, 1, &part->count);
    from.device = to.device = worker->rank;
    return muster_copy(worker, from, to);
}

/* Does another process begin with this vector? With shards rank 0 has the first two. */
static bool begins_process(const sums *s, int32_t vector) {
    const int32_t rank = s->sharded && vector > 0 ? vector - 1 : vector;
    if (!s->nodes || vector == 0 || (s->sharded && vector == 1)) return vector == 0;
    return mst_nodes_process_of(s->nodes, rank) != mst_nodes_process_of(s->nodes, rank - 1);
}

/* One rounding for each rank in their order, in the compute dtype, and one at the end; the sums of
 * several processes are added up in the order of these. */
static void oracle_sums(const sums *s, int32_t size, char *expected, char *vectors) {
    const int64_t element = muster_dtype_size(s->dtype);
    for (int64_t i = 0; i < s->count; i++) {
        double wide = 0, wide_sum = 0;
        float narrow = 0, narrow_sum = 0;
        for (int32_t r = 0; r < size; r++) {
            const double value = oracle_value(s->dtype, vectors + r * s->count * element, i);
            const bool begins = begins_process(s, r);
            if (begins && r > 0) wide_sum += wide, narrow_sum += narrow;
            wide = begins ? value : wide + value;
            narrow = begins ? (float)value : narrow + (float)value;
        }
        wide += wide_sum, narrow += narrow_sum;
        if (s->dtype == MUSTER_F64)
            memcpy(expected + i * 8, &wide, 8);
        else
            mst_convert(s->dtype, expected + i * element, MUSTER_F32, &narrow, 1);
    }
}

static muster_status compare_sums(muster_worker *w, const sums *s, char *vectors, char *expected) {
    const int64_t element = muster_dtype_size(s->dtype), last = muster_worker_size(w) - 1,
                  shards = !s->sharded || last == 0        ? 1
                           : muster_worker_rank(w) == 0    ? 2
                           : muster_worker_rank(w) == last ? 0
                                                           : 1,
                  first = s->sharded && muster_worker_rank(w) > 0 ? muster_worker_rank(w) + 1 : muster_worker_rank(w),
                  all = shards * s->count;
    muster_tensor gradients, parameter;
    MUSTER_TRY(muster_worker_scratch(w, s->dtype, 1, &all, &gradients));
    MUSTER_TRY(muster_worker_scratch(w, s->dtype, 1, &s->count, &parameter));
    const mst_apply_segment segments[] = {{.count = s->count / 3, .parameter = muster_tensor_address(parameter)},
                                          {.offset = s->count / 3,
                                           .count = s->count - s->count / 3,
                                           .parameter = (char *)muster_tensor_address(parameter) + s->count / 3 * element}};
    if (all > 0) MUSTER_TRY(muster_worker_write(w, muster_tensor_make(s->dtype, vectors + first * s->count * element, 1, &all), gradients));
    gradients = muster_tensor_reshape(gradients, 2, (int64_t[]){shards, s->count});
    const mst_apply_request request = {.gradients = gradients, .segments = segments, .segment_count = 2, .function = takes_the_sum};
    MUSTER_TRY(mst_worker_all_reduce_apply(w, s->communicator, &request));
    oracle_sums(s, muster_worker_size(w), expected, vectors);
    MUSTER_TRY(muster_worker_read(w, parameter, muster_tensor_make(s->dtype, vectors, 1, &s->count)));
    return memcmp(vectors, expected, (size_t)(s->count * element)) == 0
               ? MUSTER_OK
               : mst_error(MUSTER_USER, "other bits of %s on rank %d", muster_dtype_name(s->dtype), muster_worker_rank(w));
}

static muster_status sum_random(muster_worker *w, void *argument) {
    const sums *s = argument;
    const int64_t bytes = s->count * muster_dtype_size(s->dtype);
    char *memory = malloc((size_t)((muster_worker_size(w) + 1) * bytes));
    for (int32_t r = 0; r < muster_worker_size(w); r++) oracle_fill(s->dtype, memory + r * bytes, s->count, (uint64_t)r);
    mst_worker_scratch_rewind(w);
    muster_status status = compare_sums(w, s, memory, memory + muster_worker_size(w) * bytes);
    free(memory);
    return status;
}

static int32_t sum_by(collectives_pool *pool, muster_communicator *communicator) {
    sums s = {.communicator = communicator, .count = 20011, .nodes = pool->nodes};
    int32_t kind = 0;
    for (; kind < 8; kind++) {
        s.dtype = (muster_dtype)(MUSTER_F16 + kind / 2), s.sharded = kind % 2;
        assert_ok(collectives_run(pool, sum_random, &s));
    }
    return kind;
}

static int32_t sum_alone(int32_t size, const char *name) {
    collectives_pool pool;
    muster_communicator *communicator;
    collectives_open(&pool, size - size / 3, size / 3);
    assert_ok(collectives_create(pool.pool, name, &communicator));
    const int32_t run = sum_by(&pool, communicator);
    mst_communicator_destroy(communicator);
    collectives_close(&pool);
    return run;
}

static int32_t sum_shared(int32_t size, const char *name) {
    collectives_pool pool;
    collectives_open_with(&pool, size - size / 3, size / 3, name, 60LL * 1000000000);
    const int32_t run = sum_by(&pool, pool.communicator->global);
    collectives_close(&pool);
    return run;
}

static void test_sums_have_the_bits_of_the_order_of_ranks_and_shards(void **state) {
    (void)state;
    int32_t run = 0;
    const int64_t one_in = test_one_in(1, 2, 4); /* which meets each algorithm on some sizes */
    for (int32_t size = 1; size <= RANKS; size += on_gpus() ? 3 : 1)
        for (int i = 0; i < CASE_ALGORITHMS; i++) {
            const matrix_case c = {.ranks = (uint8_t)size};
            const char *name = case_algorithm(i);
            if (!case_available(&c, name) || !test_keeps(size + i, one_in)) continue;
            run += collectives_are_shared(size) ? sum_shared(size, name) : sum_alone(size, name);
        }
    assert_in_range(run, (on_gpus() ? 2 * 8 * 3 : 4 * 8 * RANKS) / one_in, 4 * 8 * RANKS / one_in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_transport_takes_the_steps_of_plain_loops),
        cmocka_unit_test(test_sums_have_the_bits_of_the_order_of_ranks_and_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
