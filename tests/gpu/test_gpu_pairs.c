/* Does each GPU really read and write the memory of each other one? A driver can say so where an
 * IOMMU between them makes copies hang or deliver garbage. For every ordered pair whose peer access
 * the driver allows, a pattern goes from one to the other by a kernel that loads, by a kernel that
 * stores, and by a copy; for every other pair by cuMemcpyPeerAsync alone. On the driver and NVRTC
 * alone. */
#include "base_skip.h"
#include "contract_parameters.h"
#include "contract_support.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEVICES = 16, COUNT = 1 << 18, BYTES = COUNT * 4 };

typedef struct device {
    mst_cu_context context;
    mst_cu_stream stream;
    mst_cu_function scale;
    mst_cu_address own, other; /* BYTES each */
} device;
static device devices[DEVICES];
static int device_count;
static float *pattern, *seen;

static void open_one(int ordinal) {
    device *d = &devices[ordinal];
    mst_cu_device handle;
    mst_cu_module module;
    int major = 0, minor = 0;
    char option[64];
    assert_done(cu.cuDeviceGet(&handle, ordinal));
    assert_done(cu.cuDevicePrimaryCtxRetain(&d->context, handle));
    assert_done(cu.cuCtxSetCurrent(d->context));
    assert_done(cu.cuStreamCreate(&d->stream, MST_CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuMemAlloc_v2(&d->own, BYTES));
    assert_done(cu.cuMemAlloc_v2(&d->other, BYTES));
    assert_done(cu.cuDeviceGetAttribute(&major, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle));
    assert_done(cu.cuDeviceGetAttribute(&minor, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle));
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d%d", major, minor);
    char *cubin = contract_compile(option);
    assert_done(cu.cuModuleLoadData(&module, cubin));
    assert_done(cu.cuModuleGetFunction(&d->scale, module, "contract_scale"));
    free(cubin);
}

static bool reaches(int from, int to) {
    int can = 0;
    assert_done(cu.cuDeviceCanAccessPeer(&can, from, to));
    return can == 1;
}

static void enable(int from, int to) {
    assert_done(cu.cuCtxSetCurrent(devices[from].context));
    const mst_cu_result result = cu.cuCtxEnablePeerAccess(devices[to].context, 0);
    if (result != MST_CU_PEER_ACCESS_ALREADY_ENABLED) assert_done(result);
}

/* A pattern of its own for each transfer, in the memory of device `at`. */
static void put(int at, mst_cu_address address, int seed) {
    for (int i = 0; i < COUNT; i++) pattern[i] = (float)((i * 7 + seed * 131) % 65521);
    assert_done(cu.cuCtxSetCurrent(devices[at].context));
    assert_done(cu.cuMemcpyHtoDAsync_v2(address, pattern, BYTES, devices[at].stream));
    assert_done(cu.cuStreamSynchronize(devices[at].stream));
}

static void clear(int at, mst_cu_address address) {
    assert_done(cu.cuCtxSetCurrent(devices[at].context));
    assert_done(cu.cuMemsetD8Async(address, 0xA5, BYTES, devices[at].stream));
    assert_done(cu.cuStreamSynchronize(devices[at].stream));
}

static void expect(int at, mst_cu_address address, const char *how, int i, int j) {
    assert_done(cu.cuCtxSetCurrent(devices[at].context));
    assert_done(cu.cuMemcpyDtoHAsync_v2(seen, address, BYTES, devices[at].stream));
    assert_done(cu.cuStreamSynchronize(devices[at].stream));
    for (int e = 0; e < COUNT; e++)
        if (seen[e] != pattern[e])
            fail_msg("device %d, %s device %d: element %d: expected %g, received %g", i, how, j, e, (double)pattern[e], (double)seen[e]);
}

/* By a kernel of device i. */
static void run_kernel(int i, mst_cu_address from, mst_cu_address to) {
    contract_parameters p = {.count = COUNT, .from = (void *)(uintptr_t)from, .to = (void *)(uintptr_t)to, .factor = 1};
    assert_done(cu.cuCtxSetCurrent(devices[i].context));
    assert_done(cu.cuLaunchKernel(devices[i].scale, 64, 1, 1, 256, 1, 1, 0, devices[i].stream, (void *[]){&p}, NULL));
    assert_done(cu.cuStreamSynchronize(devices[i].stream));
}

static void copy(int i, int j, mst_cu_address from, mst_cu_address to, bool by_address) {
    assert_done(cu.cuCtxSetCurrent(devices[i].context));
    if (by_address)
        assert_done(cu.cuMemcpyDtoDAsync_v2(to, from, BYTES, devices[i].stream));
    else
        assert_done(cu.cuMemcpyPeerAsync(to, devices[i].context, from, devices[j].context, BYTES, devices[i].stream));
    assert_done(cu.cuStreamSynchronize(devices[i].stream));
}

/* Device i takes from and gives to device j. */
static void check_pair(int i, int j, bool peers) {
    device *a = &devices[i], *b = &devices[j];
    const int seed = i * DEVICES + j;
    if (peers) {
        put(j, b->own, seed);
        clear(i, a->other);
        run_kernel(i, b->own, a->other);
        expect(i, a->other, "whose kernel loads from", i, j);
        put(i, a->own, seed + 1);
        clear(j, b->other);
        run_kernel(i, a->own, b->other);
        expect(j, b->other, "whose kernel stores to", i, j);
        put(j, b->own, seed + 2);
        clear(i, a->other);
        copy(i, j, b->own, a->other, true);
        expect(i, a->other, "which copies from", i, j);
    }
    put(j, b->own, seed + 3);
    clear(i, a->other);
    copy(i, j, b->own, a->other, false);
    expect(i, a->other, "which copies, by cuMemcpyPeerAsync, from", i, j);
}

static void every_ordered_pair_delivers_its_pattern(void **state) {
    (void)state;
    int peers = 0, pairs = 0;
    for (int i = 0; i < device_count; i++)
        for (int j = 0; j < device_count; j++) {
            if (i == j) continue;
            const bool reached = reaches(i, j);
            if (reached) enable(i, j);
            check_pair(i, j, reached);
            peers += reached;
            pairs++;
        }
    assert_int_equal(pairs, device_count * (device_count - 1));
    printf("found: %d of %d ordered pairs are peers, and all pairs deliver what they are given\n", peers, pairs);
}

static int setup(void **state) {
    (void)state;
    if (cu.cuInit(0) || cu.cuDeviceGetCount(&device_count)) return -1;
    if (device_count > DEVICES) device_count = DEVICES;
    pattern = malloc(BYTES);
    seen = malloc(BYTES);
    for (int i = 0; i < device_count; i++) open_one(i);
    return pattern && seen ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    for (int i = 0; i < device_count; i++) {
        assert_done(cu.cuCtxSetCurrent(devices[i].context));
        assert_done(cu.cuMemFree_v2(devices[i].own));
        assert_done(cu.cuMemFree_v2(devices[i].other));
        assert_done(cu.cuStreamDestroy_v2(devices[i].stream));
        assert_done(cu.cuDevicePrimaryCtxRelease_v2(i));
    }
    assert_done(cu.cuCtxSetCurrent(NULL));
    free(pattern);
    free(seen);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_ordered_pair_delivers_its_pattern)};
    if (!contract_open_cuda() || !contract_open_nvrtc()) return SKIP_SUITE("the CUDA driver or NVRTC could not be opened");
    return cmocka_run_group_tests(tests, setup, teardown);
}
