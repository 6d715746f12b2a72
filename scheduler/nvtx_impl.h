/* Ranges for a profiler that is attached to the process by NVTX (Nsight Systems and others). */
#ifndef MST_NVTX_IMPL_H
#define MST_NVTX_IMPL_H

#include <stdbool.h>
#include <stdint.h>

/* Was the NVTX header there when the library was built? */
bool mst_nvtx_built(void);
/* Loads the profiler that the environment's NVTX_INJECTION64_PATH names, once in the process.
 * false: none named, none answered, or not built. push and pop only after true. Ranges nest per
 * thread: every push is popped by its own thread. */
bool mst_nvtx_open(void);
/* category: an mst_event_kind. */
void mst_nvtx_push(const char *name, uint32_t category, int64_t bytes);
void mst_nvtx_pop(void);

#endif
