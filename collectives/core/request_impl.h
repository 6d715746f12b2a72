/* The request of one rank for one collective. */
#ifndef MST_REQUEST_IMPL_H
#define MST_REQUEST_IMPL_H

#include "apply_request_impl.h"
#include "muster/communicator.h"
#include "ops_impl.h"
#include "team_impl.h"

typedef enum {
    MST_ALL_REDUCE = 1,
    MST_ALL_REDUCE_AXPY,
    MST_REDUCE,
    MST_BROADCAST,
    MST_ALL_GATHER,
    MST_GATHER,
    MST_SCATTER,
    MST_REDUCE_SCATTER,
    MST_ALL_TO_ALL,
    MST_ALL_REDUCE_APPLY,
    MST_BARRIER,
    MST_END_OF_BODY,
    MST_SPLIT,
    MST_GROUP, /* a batch: several requests that are served together */
    MST_SEND,
    MST_RECV,
    MST_COLLECTIVE_COUNT
} mst_collective;

/* The momentum of an ALL_REDUCE_AXPY. The velocity has the parameter's dtype and count; only its
 * own rank reads and writes it. */
typedef struct mst_momentum {
    double beta;
    void *velocity;
} mst_momentum;

/* What a rank offers in an ALL_REDUCE_APPLY. The other ranks read the first group inside the read
 * section. */
typedef struct mst_apply_offer {
    const mst_apply_segment *segments;
    int32_t segment_count;
    uint8_t phase;  /* mst_apply_phase */
    int32_t bucket; /* of the phase SUM, or MST_APPLY_ALL_BUCKETS */
    mst_apply_layout layout;
    int64_t length; /* elements of one vector of gradients */
    uint64_t table; /* equal for tables that match */
    /* NULL, or host memory for the whole shared vector, where the new values of other ranks'
     * portions go instead of the parameters */
    char *staged;
    /* only for its own rank */
    char *gradients; /* as the caller gave them, where SUM writes and FINISH reads */
    mst_apply_function function;
    void *context;
    bool pairs; /* the function takes two gradients */
} mst_apply_offer;

/* The request of one rank. Addresses are addresses of its device; tensors are contiguous. A rank
 * publishes the request in its flag line, so the request has the size of the line's payload. */
typedef struct mst_request {
    uint8_t collective, reduction, dtype;
    uint8_t algorithm : 7; /* written and read by the transport that serves the rendezvous alone */
    uint8_t exact : 1;     /* floats travel in the dtype in which they are combined, whatever the wire dtype is */
    int32_t root;          /* or the peer of a message; -1: none */
    /* In elements; 0 if the rank has no such tensor. In a BROADCAST all ranks have the same
     * output_count. */
    int64_t input_count, output_count;
    const void *input;
    void *output;
    union {
        const int64_t *send_counts; /* ALL_TO_ALL: [size]; NULL: equal parts */
        /* ALL_REDUCE: the number of vectors in the input, usually 1; input_count = shards *
         * output_count. ALL_REDUCE_APPLY: the same with the vectors of the offer's length; there
         * is no output, and output_count is that of the shared vector. */
        int64_t shards;
        double alpha; /* ALL_REDUCE_AXPY: input is the gradient, output the parameter */
        int64_t tag;  /* SEND, RECV */
        int64_t key;  /* SPLIT; `root` holds the color */
        /* ALL_GATHER, GATHER, SCATTER, REDUCE_SCATTER: 0 if input and output do not overlap, else 1
         * + the offset in bytes of the smaller tensor in the larger one */
        int64_t place;
    };
    union {
        const int64_t *recv_counts;
        /* ALL_REDUCE_AXPY; NULL: no momentum. With momentum, `root` holds a fingerprint of beta,
         * which the ranks compare. */
        const mst_momentum *momentum;
        const mst_apply_offer *apply; /* ALL_REDUCE_APPLY */
        /* ALL_REDUCE, REDUCE: [processes of the communicator], equal on all ranks: the sum of what
         * the ranks of process p bring counts process_weights[p] times, with a wire dtype. NULL:
         * once. */
        const double *process_weights;
    };
} mst_request;
_Static_assert(sizeof(mst_request) == MST_FLAG_PAYLOAD, "a request travels in a flag line");

static inline const mst_momentum *mst_request_momentum(const mst_request *request) {
    return request->collective == MST_ALL_REDUCE_AXPY ? request->momentum : NULL;
}
static inline bool mst_request_applies(const mst_request *request) { return request->collective == MST_ALL_REDUCE_APPLY; }
static inline const double *mst_request_process_weights(const mst_request *request) {
    return request->collective == MST_ALL_REDUCE || request->collective == MST_REDUCE ? request->process_weights : NULL;
}
/* Is it the phase of an apply in which no rank reads the gradients of another? */
static inline bool mst_request_finishes(const mst_request *request) {
    return mst_request_applies(request) && request->apply->phase == MST_APPLY_FINISH;
}
/* The number of vectors that this rank contributes to a reduction. */
static inline int64_t mst_request_shards(const mst_request *request) {
    return request->collective == MST_ALL_REDUCE || mst_request_applies(request) ? request->shards : 1;
}
static inline bool mst_request_is_message(const mst_request *request) {
    return request->collective == MST_SEND || request->collective == MST_RECV;
}
/* Is the input overwritten before the peers have read it? This is so in an all_to_all in place: the
 * blocks from the peers arrive where the input lies. */
static inline bool mst_request_overwrites_input(const mst_request *r) {
    return r->collective == MST_ALL_TO_ALL && !r->send_counts && r->input && r->input == r->output;
}
static inline bool mst_request_is_uneven(const mst_request *r) { return r->collective == MST_ALL_TO_ALL && r->send_counts; }
/* The size in bytes of the input and of the output on this rank; 0 if the rank has none. */
static inline int64_t mst_request_input_bytes(const mst_request *r) { return r->input ? r->input_count * muster_dtype_size(r->dtype) : 0; }
static inline int64_t mst_request_output_bytes(const mst_request *r) {
    return r->output ? r->output_count * muster_dtype_size(r->dtype) : 0;
}

/* "all_reduce", as in the recorder and inside messages. */
const char *mst_collective_name(mst_collective collective);
/* The public function that made the request, with which messages begin: "muster_worker_all_reduce".
 * The end of a body belongs to no function: "end of the body". */
const char *mst_request_function(const mst_request *request);
/* Puts the function's name before the thread's last error, unless that begins with the name of a
 * function. Returns status. */
muster_status mst_collective_error(const char *function, muster_status status);

#endif
