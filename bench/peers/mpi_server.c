/* muster-bench-mpi-server: a parameter server by MPI's one-sided operations, two processes, each of
 * which holds half of the value and begins with its own half. It speaks as process.h says of
 * sleepers, a server_job for a request, and sleeps between its blocks. */
#include "clock.h"
#include "server_play.h"

#include <errno.h>
#include <linux/futex.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct shared {
    collective_session session;
    server_job job;
    uint32_t asked; /* futex: number of requests so far */
    int32_t parent; /* rank 0's process */
} shared;

typedef struct side {
    shared *common;
    int rank;
    int64_t count;
    float *tensor, *pulled;
    float *half; /* of the window */
    MPI_Win window;
} side;

static bool ok(int code) { return code == MPI_SUCCESS; }

static bool all(bool reads, int file, void *data, size_t bytes) {
    for (char *at = (char *)data; bytes > 0;) {
        ssize_t moved = reads ? read(file, at, bytes) : write(file, at, bytes);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return false;
        at += moved;
        bytes -= (size_t)moved;
    }
    return true;
}

static bool next(side *mine, uint32_t seen, server_job *job) {
    shared *common = mine->common;
    if (mine->rank == 0) {
        if (!all(true, 0, job, sizeof *job)) job->calls = 0;
        common->job = *job;
        __atomic_add_fetch(&common->asked, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &common->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
        return job->calls > 0;
    }
    while (__atomic_load_n(&common->asked, __ATOMIC_SEQ_CST) == seen) {
        syscall(SYS_futex, &common->asked, FUTEX_WAIT, seen, &(struct timespec){1, 0}, NULL, 0);
        if (kill(common->parent, 0) != 0 && errno == ESRCH) return false;
    }
    *job = common->job;
    return job->calls > 0;
}

/* variant 0: one epoch in which both windows are locked, shared, and flushes: each element is added
 * to atomically. variant 1: a half is locked exclusively for each push and shared for each pull, so
 * that it changes as a whole, as shards do. */
static bool move(side *mine, const server_job *job, bool push, int half) {
    const int64_t first = half ? job->count / 2 : 0;
    const int count = (int)(half ? job->count - job->count / 2 : job->count / 2);
    const bool lock = job->variant == 1;
    bool good = !lock || ok(MPI_Win_lock(push ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, half, 0, mine->window));
    good = good && ok(push ? MPI_Accumulate(mine->tensor + first, count, MPI_FLOAT, half, 0, count, MPI_FLOAT, MPI_SUM, mine->window)
                           : MPI_Get(mine->pulled + first, count, MPI_FLOAT, half, 0, count, MPI_FLOAT, mine->window));
    return good && ok(lock ? MPI_Win_unlock(half, mine->window) : MPI_Win_flush(half, mine->window));
}

static bool exchange(void *self, const server_job *job, const server_player *player) {
    side *mine = self;
    (void)player;
    return move(mine, job, true, mine->rank) && move(mine, job, true, 1 - mine->rank) && move(mine, job, false, mine->rank) &&
           move(mine, job, false, 1 - mine->rank);
}

static bool fit(side *mine, int64_t count) {
    if (count == mine->count) return true;
    if (mine->count) MPI_Win_free(&mine->window);
    free(mine->tensor);
    free(mine->pulled);
    mine->count = count;
    mine->tensor = collective_allocate(count);
    mine->pulled = collective_allocate(count);
    const MPI_Aint bytes = (MPI_Aint)((mine->rank ? count - count / 2 : count / 2) * (int64_t)sizeof(float));
    if (!mine->tensor || !mine->pulled ||
        !ok(MPI_Win_allocate(bytes, sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD, &mine->half, &mine->window)))
        return false;
    memset(mine->pulled, 0, (size_t)count * sizeof(float));
    return true;
}

static bool play(side *mine, const server_job *job) {
    const server_player player = {.session = &mine->common->session,
                                  .rank = mine->rank,
                                  .tensor = mine->tensor,
                                  .pulled = mine->pulled,
                                  .exchange = exchange,
                                  .self = mine};
    const bool epoch = job->variant == 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mine->rank, 0, mine->window);
    memset(mine->half, 0, (size_t)(mine->rank ? job->count - job->count / 2 : job->count / 2) * sizeof(float));
    MPI_Win_unlock(mine->rank, mine->window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (epoch && !ok(MPI_Win_lock_all(0, mine->window))) return false;
    const bool good = server_play(&player, job);
    return (!epoch || ok(MPI_Win_unlock_all(mine->window))) && good;
}

static bool answer(side *mine, const server_job *job, int out) {
    double *ns = (double *)calloc((size_t)job->calls, sizeof *ns);
    if (!ns) return false;
    const collective_job two = {.ranks = SERVER_CLIENTS};
    int64_t wrong = collective_result(&mine->common->session, &two, SERVER_CLIENTS, job->calls, ns);
    bool good =
        all(false, out, &wrong, sizeof wrong) && all(false, out, ns, (size_t)job->calls * sizeof *ns) && all(false, out, (char[]){'\n'}, 1);
    free(ns);
    return good;
}

static bool serve(side *mine) {
    server_job job;
    bool good = true;
    for (uint32_t seen = 0; good && next(mine, seen, &job); seen++) {
        good = fit(mine, job.count) && play(mine, &job);
        if (good && mine->rank == 0) good = answer(mine, &job, 1);
    }
    return good;
}

static shared *map_shared(int rank, MPI_Win *window) {
    void *base = NULL;
    MPI_Aint bytes = rank == 0 ? (MPI_Aint)sizeof(shared) + 128 : 0;
    int unit = 1;
    if (!ok(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, window))) return NULL;
    if (!ok(MPI_Win_shared_query(*window, 0, &bytes, &unit, &base))) return NULL;
    return (shared *)(((uintptr_t)base + 127) / 128 * 128);
}

int main(int argc, char **argv) {
    side mine = {0};
    int ranks = 0;
    MPI_Win session;
    if (!ok(MPI_Init(&argc, &argv))) return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    mine.common = ranks == SERVER_CLIENTS ? map_shared(mine.rank, &session) : NULL;
    if (!mine.common) {
        if (mine.rank == 0) printf("no shared memory for 2 ranks\n");
        MPI_Finalize();
        return 1;
    }
    if (mine.rank == 0) {
        memset(mine.common, 0, sizeof *mine.common);
        mine.common->parent = getpid();
        collective_session_open(&mine.common->session, false);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (mine.rank == 0) {
        char version[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        MPI_Get_library_version(version, &length);
        version[strcspn(version, ",\n")] = 0;
        printf("ok %.60s\n", version);
        fflush(stdout);
    }
    if (!serve(&mine)) MPI_Abort(MPI_COMM_WORLD, 1);
    if (mine.count) MPI_Win_free(&mine.window);
    free(mine.tensor);
    free(mine.pulled);
    MPI_Win_free(&session);
    MPI_Finalize();
    return 0;
}
