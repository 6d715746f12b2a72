/* Host memory that the driver locks by whole pages, cannot lock, or manages itself: what is copied
 * directly, what is staged, and what is refused. A copy of SPAN bytes is one call of the driver if
 * it is direct, and several if it is staged. */
#include "cuda/cuda_api_private.h"
#include "cuda_fixture.h"

#include <sys/mman.h>

enum { PAGE = 4096, SPAN = 3 << 20, CASES_OF_PAGES = 5, ERRORS = 5 };

static unsigned char *pages_of(int64_t bytes) {
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void fill(unsigned char *memory, int64_t bytes, int seed) {
    for (int64_t i = 0; i < bytes; i++) memory[i] = pattern_at(i, seed);
}

/* To the device and back, and nobody waits in the driver, as a copy of memory does that the driver
 * does not know as locked. Returns the calls that copied to the device. */
static int64_t there_and_back(mst_device *device, unsigned char *memory, int64_t bytes, int seed) {
    const uint64_t before = muster_sim_calls("cuMemcpyHtoDAsync_v2"), waits = muster_sim_waits();
    void *block = allocated(device, bytes);
    fill(memory, bytes, seed);
    assert_ok(device->memory->copy_in(device, block, memory, bytes));
    assert_ok(device->table->synchronize(device));
    const uint64_t calls = muster_sim_calls("cuMemcpyHtoDAsync_v2") - before;
    memset(memory, 0, (size_t)bytes);
    assert_ok(device->memory->copy_out(device, memory, block, bytes));
    assert_ok(device->table->synchronize(device));
    check_pattern(memory, bytes, seed);
    assert_int_equal(muster_sim_waits(), waits);
    device->memory->release(device, block);
    return (int64_t)calls;
}

static void expect_notice(const char *words) {
    char notice[MST_MESSAGE_SIZE];
    if (!mst_cuda_take_notice(notice)) fail_msg("no notice, expected one with \"%s\"", words);
    if (!strstr(notice, words)) fail_msg("expected \"%s\" in the notice: %s", words, notice);
}

static void expect_no_notice(void) {
    char notice[MST_MESSAGE_SIZE];
    if (mst_cuda_take_notice(notice)) fail_msg("a notice that nobody expected: %s", notice);
}

/* ---- whole pages ---- */

/* Two ranges that do not overlap and have a page in common. Both are registered, and whichever goes
 * first takes the lock of the common page with it. */
static void ranges_that_share_a_page_are_both_copied(void **state) {
    static const struct {
        int64_t first, first_bytes, second, second_bytes;
    } cases[] = {
        {0, PAGE + 1, PAGE + 1, 2 * PAGE},     /* one behind the other */
        {PAGE + 100, PAGE, 0, PAGE + 100},     /* one before the other */
        {0, 100, 100, 200},                    /* within one page */
        {0, PAGE + 1, 2 * PAGE - 1, PAGE},     /* the last byte of the page */
        {100, 100, PAGE - 1, 20 * PAGE + 100}, /* far beyond it: the driver knows the first byte and not the last */
    };
    mst_device *device = *state;
    unsigned char *memory = pages_of(32 * PAGE);
    int32_t tried = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char *first = memory + cases[i].first, *second = memory + cases[i].second;
        for (int order = 0; order < 2; order++) {
            assert_ok(device->host_memory->pin(device, first, cases[i].first_bytes));
            assert_ok(device->host_memory->pin(device, second, cases[i].second_bytes));
            if (tried++ == 0) expect_notice("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
            there_and_back(device, first, cases[i].first_bytes, 1);
            there_and_back(device, second, cases[i].second_bytes, 2);
            device->host_memory->unpin(device, order ? first : second);
            if (order) there_and_back(device, second, cases[i].second_bytes, 3);
            if (!order) there_and_back(device, first, cases[i].first_bytes, 4);
            device->host_memory->unpin(device, order ? second : first);
        }
    }
    assert_int_equal(tried, 2 * CASES_OF_PAGES);
    assert_int_equal(muster_sim_calls("cuMemHostUnregister"), tried);
    munmap(memory, 32 * PAGE);
}

static void a_page_apart_both_are_locked(void **state) {
    mst_device *device = *state;
    unsigned char *memory = pages_of(2 * SPAN + PAGE);
    assert_ok(device->host_memory->pin(device, memory, SPAN - 1));
    assert_ok(device->host_memory->pin(device, memory + SPAN, SPAN));
    assert_int_equal(there_and_back(device, memory, SPAN - 1, 1), 1);
    assert_int_equal(there_and_back(device, memory + SPAN, SPAN, 2), 1);
    device->host_memory->unpin(device, memory);
    device->host_memory->unpin(device, memory + SPAN);
    munmap(memory, 2 * SPAN + PAGE);
}

/* The driver copies no memory of which a part is locked. */
static void memory_that_is_locked_in_pieces_is_staged(void **state) {
    static const struct {
        int64_t first, first_bytes, second, second_bytes;
    } cases[] = {
        {0, PAGE, SPAN - PAGE, PAGE},        /* its two ends */
        {0, SPAN / 2, SPAN / 2, SPAN / 2},   /* two halves, which touch */
        {0, PAGE, SPAN / 2, PAGE},           /* the beginning and the middle */
        {SPAN / 2, PAGE, SPAN - PAGE, PAGE}, /* the middle and the end */
    };
    mst_device *device = *state;
    unsigned char *memory = pages_of(SPAN);
    assert_ok(device->queue->enter(device));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(driver()->cuMemHostRegister_v2(memory + cases[i].first, (size_t)cases[i].first_bytes, 1), 0);
        assert_int_equal(driver()->cuMemHostRegister_v2(memory + cases[i].second, (size_t)cases[i].second_bytes, 1), 0);
        assert_true(there_and_back(device, memory, SPAN, (int)i) > 1);
        assert_ok(device->host_memory->pin(device, memory, SPAN)); /* not in one piece: stays as it is */
        assert_true(there_and_back(device, memory, SPAN, (int)i) > 1);
        device->host_memory->unpin(device, memory);
        assert_int_equal(driver()->cuMemHostUnregister(memory + cases[i].first), 0);
        assert_int_equal(driver()->cuMemHostUnregister(memory + cases[i].second), 0);
    }
    expect_notice("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
    device->queue->leave(device);
    munmap(memory, SPAN);
}

static void what_the_program_locked_as_a_whole_is_direct(void **state) {
    mst_device *device = *state;
    unsigned char *memory = pages_of(SPAN + 2 * PAGE);
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuMemHostRegister_v2(memory, SPAN + 2 * PAGE, 1), 0);
    assert_ok(device->host_memory->pin(device, memory + 100, SPAN));
    assert_int_equal(there_and_back(device, memory + 100, SPAN, 1), 1);
    device->host_memory->unpin(device, memory + 100);
    assert_int_equal(there_and_back(device, memory + 100, SPAN, 2), 1);
    assert_int_equal(driver()->cuMemHostUnregister(memory), 0);
    device->queue->leave(device);
    munmap(memory, SPAN + 2 * PAGE);
}

/* ---- what cannot be locked ---- */

static void memory_that_is_read_only_is_locked_for_reading(void **state) {
    mst_device *device = *state;
    unsigned char *memory = pages_of(SPAN), *out = patterned(SPAN, 0);
    void *block = allocated(device, SPAN);
    fill(memory, SPAN, 7);
    assert_int_equal(mprotect(memory, SPAN, PROT_READ), 0);
    assert_ok(device->host_memory->pin(device, memory, SPAN));
    const uint64_t before = muster_sim_calls("cuMemcpyHtoDAsync_v2");
    assert_ok(device->memory->copy_in(device, block, memory, SPAN));
    assert_int_equal(muster_sim_calls("cuMemcpyHtoDAsync_v2"), before + 1);
    assert_ok(device->memory->copy_out(device, out, block, SPAN));
    assert_ok(device->table->synchronize(device));
    check_pattern(out, SPAN, 7);
    assert_int_equal(mprotect(memory, SPAN, PROT_READ | PROT_WRITE), 0);
    there_and_back(device, memory, SPAN, 8); /* the GPU still may not write it */
    device->host_memory->unpin(device, memory);
    device->memory->release(device, block);
    munmap(memory, SPAN);
    free(out);
}

static void an_error_of_the_lock_is_a_notice_and_no_failure(void **state) {
    static const struct {
        int code;
        const char *name;
    } errors[] = {{MST_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                  {MST_CU_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM"},
                  {MST_CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
                  {MST_CU_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
                  {800, "800"}}; /* not permitted */
    mst_device *device = *state, *other = opened("1");
    unsigned char *memory = pages_of(SPAN);
    int32_t noticed = 0;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        for (int again = 0; again < 2; again++) {
            muster_sim_inject("cuMemHostRegister_v2", 1, errors[i].code); /* and for reading only */
            muster_sim_inject("cuMemHostRegister_v2", 1, errors[i].code);
            assert_ok(device->host_memory->pin(device, memory, SPAN));
            if (!again) expect_notice(errors[i].name);
            noticed += !again;
            expect_no_notice();
            assert_ok(other->host_memory->pin(other, memory + 10, 100)); /* inside: not locked either */
            assert_true(there_and_back(device, memory, SPAN, 3) > 1);
            there_and_back(other, memory, 100, 4);
            other->host_memory->unpin(other, memory + 10);
            device->host_memory->unpin(device, memory);
        }
    }
    assert_int_equal(noticed, ERRORS);
    assert_int_equal(muster_sim_calls("cuMemHostUnregister"), 0);
    assert_ok(device->host_memory->pin(device, memory, SPAN)); /* it is tried again every time */
    assert_int_equal(there_and_back(device, memory, SPAN, 5), 1);
    device->host_memory->unpin(device, memory);
    closed(other);
    munmap(memory, SPAN);
}

static void without_memory_or_a_device_locking_fails(void **state) {
    mst_device *device = *state;
    unsigned char *memory = pages_of(SPAN);
    muster_sim_inject("cuMemHostRegister_v2", 1, MST_CU_OUT_OF_MEMORY);
    assert_refused(device->host_memory->pin(device, memory, SPAN), MUSTER_OUT_OF_MEMORY,
                   "cuda:0: CUDA: cuMemHostRegister_v2: expected success, received CUDA_ERROR_OUT_OF_MEMORY");
    expect_no_notice();
    device->host_memory->unpin(device, memory); /* nothing is there */
    assert_true(there_and_back(device, memory, SPAN, 1) > 1);
    munmap(memory, SPAN);
}

/* ---- how often the driver is asked ---- */

static int64_t questions(mst_device *device, unsigned char *memory, int32_t copies) {
    void *block = allocated(device, SPAN);
    const uint64_t before = muster_sim_calls("cuPointerGetAttributes");
    for (int32_t i = 0; i < copies; i++) {
        assert_ok(device->memory->copy_in(device, block, memory, SPAN));
        assert_ok(device->table->synchronize(device));
    }
    device->memory->release(device, block);
    return (int64_t)(muster_sim_calls("cuPointerGetAttributes") - before);
}

static void the_driver_is_asked_once_for_many_copies(void **state) {
    mst_device *device = *state;
    unsigned char *memory = pages_of(SPAN);
    assert_int_equal(questions(device, memory, 1), 1);
    assert_int_equal(questions(device, memory, 31), 0);
    assert_int_equal(questions(device, memory, 1), 1);
    assert_int_equal(questions(device, memory, 63), 1);
    /* what the program locks is noticed with the next question, and then at once */
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuMemHostRegister_v2(memory, SPAN, 1), 0);
    assert_int_equal(there_and_back(device, memory, SPAN, 1), 1);
    assert_int_equal(questions(device, memory, 5), 5); /* it may be unlocked at any time */
    assert_int_equal(driver()->cuMemHostUnregister(memory), 0);
    device->queue->leave(device);
    assert_true(there_and_back(device, memory, SPAN, 2) > 1);
    munmap(memory, SPAN);
}

static void an_old_answer_costs_time_and_nothing_else(void **state) {
    mst_device *device = *state;
    unsigned char *memory = pages_of(SPAN);
    assert_true(there_and_back(device, memory, SPAN, 1) > 1);
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuMemHostRegister_v2(memory, SPAN, 1), 0);
    assert_true(there_and_back(device, memory, SPAN, 2) > 1);
    assert_int_equal(there_and_back(device, memory, SPAN - 1, 3), 1); /* another range: another question */
    assert_int_equal(driver()->cuMemHostUnregister(memory), 0);
    device->queue->leave(device);
    munmap(memory, SPAN);
}

/* ---- managed memory ---- */

static unsigned char *managed_memory(mst_device *device, int64_t bytes) {
    mst_cu_address address = 0;
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuMemAllocManaged(&address, (size_t)bytes, MST_CU_MANAGED_GLOBAL), 0);
    device->queue->leave(device);
    return (unsigned char *)(uintptr_t)address;
}

static void free_managed(mst_device *device, unsigned char *memory) {
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuMemFree_v2((mst_cu_address)(uintptr_t)memory), 0);
    device->queue->leave(device);
}

static void managed_memory_is_no_memory_of_a_device(void **state) {
    mst_device *device = *state;
    unsigned char *memory = managed_memory(device, SPAN);
    assert_refused(mst_cuda_check_memory(device, memory, SPAN, "here"), MUSTER_INVALID_ARGUMENT,
                   "here: address: expected memory of cuda:0, received managed memory (cudaMallocManaged)");
    assert_refused(device->memory->adopt(device, memory + SPAN - 1, 1, "here"), MUSTER_INVALID_ARGUMENT, "received managed memory");
    free_managed(device, memory);
}

static void managed_memory_is_host_memory(void **state) {
    mst_device *device = *state;
    unsigned char *memory = managed_memory(device, SPAN);
    assert_true(there_and_back(device, memory, SPAN, 1) > 1);
    there_and_back(device, memory, 16, 2);
    assert_ok(device->host_memory->pin(device, memory, SPAN)); /* which the driver does not lock */
    expect_notice("CUDA_ERROR_INVALID_VALUE");
    assert_true(there_and_back(device, memory, SPAN, 3) > 1);
    device->host_memory->unpin(device, memory);
    free_managed(device, memory);
}

static void managed_memory_that_one_may_access_at_a_time_is_refused(void **state) {
    static const int64_t sizes[] = {1, 16, 64 * 1024 - 1, 64 * 1024, SPAN};
    (void)state;
    new_machine(&(muster_sim_options){.exclusive_managed = true});
    mst_device *device = opened("0");
    unsigned char *memory = managed_memory(device, SPAN), *plain = pages_of(SPAN);
    void *block = allocated(device, SPAN);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int round = 0; round < 3; round++) {
            there_and_back(device, plain, sizes[i], round);
            assert_refused(
                device->memory->copy_in(device, block, memory, sizes[i]), MUSTER_UNSUPPORTED,
                "cuda:0: copy: host memory: expected memory that the CPU may access while the GPU works, received managed memory");
            assert_refused(device->memory->copy_out(device, memory, block, sizes[i]), MUSTER_UNSUPPORTED, "received managed memory");
            assert_refused(device->queue->copy_in_async(device, block, memory, sizes[i]), MUSTER_UNSUPPORTED, "received managed memory");
        }
    }
    device->memory->release(device, block);
    free_managed(device, memory);
    closed(device);
    check_machine();
    munmap(plain, SPAN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(ranges_that_share_a_page_are_both_copied),
        CASE(a_page_apart_both_are_locked),
        CASE(memory_that_is_locked_in_pieces_is_staged),
        CASE(what_the_program_locked_as_a_whole_is_direct),
        CASE(memory_that_is_read_only_is_locked_for_reading),
        CASE(an_error_of_the_lock_is_a_notice_and_no_failure),
        CASE(without_memory_or_a_device_locking_fails),
        CASE(the_driver_is_asked_once_for_many_copies),
        CASE(an_old_answer_costs_time_and_nothing_else),
        CASE(managed_memory_is_no_memory_of_a_device),
        CASE(managed_memory_is_host_memory),
        cmocka_unit_test(managed_memory_that_one_may_access_at_a_time_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
