/* Servers that all workers of a call create together, each with tensors of its own. */
#include "server_fixture.h"

enum { COUNT = 1003, VALUES = 2, MOST_WORKERS = 8 };
static const int64_t value_sizes[VALUES] = {COUNT, 3};
static int elements_compared;

typedef struct creation_case {
    muster_runtime *runtime;
    muster_dtype dtype;
    int32_t initial;
    muster_server *server[MOST_WORKERS];
} creation_case;

/* Element j of value i on rank r: distinct, and exact in f16 and bf16 for the few that are used. */
static float element_of(int32_t rank, int32_t value, int64_t j) { return (float)((rank + 1) * 16 + value * 8 + (int32_t)(j % 8)); }

static muster_status own_tensors(muster_worker *w, muster_dtype dtype, muster_tensor tensors[VALUES]) {
    float memory[COUNT];
    for (int32_t i = 0; i < VALUES; i++) {
        for (int64_t j = 0; j < value_sizes[i]; j++) memory[j] = element_of(muster_worker_rank(w), i, j);
        muster_tensor wide;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &value_sizes[i], &wide));
        MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &value_sizes[i], &tensors[i]));
        MUSTER_TRY(muster_worker_write(w, muster_f32(memory, value_sizes[i]), wide));
        MUSTER_TRY(muster_copy(w, wide, tensors[i]));
    }
    return MUSTER_OK;
}

/* The shard of an element, by the documented rule. */
static int32_t shard_of(int64_t elements, int32_t shards, int64_t j) {
    const int64_t each = elements / shards, more = elements % shards;
    return (int32_t)(j < more * (each + 1) ? j / (each + 1) : more + (j - more * (each + 1)) / each);
}

static muster_status compare_values(muster_worker *w, const creation_case *t, muster_server *server) {
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, server, &client));
    for (int32_t i = 0; i < VALUES; i++) {
        float memory[COUNT];
        muster_tensor received, wide;
        MUSTER_TRY(muster_worker_scratch(w, t->dtype, 1, &value_sizes[i], &received));
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &value_sizes[i], &wide));
        MUSTER_TRY(muster_client_receive(client, i, received, NULL));
        MUSTER_TRY(muster_copy(w, received, wide));
        MUSTER_TRY(muster_worker_read(w, wide, muster_f32(memory, value_sizes[i])));
        for (int64_t j = 0; j < value_sizes[i]; j++) {
            const int32_t rank = t->initial == MUSTER_INITIAL_OWN ? shard_of(value_sizes[i], muster_worker_size(w), j) : 0;
            if (memory[j] != element_of(rank, i, j)) return muster_fail(MUSTER_USER, "an element of the server is wrong");
        }
        if (muster_worker_rank(w) == 0) elements_compared += (int)value_sizes[i];
    }
    return MUSTER_OK;
}

/* After creation each worker adds 1, so that staged sends are tried, too. */
static muster_status create_body(muster_worker *w, void *user) {
    creation_case *t = user;
    muster_server_options options;
    muster_tensor tensors[VALUES], one;
    muster_server *server;
    muster_client *client;
    muster_server_options_init(&options);
    options.initial = t->initial;
    MUSTER_TRY(own_tensors(w, t->dtype, tensors));
    MUSTER_TRY(muster_worker_create_server(w, t->runtime, "made", tensors, VALUES, &options, &server));
    t->server[muster_worker_rank(w)] = server;
    for (int32_t i = 0; i < VALUES; i++) MUSTER_TRY(muster_fill(w, -1, tensors[i])); /* which the server does not use any more */
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(compare_values(w, t, server));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_worker_scratch(w, t->dtype, 1, &value_sizes[1], &one));
    MUSTER_TRY(muster_fill(w, 1, one));
    MUSTER_TRY(muster_worker_client(w, server, &client));
    return muster_client_send(client, 1, MUSTER_RULE_ADD, 1, one, 0, NULL);
}

static void expect_created(const char *backend, int n, muster_dtype dtype, int32_t initial) {
    creation_case t = {.runtime = fixture_open(backend, n), .dtype = dtype, .initial = initial};
    uint16_t narrow[3];
    double wide[3];
    muster_client *client;
    for (int round = 0; round < 2; round++) { /* the name is free again after the end */
        assert_ok(server_run(t.runtime, create_body, &t));
        for (int r = 1; r < n; r++) assert_ptr_equal(t.server[r], t.server[0]);
        assert_int_equal(muster_server_count(t.server[0]), VALUES);
        assert_ok(muster_client_open(t.server[0], &client));
        const bool half = dtype == MUSTER_F16;
        assert_ok(
            muster_client_receive(client, 1, muster_tensor_make(dtype, half ? (void *)narrow : (void *)wide, 1, &value_sizes[1]), NULL));
        for (int64_t j = 0; j < 3; j++) {
            const int32_t rank = initial == MUSTER_INITIAL_OWN ? shard_of(3, n, j) : 0;
            const double found = half ? muster_f16_to_f32(narrow[j]) : server_get(muster_tensor_make(dtype, wide, 1, &value_sizes[1]), j);
            assert_true(found == element_of(rank, 1, j) + (float)n);
        }
        assert_ok(muster_client_close(client));
        assert_ok(muster_server_destroy(t.server[0]));
    }
    fixture_close(t.runtime);
}

static void every_worker_brings_its_shard_or_rank_0_brings_all(void **unused) {
    (void)unused;
    int cases = 0;
    elements_compared = 0;
    for_each_backend(backend) {
        for (int n = 1; n <= 4; n++) {
            const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_F16};
            for (int d = 0; d < 3; d++, cases++) {
                expect_created(backend, n, dtypes[d], MUSTER_INITIAL_OWN);
                expect_created(backend, n, dtypes[d], MUSTER_INITIAL_MASTER);
            }
        }
    }
    assert_true(cases > 0 && cases % (4 * 3) == 0);
    assert_int_equal(elements_compared, cases * 2 * 2 * (COUNT + 3));
}

/* ---- refusals ---- */

typedef struct refusal {
    muster_runtime *runtime, *other;
    int32_t rank; /* whose arguments are wrong */
    const char *what;
} refusal;

static muster_status silent_fill(void *user, int32_t index, muster_dtype dtype, void *value, int64_t first, int64_t count) {
    (void)user, (void)index, (void)dtype, (void)value, (void)first, (void)count;
    return MUSTER_USER;
}

static muster_status wrong_body(muster_worker *w, void *user) {
    const refusal *t = user;
    static float memory[MOST_WORKERS][8];
    static double wide[8];
    float *own = memory[muster_worker_rank(w)];
    const bool wrong = muster_worker_rank(w) == t->rank;
    muster_tensor values[2] = {muster_f32(own, 8), muster_f32(own, 8)};
    muster_server_options options;
    muster_server *server = (muster_server *)w;
    muster_runtime *runtime = t->runtime;
    const char *name = "made";
    int32_t count = 1;
    muster_server_options_init(&options);
    if (wrong && !strcmp(t->what, "count")) count = 2;
    if (wrong && !strcmp(t->what, "dtype")) values[0] = muster_f64(wide, 8);
    if (wrong && !strcmp(t->what, "elements")) values[0] = muster_f32(own, 7);
    if (wrong && !strcmp(t->what, "device")) values[0].device = (t->rank + 1) % 2;
    if (wrong && !strcmp(t->what, "runtime")) runtime = t->other;
    if (wrong && !strcmp(t->what, "none")) count = 0;
    if (wrong && !strcmp(t->what, "name")) name = "taken";
    if (wrong && !strcmp(t->what, "fill")) options.fill = silent_fill;
    if (wrong && !strcmp(t->what, "shards")) options.shards = 3, options.initial = MUSTER_INITIAL_OWN;
    const muster_status status = muster_worker_create_server(w, runtime, name, values, count, &options, &server);
    if (server != NULL) return muster_fail(MUSTER_USER, "a worker has received a server");
    return status;
}

static void a_worker_that_is_refused_ends_the_call(void **unused) {
    (void)unused;
    const struct {
        const char *what;
        int32_t rank;
        muster_status status;
        const char *part;
    } cases[] = {
        {"count", 1, MUSTER_INVALID_ARGUMENT, "values: expected 1 as on rank 0, received 2"},
        {"dtype", 1, MUSTER_DTYPE_MISMATCH, "values[0]: expected f32 as on rank 0, received f64"},
        {"elements", 1, MUSTER_SHAPE_MISMATCH, "values[0]: expected 8 elements as on rank 0, received 7"},
        {"device", 1, MUSTER_INVALID_ARGUMENT, "values[0]: expected host memory or that of the worker's device, received device 0"},
        {"device", 0, MUSTER_INVALID_ARGUMENT, "values[0]: expected host memory or that of the worker's device, received device 1"},
        {"runtime", 1, MUSTER_INVALID_ARGUMENT, "runtime: expected the worker's runtime, received another one"},
        {"none", 0, MUSTER_INVALID_ARGUMENT, "count: expected 1 or more, received 0"},
        {"name", 0, MUSTER_INVALID_ARGUMENT, "name: expected a name that no server of this runtime has, received 'taken'"},
        {"fill", 0, MUSTER_USER, "muster_worker_create_server: fill: failed with USER for value 0 and gave no reason"},
        {"shards", 0, MUSTER_INVALID_ARGUMENT, "shards: expected one per device (2) with MUSTER_INITIAL_OWN, received 3"},
    };
    muster_runtime *runtime = fixture_open("host", 2), *other = fixture_open("host", 2);
    static float taken[4];
    muster_server *server;
    assert_ok(muster_server_create(runtime, "taken", (muster_tensor[]){muster_f32(taken, 4)}, 1, NULL, &server));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refusal t = {runtime, other, cases[i].rank, cases[i].what};
        assert_refused(server_run(runtime, wrong_body, &t), cases[i].status, cases[i].part);
    }
    /* nothing is left of them: the name is free */
    assert_ok(muster_server_create(runtime, "made", (muster_tensor[]){muster_f32(taken, 4)}, 1, NULL, &server));
    fixture_close(other);
    fixture_close(runtime);
}

static muster_status single_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    static float memory[4];
    muster_server *server;
    (void)in, (void)out;
    return muster_worker_create_server(w, user, "made", (muster_tensor[]){muster_f32(memory, 4)}, 1, NULL, &server);
}

static void a_call_on_one_of_several_devices_is_refused(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f;
    float memory[4] = {0};
    muster_server *server = NULL;
    assert_ok(muster_function_create(runtime, "single", single_body, runtime, &f));
    assert_refused(muster_function_call_single(f, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE,
                   "muster_worker_create_server: worker: expected a call on all 2 devices, received a single call");
    assert_refused(muster_worker_create_server(NULL, runtime, "made", (muster_tensor[]){muster_f32(memory, 4)}, 1, NULL, &server),
                   MUSTER_INVALID_ARGUMENT, "muster_worker_create_server: worker: expected the worker");
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_brings_its_shard_or_rank_0_brings_all),
        cmocka_unit_test(a_worker_that_is_refused_ends_the_call),
        cmocka_unit_test(a_call_on_one_of_several_devices_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
