/* The life of a communicator over host memory. */
#include "host_impl.h"

#include <string.h>

static muster_status build_members(const char *where, mst_host_communicator *made, const int32_t *ranks, int32_t size) {
    size_t bytes = (size_t)size * sizeof *made->members;
    /* Not cleared: slots are touched first by the thread that uses them. */
    made->members = mst_alloc_uninitialised(bytes);
    if (!made->members) return mst_out_of_memory(where, (int64_t)bytes);
    for (int32_t r = 0; r < size; r++) {
        mst_host_member *member = &made->members[r];
        memset(&member->aside, 0, sizeof *member - offsetof(mst_host_member, aside));
        member->rank = ranks[r];
    }
    for (int32_t r = 0; r < size; r++) {
        made->members[r].requests = mst_alloc((size_t)size * sizeof(mst_request *));
        made->members[r].post_tags = mst_alloc((size_t)size * sizeof(uint64_t));
        if (!made->members[r].requests || !made->members[r].post_tags) return mst_out_of_memory(where, (int64_t)size * 16);
    }
    return MUSTER_OK;
}

static muster_status build_team(const char *where, mst_host_communicator *made, const int32_t *ranks, int32_t size) {
    muster_status status = mst_team_create(made->pool, ranks, size, &made->team);
    if (status == MUSTER_OK) return MUSTER_OK;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    return mst_error(status, "%s: %.400s", where, message);
}

static muster_status build(const char *where, mst_host_communicator *made, const int32_t *ranks, int32_t size) {
    int32_t pool_size = mst_pool_size(made->pool);
    made->base.rank_of = mst_alloc((size_t)pool_size * sizeof(int32_t));
    made->base.groups = mst_alloc((size_t)size * sizeof(mst_group));
    if (!made->base.rank_of || !made->base.groups)
        return mst_out_of_memory(where, (int64_t)pool_size * 4 + (int64_t)size * (int64_t)sizeof(mst_group));
    for (int32_t r = 0; r < pool_size; r++) made->base.rank_of[r] = -1;
    for (int32_t r = 0; r < size; r++) made->base.rank_of[ranks[r]] = r;
    MUSTER_TRY(build_members(where, made, ranks, size));
    return build_team(where, made, ranks, size);
}

muster_status mst_host_create(const char *where, mst_pool *pool, const int32_t *ranks, int32_t size, mst_algorithm_kind forced,
                              mst_host_communicator **communicator) {
    mst_host_communicator *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(where, sizeof *made);
    made->base.table = size == 1 ? &mst_single_table : &mst_host_table;
    made->base.size = size;
    made->pool = pool;
    made->forced = forced;
    made->world = made;
    atomic_init(&made->users, size);
    pthread_mutex_init(&made->lock, NULL);
    muster_status status = build(where, made, ranks, size);
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
    mst_team_destroy(communicator->team);
    mst_free(communicator->unique_id);
    mst_free(communicator->members);
    mst_free(communicator->base.groups);
    mst_free(communicator->base.rank_of);
    pthread_mutex_destroy(&communicator->lock);
    mst_free(communicator);
}
