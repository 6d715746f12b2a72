/* Descriptions by one array, read back, found by name; and calls that are prepared before they
 * run. */
#include "function_fixture.h"
#include "memory_impl.h"

#include <stdbool.h>
#include <string.h>

enum { N = 6, K = 3 };

static int bodies; /* of rank 0 */

/* s = sum of the rows of x, g = x; v is updated with s. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_variable **v = user;
    if (muster_worker_rank(w) == 0) bodies++;
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]));
    MUSTER_TRY(muster_copy(w, in[0], out[1]));
    if (!*v) return MUSTER_OK;
    muster_tensor update;
    MUSTER_TRY(muster_worker_update(w, *v, &update));
    return muster_copy(w, out[0], update);
}

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    muster_variable *v, *data;
    float x[N][K], s[K], g[N][K];
    muster_tensor in[1], out[2];
} world;

static void world_open(world *t, const char *backend, int devices) {
    memset(t, 0, sizeof *t);
    float zeros[K] = {0};
    for (int i = 0; i < N * K; i++) t->x[i / K][i % K] = (float)i;
    t->runtime = fixture_open(backend, devices);
    assert_ok(muster_variable_create(t->runtime, "v", muster_f32(zeros, K), &t->v));
    assert_ok(muster_variable_create(t->runtime, "data", muster_f32(t->x, N, K), &t->data));
    assert_ok(muster_function_create(t->runtime, "f", body, &t->v, &t->f));
    t->in[0] = muster_f32(t->x, N, K);
    t->out[0] = muster_f32(t->s, K);
    t->out[1] = muster_f32(t->g, N, K);
}

enum { PORTS = 6 };

static void make_ports(const world *t, muster_port ports[PORTS]) {
    const muster_port all[PORTS] = {
        {.kind = MUSTER_PORT_INPUT, .mode = MUSTER_SCATTER, .name = "x", .dtype = MUSTER_F32, .ndim = 2},
        {.kind = MUSTER_PORT_OUTPUT, .mode = MUSTER_SUM, .name = "s", .dtype = MUSTER_F32, .ndim = 1},
        {.kind = MUSTER_PORT_OUTPUT, .mode = MUSTER_GATHER, .name = "g", .dtype = MUSTER_F32, .ndim = 2},
        {.kind = MUSTER_PORT_VARIABLE, .mode = MUSTER_USE_READ, .variable = t->v},
        {.kind = MUSTER_PORT_UPDATE, .mode = MUSTER_SUM, .variable = t->v},
        {.kind = MUSTER_PORT_VARIABLE, .mode = MUSTER_USE_READ_SLICEABLE, .variable = t->data},
    };
    memcpy(ports, all, sizeof all);
}

static void expect_right(world *t) {
    float v[K];
    memset(t->s, 0, sizeof t->s);
    memset(t->g, 0, sizeof t->g);
    bodies = 0;
    assert_ok(muster_function_call(t->f, t->in, 1, t->out, 2, NULL));
    assert_int_equal(processes_sum(bodies), 1);
    assert_memory_equal(t->g, t->x, sizeof t->x);
    for (int j = 0; j < K; j++) assert_float_equal(t->s[j], (float)(K * (N * (N - 1) / 2) + N * j), 0);
    assert_ok(muster_variable_get(t->v, 0, muster_f32(v, K)));
    if (muster_runtime_size(t->runtime) == 1) assert_memory_equal(v, t->s, sizeof v);
}

static void a_description_by_one_array_is_read_back(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        world t;
        muster_port ports[PORTS], port;
        world_open(&t, backend, 1);
        make_ports(&t, ports);
        assert_int_equal(muster_function_port_count(t.f), 0);
        assert_refused(muster_function_port(t.f, 0, &port), MUSTER_OUT_OF_RANGE, "function 'f' has 0 ports");
        assert_ok(muster_function_describe(t.f, ports, PORTS));
        assert_int_equal(muster_function_port_count(t.f), PORTS);
        for (int called = 0; called < 2; called++) { /* before and after the first call */
            for (int i = 0; i < PORTS; i++) {
                assert_ok(muster_function_port(t.f, i, &port));
                assert_int_equal(port.kind, ports[i].kind);
                assert_int_equal(port.mode, ports[i].mode);
                assert_ptr_equal(port.variable, ports[i].variable);
                assert_string_equal(port.name, i < 3 ? ports[i].name : i < 5 ? "v" : "data");
                assert_int_equal(port.ndim, i < 3 ? ports[i].ndim : i < 5 ? 1 : 2);
                assert_int_equal(port.dtype, MUSTER_F32);
            }
            expect_right(&t);
        }
        assert_refused(muster_function_port(t.f, PORTS, &port), MUSTER_OUT_OF_RANGE, "expected 0 to 5, received 6");
        assert_refused(muster_function_port(t.f, -1, &port), MUSTER_OUT_OF_RANGE, "received -1");
        assert_refused(muster_function_port(t.f, 0, NULL), MUSTER_INVALID_ARGUMENT, "port: expected the address of a muster_port");
        assert_refused(muster_function_port(NULL, 0, &port), MUSTER_INVALID_ARGUMENT, "function: expected a function");
        assert_int_equal(muster_function_port_count(NULL), -1);
        assert_refused(muster_function_describe(t.f, ports, 1), MUSTER_BAD_STATE, "has been called");
        fixture_close(t.runtime);
    }
}

/* Every way of declaring a variable, read back after the single functions. */
static void every_use_of_a_variable_is_read_back(void **unused) {
    (void)unused;
    const muster_variable_use uses[] = {MUSTER_USE_READ, MUSTER_USE_READ_WRITE, MUSTER_USE_READ_SLICEABLE};
    for (int used = 0; used < 8; used++)
        for (int updated = 0; updated < 2; updated++) {
            world t;
            muster_port port;
            int at = 0;
            world_open(&t, "host", 1);
            for (int u = 0; u < 3; u++)
                if (used >> u & 1) assert_ok(muster_function_variable(t.f, t.data, uses[u]));
            if (updated) assert_ok(muster_function_update(t.f, t.data, MUSTER_MAX));
            /* a reading use says nothing beside a stronger one */
            const int32_t expected[] = {used & 4    ? MUSTER_USE_READ_SLICEABLE
                                        : used == 1 ? MUSTER_USE_READ
                                                    : 0,
                                        used & 2 ? MUSTER_USE_READ_WRITE : 0, updated ? MUSTER_MAX : 0};
            for (int e = 0; e < 3; e++) {
                if (!expected[e]) continue;
                assert_ok(muster_function_port(t.f, at++, &port));
                assert_int_equal(port.mode, expected[e]);
                assert_int_equal(port.kind, e == 2 ? MUSTER_PORT_UPDATE : MUSTER_PORT_VARIABLE);
            }
            assert_int_equal(muster_function_port_count(t.f), at);
            fixture_close(t.runtime);
        }
}

/* A wrong port at any place, or memory that fails at any place, leaves nothing. */
static void a_refused_description_adds_nothing(void **unused) {
    (void)unused;
    world t;
    muster_port ports[PORTS];
    world_open(&t, "host", 2);
    make_ports(&t, ports);
    assert_ok(muster_function_variable(t.f, t.data, MUSTER_USE_READ));
    for (int i = 0; i < PORTS; i++) {
        make_ports(&t, ports);
        ports[i].mode = 99;
        assert_refused(muster_function_describe(t.f, ports, PORTS), MUSTER_INVALID_ARGUMENT, "muster_function_describe");
        make_ports(&t, ports);
        ports[i].kind = i % 2 ? 0 : 5;
        assert_refused(muster_function_describe(t.f, ports, PORTS), MUSTER_INVALID_ARGUMENT, "kind: expected MUSTER_PORT_INPUT to _UPDATE");
        assert_int_equal(muster_function_port_count(t.f), 1);
        assert_ok(muster_variable_destroy(NULL));
    }
    make_ports(&t, ports);
    int failed = 0;
    for (muster_status status = MUSTER_OUT_OF_MEMORY; status; failed++) {
        mst_memory_fail_at(failed + 1);
        status = muster_function_describe(t.f, ports, PORTS);
        mst_memory_fail_at(0);
        if (!status) break;
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        assert_int_equal(muster_function_port_count(t.f), 1);
    }
    assert_true(failed >= 4);
    assert_refused(muster_function_describe(t.f, NULL, 1), MUSTER_INVALID_ARGUMENT, "ports: expected 1 ports, received NULL");
    assert_refused(muster_function_describe(t.f, ports, -1), MUSTER_INVALID_ARGUMENT, "count: expected 0 or more, received -1");
    assert_refused(muster_function_describe(NULL, ports, 1), MUSTER_INVALID_ARGUMENT, "function: expected a function");
    assert_ok(muster_function_describe(t.f, NULL, 0));
    expect_right(&t);
    assert_ok(muster_function_destroy(t.f)); /* both variables are free again: their users were counted rightly */
    assert_ok(muster_variable_destroy(t.v));
    assert_ok(muster_variable_destroy(t.data));
    fixture_close(t.runtime);
}

static void objects_are_found_by_name(void **unused) {
    (void)unused;
    world t;
    world_open(&t, "host", 1);
    muster_function *f, *second;
    muster_variable *v;
    assert_ok(muster_function_create(t.runtime, "data", body, &t.v, &second)); /* the name of a variable */
    assert_ok(muster_function_find(t.runtime, "f", &f));
    assert_ptr_equal(f, t.f);
    assert_ok(muster_function_find(t.runtime, "data", &f));
    assert_ptr_equal(f, second);
    assert_ok(muster_variable_find(t.runtime, "data", &v));
    assert_ptr_equal(v, t.data);
    assert_refused(muster_variable_find(t.runtime, "f", &v), MUSTER_INVALID_ARGUMENT, "expected the name of a variable of this runtime");
    assert_null(v);
    assert_ok(muster_function_destroy(second));
    assert_refused(muster_function_find(t.runtime, "data", &f), MUSTER_INVALID_ARGUMENT,
                   "muster_function_find: name: expected the name of a function of this runtime, received 'data'");
    assert_null(f);
    assert_refused(muster_function_find(NULL, "f", &f), MUSTER_INVALID_ARGUMENT, "runtime: expected a runtime");
    assert_refused(muster_function_find(t.runtime, NULL, &f), MUSTER_INVALID_ARGUMENT, "name: expected a string");
    assert_refused(muster_variable_find(t.runtime, "v", NULL), MUSTER_INVALID_ARGUMENT, "variable: expected the address of a pointer");
    fixture_close(t.runtime);
}

/* ---- prepare ---- */

/* A function with the same body takes the scratch memory that the operations need. */
static void warm_scratch(world *t, const muster_port *ports) {
    muster_function *other;
    muster_variable *none = NULL;
    assert_ok(muster_function_create(t->runtime, "other", body, &none, &other));
    assert_ok(muster_function_describe(other, ports, 3));
    assert_ok(muster_function_call(other, t->in, 1, t->out, 2, NULL));
    assert_ok(muster_function_destroy(other));
}

static void a_prepared_call_only_runs(void **unused) {
    (void)unused;
    for_each_backend(backend) for (int devices = 1; devices <= 3; devices++) {
        world t;
        muster_port ports[PORTS];
        world_open(&t, backend, devices);
        make_ports(&t, ports);
        assert_ok(muster_function_describe(t.f, ports, 5));
        warm_scratch(&t, ports);
        bodies = 0;
        memset(t.s, 7, sizeof t.s);
        float before[K];
        memcpy(before, t.s, sizeof before);
        assert_ok(muster_function_prepare(t.f, t.in, 1, t.out, 2, NULL));
        assert_int_equal(processes_sum(bodies), 0);
        assert_memory_equal(t.s, before, sizeof before);
        assert_refused(muster_function_input(t.f, "late", MUSTER_F32, 1, MUSTER_SCATTER), MUSTER_BAD_STATE, "complete");
        const int64_t allocations = mst_memory_count();
        assert_ok(muster_function_call(t.f, t.in, 1, t.out, 2, NULL));
        if (strncmp(muster_runtime_device(t.runtime, 0), "host", 4) == 0) assert_int_equal(mst_memory_count(), allocations);
        expect_right(&t);
        fixture_close(t.runtime);
    }
}

static void prepare_refuses_what_a_call_refuses(void **unused) {
    (void)unused;
    world t;
    muster_port ports[PORTS];
    muster_call_options options;
    world_open(&t, "host", 2);
    make_ports(&t, ports);
    assert_ok(muster_function_describe(t.f, ports, 5));
    muster_call_options_init(&options);
    options.slices = -1;
    assert_refused(muster_function_prepare(t.f, t.in, 1, t.out, 2, &options), MUSTER_INVALID_ARGUMENT, "muster_function_prepare: slices");
    assert_refused(muster_function_prepare(t.f, t.in, 0, t.out, 2, NULL), MUSTER_INVALID_ARGUMENT,
                   "input_count: expected the 1 of function 'f'");
    assert_refused(muster_function_prepare(NULL, t.in, 1, t.out, 2, NULL), MUSTER_INVALID_ARGUMENT, "function: expected a function");
    t.out[1] = t.in[0];
    assert_refused(muster_function_prepare(t.f, t.in, 1, t.out, 2, NULL), MUSTER_INVALID_ARGUMENT, "overlaps input 'x'");
    t.out[1] = muster_f32(t.g, N, K);
    expect_right(&t);
    fixture_close(t.runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_by_one_array_is_read_back),
        cmocka_unit_test(every_use_of_a_variable_is_read_back),
        cmocka_unit_test(a_refused_description_adds_nothing),
        cmocka_unit_test(objects_are_found_by_name),
        cmocka_unit_test(a_prepared_call_only_runs),
        cmocka_unit_test(prepare_refuses_what_a_call_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
