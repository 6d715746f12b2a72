/* What travel_suite.py starts under mpirun: a process that computes behind a collective does not
 * keep the others waiting in it. In each round all enter a collective, and then one of them
 * computes until it sees that the others have their results, without calling Muster. */
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 2, COLLECTIVES = 3, MOST = 1 << 18, PATIENCE_SECONDS = 20 };
static const int64_t counts[] = {1, 1000, 4000, 1 << 14, MOST};
enum { SIZES = sizeof counts / sizeof *counts };

static char message[256];
#define FAIL(...) (snprintf(message, sizeof message, __VA_ARGS__), muster_fail(MUSTER_USER, message))

typedef struct program {
    const char *folder;
    int64_t rounds;
    float *values;
} program;

static void name_of(const program *p, int32_t process, char *text, size_t size) {
    snprintf(text, size, "%s/%" PRId64 ".%d", p->folder, p->rounds, (int)process);
}

static muster_status say_done(const program *p, int32_t process) {
    char name[512];
    name_of(p, process, name, sizeof name);
    FILE *file = fopen(name, "w");
    if (!file || fclose(file)) return FAIL("%.200s cannot be written", name);
    return MUSTER_OK;
}

static muster_status compute_until_done(const program *p, int32_t process) {
    const time_t begin = time(NULL);
    char name[512];
    name_of(p, process, name, sizeof name);
    while (access(name, F_OK))
        if (time(NULL) - begin > PATIENCE_SECONDS)
            return FAIL("round %" PRId64 ": process %d waits in a collective while another one computes", p->rounds, (int)process);
    return MUSTER_OK;
}

static muster_status collective(muster_worker *worker, int32_t which, int32_t root, muster_tensor x) {
    if (which == 0) return muster_worker_all_reduce(worker, NULL, MUSTER_SUM, x, x);
    if (which == 1) return muster_worker_broadcast(worker, NULL, root, x, x);
    return muster_worker_barrier(worker, NULL);
}

static muster_status one_round(muster_worker *worker, program *p, int32_t which, int64_t count, int32_t computes) {
    const int32_t rank = muster_worker_rank(worker), size = muster_worker_size(worker);
    for (int64_t i = 0; i < count; i++) p->values[i] = 1;
    const muster_tensor x = muster_tensor_make(MUSTER_F32, p->values, 1, &count);
    muster_status status = collective(worker, which, computes, x);
    const float expected = which ? 1 : (float)size;
    for (int64_t i = 0; !status && i < count; i++)
        if (p->values[i] != expected) return FAIL("element %" PRId64 " is %g", i, (double)p->values[i]);
    if (!status && rank != computes) status = say_done(p, rank);
    for (int32_t other = 0; !status && rank == computes && other < size; other++)
        if (other != computes) status = compute_until_done(p, other);
    p->rounds++;
    return status;
}

static muster_status body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    program *p = user;
    (void)in, (void)out;
    for (int32_t repeat = 0; repeat < REPEATS; repeat++)
        for (int32_t which = 0; which < COLLECTIVES; which++)
            for (int32_t size = 0; size < (int32_t)SIZES; size++)
                for (int32_t computes = 0; computes < muster_worker_size(worker); computes++) {
                    const muster_status status = one_round(worker, p, which, counts[size], computes);
                    if (status) return status;
                }
    return MUSTER_OK;
}

int main(int count, char **arguments) {
    static float values[MOST];
    program p = {.folder = count > 1 ? arguments[1] : ".", .values = values};
    muster_runtime *runtime;
    muster_function *f;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    muster_status status = muster_runtime_open(&options, &runtime);
    if (!status) status = muster_function_create(runtime, "travel", body, &p, &f);
    if (!status) status = muster_function_call(f, NULL, 0, NULL, 0, NULL);
    if (!status)
        printf("process %d of %d: %" PRId64 " rounds\n", (int)muster_runtime_process(runtime), (int)muster_runtime_processes(runtime),
               p.rounds);
    else
        printf("error: %s\n", muster_last_error());
    fflush(stdout);
    const muster_status closed = muster_runtime_close(runtime);
    return status || closed;
}
