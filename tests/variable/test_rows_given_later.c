/* Variables that are created without rows, and replicas that get a selection of rows, on every kind
 * and number of devices. What a replica must hold is written down here by plain loops. */
#include "base_check.h"
#include "device_discrete.h"
#include "muster/variable.h"

static const char *const machines[] = {"host:1", "host:2", "host:3", "host:8", "discrete:1", "discrete:3", "host:1,discrete:2"};
enum { MACHINES = sizeof machines / sizeof *machines, ROWS = 10, COLUMNS = 3 };

/* Row i is {10 i, 10 i + 1, 10 i + 2}. */
static float table[ROWS][COLUMNS];

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

/* The replica has exactly these rows of the table. */
static void assert_rows(muster_variable *v, int32_t rank, const int64_t *rows, int64_t count) {
    float got[2 * ROWS][COLUMNS];
    int64_t shape[2];
    assert_ok(muster_variable_shape(v, rank, 2, shape));
    assert_int_equal(shape[0], count);
    assert_int_equal(shape[1], COLUMNS);
    assert_ok(muster_variable_get(v, rank, muster_f32(got, count, COLUMNS)));
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < COLUMNS; c++) assert_true(got[i][c] == (float)(10 * rows[i] + c));
}

static void assert_no_rows(muster_variable *v, int32_t size, int64_t columns) {
    for (int32_t r = 0; r < size; r++) {
        int64_t shape[2] = {-1, -1};
        assert_ok(muster_variable_shape(v, r, 2, shape));
        assert_int_equal(shape[0], 0);
        assert_int_equal(shape[1], columns);
    }
}

static muster_variable *create_empty(muster_runtime *runtime, const char *name) {
    muster_variable *v;
    assert_ok(muster_variable_create_empty(runtime, name, MUSTER_F32, 2, (const int64_t[]){COLUMNS}, &v));
    return v;
}

/* ---- empty ---- */

static void rows_are_scattered_into_an_empty_variable(void **state) {
    (void)state;
    int cases = 0;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        const int32_t n = muster_runtime_size(runtime);
        muster_variable *v = create_empty(runtime, "v");
        assert_string_equal(muster_variable_name(v), "v");
        assert_int_equal(muster_variable_ndim(v), 2);
        assert_int_equal(muster_variable_dtype(v), MUSTER_F32);
        for (int64_t count = 0; count <= ROWS; count++, cases++) { /* also fewer rows than devices, and back to none */
            assert_no_rows(v, n, COLUMNS);
            const muster_tensor value = muster_f32(table, count, COLUMNS), none = muster_f32(NULL, 0, COLUMNS);
            assert_ok(muster_variables_scatter(&v, &value, 1, NULL));
            for (int32_t r = 0; r < n; r++) {
                int64_t rows[ROWS], mine = 0;
                for (int64_t i = count * r / n; i < count * (r + 1) / n; i++) rows[mine++] = i;
                assert_rows(v, r, rows, mine);
            }
            assert_ok(muster_variables_scatter(&v, &none, 1, NULL));
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES * (ROWS + 1));
    assert_int_equal(mst_discrete_live(), 0);
}

/* A collective over no elements is none: it neither fails nor brings rows. */
static void collectives_of_empty_variables(void **state) {
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        const int32_t n = muster_runtime_size(runtime);
        muster_variable *list[] = {create_empty(runtime, "v"), create_empty(runtime, "w")};
        const muster_tensor results[] = {muster_f32(NULL, 0, COLUMNS), muster_f32(NULL, 0, COLUMNS)};
        assert_ok(muster_variables_broadcast(list, NULL, 2));
        assert_ok(muster_variables_all_reduce(list, 2, MUSTER_AVG));
        assert_ok(muster_variables_reduce(list, 2, MUSTER_MAX));
        assert_ok(muster_variables_reduce_scatter(list, 2, MUSTER_SUM));
        assert_ok(muster_variables_all_gather(list, 2));
        assert_ok(muster_variables_all_to_all(list, 2));
        assert_ok(muster_variables_gather_at(list, 2, n - 1));
        assert_ok(muster_variables_scatter_from(list, 2, n - 1));
        assert_ok(muster_variables_reduce_to(list, results, 2, MUSTER_SUM));
        assert_ok(muster_variables_concatenate(list, results, 2));
        assert_no_rows(list[0], n, COLUMNS);
        assert_no_rows(list[1], n, COLUMNS);
        /* rows on one device only are gathered on all */
        const int64_t rows[] = {0, 1, 2, 3};
        assert_ok(muster_variable_set(list[0], n - 1, muster_f32(table, 4, COLUMNS)));
        assert_ok(muster_variables_all_gather(list, 2));
        for (int32_t r = 0; r < n; r++) assert_rows(list[0], r, rows, 4);
        assert_no_rows(list[1], n, COLUMNS);
        assert_ok(muster_runtime_close(runtime));
    }
}

static void the_shape_of_rows_may_be_unknown(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    muster_variable *v, *line;
    const int64_t rows[] = {0, 1};
    int64_t length[2] = {-1, -1};
    assert_ok(muster_variable_create_empty(runtime, "v", MUSTER_F32, 2, NULL, &v));
    assert_no_rows(v, 2, 0);
    assert_ok(muster_variables_broadcast(&v, (muster_tensor[]){muster_f32(table, 2, COLUMNS)}, 1));
    assert_rows(v, 1, rows, 2);
    assert_ok(muster_variable_create_empty(runtime, "line", MUSTER_I64, 1, NULL, &line));
    assert_ok(muster_variable_lengths(line, 2, length));
    assert_int_equal(length[0] + length[1], 0);
    assert_ok(muster_runtime_close(runtime));
}

static void refused_empty_variables(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    muster_variable *v = create_empty(runtime, "v"), *none = v;
    const int64_t negative[] = {-1}, eight[8] = {1, 1, 1, 1, 1, 1, 1, 1};
#define refused(code, text, ...) \
    assert_refused(muster_variable_create_empty(__VA_ARGS__, &none), code, "muster_variable_create_empty: " text)
    refused(MUSTER_INVALID_ARGUMENT, "ndim: expected 1 to 8, received 0", runtime, "x", MUSTER_F32, 0, NULL);
    assert_null(none);
    refused(MUSTER_INVALID_ARGUMENT, "ndim: expected 1 to 8, received 9", runtime, "x", MUSTER_F32, 9, eight);
    refused(MUSTER_INVALID_ARGUMENT, "row_shape: expected sizes of at least 0", runtime, "x", MUSTER_F32, 2, negative);
    refused(MUSTER_INVALID_ARGUMENT, "dtype: expected a muster_dtype, received 99", runtime, "x", 99, 2, eight);
    refused(MUSTER_INVALID_ARGUMENT, "dtype: expected a muster_dtype, received 0", runtime, "x", MUSTER_DTYPE_NONE, 2, eight);
    refused(MUSTER_INVALID_ARGUMENT, "", runtime, "v", MUSTER_F32, 2, eight);
    refused(MUSTER_INVALID_ARGUMENT, "", runtime, "", MUSTER_F32, 2, eight);
    refused(MUSTER_INVALID_ARGUMENT, "runtime", NULL, "x", MUSTER_F32, 2, eight);
#undef refused
    assert_refused(muster_variable_create_empty(runtime, "x", MUSTER_F32, 2, eight, NULL), MUSTER_INVALID_ARGUMENT, "variable");
    assert_ok(muster_variable_create_empty(runtime, "eight", MUSTER_F32, 8, eight, &none));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- a selection of rows for one replica ---- */

static const int64_t list[] = {9, 0, 0, 4, 7, 9};
typedef struct selected {
    muster_selection selection;
    int64_t count, rows[ROWS];
} selected;
static const selected selections[] = {
    {{0}, 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    {{.kind = MUSTER_SELECT_COUNT, .stop = 1}, 1, {0}},
    {{.kind = MUSTER_SELECT_COUNT, .stop = 10}, 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    {{.kind = MUSTER_SELECT_RANGE, .start = 3, .stop = 6}, 3, {3, 4, 5}},
    {{.kind = MUSTER_SELECT_RANGE, .start = 9, .stop = 10}, 1, {9}},
    {{.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 6}, 6, {9, 0, 0, 4, 7, 9}},
};
enum { SELECTIONS = sizeof selections / sizeof *selections };

static void a_replica_takes_the_selected_rows(void **state) {
    (void)state;
    float apart[ROWS][2 * COLUMNS]; /* the same table in every second column */
    int cases = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) apart[i / COLUMNS][2 * (i % COLUMNS)] = table[i / COLUMNS][i % COLUMNS];
    muster_tensor strided = muster_f32(apart, ROWS, 2 * COLUMNS);
    strided.shape[1] = COLUMNS;
    strided.strides[1] = 2;
    const muster_tensor values[] = {muster_f32(table, ROWS, COLUMNS), strided};
    for (int m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = open_text(machines[m]);
        const int32_t n = muster_runtime_size(runtime);
        for (int s = 0; s < SELECTIONS; s++) {
            for (int v = 0; v < 2; v++) {
                for (int32_t r = 0; r < n; r++, cases++) {
                    muster_variable *w = create_empty(runtime, "w");
                    assert_ok(muster_variable_set_selected(w, r, values[v], &selections[s].selection));
                    for (int32_t other = 0; other < n; other++)
                        assert_rows(w, other, selections[s].rows, other == r ? selections[s].count : 0);
                    assert_ok(muster_variable_destroy(w));
                }
            }
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, 21 * SELECTIONS * 2);
    assert_int_equal(mst_discrete_live(), 0);
}

static void no_selection_means_all_rows(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    muster_variable *w = create_empty(runtime, "w"), *scalar;
    const int64_t rows[] = {0, 1, 2};
    const muster_selection first = {.kind = MUSTER_SELECT_COUNT, .stop = 1};
    float one = 1, two = 2;
    assert_ok(muster_variable_set_selected(w, 1, muster_f32(table, 3, COLUMNS), NULL));
    assert_rows(w, 1, rows, 3);
    assert_ok(muster_variable_create(runtime, "scalar", muster_f32(&one), &scalar));
    assert_ok(muster_variable_set_selected(scalar, 1, muster_f32(&two), NULL));
    assert_ok(muster_variable_get(scalar, 1, muster_f32(&one)));
    assert_true(one == 2);
    assert_refused(muster_variable_set_selected(scalar, 1, muster_f32(&two), &first), MUSTER_SHAPE_MISMATCH,
                   "muster_variable_set_selected: variable 'scalar': expected at least 1 dimension to select along, received a scalar");
    assert_ok(muster_runtime_close(runtime));
}

static void refused_selections(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    muster_variable *w = create_empty(runtime, "w");
    const int64_t rows[] = {0, 1, 2}, high[] = {0, 10};
    const muster_tensor value = muster_f32(table, ROWS, COLUMNS);
    const muster_selection beyond = {.kind = MUSTER_SELECT_RANGE, .start = 1, .stop = 11},
                           none = {.kind = MUSTER_SELECT_RANGE, .start = 3, .stop = 3}, unknown = {.kind = 9},
                           wrong = {.kind = MUSTER_SELECT_LIST, .indices = high, .index_count = 2};
    assert_ok(muster_variable_set(w, 0, muster_f32(table, 3, COLUMNS)));
#define refused(code, text, selection)                                                                                                     \
    assert_refused(muster_variable_set_selected(w, 0, value, selection), code, "muster_variable_set_selected: selection: expected " text); \
    assert_rows(w, 0, rows, 3)
    refused(MUSTER_OUT_OF_RANGE, "a range within the 10 rows, received [1, 11)", &beyond);
    refused(MUSTER_INVALID_ARGUMENT, "at least one row, received the empty range [3, 3)", &none);
    refused(MUSTER_INVALID_ARGUMENT, "kind ALL, COUNT, RANGE or LIST, received 9", &unknown);
    refused(MUSTER_OUT_OF_RANGE, "indices below the 10 rows, received 10 at position 1", &wrong);
#undef refused
    assert_refused(muster_variable_set_selected(w, 2, value, NULL), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 1, received 2");
    assert_refused(muster_variable_set_selected(w, -1, value, NULL), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 1, received -1");
    assert_refused(muster_variable_set_selected(NULL, 0, value, NULL), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_refused(muster_variable_set_selected(w, 0, muster_i32((void *)table, ROWS, COLUMNS), NULL), MUSTER_DTYPE_MISMATCH, "f32");
    assert_refused(muster_variable_set_selected(w, 0, muster_f32(table, ROWS), NULL), MUSTER_SHAPE_MISMATCH, "2 dimensions");
    assert_rows(w, 0, rows, 3);
    assert_ok(muster_runtime_close(runtime));
}

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < ROWS * COLUMNS; i++) table[i / COLUMNS][i % COLUMNS] = (float)(10 * (i / COLUMNS) + i % COLUMNS);
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_scattered_into_an_empty_variable),
        cmocka_unit_test(collectives_of_empty_variables),
        cmocka_unit_test(the_shape_of_rows_may_be_unknown),
        cmocka_unit_test(refused_empty_variables),
        cmocka_unit_test(a_replica_takes_the_selected_rows),
        cmocka_unit_test(no_selection_means_all_rows),
        cmocka_unit_test(refused_selections),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
