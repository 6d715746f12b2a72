/* two_backends.c: one function with a body for each backend, y = 3 x over rows that are scattered
 * over all devices, and asynchronous calls.
 *
 * The host body is a loop. The cuda body puts work of its own into its worker's stream, in order
 * with the worker operations before and after it. Here this is a copy by the CUDA driver; a kernel
 * of yours, or cuBLAS through muster_worker_cublas, goes into the stream the same way. The sample
 * looks up the driver's function by name, so that it builds without CUDA; a program with NVIDIA's
 * headers includes cuda.h and calls it. */
#include "sample.h"
#include <dlfcn.h>
#include <muster/cuda.h>
#include <string.h>

enum { ROWS = 1000, COLUMNS = 64, CALLS = 3 };

/* The type of cuMemcpyDtoDAsync of cuda.h; a CUdeviceptr is an address as a number. */
typedef unsigned int copy_function(unsigned long long to, unsigned long long from, size_t bytes, void *stream);

static muster_status triple_on_host(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)user;
    const float *x = muster_tensor_address(in[0]);
    float *y = muster_tensor_address(out[0]);
    for (int64_t i = 0; i < in[0].shape[0] * COLUMNS; i++) y[i] = 3 * x[i];
    return MUSTER_OK;
}

static muster_status triple_on_gpu(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    copy_function *copy = *(copy_function **)user;
    size_t bytes = (size_t)(in[0].shape[0] * COLUMNS) * sizeof(float);
    unsigned long long x = (uintptr_t)muster_tensor_address(in[0]), y = (uintptr_t)muster_tensor_address(out[0]);
    if (copy(y, x, bytes, muster_worker_cuda_stream(w)) != 0) return muster_fail(MUSTER_USER, "cuMemcpyDtoDAsync failed");
    return muster_scale_add(w, 2, in[0], 1, out[0]); /* y = 2 x + y, in order after the copy; the host does not wait */
}

static copy_function *find_copy(void) {
    copy_function *copy = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW); /* the driver library that Muster has opened */
    void *symbol = driver ? dlsym(driver, "cuMemcpyDtoDAsync_v2") : NULL;
    memcpy(&copy, &symbol, sizeof copy);
    return copy;
}

int main(void) {
    static float x[CALLS][ROWS * COLUMNS], y[CALLS][ROWS * COLUMNS];
    muster_runtime *rt = sample_open(NULL); /* MUSTER_DEVICES, else all GPUs, else the CPU cores */
    copy_function *copy = find_copy();
    const muster_backend_body bodies[] = {{"host", triple_on_host}, {"cuda", triple_on_gpu}};
    muster_function *f;
    CHECK(muster_function_create_with(rt, "triple", bodies, 2, &copy, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    CHECK(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    /* GPUs now copy it directly, since it is pinned; on the host backend this has no effect */
    CHECK(muster_runtime_register_memory(rt, x, sizeof x));

    /* Each call runs while the data of the next one is made. The calls are served in this order. */
    muster_pending *pending[CALLS];
    for (int c = 0; c < CALLS; c++) {
        for (int i = 0; i < ROWS * COLUMNS; i++) x[c][i] = (float)(c + i % COLUMNS);
        CHECK(muster_function_call_async(f, (muster_tensor[]){muster_f32(x[c], ROWS, COLUMNS)}, 1,
                                         (muster_tensor[]){muster_f32(y[c], ROWS, COLUMNS)}, 1, NULL, &pending[c]));
    }
    for (int c = 0; c < CALLS; c++) CHECK(muster_pending_wait(&pending[c])); /* from here on y[c] may be read */
    for (int c = 0; c < CALLS; c++)
        for (int i = 0; i < ROWS * COLUMNS; i++) EXPECT(y[c][i] == 3 * x[c][i]);
    printf("%d calls on %d devices: y = 3 x in all of the %d rows\n", CALLS, muster_runtime_size(rt), CALLS * ROWS);
    CHECK(muster_runtime_unregister_memory(rt, x));
    CHECK(muster_runtime_close(rt));
    return 0;
}
