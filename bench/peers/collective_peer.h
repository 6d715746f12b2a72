/* What the programs of collective peers share: they serve blocks of any job, asked for over
 * standard input and output, and sleep between them.
 *
 * Rank 0 says one line as in process.h, then reads bench_collective_request and answers int64
 * number of wrong elements, then `calls` doubles, nanoseconds. The other ranks sleep on a futex of
 * the shared memory until rank 0 passes a request on. */
#ifndef BENCH_COLLECTIVE_PEER_H
#define BENCH_COLLECTIVE_PEER_H

#include "collective.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_collective_request {
    collective_job job;
    int32_t warm, calls; /* calls 0: leave */
} bench_collective_request;

/* Shared by the ranks: zeroed memory, aligned to 128 bytes. */
typedef struct collective_shared {
    collective_session session;
    bench_collective_request request;
    uint32_t asked; /* futex: number of requests so far */
    int32_t parent; /* rank 0's process */
} collective_shared;

/* Serves as `rank` until rank 0's input ends. Pins nothing. out: rank 0's answers, a file
 * descriptor. self of operate: as given; its player's buffers[rank] are the rank's. false: out of
 * memory, or a job failed on the way. */
bool collective_serve(collective_shared *shared, int32_t rank, int32_t ranks, int out,
                      bool (*operate)(void *, const collective_job *, const collective_player *), void *self);

#ifdef __cplusplus
}
#endif
#endif
