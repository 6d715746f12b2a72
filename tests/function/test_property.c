/* For random shapes, batches, slices and numbers of devices each collect mode equals one plain loop
 * over the selected rows. */
#include "base_machine.h"
#include "function_fixture.h"
#include "tensor_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 40, COLUMNS_MAX = 5, MODES = 7 };

static const muster_collect_mode modes[MODES] = {MUSTER_SUM, MUSTER_PROD, MUSTER_MAX, MUSTER_MIN, MUSTER_AVG, MUSTER_GATHER, MUSTER_MASTER};

/* Reduces the worker's rows over axis 0 by the mode that `user` points to; gathered: the rows as
 * they are; the master's own: their sum. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const muster_collect_mode mode = *(const muster_collect_mode *)user;
    if (mode == MUSTER_GATHER) return muster_copy(w, in[0], out[0]);
    return muster_reduce(w, mode == MUSTER_MASTER ? MUSTER_SUM : mode, in[0], 0, out[0]);
}

typedef struct example {
    int64_t rows, columns, count;
    int devices;
    muster_call_options options;
    int64_t indices[ROWS_MAX];
    double values[ROWS_MAX * COLUMNS_MAX];
} example;

static void choose_batch(example *e, uint64_t *state) {
    muster_selection *batch = &e->options.batch;
    e->count = e->rows;
    batch->kind = (int32_t)fixture_random(state, 4);
    if (batch->kind == MUSTER_SELECT_COUNT) {
        batch->stop = e->count = 1 + fixture_random(state, (uint32_t)e->rows);
    } else if (batch->kind == MUSTER_SELECT_RANGE) {
        batch->start = fixture_random(state, (uint32_t)e->rows);
        batch->stop = batch->start + 1 + fixture_random(state, (uint32_t)(e->rows - batch->start));
        e->count = batch->stop - batch->start;
    } else if (batch->kind == MUSTER_SELECT_LIST) {
        e->count = 1 + fixture_random(state, ROWS_MAX);
        for (int64_t i = 0; i < e->count; i++) e->indices[i] = fixture_random(state, (uint32_t)e->rows);
        batch->indices = e->indices;
        batch->index_count = e->count;
    }
}

static void choose(example *e, uint64_t *state) {
    memset(e, 0, sizeof *e);
    muster_call_options_init(&e->options);
    e->rows = 1 + fixture_random(state, ROWS_MAX);
    e->columns = 1 + fixture_random(state, COLUMNS_MAX);
    e->devices = 1 + (int)fixture_random(state, 8);
    e->options.slices = 1 + fixture_random(state, 4);
    choose_batch(e, state);
    /* at most 2, so that a product of all rows is exact in every dtype but i32, where it wraps */
    for (int64_t i = 0; i < e->rows * e->columns; i++) e->values[i] = fixture_random(state, 3);
}

static int64_t row_of(const example *e, int64_t position) {
    const muster_selection *batch = &e->options.batch;
    return batch->kind == MUSTER_SELECT_LIST    ? e->indices[position]
           : batch->kind == MUSTER_SELECT_RANGE ? batch->start + position
                                                : position;
}

/* The plain loop: rows [begin, end) of the selection, column c. */
static double expect(const example *e, muster_collect_mode mode, int64_t begin, int64_t end, int64_t c) {
    double result = e->values[row_of(e, begin) * e->columns + c];
    for (int64_t p = begin + 1; p < end; p++) {
        const double value = e->values[row_of(e, p) * e->columns + c];
        switch (mode) {
        case MUSTER_PROD:
            result *= value;
            break;
        case MUSTER_MAX:
            result = fmax(result, value);
            break;
        case MUSTER_MIN:
            result = fmin(result, value);
            break;
        default:
            result += value;
            break;
        }
    }
    return mode == MUSTER_AVG ? result / (double)(end - begin) : result;
}

/* The rows of the master's last slice that has any. */
static void master_rows(const example *e, int64_t *begin, int64_t *end) {
    const int64_t even = e->count / e->devices, slices = e->options.slices;
    const int64_t rows = even > 0 ? even : 1; /* of the first device that has rows */
    for (int64_t s = 0; s < slices; s++) {
        if (rows * s / slices == rows * (s + 1) / slices) continue;
        *begin = rows * s / slices;
        *end = rows * (s + 1) / slices;
    }
}

/* What the dtype makes of a result: integers wrap. */
static double in_dtype(muster_dtype dtype, double value) {
    if (dtype == MUSTER_I32) return (int32_t)(uint32_t)(int64_t)value;
    return dtype == MUSTER_U32 ? (uint32_t)(int64_t)value : value;
}

/* Averages of f16 and bf16 are rounded to 11 and 8 bits. */
static double tolerance(muster_collect_mode mode, muster_dtype dtype) {
    if (mode != MUSTER_AVG) return 0;
    return dtype == MUSTER_F16 ? 1e-3 : dtype == MUSTER_BF16 ? 8e-3 : 1e-5;
}

/* The products of small dtypes leave their range; averages of integers and sums of bool are
 * refused. */
static bool is_defined(muster_collect_mode mode, muster_dtype dtype) {
    const bool is_float = dtype == MUSTER_F16 || dtype == MUSTER_BF16 || dtype == MUSTER_F32 || dtype == MUSTER_F64;
    if (mode == MUSTER_AVG) return is_float;
    if (dtype == MUSTER_BOOL) return mode != MUSTER_SUM && mode != MUSTER_MASTER;
    return mode != MUSTER_PROD || muster_dtype_size(dtype) >= 4;
}

static void check(const example *e, muster_collect_mode mode, muster_dtype dtype, const double *result) {
    int64_t begin = 0, end = e->count;
    if (mode == MUSTER_MASTER) master_rows(e, &begin, &end);
    const int64_t rows = mode == MUSTER_GATHER ? e->count : 1;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < e->columns; c++) {
            const double expected = in_dtype(dtype, mode == MUSTER_GATHER ? expect(e, mode, r, r + 1, c) : expect(e, mode, begin, end, c));
            const double received = result[r * e->columns + c], allowed = tolerance(mode, dtype) * fmax(1, fabs(expected));
            if (!(fabs(expected - received) <= allowed))
                fail_msg("mode %d %s rows %lld devices %d slices %lld batch %d: expected %g, received %g", (int)mode,
                         muster_dtype_name(dtype), (long long)e->count, e->devices, (long long)e->options.slices,
                         (int)e->options.batch.kind, expected, received);
        }
    }
}

static void run_example(muster_function *f, const example *e, muster_collect_mode mode, muster_dtype dtype) {
    double input[ROWS_MAX * COLUMNS_MAX], result[ROWS_MAX * COLUMNS_MAX], as_double[ROWS_MAX * COLUMNS_MAX];
    memset(result, 0, sizeof result);
    mst_convert(dtype, input, MUSTER_F64, e->values, e->rows * e->columns);
    const muster_tensor x = muster_tensor_make(dtype, input, 2, (int64_t[]){e->rows, e->columns});
    const muster_tensor y = mode == MUSTER_GATHER ? muster_tensor_make(dtype, result, 2, (int64_t[]){e->count, e->columns})
                                                  : muster_tensor_make(dtype, result, 1, &e->columns);
    assert_ok(muster_function_call(f, &x, 1, &y, 1, &e->options));
    mst_convert(MUSTER_F64, as_double, dtype, result, (mode == MUSTER_GATHER ? e->count : 1) * e->columns);
    check(e, mode, dtype, as_double);
}

static void compare(const char *backend, muster_dtype dtype, int rounds) {
    uint64_t state = fixture_seed() + (uint64_t)dtype;
    for (int devices = 1; devices <= 8; devices++) {
        muster_runtime *runtime = fixture_open(backend, devices);
        for (int m = 0; m < MODES; m++) {
            muster_collect_mode mode = modes[m];
            muster_function *f;
            char name[32];
            if (!is_defined(mode, dtype)) continue;
            snprintf(name, sizeof name, "mode %d", (int)mode);
            assert_ok(muster_function_create(runtime, name, body, (void *)&modes[m], &f));
            assert_ok(muster_function_input(f, "x", dtype, 2, MUSTER_SCATTER));
            assert_ok(muster_function_output(f, "y", dtype, mode == MUSTER_GATHER ? 2 : 1, mode));
            for (int round = 0; round < rounds; round++) {
                example e;
                choose(&e, &state);
                for (int64_t i = 0; dtype == MUSTER_BOOL && i < e.rows * e.columns; i++) e.values[i] = e.values[i] != 0;
                e.devices = devices;
                run_example(f, &e, mode, dtype);
            }
        }
        fixture_close(runtime);
    }
}

#define EACH_DTYPE(X) X(F16) X(BF16) X(F32) X(F64) X(I8) X(U8) X(I16) X(I32) X(I64) X(U32) X(U64) X(BOOL)
#define TEST(DTYPE)                                                                                         \
    static void every_mode_equals_a_plain_loop_##DTYPE(void **unused) {                                     \
        (void)unused;                                                                                       \
        for_each_backend(backend) compare(backend, MUSTER_##DTYPE, fixture_rounds(on_gpus() ? 1 : 6, 300)); \
    }
EACH_DTYPE(TEST)

int main(void) {
#define ENTRY(DTYPE) cmocka_unit_test(every_mode_equals_a_plain_loop_##DTYPE),
    const struct CMUnitTest tests[] = {EACH_DTYPE(ENTRY)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
