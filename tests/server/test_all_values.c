/* Every value of a server by one call: of tensors and of variables, by several clients, in every
 * dtype, and with what is wrong in one of them. Oracles are sums of small integers. */
#include "server_hold.h"

enum { VALUES = 5, LARGEST = 12, ROUNDS = 6 };
static const muster_dtype dtypes[VALUES] = {MUSTER_F32, MUSTER_F64, MUSTER_I64, MUSTER_BF16, MUSTER_F16};
static const int64_t counts[VALUES] = {LARGEST, 7, 1, 5, 3};

/* Numbers of every dtype; each kind of conversion goes through f64. */
typedef struct numbers {
    double memory[VALUES][LARGEST];
    muster_tensor tensors[VALUES];
} numbers;

static void numbers_make(numbers *n) {
    memset(n, 0, sizeof *n);
    for (int32_t v = 0; v < VALUES; v++) n->tensors[v] = muster_tensor_make(dtypes[v], n->memory[v], 1, &counts[v]);
}

static void numbers_set(numbers *n, double first) {
    for (int32_t v = 0; v < VALUES; v++)
        for (int64_t i = 0; i < counts[v]; i++) {
            const double number = first + (double)(v + i % 3);
            mst_convert(dtypes[v], (char *)n->memory[v] + i * muster_dtype_size(dtypes[v]), MUSTER_F64, &number, 1);
        }
}

/* All numbers are `times` those of numbers_set(1). */
static int32_t numbers_check(const numbers *n, double times) {
    int32_t checked = 0;
    for (int32_t v = 0; v < VALUES; v++)
        for (int64_t i = 0; i < counts[v]; i++, checked++) {
            double number;
            mst_convert(MUSTER_F64, &number, dtypes[v], (const char *)n->memory[v] + i * muster_dtype_size(dtypes[v]), 1);
            assert_true(number == times * (double)(1 + v + i % 3));
        }
    return checked;
}
enum { NUMBERS = LARGEST + 7 + 1 + 5 + 3 };

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    muster_variable *variables[VALUES];
    int32_t rounds;
    bool by_handles;
} world;

static void open_world(world *t, int32_t devices, int32_t progress) {
    static const char *const names[VALUES] = {"a", "b", "c", "d", "e"};
    muster_server_options options;
    numbers zeros;
    memset(t, 0, sizeof *t);
    numbers_make(&zeros);
    muster_server_options_init(&options);
    options.progress = progress;
    t->runtime = fixture_open("host", devices);
    for (int32_t v = 0; v < VALUES; v++) assert_ok(muster_variable_create(t->runtime, names[v], zeros.tensors[v], &t->variables[v]));
    assert_ok(muster_server_create_from(t->runtime, "server", t->variables, VALUES, &options, &t->server));
    t->rounds = ROUNDS;
}

static muster_status call(world *t, muster_body body, muster_variable_use use) {
    muster_function *f;
    char message[MST_MESSAGE_SIZE];
    assert_ok(muster_function_create(t->runtime, "all values", body, t, &f));
    for (int32_t v = 0; v < VALUES && use; v++) assert_ok(muster_function_variable(f, t->variables[v], use));
    const muster_status status = muster_function_call(f, NULL, 0, NULL, 0, NULL);
    mst_error_save(message);
    assert_ok(muster_function_destroy(f));
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}

/* ---- tensors ---- */

static muster_status device_tensors(muster_worker *w, muster_tensor *tensors) {
    numbers ones;
    numbers_make(&ones);
    numbers_set(&ones, 1);
    for (int32_t v = 0; v < VALUES; v++) {
        MUSTER_TRY(muster_worker_scratch(w, dtypes[v], 1, &counts[v], &tensors[v]));
        MUSTER_TRY(muster_worker_write(w, ones.tensors[v], tensors[v]));
    }
    return MUSTER_OK;
}

static muster_status push_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const world *t = user;
    muster_client *client;
    muster_tensor ones[VALUES], received[VALUES];
    muster_request *requests[VALUES];
    (void)in, (void)out;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    MUSTER_TRY(device_tensors(w, ones));
    MUSTER_TRY(device_tensors(w, received));
    for (int32_t round = 0; round < t->rounds; round++) {
        MUSTER_TRY(muster_client_send_all(client, MUSTER_RULE_ADD, 0, ones, VALUES, 0, t->by_handles ? requests : NULL));
        if (t->by_handles) MUSTER_TRY(muster_requests_wait_all(requests, VALUES));
        MUSTER_TRY(muster_client_receive_all(client, received, VALUES, t->by_handles ? requests : NULL));
        if (t->by_handles) MUSTER_TRY(muster_requests_wait_all(requests, VALUES));
    }
    return MUSTER_OK;
}

static void clients_send_and_receive_every_value(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t s = 0; s < SERVER_SIZES; s++)
        for (int32_t way = 0; way < 4; way++) {
            world t;
            muster_client *client;
            numbers got;
            open_world(&t, server_sizes[s], way / 2 ? 1 : -1);
            t.by_handles = way % 2;
            numbers_make(&got);
            assert_ok(call(&t, push_body, 0));
            assert_ok(muster_client_open(t.server, &client));
            assert_ok(muster_client_receive_all(client, got.tensors, VALUES, NULL));
            checked += numbers_check(&got, ROUNDS * server_sizes[s]);
            assert_ok(muster_client_send_all(client, MUSTER_RULE_ZERO, 0, (muster_tensor[VALUES]){{0}}, VALUES, 0, NULL));
            assert_ok(muster_client_receive_all(client, got.tensors, VALUES, NULL));
            checked += numbers_check(&got, 0);
            assert_ok(muster_client_close(client));
            fixture_close(t.runtime);
        }
    assert_int_equal(checked, SERVER_SIZES * 4 * 2 * NUMBERS);
}

/* ---- variables ---- */

static muster_status exchange_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const world *t = user;
    muster_client *client;
    (void)in, (void)out;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    MUSTER_TRY(muster_client_send_variables(client, MUSTER_RULE_ADD, 0, t->variables, VALUES));
    return muster_client_receive_variables(client, t->variables, VALUES);
}

/* The replicas are sent by each worker, and by a thread for the master; they become what the server
 * holds. */
static void variables_are_sent_and_received(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t s = 0; s < SERVER_SIZES; s++) {
        world t;
        muster_client *client;
        numbers n;
        open_world(&t, server_sizes[s], -1);
        numbers_make(&n);
        numbers_set(&n, 1);
        assert_ok(muster_variables_broadcast(t.variables, n.tensors, VALUES));
        assert_ok(call(&t, exchange_body, MUSTER_USE_READ_WRITE));
        assert_ok(muster_client_open(t.server, &client));
        assert_ok(muster_client_receive_variables(client, t.variables, VALUES));
        for (int32_t r = 0; r < server_sizes[s]; r++) {
            for (int32_t v = 0; v < VALUES; v++) assert_ok(muster_variable_get(t.variables[v], r, n.tensors[v]));
            checked += numbers_check(&n, server_sizes[s]);
        }
        assert_ok(muster_client_send_variables(client, MUSTER_RULE_ADD, 0, t.variables, VALUES));
        assert_ok(muster_client_receive_all(client, n.tensors, VALUES, NULL));
        checked += numbers_check(&n, 2 * server_sizes[s]);
        assert_ok(muster_client_close(client));
        fixture_close(t.runtime);
    }
    assert_int_equal(checked, (1 + 2 + 3 + 4 + 8 + SERVER_SIZES) * NUMBERS);
}

/* ---- handles, and failures ---- */

/* A busy shard of one value keeps the caller of no other waiting. */
static void handles_end_when_their_value_is_free(void **state) {
    (void)state;
    for (int32_t progress = -1; progress <= 1; progress += 2) {
        world t;
        muster_client *client;
        numbers ones, got;
        muster_request *requests[VALUES];
        server_hold hold;
        open_world(&t, 1, progress);
        numbers_make(&ones);
        numbers_set(&ones, 1);
        numbers_make(&got);
        assert_ok(muster_client_open(t.server, &client));
        server_hold_begin(&hold, t.server, counts[0]);
        assert_ok(muster_client_send_all(client, MUSTER_RULE_ADD, 0, ones.tensors, VALUES, 0, requests));
        assert_non_null(requests[0]);
        server_hold_end(&hold);
        assert_ok(muster_requests_wait_all(requests, VALUES));
        assert_ok(muster_client_receive_all(client, got.tensors, VALUES, NULL));
        assert_int_equal(numbers_check(&got, 1), NUMBERS);
        assert_ok(muster_client_close(client));
        fixture_close(t.runtime);
    }
}

static muster_status no_integers(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                 double scale) {
    (void)user, (void)first, (void)scale;
    if (dtype == MUSTER_I64) return muster_fail(MUSTER_USER, "no integers");
    memcpy(value, tensor, (size_t)(count * muster_dtype_size(dtype)));
    return MUSTER_OK;
}

static double first_of(const numbers *n, int32_t v) {
    double number;
    mst_convert(MUSTER_F64, &number, dtypes[v], n->memory[v], 1);
    return number;
}

/* Without handles the list ends at the value that fails; with handles each value has an end of its
 * own. */
static void a_value_that_fails_is_said(void **state) {
    (void)state;
    for (int32_t by_handles = 0; by_handles < 2; by_handles++) {
        world t;
        muster_client *client;
        numbers ones, got;
        muster_rule rule;
        muster_request *requests[VALUES];
        open_world(&t, 1, -1);
        numbers_make(&ones);
        numbers_set(&ones, 1);
        numbers_make(&got);
        assert_ok(muster_server_add_rule(t.server, "no integers", no_integers, NULL, &rule));
        assert_ok(muster_client_open(t.server, &client));
        if (by_handles) {
            assert_ok(muster_client_send_all(client, rule, 0, ones.tensors, VALUES, 0, requests));
            assert_refused(muster_requests_wait_all(requests, VALUES), MUSTER_USER, "no integers");
        } else {
            assert_refused(muster_client_send_all(client, rule, 0, ones.tensors, VALUES, 0, NULL), MUSTER_USER, "no integers");
        }
        assert_ok(muster_client_receive_all(client, got.tensors, VALUES, NULL));
        for (int32_t v = 0; v < VALUES; v++) assert_true(first_of(&got, v) == (v < 2 || (v > 2 && by_handles) ? 1 + v : 0));
        assert_ok(muster_client_close(client));
        fixture_close(t.runtime);
    }
}

/* ---- what is refused ---- */

#define REFUSED(code, text, expression)         \
    do {                                        \
        assert_refused(expression, code, text); \
        refused++;                              \
    } while (0)

/* One wrong tensor behind good ones: nothing is sent, and nothing received. */
static void what_is_wrong_in_one_value_touches_none(void **state) {
    world t;
    muster_client *client;
    numbers ones, wrong, got;
    muster_request *requests[VALUES];
    int32_t refused = 0;
    (void)state;
    open_world(&t, 2, -1);
    numbers_make(&ones);
    numbers_set(&ones, 1);
    numbers_make(&wrong);
    numbers_make(&got);
    assert_ok(muster_client_open(t.server, &client));
    assert_ok(muster_client_send_all(client, MUSTER_RULE_COPY, 0, ones.tensors, VALUES, 0, NULL));
    muster_tensor *last = &wrong.tensors[VALUES - 1];
    const muster_tensor good = *last;
    for (int32_t kind = 0; kind < 5; kind++) {
        static const muster_status codes[] = {MUSTER_SHAPE_MISMATCH, MUSTER_DTYPE_MISMATCH, MUSTER_UNSUPPORTED, MUSTER_INVALID_ARGUMENT,
                                              MUSTER_INVALID_ARGUMENT};
        static const char *const texts[] = {"tensors: expected 3 elements as in value 4, received 2",
                                            "tensors: expected f16 as in value 4, received bf16", "tensors: expected contiguous elements",
                                            "tensors", "tensors: expected host memory, received device 1"};
        *last = good;
        if (kind == 0) last->shape[0] = 2;
        if (kind == 1) last->dtype = MUSTER_BF16;
        if (kind == 2) last->strides[0] = 2;
        if (kind == 3) *last = muster_tensor_none();
        if (kind == 4) last->device = 1;
        REFUSED(codes[kind], texts[kind], muster_client_send_all(client, MUSTER_RULE_COPY, 0, wrong.tensors, VALUES, 0, requests));
        for (int32_t v = 0; v < VALUES; v++) assert_null(requests[v]);
        REFUSED(codes[kind], texts[kind], muster_client_receive_all(client, wrong.tensors, VALUES, NULL));
        for (int32_t v = 0; v < VALUES; v++) assert_true(wrong.memory[v][0] == 0);
    }
    REFUSED(MUSTER_INVALID_ARGUMENT, "count: expected the 5 values of server 'server', received 4",
            muster_client_send_all(client, MUSTER_RULE_COPY, 0, wrong.tensors, VALUES - 1, 0, NULL));
    REFUSED(MUSTER_INVALID_ARGUMENT, "count: expected the 5 values of server 'server', received 6",
            muster_client_receive_variables(client, t.variables, VALUES + 1));
    *last = good;
    REFUSED(MUSTER_UNSUPPORTED, "rule: expected a rule for i64",
            muster_client_send_all(client, MUSTER_RULE_ADD_SCALED, 2, wrong.tensors, VALUES, 0, NULL));
    t.variables[0] = t.variables[1];
    REFUSED(MUSTER_DTYPE_MISMATCH, "variables: expected f32 as in value 0, received f64",
            muster_client_send_variables(client, MUSTER_RULE_COPY, 0, t.variables, VALUES));
    assert_ok(muster_client_receive_all(client, got.tensors, VALUES, NULL));
    assert_int_equal(numbers_check(&got, 1), NUMBERS);
    assert_int_equal(refused, 5 * 2 + 4);
    assert_ok(muster_client_close(client));
    fixture_close(t.runtime);
}

static void a_body_declares_what_it_receives(void **state) {
    world t;
    (void)state;
    open_world(&t, 1, -1);
    assert_refused(call(&t, exchange_body, MUSTER_USE_READ), MUSTER_INVALID_ARGUMENT,
                   "muster_client_receive_variables: variable \"a\": expected one that function 'all values', whose body receives it, has "
                   "declared with MUSTER_USE_READ_WRITE, received MUSTER_USE_READ");
    assert_refused(
        call(&t, exchange_body, 0), MUSTER_INVALID_ARGUMENT,
        "muster_client_send_variables: variable \"a\": expected one that function 'all values', whose body sends it, has declared "
        "with muster_function_variable, received none");
    fixture_close(t.runtime);
}

/* ---- memory ---- */

static muster_status counted_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    int64_t before = 0;
    t->rounds = 1;
    for (int32_t round = 0; round < 6; round++) {
        if (round == 2) before = mst_memory_count();
        MUSTER_TRY(exchange_body(w, in, out, user));
        MUSTER_TRY(push_body(w, in, out, user));
    }
    return mst_memory_count() == before ? MUSTER_OK : muster_fail(MUSTER_USER, "expected no allocation");
}

static void a_worker_allocates_nothing_in_the_long_run(void **state) {
    world t;
    (void)state;
    open_world(&t, 1, -1);
    assert_ok(call(&t, counted_body, MUSTER_USE_READ_WRITE));
    assert_ok(call(&t, counted_body, MUSTER_USE_READ_WRITE));
    fixture_close(t.runtime);
}

/* The k-th allocation of a thread that sends or receives variables fails: it names its bytes, and
 * nothing is left. The values lie in a block, each at a cache line. */
static void allocations_that_fail_are_said(void **state) {
    (void)state;
    int32_t failures = 0;
    for (int32_t sends = 0; sends < 2; sends++) {
        world t;
        muster_client *client;
        numbers got;
        const char *where = sends ? "muster_client_send_variables" : "muster_client_receive_variables";
        const int64_t live = mst_memory_live();
        open_world(&t, 2, -1);
        assert_ok(muster_client_open(t.server, &client));
        bool done = false;
        for (int64_t k = 1; !done; k++) {
            char expected[200];
            const int64_t before = mst_memory_count();
            mst_memory_fail_at(k);
            const muster_status status = sends ? muster_client_send_variables(client, MUSTER_RULE_ADD, 0, t.variables, VALUES)
                                               : muster_client_receive_variables(client, t.variables, VALUES);
            mst_memory_fail_at(0);
            done = mst_memory_count() - before < k;
            assert_int_equal(status, done ? MUSTER_OK : MUSTER_OUT_OF_MEMORY);
            const size_t bytes = k == 1 ? VALUES * sizeof(muster_tensor) : VALUES * 64;
            snprintf(expected, sizeof expected, "%s: out of memory, %zu bytes were asked for", where, bytes);
            if (k <= 2) assert_string_equal(muster_last_error(), expected);
            failures += !done;
        }
        numbers_make(&got);
        assert_ok(muster_client_receive_all(client, got.tensors, VALUES, NULL));
        assert_int_equal(numbers_check(&got, 0), NUMBERS);
        assert_ok(muster_client_close(client));
        fixture_close(t.runtime);
        assert_int_equal(mst_memory_live(), live);
    }
    assert_in_range(failures, 4, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_send_and_receive_every_value),       cmocka_unit_test(variables_are_sent_and_received),
        cmocka_unit_test(handles_end_when_their_value_is_free),       cmocka_unit_test(a_value_that_fails_is_said),
        cmocka_unit_test(what_is_wrong_in_one_value_touches_none),    cmocka_unit_test(a_body_declares_what_it_receives),
        cmocka_unit_test(a_worker_allocates_nothing_in_the_long_run), cmocka_unit_test(allocations_that_fail_are_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
