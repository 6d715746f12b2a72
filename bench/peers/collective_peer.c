#include "collective_peer.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct memory {
    float *first, *second;
    int64_t count;
} memory;

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

static bool fit(memory *mine, int64_t count) {
    if (count <= mine->count) return true;
    free(mine->first);
    free(mine->second);
    mine->first = collective_allocate(count);
    mine->second = collective_allocate(count);
    mine->count = mine->first && mine->second ? count : 0;
    return mine->count > 0;
}

static void pass_on(collective_shared *shared) {
    __atomic_add_fetch(&shared->asked, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &shared->asked, FUTEX_WAKE, COLLECTIVE_RANKS, NULL, NULL, 0);
}

/* false: rank 0 is gone. */
static bool await(collective_shared *shared, uint32_t seen) {
    while (__atomic_load_n(&shared->asked, __ATOMIC_SEQ_CST) == seen) {
        syscall(SYS_futex, &shared->asked, FUTEX_WAIT, seen, &(struct timespec){1, 0}, NULL, 0);
        if (kill(shared->parent, 0) != 0 && errno == ESRCH) return false;
    }
    return true;
}

/* The next request, the same on every rank. */
static bool next(collective_shared *shared, int32_t rank, uint32_t seen, bench_collective_request *request) {
    if (rank != 0) {
        if (!await(shared, seen)) return false;
        *request = shared->request;
    } else {
        if (!all(true, 0, request, sizeof *request)) request->calls = 0;
        shared->request = *request;
        pass_on(shared);
    }
    return request->calls > 0;
}

static bool answer(collective_shared *shared, const bench_collective_request *request, int32_t ranks, int out) {
    double *ns = (double *)calloc((size_t)request->calls, sizeof *ns);
    if (!ns) return false;
    int64_t wrong = collective_result(&shared->session, &request->job, ranks, request->calls, ns);
    bool ok = all(false, out, &wrong, sizeof wrong) && all(false, out, ns, (size_t)request->calls * sizeof *ns) &&
              all(false, out, (char[]){'\n'}, 1);
    free(ns);
    return ok;
}

bool collective_serve(collective_shared *shared, int32_t rank, int32_t ranks, int out,
                      bool (*operate)(void *, const collective_job *, const collective_player *), void *self) {
    memory mine = {NULL, NULL, 0};
    collective_buffers buffers[COLLECTIVE_RANKS];
    collective_player player = {&shared->session, rank, ranks, buffers, operate, self};
    bench_collective_request request;
    bool ok = true;
    for (uint32_t seen = 0; ok && next(shared, rank, seen, &request); seen++) {
        ok = fit(&mine, request.job.count);
        if (!ok) collective_abort(&shared->session);
        buffers[rank] = collective_layout(&request.job, rank, mine.first, mine.second, NULL);
        ok = ok && collective_play(&player, &request.job, request.warm, request.calls);
        if (rank == 0) ok = ok && answer(shared, &request, ranks, out);
    }
    free(mine.first);
    free(mine.second);
    return ok;
}
