/* eye.c: a kernel of your own, the identity matrix, in two ways: with its source in the program,
 * launched by a function; and with its source in a section file, called on a tensor in the memory
 * of a device. The same source runs on GPUs and on CPU cores.
 *
 * usage: eye [FILE]
 *   FILE: the section file; by default eye.kernels beside this program's source */
#include "sample.h"

enum { N = 4, M = 5 };

/* Every thread sets some elements of the diagonal, however many threads there are. */
static const char text[] = "KERNEL void eye(GLOBAL_MEM ga_float *a, ga_size n, ga_size m) {\n"
                           "    ga_size nb = n < m ? n : m;\n"
                           "    MUSTER_EACH(i, nb) a[i * m + i] = 1;\n"
                           "}\n";

static muster_status eye(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    const int64_t n = out[0].shape[0], m = out[0].shape[1];
    const muster_argument arguments[] = {muster_argument_buffer(out[0]), muster_argument_size((uint64_t)n),
                                         muster_argument_size((uint64_t)m)};
    MUSTER_TRY(muster_fill(w, 0, out[0]));
    /* Returns at once; the output of the function is read after the kernel. */
    return muster_kernel_launch_elements(w, user, n < m ? n : m, 0, arguments, 3);
}

static void show(const char *title, float a[N][M]) {
    printf("%s\n", title);
    for (int i = 0; i < N; i++) {
        sample_print(" ", a[i], M);
        for (int j = 0; j < M; j++) EXPECT(a[i][j] == (i == j ? 1 : 0));
    }
}

static void in_a_function(muster_runtime *rt) {
    const int32_t parameters[] = {MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_SIZE};
    float a[N][M];
    muster_kernel *kernel;
    muster_function *f;
    CHECK(muster_kernel_create(rt, "eye", text, parameters, 3, NULL, &kernel)); /* compiled for all devices */
    CHECK(muster_function_create(rt, "eye", eye, kernel, &f));
    CHECK(muster_function_output(f, "a", MUSTER_F32, 2, MUSTER_MASTER));
    CHECK(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(a, N, M)}, 1, NULL));
    show("by a function, the text in the program:", a);
    CHECK(muster_function_destroy(f));
    CHECK(muster_kernel_destroy(kernel));
}

static void out_of_a_file(muster_runtime *rt, const char *path) {
    float a[N][M];
    muster_kernel *kernel;
    muster_tensor on_device;
    int32_t count;
    CHECK(muster_kernels_load(rt, path, NULL, 0, &kernel, 1, &count));
    CHECK(muster_runtime_tensor_create(rt, NULL, MUSTER_F32, 2, (const int64_t[]){N, M}, &on_device)); /* zeros */
    const muster_argument arguments[] = {muster_argument_base(on_device), muster_argument_size((uint64_t)on_device.byte_offset),
                                         muster_argument_size(N), muster_argument_size(M)};
    /* the loop of this kernel runs over the threads of one group */
    const muster_grid grid = {.dims = 1, .groups = {1}, .threads = {256}};
    CHECK(muster_kernel_call(kernel, &grid, arguments, 4)); /* on the device of the tensor */
    CHECK(muster_runtime_tensor_copy(rt, on_device, muster_f32(a, N, M)));
    show("by a call, the text in a section file:", a);
    CHECK(muster_runtime_tensor_destroy(rt, on_device));
    CHECK(muster_kernel_destroy(kernel));
}

int main(int argc, char **argv) {
    muster_runtime *rt = sample_open("host:2");
    in_a_function(rt);
    out_of_a_file(rt, argc > 1 ? argv[1] : EYE_KERNELS);
    CHECK(muster_runtime_close(rt));
    return 0;
}
