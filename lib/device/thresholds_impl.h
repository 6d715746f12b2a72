/* Sizes from which on one way between GPUs is taken instead of another. They depend on the machine,
 * so they are rows of a table (thresholds.def) by kind of machine, and not constants of the
 * code. */
#ifndef MST_THRESHOLDS_IMPL_H
#define MST_THRESHOLDS_IMPL_H

#include "device_impl.h"

/* X(name), in bytes:
 * p2p_bytes: between peers, a collective whose largest tensor has at most so many bytes is served
 * by kernels that read the peers' memory, a larger one by NCCL.
 * staged_bytes: where NCCL serves and the GPUs are no peers, a collective whose largest tensor has
 * at most so many bytes goes through host memory instead.
 * reduced_saved_bytes: an output of a call is reduced by the GPUs if that saves at least so many
 * bytes of copies to the host (lib/function/reduced.c). */
#define MST_THRESHOLD_NAMES(X) X(p2p_bytes) X(staged_bytes) X(reduced_saved_bytes)

typedef struct mst_thresholds {
#define MST_THRESHOLD_MEMBER(name) int64_t name;
    MST_THRESHOLD_NAMES(MST_THRESHOLD_MEMBER)
#undef MST_THRESHOLD_MEMBER
} mst_thresholds;

/* Fills *found for the kind of machine of this device: from the table of the library, and before it
 * from the file that the environment's MUSTER_THRESHOLDS names. A device that is no GPU has the
 * rows of "any".
 * Errors: INVALID_ARGUMENT (the file cannot be read or has a line that is no row; *found is
 * unchanged). */
muster_status mst_thresholds_find(const mst_device *device, mst_thresholds *found);
/* One threshold, and where its value comes from: muster_threshold_info. place: 0 to count - 1.
 * name, capability: as mst_device has them. Errors: as mst_thresholds_find. */
typedef struct mst_threshold_fact {
    const char *name;
    int64_t bytes;
    char kind[96], source[512];
} mst_threshold_fact;
int32_t mst_thresholds_count(void);
muster_status mst_thresholds_get_fact(const char *name, int32_t capability, int32_t place, mst_threshold_fact *fact);
/* Refuses that file as mst_thresholds_find does. */
muster_status mst_thresholds_check(void);

#endif
