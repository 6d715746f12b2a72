/* Several processes of a launch in one program: a muster_wire_table whose messages go through
 * memory. Two ways to use it:
 *
 * - Threads: each thread (or each runtime, with all its workers) is a process. Nothing here blocks
 *   but wire_launch_open and wire_launch_close.
 * - One thread is all processes in turn, with a clock of its own (wire_clock.h).
 *
 * Matching is MPI's: a receive takes messages by communicator, sender and tag; messages of one
 * sender and tag are taken in the order in which they were sent, and receives of one process in the
 * order in which they were posted. */
#ifndef SIM_WIRE_LAUNCH_H
#define SIM_WIRE_LAUNCH_H

#include "wire/wire_impl.h"

typedef struct wire_launch wire_launch;

enum { WIRE_EAGER_BYTES = 4096, WIRE_HOST_TEXT = 32 };

typedef struct wire_launch_options {
    int32_t processes;
    /* A plain send of more bytes is done only when it is matched (rendezvous). 0: WIRE_EAGER_BYTES;
     * negative: of any number of bytes. */
    int64_t eager_bytes;
    /* Processes p with equal p / processes_per_host are on one host, named "host0", "host1", ...
     * 0: all on host0. */
    int32_t processes_per_host;
    /* Instead: the numbers of the hosts, the decimal digit of a process each: "010" puts processes
     * 0 and 2 on host0, and process 1 on host1. Kept by the caller. NULL: none. */
    const char *hosts;
    bool no_collectives;  /* the MPI's own collectives are NULL */
    bool different_bits;  /* an all_reduce of floats gives process 1 another last bit */
    int64_t stalled;      /* this collective of a communicator, counted from 1, does not end; 0: none */
    bool fault_tolerance; /* revoke and lost exist, and a process that has ended is noticed */
    /* As an MPI without a thread of its own: what was sent leaves the sender only when the sender
     * calls the table again, after the call that said that the send is done. */
    bool lazy;
    /* Not 0: whether something is reported as done already, and which sender a receive from any
     * process prefers, is left to chance. */
    uint64_t seed;
} wire_launch_options;

/* NULL where memory is lacking or an option is out of range. Everything is the caller's to destroy,
 * when all threads have left it. */
wire_launch *wire_launch_create(const wire_launch_options *options);
void wire_launch_destroy(wire_launch *launch);
/* Valid as long as the launch. */
const muster_wire_table *wire_launch_table(wire_launch *launch);

/* From now on the calling thread is this process: for initialise, open, host and state, which
 * name no wire, and for wire_launch_open. launch NULL: it is none any more. */
void wire_launch_join(wire_launch *launch, int32_t process);

/* For mst_wire_test_open: duplicates the world, which waits until all processes have called it, and
 * wraps the wire. The k-th call of each process gives the k-th communicator. The `close` of the
 * mst_wire frees the wire and the mst_wire itself. false: the thread has joined no launch, or the
 * communicator cannot be opened. */
bool wire_launch_open(mst_wire **wire);
/* Wraps a wire that is open. NULL where memory is lacking. */
mst_wire *wire_launch_wrap(wire_launch *launch, muster_wire *state);

/* The communicator of these processes of the world, in this order, as a parent for `open`:
 * returns its Fortran handle, which is at least 1 (0 is the world), or -1. The same call in each
 * process would make another one: call it once, for all. */
int32_t wire_launch_group(wire_launch *launch, const int32_t *processes, int32_t count);

/* ---- faults: from any thread ---- */

/* The process has ended: it calls nothing any more. What it has sent arrives, but for what a
 * rendezvous or `lazy` still holds. With fault_tolerance the requests of others that need it end
 * with MUSTER_WIRE_LOST, as do their receives from any process; without it they are never done. */
void wire_launch_kill(wire_launch *launch, int32_t process);
/* Messages between the two are held until the cut is healed, in both directions. */
void wire_launch_cut(wire_launch *launch, int32_t one, int32_t other);
void wire_launch_heal(wire_launch *launch, int32_t one, int32_t other);
/* The code that a process has given to abort; -1: none has. After it every call of the table is
 * refused. */
int32_t wire_launch_aborted(wire_launch *launch);

/* ---- what tests ask ---- */

typedef struct wire_launch_counts {
    int64_t messages; /* sent and not received: in flight, held or unexpected */
    int64_t requests; /* not done, or not yet reported as done */
    int64_t wires;    /* open and not closed */
    int64_t sent;     /* messages that were ever sent */
    int64_t sent_bytes;
    int64_t collectives; /* ended by all processes */
    int64_t peak_bytes;  /* the most memory that the launch has held at one time */
    int64_t bytes;       /* that it holds now */
} wire_launch_counts;
/* Where all is closed and well, messages, requests and wires are 0. */
wire_launch_counts wire_launch_count(wire_launch *launch);

#endif
