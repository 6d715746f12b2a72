/* Convolutions by cuDNN on the simulated machine: what is made, and when; calls that fail; what
 * algorithms are chosen. tests/nn/test_convolution.c has the numbers of many shapes. Here the
 * results of our own kernels are the expected ones. */
#include "base_check.h"
#include "convolution/convolution_impl.h"
#include "convolution/library_private.h"
#include "cuda/cuda_api_private.h"
#include "cuda/cuda_convolution_impl.h"
#include "cuda/cuda_impl.h"
#include "cuda/cudnn_api_private.h"
#include "nn_impl.h"
#include "op_impl.h"
#include "ops_fixture.h"
#include "sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X, W, Y, BIAS, OPERANDS, KINDS = 3, MOST = 4096 };
static const int32_t result_of[KINDS] = {Y, X, W};
static const char *const runs[KINDS] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};

/* ---- a problem ---- */

typedef struct problem {
    mst_convolution convolution;
    muster_dtype dtype;
    ops_pair operands[OPERANDS];
    void *state;
} problem;

typedef struct wanted {
    muster_dtype dtype;
    int64_t n, channels, outputs, extent, size, before, after;
    bool fractions; /* no whole numbers */
} wanted;
static const wanted usual = {.dtype = MUSTER_F32, .n = 2, .channels = 3, .outputs = 4, .extent = 6, .size = 3, .before = 1, .after = 1};

static void operand_make(muster_worker *worker, const wanted *a, ops_pair *made, int32_t ndim, const int64_t *shape) {
    int64_t count = 1;
    for (int32_t d = 0; d < ndim; d++) count *= shape[d];
    *made = ops_make(worker, a->dtype, count);
    made->host = muster_tensor_make(a->dtype, made->host_storage.data, ndim, shape);
    for (int64_t i = 0; a->fractions && i < count; i++) ((float *)made->host_storage.data)[i] = (float)(i % 97) / 31 + 0.3f;
    ops_place(made);
    ops_send(worker, made);
}

static void problem_make(muster_worker *worker, const wanted *a, problem *p) {
    *p = (problem){.convolution = {.groups = 1, .window = {.axes = 2}}, .dtype = a->dtype};
    for (int32_t d = 0; d < 2; d++) {
        p->convolution.window.size[d] = a->size;
        p->convolution.window.stride[d] = p->convolution.window.dilation[d] = 1;
        p->convolution.window.before[d] = a->before, p->convolution.window.after[d] = a->after;
    }
    const int64_t places = a->extent + a->before + a->after - a->size + 1;
    operand_make(worker, a, &p->operands[X], 4, (const int64_t[]){a->n, a->channels, a->extent, a->extent});
    operand_make(worker, a, &p->operands[W], 4, (const int64_t[]){a->outputs, a->channels, a->size, a->size});
    operand_make(worker, a, &p->operands[Y], 4, (const int64_t[]){a->n, a->outputs, places, places});
    operand_make(worker, a, &p->operands[BIAS], 1, &a->outputs);
}

static muster_status compute(muster_worker *worker, problem *p, int32_t kind) {
    const muster_tensor *x = &p->operands[X].device, *w = &p->operands[W].device, *y = &p->operands[Y].device;
    if (kind == 0) return mst_convolution_forward(worker, &p->convolution, x, w, &p->operands[BIAS].device, y, &p->state, "test");
    if (kind == 1) return mst_convolution_data(worker, &p->convolution, y, w, x, &p->state, "test");
    return mst_convolution_weights(worker, &p->convolution, x, y, w, &p->state, "test");
}

static int64_t result_take(muster_worker *worker, const problem *p, int32_t kind, double *values) {
    const ops_pair *r = &p->operands[result_of[kind]];
    int64_t index[MUSTER_MAX_DIMS] = {0}, count = 0;
    ops_fetch(worker, r);
    do values[count++] = ops_element(r->host, 4, index);
    while (ops_next(4, r->host.shape, index));
    return count;
}

/* Whatever the operands hold now: a result that is an operand later is the same in both. */
static void expect(muster_worker *worker, problem *p, int32_t kind, double *values) {
    static const mst_convolution_library *const none[] = {NULL};
    const mst_convolution_library *const *before = mst_convolution_libraries;
    void *state = p->state;
    mst_convolution_libraries = none;
    assert_ok(compute(worker, p, kind));
    mst_convolution_libraries = before;
    p->state = state;
    (void)result_take(worker, p, kind, values);
    assert_ok(muster_fill(worker, NAN, p->operands[result_of[kind]].device));
}

static void assert_same(muster_worker *worker, const problem *p, int32_t kind, const double *expected, const char *what) {
    static double received[MOST];
    const int64_t count = result_take(worker, p, kind, received);
    for (int64_t i = 0; i < count; i++)
        if (received[i] != expected[i])
            fail_msg("%s: %s, element %d: expected %g, received %g", what, runs[kind], (int)i, expected[i], received[i]);
}

static void problem_end(problem *p) {
    mst_convolution_release(p->state);
    p->state = NULL;
}

static void on_new_machine(mst_task body) {
    muster_sim_reset(&(muster_sim_options){.devices = 2, .longest_delay = 100, .seed = 5});
    mst_cuda_forget_lost();
    const int64_t live = mst_memory_live();
    ops_seed();
    assert_ok(ops_run_on("discrete", body, NULL));
    assert_int_equal(mst_memory_live(), live);
}

/* ---- what is made, and when ---- */

enum { SYMBOLS = 64 };
static int32_t symbols_of_cudnn(const char *names[SYMBOLS]) {
    const char *library, *name;
    int32_t count = 0;
    for (int i = 0; (name = muster_sim_symbol(i, &library)); i++)
        if (strcmp(library, "cudnn") == 0) names[count++] = name;
    return count;
}

static muster_status later_body(muster_worker *worker, void *unused) {
    const char *names[SYMBOLS];
    uint64_t before[SYMBOLS];
    problem p[KINDS];
    static double expected[MOST];
    (void)unused;
    mst_convolution_open(worker->device);
    mst_convolution_open(worker->device); /* it has one */
    assert_int_equal(muster_sim_calls("cudnnCreate"), 1);
    for (int32_t kind = 0; kind < KINDS; kind++) {
        problem_make(worker, &usual, &p[kind]);
        assert_ok(compute(worker, &p[kind], kind));
    }
    assert_int_equal(muster_sim_calls("cudnnCreateTensorDescriptor"), 2 * KINDS);
    const int32_t count = symbols_of_cudnn(names);
    assert_int_equal(count, 25);
    for (int32_t i = 0; i < count; i++) before[i] = muster_sim_calls(names[i]);
    for (int32_t again = 0; again < 5; again++)
        for (int32_t kind = 0; kind < KINDS; kind++) {
            expect(worker, &p[kind], kind, expected);
            assert_ok(compute(worker, &p[kind], kind));
            assert_same(worker, &p[kind], kind, expected, "again");
        }
    for (int32_t i = 0; i < count; i++) {
        const bool is_run = strcmp(names[i], runs[0]) == 0 || strcmp(names[i], runs[1]) == 0 || strcmp(names[i], runs[2]) == 0;
        if (muster_sim_calls(names[i]) != before[i] + (is_run ? 5 : 0)) fail_msg("%s is called in a later run", names[i]);
    }
    for (int32_t kind = 0; kind < KINDS; kind++) problem_end(&p[kind]);
    return MUSTER_OK;
}

static void later_runs_make_nothing(void **state) {
    (void)state;
    on_new_machine(later_body);
}

/* ---- calls that fail ---- */

static int32_t told, done_without;

static bool is_refusal(int code) { return code / 1000 == 2 || code / 1000 == 3; }

static void fail_at(muster_worker *worker, const char *symbol, int kth, int code, int32_t kind) {
    static double expected[MOST];
    problem p;
    char what[160];
    snprintf(what, sizeof what, "call %d of %s fails with %d", kth, symbol, code);
    problem_make(worker, &usual, &p);
    expect(worker, &p, kind, expected);
    const uint64_t injected = muster_sim_injected();
    muster_sim_inject(symbol, (uint64_t)kth, code);
    const muster_status status = compute(worker, &p, kind);
    const bool failed = muster_sim_injected() > injected;
    if (status == MUSTER_OK) {
        assert_same(worker, &p, kind, expected, what);
        done_without += failed;
        if (failed && !is_refusal(code)) fail_msg("%s: nobody says so", what);
    } else {
        const char *message = muster_last_error();
        if (!failed || is_refusal(code) || !strstr(message, symbol) || !strstr(message, "cuDNN") || !strstr(message, "cuda:1"))
            fail_msg("%s: received %s", what, message);
        assert_int_equal(status, code / 10 == 400 && code != 4000 ? MUSTER_OUT_OF_MEMORY : MUSTER_SYSTEM);
        told++;
    }
    muster_sim_inject_clear();
    expect(worker, &p, kind, expected);
    assert_ok(compute(worker, &p, kind));
    assert_same(worker, &p, kind, expected, what);
    problem_end(&p);
}

static muster_status failing_body(muster_worker *worker, void *unused) {
    static const int codes[] = {MST_CUDNN_HOST_ALLOCATION_FAILED, MST_CUDNN_DEVICE_ALLOCATION_FAILED,
                                MST_CUDNN_INTERNAL_ERROR,         MST_CUDNN_EXECUTION_FAILED,
                                MST_CUDNN_NOT_SUPPORTED,          MST_CUDNN_BAD_PARAM};
    const char *names[SYMBOLS];
    (void)unused;
    mst_convolution_open(worker->device);
    const int32_t count = symbols_of_cudnn(names);
    for (int32_t kind = 0; kind < KINDS; kind++)
        for (int32_t i = 0; i < count; i++)
            for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
                for (int kth = 1; kth <= 2 && !strstr(names[i], "Destroy") && !strstr(names[i], "cudnnGetError"); kth++)
                    fail_at(worker, names[i], kth, codes[c], kind);
    return MUSTER_OK;
}

/* A plan is made by 9 functions, two of which are called twice, and by 2 of each kind; and one
 * more runs it. The arithmetic is set twice. */
static void each_call_that_fails_is_told_or_done_without(void **state) {
    (void)state;
    told = done_without = 0;
    on_new_machine(failing_body);
    assert_int_equal(told, KINDS * 4 * (8 + 3 + 3));
    assert_int_equal(done_without, KINDS * 2 * (8 + 3 + 3));
}

static muster_status without_body(muster_worker *worker, void *unused) {
    static double expected[MOST];
    char notice[MST_MESSAGE_SIZE];
    problem p;
    (void)unused;
    const char *broken = getenv("TEST_BROKEN_CALL");
    if (broken) muster_sim_inject(broken, 1, MST_CUDNN_SUBLIBRARY_LOADING_FAILED);
    problem_make(worker, &usual, &p);
    (void)mst_error(MUSTER_INTERNAL, "what was said before");
    mst_convolution_open(worker->device);
    assert_string_equal(muster_last_error(), "what was said before");
    assert_int_equal(mst_cuda_take_notice(notice), broken != NULL);
    if (broken && (!strstr(notice, broken) || !strstr(notice, "convolutions on cuda:1 are computed without cuDNN, which is slower") ||
                   !strstr(notice, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED")))
        fail_msg("received: %s", notice);
    expect(worker, &p, 0, expected);
    assert_ok(compute(worker, &p, 0));
    assert_same(worker, &p, 0, expected, "without");
    assert_int_equal(muster_sim_calls(runs[0]), 0);
    problem_end(&p);
    if (!broken) return MUSTER_OK;
    mst_convolution_open(worker->device); /* the next time it may be well */
    assert_ok(compute(worker, &p, 0));
    assert_same(worker, &p, 0, expected, "with");
    assert_int_equal(muster_sim_calls(runs[0]), 1);
    problem_end(&p);
    return MUSTER_OK;
}

static void a_handle_that_cannot_be_made_is_noticed(void **state) {
    (void)state;
    setenv("TEST_BROKEN_CALL", "cudnnCreate", 1);
    on_new_machine(without_body);
    setenv("TEST_BROKEN_CALL", "cudnnSetStream", 1);
    on_new_machine(without_body);
    unsetenv("TEST_BROKEN_CALL");
}

static void the_environment_can_say_none(void **state) {
    char text[32];
    (void)state;
    setenv("MUSTER_CUDNN", "none", 1);
    on_new_machine(without_body);
    mst_cuda_describe_cudnn(text, sizeof text);
    unsetenv("MUSTER_CUDNN");
    assert_string_equal(text, "");
    assert_int_equal(muster_sim_calls("cudnnCreate"), 0);
    mst_cuda_describe_cudnn(text, sizeof text);
    assert_string_equal(text, "cuDNN 9.19.0");
}

static muster_status in_flight_body(muster_worker *worker, void *unused) {
    static double expected[MOST];
    problem p;
    (void)unused;
    problem_make(worker, &usual, &p);
    worker->device->in_flight = true;
    mst_convolution_open(worker->device);
    assert_int_equal(muster_sim_calls("cudnnCreate"), 0);
    expect(worker, &p, 0, expected);
    assert_ok(compute(worker, &p, 0));
    assert_same(worker, &p, 0, expected, "in flight");
    worker->device->in_flight = false;
    problem_end(&p);
    return MUSTER_OK;
}

static void no_handle_is_made_while_a_collective_is_in_flight(void **state) {
    (void)state;
    on_new_machine(in_flight_body);
}

static muster_status lost_body(muster_worker *worker, void *unused) {
    problem p;
    (void)unused;
    mst_convolution_open(worker->device);
    problem_make(worker, &usual, &p);
    muster_sim_inject_lost(runs[0], 1);
    const muster_status status = compute(worker, &p, 0);
    problem_end(&p);
    return status;
}

static void a_device_that_is_lost_in_a_convolution_is_named(void **state) {
    (void)state;
    muster_sim_reset(&(muster_sim_options){.devices = 2, .seed = 5});
    mst_cuda_forget_lost();
    ops_seed();
    assert_refused(ops_run_on("discrete", lost_body, NULL), MUSTER_DEVICE_LOST, "cuda:1: ");
    char notice[MST_MESSAGE_SIZE];
    while (mst_cuda_take_notice(notice)) continue;
    muster_sim_reset(NULL);
    mst_cuda_forget_lost();
}

/* ---- what is chosen ---- */

static muster_status bits_body(muster_worker *worker, void *unused) {
    static double first[MOST], second[MOST];
    wanted a = usual;
    (void)unused;
    mst_convolution_open(worker->device);
    a.fractions = true, a.n = 8, a.extent = 10;
    for (int32_t kind = 0; kind < KINDS; kind++) {
        problem p;
        problem_make(worker, &a, &p);
        assert_ok(compute(worker, &p, kind));
        const int64_t count = result_take(worker, &p, kind, first);
        for (int32_t again = 0; again < 4; again++) {
            assert_ok(compute(worker, &p, kind));
            (void)result_take(worker, &p, kind, second);
            assert_memory_equal(first, second, (size_t)count * sizeof *first);
        }
        problem_end(&p);
    }
    assert_int_equal(muster_sim_calls(runs[2]), 5);
    return MUSTER_OK;
}

static void the_same_operands_give_the_same_bits(void **state) {
    (void)state;
    on_new_machine(bits_body);
}

static double worst;
static muster_status precision_body(muster_worker *worker, void *unused) {
    static double expected[MOST], received[MOST];
    wanted a = usual;
    (void)unused;
    mst_convolution_open(worker->device);
    a.fractions = true;
    worst = 0;
    for (int32_t kind = 0; kind < KINDS; kind++) {
        problem p;
        problem_make(worker, &a, &p);
        expect(worker, &p, kind, expected);
        assert_ok(compute(worker, &p, kind));
        const int64_t count = result_take(worker, &p, kind, received);
        for (int64_t i = 0; i < count; i++) worst = fmax(worst, fabs(received[i] - expected[i]) / fabs(expected[i]));
        problem_end(&p);
    }
    return MUSTER_OK;
}

static void f32_is_computed_in_tf32_only_where_the_device_may(void **state) {
    (void)state;
    on_new_machine(precision_body);
    assert_true(worst < 1e-6);
    setenv("MUSTER_TF32", "1", 1);
    on_new_machine(precision_body);
    unsetenv("MUSTER_TF32");
    assert_true(worst > 1e-5 && worst < 1e-3);
}

/* The simulated library puts algorithms first that want 1 GiB of memory, or round results of 16
 * bits once more. */
static muster_status chosen_body(muster_worker *worker, void *unused) {
    static double expected[MOST];
    int32_t computed = 0;
    (void)unused;
    mst_convolution_open(worker->device);
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int32_t kind = 0; kind < KINDS; kind++)
            for (int64_t size = 1; size <= 5; size += 2) {
                wanted a = usual;
                problem p;
                a.dtype = dtype, a.size = size, a.before = a.after = size / 2;
                problem_make(worker, &a, &p);
                expect(worker, &p, kind, expected);
                assert_ok(compute(worker, &p, kind));
                assert_same(worker, &p, kind, expected, muster_dtype_name(dtype));
                problem_end(&p);
                computed++;
            }
    assert_int_equal(computed, 4 * KINDS * 3);
    for (int32_t kind = 0; kind < KINDS; kind++) assert_int_equal(muster_sim_calls(runs[kind]), 12);
    return MUSTER_OK;
}

static void algorithms_need_little_memory_and_sum_plainly(void **state) {
    (void)state;
    on_new_machine(chosen_body);
}

/* More padding on one side is added in scratch memory: with an even window, "same" has that. */
static muster_status padding_body(muster_worker *worker, void *unused) {
    static double expected[MOST];
    (void)unused;
    mst_convolution_open(worker->device);
    for (int64_t before = 0; before <= 2; before++)
        for (int64_t after = 0; after <= 2; after++)
            for (int32_t kind = 0; kind < KINDS; kind++) {
                wanted a = usual;
                problem p;
                a.size = 4, a.before = before, a.after = after;
                problem_make(worker, &a, &p);
                expect(worker, &p, kind, expected);
                assert_ok(compute(worker, &p, kind));
                assert_same(worker, &p, kind, expected, "padding");
                problem_end(&p);
            }
    for (int32_t kind = 0; kind < KINDS; kind++) assert_int_equal(muster_sim_calls(runs[kind]), 9);
    return MUSTER_OK;
}

static void padding_may_differ_before_and_behind(void **state) {
    (void)state;
    on_new_machine(padding_body);
}

/* ---- streams ---- */

static muster_status stream_body(muster_worker *worker, void *unused) {
    static double expected[MOST];
    problem p;
    const mst_cuda_api *cu;
    mst_cu_stream stream;
    (void)unused;
    assert_ok(mst_cuda_api_get(&cu));
    assert_int_equal(cu->cuStreamCreate(&stream, MST_CU_STREAM_NON_BLOCKING), 0);
    mst_convolution_open(worker->device);
    problem_make(worker, &usual, &p);
    for (int32_t round = 0; round < 40; round++) {
        assert_ok(mst_cuda_adopt_stream(worker->device, round % 2 ? stream : NULL));
        float *x = p.operands[X].host_storage.data;
        for (int64_t i = 0; i < muster_tensor_count(p.operands[X].host_storage); i++) x[i] = (float)((i + round) % 7);
        ops_send(worker, &p.operands[X]);
        expect(worker, &p, 0, expected);
        for (int64_t i = 0; i < muster_tensor_count(p.operands[X].host_storage); i++) x[i] = NAN;
        ops_send(worker, &p.operands[X]);
        for (int64_t i = 0; i < muster_tensor_count(p.operands[X].host_storage); i++) x[i] = (float)((i + round) % 7);
        ops_send(worker, &p.operands[X]);
        assert_ok(compute(worker, &p, 0));
        assert_same(worker, &p, 0, expected, "adopted");
    }
    assert_ok(mst_cuda_adopt_stream(worker->device, NULL));
    assert_int_equal(muster_sim_calls(runs[0]), 40);
    assert_int_equal(muster_sim_calls("cudnnSetStream"), 1 + 40); /* once with the handle, once for each change */
    assert_int_equal(cu->cuStreamSynchronize(stream), 0);
    assert_int_equal(cu->cuStreamDestroy_v2(stream), 0);
    problem_end(&p);
    return MUSTER_OK;
}

static void convolutions_go_into_the_stream_that_was_adopted(void **state) {
    (void)state;
    on_new_machine(stream_body);
}

static int add_code(void **state) {
    (void)state;
    setenv("MUSTER_TEST_DEVICES", "cuda", 1);
    return mst_code_add(&mst_nn_code) == MUSTER_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_runs_make_nothing),
        cmocka_unit_test(each_call_that_fails_is_told_or_done_without),
        cmocka_unit_test(a_handle_that_cannot_be_made_is_noticed),
        cmocka_unit_test(the_environment_can_say_none),
        cmocka_unit_test(no_handle_is_made_while_a_collective_is_in_flight),
        cmocka_unit_test(a_device_that_is_lost_in_a_convolution_is_named),
        cmocka_unit_test(the_same_operands_give_the_same_bits),
        cmocka_unit_test(f32_is_computed_in_tf32_only_where_the_device_may),
        cmocka_unit_test(algorithms_need_little_memory_and_sum_plainly),
        cmocka_unit_test(padding_may_differ_before_and_behind),
        cmocka_unit_test(convolutions_go_into_the_stream_that_was_adopted),
    };
    return cmocka_run_group_tests(tests, add_code, NULL);
}
