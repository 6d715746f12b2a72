/* A function on devices of the backend "shared", through the public API: rows are scattered to
 * them, a body squares its rows, and the ranks add what each of them has. */
#include "function_fixture.h"

#include "muster/communicator.h"

#include <string.h>

enum { ROWS = 10 };

/* The device has no kernels, so the body computes in host memory. */
static muster_status square(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t rows = muster_worker_rows(w), one = 1;
    int64_t values[ROWS], sum = 0;
    (void)user;
    if (strcmp(muster_worker_backend(w), "shared") != 0) return MUSTER_USER;
    muster_tensor host = muster_tensor_make(MUSTER_I64, values, 1, &rows), total = muster_tensor_make(MUSTER_I64, &sum, 1, &one);
    MUSTER_TRY(muster_worker_read(w, in[0], host));
    for (int64_t i = 0; i < rows; i++) values[i] *= values[i];
    for (int64_t i = 0; i < rows; i++) sum += values[i];
    MUSTER_TRY(muster_worker_write(w, host, out[0]));
    MUSTER_TRY(muster_worker_write(w, total, out[1]));
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, out[1], out[1]);
}

static void a_function_runs_on_shared_devices(void **state) {
    (void)state;
    for (int devices = 1; devices <= 3; devices++) {
        muster_runtime *runtime = fixture_open("shared", devices);
        muster_function *f;
        int64_t x[ROWS], y[ROWS] = {0}, sum = 0;
        const int64_t rows = ROWS, one = 1;
        for (int i = 0; i < ROWS; i++) x[i] = i - 3;
        assert_ok(muster_function_create(runtime, "square", square, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_I64, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_I64, 1, MUSTER_GATHER));
        assert_ok(muster_function_output(f, "sum", MUSTER_I64, 1, MUSTER_MASTER));
        const muster_tensor outputs[] = {muster_tensor_make(MUSTER_I64, y, 1, &rows), muster_tensor_make(MUSTER_I64, &sum, 1, &one)};
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_tensor_make(MUSTER_I64, x, 1, &rows)}, 1, outputs, 2, NULL));
        for (int i = 0; i < ROWS; i++) assert_int_equal(y[i], (i - 3) * (i - 3));
        assert_int_equal(sum, 9 + 4 + 1 + 0 + 1 + 4 + 9 + 16 + 25 + 36);
        assert_ok(muster_function_destroy(f));
        fixture_close(runtime);
        printf("a function ran on %d shared devices\n", devices);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_function_runs_on_shared_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
