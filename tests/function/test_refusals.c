/* Every call that is refused before a worker starts: the message names the argument, what was
 * expected and what came; the caller's output is untouched, and the next correct call succeeds. */
#include "function_fixture.h"

#include <string.h>

typedef struct world {
    muster_runtime *runtime;
    muster_function *f; /* y = sum over rows of x (n, 2) scattered, + nothing of b (2) broadcast */
    float x[8], b[2], y[2];
    muster_tensor in[2], out[1];
    muster_call_options options;
} world;

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]);
}

static void open_world(world *t, const char *backend) {
    memset(t, 0, sizeof *t);
    for (int i = 0; i < 8; i++) t->x[i] = (float)i;
    t->runtime = fixture_open(backend, 2);
    assert_ok(muster_function_create(t->runtime, "f", body, NULL, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_input(t->f, "b", MUSTER_F32, 1, MUSTER_BROADCAST));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 1, MUSTER_SUM));
    t->in[0] = muster_f32(t->x, 4, 2);
    t->in[1] = muster_f32(t->b, 2);
    t->out[0] = muster_f32(t->y, 2);
    muster_call_options_init(&t->options);
}

static muster_status call(world *t) { return muster_function_call(t->f, t->in, 2, t->out, 1, &t->options); }

/* Refused with code and message; nothing was written; then everything is put right and works. */
static void expect_refusal(world *t, muster_status status, muster_status code, const char *part) {
    assert_refused(status, code, part);
    assert_float_equal(t->y[0], 0, 0);
    assert_float_equal(t->y[1], 0, 0);
    const muster_tensor in[2] = {muster_f32(t->x, 4, 2), muster_f32(t->b, 2)}, out = muster_f32(t->y, 2);
    assert_ok(muster_function_call(t->f, in, 2, &out, 1, NULL));
    assert_float_equal(t->y[0], 12, 0);
    assert_float_equal(t->y[1], 16, 0);
    fixture_close(t->runtime);
}

#define REFUSAL(name, code, part, ...)                \
    static void name(void **unused) {                 \
        (void)unused;                                 \
        for_each_backend(backend) {                   \
            world t;                                  \
            open_world(&t, backend);                  \
            __VA_ARGS__;                              \
            expect_refusal(&t, call(&t), code, part); \
        }                                             \
    }

static const int64_t too_large[] = {0, 4}, negative[] = {1, -1};
static float spare[64];

REFUSAL(wrong_dtype, MUSTER_DTYPE_MISMATCH, "input 'x' of function 'f': expected f32, received f64",
        t.in[0] = muster_f64((void *)spare, 4, 2))
REFUSAL(wrong_ndim, MUSTER_SHAPE_MISMATCH, "input 'x' of function 'f': expected 2 dimensions, received 1", t.in[0] = muster_f32(t.x, 4))
REFUSAL(wrong_output_ndim, MUSTER_SHAPE_MISMATCH, "output 'y' of function 'f': expected 1 dimensions, received 0",
        t.out[0] = muster_f32(t.y))
REFUSAL(null_data, MUSTER_INVALID_ARGUMENT, "input 'x'", t.in[0] = muster_f32(NULL, 4, 2))
REFUSAL(negative_size, MUSTER_INVALID_ARGUMENT, "input 'x'", t.in[0] = muster_f32(t.x, -4, 2))
REFUSAL(overflowing_size, MUSTER_OVERFLOW, "input 'x'", t.in[0] = muster_f32(t.x, INT64_MAX / 2, 3))
REFUSAL(no_input_tensor, MUSTER_INVALID_ARGUMENT, "input 'x'", t.in[0] = muster_tensor_none())
REFUSAL(host_memory_as_that_of_a_device, MUSTER_INVALID_ARGUMENT, "input 'x' of function 'f': expected memory of a tensor that",
        t.in[0].device = 1)
REFUSAL(zero_slices, MUSTER_INVALID_ARGUMENT, "slices: expected at least 0 (0 means 1), received -1", t.options.slices = -1)
REFUSAL(index_out_of_range, MUSTER_OUT_OF_RANGE, "4",
        t.options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = too_large, .index_count = 2})
REFUSAL(negative_index, MUSTER_OUT_OF_RANGE, "-1",
        t.options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = negative, .index_count = 2})
REFUSAL(null_list, MUSTER_INVALID_ARGUMENT, "x", t.options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .index_count = 2})
REFUSAL(range_out_of_range, MUSTER_OUT_OF_RANGE, "5",
        t.options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 1, .stop = 5})
REFUSAL(replica_batch_without_sliceable_variables, MUSTER_INVALID_ARGUMENT, "which has no sliceable variables",
        t.options.replica_batch = &t.options.batch, t.options.replica_batch_count = 1)
REFUSAL(options_without_size, MUSTER_INVALID_ARGUMENT,
        "struct_size of muster_call_options: expected the size of the program's struct, a multiple of 8 up to 4096 "
        "(muster_call_options_init sets 104), received 0",
        t.options.struct_size = 0)

REFUSAL(reserved_of_the_batch, MUSTER_INVALID_ARGUMENT, "options: batch: reserved: expected 0, received 1", t.options.batch.reserved = 1)

REFUSAL(a_start_of_all_rows, MUSTER_INVALID_ARGUMENT,
        "muster_function_call: options: batch: expected kind COUNT, RANGE or LIST for start 1, stop 0 and 0 indices at NULL, received "
        "MUSTER_SELECT_ALL",
        t.options.batch.start = 1)
REFUSAL(a_stop_of_all_rows, MUSTER_INVALID_ARGUMENT, "received MUSTER_SELECT_ALL", t.options.batch.stop = 4)
REFUSAL(indices_of_all_rows, MUSTER_INVALID_ARGUMENT, "and 0 indices, received MUSTER_SELECT_ALL", t.options.batch.indices = too_large)
REFUSAL(an_index_count_of_all_rows, MUSTER_INVALID_ARGUMENT, "and 2 indices at NULL, received MUSTER_SELECT_ALL",
        t.options.batch.index_count = 2)
REFUSAL(a_replica_batch_without_its_count, MUSTER_INVALID_ARGUMENT,
        "options: replica_batch: expected NULL or replica_batch_count 1 or more, received count 0",
        t.options.replica_batch = &t.options.batch)
REFUSAL(a_view_that_could_not_be_made, MUSTER_INVALID_ARGUMENT,
        "input 'x' of function 'f': expected a tensor, received a view that could not be made: muster_tensor_slice_axis",
        t.in[0] = muster_tensor_slice_axis(t.in[0], 0, 0, 1000))
REFUSAL(an_output_that_could_not_be_made, MUSTER_INVALID_ARGUMENT, "output 'y' of function 'f': expected a tensor, received a view",
        t.out[0] = muster_tensor_slice_axis(t.out[0], 0, 0, 1000))
static void an_empty_batch_is_refused(void **unused) {
    (void)unused;
    const muster_selection empty[] = {{.kind = MUSTER_SELECT_COUNT, .stop = 0},
                                      {.kind = MUSTER_SELECT_RANGE, .start = 2, .stop = 2},
                                      {.kind = MUSTER_SELECT_LIST, .indices = too_large, .index_count = 0}};
    for (size_t i = 0; i < 3; i++) {
        world t;
        open_world(&t, "host");
        t.options.batch = empty[i];
        expect_refusal(&t, call(&t), MUSTER_INVALID_ARGUMENT, "muster_function_call: options: batch: expected at least one row");
    }
}

static void wrong_counts_are_refused(void **unused) {
    (void)unused;
    world t;
    open_world(&t, "host");
    assert_refused(muster_function_call(t.f, t.in, 1, t.out, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "input_count: expected the 2 of function 'f', received 1");
    assert_refused(muster_function_call(t.f, NULL, 2, t.out, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "inputs: expected the 2 of function 'f', received NULL");
    assert_refused(muster_function_call(NULL, t.in, 2, t.out, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "function: expected a function, received NULL");
    expect_refusal(&t, muster_function_call(t.f, t.in, 2, t.out, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "output_count: expected the 1 of function 'f', received 0");
}

static void lengths_that_differ_are_refused(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f;
    float x[4] = {0}, y = 0;
    assert_ok(muster_function_create(runtime, "g", body, NULL, &f));
    assert_ok(muster_function_input(f, "a", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_input(f, "b", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    const muster_tensor out = muster_f32(&y);
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 4), muster_f32(x, 3)}, 2, &out, 1, NULL), MUSTER_SHAPE_MISMATCH,
                   "input 'b' of function 'g': expected 4 rows as input 'a' has, received 3");
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 4), muster_f32(x, 4)}, 2, &out, 1, NULL));
    fixture_close(runtime);
}

static void names_are_checked(void **unused) {
    (void)unused;
    world t;
    open_world(&t, "host");
    const char *out_name[] = {"y"};
    assert_refused(muster_function_call_named(t.f, (const char *[]){"x", "q"}, t.in, 2, out_name, t.out, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "input_names: expected the name of one of the 2 inputs of function 'f' ('x', 'b'), received 'q'");
    assert_refused(muster_function_call_named(t.f, (const char *[]){"x", "x"}, t.in, 2, out_name, t.out, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "input_names: expected every name once, received 'x' twice");
    assert_refused(muster_function_call_named(t.f, (const char *[]){"x"}, t.in, 1, out_name, t.out, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "input_names: expected input 'b' of function 'f' too, received none");
    expect_refusal(&t, muster_function_call_named(t.f, (const char *[]){"x", NULL}, t.in, 2, out_name, t.out, 1, NULL),
                   MUSTER_INVALID_ARGUMENT, "input_names[1]: expected a string, received NULL");
}

static void descriptions_are_checked(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f, *g = NULL;
    assert_refused(muster_function_create(runtime, "f", NULL, NULL, &f), MUSTER_INVALID_ARGUMENT, "expected a function, received NULL");
    assert_refused(muster_function_create(runtime, "", body, NULL, &f), MUSTER_INVALID_ARGUMENT, "name");
    assert_refused(muster_function_create(NULL, "f", body, NULL, &f), MUSTER_INVALID_ARGUMENT, "runtime");
    assert_ok(muster_function_create(runtime, "f", body, NULL, &f));
    assert_refused(muster_function_create(runtime, "f", body, NULL, &g), MUSTER_INVALID_ARGUMENT, "'f'");
    assert_null(g);
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_refused(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER), MUSTER_INVALID_ARGUMENT,
                   "expected a new name in function 'f', received 'x'");
    assert_refused(muster_function_input(f, "s", MUSTER_F32, 0, MUSTER_SCATTER), MUSTER_INVALID_ARGUMENT,
                   "expected at least 1, received 0");
    assert_refused(muster_function_input(f, "n", MUSTER_F32, 9, MUSTER_BROADCAST), MUSTER_INVALID_ARGUMENT, "expected 0 to 8, received 9");
    assert_refused(muster_function_input(f, "d", 99, 1, MUSTER_BROADCAST), MUSTER_INVALID_ARGUMENT, "expected a muster_dtype, received 99");
    for (muster_input_mode mode = MUSTER_SUM; mode <= MUSTER_MASTER; mode++) /* the modes of outputs */
        assert_refused(muster_function_input(f, "m", MUSTER_F32, 1, mode), MUSTER_INVALID_ARGUMENT, "mode of 'm'");
    assert_refused(muster_function_input(f, "m", MUSTER_F32, 1, MUSTER_SCATTER - 1), MUSTER_INVALID_ARGUMENT, "mode of 'm'");
    assert_refused(muster_function_input(f, "m", MUSTER_F32, 1, MUSTER_MINIBATCH + 1), MUSTER_INVALID_ARGUMENT, "mode of 'm'");
    for (muster_collect_mode mode = MUSTER_SCATTER; mode <= MUSTER_MINIBATCH; mode++) /* the modes of inputs */
        assert_refused(muster_function_output(f, "m", MUSTER_F32, 1, mode), MUSTER_INVALID_ARGUMENT, "mode of 'm'");
    assert_refused(muster_function_output(f, "m", MUSTER_F32, 1, MUSTER_SUM - 1), MUSTER_INVALID_ARGUMENT, "mode of 'm'");
    assert_refused(muster_function_output(f, "m", MUSTER_F32, 1, MUSTER_MASTER + 1), MUSTER_INVALID_ARGUMENT, "mode of 'm'");
    assert_refused(muster_function_output(f, "a", MUSTER_I32, 1, MUSTER_AVG), MUSTER_UNSUPPORTED, "avg of i32");
    assert_refused(muster_function_output(f, "a", MUSTER_F32, 0, MUSTER_GATHER), MUSTER_INVALID_ARGUMENT, "a gathered output has rows");
    fixture_close(runtime);
}

static void a_function_without_a_body_for_a_device_is_refused(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("discrete", 2);
    muster_function *f;
    const muster_backend_body host_only = {"host", body};
    assert_refused(muster_function_create_with(runtime, "f", &host_only, 1, NULL, &f), MUSTER_UNSUPPORTED, "has no body for device 0");
    const muster_backend_body both[] = {{"host", body}, {NULL, body}};
    assert_ok(muster_function_create_with(runtime, "f", both, 2, NULL, &f));
    fixture_close(runtime);
}

static muster_status nested_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    (void)w, (void)in, (void)out;
    const muster_tensor inputs[2] = {muster_f32(t->x, 4, 2), muster_f32(t->b, 2)}, result = muster_f32(t->y, 2);
    return muster_function_call(t->f, inputs, 2, &result, 1, NULL);
}

static void a_call_inside_a_function_is_refused(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        world t;
        muster_function *outer;
        open_world(&t, backend);
        assert_ok(muster_function_create(t.runtime, "outer", nested_body, &t, &outer));
        expect_refusal(&t, muster_function_call(outer, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE, "inside");
    }
}

static void slices_with_nothing_to_slice_are_refused(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    muster_function *f;
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = 2;
    assert_ok(muster_function_create(runtime, "f", nested_body, NULL, &f));
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, &options), MUSTER_INVALID_ARGUMENT, "has nothing to slice");
    fixture_close(runtime);
}

static muster_status copy_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_copy(w, in[0], out[0]);
}

static void a_wrong_total_of_gathered_rows_is_refused_with_both_numbers(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_function *f;
        float x[4] = {1, 2, 3, 4}, y[5] = {0};
        assert_ok(muster_function_create(runtime, "copy", copy_body, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
        const muster_tensor in = muster_f32(x, 4);
        assert_refused(muster_function_call(f, &in, 1, (muster_tensor[]){muster_f32(y, 5)}, 1, NULL), MUSTER_SHAPE_MISMATCH,
                       "the caller's tensor has 5 rows, the workers gave 4");
        assert_ok(muster_function_call(f, &in, 1, (muster_tensor[]){muster_f32(y, 4)}, 1, NULL));
        assert_memory_equal(x, y, sizeof x);
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_dtype),
        cmocka_unit_test(wrong_ndim),
        cmocka_unit_test(wrong_output_ndim),
        cmocka_unit_test(null_data),
        cmocka_unit_test(negative_size),
        cmocka_unit_test(overflowing_size),
        cmocka_unit_test(no_input_tensor),
        cmocka_unit_test(host_memory_as_that_of_a_device),
        cmocka_unit_test(zero_slices),
        cmocka_unit_test(index_out_of_range),
        cmocka_unit_test(negative_index),
        cmocka_unit_test(null_list),
        cmocka_unit_test(range_out_of_range),
        cmocka_unit_test(replica_batch_without_sliceable_variables),
        cmocka_unit_test(options_without_size),
        cmocka_unit_test(reserved_of_the_batch),
        cmocka_unit_test(a_start_of_all_rows),
        cmocka_unit_test(a_stop_of_all_rows),
        cmocka_unit_test(indices_of_all_rows),
        cmocka_unit_test(an_index_count_of_all_rows),
        cmocka_unit_test(a_replica_batch_without_its_count),
        cmocka_unit_test(a_view_that_could_not_be_made),
        cmocka_unit_test(an_output_that_could_not_be_made),
        cmocka_unit_test(an_empty_batch_is_refused),
        cmocka_unit_test(wrong_counts_are_refused),
        cmocka_unit_test(lengths_that_differ_are_refused),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(descriptions_are_checked),
        cmocka_unit_test(a_function_without_a_body_for_a_device_is_refused),
        cmocka_unit_test(a_call_inside_a_function_is_refused),
        cmocka_unit_test(slices_with_nothing_to_slice_are_refused),
        cmocka_unit_test(a_wrong_total_of_gathered_rows_is_refused_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
