/* The simulated NCCL (libnccl.so.2) from inside. It behaves as NCCL 2.28.9 does, as read in its
 * source and its user guide:
 *
 * - A communicator of one rank is made by ncclCommInitRankConfig, which waits for all ranks of the
 * id; every rank has a device of its own.
 * - Calls are noted in the thread's group and issued when its outermost group ends (a call outside
 * of a group is a group of its own). What a group issues for one
 *   communicator is one plan: one entry in each stream that it names, of which the operations start
 *   when the plan before is done and all these streams have come to it.
 * - NCCL makes its connections at first use: those of each algorithm of collectives, and those to
 * each peer of messages. They need the other ranks' host threads, take device memory, and can fail.
 * A blocking communicator waits for them in
 *   ncclGroupEnd, one that is not is "in progress" until its own ncclCommGetAsyncError says that it
 *   no longer is. Nothing is in the stream before. Now and then issuing needs the other ranks' host
 *   threads without a connection, too.
 * - On the device the k-th collective of each rank meets the k-th of the others, the n-th message
 * from a to b the n-th receive. What differs, or never comes, waits until
 *   ncclCommAbort of that rank's own communicator.
 * - ncclCommAbort and ncclCommDestroy free nothing until the last rank of the process calls them.
 * That call waits in the host for what the streams of all ranks hold up to the communicator's last
 * operation, whether the communicator blocks or not, and then frees the memory of all ranks. In a
 * group only ncclGroupEnd waits, so that several communicators are told first.
 *
 * A clique is what the ranks of one communicator share. Its host side is guarded by one lock of the
 * library; its device side, by `lanes`, which only threads of streams take (see sim_impl.h: locks
 * shared by both would order what a real machine does not). Communicators are never freed before
 * muster_sim_reset, so that a use after the end is reported instead of undefined. */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "arithmetic.h"
#include "cuda_api_private.h"
#include "nccl_api_private.h"
#include "sim_impl.h"

#include <pthread.h>

enum { NCCL_OPERATORS = 32, NCCL_RANKS_MAX = 1024, NCCL_CODE = 22809, NCCL_HANGS = INT32_MAX };
/* What a communicator takes of each device: when it starts, for each algorithm of collectives, and
 * for each peer and direction of messages. NCCL takes many times as much. */
enum { NCCL_START_BYTES = 128 << 10, NCCL_ALGORITHM_BYTES = 256 << 10, NCCL_PEER_BYTES = 32 << 10, NCCL_BLOCKS = 64 };
#define NCCL_KIND "NCCL communicator"
#define NCCL_COMM_MAGIC UINT64_C(0x6e63636c20636f6d)

typedef enum {
    NCCL_ALL_REDUCE,
    NCCL_REDUCE,
    NCCL_BROADCAST,
    NCCL_ALL_GATHER,
    NCCL_REDUCE_SCATTER,
    NCCL_ALL_TO_ALL,
    NCCL_GATHER,
    NCCL_SCATTER,
    NCCL_SEND,
    NCCL_RECV
} nccl_kind;
extern const char *const nccl_kind_names[];

/* What ncclRedOpCreatePreMulSum made. */
typedef struct nccl_operator {
    bool used;
    unsigned int type;
    const void *address; /* in device memory; NULL: the scalar is in `scalar` */
    uint64_t scalar;
} nccl_operator;

typedef struct nccl_plan nccl_plan;

typedef struct nccl_operation {
    nccl_kind kind;
    const char *symbol;
    const void *from;
    void *to;
    size_t count;
    unsigned int type, operation; /* operation: as ncclRedOp_t, 5 for every PreMulSum */
    nccl_operator scale;
    int root; /* or the peer of a message */
    struct ncclComm *comm;
    sim_stream *stream;
    struct nccl_operation *next; /* of the group, later of the plan */
    /* device side */
    nccl_plan *plan;
    bool done, stuck;
    char *in, *out, *factor; /* what a stream's thread may read and write */
    struct nccl_operation *next_message;
} nccl_operation;

struct nccl_plan {
    struct ncclComm *comm;
    nccl_operation *first, *last;
    sim_stream *streams[16];
    int stream_count;
    uint64_t number;           /* of the communicator's plans */
    uint64_t first_collective; /* the number of its first collective among the communicator's */
    int collectives;
    _Atomic int references;
    _Atomic bool cancelled; /* it could not be issued whole */
    bool counted;           /* among the communicator's plans, and not issued yet */
    nccl_plan *next;        /* of a job */
    /* device side */
    int arrived, left;
    bool posted;
};

/* The k-th collective of a clique on the device. */
typedef struct nccl_round {
    uint64_t number;
    int arrived;
    bool stuck;
    struct nccl_round *next;
    nccl_operation *operations[]; /* by rank */
} nccl_round;

typedef struct nccl_split {
    uint64_t number;
    int arrived;
    bool done;
    struct nccl_split *next;
    struct {
        bool in;
        int color, key;
        struct ncclComm *child;
        bool blocking;
    } ranks[];
} nccl_split;

typedef struct nccl_clique {
    uint64_t number; /* of this clique in the machine */
    mst_nccl_id id;
    int size, joined;
    /* ranks that contradict each other have come, or one was aborted before all had: it will never
     * be whole */
    bool spoiled;
    uint32_t devices;
    _Atomic int ready; /* ranks that know that it is whole */
    _Atomic int gone;
    sim_gate gate; /* of both sides */
    nccl_split *splits;
    struct nccl_clique *next;
    struct ncclComm **ranks; /* [size] */
    /* device side */
    pthread_mutex_t lanes;
    nccl_round *rounds;
    nccl_operation *messages; /* posted and not matched, oldest first */
} nccl_clique;

enum { NCCL_JOB_USERS = 64 };
typedef struct nccl_job { /* what a group of communicators that do not block leaves to be issued later */
    nccl_plan *plans;
    int user_count;
    struct ncclComm *users[NCCL_JOB_USERS]; /* that point to it */
} nccl_job;

typedef enum { NCCL_IDLE, NCCL_STARTING, NCCL_ISSUING, NCCL_SPLITTING, NCCL_ENDING } nccl_pending;

typedef struct nccl_connections {
    uint32_t algorithms; /* bit i: algorithm i of collectives */
    uint32_t to, from;   /* bit i: messages to, and from, rank i */
} nccl_connections;

struct ncclComm {
    uint64_t magic;
    nccl_clique *clique;
    int rank, device;
    bool blocking, finalized;
    _Atomic bool aborted, gone;
    _Atomic unsigned int state; /* as ncclCommGetAsyncError says */
    nccl_pending pending;       /* why it is in progress */
    int polls;                  /* so many more questions are answered with "in progress" */
    nccl_job *job;
    nccl_split *split;
    struct ncclComm **part;       /* where the split's communicator goes */
    uint64_t splits, collectives; /* issued */
    /* plans issued; collectives that its host thread has come to; plans that are over */
    _Atomic uint64_t plans, announced, over;
    /* bit i: a message to, and from, rank i that the host thread has come to */
    _Atomic uint32_t sends, receives;
    nccl_connections made;        /* of its host thread */
    uint64_t blocks[NCCL_BLOCKS]; /* of device memory */
    int block_count;
    nccl_operator operators[NCCL_OPERATORS];
    uint64_t random;
    struct ncclComm *next; /* of all of the machine */
    /* device side */
    uint64_t plans_done, collectives_posted;
};

/* clique.c */
extern pthread_mutex_t nccl_lock; /* of the host side: ids, cliques, splits */
mst_nccl_result nccl_id_make(mst_nccl_id *id);
/* hangs: it stays in progress until it is aborted, if it does not block. */
mst_nccl_result nccl_join(struct ncclComm **comm, int size, const mst_nccl_id *id, int rank, const mst_nccl_config *config, bool hangs);
mst_nccl_result nccl_split_enter(struct ncclComm *comm, int color, int key, struct ncclComm **part, const mst_nccl_config *config);
/* Waits, where `wait` is set, for what is pending of the communicator; else does what can be done
 * of it now. The communicator's state. */
mst_nccl_result nccl_progress(struct ncclComm *comm, bool wait);
void nccl_wait_a_moment(uint32_t seen); /* for the host side, whose gate was looked at before */
uint32_t nccl_look(void);
void nccl_bump(void);
void nccl_pending_begin(struct ncclComm *comm, nccl_pending pending);
void nccl_pending_end(struct ncclComm *comm, mst_nccl_result result);
bool nccl_all_over(struct ncclComm *comm); /* all plans that were issued */
/* NULL, one that is over, or none: INVALID_ARGUMENT. ready: nor in progress, nor failed. */
mst_nccl_result nccl_check(struct ncclComm *comm, const char *symbol);
mst_nccl_result nccl_check_ready(struct ncclComm *comm, const char *symbol);

/* connect.c */
mst_nccl_result nccl_take_memory(struct ncclComm *comm, size_t bytes);
void nccl_give_memory(struct ncclComm *comm);
void nccl_announce(const nccl_plan *plan); /* its messages, to the other ranks */
/* Have the host threads come that the connections need which the plan lacks? */
bool nccl_can_connect(const nccl_plan *plan);
mst_nccl_result nccl_connect(const nccl_plan *plan); /* what it lacks */

/* ending.c */
/* Tells the communicator, and adds it to the thread's group, whose end waits and frees. */
mst_nccl_result nccl_end(struct ncclComm *comm, bool abort);
void nccl_reclaim(struct ncclComm *comm, bool abort);             /* at the end of the group */
mst_nccl_result nccl_finalize(struct ncclComm *comm, bool hangs); /* hangs: it stays in progress until it is aborted */
void nccl_endings_leave(void);                                    /* at a reset: returns when no thread is in nccl_reclaim */

/* group.c: every call that issues, starts or splits is a group in the thread's group, if it has
 * one. */
int nccl_group_depth(void);
void nccl_group_start(void);
/* result: of the call. The outermost one runs what was noted, unless a call in it has failed */
mst_nccl_result nccl_group_end(mst_nccl_result result);
/* What the group issues when it ends stays in progress until its communicators are aborted. */
void nccl_group_hang(void);
mst_nccl_result nccl_group_add(const nccl_operation *operation);
mst_nccl_result nccl_group_wait_for(struct ncclComm *comm); /* its start or split is pending */
mst_nccl_result nccl_group_add_end(struct ncclComm *comm, bool abort);
void nccl_group_forget(void);
/* Issues a job's plans if that needs no waiting, or waits where `wait` is set. IN_PROGRESS: not
 * yet. */
mst_nccl_result nccl_job_issue(nccl_plan **plans, bool wait);
void nccl_plan_free(nccl_plan *plan);

/* lanes.c: an entry of a stream. */
sim_result nccl_plan_run(void *plan, sim_stream *stream);
void nccl_plan_drop(void *plan);
void nccl_bytes(const nccl_operation *operation, size_t *in, size_t *out); /* that its rank reads and writes */

/* entry.c */
/* sets the last error */
mst_nccl_result nccl_fail(mst_nccl_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
