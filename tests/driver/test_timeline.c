/* When a driver fetches, integrates and sends: the documented steps, made-up steps, and parts that
 * a program replaces. */
#include "driver_fixture.h"

enum { LOG = 4096 };
typedef muster_status (*create_function)(muster_worker *, muster_server *, const muster_driver_options *, muster_driver **);

typedef struct trace {
    muster_server *server;
    create_function create;
    muster_driver_options options;
    const int64_t *steps; /* the steps that are called, ended by -1; NULL: all from 0 to `last` */
    int64_t last;
    char log[WORKERS][LOG];
    muster_driver_counts counts[WORKERS];
} trace;

static char *log_of(void *user, muster_worker *w) { return ((trace *)user)->log[muster_worker_rank(w)]; }

static void note(char *log, char what, int64_t step) {
    const size_t length = strlen(log);
    snprintf(log + length, LOG - length, "%s%c%lld", length ? " " : "", what, (long long)step);
}

static muster_status fetch(muster_driver *driver, muster_worker *w, int64_t step, void *user) {
    note(log_of(user, w), 'F', step);
    return muster_driver_default_fetch(driver, w);
}

static muster_status integrate(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters, int32_t count,
                               void *user) {
    note(log_of(user, w), 'I', step);
    return muster_driver_default_integrate(driver, w, parameters, count);
}

static muster_status send(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                          const muster_tensor *gradients, int32_t count, void *user) {
    (void)parameters, (void)gradients;
    MUST(count == VALUES);
    note(log_of(user, w), 'S', step);
    return muster_driver_default_send(driver, w);
}

static muster_status trace_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    trace *t = user;
    muster_driver_options options = t->options;
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver *driver;
    options.parts = (muster_driver_parts){fetch, integrate, send, user};
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 1, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, gradients));
    MUSTER_TRY(t->create(w, t->server, &options, &driver));
    for (int64_t i = 0; t->steps ? t->steps[i] >= 0 : i <= t->last; i++) {
        const int64_t step = t->steps ? t->steps[i] : i;
        const size_t before = strlen(log_of(user, w));
        int32_t integrated = -1;
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, &integrated));
        MUST(integrated == (strchr(log_of(user, w) + before, 'I') != NULL));
    }
    muster_driver_counts_init(&t->counts[muster_worker_rank(w)]);
    MUSTER_TRY(muster_driver_get_counts(driver, &t->counts[muster_worker_rank(w)]));
    return muster_driver_destroy(driver);
}

static int64_t count_of(const char *log, char what) {
    int64_t count = 0;
    for (; *log; log++) count += *log == what;
    return count;
}

static void expect_trace(create_function create, muster_driver_options options, const int64_t *steps, int64_t last, const char *expected) {
    for_each_backend(backend) {
        trace *t = calloc(1, sizeof *t);
        muster_runtime *runtime = fixture_open(backend, 2);
        assert_non_null(t);
        *t = (trace){.server = open_server(runtime, MUSTER_F32, 1), .create = create, .options = options, .steps = steps, .last = last};
        assert_ok(run_body(runtime, trace_body, t));
        for (int r = 0; r < 2; r++) {
            assert_string_equal(t->log[r], expected);
            assert_int_equal(t->counts[r].fetches, count_of(expected, 'F'));
            assert_int_equal(t->counts[r].integrations, count_of(expected, 'I'));
            assert_int_equal(t->counts[r].sends, count_of(expected, 'S'));
        }
        assert_ok(muster_server_destroy(t->server));
        fixture_close(runtime);
        free(t);
    }
}

static void the_defaults_are_the_documented_ones(void **unused) {
    (void)unused;
    muster_driver_options o;
    memset(&o, 0x5A, sizeof o);
    muster_driver_options_init(&o);
    assert_memory_equal(&o, &(muster_driver_options){.struct_size = sizeof o}, sizeof o);
    muster_driver_options_init(NULL);
    char sends[LOG] = "";
    for (int64_t step = 101; step < 125; step++) note(sends, 'S', step);
    snprintf(sends + strlen(sends), 32, " F125 I125 S125 S126");
    expect_trace(muster_downpour_create, o, NULL, 126, sends);
    expect_trace(muster_easgd_create, o, NULL, 150, "F125 I125 S125 F150 I150 S150");
}

static void a_negative_delay_is_none(void **unused) {
    (void)unused;
    muster_driver_options o = {.struct_size = sizeof o, .update_frequency = 3, .init_delay = -1};
    expect_trace(muster_driver_create, o, NULL, 6, "S1 S2 F3 I3 S3 S4 S5 F6 I6 S6");
    o.init_delay = INT64_MIN;
    expect_trace(muster_easgd_create, o, NULL, 3, "F3 I3 S3");
}

static void downpour_sends_each_step_after_the_delay(void **unused) {
    (void)unused;
    expect_trace(muster_downpour_create, make_options(10, 100, 0, 1), NULL, 112,
                 "S101 S102 S103 S104 S105 S106 S107 S108 S109 F110 I110 S110 S111 S112");
}

static void downpour_fetches_half_a_period_before_it_integrates(void **unused) {
    (void)unused;
    expect_trace(muster_downpour_create, make_options(50, 20, 25, 25), NULL, 170, "F45 S45 I70 S70 F95 S95 I120 S120 F145 S145 I170 S170");
}

static void easgd_sends_when_it_integrates(void **unused) {
    (void)unused;
    expect_trace(muster_easgd_create, make_options(10, 50, 3, 1), NULL, 80, "F57 I60 S60 F67 I70 S70 F77 I80 S80");
    expect_trace(muster_easgd_create, make_options(50, 20, 25, 1), NULL, 170, "F45 I70 S70 F95 I120 S120 F145 I170 S170");
}

static void a_whole_period_of_prefetch_begins_at_the_delay(void **unused) {
    (void)unused;
    expect_trace(muster_downpour_create, make_options(10, 5, 10, 1), NULL, 16, "F5 S6 S7 S8 S9 S10 S11 S12 S13 S14 F15 I15 S15 S16");
    expect_trace(muster_easgd_create, make_options(10, 5, 10, 1), NULL, 36, "F5 F15 I15 S15 F25 I25 S25 F35 I35 S35");
}

static void every_frequency_may_be_one_and_the_delay_nothing(void **unused) {
    (void)unused;
    expect_trace(muster_downpour_create, make_options(1, 0, 0, 1), NULL, 2, "F1 I1 S1 F2 I2 S2");
    expect_trace(muster_easgd_create, make_options(1, 0, 1, 1), NULL, 2, "F0 F1 I1 S1 F2 I2 S2");
}

static void a_base_driver_calls_the_send_of_the_program(void **unused) {
    (void)unused;
    expect_trace(muster_driver_create, make_options(4, 2, 1, 3), NULL, 10, "F5 S5 I6 S8 F9 I10");
}

static void nothing_happens_up_to_the_delay_nor_ever_where_it_has_no_end(void **unused) {
    (void)unused;
    expect_trace(muster_downpour_create, make_options(1, 40, 0, 1), NULL, 40, "");
    expect_trace(muster_downpour_create, make_options(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX), NULL, 5, "");
}

/* ---- steps that are left out ---- */

static void what_was_due_happens_once_at_the_next_call(void **unused) {
    (void)unused;
    const int64_t steps[] = {0, 8, 31, 32, 34, 35, -1};
    expect_trace(muster_easgd_create, make_options(10, 5, 3, 1), steps, 0, "F31 I31 S31 F32 I35 S35");
}

static void a_late_integration_is_followed_by_the_fetch_that_is_due(void **unused) {
    (void)unused;
    const int64_t steps[] = {8, 33, 34, 35, 42, -1};
    expect_trace(muster_easgd_create, make_options(10, 5, 3, 1), steps, 0, "F33 I33 F33 S33 I35 S35 F42");
}

static void a_whole_period_of_prefetch_is_made_up_for(void **unused) {
    (void)unused;
    const int64_t steps[] = {8, 33, 34, 35, -1};
    expect_trace(muster_easgd_create, make_options(10, 5, 10, 1), steps, 0, "F8 F33 I33 S33 F35 I35 S35");
    const int64_t late[] = {33, 35, -1};
    expect_trace(muster_easgd_create, make_options(10, 5, 10, 1), late, 0, "F33 F33 I33 S33 F35 I35 S35");
}

static void downpour_makes_up_for_sends(void **unused) {
    (void)unused;
    const int64_t steps[] = {1, 4, 5, 20, 21, 22, 23, -1};
    expect_trace(muster_downpour_create, make_options(100, 0, 0, 3), steps, 0, "S4 S20 S21");
}

static void the_same_step_again_does_nothing_more(void **unused) {
    (void)unused;
    const int64_t steps[] = {0, 1, 1, 2, 2, 2, 3, -1};
    expect_trace(muster_downpour_create, make_options(2, 0, 0, 1), steps, 0, "S1 F2 I2 S2 S3");
}

/* ---- how old what is integrated is ---- */

/* The worker writes the number of each step to the server before it calls the driver, so that what
 * was fetched tells its step. */
static muster_status age_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    trace *t = user;
    const int64_t p = t->options.prefetch;
    muster_tensor parameters[VALUES], stamp[VALUES];
    muster_driver *driver;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, -1, 0, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, -1, 0, stamp));
    MUSTER_TRY(t->create(w, t->server, &t->options, &driver));
    for (int64_t step = 0; step <= t->last; step++) {
        int32_t integrated;
        double number;
        for (int32_t i = 0; i < VALUES; i++) {
            MUSTER_TRY(muster_fill(w, (double)step, stamp[i]));
            MUSTER_TRY(muster_client_send(muster_driver_client(driver), i, MUSTER_RULE_COPY, 1, stamp[i], 0, NULL));
        }
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, NULL, VALUES, &integrated));
        for (int32_t i = 0; integrated && i < VALUES; i++) {
            MUSTER_TRY(full_of(w, parameters[i], &number));
            MUST(number == (double)(step - p));
            muster_tensor fetched;
            MUSTER_TRY(muster_driver_fetched(driver, i, &fetched));
            MUST(((const float *)muster_tensor_address(fetched))[0] == (float)(step - p));
        }
        t->counts[0].integrations += integrated;
    }
    return muster_driver_destroy(driver);
}

static void what_is_integrated_is_as_old_as_the_prefetch(void **unused) {
    (void)unused;
    const int64_t prefetches[] = {0, 1, 3, 9, 10};
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        for (int i = 0; i < 5; i++) {
            trace *t = calloc(1, sizeof *t);
            assert_non_null(t);
            *t = (trace){.server = open_server(runtime, MUSTER_F32, 0),
                         .create = muster_driver_create,
                         .options = make_options(10, 5, prefetches[i], 1),
                         .last = 45};
            assert_ok(run_body(runtime, age_body, t));
            assert_int_equal(t->counts[0].integrations, 4);
            assert_ok(muster_server_destroy(t->server));
            free(t);
        }
        fixture_close(runtime);
    }
}

/* ---- replaced parts ---- */

static muster_status fetch_sevens(muster_driver *driver, muster_worker *w, int64_t step, void *user) {
    (void)w, (void)step, (void)user;
    for (int32_t i = 0; i < VALUES; i++) {
        muster_tensor to;
        MUSTER_TRY(muster_driver_fetched(driver, i, &to));
        for (int64_t j = 0; j < muster_tensor_count(to); j++) ((float *)muster_tensor_address(to))[j] = 7;
    }
    return MUSTER_OK;
}

static muster_status add_fetched(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters, int32_t count,
                                 void *user) {
    (void)step, (void)user;
    for (int32_t i = 0; i < count; i++) {
        muster_tensor came;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, parameters[i].ndim, parameters[i].shape, &came));
        muster_tensor fetched;
        MUSTER_TRY(muster_driver_fetched(driver, i, &fetched));
        MUSTER_TRY(muster_worker_write(w, fetched, came));
        MUSTER_TRY(muster_axpy(w, 1, came, parameters[i]));
    }
    return MUSTER_OK;
}

static muster_status send_outgoing(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                   const muster_tensor *gradients, int32_t count, void *user) {
    (void)w, (void)step, (void)parameters, (void)gradients, (void)user;
    for (int32_t i = 0; i < count; i++) {
        muster_tensor outgoing;
        MUSTER_TRY(muster_driver_outgoing(driver, i, &outgoing));
        MUSTER_TRY(muster_client_send(muster_driver_client(driver), i, MUSTER_RULE_COPY, 1, outgoing, 0, NULL));
    }
    return MUSTER_OK;
}

static muster_status replaced_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver_options options = make_options(2, 0, 0, 3);
    muster_driver *driver;
    double number;
    options.parts = (muster_driver_parts){fetch_sevens, add_fetched, send_outgoing, NULL};
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 100, 1, parameters));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 5, 1, gradients));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    for (int64_t step = 0; step <= 6; step++) MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, NULL));
    for (int32_t i = 0; i < VALUES; i++) {
        MUSTER_TRY(full_of(w, parameters[i], &number));
        MUST(number == 100 + i + 3 * 7); /* at steps 2, 4 and 6 */
    }
    return muster_driver_destroy(driver);
}

static void all_parts_can_be_the_programs_own(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        muster_server *server = open_server(runtime, MUSTER_F32, 0);
        assert_ok(run_body(runtime, replaced_body, server));
        for (int32_t i = 0; i < VALUES; i++)
            assert_true(server_value(server, MUSTER_F32, i) == 3 * (5 + i)); /* three gradients in each send */
        fixture_close(runtime);
    }
}

static muster_status own_outside_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_tensor parameters[VALUES];
    muster_driver *driver;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, parameters));
    MUSTER_TRY(muster_easgd_create(w, user, NULL, &driver));
    MUST_REFUSE(muster_driver_default_fetch(driver, w), MUSTER_BAD_STATE, "called outside the part that replaces it");
    MUST_REFUSE(muster_driver_default_integrate(driver, w, parameters, VALUES), MUSTER_BAD_STATE,
                "called outside the part that replaces it");
    MUST_REFUSE(muster_driver_default_send(driver, w), MUSTER_BAD_STATE, "called outside the part that replaces it");
    MUST_REFUSE(muster_driver_default_fetch(NULL, w), MUSTER_INVALID_ARGUMENT, "muster_driver_default_fetch: driver: expected a driver");
    MUST_REFUSE(muster_driver_default_send(driver, NULL), MUSTER_INVALID_ARGUMENT, "muster_driver_default_send: worker: expected");
    return muster_driver_destroy(driver);
}

static void own_parts_are_refused_outside_parts(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    assert_ok(run_body(runtime, own_outside_body, open_server(runtime, MUSTER_F32, 0)));
    fixture_close(runtime);
}

static muster_status nested_fetch(muster_driver *driver, muster_worker *w, int64_t step, void *user) {
    MUST_REFUSE(muster_driver_step(driver, w, step, user, NULL, VALUES, NULL), MUSTER_BAD_STATE,
                "driver: called inside one of its own parts");
    MUST_REFUSE(muster_driver_destroy(driver), MUSTER_BAD_STATE, "driver: called inside one of its own parts");
    MUST_REFUSE(muster_driver_default_send(driver, w), MUSTER_BAD_STATE, "called outside the part that replaces it");
    return muster_driver_default_fetch(driver, w);
}

static muster_status nested_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_tensor parameters[VALUES];
    muster_driver_options options = make_options(1, 0, 0, 1);
    muster_driver *driver;
    options.parts = (muster_driver_parts){.fetch = nested_fetch, .user = parameters};
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, parameters));
    MUSTER_TRY(muster_driver_create(w, user, &options, &driver));
    MUSTER_TRY(muster_driver_step(driver, w, 1, parameters, NULL, VALUES, NULL));
    return muster_driver_destroy(driver);
}

static void a_part_cannot_call_the_step_that_it_is_in(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    assert_ok(run_body(runtime, nested_body, open_server(runtime, MUSTER_F32, 0)));
    fixture_close(runtime);
}

static muster_status integrate_nothing(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                       int32_t count, void *user) {
    (void)driver, (void)w, (void)step, (void)parameters, (void)count, (void)user;
    return MUSTER_OK;
}

static muster_status no_difference_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_tensor parameters[VALUES];
    muster_driver_options options = make_options(1, 0, 0, 1);
    muster_driver *driver;
    options.parts.integrate = integrate_nothing;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, parameters));
    MUSTER_TRY(muster_easgd_create(w, user, &options, &driver));
    MUST_REFUSE(muster_driver_step(driver, w, 1, parameters, NULL, VALUES, NULL), MUSTER_BAD_STATE, "expected its own integrate before it");
    return muster_driver_destroy(driver);
}

static void easgds_own_send_wants_its_own_integrate(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    muster_server *server = open_server(runtime, MUSTER_F32, 3);
    assert_ok(run_body(runtime, no_difference_body, server));
    assert_true(server_value(server, MUSTER_F32, 0) == 3);
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_the_documented_ones),
        cmocka_unit_test(a_negative_delay_is_none),
        cmocka_unit_test(downpour_sends_each_step_after_the_delay),
        cmocka_unit_test(downpour_fetches_half_a_period_before_it_integrates),
        cmocka_unit_test(easgd_sends_when_it_integrates),
        cmocka_unit_test(a_whole_period_of_prefetch_begins_at_the_delay),
        cmocka_unit_test(every_frequency_may_be_one_and_the_delay_nothing),
        cmocka_unit_test(a_base_driver_calls_the_send_of_the_program),
        cmocka_unit_test(nothing_happens_up_to_the_delay_nor_ever_where_it_has_no_end),
        cmocka_unit_test(what_was_due_happens_once_at_the_next_call),
        cmocka_unit_test(a_late_integration_is_followed_by_the_fetch_that_is_due),
        cmocka_unit_test(a_whole_period_of_prefetch_is_made_up_for),
        cmocka_unit_test(downpour_makes_up_for_sends),
        cmocka_unit_test(the_same_step_again_does_nothing_more),
        cmocka_unit_test(what_is_integrated_is_as_old_as_the_prefetch),
        cmocka_unit_test(all_parts_can_be_the_programs_own),
        cmocka_unit_test(own_parts_are_refused_outside_parts),
        cmocka_unit_test(a_part_cannot_call_the_step_that_it_is_in),
        cmocka_unit_test(easgds_own_send_wants_its_own_integrate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
