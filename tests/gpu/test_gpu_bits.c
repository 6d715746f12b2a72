/* The bits of sums by p2p and by NCCL, which muster/communicator.h promises to be the same for
 * integers, f16 and bf16. On the devices that MUSTER_DEVICES names. */
#include "gpu_runtime.h"

enum { COUNT = 50000, DTYPES = 5 };
static const muster_dtype dtypes[DTYPES] = {MUSTER_I32, MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};

typedef struct job {
    muster_dtype dtype;
    int64_t bytes;
    char *result; /* of rank 0 */
} job;

/* Numbers whose sum depends on the order in which they are added. */
static void fill(muster_dtype dtype, int32_t rank, char *host) {
    uint32_t random = 12345u + 7919u * (uint32_t)rank;
    for (int64_t i = 0; i < COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        const double value = (double)(int32_t)random / 2147483648.0 * (i % 3 == 0 ? 1000 : 1);
        const float real = (float)value;
        const int32_t whole = (int32_t)random;
        const uint16_t half = dtype == MUSTER_F16 ? muster_f32_to_f16(real) : muster_f32_to_bf16(real);
        const void *at = dtype == MUSTER_F64   ? (const void *)&value
                         : dtype == MUSTER_F32 ? (const void *)&real
                         : dtype == MUSTER_I32 ? (const void *)&whole
                                               : (const void *)&half;
        memcpy(host + i * muster_dtype_size(dtype), at, (size_t)muster_dtype_size(dtype));
    }
}

static muster_status sum_all(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    job *j = user;
    const int64_t count = COUNT;
    const int32_t rank = muster_worker_rank(w);
    (void)in, (void)out;
    char *host = malloc((size_t)j->bytes);
    if (!host) return MUSTER_OUT_OF_MEMORY;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &count, &x));
    const muster_tensor there = muster_tensor_make(j->dtype, host, 1, &count);
    fill(j->dtype, rank, host);
    muster_status status = muster_worker_write(w, there, x);
    if (status == MUSTER_OK) status = muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
    if (status == MUSTER_OK) status = muster_worker_read(w, x, there);
    if (status == MUSTER_OK && rank == 0) memcpy(j->result, host, (size_t)j->bytes);
    free(host);
    return status;
}

/* false: these devices do not have this way. */
static bool sums_by(const char *way, char *results[DTYPES]) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.collective_algorithm = way;
    const muster_status status = muster_runtime_open(&options, &runtime);
    if (status == MUSTER_UNAVAILABLE) return printf("SKIP suite: %s\n", muster_last_error()), false;
    assert_ok(status);
    for (int d = 0; d < DTYPES; d++) {
        job j = {dtypes[d], COUNT * muster_dtype_size(dtypes[d]), results[d]};
        assert_ok(gpu_call(runtime, sum_all, &j));
    }
    assert_ok(muster_runtime_close(runtime));
    return true;
}

static bool promised(muster_dtype dtype) { return dtype != MUSTER_F32 && dtype != MUSTER_F64; }

static void sums_have_the_same_bits_by_p2p_and_nccl(void **state) {
    (void)state;
    static char first[DTYPES][COUNT * 8], second[DTYPES][COUNT * 8];
    char *by_p2p[DTYPES], *by_nccl[DTYPES];
    int compared = 0;
    for (int d = 0; d < DTYPES; d++) by_p2p[d] = first[d], by_nccl[d] = second[d];
    if (!sums_by("p2p", by_p2p) || !sums_by("nccl", by_nccl)) exit(77);
    for (int d = 0; d < DTYPES; d++) {
        const bool same = memcmp(first[d], second[d], (size_t)(COUNT * muster_dtype_size(dtypes[d]))) == 0;
        printf("found: sums of %s by p2p and nccl: %s bits\n", muster_dtype_name(dtypes[d]), same ? "the same" : "other");
        if (!promised(dtypes[d])) continue;
        assert_true(same);
        compared++;
    }
    assert_int_equal(compared, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_have_the_same_bits_by_p2p_and_nccl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
