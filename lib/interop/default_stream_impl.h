/* What a function does around a body that may use CUDA's default stream. */
#ifndef MST_DEFAULT_STREAM_IMPL_H
#define MST_DEFAULT_STREAM_IMPL_H

#include "muster/cuda.h"
#include "worker_impl.h"

/* Before and after a body on this worker, with a mode other than MUSTER_DEFAULT_STREAM_IGNORED. No
 * effect on devices that are no GPUs. With MUSTER_DEFAULT_STREAM_ORDERED the end must follow in
 * every outcome of the body. */
muster_status mst_default_stream_begin(muster_worker *worker, muster_default_stream mode);
muster_status mst_default_stream_end(muster_worker *worker, muster_default_stream mode);

#endif
