/* gpus.c: the code of docs/gpus.md. The page's bodies run on whatever devices there are. */
#include "docs.h"

enum { N = 100 };

static muster_status triple_on_host(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                                    void *user) {
    (void)w, (void)user;
    const float *x = muster_tensor_address(in[0]);
    float *y = muster_tensor_address(out[0]);
    for (int64_t i = 0; i < in[0].shape[0]; i++) y[i] = 3 * x[i];
    return MUSTER_OK;
}

static muster_status triple_on_gpu(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                                   void *user) {
    (void)user;
    return muster_scale_add(w, 3, in[0], 0, out[0]);
}

static void docs_device_tensor(muster_runtime *rt, muster_function *f, muster_tensor x,
                               float *result) {
    const muster_tensor y = muster_f32(result, N);
    /* snippet: device_tensor */
    muster_tensor kept; /* in the memory of device 0, between calls */
    check(muster_runtime_tensor_create(rt, "0", MUSTER_F32, 1, x.shape, &kept));
    check(muster_function_call(f, &x, 1, &kept, 1, NULL)); /* kept = 3 x */
    check(muster_function_call(f, &kept, 1, &y, 1, NULL)); /* y = 3 kept */
    check(muster_runtime_tensor_destroy(rt, kept));
    /* end of snippet */
    for (int i = 0; i < N; i++) EXPECT(result[i] == (float)(9 * i));
}

int main(void) {
    float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    muster_runtime *rt = docs_open();
    /* snippet: bodies */
    const muster_backend_body bodies[] = {{"host", triple_on_host}, {"cuda", triple_on_gpu}};
    muster_function *f;
    check(muster_function_create_with(rt, "triple", bodies, 2, NULL, &f));
    /* end of snippet */
    check(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    check(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
    const muster_tensor from = muster_f32(x, N), to = muster_f32(y, N);
    check(muster_function_call(f, &from, 1, &to, 1, NULL));
    for (int i = 0; i < N; i++) EXPECT(y[i] == 3 * x[i]);
    docs_device_tensor(rt, f, from, y);
    check(muster_runtime_close(rt));
    return 0;
}
