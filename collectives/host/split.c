/* How parts are split from a communicator, and how they end.
 *
 * Of the members of a part one, the leader, makes it. They all get it or none does, also when the
 * call is lost on the way: then the leader frees it at once.
 *
 * Parts of the world of GPUs get NCCL communicators of their own. NCCL must not make them while any
 * collective is in flight: all devices are idle before the first meeting, and nobody leaves before
 * the last one, to which everybody comes. So parts of parts go without. */
#include "../nccl/nccl_impl.h"

#include <string.h>

static const char where[] = "muster_worker_split", name[] = "split";

static void enlist(mst_host_communicator *world, mst_host_communicator *part) {
    pthread_mutex_lock(&world->lock);
    part->next = world->parts;
    world->parts = part;
    pthread_mutex_unlock(&world->lock);
}

void mst_host_release(mst_host_communicator *part) {
    if (atomic_fetch_sub(&part->users, 1) > 1) return;
    mst_host_communicator *world = part->world;
    pthread_mutex_lock(&world->lock);
    mst_host_communicator **link = &world->parts;
    while (*link != part) link = &(*link)->next;
    *link = part->next;
    pthread_mutex_unlock(&world->lock);
    mst_host_destroy(part);
}

/* ---- meetings ---- */

static const mst_request *line_of(const mst_host_communicator *self, int32_t rank, uint64_t tag) {
    return (const mst_request *)mst_team_flag_line(self->team, rank, tag)->payload;
}

/* One meeting of a split: what each rank brings is in its line alone. */
static muster_status meet(mst_host_communicator *self, muster_worker *worker, mst_request request, uint64_t *tag) {
    int32_t rank = mst_communicator_rank(&self->base, worker);
    *tag = mst_team_tag(self->team, worker);
    MUSTER_TRY(mst_refuse_lost(self, worker, name));
    memcpy(mst_team_flag_line(self->team, rank, *tag)->payload, &request, sizeof request);
    mst_team_arrive(self->team, worker, *tag);
    muster_status status = mst_team_wait_all(self->team, worker, *tag, name);
    /* whoever took this for a collective of its own sees the difference, or is inside a section
     * that must end */
    if (status != MUSTER_OK) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        mst_team_leave(self->team, worker, *tag, name);
        return mst_error_restore(status, message);
    }
    mst_host_member *own = &self->members[rank];
    for (int32_t r = 0; r < self->base.size; r++) own->requests[r] = line_of(self, r, *tag);
    return mst_check_heads(self, &(mst_view){.requests = own->requests, .size = self->base.size, .rank = rank});
}

/* Whether the members of a part have it: the first of them to come here decides, for all. In a lost
 * call one may have seen all arrivals where another has given up before the last; and who leads
 * must know that nobody has the part before it frees it. decision: of the leader, the newest tag <<
 * 1 | taken. */
static bool agree(_Atomic uint64_t *decision, uint64_t tag, bool taken) {
    uint64_t known = atomic_load(decision);
    while (known >> 1 != tag) {
        if (atomic_compare_exchange_weak(decision, &known, tag << 1 | taken)) return taken;
    }
    return known & 1;
}

/* ---- the part ---- */

/* Ranks of the parent with this color, by key and old rank. Returns their number. */
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

static bool gives_nccl(const mst_host_communicator *self) { return self->world == self && mst_nccl_ready(self); }

static muster_status create_part(mst_host_communicator *self, const int32_t *members, int32_t count, mst_host_communicator **part) {
    int32_t *ranks = mst_alloc((size_t)count * sizeof *ranks);
    if (!ranks) return mst_out_of_memory(where, (int64_t)count * 4);
    for (int32_t r = 0; r < count; r++) ranks[r] = self->members[members[r]].rank;
    muster_status status = mst_host_create(where, self->pool, ranks, count, self->forced, part);
    mst_free(ranks);
    if (status != MUSTER_OK) return status;
    (*part)->world = self->world;
    mst_movers_share(*part, self->world);
    if (!gives_nccl(self) || count == 1) return MUSTER_OK;
    status = mst_nccl_unique_id_make(self->movers, &(*part)->unique_id);
    if (status == MUSTER_OK) return status;
    mst_host_destroy(*part);
    *part = NULL;
    return status;
}

/* After the first meeting. made: the part, if this rank is its leader; else it stays NULL. */
static muster_status lead(mst_host_communicator *self, int32_t rank, int32_t color, int32_t *leader, mst_host_communicator **made) {
    int32_t size = self->base.size, *members = mst_alloc((size_t)size * sizeof *members);
    if (!members) return mst_out_of_memory(where, (int64_t)size * 4);
    int32_t count = members_of(self->members[rank].requests, size, color, members);
    *leader = members[0];
    muster_status status = color >= 0 && *leader == rank ? create_part(self, members, count, made) : MUSTER_OK;
    mst_free(members);
    return status;
}

/* After the second meeting, which ended with `status` on this rank. */
static muster_status take(mst_host_communicator *self, muster_worker *worker, int32_t leader, uint64_t tag, mst_host_communicator *made,
                          mst_nccl_link *link, muster_status status, muster_communicator **part) {
    if (agree(&self->members[leader].decision, tag, status == MUSTER_OK)) {
        if (made) enlist(self->world, made);
        *part = (muster_communicator *)(uintptr_t)line_of(self, leader, tag)->input;
        if (link) mst_host_of(*part)->members[mst_communicator_rank(*part, worker)].link = link;
        return MUSTER_OK;
    }
    mst_nccl_forget(worker, self->movers, link);
    mst_host_destroy(made);
    if (status != MUSTER_OK) return status;
    char own[MST_RANK_TEXT];
    return mst_error(MUSTER_ABORTED, "%s: %s was to get its part after the call was lost", name,
                     mst_team_rank_text(self->team, worker->rank, own));
}

/* The meetings differ in their heads: a rank that begins again, after a failure between them, must
 * not meet the others' next one. */
enum { SECOND = 1, JOINING = 2 };

/* What NCCL needs to know of a part. */
typedef struct joining {
    struct mst_nccl_unique_id unique_id;
    int32_t size, rank; /* size 0: it has no NCCL */
} joining;

static void read_joining(const mst_host_communicator *self, const muster_worker *worker, int32_t leader, uint64_t tag, joining *j) {
    const mst_host_communicator *part = line_of(self, leader, tag)->input;
    if (!part->unique_id) return;
    *j = (joining){*part->unique_id, part->base.size, mst_communicator_rank(&part->base, worker)};
}

/* Everybody knows its part, and its NCCL communicator is made by all members together. Its failure
 * loses the run. */
static muster_status join(mst_host_communicator *self, muster_worker *worker, mst_request request, int32_t leader, mst_nccl_link **link) {
    uint64_t tag;
    joining j = {.size = 0};
    request.reduction = JOINING;
    MUSTER_TRY(meet(self, worker, request, &tag));
    /* The leader may free the part as soon as something fails. */
    muster_status status = mst_team_read_begin(self->team, worker, tag);
    if (status == MUSTER_OK) {
        if (request.root >= 0) read_joining(self, worker, leader, tag, &j);
        mst_team_read_end(self->team, worker, tag);
    }
    muster_status left = mst_team_leave(self->team, worker, tag, name);
    if (status == MUSTER_OK) status = left;
    if (status != MUSTER_OK || j.size == 0) return status;
    return mst_nccl_join(worker, self->movers, &j.unique_id, j.size, j.rank, link);
}

/* First everybody's color and key, then the leaders hand out what they have made. */
static muster_status split(mst_host_communicator *self, muster_worker *worker, int32_t color, int32_t key, muster_communicator **part) {
    mst_host_communicator *made = NULL;
    mst_nccl_link *link = NULL;
    int32_t leader = 0;
    uint64_t tag;
    const bool nccl = gives_nccl(self);
    if (nccl) MUSTER_TRY(mst_worker_sync(worker));
    MUSTER_TRY(meet(self, worker, (mst_request){.collective = MST_SPLIT, .root = color, .key = key}, &tag));
    MUSTER_TRY(lead(self, mst_communicator_rank(&self->base, worker), color, &leader, &made));
    const mst_request request = {.collective = MST_SPLIT, .reduction = SECOND, .root = color, .key = key, .input = made};
    muster_status joined = nccl ? join(self, worker, request, leader, &link) : MUSTER_OK;
    /* The decision is taken at the last meeting, also after a failure before it: the leader must
     * know that nobody has the part. */
    muster_status status = joined == MUSTER_OK ? meet(self, worker, request, &tag) : joined;
    if (joined != MUSTER_OK) tag = mst_team_tag(self->team, worker);
    return color >= 0 ? take(self, worker, leader, tag, made, link, status, part) : status;
}

muster_status mst_host_split(muster_communicator *base, muster_worker *worker, int32_t color, int32_t key, muster_communicator **part) {
    mst_host_communicator *self = mst_host_of(base);
    MUSTER_TRY(mst_refuse_lost(self, worker, name));
    uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, name, worker->sequence + 1, 0);
    muster_status status = split(self, worker, color, key, part);
    mst_record_end(&worker->recorder, event);
    return status;
}
