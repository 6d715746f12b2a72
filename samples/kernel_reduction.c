/* kernel_reduction.c: the sum of x over all devices, by a kernel with local memory. The threads of
 * a group add their elements in a tree; an operation adds the sums of a worker's groups; the
 * collect mode adds the workers' sums. */
#include "sample.h"

enum { N = 100000, THREADS = 256, GROUPS = 32 };

static const char text[] =
    "KERNEL void group_sums(GLOBAL_MEM ga_float *x, ga_size n, GLOBAL_MEM ga_float *sums GA_DECL_SHARED_PARAM(ga_float, part)) {\n"
    "    GA_DECL_SHARED_BODY(ga_float, part)\n"
    "    ga_float sum = 0;\n"
    "    MUSTER_EACH(i, n) sum += x[i];\n"
    "    part[LID_0] = sum;\n"
    "    local_barrier();\n"
    "    for (ga_size rest = LDIM_0 / 2; rest > 0; rest /= 2) {\n"
    "        if (LID_0 < rest) part[LID_0] += part[LID_0 + rest];\n"
    "        local_barrier();\n"
    "    }\n"
    "    if (LID_0 == 0) sums[GID_0] = part[0];\n"
    "}\n";

static muster_status sum(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t groups = GROUPS;
    muster_tensor sums;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &groups, &sums));
    const muster_argument arguments[] = {muster_argument_buffer(in[0]), muster_argument_size((uint64_t)in[0].shape[0]),
                                         muster_argument_buffer(sums)};
    const muster_grid grid = {.dims = 1, .groups = {GROUPS}, .threads = {THREADS}, .local_bytes = THREADS * sizeof(float)};
    MUSTER_TRY(muster_kernel_launch(w, user, &grid, arguments, 3));
    return muster_sum(w, sums, out[0]); /* runs in order after the kernel */
}

int main(void) {
    static float x[N];
    float total = 0;
    double expected = 0;
    const int64_t threads = THREADS;
    const int32_t parameters[] = {MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE,
                                  MUSTER_PARAMETER_BUFFER}; /* the local memory is not counted */
    muster_runtime *rt = sample_open("host:2");
    muster_kernel *kernel;
    muster_function *f;
    muster_kernel_options options;
    muster_kernel_options_init(&options);
    options.threads = &threads; /* a device that compiles for each number of threads does so now */
    options.thread_count = 1;
    CHECK(muster_kernel_create(rt, "group_sums", text, parameters, 3, &options, &kernel));
    CHECK(muster_function_create(rt, "sum", sum, kernel, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    CHECK(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    for (int i = 0; i < N; i++) expected += x[i] = (float)(i % 10);
    CHECK(muster_function_call(f, (muster_tensor[]){muster_f32(x, N)}, 1, (muster_tensor[]){muster_f32(&total)}, 1, NULL));
    printf("the sum of %d numbers: %g\n", N, (double)total);
    EXPECT((double)total == expected);
    CHECK(muster_runtime_close(rt)); /* destroys the function and the kernel, too */
    return 0;
}
