/* Teams: ranks wait for each other, an aborted run ends every wait, and no rank leaves while a peer
 * reads. */
#include "base_await.h"
#include "scheduler_device.h"
#include "team_private.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { ROUNDS = 25 }; /* beside busy programs each takes some of their time slices */

typedef struct exchange {
    mst_team *team;
    int64_t values[PLAIN_DEVICES]; /* each rank's own memory, read by its peers */
    int64_t base;
    int32_t failing; /* rank that fails in round `round`; -1: none */
    int32_t round;
    _Atomic int32_t inside; /* for the leave test */
} exchange;

/* An all-to-all sum, as a collective would do it. */
static muster_status sum_once(exchange *x, muster_worker *worker, int64_t mine, int64_t *sum) {
    uint64_t tag = mst_team_tag(x->team, worker);
    x->values[worker->rank] = mine;
    const int64_t *offered = &x->values[worker->rank];
    memcpy(mst_team_flag_line(x->team, worker->rank, tag)->payload, &offered, sizeof offered);
    mst_team_arrive(x->team, worker, tag);
    MUSTER_TRY(mst_team_wait_all(x->team, worker, tag, "sum"));
    MUSTER_TRY(mst_team_read_begin(x->team, worker, tag));
    *sum = 0;
    for (int32_t peer = 0; peer < worker->size; peer++) {
        memcpy(&offered, mst_team_flag_line(x->team, peer, tag)->payload, sizeof offered);
        *sum += *offered;
    }
    mst_team_read_end(x->team, worker, tag);
    return mst_team_leave(x->team, worker, tag, "sum");
}

static muster_status sum_task(muster_worker *worker, void *argument) {
    exchange *x = argument;
    for (int32_t round = 0; round < ROUNDS; round++) {
        if (worker->rank == x->failing && round == x->round) return muster_fail(MUSTER_USER, "lost");
        int64_t sum, expected = worker->size * (x->base + round) + (int64_t)worker->size * (worker->size - 1) / 2;
        MUSTER_TRY(sum_once(x, worker, x->base + round + worker->rank, &sum));
        if (sum != expected) return muster_fail(MUSTER_INTERNAL, "wrong sum");
    }
    return MUSTER_OK;
}

static void rendezvous_many_times(int32_t size, int64_t spin_ns) {
    mst_pool *pool = plain_pool(size, spin_ns, -1, -1);
    exchange x = {.failing = -1};
    assert_int_equal(mst_team_create(pool, NULL, 0, &x.team), MUSTER_OK);
    for (int32_t run = 0; run < 5; run++) {
        x.base = run * 1000;
        assert_int_equal(mst_pool_run(pool, sum_task, &x), MUSTER_OK);
    }
    mst_team_destroy(x.team);
    mst_pool_destroy(pool);
}

static void ranks_see_each_others_values(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 4; size++) {
        rendezvous_many_times(size, 0);
        rendezvous_many_times(size, 1);
        rendezvous_many_times(size, 50000);
    }
}

static void ranks_see_each_others_values_with_random_delays(void **state) {
    (void)state;
    mst_wait_test_hook = plain_random_hook;
    rendezvous_many_times(2, 1000);
    rendezvous_many_times(4, 0);
    mst_wait_test_hook = NULL;
}

static void lose_and_go_on(int64_t spin_ns) {
    mst_pool *pool = plain_pool(4, spin_ns, -1, -1);
    exchange x = {.failing = -1};
    assert_int_equal(mst_team_create(pool, NULL, 0, &x.team), MUSTER_OK);
    for (int32_t rank = 0; rank < 4; rank++) {
        for (int32_t round = 0; round < 6; round++) {
            x.failing = rank;
            x.round = round;
            char expected[32];
            snprintf(expected, sizeof(expected), "lost (rank %d)", (int)rank);
            assert_int_equal(mst_pool_run(pool, sum_task, &x), MUSTER_USER);
            assert_string_equal(muster_last_error(), expected);
            x.failing = -1;
            assert_int_equal(mst_pool_run(pool, sum_task, &x), MUSTER_OK);
        }
    }
    mst_team_destroy(x.team);
    mst_pool_destroy(pool);
}

static void a_failure_ends_every_wait_and_the_next_run_is_right(void **state) {
    (void)state;
    lose_and_go_on(0);
    lose_and_go_on(1);
    mst_wait_test_hook = plain_random_hook;
    lose_and_go_on(2000);
    mst_wait_test_hook = NULL;
}

/* The number of threads that sleep until this worker does what they wait for, or are about to. */
static uint32_t sleepers_of(const muster_worker *worker) { return atomic_load(&worker->pool->states[worker->rank].eventcount.sleepers); }

static muster_status wait_task(muster_worker *worker, void *argument) {
    exchange *x = argument;
    uint64_t tag = mst_team_tag(x->team, worker);
    if (worker->rank == x->failing) {
        while (sleepers_of(worker) + 1 < (uint32_t)worker->size) sched_yield();
        return muster_fail(MUSTER_USER, "late failure");
    }
    mst_team_arrive(x->team, worker, tag);
    muster_status status = mst_team_wait_all(x->team, worker, tag, "all_reduce");
    atomic_fetch_add(&x->inside, status == MUSTER_ABORTED && strstr(muster_last_error(), "all_reduce") != NULL);
    return status;
}

static void sleepers_are_woken_and_told_aborted(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    exchange x = {.failing = 1};
    assert_int_equal(mst_team_create(pool, NULL, 0, &x.team), MUSTER_OK);
    assert_int_equal(mst_pool_run(pool, wait_task, &x), MUSTER_USER);
    assert_string_equal(muster_last_error(), "late failure (rank 1)");
    assert_int_equal(atomic_load(&x.inside), 2);
    mst_team_destroy(x.team);
    mst_pool_destroy(pool);
}

static muster_status skip_task(muster_worker *worker, void *argument) {
    exchange *x = argument;
    if (worker->rank == x->failing) return MUSTER_OK;
    uint64_t tag = mst_team_tag(x->team, worker);
    mst_team_arrive(x->team, worker, tag);
    return mst_team_wait_all(x->team, worker, tag, "all_reduce");
}

static void a_peer_that_returns_without_arriving_is_named(void **state) {
    (void)state;
    static const int64_t spins[] = {0, 20000};
    for (int32_t i = 0; i < 2; i++) {
        mst_pool *pool = plain_pool(3, spins[i], -1, -1);
        exchange x = {.failing = -1};
        assert_int_equal(mst_team_create(pool, NULL, 0, &x.team), MUSTER_OK);
        for (x.failing = 0; x.failing < 3; x.failing++) {
            char expected[64];
            snprintf(expected, sizeof(expected), "rank %d returned without entering all_reduce", (int)x.failing);
            assert_int_equal(mst_pool_run(pool, skip_task, &x), MUSTER_INVALID_ARGUMENT);
            assert_non_null(strstr(muster_last_error(), expected));
        }
        assert_int_equal(mst_pool_run(pool, skip_task, &x), MUSTER_OK);
        mst_team_destroy(x.team);
        mst_pool_destroy(pool);
    }
}

/* Rank 0 reads slowly; rank 1 aborts the run and leaves. It must not come out while rank 0 is
 * inside. */
static muster_status slow_reader_task(muster_worker *worker, void *argument) {
    exchange *x = argument;
    uint64_t tag = mst_team_tag(x->team, worker);
    mst_team_arrive(x->team, worker, tag);
    if (worker->rank == 0) {
        MUSTER_TRY(mst_team_read_begin(x->team, worker, tag));
        atomic_store(&x->inside, 1);
        TEST_AWAIT(mst_pool_aborted(worker), 0);
        /* until rank 1 waits in its leave, or has come out too early */
        TEST_AWAIT(sleepers_of(worker) != 0 || atomic_load(&x->inside) != 1, 0);
        atomic_compare_exchange_strong(&x->inside, &(int32_t){1}, 2);
        mst_team_read_end(x->team, worker, tag);
        return mst_team_leave(x->team, worker, tag, "copy");
    }
    TEST_AWAIT(atomic_load(&x->inside) != 0, 0);
    muster_fail(MUSTER_USER, "aborted by rank 1");
    mst_pool_abort(worker, MUSTER_USER);
    muster_status status = mst_team_leave(x->team, worker, tag, "copy");
    if (atomic_load(&x->inside) != 2) atomic_store(&x->inside, 3);
    return status;
}

static void nobody_leaves_an_aborted_run_while_a_peer_reads(void **state) {
    (void)state;
    for (int32_t i = 0; i < 5; i++) {
        mst_pool *pool = plain_pool(2, i % 2 * 1000, -1, -1);
        exchange x = {.failing = -1};
        assert_int_equal(mst_team_create(pool, NULL, 0, &x.team), MUSTER_OK);
        assert_int_equal(mst_pool_run(pool, slow_reader_task, &x), MUSTER_USER);
        assert_int_equal(atomic_load(&x.inside), 2);
        mst_team_destroy(x.team);
        mst_pool_destroy(pool);
    }
}

static muster_status late_reader_task(muster_worker *worker, void *argument) {
    exchange *x = argument;
    uint64_t tag = mst_team_tag(x->team, worker);
    if (worker->rank == 1) return muster_fail(MUSTER_USER, "gone");
    TEST_AWAIT(mst_pool_aborted(worker), 0);
    muster_status status = mst_team_read_begin(x->team, worker, tag);
    atomic_store(&x->inside, status);
    return status;
}

static void reading_does_not_begin_in_an_aborted_run(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, -1, -1);
    exchange x = {.failing = -1};
    assert_int_equal(mst_team_create(pool, NULL, 0, &x.team), MUSTER_OK);
    assert_int_equal(mst_pool_run(pool, late_reader_task, &x), MUSTER_USER);
    assert_int_equal(atomic_load(&x.inside), MUSTER_ABORTED);
    assert_int_equal(atomic_load(&x.team->members[0].reading), 0);
    mst_team_destroy(x.team);
    mst_pool_destroy(pool);
}

typedef struct tagging {
    mst_team *team;
    uint64_t tags[4], newest;
    int64_t more;
} tagging;

static muster_status tag_task(muster_worker *worker, void *argument) {
    tagging *t = argument;
    for (int32_t i = 0; i < 4; i++) t->tags[i] = mst_team_tag(t->team, worker);
    for (int64_t i = 0; i < t->more; i++) t->newest = mst_team_tag(t->team, worker);
    return MUSTER_OK;
}

static void tags_grow_within_and_across_runs(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    tagging t = {0};
    assert_int_equal(mst_team_create(pool, NULL, 0, &t.team), MUSTER_OK);
    uint64_t newest = 0;
    for (int32_t run = 0; run < 3; run++) {
        assert_int_equal(mst_pool_run(pool, tag_task, &t), MUSTER_OK);
        for (int32_t i = 0; i < 4; i++) {
            assert_true(t.tags[i] > newest);
            newest = t.tags[i];
        }
    }
    mst_team_destroy(t.team);
    mst_pool_destroy(pool);
}

/* A tag has 20 bits for the number of the rendezvous in the run: what is above them reaches into
 * the tags of later runs. */
static void a_run_with_millions_of_collectives_does_not_reach_the_next_tags(void **state) {
    (void)state;
    static const int64_t counts[] = {1, (1 << 19) - 1, 1 << 19, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 19, 5000000};
    int32_t cases = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++, cases++) {
        mst_pool *pool = plain_pool(1, 0, -1, -1);
        tagging t = {.more = counts[i] > 4 ? counts[i] - 4 : 1};
        assert_int_equal(mst_team_create(pool, NULL, 0, &t.team), MUSTER_OK);
        assert_int_equal(mst_pool_run(pool, tag_task, &t), MUSTER_OK);
        const uint64_t newest = t.newest;
        t.more = 0;
        assert_int_equal(mst_pool_run(pool, tag_task, &t), MUSTER_OK);
        assert_true(t.tags[0] > newest);
        mst_team_destroy(t.team);
        mst_pool_destroy(pool);
    }
    assert_int_equal(cases, 8);
}

/* 2^20 + 1 rendezvous in one run, of which all but the last are arrivals that nobody waits for: the
 * lines and the numbers are as if they had been waited for. In the run after it rank 1 arrives only
 * when rank 0 has looked for it in vain. */
typedef struct long_run {
    mst_team *team;
    int64_t rounds, seen;
    _Atomic int32_t looks;
} long_run;

static muster_status long_run_task(muster_worker *worker, void *argument) {
    long_run *l = argument;
    uint64_t tag = 0;
    int64_t value;
    for (int64_t round = 0; round < l->rounds; round++) tag = mst_team_tag(l->team, worker);
    TEST_AWAIT(l->rounds != 1 || worker->rank != 1 || atomic_load(&l->looks) != 0 || mst_pool_aborted(worker), 0);
    value = l->rounds + worker->rank;
    memcpy(mst_team_flag_line(l->team, worker->rank, tag)->payload, &value, sizeof value);
    mst_team_arrive(l->team, worker, tag);
    if (worker->rank == 0 && l->rounds == 1) {
        mst_flag_line *peer = mst_team_flag_line(l->team, 1, tag);
        if (atomic_load(&peer->arrived) >= tag) return muster_fail(MUSTER_INTERNAL, "rank 1 has not arrived, and seems to have");
        atomic_store(&l->looks, 1);
    }
    MUSTER_TRY(mst_team_wait_all(l->team, worker, tag, "long"));
    if (worker->rank == 0) memcpy(&l->seen, mst_team_flag_line(l->team, 1, tag)->payload, sizeof l->seen);
    return MUSTER_OK;
}

static void after_a_run_of_more_rendezvous_than_a_tag_can_count_the_next_waits_for_all(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(2, 0, -1, -1);
    long_run l = {.rounds = (1 << 20) + 1};
    assert_int_equal(mst_team_create(pool, NULL, 0, &l.team), MUSTER_OK);
    assert_int_equal(mst_pool_run(pool, long_run_task, &l), MUSTER_OK);
    assert_int_equal(l.seen, (1 << 20) + 2);
    l.rounds = 1;
    /* On both lines of rank 1, which it uses in turn. */
    for (int32_t run = 0; run < 2; run++) {
        atomic_store(&l.looks, 0);
        assert_int_equal(mst_pool_run(pool, long_run_task, &l), MUSTER_OK);
        assert_int_equal(l.seen, 2);
    }
    mst_team_destroy(l.team);
    mst_pool_destroy(pool);
}

/* Two workers in a team of their own, the third in none: tags and lines go by member, not by
 * rank. */
static muster_status pair_task(muster_worker *worker, void *argument) {
    exchange *x = argument;
    int32_t member = mst_team_member_of(x->team, worker);
    if (member < 0) return MUSTER_OK;
    for (int32_t round = 0; round < 100; round++) {
        uint64_t tag = mst_team_tag(x->team, worker);
        int64_t value = worker->rank * 1000 + round, sum = 0;
        memcpy(mst_team_flag_line(x->team, member, tag)->payload, &value, sizeof value);
        mst_team_arrive(x->team, worker, tag);
        MUSTER_TRY(mst_team_wait_all(x->team, worker, tag, "pair"));
        for (int32_t peer = 0; peer < 2; peer++) {
            memcpy(&value, mst_team_flag_line(x->team, peer, tag)->payload, sizeof value);
            sum += value;
        }
        if (sum != 3000 + 2 * round) return mst_error(MUSTER_INTERNAL, "round %d: %lld", round, (long long)sum);
    }
    return MUSTER_OK;
}

static void a_team_of_some_workers_needs_one_rendezvous_for_what_is_in_the_lines(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    exchange x = {0};
    assert_int_equal(mst_team_create(pool, (int32_t[]){2, 1}, 2, &x.team), MUSTER_OK);
    for (int32_t run = 0; run < 20; run++) assert_int_equal(mst_pool_run(pool, pair_task, &x), MUSTER_OK);
    mst_team_destroy(x.team);
    mst_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_see_each_others_values),
        cmocka_unit_test(ranks_see_each_others_values_with_random_delays),
        cmocka_unit_test(a_failure_ends_every_wait_and_the_next_run_is_right),
        cmocka_unit_test(sleepers_are_woken_and_told_aborted),
        cmocka_unit_test(a_peer_that_returns_without_arriving_is_named),
        cmocka_unit_test(nobody_leaves_an_aborted_run_while_a_peer_reads),
        cmocka_unit_test(a_team_of_some_workers_needs_one_rendezvous_for_what_is_in_the_lines),
        cmocka_unit_test(reading_does_not_begin_in_an_aborted_run),
        cmocka_unit_test(tags_grow_within_and_across_runs),
        cmocka_unit_test(a_run_with_millions_of_collectives_does_not_reach_the_next_tags),
        cmocka_unit_test(after_a_run_of_more_rendezvous_than_a_tag_can_count_the_next_waits_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
