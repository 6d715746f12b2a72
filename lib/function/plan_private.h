/* The plan of a call: the results of its checks, kept for the next call with the same layout. */
#ifndef MST_PLAN_PRIVATE_H
#define MST_PLAN_PRIVATE_H

#include "muster/function.h"
#include "pool_impl.h"
#include "tensor_impl.h"

/* What a call was given. Calls by name and asynchronous ones make one, too. */
typedef struct mst_arguments {
    const char *where; /* the public function, for messages */
    const muster_tensor *inputs, *outputs;
    int32_t input_count, output_count;
    const muster_call_options *options; /* from mst_call_options_read, or &mst_call_options_default */
    bool single;
} mst_arguments;

typedef struct mst_place mst_place; /* place_private.h */

/* The forms in which a body gets a tensor that lies in host memory. They are for bodies on host
 * devices, and for bodies that read an input in host memory. */
enum {
    MST_FORM_SAME,    /* a view with the caller's strides, which are those of contiguous memory or wanted */
    MST_FORM_STRIDES, /* a view, since it is contiguous, with other strides in axes of one element */
    MST_FORM_COPY,    /* memory of the plan: the elements are not contiguous */
    MST_FORM_LIST     /* an input: the rows of an index list, packed */
};

typedef struct mst_plan {
    bool valid; /* the next call may use it */
    bool single;
    bool by_default; /* made for mst_call_options_default */
    /* Every rank runs the body at most once, on a host device, in memory that no call moves: see
     * call.c. */
    bool repeatable;
    uint64_t number;                 /* counts the plans of the function, from 1 */
    muster_tensor *inputs, *outputs; /* as passed by the caller; a comparison with the next call ignores their data pointers */
    void **addresses;                /* [inputs + outputs] the addresses in this call */
    mst_span *spans;                 /* [inputs + outputs] the bytes of each tensor, from its address on */
    bool on_device;                  /* some tensor is not host memory: the next call is planned anew */
    bool placed;                     /* some tensor is in memory that host code cannot read, and `places` says where */
    mst_place *places;               /* [inputs + outputs]; NULL until the first such call */
    muster_selection batch;
    const muster_selection *replica_batch;
    int32_t replica_batch_count;
    int64_t slices;
    int64_t count;                        /* rows selected */
    int64_t warn_after_ns, fail_after_ns; /* the limits of this call; 0: the runtime's apply */
    int32_t contributors;                 /* logical shards of this process whose parts are collected */
    int32_t total_contributors;           /* of all processes */
    /* MUSTER_MASTER takes the value of the first shard whose body runs: its number in this process,
     * -1: it is in another, or no body runs; and the process, -1: no body runs. */
    int32_t master, master_process;
    int64_t first_row, own_rows; /* of this process in the call */
    uint8_t *forms;              /* [inputs + outputs] MST_FORM_ of the tensor */
    bool readies;                /* something is to be done before each run: see call_ready */
    bool copies_whole;           /* some broadcast input is copied before the run, for the bodies of all ranks */
    bool *parts;                 /* [inputs + outputs] the tensor holds only the rows of this process */
    bool *packed;                /* [inputs] the tensor holds only selected rows, whatever the mode of the input */
    bool overlapped;             /* some device copies the rows of a slice while it computes another */
    bool parallel;               /* some output is so large that all workers combine it */
    /* Set for each call whose functions are on devices, by mst_reduced_choose: [outputs] do the
     * devices reduce the output? And: do they reduce any? */
    bool *reduced;
    bool reduces;
    muster_buffer *const *buffers; /* [outputs] of this call's options; NULL: none. Such a plan serves no other call */
} mst_plan;

static inline bool mst_wanted(const mst_plan *plan, int64_t output) { return plan->outputs[output].dtype != MUSTER_DTYPE_NONE; }
static inline bool mst_output_is_buffered(const mst_plan *plan, int64_t output) { return plan->buffers && plan->buffers[output]; }

/* The options of a call that gives none. */
extern const muster_call_options mst_call_options_default;
/* Sets *options to the caller's options; members that the caller does not set get the defaults.
 * given may be NULL. `where` names the public function. */
muster_status mst_call_options_read(const char *where, const muster_call_options *given, muster_call_options *options);
/* Checks the call, and fills function->plan and the rows of the logical shards. */
muster_status mst_plan_make(muster_function *function, const mst_arguments *arguments);
/* Checks as much as possible of a call that is still queued, and sets *options as
 * mst_call_options_read does. mst_plan_make checks everything that depends on variables or on the
 * distribution of the rows over the devices. */
muster_status mst_plan_check(const muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                             const muster_tensor *outputs, int32_t output_count, const muster_call_options *given,
                             muster_call_options *options);

/* output_buffers.c. Checks the buffers of a call; NULL: it has none. `outputs`: as the program
 * passes them. */
muster_status mst_output_buffers_check(const muster_function *function, const char *where, const muster_tensor *outputs,
                                       muster_buffer *const *buffers);
/* The same, and sets *with to these arguments with tensors of 0 rows in place of buffers, until the
 * next call of the function. */
muster_status mst_output_buffers_put(muster_function *function, const mst_arguments *arguments, mst_arguments *with);

/* alias.c. Refuses an output that shares memory with an input or with another output. Every tensor
 * has been checked. `spans` as in the plan; NULL: they are computed. */
muster_status mst_call_check_aliases(const muster_function *function, const char *where, const muster_tensor *inputs,
                                     const muster_tensor *outputs, const mst_span *spans);

#endif
