/* The reproducible mode: what a call collects is, to the bit, what as many devices as there are
 * logical shards would give, on every number of devices that divides it. So the reference is that
 * many devices without the mode, and everything else is compared with it byte by byte. */
#include "base_machine.h"
#include "function_fixture.h"
#include "tensor_impl.h"

#include <string.h>

enum { ROWS = 500, COLUMNS = 5, NUMBERS = 7, RESULT_BYTES = 64 << 10 };

static const int counts_of_shards[] = {8, 6, 12};
static const muster_dtype floats[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};

/* One call: the rows it takes, in how many slices, and whether the body sets weights of its own. */
typedef struct example {
    const char *name;
    int64_t rows, slices;
    muster_selection batch;
    bool weights;
} example;

static const int64_t chosen[] = {7, 3, 3, 499, 0, 250, 41, 42, 43, 9, 11, 13, 480, 77, 7, 1, 2, 100, 101, 5, 6, 8, 400, 401, 402, 17, 19};
static const example examples[] = {
    {"all rows", ROWS, 1, {0}, false},
    {"fewer rows than shards", 5, 1, {0}, false},
    {"one row", 1, 1, {0}, false},
    {"slices", ROWS, 3, {0}, false},
    {"more slices than rows", 9, 4, {0}, false},
    {"the first rows", ROWS, 1, {.kind = MUSTER_SELECT_COUNT, .stop = 123}, false},
    {"a range", ROWS, 2, {.kind = MUSTER_SELECT_RANGE, .start = 77, .stop = 444}, false},
    {"a list", ROWS, 1, {.kind = MUSTER_SELECT_LIST, .indices = chosen, .index_count = sizeof chosen / sizeof *chosen}, false},
    {"a list in slices", ROWS, 3, {.kind = MUSTER_SELECT_LIST, .indices = chosen, .index_count = sizeof chosen / sizeof *chosen}, true},
    {"weights", ROWS, 1, {0}, true},
    {"weights and slices", ROWS, 4, {0}, true},
};

static int64_t selected(const example *e) {
    const muster_selection *batch = &e->batch;
    if (batch->kind == MUSTER_SELECT_LIST) return batch->index_count;
    return batch->kind == MUSTER_SELECT_ALL ? e->rows : batch->stop - batch->start;
}

/* What the body sees of itself. With as many devices as shards and without the mode it sees the
 * same. */
static muster_status write_numbers(muster_worker *w, muster_tensor row) {
    int64_t first, rows;
    MUSTER_TRY(muster_worker_shard_rows(w, 0, &first, &rows));
    int64_t numbers[NUMBERS] = {
        muster_worker_shard(w),      muster_worker_shards(w), muster_worker_shards_here(w), muster_worker_first_row(w), rows,
        muster_worker_total_rows(w), muster_worker_slice(w)};
    if (first != 0 || rows != muster_worker_rows(w)) return muster_fail(MUSTER_USER, "the rows of the shard are not those of the worker");
    return muster_worker_write(w, muster_tensor_make(MUSTER_I64, numbers, 2, (int64_t[]){1, NUMBERS}), row);
}

enum { SUM, AVG, MAX, MIN, PROD, MASTER, NOISY, NUMBER_ROWS, OUTPUTS };

/* x: numbers that cancel; near: a minibatch of numbers near 1. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const example *e = *(const example *const *)user;
    muster_tensor row;
    if (e->weights)
        MUSTER_TRY(muster_worker_set_weight(w, 0.1 + 1.7 * (double)(muster_worker_shard(w) % 3) + 0.3 * (double)muster_worker_slice(w)));
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[SUM]));
    MUSTER_TRY(muster_reduce(w, MUSTER_AVG, in[0], 0, out[AVG]));
    MUSTER_TRY(muster_reduce(w, MUSTER_MAX, in[0], 0, out[MAX]));
    MUSTER_TRY(muster_reduce(w, MUSTER_MIN, in[0], 0, out[MIN]));
    MUSTER_TRY(muster_reduce(w, MUSTER_PROD, in[1], 0, out[PROD]));
    if (out[MASTER].dtype) MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[MASTER]));
    muster_tensor noise, noisy;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, in[0].shape, &noise));
    MUSTER_TRY(muster_worker_scratch(w, in[0].dtype, 2, in[0].shape, &noisy));
    MUSTER_TRY(muster_random_normal(w, 7, (uint64_t)muster_worker_first_row(w) * COLUMNS, 0, 1, noise));
    MUSTER_TRY(muster_copy(w, noise, noisy));
    MUSTER_TRY(muster_binary_op(w, MUSTER_ADD, in[0], noisy, out[NOISY]));
    MUSTER_TRY(muster_worker_output_rows(w, NUMBER_ROWS, 1, &row));
    return write_numbers(w, row);
}

static muster_function *make(muster_runtime *runtime, muster_dtype dtype, const example *const *current) {
    const struct {
        const char *name;
        muster_dtype dtype;
        int32_t ndim;
        muster_collect_mode mode;
    } outputs[OUTPUTS] = {{"sum", dtype, 1, MUSTER_SUM},      {"avg", dtype, 1, MUSTER_AVG},
                          {"max", dtype, 1, MUSTER_MAX},      {"min", dtype, 1, MUSTER_MIN},
                          {"prod", dtype, 1, MUSTER_PROD},    {"master", dtype, 1, MUSTER_MASTER},
                          {"noisy", dtype, 2, MUSTER_GATHER}, {"numbers", MUSTER_I64, 2, MUSTER_GATHER}};
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", body, (void *)current, &f));
    assert_ok(muster_function_input(f, "x", dtype, 2, MUSTER_SCATTER));
    assert_ok(muster_function_input(f, "near", dtype, 2, MUSTER_MINIBATCH));
    for (int i = 0; i < OUTPUTS; i++)
        assert_ok(muster_function_output(f, outputs[i].name, outputs[i].dtype, outputs[i].ndim, outputs[i].mode));
    return f;
}

/* Numbers of which no two orders of summation give the same; f16 holds no more than 65504. */
static void fill(void *x, void *near, muster_dtype dtype, uint64_t seed) {
    static double cancelling[ROWS * COLUMNS], around_one[ROWS * COLUMNS];
    const double large = dtype == MUSTER_F16 ? 2e3 : dtype == MUSTER_F64 ? 1e16 : 1e8;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const uint32_t kind = fixture_random(&seed, 8);
        const double small = ((double)fixture_random(&seed, 20001) - 10000) * 1e-3;
        cancelling[i] = kind == 0 ? large : kind == 1 ? -large : kind == 2 ? 1 : small;
        around_one[i] = 0.98 + 0.04 * (double)fixture_random(&seed, 1001) * 1e-3;
    }
    mst_convert(dtype, x, MUSTER_F64, cancelling, ROWS * COLUMNS);
    mst_convert(dtype, near, MUSTER_F64, around_one, ROWS * COLUMNS);
}

/* Rows of the body's own output: the pieces, of `shards` shards in slices, that have rows. */
static int64_t pieces(const example *e, int shards) {
    const int64_t n = selected(e);
    int64_t count = 0;
    for (int64_t s = 0; s < shards; s++) {
        const int64_t rows = n * (s + 1) / shards - n * s / shards;
        for (int64_t k = 0; k < e->slices; k++) count += rows * (k + 1) / e->slices > rows * k / e->slices;
    }
    return count;
}

typedef struct result {
    _Alignas(64) char bytes[OUTPUTS][RESULT_BYTES];
} result;

typedef muster_status (*call_kind)(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                   const muster_tensor *outputs, int32_t output_count, const muster_call_options *options);

/* Everything that the call collects, into `r`, which is 0 where nothing is written. */
static void collect(muster_function *f, call_kind call, const example *e, muster_dtype dtype, int shards, void *x, void *near, result *r) {
    const int64_t n = selected(e), wide[] = {COLUMNS}, rows[] = {n, COLUMNS}, given[] = {e->rows, COLUMNS},
                  numbers[] = {pieces(e, shards), NUMBERS};
    muster_call_options options;
    muster_tensor outputs[OUTPUTS];
    memset(r, 0, sizeof *r);
    muster_call_options_init(&options);
    options.batch = e->batch;
    options.slices = e->slices;
    for (int i = 0; i < NOISY; i++) outputs[i] = muster_tensor_make(dtype, r->bytes[i], 1, wide);
    if (n < shards) outputs[MASTER] = muster_tensor_none(); /* shard 0 has no rows */
    outputs[NOISY] = muster_tensor_make(dtype, r->bytes[NOISY], 2, rows);
    outputs[NUMBER_ROWS] = muster_tensor_make(MUSTER_I64, r->bytes[NUMBER_ROWS], 2, numbers);
    const muster_tensor inputs[] = {muster_tensor_make(dtype, x, 2, given), muster_tensor_make(dtype, near, 2, rows)};
    assert_ok(call(f, inputs, 2, outputs, OUTPUTS, &options));
}

static void compare(const result *expected, const result *received, const char *backend, int devices, int shards, muster_dtype dtype,
                    const example *e, const char *kind) {
    for (int i = 0; i < OUTPUTS; i++)
        if (memcmp(expected->bytes[i], received->bytes[i], RESULT_BYTES))
            fail_msg("%s %s, %d devices, %d shards, %s, %s: output %d differs", backend, kind, devices, shards, muster_dtype_name(dtype),
                     e->name, i);
}

enum { EXAMPLES = sizeof examples / sizeof *examples };

static void check_dtype(const char *backend, int shards, muster_dtype dtype) {
    static result expected[EXAMPLES], received;
    static _Alignas(64) char x[ROWS * COLUMNS * 8], near[ROWS * COLUMNS * 8];
    const example *current = NULL;
    fill(x, near, dtype, fixture_seed() + (uint64_t)dtype);
    muster_runtime *runtime = fixture_open_alone(backend, shards);
    muster_function *f = make(runtime, dtype, &current);
    for (int e = 0; e < EXAMPLES; e++) {
        current = &examples[e];
        collect(f, muster_function_call, current, dtype, shards, x, near, &expected[e]);
    }
    fixture_close(runtime);
    for (int devices = 1; devices <= shards; devices++) {
        if (shards % devices) continue;
        runtime = fixture_open_shards(backend, devices, shards);
        f = make(runtime, dtype, &current);
        for (int e = 0; e < EXAMPLES; e++) {
            current = &examples[e];
            collect(f, muster_function_call, current, dtype, shards, x, near, &received);
            compare(&expected[e], &received, backend, devices, shards, dtype, current, "call");
            collect(f, muster_function_call_single, current, dtype, shards, x, near, &received);
            compare(&expected[e], &received, backend, devices, shards, dtype, current, "single call");
        }
        fixture_close(runtime);
    }
}

/* On simulated GPUs, where this is a minute, a number of shards for each dtype. */
static void check_counts(const char *backend, muster_dtype dtype) {
    const bool full = !on_gpus() || fixture_rounds(0, 1);
    for (int s = 0; s < 3; s++)
        if (full || s == dtype % 3) check_dtype(backend, counts_of_shards[s], dtype);
}

#define TEST(DTYPE)                                                                           \
    static void every_number_of_devices_gives_the_bits_of_its_shards_##DTYPE(void **unused) { \
        (void)unused;                                                                         \
        for_each_backend(backend) check_counts(backend, MUSTER_##DTYPE);                      \
    }
TEST(F16)
TEST(BF16)
TEST(F32)
TEST(F64)

/* What the mode is for: without it the same numbers give other bits on every number of devices. */
static void without_the_mode_the_bits_differ(void **unused) {
    (void)unused;
    static const int devices[] = {1, 2, 4, 8};
    static result r[4];
    static _Alignas(64) char x[ROWS * COLUMNS * 8], near[ROWS * COLUMNS * 8];
    const example *current = &examples[0];
    for (size_t t = 0; t < 4; t++) {
        /* the same numbers always: few digits might agree by chance */
        fill(x, near, floats[t], 1 + (uint64_t)floats[t]);
        for (int d = 0; d < 4; d++) {
            muster_runtime *runtime = fixture_open("host", devices[d]);
            collect(make(runtime, floats[t], &current), muster_function_call, current, floats[t], devices[d], x, near, &r[d]);
            fixture_close(runtime);
        }
        assert_memory_not_equal(r[0].bytes[AVG], r[3].bytes[AVG], COLUMNS * (size_t)muster_dtype_size(floats[t]));
        for (int a = 0; a < 4; a++) {
            for (int b = 0; b < a; b++) {
                assert_memory_not_equal(r[a].bytes[SUM], r[b].bytes[SUM], COLUMNS * (size_t)muster_dtype_size(floats[t]));
                /* random numbers go by the global index */
                assert_memory_equal(r[a].bytes[NOISY], r[b].bytes[NOISY], RESULT_BYTES);
            }
        }
    }
}

int main(void) {
#define ENTRY(DTYPE) cmocka_unit_test(every_number_of_devices_gives_the_bits_of_its_shards_##DTYPE)
    const struct CMUnitTest tests[] = {
        ENTRY(F16), ENTRY(BF16), ENTRY(F32), ENTRY(F64), cmocka_unit_test(without_the_mode_the_bits_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
