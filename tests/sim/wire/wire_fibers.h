/* Code that waits, for each process of a launch with a clock: every process is a fiber, with a
 * stack of its own, and all of them are one thread. While a fiber runs, the time of the library is
 * that of its process, and what it sleeps passes there, without being waited for. So the real
 * loops, deadlines included, run in virtual time.
 *
 * The program is linked with --wrap=mst_now_ns, --wrap=nanosleep and --wrap=sched_yield. Outside of
 * fibers these do what they always do. */
#ifndef SIM_WIRE_FIBERS_H
#define SIM_WIRE_FIBERS_H

#include "wire_clock.h"

enum { WIRE_FIBERS_MOST = 16 };

typedef struct wire_fibers {
    /* Given. Must not leave by longjmp, so it asserts nothing; what it notes is looked at later. */
    void (*body)(void *user, int32_t process);
    void *user;
    /* Called whenever a process begins to sleep: it may stop or kill the process. NULL: none. */
    void (*rests)(void *user, int32_t process);
    /* Each process sleeps by a factor from 1 to this one longer than it wants to, by the seed of
     * the launch: it lacks a CPU. 0: 1. */
    int32_t late;
    int64_t yield_ns; /* what sched_yield takes. 0: 10 us */
    int64_t most_ns;  /* the run ends when it is so late. 0: an hour */
    /* Become. */
    bool over[WIRE_FIBERS_MOST]; /* the body has returned */
    int64_t over_ns[WIRE_FIBERS_MOST];
    int64_t rested; /* how often a process has slept */
} wire_fibers;

/* Runs the bodies until all have returned, or are of processes that are dead, or stopped for ever,
 * or the time is up. What a body that has not returned holds stays as it is: the caller frees it.
 * False: out of memory. */
bool wire_fibers_run(wire_launch *launch, wire_fibers *fibers);
/* In a fiber: its process, and sleeping for so long. */
int32_t wire_fibers_process(void);
void wire_fibers_sleep(int64_t ns);
/* The time as a fiber sees it, and when a run begins. */
int64_t wire_fibers_now_ns(void);
static const int64_t wire_fibers_epoch_ns = 1000000000;

#endif
