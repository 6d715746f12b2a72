/* What every device must do: one suite, run for each backend. Where MUSTER_CUDA_LIBRARIES names a
 * machine, the suite runs on its GPUs instead, and where MUSTER_TEST_BACKEND names a backend, on
 * devices of that one. */
#include "base_check.h"
#include "device_contract.h"
#include "device_discrete.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

static const char *first_id = "3", *second_id = "9";

/* The sanitizers' allocators end the program at a size that the system's merely refuses, unless
 * they are told otherwise. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static int open_device(void **state, const char *backend) {
    const mst_device_table *table = mst_device_find(backend);
    if (!table) return -1;
    return table->open(table, first_id, (mst_device **)state) == MUSTER_OK ? 0 : -1;
}

static int open_host(void **state) { return open_device(state, "host"); }

static int open_named(void **state) { return open_device(state, getenv("MUSTER_TEST_BACKEND")); }

static int open_cuda(void **state) { return open_device(state, "cuda"); }

static int open_discrete(void **state) {
    mst_discrete_set_delays(200, 1);
    return mst_discrete_register() == MUSTER_OK ? open_device(state, "discrete") : -1;
}

static int close_device(void **state) {
    mst_device *device = *state;
    device->table->close(device);
    return 0;
}

static void *allocate(mst_device *device, int64_t bytes) {
    void *address = NULL;
    assert_ok(device->memory->allocate(device, bytes, &address));
    assert_non_null(address);
    return address;
}

static void it_has_a_name_and_no_cpu(void **state) {
    mst_device *device = *state;
    assert_non_null(strstr(device->name, device->table->backend));
    assert_non_null(strstr(device->name, first_id));
    assert_int_equal(device->cpu, -1);
    assert_int_equal(mst_device_is_host(device), strcmp(device->table->backend, "host") == 0);
}

static void it_refuses_an_ordinal_that_is_none(void **state) {
    mst_device *device = *state, *other = NULL;
    const char *const wrong[] = {"", "x", "-1", "1x", " 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_refused(device->table->open(device->table, wrong[i], &other), MUSTER_INVALID_ARGUMENT,
                       "muster_runtime_open: devices: expected");
        assert_null(other);
    }
}

static void blocks_are_aligned_and_distinct(void **state) {
    mst_device *device = *state;
    void *blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = allocate(device, i * 13);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        for (int j = 0; j < i; j++) assert_ptr_not_equal(blocks[i], blocks[j]);
    }
    for (int i = 0; i < 20; i++) device->memory->release(device, blocks[i * 7 % 20]);
    device->memory->release(device, NULL);
}

static void it_refuses_impossible_sizes(void **state) {
    mst_device *device = *state;
    void *address = NULL;
    assert_refused(device->memory->allocate(device, -1, &address), MUSTER_INVALID_ARGUMENT, "bytes");
    assert_refused(device->memory->allocate(device, INT64_MAX, &address), MUSTER_OUT_OF_MEMORY, "out of memory");
    assert_null(address);
}

static void a_failed_allocation_leaves_nothing(void **state) {
    mst_device *device = *state;
    int64_t live = mst_memory_live(), discrete_live = mst_discrete_live();
    void *address = NULL;
    mst_memory_fail_at(1);
    assert_refused(device->memory->allocate(device, 100, &address), MUSTER_OUT_OF_MEMORY, device->name);
    mst_memory_fail_at(0);
    assert_int_equal(mst_memory_live(), live);
    assert_int_equal(mst_discrete_live(), discrete_live);
    device->memory->release(device, allocate(device, 100));
}

static void bytes_travel_in_across_and_out(void **state) {
    mst_device *device = *state;
    int32_t in[COUNT], out[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) in[i] = i * i;
    int32_t *a = allocate(device, sizeof in), *b = allocate(device, sizeof in);
    assert_ok(device->memory->copy_in(device, a, in, sizeof in));
    assert_ok(device->memory->copy(device, b + 100, a, sizeof in - 100 * sizeof *a));
    assert_ok(device->memory->copy(device, b, a + COUNT - 100, 100 * sizeof *a));
    assert_ok(device->memory->copy_out(device, out, b, sizeof out));
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < COUNT; i++) assert_int_equal(out[i], in[(i + COUNT - 100) % COUNT]);
    device->memory->release(device, a);
    device->memory->release(device, b);
}

static void copies_of_nothing_are_legal(void **state) {
    mst_device *device = *state;
    assert_ok(device->memory->copy_in(device, NULL, NULL, 0));
    assert_ok(device->memory->copy(device, NULL, NULL, 0));
    assert_ok(device->memory->copy_out(device, NULL, NULL, 0));
    assert_ok(device->table->synchronize(device));
}

/* y = 2 x, y = 3 y, and so on: the results depend on the order. */
static void kernels_run_in_the_order_of_issue(void **state) {
    mst_device *device = *state;
    float host[COUNT];
    for (int i = 0; i < COUNT; i++) host[i] = (float)i;
    float *x = allocate(device, sizeof host), *y = allocate(device, sizeof host);
    assert_ok(device->memory->copy_in(device, x, host, sizeof host));
    assert_ok(contract_launch_scale(device, y, x, COUNT, 2));
    assert_ok(device->memory->copy(device, x, y, sizeof host));
    assert_ok(contract_launch_scale(device, y, y, COUNT, 3));
    assert_ok(contract_launch_scale(device, x, x, COUNT, 0.5f));
    assert_ok(device->memory->copy(device, y, x, sizeof *x));
    assert_ok(device->memory->copy_out(device, host, y, sizeof host));
    assert_ok(device->table->synchronize(device));
    assert_true(host[0] == 0);
    for (int i = 1; i < COUNT; i++) assert_true(host[i] == 6 * (float)i);
    assert_ok(device->memory->copy_out(device, host, x, sizeof host));
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < COUNT; i++) assert_true(host[i] == (float)i);
    device->memory->release(device, x);
    device->memory->release(device, y);
}

static void kernels_take_addresses_inside_a_block(void **state) {
    mst_device *device = *state;
    float host[2 * COUNT] = {0};
    host[COUNT] = 7;
    float *block = allocate(device, sizeof host);
    assert_ok(device->memory->copy_in(device, block, host, sizeof host));
    assert_ok(contract_launch_scale(device, block, block + COUNT, COUNT, 1));
    assert_ok(device->memory->copy_out(device, host, block, sizeof host));
    assert_ok(device->table->synchronize(device));
    assert_true(host[0] == 7);
    assert_true(host[1] == 0);
    device->memory->release(device, block);
}

static void kernels_take_blocks_of_threads(void **state) {
    mst_device *device = *state;
    enum { ROWS = 50, ELEMENTS = 1000 };
    static float host[ROWS * ELEMENTS];
    float sums[ROWS];
    for (int i = 0; i < ROWS * ELEMENTS; i++) host[i] = (float)(i / ELEMENTS);
    void *from = allocate(device, sizeof host), *to = allocate(device, sizeof sums);
    contract_parameters parameters = {.count = ROWS, .from = from, .to = to, .factor = 2};
    assert_ok(device->memory->copy_in(device, from, host, sizeof host));
    assert_ok(device->code->launch(device, &contract_row_sums_kernel, ROWS, &parameters, sizeof parameters));
    assert_ok(device->memory->copy_out(device, sums, to, sizeof sums));
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < ROWS; i++) assert_true(sums[i] == (float)(2 * i * ELEMENTS));
    device->memory->release(device, from);
    device->memory->release(device, to);
}

static void more_work_than_any_queue_holds(void **state) {
    mst_device *device = *state;
    float ones[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    float *x = allocate(device, sizeof ones);
    assert_ok(device->memory->copy_in(device, x, ones, sizeof ones));
    /* every third launch doubles, the others multiply by 4 and by 1/4 */
    for (int i = 0; i < 300; i++) assert_ok(contract_launch_scale(device, x, x, COUNT, i % 3 == 0 ? 2 : i % 3 == 1 ? 4 : 0.25f));
    assert_ok(device->memory->copy_out(device, out, x, sizeof out));
    assert_ok(device->table->synchronize(device));
    for (int i = 0; i < COUNT; i++) assert_true(out[i] == 0x1p100f);
    device->memory->release(device, x);
}

static void work_of_no_elements_is_legal(void **state) {
    mst_device *device = *state;
    assert_ok(contract_launch_scale(device, NULL, NULL, 0, 1));
    assert_ok(device->table->synchronize(device));
}

static void parameters_that_are_too_long_are_refused(void **state) {
    mst_device *device = *state;
    static char parameters[MST_CODE_PARAMETERS_MAX + 1];
    assert_refused(device->code->launch(device, &contract_scale_kernel, 1, parameters, sizeof parameters), MUSTER_INTERNAL,
                   "at most 2048 bytes of parameters, received 2049");
}

static void steady_work_allocates_nothing(void **state) {
    mst_device *device = *state;
    int32_t host[COUNT] = {0};
    int32_t *block = allocate(device, sizeof host);
    int64_t before = mst_memory_count();
    for (int i = 0; i < 100; i++) {
        assert_ok(device->memory->copy_in(device, block, host, sizeof host));
        assert_ok(device->memory->copy_out(device, host, block, sizeof host));
        assert_ok(device->table->synchronize(device));
    }
    assert_int_equal(mst_memory_count(), before);
    device->memory->release(device, block);
}

static void events_order_two_queues(void **state) {
    mst_device *device = *state;
    enum { ROUNDS = 50 };
    static int32_t in[ROUNDS], out[ROUNDS];
    mst_device_event *copied = NULL, *used = NULL;
    int32_t *block = allocate(device, sizeof *block);
    assert_ok(mst_device_event_create(device, &copied));
    assert_ok(mst_device_event_create(device, &used));
    const int64_t before = mst_memory_count();
    for (int32_t i = 0; i < ROUNDS; i++) {
        in[i] = 3 * i + 1;
        assert_ok(mst_device_event_wait(device, MST_QUEUE_COPY, used));
        assert_ok(device->queue->copy_in_async(device, block, &in[i], sizeof *in));
        assert_ok(mst_device_event_record(copied, MST_QUEUE_COPY));
        assert_ok(mst_device_event_wait(device, MST_QUEUE_COMPUTE, copied));
        assert_ok(device->memory->copy_out(device, &out[i], block, sizeof *out));
        assert_ok(mst_device_event_record(used, MST_QUEUE_COMPUTE));
    }
    assert_ok(device->table->synchronize(device));
    assert_int_equal(mst_memory_count(), before);
    for (int32_t i = 0; i < ROUNDS; i++) assert_int_equal(out[i], 3 * i + 1);
    mst_device_event_destroy(copied);
    mst_device_event_destroy(used);
    device->memory->release(device, block);
}

static void an_event_is_over_once_its_work_is_done(void **state) {
    mst_device *device = *state;
    char in = 1;
    bool done = false;
    mst_device_event *event = NULL;
    char *block = allocate(device, 1);
    assert_ok(mst_device_event_create(device, &event));
    assert_ok(mst_device_event_query(event, &done));
    assert_true(done); /* never recorded */
    assert_ok(device->memory->copy_in(device, block, &in, 1));
    assert_ok(mst_device_event_record(event, MST_QUEUE_COMPUTE));
    for (done = false; !done;) assert_ok(mst_device_event_query(event, &done));
    assert_ok(device->queue->poll(device, &done));
    assert_true(done); /* nothing was issued after it */
    mst_device_event_destroy(event);
    device->memory->release(device, block);
}

static void every_allocation_of_open_can_fail(void **state) {
    mst_device *device = *state, *other = NULL;
    int64_t live = mst_memory_live();
    int32_t k = 1;
    for (;; k++) {
        mst_memory_fail_at(k);
        muster_status status = device->table->open(device->table, second_id, &other);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) break;
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        assert_null(other);
        assert_int_equal(mst_memory_live(), live);
    }
    assert_true(k > 1);
    device->table->close(other);
    assert_int_equal(mst_memory_live(), live);
}

#define CASE(test) \
    { #test, test, open_function, close_device, NULL }

static int run_suite(const char *name, CMFixtureFunction open_function) {
    const struct CMUnitTest tests[] = {
        CASE(it_has_a_name_and_no_cpu),    CASE(it_refuses_an_ordinal_that_is_none), CASE(blocks_are_aligned_and_distinct),
        CASE(it_refuses_impossible_sizes), CASE(a_failed_allocation_leaves_nothing), CASE(bytes_travel_in_across_and_out),
        CASE(copies_of_nothing_are_legal), CASE(steady_work_allocates_nothing),      CASE(every_allocation_of_open_can_fail),
    };
    print_message("device %s\n", name);
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

static int run_events(const char *name, CMFixtureFunction open_function) {
    const struct CMUnitTest tests[] = {CASE(events_order_two_queues), CASE(an_event_is_over_once_its_work_is_done)};
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

/* Kernels of the device code. */
static int run_launches(const char *name, CMFixtureFunction open_function) {
    const struct CMUnitTest tests[] = {
        CASE(kernels_run_in_the_order_of_issue), CASE(kernels_take_addresses_inside_a_block),
        CASE(kernels_take_blocks_of_threads),    CASE(more_work_than_any_queue_holds),
        CASE(work_of_no_elements_is_legal),      CASE(parameters_that_are_too_long_are_refused),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) {
    const char *backend = getenv("MUSTER_TEST_BACKEND"); /* "cuda": of the libraries that the machine has */
    contract_add();
    if (getenv("MUSTER_CUDA_LIBRARIES") || (backend && strcmp(backend, "cuda") == 0)) {
        first_id = second_id = "0";
        return run_suite("cuda", open_cuda) + run_events("cuda", open_cuda) + run_launches("cuda", open_cuda);
    }
    if (backend && *backend) {
        const mst_device_table *table = mst_device_find(backend);
        return run_suite(backend, open_named) + (table && table->queue ? run_events(backend, open_named) : 0) +
               (table && table->code ? run_launches(backend, open_named) : 0);
    }
    int failed = run_suite("host", open_host);
    failed += run_suite("discrete", open_discrete) + run_events("discrete", open_discrete) + run_launches("discrete", open_discrete);
    if (mst_discrete_launches("contract_scale") == 0 || mst_discrete_launches("contract_row_sums") == 0) failed++;
    return failed;
}
