/* The explorer: runs a scenario of a few threads in every order in which their atomic operations
 * can take place, with the delays that a processor's store buffers may add. README.md says what is
 * modelled and what is not. */
#ifndef EXPLORER_H
#define EXPLORER_H

#include "operation.h"

enum { EXPLORE_THREADS = 4 };

typedef struct explore_scenario {
    const char *name;
    void (*prepare)(const void *context); /* makes the memory and the threads */
    void (*finish)(const void *context);  /* looks at every final state; may be NULL */
    const void *context;
    bool may_circle; /* a circle of states is no fault: threads that look again and again without sleeping */
    /* 0: any number; else at most so often is a thread stopped that could go on: for what is too
     * large to see completely */
    int32_t preemptions;
    int32_t spurious; /* how many wake-ups without a reason there may be, on every path */
} explore_scenario;

/* ---- for prepare ---- */

/* Memory that all threads share, zeroed. It is never given back before the scenario ends. */
void *explore_alloc(size_t bytes);
/* Not a part of the state: memory that does not change, or that nobody looks at. */
void explore_ignore(const void *address, size_t bytes);
/* A counter (32 bits) that only ever grows, and whose value no thread remembers while `users` is 0:
 * it then begins anew, so that states do not differ by what is past. For the generation and the
 * sleepers of an eventcount. */
void explore_counter(const void *word, const void *users);
/* This word of 32 bits is a lock: what it is set to orders what the threads know of plain memory.
 * Other words of 32 bits do not. One in a scenario. */
void explore_lock_word(const void *word);
/* Fewer states by promises, which are checked. Constant: nobody changes it. Quiet: it is changed
 * only by additions while more than one thread runs, and nobody uses what an addition returns.
 * Operations on either are no points where others may run. */
void explore_constant(const void *address, size_t bytes);
void explore_quiet(const void *address, size_t bytes);
/* For traces. */
void explore_name(const void *address, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int32_t explore_thread(const char *name, void *(*entry)(void *), void *argument);
/* The threads so far go on, in one order only, until all of them sleep. */
void explore_drain(void);
/* In the end, threads may be asleep on this word (and on no other). */
void explore_may_sleep(const void *futex);

/* ---- for threads and for finish ---- */

int32_t explore_current(void);
/* Ends the path as a fault. */
void explore_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define EXPLORE_CHECK(condition, ...)                 \
    do {                                              \
        if (!(condition)) explore_fault(__VA_ARGS__); \
    } while (0)
/* Plain memory, as a body reads and writes it. Two accesses of which one writes and that no release
 * and acquire put in order are a fault. */
void explore_write(void *address, int64_t value);
int64_t explore_read(const void *address);
/* For memory that the stand-ins of library.c write. */
void explore_wrote(const void *address);
void explore_has_read(const void *address);

/* The pool whose queue of calls starts its thread now, in prepare; NULL: threads are of workers. */
extern const struct mst_pool *explore_queue_pool;

/* ---- search.c ---- */

typedef struct explore_result {
    int64_t states, steps, circles;
    double interleavings;
    int32_t deepest;
    bool faulty;
} explore_result;

/* Prints the trace of the first fault. */
explore_result explore_run(const explore_scenario *scenario);

extern const explore_scenario explore_eventcount_scenarios[], explore_cancel_scenarios[], explore_team_scenarios[],
    explore_lost_scenarios[], explore_mailbox_scenarios[], explore_pool_scenarios[], explore_pool_queue_scenarios[],
    explore_ticket_lock_scenarios[], explore_server_queue_scenarios[], explore_device_scenarios[];

#endif
