/* What the driver does in places where nobody has seen it on hardware, and where Muster relies on
 * nothing but an answer: memory that is locked in part, managed memory, the handles of the default
 * streams. Every answer is told ("found: ..."), and script/gpu-check keeps it; what is asserted is
 * that the driver goes on working. */
#include "base_skip.h"
#include "contract_support.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096, IS_MANAGED = 8 };

static mst_cu_address address_of(const void *host) { return (mst_cu_address)(uintptr_t)host; }

static void tell_type(const char *what, mst_cu_address address) {
    unsigned type = 0;
    const mst_cu_result result = cu.cuPointerGetAttribute(&type, MST_CU_POINTER_MEMORY_TYPE, address);
    printf("found: the memory type of %s: result %u, type %u\n", what, result, type);
}

/* A copy in and out again, by the stream of the tests. */
static void expect_working(void) {
    unsigned char in[64], out[64] = {0};
    mst_cu_address address;
    memset(in, 7, sizeof in);
    assert_done(cu.cuMemAlloc_v2(&address, sizeof in));
    assert_done(cu.cuMemcpyHtoDAsync_v2(address, in, sizeof in, gpu.stream));
    assert_done(cu.cuMemcpyDtoHAsync_v2(out, address, sizeof in, gpu.stream));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_memory_equal(in, out, sizeof in);
    assert_done(cu.cuMemFree_v2(address));
}

static char *take_pages(int count) {
    void *host = NULL;
    assert_int_equal(posix_memalign(&host, PAGE, (size_t)count * PAGE), 0);
    memset(host, 1, (size_t)count * PAGE);
    return host;
}

/* The first ends, and the second begins, within the second page. */
static void two_registered_ranges_that_share_a_page(void **state) {
    (void)state;
    enum { BORDER = PAGE + 100, END = 3 * PAGE };
    char *host = take_pages(3);
    assert_done(cu.cuMemHostRegister_v2(host, BORDER, MST_CU_HOST_REGISTER_PORTABLE));
    const mst_cu_result second = cu.cuMemHostRegister_v2(host + BORDER, END - BORDER, MST_CU_HOST_REGISTER_PORTABLE);
    printf("found: registering a range that shares a page with a registered one: %u\n", second);
    tell_type("the last byte of the first range", address_of(host + BORDER - 1));
    tell_type("the first byte of the second range, on the shared page", address_of(host + BORDER));
    tell_type("the last byte of the second range", address_of(host + END - 1));
    if (second == MST_CU_SUCCESS) assert_done(cu.cuMemHostUnregister(host + BORDER));
    assert_done(cu.cuMemHostUnregister(host));
    free(host);
    expect_working();
}

/* Only the page in the middle is registered. */
static void the_ends_of_a_range_that_is_registered_in_part(void **state) {
    (void)state;
    char *host = take_pages(3);
    assert_done(cu.cuMemHostRegister_v2(host + PAGE, PAGE, MST_CU_HOST_REGISTER_PORTABLE));
    tell_type("memory in front of a registered page", address_of(host + PAGE - 1));
    tell_type("a registered page", address_of(host + PAGE));
    tell_type("memory behind a registered page", address_of(host + 2 * PAGE));
    assert_done(cu.cuMemHostUnregister(host + PAGE));
    tell_type("a page that is registered no more", address_of(host + PAGE));
    free(host);
    expect_working();
}

static void managed_memory_tells_what_it_is(void **state) {
    (void)state;
    enum { GLOBAL = 1 }; /* CU_MEM_ATTACH_GLOBAL */
    mst_cu_address address = 0;
    unsigned managed = 2;
    int ordinal = -1;
    const mst_cu_result result = cu.cuMemAllocManaged(&address, PAGE, GLOBAL);
    printf("found: cuMemAllocManaged: %u\n", result);
    if (result != MST_CU_SUCCESS) return;
    tell_type("managed memory", address);
    printf("found: IS_MANAGED of managed memory: result %u", cu.cuPointerGetAttribute(&managed, IS_MANAGED, address));
    printf(", value %u\n", managed);
    printf("found: the device of managed memory: result %u", cu.cuPointerGetAttribute(&ordinal, MST_CU_POINTER_DEVICE_ORDINAL, address));
    printf(", %d\n", ordinal);
    assert_done(cu.cuMemFree_v2(address));
    expect_working();
}

/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD (cuda.h). */
static void the_default_streams_have_handles(void **state) {
    (void)state;
    static const char *const names[] = {"NULL", "legacy (1)", "per thread (2)"};
    mst_cu_event event;
    assert_done(cu.cuEventCreate(&event, MST_CU_EVENT_DISABLE_TIMING));
    for (uintptr_t handle = 0; handle < 3; handle++) {
        mst_cu_stream stream = (mst_cu_stream)handle;
        mst_cu_context context = NULL;
        const mst_cu_result found = cu.cuStreamGetCtx(stream, &context);
        printf("found: the stream %s: its context: %u, %s", names[handle], found, context == gpu.context ? "the current one" : "another");
        printf("; query: %u; record: %u; wait: %u\n", cu.cuStreamQuery(stream), cu.cuEventRecord(event, stream),
               cu.cuStreamWaitEvent(gpu.stream, event, 0));
    }
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    assert_done(cu.cuEventDestroy_v2(event));
    expect_working();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_registered_ranges_that_share_a_page),
        cmocka_unit_test(the_ends_of_a_range_that_is_registered_in_part),
        cmocka_unit_test(managed_memory_tells_what_it_is),
        cmocka_unit_test(the_default_streams_have_handles),
    };
    if (!contract_open_cuda()) return SKIP_SUITE("the CUDA driver could not be opened");
    return cmocka_run_group_tests(tests, contract_setup, contract_teardown);
}
