/* The inside of a team, shared by team.c and mailbox.c only. */
#ifndef MST_TEAM_PRIVATE_H
#define MST_TEAM_PRIVATE_H

#include "peer_wait_private.h"

/* From one member to one other. What the sender writes and what the receiver writes are on lines of
 * their own. */
typedef struct mst_box {
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t posted; /* the newest post */
    char payload[MST_BOX_PAYLOAD];
    uint64_t post_epoch, post_sequence;              /* of the sender */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t taken; /* the newest post that the receiver has done with */
    _Atomic uint64_t reading;                        /* the post whose memory the receiver is using, 0: none */
    uint64_t take_epoch, take_sequence;              /* of the receiver: the post that it takes next */
} mst_box;

typedef struct mst_team_member {
    mst_flag_line lines[2];
    /* the newest tag under which this member has finished with its peers' memory */
    _Alignas(MST_CACHE_LINE) _Atomic uint64_t left;
    /* the newest tag under which it began to use it; 0: it turned back */
    _Atomic uint64_t reading;
    _Alignas(MST_CACHE_LINE) uint64_t epoch, sequence; /* of this member alone: its last tag */
    /* [size], messages to this member by sender; NULL until the first */
    mst_box *_Atomic boxes;
    int32_t rank; /* in the pool */
} mst_team_member;

struct mst_team {
    mst_pool *pool;
    int32_t size;
    bool all_workers; /* all workers of the pool, in their order */
    mst_team_member *members;
    int32_t *member_of;   /* by rank in the pool; -1: none */
    const int32_t *ranks; /* [size] how messages call the members; NULL: by their numbers */
};

static inline mst_team_member *mst_team_self(mst_team *team, const muster_worker *worker) {
    return &team->members[team->member_of[worker->rank]];
}
static inline mst_eventcount *mst_worker_eventcount(const muster_worker *worker) { return &worker->pool->states[worker->rank].eventcount; }

/* Stores `reading`, then checks whether the run is aborted: if so, clears it and returns
 * ABORTED. */
muster_status mst_section_begin(const mst_team *team, muster_worker *worker, _Atomic uint64_t *reading, uint64_t tag);
void mst_section_end(muster_worker *worker, _Atomic uint64_t *reading);

#endif
