/* The meeting places of workers: two lines per member, used in turn, on which the others wait for
 * its arrival. */
#include "party_impl.h"

#include <inttypes.h>
#include <stdio.h>

muster_status mst_party_create(mst_pool *pool, const int32_t *members, int32_t count, mst_party **party) {
    if (!members) count = pool->size;
    mst_party *made = mst_alloc(sizeof(*made));
    if (!made) return mst_out_of_memory("a party", sizeof(*made));
    made->pool = pool;
    made->size = count;
    made->members = mst_alloc((size_t)count * sizeof(*made->members));
    made->member_of = mst_alloc((size_t)pool->size * sizeof(*made->member_of));
    if (!made->members || !made->member_of) {
        mst_party_destroy(made);
        return mst_out_of_memory("the members of a party", (int64_t)count * (int64_t)sizeof(*made->members));
    }
    for (int32_t rank = 0; rank < pool->size; rank++) made->member_of[rank] = -1;
    for (int32_t member = 0; member < count; member++) {
        int32_t rank = members ? members[member] : member;
        made->members[member].rank = rank;
        made->member_of[rank] = member;
    }
    *party = made;
    return MUSTER_OK;
}

void mst_party_destroy(mst_party *party) {
    if (!party) return;
    for (int32_t member = 0; party->members && member < party->size; member++) mst_free(atomic_load(&party->members[member].boxes));
    mst_free(party->member_of);
    mst_free(party->members);
    mst_free(party);
}

int32_t mst_party_member(const mst_party *party, const muster_worker *worker) { return party->member_of[worker->rank]; }

const char *mst_party_rank_text(const mst_party *party, int32_t rank, char text[MST_RANK_TEXT]) {
    int32_t member = party->member_of[rank];
    if (member < 0)
        snprintf(text, MST_RANK_TEXT, "worker %" PRId32, rank);
    else if (member == rank)
        snprintf(text, MST_RANK_TEXT, "rank %" PRId32, rank);
    else
        snprintf(text, MST_RANK_TEXT, "rank %" PRId32 " (worker %" PRId32 ")", member, rank);
    return text;
}

uint64_t mst_party_tag(mst_party *party, muster_worker *worker) {
    mst_party_seat *own = mst_party_own(party, worker);
    worker->sequence++;
    return mst_next_tag(worker, &own->epoch, &own->sequence);
}

mst_party_line *mst_party_line_of(mst_party *party, int32_t member, uint64_t tag) { return &party->members[member].lines[tag & 1]; }

void mst_party_arrive(mst_party *party, muster_worker *worker, uint64_t tag) {
    atomic_store(&mst_party_own(party, worker)->lines[tag & 1].arrived, tag);
    mst_bell_ring(mst_own_bell(worker));
}

muster_status mst_party_wait(mst_party *party, muster_worker *worker, int32_t member, uint64_t tag, const char *what) {
    const mst_party_seat *peer = &party->members[member];
    if (peer->rank == worker->rank) return MUSTER_OK;
    mst_meeting m = {.worker = worker,
                     .party = party,
                     .what = what,
                     .duty = "entering",
                     .message_tag = -1,
                     .peer = peer->rank,
                     .word = &peer->lines[tag & 1].arrived,
                     .target = tag};
    return mst_meet(&m);
}

muster_status mst_party_wait_all(mst_party *party, muster_worker *worker, uint64_t tag, const char *what) {
    for (int32_t member = 0; member < party->size; member++) MUSTER_TRY(mst_party_wait(party, worker, member, tag, what));
    return MUSTER_OK;
}

muster_status mst_party_read_begin(mst_party *party, muster_worker *worker, uint64_t tag) {
    return mst_section_begin(party, worker, &mst_party_own(party, worker)->reading, tag);
}

/* `left` at the tag ends the section by itself: whoever waits for its end waits for `left`
 * first. */
void mst_party_read_end(mst_party *party, muster_worker *worker, uint64_t tag) {
    atomic_store(&mst_party_own(party, worker)->left, tag);
    mst_bell_ring(mst_own_bell(worker));
}

muster_status mst_party_leave(mst_party *party, muster_worker *worker, uint64_t tag, const char *what) {
    muster_status first = MUSTER_OK;
    /* every one, also after a failure: each may still be reading */
    for (int32_t member = 0; member < party->size; member++) {
        const mst_party_seat *peer = &party->members[member];
        if (peer->rank == worker->rank) continue;
        mst_meeting m = {.worker = worker,
                         .party = party,
                         .what = what,
                         .duty = "finishing",
                         .message_tag = -1,
                         .peer = peer->rank,
                         .word = &peer->left,
                         .target = tag,
                         .reading = &peer->reading};
        muster_status status = mst_meet(&m);
        if (first == MUSTER_OK) first = status;
    }
    return first;
}

muster_status mst_section_begin(const mst_party *party, muster_worker *worker, _Atomic uint64_t *reading, uint64_t tag) {
    atomic_store(reading, tag);
    if (__builtin_expect(!mst_run_lost(worker->pool, worker->epoch), 1)) return MUSTER_OK;
    mst_section_end(worker, reading);
    return mst_meeting_lost(worker, party, "reading the other ranks' memory");
}

void mst_section_end(muster_worker *worker, _Atomic uint64_t *reading) {
    atomic_store(reading, 0);
    mst_bell_ring(mst_own_bell(worker)); /* a peer may have seen "reading" and gone to sleep */
}
