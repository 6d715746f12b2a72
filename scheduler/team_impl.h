/* Teams and mailboxes: how the workers of a pool wait for each other inside a task. */
#ifndef MST_TEAM_IMPL_H
#define MST_TEAM_IMPL_H

#include "worker_impl.h"

typedef struct mst_team mst_team;

/* A team: some workers of a pool that wait for each other; collectives are built on it. Its members
 * have numbers of their own: below, a "member" is such a number. Made at any time, also inside a
 * run by one worker; destroyed when no member is inside it.
 *
 * Tags grow for ever: epoch of the run, and number of the rendezvous in it. So nothing is reset
 * after a failure. Each member has two flag lines, used alternately.
 * Rule: every member waits for all arrivals of every rendezvous. Then no member can write a flag
 * line before all have finished with the rendezvous two before, and the contents of the lines (and
 * memory used alternately like them) need no second rendezvous. Memory that is offered by address
 * does: leave. */
enum { MST_FLAG_PAYLOAD = 56, MST_BOX_PAYLOAD = 16 };
typedef struct mst_flag_line {
    /* the newest tag at which this member has arrived on this line */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t arrived;
    char payload[MST_FLAG_PAYLOAD];
} mst_flag_line;

/* members[count]: ranks in the pool, all different; NULL: all workers. */
muster_status mst_team_create(mst_pool *pool, const int32_t *members, int32_t count, mst_team **team);
void mst_team_destroy(mst_team *team);
int32_t mst_team_member_of(const mst_team *team, const muster_worker *worker); /* -1: none */
/* How messages name a worker, by its rank in the pool, to a member of this team: "rank 1 (worker
 * 3)", its member's number first; "rank 1" where the two are equal, "worker 3" where it is no
 * member. Returns text. */
enum { MST_RANK_TEXT = 40 };
const char *mst_team_rank_text(const mst_team *team, int32_t rank, char text[MST_RANK_TEXT]);
/* The tag of this worker's next rendezvous. Its flag line is tag & 1. */
uint64_t mst_team_tag(mst_team *team, muster_worker *worker);
mst_flag_line *mst_team_flag_line(mst_team *team, int32_t member, uint64_t tag);

/* arrive: fill the payload of the own line before. wait: until `member` has arrived at tag; checks
 * for abort and deadline: ABORTED if the run is aborted, or if the member has returned from its
 * task without arriving; TIMEOUT names the late rank, what it finished last and what this one waits
 * for, and aborts the run. what: the operation, a literal. wait_all: every member. */
void mst_team_arrive(mst_team *team, muster_worker *worker, uint64_t tag);
muster_status mst_team_wait(mst_team *team, muster_worker *worker, int32_t member, uint64_t tag, const char *what);
muster_status mst_team_wait_all(mst_team *team, muster_worker *worker, uint64_t tag, const char *what);
/* A reading section: begin declares that this worker reads (or writes) other members' memory
 * (ABORTED if the run is aborted already; it must not touch that memory then); end declares that it
 * has finished. leave waits until nobody uses this worker's memory under `tag`: every member has
 * ended its section, or the run is aborted and none is inside one. A member that has arrived with
 * memory on offer must call leave, also after a failure. */
muster_status mst_team_read_begin(mst_team *team, muster_worker *worker, uint64_t tag);
void mst_team_read_end(mst_team *team, muster_worker *worker, uint64_t tag);
muster_status mst_team_leave(mst_team *team, muster_worker *worker, uint64_t tag, const char *what);

/* A mailbox: one message after another from one member to another; a rendezvous. The sender posts,
 * and waits until what it posted is taken. The receiver waits for the next post; it reads the
 * sender's memory in sections of its own, several for one post if it likes, and then takes it.
 * message_tag: the user's, for messages; negative: none. */
typedef struct mst_post {
    uint64_t tag;
    char payload[MST_BOX_PAYLOAD];
} mst_post;
/* The boxes of messages to `to`, made on first use, before any of the calls below on either side:
 * OUT_OF_MEMORY. */
muster_status mst_box_open(mst_team *team, int32_t to);
/* payload: MST_BOX_PAYLOAD bytes */
uint64_t mst_box_post(mst_team *team, muster_worker *worker, int32_t to, const void *payload);
/* Until the post is taken. Also after a failure: returns once the receiver is outside its
 * section. */
muster_status mst_box_wait_taken(mst_team *team, muster_worker *worker, int32_t to, uint64_t tag, const char *what, int64_t message_tag);
/* Until the sender has posted something that is not taken yet. */
muster_status mst_box_wait_post(mst_team *team, muster_worker *worker, int32_t from, const char *what, int64_t message_tag, mst_post *post);
muster_status mst_box_read_begin(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag);
void mst_box_read_end(mst_team *team, muster_worker *worker, int32_t from);           /* the post stays */
void mst_box_take(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag); /* ends the section, too */

#endif
