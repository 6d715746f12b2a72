/* Several processes of a launch in one program: each has a thread, a pool and a communicator of its
 * own, and they talk by the wire of tests/sim/wire. */
#ifndef COLLECTIVES_SPANS_H
#define COLLECTIVES_SPANS_H

#include "communicator_impl.h"
#include "nodes/nodes_impl.h"

enum { SPANS_PROCESSES = 4, SPANS_RANKS = 8 };

typedef struct spans_launch spans_launch;
typedef struct spans_process {
    spans_launch *launch;
    mst_nodes *nodes;
    mst_device *devices[SPANS_RANKS];
    int32_t count; /* of its ranks */
    mst_pool *pool;
    muster_communicator *communicator; /* of this process; its `whole` has all */
    /* What the last run has returned. */
    muster_status status;
    char message[MST_MESSAGE_SIZE];
    pthread_t thread;
    mst_task task;
    void *argument;
    char log[256]; /* the first line of the opening, if any, that is a warning */
} spans_process;

struct spans_launch {
    struct wire_launch *wire;
    int32_t processes, total;
    int32_t discrete; /* the last ones of each process's ranks are discrete devices */
    const char *algorithm;
    int64_t fail_after_ns, close_grace_ns;
    bool fixed_order;
    muster_dtype wire_dtype;
    int64_t left; /* messages and requests in the wire when all have closed */
    spans_process process[SPANS_PROCESSES];
};

typedef struct spans_options {
    const int32_t *counts; /* [processes] ranks */
    int32_t processes;
    int32_t discrete;
    const char *algorithm;
    int64_t fail_after_ns;  /* 0: 60 s */
    int64_t close_grace_ns; /* as in mst_nodes_options */
    int32_t processes_per_host;
    const char *hosts; /* instead of it, as in wire_launch_options */
    uint64_t seed;
    bool fixed_order;           /* as in the reproducible mode */
    bool different_bits;        /* as in wire_launch_options */
    int64_t stalled_collective; /* wire_launch_options.stalled */
    muster_dtype wire_dtype;    /* as in mst_communicator_options */
} spans_options;

/* Processes p with equal p / processes_per_host share a host; 0: each has its own, "host0", "host1"
 * ... Asserts success; after a failure of spans_try_open, spans_close follows, too. */
muster_status spans_try_open(spans_launch *launch, const spans_options *options);
void spans_open(spans_launch *launch, const spans_options *options);
/* All processes run the task on all their workers, each with its own thread. Returns the first
 * status that is not OK. */
muster_status spans_run(spans_launch *launch, mst_task task, void *argument);
void spans_close(spans_launch *launch);
/* The same for one process, in the calling thread, which is a process of a launch: with
 * mst_wire_test_open NULL of one by MPI. `launch`, with its deadline, and `count` are set; for
 * `run` also `task` and `argument`. */
muster_status spans_process_open(spans_process *process);
muster_status spans_process_run(spans_process *process);
void spans_process_close(spans_process *process);
/* The bytes that all processes have sent so far. */
int64_t spans_sent_bytes(const spans_launch *launch);
/* The public rank of a worker, and the number of all. */
int32_t spans_rank(muster_worker *worker);
int32_t spans_size(muster_worker *worker);
/* A task's check: the sum of the members' ranks (spans_rank) over the communicator, by all_reduce.
 * USER: another one was received. */
muster_status spans_expect_sum(muster_worker *worker, muster_communicator *communicator, float expected);

#endif
