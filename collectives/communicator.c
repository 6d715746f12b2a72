/* The communicator over all workers of a pool. */
#include "mover_impl.h"
#include "nccl/nccl_impl.h"

#include <stdio.h>
#include <stdlib.h>

static const char opening[] = "muster_runtime_open: communicator";

static muster_status forced_algorithm(const mst_communicator_options *options, mst_algorithm_kind *kind) {
    const char *name = options && options->algorithm ? options->algorithm : getenv("MUSTER_COLLECTIVE_ALGORITHM");
    *kind = 0;
    if (!name || !*name) return MUSTER_OK;
    *kind = mst_algorithm_named(name);
    if (*kind) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_runtime_open: collective algorithm: expected reference, inline, direct, p2p, nccl or staged, received \"%s\"",
                     name);
}

static muster_status create_alone(mst_pool *pool, mst_host_communicator *world, mst_algorithm_kind forced) {
    world->base.alone = &world->base;
    if (world->base.size == 1) return MUSTER_OK;
    int32_t zero = 0;
    mst_host_communicator *alone;
    MUSTER_TRY(mst_host_create(opening, pool, &zero, 1, forced, &alone));
    alone->base.alone = &alone->base;
    mst_movers_share(alone, world);
    world->base.alone = &alone->base;
    return MUSTER_OK;
}

static muster_status create_world(mst_pool *pool, mst_algorithm_kind forced, mst_host_communicator **world) {
    int32_t size = mst_pool_size(pool);
    int32_t *ranks = mst_alloc((size_t)size * sizeof *ranks);
    if (!ranks) return mst_out_of_memory(opening, (int64_t)size * 4);
    for (int32_t r = 0; r < size; r++) ranks[r] = r;
    muster_status status = mst_host_create(opening, pool, ranks, size, forced, world);
    mst_free(ranks);
    return status;
}

muster_status mst_communicator_create(mst_pool *pool, const mst_communicator_options *options, muster_communicator **communicator) {
    mst_algorithm_kind forced;
    mst_host_communicator *world;
    MUSTER_TRY(forced_algorithm(options, &forced));
    MUSTER_TRY(create_world(pool, forced, &world));
    muster_status status = mst_movers_open(world, options && options->fixed_order);
    if (status == MUSTER_OK) status = create_alone(pool, world, forced);
    if (status != MUSTER_OK) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        mst_movers_close(world);
        mst_host_destroy(world);
        return mst_error_restore(status, message);
    }
    for (int32_t r = 0; r < world->base.size; r++) mst_pool_worker(pool, r)->communicator = &world->base;
    *communicator = &world->base;
    return MUSTER_OK;
}

void mst_communicator_destroy(muster_communicator *communicator) {
    if (!communicator) return;
    mst_host_communicator *world = mst_host_of(communicator);
    for (int32_t r = 0; r < communicator->size; r++) mst_pool_worker(world->pool, r)->communicator = NULL;
    mst_movers_close(world);
    if (communicator->alone != communicator) mst_host_destroy(mst_host_of(communicator->alone));
    mst_host_destroy(world);
}

muster_communicator *mst_worker_communicator(const muster_worker *worker) {
    muster_communicator *world = worker->communicator;
    return worker->size == 1 ? world->alone : world;
}

void mst_communicator_ready(muster_communicator *communicator) {
    mst_movers *movers = mst_host_of(communicator)->movers;
    if (__builtin_expect(movers && mst_nccl_wants_mending(movers->nccl), 0)) mst_nccl_mend(movers->nccl);
}

const char *mst_communicator_ways(const muster_communicator *communicator, char *text, size_t size) {
    const mst_host_communicator *self = mst_host_of((muster_communicator *)(uintptr_t)communicator);
    const mst_movers *movers = self->movers;
    const char *peers = self->peers && self->base.size > 1 ? "p2p between peers" : "";
    if (!movers || self->base.size == 1)
        snprintf(text, size, "%s", movers ? "one rank" : "host memory");
    else if (self->forced == MST_P2P)
        snprintf(text, size, "p2p between peers, as asked for");
    else if (self->forced && self->forced != MST_NCCL)
        snprintf(text, size, "copies in host memory, as asked for");
    else if (movers->nccl)
        snprintf(text, size, "%s%sNCCL %s", peers, *peers ? "; " : "", movers->nccl->version);
    else
        snprintf(text, size, "%s; no NCCL: %.300s", *peers ? peers : "copies in host memory", movers->reason);
    return text;
}
