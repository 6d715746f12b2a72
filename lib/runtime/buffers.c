/* Buffers whose storage is registered: the runtime is their keeper, and registers the new storage
 * when one grows. */
#include "buffer_impl.h"
#include "runtime_impl.h"

/* Guarded by mst_pool_enter, as the runtime's list of them. */
struct mst_kept_buffer {
    mst_buffer_keeper keeper; /* must be the first member */
    muster_runtime *runtime;
    muster_buffer *buffer;
    struct mst_kept_buffer *next;
};
typedef struct mst_kept_buffer kept_buffer;

/* Storage that a body has given up, while calls may copy from it. */
struct mst_orphan {
    void *storage;
    struct mst_orphan *next;
};

static muster_status buffers_take(mst_buffer_keeper *keeper, const char *where, void *storage, int64_t bytes) {
    muster_runtime *runtime = ((kept_buffer *)keeper)->runtime;
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    const muster_status status = mst_runtime_register(runtime, storage, bytes, where);
    mst_pool_leave(runtime->pool);
    if (status == MUSTER_OK) mst_runtime_log_notices(runtime);
    return status;
}

/* Kept until the runtime closes; without memory for the note, for ever. */
static void buffers_keep(muster_runtime *runtime, void *storage) {
    struct mst_orphan *orphan = mst_alloc(sizeof *orphan);
    if (!orphan) return;
    orphan->storage = storage;
    orphan->next = atomic_load(&runtime->orphans);
    while (!atomic_compare_exchange_weak(&runtime->orphans, &orphan->next, orphan)) {}
}

static bool buffers_give(mst_buffer_keeper *keeper, void *storage) {
    muster_runtime *runtime = ((kept_buffer *)keeper)->runtime;
    if (!mst_current_worker()) {
        /* fails where the program has unregistered the address itself, and after fork */
        const muster_status ignored = muster_runtime_unregister_memory(runtime, storage);
        (void)ignored;
        return true;
    }
    buffers_keep(runtime, storage);
    return false;
}

static void buffers_unlink(kept_buffer *kept) {
    struct mst_kept_buffer **place = &kept->runtime->buffers;
    while (*place && *place != kept) place = &(*place)->next;
    if (*place) *place = kept->next;
    mst_free(kept);
}

/* Inside a body, and after fork, the entry stays in the list until the runtime closes. */
static void buffers_end(mst_buffer_keeper *keeper) {
    kept_buffer *kept = (kept_buffer *)keeper;
    mst_pool *pool = kept->runtime->pool;
    kept->buffer = NULL;
    if (mst_current_worker() || mst_pool_enter_to_end(pool, "muster_buffer_destroy") != MUSTER_OK) return;
    buffers_unlink(kept);
    mst_pool_leave(pool);
}

static muster_status buffers_add(muster_runtime *runtime, muster_buffer *buffer, const char *where) {
    kept_buffer *kept = mst_alloc(sizeof *kept);
    if (!kept) return mst_out_of_memory(where, sizeof *kept);
    *kept = (kept_buffer){.keeper = {buffers_take, buffers_give, buffers_end}, .runtime = runtime, .buffer = buffer};
    int64_t bytes;
    void *storage = mst_buffer_storage(buffer, &bytes);
    const muster_status status = bytes ? mst_runtime_register(runtime, storage, bytes, where) : MUSTER_OK;
    if (status) {
        mst_free(kept);
        return status;
    }
    kept->next = runtime->buffers;
    runtime->buffers = kept;
    mst_buffer_set_keeper(buffer, &kept->keeper);
    return MUSTER_OK;
}

muster_status muster_runtime_register_buffer(muster_runtime *runtime, muster_buffer *buffer) {
    static const char where[] = "muster_runtime_register_buffer";
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    MUSTER_TRY(mst_buffer_check(buffer, where));
    if (mst_buffer_get_keeper(buffer))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: buffer: expected one that is not registered, received one that is", where);
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    const muster_status status = buffers_add(runtime, buffer, where);
    mst_pool_leave(runtime->pool);
    if (status == MUSTER_OK) mst_runtime_log_notices(runtime);
    return status;
}

muster_status muster_runtime_unregister_buffer(muster_runtime *runtime, muster_buffer *buffer) {
    static const char where[] = "muster_runtime_unregister_buffer";
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    MUSTER_TRY(mst_buffer_check(buffer, where));
    kept_buffer *kept = (kept_buffer *)mst_buffer_get_keeper(buffer);
    if (!kept || kept->runtime != runtime)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: buffer: expected one that is registered in this runtime, received another", where);
    MUSTER_TRY(mst_pool_enter_to_end(runtime->pool, where));
    int64_t bytes;
    void *storage = mst_buffer_storage(buffer, &bytes);
    if (bytes) mst_runtime_unregister(runtime, storage);
    mst_buffer_set_keeper(buffer, NULL);
    buffers_unlink(kept);
    mst_pool_leave(runtime->pool);
    return MUSTER_OK;
}

void mst_runtime_release_buffers(muster_runtime *runtime) {
    while (runtime->buffers) {
        kept_buffer *kept = runtime->buffers;
        if (kept->buffer) mst_buffer_set_keeper(kept->buffer, NULL);
        buffers_unlink(kept);
    }
    for (struct mst_orphan *orphan = atomic_load(&runtime->orphans), *next; orphan; orphan = next) {
        next = orphan->next;
        mst_free(orphan->storage);
        mst_free(orphan);
    }
}
