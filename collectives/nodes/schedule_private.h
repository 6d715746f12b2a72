/* Schedules: how contiguous memory moves between the processes of a channel. A schedule is a state
 * machine on the wire. All members of the channel begin the same moves in the same order, when an
 * arrival has shown that they want the same: nothing here finds out that they differ.
 *
 * MPI keeps the addresses until a move is done, so all memory of a move is Muster's own (slabs.c).
 * A move that has begun ends by itself, if no process is lost. */
#ifndef MST_SCHEDULE_PRIVATE_H
#define MST_SCHEDULE_PRIVATE_H

#include "channel_private.h"
#include "muster/dtype.h"
#include "muster/ops.h"

typedef enum mst_move_kind {
    MST_MOVE_ALL_REDUCE = 0, /* `count` elements of each member are combined; all get the result */
    MST_MOVE_REDUCE_SCATTER, /* the same; member m gets bytes[m] of the result, which lie in the order of the members */
    MST_MOVE_REDUCE,         /* the same; `root` gets the result */
    MST_MOVE_BROADCAST,      /* count bytes of root's `to` go to the `to` of all */
    MST_MOVE_ALL_GATHER,     /* bytes[m] of member m; all get the concatenation */
    MST_MOVE_GATHER,         /* the same; root gets it */
    MST_MOVE_SCATTER,        /* bytes[m] of root's concatenation go to member m */
    MST_MOVE_ALL_TO_ALL,     /* send_bytes[m] of `from`, which lie in the order of the members, go to member m; bytes[m] come from it */
    MST_MOVE_KINDS
} mst_move_kind;

/* Reductions by EXCHANGE, CHAIN and GATHER have the same bits: ((x0 op x1) op x2) ..., computed in
 * mst_dtype_compute(dtype) and rounded once. */
typedef enum mst_move_algorithm {
    MST_MOVE_AUTOMATIC = 0, /* by the table of schedule_select.c */
    MST_MOVE_GATHER_FOLD,   /* "gather": everyone who needs the result gets all values, and folds (all_reduce, reduce) */
    MST_MOVE_EXCHANGE,      /* "exchange": slice j goes to member j, which folds and sends back (all_reduce, reduce_scatter, reduce) */
    MST_MOVE_CHAIN,         /* "chain": a running sum goes from member 0 to the last (all_reduce, reduce); not f16 or bf16 */
    MST_MOVE_MPI,           /* "mpi": the MPI's own collective, in an order of its own: mst_schedule_serves says where */
    MST_MOVE_TREE,          /* "tree": a binary tree of chunks (broadcast) */
    MST_MOVE_RING,          /* "ring" (all_gather) */
    MST_MOVE_BRUCK,         /* "bruck": log2(M) steps (all_gather) */
    MST_MOVE_DIRECT,        /* "direct": each part once, to where it belongs (gather, scatter, all_to_all) */
    MST_MOVE_ALGORITHMS
} mst_move_algorithm;

/* What a collective moves. It is kept by the caller until the move is done, with all that it names.
 * All but the addresses and what is marked as "own" is the same for all members. */
typedef struct mst_move {
    mst_move_kind kind;
    mst_move_algorithm algorithm;
    muster_dtype dtype;  /* of reductions: of the elements in memory, which are what travels */
    muster_reduction op; /* of reductions. AVG: the sum of scales[m] * x of member m */
    int32_t root;        /* of broadcast, gather, scatter, reduce */
    int64_t count;       /* elements of reductions, bytes of a broadcast */
    /* [size] bytes that members get or give, see the kinds. gather and scatter: members other than
     * root know their own number only. */
    const int64_t *bytes;
    const int64_t *send_bytes; /* [size] of all_to_all, own */
    const double *scales;      /* [size] of AVG; NULL: all 1 */
    /* Aligned to 64 bytes. `from` may be `to` where both have the same size; all_gather and gather:
     * from NULL: this member's part is in its place in `to` already. scatter: `to` of root NULL: it
     * keeps its part where it is. `to` of members that get nothing: NULL. */
    const void *from;
    void *to;
    /* CHAIN: instead of reading `from`, a member brings its values by this function: sum[i] =
     * sum[i] op x[i] for its values x[first, first + count), which may be several, in order; with
     * `begin` sum[i] is their own combination. `sum` has the compute dtype of `dtype`. It is called
     * under the lock of the wire, with MST_FOLD_BYTES at most, and calls neither the wire nor
     * anything that waits. */
    void (*fold)(void *user, void *sum, int64_t first, int64_t count, bool begin);
    void *user;
    /* EXCHANGE of an all_reduce: memory of this member that the wire does not see, laid out as
     * `from` and `to`. Its own slice of the values is read from `mine` instead of `from`, where it
     * may be anything; its results are written to `also` besides `to`. mine may be also. NULL:
     * neither. */
    const void *mine;
    void *also;
    /* Any order of the sum will do, as long as all members get the same bits: allows MPI for
     * floats. */
    bool any_order;
} mst_move;

/* A row of the table of AUTOMATIC: the first one that fits, and whose algorithm serves, is taken.
 * The table is the same in all members. */
typedef struct mst_schedule_choice {
    mst_move_kind kind;
    mst_move_algorithm algorithm;
    int32_t most_members;
    int64_t least_bytes, most_bytes; /* of a member's values, of a broadcast, of the concatenation of an all_gather; else 0 */
    int64_t least_member_bytes;      /* of these, divided by the members */
} mst_schedule_choice;
typedef struct mst_schedule_table {
    const mst_schedule_choice *rows;
    int32_t count;
} mst_schedule_table;

enum {
    MST_MESSAGE_BYTES = 256 * 1024, /* of a message, at most: it stays in the cache of the second level */
    MST_FOLD_BYTES = 32 * 1024,     /* that are folded or copied by one call of `progress`, under the lock of the wire */
    MST_SCRATCH_BYTES = 1024 * 1024 /* of a schedule, for 8 members or fewer */
};

/* All memory of a schedule is prepared once; a move allocates nothing. */
typedef struct mst_schedule {
    mst_machine machine; /* `progress` */
    const mst_channel *channel;
    const mst_schedule_table *table; /* may be set after prepare; NULL: that of schedule_select.c */
    const mst_move *move;
    mst_move_algorithm algorithm; /* of the move: which one serves */
    const struct mst_schedule_row *row;
    uint32_t algorithms; /* those that it was prepared for */
    bool running;
    /* Flows: chunks in one direction (flow_private.h). */
    struct mst_flow *flows;
    int32_t flow_count, flow_limit;
    muster_wire_request *requests;
    int32_t request_count, request_limit, request_next, busy; /* busy: requests that are not 0 */
    int32_t *done;                                            /* of test_some */
    int64_t *offsets;                                         /* [2 * (size + 1)] where the parts of `to` begin, and those of `from` */
    const void **inputs;                                      /* [size] of a fold */
    int32_t *numbers;                                         /* [4 * size] for the MPI's own collectives */
    char *scratch;
    void *scratch_block;
    int64_t scratch_bytes;
    /* What is copied within the process, a batch at a time. */
    const char *copy_from;
    char *copy_to;
    int64_t copy_bytes;
    /* Of the algorithm. */
    int64_t chunk, chunks, folded, batch, segment;
    int32_t step, window, next;
    /* For tests and the description. */
    int64_t sent_messages, sent_bytes; /* of the move; but for the MPI's own collectives */
    int64_t served[MST_MOVE_ALGORITHMS];
} mst_schedule;

/* Takes the memory for moves over `channel`, which is kept. algorithms: bits 1 <<
 * mst_move_algorithm of those that will be used, 0: all. They cost memory: a few hundred bytes per
 * member, TREE and CHAIN none. scratch_bytes: the same in all members; 0: MST_SCRATCH_BYTES, and
 * more for more members, to 8 MiB. Errors: OUT_OF_MEMORY. Nothing is left to free then. Collective
 * in its arguments, but sends nothing. */
muster_status mst_schedule_prepare(mst_schedule *schedule, const mst_channel *channel, uint32_t algorithms, int64_t scratch_bytes);
/* Frees it. Of a schedule whose move is not done the memory that the wire may still use is leaked
 * on purpose, and counted (mst_slabs_leaked). Accepts one that is all zeros. */
void mst_schedule_free(mst_schedule *schedule);

/* Begins a move; the one before is done. Calls the wire no sooner than `progress` does. Errors:
 * UNSUPPORTED: the algorithm does not serve the move (mst_schedule_serves); BAD_STATE: the one
 * before has failed, and has requests in progress. Nothing has begun then. */
muster_status mst_schedule_begin(mst_schedule *schedule, const mst_move *move);
/* Under the lock of the wire. After DONE all memory of the move is the caller's again. After FAILED
 * or LOST the wire may still use it. */
static inline mst_progress mst_schedule_progress(mst_schedule *schedule) { return schedule->machine.progress(&schedule->machine); }
/* Is there a request in progress? */
static inline bool mst_schedule_in_flight(const mst_schedule *schedule) { return schedule->busy > 0; }

/* The algorithm that AUTOMATIC means for the move: a function of what all members know. */
mst_move_algorithm mst_schedule_select(const mst_schedule *schedule, const mst_move *move);
/* Can the algorithm serve the move? The same answer in all members. */
bool mst_schedule_serves(const mst_schedule *schedule, const mst_move *move, mst_move_algorithm algorithm);
const char *mst_move_kind_name(mst_move_kind kind);
const char *mst_move_algorithm_name(mst_move_algorithm algorithm);

/* Slice m of `count` elements that are divided among the members: where it begins. m == size:
 * count. */
int64_t mst_schedule_slice(const mst_channel *channel, int64_t count, int64_t element_bytes, int32_t member);

#endif
