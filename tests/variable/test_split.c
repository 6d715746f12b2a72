/* Split variables: every replica is a part of one value, on every number and kind of devices, along
 * every axis. The oracle cuts an array on the host element by element. */
#include "base_check.h"
#include "device_discrete.h"
#include "variable_impl.h"

#include <string.h>

static const char *const machines[] = {"host:1",     "host:2",     "host:3",     "host:4",           "host:8",
                                       "discrete:1", "discrete:2", "discrete:3", "host:1,discrete:2"};
enum { MACHINES = sizeof machines / sizeof *machines, ROOM = 4096 };

typedef struct shape {
    int32_t ndim;
    int64_t sizes[MUSTER_MAX_DIMS];
} shape;
/* More and fewer elements than devices, 1 element, none, and sizes that no number divides. */
static const shape shapes[] = {{1, {16}},   {1, {2}},        {1, {0}},       {2, {5, 7}},        {2, {1, 9}},    {2, {8, 4}},
                               {2, {3, 0}}, {3, {2, 11, 3}}, {3, {1, 1, 5}}, {4, {3, 2, 1, 10}}, {3, {0, 4, 2}}, {2, {1, 1}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static int64_t count_of(const shape *s) {
    int64_t count = 1;
    for (int32_t d = 0; d < s->ndim; d++) count *= s->sizes[d];
    return count;
}

static muster_tensor tensor_of(muster_dtype dtype, void *data, const shape *s) {
    return muster_tensor_make(dtype, data, s->ndim, s->sizes);
}

/* The value at linear index i; `start` makes different ones. Small enough for every dtype used. */
static double value_at(int64_t i, int start) { return (double)((i * 7 + start) % 251); }

static void store(muster_dtype dtype, void *array, int64_t i, double value) {
    if (dtype == MUSTER_F32) ((float *)array)[i] = (float)value;
    if (dtype == MUSTER_F64) ((double *)array)[i] = value;
    if (dtype == MUSTER_U8) ((uint8_t *)array)[i] = (uint8_t)value;
    if (dtype == MUSTER_I64) ((int64_t *)array)[i] = (int64_t)value;
}

static void fill(muster_dtype dtype, void *array, const shape *s, int start) {
    for (int64_t i = 0; i < count_of(s); i++) store(dtype, array, i, value_at(i, start));
}

/* Cuts the whole without the library: element by element, in the order of the part. */
static shape cut(muster_dtype dtype, const void *whole, const shape *s, int32_t axis, int32_t n, int32_t rank, void *part) {
    shape made = *s;
    const int64_t low = s->sizes[axis] * rank / n, high = s->sizes[axis] * (rank + 1) / n, bytes = muster_dtype_size(dtype);
    int64_t inner = 1, at = 0;
    for (int32_t d = axis + 1; d < s->ndim; d++) inner *= s->sizes[d];
    for (int64_t i = 0; i < count_of(s); i++) {
        const int64_t k = i / inner % s->sizes[axis];
        if (k >= low && k < high) memcpy((char *)part + at++ * bytes, (const char *)whole + i * bytes, (size_t)bytes);
    }
    made.sizes[axis] = high - low;
    assert_int_equal(at, count_of(&made));
    return made;
}

static void assert_replica(muster_variable *v, int32_t rank, const shape *s, const void *expected) {
    _Alignas(8) char got[ROOM * 8] = {0};
    const muster_dtype dtype = muster_variable_dtype(v);
    assert_ok(muster_variable_get(v, rank, tensor_of(dtype, got, s)));
    assert_memory_equal(got, expected, (size_t)(count_of(s) * muster_dtype_size(dtype)));
}

static void assert_whole(muster_variable *v, const shape *s, const void *expected) {
    _Alignas(8) char got[ROOM * 8] = {0};
    int64_t sizes[MUSTER_MAX_DIMS];
    const muster_dtype dtype = muster_variable_dtype(v);
    assert_ok(muster_variable_whole_shape(v, s->ndim, sizes));
    assert_memory_equal(sizes, s->sizes, (size_t)s->ndim * sizeof *sizes);
    assert_ok(muster_variable_get_whole(v, tensor_of(dtype, got, s)));
    assert_memory_equal(got, expected, (size_t)(count_of(s) * muster_dtype_size(dtype)));
}

/* Axis -1: every replica is the whole. */
static void assert_parts(muster_variable *v, const shape *s, int32_t axis, int32_t n, const void *whole) {
    _Alignas(8) char part[ROOM * 8];
    assert_int_equal(muster_variable_split_axis(v), axis);
    for (int32_t r = 0; r < n; r++) {
        const shape made = axis < 0 ? *s : cut(muster_variable_dtype(v), whole, s, axis, n, r, part);
        assert_replica(v, r, &made, axis < 0 ? whole : part);
    }
    assert_whole(v, s, whole);
}

/* Splits along every axis, from every axis and from whole replicas, and joins. */
static int run_shape(muster_runtime *runtime, muster_dtype dtype, const shape *s) {
    _Alignas(8) char whole[ROOM * 8], other[ROOM * 8];
    const int32_t n = muster_runtime_size(runtime);
    muster_variable *v;
    int cases = 0;
    fill(dtype, whole, s, 1);
    fill(dtype, other, s, 2);
    assert_ok(muster_variable_create(runtime, "v", tensor_of(dtype, whole, s), &v));
    assert_parts(v, s, -1, n, whole);
    for (int32_t axis = 0; axis < s->ndim; axis++) {
        for (int32_t next = 0; next < s->ndim; next++, cases++) {
            /* the master's value counts */
            assert_ok(muster_variable_set(v, n - 1, tensor_of(dtype, other, s)));
            assert_ok(muster_variable_set(v, 0, tensor_of(dtype, whole, s)));
            assert_ok(muster_variable_split(v, axis));
            assert_parts(v, s, axis, n, whole);
            assert_ok(muster_variable_split(v, next));
            assert_parts(v, s, next, n, whole);
            assert_ok(muster_variable_set_whole(v, tensor_of(dtype, other, s)));
            assert_parts(v, s, next, n, other);
            assert_ok(muster_variable_join(v));
            assert_parts(v, s, -1, n, other);
            assert_ok(muster_variable_join(v));
            assert_parts(v, s, -1, n, other);
        }
    }
    assert_ok(muster_variable_destroy(v));
    return cases;
}

static void parts_along_every_axis(void **state) {
    (void)state;
    const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_U8, MUSTER_I64};
    int cases = 0;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        for (int s = 0; s < SHAPES; s++) cases += run_shape(runtime, dtypes[(m + s) % 4], &shapes[s]);
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES * (3 * 1 + 5 * 4 + 3 * 9 + 16));
    assert_int_equal(mst_discrete_live(), 0);
}

static void strided_values_and_other_shapes(void **state) {
    (void)state;
    int cases = 0;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        const int32_t n = muster_runtime_size(runtime);
        for (int32_t axis = -1; axis < 2; axis++, cases++) {
            float whole[35], turned[35], got[35];
            const shape small = {2, {3, 2}}, large = {2, {5, 7}};
            muster_variable *v;
            fill(MUSTER_F32, whole, &small, 0);
            assert_ok(muster_variable_create(runtime, "v", tensor_of(MUSTER_F32, whole, &small), &v));
            if (axis >= 0) assert_ok(muster_variable_split(v, axis));
            fill(MUSTER_F32, whole, &large, 3);
            for (int i = 0; i < 35; i++) turned[i % 7 * 5 + i / 7] = whole[i];
            assert_ok(muster_variable_set_whole(v, muster_tensor_transpose(muster_f32(turned, 7, 5))));
            assert_parts(v, &large, axis, n, whole);
            assert_ok(muster_variable_get_whole(v, muster_tensor_transpose(muster_f32(got, 7, 5))));
            assert_memory_equal(got, turned, sizeof got);
            /* a part that is set is a piece of the whole */
            shape part = axis < 0 ? large : cut(MUSTER_F32, whole, &large, axis, n, 0, got);
            for (int i = 0; i < count_of(&part); i++) got[i] = 500 + (float)i;
            assert_ok(muster_variable_set(v, 0, tensor_of(MUSTER_F32, got, &part)));
            assert_replica(v, 0, &part, got);
            assert_ok(muster_variable_get_whole(v, tensor_of(MUSTER_F32, turned, &large)));
            for (int i = 0; i < 35; i++) {
                const bool inside = i / 7 < part.sizes[0] && i % 7 < part.sizes[1];
                assert_true(turned[i] == (inside ? 500 + (float)(i / 7 * part.sizes[1] + i % 7) : whole[i]));
            }
            assert_ok(muster_variable_destroy(v));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES * 3);
}

static void variables_without_rows_and_scalars(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:3");
    muster_variable *v, *scalar;
    const shape s = {2, {4, 2}};
    float whole[8], one = 5, got = 0;
    const int64_t row[] = {2};
    fill(MUSTER_F32, whole, &s, 0);
    assert_ok(muster_variable_create_empty(runtime, "v", MUSTER_F32, 2, row, &v));
    assert_ok(muster_variable_split(v, 0));
    assert_whole(v, &(shape){2, {0, 2}}, whole);
    assert_ok(muster_variable_set_whole(v, tensor_of(MUSTER_F32, whole, &s)));
    assert_parts(v, &s, 0, 3, whole);
    assert_ok(muster_variable_create(runtime, "scalar", muster_f32(&one), &scalar));
    assert_refused(muster_variable_split(scalar, 0), MUSTER_SHAPE_MISMATCH,
                   "muster_variable_split: variable 'scalar': expected at least 1 dimension to split along, received a scalar");
    assert_ok(muster_variable_set_whole(scalar, muster_f32(&one)));
    assert_ok(muster_variable_join(scalar));
    assert_ok(muster_variable_get_whole(scalar, muster_f32(&got)));
    assert_true(got == 5);
    assert_ok(muster_variable_whole_shape(scalar, 0, NULL));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- refusals ---- */

static const char breaks[] = ": variable 'w': expected one that is not split, received one split along axis 1: "
                             "muster_variable_get_whole and muster_variable_set_whole take all of it, muster_variable_join makes every "
                             "replica whole again";

static int refused(muster_status status) {
    assert_refused(status, MUSTER_UNSUPPORTED, breaks);
    return 1;
}

static int refuse_lists(muster_variable *const *w, const muster_tensor *value) {
    const double weights[] = {1, 1};
    int cases = 0;
    cases += refused(muster_variables_broadcast(w, NULL, 2));
    cases += refused(muster_variables_broadcast(w, value, 2));
    cases += refused(muster_variables_scatter(w, value, 2, NULL));
    cases += refused(muster_variables_all_reduce(w, 2, MUSTER_SUM));
    cases += refused(muster_variables_reduce(w, 2, MUSTER_SUM));
    cases += refused(muster_variables_reduce_scatter(w, 2, MUSTER_SUM));
    cases += refused(muster_variables_all_gather(w, 2));
    cases += refused(muster_variables_all_to_all(w, 2));
    cases += refused(muster_variables_broadcast_from(w, 2, 1));
    cases += refused(muster_variables_scatter_from(w, 2, 1));
    cases += refused(muster_variables_reduce_at(w, 2, MUSTER_MAX, 1));
    cases += refused(muster_variables_gather_at(w, 2, 1));
    cases += refused(muster_variables_reduce_to(w, value, 2, MUSTER_SUM));
    cases += refused(muster_variables_stack(w, value, 2));
    cases += refused(muster_variables_concatenate(w, value, 2));
    cases += refused(muster_variables_all_reduce_weighted(w, 2, weights, 2));
    cases += refused(muster_variables_reduce_weighted_at(w, 2, weights, 2, 1));
    cases += refused(muster_variables_reduce_weighted_to(w, value, 2, weights, 2));
    return cases;
}

static void what_breaks_a_split_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    const shape s = {2, {2, 4}};
    const int64_t rows[] = {1, 0, 1};
    const muster_selection three = {.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = 3},
                           two = {.kind = MUSTER_SELECT_COUNT, .stop = 2};
    float whole[8], room[32] = {0};
    muster_variable *lists[2];
    fill(MUSTER_F32, whole, &s, 6);
    assert_ok(muster_variable_create(runtime, "other", tensor_of(MUSTER_F32, room, &s), &lists[0]));
    assert_ok(muster_variable_create(runtime, "w", tensor_of(MUSTER_F32, whole, &s), &lists[1]));
    muster_variable *w = lists[1];
    assert_ok(muster_variable_split(w, 1));
    const muster_tensor values[] = {muster_f32(room, 2, 4), muster_f32(room, 2, 4)};
    assert_int_equal(refuse_lists(lists, values), 18);
    const char shape_text[] = "muster_variable_set: value of variable 'w': expected shape (2, 2), the part of rank 1 of a variable split "
                              "along axis 1, received (2, 4): muster_variable_set_whole takes a value of another shape";
    assert_refused(muster_variable_set(w, 1, muster_f32(room, 2, 4)), MUSTER_UNSUPPORTED, shape_text);
    assert_refused(muster_variable_set_selected(w, 1, muster_f32(room, 2, 2), &three), MUSTER_UNSUPPORTED, "received (3, 2)");
    assert_parts(w, &s, 1, 2, whole);
    assert_ok(muster_variable_get_whole(lists[0], muster_f32(room, 2, 4)));
    for (int i = 0; i < 8; i++) assert_true(room[i] == 0);
    assert_ok(muster_variable_split(w, 0));
    assert_refused(muster_variable_set(w, 0, muster_f32(room, 2, 4)), MUSTER_UNSUPPORTED, "expected shape (1, 4), the part of rank 0");
    assert_parts(w, &s, 0, 2, whole);
    assert_ok(muster_variable_split(w, 1));
    float part[4] = {1, 2, 3, 4};
    assert_ok(muster_variable_set_selected(w, 1, muster_f32(part, 2, 2), &two));
    assert_replica(w, 1, &(shape){2, {2, 2}}, part);
    assert_ok(muster_runtime_close(runtime));
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    const shape s = {2, {2, 4}};
    float whole[8], longer[12] = {0};
    double wide[8] = {0};
    muster_variable *w;
    fill(MUSTER_F32, whole, &s, 6);
    assert_ok(muster_variable_create(runtime, "w", tensor_of(MUSTER_F32, whole, &s), &w));
    assert_refused(muster_variable_split(w, 2), MUSTER_OUT_OF_RANGE, "axis: variable 'w': expected 0 to 1, received 2");
    assert_refused(muster_variable_split(w, -1), MUSTER_OUT_OF_RANGE, "axis: variable 'w': expected 0 to 1, received -1");
    assert_ok(muster_variable_set(w, 1, muster_f32(longer, 3, 4)));
    assert_refused(muster_variable_split(w, 0), MUSTER_SHAPE_MISMATCH, "variable 'w': rank 1 has shape (3, 4), rank 0 has (2, 4)");
    assert_int_equal(muster_variable_split_axis(w), -1);
    assert_ok(muster_variable_set_whole(w, muster_f32(whole, 2, 4)));
    assert_ok(muster_variable_split(w, 0));
    assert_refused(muster_variable_split(w, 2), MUSTER_OUT_OF_RANGE, "axis");
    assert_refused(muster_variable_get_whole(w, muster_f32(whole, 1, 4)), MUSTER_SHAPE_MISMATCH,
                   "muster_variable_get_whole: value of variable 'w': expected shape (2, 4), received (1, 4)");
    assert_refused(muster_variable_set_whole(w, muster_f64(wide, 2, 4)), MUSTER_DTYPE_MISMATCH, "expected dtype f32, received f64");
    assert_refused(muster_variable_set_whole(w, muster_f32(whole, 8)), MUSTER_SHAPE_MISMATCH, "expected 2 dimensions, received 1");
    assert_parts(w, &s, 0, 2, whole);
    assert_int_equal(muster_variable_split_axis(NULL), -1);
    assert_ok(muster_runtime_close(runtime));
}

/* ---- every failing allocation ---- */

static muster_status to_axis_0(muster_variable *v) { return muster_variable_split(v, 0); }
static muster_status to_axis_1(muster_variable *v) { return muster_variable_split(v, 1); }
static muster_status set_larger(muster_variable *v) {
    static float values[15 * 14], turned[15 * 14];
    const shape s = {2, {14, 15}};
    fill(MUSTER_F32, values, &s, 5);
    for (int i = 0; i < 15 * 14; i++) turned[i % 15 * 14 + i / 15] = values[i];
    return muster_variable_set_whole(v, muster_tensor_transpose(muster_f32(turned, 15, 14)));
}
static muster_status get_strided(muster_variable *v) {
    float got[35];
    return muster_variable_get_whole(v, muster_tensor_transpose(muster_f32(got, 7, 5)));
}

static void fail_every_allocation(const char *machine, int32_t axis, muster_status (*operation)(muster_variable *)) {
    const int64_t live = mst_memory_live();
    const shape s = {2, {5, 7}};
    float whole[35];
    bool done = false;
    fill(MUSTER_F32, whole, &s, 3);
    for (int64_t k = 1; !done; k++) {
        muster_runtime *runtime = open_text(machine);
        muster_variable *v;
        assert_ok(muster_variable_create(runtime, "v", tensor_of(MUSTER_F32, whole, &s), &v));
        if (axis >= 0) assert_ok(muster_variable_split(v, axis));
        mst_memory_fail_at(k);
        const int64_t before = mst_memory_count();
        const muster_status status = operation(v);
        done = mst_memory_count() - before < k;
        mst_memory_fail_at(0);
        assert_true(done || status == MUSTER_OUT_OF_MEMORY);
        if (status != MUSTER_OK) {
            assert_parts(v, &s, axis, 3, whole);
            assert_ok(operation(v));
        }
        assert_ok(muster_runtime_close(runtime));
        assert_int_equal(mst_memory_live(), live);
        assert_int_equal(mst_discrete_live(), 0);
    }
}

static void failing_allocations_change_nothing(void **state) {
    (void)state;
    muster_status (*const operations[])(muster_variable *) = {to_axis_0, to_axis_1, muster_variable_join, set_larger, get_strided};
    int cases = 0;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        for (int32_t axis = -1; axis < 2; axis++, cases++) {
            fail_every_allocation("host:3", axis, operations[i]);
            fail_every_allocation("discrete:3", axis, operations[i]);
        }
    }
    assert_int_equal(cases, 15);
}

static int setup(void **state) {
    (void)state;
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_along_every_axis),
        cmocka_unit_test(strided_values_and_other_shapes),
        cmocka_unit_test(variables_without_rows_and_scalars),
        cmocka_unit_test(what_breaks_a_split_is_refused),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(failing_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
