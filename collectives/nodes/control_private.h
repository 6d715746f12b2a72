/* Control messages between processes, taken and answered by whoever waits: that a call has failed
 * (poison), whom a process waits for, and whether a rank has returned from its task (questions and
 * answers). It never waits; the caller holds the lock of the wire unless it says otherwise. It
 * reads the clock only to see for how long another process has taken nothing. */
#ifndef MST_CONTROL_PRIVATE_H
#define MST_CONTROL_PRIVATE_H

#include "channel_private.h"
#include "status_impl.h"

struct muster_worker;
struct mst_round;
struct mst_control_waiter;

/* Questions and poison leave one slot to answers. */
enum { MST_CONTROL_SLOTS = 9, MST_CONTROL_ASKING_SLOTS = 8, MST_CONTROL_STEPS = 31 };

typedef enum mst_control_type {
    MST_CONTROL_FAILED = 0,                          /* poison: the call with this epoch has failed; its end round follows */
    MST_CONTROL_GIVEN_UP,                            /* poison: this epoch has ended where it comes from; no round follows */
    MST_CONTROL_CLOSED,                              /* poison: a process has closed, and takes no part in this epoch and all after it */
    MST_CONTROL_POISON_KINDS,                        /* how many kinds of poison there are */
    MST_CONTROL_QUESTION = MST_CONTROL_POISON_KINDS, /* whom do you wait for? */
    MST_CONTROL_RETURNED,                            /* a question: has a rank of yours returned without what I wait for? */
    MST_CONTROL_ANSWER
} mst_control_type;

/* What a process waits for on a lane. Ranks are those of the communicator. */
typedef struct mst_control_wanted {
    uint64_t birth;     /* of the communicator, below */
    uint64_t arrival;   /* the number of an arrival, which all members enter; 0: a message between these ranks: */
    int32_t rank, peer; /* rank waits for peer */
    int64_t tag;
    bool sends; /* rank sends it */
} mst_control_wanted;

typedef struct mst_control_message {
    uint32_t magic; /* MST_CONTROL_MAGIC */
    mst_control_type type;
    uint64_t epoch;  /* poison: of which call. answer: of the wait */
    uint64_t first;  /* GIVEN_UP: this epoch and all up to `epoch` were given up; 0: `epoch` alone */
    uint64_t number; /* of a question and its answer */
    int32_t lane;    /* of a question: it is asked from there; of an answer: of the wait */
    muster_status status;
    /* poison: the rank that failed, or -1. answer: the rank of the communicator that has returned,
     * MST_CONTROL_NO_RANK or MST_CONTROL_ALL_RANKS */
    int32_t rank;
    int32_t process;             /* poison: where it comes from; CLOSED: who has closed. answer: the process that is waited for, or -1 */
    mst_control_wanted wanted;   /* of RETURNED */
    char text[MST_MESSAGE_SIZE]; /* poison: the message. answer: in what it waits; why the rank has run nothing, or "" */
} mst_control_message;
enum { MST_CONTROL_MAGIC = 0x4d535435 };
/* ALL_RANKS: the process has ended its part of the call, and has that communicator no more. */
enum { MST_CONTROL_NO_RANK = -1, MST_CONTROL_ALL_RANKS = -2 };

/* A question that is open, and its answer. */
typedef struct mst_control_question {
    uint64_t number; /* 0: none is open */
    bool answered;
    mst_control_message answer;
} mst_control_question;

/* A communicator of this process, for the questions of others. The owner sets lane, birth, returned
 * and owner. */
typedef struct mst_control_lane {
    struct mst_control_lane *next;
    int32_t lane;
    uint64_t birth;          /* tells it from all others that have had the lane; the same in all its processes */
    uint64_t epoch, arrival; /* the newest arrival that this process has entered: of the call `epoch` its number */
    /* A rank of this process that has returned from its task without failure, and will not do what
     * is wanted; else MST_CONTROL_NO_RANK. `waiter`: one of this process in the call of the
     * question. text: "has no rows, and ...", or stays "". */
    int32_t (*returned)(struct mst_control_lane *lane, const struct mst_control_waiter *waiter, const mst_control_wanted *wanted,
                        char text[MST_MESSAGE_SIZE]);
    void *owner;
} mst_control_lane;

/* The last epoch of CLOSED. As the epoch of GIVEN_UP it ends this epoch and all that follow: a
 * process is lost. A process that has ended the call in which others have found that out learns of
 * it in its next one. */
#define MST_CONTROL_FOR_EVER UINT64_MAX

/* One that waits (wait.c): what answers say of it, and its own question. */
typedef struct mst_control_waiter {
    struct mst_control_waiter *next;
    mst_machine *machine;
    const char *doing;
    uint64_t epoch;
    int32_t lane;
    /* What this process knows then of its tasks: worker: they run, and this is the one that waits.
     * ended: all have returned, and none has failed. NULL: neither. */
    const struct muster_worker *worker;
    const struct mst_round *ended;
    mst_control_lane *enters; /* the lane whose arrival `arrival` it enters by this wait; NULL: none */
    uint64_t arrival;
    mst_control_question late, returned; /* of late.c and returned.c */
} mst_control_waiter;

typedef struct mst_control {
    mst_wire *wire;
    mst_control_waiter *waiters;
    mst_control_lane *lanes;
    /* Communicators that this process has released in the newest call in which it has entered
     * something on one of them: others may still be on their way through that. */
    mst_control_lane *left;
    /* A message from any process; while it cannot be answered for lack of a slot it stays. */
    muster_wire_request receive;
    bool there;
    mst_control_message incoming;
    /* The newest poison of each kind, but of CLOSED that of the lowest epoch; and which neighbours
     * have not got it yet (bits). GIVEN_UP also ends the epochs before its own that were given
     * up one after the other, of which it may be the only news, and all that this process has not
     * begun: without it nobody can have come to their ends. */
    _Atomic uint64_t poisoned[MST_CONTROL_POISON_KINDS];       /* the last epoch that it ends; 0: none */
    _Atomic uint64_t poisoned_first[MST_CONTROL_POISON_KINDS]; /* the first epoch that it ends */
    uint64_t current;                                          /* of the last progress */
    mst_control_message poison[MST_CONTROL_POISON_KINDS];
    uint32_t to_flood[MST_CONTROL_POISON_KINDS];
    int32_t steps;
    struct mst_control_slot {
        muster_wire_request request;
        int32_t to;
        int64_t sent_ns;
        mst_control_message message;
    } flood[MST_CONTROL_POISON_KINDS][MST_CONTROL_STEPS], slots[MST_CONTROL_SLOTS]; /* of poison; of the rest */
    uint64_t questions;
    const char *without_wait; /* what it answers that it is in, where nothing waits here; NULL: a body */
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
/* Asks a process: type, epoch, lane and wanted of `what` are set. false: no slot is free now. */
bool mst_control_ask(mst_control *control, mst_control_question *question, const mst_control_message *what, int32_t process);
/* Has the other process not taken the question yet? Until then it has not dropped it. */
bool mst_control_is_leaving(mst_control *control, const mst_control_question *question);
/* When no slot is free: is one of them on its way to this process? Then the process; else one of
 * those that have not taken what is on its way to them. */
int32_t mst_control_held_by(const mst_control *control, int32_t process);
/* The waiter is there from `enter` to `leave`; what it has asked before is forgotten. */
void mst_control_enter(mst_control *control, mst_control_waiter *waiter);
void mst_control_leave(mst_control *control, mst_control_waiter *waiter);
/* The communicator is there until `remove`, which accepts NULL. Its memory, of mst_alloc, is freed
 * by `control` after that, when the call has ended in which something was entered last. */
void mst_control_add(mst_control *control, mst_control_lane *lane);
void mst_control_remove(mst_control *control, mst_control_lane *lane);
/* Has this process entered the arrival of the question, on the communicator of the question? It may
 * have released that since. */
bool mst_control_has_entered(const mst_control *control, const mst_control_message *question);
/* Is anything on its way from here? */
bool mst_control_is_sending(mst_control *control);
/* Ends the receive. Returns whether the wire may still read or write *control. */
bool mst_control_close(mst_control *control);

#endif
