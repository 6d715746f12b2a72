/* Matrix products of 40 shapes, 4 dtypes and 4 transpositions against plain loops, with the time of
 * the first call of each: a BLAS loads the kernel for a new shape then. MUSTER_TEST_BEHIND=1: each
 * product is issued right behind an all_reduce, on all ranks, which is where such a load can wait
 * for other GPUs. MUSTER_TEST_SHORT=1: every tenth shape. */
#include "gpu_runtime.h"

#include <stdatomic.h>

static const int32_t shapes[][3] = {
    {1, 1, 1},      {1, 1, 0},     {3, 5, 0},      {1, 7, 3},      {7, 1, 3},     {5, 3, 1},      {2, 2, 2},     {8, 8, 8},
    {15, 16, 17},   {16, 16, 16},  {17, 15, 16},   {31, 33, 32},   {32, 32, 32},  {33, 31, 64},   {1, 64, 64},   {64, 1, 64},
    {64, 64, 1},    {63, 65, 64},  {64, 64, 64},   {65, 63, 127},  {1, 128, 513}, {128, 1, 513},  {128, 2, 100}, {100, 10, 784},
    {127, 129, 40}, {128, 128, 8}, {128, 128, 64}, {1, 1000, 128}, {1000, 1, 64}, {4, 4, 2000},   {1, 1, 4099},  {255, 256, 16},
    {256, 256, 32}, {257, 255, 9}, {3, 300, 300},  {300, 3, 300},  {96, 120, 80}, {511, 17, 129}, {16, 512, 64}, {200, 200, 100}};
static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
enum { SHAPES = sizeof shapes / sizeof *shapes, DTYPES = 4, LARGEST = 1 << 17, REDUCED = 4096 };

typedef struct job {
    int32_t first_shape, step; /* shapes first, first + step, ... */
    bool behind;
    _Atomic int wrong, products;
    _Atomic long slowest_ns; /* of the first calls of rank 0 */
} job;

/* -1, 0 or 1: sums of them are exact in f32, and so is what is then rounded to the dtype. */
static int value_of(int64_t i, int seed) { return (int)((uint32_t)(i * 2654435761u + (uint32_t)seed * 40503u) >> 7) % 3 - 1; }

static void encode(muster_dtype dtype, double value, void *at) {
    const float real = (float)value;
    const uint16_t half = dtype == MUSTER_F16 ? muster_f32_to_f16(real) : muster_f32_to_bf16(real);
    if (dtype == MUSTER_F64)
        memcpy(at, &value, sizeof value);
    else if (dtype == MUSTER_F32)
        memcpy(at, &real, sizeof real);
    else
        memcpy(at, &half, sizeof half);
}

/* Element i of a matrix stored as rows x columns, seen transposed or not. */
static int element(int64_t row, int64_t column, int64_t rows, int64_t columns, bool transposed, int seed) {
    return value_of(transposed ? column * rows + row : row * columns + column, seed);
}

typedef struct product {
    muster_dtype dtype;
    int32_t m, n, k, unaligned; /* elements in front of each matrix */
    bool ta, tb;
} product;

static double expected(const product *p, int64_t row, int64_t column) {
    int64_t sum = 0;
    for (int32_t l = 0; l < p->k; l++) sum += element(row, l, p->m, p->k, p->ta, 1) * element(l, column, p->k, p->n, p->tb, 2);
    return (double)(2 * sum + value_of(row * p->n + column, 3)); /* alpha 2, beta 1 */
}

/* A matrix in scratch memory, which begins `unaligned` elements behind an aligned address. */
static muster_status place(muster_worker *w, const product *p, int64_t rows, int64_t columns, bool transposed, int seed,
                           muster_tensor *matrix) {
    const int64_t count = rows * columns, room = count + p->unaligned,
                  stored[] = {transposed ? columns : rows, transposed ? rows : columns};
    const int64_t width = muster_dtype_size(p->dtype);
    muster_tensor flat;
    MUSTER_TRY(muster_worker_scratch(w, p->dtype, 1, &room, &flat));
    flat = muster_tensor_slice(flat, p->unaligned, room);
    char *host = malloc((size_t)(count * width) + 1);
    if (!host) return MUSTER_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++) encode(p->dtype, value_of(i, seed), host + i * width);
    const muster_status status = muster_worker_write(w, muster_tensor_make(p->dtype, host, 1, &count), flat);
    free(host);
    *matrix = muster_tensor_reshape(flat, 2, stored);
    if (transposed) *matrix = muster_tensor_transpose(*matrix);
    return status;
}

static muster_status compare(muster_worker *w, job *j, const product *p, muster_tensor c) {
    const int64_t count = (int64_t)p->m * p->n, width = muster_dtype_size(p->dtype), shape[] = {p->m, p->n};
    char *host = malloc((size_t)(count * width));
    if (!host) return MUSTER_OUT_OF_MEMORY;
    const muster_status status = muster_worker_read(w, c, muster_tensor_make(p->dtype, host, 2, shape));
    for (int64_t i = 0; i < count && status == MUSTER_OK; i++) {
        char wanted[8] = {0};
        encode(p->dtype, expected(p, i / p->n, i % p->n), wanted);
        if (memcmp(host + i * width, wanted, (size_t)width) == 0 || j->wrong++ > 3) continue;
        fprintf(stderr, "rank %d: %s %d x %d x %d%s%s, offset %d: element %lld differs\n", muster_worker_rank(w),
                muster_dtype_name(p->dtype), p->m, p->n, p->k, p->ta ? ", A transposed" : "", p->tb ? ", B transposed" : "", p->unaligned,
                (long long)i);
    }
    free(host);
    return status;
}

static muster_status multiply(muster_worker *w, job *j, const product *p, muster_tensor reduced) {
    muster_tensor a, b, c;
    MUSTER_TRY(place(w, p, p->m, p->k, p->ta, 1, &a));
    MUSTER_TRY(place(w, p, p->k, p->n, p->tb, 2, &b));
    MUSTER_TRY(place(w, p, p->m, p->n, false, 3, &c));
    MUSTER_TRY(muster_worker_sync(w));
    if (j->behind) MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_MAX, reduced, reduced));
    const double began = gpu_now_us();
    MUSTER_TRY(muster_gemm(w, 2, a, b, 1, c));
    const long taken = (long)(1e3 * (gpu_now_us() - began));
    if (muster_worker_rank(w) == 0 && taken > j->slowest_ns) j->slowest_ns = taken;
    j->products++;
    return compare(w, j, p, c);
}

static muster_status multiply_all(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    job *j = user;
    const int64_t count = REDUCED, mark = muster_worker_scratch_mark(w);
    (void)in, (void)out;
    for (int32_t s = j->first_shape; s < SHAPES; s += j->step)
        for (int32_t way = 0; way < 4 * DTYPES; way++) {
            const product p = {.dtype = dtypes[way / 4],
                               .m = shapes[s][0],
                               .n = shapes[s][1],
                               .k = shapes[s][2],
                               .unaligned = s % 3 == 1,
                               .ta = way & 1,
                               .tb = way >> 1 & 1};
            muster_tensor reduced;
            MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &reduced));
            MUSTER_TRY(muster_fill(w, 1, reduced));
            MUSTER_TRY(multiply(w, j, &p, reduced));
            MUSTER_TRY(muster_worker_scratch_release(w, mark));
        }
    return MUSTER_OK;
}

static void products_are_those_of_plain_loops(void **state) {
    muster_runtime *runtime = *state;
    const bool few = gpu_asked("MUSTER_TEST_SHORT");
    job j = {.step = few ? 10 : 1, .first_shape = few ? 2 : 0, .behind = gpu_asked("MUSTER_TEST_BEHIND")};
    assert_int_equal(SHAPES, 40);
    assert_ok(gpu_call(runtime, multiply_all, &j));
    assert_int_equal(j.wrong, 0);
    assert_int_equal(j.products, (few ? SHAPES / 10 : SHAPES) * 4 * DTYPES * muster_runtime_size(runtime));
    printf("found: %d products%s; the slowest first call took %.3f ms\n", (int)j.products, j.behind ? ", each behind an all_reduce" : "",
           1e-6 * (double)j.slowest_ns);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_those_of_plain_loops)};
    return cmocka_run_group_tests(tests, gpu_begin, gpu_end);
}
