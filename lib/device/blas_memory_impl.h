/* Address space for OpenBLAS, which takes 128 MiB for each thread that multiplies, and tries for
 * ever where it gets none (ulimit -v). So the first product looks whether there is as much. */
#ifndef MST_BLAS_MEMORY_IMPL_H
#define MST_BLAS_MEMORY_IMPL_H

#include "muster/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How many threads may multiply; 0: nobody has looked, or there is no BLAS. */
extern _Atomic int32_t mst_blas_memory;
/* Looks for so many threads. where: the public function, for messages. Errors: OUT_OF_MEMORY;
 * UNAVAILABLE (there is no BLAS, or it computes wrong products). */
muster_status mst_blas_take_memory(int32_t threads, const char *where);

static inline bool mst_blas_has_memory(int32_t threads) { return atomic_load_explicit(&mst_blas_memory, memory_order_relaxed) >= threads; }

#endif
