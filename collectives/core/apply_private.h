/* What the transports share that serve an all_reduce_apply. */
#ifndef MST_APPLY_PRIVATE_H
#define MST_APPLY_PRIVATE_H

#include "transport_private.h"

/* The part of a segment that lies in the portion of a rank. */
typedef struct mst_apply_range {
    int32_t segment;
    int64_t first, count;
    int64_t at;    /* of its first element in the shared vector */
    int64_t state; /* of its first element in the portion */
} mst_apply_range;

/* Iterates over these parts, for shared segments with elements there. */
typedef struct mst_apply_iterator {
    const mst_apply_offer *offer;
    int32_t size, rank, ends; /* ends: the number of the bucket behind the last */
    mst_apply_slice slice;
    int64_t before; /* elements of the segments passed */
    int32_t next;
} mst_apply_iterator;
/* What the phase of the offer concerns of the portion of rank `rank` of `size`: of SUM one bucket
 * or all, else all. The table of the offer says where it lies. */
mst_apply_iterator mst_apply_iterate(const mst_apply_offer *offer, int32_t size, int32_t rank);
bool mst_apply_next(mst_apply_iterator *iterator, mst_apply_range *range);

static inline const mst_apply_offer *mst_view_offer(const mst_view *view, int32_t rank) { return view->requests[rank]->apply; }
static inline mst_apply_iterator mst_view_iterate(const mst_view *view, int32_t rank) {
    return mst_apply_iterate(mst_view_offer(view, view->rank), view->size, rank);
}
/* The number of elements over which these iterate, and the elements of the portion before them. */
int64_t mst_apply_extent(const mst_apply_offer *offer, int32_t size, int32_t rank, int64_t *state);
static inline int64_t mst_view_extent(const mst_view *view, int32_t rank, int64_t *state) {
    return mst_apply_extent(mst_view_offer(view, view->rank), view->size, rank, state);
}

/* This rank's parameter at element `first` of a segment. */
void *mst_apply_parameter(const mst_apply_offer *offer, int32_t segment, int64_t first, int64_t element);
/* Where new values of rank `rank` go: its parameter, or, if it offers host memory instead,
 * there. */
void *mst_apply_output(const mst_view *view, int32_t rank, const mst_apply_range *range);
/* The gradient of a shard of rank `rank` at the beginning of the range. */
const void *mst_apply_input(const mst_view *view, int32_t rank, int64_t shard, const mst_apply_range *range);
/* The range in a vector with the offsets of a rank's gradients. */
char *mst_apply_at(const mst_apply_offer *offer, char *vector, const mst_apply_range *range, int64_t element);
/* Where the sums of this rank lie between the phases. */
static inline char *mst_apply_kept(const mst_view *view, const mst_apply_range *range) {
    const mst_apply_offer *offer = mst_view_offer(view, view->rank);
    return mst_apply_at(offer, offer->gradients, range, mst_view_element(view));
}
/* Appends the following range to `range` as long as the gradients of all ranks go on without a
 * gap, so that one step can sum them. Moves the iterator behind them. */
void mst_apply_join(const mst_view *view, mst_apply_iterator *iterator, mst_apply_range *range);

/* Calls the rule for a range of the rank's portion, whose gradient is at `gradient`. */
muster_status mst_apply_call(const mst_view *view, muster_worker *worker, const mst_apply_range *range, const void *gradient);
/* The same for two gradients that the rule adds. It writes the new values to `copy`, too. */
muster_status mst_apply_call_pair(const mst_view *view, muster_worker *worker, const mst_apply_range *range, const void *const gradients[2],
                                  void *copy, bool past_cache);
/* The same for all that the phase concerns, not in steps. The sums lie one behind the other at
 * `sums`; NULL: they are kept between the phases. */
muster_status mst_apply_sums(const mst_view *view, muster_worker *worker, const char *sums);
/* Calls the rule for the local segments, on host memory step by step; in SUM once for all
 * buckets: with the last. */
muster_status mst_apply_locals(const mst_view *view, muster_worker *worker);

/* A communicator of one rank with one vector of gradients: nothing is summed. */
muster_status mst_apply_alone(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
/* Calls the function for the portion of a rank, and for the local segments. */
muster_status mst_apply_visit(const mst_apply_offer *offer, int32_t size, int32_t rank, muster_worker *worker);

/* Inside a read section: are the tables of all ranks alike? */
muster_status mst_apply_check(const muster_communicator *communicator, const mst_view *view);

#endif
