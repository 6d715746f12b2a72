/* Turns: first come, first served, one at a time, and a wait can end. */
#include "scheduler_device.h"

#include "pool_state_private.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 8 };

typedef struct queue {
    mst_pool *pool;
    int32_t order[THREADS], served; /* plain: the ticket lock orders them */
} queue;

typedef struct customer {
    queue *shared;
    int32_t number;
} customer;

static void *take_a_ticket(void *context) {
    customer *c = context;
    if (mst_pool_enter(c->shared->pool, "test", 0) != MUSTER_OK) return NULL;
    c->shared->order[c->shared->served++] = c->number;
    mst_pool_leave(c->shared->pool);
    return NULL;
}

/* Waits until the thread that holds the end of the queue is this one. */
static void wait_until_queued(mst_pool *pool, int32_t waiters) {
    for (int32_t count = -1; count != waiters;) {
        count = 0;
        pthread_mutex_lock(&pool->tickets.lock);
        for (mst_ticket *w = pool->tickets.first; w; w = w->next) count++;
        pthread_mutex_unlock(&pool->tickets.lock);
        sched_yield();
    }
}

static void threads_are_served_in_order_of_arrival(void **state) {
    (void)state;
    queue q = {.pool = plain_pool(1, 0, -1, -1)};
    customer customers[THREADS];
    pthread_t threads[THREADS];
    for (int32_t round = 0; round < 20; round++) {
        q.served = 0;
        assert_int_equal(mst_pool_enter(q.pool, "test", 0), MUSTER_OK);
        for (int32_t i = 0; i < THREADS; i++) {
            customers[i] = (customer){&q, i};
            assert_int_equal(pthread_create(&threads[i], NULL, take_a_ticket, &customers[i]), 0);
            wait_until_queued(q.pool, i + 1);
        }
        mst_pool_leave(q.pool);
        for (int32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        assert_int_equal(q.served, THREADS);
        for (int32_t i = 0; i < THREADS; i++) assert_int_equal(q.order[i], i);
    }
    mst_pool_destroy(q.pool);
}

static void *enter_too_late(void *pool) {
    assert_int_equal(mst_pool_enter(pool, "muster_function_call", 2000000), MUSTER_TIMEOUT);
    assert_memory_equal(muster_last_error(), "muster_function_call: waited 0.002 s", 36);
    return NULL;
}

static void a_wait_for_the_turn_times_out_and_is_forgotten(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    pthread_t other;
    assert_int_equal(mst_pool_enter(pool, "test", 0), MUSTER_OK);
    assert_int_equal(pthread_create(&other, NULL, enter_too_late, pool), 0);
    pthread_join(other, NULL);
    assert_null(pool->tickets.first);
    mst_pool_leave(pool);
    assert_int_equal(mst_pool_enter(pool, "test", 2000000), MUSTER_OK);
    mst_pool_leave(pool);
    mst_pool_destroy(pool);
}

typedef struct crowd {
    mst_pool *pool;
    int64_t inside, served; /* plain */
    _Atomic int64_t refused;
} crowd;

static muster_status touch(muster_worker *worker, void *argument) {
    if (worker->rank == 0) ((crowd *)argument)->served++;
    return MUSTER_OK;
}

static void *rush(void *context) {
    crowd *c = context;
    for (int32_t i = 0; i < 200; i++) {
        /* every third one has little patience */
        muster_status status = mst_pool_enter(c->pool, "test", i % 3 == 0 ? 20000 : 0);
        if (status != MUSTER_OK) {
            atomic_fetch_add(&c->refused, 1);
            continue;
        }
        if (c->inside++ != 0) abort();
        if (mst_pool_run(c->pool, touch, c) != MUSTER_OK) abort();
        c->inside--;
        mst_pool_leave(c->pool);
    }
    return NULL;
}

static void a_crowd_with_timeouts_is_served_one_at_a_time(void **state) {
    (void)state;
    crowd c = {.pool = plain_pool(2, 0, -1, -1)};
    pthread_t threads[THREADS];
    for (int32_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, rush, &c), 0);
    for (int32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(c.served + atomic_load(&c.refused), THREADS * 200);
    assert_int_equal(atomic_load(&c.pool->tickets.state), 0);
    mst_pool_destroy(c.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_served_in_order_of_arrival),
        cmocka_unit_test(a_wait_for_the_turn_times_out_and_is_forgotten),
        cmocka_unit_test(a_crowd_with_timeouts_is_served_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
