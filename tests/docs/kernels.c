/* kernels.c: the code of docs/kernels.md and docs/devices.md. */
#include "docs.h"

enum { N = 1000 };

/* snippet: source */
static const char source[] = "KERNEL void plus_one(ga_size n, GLOBAL_MEM ga_float *x) {\n"
                             "    MUSTER_EACH(i, n) x[i] += 1;\n"
                             "}\n";
/* end of snippet */

/* snippet: body */
/* out[0] = in[0] + 1; `user` is the kernel. */
static muster_status plus_one(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                              void *user) {
    const int64_t n = out[0].shape[0];
    const muster_argument arguments[] = {muster_argument_size((uint64_t)n),
                                         muster_argument_buffer(out[0])};
    MUSTER_TRY(muster_copy(w, in[0], out[0]));
    return muster_kernel_launch_elements(w, user, n, 0, arguments, 2);
}
/* end of snippet */

static void in_a_body(muster_runtime *rt, muster_kernel *kernel) {
    float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    muster_function *f;
    check(muster_function_create(rt, "plus_one", plus_one, kernel, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    check(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
    const muster_tensor from = muster_f32(x, N), to = muster_f32(y, N);
    check(muster_function_call(f, &from, 1, &to, 1, NULL));
    for (int i = 0; i < N; i++) EXPECT(y[i] == (float)(i + 1));
}

static void on_a_device(muster_runtime *rt, muster_kernel *kernel) {
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    const int64_t shape[] = {N};
    /* snippet: device */
    muster_tensor a;
    check(muster_runtime_name_device(rt, "left", 0));
    check(muster_runtime_tensor_create(rt, "left", MUSTER_F32, 1, shape,
                                       &a));                    /* zeros in that device's memory */
    check(muster_runtime_tensor_copy(rt, muster_f32(x, N), a)); /* from host memory to the device */
    const muster_argument arguments[] = {muster_argument_size(N), muster_argument_buffer(a)};
    check(muster_kernel_call_elements(kernel, N, 0, arguments,
                                      2)); /* runs where its tensors are, and waits */
    check(muster_runtime_tensor_copy(rt, a, muster_f32(x, N)));
    check(muster_runtime_tensor_destroy(rt, a));
    /* end of snippet */
    for (int i = 0; i < N; i++) EXPECT(x[i] == (float)(i + 1));
}

static const char scale[] = "KERNEL void scale(ga_size n, GLOBAL_MEM T *x) {\n"
                            "    MUSTER_EACH(i, n) x[i] *= FACTOR;\n"
                            "}\n";

static void of_a_type(muster_runtime *rt) {
    double x[N];
    const int64_t shape[] = {N};
    muster_tensor a;
    for (int i = 0; i < N; i++) x[i] = i;
    const int32_t parameters[] = {MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER};
    muster_kernel *kernel;
    /* snippet: defines */
    const char *defines[] = {"T", muster_dtype_kernel_name(MUSTER_F64), "FACTOR", "3"};
    muster_kernel_options options;
    muster_kernel_options_init(&options);
    options.defines = defines;
    options.define_count = 2; /* names with their values */
    check(muster_kernel_create(rt, "scale", scale, parameters, 2, &options, &kernel));
    /* end of snippet */
    check(muster_runtime_tensor_create(rt, NULL, MUSTER_F64, 1, shape, &a));
    check(muster_runtime_tensor_copy(rt, muster_f64(x, N), a));
    const muster_argument arguments[] = {muster_argument_size(N), muster_argument_buffer(a)};
    check(muster_kernel_call_elements(kernel, N, 0, arguments, 2));
    check(muster_runtime_tensor_copy(rt, a, muster_f64(x, N)));
    for (int i = 0; i < N; i++) EXPECT(x[i] == 3 * i);
}

int main(void) {
    muster_runtime *rt = docs_open();
    /* snippet: create */
    const int32_t parameters[] = {MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER};
    muster_kernel *kernel;
    check(muster_kernel_create(rt, "plus_one", source, parameters, 2, NULL, &kernel));
    /* end of snippet */
    in_a_body(rt, kernel);
    on_a_device(rt, kernel);
    of_a_type(rt);
    check(muster_runtime_close(rt));
    return 0;
}
