/* Launches of muster-bench-nodes, which the bench starts by mpirun, and their contenders. */
#ifndef BENCH_NODES_LAUNCH_H
#define BENCH_NODES_LAUNCH_H

#include "bench.h"
#include "nodes_play.h"
#include "process.h"

enum { BENCH_LAUNCHES = 6, BENCH_NODES_ROUNDS = 64 };

/* The MPIs of this machine that the bench was built for. */
typedef struct bench_mpi {
    const char *name;    /* "OpenMPI" */
    const char *library; /* as in libmuster-mpi-NAME.so */
    const char *launcher, *plain_launcher;
} bench_mpi;
extern const bench_mpi bench_mpis[];
extern const int32_t bench_mpi_count;

typedef struct bench_launch {
    const bench_mpi *mpi;
    const char *tuning; /* "default", "ring" */
    int32_t processes, devices;
    bench_process *process;
} bench_launch;

/* Is this one of the hosts of tests/net/hosts or script/cluster? Their launches go over all
 * hosts. */
bool bench_in_hosts(void);
/* Is the bench a process of a launch itself? */
bool bench_is_launched(void);
/* Starts it. tuning: NULL or "default", "ring", "segmented ring" (Open MPI's all_reduce). false:
 * it has said why. */
bool bench_launch_open(bench_launch *launch, const bench_mpi *mpi, int32_t processes, int32_t devices, const char *tuning);
void bench_launch_close(bench_launch *launch);

typedef struct bench_nodes_contender {
    const bench_launch *launch;
    nodes_request request;
    double extra[3][BENCH_NODES_ROUNDS]; /* of each round: the mean over the processes, the least, the largest */
    int32_t rounds;
} bench_nodes_contender;
bool bench_nodes_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

#endif
