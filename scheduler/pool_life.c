/* For objects that a runtime does not own, and that may be used after it has been closed. */
#include "pool_state_private.h"

struct mst_pool_life {
    _Atomic int32_t references;
    _Atomic bool ended;
};

muster_status mst_pool_life_open(mst_pool *pool) {
    pool->life = mst_alloc(sizeof *pool->life);
    if (!pool->life) return mst_out_of_memory("muster_runtime_open: the pool", sizeof *pool->life);
    atomic_store(&pool->life->references, 1);
    return MUSTER_OK;
}

void mst_pool_life_end(mst_pool *pool) {
    if (!pool->life) return;
    atomic_store(&pool->life->ended, true);
    mst_pool_life_drop(pool->life);
}

mst_pool_life *mst_pool_life_hold(mst_pool *pool) {
    atomic_fetch_add(&pool->life->references, 1);
    return pool->life;
}

void mst_pool_life_drop(mst_pool_life *life) {
    if (life && atomic_fetch_sub(&life->references, 1) == 1) mst_free(life);
}

bool mst_pool_life_ended(const mst_pool_life *life) { return atomic_load(&life->ended); }
