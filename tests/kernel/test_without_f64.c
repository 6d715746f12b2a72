/* A device without f64: kernels that need it are refused when they are created, and others run. */
#include "base_skip.h"
#include "kernel_fixture.h"

#include <stdlib.h>

static const char message[] = "f64 arithmetic (OpenCL's cl_khr_fp64), which the device";

static void kernels_in_f64_are_refused_and_others_run(void **state) {
    static const struct {
        const char *text, *flags, *defines[2];
    } refused[] = {
        {"every_type", NULL, {NULL}},              /* a parameter is f64 */
        {"inc", "GA_USE_DOUBLE", {NULL}},          /* the program says so */
        {"inc", NULL, {"WIDE_TYPE", "ga_double"}}, /* the type of a macro */
    };
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: they have another compiler");
    if (!OPENCL_WITHOUT_F64[0]) SKIP("libOpenCL.so.1 was not found when the tests were configured");
    muster_runtime *runtime = kernel_open("host:2");
    int counted = 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const kernel_text *text = kernel_text_find(refused[i].text);
        muster_kernel_options options;
        muster_kernel *kernel = (muster_kernel *)&runtime;
        muster_kernel_options_init(&options);
        options.flags = refused[i].flags;
        options.defines = refused[i].defines[0] ? refused[i].defines : NULL;
        options.define_count = refused[i].defines[0] ? 1 : 0;
        assert_refused(muster_kernel_create(runtime, text->name, text->source, text->parameters, text->parameter_count, &options, &kernel),
                       MUSTER_UNAVAILABLE, message);
        assert_null(kernel);
        counted++;
    }
    assert_int_equal(counted, 3);
    muster_kernel *kernel = kernel_make(runtime, "inc");
    float values[3] = {1, 2, 3};
    kernel_array x = kernel_put(runtime, 1, MUSTER_F32, 3, values);
    assert_ok(muster_kernel_call_elements(kernel, 3, 1, ARGUMENTS(muster_argument_size(3), muster_argument_buffer(x.view))));
    kernel_get(&x, values);
    for (int i = 0; i < 3; i++) assert_float_equal(values[i], i + 2, 0);
    kernel_drop(&x);
    assert_ok(muster_kernel_destroy(kernel));
    fixture_close(runtime);
}

int main(void) {
    setenv("MUSTER_OPENCL_LIBRARY", OPENCL_WITHOUT_F64, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_in_f64_are_refused_and_others_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
