/* Elastic averaging: the formula, the invariant, and the formulation with an all-reduce. */
#include "driver_fixture.h"

enum { ROUNDS = 10 };

typedef struct easgd {
    muster_server *server;
    muster_dtype dtype;
    double beta;
    double x[WORKERS]; /* the worker's parameters at the end, of value 0 */
    bool apart;        /* ... of which each element goes its own way: all of them are in `all` */
    double all[WORKERS][MOST];
    double alpha;
    muster_status (*fetch)(muster_driver *, muster_worker *, int64_t, void *);
    int rounds;
    int64_t frequency, prefetch;
    bool in_turn;
} easgd;

/* Everybody has received before anybody goes on. */
static muster_status fetch_together(muster_driver *driver, muster_worker *w, int64_t step, void *user) {
    (void)step, (void)user;
    for (int32_t i = 0; i < VALUES; i++) {
        muster_tensor fetched;
        MUSTER_TRY(muster_driver_fetched(driver, i, &fetched));
        MUSTER_TRY(muster_client_receive(muster_driver_client(driver), i, fetched, NULL));
    }
    return muster_worker_barrier(w, NULL);
}

/* Worker r begins at r + 1, and nothing but the server moves it. */
static muster_status easgd_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    easgd *e = user;
    const int32_t rank = muster_worker_rank(w), size = muster_worker_size(w);
    muster_driver_options options = make_options(e->frequency, 0, e->prefetch, 1);
    muster_tensor parameters[VALUES], held[VALUES];
    muster_driver *driver;
    double number;
    options.beta = e->beta;
    options.parts.fetch = e->fetch;
    MUSTER_TRY(make_tensors(w, e->dtype, rank + 1, 1, parameters));
    MUSTER_TRY(make_tensors(w, e->dtype, 0, 0, held));
    MUSTER_TRY(muster_easgd_create(w, e->server, &options, &driver));
    if (rank == 0) e->alpha = muster_driver_alpha(driver);
    for (int64_t step = 0; step <= e->rounds * e->frequency; step++) {
        for (int32_t turn = 0; turn < (e->in_turn ? size : 1); turn++) {
            if (!e->in_turn || turn == rank) MUSTER_TRY(muster_driver_step(driver, w, step, parameters, NULL, VALUES, NULL));
            /* what has been received behind the own sends tells that these have been applied */
            for (int32_t i = 0; e->in_turn && i < VALUES; i++)
                MUSTER_TRY(muster_client_receive(muster_driver_client(driver), i, held[i], NULL));
            if (e->in_turn || e->fetch) MUSTER_TRY(muster_worker_barrier(w, NULL));
        }
    }
    if (e->apart) {
        double memory[MOST];
        MUSTER_TRY(muster_worker_read(w, parameters[0], muster_tensor_make(e->dtype, memory, 1, value_sizes)));
        for (int64_t j = 0; j < MOST; j++) e->all[rank][j] = element(e->dtype, memory, j);
    }
    for (int32_t i = 0; i < VALUES && !e->apart; i++) {
        MUSTER_TRY(full_of(w, parameters[i], &number));
        if (i == 0) e->x[rank] = number;
        /* the values differ by what they began with */
        MUST(fabs(number - i - e->x[rank]) < 1e-5 * (1 + fabs(number)));
    }
    return muster_driver_destroy(driver);
}

static muster_server *run_open(const char *backend, int n, easgd *e, muster_runtime **runtime) {
    *runtime = fixture_open(backend, n);
    e->server = open_server(*runtime, e->dtype, 0);
    assert_ok(run_body(*runtime, easgd_body, e));
    return e->server;
}

/* Returns what the server holds as value 0 in the end; it began at 0. */
static double run_easgd(const char *backend, int n, easgd *e) {
    muster_runtime *runtime;
    muster_server *server = run_open(backend, n, e, &runtime);
    const double centre = server_value(server, e->dtype, 0);
    for (int32_t i = 1; i < VALUES; i++) assert_true(fabs(server_value(server, e->dtype, i) - i - centre) < 1e-4);
    fixture_close(runtime);
    return centre;
}

static double tolerance(muster_dtype dtype) { return dtype == MUSTER_F32 ? 1e-5 : 1e-12; }
static bool near(double a, double b, muster_dtype dtype) { return fabs(a - b) <= tolerance(dtype) * (1 + fabs(b)); }

static void workers_and_server_are_drawn_to_each_other(void **unused) {
    (void)unused;
    for_each_backend(backend) for_each_count(n) for_each_dtype(dtype) {
        easgd e = {.dtype = dtype, .beta = 0.9, .fetch = fetch_together, .rounds = 1, .frequency = 1};
        const double centre = run_easgd(backend, n, &e), mean = (n + 1) / 2.0;
        /* for n = 4: 0.225, workers at 0.775, 1.55, 2.325 and 3.1, the server at 2.25 */
        assert_true(e.alpha == 0.9 / n);
        for (int r = 0; r < n; r++) assert_true(near(e.x[r], (1 - 0.9 / n) * (r + 1), dtype));
        assert_true(near(centre, 0.9 * mean, dtype));
    }
}

static void in_turn_each_worker_finds_what_the_others_left(void **unused) {
    (void)unused;
    for_each_count(n) for_each_dtype(dtype) {
        easgd e = {.dtype = dtype, .beta = 0.9, .rounds = ROUNDS, .frequency = 1, .in_turn = true};
        const double centre = run_easgd("host", n, &e), alpha = 0.9 / n;
        double c = 0, x[WORKERS];
        for (int r = 0; r < n; r++) x[r] = r + 1;
        for (int round = 0; round < ROUNDS; round++) {
            for (int r = 0; r < n; r++) {
                const double moved = alpha * (x[r] - c);
                x[r] -= moved;
                c += moved;
            }
        }
        assert_true(near(centre, c, dtype));
        for (int r = 0; r < n; r++) assert_true(near(e.x[r], x[r], dtype));
    }
}

static void expect_invariant(const char *backend, int n, muster_dtype dtype, int64_t prefetch) {
    static easgd e;
    static double memory[MOST];
    muster_runtime *runtime;
    muster_client *client;
    e = (easgd){.dtype = dtype, .beta = 0.9, .rounds = 40, .frequency = 2, .prefetch = prefetch, .apart = true};
    assert_ok(muster_client_open(run_open(backend, n, &e, &runtime), &client));
    assert_ok(muster_client_receive(client, 0, muster_tensor_make(dtype, memory, 1, value_sizes), NULL));
    assert_ok(muster_client_close(client));
    for (int64_t j = 0; j < MOST; j++) {
        double sum = element(dtype, memory, j);
        assert_true(prefetch > 0 || (sum > 0 && sum < n + 1));
        for (int r = 0; r < n; r++) sum += e.all[r][j];
        assert_true(near(sum, n * (n + 1) / 2.0, dtype));
    }
    fixture_close(runtime);
}

static void the_sum_of_server_and_workers_stays_in_any_order(void **unused) {
    (void)unused;
    for_each_backend(backend) for_each_count(n) for_each_dtype(dtype) expect_invariant(backend, n, dtype, (n + dtype) % 3);
    expect_invariant("host", 4, MUSTER_F64, 0);
}

static void with_beta_nothing_nothing_moves(void **unused) {
    (void)unused;
    easgd e = {.dtype = MUSTER_F64, .beta = -1, .rounds = ROUNDS, .frequency = 1};
    assert_true(run_easgd("host", 3, &e) == 0);
    assert_true(e.alpha == 0);
    for (int r = 0; r < 3; r++) assert_true(e.x[r] == r + 1);
}

static void beta_is_nine_tenths_where_none_is_given(void **unused) {
    (void)unused;
    easgd e = {.dtype = MUSTER_F64, .beta = 0, .fetch = fetch_together, .rounds = 1, .frequency = 1};
    run_easgd("host", 3, &e);
    assert_true(e.alpha == 0.9 / 3);
    for (int r = 0; r < 3; r++) assert_true(near(e.x[r], (1 - 0.9 / 3) * (r + 1), MUSTER_F64));
}

/* ---- against the all-reduce ---- */

typedef struct both {
    muster_server *server;
    muster_dtype dtype;
} both;

/* delta = alpha (x - c); x = x - delta; c = c + the sum of all deltas: everybody keeps a copy of
 * c. */
static muster_status reduced_step(muster_worker *w, double alpha, muster_tensor x, muster_tensor c, muster_tensor delta) {
    MUSTER_TRY(muster_copy(w, x, delta));
    MUSTER_TRY(muster_axpy(w, -1, c, delta));
    MUSTER_TRY(muster_axpy(w, -alpha, delta, x));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, delta, delta));
    return muster_axpy(w, alpha, delta, c);
}

/* The gradient of (x - r)^2 / 2. */
static muster_status descend(muster_worker *w, muster_tensor x, muster_tensor target) {
    MUSTER_TRY(muster_scale_add(w, 0.25, target, 0.75, x));
    return MUSTER_OK;
}

static muster_status both_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const both *b = user;
    const int32_t rank = muster_worker_rank(w), size = muster_worker_size(w);
    muster_driver_options options = make_options(1, 0, 0, 1);
    muster_tensor x[VALUES], y[VALUES], c[VALUES], delta[VALUES], target[VALUES], held[VALUES];
    muster_driver *driver;
    options.parts.fetch = fetch_together;
    MUSTER_TRY(make_tensors(w, b->dtype, rank + 1, 1, x));
    MUSTER_TRY(make_tensors(w, b->dtype, rank + 1, 1, y));
    MUSTER_TRY(make_tensors(w, b->dtype, 5, 1, c)); /* as the server */
    MUSTER_TRY(make_tensors(w, b->dtype, 0, 0, delta));
    MUSTER_TRY(make_tensors(w, b->dtype, 0, 0, held));
    MUSTER_TRY(make_tensors(w, b->dtype, 2 * rank, -1, target));
    MUSTER_TRY(muster_easgd_create(w, b->server, &options, &driver));
    for (int64_t step = 1; step <= ROUNDS; step++) {
        double by_server, by_reduction;
        MUSTER_TRY(muster_driver_step(driver, w, step, x, NULL, VALUES, NULL));
        for (int32_t i = 0; i < VALUES; i++) {
            /* behind the own send */
            MUSTER_TRY(muster_client_receive(muster_driver_client(driver), i, held[i], NULL));
            MUSTER_TRY(reduced_step(w, 0.9 / size, y[i], c[i], delta[i]));
            MUSTER_TRY(full_of(w, x[i], &by_server));
            MUSTER_TRY(full_of(w, y[i], &by_reduction));
            MUST(near(by_server, by_reduction, b->dtype));
            MUSTER_TRY(descend(w, x[i], target[i]));
            MUSTER_TRY(descend(w, y[i], target[i]));
        }
        MUSTER_TRY(muster_worker_barrier(w, NULL)); /* all sends have been applied */
        for (int32_t i = 0; i < VALUES; i++) {
            MUSTER_TRY(muster_client_receive(muster_driver_client(driver), i, held[i], NULL));
            MUSTER_TRY(full_of(w, held[i], &by_server));
            MUSTER_TRY(full_of(w, c[i], &by_reduction));
            MUST(near(by_server, by_reduction, b->dtype));
        }
        MUSTER_TRY(muster_worker_barrier(w, NULL));
    }
    return muster_driver_destroy(driver);
}

static void it_is_what_an_all_reduce_gives_where_all_fetch_before_any_sends(void **unused) {
    (void)unused;
    for_each_backend(backend) for_each_count(n) for_each_dtype(dtype) {
        muster_runtime *runtime = fixture_open(backend, n);
        both b = {open_server(runtime, dtype, 5), dtype};
        assert_ok(run_body(runtime, both_body, &b));
        fixture_close(runtime);
    }
}

/* ---- what is refused ---- */

static muster_status create_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver *driver;
    return muster_easgd_create(w, user, NULL, &driver);
}

static void whole_numbers_are_refused(void **unused) {
    (void)unused;
    int64_t five[5] = {0};
    muster_server *server;
    muster_runtime *runtime = fixture_open("host", 1);
    assert_ok(muster_server_create(runtime, "server", (muster_tensor[]){muster_i64(five, 5)}, 1, NULL, &server));
    assert_refused(run_body(runtime, create_body, server), MUSTER_UNSUPPORTED,
                   "muster_easgd_create: server: expected float values, received i64 as value 0");
    fixture_close(runtime);
}

int main(void) {
    allowed_spread = 1e-5;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_and_server_are_drawn_to_each_other),
        cmocka_unit_test(in_turn_each_worker_finds_what_the_others_left),
        cmocka_unit_test(the_sum_of_server_and_workers_stays_in_any_order),
        cmocka_unit_test(with_beta_nothing_nothing_moves),
        cmocka_unit_test(beta_is_nine_tenths_where_none_is_given),
        cmocka_unit_test(it_is_what_an_all_reduce_gives_where_all_fetch_before_any_sends),
        cmocka_unit_test(whole_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
