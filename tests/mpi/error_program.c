/* What error_suite.py starts under mpirun: a program in which the last process meets an error while
 * the others are in a collective, and in which nobody looks after the others. */
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program {
    muster_runtime *runtime;
    const char *way;
} program;

static int is_last(const muster_runtime *runtime) { return muster_runtime_process(runtime) == muster_runtime_processes(runtime) - 1; }

static muster_status body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const program *p = user;
    float x = 1;
    const int last = muster_worker_rank(worker) == muster_runtime_size(p->runtime) - 1; /* which is in the last process */
    (void)in, (void)out;
    if (last && !strcmp(p->way, "abort")) return muster_runtime_abort(p->runtime, 77);
    if (last && !strcmp(p->way, "exit")) exit(3);
    if (last && !strcmp(p->way, "fail")) return muster_fail(MUSTER_USER, "the batch is empty");
    const muster_tensor one = muster_tensor_make(MUSTER_F32, &x, 0, NULL);
    return muster_worker_all_reduce(worker, NULL, MUSTER_SUM, one, one);
}

int main(int count, char **arguments) {
    program p = {.way = count > 1 ? arguments[1] : ""};
    muster_runtime_options options;
    muster_function *f;
    muster_runtime_options_init(&options);
    options.devices = count > 2 ? arguments[2] : "host:1";
    muster_status status = muster_runtime_open(&options, &p.runtime);
    if (!status) status = muster_function_create(p.runtime, "step", body, &p, &f);
    if (!status && is_last(p.runtime) && !strcmp(p.way, "abort_outside")) return muster_runtime_abort(p.runtime, 78);
    if (!status && is_last(p.runtime) && !strcmp(p.way, "exit_outside")) exit(4);
    if (!status) status = muster_function_call(f, NULL, 0, NULL, 0, NULL);
    if (status) printf("process %d: %s\n", (int)muster_runtime_process(p.runtime), muster_last_error());
    fflush(stdout);
    const muster_status closed = muster_runtime_close(p.runtime);
    return status || closed;
}
