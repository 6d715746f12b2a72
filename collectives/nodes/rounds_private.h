/* What the rounds, and all waits for other processes, share in a runtime. */
#ifndef MST_ROUNDS_PRIVATE_H
#define MST_ROUNDS_PRIVATE_H

#include "arrive_private.h"
#include "control_private.h"
#include "nodes_impl.h"

/* The kinds of arrivals on lane 0. Communicators have kinds of their own, on their lanes. */
typedef enum mst_round_kind {
    MST_ROUND_OPEN = 1, /* the hosts, when the wire is open */
    MST_ROUND_JOIN,     /* what must be equal, ranks, names */
    MST_ROUND_BEGIN,
    MST_ROUND_END,
    MST_ROUND_SENTENCES, /* what the named processes say, after a failure */
    MST_ROUND_CLOSE
} mst_round_kind;

/* Epoch 1 is that of opening, so that 0 is none; the calls follow. */
enum { MST_EPOCH_OPEN = 1, MST_CALL_TEXT = MST_ROUND_TEXT + 40 };

typedef struct mst_rounds {
    mst_arrival arrival; /* lane 0, MST_ROUND_BYTES */
    mst_control control;
    uint64_t epoch, sequence;                        /* of the next arrival; epoch: written under the lock of the wire */
    char text[MST_ROUND_TEXT], last[MST_ROUND_TEXT]; /* what this call does; the last one before it that all have begun; "": none */
    uint64_t text_epoch, last_epoch;                 /* of `text` and `last` */
    bool begun;                                      /* all have begun this call, or refused it together */
    int32_t closed;                                  /* a process that has closed its runtime, or -1 */
    char lost[MST_MESSAGE_SIZE];                     /* how nodes->lost was said first; written once, before that */
    int64_t lost_ns;                                 /* and when */
    int32_t on_lost;
    bool refused;          /* all processes refuse to open, for the same reason, and close together */
    int64_t lost_grace_ns; /* before the end of the launch, so that other processes can say what they know */
    void (*log)(void *user, muster_log_level level, const char *line);
    void *log_user;
    struct mst_unattended *unattended; /* guarded by the lock of the wire */
} mst_rounds;

/* ---- ranks that have returned (returned.c) ---- */

/* A wait that asks from time to time whether a rank of another process has returned from its task
 * without what is waited for. */
typedef struct mst_nodes_wants {
    /* What is needed now of another process, whose number it returns; -1: nothing. The caller holds
     * the lock of the wire. */
    int32_t (*wanted)(void *context, mst_control_wanted *wanted);
    /* Is what `wanted` said still needed? Then it will never come. The caller holds the lock. */
    bool (*holds)(void *context);
    /* The error about it: the answer of the process. */
    muster_status (*refuse)(void *context, int32_t process, const mst_control_message *answer);
    void *context;
} mst_nodes_wants;

typedef struct mst_returned {
    int64_t ask_ns, pause_ns;      /* when to ask next */
    int64_t asked_ns, patience_ns; /* when the open question was asked, and after how long it is asked again */
    int32_t process;               /* that is asked, or was last */
} mst_returned;
/* One step: asks, or looks at the answer. Returns whether a rank has returned. The caller holds the
 * lock of the wire. */
struct mst_nodes_wait;
bool mst_returned_look(mst_nodes *nodes, struct mst_nodes_wait *wait, mst_returned *returned, int64_t now_ns);
/* The wait has begun, or has just moved something: no question is needed for a while. */
void mst_returned_rest(mst_returned *returned, int64_t now_ns);

/* ---- waiting (wait.c) ---- */

/* What the poison of an epoch means to a wait. */
typedef enum mst_wait_phase {
    MST_WAIT_ROUND = 0, /* of a begin round and all outside of calls: GIVEN_UP and CLOSED end it */
    MST_WAIT_CALL       /* inside of a call: FAILED, too, with ABORTED; a deadline poisons the call */
} mst_wait_phase;

typedef struct mst_nodes_wait {
    mst_control_waiter waiter; /* doing: what other processes say of this one, "all_reduce of call 17"; lane; epoch: of the call */
    const char *where;         /* for messages */
    mst_wait_phase phase;
    const mst_nodes_wants *wants; /* NULL: it does not ask for ranks that have returned */
    /* Called in each turn, without the lock: true ends the wait with ABORTED, without a message. */
    bool (*aborted)(void *context);
    void *context;
    const mst_round *round;               /* an end round, which asks its must_end; NULL: none */
    int64_t spin_ns;                      /* spin for so long, then yield, then sleep up to 1 ms */
    int64_t warn_after_ns, fail_after_ns; /* negative: never */
    /* After TIMEOUT: the process that is late; its host and what is known of it are in the message.
     * silent: it has not answered. */
    int32_t late;
    bool silent;
    bool returned; /* the error is that of `wants`: a rank has returned */
} mst_nodes_wait;

/* Drives the machine until it is done. Every thread of a process may wait at the same time, each
 * for a machine of its own. Errors: those of the machine; ABORTED (poison, aborted); TIMEOUT,
 * naming the process that is late, found by asking along the chain of waits; NODE_LOST; that of
 * `wants`. The machine has then been given up: it may have requests in progress. */
muster_status mst_nodes_wait_run(mst_nodes *nodes, mst_nodes_wait *wait, mst_machine *machine);

/* Has the call in progress failed in any process, as far as this one knows by now? Takes what has
 * come, and does not wait. context: the nodes. Threads: workers of the call. */
bool mst_nodes_call_failed(void *context);

/* A machine that its owner cannot drive now, because it waits for ranks of its own process. A
 * thread that waits for other processes drives the machine beside its own. */
typedef struct mst_unattended {
    struct mst_unattended *next;
    mst_machine *machine;
    mst_progress progress;
    char message[MST_MESSAGE_SIZE]; /* of FAILED */
} mst_unattended;
/* From `begin`, which drives it once, to `end`, which must follow, nobody else may drive the
 * machine. Between them no more than its progress is known: what it has failed with becomes the
 * thread's last error in `end`, with the status SYSTEM. A machine that is LOST is so again when its
 * owner drives it. */
void mst_nodes_unattended_begin(mst_nodes *nodes, mst_unattended *unattended, mst_machine *machine);
muster_status mst_nodes_unattended_end(mst_nodes *nodes, mst_unattended *unattended, const char *where);

/* Whom a wait is late for (late.c). `text` becomes a clause behind "which": "does not answer".
 * false: the wait has ended meanwhile. */
enum { MST_LATE_TEXT = 320 };
typedef struct mst_late {
    int32_t path[24], hops; /* the processes asked so far; the last one is late */
    int64_t asked_ns;       /* the last one, or when no slot was free for that first; 0: not yet */
    bool held;              /* no slot was free yet */
    bool done, silent;
    char text[MST_LATE_TEXT];
} mst_late;
/* One step of the search. The caller holds the lock of the wire. */
void mst_late_look(mst_nodes *nodes, mst_nodes_wait *wait, mst_late *late, int64_t now_ns);

/* Waits that go on after a deadline, until it is certain who is lost: at one search a process may
 * only have lacked a CPU. Zeroed: no search has been made. */
typedef struct mst_suspicion {
    int32_t process, searches; /* whom the last one has named, if there was one */
} mst_suspicion;
/* After TIMEOUT. true: two searches in a row have named wait->late, or there were enough of them;
 * else the next one comes sooner. names: this search has named it. */
bool mst_late_is_lost(mst_suspicion *suspicion, mst_nodes_wait *wait, bool names);

/* ---- rounds (rounds.c) ---- */

/* The epoch of the call in progress, or of the last one. Threads: the workers of the call, and who
 * has entered the pool. */
static inline uint64_t mst_nodes_epoch(const mst_nodes *nodes) { return nodes->rounds->epoch; }
/* Calls are numbered from 1. */
static inline uint64_t mst_call_number(uint64_t epoch) { return epoch - MST_EPOCH_OPEN; }

/* One arrival on lane 0, with the next sequence number. wait: where, doing and deadlines are
 * set. */
muster_status mst_rounds_arrive(mst_nodes *nodes, mst_arrival_input *input, mst_nodes_wait *wait);
/* The next arrival is the first one of this epoch. */
void mst_rounds_enter(mst_nodes *nodes, uint64_t epoch);
/* mst_control_poison, with the thread's last error as the text. */
void mst_rounds_poison(mst_nodes *nodes, mst_control_message message);
/* Ends this epoch in all processes, with the thread's last error. Returns status. */
muster_status mst_rounds_give_up(mst_nodes *nodes, muster_status status);
/* After an arrival whose header has a failure: that status, with the same sentence in all
 * processes, which names the process. status: of this process in the arrival; if that is a failure,
 * its sentence is the thread's last error. */
muster_status mst_rounds_failed(mst_nodes *nodes, const char *where, const mst_nodes_wait *wait, muster_status status);
/* After an arrival in which all have seen that the members `first` and `second` (-1: none) have
 * something to say: brings their sentences to all. Each gives its own in `mine`; sentences[0] and
 * sentences[1] become those of the two, "" if they could not be had. */
void mst_rounds_sentences(mst_nodes *nodes, const mst_nodes_wait *wait, int32_t first, int32_t second, const char *mine,
                          char sentences[2][MST_MESSAGE_SIZE]);

/* The status with which the call in progress has failed, by the reports that have come here from
 * any process, this one too. OK: no report has come. text: becomes the message; NULL: the caller
 * does not want it. */
muster_status mst_rounds_failed_with(const mst_nodes *nodes, char text[MST_MESSAGE_SIZE]);

/* ---- calls that are ended (ended.c) ---- */

/* Adds the name of this process to the thread's last error. */
void mst_ended_name(const mst_nodes *nodes);
/* The status that this process brings to a begin round (refuse) and to an end round (hear):
 * round->status or CANCELLED. The message is the thread's last error. */
muster_status mst_ended_refuse(const mst_nodes *nodes, const mst_round *round);
muster_status mst_ended_hear(const mst_nodes *nodes, const mst_round *round);
/* This process is told to end the call, and waits in its end round: tells the others. */
void mst_ended_report(mst_nodes *nodes, const mst_round *round);

/* ---- what differs (differing.c) ---- */

/* After an arrival in which all have seen that the calls of the processes `one` and `other` differ:
 * INVALID_ARGUMENT, with the same sentence in all processes, which says in what. */
muster_status mst_rounds_differ(mst_nodes *nodes, const mst_round *round, const mst_nodes_wait *wait, int32_t one, int32_t other);

/* ---- the close (close.c) ---- */

/* Arrives with the others to close. TIMEOUT: they have not come for patience_ns, from 0 on. Their
 * next round returns BAD_STATE then, which says that this process has closed. BAD_STATE: another
 * process has closed so. Else as mst_nodes_wait_run. */
muster_status mst_rounds_close(mst_nodes *nodes, int64_t patience_ns);
/* Has the arrival completed though some close and some do not? */
bool mst_close_is_mixed(const mst_arrival_header *header);
/* A caller has seen that in its arrival, or another process has told it. Returns BAD_STATE, as all
 * later calls do. */
muster_status mst_close_seen(mst_nodes *nodes, const char *caller);
muster_status mst_close_told(mst_nodes *nodes, const char *caller);
/* BAD_STATE: this process has closed its runtime. */
muster_status mst_close_refuse(const mst_nodes *nodes, const char *caller, int32_t process);

/* ---- lost processes (lost.c) ---- */

/* Says that a process is lost, to the other processes, too, and does what the option on_lost
 * demands; from then on every round is refused. process -1: as the wire knows. why: "has ended".
 * The caller does not hold the lock. Returns NODE_LOST, with the message. */
muster_status mst_nodes_lose(mst_nodes *nodes, const char *where, int32_t process, const char *why);
/* The same where another process has said it: its message. */
muster_status mst_nodes_lose_as(mst_nodes *nodes, const char *message);
/* Before the end of a process that has lost another: for a moment, so that others, which only look
 * for who has ended, do not find this one. */
void mst_nodes_linger(mst_nodes *nodes);
/* What every later call gets: NODE_LOST, with what was said then. */
muster_status mst_nodes_lost_before(const mst_nodes *nodes, const char *where);

#endif
