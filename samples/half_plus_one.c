/* half_plus_one.c: y = x + 1 in f16, which kernels store but do not compute in. MUSTER_LOAD gives a
 * float; MUSTER_STORE rounds it to the nearest f16, ties to even. With another T the same source
 * works for any element type. */
#include "sample.h"

enum { N = 9 };

static const char text[] = "#define T ga_half\n"
                           "KERNEL void plus_one(ga_size n, GLOBAL_MEM T *x, GLOBAL_MEM T *y) {\n"
                           "    MUSTER_EACH(i, n) {\n"
                           "        MUSTER_WORK(T) z = MUSTER_LOAD(T, x[i]);\n"
                           "        z += 1;\n"
                           "        y[i] = MUSTER_STORE(T, z);\n"
                           "    }\n"
                           "}\n";

static muster_status plus_one(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t n = in[0].shape[0];
    const muster_argument arguments[] = {muster_argument_size((uint64_t)n), muster_argument_buffer(in[0]), muster_argument_buffer(out[0])};
    return muster_kernel_launch_elements(w, user, n, 0, arguments, 3);
}

int main(void) {
    static const float values[N] = {0, 1, 0.5f, -1, 1000.5f, 2047, 2048, 65504, -0.000061035156f};
    uint16_t x[N], y[N];
    const int64_t n = N;
    const int32_t parameters[] = {MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER};
    muster_runtime *rt = sample_open("host:2");
    muster_kernel *kernel;
    muster_function *f;
    CHECK(muster_kernel_create(rt, "plus_one", text, parameters, 3, NULL, &kernel));
    CHECK(muster_function_create(rt, "plus_one", plus_one, kernel, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F16, 1, MUSTER_SCATTER));
    CHECK(muster_function_output(f, "y", MUSTER_F16, 1, MUSTER_GATHER));
    for (int i = 0; i < N; i++) x[i] = muster_f32_to_f16(values[i]);
    CHECK(muster_function_call(f, (muster_tensor[]){muster_tensor_make(MUSTER_F16, x, 1, &n)}, 1,
                               (muster_tensor[]){muster_tensor_make(MUSTER_F16, y, 1, &n)}, 1, NULL));
    for (int i = 0; i < N; i++) {
        printf("%g + 1 = %g\n", (double)muster_f16_to_f32(x[i]), (double)muster_f16_to_f32(y[i]));
        EXPECT(y[i] == muster_f32_to_f16(muster_f16_to_f32(x[i]) + 1)); /* the host rounds the same way */
    }
    CHECK(muster_runtime_close(rt));
    return 0;
}
