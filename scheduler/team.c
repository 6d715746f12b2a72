/* Teams: two flag lines per member, used alternately, on which the others wait for its arrival. */
#include "team_private.h"

#include <inttypes.h>
#include <stdio.h>

muster_status mst_team_create(mst_pool *pool, const int32_t *members, int32_t count, mst_team **team) {
    const bool all_workers = !members;
    if (all_workers) count = pool->size;
    mst_team *made = mst_alloc(sizeof(*made));
    if (!made) return mst_out_of_memory("a team", sizeof(*made));
    made->all_workers = all_workers;
    made->pool = pool;
    made->size = count;
    made->members = mst_alloc((size_t)count * sizeof(*made->members));
    made->member_of = mst_alloc((size_t)pool->size * sizeof(*made->member_of));
    if (!made->members || !made->member_of) {
        mst_team_destroy(made);
        return mst_out_of_memory("the members of a team", (int64_t)count * (int64_t)sizeof(*made->members));
    }
    for (int32_t rank = 0; rank < pool->size; rank++) made->member_of[rank] = -1;
    for (int32_t member = 0; member < count; member++) {
        int32_t rank = members ? members[member] : member;
        made->members[member].rank = rank;
        made->member_of[rank] = member;
    }
    *team = made;
    return MUSTER_OK;
}

void mst_team_destroy(mst_team *team) {
    if (!team) return;
    for (int32_t member = 0; team->members && member < team->size; member++) mst_free(atomic_load(&team->members[member].boxes));
    mst_free(team->member_of);
    mst_free(team->members);
    mst_free(team);
}

int32_t mst_team_member_of(const mst_team *team, const muster_worker *worker) { return team->member_of[worker->rank]; }

void mst_team_name_members(mst_team *team, const int32_t *ranks) { team->ranks = ranks; }

const char *mst_team_rank_text(const mst_team *team, int32_t rank, char text[MST_RANK_TEXT]) {
    const int32_t number = team->member_of[rank], worker = team->pool->options.first + rank;
    const int32_t member = team->ranks && number >= 0 ? team->ranks[number] : number;
    if (member < 0)
        snprintf(text, MST_RANK_TEXT, "worker %" PRId32, worker);
    else if (team->all_workers || member == worker)
        snprintf(text, MST_RANK_TEXT, "rank %" PRId32, worker);
    else
        snprintf(text, MST_RANK_TEXT, "rank %" PRId32 " (worker %" PRId32 ")", member, worker);
    return text;
}

uint64_t mst_team_tag(mst_team *team, muster_worker *worker) {
    mst_team_member *own_member = mst_team_self(team, worker);
    worker->sequence++;
    return mst_next_tag(worker, &own_member->epoch, &own_member->sequence);
}

mst_flag_line *mst_team_flag_line(mst_team *team, int32_t member, uint64_t tag) { return &team->members[member].lines[tag & 1]; }

void mst_team_arrive(mst_team *team, muster_worker *worker, uint64_t tag) {
    atomic_store(&mst_team_self(team, worker)->lines[tag & 1].arrived, tag);
    mst_eventcount_notify(mst_worker_eventcount(worker));
}

muster_status mst_team_wait(mst_team *team, muster_worker *worker, int32_t member, uint64_t tag, const char *what) {
    const mst_team_member *peer = &team->members[member];
    if (peer->rank == worker->rank) return MUSTER_OK;
    mst_peer_wait m = {.worker = worker,
                       .team = team,
                       .what = what,
                       .action = "entering",
                       .message_tag = -1,
                       .peer = peer->rank,
                       .word = &peer->lines[tag & 1].arrived,
                       .target = tag};
    return mst_peer_wait_run(&m);
}

muster_status mst_team_wait_all(mst_team *team, muster_worker *worker, uint64_t tag, const char *what) {
    for (int32_t member = 0; member < team->size; member++) MUSTER_TRY(mst_team_wait(team, worker, member, tag, what));
    return MUSTER_OK;
}

muster_status mst_team_read_begin(mst_team *team, muster_worker *worker, uint64_t tag) {
    return mst_section_begin(team, worker, &mst_team_self(team, worker)->reading, tag);
}

/* `left` at the tag ends the section by itself: a wait for its end checks `left` first. */
void mst_team_read_end(mst_team *team, muster_worker *worker, uint64_t tag) {
    atomic_store(&mst_team_self(team, worker)->left, tag);
    mst_eventcount_notify(mst_worker_eventcount(worker));
}

muster_status mst_team_leave(mst_team *team, muster_worker *worker, uint64_t tag, const char *what) {
    muster_status first = MUSTER_OK;
    /* every one, also after a failure: each may still be reading */
    for (int32_t member = 0; member < team->size; member++) {
        const mst_team_member *peer = &team->members[member];
        if (peer->rank == worker->rank) continue;
        mst_peer_wait m = {.worker = worker,
                           .team = team,
                           .what = what,
                           .action = "finishing",
                           .message_tag = -1,
                           .peer = peer->rank,
                           .word = &peer->left,
                           .target = tag,
                           .reading = &peer->reading};
        muster_status status = mst_peer_wait_run(&m);
        if (first == MUSTER_OK) first = status;
    }
    return first;
}

muster_status mst_section_begin(const mst_team *team, muster_worker *worker, _Atomic uint64_t *reading, uint64_t tag) {
    atomic_store(reading, tag);
    if (__builtin_expect(!mst_run_aborted(worker->pool, worker->epoch), 1)) return MUSTER_OK;
    mst_section_end(worker, reading);
    return mst_peer_wait_aborted(worker, team, "reading the other ranks' memory");
}

void mst_section_end(muster_worker *worker, _Atomic uint64_t *reading) {
    atomic_store(reading, 0);
    mst_eventcount_notify(mst_worker_eventcount(worker)); /* a peer may have seen "reading" and gone to sleep */
}
