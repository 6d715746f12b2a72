/* The transport `nodes`: collectives whose members are in several processes. The members of this
 * process meet in the rendezvous of core/rendezvous.c, and all of them are in its read section
 * while one of them, the leader (their rank 0), agrees with the leaders of the other processes, and
 * drives what travels. They meet in the team of span->local meanwhile. */
#ifndef MST_NODES_TRANSPORT_PRIVATE_H
#define MST_NODES_TRANSPORT_PRIVATE_H

#include "arrive_private.h"
#include "control_private.h"
#include "core/rendezvous_private.h"
#include "nodes_data_private.h"
#include "nodes_impl.h"
#include "schedule_private.h"
#include "slices_private.h"

#include <string.h>

/* The request of a rank as the other processes get it. Of addresses only whether there is one. */
typedef struct mst_nodes_record {
    uint8_t collective, reduction, dtype;
    bool input, output, momentum, uneven, exact, process_weights;
    int32_t root;
    int64_t input_count, output_count;
    int64_t number; /* the bits of shards, alpha, tag, key or place */
    double beta;
    /* of an all_reduce_apply */
    uint64_t table;
    int32_t segments, buckets, bucket;
    uint8_t phase;
} mst_nodes_record;

/* A growing array. */
typedef struct mst_nodes_memory {
    void *at;
    int64_t bytes;
} mst_nodes_memory;

/* Three buffers take turns: in one step the members fill one of them, the leader moves the one that
 * was filled before, and the members empty the one that was moved before that. So one meeting per
 * step is enough. */
/* Of an area an exchange of two processes sends half, which is the largest chunk that fits into the
 * memory of a schedule: with 512 KiB a second chunk of a few KiB would follow each. On one host an
 * area stays in the cache. Among several hosts, whose links are slower than memory, it is larger:
 * at its end all wait for the slowest one. It has room for a cache line of each rank, however many
 * there are. */
enum { MST_NODES_BUFFERS = 3, MST_NODES_AREA_BYTES = 480 * 1024, MST_NODES_MOST_AREAS = 8, MST_NODES_PAYLOAD_BYTES = 4096 };
static inline int64_t mst_nodes_area_bytes(const mst_rank_span *span) {
    const int32_t many = span->processes < MST_NODES_MOST_AREAS ? span->processes : MST_NODES_MOST_AREAS;
    const int64_t bytes = MST_NODES_AREA_BYTES * (int64_t)(mst_nodes_one_host(span->nodes) || many < 3 ? 1 : many);
    const int64_t least = MST_CACHE_LINE * (int64_t)span->size;
    return bytes > least ? bytes : least;
}
typedef struct mst_nodes_buffer {
    char *from, *to; /* mst_nodes_area_bytes each */
    mst_move move;
    int64_t *bytes, *send_bytes; /* [processes] */
    /* Of a chain: whose vectors the leader adds to the running sum, from element `first` on. */
    struct mst_nodes_link {
        const struct mst_batch *batch;
        const struct mst_view *view;
        int64_t first;
    } link;
} mst_nodes_buffer;

typedef struct mst_nodes_outcome {
    muster_status status;
    char message[MST_MESSAGE_SIZE]; /* where status is not MUSTER_OK */
} mst_nodes_outcome;

/* A collective that travels inside the arrival; bytes 0: it does not. Slots have the values of a
 * process, of its members (joined), or of each of their vectors (ordered). */
typedef struct mst_nodes_small {
    int64_t bytes, slot, slots, shards; /* bytes = slot * slots */
    bool ordered;
    /* When the arrival has ended: the values of process p are at all + p * stride. */
    const char *all;
    int64_t stride;
    char *result; /* of a reduction */
} mst_nodes_small;

/* Of one communicator. Between two meetings either the leader writes it or the members read it. */
typedef struct mst_nodes_state {
    mst_rank_span *span;
    muster_communicator *communicator;
    mst_channel channel, moves; /* moves: on a lane of its own after one was given up */
    mst_arrival arrival;
    uint64_t epoch, arrivals; /* those begun on the lane in this epoch */
    mst_control_lane *lane;   /* for processes that ask what this one has entered; NULL: not open yet */
    bool returned;            /* the last arrival ended because a rank of another process has returned */
    mst_nodes_buffer buffers[MST_NODES_BUFFERS];
    void *block; /* of the buffers; NULL: not allocated yet */
    int64_t block_bytes;
    mst_schedule schedule;
    mst_slices *slices; /* NULL: the name does not ask for them */
    bool prepared;
    /* A move was given up, here: the wire may still use the buffers. spoilt: an earlier one was on
     * the lane of the span. */
    bool broken, spoilt;
    /* The requests of all ranks: requests[item * size + rank]; views point there. */
    mst_nodes_memory records, gathered, requests, pointers, momenta, offers, counts, gathered_counts, gathered_lanes, lengths;
    mst_nodes_memory weights; /* [processes] of the reduction in progress; see mst_nodes_weights */
    /* Of a split in progress: by rank the lane of its part; by member the part that it has made,
     * and what became of that. */
    _Atomic int32_t *lanes;
    struct mst_nodes_made {
        muster_communicator *part;
        muster_status status;
        char message[MST_MESSAGE_SIZE];
    } * made;
    mst_nodes_small small;
    struct mst_nodes_mail *mail;
    struct mst_nodes_desk *desks; /* by member */
    bool again;                   /* a lane was taken meanwhile by another split */
    /* What the leader has come to. It alone reads and writes this; the members read what it brings
     * to a meeting. Meetings take turns with two of these, because after one the leader may come to
     * the next before a member has read: but not to the one after that, which needs all members. */
    mst_nodes_outcome outcome, brought[2];
    int64_t served; /* for tests: batches that have come to a good end */
} mst_nodes_state;

static inline mst_nodes_state *mst_nodes_of(const muster_communicator *communicator) { return communicator->state[MST_TRANSPORT_nodes]; }
static inline bool mst_nodes_leads(const mst_batch *batch) { return batch->rank == 0; }

/* nodes_transport.c: at least `bytes`; what was there is lost when it grows. */
muster_status mst_nodes_grow(mst_nodes_memory *memory, int64_t bytes);
/* Before the first move: only communicators that move something have buffers. */
muster_status mst_nodes_open_buffers(mst_nodes_state *state);

/* nodes_run.c */
muster_status mst_nodes_run(const mst_batch *batch);
/* All members of this process come here; then each returns what the leader has come to. */
muster_status mst_nodes_join_members(const mst_batch *batch);
/* The leader keeps its outcome for the others. Returns status. */
muster_status mst_nodes_conclude(mst_nodes_state *state, muster_status status);
/* The view of item `item` of the batch over all ranks. */
mst_view mst_nodes_view(const mst_nodes_state *state, const mst_batch *batch, int32_t entry);

/* nodes_apply.c: an all_reduce_apply, after all have agreed. */
muster_status mst_nodes_apply_run(mst_nodes_state *state, const mst_batch *batch);

/* nodes_agree.c, for leaders: the requests of all ranks, and whether they match. */
muster_status mst_nodes_agree(mst_nodes_state *state, const mst_batch *batch);
/* all[processes][bytes] becomes what each process brings; the same number of bytes everywhere. Any
 * number. what: for messages. */
muster_status mst_nodes_gather_all(mst_nodes_state *state, muster_worker *worker, const char *what, const void *mine, int64_t bytes,
                                   void *all);
/* One arrival. `bytes` may differ between processes: then *matched is false, and no payload has
 * come. Else state->arrival.all has those of all, until the next arrival. bytes: at most the
 * capacity. */
muster_status mst_nodes_arrive(mst_nodes_state *state, muster_worker *worker, const char *what, const void *mine, int64_t bytes,
                               bool *matched);
/* What the member of this process offers as item `entry`; head: what its flag line holds. */
const mst_request *mst_nodes_offered(const mst_batch *batch, int32_t member, int32_t entry, bool head);
/* Drives a move until it is done, or given up like another machine; then the next call uses another
 * lane and other buffers (mst_nodes_renew). */
muster_status mst_nodes_drive(mst_nodes_state *state, muster_worker *worker, const char *what);
/* Drives another machine, which can be left at any time: when this call has failed, here or in
 * another process, or when a rank that it needs has returned from its task. */
typedef struct mst_nodes_driven {
    const char *what; /* the public function */
    mst_machine *machine;
    bool (*ends)(void *context); /* called in each turn, without the lock of the wire; NULL: when the run is aborted */
    void *context;
    const struct mst_nodes_wants *wants; /* NULL: it does not ask for ranks that have returned */
    uint64_t arrival;                    /* the machine is this arrival of the communicator's lane; 0: it is none */
    bool returned;                       /* becomes: it has ended because a rank has returned */
} mst_nodes_driven;
muster_status mst_nodes_drive_call(mst_nodes_state *state, muster_worker *worker, mst_nodes_driven *driven);

/* nodes_returned.c. From `open` to `close` other processes get answers about this communicator.
 * parent: as in mst_transport.create. */
muster_status mst_nodes_returned_open(mst_nodes_state *state, const char *where, const muster_communicator *parent);
void mst_nodes_returned_close(mst_nodes_state *state);
/* What an arrival wants: that all processes enter it. mst_nodes_waiting: its context. */
typedef struct mst_nodes_waiting {
    mst_nodes_state *state;
    muster_worker *worker;
    const char *what;
} mst_nodes_waiting;
int32_t mst_nodes_arrival_wanted(void *waiting, mst_control_wanted *wanted);
bool mst_nodes_arrival_holds(void *waiting);
muster_status mst_nodes_arrival_refuse(void *waiting, int32_t process, const mst_control_message *answer);
/* The error of a wait of rank `own` for rank `rank`, of another process, which has returned. `why`:
 * why it has run nothing, or "". */
muster_status mst_nodes_refuse_returned(const mst_nodes_state *state, const char *what, const mst_control_wanted *wanted, int32_t rank,
                                        const char *why);
/* nodes_renew.c, for leaders: when some process has given up a move. All of them come here.
 * mst_nodes_leave_lanes: when the communicator is destroyed. */
muster_status mst_nodes_renew(mst_nodes_state *state, muster_worker *worker);
/* nodes_messages.c */
muster_status mst_nodes_message(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
muster_status mst_nodes_group(muster_communicator *communicator, muster_worker *worker, mst_request *collectives, mst_request *array,
                              int32_t collective_count, const mst_request *messages, int32_t count);

/* nodes_split.c. mst_nodes_split_run is its part inside of the rendezvous. */
muster_status mst_nodes_split(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t key,
                              muster_communicator **part);
muster_status mst_nodes_split_run(mst_nodes_state *state, const mst_batch *batch);

/* The lanes of the wire that are in use in this process: of all communicators of a world. Threads:
 * any. */
enum { MST_NODES_LANE_WORDS = MST_WIRE_LANES / 64, MST_NODES_PART_LANES = MST_WIRE_LANES - 2 - MST_NODES_DATA_LANES };
/* The i-th lane, of MST_NODES_PART_LANES, at which a communicator looks for a free one. Those that
 * look at the same time begin with different lanes. */
static inline int32_t mst_nodes_lane_at(const mst_rank_span *span, int32_t i) { return 2 + (i + 61 * span->lane) % MST_NODES_PART_LANES; }
typedef struct mst_nodes_lanes {
    pthread_mutex_t lock;
    uint64_t used[MST_NODES_LANE_WORDS]; /* a bit each */
} mst_nodes_lanes;
/* nodes_lanes.c. open: lanes 0 and 1 are in use, and those that nodes_data.c may need. */
muster_status mst_nodes_lanes_open(const char *where, mst_nodes_lanes **lanes);
void mst_nodes_lanes_close(mst_nodes_lanes *lanes);
void mst_nodes_lanes_copy(mst_nodes_lanes *lanes, uint64_t used[MST_NODES_LANE_WORDS]);
/* false: it is in use. */
bool mst_nodes_lanes_take(mst_nodes_lanes *lanes, int32_t lane);
void mst_nodes_lanes_give(mst_nodes_lanes *lanes, int32_t lane);
void mst_nodes_leave_lanes(mst_nodes_state *state, mst_nodes_lanes *lanes);
static inline mst_nodes_lanes *mst_nodes_lanes_of(const muster_communicator *communicator) {
    return communicator->world->open[MST_TRANSPORT_nodes];
}

/* How an item is served: in `rounds` steps. fill and drain are called by every member, plan by the
 * leader, between them. */
typedef struct mst_nodes_plan {
    int64_t rounds;
    void (*fill)(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer);
    void (*move)(const mst_batch *batch, const mst_view *view, int64_t round, mst_nodes_buffer *buffer);
    void (*drain)(const mst_batch *batch, const mst_view *view, int64_t round, const mst_nodes_buffer *buffer);
} mst_nodes_plan;
/* The elements of the vector that is reduced, and the reduction. */
static inline int64_t mst_nodes_vector(const mst_request *r) {
    return r->collective == MST_REDUCE || r->collective == MST_REDUCE_SCATTER ? r->input_count : r->output_count;
}
static inline muster_reduction mst_nodes_op(const mst_request *r) {
    return r->collective == MST_ALL_REDUCE_AXPY ? MUSTER_SUM : r->reduction;
}
/* In the reproducible mode floats are combined in the order of the ranks, and not those of a
 * process first. */
static inline bool mst_nodes_is_ordered(const muster_communicator *communicator, const mst_request *r) {
    return communicator->world->fixed_order && mst_dtype_is_float(r->dtype);
}
/* Do the ranks of each process follow one another, so that the order of the processes is that of
 * the ranks? */
bool mst_nodes_has_order(const mst_rank_span *span);
/* to[0, count) = the members' vectors from element `first` on, combined in the compute dtype, in
 * the dtype that travels. */
void mst_nodes_combine(const mst_batch *batch, const mst_view *view, void *to, int64_t first, int64_t count);

/* nodes_travel.c: sums and averages in the wire dtype.
 * mst_nodes_travelling: the dtype in which the processes' results of the reduction travel: the
 * compute dtype or, of a sum or an average of floats, the wire dtype. */
muster_dtype mst_nodes_travelling(const muster_communicator *communicator, const mst_request *r);
/* Do they travel in the wire dtype? */
bool mst_nodes_is_narrow(const muster_communicator *communicator, const mst_request *r);
/* By what a process multiplies the vectors that it averages. */
double mst_nodes_own_scale(const mst_batch *batch, const mst_view *view);
/* By what the result of each process is multiplied when those of all are added up; NULL: by 1. For
 * leaders, who find it for the item; it holds until the next one. The members of an
 * all_reduce_apply find it in state->weights. */
const double *mst_nodes_weights(mst_nodes_state *state, const mst_view *view);
/* Sets the dtype, the operation and the weights of a move of the processes' results. */
void mst_nodes_set_reduction(const mst_batch *batch, const mst_view *view, mst_move *move);
/* Calls `combine` for [0, count) in chunks, for each with memory for its results in the compute
 * dtype, and writes them to `to` in the wire dtype. first: of the chunk, from 0 on. */
enum { MST_NODES_ROUNDED_BYTES = 4096 };
void mst_nodes_narrow(muster_dtype wire, muster_dtype compute, void *to, int64_t count,
                      void (*combine)(const void *context, void *sum, int64_t first, int64_t count), const void *context);

/* nodes_small.c. mst_nodes_small_of, _put and _fold are for leaders: does it travel inside the
 * arrival; to[0, bytes) = what this process brings; the result of all. */
mst_nodes_small mst_nodes_small_of(const mst_batch *batch);
void mst_nodes_small_put(const mst_batch *batch, const mst_nodes_small *small, char *to);
void mst_nodes_small_fold(mst_nodes_state *state, const mst_batch *batch, const mst_view *view);
void mst_nodes_small_take(const mst_nodes_state *state, const mst_batch *batch, const mst_view *view);

/* nodes_fold.c: reductions. nodes_scatter.c: reduce_scatter, but for the reproducible mode.
 * nodes_streams.c: collectives that only move. */
mst_nodes_plan mst_nodes_fold_plan(const mst_batch *batch, const mst_view *view);
mst_nodes_plan mst_nodes_scatter_plan(const mst_batch *batch, const mst_view *view);
/* The leader, before: how much goes from which process to which. */
muster_status mst_nodes_measure(mst_nodes_state *state, const mst_batch *batch);
mst_nodes_plan mst_nodes_stream_plan(const mst_batch *batch, const mst_view *view);
/* What a rank does with elements [first, last) of the result, which have the compute dtype:
 * `results` is that of `first`. */
void mst_nodes_fold_drain(const mst_batch *batch, const mst_view *view, int64_t first, int64_t last, const char *results);

/* nodes_ranks.c: naive and flat, where the values of every rank travel. mst_nodes_ranks_serve:
 * does the communicator's name say so of this item? */
bool mst_nodes_ranks_serve(const mst_batch *batch, const mst_view *view);
muster_status mst_nodes_ranks_run(mst_nodes_state *state, const mst_batch *batch, const mst_view *view);
/* nodes_select.c. mst_nodes_served: for tests, by what the last batch was served: a name, or the
 * algorithm of its last move. */
mst_move_algorithm mst_nodes_move_algorithm(const muster_communicator *communicator);
const char *mst_nodes_served(const mst_nodes_state *state);
/* What the table of ways says of a move of this item: *move stays, or is to be the MPI's own. */
void mst_nodes_choose(const mst_batch *batch, const mst_view *view, mst_move *move);
/* Begins a move, in slices where the name says so. mst_nodes_moving: what is to be driven then. */
muster_status mst_nodes_move_begin(mst_nodes_state *state, const mst_move *move);
mst_machine *mst_nodes_moving(mst_nodes_state *state);
/* May the wire still use the buffers? */
static inline bool mst_nodes_in_flight(const mst_nodes_state *state) {
    return mst_schedule_in_flight(&state->schedule) || mst_slices_in_flight(state->slices);
}

#endif
