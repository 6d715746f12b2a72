/* Control messages between processes, taken and answered by whoever waits: that a call has failed
 * (poison), and whom a process waits for (questions and answers). Like the state machines it reads
 * no clock and never waits; the caller holds the lock of the wire unless it says otherwise. */
#ifndef MST_CONTROL_PRIVATE_H
#define MST_CONTROL_PRIVATE_H

#include "channel_private.h"
#include "status_impl.h"

enum { MST_CONTROL_SLOTS = 8, MST_CONTROL_STEPS = 31 };

typedef enum mst_control_type {
    MST_CONTROL_FAILED = 0,                          /* poison: the call with this epoch has failed; its end round follows */
    MST_CONTROL_GIVEN_UP,                            /* poison: this epoch has ended where it comes from; no round follows */
    MST_CONTROL_POISON_KINDS,                        /* how many kinds of poison there are */
    MST_CONTROL_QUESTION = MST_CONTROL_POISON_KINDS, /* whom do you wait for? */
    MST_CONTROL_ANSWER
} mst_control_type;

typedef struct mst_control_message {
    uint32_t magic; /* MST_CONTROL_MAGIC */
    mst_control_type type;
    uint64_t epoch;  /* poison: of which call. answer: of the wait */
    uint64_t number; /* of a question and its answer */
    int32_t lane;    /* of a question: it is asked from there; of an answer: of the wait */
    muster_status status;
    int32_t rank;                /* poison: the rank that failed, or -1 */
    int32_t process;             /* poison: where it comes from. answer: the process that is waited for, or -1 */
    char text[MST_MESSAGE_SIZE]; /* poison: the message. answer: in what it waits */
} mst_control_message;
enum { MST_CONTROL_MAGIC = 0x4d535432 };
/* The epoch of GIVEN_UP that ends this epoch and all that follow: a process is lost. A process that
 * has ended the call in which others have found that out learns of it in its next one. */
#define MST_CONTROL_FOR_EVER UINT64_MAX

/* One that waits (wait.c): what answers say of it, and its own question. */
typedef struct mst_control_waiter {
    struct mst_control_waiter *next;
    mst_machine *machine;
    const char *doing;
    uint64_t epoch;
    int32_t lane;
    uint64_t asked; /* the number of its question; 0: none is open */
    bool answered;
    mst_control_message answer;
} mst_control_waiter;

typedef struct mst_control {
    mst_wire *wire;
    mst_control_waiter *waiters;
    /* A message from any process; while it cannot be answered for lack of a slot it stays. */
    muster_wire_request receive;
    bool there;
    mst_control_message incoming;
    /* The newest poison of each kind, and which neighbours have not got it yet (bits). GIVEN_UP
     * also ends all epochs before its own that this process has not begun: nobody can have come to
     * their ends without it. */
    _Atomic uint64_t poisoned[MST_CONTROL_POISON_KINDS];       /* its epoch; 0: none */
    _Atomic uint64_t poisoned_first[MST_CONTROL_POISON_KINDS]; /* the first epoch that it ends */
    uint64_t current;                                          /* of the last progress */
    mst_control_message poison[MST_CONTROL_POISON_KINDS];
    uint32_t to_flood[MST_CONTROL_POISON_KINDS];
    int32_t steps;
    struct mst_control_slot {
        muster_wire_request request;
        mst_control_message message;
    } flood[MST_CONTROL_POISON_KINDS][MST_CONTROL_STEPS], slots[MST_CONTROL_SLOTS]; /* of poison; of the rest */
    uint64_t questions;
} mst_control;

/* Nothing is posted yet. */
void mst_control_open(mst_control *control, mst_wire *wire);
/* Takes what has come, sends what is to be sent. current: the epoch of this process; poison of
 * older ones is dropped. DONE: nothing is left to do now. */
mst_progress mst_control_progress(mst_control *control, uint64_t current);
/* Makes this the poison of its epoch, and tells the neighbours, unless there is one of this epoch,
 * or a newer one. Returns whether it is new. Before the first progress no epoch is current. */
bool mst_control_poison(mst_control *control, const mst_control_message *message);
/* Has the epoch been poisoned so? Threads: any, without the lock. */
static inline bool mst_control_is_poisoned(const mst_control *control, mst_control_type type, uint64_t epoch) {
    const uint64_t last = atomic_load(&control->poisoned[type]);
    return last >= epoch && atomic_load(&control->poisoned_first[type]) <= epoch;
}
/* Asks a process for the waiter. false: no slot is free now. */
bool mst_control_ask(mst_control *control, mst_control_waiter *waiter, int32_t process);
/* Is anything on its way from here? */
bool mst_control_is_sending(mst_control *control);
/* Ends the receive. Returns whether the wire may still read or write *control. */
bool mst_control_close(mst_control *control);

#endif
