/* For tests of an NCCL library, real or simulated, by its C interface alone: one thread, context,
 * stream and communicator per rank. The driver and NCCL are opened at run time, from the folder in
 * MUSTER_CUDA_LIBRARIES if that is set, else by their sonames. */
#ifndef NCCL_TEAM_H
#define NCCL_TEAM_H

#include "cuda_api_private.h"
#include "nccl_api_private.h"

#include <stdatomic.h>

enum { TEAM_MOST = 8, TEAM_BUFFERS = 3, TEAM_BYTES = 1 << 20 };

/* For files that include cmocka. */
#define assert_nccl(expression)                                                                                  \
    do {                                                                                                         \
        mst_nccl_result result_ = (expression);                                                                  \
        if (result_ != MST_NCCL_SUCCESS)                                                                         \
            fail_msg("%s: %s (%s)", #expression, nccl.ncclGetErrorString(result_), nccl.ncclGetLastError(NULL)); \
    } while (0)

extern mst_cuda_api cuda; /* functions that are missing are NULL */
extern mst_nccl_api nccl;

/* NULL, or why the libraries cannot be used here: no library, no GPU. */
const char *team_open_libraries(void);
int team_devices(void); /* of the machine, at most TEAM_MOST */

typedef struct team {
    int size;
    bool blocking;
    mst_cu_context contexts[TEAM_MOST];
    mst_cu_stream streams[TEAM_MOST];
    mst_nccl_comm comms[TEAM_MOST];
    mst_cu_address memory[TEAM_MOST][TEAM_BUFFERS]; /* of TEAM_BYTES each, on rank i's device */
    /* as many bytes of page-locked memory: a pageable copy would wait in the host */
    void *staging[TEAM_MOST];
    mst_nccl_id id;
} team;

/* Contexts, streams and memory: rank i on device i. False: something failed, and is said. */
bool team_open(team *t, int size, bool blocking);
void team_close(team *t); /* the communicators are destroyed by then */

/* task(t, rank, argument) on a thread per rank, whose context is current; results[size] out unless
 * NULL. The worst result, IN_PROGRESS being less than an error. */
typedef mst_nccl_result (*team_task)(team *t, int rank, void *argument);
mst_nccl_result team_run(team *t, team_task task, void *argument, mst_nccl_result *results);

/* Makes the communicators, and waits until all ranks have theirs. */
mst_nccl_result team_start(team *t);
mst_nccl_result team_end(team *t, bool abort); /* destroys or aborts them, each in a thread of its own */
mst_nccl_config team_config(bool blocking);

/* For tasks. Waits while the call that returned `result` is in progress; returns what became of
 * it. */
mst_nccl_result team_wait(mst_nccl_comm comm, mst_nccl_result result);
/* Waits until the stream of the rank is empty, at most 60 s: then, or on a failure,
 * UNHANDLED_CUDA_ERROR. */
mst_nccl_result team_sync(team *t, int rank);
bool team_empty(team *t, int rank); /* is it already? */
/* in the stream, and waits */
mst_nccl_result team_write(team *t, int rank, int buffer, size_t at, const void *bytes, size_t count);
mst_nccl_result team_read(team *t, int rank, int buffer, size_t at, void *bytes, size_t count);
mst_nccl_result team_fill(team *t, int rank, int buffer, unsigned char value); /* in the stream; does not wait */
void *team_at(team *t, int rank, int buffer, size_t at);

#define TEAM_TRY(expression)                             \
    do {                                                 \
        mst_nccl_result result_ = (expression);          \
        if (result_ != MST_NCCL_SUCCESS) return result_; \
    } while (0)

#endif
