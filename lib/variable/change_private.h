/* One operation on a list of variables. The caller's thread checks and plans it, the workers carry
 * it out, and the caller's thread commits it or rolls it back. The workers first allocate
 * everything, then wait for each other, and only then write. So if an allocation fails on any rank,
 * nothing has changed. */
#ifndef MST_CHANGE_PRIVATE_H
#define MST_CHANGE_PRIVATE_H

#include "variable_impl.h"

typedef struct mst_change mst_change;
typedef muster_status (*mst_change_work)(mst_change *change, muster_worker *worker, int32_t index);

/* Ranks are public ones: those of the devices of all processes. Every process knows the shapes of
 * all replicas, and plans the same; it has and changes the memory of its own ones. */
struct mst_change {
    const char *where; /* the public function, for messages */
    muster_runtime *runtime;
    muster_variable *const *variables;
    int32_t count, size; /* size: the number of all ranks */
    const char *name;    /* of a variable that is being created; NULL: it has one already */
    bool agreed;         /* with the other processes: all make this operation */
    bool takes;          /* the tensors are values, not results */
    uint64_t salt;       /* of other arguments, which must be equal in all processes */
    /* Brings results from the processes that have them to the others, after the work; NULL:
     * nothing. part: the piece of tensors[index] that a rank has, for spread_parts. */
    muster_status (*spread)(mst_change *change);
    bool gathers; /* `spread` needs room for all of a tensor, wherever that lies */
    muster_tensor (*part)(const mst_change *change, int32_t index, int32_t rank);
    char *buffer;         /* for `spread`, of the largest tensor */
    int64_t *block_bytes; /* [processes] */
    /* [count][size] the replicas after the operation; if an address is NULL, a worker allocates the
     * memory. The array is NULL if the replicas do not change. */
    mst_replica *next;
    int64_t *temporary_bytes; /* [count][size] bytes of host memory that a worker needs; 0: none */
    void **temporary;         /* [count][size] that host memory */
    int64_t reserve;          /* bytes of the largest collective; 0: none */
    mst_change_work prepare;  /* makes further allocations of a worker; NULL: none */
    mst_change_work scratch;  /* takes scratch memory of a worker, in each run anew; NULL: none */
    mst_change_work work;
    /* used by some operations only */
    const muster_tensor *tensors; /* values or results */
    const muster_selection *selection;
    muster_reduction op;
    const double *weights; /* [size] of an average with weights; NULL: none */
    double total_weight;
    double *process_weights; /* [processes] of the weights; NULL: none travel in a wire dtype */
    void **products;         /* [count][size] scratch memory for the weighted values, in the compute dtype */
    void **device_results;   /* [count] where rank 0 puts the results before it copies them out */
    void **parts;            /* [size] device memory for the parts of a split one behind the other; NULL: a rank needs none */
    mst_portions *portions;  /* in which a variable is from now on; NULL: not */
    char *copy;              /* host memory of the whole value of a variable in portions, owned; NULL: none */
    char *contiguous;        /* that, or other memory of the whole value */
    int32_t axis;            /* along which a variable is split from now on; -1: no longer */
    int32_t rank;            /* the rank of set and get, or the root of a collective */
};

/* mst_change_begin checks the list and waits until it can enter the pool. After its success
 * mst_change_end must follow, which frees the memory of the operation and leaves the pool. */
muster_status mst_change_begin(mst_change *change, const char *where, muster_variable *const *variables, int32_t count);
/* The same for operations that take a split variable as well; begin refuses those. */
muster_status mst_change_begin_split(mst_change *change, const char *where, muster_variable *const *variables, int32_t count);
/* The same for operations that also take a variable in portions. */
muster_status mst_change_begin_any(mst_change *change, const char *where, muster_variable *const *variables, int32_t count);
muster_status mst_change_end(mst_change *change, muster_status status);
/* The error of a missing list of a tensor for each variable. */
muster_status mst_change_refuse_list(const mst_change *change, const char *what);
/* Sets change->next to a copy of the replicas, for operations that change them. */
muster_status mst_change_replicas(mst_change *change);
/* Plans a new value for the replica, perhaps in another shape. It keeps its storage if that is
 * large enough and `fresh` is false. */
void mst_change_shape(mst_change *change, int32_t index, int32_t rank, const int64_t *shape, bool fresh);
void mst_change_temporary(mst_change *change, int32_t index, int32_t rank, int64_t bytes);
/* Runs the plan on all workers, or on rank 0 alone; commits on success. */
muster_status mst_change_run(mst_change *change, bool master_only);

static inline int64_t mst_change_at(const mst_change *change, int32_t index, int32_t rank) { return (int64_t)index * change->size + rank; }
/* Does a copy between host memory and the device of this rank need its elements one behind the
 * other? Not on a device whose memory is the host's, and nothing is copied for other processes. */
static inline bool mst_change_packs(const mst_change *change, int32_t rank) {
    const int32_t local = rank - change->runtime->first;
    return local >= 0 && local < change->runtime->size && !mst_device_is_host(change->runtime->devices[local]);
}

/* nodes.c: what an operation does with the other processes; with one process nothing.
 * agree: do all make this operation? finish: the end of what has been agreed on; the first failure
 * anywhere is the status of all. refused: agrees with `status` unless the operation has been
 * agreed on. */
muster_status mst_change_agree(mst_change *change);
muster_status mst_change_finish(mst_change *change, muster_status status);
muster_status mst_change_refused(mst_change *change, muster_status status);
/* Adds other arguments to what must be equal. */
void mst_change_salt(mst_change *change, const void *bytes, size_t count);
/* For `spread`: all tensors of the process of change->rank; all parts of all tensors. */
muster_status mst_change_spread_from(mst_change *change);
muster_status mst_change_spread_parts(mst_change *change);
/* All portions of change->variables[0], at change->contiguous. */
muster_status mst_change_spread_portions(mst_change *change);

/* The size in bytes of a shape that has been checked. */
int64_t mst_shape_bytes(muster_dtype dtype, int32_t ndim, const int64_t *shape);
static inline int64_t mst_replica_bytes(const muster_variable *variable, const mst_replica *replica) {
    return mst_shape_bytes(variable->dtype, variable->ndim, replica->shape);
}
static inline int64_t mst_replica_elements(const muster_variable *variable, const mst_replica *replica) {
    return mst_replica_bytes(variable, replica) / muster_dtype_size(variable->dtype);
}
/* Plans a reserve for a collective that reads or writes this many bytes on some rank. */
static inline void mst_change_reserve(mst_change *change, int64_t bytes) {
    if (bytes > change->reserve) change->reserve = bytes;
}
/* Plans the replica for a collective that reads the old replicas and writes the new ones. It gets
 * `rows` rows with the shape that rows have on rank `like`. With one rank it keeps its storage.
 * Otherwise it gets new storage, because peers read the old one while the new one is filled. */
void mst_change_rows(mst_change *change, int32_t index, int32_t rank, int32_t like, int64_t rows);

/* portions.c: the whole value of change->variables[0], which is in portions. */
muster_status mst_change_get_portions(mst_change *change);
muster_status mst_change_set_portions(mst_change *change);

/* variable.c: a variable becomes one of its runtime, in the queue; one that has not is freed. */
muster_status mst_variable_add(muster_variable *variable, const char *name, const char *where);
void mst_variable_free(muster_variable *variable);

/* Checks shared by the operations. */
muster_status mst_change_check_reduction(const mst_change *change);
muster_status mst_change_check_equal_shapes(const mst_change *change, int32_t index);
muster_status mst_change_check_rank(const mst_change *change, int32_t rank);
/* Checks that the values of the replica of `rank`, or of all, are defined: of every variable. */
muster_status mst_change_check_defined(const mst_change *change, int32_t rank);
muster_status mst_change_check_all_defined(const mst_change *change);
/* Of one variable: `count` replicas from `rank` on. */
muster_status mst_change_check_defined_of(const mst_change *change, int32_t index, int32_t rank, int32_t count);
/* For operations that have set all replicas where they are, without mst_change_replicas. */
void mst_change_note_defined(const mst_change *change);
/* Checks that tensors[index] is a host tensor of the variable's dtype with `ndim` dimensions.
 * `what` is "value" or "result". */
muster_status mst_change_check_tensor(const mst_change *change, int32_t index, int32_t ndim, const char *what);
/* Checks that tensors[index] has exactly this shape. */
muster_status mst_change_check_shape(const mst_change *change, int32_t index, int32_t ndim, const int64_t *shape, const char *what);
/* Refuses scalars. `verb` says in the message what the operation does along the first dimension. */
muster_status mst_change_check_rows(const mst_change *change, int32_t index, const char *verb);
/* The total number of rows of all replicas. Refuses scalars, and replicas whose other dimensions
 * differ. */
muster_status mst_change_total_rows(const mst_change *change, int32_t index, int64_t *rows);

/* assign.c: every replica takes its variable's tensor. */
muster_status mst_change_broadcast_values(mst_change *change);
/* The replica of `rank` takes `value`, a view of host memory: plan, then put on the worker. */
void mst_change_plan_put(mst_change *change, int32_t index, int32_t rank, muster_tensor value);
muster_status mst_change_put(mst_change *change, muster_worker *worker, int32_t index, muster_tensor value);
/* fetch.c: copies `from`, a device address of the worker, to `to`, a view of host memory. */
void mst_change_plan_fetch(mst_change *change, int32_t index, int32_t rank, muster_tensor to);
muster_status mst_change_fetch(mst_change *change, muster_worker *worker, int32_t index, muster_tensor to, const void *from);

/* average.c. Takes the weights of the ranks, after mst_change_begin. */
muster_status mst_change_weights(mst_change *change, const double *weights, int32_t weight_count);
/* The bytes of the products of one replica: its elements in the compute dtype. */
int64_t mst_change_product_bytes(const muster_variable *variable, const mst_replica *replica);
/* Allocates the worker's products of one variable. */
muster_status mst_change_reserve_products(mst_change *change, muster_worker *worker, int32_t index);
/* Serves the request of a reduction, with weights where the change has them. */
muster_status mst_change_combine(const mst_change *change, muster_worker *worker, int32_t index, mst_request request);

/* Reduces with the op of the change over every worker's replica, into the output on change->rank
 * (ignored on other ranks). */
muster_status mst_change_reduce(const mst_change *change, muster_worker *worker, int32_t index, void *output);

#endif
