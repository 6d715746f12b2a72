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

enum { ROWS = 4, COLUMNS = 3, CELLS = ROWS * COLUMNS, BYTES = 16 };

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

/* Copies `count` bytes of the tensor's memory, from the byte `first` on, up or down. */
static muster_status copy_bytes(muster_runtime *runtime, muster_tensor tensor, int64_t first, int64_t count, bool down) {
    uint8_t back[2 * BYTES];
    muster_tensor view = tensor;
    view.byte_offset = first;
    view.shape[0] = count;
    view.strides[0] = down ? -1 : 1;
    return muster_runtime_tensor_copy(runtime, view, muster_u8(back, count));
}

static void check_bounds(muster_runtime *runtime, muster_tensor tensor) {
    static const struct {
        int64_t first, count;
        bool down, within;
    } views[] = {{0, BYTES, false, true},
                 {0, BYTES + 1, false, false},
                 {1, BYTES - 1, false, true},
                 {1, BYTES, false, false},
                 {-1, 1, false, false},
                 {-1, BYTES, false, false},
                 {BYTES - 1, 1, false, true},
                 {BYTES, 1, false, false},
                 {BYTES - 1, BYTES, true, true},
                 {BYTES - 1, BYTES + 1, true, false},
                 {BYTES, 2, true, false},
                 {0, 1, true, true},
                 {0, 2, true, false},
                 {-1, 1, true, false}};
    int within = 0;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        const muster_status status = copy_bytes(runtime, tensor, views[i].first, views[i].count, views[i].down);
        assert_int_equal(status, views[i].within ? MUSTER_OK : MUSTER_INVALID_ARGUMENT);
        within += status == MUSTER_OK;
    }
    assert_int_equal(within, 5);
}

/* Own tensors and wrapped ones, and views of both made from their addresses again, whose number is
 * 0. Beside the wrapped memory lies more of the program's, which is no part of the tensor. */
static void the_first_and_the_last_byte_of_a_tensor_bound_its_views(void **state) {
    (void)state;
    uint8_t memory[3 * BYTES] = {0};
    muster_runtime *runtime = open_text("host:2,discrete@0");
    muster_tensor own, wrapped = muster_u8(memory + BYTES, BYTES);
    assert_ok(muster_runtime_tensor_create(runtime, "1", MUSTER_U8, 1, (int64_t[]){BYTES}, &own));
    assert_ok(muster_runtime_tensor_on(runtime, "1", &wrapped));
    const muster_tensor tensors[] = {own, wrapped};
    for (int i = 0; i < 2; i++) {
        muster_tensor tensor = tensors[i];
        assert_int_equal(tensor.device, 1);
        for (int numbered = 1; numbered >= 0; numbered--) {
            if (!numbered) tensor.reserved[0] = 0;
            check_bounds(runtime, tensor);
            muster_tensor elsewhere = tensor;
            elsewhere.device = 0;
            assert_refused(copy_bytes(runtime, elsewhere, 0, 1, false), MUSTER_INVALID_ARGUMENT, "on device 0");
        }
    }
    assert_ok(muster_runtime_close(runtime));
}

static void a_tensor_belongs_to_its_runtime_and_ends_with_its_own_number(void **state) {
    (void)state;
    uint8_t memory[BYTES] = {0};
    muster_runtime *runtime = open_text("host:2,discrete@0"), *other = open_text("host:2,discrete@0");
    muster_tensor first = muster_u8(memory, BYTES), second = first;
    assert_ok(muster_runtime_tensor_on(runtime, "1", &first));
    assert_ok(muster_runtime_tensor_on(runtime, "1", &second)); /* the same memory once more */
    assert_refused(copy_bytes(other, first, 0, 1, false), MUSTER_INVALID_ARGUMENT, "wrapped or imported");
    assert_ok(muster_runtime_tensor_destroy(runtime, first));
    assert_refused(copy_bytes(runtime, first, 0, 1, false), MUSTER_INVALID_ARGUMENT, "wrapped or imported");
    assert_ok(copy_bytes(runtime, second, 0, BYTES, false));
    assert_ok(muster_runtime_close(other));
    assert_ok(muster_runtime_close(runtime));
}

/* The memory is looked at in each use: it may have been freed since it was wrapped. */
static void wrapped_memory_that_was_freed_is_refused(void **state) {
    (void)state;
    void *memory;
    muster_runtime *runtime = open_text("host:1,discrete@0");
    mst_device *device = runtime->devices[1];
    assert_ok(device->memory->allocate(device, BYTES, &memory));
    muster_tensor tensor = muster_u8(memory, BYTES);
    assert_ok(muster_runtime_tensor_on(runtime, "discrete:0", &tensor));
    assert_ok(copy_bytes(runtime, tensor, 0, BYTES, false));
    device->memory->release(device, memory);
    assert_refused(copy_bytes(runtime, tensor, 0, BYTES, false), MUSTER_INVALID_ARGUMENT, "expected memory of discrete 0");
    assert_ok(muster_runtime_tensor_destroy(runtime, tensor));
    assert_ok(muster_runtime_close(runtime));
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
        cmocka_unit_test(the_first_and_the_last_byte_of_a_tensor_bound_its_views),
        cmocka_unit_test(a_tensor_belongs_to_its_runtime_and_ends_with_its_own_number),
        cmocka_unit_test(wrapped_memory_that_was_freed_is_refused),
        cmocka_unit_test(what_is_no_memory_of_the_device_is_refused),
    };
    return cmocka_run_group_tests(tests, add_discrete, NULL);
}
