/* Rank 0 with a thread of its own: the same runs, failures and ends; and jobs that no thread waits
 * for. */
#include "scheduler_device.h"

#include "pool_state_private.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>

#include <cmocka.h>

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static mst_pool *own_pool(int32_t count, int64_t spin_ns) {
    mst_device *devices[PLAIN_DEVICES];
    mst_pool *pool = NULL;
    plain_devices(devices, count, true);
    const mst_pool_options options = {.spin_ns = spin_ns, .warn_after_ns = -1, .fail_after_ns = -1, .dedicated_rank0 = true, .log = no_log};
    assert_int_equal(mst_pool_create(&options, devices, count, &pool), MUSTER_OK);
    return pool;
}

typedef struct seen {
    int64_t runs[PLAIN_DEVICES]; /* plain: the end of a run orders them */
    pthread_t threads[PLAIN_DEVICES];
    int32_t size;
} seen;

static muster_status look(muster_worker *worker, void *argument) {
    seen *s = argument;
    s->runs[worker->rank]++;
    s->threads[worker->rank] = pthread_self();
    if (worker->rank == 0) s->size = worker->size;
    return MUSTER_OK;
}

static void every_worker_runs_on_its_own_thread(void **state) {
    (void)state;
    static const int64_t spins[] = {0, 50000};
    for (int32_t i = 0; i < 2; i++) {
        for (int32_t size = 1; size <= 3; size++) {
            mst_pool *pool = own_pool(size, spins[i]);
            seen s = {.size = 0};
            for (int32_t run = 1; run <= 100; run++) {
                assert_int_equal(mst_pool_run(pool, look, &s), MUSTER_OK);
                for (int32_t rank = 0; rank < size; rank++) assert_int_equal(s.runs[rank], run);
            }
            for (int32_t rank = 0; rank < size; rank++) {
                assert_true(pthread_equal(s.threads[rank], pool->states[rank].thread));
                assert_false(pthread_equal(s.threads[rank], pthread_self()));
            }
            mst_pool_destroy(pool);
        }
    }
}

/* ---- timer slack ---- */

static muster_status read_slack(muster_worker *worker, void *argument) {
    ((int *)argument)[worker->rank] = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    return MUSTER_OK;
}

static void sleeps_are_exact_on_the_threads_of_the_pool_only(void **state) {
    (void)state;
    enum { OWN = 12345 }; /* ns, of the program */
    const int before = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    assert_int_equal(prctl(PR_SET_TIMERSLACK, (unsigned long)OWN, 0UL, 0UL, 0UL), 0);
    for (int own_rank0 = 0; own_rank0 < 2; own_rank0++) {
        mst_device *devices[PLAIN_DEVICES];
        mst_pool *pool = NULL;
        int slack[3] = {0};
        plain_devices(devices, 3, true);
        const mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = -1, .dedicated_rank0 = own_rank0, .log = no_log};
        assert_int_equal(mst_pool_create(&options, devices, 3, &pool), MUSTER_OK);
        assert_int_equal(mst_pool_run(pool, read_slack, slack), MUSTER_OK);
        assert_int_equal(slack[0], own_rank0 ? 1 : OWN);
        assert_int_equal(slack[1], 1);
        assert_int_equal(slack[2], 1);
        mst_pool_destroy(pool);
        assert_int_equal(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL), OWN);
    }
    assert_int_equal(prctl(PR_SET_TIMERSLACK, (unsigned long)before, 0UL, 0UL, 0UL), 0);
}

static void a_single_run_wakes_rank_0_only(void **state) {
    (void)state;
    mst_pool *pool = own_pool(3, 0);
    seen s = {.size = 0};
    for (int32_t run = 0; run < 50; run++) {
        assert_int_equal(mst_pool_run_single(pool, look, &s), MUSTER_OK);
        assert_int_equal(s.size, 1);
        if (run % 10 == 9) assert_int_equal(mst_pool_run(pool, look, &s), MUSTER_OK);
    }
    assert_int_equal(s.runs[0], 55);
    assert_int_equal(s.runs[1], 5);
    assert_true(pthread_equal(s.threads[0], pool->states[0].thread));
    mst_pool_destroy(pool);
}

static muster_status fail_on(muster_worker *worker, void *argument) {
    return worker->rank == *(int32_t *)argument ? muster_fail(MUSTER_USER, "broken on purpose") : MUSTER_OK;
}

static void a_failure_of_each_rank_reaches_the_caller(void **state) {
    (void)state;
    mst_pool *pool = own_pool(3, 0);
    for (int32_t rank = 0; rank < 3; rank++) {
        int32_t nobody = -1;
        assert_int_equal(mst_pool_run(pool, fail_on, &rank), MUSTER_USER);
        assert_non_null(strstr(muster_last_error(), "broken on purpose (rank "));
        assert_int_equal(mst_pool_run(pool, fail_on, &nobody), MUSTER_OK);
    }
    int32_t rank = 0;
    assert_int_equal(mst_pool_run_single(pool, fail_on, &rank), MUSTER_USER);
    assert_string_equal(muster_last_error(), "broken on purpose");
    mst_pool_destroy(pool);
}

/* ---- jobs ---- */

typedef struct errand {
    mst_job job; /* first */
    mst_pool *pool;
    int32_t *served, place; /* plain: the ticket lock orders them */
    muster_status status;
    mst_counter done;
} errand;

static void run_errand(mst_job *job, muster_status status) {
    errand *e = (errand *)job;
    e->status = status;
    if (status == MUSTER_OK) {
        e->place = (*e->served)++;
        mst_pool_leave(e->pool);
    }
    mst_counter_publish(&e->done, 1);
}

static void wait_for_errand(errand *e) { mst_counter_wait(&e->done, 1, &(mst_wait){.timeout_ns = -1}); }

/* As mst_pool_submit, in a thread of its own: this one is inside the pool. */
typedef struct submission {
    errand *e;
    int64_t timeout_ns;
    muster_status status;
} submission;

static void *submit_it(void *argument) {
    submission *s = argument;
    s->status = mst_pool_submit(s->e->pool, &s->e->job, "test", s->timeout_ns);
    return NULL;
}

static void submit_elsewhere(errand *e, int64_t timeout_ns) {
    submission s = {.e = e, .timeout_ns = timeout_ns};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, submit_it, &s), 0);
    pthread_join(other, NULL);
    assert_int_equal(s.status, MUSTER_OK);
}

static void jobs_and_callers_are_served_in_one_order(void **state) {
    (void)state;
    enum { JOBS = 20 };
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    int32_t served = 0;
    errand errands[JOBS];
    memset(errands, 0, sizeof errands);
    assert_int_equal(mst_pool_enter(pool, "test", 0), MUSTER_OK);
    for (int32_t i = 0; i < JOBS; i++) {
        errands[i].job.run = run_errand;
        errands[i].pool = pool;
        errands[i].served = &served;
        submit_elsewhere(&errands[i], 0);
    }
    assert_int_equal(served, 0);
    mst_pool_leave(pool);
    assert_int_equal(mst_pool_enter(pool, "test", 0), MUSTER_OK); /* behind all of them */
    assert_int_equal(served, JOBS);
    mst_pool_leave(pool);
    for (int32_t i = 0; i < JOBS; i++) {
        wait_for_errand(&errands[i]);
        assert_int_equal(errands[i].place, i);
    }
    mst_pool_destroy(pool);
}

static void a_job_whose_turn_comes_too_late_is_told_and_leaves_the_turn(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    int32_t served = 0;
    errand e = {.job.run = run_errand, .pool = pool, .served = &served};
    assert_int_equal(mst_pool_enter(pool, "test", 0), MUSTER_OK);
    submit_elsewhere(&e, 1);
    wait_for_errand(&e);
    assert_int_equal(e.status, MUSTER_TIMEOUT);
    mst_pool_leave(pool);
    assert_int_equal(mst_pool_enter(pool, "test", 0), MUSTER_OK);
    mst_pool_leave(pool);
    mst_pool_destroy(pool);
}

static void destroying_a_pool_serves_its_jobs(void **state) {
    (void)state;
    int32_t served = 0;
    for (int32_t round = 0; round < 50; round++) {
        mst_pool *pool = plain_pool(2, 0, -1, -1);
        errand e = {.job.run = run_errand, .pool = pool, .served = &served};
        assert_int_equal(mst_pool_submit(pool, &e.job, "test", 0), MUSTER_OK);
        mst_pool_destroy(pool);
        assert_int_equal(served, round + 1);
    }
}

static void a_thread_that_cannot_be_started_refuses_the_job(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    int32_t served = 0;
    errand e = {.job.run = run_errand, .pool = pool, .served = &served};
    mst_memory_fail_at(1);
    assert_int_equal(mst_pool_submit(pool, &e.job, "test", 0), MUSTER_SYSTEM);
    mst_memory_fail_at(0);
    assert_int_equal(mst_pool_submit(pool, &e.job, "test", 0), MUSTER_OK);
    mst_pool_destroy(pool);
    assert_int_equal(served, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_runs_on_its_own_thread),
        cmocka_unit_test(sleeps_are_exact_on_the_threads_of_the_pool_only),
        cmocka_unit_test(a_single_run_wakes_rank_0_only),
        cmocka_unit_test(a_failure_of_each_rank_reaches_the_caller),
        cmocka_unit_test(jobs_and_callers_are_served_in_one_order),
        cmocka_unit_test(a_job_whose_turn_comes_too_late_is_told_and_leaves_the_turn),
        cmocka_unit_test(destroying_a_pool_serves_its_jobs),
        cmocka_unit_test(a_thread_that_cannot_be_started_refuses_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
