/* A device's memory: the slab, its growth between calls, and page-locked host memory. */
#include "cuda/cuda_device_private.h"
#include "cuda_fixture.h"

enum { MIB = 1 << 20 };

/* A device whose slab begins with so many bytes. */
static mst_device *opened_with(int64_t bytes, uint64_t device_bytes) {
    char text[32];
    new_machine(&(muster_sim_options){.memory = device_bytes});
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    setenv("MUSTER_DEVICE_MEMORY", text, 1);
    mst_device *device = opened("0");
    unsetenv("MUSTER_DEVICE_MEMORY");
    return device;
}

static void blocks_are_aligned_and_distinct(void **state) {
    mst_device *device = *state;
    void *blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = allocated(device, i * 130);
        assert_int_equal((uintptr_t)blocks[i] % 256, 0);
        for (int j = 0; j < i; j++) assert_ptr_not_equal(blocks[i], blocks[j]);
    }
    for (int i = 0; i < 20; i++) device->memory->release(device, blocks[i * 7 % 20]);
    device->memory->release(device, NULL);
}

static void impossible_sizes_are_refused(void **state) {
    mst_device *device = *state;
    void *address = device;
    assert_refused(device->memory->allocate(device, -1, &address), MUSTER_INVALID_ARGUMENT, "-1 bytes");
    assert_null(address);
    assert_refused(device->memory->allocate(device, INT64_MAX, &address), MUSTER_OUT_OF_MEMORY, "out of memory");
    assert_null(address);
}

static void what_fits_the_slab_asks_nothing_of_the_driver(void **state) {
    mst_device *device = *state;
    uint64_t before = muster_sim_calls(NULL);
    void *a = allocated(device, 1 * MIB), *b = allocated(device, 2 * MIB);
    device->memory->release(device, a);
    device->memory->release(device, b);
    device->memory->release(device, allocated(device, 3 * MIB));
    assert_int_equal(muster_sim_calls(NULL), before);
}

static void released_memory_is_handed_out_again(void **state) {
    mst_device *device = *state;
    void *first = allocated(device, 4 * MIB);
    device->memory->release(device, first);
    void *second = allocated(device, 4 * MIB);
    assert_ptr_equal(second, first);
    device->memory->release(device, second);
}

/* The bytes by which a full slab of `slab` bytes grows for 1 MiB. */
static int64_t growth_of(int64_t slab, bool keeps_headroom) {
    mst_device *device = opened_with(slab, 0);
    if (keeps_headroom) mst_cuda_keep_headroom(device);
    void *whole = allocated(device, slab);
    const uint64_t before = muster_sim_memory_used(0);
    void *more = allocated(device, 1 * MIB);
    const int64_t grown = (int64_t)(muster_sim_memory_used(0) - before);
    device->memory->release(device, more);
    device->memory->release(device, whole);
    closed(device);
    check_machine();
    return grown;
}

/* Of 256 MiB a twentieth stays free; what an allocation itself needs may use it. */
static void a_slab_that_keeps_headroom_doubles_only_where_it_stays(void **state) {
    (void)state;
    const int64_t all = 256 * (int64_t)MIB, unit = 2 * MIB;
    mst_device *device = opened_with(4 * MIB, 0);
    const int64_t others = (int64_t)muster_sim_memory_used(0) - 4 * MIB; /* of cuBLAS */
    closed(device);
    const int64_t last = (all - others - all / 20) / 2 / unit * unit; /* whose double leaves the headroom */
    assert_int_equal(growth_of(last, true), last);
    assert_int_equal(growth_of(last + unit, true), unit);
    assert_int_equal(growth_of(last + unit, false), last + unit);
}

static void the_slab_doubles_while_it_is_small(void **state) {
    (void)state;
    mst_device *device = opened_with(4 * MIB, 0);
    uint64_t before = muster_sim_calls("cuMemAlloc_v2");
    void *blocks[15];
    for (int i = 0; i < 15; i++) blocks[i] = allocated(device, MIB); /* 4, 8 and 16 MiB */
    assert_int_equal(muster_sim_calls("cuMemAlloc_v2"), before + 2);
    for (int i = 0; i < 15; i++) device->memory->release(device, blocks[i]);
    closed(device);
    check_machine();
}

static void where_doubling_is_too_much_what_is_needed_will_do(void **state) {
    (void)state;
    mst_device *device = opened_with(40 * MIB, 64 * MIB);
    void *a = allocated(device, 40 * MIB), *b = allocated(device, 10 * MIB);
    device->memory->release(device, a);
    device->memory->release(device, b);
    closed(device);
    check_machine();
}

static void out_of_memory_says_the_sizes(void **state) {
    (void)state;
    mst_device *device = opened_with(8 * MIB, 32 * MIB);
    void *kept = allocated(device, 3 * MIB), *address = NULL;
    assert_refused(device->memory->allocate(device, 100 * MIB, &address), MUSTER_OUT_OF_MEMORY,
                   "cuda:0 Simulated GPU: out of memory: expected room for 104857600 bytes, received none: 3145728 of 8388608 bytes are in "
                   "use, and the device has ");
    assert_null(address);
    device->memory->release(device, kept);
    closed(device);
    check_machine();
}

static void in_flight_nothing_is_taken_from_the_driver_and_reserve_makes_up_for_it(void **state) {
    (void)state;
    mst_device *device = opened_with(4 * MIB, 0);
    void *address = NULL;
    device->in_flight = true;
    uint64_t before = muster_sim_calls(NULL);
    assert_refused(device->memory->allocate(device, 10 * MIB, &address), MUSTER_OUT_OF_MEMORY,
                   "while devices wait for each other: the next call will have it");
    void *small = allocated(device, MIB); /* what is there still is */
    assert_refused(device->memory->reserve(device, 1), MUSTER_BAD_STATE, "between calls");
    assert_int_equal(muster_sim_calls(NULL), before);
    device->in_flight = false;
    assert_ok(device->memory->reserve(device, 0));
    device->in_flight = true;
    before = muster_sim_calls(NULL);
    void *large = allocated(device, 10 * MIB);
    assert_int_equal(muster_sim_calls(NULL), before);
    device->in_flight = false;
    device->memory->release(device, small);
    device->memory->release(device, large);
    closed(device);
    check_machine();
}

static void a_wish_that_cannot_be_fulfilled_fails_nobody_else(void **state) {
    (void)state;
    mst_device *device = opened_with(4 * MIB, 32 * MIB);
    void *address = NULL;
    device->in_flight = true;
    assert_refused(device->memory->allocate(device, 100 * MIB, &address), MUSTER_OUT_OF_MEMORY, "out of memory");
    device->in_flight = false;
    assert_ok(device->memory->reserve(device, MIB));
    assert_refused(device->memory->reserve(device, 100 * MIB), MUSTER_OUT_OF_MEMORY, "104857600");
    closed(device);
    check_machine();
}

static void reserved_memory_needs_nothing_of_the_driver(void **state) {
    mst_device *device = *state;
    assert_ok(device->memory->reserve(device, 50 * MIB));
    uint64_t before = muster_sim_calls(NULL);
    void *block = allocated(device, 50 * MIB);
    assert_int_equal(muster_sim_calls(NULL), before);
    device->memory->release(device, block);
}

static void a_failed_growth_leaves_nothing(void **state) {
    (void)state;
    mst_device *device = opened_with(4 * MIB, 0);
    uint64_t used = muster_sim_memory_used(0);
    void *address = NULL;
    int32_t k = 1;
    for (; mst_memory_fail_at(k), device->memory->allocate(device, 10 * MIB, &address) != MUSTER_OK; k++) {
        mst_memory_fail_at(0);
        assert_null(address);
        if (k <= 2) assert_int_equal(muster_sim_memory_used(0), used);
    }
    mst_memory_fail_at(0);
    assert_true(k > 2); /* the lists of segments and of blocks */
    device->memory->release(device, address);
    muster_sim_inject("cuMemAlloc_v2", 1, MST_CU_OPERATING_SYSTEM);
    assert_refused(device->memory->allocate(device, 50 * MIB, &address), MUSTER_SYSTEM, "cuMemAlloc_v2");
    assert_null(address);
    closed(device);
    check_machine();
}

static void a_size_that_is_none_is_refused(void **state) {
    (void)state;
    mst_device *device = NULL;
    new_machine(NULL);
    setenv("MUSTER_DEVICE_MEMORY", "64M", 1);
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device), MUSTER_INVALID_ARGUMENT,
                   "MUSTER_DEVICE_MEMORY: expected a number of bytes, received '64M'");
    unsetenv("MUSTER_DEVICE_MEMORY");
    check_machine();
}

/* ---- page-locked host memory ---- */

static void locked_memory_is_copied_without_staging(void **state) {
    mst_device *device = *state, *other = opened("1");
    unsigned char *host = NULL;
    assert_ok(device->host_memory->allocate(device, 100, (void **)&host));
    for (int i = 0; i < 100; i++) host[i] = pattern_at(i, 5);
    void *place = allocated(other, 100); /* of any device */
    assert_ok(other->memory->copy_in(other, place, host, 100));
    assert_ok(other->table->synchronize(other));
    memset(host, 0, 100);
    assert_ok(other->memory->copy_out(other, host, place, 100));
    assert_ok(other->table->synchronize(other));
    check_pattern(host, 100, 5);
    assert_int_equal(muster_sim_waits(), 0);
    other->memory->release(other, place);
    device->host_memory->release(device, host);
    device->host_memory->release(device, NULL);
    closed(other);
}

static void a_range_is_unlocked_with_its_last_user(void **state) {
    mst_device *device = *state, *other = opened("1");
    unsigned char *memory = patterned(2 * MIB, 1);
    assert_ok(device->host_memory->pin(device, memory, 2 * MIB));
    assert_ok(other->host_memory->pin(other, memory + 100, MIB)); /* inside: nothing to do */
    assert_int_equal(muster_sim_calls("cuMemHostRegister_v2"), 1);
    device->host_memory->unpin(device, memory);
    assert_int_equal(muster_sim_calls("cuMemHostUnregister"), 0);
    other->host_memory->unpin(other, memory + 100);
    assert_int_equal(muster_sim_calls("cuMemHostUnregister"), 1);
    closed(other);
    free(memory);
}

static void a_range_that_is_locked_in_part_is_refused(void **state) {
    mst_device *device = *state;
    unsigned char *memory = patterned(MIB, 1);
    assert_ok(device->host_memory->pin(device, memory + 1000, 1000));
    assert_refused(device->host_memory->pin(device, memory, MIB), MUSTER_UNSUPPORTED, "1048576 bytes of which a part is");
    assert_refused(device->host_memory->pin(device, NULL, MIB), MUSTER_INVALID_ARGUMENT, "an address");
    device->host_memory->unpin(device, memory + 1000);
    free(memory);
}

static void memory_that_the_program_locked_stays_locked(void **state) {
    mst_device *device = *state;
    unsigned char *memory = patterned(MIB, 1);
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuMemHostRegister_v2(memory, MIB, 1), 0);
    assert_ok(device->host_memory->pin(device, memory, MIB));
    device->host_memory->unpin(device, memory);
    assert_int_equal(driver()->cuMemHostUnregister(memory), 0);
    device->queue->leave(device);
    free(memory);
}

static void in_flight_nothing_is_locked_and_what_is_given_back_waits(void **state) {
    mst_device *device = *state;
    void *host = NULL, *refused = device;
    assert_ok(device->host_memory->allocate(device, 0, &host));
    device->in_flight = true;
    assert_refused(device->host_memory->allocate(device, 10, &refused), MUSTER_BAD_STATE, "between calls");
    assert_null(refused);
    assert_refused(device->host_memory->pin(device, &refused, 8), MUSTER_BAD_STATE, "between calls");
    device->host_memory->release(device, host);
    assert_int_equal(muster_sim_calls("cuMemFreeHost"), 0);
    device->in_flight = false;
    assert_ok(device->host_memory->allocate(device, 10, &host));
    assert_int_equal(muster_sim_calls("cuMemFreeHost"), 1);
    device->host_memory->release(device, host);
}

/* The program may have freed it already: what the device sees there is not what the program
 * sees. */
static void what_was_unlocked_in_flight_is_staged(void **state) {
    mst_device *device = *state;
    int in = 7, out = 0;
    void *place = allocated(device, sizeof in);
    assert_ok(device->host_memory->pin(device, &in, sizeof in));
    device->in_flight = true;
    device->host_memory->unpin(device, &in);
    /* time for the next lines */
    for (int i = 0; i < 20; i++) assert_ok(device->memory->copy(device, place, place, sizeof in));
    assert_ok(device->memory->copy_in(device, place, &in, sizeof in));
    in = 8;
    assert_ok(device->memory->copy_out(device, &out, place, sizeof out));
    assert_ok(device->table->synchronize(device));
    assert_int_equal(out, 7);
    device->in_flight = false;
    device->memory->release(device, place);
}

static void a_failure_to_lock_leaves_nothing(void **state) {
    mst_device *device = *state;
    void *host = device;
    muster_sim_inject("cuMemHostAlloc", 1, MST_CU_OUT_OF_MEMORY);
    assert_refused(device->host_memory->allocate(device, 10, &host), MUSTER_OUT_OF_MEMORY,
                   "cuda:0: CUDA: cuMemHostAlloc: expected success, received CUDA_ERROR_OUT_OF_MEMORY");
    assert_null(host);
    muster_sim_inject("cuMemHostRegister_v2", 1, MST_CU_OUT_OF_MEMORY);
    assert_refused(device->host_memory->pin(device, &host, sizeof host), MUSTER_OUT_OF_MEMORY, "cuMemHostRegister_v2");
    muster_sim_inject("cuCtxPushCurrent_v2", 1, MST_CU_OPERATING_SYSTEM);
    assert_refused(device->host_memory->pin(device, &host, sizeof host), MUSTER_SYSTEM, "cuCtxPushCurrent_v2");
    muster_sim_inject("cuCtxPopCurrent_v2", 1, MST_CU_OPERATING_SYSTEM);
    assert_refused(device->host_memory->allocate(device, 10, &host), MUSTER_SYSTEM, "cuCtxPopCurrent_v2");
    assert_null(host);
}

/* Settings of the program go before the environment's, whatever those are; 0 leaves it to them. */
static void settings_go_before_the_environment(void **state) {
    (void)state;
    static const struct {
        mst_device_settings settings;
        const char *memory, *tf32; /* the environment */
        int64_t taken;
        bool used;
    } cases[] = {
        {{.memory = 0, .tf32 = 0}, NULL, NULL, 32 * (int64_t)MIB, false}, /* an eighth of 256 MiB, less what cuBLAS has */
        {{.memory = 0, .tf32 = 0}, "4194304", "1", 4 * MIB, true},
        {{.memory = 8 * MIB, .tf32 = -1}, "4194304", "1", 8 * MIB, false},
        {{.memory = 8 * MIB, .tf32 = 1}, "4194304", "0", 8 * MIB, true},
        {{.memory = 8 * MIB, .tf32 = 1}, "x", "x", 8 * MIB, true},
        {{.memory = -1, .tf32 = -1}, "4194304", "1", 0, false},
        {{.memory = -1, .tf32 = 1}, NULL, NULL, 0, true},
        {{.memory = 0, .tf32 = 0}, "0", "0", 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mst_device *device;
        new_machine(NULL);
        if (cases[i].memory) setenv("MUSTER_DEVICE_MEMORY", cases[i].memory, 1);
        if (cases[i].tf32) setenv("MUSTER_TF32", cases[i].tf32, 1);
        assert_ok(mst_cuda_device_table.hardware->open_with("0", &cases[i].settings, &device));
        unsetenv("MUSTER_DEVICE_MEMORY");
        unsetenv("MUSTER_TF32");
        const mst_cuda *cuda = (const mst_cuda *)device;
        assert_int_equal(cuda->slab.total, cases[i].taken);
        assert_int_equal(cuda->tf32, cases[i].used);
        closed(device);
        check_machine();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_go_before_the_environment),
        CASE(blocks_are_aligned_and_distinct),
        CASE(impossible_sizes_are_refused),
        CASE(what_fits_the_slab_asks_nothing_of_the_driver),
        CASE(released_memory_is_handed_out_again),
        cmocka_unit_test(a_slab_that_keeps_headroom_doubles_only_where_it_stays),
        cmocka_unit_test(the_slab_doubles_while_it_is_small),
        cmocka_unit_test(where_doubling_is_too_much_what_is_needed_will_do),
        cmocka_unit_test(out_of_memory_says_the_sizes),
        cmocka_unit_test(in_flight_nothing_is_taken_from_the_driver_and_reserve_makes_up_for_it),
        cmocka_unit_test(a_wish_that_cannot_be_fulfilled_fails_nobody_else),
        CASE(reserved_memory_needs_nothing_of_the_driver),
        cmocka_unit_test(a_failed_growth_leaves_nothing),
        cmocka_unit_test(a_size_that_is_none_is_refused),
        CASE(locked_memory_is_copied_without_staging),
        CASE(a_range_is_unlocked_with_its_last_user),
        CASE(a_range_that_is_locked_in_part_is_refused),
        CASE(memory_that_the_program_locked_stays_locked),
        CASE(in_flight_nothing_is_locked_and_what_is_given_back_waits),
        CASE(what_was_unlocked_in_flight_is_staged),
        CASE(a_failure_to_lock_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
