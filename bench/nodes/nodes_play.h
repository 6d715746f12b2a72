/* What the parts of muster-bench-nodes share. This program runs once per process of a launch, and
 * holds all that is compared: Muster over an MPI, the wire below it, this MPI's own collectives and
 * Gloo. So they run in the same processes, on the same cores, in turn.
 *
 * Process 0 says one line as in process.h, then reads nodes_request and answers int64 number of
 * wrong elements (-1: there is no such way here), then calls + 3 doubles, ns: a time for each
 * operation (of the process that takes longest; of messages, of process 0), and of the means of the
 * processes their mean, the least and the largest. Between blocks all sleep. */
#ifndef BENCH_NODES_PLAY_H
#define BENCH_NODES_PLAY_H

#include "collective.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nodes_way {
    NODES_MUSTER = 0, /* by the public functions, inside a body; `devices` ranks in each process */
    NODES_MPI,        /* by the MPI's own functions */
    NODES_WIRE,       /* by the table of functions on which Muster stands */
    NODES_GLOO,
    NODES_SCHEDULE, /* the schedule `variant` (mst_move_algorithm) alone, with its data where the wire wants it */
    NODES_ALONE,    /* by a runtime that has not joined: calls only */
    NODES_HALF,     /* as NODES_MUSTER, by a runtime in which sums travel as f16 */
    NODES_WAYS
} nodes_way;

/* Operations beside those of collective_op. A job's count is in floats. */
enum {
    NODES_LATENCY = COLLECTIVE_OPS, /* process 0 sends to process 1 and gets it back; half of the time */
    NODES_BANDWIDTH,                /* process 0 sends nodes_window messages to process 1, which answers 4 bytes */
    NODES_BOTH_WAYS,                /* both do, at the same time */
    NODES_BARRIER,
    NODES_CALL,     /* an empty call of a function */
    NODES_EXCHANGE, /* of the wire: twice log2(M) exchanges with those 1, 2, 4, ... processes away; variant 1: once */
    /* The floor of a collective on the bare wire. Each process sends its bytes to the next one and
     * receives as many from the one before: in two steps for an all_reduce, in one step for the
     * others. A broadcast sends in one direction only. */
    NODES_FLOOR, /* + the collective_op */
    NODES_OPS = NODES_FLOOR + COLLECTIVE_OPS
};

enum { NODES_PLUGIN = 1, NODES_TEXT = 128, NODES_MOST_WINDOW = 64 };

typedef struct nodes_request {
    int32_t way, warm, calls, reserved; /* calls 0: leave */
    collective_job job;
} nodes_request;

static inline int32_t nodes_window(int64_t bytes) {
    const int64_t most = NODES_MOST_WINDOW, window = bytes > 0 ? ((int64_t)64 << 20) / bytes : most;
    return (int32_t)(window < 1 ? 1 : window > most ? most : window);
}

/* nodes_mpi.c, compiled by each mpicc into a library that the program opens: MPI itself. All return
 * 0 when MPI has failed. */
typedef struct nodes_mpi {
    int32_t plugin; /* NODES_PLUGIN */
    int32_t (*open)(int32_t *rank, int32_t *size, char *version);
    void (*close)(void);
    void (*abort)(void);
    int32_t (*barrier)(void);
    int32_t (*gather)(const void *from, void *to, int32_t bytes); /* to[size][bytes] in all processes */
    /* Process 0's bytes reach the others, which sleep until then. */
    int32_t (*pass_on)(void *data, int32_t bytes);
    int32_t (*operate)(const collective_job *job, const collective_buffers *buffers, float *first, float *second);
} nodes_mpi;
extern const char *const nodes_mpi_symbol;

/* One rank of a block. */
typedef struct nodes_player {
    const nodes_mpi *mpi;
    collective_job job;
    int32_t warm, calls;
    int32_t rank;                 /* of all ranks of the way */
    int32_t process, local;       /* its process, and its number there: 0 meets the other processes */
    struct nodes_rendezvous *all; /* of the ranks of the process; NULL: one */
    float *first, *second;        /* job.count + 1 floats each */
    bool (*operate)(struct nodes_player *player);
    void *self;
    collective_buffers buffers;
    double *ns; /* [calls] out */
    int64_t wrong;
} nodes_player;

typedef struct nodes_rendezvous {
    int32_t ranks, arrived;
    uint32_t generation;
} nodes_rendezvous;

/* Plays the block: every rank calls it. Ends the launch if one fails. */
void nodes_play(nodes_player *player);
/* Messages, barriers and the like move bytes, and have nothing to check. */
static inline bool nodes_is_collective(int32_t op) { return op < COLLECTIVE_OPS; }

/* The ways. open: NULL, *why says why not. Blocks play with all ranks of the process. */
typedef struct nodes_program {
    const nodes_mpi *mpi;
    int32_t process, processes, devices;
    const char *shim;
    float *first, *second; /* of this process: `count` floats each */
    int64_t count;
    double *ns; /* [devices][calls] of the block */
    int64_t wrong;
    struct nodes_wire *wire;
    struct nodes_muster *muster, *alone, *half; /* half: opened when it is first asked for */
    struct nodes_gloo *gloo;
} nodes_program;

struct nodes_wire *nodes_wire_open(const char *shim, char why[NODES_TEXT]);
bool nodes_wire_operate(nodes_player *player);     /* self: nodes_wire */
bool nodes_schedule_operate(nodes_player *player); /* the same */

struct nodes_muster *nodes_muster_open(const nodes_program *program, nodes_way way, char why[NODES_TEXT]);
bool nodes_muster_block(struct nodes_muster *muster, nodes_program *program, const nodes_request *request);
void nodes_muster_close(struct nodes_muster *muster);

struct nodes_gloo *nodes_gloo_open(const nodes_mpi *mpi, int32_t process, int32_t processes, char why[NODES_TEXT]);
bool nodes_gloo_operate(nodes_player *player); /* self: nodes_gloo */
bool nodes_gloo_serves(int32_t op);

#ifdef __cplusplus
}
#endif
#endif
