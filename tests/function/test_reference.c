/* The ancestor's cases, one test each. */
#include "function_fixture.h"
#include "muster/communicator.h"
#include "runtime_impl.h"

#include <pthread.h>
#include <string.h>

static muster_status mean_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_mean(w, in[0], out[0]);
}

static muster_function *make(muster_runtime *runtime, muster_body body, void *user, muster_collect_mode mode, int32_t output_ndim) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", body, user, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, output_ndim, mode));
    return f;
}

/* Writes (first row, rows) of the worker to its gathered row. */
static muster_status edges_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    muster_tensor row;
    int64_t edges[2] = {muster_worker_first_row(w), muster_worker_first_row(w) + muster_worker_rows(w)};
    MUSTER_TRY(muster_worker_output_rows(w, 0, 1, &row));
    return muster_worker_write(w, muster_tensor_make(MUSTER_I64, edges, 2, (int64_t[]){1, 2}), row);
}

static void ten_rows_on_four_devices_split_at_0_2_5_7_10(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 4);
        muster_function *f;
        float x[10] = {0};
        int64_t edges[4][2];
        assert_ok(muster_function_create(runtime, "edges", edges_body, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "edges", MUSTER_I64, 2, MUSTER_GATHER));
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 10)}, 1, (muster_tensor[]){muster_i64(edges, 4, 2)}, 1, NULL));
        const int64_t expected[4][2] = {{0, 2}, {2, 5}, {5, 7}, {7, 10}};
        assert_memory_equal(edges, expected, sizeof expected);
        fixture_close(runtime);
    }
}

static void the_mean_of_uneven_shares_is_exact(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_function *f = make(runtime, mean_body, NULL, MUSTER_AVG, 0);
        float x[5] = {1, 2, 3, 4, 5}, mean = 0;
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 5)}, 1, (muster_tensor[]){muster_f32(&mean)}, 1, NULL));
        assert_float_equal(mean, 3.0f, 1e-6); /* equal weights would give 2.75 */
        fixture_close(runtime);
    }
}

static muster_status count_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    __atomic_fetch_add((int *)user, 1, __ATOMIC_SEQ_CST);
    return muster_fill(w, 7, out[0]);
}

static void a_worker_without_rows_does_not_run_or_enter(void **unused) {
    (void)unused;
    const muster_collect_mode modes[] = {MUSTER_AVG, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD, MUSTER_SUM};
    for_each_backend(backend) {
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            muster_runtime *runtime = fixture_open(backend, 4);
            int ran = 0;
            float x = 1, y = 0;
            muster_function *f = make(runtime, count_body, &ran, modes[m], 0);
            assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(&x, 1)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
            assert_int_equal(processes_sum(ran), 1);
            assert_float_equal(y, 7, 0);
            fixture_close(runtime);
        }
    }
}

static void a_call_over_no_rows_gives_the_identity_or_is_refused(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_function *sum, *prod, *max;
        float x = 0, y = 5;
        const muster_tensor in = muster_f32(&x, 0), out = muster_f32(&y);
        const struct {
            const char *name;
            muster_collect_mode mode;
            muster_function **f;
        } kinds[] = {{"sum", MUSTER_SUM, &sum}, {"prod", MUSTER_PROD, &prod}, {"max", MUSTER_MAX, &max}};
        for (int k = 0; k < 3; k++) {
            assert_ok(muster_function_create(runtime, kinds[k].name, mean_body, NULL, kinds[k].f));
            assert_ok(muster_function_input(*kinds[k].f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
            assert_ok(muster_function_output(*kinds[k].f, "y", MUSTER_F32, 0, kinds[k].mode));
        }
        assert_ok(muster_function_call(sum, &in, 1, &out, 1, NULL));
        assert_float_equal(y, 0, 0);
        assert_ok(muster_function_call(prod, &in, 1, &out, 1, NULL));
        assert_float_equal(y, 1, 0);
        assert_refused(muster_function_call(max, &in, 1, &out, 1, NULL), MUSTER_UNSUPPORTED, "over no rows");
        fixture_close(runtime);
    }
}

static muster_status weighted_dot_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_dot(w, in[0], in[1], out[0]);
}

static void a_minibatch_input_is_indexed_from_the_start_of_the_batch(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 3);
        muster_function *f;
        static float x[1000], weight[100];
        float y, expected = 0;
        for (int i = 0; i < 1000; i++) x[i] = (float)i;
        for (int i = 0; i < 100; i++) weight[i] = (float)(i % 3), expected += weight[i] * x[100 + i];
        assert_ok(muster_function_create(runtime, "dot", weighted_dot_body, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_input(f, "w", MUSTER_F32, 1, MUSTER_MINIBATCH));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
        muster_call_options options;
        muster_call_options_init(&options);
        options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 100, .stop = 200};
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 1000), muster_f32(weight, 100)}, 2,
                                       (muster_tensor[]){muster_f32(&y)}, 1, &options));
        assert_float_equal(y, expected, 0);
        fixture_close(runtime);
    }
}

/* s <- sum over the rows of x * s */
static muster_status scaled_sum_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    muster_variable *s = user;
    muster_tensor product;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, in[0].shape, &product));
    muster_tensor value;
    MUSTER_TRY(muster_worker_variable(w, s, &value));
    MUSTER_TRY(muster_binary_op(w, MUSTER_MUL, in[0], value, product));
    muster_tensor new_value;
    MUSTER_TRY(muster_worker_update(w, s, &new_value));
    return muster_reduce(w, MUSTER_SUM, product, 0, new_value);
}

static void the_worked_case_of_the_variables(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_variable *s;
        muster_function *f;
        float ones[2] = {1, 1}, x[4][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}}, got[2], stacked[2][2];
        const muster_tensor in = muster_f32(x, 4, 2), start = muster_f32(ones, 2), place = muster_f32(got, 2),
                            stack = muster_f32(stacked, 2, 2);
        assert_ok(muster_variable_create(runtime, "s", start, &s));
        assert_ok(muster_function_create(runtime, "f", scaled_sum_body, s, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
        assert_ok(muster_function_update(f, s, MUSTER_SUM));

        assert_ok(muster_function_call_single(f, &in, 1, NULL, 0, NULL));
        assert_ok(muster_variable_get(s, 0, place));
        assert_memory_equal(got, ((float[]){10, 10}), sizeof got);

        assert_ok(muster_variables_broadcast(&s, &start, 1));
        assert_ok(muster_function_call(f, &in, 1, NULL, 0, NULL));
        assert_ok(muster_variables_stack(&s, &stack, 1));
        assert_memory_equal(stacked, ((float[]){3, 3, 7, 7}), sizeof stacked);
        assert_ok(muster_variables_reduce(&s, 1, MUSTER_SUM));
        assert_ok(muster_variables_stack(&s, &stack, 1));
        assert_memory_equal(stacked, ((float[]){10, 10, 7, 7}), sizeof stacked);

        assert_ok(muster_variables_broadcast(&s, &start, 1));
        assert_ok(muster_function_call(f, &in, 1, NULL, 0, NULL));
        assert_ok(muster_variables_all_reduce(&s, 1, MUSTER_SUM));
        assert_ok(muster_variables_stack(&s, &stack, 1));
        assert_memory_equal(stacked, ((float[]){10, 10, 10, 10}), sizeof stacked);
        fixture_close(runtime);
    }
}

static void updates_see_the_original_value_in_every_slice(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        for (int i = 0; i < 6; i++) {
            const int64_t slices = (int64_t[]){1, 2, 3, 4, 5, INT64_MAX}[i];
            muster_runtime *runtime = fixture_open(backend, 1);
            muster_variable *s;
            muster_function *f;
            float twos[2] = {2, 2}, x[4][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}}, got[2];
            muster_call_options options;
            muster_call_options_init(&options);
            options.slices = slices;
            assert_ok(muster_variable_create(runtime, "s", muster_f32(twos, 2), &s));
            assert_ok(muster_function_create(runtime, "f", scaled_sum_body, s, &f));
            assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
            assert_ok(muster_function_update(f, s, MUSTER_SUM));
            assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 4, 2)}, 1, NULL, 0, &options));
            assert_ok(muster_variable_get(s, 0, muster_f32(got, 2)));
            assert_memory_equal(got, ((float[]){20, 20}), sizeof got);
            fixture_close(runtime);
        }
    }
}

static muster_status variable_mean_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    muster_tensor user_replica;
    MUSTER_TRY(muster_worker_variable(w, user, &user_replica));
    return muster_mean(w, user_replica, out[0]);
}

static void replica_batch_chooses_rows_of_sliceable_variables_in_each_worker(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_variable *v;
        muster_function *f;
        float data[6] = {0, 1, 2, 10, 11, 12}, mean;
        const int64_t list[] = {2, 0, 0, 1};
        const muster_tensor value = muster_f32(data, 6), out = muster_f32(&mean);
        assert_ok(muster_variable_create(runtime, "v", value, &v));
        assert_ok(muster_variables_scatter(&v, &value, 1, NULL));
        assert_ok(muster_function_create(runtime, "mean", variable_mean_body, v, &f));
        assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_SLICEABLE));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_AVG));
        muster_call_options options;
        muster_call_options_init(&options);
        const muster_selection one = {.kind = MUSTER_SELECT_RANGE, .start = 1, .stop = 3};
        options.replica_batch = &one, options.replica_batch_count = 1;
        assert_ok(muster_function_call(f, NULL, 0, &out, 1, &options)); /* 1 2 and 11 12 */
        assert_float_equal(mean, 6.5f, 1e-6);
        const muster_selection each[2] = {{.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 4},
                                          {.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 1}};
        options.replica_batch = each, options.replica_batch_count = 2;
        for (options.slices = 1; options.slices <= 3; options.slices++) {
            assert_ok(muster_function_call(f, NULL, 0, &out, 1, &options)); /* 2 0 0 1 and 12 */
            assert_float_equal(mean, 3.0f, 1e-6);
        }
        const muster_selection mixed[2] = {{.kind = MUSTER_SELECT_COUNT, .stop = 1},
                                           {.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 1}};
        options.replica_batch = mixed, options.slices = 1;
        assert_refused(muster_function_call(f, NULL, 0, &out, 1, &options), MUSTER_INVALID_ARGUMENT, "selections of one kind");
        fixture_close(runtime);
    }
}

static muster_status two_outputs_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    int *asked = user;
    for (int i = 0; i < 2; i++) {
        if (out[i].dtype == MUSTER_DTYPE_NONE) continue;
        __atomic_fetch_add(&asked[i], 1, __ATOMIC_SEQ_CST);
        MUSTER_TRY(muster_sum(w, in[0], out[i]));
    }
    return MUSTER_OK;
}

static void only_the_wanted_outputs_are_computed(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        int asked[2] = {0, 0};
        float x[4] = {1, 2, 3, 4}, second = 0;
        muster_function *f = make(runtime, two_outputs_body, asked, MUSTER_SUM, 0);
        assert_ok(muster_function_output(f, "z", MUSTER_F32, 0, MUSTER_SUM));
        const muster_tensor in = muster_f32(x, 4), outs[2] = {muster_tensor_none(), muster_f32(&second)};
        assert_ok(muster_function_call(f, &in, 1, outs, 2, NULL));
        assert_int_equal(processes_sum(asked[0]), 0);
        assert_int_equal(processes_sum(asked[1]), 2);
        assert_float_equal(second, 10, 0);
        second = 0;
        assert_ok(muster_function_call_named(f, (const char *[]){"x"}, &in, 1, (const char *[]){"z"}, &outs[1], 1, NULL));
        assert_float_equal(second, 10, 0);
        fixture_close(runtime);
    }
}

typedef struct single_run {
    pthread_t thread; /* in which the body ran */
    int32_t ran;
} single_run;

static muster_status note_thread_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    single_run *run = user;
    if (muster_worker_rank(w) == 0) run->thread = pthread_self();
    return count_body(w, in, out, &run->ran);
}

/* What the recorders and the epochs of the ranks say: rank 0 has made one call, the others none. */
static void as_single_wakes_no_other_worker(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 4);
        mst_pool *pool = runtime->pool;
        single_run run = {.ran = 0};
        float x[9] = {0}, y;
        uint64_t events[4], epochs[4];
        muster_function *f = make(runtime, note_thread_body, &run, MUSTER_SUM, 0);
        const muster_tensor in = muster_f32(x, 9), out = muster_f32(&y);
        assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
        assert_int_equal(processes_sum(run.ran), 4);
        for (int32_t r = 0; r < 4; r++) {
            events[r] = mst_recorder_progress(&mst_pool_worker(pool, r)->recorder);
            epochs[r] = mst_pool_worker(pool, r)->epoch;
            assert_true(events[r] > 0);
        }
        assert_ok(muster_function_call_single(f, &in, 1, &out, 1, NULL));
        assert_int_equal(processes_sum(run.ran), 5);
        assert_float_equal(y, 7, 0);
        assert_int_equal(!pthread_equal(run.thread, pthread_self()), mst_pool_settings(pool)->dedicated_rank0);
        for (int32_t r = 0; r < 4; r++) {
            assert_int_equal(mst_recorder_progress(&mst_pool_worker(pool, r)->recorder) > events[r], r == 0);
            assert_int_equal(mst_pool_worker(pool, r)->epoch > epochs[r], r == 0);
        }
        fixture_close(runtime);
    }
}

static muster_status all_reduce_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    muster_tensor total;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &total));
    MUSTER_TRY(muster_sum(w, in[0], total));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, total, total));
    return muster_copy(w, total, out[0]);
}

static void a_body_that_enters_collectives_can_run_without_rows(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 4);
        float x[2] = {3, 4}, y[2];
        muster_function *f = make(runtime, all_reduce_body, NULL, MUSTER_GATHER, 1);
        assert_ok(muster_function_set_runs_without_rows(f, 1));
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 2)}, 1, (muster_tensor[]){muster_f32(y, 2)}, 1, NULL));
        assert_memory_equal(y, ((float[]){7, 7}), sizeof y);
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_rows_on_four_devices_split_at_0_2_5_7_10),
        cmocka_unit_test(the_mean_of_uneven_shares_is_exact),
        cmocka_unit_test(a_worker_without_rows_does_not_run_or_enter),
        cmocka_unit_test(a_call_over_no_rows_gives_the_identity_or_is_refused),
        cmocka_unit_test(a_minibatch_input_is_indexed_from_the_start_of_the_batch),
        cmocka_unit_test(the_worked_case_of_the_variables),
        cmocka_unit_test(updates_see_the_original_value_in_every_slice),
        cmocka_unit_test(replica_batch_chooses_rows_of_sliceable_variables_in_each_worker),
        cmocka_unit_test(only_the_wanted_outputs_are_computed),
        cmocka_unit_test(as_single_wakes_no_other_worker),
        cmocka_unit_test(a_body_that_enters_collectives_can_run_without_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
