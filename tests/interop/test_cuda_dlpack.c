/* DLPack between GPUs: its devices are ordinals of GPUs, Muster's are ranks of the runtime. Rank 0
 * and rank 2 are virtual devices of GPU 1, rank 1 is GPU 0, and GPU 2 is not in the runtime. */
#include "muster/dlpack.h"

#include "../device/cuda_fixture.h"

static muster_runtime *opened_runtime(const char *devices) {
    muster_runtime *runtime;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static void ranks_become_ordinals_and_back(void **state) {
    (void)state;
    static const int32_t ordinals[] = {1, 0, 1}, first_ranks[] = {0, 1, 0};
    new_machine(&(muster_sim_options){.devices = 3, .longest_delay = 20});
    muster_runtime *runtime = opened_runtime("cuda@1+0+1");
    for (int32_t rank = 0; rank < 3; rank++) {
        muster_tensor t, back;
        muster_dlpack_versioned *managed;
        muster_dlpack *handle;
        const char name[] = {(char)('0' + rank), 0};
        assert_ok(muster_runtime_tensor_create(runtime, name, MUSTER_F32, 2, (int64_t[]){3, 5}, &t));
        const muster_tensor part = muster_tensor_transpose(muster_tensor_slice(t, 1, 3));
        assert_ok(muster_dlpack_export(runtime, part, 0, NULL, NULL, &managed));
        assert_int_equal(managed->tensor.device_type, 2);
        assert_int_equal(managed->tensor.device_id, ordinals[rank]);
        assert_ptr_equal(managed->tensor.data, (char *)t.data + t.byte_offset + 20);
        assert_ok(muster_dlpack_import(runtime, managed, &back, &handle));
        assert_int_equal(back.device, first_ranks[rank]);
        assert_true(back.shape[0] == 5 && back.shape[1] == 2 && back.strides[0] == 1 && back.strides[1] == 5);
        assert_ptr_equal(muster_tensor_address(back), muster_tensor_address(part));
        muster_dlpack_release(handle);
    }
    assert_ok(muster_runtime_close(runtime));
    check_machine();
}

static void a_gpu_that_the_runtime_lacks_is_refused(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 3, .longest_delay = 20});
    muster_runtime *runtime = opened_runtime("cuda@1+0"), *host = opened_runtime("host:2");
    muster_tensor t, back;
    muster_dlpack_versioned *managed;
    muster_dlpack *handle;
    assert_ok(muster_runtime_tensor_create(runtime, "0", MUSTER_F32, 1, (int64_t[]){4}, &t));
    assert_refused(muster_dlpack_export(NULL, t, 0, NULL, NULL, &managed), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_ok(muster_dlpack_export(runtime, t, 0, NULL, NULL, &managed));
    static const int32_t absent[] = {-1, 2, 3};
    for (int i = 0; i < 3; i++) {
        managed->tensor.device_id = absent[i];
        assert_refused(muster_dlpack_import(runtime, managed, &back, &handle), MUSTER_INVALID_ARGUMENT, "expected a GPU of the runtime");
        assert_int_equal(back.dtype, MUSTER_DTYPE_NONE);
        assert_null(handle);
    }
    managed->tensor.device_id = 1;
    assert_refused(muster_dlpack_import(host, managed, &back, &handle), MUSTER_INVALID_ARGUMENT, "received the GPU 1");
    assert_refused(muster_dlpack_import(NULL, managed, &back, &handle), MUSTER_INVALID_ARGUMENT, "received NULL");
    managed->deleter(managed);
    assert_ok(muster_runtime_close(host));
    assert_ok(muster_runtime_close(runtime));
    check_machine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_become_ordinals_and_back),
        cmocka_unit_test(a_gpu_that_the_runtime_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
