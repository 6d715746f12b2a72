/* What the reproducible mode refuses, since its bits would depend on the number of devices; each
 * refused function works without the mode. */
#include "function_fixture.h"

#include <stdbool.h>
#include <string.h>

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor value;
    if (user) {
        MUSTER_TRY(muster_worker_variable(w, user, &value));
        MUSTER_TRY(muster_copy(w, out[0], value));
    }
    return muster_sum(w, in[0], out[0]);
}

static muster_status update_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    MUSTER_TRY(muster_sum(w, in[0], out[0]));
    muster_tensor new_user;
    MUSTER_TRY(muster_worker_update(w, user, &new_user));
    return muster_copy(w, out[0], new_user);
}

typedef struct plan {
    muster_dtype dtype;
    muster_collect_mode mode;   /* of the output */
    muster_collect_mode update; /* of the variable; 0: none */
    bool written, together;
} plan;

/* The status of the first call of a function on 2 devices. */
static muster_status try_call(int shards, plan p, muster_runtime **runtime) {
    double start = 0, x[8] = {0}, y;
    muster_variable *v;
    muster_function *f;
    *runtime = fixture_open_shards("host", 2, shards);
    assert_ok(muster_variable_create(*runtime, "v", muster_tensor_make(p.dtype, &start, 0, NULL), &v));
    assert_ok(muster_function_create(*runtime, "f", p.update ? update_body : body, p.update || p.written ? v : NULL, &f));
    assert_ok(muster_function_input(f, "x", p.dtype, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", p.dtype, 0, p.mode));
    if (p.update) assert_ok(muster_function_update(f, v, p.update));
    if (p.written) assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_WRITE));
    assert_ok(muster_function_set_shards_together(f, p.together));
    return muster_function_call(f, (muster_tensor[]){muster_tensor_make(p.dtype, x, 1, (int64_t[]){8})}, 1,
                                (muster_tensor[]){muster_tensor_make(p.dtype, &y, 0, NULL)}, 1, NULL);
}

static void expect(plan p, const char *part) {
    muster_runtime *runtime;
    const muster_status status = try_call(8, p, &runtime);
    if (part)
        assert_refused(status, MUSTER_UNSUPPORTED, part);
    else
        assert_ok(status);
    fixture_close(runtime);
    assert_ok(try_call(0, p, &runtime));
    fixture_close(runtime);
}

static void updates_that_accumulate_floats_are_refused(void **unused) {
    (void)unused;
    const muster_dtype floats[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    for (int t = 0; t < 4; t++) {
        expect((plan){floats[t], MUSTER_MAX, MUSTER_SUM, .together = false}, "update of variable 'v' by function 'f': the sum of");
        expect((plan){floats[t], MUSTER_MAX, MUSTER_PROD, .together = false}, "update of variable 'v' by function 'f': the prod of");
        expect((plan){floats[t], MUSTER_MAX, MUSTER_AVG, .together = false}, "update of variable 'v' by function 'f': the avg of");
        expect((plan){floats[t], MUSTER_MAX, MUSTER_MAX, .together = false}, NULL);
        expect((plan){floats[t], MUSTER_MAX, MUSTER_MASTER, .together = false}, NULL);
        /* one run for each device: nothing accumulates */
        expect((plan){floats[t], MUSTER_MAX, MUSTER_SUM, .together = true}, NULL);
    }
    expect((plan){MUSTER_I64, MUSTER_SUM, MUSTER_SUM, .together = false}, NULL);
}

static void variables_written_in_place_are_refused(void **unused) {
    (void)unused;
    expect((plan){MUSTER_I64, MUSTER_SUM, .written = true}, "variable 'v' of function 'f': written in place by one shard");
    expect((plan){MUSTER_I64, MUSTER_SUM, .written = true, .together = true}, NULL);
}

static void float_reductions_over_shards_taken_together_are_refused(void **unused) {
    (void)unused;
    const char *part = "depends on their number: combine it in the body with muster_worker_all_reduce_shards";
    const muster_dtype floats[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    for (int t = 0; t < 4; t++) {
        expect((plan){floats[t], MUSTER_SUM, .together = true}, part);
        expect((plan){floats[t], MUSTER_PROD, .together = true}, part);
        expect((plan){floats[t], MUSTER_AVG, .together = true}, part);
        expect((plan){floats[t], MUSTER_MAX, .together = true}, NULL);
        expect((plan){floats[t], MUSTER_MASTER, .together = true}, NULL);
    }
    expect((plan){MUSTER_I32, MUSTER_SUM, .together = true}, NULL);
}

/* The refusal comes at the first call and leaves the description open: what is refused can be put
 * right. */
static void a_refused_function_can_be_put_right(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open_shards("host", 2, 4);
    muster_function *f;
    float x[4] = {1, 2, 3, 4}, y;
    const muster_tensor in = muster_f32(x, 4), out = muster_f32(&y);
    assert_ok(muster_function_create(runtime, "f", body, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_function_set_shards_together(f, 1));
    assert_refused(muster_function_call_named(f, (const char *[]){"x"}, &in, 1, (const char *[]){"y"}, &out, 1, NULL), MUSTER_UNSUPPORTED,
                   "muster_function_call_named: output 'y'");
    assert_refused(muster_function_call_single(f, &in, 1, &out, 1, NULL), MUSTER_UNSUPPORTED, "muster_function_call_single: output 'y'");
    assert_ok(muster_function_set_shards_together(f, 0));
    assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
    assert_float_equal(y, 10, 0);
    assert_refused(muster_function_set_shards_together(f, 1), MUSTER_BAD_STATE, "its description is complete");
    assert_refused(muster_function_set_shards_together(NULL, 1), MUSTER_INVALID_ARGUMENT, "received NULL");
    fixture_close(runtime);
}

static void slices_of_shards_taken_together_are_refused(void **unused) {
    (void)unused;
    for (int shards = 0; shards <= 4; shards += 4) {
        muster_runtime *runtime = fixture_open_shards("host", 2, shards);
        muster_function *f;
        float x[4] = {1, 2, 3, 4}, y;
        muster_call_options options;
        muster_call_options_init(&options);
        options.slices = 2;
        assert_ok(muster_function_create(runtime, "f", body, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_MAX));
        assert_ok(muster_function_set_shards_together(f, 1));
        const muster_status status =
            muster_function_call(f, (muster_tensor[]){muster_f32(x, 4)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, &options);
        if (shards)
            assert_refused(status, MUSTER_UNSUPPORTED, "slices: function 'f' runs its shards together");
        else
            assert_ok(status);
        fixture_close(runtime);
    }
}

static void variables_cannot_say_whose_rows_are_taken_together(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open_shards("host", 2, 4);
    muster_variable *v;
    muster_function *f;
    float values[3] = {1, 2, 3};
    assert_ok(muster_variable_create(runtime, "v", muster_f32(values, 3), &v));
    assert_ok(muster_function_create(runtime, "f", body, NULL, &f));
    assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_SLICEABLE));
    assert_ok(muster_function_set_shards_together(f, 1));
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, NULL), MUSTER_UNSUPPORTED, "expected a scattered input");
    fixture_close(runtime);
}

static void the_masters_value_is_that_of_the_first_shard_with_rows(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open_shards("host", 1, 4);
    muster_function *f;
    float x[4] = {1, 2, 3, 4}, y;
    const muster_tensor out = muster_f32(&y);
    assert_ok(muster_function_create(runtime, "f", body, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_MASTER));
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 0)}, 1, &out, 1, NULL), MUSTER_UNSUPPORTED,
                   "output 'y' of function 'f': the master's value over no rows is refused");
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x + 1, 3)}, 1, &out, 1, NULL));
    assert_float_equal(y, 2, 0);
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 4)}, 1, &out, 1, NULL));
    assert_float_equal(y, 1, 0);
    fixture_close(runtime);
}

static muster_status shard_rows_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    int64_t first, rows;
    (void)in, (void)out, (void)user;
    if (muster_worker_shard_rows(w, 4, &first, &rows) != MUSTER_OUT_OF_RANGE) return MUSTER_USER;
    if (!strstr(muster_last_error(), "shard_in_rank: expected 0 to 3, received 4")) return MUSTER_USER;
    if (muster_worker_shard_rows(w, -1, &first, &rows) != MUSTER_OUT_OF_RANGE) return MUSTER_USER;
    if (muster_worker_shard_rows(w, 0, NULL, &rows) != MUSTER_INVALID_ARGUMENT) return MUSTER_USER;
    return muster_worker_shard_rows(w, 0, &first, NULL) == MUSTER_INVALID_ARGUMENT ? MUSTER_OK : MUSTER_USER;
}

static void wrong_questions_about_shards_are_refused(void **unused) {
    (void)unused;
    int64_t first, rows;
    muster_runtime *runtime = fixture_open_shards("host", 2, 8);
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", shard_rows_body, NULL, &f));
    assert_ok(muster_function_set_shards_together(f, 1));
    assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    fixture_close(runtime);
    assert_refused(muster_worker_shard_rows(NULL, 0, &first, &rows), MUSTER_INVALID_ARGUMENT, "muster_worker_shard_rows: worker: expected");
    assert_int_equal(muster_worker_shard(NULL), -1);
    assert_int_equal(muster_worker_shards(NULL), -1);
    assert_int_equal(muster_worker_shards_here(NULL), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_that_accumulate_floats_are_refused),
        cmocka_unit_test(variables_written_in_place_are_refused),
        cmocka_unit_test(float_reductions_over_shards_taken_together_are_refused),
        cmocka_unit_test(a_refused_function_can_be_put_right),
        cmocka_unit_test(slices_of_shards_taken_together_are_refused),
        cmocka_unit_test(variables_cannot_say_whose_rows_are_taken_together),
        cmocka_unit_test(the_masters_value_is_that_of_the_first_shard_with_rows),
        cmocka_unit_test(wrong_questions_about_shards_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
