/* How long a wait spins before it sleeps: what the waits before it have shown.
 *
 * On a machine that other programs keep busy, the thread that is waited for may get its CPU only
 * milliseconds later. A spin is in vain then, and worse than that: it uses up CPU time that the
 * kernel would have given to this thread, or to the other, when the wait is over. */
#ifndef MST_SPIN_IMPL_H
#define MST_SPIN_IMPL_H

#include <stdbool.h>
#include <stdint.h>

/* What the waits of one kind have shown. One thread uses it. Zeroed memory has learned nothing:
 * waits spin for the full length, which the options of the runtime give. */
typedef struct mst_spin {
    int32_t level; /* 0: waits spin for the full length; n: for the full length divided by 2 to the power of n - 1 */
    int32_t paid;  /* spins that ended in time since the level changed */
    int32_t near;  /* waits that slept but ended within the full length, since the last try */
    int32_t tries; /* failed tries of the full length, less how often spins in time reached level 0 */
} mst_spin;

/* SHORTEST: of the default of 2 ms about 2 us are left, which is less than a sleep costs. TRIED:
 * the full length again, but on trial: spins in time are counted. A spin in vain divides the length
 * by 2 to the power of WASTED_LEVELS. After PAID spins in time it doubles. After NEAR waits that a
 * longer spin would have ended in time, the full length is tried; after each failed try twice as
 * many are needed, at most NEAR << MOST_TRIES. An interruption counts as INTERRUPTED_TRIES failed
 * tries: a spin in vain costs nobody anything on an idle machine, and much on a busy one. */
enum {
    MST_SPIN_TRIED = 1,
    MST_SPIN_SHORTEST = 11,
    MST_SPIN_WASTED_LEVELS = 2,
    MST_SPIN_PAID = 16,
    MST_SPIN_NEAR = 2,
    MST_SPIN_INTERRUPTED_TRIES = 2,
    MST_SPIN_MOST_TRIES = 9
};

/* The length of the next spin. */
static inline int64_t mst_spin_ns(const mst_spin *spin, int64_t full_ns) { return full_ns >> (spin->level - (spin->level > 0)); }
/* Reports a spin that ended in time, at a level above 0. */
void mst_spin_lengthen(mst_spin *spin);
/* Reports a spin that ended in time. */
static inline void mst_spin_paid(mst_spin *spin) {
    if (__builtin_expect(spin->level > 0, 0)) mst_spin_lengthen(spin);
}
/* Reports a spin in vain. interrupted: the thread was taken off its CPU while it spun (also if what
 * it waited for has come meanwhile). Other threads want that CPU then, and the shortest spin is
 * next. */
void mst_spin_wasted(mst_spin *spin, bool interrupted);
/* Reports a wait that has spun in vain and then slept until it ended, waited_ns after its
 * beginning. */
void mst_spin_slept(mst_spin *spin, int64_t waited_ns, int64_t full_ns);

/* Watches the clock for a thread that spins. Ticks are those of mst_ticks. */
typedef struct mst_spin_watch {
    uint64_t last, most; /* the last reading; the most ticks between two readings of a thread that keeps its CPU */
    bool interrupted;
} mst_spin_watch;
/* Between two readings of the clock lie a few dozen instructions. An interrupt takes some
 * microseconds, another program's turn on the CPU a large part of a millisecond or more. */
enum { MST_SPIN_INTERRUPTED_NS = 100000 };
/* Reads `now`. */
static inline void mst_spin_watch_read(mst_spin_watch *watch, uint64_t now) {
    watch->interrupted |= now - watch->last > watch->most;
    watch->last = now;
}

#endif
