/* The arithmetic of a device's memory; no device is needed. */
#include "base_check.h"
#include "cuda/slab_private.h"

enum { BASE = 1 << 20, UNIT = MST_SLAB_ALIGNMENT };

static mst_slab slab_of(int64_t units) {
    mst_slab slab = {0};
    assert_ok(mst_slab_add(&slab, BASE, units * UNIT));
    return slab;
}

static uint64_t taken(mst_slab *slab, int64_t units) {
    uint64_t address = 0;
    bool found = false;
    assert_ok(mst_slab_take(slab, units * UNIT, &address, &found));
    return found ? address : 0;
}

static void sizes_are_rounded_up(void **state) {
    (void)state;
    assert_int_equal(mst_slab_round(0), UNIT);
    assert_int_equal(mst_slab_round(1), UNIT);
    assert_int_equal(mst_slab_round(UNIT), UNIT);
    assert_int_equal(mst_slab_round(UNIT + 1), 2 * UNIT);
    assert_int_equal(mst_slab_round(INT64_MAX), -1);
}

static void pieces_do_not_overlap_and_fill_it(void **state) {
    (void)state;
    mst_slab slab = slab_of(4);
    assert_int_equal(taken(&slab, 1), BASE);
    assert_int_equal(taken(&slab, 2), BASE + UNIT);
    assert_int_equal(taken(&slab, 2), 0);
    assert_int_equal(taken(&slab, 1), BASE + 3 * UNIT);
    assert_int_equal(slab.used, slab.total);
    mst_slab_end(&slab);
}

static void neighbours_that_are_given_back_become_one(void **state) {
    (void)state;
    mst_slab slab = slab_of(4);
    uint64_t a = taken(&slab, 1), b = taken(&slab, 1), c = taken(&slab, 1);
    assert_int_equal(mst_slab_give(&slab, a), UNIT);
    assert_int_equal(mst_slab_give(&slab, c), UNIT);
    assert_int_equal(mst_slab_largest(&slab), 2 * UNIT);
    assert_int_equal(mst_slab_give(&slab, b), UNIT);
    assert_int_equal(mst_slab_largest(&slab), 4 * UNIT);
    assert_int_equal(slab.used, 0);
    mst_slab_end(&slab);
}

static void segments_are_never_joined(void **state) {
    (void)state;
    mst_slab slab = slab_of(2);
    assert_ok(mst_slab_add(&slab, BASE + 2 * UNIT, 2 * UNIT)); /* happens to lie behind the first */
    assert_int_equal(mst_slab_largest(&slab), 2 * UNIT);
    uint64_t a = taken(&slab, 2), b = taken(&slab, 2);
    mst_slab_give(&slab, a);
    mst_slab_give(&slab, b);
    assert_int_equal(mst_slab_largest(&slab), 2 * UNIT);
    mst_slab_end(&slab);
}

static void what_is_not_in_use_is_not_given_back(void **state) {
    (void)state;
    mst_slab slab = slab_of(4);
    uint64_t a = taken(&slab, 2);
    assert_int_equal(mst_slab_give(&slab, a + UNIT), 0);
    assert_int_equal(mst_slab_give(&slab, BASE + 64 * UNIT), 0);
    assert_int_equal(mst_slab_give(&slab, a), 2 * UNIT);
    assert_int_equal(mst_slab_give(&slab, a), 0);
    mst_slab_end(&slab);
}

static void a_failed_allocation_of_the_host_changes_nothing(void **state) {
    (void)state;
    mst_slab slab = slab_of(4);
    uint64_t address = 0;
    bool found = true;
    mst_memory_fail_at(1);
    assert_refused(mst_slab_take(&slab, UNIT, &address, &found), MUSTER_OUT_OF_MEMORY, "blocks of device memory");
    mst_memory_fail_at(0);
    assert_int_equal(slab.used, 0);
    assert_int_equal(mst_slab_largest(&slab), 4 * UNIT);
    mst_slab_end(&slab);
}

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
 * 2016). */
static uint64_t next_random(uint64_t *random) {
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return *random * 0x2545F4914F6CDD1Du >> 32;
}

enum { HELD = 64, UNITS = 256 };

static void check_against_map(const mst_slab *slab, const uint64_t *addresses, const int64_t *units) {
    char map[UNITS] = {0};
    int64_t used = 0;
    for (int i = 0; i < HELD; i++) {
        for (int64_t u = 0; u < units[i]; u++) {
            char *cell = &map[(addresses[i] - BASE) / UNIT + (uint64_t)u];
            assert_int_equal(*cell, 0);
            *cell = 1;
        }
        used += units[i] * UNIT;
    }
    assert_int_equal(slab->used, used);
    int64_t largest = 0, run = 0;
    for (int u = 0; u < UNITS; u++) {
        run = map[u] ? 0 : run + 1;
        if (run > largest) largest = run;
    }
    assert_int_equal(mst_slab_largest(slab), largest * UNIT);
}

static void a_thousand_random_steps_agree_with_a_map(void **state) {
    (void)state;
    mst_slab slab = slab_of(UNITS);
    uint64_t random = 20261121, addresses[HELD] = {0};
    int64_t units[HELD] = {0};
    for (int step = 0; step < 1000; step++) {
        uint64_t i = next_random(&random) % HELD;
        if (units[i] > 0) {
            assert_int_equal(mst_slab_give(&slab, addresses[i]), units[i] * UNIT);
            units[i] = 0;
        } else {
            int64_t wanted = 1 + (int64_t)(next_random(&random) % 16), largest = mst_slab_largest(&slab) / UNIT;
            addresses[i] = taken(&slab, wanted);
            assert_int_equal(addresses[i] != 0, wanted <= largest);
            units[i] = addresses[i] ? wanted : 0;
        }
        check_against_map(&slab, addresses, units);
    }
    mst_slab_end(&slab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_rounded_up),
        cmocka_unit_test(pieces_do_not_overlap_and_fill_it),
        cmocka_unit_test(neighbours_that_are_given_back_become_one),
        cmocka_unit_test(segments_are_never_joined),
        cmocka_unit_test(what_is_not_in_use_is_not_given_back),
        cmocka_unit_test(a_failed_allocation_of_the_host_changes_nothing),
        cmocka_unit_test(a_thousand_random_steps_agree_with_a_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
