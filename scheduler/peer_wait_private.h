/* The waits of one worker for another (peer_wait.c), of which teams and mailboxes are made. */
#ifndef MST_PEER_WAIT_PRIVATE_H
#define MST_PEER_WAIT_PRIVATE_H

#include "pool_state_private.h"
#include "team_impl.h"

/* One wait of one worker for one word of another. */
typedef struct mst_peer_wait {
    muster_worker *worker;
    const mst_team *team;         /* the team of both, by which messages name the peer */
    const char *what;             /* the operation, a literal */
    const char *action;           /* what the peer has yet to do, for error messages: "entering it", "receiving it" ... */
    int64_t message_tag;          /* the user's tag of the message that is waited for; negative: none */
    int32_t peer;                 /* rank in the pool of the worker that writes the word */
    const _Atomic uint64_t *word; /* wait until it is >= target */
    uint64_t target;
    /* for mst_team_leave: in an aborted run, wait also while this word is `target`; else NULL */
    const _Atomic uint64_t *reading;
    muster_status gave_up; /* set by mst_peer_wait_run: with this, the wait has aborted the run; else MUSTER_OK */
} mst_peer_wait;
/* peer_cycle.c. Workers that wait, each for the next, the last for this one: from the peer on. */
enum { MST_PEER_CYCLE = 64 };
typedef struct mst_peer_cycle {
    int32_t count; /* 0: there is none */
    int32_t ranks[MST_PEER_CYCLE];
    const char *what[MST_PEER_CYCLE];
} mst_peer_cycle;
/* publish: the others may see how the worker waits, until conceal. Then the word's memory may be
 * gone. */
void mst_peer_wait_publish(mst_worker_state *state, const mst_peer_wait *wait);
void mst_peer_wait_conceal(mst_worker_state *state);
/* Does this wait, which has been published, close a cycle of at most MST_PEER_CYCLE others? */
bool mst_peer_cycle_find(const mst_peer_wait *wait, mst_peer_cycle *found);
/* Waits. Errors: ABORTED, TIMEOUT, INVALID_ARGUMENT (the peer has returned, or waits in
 * turn for this worker). */
muster_status mst_peer_wait_run(mst_peer_wait *wait);
/* Sets the error of a wait in an aborted run, and returns it. */
muster_status mst_peer_wait_aborted(muster_worker *worker, const mst_team *team, const char *what);
/* The next tag, epoch << MST_SEQUENCE_BITS | ++*sequence. *epoch is the epoch of the last tag; in a
 * new run *sequence begins again. */
uint64_t mst_next_tag(muster_worker *worker, uint64_t *epoch, uint64_t *sequence);

#endif
