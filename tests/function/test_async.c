/* Asynchronous calls: the same results, statuses and order as calls that are waited for. A body
 * that must not go on yet waits for a gate of the test. */
#include "base_await.h"
#include "function_fixture.h"

#include "muster/ops.h"
#include "muster/runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 12, MANY = 40, CALLS = 100 };

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    _Atomic bool closed; /* bodies wait */
    _Atomic int entered;
    bool fails;
    int32_t order[MANY], served; /* rank 0's bodies only: the turn orders them */
} world;

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    atomic_fetch_add(&t->entered, 1);
    TEST_AWAIT(!atomic_load(&t->closed), 1000000);
    if (t->fails) return muster_fail(MUSTER_USER, "asked to fail");
    return muster_sum(w, in[0], out[0]);
}

static void open_world(world *t, const char *backend, int count) {
    memset(t, 0, sizeof *t);
    t->runtime = fixture_open(backend, count);
    assert_ok(muster_function_create(t->runtime, "f", body, t, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 0, MUSTER_SUM));
}

static muster_status send(world *t, float *x, float *y, const muster_call_options *options, muster_pending **pending) {
    return muster_function_call_async(t->f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(y)}, 1, options,
                                      pending);
}

static void wait_until_entered(world *t, int count) {
    const int own = count > 1 ? processes_own_ranks() : count;
    TEST_AWAIT(atomic_load(&t->entered) >= own, 1000000);
}

static void fill(float *x, float first) {
    for (int i = 0; i < ROWS; i++) x[i] = first + (float)i;
}

static void a_call_gives_its_result(void **state) {
    (void)state;
    for_each_backend(backend) {
        for (int count = 1; count <= 3; count++) {
            world t;
            float x[ROWS], y = 0;
            muster_pending *pending;
            open_world(&t, backend, count);
            fill(x, 1);
            assert_ok(send(&t, x, &y, NULL, &pending));
            assert_ok(muster_pending_wait(&pending));
            assert_float_equal(y, 78, 0);
            fixture_close(t.runtime);
        }
    }
}

static void a_call_returns_before_its_body(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        float x[ROWS], y = 0;
        muster_pending *pending;
        int32_t done = 1;
        open_world(&t, backend, 2);
        fill(x, 1);
        atomic_store(&t.closed, true);
        assert_ok(send(&t, x, &y, NULL, &pending));
        wait_until_entered(&t, 2);
        assert_ok(muster_pending_test(&pending, &done));
        assert_int_equal(done, 0);
        atomic_store(&t.closed, false);
        TEST_AWAIT(muster_pending_test(&pending, &done) != MUSTER_OK || done, 0);
        assert_float_equal(y, 78, 0);
        assert_null(pending);
        fixture_close(t.runtime);
    }
}

/* The protocol of both asynchronous handles: wait and a successful test end the handle. */
static void wait_and_a_successful_test_end_the_handle(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        float x[ROWS], y = 0;
        muster_pending *pending = NULL;
        int32_t done = 0;
        open_world(&t, backend, 2);
        fill(x, 1);
        assert_ok(send(&t, x, &y, NULL, &pending));
        assert_ok(muster_pending_wait(&pending));
        assert_null(pending);
        assert_ok(muster_pending_wait(&pending)); /* what has ended is not waited for */
        assert_ok(muster_pending_test(&pending, &done));
        assert_int_equal(done, 1);
        t.fails = true;
        assert_ok(send(&t, x, &y, NULL, &pending));
        muster_status status = MUSTER_OK;
        for (done = 0; !done;) status = muster_pending_test(&pending, &done);
        assert_refused(status, MUSTER_USER, "function 'f': asked to fail");
        assert_null(pending);
        assert_refused(muster_pending_wait(NULL), MUSTER_INVALID_ARGUMENT, "muster_pending_wait: pending: expected the address");
        assert_refused(muster_pending_test(NULL, &done), MUSTER_INVALID_ARGUMENT, "muster_pending_test: pending: expected the address");
        assert_refused(muster_pending_test(&pending, NULL), MUSTER_INVALID_ARGUMENT, "muster_pending_test: done: expected the address");
        fixture_close(t.runtime);
    }
}

static muster_status note_order(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    (void)out;
    float number;
    muster_tensor host = muster_f32(&number);
    if (muster_worker_rank(w) == 0) {
        MUSTER_TRY(muster_worker_read(w, in[0], host));
        t->order[t->served++] = (int32_t)number;
    }
    return MUSTER_OK;
}

static void calls_are_served_in_the_order_in_which_they_were_made(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        muster_function *note;
        float x[ROWS], y, numbers[MANY];
        muster_pending *first, *pending[MANY];
        open_world(&t, backend, 2);
        assert_ok(muster_function_create(t.runtime, "note", note_order, &t, &note));
        assert_ok(muster_function_input(note, "n", MUSTER_F32, 0, MUSTER_BROADCAST));
        fill(x, 1);
        atomic_store(&t.closed, true);
        assert_ok(send(&t, x, &y, NULL, &first));
        for (int i = 0; i < MANY - 1; i++) {
            numbers[i] = (float)i;
            assert_ok(muster_function_call_async(note, (muster_tensor[]){muster_f32(&numbers[i])}, 1, NULL, 0, NULL, &pending[i]));
        }
        atomic_store(&t.closed, false);
        numbers[MANY - 1] = MANY - 1; /* waited for, and behind all of them */
        assert_ok(muster_function_call(note, (muster_tensor[]){muster_f32(&numbers[MANY - 1])}, 1, NULL, 0, NULL));
        assert_int_equal(processes_sum(t.served), MANY);
        processes_merge(t.order, sizeof t.order);
        for (int i = 0; i < MANY; i++) assert_int_equal(t.order[i], i);
        for (int i = MANY - 2; i >= 0; i--) assert_ok(muster_pending_wait(&pending[i]));
        assert_ok(muster_pending_wait(&first));
        fixture_close(t.runtime);
    }
}

static void a_failure_reaches_whoever_waits_and_the_next_call_succeeds(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        float x[ROWS], y = 0;
        muster_pending *pending;
        open_world(&t, backend, 2);
        fill(x, 1);
        t.fails = true;
        assert_ok(send(&t, x, &y, NULL, &pending));
        assert_refused(muster_pending_wait(&pending), MUSTER_USER, "function 'f': asked to fail (rank ");
        t.fails = false;
        assert_ok(send(&t, x, &y, NULL, &pending));
        assert_ok(muster_pending_wait(&pending));
        assert_float_equal(y, 78, 0);
        fixture_close(t.runtime);
    }
}

static void what_a_call_refuses_is_refused_at_once(void **state) {
    (void)state;
    world t;
    float x[ROWS] = {0}, y;
    double z[ROWS];
    muster_call_options options;
    muster_pending *pending = (muster_pending *)&t;
    muster_tensor in = muster_f32(x, ROWS), out = muster_f32(&y);
    open_world(&t, "host", 2);
    atomic_store(&t.closed, true);
    muster_pending *running;
    assert_ok(send(&t, x, &y, NULL, &running)); /* none of the refusals waits for it */
    assert_refused(muster_function_call_async(NULL, &in, 1, &out, 1, NULL, &pending), MUSTER_INVALID_ARGUMENT,
                   "function: expected a function");
    assert_null(pending);
    assert_refused(muster_function_call_async(t.f, &in, 1, &out, 1, NULL, NULL), MUSTER_INVALID_ARGUMENT,
                   "pending: expected the address of a pointer, received NULL");
    assert_refused(muster_function_call_async(t.f, &in, 0, &out, 1, NULL, &pending), MUSTER_INVALID_ARGUMENT,
                   "input_count: expected the 1 of function 'f', received 0");
    assert_refused(muster_function_call_async(t.f, (muster_tensor[]){muster_f64(z, ROWS)}, 1, &out, 1, NULL, &pending),
                   MUSTER_DTYPE_MISMATCH, "expected f32");
    assert_refused(muster_function_call_async(t.f, &in, 1, (muster_tensor[]){muster_f32(x, 2)}, 1, NULL, &pending), MUSTER_SHAPE_MISMATCH,
                   "output 'y'");
    muster_call_options_init(&options);
    options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = (int64_t[]){ROWS}, .index_count = 1};
    assert_refused(muster_function_call_async(t.f, &in, 1, &out, 1, &options, &pending), MUSTER_OUT_OF_RANGE, "below the 12 rows");
    assert_null(pending);
    atomic_store(&t.closed, false);
    assert_ok(muster_pending_wait(&running));
    fixture_close(t.runtime);
}

/* The one that runs does not count, once it does. */
static void one_more_waits_for_a_place_until_its_timeout(void **state) {
    (void)state;
    world t;
    float x[ROWS], y[CALLS];
    muster_pending *pending[CALLS], *one_more;
    muster_call_options options;
    muster_call_options_init(&options);
    options.queue_timeout_ns = 20000000;
    open_world(&t, "host", 2);
    fill(x, 1);
    atomic_store(&t.closed, true);
    int count = 0;
    muster_status status = MUSTER_OK;
    assert_ok(send(&t, x, &y[count], NULL, &pending[count]));
    wait_until_entered(&t, 2);
    for (count = 1; count < 65; count++) assert_ok(send(&t, x, &y[count], NULL, &pending[count]));
    status = send(&t, x, &y[count], &options, &one_more);
    assert_refused(status, MUSTER_TIMEOUT, "muster_function_call_async: waited 0.02 s for other calls to end");
    assert_null(one_more);
    atomic_store(&t.closed, false);
    for (int i = 0; i < count; i++) {
        assert_ok(muster_pending_wait(&pending[i]));
        assert_float_equal(y[i], 78, 0);
    }
    fixture_close(t.runtime);
}

typedef struct sender {
    world *t;
    const float *x;
    float y;
    muster_status status;
    muster_pending *pending;
    _Atomic bool sent;
} sender;

static void *send_one_more(void *context) {
    sender *s = context;
    s->status = send(s->t, (float *)(uintptr_t)s->x, &s->y, NULL, &s->pending);
    atomic_store(&s->sent, true);
    return NULL;
}

/* Two threads wait, and are served when calls have ended. */
static void those_that_wait_for_a_place_get_it(void **state) {
    (void)state;
    world t;
    float x[ROWS], y[65];
    muster_pending *pending[65];
    sender senders[2];
    pthread_t threads[2];
    open_world(&t, "host", 2);
    fill(x, 1);
    atomic_store(&t.closed, true);
    assert_ok(send(&t, x, &y[0], NULL, &pending[0]));
    wait_until_entered(&t, 2);
    for (int i = 1; i < 65; i++) assert_ok(send(&t, x, &y[i], NULL, &pending[i]));
    for (int i = 0; i < 2; i++) {
        senders[i] = (sender){.t = &t, .x = x};
        assert_int_equal(pthread_create(&threads[i], NULL, send_one_more, &senders[i]), 0);
    }
    for (int i = 0; i < 2000; i++) sched_yield();
    for (int i = 0; i < 2; i++) assert_false(atomic_load(&senders[i].sent));
    atomic_store(&t.closed, false);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(senders[i].status);
        assert_ok(muster_pending_wait(&senders[i].pending));
        assert_float_equal(senders[i].y, 78, 0);
    }
    for (int i = 0; i < 65; i++) assert_ok(muster_pending_wait(&pending[i]));
    fixture_close(t.runtime);
}

static void a_call_that_queues_too_long_is_not_made(void **state) {
    (void)state;
    world t;
    float x[ROWS], y, late = -1;
    muster_call_options options;
    muster_pending *first, *second;
    open_world(&t, "host", 1);
    fill(x, 1);
    atomic_store(&t.closed, true);
    assert_ok(send(&t, x, &y, NULL, &first));
    muster_call_options_init(&options);
    options.queue_timeout_ns = 1;
    assert_ok(send(&t, x, &late, &options, &second));
    wait_until_entered(&t, 1);
    atomic_store(&t.closed, false);
    assert_refused(muster_pending_wait(&second), MUSTER_TIMEOUT, "muster_function_call_async: waited 1e-09 s for other calls to end");
    assert_float_equal(late, -1, 0);
    assert_ok(muster_pending_wait(&first));
    fixture_close(t.runtime);
}

static void closing_waits_and_the_handles_stay(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        float x[ROWS], y[3] = {0};
        muster_pending *pending[3];
        open_world(&t, backend, 2);
        fill(x, 1);
        for (int i = 0; i < 3; i++) assert_ok(send(&t, x, &y[i], NULL, &pending[i]));
        fixture_close(t.runtime);
        for (int i = 0; i < 3; i++) assert_float_equal(y[i], 78, 0);
        for (int i = 0; i < 2; i++) assert_ok(muster_pending_wait(&pending[i]));
        assert_ok(muster_pending_destroy(pending[2]));
    }
}

static void destroying_a_handle_waits_for_its_call(void **state) {
    (void)state;
    world t;
    float x[ROWS], y = 0;
    muster_pending *pending;
    open_world(&t, "host", 2);
    fill(x, 1);
    assert_ok(send(&t, x, &y, NULL, &pending));
    assert_ok(muster_pending_destroy(pending));
    assert_float_equal(y, 78, 0);
    assert_ok(muster_pending_destroy(NULL));
    fixture_close(t.runtime);
}

static muster_status nested(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    float x[ROWS] = {0}, y;
    muster_pending *pending;
    (void)w, (void)in, (void)out;
    return send(t, x, &y, NULL, &pending);
}

static void a_call_inside_a_body_is_refused(void **state) {
    (void)state;
    world t;
    muster_function *f;
    open_world(&t, "host", 1);
    assert_ok(muster_function_create(t.runtime, "nested", nested, &t, &f));
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE,
                   "muster_function_call_async: called inside a running function");
    fixture_close(t.runtime);
}

static void the_tensors_options_and_selections_are_copied(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        float x[ROWS], y = 0;
        static const int64_t rows[] = {0, 11};
        muster_call_options options;
        muster_pending *first, *pending;
        float other;
        open_world(&t, backend, 2);
        fill(x, 1);
        atomic_store(&t.closed, true);
        assert_ok(send(&t, x, &other, NULL, &first));
        muster_call_options_init(&options);
        options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = 2};
        muster_tensor in = muster_f32(x, ROWS), out = muster_f32(&y);
        assert_ok(muster_function_call_async(t.f, &in, 1, &out, 1, &options, &pending));
        memset(&in, 0xff, sizeof in);
        memset(&out, 0xff, sizeof out);
        memset(&options, 0xff, sizeof options);
        atomic_store(&t.closed, false);
        assert_ok(muster_pending_wait(&pending));
        assert_float_equal(y, 13, 0);
        assert_ok(muster_pending_wait(&first));
        fixture_close(t.runtime);
    }
}

static void a_child_of_fork_may_not_wait(void **state) {
    (void)state;
    world t;
    float x[ROWS], y;
    muster_pending *pending;
    open_world(&t, "host", 2);
    fill(x, 1);
    atomic_store(&t.closed, true);
    assert_ok(send(&t, x, &y, NULL, &pending));
    wait_until_entered(&t, 2);
    const pid_t child = fork();
    if (child == 0) _exit(muster_pending_wait(&pending) == MUSTER_BAD_STATE ? 0 : 1);
    int outcome = -1;
    waitpid(child, &outcome, 0);
    assert_true(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    atomic_store(&t.closed, false);
    assert_ok(muster_pending_wait(&pending));
    fixture_close(t.runtime);
}

typedef struct customer {
    world *t;
    int number, wrong;
} customer;

static void *call_many(void *context) {
    customer *c = context;
    for (int i = 0; i < 30; i++) {
        float x[ROWS], y = 0;
        muster_pending *pending;
        fill(x, (float)c->number);
        const bool now = (i + c->number) % 3 == 0;
        muster_status status =
            now ? muster_function_call(c->t->f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL)
                : send(c->t, x, &y, NULL, &pending);
        if (!status && !now) status = muster_pending_wait(&pending);
        c->wrong += status != MUSTER_OK || y != 66 + ROWS * (float)c->number;
    }
    return NULL;
}

static void several_threads_may_call_both_ways(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        pthread_t threads[4];
        customer customers[4];
        open_world(&t, backend, 2);
        for (int i = 0; i < 4; i++) {
            customers[i] = (customer){&t, i, 0};
            assert_int_equal(pthread_create(&threads[i], NULL, call_many, &customers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(customers[i].wrong, 0);
        }
        fixture_close(t.runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_gives_its_result),
        cmocka_unit_test(a_call_returns_before_its_body),
        cmocka_unit_test(wait_and_a_successful_test_end_the_handle),
        cmocka_unit_test(calls_are_served_in_the_order_in_which_they_were_made),
        cmocka_unit_test(a_failure_reaches_whoever_waits_and_the_next_call_succeeds),
        cmocka_unit_test(what_a_call_refuses_is_refused_at_once),
        cmocka_unit_test(one_more_waits_for_a_place_until_its_timeout),
        cmocka_unit_test(those_that_wait_for_a_place_get_it),
        cmocka_unit_test(a_call_that_queues_too_long_is_not_made),
        cmocka_unit_test(closing_waits_and_the_handles_stay),
        cmocka_unit_test(destroying_a_handle_waits_for_its_call),
        cmocka_unit_test(a_call_inside_a_body_is_refused),
        cmocka_unit_test(the_tensors_options_and_selections_are_copied),
        cmocka_unit_test(a_child_of_fork_may_not_wait),
        cmocka_unit_test(several_threads_may_call_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
