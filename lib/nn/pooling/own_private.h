/* The computations of pooling, on CPU cores and on other devices. */
#ifndef MST_POOLING_OWN_PRIVATE_H
#define MST_POOLING_OWN_PRIVATE_H

#include "op_impl.h"
#include "pooling/pooling_parameters_private.h"

/* On a CPU core. Scratch memory is the worker's. */
muster_status mst_pooling_host(muster_worker *worker, const mst_pooling_parameters *p);
/* On another device, by its kernels. */
muster_status mst_pooling_device(muster_worker *worker, const mst_pooling_parameters *p);

#endif
