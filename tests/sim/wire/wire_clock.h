/* All processes of a launch in one thread, with a clock of their own. Each message costs what
 * LogGP says, so that the time that a schedule takes can be computed by hand:
 *
 * A process is busy for the overhead o when it begins a send, and again when it is told that a
 * receive is done. A message of n bytes that it begins to send at its time t leaves at s = max(t
 * + o, when its wire is free), and its wire is free again at s + n G + g. The first byte comes
 * to the receiver at s + L. Its last byte is there n G after the later of that and when the wire
 * into the receiver is free, which it is again g later. (LogGP's authors have (n - 1) G for n
 * G.) Then it can be matched. A send of at most eager_bytes is done at s + n G. send_matched of
 * as many bytes is done L after it is matched. Any longer one asks first, by a message without
 * bytes; when it is matched, the answer takes L, and then the bytes travel as those of any
 * message; the send is done when the last one has left. The MPI's own collectives take
 * ceil(log2(P)) (L + 2 o + n G) from when the last process has come.
 *
 * Times are in picoseconds, so that everything is exact. */
#ifndef SIM_WIRE_CLOCK_H
#define SIM_WIRE_CLOCK_H

#include "wire_launch.h"

typedef struct wire_clock_options {
    int64_t latency, overhead, gap, byte; /* L, o, g, G in ps */
    /* Every message takes up to so much longer, by the seed of the launch; those of one sender
     * and tag still come in their order. */
    int64_t jitter;
    /* Nothing moves by itself: the test chooses what arrives when (wire_clock_choices). */
    bool chosen;
} wire_clock_options;

/* Gives the launch a clock, before anything is sent. `lazy` means nothing with a clock. False:
 * out of memory. It goes with the launch. */
bool wire_clock_start(wire_launch *launch, const wire_clock_options *options);
/* The time of a process; -1: the latest time of all. */
int64_t wire_clock_time(wire_launch *launch, int32_t process);
/* The process does something else for so long, or until it is continued. */
void wire_clock_work(wire_launch *launch, int32_t process, int64_t ps);
void wire_clock_stop(wire_launch *launch, int32_t process);
void wire_clock_continue(wire_launch *launch, int32_t process);
/* Calls the function when it is so late, outside of any process: it may use the functions of
 * wire_launch.h and of this file. */
void wire_clock_at(wire_launch *launch, int64_t time, void (*function)(void *user), void *user);
/* Opens a communicator for all processes at once: wires[processes] become mst_wire, to be closed by
 * their `close`. Costs no time. */
bool wire_clock_open(wire_launch *launch, mst_wire **wires);

/* ---- driving ---- */

/* What a process does: drives its state machines as far as they get without waiting. True: it is
 * over. */
typedef bool (*wire_step)(void *user, int32_t process);

typedef enum wire_verdict {
    WIRE_ALL_OVER = 0,
    WIRE_STUCK,  /* nothing is on its way, and some processes are not over, which are not dead or stopped */
    WIRE_ENDLESS /* more steps than `most_steps` */
} wire_verdict;

typedef struct wire_drive {
    wire_step step;
    void *user;
    /* So often in a row a process is asked that sends, receives and completes nothing, before it
     * waits. A machine that copies a piece per call needs as many as it has pieces. 0: 2. */
    int32_t idle_calls;
    int64_t most_steps; /* 0: 100 million */
    /* Become. */
    int64_t steps;
    int32_t waiting; /* processes that are not over */
} wire_drive;

/* Until all processes that live and are not stopped are over. Messages may still be on their way
 * then: wire_launch_count. */
wire_verdict wire_clock_drive(wire_launch *launch, wire_drive *drive);
/* Lets everything arrive that is on its way. */
void wire_clock_settle(wire_launch *launch);

/* ---- choosing ---- */

/* With `chosen`: how many messages can arrive next: of each sender, receiver and tag the first
 * one. */
int32_t wire_clock_choices(wire_launch *launch);
typedef struct wire_choice {
    int32_t from, to, tag; /* processes of the world */
    uint64_t bytes_hash;
} wire_choice;
/* The choice-th arrives. Returns what it was. */
wire_choice wire_clock_choose(wire_launch *launch, int32_t choice);
/* How often the process has sent, received or been told that something is done. */
int64_t wire_clock_acts(wire_launch *launch, int32_t process);

#endif
