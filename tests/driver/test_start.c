/* The start of a server by the drivers: at step init_delay its values become the parameters of the
 * first worker, and the other workers' operations come behind that. The oracle is a serial
 * simulation of the rule: it has numbers instead of workers, and no server. */
#include "base_await.h"
#include "driver_fixture.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { STEPS = 40, SERVER_START = 500 };
static const double rate = 0.125;
static int compared, waits_seen; /* counted in the test's own thread */

/* Worker r descends towards r + 1, from r + 10. */
static double start_of(int32_t rank) { return rank + 10; }
static double target_of(int32_t rank) { return rank + 1; }

typedef struct training {
    muster_server *server;
    bool elastic, keeps;
    int64_t u, d, p, s;
    double x[WORKERS][STEPS]; /* behind the step of the driver, before the worker's own */
} training;

/* ---- the simulation ---- */

typedef struct simulated {
    double x, fetched, sum;
} simulated;

static bool is_due(int64_t step, int64_t first, int64_t every) { return step >= first && (step - first) % every == 0; }

static void simulate_driver(const training *t, int n, simulated *w, int32_t rank, int64_t step, double *server) {
    const double alpha = 0.9 / n, gradient = w->x - target_of(rank);
    const bool integrates = is_due(step, t->d + t->u, t->u);
    if (rank == 0 && step == t->d && !t->keeps) *server = w->x;
    if (step > t->d) w->sum += gradient;
    double old = w->fetched; /* of p = u: the fetch for the next integration comes first */
    if (is_due(step, t->d + t->u - t->p, t->u)) w->fetched = *server;
    if (t->p != t->u) old = w->fetched;
    if (integrates && t->elastic) {
        const double difference = w->x - old;
        w->x -= alpha * difference;
        *server += alpha * difference;
    } else if (integrates) {
        w->x = old;
    }
    if (!t->elastic && is_due(step, t->d + t->s, t->s)) {
        *server += -rate * w->sum;
        w->sum = 0;
    }
}

/* The workers take turns in every step, in rank order. */
static double simulate(const training *t, int n, double x[WORKERS][STEPS]) {
    simulated workers[WORKERS] = {{0}};
    double server = SERVER_START;
    for (int32_t r = 0; r < n; r++) workers[r].x = start_of(r);
    for (int64_t step = 0; step < STEPS; step++) {
        for (int32_t r = 0; r < n; r++) {
            const double gradient = workers[r].x - target_of(r);
            simulate_driver(t, n, &workers[r], r, step, &server);
            x[r][step] = workers[r].x;
            workers[r].x -= rate * gradient;
        }
    }
    return server;
}

/* ---- the same with drivers ---- */

static muster_status times_rate(muster_worker *w, int32_t index, muster_tensor accumulated, void *user) {
    (void)index, (void)user;
    return muster_scale_add(w, -rate, accumulated, 0, accumulated);
}

static muster_status set_gradients(muster_worker *w, const muster_tensor *parameters, muster_tensor *gradients) {
    for (int32_t i = 0; i < VALUES; i++) {
        MUSTER_TRY(muster_fill(w, target_of(muster_worker_rank(w)) + i, gradients[i]));
        MUSTER_TRY(muster_scale_add(w, 1, parameters[i], -1, gradients[i]));
    }
    return MUSTER_OK;
}

/* The operations of a client keep their order: when a receive is done, so are all that the step has
 * begun. */
static muster_status step_and_settle(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                     const muster_tensor *gradients) {
    static _Thread_local double memory[MOST];
    MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, NULL));
    for (int32_t i = 0; i < VALUES; i++)
        MUSTER_TRY(
            muster_client_receive(muster_driver_client(driver), i, muster_tensor_make(MUSTER_F64, memory, 1, &value_sizes[i]), NULL));
    return MUSTER_OK;
}

static muster_status step_in_turn(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                  const muster_tensor *gradients) {
    for (int32_t r = 0; r < muster_worker_size(w); r++) {
        if (r == muster_worker_rank(w)) MUSTER_TRY(step_and_settle(driver, w, step, parameters, gradients));
        MUSTER_TRY(muster_worker_barrier(w, NULL));
    }
    return MUSTER_OK;
}

static muster_status train_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    training *t = user;
    const int32_t rank = muster_worker_rank(w);
    muster_driver_options options = make_options(t->u, t->d, t->p, t->s);
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver *driver;
    options.keep_initial = t->keeps;
    options.local_update = times_rate;
    MUSTER_TRY(make_tensors(w, MUSTER_F64, start_of(rank), 1, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 0, 0, gradients));
    MUSTER_TRY((t->elastic ? muster_easgd_create : muster_downpour_create)(w, t->server, &options, &driver));
    for (int64_t step = 0; step < STEPS; step++) {
        MUSTER_TRY(set_gradients(w, parameters, gradients));
        MUSTER_TRY(step_in_turn(driver, w, step, parameters, gradients));
        MUSTER_TRY(full_of(w, parameters[0], &t->x[rank][step]));
        for (int32_t i = 0; i < VALUES; i++) MUSTER_TRY(muster_axpy(w, -rate, gradients[i], parameters[i]));
    }
    return muster_driver_destroy(driver);
}

static void expect_simulated(const char *backend, int n, training t) {
    static double expected[WORKERS][STEPS];
    muster_runtime *runtime = fixture_open(backend, n);
    t.server = open_server(runtime, MUSTER_F64, SERVER_START);
    assert_ok(run_body(runtime, train_body, &t));
    const double server = simulate(&t, n, expected);
    for (int32_t r = 0; r < n; r++) {
        for (int64_t step = 0; step < STEPS; step++, compared++) {
            if (fabs(t.x[r][step] - expected[r][step]) <= 1e-9) continue;
            fail_msg("%s, %d workers, %s, d %d: rank %d at step %d: expected %.17g, received %.17g", backend, n,
                     t.elastic ? "elastic" : "downpour", (int)t.d, (int)r, (int)step, expected[r][step], t.x[r][step]);
        }
    }
    for (int32_t i = 0; i < VALUES; i++) assert_true(fabs(server_value(t.server, MUSTER_F64, i) - (server + i)) <= 1e-9);
    fixture_close(runtime);
}

static void training_goes_as_in_the_simulation(void **unused) {
    (void)unused;
    const training cases[] = {
        {.u = 10, .d = 12, .p = 0, .s = 1},
        {.u = 10, .d = 12, .p = 3, .s = 5},
        {.u = 10, .d = 12, .p = 10, .s = 2},
        {.u = 4, .d = 0, .p = 1, .s = 2},
        {.elastic = true, .u = 10, .d = 12, .p = 0},
        {.elastic = true, .u = 5, .d = 7, .p = 2},
        {.elastic = true, .u = 6, .d = 9, .p = 6},
        {.elastic = true, .u = 1, .d = 0, .p = 0},
        {.u = 10, .d = 12, .p = 3, .s = 5, .keeps = true},
        {.elastic = true, .u = 10, .d = 12, .p = 3, .keeps = true},
    };
    int backends = 0;
    allowed_spread = 1e-9;
    for_each_backend(backend) {
        backends++;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            expect_simulated(backend, 1, cases[i]);
            expect_simulated(backend, 3, cases[i]);
        }
    }
    allowed_spread = 0;
    assert_int_equal(compared, backends * 10 * (1 + 3) * STEPS);
}

/* What the start is for: without it the first integration takes a worker back to where the server
 * was created, with it the worker goes on from the progress of the first one. */
static void the_first_integration_does_not_undo_the_steps_before_the_start(void **unused) {
    (void)unused;
    static double started[WORKERS][STEPS], kept[WORKERS][STEPS];
    const training with = {.u = 5, .d = 20, .p = 5, .s = 5};
    training without = with;
    without.keeps = true;
    simulate(&with, 1, started);
    simulate(&without, 1, kept);
    assert_true(fabs(started[0][25] - target_of(0)) < 1);
    assert_true(kept[0][25] == SERVER_START);
}

/* ---- the order ---- */

static atomic_int waiting, gone_on;

static void count_waits(void *user, muster_log_level level, const char *line) {
    (void)user;
    if (level == MUSTER_LOG_WARNING && strstr(line, "for the first worker's driver to start the server")) atomic_fetch_add(&waiting, 1);
}

static muster_runtime *open_logged(void) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = "host:3";
    options.log = count_waits;
    atomic_store(&waiting, 0);
    atomic_store(&gone_on, 0);
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_status run_with_deadlines(muster_runtime *runtime, muster_body body, void *user, int64_t warn_after_ns,
                                        int64_t fail_after_ns) {
    muster_function *function;
    muster_call_options options;
    muster_call_options_init(&options);
    options.warn_after_ns = warn_after_ns;
    options.fail_after_ns = fail_after_ns;
    assert_ok(muster_function_create(runtime, "body", body, user, &function));
    const muster_status status = muster_function_call(function, NULL, 0, NULL, 0, &options);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    assert_ok(muster_function_destroy(function));
    return status == MUSTER_OK ? status : mst_error_restore(status, message);
}

static muster_driver_options starting_options(int64_t u, int64_t d, int64_t p) {
    muster_driver_options options = make_options(u, d, p, 1);
    options.keep_initial = 0;
    return options;
}

/* Until both others have said that they wait; if they do not wait, the test fails later on. */
static void await_the_others(void) { TEST_AWAIT(atomic_load(&waiting) + atomic_load(&gone_on) >= 2, 200000); }

static muster_status late_first_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const int32_t rank = muster_worker_rank(w);
    const muster_driver_options options = starting_options(1, 0, 1); /* fetches at step 0 */
    muster_tensor parameters[VALUES];
    muster_driver *driver;
    double number;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, start_of(rank), 1, parameters));
    MUSTER_TRY(muster_driver_create(w, user, &options, &driver));
    if (rank == 0) await_the_others();
    for (int64_t step = 0; step <= 1; step++) {
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, NULL, VALUES, NULL));
        if (step == 0) atomic_fetch_add(&gone_on, 1);
    }
    for (int32_t i = 0; i < VALUES; i++) {
        MUSTER_TRY(full_of(w, parameters[i], &number));
        MUST(number == start_of(0) + i);
    }
    return muster_driver_destroy(driver);
}

static void the_others_wait_for_the_first(void **unused) {
    (void)unused;
    muster_runtime *runtime = open_logged();
    assert_ok(run_with_deadlines(runtime, late_first_body, open_server(runtime, MUSTER_F32, SERVER_START), 1000000, -1));
    waits_seen = atomic_load(&waiting);
    assert_int_equal(waits_seen, 2);
    assert_ok(muster_runtime_close(runtime));
}

/* Drivers that could not end in their body: on a GPU whose call was aborted the device may still
 * use their memory. */
enum { MOST_DRIVERS = 8 };
static muster_driver *left[MOST_DRIVERS];

static void destroy_left(void) {
    for (int32_t rank = 0; rank < MOST_DRIVERS; rank++) {
        muster_driver_destroy(left[rank]); /* the status is that of what the aborted call began */
        left[rank] = NULL;
    }
}

/* Rank 0 never makes a step: it returns, or stays in its body until the call has failed. */
static bool first_stays;

static muster_status without_first_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const muster_driver_options options = starting_options(1, 0, 1);
    muster_tensor parameters[VALUES];
    muster_driver *driver;
    while (first_stays && muster_worker_rank(w) == 0 && !muster_worker_cancelled(w)) sched_yield();
    if (muster_worker_rank(w) == 0) return MUSTER_OK;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 1, parameters));
    MUSTER_TRY(muster_driver_create(w, user, &options, &driver));
    const muster_status status = muster_driver_step(driver, w, 0, parameters, NULL, VALUES, NULL);
    atomic_fetch_add(&gone_on, 1);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (muster_driver_destroy(driver) == MUSTER_BAD_STATE) left[muster_worker_rank(w)] = driver;
    mst_error_restore(status, message);
    return status == MUSTER_TIMEOUT ? muster_fail(MUSTER_TIMEOUT, muster_last_error()) : status;
}

static void a_first_worker_that_never_comes_is_a_timeout(void **unused) {
    (void)unused;
    muster_runtime *runtime = open_logged();
    muster_server *server = open_server(runtime, MUSTER_F32, SERVER_START);
    first_stays = true;
    assert_refused(run_with_deadlines(runtime, without_first_body, server, -1, 20000000), MUSTER_TIMEOUT,
                   "for the first worker's driver to reach init_delay and start the server");
    assert_true(server_value(server, MUSTER_F32, 0) == SERVER_START);
    destroy_left();
    assert_ok(muster_runtime_close(runtime));
}

static void a_first_worker_that_returns_too_early_is_an_error_at_once(void **unused) {
    (void)unused;
    muster_runtime *runtime = open_logged();
    muster_server *server = open_server(runtime, MUSTER_F32, SERVER_START);
    first_stays = false;
    assert_refused(run_with_deadlines(runtime, without_first_body, server, -1, -1), MUSTER_INVALID_ARGUMENT,
                   "waits for the driver of rank 0 to start the server, but the body of rank 0 has returned before its driver made more "
                   "than init_delay steps");
    assert_true(server_value(server, MUSTER_F32, 0) == SERVER_START);
    destroy_left();
    assert_ok(muster_runtime_close(runtime));
}

/* Rank 0 fails once both others wait. */
static muster_status failing_first_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    if (muster_worker_rank(w) > 0) return without_first_body(w, in, out, user);
    await_the_others();
    return muster_fail(MUSTER_USER, "rank 0 has other plans");
}

static void a_first_worker_that_fails_ends_the_waits(void **unused) {
    (void)unused;
    muster_runtime *runtime = open_logged();
    assert_refused(run_with_deadlines(runtime, failing_first_body, open_server(runtime, MUSTER_F32, 1), 1000000, -1), MUSTER_USER,
                   "rank 0 has other plans");
    destroy_left();
    assert_ok(muster_runtime_close(runtime));
}

/* ---- once; whose parameters ---- */

/* Every worker makes `drivers` drivers, one after the other; the parameters of driver k begin at
 * 100 k. */
static muster_status two_drivers_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const muster_driver_options options = starting_options(2, 1, 0);
    muster_tensor parameters[VALUES];
    double number;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, parameters));
    for (int k = 0; k < 2; k++) {
        muster_driver *driver;
        for (int32_t i = 0; i < VALUES; i++) MUSTER_TRY(muster_fill(w, 100 * k + start_of(muster_worker_rank(w)), parameters[i]));
        MUSTER_TRY(muster_driver_create(w, user, &options, &driver));
        for (int64_t step = 0; step <= 3; step++) MUSTER_TRY(muster_driver_step(driver, w, step, parameters, NULL, VALUES, NULL));
        MUSTER_TRY(full_of(w, parameters[0], &number));
        MUST(number == start_of(0));
        MUSTER_TRY(muster_driver_destroy(driver));
    }
    return MUSTER_OK;
}

static void a_server_starts_once(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 3);
        muster_server *server = open_server(runtime, MUSTER_F32, SERVER_START);
        assert_ok(run_body(runtime, two_drivers_body, server));
        for (int32_t i = 0; i < VALUES; i++) assert_true(server_value(server, MUSTER_F32, i) == start_of(0));
        fixture_close(runtime);
    }
}

/* Pairs of workers, in which the higher is rank 0: the first worker is worker 1. */
static muster_status pairs_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const int32_t rank = muster_worker_rank(w);
    muster_driver_options options = starting_options(2, 1, 0);
    muster_tensor parameters[VALUES];
    muster_driver *driver;
    double number;
    MUSTER_TRY(muster_worker_split(w, NULL, rank / 2, -rank, &options.group));
    MUST(muster_communicator_rank(options.group, w) == (rank < 4 ? 1 - rank % 2 : 0));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, start_of(rank), 0, parameters));
    MUSTER_TRY(muster_driver_create(w, user, &options, &driver));
    for (int64_t step = 0; step <= 3; step++) MUSTER_TRY(muster_driver_step(driver, w, step, parameters, NULL, VALUES, NULL));
    MUSTER_TRY(full_of(w, parameters[0], &number));
    MUST(number == start_of(1));
    MUSTER_TRY(muster_driver_destroy(driver));
    return muster_worker_release(w, options.group);
}

static void the_first_group_is_that_of_rank_0(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 5);
        muster_server *server = open_server(runtime, MUSTER_F32, SERVER_START);
        assert_ok(run_body(runtime, pairs_body, server));
        for (int32_t i = 0; i < VALUES; i++) assert_true(server_value(server, MUSTER_F32, i) == start_of(1));
        fixture_close(runtime);
    }
}

/* Steps are left out: the start happens at the first step from init_delay on, and not before. */
static muster_status late_step_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const muster_driver_options options = starting_options(100, 10, 0);
    muster_tensor parameters[VALUES], now;
    muster_driver *driver;
    double number;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, parameters));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &value_sizes[0], &now));
    MUSTER_TRY(muster_driver_create(w, user, &options, &driver));
    const int64_t steps[] = {0, 9, 13, 14}, expected[] = {SERVER_START, SERVER_START, 13, 13};
    for (int i = 0; i < 4; i++) {
        for (int32_t v = 0; v < VALUES; v++) MUSTER_TRY(muster_fill(w, (double)steps[i], parameters[v]));
        MUSTER_TRY(muster_driver_step(driver, w, steps[i], parameters, NULL, VALUES, NULL));
        MUSTER_TRY(muster_client_receive(muster_driver_client(driver), 0, now, NULL));
        MUSTER_TRY(full_of(w, now, &number));
        MUST(number == (double)expected[i]);
    }
    return muster_driver_destroy(driver);
}

static void a_start_that_was_left_out_is_made_up_for(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        assert_ok(run_body(runtime, late_step_body, open_server(runtime, MUSTER_F32, SERVER_START)));
        fixture_close(runtime);
    }
}

static muster_status step_of_all_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const muster_driver_options options = starting_options(1, 0, 1);
    muster_tensor parameters[VALUES];
    muster_driver *driver;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 1, parameters));
    MUSTER_TRY(muster_driver_create(w, user, &options, &driver));
    const muster_status status = muster_driver_step(driver, w, 0, parameters, NULL, VALUES, NULL);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    (void)muster_driver_destroy(driver);
    return status == MUSTER_OK ? status : mst_error_restore(status, message);
}

/* Without a deadline, the call would never return. */
static void a_first_worker_without_rows_is_an_error_at_once(void **unused) {
    (void)unused;
    float x[2] = {0};
    muster_runtime *runtime = fixture_open("host", 2);
    muster_server *server = open_server(runtime, MUSTER_F32, SERVER_START);
    muster_function *f;
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = -1;
    assert_ok(muster_function_create(runtime, "train", step_of_all_body, server, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 1)}, 1, NULL, 0, &options), MUSTER_INVALID_ARGUMENT,
                   "rank 1 waits for the driver of rank 0 to start the server, but rank 0 has no rows, and function 'train' does not run "
                   "without rows");
    assert_true(server_value(server, MUSTER_F32, 0) == SERVER_START);
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 2)}, 1, NULL, 0, &options));
    fixture_close(runtime);
}

static muster_status options_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = starting_options(1, 0, 0);
    muster_driver *driver;
    const int32_t wrong[] = {-1, 2, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        options.keep_initial = wrong[i];
        MUST_REFUSE(muster_driver_create(w, user, &options, &driver), MUSTER_INVALID_ARGUMENT,
                    "muster_driver_create: options: keep_initial: expected 0 or 1, received ");
    }
    return MUSTER_OK;
}

static void keep_initial_is_0_or_1(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    assert_ok(run_body(runtime, options_body, open_server(runtime, MUSTER_F32, 1)));
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_goes_as_in_the_simulation),
        cmocka_unit_test(the_first_integration_does_not_undo_the_steps_before_the_start),
        cmocka_unit_test(the_others_wait_for_the_first),
        cmocka_unit_test(a_first_worker_that_never_comes_is_a_timeout),
        cmocka_unit_test(a_first_worker_that_returns_too_early_is_an_error_at_once),
        cmocka_unit_test(a_first_worker_that_fails_ends_the_waits),
        cmocka_unit_test(a_server_starts_once),
        cmocka_unit_test(the_first_group_is_that_of_rank_0),
        cmocka_unit_test(a_start_that_was_left_out_is_made_up_for),
        cmocka_unit_test(a_first_worker_without_rows_is_an_error_at_once),
        cmocka_unit_test(keep_initial_is_0_or_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
