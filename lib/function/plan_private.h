/* The plan of a call: what its check found out, kept for the next call that looks the same. */
#ifndef MST_PLAN_PRIVATE_H
#define MST_PLAN_PRIVATE_H

#include "muster/function.h"
#include "pool_impl.h"

typedef struct mst_plan {
    bool valid, single;
    muster_tensor *inputs, *outputs; /* as the caller gave them; their data pointers are not part of the comparison */
    void **addresses;                /* [inputs + outputs] of this call */
    muster_selection batch;
    const muster_selection *replica_batch;
    int32_t replica_batch_count;
    int64_t slices;
    int64_t count;                        /* rows selected */
    int64_t warn_after_ns, fail_after_ns; /* of this call; 0: the runtime's */
    int32_t contributors;                 /* logical shards whose parts are collected */
    bool overlapped;                      /* some device copies the rows of a slice while it computes another */
    bool parallel;                        /* some output is large enough to be combined by all workers */
} mst_plan;

static inline bool mst_wanted(const mst_plan *plan, int64_t output) { return plan->outputs[output].dtype != MUSTER_DTYPE_NONE; }

/* *options = what the caller gave, over the defaults. given may be NULL. where: the public
 * function. */
muster_status mst_call_options_read(const char *where, const muster_call_options *given, muster_call_options *options);
/* Checks the call, and fills function->plan and the rows of the logical shards. options: as
 * mst_call_options_read gives them. */
muster_status mst_plan_make(muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                            const muster_tensor *outputs, int32_t output_count, const muster_call_options *options, bool single);
/* What can be checked of a call that still queues. options: as mst_call_options_read gives
 * them. What depends on variables, or on how the rows fall on the devices, is left to
 * mst_plan_make. */
muster_status mst_plan_check(const muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                             const muster_tensor *outputs, int32_t output_count, const muster_call_options *given,
                             muster_call_options *options);

#endif
