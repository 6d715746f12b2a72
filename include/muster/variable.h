/* muster/variable.h: one value per device. The replicas may differ in value, and in shape where a
 * function says so. Every function here waits its turn behind running calls, and is refused inside
 * a function body. Threads: any. */
#ifndef MUSTER_VARIABLE_H
#define MUSTER_VARIABLE_H

#include "muster/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_variable muster_variable;

/* Which rows of a data set: all, the first `stop`, the rows [start, stop), or a list of row indices
 * (repeats allowed, copied by no one: borrowed for the call). The zero value means all rows. Its
 * layout is frozen. */
typedef int32_t muster_selection_kind;
enum { MUSTER_ALL = 0, MUSTER_COUNT = 1, MUSTER_RANGE = 2, MUSTER_LIST = 3 };
typedef struct muster_selection {
    muster_selection_kind kind;
    int32_t reserved;
    int64_t start, stop;    /* COUNT uses stop, RANGE both */
    const int64_t *indices; /* LIST */
    int64_t index_count;
} muster_selection;

/* Creates the variable with a copy of `value` (contiguous or strided, host) on every device; the
 * name is unique in the runtime. Its dtype and ndim never change. Lives until destroyed or the
 * runtime closes. destroy is refused (BAD_STATE) while a function uses it. */
MUSTER_API muster_status muster_variable_create(muster_runtime *runtime, const char *name, muster_tensor value, muster_variable **variable);
MUSTER_API muster_status muster_variable_destroy(muster_variable *variable);
MUSTER_API const char *muster_variable_name(const muster_variable *variable);

/* One replica. set: `value` may have another shape (same dtype and ndim). get: `value` is a host
 * tensor of exactly the replica's shape. */
MUSTER_API muster_status muster_variable_set(muster_variable *variable, int32_t rank, muster_tensor value);
MUSTER_API muster_status muster_variable_get(muster_variable *variable, int32_t rank, muster_tensor value);

/* The shape of a replica (shape[ndim] out); the length of axis 0 of every replica (lengths[size]
 * out, 1 for ndim 0). */
MUSTER_API muster_status muster_variable_shape(muster_variable *variable, int32_t rank, int32_t ndim, int64_t *shape);
MUSTER_API muster_status muster_variable_lengths(muster_variable *variable, int32_t count, int64_t *lengths);
MUSTER_API int32_t muster_variable_ndim(const muster_variable *variable);
MUSTER_API muster_dtype muster_variable_dtype(const muster_variable *variable);

/* Lists of variables: `count` of them in one call; all are checked before anything changes.
 * broadcast: the master's replica (or values[i], if values is not NULL) to every device.
 * scatter: the selected rows of values[i] in N contiguous parts, edges floor(linspace(0, n, N +
 * 1)). selection NULL: all rows.
 * all_reduce: every replica becomes op over all. reduce: the master's replica does; others keep
 * theirs.
 * reduce_scatter: op over all, of which every device keeps its part of the rows, by scatter's
 * edges.
 * all_gather: every replica becomes the concatenation along axis 0 (trailing dimensions equal,
 * lengths may differ).
 * all_to_all: the rows of each replica are cut into N parts by scatter's edges; replica j becomes
 * the parts j of all replicas in rank order (trailing dimensions equal, lengths may differ; its new
 * length is the sum of theirs). Values are combined in rank order, as muster/communicator.h says.
 * Logical shards (muster/runtime.h) change nothing here: each device has one replica, and a sum,
 * product or average of floats depends on how many there are. Scatter's edges are edges of the
 * shards too. Unequal shapes are refused with rank and shape. Refused arguments and failed
 * allocations on any device change nothing; what fails later (a device is lost, a deadline passes)
 * has changed nothing with reduce_scatter, all_gather and all_to_all, and may be done in part with
 * the others. */
MUSTER_API muster_status muster_variables_broadcast(muster_variable *const *variables, const muster_tensor *values, int32_t count);
MUSTER_API muster_status muster_variables_scatter(muster_variable *const *variables, const muster_tensor *values, int32_t count,
                                                  const muster_selection *selection);
MUSTER_API muster_status muster_variables_all_reduce(muster_variable *const *variables, int32_t count, muster_reduction op);
MUSTER_API muster_status muster_variables_reduce(muster_variable *const *variables, int32_t count, muster_reduction op);
MUSTER_API muster_status muster_variables_reduce_scatter(muster_variable *const *variables, int32_t count, muster_reduction op);
MUSTER_API muster_status muster_variables_all_gather(muster_variable *const *variables, int32_t count);
MUSTER_API muster_status muster_variables_all_to_all(muster_variable *const *variables, int32_t count);

/* The same between the replicas, from or to that of any `rank` in place of the caller or the master
 * (OUT_OF_RANGE: no such rank).
 * broadcast_from: the replica of `rank` to every device. scatter_from: its rows, in N parts, one
 * for each device.
 * reduce_at: the replica of `rank` becomes op over all; others keep theirs. gather_at: it becomes
 * the concatenation; others keep theirs. */
MUSTER_API muster_status muster_variables_broadcast_from(muster_variable *const *variables, int32_t count, int32_t rank);
MUSTER_API muster_status muster_variables_scatter_from(muster_variable *const *variables, int32_t count, int32_t rank);
MUSTER_API muster_status muster_variables_reduce_at(muster_variable *const *variables, int32_t count, muster_reduction op, int32_t rank);
MUSTER_API muster_status muster_variables_gather_at(muster_variable *const *variables, int32_t count, int32_t rank);

/* To host arrays: op over the replicas (shape of a replica); all replicas stacked along a new first
 * axis (N, ...), equal shapes; all replicas concatenated along axis 0 (total rows, ...). results[i]
 * belongs to variables[i]. */
MUSTER_API muster_status muster_variables_reduce_to(muster_variable *const *variables, const muster_tensor *results, int32_t count,
                                                    muster_reduction op);
MUSTER_API muster_status muster_variables_stack(muster_variable *const *variables, const muster_tensor *results, int32_t count);
MUSTER_API muster_status muster_variables_concatenate(muster_variable *const *variables, const muster_tensor *results, int32_t count);

/* Inside a body, for a variable that the function declared: this worker's replica, as a view valid
 * until the body returns.
 * Threads: worker. */
MUSTER_API muster_tensor muster_worker_variable(muster_worker *worker, muster_variable *variable);

#ifdef __cplusplus
}
#endif
#endif
