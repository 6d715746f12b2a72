/* first.c: mean(x @ y), computed by all the devices of the machine in one call. */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static muster_status mean_dot(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user; /* in[0]: this worker's rows of x (n, k).  in[1]: all of y (k).  out[0]: one number */
    muster_tensor z;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[0].shape, &z));
    MUSTER_TRY(muster_gemv(w, 1, in[0], in[1], 0, z));
    return muster_mean(w, z, out[0]);
}

static void check(muster_status status) {
    if (status == MUSTER_OK) return;
    fprintf(stderr, "%s: %s\n", muster_status_name(status), muster_last_error());
    exit(1);
}

int main(void) {
    enum { N = 1001, K = 4 };
    static float x[N][K], y[K] = {1, 2, 3, 4}, r;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) x[i][j] = (float)i;
    muster_runtime *rt;
    muster_function *f;
    check(muster_runtime_open(NULL, &rt));
    check(muster_function_create(rt, "mean_dot", mean_dot, NULL, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_input(f, "y", MUSTER_F32, 1, MUSTER_BROADCAST));
    check(muster_function_output(f, "r", MUSTER_F32, 0, MUSTER_AVG));
    check(muster_function_call(f, (muster_tensor[]){muster_f32(x, N, K), muster_f32(y, K)}, 2, (muster_tensor[]){muster_f32(&r)}, 1, NULL));
    printf("mean(x @ y) on %d devices: %g (expected 5000)\n", muster_runtime_size(rt), (double)r);
    check(muster_runtime_close(rt));
    return r > 4999.9f && r < 5000.1f ? 0 : 1;
}
