/* Communicators: who takes part in a collective, and the algorithm that serves it. Entered by every worker of a run, inside a task. */
#ifndef MST_COMMUNICATOR_IMPL_H
#define MST_COMMUNICATOR_IMPL_H

#include "muster/communicator.h"
#include "ops_impl.h"

typedef struct mst_communicator mst_communicator;

/* Device addresses throughout, contiguous. counts are elements. Unless said otherwise every rank passes the same dtype, count, root. */
typedef struct mst_communicator_table {
    const char *name;
    muster_status (*all_reduce)(mst_communicator *, muster_worker *, muster_reduction op, muster_dtype dtype, const void *input, void *output, int64_t count);
    muster_status (*reduce)(mst_communicator *, muster_worker *, muster_reduction op, muster_dtype dtype, const void *input, void *output_at_root, int64_t count, int32_t root);
    muster_status (*broadcast)(mst_communicator *, muster_worker *, void *data, int64_t bytes, int32_t root);
    /* output holds the sum of counts[size]; uneven */
    muster_status (*all_gather)(mst_communicator *, muster_worker *, muster_dtype dtype, const void *input, void *output, const int64_t *counts);
    muster_status (*barrier)(mst_communicator *, muster_worker *);
    /* This rank's next collectives of at most `bytes` (of all_gather: its whole output) allocate nothing. NULL: they never do. */
    muster_status (*reserve)(mst_communicator *, muster_worker *, int64_t bytes);
} mst_communicator_table;

struct mst_communicator {
    const mst_communicator_table *table;
    int32_t size;
};

/* Over all workers of a pool; sets worker->communicator. Destroy between runs. */
muster_status mst_communicator_create(mst_pool *pool, mst_communicator **communicator);
void mst_communicator_destroy(mst_communicator *communicator);
/* The communicator of the run: of one rank inside run_single. */
mst_communicator *mst_worker_communicator(muster_worker *worker);

#endif
