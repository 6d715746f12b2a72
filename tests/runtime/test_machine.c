/* muster/machine.h: libraries and thresholds without a runtime. tests/tools/info.py reads what
 * muster-info makes of them, in many environments. */
#include "base_check.h"
#include "muster/machine.h"
#include "muster/runtime.h"

#include <stdlib.h>

static void structs_are_filled_as_far_as_the_program_knows_them(void **state) {
    (void)state;
    muster_library_info info;
    memset(&info, 0x55, sizeof info);
    info.struct_size = offsetof(muster_library_info, work); /* an older header */
    assert_ok(muster_library_get_info(0, &info));
    assert_string_equal(info.name, "OpenBLAS");
    assert_int_equal(info.work[0], 0x55);
    muster_library_info_init(&info);
    assert_ok(muster_library_get_info(0, &info));
    assert_string_equal(info.work, "products of matrices on CPU devices");
    info.struct_size = 3;
    assert_refused(muster_library_get_info(0, &info), MUSTER_INVALID_ARGUMENT, "muster_library_get_info: info: ");
    muster_threshold_info threshold = {.struct_size = 3};
    assert_refused(muster_threshold_get_info(0, 0, &threshold), MUSTER_INVALID_ARGUMENT, "muster_threshold_get_info: info: ");
}

static void indices_out_of_range_are_refused(void **state) {
    (void)state;
    muster_library_info library;
    muster_threshold_info threshold;
    muster_library_info_init(&library);
    muster_threshold_info_init(&threshold);
    assert_int_equal(muster_library_count(), 10);
    assert_int_equal(muster_threshold_count(), 3);
    assert_refused(muster_library_get_info(-1, &library), MUSTER_OUT_OF_RANGE,
                   "muster_library_get_info: index: expected 0 to 9, received -1");
    assert_refused(muster_library_get_info(10, &library), MUSTER_OUT_OF_RANGE, "expected 0 to 9, received 10");
    assert_refused(muster_threshold_get_info(0, -1, &threshold), MUSTER_OUT_OF_RANGE,
                   "muster_threshold_get_info: index: expected 0 to 2, received -1");
    assert_refused(muster_threshold_get_info(0, 3, &threshold), MUSTER_OUT_OF_RANGE, "expected 0 to 2, received 3");
    assert_refused(muster_threshold_get_info(muster_device_count(), 0, &threshold), MUSTER_OUT_OF_RANGE, "muster_device_get_info: index: ");
    assert_refused(muster_library_get_info(0, NULL), MUSTER_INVALID_ARGUMENT, "info: expected the address of a struct, received NULL");
    assert_refused(muster_threshold_get_info(0, 0, NULL), MUSTER_INVALID_ARGUMENT, "info: expected the address of a struct, received NULL");
}

/* A library that is missing is no failure. */
static void the_last_error_of_the_thread_stays(void **state) {
    (void)state;
    assert_int_equal(muster_fail(MUSTER_USER, "from before"), MUSTER_USER);
    for (int32_t i = 0; i < muster_library_count(); i++) {
        muster_library_info info;
        muster_library_info_init(&info);
        assert_ok(muster_library_get_info(i, &info));
        assert_true(info.found ? info.path[0] != 0 : info.text[0] != 0);
        assert_string_equal(muster_last_error(), "from before");
    }
}

/* Asking for OpenBLAS opens and closes it as a runtime does, beside a runtime and without one. */
static void openblas_is_found_beside_a_runtime_too(void **state) {
    (void)state;
    muster_library_info before, beside;
    muster_runtime *runtime;
    muster_library_info_init(&before);
    muster_library_info_init(&beside);
    assert_ok(muster_library_get_info(0, &before));
    assert_ok(muster_runtime_open(&(muster_runtime_options){.struct_size = sizeof(muster_runtime_options), .devices = "host:2"}, &runtime));
    assert_ok(muster_library_get_info(0, &beside));
    assert_memory_equal(&before, &beside, sizeof before);
    assert_true(test_says(muster_runtime_description(runtime), beside.text));
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    setenv("MUSTER_CUDA_LIBRARIES", "/nowhere", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_are_filled_as_far_as_the_program_knows_them),
        cmocka_unit_test(indices_out_of_range_are_refused),
        cmocka_unit_test(the_last_error_of_the_thread_stays),
        cmocka_unit_test(openblas_is_found_beside_a_runtime_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
