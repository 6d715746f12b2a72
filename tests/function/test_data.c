/* MUSTER_DATA and muster_tensor_data: the typed address of a tensor in host code and in bodies, for
 * each dtype, and what they refuse; MUSTER_MUST. A process that they end is a child of the test. */
#include "function_fixture.h"
#include "muster/worker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- host code ---- */

#define CASE(name, type, dtype_)                                                        \
    do {                                                                                \
        type values[3] = {0};                                                           \
        const muster_tensor tensor = name(values, 3);                                   \
        assert_int_equal(tensor.dtype, dtype_);                                         \
        assert_int_equal(tensor.ndim, 1);                                               \
        assert_ptr_equal(MUSTER_DATA(type, tensor), values);                            \
        assert_ptr_equal(MUSTER_DATA(const type, tensor), values);                      \
        assert_ptr_equal(MUSTER_DATA(void, tensor), values);                            \
        assert_int_equal(sizeof *MUSTER_DATA(type, tensor), muster_dtype_size(dtype_)); \
        cases++;                                                                        \
    } while (0)

static void each_dtype_has_a_macro_and_a_type(void **state) {
    (void)state;
    int cases = 0;
    CASE(muster_f16, uint16_t, MUSTER_F16);
    CASE(muster_bf16, uint16_t, MUSTER_BF16);
    CASE(muster_f32, float, MUSTER_F32);
    CASE(muster_f64, double, MUSTER_F64);
    CASE(muster_i8, int8_t, MUSTER_I8);
    CASE(muster_u8, uint8_t, MUSTER_U8);
    CASE(muster_i16, int16_t, MUSTER_I16);
    CASE(muster_i32, int32_t, MUSTER_I32);
    CASE(muster_i64, int64_t, MUSTER_I64);
    CASE(muster_i64, long long, MUSTER_I64);
    CASE(muster_u32, uint32_t, MUSTER_U32);
    CASE(muster_u64, uint64_t, MUSTER_U64);
    CASE(muster_u64, unsigned long long, MUSTER_U64);
    CASE(muster_bool, _Bool, MUSTER_BOOL);
    assert_int_equal(cases, 14);
}

static void sizes_are_integers_of_any_type(void **state) {
    (void)state;
    float x[2 * 3 * 4 * 5];
    const size_t two = 2;
    const unsigned three = 3;
    const short four = 4;
    const int64_t five = 5;
    const muster_tensor tensor = muster_f32(x, two, three, four, five, 1ull, 1, 1u, sizeof(char));
    const int64_t expected[] = {2, 3, 4, 5, 1, 1, 1, 1};
    assert_int_equal(tensor.ndim, 8);
    assert_memory_equal(tensor.shape, expected, sizeof expected);
    assert_int_equal(muster_f32(x).ndim, 0);
    int evaluated = 0;
    assert_int_equal(muster_f32(x, (evaluated++, two)).shape[0], 2);
    assert_int_equal(evaluated, 1);
    const muster_tensor huge = muster_f32(x, SIZE_MAX);
    void *data = x;
    assert_refused(muster_tensor_data(huge, MUSTER_F32, &data), MUSTER_INVALID_ARGUMENT, "muster_tensor_data: tensor: ");
    assert_null(data);
}

static void a_view_begins_at_its_first_element(void **state) {
    (void)state;
    double x[4][3];
    assert_ptr_equal(MUSTER_DATA(double, muster_tensor_slice(muster_f64(x, 4, 3), 2, 4)), x[2]);
    assert_null(MUSTER_DATA(float, muster_tensor_none())); /* also an output that the call does not want */
}

static void others_are_refused_with_their_reason(void **state) {
    (void)state;
    float x[2][3];
    void *data = x;
    const muster_tensor tensor = muster_f32(x, 2, 3);
    assert_refused(muster_tensor_data(tensor, MUSTER_F64, &data), MUSTER_DTYPE_MISMATCH,
                   "muster_tensor_data: tensor: expected f64, received f32 (2, 3)");
    assert_null(data);
    assert_refused(muster_tensor_data(tensor, 77, &data), MUSTER_DTYPE_MISMATCH, "expected unknown, received f32");
    assert_refused(muster_tensor_data(muster_tensor_transpose(tensor), MUSTER_F32, &data), MUSTER_UNSUPPORTED,
                   "muster_tensor_data: tensor: expected a contiguous one, received f32 (3, 2) with other strides");
    assert_refused(muster_tensor_data(muster_tensor_reshape(tensor, 1, (int64_t[]){5}), MUSTER_F32, &data), MUSTER_INVALID_ARGUMENT,
                   "muster_tensor_data: tensor: ");
    assert_refused(muster_tensor_data(tensor, MUSTER_F32, NULL), MUSTER_INVALID_ARGUMENT, "data: expected the address of a pointer");
    muster_tensor on_device = tensor;
    on_device.device = 0;
    assert_refused(muster_tensor_data(on_device, MUSTER_F32, &data), MUSTER_INVALID_ARGUMENT,
                   "expected memory that this thread can read, received memory of device 0; muster_worker_read copies it");
}

/* ---- bodies ---- */

static muster_status squares(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w;
    const float *x = MUSTER_DATA(const float, in[0]);
    double *y = MUSTER_DATA(double, out[0]), *sum = MUSTER_DATA(double, out[1]);
    void *data;
    if (muster_tensor_data(in[0], MUSTER_I32, &data) != MUSTER_DTYPE_MISMATCH) return MUSTER_INTERNAL;
    if (sum) *sum = 0;
    for (int64_t i = 0; i < muster_tensor_count(in[0]); i++) {
        y[i] = (double)x[i] * x[i];
        if (sum) *sum += y[i];
    }
    *(_Atomic int *)user += 1;
    return MUSTER_OK;
}

static void a_body_reads_and_writes_by_typed_pointers(void **state) {
    (void)state;
    enum { ROWS = 7 };
    for (int devices = 1; devices <= 3; devices++) {
        muster_runtime *rt = fixture_open("host", devices);
        muster_function *f;
        _Atomic int bodies = 0;
        float x[ROWS];
        double y[ROWS], sum = -1;
        for (int i = 0; i < ROWS; i++) x[i] = (float)(i - 2);
        assert_ok(muster_function_create(rt, "squares", squares, &bodies, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F64, 1, MUSTER_GATHER));
        assert_ok(muster_function_output(f, "sum", MUSTER_F64, 0, MUSTER_SUM));
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1,
                                       (muster_tensor[]){muster_f64(y, ROWS), muster_f64(&sum)}, 2, NULL));
        assert_true(sum == 4 + 1 + 0 + 1 + 4 + 9 + 16);
        for (int i = 0; i < ROWS; i++) assert_true(y[i] == (i - 2) * (i - 2));
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1,
                                       (muster_tensor[]){muster_f64(y, ROWS), muster_tensor_none()}, 2, NULL));
        assert_int_equal(bodies, 2 * devices);
        fixture_close(rt);
    }
}

static muster_status give_address(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    void *data;
    (void)w, (void)out, (void)user;
    return muster_tensor_data(in[0], MUSTER_F32, &data);
}

static void memory_of_a_device_apart_is_refused(void **state) {
    (void)state;
    muster_runtime *rt = fixture_open("discrete", 2);
    muster_function *f;
    float x[4] = {0};
    assert_ok(muster_function_create(rt, "address", give_address, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 4)}, 1, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_tensor_data: tensor: expected memory that this thread can read, received memory of device ");
    fixture_close(rt);
}

/* ---- what ends the process ---- */

/* The child writes one line to stderr, with its place in this file, and aborts. */
static void assert_aborts_at(void (*run)(void), int line, const char *words) {
    int channel[2], status;
    char text[1200] = "", expected[1200];
    snprintf(expected, sizeof expected, "%s:%d: %s\n", __FILE__, line, words);
    assert_int_equal(pipe(channel), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(channel[1], 2);
        close(channel[0]), close(channel[1]);
        signal(SIGABRT, SIG_DFL);
        run();
        _exit(0);
    }
    close(channel[1]);
    for (size_t at = 0; at < sizeof text - 1;) {
        const ssize_t got = read(channel[0], text + at, sizeof text - 1 - at);
        if (got <= 0) break;
        at += (size_t)got;
    }
    close(channel[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_string_equal(text, expected);
}

enum { FIRST_LINE = __LINE__ + 2 }; /* of these four functions */
#define assert_aborts(run, line, words) assert_aborts_at(run, FIRST_LINE + (line), words)
static void fail_must(void) { MUSTER_MUST(muster_fail(MUSTER_OUT_OF_RANGE, "row 7 of 3")); }
static void give_own_status(void) { MUSTER_MUST(MUSTER_USER); }
static void ask_other_dtype(void) { (void)MUSTER_DATA(int32_t, muster_f32((float[1]){0}, 1)); }
static void ask_halves(void) { (void)MUSTER_DATA(uint16_t, muster_f32((float[1]){0}, 1)); }

static void a_failure_names_its_place_and_aborts(void **state) {
    (void)state;
    MUSTER_MUST(MUSTER_OK);
    muster_must(MUSTER_OK, NULL, 0);
    assert_aborts(fail_must, 0, "OUT_OF_RANGE: row 7 of 3");
    assert_aborts(ask_other_dtype, 2, "DTYPE_MISMATCH: muster_tensor_data: tensor: expected i32, received f32 (1,)");
    assert_aborts(ask_halves, 3, "DTYPE_MISMATCH: muster_tensor_data: tensor: expected f16, received f32 (1,)");
}

/* In a thread without an error. */
static void a_status_without_a_message_is_named_too(void **state) {
    (void)state;
    assert_aborts(give_own_status, 1, "USER: there is no message");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_without_a_message_is_named_too), /* first: later ones leave a last error */
        cmocka_unit_test(each_dtype_has_a_macro_and_a_type),         cmocka_unit_test(sizes_are_integers_of_any_type),
        cmocka_unit_test(a_view_begins_at_its_first_element),        cmocka_unit_test(others_are_refused_with_their_reason),
        cmocka_unit_test(a_body_reads_and_writes_by_typed_pointers), cmocka_unit_test(memory_of_a_device_apart_is_refused),
        cmocka_unit_test(a_failure_names_its_place_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
