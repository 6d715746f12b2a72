/* The least device there is: host memory, counted, every call can be made to fail. For tests of the
 * pool alone. */
#ifndef SCHEDULER_DEVICE_H
#define SCHEDULER_DEVICE_H

#include "pool_impl.h"

enum { PLAIN_DEVICES = 16 };

/* Fills devices[count]; host_memory false: the pool must call sync. cpu of each: -1. */
void plain_devices(mst_device **devices, int32_t count, bool host_memory);
int64_t plain_live(void);        /* blocks allocated and not released */
int64_t plain_allocations(void); /* so far */
int64_t plain_syncs(void);
void plain_fail_sync(int32_t device, bool fail);
void plain_fail_allocations(bool fail);

/* A pool over `count` plain devices; spin_ns as given, deadlines as given (negative: never), log
 * lines kept for plain_log. Asserts success. */
mst_pool *plain_pool(int32_t count, int64_t spin_ns, int64_t warn_ns, int64_t fail_ns);
const char *plain_log(void); /* all lines since the last plain_pool, each ended by a newline */
/* A hook for waits: random short delays, yields and sleeps before waits. */
void plain_random_hook(void);

#endif
