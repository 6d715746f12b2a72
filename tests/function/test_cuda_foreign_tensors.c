/* Memory of another library on GPUs as inputs and outputs of calls: imported by DLPack, or wrapped
 * by muster_runtime_tensor_on. Its work in the default stream comes first; memory of another place
 * is refused. */
#include "muster/dlpack.h"
#include "muster/function.h"
#include "muster/ops.h"

#include "../device/cuda_fixture.h"

enum { ROWS = 24, COLUMNS = 5, COUNT = ROWS * COLUMNS, ROUNDS = 20 };

static muster_runtime *opened_runtime(const char *devices) {
    muster_runtime *runtime;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

/* ---- the other library: an array on a GPU, which it fills in a stream of its own ---- */

typedef struct library {
    const mst_cuda_api *api;
    mst_cu_context context;
    int32_t ordinal;
    mst_cu_stream stream;
    mst_cu_event filled;
    mst_cu_address memory;
    int64_t shape[2], strides[2];
    muster_dlpack_versioned managed;
    int deleted;
} library;

static void library_delete(muster_dlpack_versioned *self) { ((library *)self->context)->deleted++; }

static void library_begin(library *l, int32_t ordinal) {
    mst_cu_device device;
    *l = (library){.api = driver(), .ordinal = ordinal, .shape = {ROWS, COLUMNS}, .strides = {COLUMNS, 1}};
    assert_int_equal(l->api->cuDeviceGet(&device, ordinal), 0);
    assert_int_equal(l->api->cuDevicePrimaryCtxRetain(&l->context, device), 0);
    assert_int_equal(l->api->cuCtxPushCurrent_v2(l->context), 0);
    assert_int_equal(l->api->cuStreamCreate(&l->stream, MST_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(l->api->cuEventCreate(&l->filled, MST_CU_EVENT_DISABLE_TIMING), 0);
    assert_int_equal(l->api->cuMemAlloc_v2(&l->memory, COUNT), 0);
    assert_int_equal(l->api->cuCtxPopCurrent_v2(&l->context), 0);
    l->managed = (muster_dlpack_versioned){
        .major = 1,
        .context = l,
        .deleter = library_delete,
        .tensor = {(void *)(uintptr_t)l->memory, 2, ordinal, 2, 1, 8, 1, l->shape, l->strides, 0},
    };
}

/* As __dlpack__(stream=1) does: the default stream waits for what the library's own stream does.
 * The value comes last, after work that takes time. */
static void library_fill(library *l, unsigned char value) {
    assert_int_equal(l->api->cuCtxPushCurrent_v2(l->context), 0);
    for (int i = 0; i < 30; i++) assert_int_equal(l->api->cuMemsetD8Async(l->memory, 0xFF, COUNT, l->stream), 0);
    assert_int_equal(l->api->cuMemsetD8Async(l->memory, value, COUNT, l->stream), 0);
    assert_int_equal(l->api->cuEventRecord(l->filled, l->stream), 0);
    assert_int_equal(l->api->cuStreamWaitEvent(NULL, l->filled, 0), 0);
    assert_int_equal(l->api->cuCtxPopCurrent_v2(&l->context), 0);
}

static void library_end(library *l) {
    mst_cu_device device;
    assert_int_equal(l->api->cuDeviceGet(&device, l->ordinal), 0);
    assert_int_equal(l->api->cuCtxPushCurrent_v2(l->context), 0);
    assert_int_equal(l->api->cuStreamSynchronize(l->stream), 0);
    assert_int_equal(l->api->cuMemFree_v2(l->memory), 0);
    assert_int_equal(l->api->cuEventDestroy_v2(l->filled), 0);
    assert_int_equal(l->api->cuStreamDestroy_v2(l->stream), 0);
    assert_int_equal(l->api->cuCtxPopCurrent_v2(&l->context), 0);
    assert_int_equal(l->api->cuDevicePrimaryCtxRelease_v2(device), 0);
}

/* ---- calls ---- */

typedef struct seen {
    const void *input, *output;
} seen;

/* y = x and the sum of the rows. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    seen *s = (seen *)user + muster_worker_rank(w);
    *s = (seen){muster_tensor_address(in[0]), muster_tensor_address(out[0])};
    MUSTER_TRY(muster_copy(w, in[0], out[0]));
    muster_tensor wide;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, in[0].shape, &wide));
    MUSTER_TRY(muster_copy(w, in[0], wide));
    return muster_sum(w, wide, out[1]);
}

static muster_function *made(muster_runtime *runtime, seen *s) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", body, s, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_U8, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_U8, 2, MUSTER_GATHER));
    assert_ok(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    return f;
}

/* The array of one library is the input, that of the other one the output: the first lies on rank
 * 1, the second on rank 0. A call that did not wait for the default stream would read the value of
 * the round before. */
static void arrays_travel_through_calls(bool peers, uint64_t seed) {
    new_machine(&(muster_sim_options){.devices = 2, .longest_delay = 300, .seed = seed, .no_peers = !peers});
    library source, target;
    library_begin(&source, 1);
    library_begin(&target, 0);
    seen s[2];
    unsigned char out[COUNT];
    muster_runtime *runtime = opened_runtime("cuda@0+1");
    muster_function *f = made(runtime, s);
    muster_tensor x, y;
    muster_dlpack *handles[2];
    assert_ok(muster_dlpack_import(runtime, &source.managed, &x, &handles[0]));
    assert_ok(muster_dlpack_import(runtime, &target.managed, &y, &handles[1]));
    assert_true(x.device == 1 && y.device == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        float sum = 0;
        library_fill(&source, (unsigned char)round);
        library_fill(&target, 0); /* what comes too late would be seen in the output */
        assert_ok(muster_function_call(f, &x, 1, (muster_tensor[]){y, muster_f32(&sum)}, 2, NULL));
        assert_ok(muster_runtime_tensor_copy(runtime, y, muster_u8(out, ROWS, COLUMNS)));
        assert_float_equal(sum, (float)(round * COUNT), 0);
        for (int i = 0; i < COUNT; i++) assert_int_equal(out[i], round);
        assert_ptr_equal(s[1].input, (char *)(uintptr_t)source.memory + COUNT / 2);
        assert_ptr_equal(s[0].output, (char *)(uintptr_t)target.memory);
    }
    for (int i = 0; i < 2; i++) muster_dlpack_release(handles[i]);
    assert_int_equal(source.deleted + target.deleted, 2);
    float sum;
    assert_refused(muster_function_call(f, &x, 1, (muster_tensor[]){muster_tensor_none(), muster_f32(&sum)}, 2, NULL),
                   MUSTER_INVALID_ARGUMENT,
                   "input 'x' of function 'f': expected memory of a tensor that muster_runtime_tensor_create gave");
    assert_ok(muster_runtime_close(runtime));
    library_end(&source);
    library_end(&target);
    check_machine();
}

static void imported_arrays_travel_by_peers(void **state) {
    (void)state;
    arrays_travel_through_calls(true, 3);
}
static void imported_arrays_travel_through_the_host(void **state) {
    (void)state;
    arrays_travel_through_calls(false, 4);
}

static void one_gpu_waits_for_the_default_stream(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 1, .longest_delay = 300, .seed = 5});
    library l;
    seen s[1];
    muster_tensor x;
    muster_dlpack *handle;
    library_begin(&l, 0);
    muster_runtime *runtime = opened_runtime("cuda@0");
    muster_function *f = made(runtime, s);
    assert_ok(muster_dlpack_import(runtime, &l.managed, &x, &handle));
    for (int round = 1; round <= ROUNDS; round++) {
        float sum = 0;
        unsigned char y[COUNT];
        library_fill(&l, (unsigned char)round);
        assert_ok(muster_function_call(f, &x, 1, (muster_tensor[]){muster_u8(y, ROWS, COLUMNS), muster_f32(&sum)}, 2, NULL));
        assert_float_equal(sum, (float)(round * COUNT), 0);
    }
    assert_ok(muster_runtime_close(runtime));
    muster_dlpack_release(handle); /* after close, too */
    library_end(&l);
    check_machine();
}

/* ---- memory that lies elsewhere ---- */

static void memory_of_another_place_is_refused(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 3, .longest_delay = 20});
    library l;
    seen s[3];
    muster_tensor x;
    muster_dlpack *handle;
    float sum;
    library_begin(&l, 1);
    muster_runtime *runtime = opened_runtime("cuda@0+1,host:1"), *lacking = opened_runtime("cuda@0");
    muster_function *f = made(runtime, s);
    const muster_tensor out[] = {muster_tensor_none(), muster_f32(&sum)};
    assert_refused(muster_dlpack_import(lacking, &l.managed, &x, &handle), MUSTER_INVALID_ARGUMENT,
                   "muster_dlpack_import: managed: device: expected a GPU of the runtime, received the GPU 1");
    l.managed.tensor.device_id = 0; /* it lies on GPU 1 */
    assert_ok(muster_dlpack_import(runtime, &l.managed, &x, &handle));
    assert_refused(muster_function_call(f, &x, 1, out, 2, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_function_call: input 'x' of function 'f': address: expected memory of cuda:0, received memory of cuda:1 at ");
    muster_dlpack_release(handle);
    static const char *const wrong[][2] = {
        {"cuda:0", "muster_runtime_tensor_on: tensor: address: expected memory of cuda:0, received memory of cuda:1 at "},
        {"host:0", "muster_runtime_tensor_on: tensor: expected memory of the host, received memory of device 1 ("},
        {"cuda:2", "muster_runtime_tensor_on: device: expected the name or number of a device"},
        {"host:1", "muster_runtime_tensor_on: device: expected the name or number of a device"}};
    muster_tensor wrapped = muster_tensor_make(MUSTER_U8, (void *)(uintptr_t)l.memory, 2, l.shape);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_refused(muster_runtime_tensor_on(runtime, wrong[i][0], &wrapped), MUSTER_INVALID_ARGUMENT, wrong[i][1]);
        assert_int_equal(wrapped.device, MUSTER_DEVICE_HOST);
    }
    unsigned char host[COUNT] = {0};
    muster_tensor here = muster_u8(host, ROWS, COLUMNS);
    assert_refused(muster_runtime_tensor_on(runtime, "cuda:1", &here), MUSTER_INVALID_ARGUMENT, "expected memory of cuda:1, received");
    assert_ok(muster_runtime_close(lacking));
    assert_ok(muster_runtime_close(runtime));
    library_end(&l);
    check_machine();
}

static void wrapped_memory_is_used_in_place(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 2, .longest_delay = 100});
    library l;
    seen s[2];
    float sum = 0;
    library_begin(&l, 1);
    muster_runtime *runtime = opened_runtime("cuda@0+1");
    muster_function *f = made(runtime, s);
    muster_tensor x = muster_tensor_make(MUSTER_U8, (void *)(uintptr_t)l.memory, 2, l.shape);
    unsigned char y[COUNT];
    assert_ok(muster_runtime_tensor_on(runtime, "cuda:1", &x));
    assert_int_equal(x.device, 1);
    library_fill(&l, 7);
    assert_ok(muster_function_call(f, &x, 1, (muster_tensor[]){muster_u8(y, ROWS, COLUMNS), muster_f32(&sum)}, 2, NULL));
    assert_float_equal(sum, 7 * COUNT, 0);
    assert_ptr_equal(s[1].input, (char *)(uintptr_t)l.memory + COUNT / 2);
    assert_ok(muster_runtime_tensor_destroy(runtime, x)); /* frees nothing: library_end does */
    assert_refused(muster_runtime_tensor_destroy(runtime, x), MUSTER_INVALID_ARGUMENT, "expected memory of a tensor");
    assert_ok(muster_runtime_close(runtime));
    library_end(&l);
    check_machine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imported_arrays_travel_by_peers),      cmocka_unit_test(imported_arrays_travel_through_the_host),
        cmocka_unit_test(one_gpu_waits_for_the_default_stream), cmocka_unit_test(memory_of_another_place_is_refused),
        cmocka_unit_test(wrapped_memory_is_used_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
