/* The reproducible mode and variables: as many devices as shards, without the mode, are the
 * reference. */
#include "function_fixture.h"

#include <string.h>

enum { SHARDS = 8, ROWS = 61 };

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    muster_variable *first, *largest, *counted, *table;
} world;

/* first: the shard's own number; largest and counted: over its rows; y: of the rows of the table
 * that go with this piece. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const world *t = user;
    muster_tensor count, product;
    MUSTER_TRY(muster_worker_update(w, t->counted, &count));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &product));
    muster_tensor new_first;
    MUSTER_TRY(muster_worker_update(w, t->first, &new_first));
    MUSTER_TRY(muster_fill(w, 100 * muster_worker_shard(w) + (double)muster_worker_slice(w), new_first));
    muster_tensor new_largest;
    MUSTER_TRY(muster_worker_update(w, t->largest, &new_largest));
    MUSTER_TRY(muster_reduce(w, MUSTER_MAX, in[0], 0, new_largest));
    MUSTER_TRY(muster_fill(w, (double)muster_worker_rows(w), count));
    muster_tensor table_replica;
    MUSTER_TRY(muster_worker_variable(w, t->table, &table_replica));
    MUSTER_TRY(muster_sum(w, table_replica, product));
    MUSTER_TRY(muster_sum(w, in[0], out[1]));
    return muster_binary_op(w, MUSTER_MUL, product, out[1], out[0]);
}

static void open_world(world *t, const char *backend, int devices, int shards) {
    float zero = 0, table[ROWS];
    int64_t none = 0;
    for (int i = 0; i < ROWS; i++) table[i] = i % 3 ? 1e-3f * (float)i : i % 2 ? 1e6f : -1e6f;
    t->runtime = shards ? fixture_open_shards(backend, devices, shards) : fixture_open_alone(backend, devices);
    assert_ok(muster_variable_create(t->runtime, "first", muster_f32(&zero), &t->first));
    assert_ok(muster_variable_create(t->runtime, "largest", muster_f32(&zero), &t->largest));
    assert_ok(muster_variable_create(t->runtime, "counted", muster_i64(&none), &t->counted));
    assert_ok(muster_variable_create(t->runtime, "table", muster_f32(table, ROWS), &t->table));
    assert_ok(muster_function_create(t->runtime, "f", body, t, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_function_output(t->f, "z", MUSTER_F32, 0, MUSTER_AVG));
    assert_ok(muster_function_update(t->f, t->first, MUSTER_MASTER));
    assert_ok(muster_function_update(t->f, t->largest, MUSTER_MAX));
    assert_ok(muster_function_update(t->f, t->counted, MUSTER_SUM));
    assert_ok(muster_function_variable(t->f, t->table, MUSTER_USE_READ_SLICEABLE));
}

typedef struct result {
    float y, z, first, largest;
    int64_t counted;
} result;

static result run(const char *backend, int devices, int shards, int64_t slices, const muster_selection *replica_batch,
                  int32_t replica_batch_count) {
    world t;
    result r = {.y = 0};
    float x[ROWS];
    muster_call_options options;
    for (int i = 0; i < ROWS; i++) x[i] = (float)((i * 37) % ROWS) + 0.1f;
    open_world(&t, backend, devices, shards);
    muster_call_options_init(&options);
    options.slices = slices;
    options.replica_batch = replica_batch;
    options.replica_batch_count = replica_batch_count;
    assert_ok(muster_function_call(t.f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&r.y), muster_f32(&r.z)}, 2,
                                   &options));
    assert_ok(muster_variables_reduce(&t.largest, 1, MUSTER_MAX));
    assert_ok(muster_variables_reduce(&t.counted, 1, MUSTER_SUM));
    assert_ok(muster_variable_get(t.first, 0, muster_f32(&r.first)));
    assert_ok(muster_variable_get(t.largest, 0, muster_f32(&r.largest)));
    assert_ok(muster_variable_get(t.counted, 0, muster_i64(&r.counted)));
    fixture_close(t.runtime);
    return r;
}

static void compare(const muster_selection *replica_batch, int32_t replica_batch_count) {
    for_each_backend(backend) {
        for (int64_t slices = 1; slices <= 3; slices++) {
            const result expected = run(backend, SHARDS, 0, slices, replica_batch, replica_batch_count);
            assert_float_equal(expected.first, slices - 1, 0);
            assert_int_equal(expected.counted, ROWS);
            for (int devices = 1; devices <= SHARDS; devices *= 2) {
                const result received = run(backend, devices, SHARDS, slices, replica_batch, replica_batch_count);
                assert_memory_equal(&expected, &received, sizeof expected);
            }
        }
    }
}

static void updates_and_sliceable_variables_do_as_on_as_many_devices(void **unused) {
    (void)unused;
    compare(NULL, 0);
}

static void one_replica_batch_serves_every_shard(void **unused) {
    (void)unused;
    compare(&(muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 3, .stop = 50}, 1);
}

static void replica_batch_may_choose_for_each_shard(void **unused) {
    (void)unused;
    muster_selection each[SHARDS];
    for (int s = 0; s < SHARDS; s++) each[s] = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = s, .stop = 20 + 5 * s};
    compare(each, SHARDS);
}

static void replica_batch_for_each_device_is_refused(void **unused) {
    (void)unused;
    world t;
    float x[ROWS] = {0}, y, z;
    muster_call_options options;
    const muster_selection each[2] = {{.kind = MUSTER_SELECT_ALL}, {.kind = MUSTER_SELECT_ALL}};
    open_world(&t, "host", 2, SHARDS);
    muster_call_options_init(&options);
    options.replica_batch = each;
    options.replica_batch_count = 2;
    assert_refused(muster_function_call(t.f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y), muster_f32(&z)},
                                        2, &options),
                   MUSTER_INVALID_ARGUMENT, "one for each of the 8 shards, received 2");
    fixture_close(t.runtime);
}

/* ---- rows of variables, where nothing is scattered ---- */

static muster_status sum_table(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    muster_tensor row;
    int64_t numbers[] = {muster_worker_first_row(w), muster_worker_rows(w), muster_worker_total_rows(w)};
    muster_tensor user_replica;
    MUSTER_TRY(muster_worker_variable(w, user, &user_replica));
    MUSTER_TRY(muster_sum(w, user_replica, out[0]));
    MUSTER_TRY(muster_worker_output_rows(w, 1, 1, &row));
    return muster_worker_write(w, muster_tensor_make(MUSTER_I64, numbers, 2, (int64_t[]){1, 3}), row);
}

static void every_shard_has_the_rows_of_the_variable(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        for (int devices = 1; devices <= 6; devices++) {
            if (6 % devices) continue;
            muster_runtime *runtime = fixture_open_shards(backend, devices, 6);
            muster_variable *v;
            muster_function *f;
            float values[5] = {1, 2, 3, 4, 5}, y;
            int64_t numbers[6][3];
            assert_ok(muster_variable_create(runtime, "v", muster_f32(values, 5), &v));
            assert_ok(muster_function_create(runtime, "f", sum_table, v, &f));
            assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_SLICEABLE));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
            assert_ok(muster_function_output(f, "numbers", MUSTER_I64, 2, MUSTER_GATHER));
            assert_ok(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(&y), muster_i64(numbers, 6, 3)}, 2, NULL));
            assert_float_equal(y, 6 * 15, 0);
            assert_memory_equal(numbers[4], ((int64_t[]){20, 5, 30}), sizeof numbers[4]);
            fixture_close(runtime);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_and_sliceable_variables_do_as_on_as_many_devices),
        cmocka_unit_test(one_replica_batch_serves_every_shard),
        cmocka_unit_test(replica_batch_may_choose_for_each_shard),
        cmocka_unit_test(replica_batch_for_each_device_is_refused),
        cmocka_unit_test(every_shard_has_the_rows_of_the_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
