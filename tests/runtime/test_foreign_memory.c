/* muster_runtime_tensor_on: memory of the program as tensors of devices, by the names of devices;
 * what is no memory of the device is refused. (GPUs:
 * tests/function/test_cuda_foreign_tensors.c.) */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "runtime_gpus.h"
#include "runtime_impl.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 4, COLUMNS = 3, CELLS = ROWS * COLUMNS };

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static void backends_and_places_name_devices(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t rank; /* -1: no such device */
    } names[] = {{"host:0", 0},     {"host:1", 2},   {"host:2", -1}, {"discrete:0", 1}, {"discrete:1", 3}, {"discrete:2", -1},
                 {"discrete:", -1}, {"host:-1", -1}, {"hos:0", -1},  {"host:01", 2},    {"host:0 ", -1}};
    muster_runtime *runtime = open_text("host:1,discrete@0,host:1,discrete@1");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t rank = -1;
        if (names[i].rank < 0)
            assert_refused(muster_runtime_find_device(runtime, names[i].name, &rank), MUSTER_INVALID_ARGUMENT,
                           "expected the name or number of a device");
        else
            assert_ok(muster_runtime_find_device(runtime, names[i].name, &rank));
        assert_int_equal(rank, names[i].rank);
    }
    assert_ok(muster_runtime_close(runtime));
}

static void host_memory_becomes_a_tensor_of_the_device(void **state) {
    (void)state;
    int32_t cells[CELLS], back[CELLS];
    const int64_t live = mst_memory_live();
    muster_runtime *runtime = open_text("host:2,discrete@0");
    for (int i = 0; i < CELLS; i++) cells[i] = i;
    muster_tensor all = muster_i32(cells, ROWS, COLUMNS), left = muster_i32(cells, ROWS, COLUMNS);
    assert_ok(muster_runtime_tensor_on(runtime, "host:1", &all));
    assert_int_equal(all.device, 1);
    assert_ptr_equal(all.data, cells);
    assert_ok(muster_runtime_tensor_copy(runtime, muster_tensor_transpose(all), muster_i32(back, COLUMNS, ROWS)));
    for (int i = 0; i < CELLS; i++) assert_int_equal(back[i], cells[i % ROWS * COLUMNS + i / ROWS]);
    muster_tensor beyond = all;
    beyond.shape[0]++;
    assert_refused(muster_runtime_tensor_copy(runtime, beyond, beyond), MUSTER_INVALID_ARGUMENT, "or memory that was wrapped or imported");
    assert_ok(muster_runtime_tensor_destroy(runtime, all));
    assert_refused(muster_runtime_tensor_copy(runtime, all, muster_i32(back, ROWS, COLUMNS)), MUSTER_INVALID_ARGUMENT,
                   "wrapped or imported");
    assert_refused(muster_runtime_tensor_destroy(runtime, all), MUSTER_INVALID_ARGUMENT, "wrapped or imported");
    assert_ok(muster_runtime_tensor_on(runtime, "0", &left)); /* close forgets it */
    assert_ok(muster_runtime_close(runtime));
    assert_int_equal(mst_memory_live(), live);
    assert_int_equal(cells[CELLS - 1], CELLS - 1);
}

static void what_is_no_memory_of_the_device_is_refused(void **state) {
    (void)state;
    const int64_t page = sysconf(_SC_PAGESIZE);
    muster_runtime *runtime = open_text("host:1,discrete@0");
    uint8_t *pages = mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *owned;
    assert_true(pages != MAP_FAILED);
    assert_int_equal(munmap(pages + page, (size_t)page), 0);
    muster_tensor whole = muster_u8(pages, page), over = muster_u8(pages, page + 1), after = muster_u8(pages + page, 1);
    assert_refused(muster_runtime_tensor_on(runtime, "host:0", &over), MUSTER_INVALID_ARGUMENT, "whose last byte is not mapped");
    assert_refused(muster_runtime_tensor_on(runtime, "host:0", &after), MUSTER_INVALID_ARGUMENT, "whose first byte is not mapped");
    assert_refused(muster_runtime_tensor_on(runtime, "discrete:0", &whole), MUSTER_INVALID_ARGUMENT, "expected memory of discrete 0");
    assert_int_equal(whole.device, MUSTER_DEVICE_HOST);
    mst_device *device = runtime->devices[1];
    assert_ok(device->memory->allocate(device, 16, &owned));
    muster_tensor there = muster_u8(owned, 16), longer = muster_u8(owned, 17);
    assert_refused(muster_runtime_tensor_on(runtime, "discrete:0", &longer), MUSTER_INVALID_ARGUMENT, "expected memory of discrete 0");
    assert_refused(muster_runtime_tensor_on(runtime, "host:0", &there), MUSTER_INVALID_ARGUMENT,
                   "tensor: expected memory of the host, received memory of device 1 (");
    assert_ok(muster_runtime_tensor_on(runtime, "discrete:0", &there));
    assert_refused(muster_runtime_tensor_on(runtime, "discrete:0", &there), MUSTER_INVALID_ARGUMENT,
                   "tensor: expected one without a device (MUSTER_DEVICE_HOST), received one of device 1");
    assert_ok(muster_runtime_tensor_on(runtime, "host:0", &whole));
    assert_refused(muster_runtime_tensor_on(runtime, "host:0", NULL), MUSTER_INVALID_ARGUMENT, "tensor: expected the address of a tensor");
    assert_refused(muster_runtime_tensor_on(NULL, "host:0", &whole), MUSTER_INVALID_ARGUMENT, "runtime: expected a runtime");
    assert_ok(muster_runtime_tensor_destroy(runtime, there));
    device->memory->release(device, owned);
    assert_ok(muster_runtime_close(runtime));
    assert_int_equal(munmap(pages, (size_t)page), 0);
}

static int add_discrete(void **state) {
    (void)state;
    return mst_discrete_register() != MUSTER_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_and_places_name_devices),
        cmocka_unit_test(host_memory_becomes_a_tensor_of_the_device),
        cmocka_unit_test(what_is_no_memory_of_the_device_is_refused),
    };
    return cmocka_run_group_tests(tests, add_discrete, NULL);
}
