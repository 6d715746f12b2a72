/* Variables: every operation on every number and kind of device, every refusal, and what a failed
 * allocation leaves. */
#include "base_check.h"
#include "device_discrete.h"
#include "variable_impl.h"

static const char *const machines[] = {"host:1", "host:2", "host:3", "host:4", "host:8", "discrete:1", "discrete:3", "host:1,discrete:2"};
enum { MACHINES = sizeof machines / sizeof *machines };

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_variable *create_f32(muster_runtime *runtime, const char *name, const float *values, int64_t rows, int64_t columns) {
    muster_variable *variable;
    assert_ok(muster_variable_create(runtime, name, muster_f32(values, rows, columns), &variable));
    return variable;
}

/* The replica of every rank becomes rows x 2 of rank + 1. */
static void set_by_rank(muster_runtime *runtime, muster_variable *variable, int64_t rows) {
    float values[64];
    for (int32_t r = 0; r < muster_runtime_size(runtime); r++) {
        for (int64_t i = 0; i < 2 * rows; i++) values[i] = (float)(r + 1);
        assert_ok(muster_variable_set(variable, r, muster_f32(values, rows, 2)));
    }
}

static void assert_replica(muster_variable *variable, int32_t rank, int64_t rows, float expected) {
    float values[256];
    assert_ok(muster_variable_get(variable, rank, muster_f32(values, rows, 2)));
    for (int64_t i = 0; i < 2 * rows; i++) assert_float_equal(values[i], expected, 1e-5);
}

static void test_create_set_get(void **state) {
    (void)state;
    const float values[] = {1, 2, 3, 4, 5, 6};
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        muster_variable *w;
        assert_ok(muster_variable_create(runtime, "w", muster_tensor_transpose(muster_f32(values, 2, 3)), &w));
        float got[6], strided[6];
        for (int32_t r = 0; r < muster_runtime_size(runtime); r++) {
            assert_ok(muster_variable_get(w, r, muster_f32(got, 3, 2)));
            const float expected[] = {1, 4, 2, 5, 3, 6};
            assert_memory_equal(got, expected, sizeof got);
            assert_ok(muster_variable_get(w, r, muster_tensor_transpose(muster_f32(strided, 2, 3))));
            assert_memory_equal(strided, values, sizeof strided);
        }
        assert_string_equal(muster_variable_name(w), "w");
        assert_int_equal(muster_variable_ndim(w), 2);
        assert_int_equal(muster_variable_dtype(w), MUSTER_F32);
        assert_ok(muster_variable_destroy(w));
        /* the name is free again; closed with the runtime */
        assert_ok(muster_variable_create(runtime, "w", muster_f32(values), &w));
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(mst_discrete_live(), 0);
}

static void test_reductions(void **state) {
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        int32_t n = muster_runtime_size(runtime);
        float zero[4] = {0}, product = 1;
        for (int32_t r = 0; r < n; r++) product *= (float)(r + 1);
        muster_variable *w = create_f32(runtime, "w", zero, 2, 2);
        const float expected[] = {0, (float)(n * (n + 1) / 2), product, (float)n, 1, (float)(n + 1) / 2};
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            float got[4] = {0}, strided[8];
            muster_tensor result = muster_f32(got, 2, 2), apart = muster_f32(strided, 2, 4);
            set_by_rank(runtime, w, 2);
            assert_ok(muster_variables_reduce_to(&w, &result, 1, op));
            assert_float_equal(got[3], expected[op], 1e-4);
            apart.shape[1] = 2;
            assert_ok(muster_variables_reduce_to(&w, &apart, 1, op));
            assert_float_equal(strided[5], expected[op], 1e-4);
            for (int32_t r = 0; r < n; r++) assert_replica(w, r, 2, (float)(r + 1));
            assert_ok(muster_variables_reduce(&w, 1, op));
            assert_replica(w, 0, 2, expected[op]);
            for (int32_t r = 1; r < n; r++) assert_replica(w, r, 2, (float)(r + 1));
            set_by_rank(runtime, w, 2);
            assert_ok(muster_variables_all_reduce(&w, 1, op));
            for (int32_t r = 0; r < n; r++) assert_replica(w, r, 2, expected[op]);
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

static void test_broadcast_and_gathers(void **state) {
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        int32_t n = muster_runtime_size(runtime);
        float zero[4] = {0}, all[256];
        int64_t lengths[16], shape[2], total = 0;
        muster_variable *w = create_f32(runtime, "w", zero, 2, 2);
        set_by_rank(runtime, w, 2);
        muster_tensor stacked = muster_f32(all, n, 2, 2);
        assert_ok(muster_variables_stack(&w, &stacked, 1));
        for (int32_t r = 0; r < n; r++) assert_float_equal(all[4 * r + 3], r + 1, 0);
        for (int32_t r = 0; r < n; r++) { /* rank r has r + 1 rows */
            float values[64];
            for (int64_t i = 0; i < 2 * (r + 1); i++) values[i] = (float)(10 * r);
            assert_ok(muster_variable_set(w, r, muster_f32(values, r + 1, 2)));
            total += r + 1;
        }
        assert_ok(muster_variable_lengths(w, n, lengths));
        assert_int_equal(lengths[n - 1], n);
        muster_tensor rows = muster_f32(all, total, 2);
        assert_ok(muster_variables_concatenate(&w, &rows, 1));
        assert_ok(muster_variables_all_gather(&w, 1));
        for (int32_t r = 0; r < n; r++) {
            float got[256];
            assert_ok(muster_variable_shape(w, r, 2, shape));
            assert_int_equal(shape[0], total);
            assert_ok(muster_variable_get(w, r, muster_f32(got, total, 2)));
            assert_memory_equal(got, all, (size_t)(total * 8));
            assert_float_equal(got[2 * total - 1], 10 * (n - 1), 0);
        }
        set_by_rank(runtime, w, 3);
        assert_ok(muster_variables_broadcast(&w, NULL, 1));
        for (int32_t r = 0; r < n; r++) assert_replica(w, r, 3, 1);
        assert_ok(muster_variables_broadcast(&w, (muster_tensor[]){muster_f32(zero, 2, 2)}, 1));
        for (int32_t r = 0; r < n; r++) assert_replica(w, r, 2, 0);
        assert_ok(muster_runtime_close(runtime));
    }
}

static void test_scatter(void **state) {
    (void)state;
    float x[20];
    const int64_t list[] = {9, 0, 0, 4, 7};
    const muster_selection selections[] = {{0},
                                           {.kind = MUSTER_SELECT_COUNT, .stop = 7},
                                           {.kind = MUSTER_SELECT_RANGE, .start = 3, .stop = 10},
                                           {.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 5}};
    const int64_t counts[] = {10, 7, 7, 5};
    for (int i = 0; i < 20; i++) x[i] = (float)(i / 2);
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        int32_t n = muster_runtime_size(runtime);
        muster_variable *w = create_f32(runtime, "w", x, 10, 2);
        for (int s = 0; s < 4; s++) {
            muster_tensor value = muster_f32(x, 10, 2);
            assert_ok(muster_variables_scatter(&w, &value, 1, &selections[s]));
            for (int32_t r = 0; r < n; r++) {
                float got[20];
                int64_t begin = counts[s] * r / n, rows = counts[s] * (r + 1) / n - begin;
                assert_ok(muster_variable_get(w, r, muster_f32(got, rows, 2)));
                for (int64_t i = 0; i < rows; i++) assert_float_equal(got[2 * i + 1], mst_selection_row(&selections[s], begin + i), 0);
            }
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

static void test_edges(void **state) {
    (void)state;
    const int64_t expected[] = {0, 2, 5, 7, 10};
    for (int32_t r = 0; r <= 4; r++) assert_int_equal(mst_edge(10, 4, r), expected[r]);
    assert_true(mst_edge(INT64_MAX, 7, 7) == INT64_MAX);
    assert_true(mst_edge(INT64_MAX, 2, 1) == INT64_MAX / 2);
}

static void test_refused_selections(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    float x[20] = {0};
    const int64_t high[] = {1, 10}, negative[] = {1, 2, -1};
    muster_tensor value = muster_f32(x, 10, 2);
    muster_variable *w = create_f32(runtime, "w", x, 10, 2);
    const struct {
        muster_selection selection;
        muster_status code;
        const char *message;
    } cases[] = {
        {{.kind = MUSTER_SELECT_LIST, .indices = high, .index_count = 2},
         MUSTER_OUT_OF_RANGE,
         "below the 10 rows, received 10 at position 1"},
        {{.kind = MUSTER_SELECT_LIST, .indices = negative, .index_count = 3},
         MUSTER_OUT_OF_RANGE,
         "received a negative one: -1 at position 2"},
        {{.kind = MUSTER_SELECT_LIST, .indices = high, .index_count = 0}, MUSTER_INVALID_ARGUMENT, "received an empty list"},
        {{.kind = MUSTER_SELECT_LIST, .index_count = 2}, MUSTER_INVALID_ARGUMENT, "received NULL with index_count 2"},
        {{.kind = MUSTER_SELECT_COUNT, .stop = 11}, MUSTER_OUT_OF_RANGE, "within the 10 rows, received [0, 11)"},
        {{.kind = MUSTER_SELECT_COUNT, .stop = 0}, MUSTER_INVALID_ARGUMENT, "the empty range [0, 0)"},
        {{.kind = MUSTER_SELECT_RANGE, .start = -1, .stop = 3}, MUSTER_OUT_OF_RANGE, "received [-1, 3)"},
        {{.kind = MUSTER_SELECT_RANGE, .start = 4, .stop = 3}, MUSTER_INVALID_ARGUMENT, "the empty range [4, 3)"},
        {{.kind = 9}, MUSTER_INVALID_ARGUMENT, "received 9"},
        {{.reserved = 1}, MUSTER_INVALID_ARGUMENT, "muster_variables_scatter: selection: reserved: expected 0, received 1"},
        {{.kind = MUSTER_SELECT_COUNT, .stop = 2, .reserved = -1}, MUSTER_INVALID_ARGUMENT, "reserved: expected 0, received -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(muster_variables_scatter(&w, &value, 1, &cases[i].selection), cases[i].code, cases[i].message);
        assert_replica(w, 1, 10, 0);
    }
    assert_ok(muster_variables_scatter(&w, &value, 1, NULL));
    assert_ok(muster_runtime_close(runtime));
}

static void test_unequal_shapes_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    float zero[64] = {0};
    muster_variable *v = create_f32(runtime, "v", zero, 3, 2), *w = create_f32(runtime, "w", zero, 3, 2), *list[] = {v, w};
    muster_tensor result = muster_f32(zero, 2, 3, 2), rows = muster_f32(zero, 3, 2);
    set_by_rank(runtime, v, 3);
    assert_ok(muster_variable_set(w, 1, muster_f32(zero, 2, 2)));
    assert_refused(muster_variables_all_reduce(list, 2, MUSTER_SUM), MUSTER_SHAPE_MISMATCH,
                   "muster_variables_all_reduce: variable 'w': rank 1 has shape (2, 2), rank 0 has (3, 2)");
    assert_replica(v, 0, 3, 1); /* the first of the list is untouched */
    assert_refused(muster_variables_reduce(&w, 1, MUSTER_SUM), MUSTER_SHAPE_MISMATCH, "rank 1 has shape (2, 2)");
    assert_refused(muster_variables_reduce_to(&w, &rows, 1, MUSTER_SUM), MUSTER_SHAPE_MISMATCH, "rank 1 has shape (2, 2)");
    assert_refused(muster_variables_stack(&w, &result, 1), MUSTER_SHAPE_MISMATCH, "rank 1 has shape (2, 2)");
    assert_ok(muster_variable_set(w, 1, muster_f32(zero, 2, 3)));
    assert_refused(muster_variables_all_gather(&w, 1), MUSTER_SHAPE_MISMATCH, "all but the first size must be equal");
    assert_refused(muster_variables_concatenate(&w, &rows, 1), MUSTER_SHAPE_MISMATCH, "rank 1 has shape (2, 3), rank 0 has (3, 2)");
    assert_ok(muster_variables_broadcast(&w, NULL, 1));
    assert_ok(muster_variables_all_reduce(list, 2, MUSTER_SUM));
    assert_replica(v, 1, 3, 3);
    assert_ok(muster_runtime_close(runtime));
}

static void test_refused_arguments(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2"), *second = open_text("host:1");
    float zero[64] = {0};
    int64_t sizes[2];
    muster_variable *w = create_f32(runtime, "w", zero, 2, 2), *other = create_f32(second, "w", zero, 2, 2), *none, *scalar, *count;
    muster_variable *twice[] = {w, w}, *both[] = {w, other}, *hole[] = {w, NULL};
    muster_tensor value = muster_f32(zero, 2, 2), wide = muster_f64((void *)zero, 2, 2), flat = muster_f32(zero, 4),
                  small = muster_f32(zero, 1, 2);
    assert_refused(muster_variable_create(runtime, "w", value, &none), MUSTER_INVALID_ARGUMENT,
                   "expected a name that no variable of this runtime has, received 'w'");
    assert_refused(muster_variable_create(runtime, "", value, &none), MUSTER_INVALID_ARGUMENT, "received \"\"");
    assert_refused(muster_variable_create(runtime, NULL, value, &none), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_refused(muster_variable_create(NULL, "x", value, &none), MUSTER_INVALID_ARGUMENT, "runtime");
    assert_refused(muster_variable_create(runtime, "x", muster_tensor_none(), &none), MUSTER_INVALID_ARGUMENT, "value");
    assert_null(none);
    assert_refused(muster_variable_set(w, 2, value), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 1, received 2");
    assert_refused(muster_variable_set(w, 0, wide), MUSTER_DTYPE_MISMATCH, "value of variable 'w': expected dtype f32, received f64");
    assert_refused(muster_variable_set(w, 0, flat), MUSTER_SHAPE_MISMATCH, "expected 2 dimensions, received 1");
    assert_refused(muster_variable_get(w, 0, small), MUSTER_SHAPE_MISMATCH,
                   "value of variable 'w': expected shape (2, 2), received (1, 2)");
    assert_refused(muster_variable_get(NULL, 0, small), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_refused(muster_variable_shape(w, -1, 2, sizes), MUSTER_OUT_OF_RANGE, "received -1");
    assert_refused(muster_variable_shape(w, 0, 1, sizes), MUSTER_INVALID_ARGUMENT, "ndim: variable 'w': expected 2, received 1");
    assert_refused(muster_variable_lengths(w, 1, sizes), MUSTER_INVALID_ARGUMENT, "count: variable 'w': expected 2, received 1");
    assert_refused(muster_variables_all_reduce(twice, 2, MUSTER_SUM), MUSTER_INVALID_ARGUMENT, "received 'w' again");
    assert_refused(muster_variables_all_reduce(both, 2, MUSTER_SUM), MUSTER_INVALID_ARGUMENT, "of another");
    assert_refused(muster_variables_all_reduce(hole, 2, MUSTER_SUM), MUSTER_INVALID_ARGUMENT,
                   "variables[1]: expected a variable, received NULL");
    assert_refused(muster_variables_all_reduce(NULL, 2, MUSTER_SUM), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_refused(muster_variables_all_reduce(&w, -1, MUSTER_SUM), MUSTER_INVALID_ARGUMENT, "received -1");
    assert_refused(muster_variables_all_reduce(&w, 1, 99), MUSTER_INVALID_ARGUMENT, "muster_variables_all_reduce");
    assert_refused(muster_variables_stack(&w, NULL, 1), MUSTER_INVALID_ARGUMENT, "results: expected 1 tensors, received NULL");
    assert_refused(muster_variables_scatter(&w, NULL, 1, NULL), MUSTER_INVALID_ARGUMENT, "values: expected 1 tensors, received NULL");
    assert_ok(muster_variable_create(runtime, "scalar", muster_f32(zero), &scalar));
    assert_refused(muster_variables_all_gather(&scalar, 1), MUSTER_SHAPE_MISMATCH, "received a scalar");
    assert_ok(muster_variable_create(runtime, "count", muster_i64((void *)zero, 2), &count));
    assert_refused(muster_variables_all_reduce(&count, 1, MUSTER_AVG), MUSTER_UNSUPPORTED, "muster_variables_all_reduce");
    w->users = 2;
    assert_refused(muster_variable_destroy(w), MUSTER_BAD_STATE, "expected no function that uses it, 2 still do");
    w->users = 0;
    assert_ok(muster_variables_all_reduce(NULL, 0, MUSTER_SUM));
    assert_ok(muster_variable_destroy(NULL));
    assert_ok(muster_variables_all_reduce(&w, 1, MUSTER_SUM));
    assert_ok(muster_runtime_close(second));
    assert_ok(muster_runtime_close(runtime));
}

static muster_status nested_task(muster_worker *worker, void *argument) {
    muster_variable *w = argument;
    return worker->rank == 0 ? muster_variables_all_reduce(&w, 1, MUSTER_SUM) : MUSTER_OK;
}

static void test_operations_inside_a_run_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    float zero[4] = {0};
    muster_variable *w = create_f32(runtime, "w", zero, 2, 2);
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    muster_status status = mst_pool_run(runtime->pool, nested_task, w);
    mst_pool_leave(runtime->pool);
    assert_refused(status, MUSTER_BAD_STATE, "muster_variables_all_reduce");
    assert_ok(muster_variables_all_reduce(&w, 1, MUSTER_SUM));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- every failing allocation ---- */

typedef struct operation_case {
    muster_runtime *runtime;
    muster_variable *w;
    float room[512];
} operation_case;

static muster_status do_create(operation_case *c) {
    muster_variable *made;
    muster_status status = muster_variable_create(c->runtime, "made", muster_tensor_transpose(muster_f32(c->room, 4, 2)), &made);
    return status == MUSTER_OK ? muster_variable_destroy(made) : status;
}
static muster_status do_set(operation_case *c) { return muster_variable_set(c->w, 1, muster_f32(c->room, 40, 2)); }
static muster_status do_broadcast(operation_case *c) {
    return muster_variables_broadcast(&c->w, (muster_tensor[]){muster_f32(c->room, 40, 2)}, 1);
}
static muster_status do_scatter(operation_case *c) {
    return muster_variables_scatter(&c->w, (muster_tensor[]){muster_f32(c->room, 90, 2)}, 1, NULL);
}
static muster_status do_all_reduce(operation_case *c) { return muster_variables_all_reduce(&c->w, 1, MUSTER_SUM); }
static muster_status do_reduce(operation_case *c) { return muster_variables_reduce(&c->w, 1, MUSTER_SUM); }
static muster_status do_all_gather(operation_case *c) { return muster_variables_all_gather(&c->w, 1); }
static muster_status do_reduce_to(operation_case *c) {
    return muster_variables_reduce_to(&c->w, (muster_tensor[]){muster_f32(c->room, 3, 2)}, 1, MUSTER_SUM);
}
static muster_status do_all_reduce_weighted(operation_case *c) {
    return muster_variables_all_reduce_weighted(&c->w, 1, (const double[]){1, 0, 3}, 3);
}
static muster_status do_reduce_weighted_to(operation_case *c) {
    return muster_variables_reduce_weighted_to(&c->w, (muster_tensor[]){muster_f32(c->room, 3, 2)}, 1, (const double[]){1, 0, 3}, 3);
}
static muster_status do_set_selected(operation_case *c) {
    const muster_selection some = {.kind = MUSTER_SELECT_LIST, .indices = (const int64_t[]){3, 0, 3, 1}, .index_count = 4};
    return muster_variable_set_selected(c->w, 1, muster_f32(c->room, 4, 2), &some);
}
static muster_status do_stack(operation_case *c) {
    return muster_variables_stack(&c->w, (muster_tensor[]){muster_f32(c->room, 3, 3, 2)}, 1);
}

/* Fetches into every second element, so that a device with memory of its own needs host memory on
 * the way. What a fetch that succeeds brings is what set_by_rank has set. */
static muster_tensor apart(operation_case *c, int32_t ndim, const int64_t *shape) {
    muster_tensor tensor = muster_tensor_make(MUSTER_F32, c->room, ndim, shape);
    for (int32_t d = 0; d < ndim; d++) tensor.strides[d] *= 2;
    return tensor;
}
static muster_status fetched(const operation_case *c, muster_status status, int32_t first_rank, int32_t ranks, int step) {
    for (int32_t i = 0; status == MUSTER_OK && i < 6 * ranks; i++)
        assert_float_equal(c->room[i * step], (float)(first_rank + i / 6 + 1), 0);
    return status;
}
static muster_status do_get(operation_case *c) { return fetched(c, muster_variable_get(c->w, 1, muster_f32(c->room, 3, 2)), 1, 1, 1); }
static muster_status do_get_apart(operation_case *c) {
    return fetched(c, muster_variable_get(c->w, 2, apart(c, 2, (const int64_t[]){3, 2})), 2, 1, 2);
}
static muster_status do_reduce_to_apart(operation_case *c) {
    muster_tensor result = apart(c, 2, (const int64_t[]){3, 2});
    muster_status status = muster_variables_reduce_to(&c->w, &result, 1, MUSTER_SUM);
    for (int i = 0; status == MUSTER_OK && i < 6; i++) assert_float_equal(c->room[2 * i], 6, 0);
    return status;
}
static muster_status do_stack_apart(operation_case *c) {
    muster_tensor result = apart(c, 3, (const int64_t[]){3, 3, 2});
    return fetched(c, muster_variables_stack(&c->w, &result, 1), 0, 3, 2);
}
static muster_status do_concatenate(operation_case *c) {
    return fetched(c, muster_variables_concatenate(&c->w, (muster_tensor[]){muster_f32(c->room, 9, 2)}, 1), 0, 3, 1);
}
static muster_status do_concatenate_apart(operation_case *c) {
    muster_tensor result = apart(c, 2, (const int64_t[]){9, 2});
    return fetched(c, muster_variables_concatenate(&c->w, &result, 1), 0, 3, 2);
}

static void fail_every_allocation(const char *machine, muster_status (*operation)(operation_case *)) {
    int64_t live = mst_memory_live();
    bool done = false;
    for (int64_t k = 1; !done; k++) {
        operation_case c = {.runtime = open_text(machine)};
        c.w = create_f32(c.runtime, "w", c.room, 3, 2);
        set_by_rank(c.runtime, c.w, 3);
        mst_memory_fail_at(k);
        int64_t before = mst_memory_count();
        muster_status status = operation(&c);
        done = mst_memory_count() - before < k;
        mst_memory_fail_at(0);
        assert_true(done || status == MUSTER_OUT_OF_MEMORY);
        if (status != MUSTER_OK) {
            for (int32_t r = 0; r < 3; r++) assert_replica(c.w, r, 3, (float)(r + 1));
            assert_ok(operation(&c));
        }
        assert_ok(muster_runtime_close(c.runtime));
        assert_int_equal(mst_memory_live(), live);
        assert_int_equal(mst_discrete_live(), 0);
    }
}

static void test_failing_allocations_change_nothing(void **state) {
    (void)state;
    muster_status (*const operations[])(operation_case *) = {do_create,
                                                             do_set,
                                                             do_broadcast,
                                                             do_scatter,
                                                             do_all_reduce,
                                                             do_reduce,
                                                             do_all_gather,
                                                             do_reduce_to,
                                                             do_stack,
                                                             do_get,
                                                             do_get_apart,
                                                             do_reduce_to_apart,
                                                             do_stack_apart,
                                                             do_concatenate,
                                                             do_concatenate_apart,
                                                             do_all_reduce_weighted,
                                                             do_reduce_weighted_to,
                                                             do_set_selected};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        fail_every_allocation("host:3", operations[i]);
        fail_every_allocation("discrete:3", operations[i]);
    }
}

static int setup(void **state) {
    (void)state;
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_set_get),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_broadcast_and_gathers),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_refused_selections),
        cmocka_unit_test(test_unequal_shapes_are_refused),
        cmocka_unit_test(test_refused_arguments),
        cmocka_unit_test(test_operations_inside_a_run_are_refused),
        cmocka_unit_test(test_failing_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
