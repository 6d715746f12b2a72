#include "nccl_team.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

mst_cuda_api cuda;
mst_nccl_api nccl;

static void *open_library(const char *soname) {
    char path[4096];
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", soname);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Why it is missing, NULL: all that is needed was found. */
static const char *find_symbols(const char *soname, const mst_foreign_symbol *symbols, int count, void *functions) {
    static char reason[512];
    void *library = open_library(soname);
    if (!library) {
        snprintf(reason, sizeof reason, "%s: %s", soname, dlerror());
        return reason;
    }
    for (int i = 0; i < count; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address && !symbols[i].optional) {
            snprintf(reason, sizeof reason, "%s has no symbol %s", soname, symbols[i].name);
            return reason;
        }
        memcpy((char *)functions + symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

#define MST_FOREIGN_STRUCT mst_cuda_api
static const mst_foreign_symbol cuda_symbols[] = {MST_CUDA_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT
#define MST_FOREIGN_STRUCT mst_nccl_api
static const mst_foreign_symbol nccl_symbols[] = {MST_NCCL_SYMBOLS(MST_FOREIGN_NEEDED) MST_NCCL_OPTIONAL_SYMBOLS(MST_FOREIGN_OPTIONAL)};

int team_devices(void) {
    int count = 0;
    if (cuda.cuDeviceGetCount(&count) != MST_CU_SUCCESS) return 0;
    return count > TEAM_MOST ? TEAM_MOST : count;
}

const char *team_open_libraries(void) {
    const char *reason = find_symbols("libcuda.so.1", cuda_symbols, (int)(sizeof cuda_symbols / sizeof *cuda_symbols), &cuda);
    if (!reason) reason = find_symbols("libnccl.so.2", nccl_symbols, (int)(sizeof nccl_symbols / sizeof *nccl_symbols), &nccl);
    if (!reason && cuda.cuInit(0) != MST_CU_SUCCESS) reason = "cuInit failed";
    if (!reason && team_devices() == 0) reason = "this machine has no GPU";
    return reason;
}

/* ---- contexts, streams, memory ---- */

static bool open_rank(team *t, int rank) {
    mst_cu_device device;
    if (cuda.cuDeviceGet(&device, rank) != MST_CU_SUCCESS || cuda.cuDevicePrimaryCtxRetain(&t->contexts[rank], device) != MST_CU_SUCCESS)
        return false;
    if (cuda.cuCtxSetCurrent(t->contexts[rank]) != MST_CU_SUCCESS) return false;
    if (cuda.cuStreamCreate(&t->streams[rank], MST_CU_STREAM_NON_BLOCKING) != MST_CU_SUCCESS) return false;
    for (int i = 0; i < TEAM_BUFFERS; i++)
        if (cuda.cuMemAlloc_v2(&t->memory[rank][i], TEAM_BYTES) != MST_CU_SUCCESS) return false;
    return cuda.cuMemHostAlloc(&t->staging[rank], TEAM_BYTES, MST_CU_HOST_ALLOC_PORTABLE) == MST_CU_SUCCESS;
}

bool team_open(team *t, int size, bool blocking) {
    *t = (team){.size = size, .blocking = blocking};
    for (int rank = 0; rank < size; rank++) {
        if (open_rank(t, rank)) continue;
        fprintf(stderr, "rank %d: no context, stream or memory\n", rank);
        team_close(t);
        return false;
    }
    return true;
}

void team_close(team *t) {
    for (int rank = 0; rank < t->size && t->contexts[rank]; rank++) {
        cuda.cuCtxSetCurrent(t->contexts[rank]);
        for (int i = 0; i < TEAM_BUFFERS; i++)
            if (t->memory[rank][i]) cuda.cuMemFree_v2(t->memory[rank][i]);
        if (t->staging[rank]) cuda.cuMemFreeHost(t->staging[rank]);
        if (t->streams[rank]) cuda.cuStreamDestroy_v2(t->streams[rank]);
        cuda.cuCtxSetCurrent(NULL);
        cuda.cuDevicePrimaryCtxRelease_v2(rank);
    }
    t->size = 0;
}

/* ---- threads ---- */

typedef struct member {
    team *t;
    int rank;
    team_task task;
    void *argument;
    mst_nccl_result result;
    pthread_t thread;
} member;

static void *member_main(void *argument) {
    member *m = argument;
    m->result = cuda.cuCtxSetCurrent(m->t->contexts[m->rank]) == MST_CU_SUCCESS ? m->task(m->t, m->rank, m->argument)
                                                                                : MST_NCCL_UNHANDLED_CUDA_ERROR;
    return NULL;
}

static mst_nccl_result worse(mst_nccl_result a, mst_nccl_result b) {
    return a == MST_NCCL_SUCCESS || (a == MST_NCCL_IN_PROGRESS && b != MST_NCCL_SUCCESS) ? b : a;
}

mst_nccl_result team_run(team *t, team_task task, void *argument, mst_nccl_result *results) {
    member members[TEAM_MOST];
    mst_nccl_result worst = MST_NCCL_SUCCESS;
    for (int rank = 0; rank < t->size; rank++) {
        members[rank] = (member){.t = t, .rank = rank, .task = task, .argument = argument};
        if (pthread_create(&members[rank].thread, NULL, member_main, &members[rank]) != 0) abort();
    }
    for (int rank = 0; rank < t->size; rank++) {
        pthread_join(members[rank].thread, NULL);
        if (results) results[rank] = members[rank].result;
        worst = worse(worst, members[rank].result);
    }
    return worst;
}

/* ---- communicators ---- */

mst_nccl_config team_config(bool blocking) {
    int none = MST_NCCL_UNDEFINED;
    return (mst_nccl_config){sizeof(mst_nccl_config), MST_NCCL_MAGIC, MST_NCCL_CONFIG_VERSION, blocking, none, none, none, NULL, none};
}

static mst_nccl_result start_task(team *t, int rank, void *argument) {
    (void)argument;
    mst_nccl_config config = team_config(t->blocking);
    mst_nccl_result result = nccl.ncclCommInitRankConfig(&t->comms[rank], t->size, t->id, rank, &config);
    return t->comms[rank] ? team_wait(t->comms[rank], result) : result;
}

/* The threads have ended when it returns: that is the barrier which the first collective needs. */
mst_nccl_result team_start(team *t) {
    memset(t->comms, 0, sizeof t->comms);
    TEAM_TRY(nccl.ncclGetUniqueId(&t->id));
    return team_run(t, start_task, NULL, NULL);
}

static mst_nccl_result end_task(team *t, int rank, void *argument) {
    mst_nccl_comm comm = t->comms[rank];
    t->comms[rank] = NULL;
    return *(bool *)argument ? nccl.ncclCommAbort(comm) : nccl.ncclCommDestroy(comm);
}

mst_nccl_result team_end(team *t, bool abort) { return team_run(t, end_task, &abort, NULL); }

/* ---- for tasks ---- */

static void pause_a_little(void) { nanosleep(&(struct timespec){0, 50000}, NULL); }

static bool too_late(time_t begin) { return time(NULL) - begin > 60; }

mst_nccl_result team_wait(mst_nccl_comm comm, mst_nccl_result result) {
    time_t begin = time(NULL);
    while (result == MST_NCCL_IN_PROGRESS && !too_late(begin)) {
        TEAM_TRY(nccl.ncclCommGetAsyncError(comm, &result));
        if (result == MST_NCCL_IN_PROGRESS) pause_a_little();
    }
    return result;
}

bool team_empty(team *t, int rank) { return cuda.cuStreamQuery(t->streams[rank]) == MST_CU_SUCCESS; }

mst_nccl_result team_sync(team *t, int rank) {
    time_t begin = time(NULL);
    for (;;) {
        mst_cu_result result = cuda.cuStreamQuery(t->streams[rank]);
        if (result == MST_CU_SUCCESS) return MST_NCCL_SUCCESS;
        if (result != MST_CU_NOT_READY || too_late(begin)) return MST_NCCL_UNHANDLED_CUDA_ERROR;
        pause_a_little();
    }
}

void *team_at(team *t, int rank, int buffer, size_t at) { return (void *)(uintptr_t)(t->memory[rank][buffer] + at); }

static mst_nccl_result of_cuda(mst_cu_result result) { return result == MST_CU_SUCCESS ? MST_NCCL_SUCCESS : MST_NCCL_UNHANDLED_CUDA_ERROR; }

mst_nccl_result team_write(team *t, int rank, int buffer, size_t at, const void *bytes, size_t count) {
    memcpy(t->staging[rank], bytes, count);
    TEAM_TRY(of_cuda(cuda.cuMemcpyHtoDAsync_v2(t->memory[rank][buffer] + at, t->staging[rank], count, t->streams[rank])));
    return team_sync(t, rank);
}

mst_nccl_result team_read(team *t, int rank, int buffer, size_t at, void *bytes, size_t count) {
    TEAM_TRY(of_cuda(cuda.cuMemcpyDtoHAsync_v2(t->staging[rank], t->memory[rank][buffer] + at, count, t->streams[rank])));
    TEAM_TRY(team_sync(t, rank));
    memcpy(bytes, t->staging[rank], count);
    return MST_NCCL_SUCCESS;
}

mst_nccl_result team_fill(team *t, int rank, int buffer, unsigned char value) {
    return of_cuda(cuda.cuMemsetD8Async(t->memory[rank][buffer], value, TEAM_BYTES, t->streams[rank]));
}
