/* Downpour: what the server receives, and what the workers get back. */
#include "driver_fixture.h"

typedef struct downpour {
    muster_server *server;
    muster_dtype dtype;
    int64_t send_frequency, prefetch;
    bool plain; /* no local_update */
} downpour;

static const double rate = 0.125;
enum { DELAY = 7, STEPS = 20, START = 40 };

static muster_status times_rate(muster_worker *w, int32_t index, muster_tensor accumulated, void *user) {
    MUST(index >= 0 && index < VALUES && user == NULL);
    return muster_scale_add(w, -rate, accumulated, 0, accumulated);
}

/* The gradient of rank r is r + 1, also before the delay, when it must not count. */
static muster_status constant_gradient(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const downpour *d = user;
    muster_driver_options options = make_options(5, DELAY, d->prefetch, d->send_frequency);
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver *driver;
    if (!d->plain) options.local_update = times_rate;
    MUSTER_TRY(make_tensors(w, d->dtype, START, 1, parameters));
    MUSTER_TRY(make_tensors(w, d->dtype, muster_worker_rank(w) + 1, 0, gradients));
    MUSTER_TRY(muster_downpour_create(w, d->server, &options, &driver));
    for (int64_t step = 0; step <= DELAY + STEPS; step++)
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, NULL));
    return muster_driver_destroy(driver);
}

static void expect_server(int n, downpour d, double expected) {
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, n);
        d.server = open_server(runtime, d.dtype, START);
        assert_ok(run_body(runtime, constant_gradient, &d));
        for (int32_t i = 0; i < VALUES; i++) assert_true(server_value(d.server, d.dtype, i) == START + i + expected);
        fixture_close(runtime);
    }
}

static void the_server_moves_by_the_sum_of_all_gradients_times_the_rate(void **unused) {
    (void)unused;
    const int64_t frequencies[] = {1, 2, 4, 5, 10, 20};
    for_each_count(n) {
        for_each_dtype(dtype) {
            const double sum = n * (n + 1) / 2.0; /* for n = 4: 10, so that the server moves by -25 */
            expect_server(n, (downpour){.dtype = dtype, .send_frequency = frequencies[(n + dtype) % 6]}, -rate * STEPS * sum);
        }
    }
}

static void any_frequency_that_divides_the_steps_sends_the_same(void **unused) {
    (void)unused;
    const int64_t frequencies[] = {1, 2, 4, 5, 10, 20};
    for (int i = 0; i < 6; i++) expect_server(4, (downpour){.dtype = MUSTER_F32, .send_frequency = frequencies[i], .prefetch = i % 6}, -25);
}

static void what_is_left_of_a_period_is_not_sent(void **unused) {
    (void)unused;
    for_each_dtype(dtype) expect_server(4, (downpour){.dtype = dtype, .send_frequency = 3}, -22.5); /* 18 steps */
}

static void without_a_local_update_gradients_are_subtracted(void **unused) {
    (void)unused;
    for_each_dtype(dtype) expect_server(3, (downpour){.dtype = dtype, .send_frequency = 5, .plain = true}, -STEPS * 6);
}

/* ---- one driver, looked at step by step ---- */

/* Gradient of step t: 2 to the power t, so that a sum tells its steps. */
static muster_status which_steps(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(100, 2, 0, 3);
    muster_tensor parameters[VALUES], gradients[VALUES], now[VALUES];
    muster_driver *driver;
    double number;
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 0, 0, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 0, 0, gradients));
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 0, 0, now));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    for (int64_t step = 0; step <= 8; step++) {
        for (int32_t i = 0; i < VALUES; i++) MUSTER_TRY(muster_fill(w, (double)(1 << step), gradients[i]));
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, NULL));
        for (int32_t i = 0; i < VALUES; i++) {
            const double first = 8 + 16 + 32, second = 64 + 128 + 256;
            MUSTER_TRY(muster_client_receive(muster_driver_client(driver), i, now[i], NULL));
            MUSTER_TRY(full_of(w, now[i], &number));
            MUST(number == i - (step < 5 ? 0 : step < 8 ? first : first + second));
        }
    }
    return muster_driver_destroy(driver);
}

static void the_first_send_holds_the_gradients_since_the_delay(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        assert_ok(run_body(runtime, which_steps, open_server(runtime, MUSTER_F64, 0)));
        fixture_close(runtime);
    }
}

/* Sends are not waited for before the next step; their memory must be left alone all the same: each
 * gradient arrives once, and whole. */
static muster_status local_steps(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(4, 0, 0, 1);
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver *driver;
    int32_t integrated;
    double number;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1000, 1, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 0, gradients));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    for (int64_t step = 0; step <= 40; step++) {
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, &integrated));
        for (int32_t i = 0; i < VALUES; i++) {
            MUSTER_TRY(full_of(w, parameters[i], &number));
            if (integrated) MUST(number == i - (double)(step - 1)); /* what it has sent so far: all but this step's */
            MUSTER_TRY(muster_fill(w, (double)step, gradients[i])); /* the gradients are the body's own again */
            MUSTER_TRY(muster_fill(w, 1, gradients[i]));
        }
    }
    return muster_driver_destroy(driver);
}

static void with_no_prefetch_a_worker_gets_all_that_it_has_sent(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        assert_ok(run_body(runtime, local_steps, open_server(runtime, MUSTER_F32, 0)));
        fixture_close(runtime);
    }
}

/* ---- other dtypes ---- */

static muster_status whole_numbers(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(2, 0, 0, 2);
    muster_tensor parameter, gradient;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 1, (const int64_t[]){5}, &parameter));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 1, (const int64_t[]){5}, &gradient));
    muster_driver *driver;
    MUSTER_TRY(muster_fill(w, 0, parameter));
    MUSTER_TRY(muster_fill(w, muster_worker_rank(w) + 1, gradient));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    for (int64_t step = 0; step <= 10; step++) MUSTER_TRY(muster_driver_step(driver, w, step, &parameter, &gradient, 1, NULL));
    return muster_driver_destroy(driver);
}

static void whole_numbers_are_subtracted_too(void **unused) {
    (void)unused;
    int64_t first[5] = {1000, 1000, 1000, 1000, 1000}, last[5];
    muster_server *server;
    muster_client *client;
    muster_runtime *runtime = fixture_open("host", 2);
    assert_ok(muster_server_create(runtime, "server", (muster_tensor[]){muster_i64(first, 5)}, 1, NULL, &server));
    assert_ok(run_body(runtime, whole_numbers, server));
    assert_ok(muster_client_open(server, &client));
    assert_ok(muster_client_receive(client, 0, muster_i64(last, 5), NULL));
    assert_ok(muster_client_close(client));
    for (int i = 0; i < 5; i++) assert_int_equal(last[i], 1000 - 10 * 3);
    fixture_close(runtime);
}

static muster_status halves(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(2, 0, 0, 2);
    muster_tensor parameter, gradient;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F16, 1, (const int64_t[]){5}, &parameter));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F16, 1, (const int64_t[]){5}, &gradient));
    muster_driver *driver;
    MUSTER_TRY(muster_fill(w, 0, parameter));
    MUSTER_TRY(muster_fill(w, 0.5, gradient));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    for (int64_t step = 0; step <= 10; step++) MUSTER_TRY(muster_driver_step(driver, w, step, &parameter, &gradient, 1, NULL));
    return muster_driver_destroy(driver);
}

static void f16_goes_through(void **unused) {
    (void)unused;
    uint16_t first[5], last[5];
    muster_server *server;
    muster_client *client;
    muster_runtime *runtime = fixture_open("host", 2);
    for (int i = 0; i < 5; i++) first[i] = muster_f32_to_f16(100);
    const muster_tensor value = muster_tensor_make(MUSTER_F16, first, 1, (const int64_t[]){5});
    assert_ok(muster_server_create(runtime, "server", &value, 1, NULL, &server));
    assert_ok(run_body(runtime, halves, server));
    assert_ok(muster_client_open(server, &client));
    assert_ok(muster_client_receive(client, 0, muster_tensor_make(MUSTER_F16, last, 1, (const int64_t[]){5}), NULL));
    assert_ok(muster_client_close(client));
    for (int i = 0; i < 5; i++) assert_true(muster_f16_to_f32(last[i]) == 90);
    fixture_close(runtime);
}

/* ---- f16 and bf16 are accumulated in f32 ---- */

typedef struct narrow {
    muster_server *server;
    muster_dtype dtype;
    double first, later; /* the gradient of step 1, and of each later one */
} narrow;

static muster_status sixteenth(muster_worker *w, int32_t index, muster_tensor accumulated, void *user) {
    (void)index, (void)user;
    MUST(accumulated.dtype == MUSTER_F32);
    return muster_scale_add(w, 1.0 / 16, accumulated, 0, accumulated);
}

static muster_status narrow_gradients(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const narrow *n = user;
    muster_driver_options options = make_options(100, 0, 0, 17);
    options.local_update = sixteenth;
    muster_tensor parameter, gradient;
    MUSTER_TRY(muster_worker_scratch(w, n->dtype, 1, (const int64_t[]){5}, &parameter));
    MUSTER_TRY(muster_worker_scratch(w, n->dtype, 1, (const int64_t[]){5}, &gradient));
    muster_driver *driver;
    MUSTER_TRY(muster_fill(w, 0, parameter));
    MUSTER_TRY(muster_downpour_create(w, n->server, &options, &driver));
    for (int64_t step = 0; step <= 17; step++) {
        MUSTER_TRY(muster_fill(w, step == 1 ? n->first : n->later, gradient));
        MUSTER_TRY(muster_driver_step(driver, w, step, &parameter, &gradient, 1, NULL));
    }
    return muster_driver_destroy(driver);
}

/* A sum in the dtype itself would stay at its first gradient, which the later ones do not move, or
 * would overflow. */
static void halves_are_accumulated_in_f32(void **unused) {
    (void)unused;
    const narrow cases[] = {{.dtype = MUSTER_F16, .first = 2048, .later = 1},
                            {.dtype = MUSTER_BF16, .first = 256, .later = 1},
                            {.dtype = MUSTER_F16, .first = 60000, .later = 4002}};
    const float expected[] = {(2048 + 16) / 16, (256 + 16) / 16, (60000 + 16 * 4002) / 16};
    for_each_backend(backend) {
        for (int c = 0; c < 3; c++) {
            uint16_t first[5] = {0}, last[5];
            muster_client *client;
            muster_runtime *runtime = fixture_open(backend, 1);
            narrow n = cases[c];
            const muster_tensor value = muster_tensor_make(n.dtype, first, 1, (const int64_t[]){5});
            assert_ok(muster_server_create(runtime, "server", &value, 1, NULL, &n.server));
            assert_ok(run_body(runtime, narrow_gradients, &n));
            assert_ok(muster_client_open(n.server, &client));
            assert_ok(muster_client_receive(client, 0, muster_tensor_make(n.dtype, last, 1, (const int64_t[]){5}), NULL));
            assert_ok(muster_client_close(client));
            for (int i = 0; i < 5; i++)
                assert_true((n.dtype == MUSTER_F16 ? muster_f16_to_f32(last[i]) : muster_bf16_to_f32(last[i])) == expected[c]);
            fixture_close(runtime);
        }
    }
}

/* ---- flush ---- */

static int flushed_parts; /* calls of the replaced send without parameters: by flush */

static muster_status send_and_count(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                    const muster_tensor *gradients, int32_t count, void *user) {
    (void)step, (void)user;
    MUST(count == VALUES && (parameters == NULL) == (gradients == NULL));
    flushed_parts += parameters == NULL;
    MUST_REFUSE(muster_driver_flush(driver, w), MUSTER_BAD_STATE, "muster_driver_flush: driver: called inside one of its own parts");
    return muster_driver_default_send(driver, w);
}

static muster_status expect_values(muster_worker *w, muster_driver *driver, muster_tensor now[VALUES], double expected) {
    for (int32_t i = 0; i < VALUES; i++) {
        double number;
        MUSTER_TRY(muster_client_receive(muster_driver_client(driver), i, now[i], NULL));
        MUSTER_TRY(full_of(w, now[i], &number));
        MUST(number == i + expected);
    }
    return MUSTER_OK;
}

/* So many sends of each value have been applied; no wait of this function brings that about. */
static muster_status expect_applied(muster_server *server, int64_t sends) {
    muster_server_statistics statistics;
    muster_server_statistics_init(&statistics);
    MUSTER_TRY(muster_server_get_statistics(server, &statistics));
    MUST(statistics.sends == sends * VALUES);
    return MUSTER_OK;
}

/* Sends are due at steps 5 and 8; the gradient is 1. */
static muster_status flushing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(100, 2, 0, 3);
    muster_tensor parameters[VALUES], gradients[VALUES], now[VALUES];
    muster_driver *driver;
    options.parts.send = send_and_count;
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 0, 0, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 1, 0, gradients));
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 0, 0, now));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    const double expected[] = {0, 0, 0, 0, 0, -3, -4, -4, -6, -6, -6}; /* after the flushes of steps 1 and 6, which do not move step 8 */
    for (int64_t step = 0; step <= 10; step++) {
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, NULL));
        for (int again = 0; again < 2 && (step == 1 || step == 6); again++) MUSTER_TRY(muster_driver_flush(driver, w));
        if (step == 6) MUSTER_TRY(expect_applied(user, 2));
        MUSTER_TRY(expect_values(w, driver, now, expected[step]));
    }
    MUSTER_TRY(muster_driver_flush(driver, w));
    MUSTER_TRY(expect_applied(user, 4));
    MUSTER_TRY(expect_values(w, driver, now, -8));
    MUST(flushed_parts == 2);
    MUST_REFUSE(muster_driver_flush(NULL, w), MUSTER_INVALID_ARGUMENT, "muster_driver_flush: driver: expected a driver");
    MUST_REFUSE(muster_driver_flush(driver, NULL), MUSTER_INVALID_ARGUMENT, "muster_driver_flush: worker: expected the worker of rank 0");
    return muster_driver_destroy(driver);
}

/* The messages name the function that the program called. */
static muster_status fail_silently(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                   const muster_tensor *gradients, int32_t count, void *user) {
    (void)driver, (void)w, (void)step, (void)parameters, (void)gradients, (void)count, (void)user;
    return MUSTER_USER;
}

static muster_status failing_flush(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(100, 0, 0, 2);
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver *driver;
    options.parts.send = fail_silently;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 0, gradients));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    MUSTER_TRY(muster_driver_step(driver, w, 1, parameters, gradients, VALUES, NULL));
    MUST_REFUSE(muster_driver_flush(driver, w), MUSTER_USER, "muster_driver_flush: send failed with USER and gave no reason");
    MUST_REFUSE(muster_driver_step(driver, w, 2, parameters, gradients, VALUES, NULL), MUSTER_USER,
                "muster_driver_step: send failed with USER and gave no reason");
    return muster_driver_destroy(driver);
}

static void messages_name_the_function_that_was_called(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    assert_ok(run_body(runtime, failing_flush, open_server(runtime, MUSTER_F32, 0)));
    fixture_close(runtime);
}

static void flush_sends_what_no_send_was_due_for(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        flushed_parts = 0;
        assert_ok(run_body(runtime, flushing, open_server(runtime, MUSTER_F64, 0)));
        fixture_close(runtime);
    }
}

/* ---- a driver that ends after its runtime ---- */

typedef struct left_over {
    muster_server *server;
    muster_driver *drivers[WORKERS];
} left_over;

static muster_status leave_sends(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    left_over *l = user;
    const muster_driver_options options = make_options(5, 0, 0, 1);
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver **driver = &l->drivers[muster_worker_rank(w)];
    MUSTER_TRY(make_tensors(w, MUSTER_F32, START, 1, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 0, gradients));
    MUSTER_TRY(muster_downpour_create(w, l->server, &options, driver));
    for (int64_t step = 0; step < 3; step++) MUSTER_TRY(muster_driver_step(*driver, w, step, parameters, gradients, VALUES, NULL));
    return MUSTER_OK;
}

/* Threads of the server apply the sends, whose handles the drivers keep until their end. On GPUs
 * the sends have gone through memory that the runtime has given back. */
static void a_driver_with_sends_ends_after_its_runtime(void **unused) {
    (void)unused;
    const int64_t blocks = mst_memory_live();
    muster_runtime *runtime = fixture_open("host", 2);
    float value[MOST] = {0};
    const muster_tensor values[VALUES] = {muster_f32(value, MOST), muster_f32(value, 1), muster_f32(value, 6)};
    muster_server_options options;
    left_over l = {0};
    muster_server_options_init(&options);
    options.progress = 1;
    assert_ok(muster_server_create(runtime, "server", values, VALUES, &options, &l.server));
    assert_ok(run_body(runtime, leave_sends, &l));
    assert_ok(muster_runtime_close(runtime));
    for (int32_t r = 0; r < 2; r++) assert_ok(muster_driver_destroy(l.drivers[r]));
    assert_int_equal(mst_memory_live(), blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_server_moves_by_the_sum_of_all_gradients_times_the_rate),
        cmocka_unit_test(any_frequency_that_divides_the_steps_sends_the_same),
        cmocka_unit_test(what_is_left_of_a_period_is_not_sent),
        cmocka_unit_test(without_a_local_update_gradients_are_subtracted),
        cmocka_unit_test(the_first_send_holds_the_gradients_since_the_delay),
        cmocka_unit_test(with_no_prefetch_a_worker_gets_all_that_it_has_sent),
        cmocka_unit_test(whole_numbers_are_subtracted_too),
        cmocka_unit_test(f16_goes_through),
        cmocka_unit_test(halves_are_accumulated_in_f32),
        cmocka_unit_test(flush_sends_what_no_send_was_due_for),
        cmocka_unit_test(messages_name_the_function_that_was_called),
        cmocka_unit_test(a_driver_with_sends_ends_after_its_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
