/* Messages from one member of a party to another: a rendezvous. The sender fills the box and posts;
 * the receiver uses the sender's memory inside sections, and takes the post when it needs no more
 * of it. */
#include "party_impl.h"

#include <string.h>

/* Both sides may come first; the one that loses the race frees what it made. */
muster_status mst_box_open(mst_party *party, int32_t to) {
    mst_party_seat *receiver = &party->members[to];
    if (atomic_load(&receiver->boxes)) return MUSTER_OK;
    mst_box *made = mst_alloc((size_t)party->size * sizeof(*made)), *none = NULL;
    if (!made) return mst_out_of_memory("the mailboxes of a rank", (int64_t)party->size * (int64_t)sizeof(*made));
    if (!atomic_compare_exchange_strong(&receiver->boxes, &none, made)) mst_free(made);
    return MUSTER_OK;
}

static mst_box *box_to(mst_party *party, const muster_worker *worker, int32_t to) {
    return &atomic_load(&party->members[to].boxes)[mst_party_member(party, worker)];
}
static mst_box *box_from(mst_party *party, const muster_worker *worker, int32_t from) {
    return &atomic_load(&mst_party_own(party, worker)->boxes)[from];
}

uint64_t mst_box_post(mst_party *party, muster_worker *worker, int32_t to, const void *payload) {
    mst_box *box = box_to(party, worker, to);
    uint64_t tag = mst_next_tag(worker, &box->post_epoch, &box->post_sequence);
    memcpy(box->payload, payload, MST_BOX_PAYLOAD);
    atomic_store(&box->posted, tag);
    mst_bell_ring(mst_own_bell(worker));
    return tag;
}

muster_status mst_box_wait_taken(mst_party *party, muster_worker *worker, int32_t to, uint64_t tag, const char *what, int64_t message_tag) {
    const mst_box *box = box_to(party, worker, to);
    mst_meeting m = {.worker = worker,
                     .party = party,
                     .what = what,
                     .duty = "receiving the message of",
                     .message_tag = message_tag,
                     .peer = party->members[to].rank,
                     .word = &box->taken,
                     .target = tag,
                     .reading = &box->reading};
    return mst_meet(&m);
}

/* The post that comes next stays the same until it is taken. */
static uint64_t next_post(mst_box *box, muster_worker *worker) {
    if (box->take_epoch != worker->epoch) mst_next_tag(worker, &box->take_epoch, &box->take_sequence);
    return (worker->epoch << MST_SEQUENCE_BITS) + box->take_sequence;
}

muster_status mst_box_wait_post(mst_party *party, muster_worker *worker, int32_t from, const char *what, int64_t message_tag,
                                mst_post *post) {
    mst_box *box = box_from(party, worker, from);
    post->tag = next_post(box, worker);
    mst_meeting m = {.worker = worker,
                     .party = party,
                     .what = what,
                     .duty = "sending the message of",
                     .message_tag = message_tag,
                     .peer = party->members[from].rank,
                     .word = &box->posted,
                     .target = post->tag};
    MUSTER_TRY(mst_meet(&m));
    memcpy(post->payload, box->payload, MST_BOX_PAYLOAD);
    return MUSTER_OK;
}

muster_status mst_box_read_begin(mst_party *party, muster_worker *worker, int32_t from, uint64_t tag) {
    return mst_section_begin(party, worker, &box_from(party, worker, from)->reading, tag);
}

void mst_box_read_end(mst_party *party, muster_worker *worker, int32_t from) {
    mst_section_end(worker, &box_from(party, worker, from)->reading);
}

void mst_box_take(mst_party *party, muster_worker *worker, int32_t from, uint64_t tag) {
    mst_box *box = box_from(party, worker, from);
    mst_next_tag(worker, &box->take_epoch, &box->take_sequence);
    atomic_store(&box->taken, tag); /* ends the section by itself: the sender waits for it first */
    mst_bell_ring(mst_own_bell(worker));
}
