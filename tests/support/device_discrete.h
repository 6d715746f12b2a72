/* The device "discrete": a device whose memory the host cannot address, on any machine. It runs the
 * library's kernel sources, compiled as C++. Host code that touches its memory dies by SIGSEGV, its
 * work runs later on a thread of its own (also the reading of host memory by copy_in), new memory
 * holds 0xCD and released memory 0xDD. Misuse of the device table aborts with a sentence: two
 * threads that issue at once, release before sync, writing behind a block, closing with blocks that
 * were not released. */
#ifndef MST_DEVICE_DISCRETE_H
#define MST_DEVICE_DISCRETE_H

#include "device_impl.h"

/* Adds the backend "discrete" to the registry; calling it again does nothing. Threads: any. */
muster_status mst_discrete_register(void);

/* Before each piece of work the device waits up to this long, by a sequence that `seed` and the
 * ordinal fix. 0: no waits. Where this is not called the environment's MUSTER_DISCRETE_DELAY_US and
 * MUSTER_DISCRETE_SEED count, else there are none. For devices that are opened later. */
void mst_discrete_set_delays(int32_t longest_us, uint64_t seed);

/* Blocks allocated and not released, over all discrete devices; of device memory, of page-locked
 * host memory; ranges of the program's that are locked. */
int64_t mst_discrete_live(void);
int64_t mst_discrete_live_host(void);
int64_t mst_discrete_pinned(void);

/* Copies that have been done by the COPY queues of all discrete devices so far. */
int64_t mst_discrete_async_copies(void);

/* The device of this ordinal does nothing any more until another is chosen (-1: none) or it is
 * closed. */
void mst_discrete_stall(int32_t ordinal);

/* Queues a function of the test into COMPUTE, as cuLaunchHostFunc does. The device's thread calls
 * it; a failure that it sets with mst_error is the device's. */
typedef muster_status (*mst_discrete_function)(void *user);
muster_status mst_discrete_call(mst_device *device, mst_discrete_function function, void *user);

/* How often the discrete devices have run the kernel of this name; NULL: all kernels. */
int64_t mst_discrete_launches(const char *kernel);

/* From now on an allocation in flight has only what was reserved. */
void mst_discrete_refuse_in_flight(bool refuse);

/* The device whose context this thread has: what enter sets and leave puts back. */
mst_device *mst_discrete_context(void);
void mst_discrete_set_context(mst_device *device);

#endif
