/* Teams and mailboxes: how the workers of a pool wait for each other inside a task. */
#ifndef MST_TEAM_IMPL_H
#define MST_TEAM_IMPL_H

#include "worker_impl.h"

typedef struct mst_team mst_team;

/* A team: some workers of a pool that wait for each other. Collectives are built on it. The members
 * have numbers from 0; below, `member` is such a number. A team can be created at any time, also
 * inside a run by one worker. It may be destroyed when no member is inside it.
 *
 * A tag is the epoch of the run and the number of the rendezvous in it. Tags only grow, so that
 * nothing is reset after a failure. Each member has two flag lines, which it uses in turn.
 *
 * Rule: every member waits for the arrival of every member in every rendezvous. So no member writes
 * a flag line again before all members have finished with the rendezvous two before. The contents
 * of the lines, and memory that is used in turn as they are, therefore need no second rendezvous.
 * Memory that a member offers by its address does: see mst_team_leave. */
enum { MST_FLAG_PAYLOAD = 56, MST_BOX_PAYLOAD = 16 };
typedef struct mst_flag_line {
    /* the newest tag at which this member has arrived on this line */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t arrived;
    char payload[MST_FLAG_PAYLOAD];
} mst_flag_line;

/* members[count] are ranks in the pool, all different; NULL means all workers. */
muster_status mst_team_create(mst_pool *pool, const int32_t *members, int32_t count, mst_team **team);
void mst_team_destroy(mst_team *team);
/* The worker's number in the team, or -1 if it is no member. */
int32_t mst_team_member_of(const mst_team *team, const muster_worker *worker);
/* The name of the worker of rank `rank` in messages to a member of this team. It is "rank 1 (worker
 * 3)" with its number in the team first, "rank 1" if the two are equal, and "worker 3" if it is no
 * member. Returns text. */
enum { MST_RANK_TEXT = 40 };
/* From now on member m is called rank ranks[m]. The array is the caller's as long as the team. */
void mst_team_name_members(mst_team *team, const int32_t *ranks);
const char *mst_team_rank_text(const mst_team *team, int32_t rank, char text[MST_RANK_TEXT]);
/* The tag of this worker's next rendezvous. Its flag line is tag & 1. */
uint64_t mst_team_tag(mst_team *team, muster_worker *worker);
mst_flag_line *mst_team_flag_line(mst_team *team, int32_t member, uint64_t tag);

/* Publishes this worker's arrival at `tag` and the payload of its flag line, which it has
 * filled. */
void mst_team_arrive(mst_team *team, muster_worker *worker, uint64_t tag);
/* Waits until `member` has arrived at `tag`. `what` is the name of the operation, a literal.
 * Errors: ABORTED (the run is aborted, or the member has returned from its task without arriving),
 * INVALID_ARGUMENT (the member waits for this worker in turn, as in a send),
 * TIMEOUT (at the deadline, which aborts the run; the message names the late rank, what it finished
 * last, and what this worker waits for). */
muster_status mst_team_wait(mst_team *team, muster_worker *worker, int32_t member, uint64_t tag, const char *what);
/* The same for every member. */
muster_status mst_team_wait_all(mst_team *team, muster_worker *worker, uint64_t tag, const char *what);
/* Begins a section in which this worker reads or writes the memory of other members. ABORTED if the
 * run is aborted already: the worker must not touch that memory then. */
muster_status mst_team_read_begin(mst_team *team, muster_worker *worker, uint64_t tag);
/* Ends the section. */
void mst_team_read_end(mst_team *team, muster_worker *worker, uint64_t tag);
/* Waits until no member uses this worker's memory under `tag`: every member has ended its section,
 * or the run is aborted and no member is inside one. A member that has arrived with memory on offer
 * must call it, also after a failure. */
muster_status mst_team_leave(mst_team *team, muster_worker *worker, uint64_t tag, const char *what);

/* Has the worker of rank `rank` in the pool returned from the task of the run in which `worker` is,
 * or is only the last rendezvous left for it, while nothing has failed in the run? Threads: any,
 * while `worker` is in its task. */
bool mst_worker_has_returned(const muster_worker *worker, int32_t rank);

/* Has the call in progress failed in another process? The pool asks it for muster_worker_cancelled,
 * on the thread of a worker. Set between runs; NULL: there are no other processes. */
typedef bool (*mst_elsewhere)(void *context);
void mst_pool_set_elsewhere(mst_pool *pool, mst_elsewhere elsewhere, void *context);
bool mst_worker_failed_elsewhere(const muster_worker *worker);
/* Until it is called again with false, this worker waits for another process. That wait has the
 * deadlines of the run, and names the process: so a worker whose deadline passes while it waits for
 * this one, or for one that waits for this one, neither warns nor fails, as it would blame one that
 * is not late. */
void mst_worker_waits_elsewhere(muster_worker *worker, bool waits);

/* A mailbox: one message after another from one member to another, each a rendezvous. The sender
 * posts, and waits until the post is taken. The receiver waits for the next post, reads the
 * sender's memory in one or more sections, and then takes the post. message_tag is the user's tag,
 * which error messages name; a negative number means none. */
typedef struct mst_post {
    uint64_t tag;
    char payload[MST_BOX_PAYLOAD];
} mst_post;
/* Creates the boxes for messages to `to` if there are none. Call it on either side before any of
 * the functions below. Errors: OUT_OF_MEMORY. */
muster_status mst_box_open(mst_team *team, int32_t to);
/* Posts the MST_BOX_PAYLOAD bytes of the payload, and returns the tag of the post. */
uint64_t mst_box_post(mst_team *team, muster_worker *worker, int32_t to, const void *payload);
/* Waits until the post is taken. After a failure it returns when the receiver is outside its
 * section. */
muster_status mst_box_wait_taken(mst_team *team, muster_worker *worker, int32_t to, uint64_t tag, const char *what, int64_t message_tag);
/* Waits until the sender has a post that is not taken yet. */
muster_status mst_box_wait_post(mst_team *team, muster_worker *worker, int32_t from, const char *what, int64_t message_tag, mst_post *post);
/* The same without waiting: false where there is none yet. */
bool mst_box_find_post(mst_team *team, muster_worker *worker, int32_t from, mst_post *post);
/* Begins a section in which the receiver reads the sender's memory. Errors: ABORTED. */
muster_status mst_box_read_begin(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag);
/* Ends the section; the post is not taken. */
void mst_box_read_end(mst_team *team, muster_worker *worker, int32_t from);
/* Takes the post, and ends the section. */
void mst_box_take(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag);

#endif
