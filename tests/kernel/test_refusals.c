/* What is refused, with which sentence; and that all goes on working after it. */
#include "base_skip.h"
#include "kernel_fixture.h"
#include "muster/machine.h"

#include <stdlib.h>

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

static const int32_t of_fill[] = {MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_I32};
static const char good[] = "KERNEL void fill(GLOBAL_MEM ga_int *x, ga_size n, ga_int value) { MUSTER_EACH(i, n) x[i] = value; }\n";

static muster_status create(const char *name, const char *source, const muster_kernel_options *options, muster_kernel **kernel) {
    return muster_kernel_create(runtime, name, source, of_fill, 3, options, kernel);
}

static void check_good(void) {
    muster_kernel *kernel;
    int32_t values[5];
    assert_ok(create("fill", good, NULL, &kernel));
    kernel_array x = kernel_put(runtime, 1, MUSTER_I32, 5, NULL);
    assert_ok(muster_kernel_call_elements(
        kernel, 5, 0, ARGUMENTS(muster_argument_buffer(x.view), muster_argument_size(5), muster_argument_int(MUSTER_I32, 7))));
    kernel_get(&x, values);
    for (int i = 0; i < 5; i++) assert_int_equal(values[i], 7);
    kernel_drop(&x);
    assert_ok(muster_kernel_destroy(kernel));
}

static void a_text_that_does_not_compile_names_kernel_and_line(void **state) {
    (void)state;
    muster_kernel *kernel = (muster_kernel *)&state;
    assert_refused(create("fill",
                          "/* one */\n/* two */\nKERNEL void fill(GLOBAL_MEM ga_int *x, ga_size n, ga_int value) {\n    x[0] = ;\n}\n",
                          NULL, &kernel),
                   MUSTER_INVALID_ARGUMENT, "muster_kernel_create: kernel 'fill' on device 0 (");
    assert_null(kernel);
    assert_non_null(strstr(muster_last_error(), ": expected source that compiles, received: "));
    if (!strstr(muster_last_error(), "fill:4:") && !strstr(muster_last_error(), "fill(4)"))
        fail_msg("no line 4 in: %s", muster_last_error());
    const char *log = muster_kernel_create_log();
    if (!strstr(log, "fill:4:") && !strstr(log, "fill(4)")) fail_msg("no line 4 in the log: %s", log);
    assert_true(strncmp(log, "kernel 'fill' on ", 17) == 0);
    assert_non_null(strstr(log, muster_runtime_device(runtime, 0)));
    check_good();
    assert_string_equal(muster_kernel_create_log(), "");
}

static void a_function_that_the_text_lacks_is_named(void **state) {
    (void)state;
    muster_kernel *kernel;
    assert_refused(create("fil", good, NULL, &kernel), MUSTER_INVALID_ARGUMENT, "muster_kernel_create: kernel 'fil' on device 0 (");
    assert_null(kernel);
    check_good();
}

static void what_create_is_given_is_checked(void **state) {
    (void)state;
    muster_kernel *kernel;
    muster_kernel_options options;
    int32_t types[MUSTER_KERNEL_PARAMETERS_MAX + 1] = {MUSTER_PARAMETER_BUFFER};
    assert_refused(muster_kernel_create(NULL, "fill", good, of_fill, 3, NULL, &kernel), MUSTER_INVALID_ARGUMENT,
                   "muster_kernel_create: runtime: expected a runtime");
    assert_refused(muster_kernel_create(runtime, "fill", good, of_fill, 3, NULL, NULL), MUSTER_INVALID_ARGUMENT,
                   "kernel: expected the address of a pointer");
    assert_refused(create(NULL, good, NULL, &kernel), MUSTER_INVALID_ARGUMENT, "name: expected the name of a function, received NULL");
    assert_refused(create("", good, NULL, &kernel), MUSTER_INVALID_ARGUMENT, "received \"\"");
    assert_refused(create("a b", good, NULL, &kernel), MUSTER_INVALID_ARGUMENT,
                   "name: expected letters, digits and _, no digit first, received 'a b'");
    assert_refused(create("fill", NULL, NULL, &kernel), MUSTER_INVALID_ARGUMENT,
                   "source of kernel 'fill': expected a string, received NULL");
    assert_refused(muster_kernel_create(runtime, "fill", good, NULL, 3, NULL, &kernel), MUSTER_INVALID_ARGUMENT,
                   "parameters of kernel 'fill': expected 3 types, received NULL");
    assert_refused(muster_kernel_create(runtime, "fill", good, types, MUSTER_KERNEL_PARAMETERS_MAX + 1, NULL, &kernel), MUSTER_OUT_OF_RANGE,
                   "expected 0 to 64, received 65");
    assert_refused(muster_kernel_create(runtime, "fill", good, types, -1, NULL, &kernel), MUSTER_INVALID_ARGUMENT,
                   "expected 0 to 64, received -1");
    types[1] = 99;
    assert_refused(muster_kernel_create(runtime, "fill", good, types, 2, NULL, &kernel), MUSTER_INVALID_ARGUMENT,
                   "parameters[1] of kernel 'fill': expected a muster_dtype");
    muster_kernel_options_init(&options);
    const int64_t threads[] = {64, 0};
    options.threads = threads;
    options.thread_count = 2;
    assert_refused(create("fill", good, &options, &kernel), MUSTER_INVALID_ARGUMENT, "options: threads[1]: expected 1 or more, received 0");
    options.thread_count = MUSTER_KERNEL_WARM_MAX + 1;
    assert_refused(create("fill", good, &options, &kernel), MUSTER_OUT_OF_RANGE,
                   "options: expected a thread_count from 0 to 16, received 17");
    options.struct_size = 0;
    assert_refused(create("fill", good, &options, &kernel), MUSTER_INVALID_ARGUMENT,
                   "options: struct_size of muster_kernel_options: expected the size of the program's struct, a multiple of 8 up to 4096 "
                   "(muster_kernel_options_init sets 48), received 0");
    assert_ok(muster_kernel_destroy(NULL));
    assert_null(muster_kernel_name(NULL));
    assert_null(muster_kernel_log(NULL));
    assert_int_equal(muster_kernel_parameter_count(NULL), -1);
    assert_int_equal(muster_kernel_parameter(NULL, 0), -1);
}

static void wrong_flags_are_refused(void **state) {
    (void)state;
    muster_kernel *kernel;
    muster_kernel_options options;
    muster_kernel_options_init(&options);
    options.flags = "GA_USE_SMALL|GA_USE_NOTHING";
    assert_refused(create("fill", good, &options, &kernel), MUSTER_INVALID_ARGUMENT,
                   "flags of kernel 'fill': expected GA_USE_DOUBLE, GA_USE_SMALL, GA_USE_HALF, GA_USE_CUDA or GA_USE_OPENCL, received "
                   "'GA_USE_NOTHING'");
    options.flags = "GA_USE_COMPLEX";
    assert_refused(create("fill", good, &options, &kernel), MUSTER_INVALID_ARGUMENT, "expected flags that some device honours");
    options.flags = "GA_USE_OPENCL | GA_USE_CUDA";
    assert_refused(create("fill", good, &options, &kernel), MUSTER_INVALID_ARGUMENT, "which no device is both of");
    options.flags = on_gpus() ? "GA_USE_OPENCL" : "GA_USE_CUDA";
    assert_refused(create("fill", good, &options, &kernel), MUSTER_UNAVAILABLE,
                   on_gpus() ? "expected a device for OpenCL, as the flags say, received one for CUDA"
                             : "expected a device for CUDA, as the flags say, received one for OpenCL");
    options.flags = on_gpus() ? "GA_USE_CUDA" : "GA_USE_OPENCL";
    assert_ok(create("fill", good, &options, &kernel));
    assert_ok(muster_kernel_destroy(kernel));
}

static void what_a_kernel_says_of_itself(void **state) {
    (void)state;
    muster_kernel *kernel;
    assert_ok(create("fill", good, NULL, &kernel));
    assert_string_equal(muster_kernel_name(kernel), "fill");
    assert_int_equal(muster_kernel_parameter_count(kernel), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(muster_kernel_parameter(kernel, i), of_fill[i]);
    assert_int_equal(muster_kernel_parameter(kernel, 3), -1);
    assert_int_equal(muster_kernel_parameter(kernel, -1), -1);
    assert_non_null(muster_kernel_log(kernel));
    assert_ok(muster_kernel_destroy(kernel));
}

/* ---- launches ---- */

static void arguments_are_compared_with_what_was_declared(void **state) {
    (void)state;
    muster_kernel *kernel;
    assert_ok(create("fill", good, NULL, &kernel));
    kernel_array x = kernel_put(runtime, 0, MUSTER_I32, 4, NULL);
    const muster_argument buffer = muster_argument_buffer(x.view), size = muster_argument_size(4),
                          value = muster_argument_int(MUSTER_I32, 1);
#define REFUSED(code, text, ...) assert_refused(muster_kernel_call_elements(kernel, 4, 0, ARGUMENTS(__VA_ARGS__)), code, text)
    REFUSED(MUSTER_INVALID_ARGUMENT, "muster_kernel_call_elements: argument_count of kernel 'fill': expected 3, received 2", buffer, size);
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected 3, received 4", buffer, size, value, value);
    assert_refused(muster_kernel_call_elements(kernel, 4, 0, NULL, 3), MUSTER_INVALID_ARGUMENT,
                   "arguments of kernel 'fill': expected 3, received NULL");
    assert_refused(muster_kernel_call_elements(kernel, 4, 0, NULL, -1), MUSTER_INVALID_ARGUMENT, "expected 3, received -1");
    assert_refused(muster_kernel_call_elements(kernel, 4, 0, &buffer, 1000), MUSTER_INVALID_ARGUMENT, "expected 3, received 1000");
    REFUSED(MUSTER_INVALID_ARGUMENT, "arguments[1] of kernel 'fill': expected ga_size, received i32", buffer, value, value);
    REFUSED(MUSTER_INVALID_ARGUMENT, "arguments[0] of kernel 'fill': expected buffer, received ga_size", size, size, value);
    REFUSED(MUSTER_INVALID_ARGUMENT, "arguments[2] of kernel 'fill': expected i32, received buffer", buffer, size, buffer);
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected i32, received f32", buffer, size, muster_argument_float(MUSTER_F32, 1));
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected i32, received type 77, which does not exist", buffer, size, muster_argument_int(77, 1));
    REFUSED(MUSTER_INVALID_ARGUMENT, "arguments[0] of kernel 'fill': expected a tensor, received none",
            muster_argument_buffer(muster_tensor_none()), size, value);
    muster_tensor odd = x.view;
    odd.byte_offset += 2;
    odd.shape[0] = 3;
    REFUSED(MUSTER_INVALID_ARGUMENT, "arguments[0] of kernel 'fill': expected i32 data aligned to 4 bytes, received address ",
            muster_argument_buffer(odd), size, value);
    muster_tensor wrong = x.view;
    wrong.dtype = 99;
    REFUSED(MUSTER_INVALID_ARGUMENT, "arguments[0] of kernel 'fill': ", muster_argument_buffer(wrong), size, value);
    int32_t values[4];
    kernel_get(&x, values);
    for (int i = 0; i < 4; i++) assert_int_equal(values[i], 0);
    assert_refused(muster_kernel_call_elements(NULL, 4, 0, &buffer, 1), MUSTER_INVALID_ARGUMENT,
                   "muster_kernel_call_elements: kernel: expected a kernel, received NULL");
    kernel_drop(&x);
    assert_ok(muster_kernel_destroy(kernel));
    check_good();
}

static void views_stay_inside_their_tensor(void **state) {
    (void)state;
    muster_kernel *kernel;
    assert_ok(create("fill", good, NULL, &kernel));
    kernel_array x = kernel_put(runtime, 1, MUSTER_I32, 4, NULL);
    const muster_argument size = muster_argument_size(1), value = muster_argument_int(MUSTER_I32, 3);
    muster_tensor view = x.view;
    view.shape[0] = 1000;
    REFUSED(MUSTER_INVALID_ARGUMENT, "arguments[0] of kernel 'fill': expected a view within the ", muster_argument_buffer(view), size,
            value);
    view = x.view;
    view.strides[0] = -1000;
    REFUSED(MUSTER_INVALID_ARGUMENT, "expected a view within the ", muster_argument_buffer(view), size, value);
    view.strides[0] = INT64_MAX / 2;
    REFUSED(MUSTER_OVERFLOW, "arguments[0] of kernel 'fill': expected a size that fits 64 bits", muster_argument_buffer(view), size, value);
    view = x.view; /* backwards is fine */
    view.byte_offset += 12;
    view.strides[0] = -1;
    REFUSED(MUSTER_INVALID_ARGUMENT,
            "arguments[0] of kernel 'fill': expected a contiguous tensor, received one with the strides (-1,); muster_argument_strided "
            "passes it to a source that takes strides",
            muster_argument_buffer(view), size, value);
    assert_ok(muster_kernel_call_elements(kernel, 1, 0, ARGUMENTS(muster_argument_strided(view), size, value)));
    int32_t values[4];
    kernel_get(&x, values);
    assert_true(values[0] == 0 && values[1] == 0 && values[2] == 0 && values[3] == 3);
    view = x.view;
    kernel_drop(&x);
    REFUSED(MUSTER_INVALID_ARGUMENT,
            "arguments[0] of kernel 'fill': expected memory of a tensor that muster_runtime_tensor_create gave and that was not destroyed",
            muster_argument_buffer(view), size, value);
    assert_ok(muster_kernel_destroy(kernel));
}

/* What the device's compiler takes as it comes, and a launch would die of. */
static void declared_types_are_compared_with_the_text(void **state) {
    (void)state;
    static const char text[] = "KERNEL void q(GLOBAL_MEM ga_float *x, const ga_size n, ga_float a GA_DECL_SHARED_PARAM(ga_float, s)) {}";
    static const struct {
        int32_t types[3];
        const char *message;
    } wrong[] = {
        {{MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER, MUSTER_F32},
         "parameters[0] of kernel 'q': expected MUSTER_PARAMETER_BUFFER, as the source has it, received ga_size"},
        {{MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_F32},
         "parameters[1] of kernel 'q': expected ga_size, as the source has it, received buffer"},
        {{MUSTER_PARAMETER_BUFFER, MUSTER_I32, MUSTER_F32},
         "parameters[1] of kernel 'q': expected ga_size, as the source has it, received i32"},
        {{MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_F64},
         "parameters[2] of kernel 'q': expected f32, as the source has it, received f64"},
        {{MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_I32},
         "parameters[2] of kernel 'q': expected f32, as the source has it, received i32"},
    };
    muster_kernel *kernel;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(muster_kernel_create(runtime, "q", text, wrong[i].types, 3, NULL, &kernel), MUSTER_INVALID_ARGUMENT,
                       wrong[i].message);
    assert_ok(
        muster_kernel_create(runtime, "q", text, (const int32_t[]){MUSTER_PARAMETER_BUFFER, MUSTER_U64, MUSTER_F32}, 3, NULL, &kernel));
    assert_ok(muster_kernel_destroy(kernel));
}

static void texts_include_no_files(void **state) {
    (void)state;
    muster_kernel *kernel;
    assert_refused(muster_kernel_create(runtime, "q",
                                        "/* #include <a.h> */\n#include \"cluda.h\"\n  #  include \"/etc/passwd\"\nKERNEL void q() {}",
                                        NULL, 0, NULL, &kernel),
                   MUSTER_INVALID_ARGUMENT, "source of kernel 'q': expected no #include but that of \"cluda.h\", received \"/etc/passwd\"");
    assert_ok(muster_kernel_create(runtime, "q", "/* #include <a.h> */\n#include \"cluda.h\"\nKERNEL void q() {}", NULL, 0, NULL, &kernel));
    assert_ok(muster_kernel_destroy(kernel));
}

static bool says_what_a_text_declares(void) {
    muster_library_info info = {.struct_size = sizeof info};
    for (int32_t i = 0; i < muster_library_count() && strcmp(info.name, "OpenCL") != 0; i++) assert_ok(muster_library_get_info(i, &info));
    assert_string_equal(info.name, "OpenCL");
    return strncmp(info.text, "PoCL, ", 6) != 0 || atoi(info.version) < 4;
}

/* PoCL 3.1 and 6 end the process at the launch; 6 does not say what a text declares. */
static void a_device_has_local_memory_for_the_text(void **state) {
    if (on_gpus()) SKIP("not on GPUs: there the compiler refuses it in words of its own");
    (void)state;
    muster_kernel *kernel;
    if (!says_what_a_text_declares()) SKIP("PoCL 6 says of each text that it declares no local memory");
    assert_refused(muster_kernel_create(runtime, "q",
                                        "KERNEL void q(GLOBAL_MEM ga_float *x) { LOCAL_MEM ga_float big[10000000]; big[LID_0] = x[0]; "
                                        "local_barrier(); x[1] = big[0]; }",
                                        (const int32_t[]){MUSTER_PARAMETER_BUFFER}, 1, NULL, &kernel),
                   MUSTER_UNAVAILABLE, "bytes of local memory that the device has, received a text with 40000000");
}

/* What macros hide from the text's reader, the device's compiler shows. */
static void a_buffer_behind_a_macro_is_no_number(void **state) {
    if (on_gpus()) SKIP("not on GPUs: whose compiler shows the size of a parameter only");
    (void)state;
    muster_kernel *kernel;
    assert_refused(muster_kernel_create(runtime, "q",
                                        "#define P GLOBAL_MEM ga_float *\n#define N ga_size\nKERNEL void q(N n, P a) { a[0] = n; }",
                                        (const int32_t[]){MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE}, 2, NULL, &kernel),
                   MUSTER_INVALID_ARGUMENT, "parameter 0: expected a buffer, as declared, received a text with a scalar there");
}

/* ---- where ---- */

typedef struct tried {
    muster_kernel *kernel;
    muster_runtime *other;
    muster_tensor tensor;
} tried;

static muster_status try_inside(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    (void)out;
    const tried *t = user;
    muster_kernel *made = NULL;
    const muster_grid grid = kernel_grid(1, 1);
    const muster_argument arguments[] = {muster_argument_buffer(t->tensor), muster_argument_size(1), muster_argument_int(MUSTER_I32, 1)};
    if (muster_kernel_create(runtime, "fill", good, of_fill, 3, NULL, &made) != MUSTER_BAD_STATE || made)
        return muster_fail(MUSTER_USER, "created inside a body");
    if (muster_kernel_destroy(t->kernel) != MUSTER_BAD_STATE) return muster_fail(MUSTER_USER, "destroyed inside a body");
    if (muster_kernel_call(t->kernel, &grid, arguments, 3) != MUSTER_BAD_STATE) return muster_fail(MUSTER_USER, "called inside a body");
    if (muster_kernel_launch(w, t->kernel, NULL, arguments, 3) != MUSTER_INVALID_ARGUMENT)
        return muster_fail(MUSTER_USER, "launched without a grid");
    if (muster_kernel_launch(NULL, t->kernel, &grid, arguments, 3) != MUSTER_INVALID_ARGUMENT)
        return muster_fail(MUSTER_USER, "launched without a worker");
    if (muster_kernel_launch(w, NULL, &grid, arguments, 3) != MUSTER_INVALID_ARGUMENT)
        return muster_fail(MUSTER_USER, "launched without a kernel");
    return muster_kernel_launch(w, t->kernel, &grid, arguments, 3);
}

static void a_body_may_launch_only(void **state) {
    (void)state;
    tried t = {.kernel = NULL};
    muster_function *function;
    assert_ok(create("fill", good, NULL, &t.kernel));
    kernel_array x = kernel_put(runtime, 0, MUSTER_I32, 1, NULL);
    t.tensor = x.view;
    assert_ok(muster_function_create(runtime, "try", try_inside, &t, &function));
    /* rank 1 is told that the tensor is rank 0's, with both names */
    assert_refused(muster_function_call(function, NULL, 0, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_kernel_launch: arguments[0] of kernel 'fill': expected memory of device 1 (");
    assert_non_null(strstr(muster_last_error(), ", received memory of device 0 ("));
    assert_non_null(strstr(muster_last_error(), "muster_runtime_tensor_copy copies it there"));
    assert_ok(muster_function_destroy(function));
    kernel_drop(&x);
    assert_ok(muster_kernel_destroy(t.kernel));
}

static muster_status launch_foreign(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    (void)out;
    return muster_kernel_launch_elements(w, user, 1, 0, NULL, 0);
}

static void a_kernel_belongs_to_its_runtime(void **state) {
    (void)state;
    muster_runtime *other = kernel_open("host:1");
    muster_kernel *kernel = kernel_make(other, "no_parameters");
    muster_function *function;
    assert_ok(muster_function_create(runtime, "launch", launch_foreign, kernel, &function));
    assert_refused(muster_function_call(function, NULL, 0, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "kernel: expected one of the worker's runtime, received 'no_parameters' of another");
    assert_ok(muster_function_destroy(function));
    fixture_close(other); /* and destroys the kernel */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_does_not_compile_names_kernel_and_line),
        cmocka_unit_test(a_function_that_the_text_lacks_is_named),
        cmocka_unit_test(what_create_is_given_is_checked),
        cmocka_unit_test(wrong_flags_are_refused),
        cmocka_unit_test(what_a_kernel_says_of_itself),
        cmocka_unit_test(arguments_are_compared_with_what_was_declared),
        cmocka_unit_test(views_stay_inside_their_tensor),
        cmocka_unit_test(declared_types_are_compared_with_the_text),
        cmocka_unit_test(texts_include_no_files),
        cmocka_unit_test(a_device_has_local_memory_for_the_text),
        cmocka_unit_test(a_buffer_behind_a_macro_is_no_number),
        cmocka_unit_test(a_body_may_launch_only),
        cmocka_unit_test(a_kernel_belongs_to_its_runtime),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
