/* Ending calls from outside: running ones wherever they wait, those that wait for their turn or for
 * a place, and no later ones. */
#include "function_fixture.h"

#include "base_skip.h"
#include "muster/communicator.h"
#include "muster/ops.h"
#include "muster/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { ROWS = 12, QUEUED = 64, HANDLED = 100 };

/* What the body of rank 1, or of the only rank, does until the call is ended. */
typedef enum { LOOKS, OPERATES, COPIES, MEETS, RECEIVES, SLEEPS, RETURNS, WAYS } way;

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    muster_variable *v;
    way way;
    _Atomic int entered;
    _Atomic bool open; /* bodies that sleep wake */
} world;

static void pass_time(void) { nanosleep(&(struct timespec){0, 200000}, NULL); }

static muster_status operate(muster_worker *w, const muster_tensor *in, way way) {
    float number = 0;
    muster_tensor scratch;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &scratch));
    while (way == OPERATES) MUSTER_TRY(muster_sum(w, in[0], scratch));
    while (way == COPIES) MUSTER_TRY(muster_worker_write(w, muster_f32(&number), scratch));
    return way == MEETS ? muster_worker_barrier(w, NULL) : muster_worker_recv(w, NULL, 0, 7, scratch);
}

/* Rank 0 waits for rank 1 in a barrier, which it may never enter, or in one of another order. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    const bool acts = muster_worker_rank(w) == muster_worker_size(w) - 1;
    atomic_fetch_add(&t->entered, 1);
    if (t->way == RETURNS) return muster_sum(w, in[0], out[0]);
    while (t->way == SLEEPS && !atomic_load(&t->open)) pass_time();
    if (t->way == SLEEPS) return muster_sum(w, in[0], out[0]);
    while (acts && t->way == LOOKS && !muster_worker_cancelled(w)) pass_time();
    if (acts && t->way == LOOKS) return MUSTER_OK;
    /* two that wait for each other would be refused */
    while (!acts && t->way == RECEIVES && muster_worker_rank(w) == 0 && !muster_worker_cancelled(w)) pass_time();
    if (acts && (t->way == OPERATES || t->way == COPIES || muster_worker_size(w) > 1)) {
        if (t->way != MEETS) return operate(w, in, t->way);
        while (!muster_worker_cancelled(w)) pass_time(); /* those that meet wait for this one */
        return operate(w, in, MEETS);
    }
    return muster_worker_barrier(w, NULL);
}

static void world_open(world *t, const char *backend, int count) {
    const float zero[2] = {0, 0};
    memset(t, 0, sizeof *t);
    t->runtime = fixture_open(backend, count);
    assert_ok(muster_function_create(t->runtime, "f", body, t, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_variable_create(t->runtime, "v", muster_f32((float *)(uintptr_t)zero, 2), &t->v));
}

static float rows[ROWS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static muster_status call(const world *t, float *y) {
    return muster_function_call(t->f, (muster_tensor[]){muster_f32(rows, ROWS)}, 1, (muster_tensor[]){muster_f32(y)}, 1, NULL);
}

static muster_status send(const world *t, float *y, muster_pending **pending) {
    return muster_function_call_async(t->f, (muster_tensor[]){muster_f32(rows, ROWS)}, 1, (muster_tensor[]){muster_f32(y)}, 1, NULL,
                                      pending);
}

static void wait_until_entered(world *t, int count) {
    while (atomic_load(&t->entered) < count) pass_time();
}

static void assert_works(world *t) {
    float y = 0;
    t->way = RETURNS;
    assert_ok(call(t, &y));
    assert_float_equal(y, 78, 0);
}

static void a_running_call_ends_wherever_it_waits(void **state) {
    (void)state;
    int32_t ended = 0;
    for_each_backend(backend) {
        for (int count = 1; count <= 3; count++) {
            world t;
            world_open(&t, backend, count);
            for (way way = LOOKS; way <= RECEIVES; way++) {
                float y = -1;
                muster_pending *pending;
                if (count == 1 && way >= MEETS) continue;
                t.way = way;
                atomic_store(&t.entered, 0);
                assert_ok(send(&t, &y, &pending));
                wait_until_entered(&t, count);
                muster_runtime_cancel(t.runtime);
                assert_refused(muster_pending_wait(&pending), MUSTER_CANCELLED,
                               "muster_function_call_async: function 'f': muster_runtime_cancel has ended the call");
                assert_works(&t);
                ended++;
            }
            fixture_close(t.runtime);
        }
    }
    assert_int_equal(ended, 2 * (3 + 5 + 5));
}

/* Its body runs to the end, and nothing that it gives is applied. */
static muster_status give_update(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    muster_tensor update;
    (void)in, (void)out;
    MUSTER_TRY(muster_worker_update(w, t->v, &update));
    MUSTER_TRY(muster_fill(w, 1, update));
    atomic_fetch_add(&t->entered, 1);
    while (!atomic_load(&t->open)) pass_time();
    return MUSTER_OK;
}

static void a_body_that_does_not_look_runs_to_its_end(void **state) {
    (void)state;
    for_each_backend(backend) {
        for (int count = 1; count <= 2; count++) {
            world t;
            muster_function *f;
            muster_pending *pending;
            float value[2] = {-1, -1};
            int32_t done;
            world_open(&t, backend, count);
            assert_ok(muster_function_create(t.runtime, "update", give_update, &t, &f));
            assert_ok(muster_function_update(f, t.v, MUSTER_MASTER));
            assert_ok(muster_function_call_async(f, NULL, 0, NULL, 0, NULL, &pending));
            wait_until_entered(&t, count);
            muster_runtime_cancel(t.runtime);
            pass_time();
            assert_ok(muster_pending_test(&pending, &done));
            assert_int_equal(done, 0);
            atomic_store(&t.open, true);
            assert_refused(muster_pending_wait(&pending), MUSTER_CANCELLED, "function 'update': muster_runtime_cancel has ended the call");
            for (int rank = 0; rank < count; rank++) {
                assert_ok(muster_variable_get(t.v, rank, muster_f32(value, 2)));
                assert_true(value[0] == 0 && value[1] == 0);
            }
            assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
            assert_ok(muster_variable_get(t.v, 0, muster_f32(value, 2)));
            assert_true(value[0] == 1 && value[1] == 1);
            fixture_close(t.runtime);
        }
    }
}

/* ---- those that wait ---- */

typedef struct caller {
    world *t;
    int kind;
    float y[2];
    muster_function *other;
    muster_status status;
    _Atomic bool came, done;
} caller;

/* Each waits for its turn, but for 1, which waits for a place in the queue. */
static void *await_ticket(void *context) {
    caller *c = context;
    muster_pending *pending;
    atomic_store(&c->came, true);
    if (c->kind == 0) c->status = call(c->t, c->y);
    if (c->kind == 1) c->status = send(c->t, c->y, &pending);
    if (c->kind == 2) c->status = muster_variable_get(c->t->v, 0, muster_f32(c->y, 2));
    if (c->kind == 3) c->status = muster_function_destroy(c->other);
    atomic_store(&c->done, true);
    return NULL;
}

static void all_that_wait_fail_one_by_one_and_what_destroys_does_not(void **state) {
    enum { CALLERS = 4 };
    (void)state;
    world t;
    float y[QUEUED + 1];
    muster_pending *pending[QUEUED + 1];
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    world_open(&t, "host", 2);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CALLERS; i++) callers[i] = (caller){.t = &t, .kind = i, .y = {-1, -1}, .status = MUSTER_USER};
        assert_ok(muster_function_create(t.runtime, "other", body, &t, &callers[3].other));
        t.way = SLEEPS;
        atomic_store(&t.open, false);
        atomic_store(&t.entered, 0);
        for (int i = 0; i <= QUEUED; i++) {
            y[i] = -1;
            assert_ok(send(&t, &y[i], &pending[i]));
            if (i == 0) wait_until_entered(&t, 2); /* the one that runs does not count */
        }
        for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, await_ticket, &callers[i]), 0);
        for (int i = 0; i < CALLERS; i++)
            while (!atomic_load(&callers[i].came)) pass_time();
        for (int i = 0; i < 3; i++) { /* one may not wait yet when the first cancel comes */
            while (!atomic_load(&callers[i].done)) muster_runtime_cancel(t.runtime), pass_time();
        }
        for (int i = 0; i < 3; i++) { /* they do not wait for the one that runs */
            pthread_join(threads[i], NULL);
            assert_int_equal(callers[i].status, MUSTER_CANCELLED);
            assert_true(callers[i].y[0] == -1);
        }
        atomic_store(&t.open, true);
        pthread_join(threads[3], NULL);
        assert_ok(callers[3].status);
        for (int i = 0; i <= QUEUED; i++)
            assert_refused(muster_pending_wait(&pending[i]), MUSTER_CANCELLED, "muster_function_call_async: ");
        for (int i = 1; i <= QUEUED; i++) assert_true(y[i] == -1);
        assert_int_equal(atomic_load(&t.entered), 2);
        assert_works(&t);
    }
    fixture_close(t.runtime);
}

static void nothing_is_remembered(void **state) {
    (void)state;
    for_each_backend(backend) {
        for (int count = 1; count <= 2; count++) {
            world t;
            float value[2];
            muster_pending *pending;
            muster_runtime_cancel(NULL);
            world_open(&t, backend, count);
            muster_runtime_cancel(t.runtime);
            assert_works(&t);
            muster_runtime_cancel(t.runtime);
            assert_ok(muster_variable_get(t.v, 0, muster_f32(value, 2)));
            muster_runtime_cancel(t.runtime);
            t.way = RETURNS;
            assert_ok(send(&t, value, &pending));
            assert_ok(muster_pending_wait(&pending));
            muster_runtime_cancel(t.runtime);
            fixture_close(t.runtime);
        }
    }
}

/* ---- a signal handler ---- */

static muster_runtime *interrupted;
static _Atomic int handled;

static void on_alarm(int signal_number) {
    (void)signal_number;
    muster_runtime_cancel(interrupted);
    atomic_fetch_add(&handled, 1);
}

/* A call of several operations: it ends with OK or CANCELLED, and its thread's last error and errno
 * are as they were. */
static muster_status sums(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    for (int i = 0; i < 20; i++) {
        MUSTER_TRY(muster_sum(w, in[0], out[0]));
        MUSTER_TRY(muster_worker_barrier(w, NULL));
    }
    return MUSTER_OK;
}

static void a_signal_handler_may_end_calls(void **state) {
#ifdef __SANITIZE_THREAD__
    SKIP("ThreadSanitizer holds signals back where a thread waits in a futex");
#endif
    const struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    for (int kind = 0; kind < 2; kind++) {
        for (int count = 1; count <= 2; count++) {
            world t;
            muster_function *f;
            int ok = 0, ended = 0;
            world_open(&t, "host", count);
            assert_ok(muster_function_create(t.runtime, "sums", sums, NULL, &f));
            assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
            interrupted = t.runtime;
            atomic_store(&handled, 0);
            assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
            while (atomic_load(&handled) < HANDLED || ((!ok || !ended) && atomic_load(&handled) < 100 * HANDLED)) {
                float y = 0;
                muster_pending *pending;
                muster_status status;
                const muster_tensor in = muster_f32(rows, ROWS), out = muster_f32(&y);
                errno = 0;
                if (kind == 0) {
                    status = muster_function_call(f, &in, 1, &out, 1, NULL);
                } else {
                    assert_ok(muster_function_call_async(f, &in, 1, &out, 1, NULL, &pending));
                    status = muster_pending_wait(&pending);
                }
                if (status == MUSTER_OK)
                    assert_true(y == 78);
                else
                    assert_refused(status, MUSTER_CANCELLED, "muster_runtime_cancel has ended the call");
                *(status == MUSTER_OK ? &ok : &ended) += 1;
            }
            assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
            assert_true(ok > 0 && ended > 0);
            assert_works(&t);
            fixture_close(t.runtime);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_call_ends_wherever_it_waits),
        cmocka_unit_test(a_body_that_does_not_look_runs_to_its_end),
        cmocka_unit_test(all_that_wait_fail_one_by_one_and_what_destroys_does_not),
        cmocka_unit_test(nothing_is_remembered),
        cmocka_unit_test(a_signal_handler_may_end_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
