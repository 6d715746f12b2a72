/* A program outside the tree: the sum of 100 numbers on all devices. */
#include <muster/muster.h>
#include <stdio.h>

static muster_status total(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_sum(worker, in[0], out[0]);
}

static muster_status run(muster_runtime *runtime, float *result) {
    float numbers[100];
    muster_function *function;
    for (int i = 0; i < 100; i++) numbers[i] = (float)i;
    MUSTER_TRY(muster_function_create(runtime, "total", total, NULL, &function));
    MUSTER_TRY(muster_function_input(function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    MUSTER_TRY(muster_function_output(function, "sum", MUSTER_F32, 0, MUSTER_SUM));
    return muster_function_call(function, (muster_tensor[]){muster_f32(numbers, 100)}, 1, (muster_tensor[]){muster_f32(result)}, 1, NULL);
}

int main(void) {
    muster_runtime *runtime;
    muster_runtime_options options;
    float result = 0;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    muster_status status = muster_runtime_open(&options, &runtime);
    if (status == MUSTER_OK) {
        status = run(runtime, &result);
        muster_status closed = muster_runtime_close(runtime);
        if (status == MUSTER_OK) status = closed;
    }
    if (status != MUSTER_OK) {
        fprintf(stderr, "%s: %s\n", muster_status_name(status), muster_last_error());
        return 1;
    }
    printf("muster %d on 2 devices: %g\n", (int)muster_version(), (double)result);
    return result == 4950.0f ? 0 : 1;
}
