/* Bodies with collectives: with logical shards they run once per device, with all its shards, and
 * combine one value per shard in the order of the shards. */
#include "function_fixture.h"
#include "muster/communicator.h"
#include "tensor_impl.h"

#include <stdbool.h>
#include <string.h>

enum { ROWS = 300, COLUMNS = 5, SHARDS_MAX = 12 };

typedef struct setting {
    muster_reduction op;
    muster_variable *total; /* every rank adds what it gets; NULL: none */
    int runs;
} setting;

/* out[0]: op over the rows; out[1]: the rows as they came. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    setting *s = user;
    const int32_t here = muster_worker_shards_here(w);
    const int64_t row[] = {COLUMNS}, shape[] = {here, COLUMNS};
    muster_tensor parts, combined;
    MUSTER_TRY(muster_worker_scratch(w, in[0].dtype, 2, shape, &parts));
    MUSTER_TRY(muster_worker_scratch(w, in[0].dtype, 1, row, &combined));
    __atomic_fetch_add(&s->runs, 1, __ATOMIC_SEQ_CST);
    for (int32_t k = 0; k < here; k++) {
        int64_t first, rows;
        MUSTER_TRY(muster_worker_shard_rows(w, k, &first, &rows));
        muster_tensor part = muster_tensor_slice(parts, k, k + 1);
        part = muster_tensor_make(part.dtype, muster_tensor_address(part), 1, row);
        part.device = in[0].device;
        if (rows)
            MUSTER_TRY(muster_reduce(w, s->op, muster_tensor_slice(in[0], first, first + rows), 0, part));
        else
            MUSTER_TRY(muster_fill(w, s->op == MUSTER_PROD ? 1 : 0, part));
    }
    MUSTER_TRY(muster_worker_all_reduce_shards(w, NULL, s->op, parts, combined));
    if (s->total) {
        muster_tensor total;
        MUSTER_TRY(muster_worker_variable(w, s->total, &total));
        MUSTER_TRY(muster_axpy(w, 1, combined, total));
    }
    MUSTER_TRY(muster_copy(w, in[0], out[1]));
    return muster_copy(w, combined, out[0]);
}

static muster_function *make(muster_runtime *runtime, muster_dtype dtype, setting *s) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", body, s, &f));
    assert_ok(muster_function_input(f, "x", dtype, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", dtype, 1, MUSTER_MAX)); /* the same value on every rank */
    assert_ok(muster_function_output(f, "copied", dtype, 2, MUSTER_GATHER));
    assert_ok(muster_function_set_shards_together(f, 1));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    return f;
}

static void fill(void *x, muster_dtype dtype) {
    static double values[ROWS * COLUMNS];
    const double large = dtype == MUSTER_F16 ? 2e3 : dtype == MUSTER_F64 ? 1e16 : 1e8;
    uint64_t seed = 5;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const uint32_t kind = fixture_random(&seed, 6);
        values[i] = kind == 0 ? large : kind == 1 ? -large : ((double)fixture_random(&seed, 20001) - 10000) * 1e-3;
    }
    mst_convert(dtype, x, MUSTER_F64, values, ROWS * COLUMNS);
}

typedef struct result {
    _Alignas(64) char reduced[COLUMNS * 8];
} result;

static result run(const char *backend, int devices, int shards, muster_dtype dtype, muster_reduction op, int64_t rows, bool single) {
    static _Alignas(64) char x[ROWS * COLUMNS * 8], copied[ROWS * COLUMNS * 8];
    setting s = {.op = op};
    result r = {{0}};
    muster_runtime *runtime = shards ? fixture_open_shards(backend, devices, shards) : fixture_open_alone(backend, devices);
    muster_function *f = make(runtime, dtype, &s);
    fill(x, dtype);
    memset(copied, 0, sizeof copied);
    const int64_t shape[] = {rows, COLUMNS}, wide[] = {COLUMNS};
    const muster_tensor in = muster_tensor_make(dtype, x, 2, shape),
                        out[] = {muster_tensor_make(dtype, r.reduced, 1, wide), muster_tensor_make(dtype, copied, 2, shape)};
    assert_ok((single ? muster_function_call_single : muster_function_call)(f, &in, 1, out, 2, NULL));
    assert_int_equal(processes_sum(s.runs), single ? 1 : devices);
    assert_memory_equal(x, copied, (size_t)(rows * COLUMNS * muster_dtype_size(dtype)));
    fixture_close(runtime);
    return r;
}

static void check_dtype(const char *backend, muster_dtype dtype, int shards, int64_t rows) {
    static const muster_reduction ops[] = {MUSTER_SUM, MUSTER_PROD, MUSTER_AVG, MUSTER_MAX, MUSTER_MIN};
    for (int o = 0; o < 5; o++) {
        const result expected = run(backend, shards, 0, dtype, ops[o], rows, false);
        for (int devices = 1; devices <= shards; devices++) {
            if (shards % devices) continue;
            for (int single = 0; single < 2; single++) {
                const result received = run(backend, devices, shards, dtype, ops[o], rows, single);
                if (memcmp(expected.reduced, received.reduced, sizeof expected.reduced))
                    fail_msg("%s %s, %d devices, %d shards, %lld rows, op %d, single %d: the bits differ", backend,
                             muster_dtype_name(dtype), devices, shards, (long long)rows, (int)ops[o], single);
            }
        }
    }
}

#define TEST(DTYPE)                                                                             \
    static void shards_taken_together_give_the_bits_of_as_many_devices_##DTYPE(void **unused) { \
        (void)unused;                                                                           \
        for_each_backend(backend) {                                                             \
            check_dtype(backend, MUSTER_##DTYPE, 8, ROWS);                                      \
            check_dtype(backend, MUSTER_##DTYPE, 6, ROWS - 1);                                  \
            check_dtype(backend, MUSTER_##DTYPE, 12, ROWS);                                     \
            check_dtype(backend, MUSTER_##DTYPE, 8, 3);                                         \
        }                                                                                       \
    }
TEST(F16)
TEST(BF16)
TEST(F32)
TEST(F64)

/* What a training step does: every replica becomes the same, on every number of devices. */
static void a_variable_written_in_place_has_the_same_bits_everywhere(void **unused) {
    (void)unused;
    static float x[ROWS * COLUMNS], copied[ROWS * COLUMNS];
    float expected[COLUMNS], received[COLUMNS], y[COLUMNS];
    fill(x, MUSTER_F32);
    for_each_backend(backend) {
        for (int devices = 1; devices <= 8; devices *= 2) {
            muster_runtime *runtime = fixture_open_shards(backend, devices, 8);
            const float start[COLUMNS] = {0.5f};
            setting s = {.op = MUSTER_SUM};
            assert_ok(muster_variable_create(runtime, "total", muster_f32((float *)start, COLUMNS), &s.total));
            muster_function *f = make(runtime, MUSTER_F32, &s);
            assert_ok(muster_function_variable(f, s.total, MUSTER_USE_READ_WRITE));
            for (int step = 0; step < 3; step++)
                assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS, COLUMNS)}, 1,
                                               (muster_tensor[]){muster_f32(y, COLUMNS), muster_f32(copied, ROWS, COLUMNS)}, 2, NULL));
            for (int rank = 0; rank < devices; rank++) {
                assert_ok(muster_variable_get(s.total, rank, muster_f32(received, COLUMNS)));
                if (devices == 1) memcpy(expected, received, sizeof expected);
                assert_memory_equal(expected, received, sizeof expected);
            }
            fixture_close(runtime);
        }
    }
}

/* Without scattered inputs the shards of a device are its rows. */
static muster_status rows_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    const int32_t here = muster_worker_shards_here(w);
    int64_t numbers[SHARDS_MAX][4], first, rows;
    muster_tensor place;
    for (int32_t k = 0; k < here; k++) {
        MUSTER_TRY(muster_worker_shard_rows(w, k, &first, &rows));
        memcpy(numbers[k], ((int64_t[]){muster_worker_shard(w) + k, muster_worker_first_row(w) + first, rows, muster_worker_total_rows(w)}),
               sizeof numbers[k]);
    }
    if (muster_worker_rows(w) != here || muster_worker_weight(w) != here) return MUSTER_USER;
    MUSTER_TRY(muster_worker_output_rows(w, 0, here, &place));
    (void)out;
    return muster_worker_write(w, muster_tensor_make(MUSTER_I64, numbers, 2, (int64_t[]){here, 4}), place);
}

static void without_scattered_inputs_the_shards_are_the_rows(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        for (int devices = 1; devices <= 6; devices++) {
            if (6 % devices) continue;
            muster_runtime *runtime = fixture_open_shards(backend, devices, 6);
            muster_function *f;
            int64_t numbers[6][4];
            assert_ok(muster_function_create(runtime, "f", rows_body, NULL, &f));
            assert_ok(muster_function_output(f, "numbers", MUSTER_I64, 2, MUSTER_GATHER));
            assert_ok(muster_function_set_shards_together(f, 1));
            for (int single = 0; single < 2; single++) {
                memset(numbers, 0, sizeof numbers);
                assert_ok((single ? muster_function_call_single
                                  : muster_function_call)(f, NULL, 0, (muster_tensor[]){muster_i64(numbers, 6, 4)}, 1, NULL));
                for (int s = 0; s < 6; s++) assert_memory_equal(numbers[s], ((int64_t[]){s, s, 1, 6}), sizeof numbers[s]);
            }
            fixture_close(runtime);
        }
    }
}

/* ---- bodies that run once per shard have no collectives ---- */

static muster_status barrier_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    muster_tensor one;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &one));
    MUSTER_TRY(muster_fill(w, 1, one));
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, one, out[0]);
}

static void a_body_that_runs_once_per_shard_cannot_reduce(void **unused) {
    (void)unused;
    for (int devices = 1; devices <= 4; devices *= 2) {
        muster_runtime *runtime = fixture_open_shards("host", devices, 4);
        muster_function *apart, *together;
        float y = 0;
        const muster_tensor out = muster_f32(&y);
        assert_ok(muster_function_create(runtime, "apart", barrier_body, NULL, &apart));
        assert_ok(muster_function_output(apart, "y", MUSTER_F32, 0, MUSTER_MAX));
        assert_ok(muster_function_set_shards_together(apart, 0));
        assert_ok(muster_function_create(runtime, "together", barrier_body, NULL, &together));
        assert_ok(muster_function_output(together, "y", MUSTER_F32, 0, MUSTER_MAX));
        assert_ok(muster_function_set_shards_together(together, 1));
        assert_refused(muster_function_call(apart, NULL, 0, &out, 1, NULL), MUSTER_BAD_STATE, "the body runs once per logical shard");
        assert_refused(muster_function_call_single(apart, NULL, 0, &out, 1, NULL), MUSTER_BAD_STATE,
                       "the body runs once per logical shard");
        assert_ok(muster_function_call(together, NULL, 0, &out, 1, NULL)); /* nothing is left of the refusal */
        assert_float_equal(y, devices, 0);
        fixture_close(runtime);
    }
}

int main(void) {
#define ENTRY(DTYPE) cmocka_unit_test(shards_taken_together_give_the_bits_of_as_many_devices_##DTYPE)
    const struct CMUnitTest tests[] = {
        ENTRY(F16),
        ENTRY(BF16),
        ENTRY(F32),
        ENTRY(F64),
        cmocka_unit_test(a_variable_written_in_place_has_the_same_bits_everywhere),
        cmocka_unit_test(without_scattered_inputs_the_shards_are_the_rows),
        cmocka_unit_test(a_body_that_runs_once_per_shard_cannot_reduce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
