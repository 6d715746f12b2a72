/* DLPack, both ways, in host memory. The oracle is the byte layout of DLPack 1.0, written down here
 * a second time: 8-byte pointers, little endian. */
#include "muster/dlpack.h"

#include "base_check.h"
#include "memory_impl.h"

#include <stdio.h>
#include <stdlib.h>

/* Where DLManagedTensorVersioned and DLManagedTensor have their fields. */
enum { MAJOR = 0, MINOR = 4, CONTEXT = 8, DELETER = 16, FLAGS = 24, VERSIONED = 32, OLD_CONTEXT = 48, OLD_DELETER = 56 };
enum { DATA = 0, TYPE = 8, ID = 12, NDIM = 16, CODE = 20, BITS = 21, LANES = 22, SHAPE = 24, STRIDES = 32, OFFSET = 40 };

static void *field(const void *base, int offset) { return (char *)(uintptr_t)base + offset; }
#define FIELD(type, base, offset) (*(type *)field(base, offset))

typedef void (*delete_hook)(void *self);

static int released, deleted;
static void *released_owner;
static void release(void *owner) {
    released++;
    released_owner = owner;
}

typedef struct kind {
    muster_dtype dtype;
    uint8_t code, bits;
} kind;
static const kind kinds[] = {{MUSTER_F16, 2, 16}, {MUSTER_BF16, 4, 16}, {MUSTER_F32, 2, 32}, {MUSTER_F64, 2, 64},
                             {MUSTER_I8, 0, 8},   {MUSTER_U8, 1, 8},    {MUSTER_I16, 0, 16}, {MUSTER_I32, 0, 32},
                             {MUSTER_I64, 0, 64}, {MUSTER_U32, 1, 32},  {MUSTER_U64, 1, 64}, {MUSTER_BOOL, 6, 8}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double cells[64];
static void *const memory = cells;

/* rows 1 to 3, every second column, of a 4 x 6 array */
static muster_tensor strided(muster_dtype dtype) {
    muster_tensor t = muster_tensor_slice(muster_tensor_make(dtype, memory, 2, (int64_t[]){4, 6}), 1, 3);
    t.shape[1] = 3;
    t.strides[1] = 2;
    return t;
}

static void assert_view(const void *tensor, kind k) {
    assert_ptr_equal(FIELD(char *, tensor, DATA) + FIELD(uint64_t, tensor, OFFSET), (char *)memory + 6 * k.bits / 8);
    assert_int_equal(FIELD(uint64_t, tensor, OFFSET), 0); /* which not every library reads */
    assert_int_equal(FIELD(int32_t, tensor, TYPE), 1);
    assert_int_equal(FIELD(int32_t, tensor, ID), 0);
    assert_int_equal(FIELD(int32_t, tensor, NDIM), 2);
    assert_int_equal(FIELD(uint8_t, tensor, CODE), k.code);
    assert_int_equal(FIELD(uint8_t, tensor, BITS), k.bits);
    assert_int_equal(FIELD(uint16_t, tensor, LANES), 1);
    const int64_t *shape = FIELD(int64_t *, tensor, SHAPE), *strides = FIELD(int64_t *, tensor, STRIDES);
    assert_true(shape[0] == 2 && shape[1] == 3 && strides[0] == 6 && strides[1] == 2);
}

static void an_exported_struct_has_the_layout_of_dlpack(void **state) {
    (void)state;
    assert_int_equal(KINDS, 12);
    for (int i = 0; i < KINDS; i++)
        for (uint64_t flags = 0; flags < 4; flags++) {
            muster_dlpack_versioned *managed;
            released = 0;
            assert_ok(muster_dlpack_export(NULL, strided(kinds[i].dtype), flags, release, &released, &managed));
            assert_int_equal(FIELD(uint32_t, managed, MAJOR), 1);
            assert_int_equal(FIELD(uint32_t, managed, MINOR), 0);
            assert_int_equal(FIELD(uint64_t, managed, FLAGS), flags);
            assert_view((char *)managed + VERSIONED, kinds[i]);
            assert_int_equal(released, 0);
            delete_hook deleter = FIELD(delete_hook, managed, DELETER);
            deleter(managed);
            assert_int_equal(released, 1);
            assert_ptr_equal(released_owner, &released);

            muster_dlpack_unversioned *old;
            assert_ok(muster_dlpack_export_unversioned(NULL, strided(kinds[i].dtype), release, NULL, &old));
            assert_view(old, kinds[i]);
            deleter = FIELD(delete_hook, old, OLD_DELETER);
            deleter(old);
            assert_int_equal(released, 2);
            assert_null(released_owner);
        }
    assert_int_equal(mst_memory_live(), 0);
}

static void an_export_without_a_hook_or_elements_is_fine(void **state) {
    (void)state;
    muster_dlpack_versioned *managed;
    assert_ok(muster_dlpack_export(NULL, muster_f32(memory, 0, 5), 0, NULL, NULL, &managed));
    assert_null(FIELD(void *, managed, VERSIONED + DATA));
    assert_int_equal(FIELD(int64_t *, managed, VERSIONED + SHAPE)[1], 5);
    managed->deleter(managed);
    assert_ok(muster_dlpack_export(NULL, muster_f32(memory), 0, NULL, NULL, &managed));
    assert_int_equal(FIELD(int32_t, managed, VERSIONED + NDIM), 0);
    managed->deleter(managed);
    assert_int_equal(mst_memory_live(), 0);
}

static void a_refused_export_releases_nothing(void **state) {
    (void)state;
    muster_dlpack_versioned *managed;
    muster_dlpack_unversioned *old;
    muster_tensor placed = muster_f32(memory, 3);
    placed.device = 0;
    released = 0;
    assert_refused(muster_dlpack_export(NULL, muster_f32(memory, 3), 0, release, NULL, NULL), MUSTER_INVALID_ARGUMENT, "managed");
    assert_refused(muster_dlpack_export_unversioned(NULL, muster_f32(memory, 3), release, NULL, NULL), MUSTER_INVALID_ARGUMENT, "managed");
    managed = (void *)memory;
    assert_refused(muster_dlpack_export(NULL, muster_tensor_none(), 0, release, NULL, &managed), MUSTER_INVALID_ARGUMENT, "received none");
    assert_null(managed);
    assert_refused(muster_dlpack_export(NULL, muster_f32(NULL, 3), 0, release, NULL, &managed), MUSTER_INVALID_ARGUMENT, "tensor");
    assert_refused(muster_dlpack_export(NULL, muster_f32(memory, 3), 4, release, NULL, &managed), MUSTER_INVALID_ARGUMENT, "received 0x4");
    assert_refused(muster_dlpack_export(NULL, placed, 0, release, NULL, &managed), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_refused(muster_dlpack_export_unversioned(NULL, placed, release, NULL, &old), MUSTER_INVALID_ARGUMENT, "received NULL");
    mst_memory_fail_at(1);
    assert_int_equal(muster_dlpack_export(NULL, muster_f32(memory, 3), 0, release, NULL, &managed), MUSTER_OUT_OF_MEMORY);
    assert_int_equal(released, 0);
    assert_int_equal(mst_memory_live(), 0);
}

static void a_tensor_of_a_host_device_is_host_memory(void **state) {
    (void)state;
    muster_runtime *runtime;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    assert_ok(muster_runtime_open(&options, &runtime));
    muster_tensor t;
    muster_dlpack_versioned *managed;
    assert_ok(muster_runtime_tensor_create(runtime, "1", MUSTER_F64, 1, (int64_t[]){4}, &t));
    assert_ok(muster_dlpack_export(runtime, t, 0, NULL, NULL, &managed));
    assert_int_equal(FIELD(int32_t, managed, VERSIONED + TYPE), 1);
    assert_int_equal(FIELD(int32_t, managed, VERSIONED + ID), 0);
    assert_ptr_equal(FIELD(void *, managed, VERSIONED + DATA), muster_tensor_address(t));
    managed->deleter(managed);
    t.device = 2;
    assert_refused(muster_dlpack_export(runtime, t, 0, NULL, NULL, &managed), MUSTER_INVALID_ARGUMENT,
                   "expected a rank below 2, received 2");
    t.device = -2;
    assert_refused(muster_dlpack_export(runtime, t, 0, NULL, NULL, &managed), MUSTER_INVALID_ARGUMENT,
                   "expected a rank below 2, received -2");
    assert_ok(muster_runtime_close(runtime));
}

/* ---- import: a struct of another library, made byte by byte ---- */

static int64_t foreign_shape[9] = {2, 3}, foreign_strides[9] = {6, 2};
static uint64_t foreign[10], old_foreign[8];
static void deletes(void *self) {
    assert_true(self == (void *)foreign || self == (void *)old_foreign);
    deleted++;
}

static void *set_view(void *tensor, kind k) {
    FIELD(void *, tensor, DATA) = memory;
    FIELD(int32_t, tensor, TYPE) = 1;
    FIELD(int32_t, tensor, ID) = 0;
    FIELD(int32_t, tensor, NDIM) = 2;
    FIELD(uint8_t, tensor, CODE) = k.code;
    FIELD(uint8_t, tensor, BITS) = k.bits;
    FIELD(uint16_t, tensor, LANES) = 1;
    FIELD(int64_t *, tensor, SHAPE) = foreign_shape;
    FIELD(int64_t *, tensor, STRIDES) = foreign_strides;
    FIELD(uint64_t, tensor, OFFSET) = k.bits / 8u;
    return tensor;
}

static muster_dlpack_versioned *versioned_of(kind k, uint64_t flags) {
    FIELD(uint32_t, foreign, MAJOR) = 1;
    FIELD(uint32_t, foreign, MINOR) = 3;
    FIELD(void *, foreign, CONTEXT) = NULL;
    FIELD(delete_hook, foreign, DELETER) = deletes;
    FIELD(uint64_t, foreign, FLAGS) = flags;
    set_view((char *)foreign + VERSIONED, k);
    return (void *)foreign;
}

static muster_dlpack_unversioned *unversioned_of(kind k) {
    set_view(old_foreign, k);
    FIELD(void *, old_foreign, OLD_CONTEXT) = NULL;
    FIELD(delete_hook, old_foreign, OLD_DELETER) = deletes;
    return (void *)old_foreign;
}

static void assert_imported(muster_tensor t, kind k) {
    assert_int_equal(t.dtype, k.dtype);
    assert_int_equal(t.ndim, 2);
    assert_int_equal(t.device, MUSTER_DEVICE_HOST);
    assert_true(t.shape[0] == 2 && t.shape[1] == 3 && t.shape[2] == 0 && t.strides[0] == 6 && t.strides[1] == 2 && t.strides[2] == 0);
    assert_ptr_equal(muster_tensor_address(t), (char *)memory + k.bits / 8);
}

static void an_imported_tensor_is_a_view_until_its_release(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++)
        for (uint64_t flags = 0; flags < 8; flags++) {
            muster_tensor t;
            muster_dlpack *handle, *old;
            deleted = 0;
            assert_ok(muster_dlpack_import(NULL, versioned_of(kinds[i], flags), &t, &handle));
            assert_imported(t, kinds[i]);
            assert_int_equal(muster_dlpack_flags(handle), flags);
            assert_ok(muster_dlpack_import_unversioned(NULL, unversioned_of(kinds[i]), &t, &old));
            assert_imported(t, kinds[i]);
            assert_int_equal(muster_dlpack_flags(old), 0);
            assert_int_equal(deleted, 0);
            muster_dlpack_release(handle);
            assert_int_equal(deleted, 1);
            muster_dlpack_release(old);
            assert_int_equal(deleted, 2);
        }
    muster_dlpack_release(NULL);
    assert_int_equal(muster_dlpack_flags(NULL), 0);
    assert_int_equal(mst_memory_live(), 0);
}

static void no_strides_and_no_deleter_are_fine(void **state) {
    (void)state;
    muster_tensor t;
    muster_dlpack *handle;
    muster_dlpack_versioned *managed = versioned_of(kinds[2], 0);
    FIELD(void *, managed, VERSIONED + STRIDES) = NULL;
    FIELD(void *, managed, DELETER) = NULL;
    FIELD(int32_t, managed, VERSIONED + TYPE) = 3; /* pinned host memory */
    assert_ok(muster_dlpack_import(NULL, managed, &t, &handle));
    assert_true(t.strides[0] == 3 && t.strides[1] == 1 && t.device == MUSTER_DEVICE_HOST);
    muster_dlpack_release(handle);
    managed = versioned_of(kinds[2], 0);
    FIELD(int32_t, managed, VERSIONED + NDIM) = 0;
    FIELD(void *, managed, VERSIONED + SHAPE) = NULL;
    assert_ok(muster_dlpack_import(NULL, managed, &t, &handle));
    assert_int_equal(muster_tensor_count(t), 1);
    muster_dlpack_release(handle);
}

typedef struct fault {
    int offset, bytes; /* the field, in the versioned struct */
    uint64_t value;
    muster_status status;
    const char *words;
} fault;

static const fault faults[] = {
    {MAJOR, 4, 0, MUSTER_UNSUPPORTED, "version: expected DLPack 1, received 0.3"},
    {MAJOR, 4, 2, MUSTER_UNSUPPORTED, "version: expected DLPack 1, received 2.3"},
    {VERSIONED + TYPE, 4, 0, MUSTER_UNSUPPORTED, "received 0"},
    {VERSIONED + TYPE, 4, 4, MUSTER_UNSUPPORTED, "received 4"},
    {VERSIONED + TYPE, 4, 13, MUSTER_UNSUPPORTED, "received 13"},
    {VERSIONED + TYPE, 4, 2, MUSTER_INVALID_ARGUMENT, "expected one with the GPU 0, on which the tensor is, received NULL"},
    {VERSIONED + NDIM, 4, 9, MUSTER_UNSUPPORTED, "ndim: expected 0 to 8, received 9"},
    {VERSIONED + NDIM, 4, UINT32_MAX, MUSTER_UNSUPPORTED, "ndim: expected 0 to 8, received -1"},
    {VERSIONED + CODE, 1, 5, MUSTER_UNSUPPORTED, "received code 5 with 32 bits and 1 lanes"},
    {VERSIONED + BITS, 1, 8, MUSTER_UNSUPPORTED, "received code 2 with 8 bits and 1 lanes"},
    {VERSIONED + LANES, 2, 4, MUSTER_UNSUPPORTED, "received code 2 with 32 bits and 4 lanes"},
    {VERSIONED + LANES, 2, 0, MUSTER_UNSUPPORTED, "received code 2 with 32 bits and 0 lanes"},
    {VERSIONED + SHAPE, 8, 0, MUSTER_INVALID_ARGUMENT, "shape: expected an array of sizes, received NULL"},
    {VERSIONED + DATA, 8, 0, MUSTER_INVALID_ARGUMENT, "managed"},
    {VERSIONED + OFFSET, 8, 2, MUSTER_INVALID_ARGUMENT, "expected f32 data aligned to 4 bytes"},
    {VERSIONED + OFFSET, 8, (uint64_t)1 << 63, MUSTER_OVERFLOW, "byte_offset"},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static void a_refused_import_stays_with_the_caller(void **state) {
    (void)state;
    int tried = 0;
    deleted = 0;
    for (int i = 0; i < FAULTS; i++, tried++) {
        muster_tensor t = muster_f32(memory, 1);
        muster_dlpack *handle = (void *)memory;
        muster_dlpack_versioned *managed = versioned_of(kinds[2], 0);
        memcpy((char *)managed + faults[i].offset, &faults[i].value, (size_t)faults[i].bytes);
        assert_refused(muster_dlpack_import(NULL, managed, &t, &handle), faults[i].status, faults[i].words);
        assert_int_equal(t.dtype, MUSTER_DTYPE_NONE);
        assert_null(handle);
        if (faults[i].offset < VERSIONED) continue;
        muster_dlpack_unversioned *old = unversioned_of(kinds[2]);
        memcpy((char *)old + faults[i].offset - VERSIONED, &faults[i].value, (size_t)faults[i].bytes);
        assert_refused(muster_dlpack_import_unversioned(NULL, old, &t, &handle), faults[i].status, faults[i].words);
    }
    assert_int_equal(tried, 16);
    assert_int_equal(deleted, 0);
    assert_int_equal(mst_memory_live(), 0);
}

static void missing_arguments_of_an_import_are_named(void **state) {
    (void)state;
    muster_tensor t;
    muster_dlpack *handle;
    assert_refused(muster_dlpack_import(NULL, NULL, &t, &handle), MUSTER_INVALID_ARGUMENT, "managed");
    assert_refused(muster_dlpack_import(NULL, versioned_of(kinds[0], 0), NULL, &handle), MUSTER_INVALID_ARGUMENT, "tensor");
    assert_refused(muster_dlpack_import(NULL, versioned_of(kinds[0], 0), &t, NULL), MUSTER_INVALID_ARGUMENT, "handle");
    assert_refused(muster_dlpack_import_unversioned(NULL, NULL, &t, &handle), MUSTER_INVALID_ARGUMENT, "managed");
    mst_memory_fail_at(1);
    assert_int_equal(muster_dlpack_import(NULL, versioned_of(kinds[0], 0), &t, &handle), MUSTER_OUT_OF_MEMORY);
    assert_int_equal(t.dtype, MUSTER_DTYPE_NONE);
}

static int64_t order[2], orders;
static void release_in_order(void *owner) { order[orders++] = (int64_t)(intptr_t)owner; }

/* A tensor of ours, taken back by import: the hook of the export runs in the release of the
 * import. */
static void what_goes_out_comes_in(void **state) {
    (void)state;
    muster_dlpack_versioned *first, *second;
    muster_tensor t;
    muster_dlpack *a, *b;
    assert_ok(muster_dlpack_export(NULL, strided(MUSTER_I16), MUSTER_DLPACK_READ_ONLY, release_in_order, (void *)1, &first));
    assert_ok(muster_dlpack_export(NULL, strided(MUSTER_I16), 0, release_in_order, (void *)2, &second));
    assert_ok(muster_dlpack_import(NULL, first, &t, &a));
    assert_ptr_equal(muster_tensor_address(t), muster_tensor_address(strided(MUSTER_I16)));
    assert_int_equal(muster_dlpack_flags(a), MUSTER_DLPACK_READ_ONLY);
    assert_ok(muster_dlpack_import(NULL, second, &t, &b));
    orders = 0;
    muster_dlpack_release(b);
    muster_dlpack_release(a);
    assert_true(orders == 2 && order[0] == 2 && order[1] == 1);
    assert_int_equal(mst_memory_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exported_struct_has_the_layout_of_dlpack),
        cmocka_unit_test(an_export_without_a_hook_or_elements_is_fine),
        cmocka_unit_test(a_refused_export_releases_nothing),
        cmocka_unit_test(a_tensor_of_a_host_device_is_host_memory),
        cmocka_unit_test(an_imported_tensor_is_a_view_until_its_release),
        cmocka_unit_test(no_strides_and_no_deleter_are_fine),
        cmocka_unit_test(a_refused_import_stays_with_the_caller),
        cmocka_unit_test(missing_arguments_of_an_import_are_named),
        cmocka_unit_test(what_goes_out_comes_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
