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
    bool timed_out; /* set by mst_peer_wait_run: this wait has aborted the run */
} mst_peer_wait;
/* Waits. Errors: ABORTED, TIMEOUT. */
muster_status mst_peer_wait_run(mst_peer_wait *wait);
/* Sets the error of a wait in an aborted run, and returns it. */
muster_status mst_peer_wait_aborted(muster_worker *worker, const mst_team *team, const char *what);
/* The next tag, epoch << MST_SEQUENCE_BITS | ++*sequence. *epoch is the epoch of the last tag; in a
 * new run *sequence begins again. */
uint64_t mst_next_tag(muster_worker *worker, uint64_t *epoch, uint64_t *sequence);

#endif
