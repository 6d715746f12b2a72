/* muster-bench-mpi: serves blocks of collectives by MPI, one process per rank; how MPI is tuned is
 * mpirun's matter. */
#include "collective_peer.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool ok(int code) { return code == MPI_SUCCESS; }

/* MPI broadcasts in one buffer only: out of place, the root copies it once more. */
static bool broadcast(const collective_job *job, int32_t rank, const collective_buffers *b) {
    bool root = rank == job->root;
    if (!ok(MPI_Bcast(root ? b->input : b->output, (int)job->count, MPI_FLOAT, job->root, MPI_COMM_WORLD))) return false;
    if (root && b->output != b->input) memcpy(b->output, b->input, (size_t)job->count * sizeof(float));
    return true;
}

/* variant 1: MPI_Reduce_scatter_block instead of MPI_Reduce_scatter. In place, both leave their
 * part at the beginning of the buffer. */
static bool reduce_scatter(const collective_job *job, const collective_player *player) {
    int parts[COLLECTIVE_RANKS];
    for (int32_t r = 0; r < job->ranks; r++) parts[r] = (int)(job->count / job->ranks);
    collective_buffers *b = &player->buffers[player->index];
    if (job->in_place) b->output = b->input;
    void *input = job->in_place ? MPI_IN_PLACE : b->input, *output = b->output;
    return ok(job->variant ? MPI_Reduce_scatter_block(input, output, parts[0], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)
                           : MPI_Reduce_scatter(input, output, parts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
}

static bool operate(void *self, const collective_job *job, const collective_player *player) {
    (void)self;
    int32_t rank = player->index, root = job->root;
    const collective_buffers *b = &player->buffers[rank];
    int all = (int)job->count, part = (int)(job->count / job->ranks);
    bool in_place = job->in_place;
    void *here = in_place ? MPI_IN_PLACE : b->input, *at_root = in_place && rank == root ? MPI_IN_PLACE : b->input;
    switch (job->op) {
    case COLLECTIVE_ALL_REDUCE:
        return ok(MPI_Allreduce(here, b->output, all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    case COLLECTIVE_BROADCAST:
        return broadcast(job, rank, b);
    case COLLECTIVE_ALL_GATHER:
        return ok(MPI_Allgather(here, part, MPI_FLOAT, b->output, part, MPI_FLOAT, MPI_COMM_WORLD));
    case COLLECTIVE_REDUCE_SCATTER:
        return reduce_scatter(job, player);
    case COLLECTIVE_REDUCE:
        return ok(MPI_Reduce(at_root, b->output, all, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD));
    case COLLECTIVE_ALL_TO_ALL:
        return ok(MPI_Alltoall(here, part, MPI_FLOAT, b->output, part, MPI_FLOAT, MPI_COMM_WORLD));
    case COLLECTIVE_GATHER:
        return ok(MPI_Gather(at_root, part, MPI_FLOAT, b->output, part, MPI_FLOAT, root, MPI_COMM_WORLD));
    case COLLECTIVE_SCATTER:
        return ok(MPI_Scatter(b->input, part, MPI_FLOAT, in_place && rank == root ? MPI_IN_PLACE : b->output, part, MPI_FLOAT, root,
                              MPI_COMM_WORLD));
    default:
        return false;
    }
}

static collective_shared *map_shared(int rank, MPI_Win *window) {
    void *base = NULL;
    MPI_Aint bytes = rank == 0 ? (MPI_Aint)sizeof(collective_shared) + 128 : 0;
    int unit = 1;
    if (!ok(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, window))) return NULL;
    if (!ok(MPI_Win_shared_query(*window, 0, &bytes, &unit, &base))) return NULL;
    return (collective_shared *)(((uintptr_t)base + 127) / 128 * 128);
}

static void greet(int ranks) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    printf("ok %.60s, %d ranks\n", version, ranks);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int rank = 0, ranks = 0;
    if (!ok(MPI_Init(&argc, &argv))) return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win window;
    collective_shared *shared = ranks <= COLLECTIVE_RANKS ? map_shared(rank, &window) : NULL;
    if (!shared) {
        if (rank == 0) printf("no shared memory for %d ranks\n", ranks);
        MPI_Finalize();
        return 1;
    }
    if (rank == 0) {
        memset(shared, 0, sizeof *shared);
        shared->parent = getpid();
        collective_session_open(&shared->session, argc > 1 && strcmp(argv[1], "oversubscribed") == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) greet(ranks);
    bool served = collective_serve(shared, rank, ranks, 1, operate, NULL);
    if (!served) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
