/* One operation on a list of variables. It is checked and planned in the caller's thread, carried
 * out by the workers, and committed or rolled back in the caller's thread. Workers first allocate
 * everything, then wait for each other, and only then write: an allocation that fails on any rank
 * has changed nothing. */
#ifndef MST_CHANGE_PRIVATE_H
#define MST_CHANGE_PRIVATE_H

#include "variable_impl.h"

typedef struct mst_change mst_change;
typedef muster_status (*mst_change_work)(mst_change *change, muster_worker *worker, int32_t index);

struct mst_change {
    const char *where; /* public function */
    muster_runtime *runtime;
    muster_variable *const *variables;
    int32_t count, size;
    /* [count][size]: the replicas afterwards; address NULL: a worker allocates it. NULL: replicas
     * stay as they are */
    mst_replica *next;
    int64_t *temporary_bytes; /* [count][size]: host memory that a worker needs, 0: none */
    void **temporary;         /* [count][size]: the host memory that it gets */
    int64_t reserve;          /* largest collective in bytes, 0: none */
    mst_change_work prepare;  /* further allocations of a worker, NULL: none */
    mst_change_work work;
    /* for the operations */
    const muster_tensor *tensors; /* values or results */
    const muster_selection *selection;
    muster_reduction op;
    void **device_results; /* [count]: where rank 0 puts what it copies out */
    int32_t rank;          /* the one rank of set and get, the root of a collective */
};

/* begin: refuses bad lists, and waits until it may enter the pool. After success end must follow:
 * it frees what begin and the plan took, and leaves the pool. */
muster_status mst_change_begin(mst_change *change, const char *where, muster_variable *const *variables, int32_t count);
muster_status mst_change_end(mst_change *change, muster_status status);
/* Makes change->next, a copy of the replicas as they are, for operations that change them. */
muster_status mst_change_replicas(mst_change *change);
/* Plans another shape for the replica: in its old storage if that is large enough and `fresh` is
 * false. */
void mst_change_shape(mst_change *change, int32_t index, int32_t rank, const int64_t *shape, bool fresh);
void mst_change_temporary(mst_change *change, int32_t index, int32_t rank, int64_t bytes);
/* Runs the plan on all workers, or on rank 0 alone; commits on success. */
muster_status mst_change_run(mst_change *change, bool master_only);

static inline int64_t mst_change_at(const mst_change *change, int32_t index, int32_t rank) { return (int64_t)index * change->size + rank; }
/* Bytes of a shape that has been checked. */
int64_t mst_shape_bytes(muster_dtype dtype, int32_t ndim, const int64_t *shape);
static inline int64_t mst_replica_bytes(const muster_variable *variable, const mst_replica *replica) {
    return mst_shape_bytes(variable->dtype, variable->ndim, replica->shape);
}
static inline int64_t mst_replica_elements(const muster_variable *variable, const mst_replica *replica) {
    return mst_replica_bytes(variable, replica) / muster_dtype_size(variable->dtype);
}
/* Reserves for a collective that takes or gives this many bytes on some rank. */
static inline void mst_change_reserve(mst_change *change, int64_t bytes) {
    if (bytes > change->reserve) change->reserve = bytes;
}
/* Plans the replica for a collective from the old to the new one: `rows` rows, as they are on rank
 * `like`. With one rank it stays where it is; else it gets new storage, since peers read the old
 * one while the new one fills. */
void mst_change_rows(mst_change *change, int32_t index, int32_t rank, int32_t like, int64_t rows);

/* Checks shared by the operations. */
muster_status mst_change_check_reduction(const mst_change *change);
muster_status mst_change_check_equal_shapes(const mst_change *change, int32_t index);
muster_status mst_change_check_rank(const mst_change *change, int32_t rank);
/* tensors[index] is a host tensor of the variable's dtype and of `ndim` dimensions. what: "value"
 * or "result". */
muster_status mst_change_check_tensor(const mst_change *change, int32_t index, int32_t ndim, const char *what);
/* tensors[index] has exactly this shape. */
muster_status mst_change_check_shape(const mst_change *change, int32_t index, int32_t ndim, const int64_t *shape);
/* Refuses scalars. verb: what the operation does along the first dimension, for messages. */
muster_status mst_change_check_rows(const mst_change *change, int32_t index, const char *verb);
/* Total rows of all replicas, trailing dimensions equal. Refuses scalars. */
muster_status mst_change_total_rows(const mst_change *change, int32_t index, int64_t *rows);

/* assign.c: every replica takes its variable's tensor. */
muster_status mst_change_broadcast_values(mst_change *change);

/* Reduces with the op of the change over every worker's replica, into the output on change->rank
 * (ignored on other ranks). */
muster_status mst_change_reduce(const mst_change *change, muster_worker *worker, int32_t index, void *output);

#endif
