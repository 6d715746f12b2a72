/* How parts are split from a communicator, and how they end.
 *
 * One of the members of a part, the leader, creates it. Either all members get the part or none
 * does, even if the call is aborted meanwhile. If none does, the leader frees it at once.
 *
 * Parts of the world join the transports that need all their members for it, such as NCCL. No
 * collective may be in flight then: all devices are idle before the first rendezvous, and no member
 * leaves before the last one, to which all of them come. A part of a part does not join. */
#include "rendezvous_private.h"

static const char where[] = "muster_worker_split", name[] = "split";

static void enlist(muster_communicator *world, muster_communicator *part) {
    pthread_mutex_lock(&world->lock);
    part->next = world->parts;
    world->parts = part;
    pthread_mutex_unlock(&world->lock);
}

static void unlist(muster_communicator *world, const muster_communicator *part) {
    pthread_mutex_lock(&world->lock);
    muster_communicator **link = &world->parts;
    while (*link != part) link = &(*link)->next;
    *link = part->next;
    pthread_mutex_unlock(&world->lock);
}

void mst_communicator_release(muster_communicator *part, muster_worker *worker) {
    part->members[mst_communicator_rank(part, worker)].group.released = true;
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        const mst_transport *transport = mst_transport_at(t);
        if (transport->release && part->state[t]) transport->release(part, worker);
    }
    if (atomic_fetch_sub(&part->users, 1) > 1) return;
    unlist(part->world, part);
    mst_communicator_free(part);
}

/* ---- the rendezvous of a split ---- */

static const mst_request *line_request(const muster_communicator *communicator, int32_t rank, uint64_t tag) {
    return (const mst_request *)mst_team_flag_line(communicator->team, rank, tag)->payload;
}

/* One rendezvous of a split. Everything that a rank contributes is in its flag line. */
static muster_status hold_rendezvous(muster_communicator *communicator, muster_worker *worker, mst_request request, uint64_t *tag) {
    int32_t rank = mst_communicator_rank(communicator, worker);
    *tag = mst_team_tag(communicator->team, worker);
    MUSTER_TRY(mst_refuse_aborted(communicator, worker, where));
    memcpy(mst_team_flag_line(communicator->team, rank, *tag)->payload, &request, sizeof request);
    mst_team_arrive(communicator->team, worker, *tag);
    muster_status status = mst_team_wait_all(communicator->team, worker, *tag, where);
    /* Another rank may have entered a different collective: it either sees the mismatch or is
     * inside a read section, which must end first. */
    if (status != MUSTER_OK) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        mst_team_leave(communicator->team, worker, *tag, where);
        return mst_error_restore(status, message);
    }
    mst_member *own_member = &communicator->members[rank];
    for (int32_t r = 0; r < communicator->size; r++) own_member->requests[r] = line_request(communicator, r, *tag);
    return mst_check_heads(communicator, &(mst_view){.requests = own_member->requests, .size = communicator->size, .rank = rank});
}

/* Decides whether the members of a part have it; the first member that calls this function decides
 * for all. This is necessary because in an aborted call one member may have seen all arrivals while
 * another has given up before the last, and because the leader must know that no member has the
 * part before it frees it. `decision` is the leader's: the latest tag << 1 | taken. */
static bool agree(_Atomic uint64_t *decision, uint64_t tag, bool taken) {
    uint64_t known = atomic_load(decision);
    while (known >> 1 != tag) {
        if (atomic_compare_exchange_weak(decision, &known, tag << 1 | taken)) return taken;
    }
    return known & 1;
}

/* ---- the part ---- */

/* Lists the parent's ranks with this color, ordered by key, then by rank in the parent. Returns
 * their number. */
static int32_t members_of(const mst_request *const *requests, int32_t size, int32_t color, int32_t *members) {
    int32_t count = 0;
    for (int32_t r = 0; r < size; r++) {
        if (requests[r]->root != color) continue;
        int32_t at = count++;
        for (; at > 0 && requests[members[at - 1]]->key > requests[r]->key; at--) members[at] = members[at - 1];
        members[at] = r;
    }
    return count;
}

static muster_status create_part(muster_communicator *communicator, const int32_t *members, int32_t count, muster_communicator **part) {
    int32_t *ranks = mst_alloc((size_t)count * sizeof *ranks);
    if (!ranks) return mst_out_of_memory(where, (int64_t)count * 4);
    for (int32_t r = 0; r < count; r++) ranks[r] = communicator->members[members[r]].rank;
    muster_status status = mst_communicator_make(where, communicator->pool, ranks, count, communicator, communicator->forced, NULL, part);
    mst_free(ranks);
    return status;
}

/* Called after the first rendezvous. If this rank is the leader of its part, creates the part in
 * *made; else *made stays NULL. */
static muster_status lead(muster_communicator *communicator, int32_t rank, int32_t color, int32_t *leader, muster_communicator **made) {
    int32_t size = communicator->size, *members = mst_alloc((size_t)size * sizeof *members);
    if (!members) return mst_out_of_memory(where, (int64_t)size * 4);
    int32_t count = members_of(communicator->members[rank].requests, size, color, members);
    *leader = members[0];
    muster_status status = color >= 0 && *leader == rank ? create_part(communicator, members, count, made) : MUSTER_OK;
    mst_free(members);
    return status;
}

/* ---- joining ---- */

/* What a member has received from each transport that it has joined; NULL: not joined. */
typedef struct joined {
    void *by_transport[MST_TRANSPORT_COUNT];
} joined;

static const mst_join_table *join_table(const muster_communicator *communicator, int32_t transport) {
    const mst_join_table *table = mst_transport_at(transport)->join;
    return table && communicator->world == communicator && communicator->open[transport] && table->wanted(communicator) ? table : NULL;
}

static bool joins(const muster_communicator *communicator) {
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++)
        if (join_table(communicator, t)) return true;
    return false;
}

static void keep(muster_communicator *part, muster_worker *worker, const joined *joined) {
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++)
        if (joined->by_transport[t]) mst_transport_at(t)->join->keep(part, worker, joined->by_transport[t]);
}

static void abandon(muster_communicator *world, muster_worker *worker, const joined *joined) {
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++)
        if (joined->by_transport[t]) mst_transport_at(t)->join->abandon(world, worker, joined->by_transport[t]);
}

/* Each rendezvous of a split has a different number in its request. A rank that begins a new split
 * after a failure then does not match the others' next rendezvous. */
enum { SECOND = 1, JOINING = 2, PROVING = 3 };

/* The leader may free this rank's part as soon as something fails, so the part is read only inside
 * the read section. */
static void read_invitations(const muster_communicator *communicator, const muster_communicator *part, const muster_worker *worker,
                             mst_invitation *invitations) {
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        const mst_join_table *table = join_table(communicator, t);
        invitations[t].size = 0;
        if (!table || !part->state[t] || !table->invite(part, worker, &invitations[t])) continue;
        invitations[t].size = part->size;
        invitations[t].rank = mst_communicator_rank(part, worker);
    }
}

/* When all members of all parts have joined, they prove at the same time that it works. */
static muster_status prove(muster_communicator *communicator, muster_worker *worker, mst_request request, const joined *joined) {
    uint64_t tag;
    request.reduction = PROVING;
    MUSTER_TRY(hold_rendezvous(communicator, worker, request, &tag));
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++)
        if (joined->by_transport[t]) MUSTER_TRY(mst_transport_at(t)->join->prove(communicator, worker, joined->by_transport[t]));
    return MUSTER_OK;
}

/* All members learn their part, and join its transports at the same time. A failure aborts the
 * run. */
static muster_status join(muster_communicator *communicator, muster_worker *worker, mst_request request, int32_t leader, joined *joined) {
    uint64_t tag;
    mst_invitation invitations[MST_TRANSPORT_COUNT] = {{.size = 0}};
    request.reduction = JOINING;
    MUSTER_TRY(hold_rendezvous(communicator, worker, request, &tag));
    muster_status status = mst_team_read_begin(communicator->team, worker, tag);
    if (status == MUSTER_OK) {
        if (request.root >= 0) read_invitations(communicator, line_request(communicator, leader, tag)->input, worker, invitations);
        mst_team_read_end(communicator->team, worker, tag);
    }
    muster_status left = mst_team_leave(communicator->team, worker, tag, where);
    if (status == MUSTER_OK) status = left;
    for (int32_t t = 0; status == MUSTER_OK && t < MST_TRANSPORT_COUNT; t++)
        if (invitations[t].size > 0)
            status = mst_transport_at(t)->join->join(communicator, worker, &invitations[t], &joined->by_transport[t]);
    return status == MUSTER_OK ? prove(communicator, worker, request, joined) : status;
}

/* ---- the split ---- */

/* Called after the last rendezvous, which ended with `status` on this rank. */
static muster_status take(muster_communicator *communicator, muster_worker *worker, int32_t leader, uint64_t tag, muster_communicator *made,
                          const joined *joined, muster_status status, muster_communicator **part) {
    if (agree(&communicator->members[leader].decision, tag, status == MUSTER_OK)) {
        if (made) enlist(communicator->world, made);
        *part = (muster_communicator *)(uintptr_t)line_request(communicator, leader, tag)->input;
        keep(*part, worker, joined);
        return MUSTER_OK;
    }
    abandon(communicator->world, worker, joined);
    mst_communicator_free(made);
    if (status != MUSTER_OK) return status;
    char own_name[MST_RANK_TEXT];
    return mst_error(MUSTER_ABORTED, "%s: %s was to get its part after the call was aborted", where,
                     mst_team_rank_text(communicator->team, worker->rank, own_name));
}

muster_status mst_split_hand_out(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t leader,
                                 muster_communicator *made, muster_status prepared, muster_communicator **part) {
    static const joined none = {.by_transport = {NULL}};
    const mst_request request = {.collective = MST_SPLIT, .reduction = SECOND, .root = color, .input = made};
    uint64_t tag;
    const muster_status status = prepared == MUSTER_OK ? hold_rendezvous(communicator, worker, request, &tag) : prepared;
    if (prepared != MUSTER_OK) tag = mst_team_tag(communicator->team, worker);
    return color >= 0 ? take(communicator, worker, leader, tag, made, &none, status, part) : status;
}

/* In the first rendezvous all ranks exchange color and key; in the last one the leaders hand out
 * the parts that they have created. */
static muster_status split(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t key,
                           muster_communicator **part) {
    muster_communicator *made = NULL;
    joined joined = {.by_transport = {NULL}};
    int32_t leader = 0;
    uint64_t tag;
    const bool joining = joins(communicator);
    if (joining) MUSTER_TRY(mst_worker_sync(worker));
    MUSTER_TRY(hold_rendezvous(communicator, worker, (mst_request){.collective = MST_SPLIT, .root = color, .key = key}, &tag));
    MUSTER_TRY(lead(communicator, mst_communicator_rank(communicator, worker), color, &leader, &made));
    const mst_request request = {.collective = MST_SPLIT, .reduction = SECOND, .root = color, .key = key, .input = made};
    muster_status prepared = joining ? join(communicator, worker, request, leader, &joined) : MUSTER_OK;
    /* The members decide with the tag of the last rendezvous even after an earlier failure, because
     * the leader must know whether any member has the part. */
    muster_status status = prepared == MUSTER_OK ? hold_rendezvous(communicator, worker, request, &tag) : prepared;
    if (prepared != MUSTER_OK) tag = mst_team_tag(communicator->team, worker);
    return color >= 0 ? take(communicator, worker, leader, tag, made, &joined, status, part) : status;
}

muster_status mst_communicator_split(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t key,
                                     muster_communicator **part) {
    MUSTER_TRY(mst_refuse_aborted(communicator, worker, where));
    uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, name, worker->sequence + 1, 0);
    const mst_transport *transport = communicator->exclusive[MST_SPLIT];
    muster_status status =
        communicator->span ? transport->split(communicator, worker, color, key, part) : split(communicator, worker, color, key, part);
    mst_record_end(&worker->recorder, event);
    return status;
}
