/* foreign_cuda.c: cuBLAS, a kernel of ours, the CUDA driver and a worker operation work one after
 * the other on one tensor in a GPU's memory: c = 2 max(a b, 0). The host does not wait between
 * them. Work in the worker's stream runs in order, including that of cuBLAS with the worker's
 * handle. Work of another library in another stream, here the default stream, is ordered by
 * muster_worker_cuda_before and _after.
 *
 * This sample looks up the functions of cuBLAS and of the driver by name, so that it builds without
 * CUDA; a program with NVIDIA's headers includes cublas_v2.h and cuda.h and calls them. Without a
 * GPU it prints that it needs one, and ends. */
#include "sample.h"
#include <dlfcn.h>
#include <muster/muster.h>
#include <string.h>

enum { N = 64, MOST = 16, OP_N = 0, R_32F = 0, COMPUTE_32F = 68, GEMM_DEFAULT = -1 }; /* the last four are cuBLAS's */

/* The types of cublasGemmEx and cuMemcpyDtoDAsync; a CUdeviceptr is an address as a number. */
typedef int gemm_function(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                          const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute, int algorithm);
typedef unsigned copy_function(unsigned long long to, unsigned long long from, size_t bytes, void *stream);

typedef struct program {
    gemm_function *gemm;
    copy_function *copy;
    muster_kernel *clip;
    muster_tensor a[MOST], b[MOST], c[MOST], seen[MOST]; /* one of each per device */
} program;

static const char clip_text[] = "KERNEL void clip(GLOBAL_MEM ga_float *c, ga_size n) {\n"
                                "    MUSTER_EACH(i, n) if (c[i] < 0) c[i] = 0;\n"
                                "}\n";

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const program *p = user;
    const float one = 1, zero = 0;
    const int32_t rank = muster_worker_rank(w);
    void *a = muster_tensor_address(p->a[rank]), *b = muster_tensor_address(p->b[rank]), *c = muster_tensor_address(p->c[rank]),
         *seen = muster_tensor_address(p->seen[rank]);

    /* cuBLAS matrices are column-major, so our a b is its b a. The handle is bound to the worker's
     * stream. */
    if (p->gemm(muster_worker_cublas(w), OP_N, OP_N, N, N, N, &one, b, R_32F, N, a, R_32F, N, &zero, c, R_32F, N, COMPUTE_32F,
                GEMM_DEFAULT) != 0)
        return muster_fail(MUSTER_USER, "cublasGemmEx failed");
    MUSTER_TRY(muster_kernel_launch_elements(w, p->clip, N * N, 0,
                                             (muster_argument[]){muster_argument_buffer(p->c[rank]), muster_argument_size(N * N)}, 2));

    /* The default stream is not ordered with the worker's stream: before makes it wait for the
     * worker, after makes the worker wait for it. */
    MUSTER_TRY(muster_worker_cuda_before(w, NULL));
    if (p->copy((uintptr_t)seen, (uintptr_t)c, N * N * sizeof(float), NULL) != 0)
        return muster_fail(MUSTER_USER, "cuMemcpyDtoDAsync failed");
    MUSTER_TRY(muster_worker_cuda_after(w, NULL));
    return muster_axpy(w, 1, p->seen[rank], p->c[rank]);
}

/* Looks up a symbol of a library that Muster has opened. */
static void *find(const char *const *names, const char *symbol) {
    void *library = NULL;
    for (int i = 0; names[i] && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, symbol) : NULL;
    if (found) return found;
    fprintf(stderr, "%s was not found in %s\n", symbol, names[0]);
    exit(1);
}

static muster_runtime *open_gpus(void) {
    const char *chosen = getenv("MUSTER_DEVICES");
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = chosen && strncmp(chosen, "cuda", 4) == 0 ? chosen : "cuda";
    muster_runtime *rt;
    muster_status status = muster_runtime_open(&options, &rt);
    if (status == MUSTER_OK) return rt;
    if (status != MUSTER_UNAVAILABLE) sample_check(status, "muster_runtime_open");
    printf("this sample needs a GPU, and there is none: %s\n", muster_last_error());
    exit(0);
}

static muster_tensor place(muster_runtime *rt, const char *device, float *values) {
    muster_tensor tensor;
    CHECK(muster_runtime_tensor_create(rt, device, MUSTER_F32, 2, (const int64_t[]){N, N}, &tensor));
    CHECK(muster_runtime_tensor_copy(rt, muster_f32(values, N, N), tensor));
    return tensor;
}

int main(void) {
    static float a[N * N], b[N * N], c[N * N], expected[N * N];
    static program p;
    for (int i = 0; i < N * N; i++) {
        a[i] = (float)(i % 7 - 3);
        b[i] = (float)(i % 5 - 2);
    }
    for (int i = 0; i < N * N; i++) {
        for (int k = 0; k < N; k++) expected[i] += a[i / N * N + k] * b[k * N + i % N];
        expected[i] = expected[i] > 0 ? 2 * expected[i] : 0;
    }

    muster_runtime *rt = open_gpus();
    const int32_t devices = muster_runtime_size(rt) < MOST ? muster_runtime_size(rt) : MOST;
    void *symbol = find((const char *const[]){"libcublas.so.13", "libcublas.so.12", NULL}, "cublasGemmEx");
    memcpy(&p.gemm, &symbol, sizeof symbol);
    symbol = find((const char *const[]){"libcuda.so.1", NULL}, "cuMemcpyDtoDAsync_v2");
    memcpy(&p.copy, &symbol, sizeof symbol);
    CHECK(muster_kernel_create(rt, "clip", clip_text, (const int32_t[]){MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE}, 2, NULL, &p.clip));
    for (int32_t r = 0; r < devices; r++) {
        char name[16];
        snprintf(name, sizeof name, "gpu %d", (int)r);
        CHECK(muster_runtime_name_device(rt, name, r));
        p.a[r] = place(rt, name, a);
        p.b[r] = place(rt, name, b);
        p.c[r] = place(rt, name, c);
        p.seen[r] = place(rt, name, c);
    }
    muster_function *f;
    CHECK(muster_function_create(rt, "foreign", body, &p, &f));
    CHECK(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    for (int32_t r = 0; r < devices; r++) {
        CHECK(muster_runtime_tensor_copy(rt, p.c[r], muster_f32(c, N, N)));
        for (int i = 0; i < N * N; i++) EXPECT(c[i] == expected[i]);
    }
    printf("cuBLAS, a kernel, the driver and a worker operation on one tensor of %d x %d, on %d devices: right everywhere\n", N, N,
           (int)devices);
    CHECK(muster_runtime_close(rt)); /* frees the tensors and the kernel, too */
    return 0;
}
