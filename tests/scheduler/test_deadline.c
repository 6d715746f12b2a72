/* Deadlines: a wait warns, then fails, and says for whom it waited. */
#include "base_pace.h"
#include "scheduler_device.h"
#include "scheduler_stand_still.h"
#include "team_impl.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MILLISECOND = 1000000 };

typedef struct rendezvous {
    mst_team *team;
    int32_t late;
    int64_t events;  /* that the late rank records, one in two milliseconds, before it arrives */
    int64_t busy_ns; /* that it computes before it arrives */
} rendezvous;

static void pass_time(int64_t ns) { nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL); }

static void be_late(muster_worker *worker, const rendezvous *m) {
    for (int64_t i = 0; i < m->events; i++) {
        uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_STAGE, "stage", (uint64_t)i, 0);
        pass_time(2 * MILLISECOND);
        mst_record_end(&worker->recorder, event);
    }
    int64_t begin = mst_now_ns();
    while (m->busy_ns > 0 && mst_now_ns() - begin < m->busy_ns) mst_pause();
}

/* The late rank neither arrives nor returns before it is cancelled. */
static muster_status never_task(muster_worker *worker, void *argument) {
    rendezvous *m = argument;
    uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_BODY, "mean_dot", 1, 64);
    mst_record_end(&worker->recorder, event);
    if (worker->rank == m->late) {
        stand_still_until_cancelled(worker);
        return mst_error(MUSTER_ABORTED, "cancelled");
    }
    uint64_t tag = mst_team_tag(m->team, worker);
    mst_team_arrive(m->team, worker, tag);
    return mst_team_wait_all(m->team, worker, tag, "all_reduce");
}

static muster_status late_task(muster_worker *worker, void *argument) {
    rendezvous *m = argument;
    if (worker->rank == m->late) be_late(worker, m);
    uint64_t tag = mst_team_tag(m->team, worker);
    mst_team_arrive(m->team, worker, tag);
    return mst_team_wait_all(m->team, worker, tag, "all_reduce");
}

static mst_pool *open_rendezvous(rendezvous *m, int32_t size, int64_t warn_ns, int64_t fail_ns) {
    mst_pool *pool = plain_pool(size, 1000, warn_ns, fail_ns);
    assert_int_equal(mst_team_create(pool, NULL, 0, &m->team), MUSTER_OK);
    return pool;
}

static void close_rendezvous(mst_pool *pool, rendezvous *m) {
    mst_team_destroy(m->team);
    mst_pool_destroy(pool);
}

static void a_rank_that_stands_still_fails_the_run_by_name(void **state) {
    (void)state;
    for (int32_t late = 0; late < 3; late++) {
        rendezvous m = {.late = late};
        mst_pool *pool = open_rendezvous(&m, 3, -1, test_patience(40 * MILLISECOND));
        assert_int_equal(mst_pool_run(pool, never_task, &m), MUSTER_TIMEOUT);
        char expected[64];
        snprintf(expected, sizeof(expected), "for rank %d, which made no progress", (int)late);
        assert_memory_equal(muster_last_error(), "all_reduce: rank ", 17);
        assert_non_null(strstr(muster_last_error(), expected));
        assert_non_null(strstr(muster_last_error(), "body mean_dot #1"));
        assert_non_null(strstr(muster_last_error(), "waits for all_reduce #1"));
        m.late = -1;
        mst_pool_set_deadlines(pool, -1, -1); /* now nobody is late but for a busy machine */
        assert_int_equal(mst_pool_run(pool, late_task, &m), MUSTER_OK);
        close_rendezvous(pool, &m);
    }
}

/* The late rank takes longer than the deadline. Longer deadlines for machines on which a thread
 * that wants to run does not for so long. */
static void must_be_given_time(bool computing) {
    muster_status status = MUSTER_TIMEOUT;
    for (int64_t deadline = 100 * MILLISECOND; status == MUSTER_TIMEOUT && deadline <= test_patience(3200LL * MILLISECOND); deadline *= 2) {
        rendezvous m = {.late = 1, .events = computing ? 0 : deadline / MILLISECOND, .busy_ns = computing ? 2 * deadline : 0};
        mst_pool *pool = open_rendezvous(&m, 2, -1, deadline);
        status = mst_pool_run(pool, late_task, &m);
        close_rendezvous(pool, &m);
    }
    assert_int_equal(status, MUSTER_OK);
}

static void a_rank_that_finishes_things_is_given_time(void **state) {
    (void)state;
    must_be_given_time(false);
}

static void a_rank_that_computes_is_given_time(void **state) {
    (void)state;
    must_be_given_time(true);
}

/* The late rank waits for another process, and then arrives; `stays`: does not. */
typedef struct elsewhere {
    rendezvous m;
    int64_t away_ns, back_ns;
    bool stays;
} elsewhere;

static muster_status elsewhere_task(muster_worker *worker, void *argument) {
    elsewhere *e = argument;
    if (worker->rank == e->m.late) {
        mst_worker_waits_elsewhere(worker, true);
        pass_time(e->away_ns);
        e->back_ns = mst_now_ns();
        mst_worker_waits_elsewhere(worker, false);
        if (e->stays) stand_still_until_cancelled(worker);
        if (e->stays) return mst_error(MUSTER_ABORTED, "cancelled");
    }
    uint64_t tag = mst_team_tag(e->m.team, worker);
    mst_team_arrive(e->m.team, worker, tag);
    return mst_team_wait_all(e->m.team, worker, tag, "all_reduce");
}

/* Its own wait has the same deadlines, and knows who is late. */
static void a_rank_that_waits_for_another_process_is_given_time(void **state) {
    (void)state;
    muster_status status = MUSTER_TIMEOUT;
    for (int64_t deadline = 40 * MILLISECOND; status == MUSTER_TIMEOUT && deadline <= test_patience(1280LL * MILLISECOND); deadline *= 2) {
        elsewhere e = {.m = {.late = 1}, .away_ns = 10 * deadline};
        mst_pool *pool = open_rendezvous(&e.m, 2, deadline / 2, deadline);
        status = mst_pool_run(pool, elsewhere_task, &e);
        if (status == MUSTER_OK && strstr(plain_log(), "rank 0 has waited")) status = MUSTER_TIMEOUT; /* warned: a stall behind the wait */
        close_rendezvous(pool, &e.m);
    }
    assert_int_equal(status, MUSTER_OK);
}

static void behind_that_wait_a_rank_has_a_deadline_again(void **state) {
    (void)state;
    const int64_t deadline = test_patience(40 * MILLISECOND);
    elsewhere e = {.m = {.late = 1}, .away_ns = 3 * deadline, .stays = true};
    mst_pool *pool = open_rendezvous(&e.m, 2, -1, deadline);
    assert_int_equal(mst_pool_run(pool, elsewhere_task, &e), MUSTER_TIMEOUT);
    assert_true(mst_now_ns() - e.back_ns >= deadline / 8 * 7);
    close_rendezvous(pool, &e.m);
}

/* Rank 0 waits for rank 1, which comes later and waits for rank 2: so its own deadline passes
 * later. */
typedef struct chain {
    mst_team *first, *second, *third; /* of ranks 0 and 1, 1 and 2, and 2 and 0 */
    int64_t deadline_ns, later_ns, elsewhere_ns;
    bool cycle;   /* rank 2 waits for rank 0 */
    bool returns; /* rank 2 arrives when it has waited elsewhere, else never */
} chain;

static muster_status meet(mst_team *team, muster_worker *worker) {
    const uint64_t tag = mst_team_tag(team, worker);
    mst_team_arrive(team, worker, tag);
    return mst_team_wait_all(team, worker, tag, "all_reduce");
}

static muster_status chain_task(muster_worker *worker, void *argument) {
    chain *c = argument;
    if (worker->rank == 0) {
        MUSTER_TRY(meet(c->first, worker));
        return c->cycle ? meet(c->third, worker) : MUSTER_OK;
    }
    if (worker->rank == 1) {
        pass_time(c->later_ns);
        MUSTER_TRY(meet(c->second, worker));
        return meet(c->first, worker);
    }
    if (c->cycle) MUSTER_TRY(meet(c->third, worker));
    mst_worker_waits_elsewhere(worker, c->elsewhere_ns > 0);
    pass_time(c->elsewhere_ns);
    mst_worker_waits_elsewhere(worker, false);
    while (!c->returns && !muster_worker_cancelled(worker)) pass_time(20 * MILLISECOND);
    return c->returns ? meet(c->second, worker) : mst_error(MUSTER_ABORTED, "cancelled");
}

static muster_status run_chain(chain *c, int64_t warn_ns) {
    mst_pool *pool = plain_pool(3, 1000, warn_ns, c->deadline_ns);
    assert_int_equal(mst_team_create(pool, (const int32_t[]){0, 1}, 2, &c->first), MUSTER_OK);
    assert_int_equal(mst_team_create(pool, (const int32_t[]){1, 2}, 2, &c->second), MUSTER_OK);
    assert_int_equal(mst_team_create(pool, (const int32_t[]){2, 0}, 2, &c->third), MUSTER_OK);
    const muster_status status = mst_pool_run(pool, chain_task, c);
    mst_team_destroy(c->first);
    mst_team_destroy(c->second);
    mst_team_destroy(c->third);
    mst_pool_destroy(pool);
    return status;
}

static void a_rank_that_waits_for_another_one_is_not_blamed(void **state) {
    (void)state;
    const int64_t deadline = test_patience(100 * MILLISECOND);
    chain c = {.deadline_ns = deadline, .later_ns = deadline / 4 * 3};
    assert_int_equal(run_chain(&c, -1), MUSTER_TIMEOUT);
    if (!strstr(muster_last_error(), " for rank 1 (worker 2), which made no progress")) fail_msg("'%s'", muster_last_error());
}

/* Nobody here is late. As above, a busy machine may need longer deadlines. */
static void behind_a_rank_that_waits_for_another_process_nobody_is_blamed(void **state) {
    (void)state;
    muster_status status = MUSTER_TIMEOUT;
    for (int64_t deadline = 40 * MILLISECOND; status == MUSTER_TIMEOUT && deadline <= test_patience(1280LL * MILLISECOND); deadline *= 2) {
        chain c = {.deadline_ns = deadline, .later_ns = deadline / 5, .elsewhere_ns = 10 * deadline, .returns = true};
        status = run_chain(&c, deadline / 2);
        if (status == MUSTER_OK && strstr(plain_log(), "has waited")) status = MUSTER_TIMEOUT;
    }
    assert_int_equal(status, MUSTER_OK);
}

static void a_cycle_of_waits_is_refused_without_a_deadline(void **state) {
    (void)state;
    chain c = {.deadline_ns = -1, .cycle = true};
    assert_int_equal(run_chain(&c, -1), MUSTER_INVALID_ARGUMENT);
    if (!strstr(muster_last_error(), ": none can go on")) fail_msg("'%s'", muster_last_error());
}

static int32_t count_lines(const char *text, const char *part) {
    int32_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

static void a_long_wait_warns_once_with_what_everyone_did(void **state) {
    (void)state;
    rendezvous m = {.late = 1, .events = (int64_t)(40 * test_pace())};
    mst_pool *pool = open_rendezvous(&m, 2, 5 * MILLISECOND, -1);
    assert_int_equal(mst_pool_run(pool, late_task, &m), MUSTER_OK);
    assert_int_equal(count_lines(plain_log(), "rank 0 has waited"), 1);
    assert_non_null(strstr(plain_log(), "in all_reduce #1 for rank 1"));
    /* what it did last depends on how far it has come */
    assert_non_null(strstr(plain_log(), "muster:   worker 1 on plain: "));
    close_rendezvous(pool, &m);
}

static muster_status slow_task(muster_worker *worker, void *argument) {
    (void)argument;
    if (worker->rank == 1) pass_time(test_patience(60 * MILLISECOND));
    return MUSTER_OK;
}

static void the_end_of_a_run_only_warns(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, 5 * MILLISECOND, 10 * MILLISECOND);
    assert_int_equal(mst_pool_run(pool, slow_task, NULL), MUSTER_OK);
    assert_int_equal(count_lines(plain_log(), "waited 0.005 s for its workers to return"), 1);
    assert_non_null(strstr(plain_log(), "worker 1 on plain: nothing yet"));
    mst_pool_destroy(pool);
}

static muster_status reading_task(muster_worker *worker, void *argument) {
    rendezvous *m = argument;
    uint64_t tag = mst_team_tag(m->team, worker);
    if (worker->rank == 1) {
        MUSTER_TRY(mst_team_read_begin(m->team, worker, tag));
        stand_still_until_cancelled(worker);
        pass_time(5 * MILLISECOND);
        m->events = 1; /* still inside: plain, so that a rank 0 that left too early is a data race */
        mst_team_read_end(m->team, worker, tag);
        return MUSTER_OK;
    }
    muster_status status = mst_team_leave(m->team, worker, tag, "all_gather");
    if (m->events != 1) return muster_fail(MUSTER_INTERNAL, "left too early");
    m->events = 2;
    return status;
}

static void a_deadline_does_not_let_anyone_leave_a_reader(void **state) {
    (void)state;
    rendezvous m = {.late = -1};
    mst_pool *pool = open_rendezvous(&m, 2, -1, 20 * MILLISECOND);
    assert_int_equal(mst_pool_run(pool, reading_task, &m), MUSTER_TIMEOUT);
    assert_int_equal(m.events, 2);
    close_rendezvous(pool, &m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_stands_still_fails_the_run_by_name),
        cmocka_unit_test(a_rank_that_finishes_things_is_given_time),
        cmocka_unit_test(a_rank_that_computes_is_given_time),
        cmocka_unit_test(a_rank_that_waits_for_another_process_is_given_time),
        cmocka_unit_test(behind_that_wait_a_rank_has_a_deadline_again),
        cmocka_unit_test(a_rank_that_waits_for_another_one_is_not_blamed),
        cmocka_unit_test(behind_a_rank_that_waits_for_another_process_nobody_is_blamed),
        cmocka_unit_test(a_cycle_of_waits_is_refused_without_a_deadline),
        cmocka_unit_test(a_long_wait_warns_once_with_what_everyone_did),
        cmocka_unit_test(the_end_of_a_run_only_warns),
        cmocka_unit_test(a_deadline_does_not_let_anyone_leave_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
