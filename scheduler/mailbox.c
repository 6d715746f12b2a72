/* Messages from one member of a team to another: a rendezvous. The sender fills the box and posts;
 * the receiver uses the sender's memory inside sections, and takes the post when it needs no more
 * of it. */
#include "team_private.h"

#include <string.h>

/* Both sides may come first; the one that loses the race frees what it made. */
muster_status mst_box_open(mst_team *team, int32_t to) {
    mst_team_member *receiver = &team->members[to];
    if (atomic_load(&receiver->boxes)) return MUSTER_OK;
    mst_box *made = mst_alloc((size_t)team->size * sizeof(*made)), *none = NULL;
    if (!made) return mst_out_of_memory("the mailboxes of a rank", (int64_t)team->size * (int64_t)sizeof(*made));
    if (!atomic_compare_exchange_strong(&receiver->boxes, &none, made)) mst_free(made);
    return MUSTER_OK;
}

static mst_box *box_to(mst_team *team, const muster_worker *worker, int32_t to) {
    return &atomic_load(&team->members[to].boxes)[mst_team_member_of(team, worker)];
}
static mst_box *box_from(mst_team *team, const muster_worker *worker, int32_t from) {
    return &atomic_load(&mst_team_self(team, worker)->boxes)[from];
}

uint64_t mst_box_post(mst_team *team, muster_worker *worker, int32_t to, const void *payload) {
    mst_box *box = box_to(team, worker, to);
    uint64_t tag = mst_next_tag(worker, &box->post_epoch, &box->post_sequence);
    memcpy(box->payload, payload, MST_BOX_PAYLOAD);
    atomic_store(&box->posted, tag);
    mst_eventcount_notify(mst_worker_eventcount(worker));
    return tag;
}

muster_status mst_box_wait_taken(mst_team *team, muster_worker *worker, int32_t to, uint64_t tag, const char *what, int64_t message_tag) {
    const mst_box *box = box_to(team, worker, to);
    mst_peer_wait m = {.worker = worker,
                       .team = team,
                       .what = what,
                       .action = "receiving the message of",
                       .message_tag = message_tag,
                       .peer = team->members[to].rank,
                       .word = &box->taken,
                       .target = tag,
                       .reading = &box->reading};
    return mst_peer_wait_run(&m);
}

/* The post that comes next stays the same until it is taken. */
static uint64_t next_post(mst_box *box, muster_worker *worker) {
    if (box->take_epoch != worker->epoch) mst_next_tag(worker, &box->take_epoch, &box->take_sequence);
    return (worker->epoch << MST_SEQUENCE_BITS) + box->take_sequence;
}

muster_status mst_box_wait_post(mst_team *team, muster_worker *worker, int32_t from, const char *what, int64_t message_tag,
                                mst_post *post) {
    mst_box *box = box_from(team, worker, from);
    post->tag = next_post(box, worker);
    mst_peer_wait m = {.worker = worker,
                       .team = team,
                       .what = what,
                       .action = "sending the message of",
                       .message_tag = message_tag,
                       .peer = team->members[from].rank,
                       .word = &box->posted,
                       .target = post->tag};
    MUSTER_TRY(mst_peer_wait_run(&m));
    memcpy(post->payload, box->payload, MST_BOX_PAYLOAD);
    return MUSTER_OK;
}

bool mst_box_find_post(mst_team *team, muster_worker *worker, int32_t from, mst_post *post) {
    mst_box *box = box_from(team, worker, from);
    post->tag = next_post(box, worker);
    if (atomic_load(&box->posted) < post->tag) return false;
    memcpy(post->payload, box->payload, MST_BOX_PAYLOAD);
    return true;
}

muster_status mst_box_read_begin(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag) {
    return mst_section_begin(team, worker, &box_from(team, worker, from)->reading, tag);
}

void mst_box_read_end(mst_team *team, muster_worker *worker, int32_t from) {
    mst_section_end(worker, &box_from(team, worker, from)->reading);
}

void mst_box_take(mst_team *team, muster_worker *worker, int32_t from, uint64_t tag) {
    mst_box *box = box_from(team, worker, from);
    mst_next_tag(worker, &box->take_epoch, &box->take_sequence);
    atomic_store(&box->taken, tag); /* ends the section by itself: the sender waits for it first */
    mst_eventcount_notify(mst_worker_eventcount(worker));
}
