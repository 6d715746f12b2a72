/* Copy, fill, reduction and gather at the sizes where something changes: none, one, the threads of
 * a block and their neighbours, several blocks, and, where the device has the memory, more than
 * 2^31 elements. MUSTER_TEST_SHORT=1: no large ones, for tools that make a run a hundred times
 * slower. */
#include "gpu_runtime.h"

static const int64_t sizes[] = {0, 1, 255, 256, 257, 65535, 65537, ((int64_t)1 << 31) + 3};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct job {
    int64_t count;
    muster_dtype dtype;
    int wrong;
} job;

static muster_status read_one(muster_worker *w, muster_tensor x, int64_t i, int64_t *value) {
    unsigned char byte = 0;
    float real = 0;
    const bool f32 = x.dtype == MUSTER_F32;
    const int64_t one = 1;
    MUSTER_TRY(muster_worker_read(w, muster_tensor_slice(x, i, i + 1), muster_tensor_make(x.dtype, f32 ? (void *)&real : &byte, 1, &one)));
    *value = f32 ? (int64_t)real : byte;
    return MUSTER_OK;
}

/* Elements of x that are far apart: the first, the last, their neighbours, and those around 2^31.
 * */
static muster_status expect_all(muster_worker *w, job *j, const char *what, muster_tensor x, int64_t value) {
    const int64_t n = j->count, half = (int64_t)1 << 31, places[] = {0, 1, n / 3, half - 1, half, n - 2, n - 1};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        int64_t found;
        if (places[p] < 0 || places[p] >= n) continue;
        MUSTER_TRY(read_one(w, x, places[p], &found));
        if (found == value) continue;
        j->wrong++;
        fprintf(stderr, "%s of %lld %s: element %lld: expected %lld, received %lld\n", what, (long long)n, muster_dtype_name(j->dtype),
                (long long)places[p], (long long)value, (long long)found);
    }
    return MUSTER_OK;
}

/* The last element alone is 7, the others are 1. */
static muster_status reduce(muster_worker *w, job *j, muster_tensor x) {
    const int64_t n = j->count, one = 1;
    muster_tensor y;
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 0, NULL, &y));
    int64_t most = 0, column = 0;
    MUSTER_TRY(muster_fill(w, 7, muster_tensor_slice(x, n - 1, n)));
    MUSTER_TRY(muster_reduce(w, MUSTER_MAX, x, -1, y));
    MUSTER_TRY(read_one(w, muster_tensor_reshape(y, 1, &one), 0, &most));
    const int64_t row[] = {1, n};
    muster_tensor index;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 1, &one, &index));
    MUSTER_TRY(muster_argmax(w, muster_tensor_reshape(x, 2, row), index));
    MUSTER_TRY(muster_worker_read(w, index, muster_i64(&column, 1)));
    if (most == 7 && column == n - 1) return MUSTER_OK;
    j->wrong++;
    fprintf(stderr, "reduction of %lld %s: the largest is %lld at %lld\n", (long long)n, muster_dtype_name(j->dtype), (long long)most,
            (long long)column);
    return MUSTER_OK;
}

static muster_status gather(muster_worker *w, job *j, muster_tensor x) {
    const int64_t n = j->count, wanted[] = {n - 1, 0, n - 1}, three = 3;
    muster_tensor indices, y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 1, &three, &indices));
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &three, &y));
    MUSTER_TRY(muster_worker_write(w, muster_i64((int64_t *)(uintptr_t)wanted, 3), indices));
    MUSTER_TRY(muster_take(w, x, indices, y));
    for (int64_t i = 0; i < 3; i++) {
        int64_t found;
        MUSTER_TRY(read_one(w, y, i, &found));
        if (found == (n > 1 && i == 1 ? 1 : 7)) continue;
        j->wrong++;
        fprintf(stderr, "gather from %lld %s: element %lld is %lld\n", (long long)n, muster_dtype_name(j->dtype), (long long)i,
                (long long)found);
    }
    return MUSTER_OK;
}

static muster_status check_size(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    job *j = user;
    (void)in, (void)out;
    muster_tensor x, y;
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &j->count, &x));
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &j->count, &y));
    MUSTER_TRY(muster_fill(w, 1, x));
    MUSTER_TRY(expect_all(w, j, "fill", x, 1));
    MUSTER_TRY(muster_fill(w, 9, y));
    MUSTER_TRY(muster_copy(w, x, y));
    MUSTER_TRY(expect_all(w, j, "copy", y, 1));
    if (j->count == 0) return MUSTER_OK;
    MUSTER_TRY(reduce(w, j, x));
    return gather(w, j, x);
}

/* Two tensors of this many bytes, and half as much beside them. */
static bool has_room(muster_runtime *runtime, int64_t bytes) {
    muster_device_info info = {.struct_size = sizeof info};
    assert_ok(muster_runtime_get_device_info(runtime, 0, &info));
    return bytes < 1 << 20 || (!gpu_asked("MUSTER_TEST_SHORT") && info.memory_free / 5 * 2 > bytes);
}

static void check_dtype(muster_runtime *runtime, muster_dtype dtype) {
    int checked = 0;
    for (int s = 0; s < SIZES; s++) {
        job j = {.count = sizes[s], .dtype = dtype};
        if (!has_room(runtime, j.count * muster_dtype_size(dtype))) {
            printf("left out: %lld elements of %s: not enough memory, or a short run\n", (long long)j.count, muster_dtype_name(dtype));
            continue;
        }
        assert_ok(gpu_call(runtime, check_size, &j));
        assert_int_equal(j.wrong, 0);
        checked++;
    }
    assert_true(checked >= SIZES - 1);
}

static void sizes_of_bytes(void **state) { check_dtype(*state, MUSTER_U8); }
static void sizes_of_floats(void **state) { check_dtype(*state, MUSTER_F32); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_of_bytes), cmocka_unit_test(sizes_of_floats)};
    return cmocka_run_group_tests(tests, gpu_begin, gpu_end);
}
