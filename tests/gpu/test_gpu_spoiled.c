/* A kernel of the user's that spoils its GPU: MUSTER_TEST_SPOIL=address (it writes where there is
 * no memory), assert (it traps, as a failed assertion does) or endless (it never ends). The call
 * fails with the right status, and closing the runtime ends all the same. Each needs a process of
 * its own; what does not end is killed by script/gpu-check. */
#include "gpu_runtime.h"

static const char text[] = "KERNEL void spoil(GLOBAL_MEM ga_float *x, ga_int what) {\n"
                           "    volatile GLOBAL_MEM ga_float *seen = x;\n"
                           "    if (what == 0) x[(ga_size)1 << 40] = 1;\n"
                           "    if (what == 1) __trap();\n"
                           "    while (what == 2 && seen[0] == 0) {}\n"
                           "}\n";
static const char *const names[] = {"address", "assert", "endless"};
enum { WHATS = 3 };

typedef struct job {
    muster_kernel *kernel;
    int32_t what;
} job;

static muster_status spoil(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const job *j = user;
    const int64_t count = 64;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    const muster_argument arguments[] = {muster_argument_buffer(x), muster_argument_int(MUSTER_I32, j->what)};
    const muster_grid grid = {.dims = 1, .groups = {1, 1, 1}, .threads = {1, 1, 1}};
    (void)in, (void)out;
    MUSTER_TRY(muster_fill(w, 0, x));
    MUSTER_TRY(muster_kernel_launch(w, j->kernel, &grid, arguments, 2));
    return muster_worker_sync(w);
}

static int find_what(void) {
    const char *asked = getenv("MUSTER_TEST_SPOIL");
    for (int i = 0; i < WHATS; i++)
        if (asked && strcmp(asked, names[i]) == 0) return i;
    fail_msg("MUSTER_TEST_SPOIL: expected address, assert or endless, received %s", asked ? asked : "nothing");
    return -1;
}

static void closing_ends_after_a_spoiled_context(void **state) {
    (void)state;
    const int32_t parameters[] = {MUSTER_PARAMETER_BUFFER, MUSTER_I32};
    muster_runtime_options options;
    job j = {.what = find_what()};
    muster_runtime_options_init(&options);
    options.fail_after_ns = 3000000000;
    muster_runtime *runtime = gpu_open(&options);
    assert_non_null(runtime);
    assert_ok(muster_kernel_create(runtime, "spoil", text, parameters, 2, NULL, &j.kernel));
    const double began = gpu_now_us();
    const muster_status status = gpu_call(runtime, spoil, &j);
    const double failed = gpu_now_us();
    printf("status: %s\n", muster_status_name(status));
    assert_int_equal(status, j.what < 2 ? MUSTER_DEVICE_LOST : MUSTER_TIMEOUT);
    assert_ok(muster_runtime_close(runtime));
    printf("found: after %s: the call failed after %.0f ms with %s, closing took %.0f ms\n", names[j.what], 1e-3 * (failed - began),
           muster_status_name(status), 1e-3 * (gpu_now_us() - failed));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(closing_ends_after_a_spoiled_context)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
