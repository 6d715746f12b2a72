/* MUSTER_INPUT_HOST: bodies on every kind of device read these inputs by their addresses. Every
 * mode, every kind of selection, with and without slices and strides. */
#include "function_fixture.h"
#include "memory_impl.h"
#include "muster/nodes.h"

#include <stdbool.h>
#include <string.h>

enum { DEVICES = 3, ROWS = 12, COLUMNS = 2, SELECTED_MAX = ROWS };

/* What the bodies have read, by position among the selected rows. */
typedef struct record {
    const muster_runtime *runtime;
    const char *memory; /* the caller's arrays */
    size_t bytes;
    bool copies;             /* the rows are packed, so they are not in the caller's memory */
    bool wrong[DEVICES];     /* a body has met what is not right */
    int32_t rows_seen[ROWS]; /* how often a position came */
    int32_t scattered[ROWS], minibatch[ROWS];
    int32_t runs[DEVICES];
} record;

static int32_t element(const muster_tensor *tensor, int64_t row, int64_t column) {
    const int32_t *at = muster_tensor_address(*tensor);
    return at[row * tensor->strides[0] + column * tensor->strides[1]];
}

static bool is_callers(const record *r, const muster_tensor *tensor) {
    const char *address = muster_tensor_address(*tensor);
    return address >= r->memory && address < r->memory + r->bytes;
}

/* in: scattered, minibatch and broadcast in host memory; the scattered one once more, on the
 * device. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    record *r = user;
    const int64_t first = muster_worker_first_row(w), rows = muster_worker_rows(w);
    float scale = 0;
    bool right = muster_worker_rank(w) == in[3].device + muster_runtime_first_rank(r->runtime, muster_worker_process(w));
    for (int i = 0; i < 3; i++) right &= in[i].device == MUSTER_DEVICE_HOST;
    right &= in[0].shape[0] == rows && in[1].shape[0] == rows && in[2].shape[0] == 1 && in[3].shape[0] == rows;
    right &= is_callers(r, &in[0]) == !r->copies && is_callers(r, &in[1]) && is_callers(r, &in[2]);
    r->wrong[muster_worker_rank(w)] |= !right;
    r->runs[muster_worker_rank(w)]++;
    for (int64_t i = 0; i < rows; i++) {
        r->rows_seen[first + i]++;
        r->scattered[first + i] = element(&in[0], i, 1);
        r->minibatch[first + i] = element(&in[1], i, 1);
    }
    scale = (float)element(&in[2], 0, 1);
    muster_tensor sums;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[3].shape + 1, &sums));
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[3], 0, sums));
    return muster_scale_add(w, scale, sums, 0, out[0]);
}

static muster_function *make(muster_runtime *runtime, record *r) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "reads", body, r, &f));
    assert_ok(muster_function_input(f, "scattered", MUSTER_I32, 2, MUSTER_SCATTER | MUSTER_INPUT_HOST | MUSTER_STRIDED));
    assert_ok(muster_function_input(f, "minibatch", MUSTER_I32, 2, MUSTER_MINIBATCH | MUSTER_INPUT_HOST));
    assert_ok(muster_function_input(f, "all", MUSTER_I32, 2, MUSTER_BROADCAST | MUSTER_INPUT_HOST));
    assert_ok(muster_function_input(f, "beside", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_SUM));
    return f;
}

static const int64_t list[] = {11, 0, 0, 5, 7, 3, 11};
typedef struct selected {
    muster_selection selection;
    int64_t count, rows[SELECTED_MAX];
} selected;
static const selected selections[] = {
    {{0}, 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
    {{.kind = MUSTER_SELECT_COUNT, .stop = 2}, 2, {0, 1}}, /* fewer rows than devices */
    {{.kind = MUSTER_SELECT_RANGE, .start = 4, .stop = 11}, 7, {4, 5, 6, 7, 8, 9, 10}},
    {{.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 7}, 7, {11, 0, 0, 5, 7, 3, 11}},
};
enum { SELECTIONS = 4, SLICES = 3 };

/* Element (row, 1) of an array is its start + row. */
typedef struct arrays {
    int32_t scattered[ROWS][2 * COLUMNS], minibatch[ROWS][COLUMNS], all[1][COLUMNS];
    float beside[ROWS][COLUMNS];
} arrays;

static void run_case(muster_function *f, record *r, const selected *s, int64_t slices, bool strided) {
    static arrays a;
    float y[COLUMNS] = {0};
    muster_call_options options;
    muster_call_options_init(&options);
    options.batch = s->selection;
    options.slices = slices;
    a.all[0][1] = 3;
    for (int i = 0; i < ROWS; i++) {
        for (int c = 0; c < 2 * COLUMNS; c++) a.scattered[i][c] = -1;
        a.scattered[i][strided ? 2 : 1] = 100 + i;
        a.minibatch[i][1] = 200 + i;
        a.beside[i][0] = a.beside[i][1] = (float)i;
    }
    muster_tensor scattered = muster_i32(a.scattered, ROWS, 2 * COLUMNS);
    scattered.shape[1] = COLUMNS;
    scattered.strides[1] = strided ? 2 : 1;
    const muster_tensor inputs[] = {scattered, muster_i32(a.minibatch, s->count, COLUMNS), muster_i32(a.all, 1, COLUMNS),
                                    muster_f32(a.beside, ROWS, COLUMNS)},
                        output = muster_f32(y, COLUMNS);
    *r = (record){.runtime = r->runtime, .memory = (const char *)&a, .bytes = sizeof a, .copies = s->selection.kind == MUSTER_SELECT_LIST};
    assert_ok(muster_function_call(f, inputs, 4, &output, 1, &options));
    processes_merge(r->rows_seen, sizeof r->rows_seen);
    processes_merge(r->scattered, sizeof r->scattered);
    processes_merge(r->minibatch, sizeof r->minibatch);
    for (int32_t rank = 0; rank < DEVICES; rank++) assert_false(r->wrong[rank]);
    float sum = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        assert_int_equal(r->rows_seen[i], i < s->count);
        if (i >= s->count) continue;
        assert_int_equal(r->scattered[i], 100 + s->rows[i]);
        assert_int_equal(r->minibatch[i], 200 + i);
        sum += (float)s->rows[i];
    }
    assert_true(y[0] == 3 * sum && y[1] == 3 * sum);
}

static void bodies_read_the_rows_in_host_memory(void **unused) {
    (void)unused;
    int cases = 0;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        record r = {.runtime = runtime};
        muster_function *f = make(runtime, &r);
        for (int s = 0; s < SELECTIONS; s++)
            for (int64_t slices = 1; slices <= SLICES; slices++)
                for (int strided = 0; strided < 2; strided++)
                    for (int repeat = 0; repeat < 2; repeat++, cases++) run_case(f, &r, &selections[s], slices, strided);
        fixture_close(runtime);
    }
    assert_int_equal(cases, 2 * SELECTIONS * SLICES * 2 * 2);
}

static muster_status copy_directly(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    bool *on_host = user;
    if (on_host && muster_worker_rank(w) == 0) *on_host = !strcmp(muster_worker_backend(w), "host");
    return muster_copy(w, in[0], out[0]);
}

static muster_status write_first(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    muster_tensor there;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[0].shape, &there));
    if (!strcmp(muster_worker_backend(w), "host")) return muster_copy(w, in[0], out[0]);
    MUSTER_TRY(muster_worker_write(w, in[0], there));
    return muster_copy(w, there, out[0]);
}

/* An operation takes host memory only where it is the device's own. */
static void operations_on_a_gpu_refuse_host_inputs(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        bool on_host = false;
        float x[2] = {4, 5}, y[2] = {0};
        const muster_tensor input = muster_f32(x, 2), output = muster_f32(y, 2);
        muster_body bodies[] = {copy_directly, write_first};
        for (int i = 0; i < 2; i++) {
            muster_function *f;
            assert_ok(muster_function_create(runtime, i ? "writes" : "copies", bodies[i], &on_host, &f));
            assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_BROADCAST | MUSTER_INPUT_HOST));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_MAX));
            const muster_status status = muster_function_call(f, &input, 1, &output, 1, NULL);
            char message[MST_MESSAGE_SIZE];
            mst_error_save(message);
            processes_merge(&on_host, sizeof on_host);
            if (i == 0 && !on_host) {
                assert_refused(mst_error_restore(status, message), MUSTER_INVALID_ARGUMENT, "muster_copy");
            } else {
                assert_ok(status);
                assert_true(y[0] == 4 && y[1] == 5);
            }
        }
        fixture_close(runtime);
    }
}

static void the_flag_in_a_description(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    muster_function *f;
    muster_port port;
    assert_ok(muster_function_create(runtime, "f", copy_directly, NULL, &f));
    const muster_port with = {
        .kind = MUSTER_PORT_INPUT, .mode = MUSTER_SCATTER | MUSTER_INPUT_HOST, .name = "x", .dtype = MUSTER_F32, .ndim = 1};
    assert_ok(muster_function_describe(f, &with, 1));
    assert_ok(muster_function_port(f, 0, &port));
    assert_int_equal(port.mode, MUSTER_SCATTER | MUSTER_INPUT_HOST);
    assert_refused(muster_function_input(f, "y", MUSTER_F32, 1, MUSTER_INPUT_HOST), MUSTER_INVALID_ARGUMENT,
                   "received 0 with MUSTER_INPUT_HOST");
    assert_refused(muster_function_input(f, "y", MUSTER_F32, 1, MUSTER_SUM | MUSTER_INPUT_HOST), MUSTER_INVALID_ARGUMENT,
                   "received 1 with MUSTER_INPUT_HOST");
    assert_refused(muster_function_input(f, "y", MUSTER_F32, 1, -1), MUSTER_INVALID_ARGUMENT, "received -1");
    assert_refused(muster_function_input(f, "y", MUSTER_F32, 0, MUSTER_SCATTER | MUSTER_INPUT_HOST), MUSTER_INVALID_ARGUMENT,
                   "a scattered input has rows");
    assert_refused(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_SUM | MUSTER_INPUT_HOST), MUSTER_INVALID_ARGUMENT, "mode of 'y'");
    assert_int_equal(muster_function_port_count(f), 1);
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_read_the_rows_in_host_memory),
        cmocka_unit_test(operations_on_a_gpu_refuse_host_inputs),
        cmocka_unit_test(the_flag_in_a_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
