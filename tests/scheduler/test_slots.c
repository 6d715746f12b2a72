/* The slots of a worker: each module has one of its own, on each worker, and the scheduler leaves
 * what lies in it alone. */
#include "scheduler_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS = 3, RUNS = 3 };

/* What each slot of each worker must hold now. NULL: nothing. */
static void *expected[RANKS][MST_WORKER_SLOTS];
/* Something to point to, another for every slot of every worker. */
static char things[RANKS][MST_WORKER_SLOTS];

static muster_status compare_task(muster_worker *worker, void *argument) {
    (void)argument;
    for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++) {
        if (worker->slots[slot] == expected[worker->rank][slot]) continue;
        return mst_error(MUSTER_USER, "slot %d: expected %p, received %p", slot, expected[worker->rank][slot], worker->slots[slot]);
    }
    return MUSTER_OK;
}

static void compare(mst_pool *pool) {
    for (int32_t run = 0; run < RUNS; run++) {
        muster_status status = mst_pool_run(pool, compare_task, NULL);
        if (status != MUSTER_OK) fail_msg("%s", muster_last_error());
    }
    for (int32_t rank = 0; rank < RANKS; rank++) {
        for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++)
            assert_ptr_equal(mst_pool_worker(pool, rank)->slots[slot], expected[rank][slot]);
    }
}

static void expect_nothing(void) {
    for (int32_t rank = 0; rank < RANKS; rank++)
        for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++) expected[rank][slot] = NULL;
}

typedef struct change {
    int32_t slot;
    bool set; /* else: clear */
    bool fails;
} change;

static muster_status change_task(muster_worker *worker, void *argument) {
    const change *c = argument;
    worker->slots[c->slot] = c->set ? &things[worker->rank][c->slot] : NULL;
    return c->fails && worker->rank == 1 ? muster_fail(MUSTER_USER, "on purpose") : MUSTER_OK;
}

static void change_slot(mst_pool *pool, change c) {
    assert_int_equal(mst_pool_run(pool, change_task, &c), c.fails ? MUSTER_USER : MUSTER_OK);
    for (int32_t rank = 0; rank < RANKS; rank++) expected[rank][c.slot] = c.set ? &things[rank][c.slot] : NULL;
    compare(pool);
}

static void the_workers_of_a_new_pool_have_empty_slots(void **state) {
    (void)state;
    expect_nothing();
    mst_pool *pool = plain_pool(RANKS, 0, -1, -1);
    compare(pool);
    for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++) change_slot(pool, (change){slot, true, false});
    mst_pool_destroy(pool);
    expect_nothing();
    pool = plain_pool(RANKS, 0, -1, -1);
    compare(pool);
    mst_pool_destroy(pool);
}

static void a_slot_is_seen_by_its_own_module_and_worker_only(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(RANKS, 0, -1, -1);
    for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++) {
        expect_nothing();
        change_slot(pool, (change){slot, true, false});
        change_slot(pool, (change){slot, false, false});
    }
    mst_pool_destroy(pool);
}

static void a_slot_lasts_until_its_module_clears_it(void **state) {
    (void)state;
    expect_nothing();
    mst_pool *pool = plain_pool(RANKS, 0, -1, -1);
    for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++) change_slot(pool, (change){slot, true, true}); /* also when the run fails */
    for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++) change_slot(pool, (change){slot, false, false});
    mst_pool_destroy(pool);
}

static void a_slot_may_be_set_between_runs(void **state) {
    (void)state;
    expect_nothing();
    mst_pool *pool = plain_pool(RANKS, 0, -1, -1);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        for (int32_t slot = 0; slot < MST_WORKER_SLOTS; slot++)
            mst_pool_worker(pool, rank)->slots[slot] = expected[rank][slot] = &things[rank][slot];
    }
    compare(pool);
    mst_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_workers_of_a_new_pool_have_empty_slots),
        cmocka_unit_test(a_slot_is_seen_by_its_own_module_and_worker_only),
        cmocka_unit_test(a_slot_lasts_until_its_module_clears_it),
        cmocka_unit_test(a_slot_may_be_set_between_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
