/* What a plan is made from: counts, rows and selections that are refused when it is made, and
 * changes between two calls that must not go unseen. */
#include "function_fixture.h"

#include "muster/variable.h"

#include <stdbool.h>
#include <string.h>

enum { ROWS = 6, DEVICES = 2 };

/* sum = the sum of x's rows; gathered = x, if it is wanted */
static muster_status sum_and_copy(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    MUSTER_TRY(muster_sum(w, in[0], out[0]));
    return out[1].dtype ? muster_copy(w, in[0], out[1]) : MUSTER_OK;
}

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    float x[2][ROWS], sum[2], gathered[2][ROWS];
} world;

static void world_open(world *t, const char *backend) {
    memset(t, 0, sizeof *t);
    for (int i = 0; i < 2 * ROWS; i++) t->x[i / ROWS][i % ROWS] = (float)(1 << i);
    t->runtime = fixture_open(backend, DEVICES);
    assert_ok(muster_function_create(t->runtime, "f", sum_and_copy, NULL, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(t->f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_function_output(t->f, "gathered", MUSTER_F32, 1, MUSTER_GATHER));
}

/* The rows of x[buffer] that are listed (NULL: the first `count`) into the outputs of `buffer`. */
static void expect_call(world *t, int buffer, int64_t rows, const muster_selection *batch, const int64_t *list, int64_t count) {
    muster_call_options options;
    muster_call_options_init(&options);
    if (batch) options.batch = *batch;
    float sum = 0;
    for (int64_t i = 0; i < count; i++) sum += t->x[buffer][list ? list[i] : i];
    memset(t->gathered[buffer], 0, sizeof t->gathered[buffer]);
    assert_ok(muster_function_call(t->f, (muster_tensor[]){muster_f32(t->x[buffer], rows)}, 1,
                                   (muster_tensor[]){muster_f32(&t->sum[buffer]), muster_f32(t->gathered[buffer], count)}, 2,
                                   batch ? &options : NULL));
    assert_float_equal(t->sum[buffer], sum, 0);
    for (int64_t i = 0; i < count; i++) assert_float_equal(t->gathered[buffer][i], t->x[buffer][list ? list[i] : i], 0);
    for (int64_t i = count; i < ROWS; i++) assert_float_equal(t->gathered[buffer][i], 0, 0);
}

/* ---- changes between two calls ---- */

static void wrong_counts_are_refused_in_a_repeated_call(void **unused) {
    (void)unused;
    int32_t cases = 0;
    for_each_backend(backend) {
        world t;
        world_open(&t, backend);
        const muster_tensor in[2] = {muster_f32(t.x[0], ROWS), muster_f32(t.x[0], ROWS)};
        const muster_tensor out[3] = {muster_f32(&t.sum[0]), muster_f32(t.gathered[0], ROWS), muster_f32(t.gathered[0], ROWS)};
        for (int32_t inputs = 0; inputs <= 2; inputs++) {
            for (int32_t outputs = 0; outputs <= 3; outputs++) {
                if (inputs == 1 && outputs == 2) continue;
                expect_call(&t, 0, ROWS, NULL, NULL, ROWS);
                assert_refused(muster_function_call(t.f, in, inputs, out, outputs, NULL), MUSTER_INVALID_ARGUMENT,
                               inputs == 1 ? "output_count" : "input_count");
                cases++;
            }
        }
        expect_call(&t, 0, ROWS, NULL, NULL, ROWS);
        fixture_close(t.runtime);
    }
    assert_int_equal(cases, 2 * 11);
}

static void other_rows_at_other_addresses_are_another_call(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        world t;
        world_open(&t, backend);
        for (int again = 0; again < 2; again++) {
            for (int64_t rows = ROWS; rows > 0; rows--) expect_call(&t, (int)(rows % 2), rows, NULL, NULL, rows);
            for (int64_t rows = ROWS; rows > 0; rows--)
                expect_call(&t, (int)(rows / 2 % 2), ROWS, &(muster_selection){.kind = MUSTER_SELECT_COUNT, .stop = rows}, NULL, rows);
        }
        for (int64_t rows = ROWS; rows > 0; rows--) { /* the layout of the output stays */
            float sums[2] = {0}, expected = 0;
            for (int64_t i = 0; i < rows; i++) expected += t.x[0][i];
            assert_ok(muster_function_call(t.f, (muster_tensor[]){muster_f32(t.x[0], rows)}, 1,
                                           (muster_tensor[]){muster_f32(&sums[rows % 2]), muster_tensor_none()}, 2, NULL));
            assert_float_equal(sums[rows % 2], expected, 0);
        }
        fixture_close(t.runtime);
    }
}

/* No tensor is as in the call before, and each is wrong in the same field. */
static void tensors_that_are_all_wrong_are_refused_in_a_repeated_call(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        world t;
        world_open(&t, backend);
        for (int field = 0; field < 3; field++) {
            muster_tensor tensors[3] = {muster_f32(t.x[0], ROWS), muster_f32(&t.sum[0]), muster_f32(t.gathered[0], ROWS)};
            expect_call(&t, 0, ROWS, NULL, NULL, ROWS);
            for (int i = 0; i < 3; i++) {
                if (field == 0) tensors[i].device = DEVICES;
                if (field == 1) tensors[i].dtype = MUSTER_I32;
                if (field == 2) tensors[i].reserved0 = 1;
            }
            assert_true(muster_function_call(t.f, tensors, 1, &tensors[1], 2, NULL) != MUSTER_OK);
        }
        fixture_close(t.runtime);
    }
}

static void a_list_may_change_behind_the_same_pointer(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        world t;
        world_open(&t, backend);
        int64_t list[3] = {0, 1, 2};
        const muster_selection batch = {.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 3};
        for (int64_t number = 0; number < 12; number++) {
            expect_call(&t, 0, ROWS, &batch, list, 3);
            list[number % 3] = (list[number % 3] + number + 1) % ROWS;
        }
        list[1] = ROWS;
        float sum, gathered[3];
        muster_call_options options;
        muster_call_options_init(&options);
        options.batch = batch;
        assert_refused(muster_function_call(t.f, (muster_tensor[]){muster_f32(t.x[0], ROWS)}, 1,
                                            (muster_tensor[]){muster_f32(&sum), muster_f32(gathered, 3)}, 2, &options),
                       MUSTER_OUT_OF_RANGE, "expected indices below the 6 rows, received 6 at position 1");
        fixture_close(t.runtime);
    }
}

/* The body fills the rows that it was given, and then gathers a single one. */
static muster_status gather_one(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    muster_tensor one;
    MUSTER_TRY(muster_fill(w, 99, out[0]));
    MUSTER_TRY(muster_worker_output_rows(w, 0, 1, &one));
    return muster_fill(w, 1 + muster_worker_rank(w), one);
}

static void fewer_rows_than_the_input_has_leave_the_memory_behind_them_alone(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        muster_function *f;
        float x[ROWS] = {0}, y[2 * ROWS];
        assert_ok(muster_function_create(runtime, "f", gather_one, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
        for (int number = 0; number < 4; number++) {
            for (int i = 0; i < 2 * ROWS; i++) y[i] = -7;
            assert_ok(
                muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(y, DEVICES)}, 1, NULL));
            for (int i = 0; i < 2 * ROWS; i++) assert_float_equal(y[i], i < DEVICES ? i + 1 : -7, 0);
        }
        fixture_close(runtime);
    }
}

/* ---- rows and selections ---- */

static muster_status nothing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

/* Also where the input before it has no rows. */
static void minibatch_inputs_have_the_selected_rows(void **unused) {
    (void)unused;
    static const struct {
        int64_t scattered, first, second; /* rows */
    } cases[] = {{4, 4, 4}, {0, 0, 0},  {0, 5, 5},  {0, 0, 5},  {4, 4, 0}, {4, 0, 0},
                 {4, 5, 4}, {-1, 5, 5}, {-1, 0, 0}, {-1, 0, 5}, {-1, 5, 0}};
    static float memory[8];
    for_each_backend(backend) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            muster_runtime *runtime = fixture_open(backend, DEVICES);
            muster_function *f;
            const bool scatters = cases[i].scattered >= 0, alike = cases[i].first == cases[i].second;
            const muster_tensor in[3] = {muster_f32(memory, cases[i].first), muster_f32(memory, cases[i].second),
                                         muster_f32(memory, scatters ? cases[i].scattered : 0)};
            assert_ok(muster_function_create(runtime, "f", nothing, NULL, &f));
            assert_ok(muster_function_input(f, "a", MUSTER_F32, 1, MUSTER_MINIBATCH));
            assert_ok(muster_function_input(f, "b", MUSTER_F32, 1, MUSTER_MINIBATCH));
            if (scatters) assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
            const muster_status status = muster_function_call(f, in, scatters ? 3 : 2, NULL, 0, NULL);
            if (alike && (!scatters || cases[i].first == cases[i].scattered))
                assert_ok(status);
            else
                assert_refused(status, MUSTER_SHAPE_MISMATCH, " selected rows, received ");
            fixture_close(runtime);
        }
    }
}

static void no_rows_have_a_sum_and_a_product_only(void **unused) {
    (void)unused;
    static const struct {
        muster_collect_mode mode;
        const char *refused; /* NULL: it is not */
    } cases[] = {{MUSTER_SUM, NULL},
                 {MUSTER_PROD, NULL},
                 {MUSTER_GATHER, NULL},
                 {MUSTER_AVG, "the avg over no rows"},
                 {MUSTER_MAX, "the max over no rows"},
                 {MUSTER_MIN, "the min over no rows"}};
    for_each_backend(backend) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            muster_runtime *runtime = fixture_open(backend, DEVICES);
            muster_function *f;
            float x[1], y[1] = {-7};
            const int32_t ndim = cases[i].mode == MUSTER_GATHER;
            assert_ok(muster_function_create(runtime, "f", nothing, NULL, &f));
            assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, ndim, cases[i].mode));
            const muster_tensor in = muster_f32(x, 0), out = ndim ? muster_f32(y, 0) : muster_f32(y);
            const muster_status status = muster_function_call(f, &in, 1, &out, 1, NULL);
            if (cases[i].refused)
                assert_refused(status, MUSTER_UNSUPPORTED, cases[i].refused);
            else
                assert_ok(status);
            assert_float_equal(y[0], cases[i].mode == MUSTER_SUM ? 0 : cases[i].mode == MUSTER_PROD ? 1 : -7, 0);
            fixture_close(runtime);
        }
    }
}

/* The number of rows of the slice of v, which are the rows of the call. */
static muster_status count_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    muster_tensor user_replica;
    MUSTER_TRY(muster_worker_variable(w, *(muster_variable **)user, &user_replica));
    const int64_t rows = user_replica.shape[0];
    if (muster_worker_rows(w) != rows) return muster_fail(MUSTER_INTERNAL, "the rows of another call");
    return muster_fill(w, (double)rows, out[0]);
}

static void a_replica_batch_is_one_selection_or_one_for_each_worker(void **unused) {
    (void)unused;
    const muster_selection one[DEVICES + 1] = {
        {.kind = MUSTER_SELECT_COUNT, .stop = 2}, {.kind = MUSTER_SELECT_COUNT, .stop = 3}, {.kind = MUSTER_SELECT_COUNT, .stop = 1}};
    const muster_selection mixed[DEVICES] = {{.kind = MUSTER_SELECT_COUNT, .stop = 2}, {.kind = MUSTER_SELECT_RANGE, .stop = 2}};
    static const char number[] = "replica_batch: expected one selection or one for each of the 2 workers, received ";
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        muster_function *f;
        muster_variable *v;
        float x[ROWS] = {0}, y;
        muster_call_options options;
        const muster_tensor out = muster_f32(&y);
        assert_ok(muster_variable_create(runtime, "v", muster_f32(x, ROWS), &v));
        assert_ok(muster_function_create(runtime, "f", count_rows, &v, &f));
        assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_SLICEABLE));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
        for (int again = 0; again < 2; again++) {
            muster_call_options_init(&options);
            options.replica_batch = one, options.replica_batch_count = 1;
            assert_ok(muster_function_call(f, NULL, 0, &out, 1, &options));
            assert_float_equal(y, 4, 0);
            options.replica_batch_count = DEVICES;
            assert_ok(muster_function_call(f, NULL, 0, &out, 1, &options));
            assert_float_equal(y, 5, 0);
            options.replica_batch_count = DEVICES + 1;
            assert_refused(muster_function_call(f, NULL, 0, &out, 1, &options), MUSTER_INVALID_ARGUMENT, number);
            options.replica_batch = mixed, options.replica_batch_count = DEVICES;
            assert_refused(muster_function_call(f, NULL, 0, &out, 1, &options), MUSTER_INVALID_ARGUMENT, "of one kind, received kind");
            for (int32_t count = 1; count <= DEVICES; count++) {
                options.replica_batch = NULL, options.replica_batch_count = count;
                assert_refused(muster_function_call(f, NULL, 0, &out, 1, &options), MUSTER_INVALID_ARGUMENT, number);
            }
        }
        fixture_close(runtime);
    }
}

static void the_rows_of_a_sliced_variable_may_change_between_calls(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        muster_function *f;
        muster_variable *v;
        float x[ROWS] = {0}, y;
        assert_ok(muster_variable_create(runtime, "v", muster_f32(x, ROWS), &v));
        assert_ok(muster_function_create(runtime, "f", count_rows, &v, &f));
        assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_SLICEABLE));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
        for (int64_t rows = 1; rows <= ROWS; rows++) {
            for (int32_t rank = 0; rank < DEVICES; rank++) assert_ok(muster_variable_set(v, rank, muster_f32(x, rows)));
            for (int again = 0; again < 2; again++) {
                assert_ok(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
                assert_float_equal(y, (float)(DEVICES * rows), 0);
            }
        }
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_counts_are_refused_in_a_repeated_call),
        cmocka_unit_test(other_rows_at_other_addresses_are_another_call),
        cmocka_unit_test(tensors_that_are_all_wrong_are_refused_in_a_repeated_call),
        cmocka_unit_test(a_list_may_change_behind_the_same_pointer),
        cmocka_unit_test(fewer_rows_than_the_input_has_leave_the_memory_behind_them_alone),
        cmocka_unit_test(minibatch_inputs_have_the_selected_rows),
        cmocka_unit_test(no_rows_have_a_sum_and_a_product_only),
        cmocka_unit_test(a_replica_batch_is_one_selection_or_one_for_each_worker),
        cmocka_unit_test(the_rows_of_a_sliced_variable_may_change_between_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
