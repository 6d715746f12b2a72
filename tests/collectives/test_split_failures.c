/* A split that fails: every member is told, nothing of it stays, and the same split works
 * afterwards. */
#include "base_await.h"
#include "collectives_values.h"

#include <string.h>

enum { SIZE = 4 };

typedef struct trial {
    collectives_pool c;
    int32_t guilty;  /* whose allocation fails; -1: nobody's */
    int64_t others;  /* allocations of the others, before they wait for it */
    int64_t before;  /* all allocations so far, when the split begins */
    int64_t failing; /* which allocation of its own fails, once the others have made theirs */
    atomic_bool armed;
    muster_status statuses[SIZE];
    char messages[SIZE][MST_MESSAGE_SIZE];
    muster_communicator *parts[SIZE];
} trial;

static trial *_Atomic running; /* for the hook */

/* Every wait comes by here first. The guilty rank stays in its wait for the first meeting until the
 * others have allocated all that they need, a part among it. */
static void hook(void) {
    const muster_worker *worker = mst_current_worker();
    trial *t = atomic_load(&running);
    if (!t || !worker || muster_worker_rank(worker) != t->guilty || atomic_load(&t->armed)) return;
    atomic_store(&t->armed, true);
    TEST_AWAIT(mst_memory_count() >= t->before + t->others, 10000);
    mst_memory_fail_at(t->failing);
}

static muster_status split_task(muster_worker *w, void *argument) {
    trial *t = argument;
    t->statuses[muster_worker_rank(w)] = muster_worker_split(w, NULL, 0, 0, &t->parts[muster_worker_rank(w)]);
    mst_error_save(t->messages[muster_worker_rank(w)]);
    return t->statuses[muster_worker_rank(w)];
}

static muster_status use_and_release_task(muster_worker *w, void *argument) {
    trial *t = argument;
    muster_tensor x = values_make(w, 5, muster_worker_rank(w), 0);
    VALUES_REQUIRE(muster_communicator_size(t->parts[muster_worker_rank(w)]) == SIZE);
    MUSTER_TRY(muster_worker_all_reduce(w, t->parts[muster_worker_rank(w)], MUSTER_SUM, x, x));
    MUSTER_TRY(values_expect(w, x, SIZE * (SIZE - 1) / 2, 0));
    return muster_worker_release(w, t->parts[muster_worker_rank(w)]);
}

static muster_status attempt(trial *t, int32_t guilty) {
    t->guilty = guilty;
    t->before = mst_memory_count();
    memset(t->parts, 0, sizeof t->parts);
    atomic_store(&t->armed, false);
    atomic_store(&running, guilty < 0 ? NULL : t);
    muster_status status = collectives_run(&t->c, split_task, t);
    atomic_store(&running, NULL);
    mst_memory_fail_at(0);
    return status;
}

static void works(trial *t) {
    assert_ok(attempt(t, -1));
    assert_ok(collectives_run(&t->c, use_and_release_task, t));
}

/* The leader is rank 0. */
static void open_trial(trial *t) {
    memset(t, 0, sizeof *t);
    mst_wait_test_hook = hook;
    collectives_open(&t->c, SIZE, 0);
    works(t); /* after which scratch memory does not grow */
    assert_ok(attempt(t, -1));
    t->others = mst_memory_count() - t->before - 1; /* but for the one of a rank that leads nobody */
    t->failing = 1;
    assert_ok(collectives_run(&t->c, use_and_release_task, t));
}

static void close_trial(trial *t) {
    collectives_close(&t->c);
    mst_wait_test_hook = NULL;
}

static void test_a_part_that_was_made_in_vain_is_freed_at_once(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    int64_t live = mst_memory_live();
    for (int32_t i = 0; i < 100; i++) {
        assert_int_equal(attempt(&t, 1 + i % (SIZE - 1)), MUSTER_OUT_OF_MEMORY);
        assert_int_equal(mst_memory_live(), live);
    }
    works(&t);
    assert_int_equal(mst_memory_live(), live);
    close_trial(&t);
}

static void test_every_rank_is_told_and_none_has_a_part(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    for (int32_t guilty = 1; guilty < SIZE; guilty++) {
        assert_int_equal(attempt(&t, guilty), MUSTER_OUT_OF_MEMORY);
        for (int32_t r = 0; r < SIZE; r++) {
            assert_int_equal(t.statuses[r], r == guilty ? MUSTER_OUT_OF_MEMORY : MUSTER_ABORTED);
            assert_null(t.parts[r]);
        }
        works(&t);
    }
    close_trial(&t);
}

/* Whichever allocation of the leader fails, from the first to the last. */
static void test_the_same_split_works_after_each_failing_allocation(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    int64_t live = mst_memory_live(), most = t.others + 1 - (SIZE - 1);
    t.others = SIZE - 1; /* one each */
    for (t.failing = 1; t.failing <= most; t.failing++) {
        assert_refused(attempt(&t, 0), MUSTER_OUT_OF_MEMORY, "muster_worker_split: ");
        assert_null(strstr(muster_last_error(), "muster_runtime_open"));
        for (int32_t r = 0; r < SIZE; r++) assert_int_equal(t.statuses[r], r == 0 ? MUSTER_OUT_OF_MEMORY : MUSTER_ABORTED);
        assert_int_equal(mst_memory_live(), live);
        works(&t);
    }
    close_trial(&t);
}

/* A rank that fails, and one that turns to something else, after the split of the others has
 * begun. */
static muster_status absent_task(muster_worker *w, void *argument) {
    trial *t = argument;
    if (muster_worker_rank(w) == t->guilty) return t->failing ? MUSTER_OK : muster_worker_barrier(w, NULL);
    return muster_worker_split(w, NULL, muster_worker_rank(w) % 2, 0, &t->parts[muster_worker_rank(w)]);
}

static void test_ranks_that_do_not_split_leave_nothing_either(void **state) {
    (void)state;
    trial t;
    open_trial(&t);
    int64_t live = mst_memory_live();
    for (int32_t i = 0; i < 40; i++) {
        t.guilty = i % SIZE;
        t.failing = i / SIZE % 2;
        assert_int_equal(collectives_run(&t.c, absent_task, &t), MUSTER_INVALID_ARGUMENT);
        assert_int_equal(mst_memory_live(), live);
    }
    works(&t);
    close_trial(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_part_that_was_made_in_vain_is_freed_at_once),
        cmocka_unit_test(test_every_rank_is_told_and_none_has_a_part),
        cmocka_unit_test(test_the_same_split_works_after_each_failing_allocation),
        cmocka_unit_test(test_ranks_that_do_not_split_leave_nothing_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
