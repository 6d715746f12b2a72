/* A machine without OpenCL: everything but kernels works, and the refusal names the package. */
#include "base_skip.h"
#include "kernel_fixture.h"

#include <stdlib.h>

static void kernels_are_refused_with_the_package(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: they have another compiler");
    muster_runtime *runtime = kernel_open("host:2");
    const kernel_text *text = kernel_text_find("fill");
    muster_kernel *kernel = (muster_kernel *)&runtime;
    assert_refused(muster_kernel_create(runtime, "fill", text->source, text->parameters, text->parameter_count, NULL, &kernel),
                   MUSTER_UNAVAILABLE, "muster_kernel_create: kernel 'fill' on device 0 ('host cpu 0'): ");
    assert_non_null(strstr(muster_last_error(), "pocl-opencl-icd"));
    assert_null(kernel);
    kernel_array x = kernel_put(runtime, 1, MUSTER_I32, 4, NULL);
    kernel_drop(&x);
    fixture_close(runtime);
}

int main(void) {
    setenv("MUSTER_OPENCL_LIBRARY", "none", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_are_refused_with_the_package)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
