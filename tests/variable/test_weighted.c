/* Averages of replicas with weights, against the formula in f64: every float dtype, on every kind
 * and number of devices, with uneven weights, weights of 0 and extreme ones. */
#include "base_check.h"
#include "device_discrete.h"
#include "muster/variable.h"

#include <math.h>

static const char *const machines[] = {"host:1", "host:2", "host:3", "host:5", "discrete:1", "discrete:3", "host:1,discrete:2"};
static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
enum { MACHINES = sizeof machines / sizeof *machines, DTYPES = 4, RANKS = 5, COUNT = 37, KINDS = 5 };

/* By kind: equal; rows of an uneven scatter; one device alone; none for rank 0; huge ones. */
static double weight_of(int kind, int32_t rank, int32_t size) {
    const double kinds[KINDS] = {2, (double)(3 * rank + 1), rank == size - 1 ? 7 : 0, size == 1 ? 1 : rank, 1e307 * (rank + 1)};
    return kinds[kind];
}

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

/* Small numbers, which every dtype has. */
static double value_of(int32_t rank, int i) { return (double)((7 * rank + 3 * i) % 16 - 8); }

static void store(muster_dtype dtype, void *array, int i, double value) {
    if (dtype == MUSTER_F16) ((uint16_t *)array)[i] = muster_f32_to_f16((float)value);
    if (dtype == MUSTER_BF16) ((uint16_t *)array)[i] = muster_f32_to_bf16((float)value);
    if (dtype == MUSTER_F32) ((float *)array)[i] = (float)value;
    if (dtype == MUSTER_F64) ((double *)array)[i] = value;
}

static double load(muster_dtype dtype, const void *array, int i) {
    if (dtype == MUSTER_F16) return muster_f16_to_f32(((const uint16_t *)array)[i]);
    if (dtype == MUSTER_BF16) return muster_bf16_to_f32(((const uint16_t *)array)[i]);
    return dtype == MUSTER_F32 ? ((const float *)array)[i] : ((const double *)array)[i];
}

static muster_tensor view(muster_dtype dtype, void *array) { return muster_tensor_make(dtype, array, 1, (const int64_t[]){COUNT}); }

/* The replica of a rank without weight is NaN. */
static void set_replicas(muster_variable *v, muster_dtype dtype, int32_t size, const double *weights) {
    double array[COUNT];
    for (int32_t r = 0; r < size; r++) {
        for (int i = 0; i < COUNT; i++) store(dtype, array, i, weights[r] > 0 ? value_of(r, i) : (double)NAN);
        assert_ok(muster_variable_set(v, r, view(dtype, array)));
    }
}

static double expected_at(int32_t size, const double *weights, int i) {
    double sum = 0, total = 0;
    for (int32_t r = 0; r < size; r++) {
        if (weights[r] > 0) sum += weights[r] / 1e300 * value_of(r, i);
        total += weights[r] / 1e300;
    }
    return sum / total;
}

static void assert_average(muster_dtype dtype, const void *array, int32_t size, const double *weights) {
    const double error = dtype == MUSTER_F64 ? 1e-14 : dtype == MUSTER_F32 ? 1e-5 : dtype == MUSTER_F16 ? 1e-2 : 6e-2;
    for (int i = 0; i < COUNT; i++) assert_true(fabs(load(dtype, array, i) - expected_at(size, weights, i)) <= error);
}

static void assert_replica(muster_variable *v, muster_dtype dtype, int32_t rank, const double *weights) {
    double array[COUNT];
    assert_ok(muster_variable_get(v, rank, view(dtype, array)));
    for (int i = 0; i < COUNT; i++) {
        if (weights[rank] > 0)
            assert_true(load(dtype, array, i) == value_of(rank, i));
        else
            assert_true(isnan(load(dtype, array, i)));
    }
}

static void run_case(muster_variable *v, muster_dtype dtype, int32_t size, const double *weights) {
    double array[COUNT], apart[2 * COUNT];
    muster_tensor result = view(dtype, array), strided = view(dtype, apart);
    strided.strides[0] = 2;
    set_replicas(v, dtype, size, weights);
    assert_ok(muster_variables_reduce_weighted_to(&v, &result, 1, weights, size));
    assert_average(dtype, array, size, weights);
    assert_ok(muster_variables_reduce_weighted_to(&v, &strided, 1, weights, size));
    for (int i = 0; i < COUNT; i++) store(dtype, array, i, load(dtype, apart, 2 * i));
    assert_average(dtype, array, size, weights);
    for (int32_t r = 0; r < size; r++) assert_replica(v, dtype, r, weights);
    assert_ok(muster_variables_reduce_weighted_at(&v, 1, weights, size, size - 1));
    assert_ok(muster_variable_get(v, size - 1, result));
    assert_average(dtype, array, size, weights);
    for (int32_t r = 0; r < size - 1; r++) assert_replica(v, dtype, r, weights);
    set_replicas(v, dtype, size, weights);
    assert_ok(muster_variables_all_reduce_weighted(&v, 1, weights, size));
    for (int32_t r = 0; r < size; r++) {
        assert_ok(muster_variable_get(v, r, result));
        assert_average(dtype, array, size, weights);
    }
}

static void each_replica_counts_by_its_weight(void **state) {
    (void)state;
    int cases = 0;
    const double zeros[COUNT] = {0};
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        const int32_t size = muster_runtime_size(runtime);
        for (int d = 0; d < DTYPES; d++) {
            muster_variable *v;
            assert_ok(muster_variable_create(runtime, "v", view(dtypes[d], (void *)zeros), &v));
            for (int kind = 0; kind < KINDS; kind++, cases++) {
                double weights[RANKS];
                for (int32_t r = 0; r < size; r++) weights[r] = weight_of(kind, r, size);
                run_case(v, dtypes[d], size, weights);
            }
            assert_ok(muster_variable_destroy(v));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES * DTYPES * KINDS);
    assert_int_equal(mst_discrete_live(), 0);
}

/* The largest numbers of a dtype have an average, although their sum has no value. */
static void an_average_does_not_overflow(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:3");
    const float large = 3.4e38f, rows[] = {5, 1, 3};
    const double weights[] = {rows[0], rows[1], rows[2]};
    float got;
    muster_variable *v;
    assert_ok(muster_variable_create(runtime, "v", muster_f32(&large), &v));
    assert_ok(muster_variables_all_reduce_weighted(&v, 1, weights, 3));
    assert_ok(muster_variable_get(v, 2, muster_f32(&got)));
    assert_true(got > 3.399e38f && got < 3.401e38f);
    assert_ok(muster_runtime_close(runtime));
}

/* Two variables in one call, and one without elements. */
static void a_list_of_variables(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    const double weights[] = {1, 3};
    const float one[2] = {1, 1}, five[2] = {5, 5};
    float got[2];
    muster_variable *list[3];
    assert_ok(muster_variable_create(runtime, "a", muster_f32(one, 2), &list[0]));
    assert_ok(muster_variable_create_empty(runtime, "b", MUSTER_F16, 1, NULL, &list[1]));
    assert_ok(muster_variable_create(runtime, "c", muster_f32(five, 2), &list[2]));
    assert_ok(muster_variable_set(list[0], 1, muster_f32(five, 2)));
    assert_ok(muster_variable_set(list[2], 1, muster_f32(one, 2)));
    assert_ok(muster_variables_all_reduce_weighted(list, 3, weights, 2));
    assert_ok(muster_variable_get(list[0], 0, muster_f32(got, 2)));
    assert_true(got[0] == 4 && got[1] == 4);
    assert_ok(muster_variable_get(list[2], 1, muster_f32(got, 2)));
    assert_true(got[0] == 2 && got[1] == 2);
    assert_ok(muster_variables_all_reduce_weighted(NULL, 0, NULL, 0));
    assert_ok(muster_runtime_close(runtime));
}

static void refused_weights(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    const float value[2] = {1, 2};
    const int32_t whole[2] = {1, 2};
    float got[2];
    muster_variable *v, *integers;
    muster_tensor result = muster_f32(got, 2);
    assert_ok(muster_variable_create(runtime, "v", muster_f32(value, 2), &v));
    assert_ok(muster_variable_create(runtime, "i", muster_i32(whole, 2), &integers));
    const struct {
        double weights[2];
        int32_t count;
        const char *text;
    } cases[] = {
        {{0, 0}, 2, "the weights of all ranks are 0: there is nothing to average"},
        {{1, -1}, 2, "weights[1]: expected a finite number that is not negative, received -1"},
        {{(double)NAN, 1}, 2, "weights[0]: expected a finite number that is not negative, received"},
        {{(double)INFINITY, 1}, 2, "weights[0]: expected a finite number that is not negative, received inf"},
        {{1e308, 1e308}, 2, "the sum of the weights overflows"},
        {{1, 1}, 1, "weight_count: expected one for each of 2 devices, received 1"},
        {{1, 1}, 3, "weight_count: expected one for each of 2 devices, received 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(muster_variables_all_reduce_weighted(&v, 1, cases[i].weights, cases[i].count), MUSTER_INVALID_ARGUMENT,
                       cases[i].text);
        assert_refused(muster_variables_reduce_weighted_at(&v, 1, cases[i].weights, cases[i].count, 0), MUSTER_INVALID_ARGUMENT,
                       cases[i].text);
        assert_refused(muster_variables_reduce_weighted_to(&v, &result, 1, cases[i].weights, cases[i].count), MUSTER_INVALID_ARGUMENT,
                       cases[i].text);
        assert_ok(muster_variable_get(v, 0, muster_f32(got, 2)));
        assert_memory_equal(got, value, sizeof value);
    }
    const double good[] = {1, 1};
    assert_refused(muster_variables_all_reduce_weighted(&v, 1, NULL, 2), MUSTER_INVALID_ARGUMENT,
                   "weights: expected a weight for each device, received NULL");
    assert_refused(muster_variables_all_reduce_weighted(&integers, 1, good, 2), MUSTER_UNSUPPORTED, "avg of i32 is refused");
    assert_refused(muster_variables_reduce_weighted_at(&v, 1, good, 2, 2), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 1, received 2");
    assert_refused(muster_variables_reduce_weighted_to(&v, NULL, 1, good, 2), MUSTER_INVALID_ARGUMENT, "results: expected 1 tensors");
    assert_ok(muster_variable_set(v, 1, muster_f32(value, 1)));
    assert_refused(muster_variables_all_reduce_weighted(&v, 1, good, 2), MUSTER_SHAPE_MISMATCH, "rank 1 has shape (1,), rank 0 has (2,)");
    assert_ok(muster_runtime_close(runtime));
}

static int setup(void **state) {
    (void)state;
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_replica_counts_by_its_weight),
        cmocka_unit_test(an_average_does_not_overflow),
        cmocka_unit_test(a_list_of_variables),
        cmocka_unit_test(refused_weights),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
