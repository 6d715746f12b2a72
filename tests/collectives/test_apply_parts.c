/* all_reduce_apply: who has which portion, what a call allocates, and what a rule that fails
 * leaves. */
#include "base_check.h"
#include "collectives_apply.h"
#include "collectives_pool.h"
#include "core/view_private.h"

#include <stdlib.h>

enum { RANKS = 8 };
/* Around a cache line of f32, around the step of the host, around pages as the unit of portions. */
static const int64_t counts[] = {0, 1, 9, 15, 16, 17, 129, 1023, 1024, 1025, 65536 + 1, 131072 - 1};
enum { COUNTS = sizeof counts / sizeof *counts };

/* ---- portions ---- */

/* How often each element of the vector is in a portion. The states of a portion go on without a
 * gap, and every slice is a segment of its bucket. */
static void count_elements(const mst_apply_layout *layout, int32_t size, uint8_t *found) {
    for (int32_t r = 0; r < size; r++) {
        const mst_apply_segment segments[] = {{.count = layout->count}, {.count = 5, .local = true}};
        mst_apply_slice slice = {.next = 0};
        int64_t states = 0;
        int32_t slices = 0;
        for (; mst_apply_next_slice(layout, size, r, &slice); slices++) {
            const int64_t from = layout->bucket_count && slices ? layout->bucket_ends[slices - 1] : 0,
                          to = layout->bucket_count ? layout->bucket_ends[slices] : layout->count;
            int64_t begin, end;
            mst_segment(to - from, muster_dtype_size(layout->dtype), size, r, &begin, &end);
            assert_int_equal(slice.begin, from + begin);
            assert_int_equal(slice.end, from + end);
            assert_int_equal(slice.state, states);
            states += end - begin;
            for (int64_t i = slice.begin; i < slice.end; i++) found[i]++;
        }
        assert_int_equal(slices, layout->bucket_count ? layout->bucket_count : 1);
        assert_int_equal(mst_apply_portion(layout, size, r), states);
        assert_int_equal(mst_apply_states(layout, segments, 2, size, r), states + 5);
    }
}

static void test_portions_cover_the_vector_and_may_be_empty(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t size = 1; size <= RANKS; size++) {
        for (int32_t n = 0; n < COUNTS; n++) {
            const int64_t ends[] = {0, counts[n] / 3, counts[n] / 3, counts[n]};
            for (int32_t buckets = 0; buckets <= 4; buckets += 4, cases++) {
                const mst_apply_layout layout = {MUSTER_F32, counts[n], buckets ? ends : NULL, buckets};
                uint8_t *found = calloc((size_t)counts[n] + 1, 1);
                count_elements(&layout, size, found);
                for (int64_t i = 0; i < counts[n]; i++) assert_int_equal(found[i], 1);
                free(found);
            }
        }
    }
    assert_int_equal(cases, 2 * RANKS * COUNTS);
    const mst_apply_layout nine = {.dtype = MUSTER_F32, .count = 9}; /* a cache line is not divided */
    assert_int_equal(mst_apply_portion(&nine, 8, 0), 0);
    assert_int_equal(mst_apply_portion(&nine, 8, 7), 9);
}

/* ---- memory ---- */

static int64_t allocations_between[RANKS];

static muster_status train_again(muster_worker *w, void *argument) {
    const apply_plan plan = {MUSTER_F32, 5000, APPLY_FEW, true, false, false, true, false};
    apply_rank a;
    (void)argument;
    muster_status status = apply_open(&a, w, muster_worker_size(w), &plan);
    if (status == MUSTER_OK) status = apply_write_gradients(&a, 0);
    if (status == MUSTER_OK) status = apply_enter(&a, NULL);
    for (int i = 0; i < 2 && status == MUSTER_OK; i++) status = apply_enter_phases(&a, NULL, i);
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    const int64_t before = mst_memory_count();
    for (int i = 0; i < 3 && status == MUSTER_OK; i++) status = apply_enter(&a, NULL);
    for (int i = 0; i < 2 && status == MUSTER_OK; i++) status = apply_enter_phases(&a, NULL, i);
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    allocations_between[muster_worker_rank(w)] = mst_memory_count() - before;
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    apply_close(&a);
    return status;
}

static void test_a_call_of_the_same_sizes_allocates_nothing(void **state) {
    (void)state;
    static const int32_t groups[][2] = {{1, 0}, {3, 0}, {0, 2}, {2, 1}};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        collectives_pool pool;
        collectives_open(&pool, groups[g][0], groups[g][1]);
        assert_ok(collectives_run(&pool, train_again, NULL));
        for (int32_t r = 0; r < pool.size; r++) assert_int_equal(allocations_between[r], 0);
        collectives_close(&pool);
    }
}

/* After the reserve nothing is allocated: there is no host memory, and devices must not ask their
 * driver for any more. The blocks take what is left of theirs. */
enum { BLOCKS = 64, SMALLEST = 4096 };
typedef struct filling {
    void *blocks[BLOCKS];
    int32_t count;
} filling;

static void fill_device(mst_device *device, filling *f) {
    device->in_flight = true;
    for (int64_t bytes = 1 << 26; bytes >= SMALLEST && f->count < BLOCKS;)
        if (device->memory->allocate(device, bytes, &f->blocks[f->count]) == MUSTER_OK)
            f->count++;
        else
            bytes /= 2;
}

static muster_status train_reserved(muster_worker *w, void *argument) {
    const apply_plan plan = {MUSTER_F32, 50000, APPLY_FEW, true, false, false, true, false};
    const bool on_host = mst_device_is_host(w->device), counted = collectives_devices() == COLLECTIVES_HOST_AND_DISCRETE;
    filling f = {.count = 0};
    apply_rank a;
    muster_status status = apply_open(&a, w, muster_worker_size(w), &plan);
    if (status == MUSTER_OK) status = apply_write_gradients(&a, 0);
    const mst_apply_layout layout = {MUSTER_F32, plan.count, a.bucket_ends, APPLY_BUCKETS};
    if (status == MUSTER_OK && *(bool *)argument) status = mst_worker_reserve_apply(w, &layout, a.length);
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    if (!counted && !on_host) fill_device(w->device, &f);
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    const int64_t before = mst_memory_count();
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    if (status == MUSTER_OK) status = apply_enter(&a, NULL);
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    allocations_between[muster_worker_rank(w)] = mst_memory_count() - before;
    for (int32_t b = 0; b < f.count; b++) w->device->memory->release(w->device, f.blocks[b]);
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    if (status == MUSTER_OK) status = apply_check(&a, 1, NULL);
    apply_close(&a);
    return status;
}

static void test_a_call_after_the_reserve_allocates_nothing(void **state) {
    static const int32_t groups[][2] = {{3, 0}, {0, 2}, {2, 1}};
    const bool on_gpus = collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE;
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (int32_t reserved = 0; reserved < 2; reserved++) {
            collectives_pool pool;
            bool reserves = reserved;
            int64_t allocated = 0;
            collectives_open(&pool, groups[g][0], groups[g][1]);
            const muster_status status = collectives_run(&pool, train_reserved, &reserves);
            for (int32_t r = pool.first; r < pool.first + pool.count; r++) allocated += allocations_between[r];
            allocated = collectives_sum(&pool, allocated);
            if (reserved || !on_gpus) assert_ok(status);
            if (reserved) assert_int_equal(allocated, 0);
            /* the oracle of the above: without it, something is allocated */
            if (!reserved && on_gpus) assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
            if (!reserved && !on_gpus && groups[g][1]) assert_true(allocated > 0);
            collectives_close(&pool);
        }
}

/* ---- a rule that fails ---- */

/* At each of its calls once, on a rank alone. What is not marked is as it was; what has no elements
 * is not marked. */
static muster_status fail_at_each_call(muster_worker *w, void *argument) {
    const apply_plan plan = {MUSTER_F32, 5000, APPLY_FEW, true, false, false, false, false};
    apply_rank a;
    muster_status status = apply_open(&a, w, 1, &plan);
    for (int32_t k = 1; status == MUSTER_OK; k++) {
        status = apply_reset(&a);
        if (status == MUSTER_OK) status = apply_write_gradients(&a, 0);
        a.calls = 0, a.fails_at_call = k;
        if (status != MUSTER_OK || apply_enter(&a, NULL) == MUSTER_OK) break;
        status = apply_check(&a, 0, a.undefined);
        for (int32_t s = 0; s < a.segment_count && status == MUSTER_OK; s++)
            if (a.undefined[s] && !a.segments[s].count) status = mst_error(MUSTER_USER, "segment %d is marked", s);
        ++*(int32_t *)argument;
    }
    apply_close(&a);
    return status;
}

static void test_a_rule_that_fails_leaves_what_is_not_marked(void **state) {
    (void)state;
    for (int32_t discrete = 0; discrete < 2; discrete++) {
        collectives_pool pool;
        int32_t failures = 0;
        collectives_open(&pool, 1 - discrete, discrete);
        assert_ok(collectives_run(&pool, fail_at_each_call, &failures));
        assert_in_range(failures, 6, 12);
        collectives_close(&pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_portions_cover_the_vector_and_may_be_empty),
        cmocka_unit_test(test_a_call_of_the_same_sizes_allocates_nothing),
        cmocka_unit_test(test_a_call_after_the_reserve_allocates_nothing),
        cmocka_unit_test(test_a_rule_that_fails_leaves_what_is_not_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
