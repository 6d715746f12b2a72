/* Counts beyond 2^31 elements. Two ranks, or one in each process of a launch, with 2.1 GB each:
 * where that much memory is free, in builds without sanitizers; always with MUSTER_TEST_FULL=1. */
#include "base_check.h"
#include "base_seed.h"
#include "base_skip.h"
#include "collectives_pool.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPOTS = 6 };
static const int64_t count = (1LL << 31) + 65;
static const int64_t spots[SPOTS] = {0, 1, (1LL << 31) - 1, 1LL << 31, (1LL << 31) + 1, (1LL << 31) + 64};

/* Nearly all elements are `common`; the spots are `base` + their number. */
static void fill(uint8_t *x, int common, int base) {
    memset(x, common, (size_t)count);
    for (int s = 0; s < SPOTS; s++) x[spots[s]] = (uint8_t)(base + s);
}

static bool all_are(const uint8_t *x, int64_t begin, int64_t end, int value) {
    static _Thread_local uint8_t block[1 << 16];
    memset(block, value, sizeof block);
    for (int64_t at = begin; at < end; at += (int64_t)sizeof block) {
        int64_t left = end - at, bytes = left < (int64_t)sizeof block ? left : (int64_t)sizeof block;
        if (memcmp(x + at, block, (size_t)bytes) != 0) return false;
    }
    return true;
}

static muster_status expect(const uint8_t *x, int common, int base) {
    int64_t begin = 0;
    for (int s = 0; s < SPOTS; begin = spots[s++] + 1) {
        if (!all_are(x, begin, spots[s], common))
            return mst_error(MUSTER_USER, "an element before %lld is not %d", (long long)spots[s], common);
        if (x[spots[s]] != base + s)
            return mst_error(MUSTER_USER, "element %lld: expected %d, received %d", (long long)spots[s], base + s, x[spots[s]]);
    }
    return MUSTER_OK;
}

static muster_status large_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_U8, 1, &count, &x));
    if (x.dtype == MUSTER_DTYPE_NONE) return w->scratch_status;
    uint8_t *bytes = muster_tensor_address(x);
    /* the maximum: elements of the last rank, spots of rank 0 */
    fill(bytes, 10 + muster_worker_rank(w), muster_worker_rank(w) == 0 ? 100 : 50);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_MAX, x, x));
    MUSTER_TRY(expect(bytes, 9 + muster_worker_size(w), 100));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    if (muster_worker_rank(w) == 1) fill(bytes, 3, 200);
    MUSTER_TRY(muster_worker_broadcast(w, NULL, 1, x, x));
    MUSTER_TRY(expect(bytes, 3, 200));
    /* rank 0 brings 2^31 elements, rank 1 the 65 behind them, others none */
    int64_t edge = 1LL << 31;
    memset(bytes + (muster_worker_rank(w) == 0 ? edge : 0), 1, (size_t)(muster_worker_rank(w) == 0 ? count - edge : edge));
    muster_tensor own = muster_worker_rank(w) == 0   ? muster_tensor_slice(x, 0, edge)
                        : muster_worker_rank(w) == 1 ? muster_tensor_slice(x, edge, count)
                                                     : muster_tensor_slice(x, 0, 0);
    MUSTER_TRY(muster_worker_all_gather(w, NULL, own, x));
    return expect(bytes, 3, 200);
}

static void test_more_than_two_to_the_31_elements(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, processes_count() > 2 ? processes_count() : 2, 0);
    assert_ok(collectives_run(&c, large_task, NULL));
    collectives_close(&c);
}

static int64_t available_kilobytes(void) {
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    long long found = 0;
    while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %lld", &found) != 1) {}
    if (file) fclose(file);
    return found;
}

static bool wanted(void) {
#if defined(MUSTER_TEST_SANITIZED) || !defined(__OPTIMIZE__)
    const bool fast = false;
#else
    const bool fast = true;
#endif
    return fast && (test_is_full() || available_kilobytes() > (12 << 20));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_more_than_two_to_the_31_elements)};
    if (!wanted()) return SKIP_SUITE("it needs 12 GiB of free memory and an optimised build without sanitizers");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
