/* One operation on a list of variables: checked and planned in the caller's thread, carried out by the workers, committed or rolled back in the
 * caller's thread. Workers first allocate everything, meet, and only then write, so that a failed allocation on any rank has changed nothing. */
#ifndef MST_CHANGE_IMPL_H
#define MST_CHANGE_IMPL_H

#include "variable_impl.h"

typedef struct mst_change mst_change;
typedef muster_status (*mst_change_work)(mst_change *change, muster_worker *worker, int32_t index);

struct mst_change {
    const char *where; /* public function */
    muster_runtime *runtime;
    muster_variable *const *variables;
    int32_t count, size;
    mst_replica *next;   /* [count][size]: the replicas afterwards; address NULL: a worker allocates it. NULL: replicas stay as they are */
    int64_t *temporary_bytes; /* [count][size]: host memory that a worker needs, 0: none */
    void **temporary;         /* [count][size]: and gets */
    int64_t reserve;     /* largest collective in bytes, 0: none */
    mst_change_work prepare; /* further allocations of a worker, NULL: none */
    mst_change_work work;
    /* for the operations */
    const muster_tensor *tensors; /* values or results */
    const muster_selection *selection;
    muster_reduction op;
    int64_t *gather_counts; /* [count][size]: elements of each replica before a gather */
    void **device_results; /* [count]: where rank 0 puts what it copies out */
    int32_t rank; /* the one rank of set and get */
};

/* begin: refuses bad lists, waits for the turn. On success end must follow: it frees what begin and the plan took and gives the turn away. */
muster_status mst_change_begin(mst_change *change, const char *where, muster_variable *const *variables, int32_t count);
muster_status mst_change_end(mst_change *change, muster_status status);
/* Gives change->next (the replicas as they are), for operations that change them. */
muster_status mst_change_replicas(mst_change *change);
/* Plans the replica: another shape, in its old storage if that suffices and `fresh` is false. */
void mst_change_shape(mst_change *change, int32_t index, int32_t rank, const int64_t *shape, bool fresh);
void mst_change_temporary(mst_change *change, int32_t index, int32_t rank, int64_t bytes);
/* Runs the plan on all workers, or on rank 0 alone; commits on success. */
muster_status mst_change_run(mst_change *change, bool master_only);

static inline int64_t mst_change_at(const mst_change *change, int32_t index, int32_t rank) { return (int64_t)index * change->size + rank; }
/* Bytes of a shape that has been checked. */
int64_t mst_shape_bytes(muster_dtype dtype, int32_t ndim, const int64_t *shape);

/* Checks shared by the operations. */
muster_status mst_change_check_reduction(const mst_change *change);
muster_status mst_change_check_equal_shapes(const mst_change *change, int32_t index);
muster_status mst_change_check_rank(const mst_change *change, int32_t rank);
/* tensors[index] is a host tensor of the variable's dtype and of `ndim` dimensions. what: "value" or "result". */
muster_status mst_change_check_tensor(const mst_change *change, int32_t index, int32_t ndim, const char *what);
/* tensors[index] has exactly this shape. */
muster_status mst_change_check_shape(const mst_change *change, int32_t index, int32_t ndim, const int64_t *shape);
/* Total rows of all replicas, trailing dimensions equal. Refuses scalars. */
muster_status mst_change_total_rows(const mst_change *change, int32_t index, int64_t *rows);

/* assign.c: every replica takes its variable's tensor. */
muster_status mst_change_broadcast_values(mst_change *change);

#endif
