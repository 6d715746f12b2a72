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
    muster_tensor parameter = muster_worker_scratch(w, MUSTER_I64, 1, (const int64_t[]){5}),
                  gradient = muster_worker_scratch(w, MUSTER_I64, 1, (const int64_t[]){5});
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
    muster_tensor parameter = muster_worker_scratch(w, MUSTER_F16, 1, (const int64_t[]){5}),
                  gradient = muster_worker_scratch(w, MUSTER_F16, 1, (const int64_t[]){5});
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
