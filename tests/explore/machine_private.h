/* What the files of the modelled machine share: its memory, and what a thread is about to do. */
#ifndef EXPLORE_MACHINE_PRIVATE_H
#define EXPLORE_MACHINE_PRIVATE_H

#include "machine.h"

#include <setjmp.h>
#include <string.h>

enum { STACK_BYTES = 1 << 15, ARENA_BYTES = 1 << 17, MOST_BUFFERED = 6, MOST_LOCATIONS = 64, MOST_CELLS = 24, OWN_BYTES = 64 };

/* One bit for the last write and one for the last read of every thread, for each cell of plain
 * memory. */
typedef unsigned __int128 events;
enum { EVENTS_PER_CELL = 1 + EXPLORE_THREADS };
_Static_assert(MOST_CELLS *EVENTS_PER_CELL <= 128, "the events fit their type");
#define ALL_EVENTS (~(events)0)

typedef enum { THREAD_READY = 1, THREAD_ASLEEP, THREAD_WOKEN, THREAD_ENDED } thread_state;

typedef struct operation {
    explore_kind kind;
    int32_t order;
    char *address;
    size_t size;
    uint64_t value, expected;
} operation;

typedef struct pending_store {
    operation store;
    events unknown; /* to its writer, when it was written: what an acquire of it does not teach */
} pending_store;

typedef struct thread {
    int32_t state, pending_count;
    operation next; /* while ready: what it is about to do */
    uint64_t result;
    pending_store pending[MOST_BUFFERED]; /* oldest first */
    uint64_t digest;                      /* for the hash of the state; 0: not up to date */
    events unknown;                       /* events that do not happen before this thread's next */
    char *low;                            /* of the live part of the stack */
    _Alignas(8) char own[OWN_BYTES];      /* its thread-local variables, while it does not run */
    jmp_buf registers;
} thread;

/* Everything that can differ between two states lies here, in the machine_arena, or on the live
 * part of a stack, at addresses that never change: to save a state is to copy these, and two states
 * with the same bytes are the same state. */
extern struct machine_world {
    int64_t now;
    int32_t spurious, preemptions, last, thread_count; /* last: to run; preemptions: left, negative: any number */
    size_t arena_used;
    events released[MOST_LOCATIONS]; /* what an acquire of this location does not teach */
    thread threads[EXPLORE_THREADS];
} machine_world;
extern char machine_arena[ARENA_BYTES], machine_stacks[EXPLORE_THREADS][STACK_BYTES];

/* Not part of the state. */
typedef struct thread_entry {
    const void *entry;
    void *argument;
    const char *name;
} thread_entry;
extern thread_entry machine_entries[EXPLORE_THREADS];
extern int32_t machine_current;     /* the thread that runs; -1: prepare, finish or the search */
extern int32_t machine_wake_choice; /* the threads that the next wake wakes, one bit for each; 0: not chosen */
extern jmp_buf machine_search_registers;

/* memory.c: what an operation does. machine_sleepers_on: the threads that sleep on the address, one
 * bit for each. machine_location_count: of `released`, how many are in use. */
extern int32_t machine_location_count;
void machine_reset_memory(void);
uint64_t machine_load(const operation *o);
uint64_t machine_perform(thread *t, const operation *o);
bool machine_may_flush(const thread *t, int32_t entry);
void machine_flush(thread *t, int32_t entry);
void machine_flush_all(thread *t);
int32_t machine_sleepers_on(const void *address);

/* state.c */
void machine_reset_state(void);

/* trace.c: names, faults and lines about steps. machine_broken ends the program. */
extern char machine_fault_text[512];
void machine_reset_trace(void);
void machine_broken(const char *why) __attribute__((noreturn));
const char *machine_name_of(const void *address);

#endif
