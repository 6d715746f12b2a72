/* A program of MPI whose processes are several launches of Muster, or of which only some open a
 * runtime: parts_program halves|half|reversed. mpi_suite.py compiles it with an MPI's mpicc. */
#include "muster/function.h"
#include "muster/nodes.h"
#include "muster/runtime.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 9, CALLS = 20 };

#define MUST(call)                                                                  \
    do {                                                                            \
        if ((call) != MUSTER_OK) {                                                  \
            fprintf(stderr, "parts_program: %s: %s\n", #call, muster_last_error()); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                           \
        }                                                                           \
    } while (0)

static muster_status sum_of_rows(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *unused) {
    (void)worker, (void)unused;
    const float *x = muster_tensor_address(in[0]);
    float sum = 0;
    for (int64_t i = 0; i < in[0].shape[0]; i++) sum += x[i];
    *(float *)muster_tensor_address(out[0]) = sum;
    return MUSTER_OK;
}

/* Each call sums other values, and those of one part are not those of the other. */
static void work(MPI_Comm part, int colour) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_function *f;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.nodes = "mpi";
    options.mpi_communicator = INT64_C(1) + MPI_Comm_c2f(part);
    MUST(muster_runtime_open(&options, &runtime));
    MUST(muster_function_create(runtime, "f", sum_of_rows, NULL, &f));
    MUST(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    MUST(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    int right = 0;
    for (int call = 1; call <= CALLS; call++) {
        float x[ROWS], sum = 0, expected = 0;
        for (int i = 0; i < ROWS; i++) expected += x[i] = (float)((i + 1) * call * (colour ? 10 : 1));
        MUST(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&sum)}, 1, NULL));
        right += sum == expected;
    }
    int place = -1;
    MPI_Comm_rank(part, &place);
    printf("part %d: place %d is process %d of %d with %d devices, %d calls right\n", colour, place, (int)muster_runtime_process(runtime),
           (int)muster_runtime_processes(runtime), (int)muster_runtime_size(runtime), right);
    MUST(muster_runtime_close(runtime));
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    int given, rank, size, together = 0;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm part;
    const int colour = rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, colour, strcmp(way, "reversed") ? rank : -rank, &part);
    if (strcmp(way, "half") || colour == 1) work(part, colour);
    /* The program's own communicators work on. */
    MPI_Allreduce(&rank, &together, 1, MPI_INT, MPI_SUM, part);
    printf("rank %d of %d: the ranks of its part are %d together\n", rank, size, together);
    MPI_Comm_free(&part);
    return MPI_Finalize();
}
