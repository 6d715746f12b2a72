/* What the thresholds are set from (script/thresholds): collectives by way, dtype and size,
 * launches, products, copies between host and device, a wait for an empty queue, and outputs that
 * the devices or the host combine. One line for each, the median of several blocks in microseconds:
 *
 *     measured: all_reduce way=p2p type=f32 ranks=4 bytes=1024 us=12.3
 *
 * MUSTER_TEST_GPUS=N: on the first N GPUs; with one, between two virtual devices of it. On the
 * simulated machine the sizes are small, and the figures mean nothing. */
#include "gpu_runtime.h"

#include <unistd.h>

enum { BLOCKS = 7 };
static char devices[32];
static int32_t gpus;
static bool simulated;

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[BLOCKS]) {
    qsort(values, BLOCKS, sizeof *values, compare_doubles);
    return values[BLOCKS / 2];
}

static void tell(const char *what, const char *way, muster_dtype dtype, int32_t ranks, int64_t bytes, double us) {
    printf("measured: %s way=%s type=%s ranks=%d bytes=%lld us=%.3f\n", what, way, muster_dtype_name(dtype), ranks, (long long)bytes, us);
    fflush(stdout);
}

/* NULL: these devices do not have the way. */
static muster_runtime *open_way(const char *where, const char *way) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = where;
    options.collective_algorithm = way;
    const muster_status status = muster_runtime_open(&options, &runtime);
    if (status == MUSTER_UNAVAILABLE) return printf("left out: %s\n", muster_last_error()), NULL;
    assert_ok(status);
    simulated |= strstr(muster_runtime_description(runtime), "all simulated") != NULL;
    return runtime;
}

/* ---- collectives ---- */

typedef enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, KINDS } kind;
static const char *const kind_names[KINDS] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

typedef struct job {
    kind what;
    muster_dtype dtype;
    int64_t count; /* of the larger tensor, a multiple of the ranks */
    int32_t times;
    double us;
} job;

static muster_status enter(muster_worker *w, const job *j, muster_tensor whole, muster_tensor part) {
    switch (j->what) {
    case ALL_REDUCE:
        return muster_worker_all_reduce(w, NULL, MUSTER_SUM, whole, whole);
    case REDUCE_SCATTER:
        return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, whole, part);
    case ALL_GATHER:
        return muster_worker_all_gather(w, NULL, part, whole);
    default:
        return muster_worker_broadcast(w, NULL, 0, whole, whole);
    }
}

static muster_status time_collective(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    job *j = user;
    const int64_t n = j->count / muster_worker_size(w);
    muster_tensor whole, part;
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &j->count, &whole));
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &n, &part));
    double blocks[BLOCKS];
    (void)in, (void)out;
    MUSTER_TRY(muster_fill(w, 0, whole));
    MUSTER_TRY(muster_fill(w, 0, part));
    for (int b = -2; b < BLOCKS; b++) { /* two to warm up */
        MUSTER_TRY(muster_worker_sync(w));
        MUSTER_TRY(muster_worker_barrier(w, NULL));
        const double began = gpu_now_us();
        for (int32_t i = 0; i < j->times; i++) MUSTER_TRY(enter(w, j, whole, part));
        MUSTER_TRY(muster_worker_sync(w));
        if (b >= 0) blocks[b] = (gpu_now_us() - began) / j->times;
    }
    if (muster_worker_rank(w) == 0) j->us = median(blocks);
    return MUSTER_OK;
}

/* false: these devices do not have this way. */
static bool measure_way(const char *way) {
    static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F16};
    muster_runtime *runtime = open_way(devices, way);
    if (!runtime) return false;
    const int32_t ranks = muster_runtime_size(runtime);
    /* staged: the host combines, so that more would take minutes */
    const int64_t most = simulated ? 64 << 10 : strcmp(way, "staged") == 0 ? 16 << 20 : 256 << 20;
    for (int what = 0; what < KINDS; what++)
        for (int d = 0; d < (what == ALL_REDUCE ? 2 : 1); d++)
            for (int64_t bytes = 8; bytes <= most; bytes *= simulated ? 32 : 4) {
                const int64_t count = (bytes / muster_dtype_size(dtypes[d]) + ranks - 1) / ranks * ranks;
                job j = {.what = (kind)what, .dtype = dtypes[d], .count = count, .times = simulated ? 2 : bytes > 4 << 20 ? 5 : 50};
                assert_ok(gpu_call(runtime, time_collective, &j));
                tell(kind_names[what], way, j.dtype, ranks, count * muster_dtype_size(j.dtype), j.us);
            }
    assert_ok(muster_runtime_close(runtime));
    return true;
}

static void collectives_by_way(void **state) {
    (void)state;
    static const char *const ways[] = {"p2p", "nccl", "staged"};
    int measured = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) measured += measure_way(ways[i]);
    assert_true(measured > 0);
}

/* ---- one device ---- */

typedef struct single {
    int32_t what; /* 0: launches, 1: empty waits, 2: products, 3: to the device, 4: from it */
    int64_t bytes, n;
    int32_t times;
    void *host;
    double us;
} single;

static muster_status single_once(muster_worker *w, const single *s, const muster_tensor x[3]) {
    const muster_tensor host = muster_tensor_make(MUSTER_U8, s->host, 1, &s->bytes);
    if (s->what == 0) return muster_fill(w, 1, x[0]);
    if (s->what == 1) return muster_worker_sync(w);
    if (s->what == 2) return muster_gemm(w, 1, x[0], x[1], 0, x[2]);
    return s->what == 3 ? muster_worker_write(w, host, x[0]) : muster_worker_read(w, x[0], host);
}

static muster_status time_single(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    single *s = user;
    const int64_t one = 1, square[] = {s->n, s->n};
    muster_tensor x[3];
    double blocks[BLOCKS];
    (void)in, (void)out;
    for (int i = 0; i < 3; i++) {
        if (s->what == 2)
            MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, square, &x[i]));
        else if (s->what > 2)
            MUSTER_TRY(muster_worker_scratch(w, MUSTER_U8, 1, i == 0 ? &s->bytes : &one, &x[i]));
        else
            MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &one, &x[i]));
        MUSTER_TRY(muster_fill(w, 1, x[i]));
    }
    for (int b = -2; b < BLOCKS; b++) {
        MUSTER_TRY(muster_worker_sync(w));
        const double began = gpu_now_us();
        for (int32_t i = 0; i < s->times; i++) MUSTER_TRY(single_once(w, s, x));
        MUSTER_TRY(muster_worker_sync(w));
        if (b >= 0) blocks[b] = (gpu_now_us() - began) / s->times;
    }
    s->us = median(blocks);
    return MUSTER_OK;
}

static void measure_copies(muster_runtime *runtime, bool pinned) {
    const int64_t most = simulated ? 64 << 10 : 64 << 20;
    char *host = aligned_alloc(4096, (size_t)most);
    assert_non_null(host);
    memset(host, 1, (size_t)most);
    if (pinned) assert_ok(muster_runtime_register_memory(runtime, host, most));
    for (int32_t what = 3; what < 5; what++)
        for (int64_t bytes = 4096; bytes <= most; bytes *= 4) {
            single s = {.what = what, .bytes = bytes, .host = host, .times = bytes > 1 << 20 ? 3 : 20};
            assert_ok(gpu_call(runtime, time_single, &s));
            tell(what == 3 ? "to_device" : "to_host", pinned ? "registered" : "pageable", MUSTER_U8, 1, bytes, s.us);
        }
    if (pinned) assert_ok(muster_runtime_unregister_memory(runtime, host));
    free(host);
}

static void one_device(void **state) {
    (void)state;
    muster_runtime *runtime = open_way("cuda@0", NULL);
    assert_non_null(runtime);
    for (int32_t what = 0; what < 2; what++) {
        single s = {.what = what, .times = simulated ? 20 : 1000};
        assert_ok(gpu_call(runtime, time_single, &s));
        tell(what == 0 ? "launch" : "empty_wait", "-", MUSTER_F32, 1, 4, s.us);
    }
    for (int64_t n = 16; n <= (simulated ? 64 : 4096); n *= 4) {
        single s = {.what = 2, .n = n, .times = n > 1024 ? 3 : 20};
        assert_ok(gpu_call(runtime, time_single, &s));
        tell("product", "-", MUSTER_F32, 1, 4 * n * n, s.us);
    }
    measure_copies(runtime, true);
    measure_copies(runtime, false);
    assert_ok(muster_runtime_close(runtime));
}

/* ---- outputs of a call: reduced by the devices, or folded by the host ---- */

static muster_status fill_output(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return muster_fill(w, 1, out[0]);
}

static void measure_output(const char *way, const char *rows, float *y) {
    char path[64];
    muster_function *f;
    snprintf(path, sizeof path, "/tmp/muster-measure-%d", (int)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(rows, file);
    fclose(file);
    setenv("MUSTER_THRESHOLDS", path, 1);
    muster_runtime *runtime = open_way(devices, NULL);
    assert_non_null(runtime);
    unsetenv("MUSTER_THRESHOLDS");
    unlink(path);
    const int32_t ranks = muster_runtime_size(runtime);
    assert_ok(muster_function_create(runtime, "output", fill_output, NULL, &f));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_SUM));
    for (int64_t bytes = 1024; bytes <= (simulated ? 64 << 10 : 64 << 20); bytes *= 4) {
        const muster_tensor out = muster_f32(y, bytes / 4);
        double blocks[BLOCKS];
        for (int b = -2; b < BLOCKS; b++) {
            const double began = gpu_now_us();
            assert_ok(muster_function_call(f, NULL, 0, &out, 1, NULL));
            if (b >= 0) blocks[b] = gpu_now_us() - began;
        }
        assert_true(y[0] == (float)ranks && y[bytes / 4 - 1] == (float)ranks);
        tell("output", way, MUSTER_F32, ranks, bytes, median(blocks));
    }
    assert_ok(muster_runtime_close(runtime));
}

static void outputs_reduced_or_folded(void **state) {
    (void)state;
    float *y = calloc(64 << 20, 1);
    assert_non_null(y);
    measure_output("reduced", "MST_THRESHOLD(0, reduced_saved_bytes, \"any\")\nMST_THRESHOLD(0, p2p_bytes, \"any\")\n", y);
    measure_output("folded", "MST_THRESHOLD(9223372036854775807, reduced_saved_bytes, \"any\")\n", y);
    free(y);
}

int main(void) {
    const char *text = getenv("MUSTER_TEST_GPUS");
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_device), cmocka_unit_test(collectives_by_way),
                                       cmocka_unit_test(outputs_reduced_or_folded)};
    gpus = text ? (int32_t)strtol(text, NULL, 10) : 1;
    if (gpus > 1)
        snprintf(devices, sizeof devices, "cuda:%d", gpus);
    else
        snprintf(devices, sizeof devices, "cuda@0+0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
