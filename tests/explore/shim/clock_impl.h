/* Takes the place of the real clock_impl.h: time stands still until the explorer lets a timeout
 * happen. A spin is one round of looks, since a tick takes no time at all. */
#ifndef MST_CLOCK_IMPL_H
#define MST_CLOCK_IMPL_H

#include <stdint.h>

int64_t mst_now_ns(void);
static inline double mst_ticks_per_ns(void) { return 0; }
static inline uint64_t mst_ticks(void) { return 0; }
static inline void mst_pause(void) {}

#endif
