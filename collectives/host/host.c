/* The life of a communicator over host memory, and how parts are split from it. */
#include "host_impl.h"

#include <string.h>

static const char opening[] = "muster_runtime_open: communicator";

static muster_status build_members(mst_host_communicator *made, const int32_t *ranks, int32_t size) {
    size_t bytes = (size_t)size * sizeof *made->members;
    /* Not cleared: slots are touched first by the thread that uses them. */
    made->members = mst_alloc_uninitialised(bytes);
    if (!made->members) return mst_out_of_memory(opening, (int64_t)bytes);
    for (int32_t r = 0; r < size; r++) {
        mst_host_member *member = &made->members[r];
        memset(&member->aside, 0, sizeof *member - offsetof(mst_host_member, aside));
        member->rank = ranks[r];
    }
    for (int32_t r = 0; r < size; r++) {
        made->members[r].requests = mst_alloc((size_t)size * sizeof(mst_request *));
        made->members[r].post_tags = mst_alloc((size_t)size * sizeof(uint64_t));
        if (!made->members[r].requests || !made->members[r].post_tags) return mst_out_of_memory(opening, (int64_t)size * 16);
    }
    return MUSTER_OK;
}

static muster_status build(mst_host_communicator *made, const int32_t *ranks, int32_t size) {
    int32_t pool_size = mst_pool_size(made->pool);
    made->base.rank_of = mst_alloc((size_t)pool_size * sizeof(int32_t));
    made->base.groups = mst_alloc((size_t)size * sizeof(mst_group));
    if (!made->base.rank_of || !made->base.groups) return mst_out_of_memory(opening, (int64_t)pool_size * 4 + (int64_t)size * (int64_t)sizeof(mst_group));
    for (int32_t r = 0; r < pool_size; r++) made->base.rank_of[r] = -1;
    for (int32_t r = 0; r < size; r++) made->base.rank_of[ranks[r]] = r;
    MUSTER_TRY(build_members(made, ranks, size));
    return mst_party_create(made->pool, ranks, size, &made->party);
}

muster_status mst_host_create(mst_pool *pool, const int32_t *ranks, int32_t size, mst_algorithm_kind forced, mst_host_communicator **communicator) {
    mst_host_communicator *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(opening, sizeof *made);
    made->base.table = size == 1 ? &mst_single_table : &mst_host_table;
    made->base.size = size;
    made->pool = pool;
    made->forced = forced;
    made->world = made;
    atomic_init(&made->users, size);
    pthread_mutex_init(&made->lock, NULL);
    muster_status status = build(made, ranks, size);
    if (status != MUSTER_OK) {
        mst_host_destroy(made);
        return status;
    }
    *communicator = made;
    return MUSTER_OK;
}

void mst_host_destroy(mst_host_communicator *communicator) {
    if (!communicator) return;
    while (communicator->parts) {
        mst_host_communicator *part = communicator->parts;
        communicator->parts = part->next;
        mst_host_destroy(part);
    }
    for (int32_t r = 0; communicator->members && r < communicator->base.size; r++) {
        mst_host_member *member = &communicator->members[r];
        mst_free(member->aside.memory);
        mst_free(member->mail.memory);
        mst_free(member->messages);
        mst_free(member->post_tags);
        mst_free(member->requests);
    }
    for (int32_t r = 0; communicator->base.groups && r < communicator->base.size; r++) mst_free(communicator->base.groups[r].requests);
    mst_party_destroy(communicator->party);
    mst_free(communicator->members);
    mst_free(communicator->base.groups);
    mst_free(communicator->base.rank_of);
    pthread_mutex_destroy(&communicator->lock);
    mst_free(communicator);
}

/* ---- parts ---- */

static void enlist(mst_host_communicator *world, mst_host_communicator *part) {
    part->world = world;
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

/* One meeting of a split: what each rank brings is in its line alone. */
static muster_status meet(mst_host_communicator *self, muster_worker *worker, mst_request request, uint64_t *tag) {
    static const char name[] = "split";
    MUSTER_TRY(mst_refuse_lost(worker, name));
    int32_t rank = mst_communicator_rank(&self->base, worker);
    *tag = mst_party_tag(self->party, worker);
    memcpy(mst_party_line_of(self->party, rank, *tag)->payload, &request, sizeof request);
    mst_party_arrive(self->party, worker, *tag);
    muster_status status = mst_party_wait_all(self->party, worker, *tag, name);
    if (status != MUSTER_OK) { /* whoever took this for a collective of its own sees the difference, or is inside a section that must end */
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        mst_party_leave(self->party, worker, *tag, name);
        return mst_error_restore(status, message);
    }
    mst_host_member *own = &self->members[rank];
    for (int32_t r = 0; r < self->base.size; r++) own->requests[r] = (const mst_request *)mst_party_line_of(self->party, r, *tag)->payload;
    return mst_check_heads(&(mst_view){.requests = own->requests, .size = self->base.size, .rank = rank});
}

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

static muster_status create_part(mst_host_communicator *self, const int32_t *members, int32_t count, mst_host_communicator **part) {
    int32_t *ranks = mst_alloc((size_t)count * sizeof *ranks);
    if (!ranks) return mst_out_of_memory("muster_worker_split", (int64_t)count * 4);
    for (int32_t r = 0; r < count; r++) ranks[r] = self->members[members[r]].rank;
    muster_status status = mst_host_create(self->pool, ranks, count, self->forced, part);
    mst_free(ranks);
    if (status == MUSTER_OK) enlist(self->world, *part);
    return status;
}

/* The two meetings differ in their heads: a rank that begins again, after a failure between them, must not meet the others' second one. */
enum { SECOND = 1 };

/* First everybody's color and key, then the leaders hand out what they have made. */
muster_status mst_host_split(muster_communicator *base, muster_worker *worker, int32_t color, int32_t key, muster_communicator **part) {
    mst_host_communicator *self = mst_host_of(base), *made = NULL;
    int32_t rank = mst_communicator_rank(base, worker), size = base->size;
    uint64_t tag;
    MUSTER_TRY(meet(self, worker, (mst_request){.collective = MST_SPLIT, .root = color, .key = key}, &tag));
    int32_t *members = mst_alloc((size_t)size * sizeof *members);
    if (!members) return mst_out_of_memory("muster_worker_split", (int64_t)size * 4);
    int32_t count = members_of(self->members[rank].requests, size, color, members), leader = members[0];
    muster_status status = color >= 0 && leader == rank ? create_part(self, members, count, &made) : MUSTER_OK;
    mst_free(members);
    MUSTER_TRY(status);
    MUSTER_TRY(meet(self, worker, (mst_request){.collective = MST_SPLIT, .reduction = SECOND, .root = color, .key = key, .input = made}, &tag));
    *part = color >= 0 ? (muster_communicator *)(uintptr_t)self->members[rank].requests[leader]->input : NULL;
    return MUSTER_OK;
}
