/* MPI for muster-bench-nodes: compiled by each mpicc into libmuster-bench-mpi-NAME.so. */
#include "nodes_play.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TAG = 1, TAG_WAKE, TAG_ANSWER };
static MPI_Comm everyone;
static int rank, size;

static int32_t ok(int code) { return code == MPI_SUCCESS; }

static int32_t open_mpi(int32_t *rank_out, int32_t *size_out, char *version) {
    int level = 0, length = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    /* The level that Muster asks for, so that it is measured as it would run. */
    if (!ok(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)) || level < MPI_THREAD_SERIALIZED) return 0;
    if (!ok(MPI_Comm_dup(MPI_COMM_WORLD, &everyone))) return 0;
    MPI_Comm_rank(everyone, &rank);
    MPI_Comm_size(everyone, &size);
    *rank_out = rank;
    *size_out = size;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    for (char *at = text; *at; at++)
        if (*at == '\t') *at = ' ';
    snprintf(version, NODES_TEXT, "%.60s", text);
    return 1;
}

static void close_mpi(void) { MPI_Finalize(); }
static void abort_mpi(void) { MPI_Abort(MPI_COMM_WORLD, 1); }
static int32_t barrier(void) { return ok(MPI_Barrier(everyone)); }

static int32_t gather(const void *from, void *to, int32_t bytes) {
    return ok(MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, everyone));
}

/* Who waits looks every 4 ms, so that it takes no core from another launch that is measured. */
static int32_t pass_on(void *data, int32_t bytes) {
    if (rank == 0) {
        for (int to = 1; to < size; to++)
            if (!ok(MPI_Send(data, bytes, MPI_BYTE, to, TAG_WAKE, everyone))) return 0;
        return 1;
    }
    struct timespec pause = {0, 100000};
    for (int there = 0; !there;) {
        if (!ok(MPI_Iprobe(0, TAG_WAKE, everyone, &there, MPI_STATUS_IGNORE))) return 0;
        if (there) break;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 4000000) pause.tv_nsec *= 2;
    }
    return ok(MPI_Recv(data, bytes, MPI_BYTE, 0, TAG_WAKE, everyone, MPI_STATUS_IGNORE));
}

/* ---- messages, as the OSU micro-benchmarks have them ---- */

static int32_t latency(float *memory, int bytes) {
    if (rank > 1) return 1;
    const int other = 1 - rank;
    if (rank == 0)
        return ok(MPI_Send(memory, bytes, MPI_BYTE, other, TAG, everyone)) &&
               ok(MPI_Recv(memory, bytes, MPI_BYTE, other, TAG, everyone, MPI_STATUS_IGNORE));
    return ok(MPI_Recv(memory, bytes, MPI_BYTE, other, TAG, everyone, MPI_STATUS_IGNORE)) &&
           ok(MPI_Send(memory, bytes, MPI_BYTE, other, TAG, everyone));
}

static int32_t stream(const float *from, float *to, int bytes, int both) {
    MPI_Request requests[2 * NODES_MOST_WINDOW];
    MPI_Status statuses[2 * NODES_MOST_WINDOW];
    int used = 0, code = MPI_SUCCESS;
    char answer[4] = "";
    if (rank > 1) return 1;
    const int other = 1 - rank, window = nodes_window(bytes);
    for (int i = 0; i < window && (both || rank == 1) && ok(code); i++)
        code = MPI_Irecv(to, bytes, MPI_BYTE, other, TAG, everyone, &requests[used++]);
    for (int i = 0; i < window && (both || rank == 0) && ok(code); i++)
        code = MPI_Isend(from, bytes, MPI_BYTE, other, TAG, everyone, &requests[used++]);
    if (used == 0 || !ok(code) || !ok(MPI_Waitall(used, requests, statuses))) return 0;
    if (rank == 0) return ok(MPI_Recv(answer, 4, MPI_BYTE, other, TAG_ANSWER, everyone, MPI_STATUS_IGNORE));
    return ok(MPI_Send(answer, 4, MPI_BYTE, other, TAG_ANSWER, everyone));
}

/* MPI broadcasts in one buffer only. */
static int32_t broadcast(const collective_job *job, const collective_buffers *b) {
    const int root = rank == job->root;
    if (!ok(MPI_Bcast(root ? b->input : b->output, (int)job->count, MPI_FLOAT, job->root, everyone))) return 0;
    if (root && b->output != b->input) memcpy(b->output, b->input, (size_t)job->count * sizeof(float));
    return 1;
}

static int32_t operate(const collective_job *job, const collective_buffers *b, float *first, float *second) {
    const int all = (int)job->count, part = (int)(job->count / job->ranks), bytes = all * (int)sizeof(float);
    switch (job->op) {
    case COLLECTIVE_ALL_REDUCE:
        return ok(MPI_Allreduce(b->input, b->output, all, MPI_FLOAT, MPI_SUM, everyone));
    case COLLECTIVE_BROADCAST:
        return broadcast(job, b);
    case COLLECTIVE_ALL_GATHER:
        return ok(MPI_Allgather(b->input, part, MPI_FLOAT, b->output, part, MPI_FLOAT, everyone));
    case COLLECTIVE_REDUCE_SCATTER:
        return ok(MPI_Reduce_scatter_block(b->input, b->output, part, MPI_FLOAT, MPI_SUM, everyone));
    case COLLECTIVE_REDUCE:
        return ok(MPI_Reduce(b->input, b->output, all, MPI_FLOAT, MPI_SUM, job->root, everyone));
    case COLLECTIVE_ALL_TO_ALL:
        return ok(MPI_Alltoall(b->input, part, MPI_FLOAT, b->output, part, MPI_FLOAT, everyone));
    case COLLECTIVE_GATHER:
        return ok(MPI_Gather(b->input, part, MPI_FLOAT, b->output, part, MPI_FLOAT, job->root, everyone));
    case COLLECTIVE_SCATTER:
        return ok(MPI_Scatter(b->input, part, MPI_FLOAT, b->output, part, MPI_FLOAT, job->root, everyone));
    case NODES_LATENCY:
        return latency(first, bytes);
    case NODES_BANDWIDTH:
    case NODES_BOTH_WAYS:
        return stream(first, second, bytes, job->op == NODES_BOTH_WAYS);
    case NODES_BARRIER:
        return barrier();
    default:
        return 0;
    }
}

__attribute__((visibility("default")))
const nodes_mpi muster_bench_nodes_mpi = {NODES_PLUGIN, open_mpi, close_mpi, abort_mpi, barrier, gather, pass_on, operate};
