/* Devices by name, tensors where they are, and host memory that kernels write in place. */
#include "base_skip.h"
#include "kernel_fixture.h"

static muster_runtime *runtime;

static int open_all(void **state) {
    (void)state;
    runtime = kernel_open("host:2");
    return 0;
}
static int close_all(void **state) {
    (void)state;
    fixture_close(runtime);
    return 0;
}

#define FILL(tensor, count, value) \
    ARGUMENTS(muster_argument_buffer(tensor), muster_argument_size(count), muster_argument_int(MUSTER_I32, value))

static void a_call_runs_where_its_tensors_are(void **state) {
    (void)state;
    assert_ok(muster_runtime_name_device(runtime, "left", 0));
    assert_ok(muster_runtime_name_device(runtime, "right", 1));
    muster_kernel *fill = kernel_make(runtime, "fill"), *add = kernel_make(runtime, "add_u32");
    for (int32_t rank = 0; rank < 2; rank++) {
        int32_t values[10];
        kernel_array x = kernel_put(runtime, rank, MUSTER_I32, 10, NULL);
        assert_ok(muster_kernel_call_elements(fill, 10, 0, FILL(x.view, 10, 30 + rank)));
        kernel_get(&x, values);
        for (int i = 0; i < 10; i++) assert_int_equal(values[i], 30 + rank);
        kernel_drop(&x);
    }
    kernel_array a = kernel_put(runtime, 0, MUSTER_U32, 4, NULL), b = kernel_put(runtime, 1, MUSTER_U32, 4, NULL);
    assert_refused(muster_kernel_call_elements(add, 4, 0,
                                               ARGUMENTS(muster_argument_buffer(a.view), muster_argument_buffer(a.view),
                                                         muster_argument_buffer(b.view), muster_argument_size(4))),
                   MUSTER_INVALID_ARGUMENT, "muster_kernel_call_elements: kernel 'add_u32': arguments[2]: ");
    assert_non_null(strstr(muster_last_error(), "'left'"));
    assert_non_null(strstr(muster_last_error(), "'right'"));
    assert_non_null(strstr(muster_last_error(), "where arguments[0] is"));
    assert_non_null(strstr(muster_last_error(), "muster_runtime_tensor_copy"));
    kernel_drop(&a);
    kernel_drop(&b);
    assert_ok(muster_kernel_destroy(fill));
    assert_ok(muster_kernel_destroy(add));
}

/* Without tensors: on the default device; the name of one that does not exist is refused with those
 * that do. */
static void without_tensors_the_default_device_serves(void **state) {
    (void)state;
    muster_kernel *kernel = kernel_make(runtime, "no_parameters");
    int32_t rank;
    assert_ok(muster_runtime_set_default_device(runtime, "1"));
    assert_ok(muster_runtime_infer_device(runtime, NULL, 0, &rank));
    assert_int_equal(rank, 1);
    assert_ok(muster_kernel_call_elements(kernel, 3, 0, NULL, 0));
    assert_ok(muster_runtime_set_default_device(runtime, "0"));
    assert_refused(muster_runtime_set_default_device(runtime, "middle"), MUSTER_INVALID_ARGUMENT, muster_runtime_device(runtime, 1));
    assert_ok(muster_kernel_destroy(kernel));
}

/* Zero copy: what a kernel writes is in the caller's memory, also behind an offset of a few
 * bytes. */
static void host_memory_is_written_in_place(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: GPUs do not write the host's memory");
    int32_t memory[20];
    memset(memory, 0, sizeof memory);
    muster_kernel *fill = kernel_make(runtime, "fill");
    assert_ok(muster_kernel_call_elements(fill, 20, 0, FILL(muster_i32(memory, 20), 20, 1)));
    for (int i = 0; i < 20; i++) assert_int_equal(memory[i], 1);
    assert_ok(muster_kernel_call_elements(fill, 5, 0, FILL(muster_i32(memory + 3, 5), 5, 2)));
    for (int i = 0; i < 20; i++) assert_int_equal(memory[i], i >= 3 && i < 8 ? 2 : 1);
    assert_ok(muster_kernel_destroy(fill));
}

static void gpus_do_not_take_host_memory(void **state) {
    (void)state;
    if (!on_gpus()) SKIP("on GPUs only");
    int32_t memory[4] = {0};
    muster_kernel *fill = kernel_make(runtime, "fill");
    assert_refused(muster_kernel_call_elements(fill, 4, 0, FILL(muster_i32(memory, 4), 4, 1)), MUSTER_INVALID_ARGUMENT,
                   ", received host memory; muster_worker_write or muster_runtime_tensor_copy");
    assert_ok(muster_kernel_destroy(fill));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_runs_where_its_tensors_are),
        cmocka_unit_test(without_tensors_the_default_device_serves),
        cmocka_unit_test(host_memory_is_written_in_place),
        cmocka_unit_test(gpus_do_not_take_host_memory),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
