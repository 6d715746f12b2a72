/* OpenMPI, in several tunings, and Gloo, as contenders of collectives. */
#ifndef BENCH_MPI_GLOO_H
#define BENCH_MPI_GLOO_H

#include "collective_peer.h"
#include "process.h"

typedef struct bench_collective_peer {
    char name[BENCH_NAME]; /* begins with "OpenMPI" or "Gloo" */
    bench_process *process;
    bool gloo;
} bench_collective_peer;

enum { BENCH_COLLECTIVE_PEERS = 8 };

/* Starts those that this machine has, for this number of ranks, and says in a line each what is
 * missing. Gives their number. */
int32_t bench_collective_peers_open(int32_t ranks, bench_collective_peer *peers);
void bench_collective_peers_close(bench_collective_peer *peers, int32_t count);

/* A contender. */
typedef struct bench_peer_contender {
    const bench_collective_peer *peer;
    collective_job job;
} bench_peer_contender;
bool bench_collective_peer_block(void *contender, const bench_block *block, double *ns, int64_t *wrong);
/* In how many ways the peer can do the job, 0: not at all; the name of one, "" where there is one
 * only. */
int32_t bench_collective_ways(const bench_collective_peer *peer, const collective_job *job);
const char *bench_collective_way(const bench_collective_peer *peer, const collective_job *job);

#endif
