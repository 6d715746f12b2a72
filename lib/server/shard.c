/* Shards: the queue, the combiner, and the table of functions of shards in this process. */
#include "server_private.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

/* ---- the queue ---- */

void mst_shard_queue(mst_shard *shard, mst_node *node) {
    pthread_mutex_lock(&shard->lock);
    node->memory = node->request->operation.memory;
    node->previous = shard->last_node;
    node->next = NULL;
    if (shard->last_node)
        shard->last_node->next = node;
    else
        shard->first_node = node;
    shard->last_node = node;
    atomic_store(&node->queued, true);
    if (node == shard->first_node) atomic_fetch_or(&shard->state, MST_SHARD_QUEUED);
    pthread_mutex_unlock(&shard->lock);
}

/* Under the lock. */
static void unlink_node(mst_shard *shard, mst_node *node) {
    if (node->previous)
        node->previous->next = node->next;
    else
        shard->first_node = node->next;
    if (node->next)
        node->next->previous = node->previous;
    else
        shard->last_node = node->previous;
    atomic_store(&node->queued, false);
    if (!shard->first_node) atomic_fetch_and(&shard->state, ~(uint32_t)MST_SHARD_QUEUED);
}

bool mst_shard_cancel(mst_shard *shard, mst_node *node) {
    pthread_mutex_lock(&shard->lock);
    const bool queued = atomic_load(&node->queued);
    if (queued) unlink_node(shard, node);
    pthread_mutex_unlock(&shard->lock);
    return queued;
}

void mst_shard_move(mst_shard *shard, mst_node *node, char *memory) {
    pthread_mutex_lock(&shard->lock);
    if (atomic_load(&node->queued)) node->memory = memory;
    pthread_mutex_unlock(&shard->lock);
}

static mst_node *take_first(mst_shard *shard) {
    pthread_mutex_lock(&shard->lock);
    mst_node *node = shard->first_node;
    if (node) atomic_store(&node->serving, 1);
    if (node) unlink_node(shard, node);
    pthread_mutex_unlock(&shard->lock);
    return node;
}

/* ---- its attendant ---- */

void mst_shard_left_queue(muster_server *server) { mst_eventcount_notify(&server->eventcount); }

muster_status mst_shard_serve(mst_shard *shard, const mst_operation *operation) {
    muster_status status = operation->rule ? shard->table->apply(shard, operation) : shard->table->fetch(shard, operation);
    atomic_store_explicit(&shard->served, atomic_load_explicit(&shard->served, memory_order_relaxed) + 1, memory_order_relaxed);
    return status;
}

/* A rule that fails here belongs to another client's operation: this thread's last error stays as
 * it was. */
static void serve_node(mst_shard *shard, mst_node *node) {
    muster_request *request = node->request;
    mst_operation operation = request->operation;
    const bool user = operation.rule && operation.rule->function;
    char before[MST_MESSAGE_SIZE];
    operation.memory = node->memory;
    if (user) mst_error_save(before);
    muster_status status = mst_shard_serve(shard, &operation);
    if (status != MUSTER_OK) {
        mst_request_fail(request, status);
        if (user) mst_error_restore(status, before);
    }
    muster_server *server = request->client->server;
    atomic_store(&node->serving, 0);
    const bool leaving = atomic_load(&request->leaving);
    mst_request_add_done(request, 1); /* its owner may free it */
    if (leaving) mst_eventcount_notify(&server->eventcount);
}

bool mst_shard_combine(muster_server *server, mst_shard *shard, const mst_node *node) {
    uint32_t waiting = MST_SHARD_QUEUED;
    if (!atomic_compare_exchange_strong(&shard->state, &waiting, MST_SHARD_QUEUED | MST_SHARD_COMBINING)) return false;
    while (!node || atomic_load(&((mst_node *)node)->queued)) {
        mst_node *first = take_first(shard);
        if (!first) break;
        serve_node(shard, first);
    }
    mst_shard_leave(server, shard);
    return true;
}

/* ---- shards in this process ---- */

muster_status mst_shard_open_local(mst_shard *shard, const char *where, muster_dtype dtype, int64_t first, int64_t count) {
    int64_t bytes, padded;
    shard->table = &mst_local_shards;
    shard->dtype = dtype;
    shard->first = first;
    shard->count = count;
    shard->offset = first * muster_dtype_size(dtype);
    shard->bytes = count * muster_dtype_size(dtype);
    shard->half = mst_dtype_compute(dtype) != dtype;
    if (mst_memory_refuse() || pthread_mutex_init(&shard->lock, NULL) != 0) return mst_out_of_memory(where, sizeof shard->lock);
    shard->locked = true;
    if (!mst_multiply(count, muster_dtype_size(mst_dtype_compute(dtype)), &bytes) || __builtin_add_overflow(bytes, HUGE_PAGE, &padded))
        return mst_error(MUSTER_OVERFLOW, "%s: values: the size in bytes overflows 64 bits", where);
    /* A shard has pages of its own, huge ones where that pays, or, if it is small, cache lines of
     * its own. */
    const int64_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : bytes >= PAGE ? PAGE : MST_CACHE_LINE;
    shard->block = mst_alloc_uninitialised((size_t)(bytes + alignment - MST_CACHE_LINE));
    if (!shard->block) return mst_out_of_memory(where, bytes);
    shard->memory = (char *)(((uintptr_t)shard->block + (uintptr_t)alignment - 1) / (uintptr_t)alignment * (uintptr_t)alignment);
    /* a hint only */
    if (bytes >= HUGE_PAGE) (void)madvise(shard->memory, (size_t)bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return MUSTER_OK;
}

void mst_shard_free(mst_shard *shard) {
    if (shard->locked) pthread_mutex_destroy(&shard->lock);
}

static muster_status apply_local(mst_shard *shard, const mst_operation *operation) {
    return mst_rule_apply(operation->rule, shard, operation->memory ? operation->memory + shard->offset : NULL, operation->scale);
}

static muster_status fetch_local(mst_shard *shard, const mst_operation *operation) {
    char *to = operation->memory + shard->offset;
    if (shard->half)
        mst_convert(shard->dtype, to, MUSTER_F32, shard->memory, shard->count);
    else
        memcpy(to, shard->memory, (size_t)shard->bytes);
    return MUSTER_OK;
}

static void close_local(mst_shard *shard) {
    mst_free(shard->widened);
    mst_free(shard->block);
    shard->widened = NULL;
    shard->block = NULL;
    shard->memory = NULL;
}

const mst_shard_table mst_local_shards = {apply_local, fetch_local, close_local};
