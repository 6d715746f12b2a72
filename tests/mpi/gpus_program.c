/* What cuda_suite.py starts under mpirun: says which devices this process has by default, and how
 * many rows each of its workers has computed in a call of all processes. */
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/nodes.h"

#include <stdio.h>

enum { ROWS = 96, DEVICES = 64 };
static int64_t rows_of[DEVICES];

/* The sum of the rows, over all ranks. */
static muster_status body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    rows_of[muster_worker_rank(worker)] = muster_worker_rows(worker);
    muster_tensor sum;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, 0, NULL, &sum));
    MUSTER_TRY(muster_sum(worker, in[0], sum));
    return muster_worker_all_reduce(worker, NULL, MUSTER_SUM, sum, out[0]);
}

static muster_status add_up(muster_runtime *runtime, double *total) {
    muster_function *f;
    double values[ROWS];
    for (int i = 0; i < ROWS; i++) values[i] = i;
    const muster_tensor in = muster_f64(values, ROWS), out = muster_f64(total);
    MUSTER_TRY(muster_function_create(runtime, "sum", body, NULL, &f));
    MUSTER_TRY(muster_function_input(f, "x", MUSTER_F64, 1, MUSTER_SCATTER));
    MUSTER_TRY(muster_function_output(f, "total", MUSTER_F64, 0, MUSTER_MASTER));
    return muster_function_call(f, &in, 1, &out, 1, NULL);
}

int main(void) {
    muster_runtime_options options;
    muster_runtime *runtime;
    double total = 0;
    muster_runtime_options_init(&options);
    muster_status status = muster_runtime_open(&options, &runtime);
    if (!status) status = add_up(runtime, &total);
    if (status) {
        printf("%s: %s\n", muster_status_name(status), muster_last_error());
        return 1;
    }
    const int32_t process = muster_runtime_process(runtime);
    printf("process %d of %d, total %g:", (int)process, (int)muster_runtime_processes(runtime), total);
    for (int32_t r = muster_runtime_first_rank(runtime, process); r < muster_runtime_first_rank(runtime, process + 1); r++)
        printf(" %s x %lld", muster_runtime_device(runtime, r), (long long)rows_of[r]);
    printf("\n");
    fflush(stdout);
    return muster_runtime_close(runtime);
}
