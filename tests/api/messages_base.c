/* Rows of status.h, allocator.h, tensor.h, dtype.h, buffer.h and dlpack.h. */
#include "messages.h"

#include <math.h>

static void *no_memory(void *user, size_t bytes, size_t alignment) {
    (void)user, (void)bytes, (void)alignment;
    return NULL;
}
static void no_release(void *user, void *block, size_t bytes, size_t alignment) { (void)user, (void)block, (void)bytes, (void)alignment; }

static void allocators(void) {
    const muster_allocator_options old = {.struct_size = 3}, half = {.struct_size = sizeof half, .allocate = no_memory},
                                   other_half = {.struct_size = sizeof half, .release = no_release},
                                   none = {.struct_size = sizeof none, .allocate = no_memory, .release = no_release};
    muster_allocator_options_init_sized(NULL, 8);
    GIVES(muster_allocator_options_init_sized, true);
    REFUSE(INVALID_ARGUMENT, "options", muster_allocator_set, &old);
    REFUSE(INVALID_ARGUMENT, "release", muster_allocator_set, &half);
    REFUSE(INVALID_ARGUMENT, "allocate", muster_allocator_set, &other_half);
    REFUSE(OUT_OF_MEMORY, "allocate", muster_allocator_set, &none);
    REFUSE(BAD_STATE, "memory", muster_allocator_set, NULL); /* the runtimes of these rows are open */
}

void messages_base(void) {
    allocators();
    GIVES(muster_last_error, muster_last_error() != NULL);
    GIVES(muster_last_error_copy, muster_last_error_copy(NULL, 0) >= 0);
    GIVES(muster_status_name, strcmp(muster_status_name(-1), "UNKNOWN") == 0);
    GIVES(muster_status_name, strcmp(muster_status_name(18), "UNKNOWN") == 0);
    GIVES(muster_fail, muster_fail(MUSTER_OK, NULL) == MUSTER_USER);
    muster_must(MUSTER_OK, NULL, 0);
    GIVES(muster_must, true);
    GIVES(muster_version, muster_version() > 0);
    GIVES(muster_constant, muster_constant(NULL) == INT64_MIN);
    GIVES(muster_constant, muster_constant("MUSTER_NOTHING") == INT64_MIN);
    GIVES(muster_dtype_size, muster_dtype_size(-1) == 0);
    GIVES(muster_dtype_size, muster_dtype_size(99) == 0);
    GIVES(muster_dtype_name, muster_dtype_name(99) != NULL);
    GIVES(muster_f16_to_f32, muster_f16_to_f32(0x3c00) == 1);
    GIVES(muster_f32_to_f16, muster_f32_to_f16(1) == 0x3c00);
    GIVES(muster_bf16_to_f32, muster_bf16_to_f32(0x3f80) == 1);
    GIVES(muster_f32_to_bf16, muster_f32_to_bf16(1) == 0x3f80);
    uint32_t block[4] = {0};
    muster_philox4x32((const uint32_t[4]){0}, (const uint32_t[2]){0}, block);
    GIVES(muster_philox4x32, block[0] == 0x6627e8d5);
}

static bool is_none(muster_tensor tensor) { return tensor.dtype == MUSTER_DTYPE_NONE; }

static void views(void) {
    float values[2][3] = {{0}};
    const muster_tensor matrix = muster_f32(values, 2, 3), turned = muster_tensor_transpose(matrix);
    const int64_t seven = 7;
    const int32_t twice[2] = {1, 1}, beyond[2] = {0, 2};
    GIVES(muster_tensor_make, muster_tensor_make(MUSTER_F32, values, -1, NULL).ndim == -1);
    GIVES(muster_tensor_make, muster_tensor_make(MUSTER_F32, values, 9, NULL).ndim == -1);
    GIVES(muster_tensor_none, is_none(muster_tensor_none()));
    GIVES(muster_tensor_count, muster_tensor_count(muster_tensor_make(MUSTER_F32, values, 9, NULL)) == 0);
    GIVES(muster_tensor_rows, muster_tensor_rows(muster_tensor_make(MUSTER_F32, values, 9, NULL)) == 0);
    GIVES(muster_tensor_slice, is_none(muster_tensor_slice(muster_f32(values), 0, 1)));
    GIVES(muster_tensor_reshape, is_none(muster_tensor_reshape(matrix, 1, &seven)));
    GIVES(muster_tensor_reshape, is_none(muster_tensor_reshape(matrix, 1, NULL)));
    GIVES(muster_tensor_reshape, is_none(muster_tensor_reshape(turned, 2, turned.shape)));
    GIVES(muster_tensor_transpose, turned.shape[0] == 3 && turned.shape[1] == 2);
    GIVES(muster_tensor_slice_axis, is_none(muster_tensor_slice_axis(matrix, -1, 0, 1)));
    GIVES(muster_tensor_slice_axis, is_none(muster_tensor_slice_axis(matrix, 2, 0, 1)));
    GIVES(muster_tensor_slice_axis, is_none(muster_tensor_slice_axis(matrix, 1, -1, 1)));
    GIVES(muster_tensor_slice_axis, is_none(muster_tensor_slice_axis(matrix, 1, 2, 1)));
    GIVES(muster_tensor_slice_axis, is_none(muster_tensor_slice_axis(matrix, 1, 0, 4)));
    GIVES(muster_tensor_permute, is_none(muster_tensor_permute(matrix, NULL)));
    GIVES(muster_tensor_permute, is_none(muster_tensor_permute(matrix, twice)));
    GIVES(muster_tensor_permute, is_none(muster_tensor_permute(matrix, beyond)));
    GIVES(muster_tensor_squeeze, is_none(muster_tensor_squeeze(matrix, 0)));
    GIVES(muster_tensor_squeeze, is_none(muster_tensor_squeeze(matrix, -2)));
    GIVES(muster_tensor_squeeze, is_none(muster_tensor_squeeze(matrix, 2)));
    GIVES(muster_tensor_broadcast, is_none(muster_tensor_broadcast(matrix, 1, &seven)));
    GIVES(muster_tensor_broadcast, is_none(muster_tensor_broadcast(matrix, 2, NULL)));
    GIVES(muster_tensor_is_contiguous, muster_tensor_is_contiguous(turned) == 0);
    GIVES(muster_tensor_bytes, muster_tensor_bytes(muster_tensor_none()) == 0);
    GIVES(muster_tensor_address, muster_tensor_address(muster_tensor_none()) == NULL);
}

static void printing(void) {
    float value = 0;
    char text[32];
    void *data;
    const muster_tensor scalar = muster_f32(&value);
    muster_tensor reserved = scalar;
    reserved.reserved[1] = 1;
    REFUSE(INVALID_ARGUMENT, "tensor", muster_tensor_print, reserved, text, sizeof text, NULL);
    REFUSE(INVALID_ARGUMENT, "text", muster_tensor_print, scalar, NULL, 8, NULL);
    REFUSE(INVALID_ARGUMENT, "size", muster_tensor_print, scalar, text, -1, NULL);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_tensor_data, reserved, MUSTER_F32, &data);
    REFUSE(DTYPE_MISMATCH, "tensor", muster_tensor_data, scalar, MUSTER_I8, &data);
    REFUSE(INVALID_ARGUMENT, "data", muster_tensor_data, scalar, MUSTER_F32, NULL);
}

static void buffers(void) {
    float values[2] = {0};
    double wide[2] = {0};
    muster_buffer *buffer, *scalar, *unused;
    const int64_t two = 2, negative = -1;
    muster_tensor elsewhere = muster_f32(values, 2);
    elsewhere.device = 3;
    assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &buffer));
    assert_ok(muster_buffer_create(MUSTER_F32, 0, 1, &scalar));
    REFUSE(INVALID_ARGUMENT, "dtype", muster_buffer_create, 99, 1, 1, &unused);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_buffer_create, MUSTER_F32, -1, 1, &unused);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_buffer_create, MUSTER_F32, 9, 1, &unused);
    REFUSE(INVALID_ARGUMENT, "oversize", muster_buffer_create, MUSTER_F32, 1, 0.5, &unused);
    REFUSE(INVALID_ARGUMENT, "oversize", muster_buffer_create, MUSTER_F32, 1, 2.5, &unused);
    REFUSE(INVALID_ARGUMENT, "oversize", muster_buffer_create, MUSTER_F32, 1, NAN, &unused);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_buffer_create, MUSTER_F32, 1, 1, NULL);
    GIVES(muster_buffer_tensor, is_none(muster_buffer_tensor(NULL)));
    GIVES(muster_buffer_capacity, muster_buffer_capacity(NULL) == 0);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_buffer_set_value, NULL, muster_f32(values, 2), MUSTER_CAST_SAFE);
    REFUSE(INVALID_ARGUMENT, "value", muster_buffer_set_value, buffer, muster_tensor_none(), MUSTER_CAST_SAFE);
    REFUSE(INVALID_ARGUMENT, "value", muster_buffer_set_value, buffer, elsewhere, MUSTER_CAST_SAFE);
    REFUSE(SHAPE_MISMATCH, "value", muster_buffer_set_value, buffer, muster_f32(values), MUSTER_CAST_SAFE);
    REFUSE(DTYPE_MISMATCH, "value", muster_buffer_set_value, buffer, muster_f64(wide, 2), MUSTER_CAST_SAFE);
    REFUSE(INVALID_ARGUMENT, "cast", muster_buffer_set_value, buffer, muster_f32(values, 2), 2);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_buffer_set_length, NULL, 2);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_buffer_set_length, scalar, 2);
    REFUSE(INVALID_ARGUMENT, "length", muster_buffer_set_length, buffer, -1);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_buffer_set_shape, NULL, 1, &two);
    REFUSE(SHAPE_MISMATCH, "ndim", muster_buffer_set_shape, buffer, 2, &two);
    REFUSE(INVALID_ARGUMENT, "shape", muster_buffer_set_shape, buffer, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "shape", muster_buffer_set_shape, buffer, 1, &negative);
    muster_buffer_free_memory(NULL);
    GIVES(muster_buffer_free_memory, muster_buffer_capacity(buffer) == 0);
    muster_buffer_destroy(NULL);
    GIVES(muster_buffer_destroy, true);
    muster_buffer_destroy(buffer);
    muster_buffer_destroy(scalar);
}

static void dlpack(void) {
    float value = 0;
    const muster_tensor scalar = muster_f32(&value);
    muster_tensor elsewhere = scalar, tensor;
    muster_dlpack_versioned *versioned, wrong = {.major = 2},
                                        odd = {.major = 1, .tensor = {.device_type = 1, .code = 9, .bits = 32, .lanes = 1}};
    muster_dlpack_unversioned *unversioned, strange = {.tensor = {.device_type = 77, .code = 2, .bits = 32, .lanes = 1}};
    muster_dlpack *handle;
    elsewhere.device = 3;
    REFUSE(INVALID_ARGUMENT, "tensor", muster_dlpack_export, NULL, muster_tensor_none(), 0, NULL, NULL, &versioned);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_dlpack_export, messages_of.runtime, elsewhere, 0, NULL, NULL, &versioned);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_dlpack_export, NULL, elsewhere, 0, NULL, NULL, &versioned);
    REFUSE(INVALID_ARGUMENT, "flags", muster_dlpack_export, NULL, scalar, 8, NULL, NULL, &versioned);
    REFUSE(INVALID_ARGUMENT, "managed", muster_dlpack_export, NULL, scalar, 0, NULL, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_dlpack_export_unversioned, NULL, muster_tensor_none(), NULL, NULL, &unversioned);
    REFUSE(INVALID_ARGUMENT, "managed", muster_dlpack_export_unversioned, NULL, scalar, NULL, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "managed", muster_dlpack_import, NULL, NULL, &tensor, &handle);
    REFUSE(UNSUPPORTED, "managed", muster_dlpack_import, NULL, &wrong, &tensor, &handle);
    REFUSE(UNSUPPORTED, "managed", muster_dlpack_import, NULL, &odd, &tensor, &handle);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_dlpack_import, NULL, &odd, NULL, &handle);
    REFUSE(INVALID_ARGUMENT, "handle", muster_dlpack_import, NULL, &odd, &tensor, NULL);
    REFUSE(INVALID_ARGUMENT, "managed", muster_dlpack_import_unversioned, NULL, NULL, &tensor, &handle);
    REFUSE(UNSUPPORTED, "managed", muster_dlpack_import_unversioned, NULL, &strange, &tensor, &handle);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_dlpack_import_unversioned, NULL, &strange, NULL, &handle);
    REFUSE(INVALID_ARGUMENT, "handle", muster_dlpack_import_unversioned, NULL, &strange, &tensor, NULL);
    GIVES(muster_dlpack_flags, muster_dlpack_flags(NULL) == 0);
    muster_dlpack_release(NULL);
    GIVES(muster_dlpack_release, true);
}

void messages_tensors(void) {
    views();
    printing();
    buffers();
    dlpack();
}
