/* Groups on GPUs: all groups of a graph as one program, which is compiled when the graph is. */
#ifndef MST_DIALECT_PRIVATE_H
#define MST_DIALECT_PRIVATE_H

#include "code_impl.h"
#include "dialect/fused_parameters_private.h"
#include "fuse_private.h"
#include "runtime_impl.h"
#include "string_impl.h"

_Static_assert(MST_FUSED_TENSORS == MST_GROUP_OPERANDS + MST_GROUP_RESULTS, "a kernel has an address for each tensor of a group");

extern const mst_code_sources mst_graph_code; /* the headers of the text that are this module's */

/* ---- dialect.c: the text ---- */

/* The kernels of a graph's groups. Groups that differ only in shapes and names share a kernel. */
typedef struct mst_fused_text {
    mst_string text;
    int32_t *kernel_of;  /* by group */
    int32_t *tensors_of; /* by kernel: how many operands and results it has */
    int32_t kernel_count;
} mst_fused_text;
/* The text is CUDA C++ and includes the headers of the built-in kernels. Errors: OUT_OF_MEMORY;
 * UNSUPPORTED (a member's operation has no such text); those of the members' attributes. */
muster_status mst_fused_print(const mst_fused_group *groups, int32_t count, mst_fused_text *printed);
void mst_fused_text_free(mst_fused_text *printed);

/* ---- dialect_program.c ---- */

/* The groups of a graph on those devices of its runtime that are GPUs. */
typedef struct mst_fused_program mst_fused_program;
/* Compiles the groups, or finds them in the cache, and loads them: between calls, so that a call
 * does neither. *program is NULL if the runtime has no device for it. Errors: UNAVAILABLE
 * (a device cannot compile them: the message says why), those of the devices, OUT_OF_MEMORY. */
muster_status mst_fused_open(muster_runtime *runtime, const char *name, const mst_fused_group *groups, int32_t count,
                             mst_fused_program **program);
/* Not while the pool is entered. NULL is ignored. */
void mst_fused_close(mst_fused_program *program);

/* A group for operands and results of certain shapes and strides, on one device. */
typedef struct mst_fused_launch mst_fused_launch;
/* The arguments are those of mst_tile_make; group_number: the place of the group in the list that
 * was opened. *launch is NULL on a device that runs groups otherwise. Errors: OUT_OF_MEMORY. */
muster_status mst_fused_launch_make(mst_arena *memory, const mst_fused_program *program, int32_t rank, int32_t group_number,
                                    const mst_fused_group *group, const muster_tensor *const *in, muster_tensor *const *out,
                                    mst_fused_launch **launch);
muster_status mst_fused_launch_run(muster_worker *worker, mst_fused_launch *launch);
/* The same for a group over vectors without gaps: their first `count` elements. */
muster_status mst_fused_launch_run_first(muster_worker *worker, mst_fused_launch *launch, int64_t count);

#endif
