/* Groups of workers that train one model together: rank 0 of each speaks with the server, and all
 * have what it has. */
#include "driver_fixture.h"

enum { GROUP = 3 };

typedef struct groups {
    muster_server *server;
    muster_dtype dtype;
    double alpha[WORKERS], x[WORKERS];
    muster_driver_counts counts[WORKERS];
    int failures; /* of the fetches of the first group's rank 0 still to come */
} groups;

static int groups_of(int n) { return (n + GROUP - 1) / GROUP; }

static muster_status fetch_or_fail(muster_driver *driver, muster_worker *w, int64_t step, void *user) {
    groups *g = user;
    (void)step;
    if (muster_worker_rank(w) == 0 && g->failures-- > 0) return muster_fail(MUSTER_USER, "no fetch today");
    return muster_driver_default_fetch(driver, w);
}

/* All groups have fetched before any sends; the others of the groups wait here, too. */
static muster_status fetch_together(muster_driver *driver, muster_worker *w, int64_t step, void *user) {
    (void)step, (void)user;
    for (int32_t i = 0; i < VALUES; i++) {
        muster_tensor fetched;
        MUSTER_TRY(muster_driver_fetched(driver, i, &fetched));
        MUSTER_TRY(muster_client_receive(muster_driver_client(driver), i, fetched, NULL));
    }
    return muster_worker_barrier(w, NULL);
}

static muster_status split(muster_worker *w, muster_communicator **group) {
    return muster_worker_split(w, NULL, muster_worker_rank(w) / GROUP, 0, group);
}

static muster_status read_all(muster_worker *w, muster_tensor tensor, double memory[MOST]) {
    const int64_t count = muster_tensor_count(tensor);
    memset(memory, 0, MOST * sizeof *memory);
    return muster_worker_read(w, tensor, muster_tensor_make(tensor.dtype, memory, 1, &count));
}

/* Everybody in the group has the same, bit for bit; elements of different shards may be of
 * different times. first: that of value 0. */
static muster_status expect_equal_members(muster_worker *w, muster_communicator *group, const muster_tensor *parameters, double *first) {
    double mine[MOST], highest[MOST];
    for (int32_t i = 0; i < VALUES; i++) {
        muster_tensor most;
        MUSTER_TRY(muster_worker_scratch(w, parameters[i].dtype, parameters[i].ndim, parameters[i].shape, &most));
        MUSTER_TRY(muster_worker_all_reduce(w, group, MUSTER_MAX, parameters[i], most));
        MUSTER_TRY(read_all(w, parameters[i], mine));
        MUSTER_TRY(read_all(w, most, highest));
        MUST(memcmp(mine, highest, sizeof mine) == 0);
        if (i == 0) *first = element(parameters[0].dtype, mine, 0);
    }
    return MUSTER_OK;
}

/* Group g begins at g + 1; its members but rank 0 somewhere else, until the first integration. */
static muster_status elastic_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    groups *g = user;
    const int32_t rank = muster_worker_rank(w);
    muster_driver_options options = make_options(1, 0, 0, 1);
    muster_tensor parameters[VALUES];
    muster_driver *driver;
    int32_t integrated;
    MUSTER_TRY(split(w, &options.group));
    const bool root = muster_communicator_rank(options.group, w) == 0;
    options.parts.fetch = fetch_together;
    MUSTER_TRY(make_tensors(w, g->dtype, root ? rank / GROUP + 1 : 100 + rank, 1, parameters));
    MUSTER_TRY(muster_easgd_create(w, g->server, &options, &driver));
    g->alpha[rank] = muster_driver_alpha(driver);
    MUST((muster_driver_client(driver) != NULL) == root);
    if (!root) MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_driver_step(driver, w, 1, parameters, NULL, VALUES, &integrated));
    MUST(integrated == 1);
    MUSTER_TRY(expect_equal_members(w, options.group, parameters, &g->x[rank]));
    muster_driver_counts_init(&g->counts[rank]);
    MUSTER_TRY(muster_driver_get_counts(driver, &g->counts[rank]));
    MUSTER_TRY(muster_driver_destroy(driver));
    return muster_worker_release(w, options.group);
}

static void expect_elastic(const char *backend, int n, muster_dtype dtype) {
    muster_runtime *runtime = fixture_open(backend, n);
    groups g = {.server = open_server(runtime, dtype, 0), .dtype = dtype};
    const double alpha = 0.9 / groups_of(n), allowed = dtype == MUSTER_F32 ? 1e-6 : 1e-14;
    double centre = 0;
    assert_ok(run_body(runtime, elastic_body, &g));
    for (int r = 0; r < n; r++) {
        const int64_t once = r % GROUP == 0;
        assert_true(g.alpha[r] == alpha);
        assert_true(fabs(g.x[r] - (1 - alpha) * (r / GROUP + 1)) <= 10 * allowed);
        assert_true(g.counts[r].fetches == once && g.counts[r].integrations == once && g.counts[r].sends == once);
        if (once) centre += alpha * (r / GROUP + 1);
    }
    assert_true(fabs(server_value(g.server, dtype, 0) - centre) <= 10 * allowed);
    fixture_close(runtime);
}

static void members_are_equal_after_an_integration_and_alpha_counts_groups(void **unused) {
    (void)unused;
    for_each_backend(backend) for_each_dtype(dtype) {
        expect_elastic(backend, 4, dtype); /* {0, 1, 2}, {3} */
        expect_elastic(backend, 9, dtype);
    }
}

static muster_status given_count_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(1, 0, 0, 1);
    muster_driver *driver;
    options.integrating = 6;
    options.beta = 0.5;
    MUSTER_TRY(muster_easgd_create(w, user, &options, &driver));
    MUST(muster_driver_alpha(driver) == 0.5 / 6);
    return muster_driver_destroy(driver);
}

static void the_number_of_integrating_workers_can_be_given(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    assert_ok(run_body(runtime, given_count_body, open_server(runtime, MUSTER_F32, 0)));
    fixture_close(runtime);
}

/* The gradient of a group, of which each member computes a part: all-reduced, it counts once. */
static muster_status downpour_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    groups *g = user;
    muster_driver_options options = make_options(5, 0, 2, 2);
    muster_tensor parameters[VALUES], gradients[VALUES];
    muster_driver *driver;
    double number;
    MUSTER_TRY(split(w, &options.group));
    MUSTER_TRY(make_tensors(w, g->dtype, 0, 1, parameters));
    MUSTER_TRY(make_tensors(w, g->dtype, 0, 0, gradients));
    MUSTER_TRY(muster_downpour_create(w, g->server, &options, &driver));
    for (int64_t step = 0; step <= 20; step++) {
        int32_t integrated;
        for (int32_t i = 0; i < VALUES; i++) {
            MUSTER_TRY(muster_fill(w, 1, gradients[i]));
            MUSTER_TRY(muster_worker_all_reduce(w, options.group, MUSTER_SUM, gradients[i], gradients[i]));
        }
        MUSTER_TRY(muster_driver_step(driver, w, step, parameters, gradients, VALUES, &integrated));
        MUST(integrated == (step > 0 && step % 5 == 0));
        if (integrated) MUSTER_TRY(expect_equal_members(w, options.group, parameters, &number));
    }
    return muster_driver_destroy(driver);
}

static void a_groups_gradient_is_sent_once(void **unused) {
    (void)unused;
    const int counts[] = {1, 3, 4, 9};
    for_each_backend(backend) for (int i = 0; i < 4; i++) {
        const int n = counts[i];
        muster_runtime *runtime = fixture_open(backend, n);
        groups g = {.server = open_server(runtime, MUSTER_F32, 0), .dtype = MUSTER_F32};
        assert_ok(run_body(runtime, downpour_body, &g));
        /* each worker is in one group, whose sum has its part */
        assert_true(server_value(g.server, MUSTER_F32, 0) == -20 * n);
        fixture_close(runtime);
    }
}

/* ---- failures ---- */

static muster_status failing_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    groups *g = user;
    const int32_t rank = muster_worker_rank(w);
    muster_driver_options options = make_options(2, 0, 0, 1);
    muster_tensor parameters[VALUES];
    muster_driver *driver;
    int32_t integrated;
    double number;
    MUSTER_TRY(split(w, &options.group));
    options.parts.fetch = fetch_or_fail;
    options.parts.user = g;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 50 + rank, 0, parameters));
    MUSTER_TRY(muster_driver_create(w, g->server, &options, &driver));
    for (int64_t step = 0; step <= 4; step++) {
        const bool fails = rank < GROUP && (step == 2 || step == 3);
        if (fails) {
            MUST_REFUSE(muster_driver_step(driver, w, step, parameters, NULL, VALUES, &integrated), rank ? MUSTER_ABORTED : MUSTER_USER,
                        rank ? "rank 0 of the group has failed to integrate: USER" : "no fetch today");
            MUSTER_TRY(full_of(w, parameters[0], &number));
            MUST(integrated == 0 && number == 50 + rank);
        } else {
            MUSTER_TRY(muster_driver_step(driver, w, step, parameters, NULL, VALUES, &integrated));
        }
    }
    MUST(integrated == 1); /* at step 4 all have made up for it */
    MUSTER_TRY(full_of(w, parameters[2], &number));
    MUST(number == 9);
    return muster_driver_destroy(driver);
}

static void a_failure_of_rank_0_is_told_to_its_group_which_stays_in_step(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 4);
        groups g = {.server = open_server(runtime, MUSTER_F32, 7), .failures = 2};
        assert_ok(run_body(runtime, failing_body, &g));
        fixture_close(runtime);
    }
}

static muster_status stranger_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    static muster_communicator *first;
    muster_driver_options options = make_options(1, 0, 0, 1);
    muster_communicator *own;
    muster_driver *driver;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w), 0, &own));
    if (muster_worker_rank(w) == 0) first = own;
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    options.group = first;
    if (muster_worker_rank(w) == 0) return MUSTER_OK;
    char expected[100];
    snprintf(expected, sizeof expected, "options: group: expected a communicator of which rank %d is a member", (int)muster_worker_rank(w));
    MUST_REFUSE(muster_driver_create(w, user, &options, &driver), MUSTER_INVALID_ARGUMENT, expected);
    MUST(driver == NULL);
    return MUSTER_OK;
}

static void a_group_of_others_is_refused(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    assert_ok(run_body(runtime, stranger_body, open_server(runtime, MUSTER_F32, 0)));
    fixture_close(runtime);
}

int main(void) {
    allowed_spread = 1e-6;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_equal_after_an_integration_and_alpha_counts_groups),
        cmocka_unit_test(the_number_of_integrating_workers_can_be_given),
        cmocka_unit_test(a_groups_gradient_is_sent_once),
        cmocka_unit_test(a_failure_of_rank_0_is_told_to_its_group_which_stays_in_step),
        cmocka_unit_test(a_group_of_others_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
