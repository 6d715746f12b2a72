/* The simulated cuDNN: what it reports of a program that breaks a rule, and where it is stricter
 * than a caller sees. What it computes is in test_contract_cudnn.c. */
#include "machine_support.h"

#include <unistd.h>

enum { FORWARD, DATA, FILTER, IMPLICIT = 0, PRECOMP = 1, FILTER_0 = 0, FILTER_1 = 1, CHANNELS = 8, LARGE = 24 };

/* x (1, 8, n, n), w (8, 8, 3, 3), y as x. */
typedef struct convolution {
    mst_cudnn_handle handle;
    mst_cudnn_tensor x;
    mst_cudnn_filter w;
    mst_cudnn_convolution c;
    mst_cu_address memory[3], workspace;
    size_t bytes; /* of the workspace */
    int elements;
} convolution;

static void fill(mst_cu_address to, int count, float first) {
    float *values = malloc((size_t)count * sizeof *values);
    for (int i = 0; i < count; i++) values[i] = first + (float)(i % 13) / 7;
    assert_done(cu.cuMemcpyHtoDAsync_v2(to, values, (size_t)count * 4, gpu.stream));
    free(values);
}

static convolution made(int n, unsigned math, mst_cu_stream stream) {
    static const int window[4] = {CHANNELS, CHANNELS, 3, 3}, ones[2] = {1, 1};
    const int sizes[4] = {1, CHANNELS, n, n}, strides[4] = {CHANNELS * n * n, n * n, n, 1};
    convolution k = {.elements = CHANNELS * n * n, .bytes = 64 << 10};
    assert_done(dnn.cudnnCreate(&k.handle));
    assert_done(dnn.cudnnSetStream(k.handle, stream));
    assert_done(dnn.cudnnCreateTensorDescriptor(&k.x));
    assert_done(dnn.cudnnCreateFilterDescriptor(&k.w));
    assert_done(dnn.cudnnCreateConvolutionDescriptor(&k.c));
    assert_done(dnn.cudnnSetTensorNdDescriptor(k.x, MST_CUDNN_DATA_FLOAT, 4, sizes, strides));
    assert_done(dnn.cudnnSetFilterNdDescriptor(k.w, MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_NCHW, 4, window));
    assert_done(dnn.cudnnSetConvolutionNdDescriptor(k.c, 2, ones, ones, ones, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT));
    assert_done(dnn.cudnnSetConvolutionMathType(k.c, math));
    for (int i = 0; i < 3; i++) {
        const int count = i == 1 ? CHANNELS * CHANNELS * 9 : k.elements;
        k.memory[i] = allocate((size_t)count * 4);
        fill(k.memory[i], count, (float)i);
    }
    assert_done(dnn.cudnnGetConvolutionBackwardFilterWorkspaceSize(k.handle, k.x, k.x, k.c, k.w, FILTER_1, &k.bytes));
    k.workspace = allocate(k.bytes);
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    return k;
}

static void unmade(convolution *k) {
    assert_done(cu.cuStreamSynchronize(gpu.stream));
    for (int i = 0; i < 3; i++) assert_done(cu.cuMemFree_v2(k->memory[i]));
    assert_done(cu.cuMemFree_v2(k->workspace));
    assert_done(dnn.cudnnDestroyTensorDescriptor(k->x));
    assert_done(dnn.cudnnDestroyFilterDescriptor(k->w));
    assert_done(dnn.cudnnDestroyConvolutionDescriptor(k->c));
    assert_done(dnn.cudnnDestroy(k->handle));
}

static mst_cudnn_status forward_in(const convolution *k, unsigned algorithm, mst_cu_address workspace) {
    const float one = 1, zero = 0;
    return dnn.cudnnConvolutionForward(k->handle, &one, k->x, pointer_to(k->memory[0]), k->w, pointer_to(k->memory[1]), k->c, algorithm,
                                       pointer_to(workspace), k->bytes, &zero, k->x, pointer_to(k->memory[2]));
}
static mst_cudnn_status forward(const convolution *k) { return forward_in(k, PRECOMP, k->workspace); }

static mst_cudnn_status filter(const convolution *k, unsigned algorithm) {
    const float one = 1, zero = 0;
    return dnn.cudnnConvolutionBackwardFilter(k->handle, &one, k->x, pointer_to(k->memory[0]), k->x, pointer_to(k->memory[2]), k->c,
                                              algorithm, pointer_to(k->workspace), k->bytes, &zero, k->w, pointer_to(k->memory[1]));
}

static void assert_reported(const char *text) {
    if (!strstr(muster_sim_hazards(), text)) fail_msg("\"%s\" was not reported, but:\n%s", text, muster_sim_hazards());
    muster_sim_hazards_clear();
}

static void assert_nothing_reported(void) {
    if (muster_sim_hazard_count()) fail_msg("reported:\n%s", muster_sim_hazards());
}

static void a_program_that_breaks_no_rule_is_not_reported(void **state) {
    const uint64_t before = muster_sim_memory_taken(0);
    convolution k = made(6, MST_CUDNN_FMA_MATH, gpu.stream);
    assert_true(muster_sim_memory_taken(0) >= before + (4 << 20)); /* the handle's */
    assert_done(forward(&k));
    assert_done(filter(&k, FILTER_1));
    assert_int_equal(muster_sim_calls("cudnnConvolutionForward"), 1);
    unmade(&k);
    assert_int_equal(muster_sim_memory_taken(0), before);
    assert_int_equal(contract_teardown(state), 0);
    assert_int_equal(muster_sim_check_leaks(), 0);
    assert_nothing_reported();
}

static void what_is_left_is_a_leak(void **state) {
    (void)state;
    (void)made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    assert_true(muster_sim_check_leaks() > 0);
    assert_non_null(strstr(muster_sim_hazards(), "1 cuDNN handles"));
    assert_reported("3 cuDNN descriptors");
}

static void what_was_destroyed_is_not_used(void **state) {
    (void)state;
    convolution k = made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    mst_cudnn_filter w = k.w;
    assert_done(dnn.cudnnDestroyFilterDescriptor(w));
    assert_code(forward(&k), MST_CUDNN_BAD_PARAM);
    assert_reported("use of a destroyed descriptor of a filter of cuDNN");
    assert_code(dnn.cudnnDestroyFilterDescriptor(w), MST_CUDNN_BAD_PARAM);
    assert_reported("use of a destroyed descriptor of a filter of cuDNN");
    assert_done(dnn.cudnnDestroyTensorDescriptor(k.x));
    assert_code(forward(&k), MST_CUDNN_BAD_PARAM);
    assert_reported("use of a destroyed descriptor of a tensor of cuDNN");
    assert_done(dnn.cudnnDestroyConvolutionDescriptor(k.c));
    assert_code(dnn.cudnnSetConvolutionGroupCount(k.c, 1), MST_CUDNN_BAD_PARAM);
    assert_reported("use of a destroyed descriptor of a convolution of cuDNN");
    assert_done(dnn.cudnnDestroy(k.handle));
    assert_code(dnn.cudnnSetStream(k.handle, gpu.stream), MST_CUDNN_BAD_PARAM);
    assert_reported("use of a destroyed cuDNN handle");
}

/* What the queues do with it when they come to it is decided by chance. */
static void two_convolutions_have_a_workspace_each(void **state) {
    mst_cu_stream streams[2] = {gpu.stream, NULL};
    (void)state;
    assert_done(cu.cuStreamCreate(&streams[1], MST_CU_STREAM_NON_BLOCKING));
    convolution a = made(LARGE, MST_CUDNN_FMA_MATH, streams[0]), b = made(LARGE, MST_CUDNN_FMA_MATH, streams[1]);
    for (int round = 0; round < 5; round++) {
        assert_done(forward(&a));
        assert_done(forward(&b));
    }
    for (int i = 0; i < 2; i++) assert_done(cu.cuStreamSynchronize(streams[i]));
    assert_nothing_reported();
    int round = 0;
    for (; round < 200 && !muster_sim_hazard_count(); round++) {
        assert_done(forward(&a));
        assert_done(forward_in(&b, PRECOMP, a.workspace));
        for (int i = 0; i < 2; i++) assert_done(cu.cuStreamSynchronize(streams[i]));
    }
    assert_reported("device 0: the workspace of a convolution was written while it ran");
    unmade(&a);
    unmade(&b);
}

static void a_workspace_lies_as_the_driver_allocates(void **state) {
    (void)state;
    convolution k = made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    k.bytes -= 64;
    assert_done(forward_in(&k, PRECOMP, k.workspace + 64));
    assert_reported("cudnnConvolutionForward: the workspace is not aligned to 256 bytes");
    k.bytes += 64;
    unmade(&k);
}

static void a_handle_is_used_in_its_context(void **state) {
    mst_cu_context other;
    (void)state;
    convolution k = made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    assert_done(cu.cuDevicePrimaryCtxRetain(&other, 1));
    assert_done(cu.cuCtxPushCurrent_v2(other));
    assert_done(forward(&k));
    assert_reported("cudnnConvolutionForward: the handle belongs to device 0, the current context to device 1");
    mst_cu_stream stream;
    assert_done(cu.cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING));
    assert_code(dnn.cudnnSetStream(k.handle, stream), MST_CUDNN_BAD_PARAM);
    assert_done(cu.cuStreamDestroy_v2(stream));
    assert_done(cu.cuCtxPopCurrent_v2(NULL));
    assert_done(cu.cuDevicePrimaryCtxRelease_v2(1));
    unmade(&k);
}

static void handles_are_not_made_while_a_collective_is_in_flight(void **state) {
    mst_cudnn_handle handle;
    (void)state;
    sim_collective_begin(1, "test");
    assert_done(dnn.cudnnCreate(&handle));
    assert_reported("cudnnCreate while a collective is in flight");
    assert_done(dnn.cudnnDestroy(handle));
    assert_reported("cudnnDestroy while a collective is in flight");
    sim_collective_end(1);
}

static void no_convolution_is_new_while_a_collective_is_in_flight_on_its_device(void **state) {
    (void)state;
    convolution k = made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    assert_done(forward(&k));
    sim_collective_begin(1, "test"); /* of another device, which this one does not wait for */
    assert_done(filter(&k, FILTER_1));
    assert_nothing_reported();
    sim_collective_begin(0, "test");
    assert_done(forward(&k));
    assert_nothing_reported();
    assert_done(forward_in(&k, IMPLICIT, k.workspace));
    assert_reported("cudnnConvolutionForward loads the kernels of a new convolution while a collective is in flight on device 0");
    assert_done(forward_in(&k, IMPLICIT, k.workspace));
    assert_nothing_reported();
    sim_collective_end(0);
    sim_collective_end(1);
    unmade(&k);
}

static void memory_is_not_freed_while_a_convolution_may_use_it(void **state) {
    (void)state;
    convolution k = made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    muster_sim_inject_queue_stall("cuStreamQuery", 1, 20);
    (void)cu.cuStreamQuery(gpu.stream);
    assert_done(forward(&k));
    const mst_cu_address workspace = k.workspace;
    assert_done(cu.cuMemFree_v2(workspace));
    assert_reported("cuMemFree: device 0: a queue still uses the allocation of");
    k.workspace = allocate(k.bytes);
    unmade(&k);
}

static void a_wrong_address_spoils_the_context(void **state) {
    (void)state;
    convolution k = made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    k.memory[0] = 4096;
    assert_done(forward(&k));
    assert_code(cu.cuStreamSynchronize(gpu.stream), 700);
    assert_code(forward(&k), MST_CUDNN_EXECUTION_FAILED);
}

static void a_call_that_fails_on_purpose_does_nothing(void **state) {
    float before[8], after[8];
    (void)state;
    convolution k = made(4, MST_CUDNN_FMA_MATH, gpu.stream);
    assert_done(cu.cuMemcpyDtoHAsync_v2(before, k.memory[2], sizeof before, gpu.stream));
    muster_sim_inject("cudnnConvolutionForward", 1, MST_CUDNN_EXECUTION_FAILED);
    assert_code(forward(&k), MST_CUDNN_EXECUTION_FAILED);
    assert_int_equal(muster_sim_injected(), 1);
    assert_done(cu.cuMemcpyDtoHAsync_v2(after, k.memory[2], sizeof after, gpu.stream));
    assert_memory_equal(before, after, sizeof before);
    assert_done(forward(&k));
    assert_done(cu.cuMemcpyDtoHAsync_v2(after, k.memory[2], sizeof after, gpu.stream));
    assert_memory_not_equal(before, after, sizeof before);
    unmade(&k);
}

static void weights_of(const convolution *k, unsigned algorithm, float *weights) {
    assert_done(filter(k, algorithm));
    assert_done(cu.cuMemcpyDtoHAsync_v2(weights, k->memory[1], CHANNELS * CHANNELS * 9 * 4, gpu.stream));
}

/* Which algorithm was chosen shows in the bits. */
static void only_some_algorithms_give_the_same_bits_each_time(void **state) {
    static float first[CHANNELS * CHANNELS * 9], second[CHANNELS * CHANNELS * 9];
    (void)state;
    convolution k = made(LARGE, MST_CUDNN_FMA_MATH, gpu.stream);
    weights_of(&k, FILTER_1, first);
    weights_of(&k, FILTER_1, second);
    assert_memory_equal(first, second, sizeof first);
    weights_of(&k, FILTER_0, first);
    weights_of(&k, FILTER_0, second);
    assert_memory_not_equal(first, second, sizeof first);
    unmade(&k);
}

static void f32_is_rounded_to_tf32_unless_the_arithmetic_is_fma(void **state) {
    static float exact[CHANNELS * CHANNELS * 9], rounded[CHANNELS * CHANNELS * 9];
    (void)state;
    convolution k = made(6, MST_CUDNN_FMA_MATH, gpu.stream);
    weights_of(&k, FILTER_1, exact);
    assert_done(dnn.cudnnSetConvolutionMathType(k.c, MST_CUDNN_DEFAULT_MATH));
    weights_of(&k, FILTER_1, rounded);
    assert_memory_not_equal(exact, rounded, sizeof exact);
    for (int i = 0; i < CHANNELS * CHANNELS * 9; i++) assert_true(rounded[i] > exact[i] * 0.998f && rounded[i] < exact[i] * 1.002f);
    unmade(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        machine_test(a_program_that_breaks_no_rule_is_not_reported),
        machine_test(what_is_left_is_a_leak),
        machine_test(what_was_destroyed_is_not_used),
        machine_test(two_convolutions_have_a_workspace_each),
        machine_test(a_workspace_lies_as_the_driver_allocates),
        machine_test(a_handle_is_used_in_its_context),
        machine_test(handles_are_not_made_while_a_collective_is_in_flight),
        machine_test(no_convolution_is_new_while_a_collective_is_in_flight_on_its_device),
        machine_test(memory_is_not_freed_while_a_convolution_may_use_it),
        machine_test(a_wrong_address_spoils_the_context),
        machine_test(a_call_that_fails_on_purpose_does_nothing),
        machine_test(only_some_algorithms_give_the_same_bits_each_time),
        machine_test(f32_is_rounded_to_tf32_unless_the_arithmetic_is_fma),
    };
    if (!contract_open_cudnn()) return 1;
    return machine_open() || cmocka_run_group_tests(tests, NULL, NULL);
}
