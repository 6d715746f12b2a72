/* A variable as functions see it. */
#ifndef MST_VARIABLE_IMPL_H
#define MST_VARIABLE_IMPL_H

#include "muster/variable.h"
#include "runtime_impl.h"

#include <stdatomic.h>

typedef struct mst_replica {
    void *address;    /* on the device, contiguous */
    int64_t capacity; /* in bytes */
    int64_t shape[MUSTER_MAX_DIMS];
    bool undefined; /* a call that failed has left its elements so. Changes in the queue only */
} mst_replica;

/* Elements [begin, end) of a whole value, row by row, which the device of `rank`, a public one,
 * keeps. */
typedef struct mst_portion {
    int32_t rank;
    int64_t begin, end;
} mst_portion;

/* A variable in portions (portions.c): the replica of a rank holds its portions, one behind the
 * other. */
typedef struct mst_portions {
    const void *owner;              /* the `user` of the only function that uses it; NULL: of a new one, which is 0 */
    int64_t shape[MUSTER_MAX_DIMS]; /* of the whole value */
    int32_t count;
    mst_portion items[]; /* ascending for each rank */
} mst_portions;

struct muster_variable {
    mst_object object; /* must be the first member */
    muster_dtype dtype;
    int32_t ndim;
    int32_t users; /* functions that declared it */
    /* -1: every replica is a whole value. Else replica r is the part between mst_edge r and r + 1
     * along this axis of one value, the whole. Changes in the queue only; read from any thread. */
    _Atomic int32_t split_axis;
    mst_portions *portions; /* NULL: it is not in portions. Changes in the queue only */
    /* [total] by public rank: of replicas in other processes the shape alone is known. */
    mst_replica *everywhere;
    mst_replica *replicas; /* [size] those of this process, in `everywhere` */
};

/* Allocates the list of replicas. */
bool mst_variable_make_replicas(muster_variable *variable);
/* A device tensor over the replica of `rank`, a number in this process. */
muster_tensor mst_variable_tensor(const muster_variable *variable, int32_t rank);
/* -1: not split. Threads: any, does not wait in the queue. */
static inline int32_t mst_variable_split_axis(const muster_variable *variable) {
    return atomic_load_explicit(&variable->split_axis, memory_order_acquire);
}
/* A call that failed may have written some elements: until they are set nothing reads the replicas.
 * Call it in the queue. */
void mst_variable_set_undefined(muster_variable *variable);
/* Are the values of `count` replicas from `rank` on, a number in this process, defined? Call it in
 * the queue. Errors: BAD_STATE. */
muster_status mst_variable_check_defined(const muster_variable *variable, int32_t rank, int32_t count, const char *where);
/* The shape of the whole value, into shape[ndim]; of a variable that is neither split nor in
 * portions, the shape of the master's replica. Call it in the queue. */
void mst_variable_whole_shape(const muster_variable *variable, int64_t *shape);

/* Makes a variable in portions that is 0 and takes no memory of any device, until it is laid out.
 * The errors are those of muster_variable_create. */
muster_status mst_variable_create_in_portions(const char *where, muster_runtime *runtime, const char *name, muster_dtype dtype,
                                              int32_t ndim, const int64_t *shape, muster_variable **variable);
/* The whole value stays, and each device keeps its portions of it. Elements in no portion become
 * 0. One user of the variable holds it; others are refused, except for the function of `owner`
 * from then on. After an error the variable is as before. Outside of the queue. */
muster_status mst_variable_lay_in_portions(const char *where, muster_variable *variable, const mst_portion *items, int32_t count,
                                           const void *owner);
/* The whole value stays: each device keeps all of it, or, unless axis is -1, its part along the
 * axis. */
muster_status mst_variable_lay_whole(const char *where, muster_variable *variable, int32_t axis);
/* UNSUPPORTED for a variable in portions. */
muster_status mst_variable_refuse_portions(const muster_variable *variable, const char *where);

/* Checks a selection of a function call or a scatter against `rows` rows, and sets *count to the
 * number of selected rows. where and what name the public function and the argument in messages. */
muster_status mst_selection_check(const muster_selection *selection, int64_t rows, const char *where, const char *what, int64_t *count);
/* Distributes `count` rows, or the elements of an axis, over `size` ranks: rank r has those from
 * edge r to edge r + 1. Edge r = floor(r * count / size) for r in [0, size], exact for all
 * int64_t. */
int64_t mst_edge(int64_t count, int32_t size, int32_t rank);
/* The number of rows of rank `rank`. */
static inline int64_t mst_edge_rows(int64_t count, int32_t size, int32_t rank) {
    return mst_edge(count, size, rank + 1) - mst_edge(count, size, rank);
}
/* The part of `rank` in a view of the whole value: the elements between its edges along `axis`. */
static inline muster_tensor mst_variable_part(muster_tensor value, int32_t axis, int32_t size, int32_t rank) {
    return muster_tensor_slice_axis(value, axis, mst_edge(value.shape[axis], size, rank), mst_edge(value.shape[axis], size, rank + 1));
}
/* Copies rows [begin, end) of the selection of `from` (host, any strides) to contiguous host
 * memory. */
void mst_selection_pack(const muster_selection *selection, muster_tensor from, int64_t begin, int64_t end, void *to);
/* The row at `position` of the selection. */
int64_t mst_selection_row(const muster_selection *selection, int64_t position);
/* For the message where the calls of processes differ. rows: the rows that a list names are
 * compared, too. */
struct mst_round_details;
void mst_selection_details(struct mst_round_details *details, const char *label, const muster_selection *selection, bool rows);

/* change.c. Tells the other processes of an operation on variables that this process refuses before
 * it has begun: they wait for it. name: of the variable, NULL if it has none. Outside of the pool.
 * With one process, or when the runtime is closed: refused. */
muster_status mst_variables_refuse(muster_runtime *runtime, const char *where, const char *name, muster_status refused);

#endif
