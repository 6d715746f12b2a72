/* Outputs of any number of rows: calls that fill buffers (muster_call_options.output_buffers). */
#include "function_fixture.h"

#include "memory_impl.h"
#include "runtime_gpus.h"

#include <string.h>

enum { ROWS = 11, K = 3 };

/* How many times the body gives each row: none, all, some. user: the modulus. */
static int64_t copies_of(int64_t row, int64_t modulus) { return modulus ? row % modulus : 0; }

/* Output 0: row r of x copies_of(r) times; output 1: all rows; output 2: the number of rows. */
static muster_status choose(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t modulus = *(const int64_t *)user, first = muster_worker_first_row(w), rows = in[0].shape[0];
    int64_t given = 0, at = 0;
    muster_tensor y;
    if (modulus < 0) return muster_fail(MUSTER_USER, "the body has failed");
    for (int64_t r = 0; r < rows; r++) given += copies_of(first + r, modulus);
    MUSTER_TRY(muster_worker_output_rows(w, 0, given, &y));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; y.dtype && c < copies_of(first + r, modulus); c++, at++)
            MUSTER_TRY(muster_copy(w, muster_tensor_slice(in[0], r, r + 1), muster_tensor_slice(y, at, at + 1)));
    if (out[1].dtype) MUSTER_TRY(muster_copy(w, in[0], out[1]));
    return out[2].dtype ? muster_fill(w, (double)rows, out[2]) : MUSTER_OK;
}

static muster_function *function_of(muster_runtime *runtime, int64_t *modulus) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "choose", choose, modulus, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "some", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_output(f, "all", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_output(f, "count", MUSTER_F32, 0, MUSTER_SUM));
    return f;
}

static muster_status copy(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_copy(w, in[0], out[0]);
}

static muster_function *copy_of_vectors(muster_runtime *runtime) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "copy", copy, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
    return f;
}

static muster_buffer *buffer_of(int64_t columns) {
    muster_buffer *buffer;
    assert_ok(muster_buffer_create(MUSTER_F32, 2, 1, &buffer));
    assert_ok(muster_buffer_set_shape(buffer, 2, (int64_t[]){0, columns}));
    return buffer;
}

static float x[ROWS][K];

static void fill_x(void) {
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < K; c++) x[r][c] = (float)(10 * r + c);
}

static void check_some(const muster_buffer *buffer, int64_t rows, int64_t modulus) {
    const muster_tensor got = muster_buffer_tensor(buffer);
    const float *at = muster_tensor_address(got);
    int64_t expected = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < copies_of(r, modulus); c++, expected++)
            if (expected < got.shape[0]) assert_memory_equal(at + expected * K, x[r], sizeof x[r]);
    assert_int_equal(got.shape[0], expected);
    assert_int_equal(got.shape[1], K);
    assert_true(muster_tensor_is_contiguous(got));
}

static void check_call(muster_runtime *runtime, muster_function *f, int64_t *modulus, int64_t rows, int64_t slices,
                       muster_buffer *const buffers[3]) {
    muster_call_options options;
    float count = -1;
    const muster_tensor in = muster_f32(x, rows, K);
    const muster_tensor outputs[3] = {muster_tensor_none(), muster_tensor_none(), muster_f32(&count)};
    muster_call_options_init(&options);
    options.slices = slices;
    options.output_buffers = buffers;
    (void)runtime;
    assert_ok(muster_function_call(f, &in, 1, outputs, 3, &options));
    check_some(buffers[0], rows, *modulus);
    const muster_tensor all = muster_buffer_tensor(buffers[1]);
    assert_int_equal(all.shape[0], rows);
    if (rows) assert_memory_equal(muster_tensor_address(all), x, (size_t)rows * sizeof x[0]);
    assert_true(count == (float)rows);
}

static void buffers_get_the_rows_of_all_workers(void **state) {
    (void)state;
    int cases = 0;
    fill_x();
    for_each_backend(backend) for (int devices = 1; devices <= 4; devices++) {
        muster_runtime *runtime = fixture_open(backend, devices);
        int64_t modulus = 0;
        muster_function *f = function_of(runtime, &modulus);
        muster_buffer *const buffers[3] = {buffer_of(K), buffer_of(K), NULL};
        static const int64_t row_counts[] = {0, 1, 2, ROWS, 5, 0, ROWS};
        for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++)
            for (modulus = 0; modulus < 4; modulus++)
                for (int64_t slices = 1; slices <= 3; slices += 2) {
                    check_call(runtime, f, &modulus, row_counts[r], slices, buffers);
                    cases++;
                }
        muster_buffer_destroy(buffers[0]);
        muster_buffer_destroy(buffers[1]);
        fixture_close(runtime);
    }
    assert_int_equal(cases, 2 * 4 * 7 * 4 * 2);
}

/* Tensors, buffers and unwanted outputs in turn, by name too: no plan of one serves the other. */
static void calls_with_and_without_buffers_take_turns(void **state) {
    (void)state;
    fill_x();
    muster_runtime *runtime = fixture_open("host", 3);
    int64_t modulus = 2;
    muster_function *f = function_of(runtime, &modulus);
    muster_buffer *buffers[3] = {buffer_of(K), NULL, NULL};
    const muster_tensor in = muster_f32(x, ROWS, K);
    for (int round = 0; round < 4; round++) {
        muster_call_options options;
        float some[ROWS][K], all[ROWS][K];
        const muster_tensor tensors[3] = {muster_f32(some, ROWS / 2, K), muster_f32(all, ROWS, K), muster_tensor_none()};
        memset(some, 0xff, sizeof some);
        assert_ok(muster_function_call(f, &in, 1, tensors, 3, NULL));
        for (int r = 0; r < ROWS / 2; r++) assert_memory_equal(some[r], x[2 * r + 1], sizeof x[0]);
        muster_call_options_init(&options);
        options.output_buffers = buffers;
        const muster_tensor mixed[3] = {muster_tensor_none(), tensors[1], muster_tensor_none()};
        memset(all, 0, sizeof all);
        assert_ok(muster_function_call(f, &in, 1, mixed, 3, &options));
        check_some(buffers[0], ROWS, modulus);
        assert_memory_equal(all, x, sizeof all);
        assert_ok(muster_buffer_set_length(buffers[0], 0));
        const char *names[] = {"all", "some"};
        const char *in_names[] = {"x"};
        muster_buffer *named[] = {NULL, buffers[0]};
        const muster_tensor by_name[2] = {tensors[1], muster_tensor_none()};
        options.output_buffers = named;
        assert_ok(muster_function_call_named(f, in_names, &in, 1, names, by_name, 2, &options));
        check_some(buffers[0], ROWS, modulus);
    }
    muster_buffer_destroy(buffers[0]);
    fixture_close(runtime);
}

/* A row of no elements that the program has asked for, and a vector, whose rows have no sizes. */
static void empty_rows_and_vectors_need_no_sizes(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("host", 2);
    int64_t modulus = 2;
    muster_function *f = function_of(runtime, &modulus);
    muster_buffer *empty = buffer_of(0), *vector;
    muster_call_options options;
    muster_call_options_init(&options);
    options.output_buffers = (muster_buffer *[]){NULL, empty, NULL};
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS, 0)}, 1, (muster_tensor[3]){{0}}, 3, &options));
    assert_int_equal(muster_buffer_tensor(empty).shape[0], ROWS);
    assert_int_equal(muster_buffer_tensor(empty).shape[1], 0);
    assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &vector));
    muster_function *same = copy_of_vectors(runtime);
    options.output_buffers = &vector;
    assert_ok(muster_function_call(same, (muster_tensor[]){muster_f32(x[0], K)}, 1, (muster_tensor[1]){{0}}, 1, &options));
    assert_int_equal(muster_buffer_tensor(vector).shape[0], K);
    muster_buffer_destroy(empty), muster_buffer_destroy(vector);
    fixture_close(runtime);
}

/* Asynchronous and single calls; the array of buffers may end when the call has been made. */
static void other_ways_of_calling_fill_buffers_too(void **state) {
    (void)state;
    fill_x();
    muster_runtime *runtime = fixture_open("host", 2);
    int64_t modulus = 3;
    muster_function *f = function_of(runtime, &modulus);
    muster_buffer *buffer = buffer_of(K);
    const muster_tensor in = muster_f32(x, ROWS, K), outputs[3] = {{0}};
    muster_call_options options;
    muster_pending *pending;
    muster_call_options_init(&options);
    {
        muster_buffer *buffers[3] = {buffer, NULL, NULL};
        options.output_buffers = buffers;
        assert_ok(muster_function_prepare(f, &in, 1, outputs, 3, &options));
        assert_int_equal(muster_buffer_tensor(buffer).shape[0], 0);
        assert_ok(muster_function_call_async(f, &in, 1, outputs, 3, &options, &pending));
        memset(buffers, 0x55, sizeof buffers);
    }
    assert_ok(muster_pending_wait(&pending));
    check_some(buffer, ROWS, modulus);
    assert_ok(muster_buffer_set_length(buffer, 1));
    muster_buffer *buffers[3] = {buffer, NULL, NULL};
    options.output_buffers = buffers;
    assert_ok(muster_function_call_single(f, &in, 1, outputs, 3, &options));
    check_some(buffer, ROWS, modulus);
    muster_buffer_destroy(buffer);
    fixture_close(runtime);
}

/* The storage serves the next call as long as the rows fit. */
static void storage_is_used_again(void **state) {
    (void)state;
    fill_x();
    muster_runtime *runtime = fixture_open("host", 2);
    int64_t modulus = 3;
    muster_function *f = function_of(runtime, &modulus);
    muster_buffer *const buffers[3] = {buffer_of(K), buffer_of(K), NULL};
    check_call(runtime, f, &modulus, ROWS, 1, buffers);
    const void *storage = muster_tensor_address(muster_buffer_tensor(buffers[0]));
    const int64_t capacity = muster_buffer_capacity(buffers[0]);
    for (int64_t rows = 0; rows <= ROWS; rows++) check_call(runtime, f, &modulus, rows, 1, buffers);
    assert_ptr_equal(muster_tensor_address(muster_buffer_tensor(buffers[0])), storage);
    assert_int_equal(muster_buffer_capacity(buffers[0]), capacity);
    muster_buffer_destroy(buffers[0]);
    muster_buffer_destroy(buffers[1]);
    fixture_close(runtime);
}

static void assert_unchanged(const muster_buffer *buffer) {
    const muster_tensor value = muster_buffer_tensor(buffer);
    const float expected[K] = {7, 8, 9};
    assert_int_equal(value.shape[0], 1);
    assert_memory_equal(muster_tensor_address(value), expected, sizeof expected);
}

static muster_buffer *buffer_with_value(void) {
    static float value[K] = {7, 8, 9};
    muster_buffer *buffer = buffer_of(K);
    assert_ok(muster_buffer_set_value(buffer, muster_f32(value, 1, K), MUSTER_CAST_SAFE));
    return buffer;
}

static void a_failed_call_leaves_buffers_as_they_were(void **state) {
    (void)state;
    fill_x();
    muster_runtime *runtime = fixture_open("host", 2);
    int64_t modulus = 3;
    muster_function *f = function_of(runtime, &modulus);
    muster_buffer *buffers[3] = {buffer_with_value(), buffer_with_value(), NULL};
    muster_call_options options;
    muster_call_options_init(&options);
    options.output_buffers = buffers;
    const muster_tensor in = muster_f32(x, ROWS, K), outputs[3] = {{0}};
    modulus = -1;
    assert_refused(muster_function_call(f, &in, 1, outputs, 3, &options), MUSTER_USER, "the body has failed");
    assert_unchanged(buffers[0]), assert_unchanged(buffers[1]);
    modulus = 3;
    /* each allocation of the call fails in turn, until none is left */
    int failures = 0;
    for (;; failures++) {
        mst_memory_fail_at(failures + 1);
        const muster_status status = muster_function_call(f, &in, 1, outputs, 3, &options);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) break;
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        assert_unchanged(buffers[0]), assert_unchanged(buffers[1]);
    }
    assert_true(failures >= 2); /* at least the storage of each buffer */
    check_some(buffers[0], ROWS, modulus);
    muster_buffer_destroy(buffers[0]);
    muster_buffer_destroy(buffers[1]);
    fixture_close(runtime);
}

static void wrong_buffers_are_refused(void **state) {
    (void)state;
    fill_x();
    muster_runtime *runtime = fixture_open("host", 2);
    int64_t modulus = 3;
    muster_function *f = function_of(runtime, &modulus);
    muster_buffer *good = buffer_with_value(), *freed = buffer_with_value(), *flat, *wide, *fresh;
    assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &flat));
    assert_ok(muster_buffer_create(MUSTER_F64, 2, 1, &wide));
    assert_ok(muster_buffer_create(MUSTER_F32, 2, 1, &fresh));
    assert_ok(muster_buffer_set_length(fresh, 2)); /* says nothing of a row */
    muster_buffer_free_memory(freed);
    float some[ROWS][K];
    const muster_tensor in = muster_f32(x, ROWS, K), none = muster_tensor_none(), tensor = muster_f32(some, ROWS, K);
    const struct {
        muster_buffer *buffers[3];
        muster_tensor first;
        muster_status status;
        const char *words;
    } cases[] = {
        {{good, NULL, NULL}, tensor, MUSTER_INVALID_ARGUMENT, "output 'some' of function 'choose': expected no tensor beside the buffer"},
        {{good, good, NULL}, none, MUSTER_INVALID_ARGUMENT, "expected a buffer for each output, received the same for 'some' and 'all'"},
        {{NULL, NULL, good}, none, MUSTER_UNSUPPORTED, "output 'count' of function 'choose': expected an output with MUSTER_GATHER"},
        {{flat, NULL, NULL}, none, MUSTER_SHAPE_MISMATCH, "output 'some' of function 'choose': expected 2 dimensions, received 1"},
        {{wide, NULL, NULL}, none, MUSTER_DTYPE_MISMATCH, "output 'some' of function 'choose': expected f32, received f64"},
        {{fresh, NULL, NULL}, none, MUSTER_SHAPE_MISMATCH, "output 'some' of function 'choose': expected a buffer with the sizes of a row"},
        {{NULL, freed, NULL}, none, MUSTER_SHAPE_MISMATCH, "output 'all' of function 'choose': expected a buffer with the sizes of a row"},
    };
    int refused = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        muster_call_options options;
        muster_pending *pending;
        const muster_tensor outputs[3] = {cases[c].first, none, none};
        muster_call_options_init(&options);
        options.output_buffers = cases[c].buffers;
        assert_refused(muster_function_call(f, &in, 1, outputs, 3, &options), cases[c].status, cases[c].words);
        assert_refused(muster_function_call_async(f, &in, 1, outputs, 3, &options, &pending), cases[c].status, cases[c].words);
        assert_refused(muster_function_prepare(f, &in, 1, outputs, 3, &options), cases[c].status, cases[c].words);
        refused += 3;
    }
    assert_int_equal(refused, 21);
    const char *in_names[] = {"x"}, *twice[] = {"some", "some"};
    muster_buffer *named[] = {good, good};
    muster_call_options options;
    muster_call_options_init(&options);
    options.output_buffers = named;
    assert_refused(muster_function_call_named(f, in_names, &in, 1, twice, (muster_tensor[]){none, none}, 2, &options),
                   MUSTER_INVALID_ARGUMENT, "output_names: expected every name once, received 'some' twice");
    assert_unchanged(good);
    muster_buffer_destroy(good), muster_buffer_destroy(flat), muster_buffer_destroy(wide);
    muster_buffer_destroy(fresh), muster_buffer_destroy(freed);
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_get_the_rows_of_all_workers),       cmocka_unit_test(calls_with_and_without_buffers_take_turns),
        cmocka_unit_test(other_ways_of_calling_fill_buffers_too),    cmocka_unit_test(storage_is_used_again),
        cmocka_unit_test(a_failed_call_leaves_buffers_as_they_were), cmocka_unit_test(wrong_buffers_are_refused),
        cmocka_unit_test(empty_rows_and_vectors_need_no_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
