#include "base_check.h"
#include "clock_impl.h"

#include <malloc.h>

static void blocks_are_aligned_and_zeroed(void **state) {
    (void)state;
    for (size_t bytes = 0; bytes < 300; bytes += 37) {
        unsigned char *block = mst_alloc(bytes);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % MST_CACHE_LINE, 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(block[i], 0);
        mst_free(block);
    }
}

static void live_blocks_are_counted(void **state) {
    (void)state;
    int64_t before = mst_memory_live();
    void *a = mst_alloc(1), *b = mst_alloc_uninitialised(1);
    char *c = mst_strdup("three");
    assert_string_equal(c, "three");
    assert_int_equal(mst_memory_live(), before + 3);
    mst_free(a);
    mst_free(b);
    mst_free(c);
    mst_free(NULL);
    assert_int_equal(mst_memory_live(), before);
}

static void only_the_chosen_allocation_fails(void **state) {
    (void)state;
    mst_memory_fail_at(2);
    void *a = mst_alloc(8), *b = mst_alloc(8), *c = mst_alloc(8);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    mst_memory_fail_at(0);
    mst_free(a);
    mst_free(c);
}

static void a_foreign_allocation_counts_and_can_fail(void **state) {
    (void)state;
    int64_t before = mst_memory_count();
    assert_false(mst_memory_refuse());
    mst_memory_fail_at(1);
    assert_true(mst_memory_refuse());
    assert_false(mst_memory_refuse());
    mst_memory_fail_at(0);
    assert_int_equal(mst_memory_count(), before + 3);
}

#ifndef MUSTER_TEST_SANITIZED /* whose allocators keep freed blocks as they like */
/* Each of these blocks is a mapping of its own, so that the C library can say how many there
 * are. */
static int64_t mapped_blocks(void) {
#if __GLIBC_PREREQ(2, 33)
    return (int64_t)mallinfo2().hblks;
#else
    return mallinfo().hblks;
#endif
}

static void retire_large(int count) {
    for (int i = 0; i < count; i++) {
        void *block = mst_alloc_uninitialised(256 << 10);
        assert_non_null(block);
        mst_retire(block);
    }
}

/* The last 256 retired blocks stay readable; those before are freed. */
static void retired_blocks_stay_for_a_while(void **state) {
    (void)state;
    enum { KEPT = 256, SMALL = 64 };
    const int64_t live = mst_memory_live();
    assert_int_equal(mallopt(M_MMAP_THRESHOLD, 128 << 10), 1);
    const int64_t before = mapped_blocks();
    retire_large(KEPT);
    assert_int_equal(mapped_blocks(), before + KEPT);
    retire_large(3 * KEPT / 2);
    assert_int_equal(mapped_blocks(), before + KEPT);
    mst_retire(NULL); /* no block, and takes no place */
    assert_int_equal(mapped_blocks(), before + KEPT);
    for (int i = 0; i < KEPT; i++) mst_retire(mst_alloc(SMALL));
    assert_int_equal(mapped_blocks(), before);
    assert_int_equal(mst_memory_live(), live);
}
#endif

static void an_impossible_size_gives_null(void **state) {
    (void)state;
    int64_t before = mst_memory_live();
    assert_null(mst_alloc_uninitialised(SIZE_MAX));
    assert_null(mst_alloc_uninitialised(SIZE_MAX - MST_CACHE_LINE + 1));
    assert_int_equal(mst_memory_live(), before);
}

static void growing_keeps_items_and_zeroes_the_rest(void **state) {
    (void)state;
    int32_t *items = NULL;
    int64_t capacity = 0;
    assert_ok(mst_grow((void **)&items, &capacity, 3, sizeof *items, "items"));
    assert_true(capacity >= 3);
    items[0] = 10, items[2] = 30;
    assert_ok(mst_grow((void **)&items, &capacity, 100, sizeof *items, "items"));
    assert_true(capacity >= 100);
    assert_int_equal(items[0], 10);
    assert_int_equal(items[2], 30);
    assert_int_equal(items[99], 0);
    mst_free(items);
}

static void growing_within_capacity_allocates_nothing(void **state) {
    (void)state;
    char *items = NULL;
    int64_t capacity = 0;
    assert_ok(mst_grow((void **)&items, &capacity, 8, 1, "items"));
    int64_t before = mst_memory_count();
    assert_ok(mst_grow((void **)&items, &capacity, capacity, 1, "items"));
    assert_int_equal(mst_memory_count(), before);
    mst_free(items);
}

static void failed_growth_changes_nothing(void **state) {
    (void)state;
    char *items = NULL;
    int64_t capacity = 0;
    assert_ok(mst_grow((void **)&items, &capacity, 4, 1, "items"));
    char *block = items;
    int64_t had = capacity;
    mst_memory_fail_at(1);
    assert_refused(mst_grow((void **)&items, &capacity, 1000, 1, "list of things"), MUSTER_OUT_OF_MEMORY, "list of things");
    mst_memory_fail_at(0);
    assert_refused(mst_grow((void **)&items, &capacity, INT64_MAX, 16, "list of things"), MUSTER_OVERFLOW, "list of things");
    assert_ptr_equal(items, block);
    assert_int_equal(capacity, had);
    mst_free(items);
}

static void products_notice_overflow(void **state) {
    (void)state;
    int64_t product;
    assert_true(mst_multiply(INT64_C(1) << 31, INT64_C(1) << 31, &product));
    assert_int_equal(product, INT64_C(1) << 62);
    assert_false(mst_multiply(INT64_C(1) << 32, INT64_C(1) << 31, &product));
}

static void time_and_ticks_go_forward(void **state) {
    (void)state;
    int64_t now = mst_now_ns();
    uint64_t ticks = mst_ticks();
    assert_true(mst_ticks_per_ns() > 0);
    assert_true(mst_now_ns() >= now);
    assert_true(mst_ticks() >= ticks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_zeroed),
        cmocka_unit_test(live_blocks_are_counted),
        cmocka_unit_test(only_the_chosen_allocation_fails),
        cmocka_unit_test(a_foreign_allocation_counts_and_can_fail),
#ifndef MUSTER_TEST_SANITIZED
        cmocka_unit_test(retired_blocks_stay_for_a_while),
#endif
        cmocka_unit_test(an_impossible_size_gives_null),
        cmocka_unit_test(growing_keeps_items_and_zeroes_the_rest),
        cmocka_unit_test(growing_within_capacity_allocates_nothing),
        cmocka_unit_test(failed_growth_changes_nothing),
        cmocka_unit_test(products_notice_overflow),
        cmocka_unit_test(time_and_ticks_go_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
