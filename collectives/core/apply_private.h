/* What the transports portion that serve an all_reduce_apply. */
#ifndef MST_APPLY_PRIVATE_H
#define MST_APPLY_PRIVATE_H

#include "transport_private.h"

/* The part of a segment that lies in elements [begin, end) of the shared vector. */
typedef struct mst_apply_range {
    int32_t segment;
    int64_t first, count;
    int64_t at; /* of its first element in the shared vector */
} mst_apply_range;

/* Iterates over these parts, for shared segments with elements there. */
typedef struct mst_apply_iterator {
    const mst_apply_offer *offer;
    int64_t begin, end, before; /* before: elements of the segments passed */
    int32_t next;
} mst_apply_iterator;
mst_apply_iterator mst_apply_iterate(const mst_apply_offer *offer, int64_t begin, int64_t end);
bool mst_apply_next(mst_apply_iterator *iterator, mst_apply_range *range);

static inline const mst_apply_offer *mst_view_offer(const mst_view *view, int32_t rank) { return view->requests[rank]->apply; }
/* The portion of rank `rank` in the shared vector. */
void mst_view_portion(const mst_view *view, int32_t rank, int64_t *begin, int64_t *end);
/* This rank's parameter at element `first` of a segment. */
void *mst_apply_parameter(const mst_apply_offer *offer, int32_t segment, int64_t first, int64_t element);
/* Where new values of rank `rank` go: its parameter, or, if it offers host memory instead,
 * there. */
void *mst_apply_output(const mst_view *view, int32_t rank, const mst_apply_range *range);
/* The gradient of a shard of rank `rank` at the beginning of the range. */
const void *mst_apply_input(const mst_view *view, int32_t rank, int64_t shard, const mst_apply_range *range);
/* Appends the following range to `range` as long as the gradients of all ranks go on without a
 * gap, so that one step can sum them. Moves the iterator behind them. */
void mst_apply_join(const mst_view *view, mst_apply_iterator *iterator, mst_apply_range *range);

/* Calls the rule for a range of the rank's portion, whose gradient is at `gradient`. */
muster_status mst_apply_call(const mst_view *view, muster_worker *worker, const mst_apply_range *range, const void *gradient);
/* The same for the portion of this rank, whose sums lie one behind the other at `sums`. */
muster_status mst_apply_sums(const mst_view *view, muster_worker *worker, const void *sums);
/* Calls the rule for the local segments, on host memory step by step. */
muster_status mst_apply_locals(const mst_view *view, muster_worker *worker);

/* A communicator of one rank with one vector of gradients: nothing is summed. */
muster_status mst_apply_alone(muster_communicator *communicator, muster_worker *worker, const mst_request *request);

/* Inside a read section: are the tables of all ranks alike? */
muster_status mst_apply_check(const muster_communicator *communicator, const mst_view *view);

#endif
