/* The pool: every worker runs every task, errors come back, and the next run is right. */
#include "base_await.h"
#include "scheduler_device.h"
#include "topology_impl.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct counts {
    int64_t runs[PLAIN_DEVICES]; /* plain on purpose: the end of a run must order them */
    int64_t scale;
} counts;

static muster_status count_task(muster_worker *worker, void *argument) {
    counts *c = argument;
    c->runs[worker->rank] += c->scale;
    return MUSTER_OK;
}

static void check_runs(int32_t size, int64_t spin_ns, int32_t runs) {
    mst_pool *pool = plain_pool(size, spin_ns, -1, -1);
    counts c = {.scale = 0};
    int64_t sum = 0;
    for (int32_t i = 0; i < runs; i++) {
        c.scale = i;
        sum += i;
        assert_int_equal(mst_pool_enter(pool, "test", 0), MUSTER_OK);
        assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_OK);
        mst_pool_leave(pool);
        for (int32_t rank = 0; rank < size; rank++) assert_int_equal(c.runs[rank], sum);
    }
    mst_pool_destroy(pool);
}

static void every_worker_runs_every_task(void **state) {
    (void)state;
    static const int64_t spins[] = {0, 1, 50000};
    for (int32_t size = 1; size <= 5; size++) {
        for (int32_t i = 0; i < 3; i++) check_runs(size, spins[i], 200);
    }
}

static void every_worker_runs_with_random_delays(void **state) {
    (void)state;
    mst_wait_test_hook = plain_random_hook;
    for (int32_t size = 1; size <= 4; size++) check_runs(size, 2000, 100);
    mst_wait_test_hook = NULL;
}

static muster_status rank_task(muster_worker *worker, void *argument) {
    muster_worker **seen = argument;
    seen[worker->rank] = mst_current_worker();
    return MUSTER_OK;
}

static void the_current_worker_is_known_inside_only(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    muster_worker *seen[3] = {NULL};
    assert_int_equal(mst_pool_run(pool, rank_task, seen), MUSTER_OK);
    for (int32_t rank = 0; rank < 3; rank++) assert_ptr_equal(seen[rank], mst_pool_worker(pool, rank));
    assert_null(mst_current_worker());
    mst_pool_destroy(pool);
}

static muster_status fail_task(muster_worker *worker, void *argument) {
    if (worker->rank == *(int32_t *)argument) return muster_fail(MUSTER_USER, "broken on purpose");
    return MUSTER_OK;
}

static void a_failure_on_each_rank_is_told_and_the_next_run_succeeds(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(4, 0, -1, -1);
    for (int32_t rank = 0; rank < 4; rank++) {
        char expected[64];
        snprintf(expected, sizeof(expected), "broken on purpose (rank %d)", (int)rank);
        assert_int_equal(mst_pool_run(pool, fail_task, &rank), MUSTER_USER);
        assert_string_equal(muster_last_error(), expected);
        int32_t nobody = -1;
        assert_int_equal(mst_pool_run(pool, fail_task, &nobody), MUSTER_OK);
    }
    mst_pool_destroy(pool);
}

static void a_failure_of_the_only_worker_names_no_rank(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    int32_t rank = 0;
    assert_int_equal(mst_pool_run(pool, fail_task, &rank), MUSTER_USER);
    assert_string_equal(muster_last_error(), "broken on purpose");
    mst_pool_destroy(pool);
}

static muster_status silent_task(muster_worker *worker, void *argument) {
    (void)argument;
    return worker->rank == 1 ? MUSTER_OUT_OF_RANGE : MUSTER_OK;
}

static void a_failure_without_a_message_gets_one(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, -1, -1);
    assert_int_equal(mst_pool_run(pool, silent_task, NULL), MUSTER_OUT_OF_RANGE);
    assert_string_equal(muster_last_error(), "the task failed with OUT_OF_RANGE and gave no reason (rank 1)");
    mst_pool_destroy(pool);
}

static muster_status aborted_task(muster_worker *worker, void *argument) {
    int32_t failing = *(int32_t *)argument;
    if (worker->rank != failing) return mst_error(MUSTER_ABORTED, "somebody else failed");
    TEST_AWAIT(mst_pool_aborted(worker), 0); /* the others' ABORTED comes first */
    return muster_fail(MUSTER_USER, "the cause");
}

static void aborted_never_wins_over_a_cause(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    for (int32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(mst_pool_run(pool, aborted_task, &rank), MUSTER_USER);
        assert_non_null(strstr(muster_last_error(), "the cause"));
    }
    mst_pool_destroy(pool);
}

static void aborted_alone_is_still_a_failure(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, -1, -1);
    int32_t nobody = -1;
    assert_int_equal(mst_pool_run(pool, aborted_task, &nobody), MUSTER_ABORTED);
    assert_non_null(strstr(muster_last_error(), "somebody else failed"));
    mst_pool_destroy(pool);
}

static muster_status single_task(muster_worker *worker, void *argument) {
    (void)argument;
    return worker->size == 1 && worker->rank == 0 ? MUSTER_OK : muster_fail(MUSTER_USER, "not alone");
}

static void a_single_run_sees_one_worker_in_this_thread(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    assert_int_equal(mst_pool_run_single(pool, single_task, NULL), MUSTER_OK);
    counts c = {.scale = 1};
    assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_OK);
    for (int32_t rank = 0; rank < 3; rank++) assert_int_equal(c.runs[rank], 1);
    assert_int_equal(mst_pool_worker(pool, 0)->size, 3);
    mst_pool_destroy(pool);
}

static void a_queue_is_synchronised_and_its_failure_is_the_ranks(void **state) {
    (void)state;
    mst_device *devices[2];
    plain_devices(devices, 2, false);
    mst_pool *like = plain_pool(1, 0, -1, -1), *pool = NULL;
    assert_int_equal(mst_pool_create(mst_pool_settings(like), devices, 2, &pool), MUSTER_OK);
    counts c = {.scale = 1};
    int64_t before = plain_syncs();
    assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_OK);
    assert_int_equal(plain_syncs() - before, 2);
    plain_fail_sync(1, true);
    assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_DEVICE_LOST);
    assert_string_equal(muster_last_error(), "plain device 1: sync failed (rank 1)");
    plain_fail_sync(1, false);
    assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_OK);
    mst_pool_destroy(pool);
    mst_pool_destroy(like);
}

/* A device that is used after its pool looks at nothing of it. */
static void a_pool_that_ends_leaves_its_devices(void **state) {
    (void)state;
    mst_device *devices[2];
    plain_devices(devices, 2, false);
    mst_pool *like = plain_pool(1, 0, -1, -1), *pool = NULL;
    assert_int_equal(mst_pool_create(mst_pool_settings(like), devices, 2, &pool), MUSTER_OK);
    for (int i = 0; i < 2; i++) assert_true(devices[i]->interrupt && devices[i]->interrupt_user);
    mst_pool_destroy(pool);
    for (int i = 0; i < 2; i++) assert_true(!devices[i]->interrupt && !devices[i]->interrupt_user);
    mst_pool_destroy(like);
}

static muster_status nested_task(muster_worker *worker, void *argument) {
    (void)worker;
    return mst_pool_enter(argument, "muster_function_call", 0);
}

static void a_call_inside_a_task_is_refused(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, -1, -1), *other = plain_pool(1, 0, -1, -1);
    assert_int_equal(mst_pool_run(pool, nested_task, pool), MUSTER_BAD_STATE);
    assert_memory_equal(muster_last_error(), "muster_function_call: ", 22);
    assert_int_equal(mst_pool_run(pool, nested_task, other), MUSTER_BAD_STATE);
    assert_int_equal(mst_pool_enter(other, "test", 0), MUSTER_OK);
    mst_pool_leave(other);
    mst_pool_destroy(other);
    mst_pool_destroy(pool);
}

static void after_fork_calls_are_refused_and_destroy_returns(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool refused = mst_pool_enter(pool, "test", 0) == MUSTER_BAD_STATE;
        mst_pool_destroy(pool);
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    counts c = {.scale = 1};
    assert_int_equal(mst_pool_enter(pool, "test", 0), MUSTER_OK);
    assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_OK);
    mst_pool_leave(pool);
    mst_pool_destroy(pool);
}

static void opening_a_thousand_times_leaks_nothing(void **state) {
    (void)state;
    int64_t before = mst_memory_live();
    for (int32_t i = 0; i < 1000; i++) check_runs(3, 0, 1);
    assert_int_equal(mst_memory_live(), before);
    assert_int_equal(plain_live(), 0);
}

static muster_status scratch_task(muster_worker *worker, void *argument) {
    (void)argument;
    void *address;
    for (int32_t i = 0; i < 3; i++) MUSTER_TRY(mst_worker_scratch_bytes(worker, 100000, &address));
    return MUSTER_OK;
}

/* created: allocations until the pool stood */
static muster_status life(mst_device **devices, int32_t count, int64_t *created) {
    mst_pool *pool = NULL;
    mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = -1};
    int64_t before = mst_memory_count();
    MUSTER_TRY(mst_pool_create(&options, devices, count, &pool));
    *created = mst_memory_count() - before;
    muster_status status = mst_pool_run(pool, scratch_task, NULL);
    mst_pool_destroy(pool);
    return status;
}

static void every_failing_allocation_is_an_error_without_leak(void **state) {
    (void)state;
    mst_device *devices[3];
    plain_devices(devices, 3, true);
    int64_t before = mst_memory_live(), count = mst_memory_count(), created = 0, ignored;
    assert_int_equal(life(devices, 3, &created), MUSTER_OK);
    count = mst_memory_count() - count;
    assert_true(created >= 5 && count > created);
    int32_t errors = 0;
    for (int64_t k = 1; k <= count; k++) {
        mst_memory_fail_at(k);
        muster_status status = life(devices, 3, &ignored);
        mst_memory_fail_at(0);
        errors += status != MUSTER_OK;
        /* Joining a worker's scratch blocks into one is not needed for the answer, so that its
         * failure is no error. */
        if (k <= created) assert_true(status != MUSTER_OK);
        assert_int_equal(mst_memory_live(), before);
        assert_int_equal(plain_live(), 0);
    }
    assert_true(errors > created);
    assert_int_equal(life(devices, 3, &ignored), MUSTER_OK);
}

static void sizes_that_make_no_sense_are_refused(void **state) {
    (void)state;
    mst_pool_options options = {0};
    mst_device *devices[1] = {NULL};
    mst_pool *pool = NULL;
    assert_int_equal(mst_pool_create(&options, devices, 0, &pool), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(mst_pool_create(&options, devices, 1 << 20, &pool), MUSTER_INVALID_ARGUMENT);
    assert_null(pool);
}

static void more_workers_than_cpus_do_not_spin(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(16, 50000, -1, -1);
    if (mst_topology_allowed() < 16) assert_int_equal(mst_pool_settings(pool)->spin_ns, 0);
    counts c = {.scale = 1};
    for (int32_t i = 0; i < 50; i++) assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_OK);
    for (int32_t rank = 0; rank < 16; rank++) assert_int_equal(c.runs[rank], 50);
    mst_pool_destroy(pool);
}

static void the_callers_affinity_is_untouched(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    mst_device *devices[2];
    plain_devices(devices, 2, true);
    int32_t cpus[2] = {0, 0};
    mst_topology_cores(cpus, 2);
    for (int32_t i = 0; i < 2; i++) devices[i]->cpu = cpus[i];
    mst_pool_options options = {.spin_ns = 50000, .warn_after_ns = -1, .fail_after_ns = -1, .pin = true};
    mst_pool *pool = NULL;
    assert_int_equal(mst_pool_create(&options, devices, 2, &pool), MUSTER_OK);
    counts c = {.scale = 1};
    for (int32_t i = 0; i < 50; i++) assert_int_equal(mst_pool_run(pool, count_task, &c), MUSTER_OK);
    mst_pool_destroy(pool);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static muster_status read_affinity(muster_worker *worker, void *argument) {
    cpu_set_t *masks = argument;
    return sched_getaffinity(0, sizeof *masks, &masks[worker->rank]) == 0 ? MUSTER_OK : MUSTER_SYSTEM;
}

/* Rank 0 is the caller's thread, which keeps its own. */
static void threads_get_the_cpus_of_their_masks(void **state) {
    (void)state;
    enum { RANKS = 3 };
    mst_device *devices[RANKS];
    cpu_set_t all, masks[RANKS], read[RANKS];
    int32_t cpus[1] = {0};
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    mst_topology_cores(cpus, 1);
    plain_devices(devices, RANKS, true);
    for (int32_t i = 0; i < RANKS; i++) {
        devices[i]->cpu = cpus[0];
        CPU_ZERO(&masks[i]);
        CPU_SET(cpus[0], &masks[i]);
    }
    masks[1] = all;
    const mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = -1, .pin = true, .masks = masks};
    mst_pool *pool = NULL;
    assert_int_equal(mst_pool_create(&options, devices, RANKS, &pool), MUSTER_OK);
    for (int32_t i = 0; i < 50; i++) {
        memset(read, 0, sizeof read);
        assert_int_equal(mst_pool_run(pool, read_affinity, read), MUSTER_OK);
        assert_true(CPU_EQUAL(&read[0], &all));
        assert_true(CPU_EQUAL(&read[1], &masks[1]));
        assert_true(CPU_EQUAL(&read[2], &masks[2]));
    }
    mst_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_runs_every_task),
        cmocka_unit_test(every_worker_runs_with_random_delays),
        cmocka_unit_test(the_current_worker_is_known_inside_only),
        cmocka_unit_test(a_failure_on_each_rank_is_told_and_the_next_run_succeeds),
        cmocka_unit_test(a_failure_of_the_only_worker_names_no_rank),
        cmocka_unit_test(a_failure_without_a_message_gets_one),
        cmocka_unit_test(aborted_never_wins_over_a_cause),
        cmocka_unit_test(aborted_alone_is_still_a_failure),
        cmocka_unit_test(a_single_run_sees_one_worker_in_this_thread),
        cmocka_unit_test(a_queue_is_synchronised_and_its_failure_is_the_ranks),
        cmocka_unit_test(a_pool_that_ends_leaves_its_devices),
        cmocka_unit_test(a_call_inside_a_task_is_refused),
        cmocka_unit_test(after_fork_calls_are_refused_and_destroy_returns),
        cmocka_unit_test(opening_a_thousand_times_leaks_nothing),
        cmocka_unit_test(every_failing_allocation_is_an_error_without_leak),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
        cmocka_unit_test(more_workers_than_cpus_do_not_spin),
        cmocka_unit_test(the_callers_affinity_is_untouched),
        cmocka_unit_test(threads_get_the_cpus_of_their_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
