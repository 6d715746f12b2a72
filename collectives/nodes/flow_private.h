/* A flow: chunks that go to, or come from, one member, in their order. An algorithm sets up the
 * flows of a move, and then says how far each may go by what the others have done: `allowed`. */
#ifndef MST_FLOW_PRIVATE_H
#define MST_FLOW_PRIVATE_H

#include "dtype_impl.h"
#include "schedule_private.h"

typedef struct mst_flow {
    char *at; /* of its first chunk; of a window: the first slot */
    int64_t bytes, chunk, chunks;
    int64_t allowed;     /* chunks that may begin, in all */
    int64_t begun, done; /* chunks, in their order */
    int64_t slots;       /* not 0: chunk i is in slot i % slots, each of `chunk` bytes */
    int32_t member, first_request, window;
    mst_kind kind;
    bool sends;
    bool answered; /* a later message of the receiver shows that it has come */
    /* Of a ring: the flow moves `blocks` parts of a concatenation, beginning with part `block` and
     * going down, around 0. `at` is the concatenation. */
    int32_t block, blocks;
    int64_t block_done; /* bytes of it that have begun */
} mst_flow;

/* Adds a flow whose chunks lie one behind the other, with `window` chunks in progress at most. */
mst_flow *mst_flow_add(mst_schedule *schedule, bool sends, int32_t member, mst_kind kind, void *at, int64_t bytes, int64_t chunk,
                       int32_t window);
/* A flow of a ring over the parts of the concatenation `at`, whose beginnings are
 * schedule->offsets. */
mst_flow *mst_flow_add_ring(mst_schedule *schedule, bool sends, int32_t member, void *at, int32_t block, int64_t chunk, int32_t window);
/* A message of no bytes, which its receiver answers. */
mst_flow *mst_flow_add_token(mst_schedule *schedule, bool sends, int32_t member, mst_kind kind);
/* The number of bytes of chunk i of `bytes`. */
static inline int64_t mst_flow_chunk_bytes(int64_t bytes, int64_t chunk, int64_t i) {
    const int64_t rest = bytes - i * chunk;
    return rest < chunk ? rest : chunk;
}
static inline int64_t mst_flow_chunks(int64_t bytes, int64_t chunk) { return (bytes + chunk - 1) / chunk; }
static inline bool mst_flow_ended(const mst_flow *flow) { return flow->done == flow->chunks; }

/* Begins what is allowed, and finds out what is done. OK, or what the wire has returned. */
int32_t mst_flows_progress(mst_schedule *schedule);
bool mst_flows_ended(const mst_schedule *schedule);
/* The first member from which a chunk is expected, or to which one goes; -1. */
int32_t mst_flows_wait_for(const mst_schedule *schedule);
void mst_flows_clear(mst_schedule *schedule);

/* ---- the algorithms ---- */

typedef struct mst_schedule_row {
    /* Memory that it needs for a channel of this size. */
    int32_t (*flows)(int32_t size);
    /* Sets up the flows of the move. */
    void (*begin)(mst_schedule *schedule);
    /* Sets how far the flows may go, and folds or copies a batch. true: nothing is left to do but
     * for the flows that have not ended. NULL: the flows are all there is. */
    bool (*advance)(mst_schedule *schedule);
    bool (*serves)(const mst_schedule *schedule, const mst_move *move);
    /* Instead of flows: the wire's own requests. */
    int32_t (*call)(mst_schedule *schedule);
} mst_schedule_row;
extern const mst_schedule_row mst_schedule_tree, mst_schedule_ring, mst_schedule_bruck, mst_schedule_direct, mst_schedule_exchange,
    mst_schedule_chain, mst_schedule_gather_fold, mst_schedule_mpi;

/* Where parts begin, from their bytes: offsets[0..size]. */
void mst_schedule_set_offsets(const mst_channel *channel, const int64_t *bytes, int64_t *offsets);
/* Has `progress` copied it, a batch in each call? Call it once. NULL and equal addresses:
 * nothing. */
void mst_schedule_copy(mst_schedule *schedule, void *to, const void *from, int64_t bytes);
/* The most bytes of a chunk, a multiple of 64, of which `slots` fit into the slots. */
int64_t mst_schedule_chunk(const mst_schedule *schedule, int64_t slots);
/* Scratch memory begins with an accumulator; behind it are the slots. */
enum { MST_ACCUMULATOR_BYTES = 2 * MST_FOLD_BYTES };
static inline char *mst_schedule_slots(const mst_schedule *schedule) { return schedule->scratch + MST_ACCUMULATOR_BYTES; }

/* ---- fold.c ---- */

/* The elements of a batch of a fold of so many inputs, a multiple of 64. */
int64_t mst_fold_batch(const mst_schedule *schedule, int32_t inputs);
/* to[0, count) = the fold of inputs[0, size) in their order; count is at most a batch. `to` may be
 * an input. */
void mst_fold(mst_schedule *schedule, void *to, const void *const *inputs, int64_t count);
/* sum[0, count) = sum op the values of this member; begin: = its values. For dtypes that are their
 * own compute dtype. first: the number of the first element. */
void mst_fold_own(const mst_schedule *schedule, void *sum, int64_t first, int64_t count, bool begin);

#endif
