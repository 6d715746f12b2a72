#include "group_impl.h"

/* Stateless: any worker that runs alone may enter it. */
static mst_communicator single = {&mst_single_table, 1};

static bool all_host(mst_pool *pool) {
    for (int32_t r = 0; r < mst_pool_size(pool); r++) {
        if (!mst_device_is_host(mst_pool_worker(pool, r)->device)) return false;
    }
    return true;
}

static void free_group(mst_group *group) {
    if (group->ranks) {
        for (int32_t r = 0; r < group->base.size; r++) mst_free(group->ranks[r].bounce);
    }
    if (group->party) mst_party_destroy(group->party);
    mst_free(group->ranks);
    mst_free(group);
}

static muster_status create_group(mst_pool *pool, mst_group **created) {
    mst_group *group = mst_alloc(sizeof *group);
    if (!group) return mst_out_of_memory("muster_runtime_open: communicator", sizeof *group);
    int32_t size = mst_pool_size(pool);
    group->base = (mst_communicator){all_host(pool) ? &mst_host_table : &mst_staged_table, size};
    group->pool = pool;
    group->ranks = mst_alloc((size_t)size * sizeof *group->ranks);
    muster_status status = group->ranks ? mst_party_create(pool, &group->party)
                                        : mst_out_of_memory("muster_runtime_open: communicator", size * (int64_t)sizeof *group->ranks);
    if (status != MUSTER_OK) {
        group->party = NULL;
        free_group(group);
        return status;
    }
    *created = group;
    return MUSTER_OK;
}

muster_status mst_communicator_create(mst_pool *pool, mst_communicator **communicator) {
    int32_t size = mst_pool_size(pool);
    mst_communicator *created = &single;
    if (size > 1) {
        mst_group *group = NULL;
        MUSTER_TRY(create_group(pool, &group));
        created = &group->base;
    }
    for (int32_t r = 0; r < size; r++) mst_pool_worker(pool, r)->communicator = created;
    *communicator = created;
    return MUSTER_OK;
}

void mst_communicator_destroy(mst_communicator *communicator) {
    if (!communicator || communicator == &single) return;
    mst_group *group = mst_group_of(communicator);
    for (int32_t r = 0; r < group->base.size; r++) mst_pool_worker(group->pool, r)->communicator = NULL;
    free_group(group);
}

mst_communicator *mst_worker_communicator(muster_worker *worker) { return worker->size == 1 ? &single : worker->communicator; }
