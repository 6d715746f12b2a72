/* The kernels of tests/sim/contract.cu, for tests of device code. */
#ifndef DEVICE_CONTRACT_H
#define DEVICE_CONTRACT_H

#include "../sim/contract_parameters.h"
#include "code_impl.h"

/* Adds contract.cu to the built-in kernels, without the cache of compiled code. Call it before a
 * device opens; calling it again does nothing. Fails the test if a source cannot be read. */
void contract_add(void);
/* The same as a family that devices compile at its first use, instead of when they open. */
void contract_add_late(void);

extern mst_code_kernel contract_scale_kernel, contract_row_sums_kernel;

/* Issues to[i] = factor * from[i] for `count` floats, and then overwrites the parameters, of which
 * the kernel has its own copy. */
muster_status contract_launch_scale(mst_device *device, void *to, const void *from, int64_t count, float factor);

#endif
