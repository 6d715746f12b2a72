/* muster/variable.h: variables. A variable has one value, a replica, on each device. Replicas may
 * differ in value, and in shape where a function says so. Every function here that returns a status
 * waits in the queue behind running calls. Threads: any.
 *
 * Errors of the functions that return a status: INVALID_ARGUMENT (NULL; variables of two runtimes,
 * or one variable twice in a list; a tensor that is not in host memory; an empty selection; an
 * unknown op), DTYPE_MISMATCH and SHAPE_MISMATCH (replicas or tensors that do not match; the
 * message names the variable), OUT_OF_RANGE (a rank, an index of a selection), OVERFLOW (a
 * size that does not fit 64 bits), UNSUPPORTED (an op that the dtype does not have; what would
 * break a split), OUT_OF_MEMORY, BAD_STATE (inside a body, after fork; a replica that is
 * undefined), TIMEOUT (a deadline of the runtime), and errors of the devices. A list with count 0
 * is no error: nothing happens.
 *
 * Undefined replicas. A call of a graph that fails while it writes the new values of an update rule
 * (muster/rule.h) leaves these variables undefined, on all devices, and says so. Whatever reads
 * such a replica is refused from then on (BAD_STATE, with the name of the variable): a function
 * that has declared the variable, get, a collective. What sets a replica makes it defined again:
 * set, set_whole, broadcast, scatter, initialise, the update of a function. */
#ifndef MUSTER_VARIABLE_H
#define MUSTER_VARIABLE_H

#include "muster/ops.h"
#include "muster/runtime.h"
#include "muster/tensor.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_variable muster_variable;

/* A selection of rows of a data set: all rows, the first `stop` rows, the rows [start, stop), or
 * the rows that a list of indices names (repeats allowed; the list is borrowed for the call, not
 * copied). The zero value selects all rows; MUSTER_SELECT_ALL with another field that is not zero
 * is refused (INVALID_ARGUMENT). The layout is frozen. */
typedef int32_t muster_selection_kind;
enum muster_selection_kind_value { MUSTER_SELECT_ALL = 0, MUSTER_SELECT_COUNT = 1, MUSTER_SELECT_RANGE = 2, MUSTER_SELECT_LIST = 3 };
typedef struct muster_selection {
    muster_selection_kind kind;
    int32_t reserved;       /* 0 */
    int64_t start, stop;    /* COUNT uses stop; RANGE uses both */
    const int64_t *indices; /* used by LIST */
    int64_t index_count;
} muster_selection;

/* Creates a variable with a copy of `value` (a host tensor, contiguous or strided) on every device.
 * The name is copied, and is unique in the runtime (else INVALID_ARGUMENT). dtype and ndim never
 * change. The variable belongs to the runtime: it lives until it is destroyed or the runtime
 * closes. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_create(muster_runtime *runtime, const char *name, muster_tensor value,
                                                                 muster_variable **variable);
/* Creates a variable whose replicas have no rows yet: shape (0, row_shape...), with 0 elements and
 * no memory. ndim is 1 to MUSTER_MAX_DIMS, and row_shape[ndim - 1] has the sizes of the axes after
 * the first; NULL: they are 0 until a value is known. A scatter, broadcast or set gives the rows,
 * and may change every size. Until then a function that declares the variable with READ or
 * READ_WRITE sees 0 rows; one that declares it with READ_SLICEABLE, and scatters nothing, has no
 * rows on any device. Otherwise as muster_variable_create. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_create_empty(muster_runtime *runtime, const char *name, muster_dtype dtype,
                                                                       int32_t ndim, const int64_t *row_shape, muster_variable **variable);
/* Refused with BAD_STATE while a function uses the variable. Accepts NULL. */
MUSTER_API muster_status muster_variable_destroy(muster_variable *variable);
/* The variable of this name in *variable, which becomes NULL where there is none
 * (INVALID_ARGUMENT). */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_find(muster_runtime *runtime, const char *name, muster_variable **variable);
/* The name, owned by the variable; NULL for NULL. Threads: any, also inside a body. */
MUSTER_API const char *muster_variable_name(const muster_variable *variable);

/* Sets the replica of one device. `value` may have another shape, with the same dtype and ndim; for
 * a split variable it has the shape of the part (else UNSUPPORTED). */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_set(muster_variable *variable, int32_t rank, muster_tensor value);
/* Sets the replica of one device to the selected rows of `value`, in the order of the selection:
 * row i of the replica is the i-th selected row. selection NULL: all rows, as muster_variable_set.
 * Errors: also SHAPE_MISMATCH (a selection for a scalar variable). */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_set_selected(muster_variable *variable, int32_t rank, muster_tensor value,
                                                                       const muster_selection *selection);
/* Copies the replica of one device into `value`, a host tensor of exactly the replica's shape. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_get(muster_variable *variable, int32_t rank, muster_tensor value);

/* Writes the shape of one replica into shape[ndim]. Another ndim than the variable's is
 * INVALID_ARGUMENT. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_shape(muster_variable *variable, int32_t rank, int32_t ndim, int64_t *shape);
/* Writes the length of axis 0 of every replica (1 for ndim 0) into lengths[count]; count is the
 * number of devices (else INVALID_ARGUMENT). */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_lengths(muster_variable *variable, int32_t count, int64_t *lengths);
/* For NULL, the ndim is -1 and the dtype MUSTER_DTYPE_NONE. Threads: any, also inside a body. */
MUSTER_API int32_t muster_variable_ndim(const muster_variable *variable);
MUSTER_API muster_dtype muster_variable_dtype(const muster_variable *variable);

/* Split variables: replica r of N devices is part r of one value, the whole, between the edges
 * floor(r n / N) and floor((r + 1) n / N) along an axis of size n. A part is contiguous on its
 * device. Parts may differ in size by 1, and are empty where n < N. Functions see the part:
 * muster_worker_variable, muster_worker_update, muster_variable_get, _shape and _lengths; so does
 * muster_variable_set, which keeps the part's shape. The operations on lists below refuse a split
 * variable (UNSUPPORTED), and so does a parameter server.
 * - split: makes the replicas the parts of the master's replica along `axis`, 0 to ndim - 1 (else
 *   OUT_OF_RANGE); the values of the other replicas are lost. The replicas have equal shapes (else
 *   SHAPE_MISMATCH). A variable that is split already gets the parts of its whole along `axis`.
 * - join: every replica becomes the whole. A variable that is not split stays as it is.
 * - split_axis: -1 for a variable that is not split, and for NULL. Threads: any, also in a body.
 * - whole_shape: writes the shape of the whole into shape[ndim], as muster_variable_shape.
 * - get_whole: copies the whole into `value`, a host tensor of exactly its shape.
 * - set_whole: the whole becomes `value`, a host tensor, contiguous or strided; it may have another
 *   shape, with the same dtype and ndim. The variable stays split along its axis.
 * The whole of a variable that is not split is the master's replica; set_whole then sets every
 * replica. With one device the part is the whole. The axis belongs to the variable: every function
 * and graph that uses it sees the split.
 * A refused argument and a failed allocation on any device change nothing, and neither does any
 * other failure of split and join; after a later failure (a device is lost, a deadline passes)
 * set_whole may be done in part. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_split(muster_variable *variable, int32_t axis);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_join(muster_variable *variable);
MUSTER_API int32_t muster_variable_split_axis(const muster_variable *variable);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_whole_shape(muster_variable *variable, int32_t ndim, int64_t *shape);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_get_whole(muster_variable *variable, muster_tensor value);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_set_whole(muster_variable *variable, muster_tensor value);

/* Operations on lists of `count` variables in one call. All arguments are checked before anything
 * changes.
 * - broadcast: every replica becomes the master's replica, or values[i] if values is not NULL.
 * - scatter: the selected rows of values[i] are cut into N contiguous parts, one for each of N
 *   devices, at the bounds floor(linspace(0, n, N + 1)). selection NULL: all rows.
 * - all_reduce: every replica becomes op over all replicas.
 * - reduce: the master's replica becomes op over all replicas; the others keep their values.
 * - reduce_scatter: every replica becomes its part of the rows of op over all replicas, cut at
 *   scatter's bounds.
 * - all_gather: every replica becomes the concatenation of all replicas along axis 0. Trailing
 *   dimensions must be equal; lengths may differ.
 * - all_to_all: the rows of each replica are cut into N parts at scatter's bounds. Replica j
 *   becomes part j of all replicas, in rank order; its new length is the sum of the lengths of
 *   these parts. Trailing dimensions must be equal; lengths may differ.
 * Values are combined in rank order, as muster/communicator.h says. Replicas of unequal shapes are
 * refused with rank and shape.
 * Logical shards (muster/runtime.h) change nothing here: each device has one replica, so a sum,
 * product or average of floats depends on the number of devices. Scatter's bounds are bounds of
 * shards too.
 * Refused arguments and failed allocations on any device change nothing. After a later failure (a
 * device is lost, a deadline passes), reduce_scatter, all_gather and all_to_all have changed
 * nothing; the others may be done in part. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_broadcast(muster_variable *const *variables, const muster_tensor *values,
                                                                     int32_t count);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_scatter(muster_variable *const *variables, const muster_tensor *values,
                                                                   int32_t count, const muster_selection *selection);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_all_reduce(muster_variable *const *variables, int32_t count,
                                                                      muster_reduction op);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_reduce(muster_variable *const *variables, int32_t count, muster_reduction op);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_reduce_scatter(muster_variable *const *variables, int32_t count,
                                                                          muster_reduction op);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_all_gather(muster_variable *const *variables, int32_t count);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_all_to_all(muster_variable *const *variables, int32_t count);

/* The same operations between replicas, with the replica of `rank` in place of the caller's values
 * or the master.
 * - broadcast_from: every replica becomes the replica of `rank`.
 * - scatter_from: the rows of the replica of `rank` are cut into N parts, one for each device.
 * - reduce_at: the replica of `rank` becomes op over all replicas; the others keep their values.
 * - gather_at: the replica of `rank` becomes the concatenation of all replicas; the others keep
 *   their values. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_broadcast_from(muster_variable *const *variables, int32_t count, int32_t rank);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_scatter_from(muster_variable *const *variables, int32_t count, int32_t rank);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_reduce_at(muster_variable *const *variables, int32_t count, muster_reduction op,
                                                                     int32_t rank);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_gather_at(muster_variable *const *variables, int32_t count, int32_t rank);

/* To host tensors; results[i] belongs to variables[i].
 * - reduce_to: op over the replicas, in the shape of a replica.
 * - stack: all replicas along a new first axis, (N, ...). Their shapes must be equal.
 * - concatenate: all replicas along axis 0, (total rows, ...). */
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_reduce_to(muster_variable *const *variables, const muster_tensor *results,
                                                                     int32_t count, muster_reduction op);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_stack(muster_variable *const *variables, const muster_tensor *results,
                                                                 int32_t count);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_concatenate(muster_variable *const *variables, const muster_tensor *results,
                                                                       int32_t count);

/* Averages with a weight for each device: sum over the devices of (weights[r] / W) * replica r,
 * where W is the sum of the weights. weights[weight_count] is in the order of the ranks, and
 * weight_count is the number of devices; weights are finite and not negative. With the numbers of
 * rows as weights, means over the rows of each device become the mean over all rows, also where the
 * shares are uneven; muster_function_weights has those of a call, and muster_variable_lengths the
 * rows of a scattered variable. A device of weight 0 brings nothing, even where its replica holds
 * NaN, as in the averaged outputs of a call (NumPy's average would give NaN); its replica has the
 * shape of the others all the same. Computed in f32, for f64 in f64. Float dtypes.
 * - all_reduce_weighted: every replica becomes the average.
 * - reduce_weighted_at: the replica of `rank` becomes the average; the others keep their values.
 * - reduce_weighted_to: the average goes to host tensors; results[i] belongs to variables[i].
 * Errors: also INVALID_ARGUMENT (a weight; all weights are 0; their sum overflows). */
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_all_reduce_weighted(muster_variable *const *variables, int32_t count,
                                                                               const double *weights, int32_t weight_count);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_reduce_weighted_at(muster_variable *const *variables, int32_t count,
                                                                              const double *weights, int32_t weight_count, int32_t rank);
MUSTER_API MUSTER_NODISCARD muster_status muster_variables_reduce_weighted_to(muster_variable *const *variables,
                                                                              const muster_tensor *results, int32_t count,
                                                                              const double *weights, int32_t weight_count);

/* Inside a body: *tensor becomes this worker's replica of a variable that the function declared, a
 * view that is valid until the body returns; after a failure, "no tensor". Errors: BAD_STATE (not
 * the worker of a running body), INVALID_ARGUMENT (NULL, a variable that the function did not
 * declare). Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_variable(muster_worker *worker, muster_variable *variable, muster_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
