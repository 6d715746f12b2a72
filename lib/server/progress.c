/* Threads of the server that apply queued operations, where a CPU is left for them. */
#include "own_thread_impl.h"
#include "server_private.h"

#include <errno.h>
#include <string.h>

static mst_shard *progress_find_queue(muster_server *server) {
    for (int32_t i = 0; i < server->count; i++) {
        for (int32_t s = 0; s < server->shards; s++) {
            if (mst_shard_needs_combiner(&server->values[i].shards[s])) return &server->values[i].shards[s];
        }
    }
    return NULL;
}

static bool progress_has_work(void *context) { return progress_find_queue(context) != NULL; }

static void *progress_main(void *context) {
    muster_server *server = context;
    mst_spin spin = {.level = 0};
    const mst_wait wait = {.spin_ns = mst_pool_settings(server->runtime->pool)->spin_ns,
                           .spin = &spin,
                           .timeout_ns = -1,
                           .stop = progress_has_work,
                           .context = server};
    for (;;) {
        mst_shard *shard = progress_find_queue(server);
        if (shard)
            mst_shard_combine(server, shard, NULL);
        else if (mst_eventcount_wait(&server->eventcount, &server->stop_progress, 1, &wait) == MST_REACHED)
            return NULL;
    }
}

static muster_status progress_start_thread(muster_server *server, const char *where) {
    pthread_t *thread = &server->progress[server->progress_count];
    const int error = mst_memory_refuse() ? EAGAIN : pthread_create(thread, NULL, progress_main, server);
    if (error) return mst_error(MUSTER_SYSTEM, "%s: starting a thread that applies operations: %s", where, strerror(error));
    pthread_setname_np(*thread, "muster-server");
    server->progress_count++;
    return MUSTER_OK;
}

muster_status mst_progress_start(muster_server *server, const char *where, int32_t threads) {
    muster_status status = MUSTER_OK;
    if (threads == 0) return MUSTER_OK;
    server->progress = mst_alloc((size_t)threads * sizeof *server->progress);
    if (!server->progress) return mst_out_of_memory(where, threads * (int64_t)sizeof *server->progress);
    /* Signals are delivered to the program's own threads. */
    const sigset_t before = mst_signals_block();
    while (status == MUSTER_OK && server->progress_count < threads) status = progress_start_thread(server, where);
    mst_signals_restore(&before);
    return status;
}

void mst_progress_stop(muster_server *server) {
    atomic_store(&server->stop_progress, 1);
    mst_eventcount_notify(&server->eventcount);
    for (int32_t i = 0; i < server->progress_count; i++) pthread_join(server->progress[i], NULL);
    mst_free(server->progress);
    server->progress = NULL;
}
