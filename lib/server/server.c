/* The servers of a runtime: their list, their end, and questions about them. */
#include "options_impl.h"
#include "server_private.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_NS = 50000 };

/* ---- the list of a runtime's servers ---- */

/* A program that still holds the handle gets BAD_STATE, with the name. The block of the name is
 * reused after that of the server. */
static void server_retire(muster_server *server) {
    char *name = server->name;
    const uint32_t forks_before = server->forks;
    memset(server, 0, sizeof *server); /* the locks are as PTHREAD_MUTEX_INITIALIZER leaves them */
    atomic_store(&server->life, MST_SERVER_ENDED);
    server->forks = forks_before;
    server->runtime = &mst_runtime_closed;
    server->name = name;
    mst_retire(server);
    mst_retire(name);
}

/* What is left of a server when its shards are gone, or it has not become one. */
void mst_server_free(muster_server *server) {
    for (int32_t r = 0; server->workers && r < server->runtime_size; r++) mst_client_free(&server->workers[r]);
    mst_retire(server->workers);
    for (int32_t i = 0; i < server->count; i++) {
        for (int32_t s = 0; server->values[i].shards && s < server->shards; s++) mst_shard_free(&server->values[i].shards[s]);
        mst_free(server->values[i].shards);
    }
    mst_free(server->values);
    for (int32_t i = 0; i < atomic_load(&server->rule_count); i++) mst_free(server->rules[i].name);
    if (server->locked) {
        pthread_mutex_destroy(&server->ending);
        pthread_mutex_destroy(&server->lock);
    }
    server_retire(server);
}

mst_owned *mst_server_take_owned(muster_server *server) {
    mst_owned *taken = NULL;
    pthread_mutex_lock(&server->lock);
    mst_owned_move(&server->owned, &taken);
    pthread_mutex_unlock(&server->lock);
    return taken;
}

/* Between mst_pool_enter and leave: the runtime ends the `user` pointers after leave. */
static void server_give_owned(muster_server *server) {
    mst_owned *taken = mst_server_take_owned(server);
    mst_owned_move(&taken, &server->runtime->ended);
}

void mst_server_drop(muster_server *server) {
    if (atomic_fetch_sub(&server->references, 1) == 1) mst_server_free(server);
}

void mst_server_close_shards(muster_server *server) {
    for (int32_t i = 0; i < server->count; i++) {
        for (int32_t s = 0; server->values[i].shards && s < server->shards; s++) {
            mst_shard *shard = &server->values[i].shards[s];
            if (shard->table) shard->table->close(shard);
        }
    }
}

static muster_status server_end(muster_server *server, const char *where, int64_t fail_after_ns);

/* When the runtime closes: no body runs. Clients of host threads that are still open, and drivers,
 * keep the memory of their server. */
static void server_list_destroy(mst_object *object) {
    mst_server_list *list = (mst_server_list *)object;
    mst_runtime_remove(object);
    while (list->servers) {
        muster_server *server = list->servers;
        list->servers = server->next;
        server_end(server, "muster_runtime_close", -1);
        server_give_owned(server);
        mst_client_staging_close_all(server);
        mst_server_drop(server);
    }
    pthread_mutex_destroy(&list->lock);
    mst_free(list);
}

static muster_status server_list_make(muster_runtime *runtime, const char *where, mst_server_list **list) {
    mst_server_list *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(where, sizeof *made);
    if (mst_memory_refuse() || pthread_mutex_init(&made->lock, NULL) != 0) {
        mst_free(made);
        return mst_out_of_memory(where, sizeof made->lock);
    }
    made->object.destroy = server_list_destroy;
    const muster_status status = mst_runtime_add(runtime, &made->object, "servers", "servers", where);
    if (status != MUSTER_OK) {
        pthread_mutex_destroy(&made->lock);
        mst_free(made);
        return status;
    }
    *list = made;
    return MUSTER_OK;
}

/* Between mst_pool_enter and leave. */
muster_status mst_server_list_get(muster_runtime *runtime, const char *where, mst_server_list **list) {
    mst_object *object = mst_runtime_look(runtime, "servers", "servers");
    *list = (mst_server_list *)object;
    return object ? MUSTER_OK : server_list_make(runtime, where, list);
}

static bool server_has_ended(const muster_server *server) { return atomic_load(&((muster_server *)server)->life) == MST_SERVER_ENDED; }

/* Between mst_pool_enter and leave, so that no body runs that could still use a server that has
 * ended. */
void mst_server_sweep(mst_server_list *list) {
    pthread_mutex_lock(&list->lock);
    muster_server **link = &list->servers;
    while (*link) {
        muster_server *server = *link;
        if (atomic_load(&server->abandoned)) server_end(server, "muster_server_create", -1);
        if (server_has_ended(server)) {
            *link = server->next;
            server_give_owned(server);
            mst_client_staging_close_all(server);
            mst_server_drop(server);
        } else {
            link = &server->next;
        }
    }
    pthread_mutex_unlock(&list->lock);
}

void mst_server_abandon(muster_server *server) {
    uint32_t open = MST_SERVER_OPEN;
    atomic_compare_exchange_strong(&server->life, &open, MST_SERVER_REFUSING);
    atomic_store(&server->abandoned, true);
}

muster_status mst_server_enlist(mst_server_list *list, muster_server *server, const char *where) {
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&list->lock);
    for (const muster_server *other = list->servers; other; other = other->next) {
        if (atomic_load(&((muster_server *)other)->life) != MST_SERVER_OPEN || strcmp(other->name, server->name) != 0) continue;
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that no server of this runtime has, received '%.200s'",
                           where, server->name);
        break;
    }
    if (status == MUSTER_OK) {
        server->next = list->servers;
        list->servers = server;
    }
    pthread_mutex_unlock(&list->lock);
    return status;
}

/* ---- the end ---- */

/* Under the server's lock. */
static bool server_has_client_inside(muster_server *server) {
    for (int32_t r = 0; r < server->runtime_size; r++) {
        if (atomic_load(&server->workers[r].inside)) return true;
    }
    for (muster_client *client = server->clients; client; client = client->next) {
        if (atomic_load(&client->inside)) return true;
    }
    return false;
}

/* Applies the operations in queues that have no combiner. */
static void server_drain(muster_server *server) {
    for (int32_t i = 0; i < server->count; i++) {
        for (int32_t s = 0; s < server->shards; s++) mst_shard_combine(server, &server->values[i].shards[s], NULL);
    }
}

static uint64_t server_served(const muster_server *server) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < server->count; i++) {
        for (int32_t s = 0; s < server->shards; s++) sum += atomic_load_explicit(&server->values[i].shards[s].served, memory_order_relaxed);
    }
    return sum;
}

static bool server_is_quiet(muster_server *server) {
    pthread_mutex_lock(&server->lock);
    const bool inside = server_has_client_inside(server);
    pthread_mutex_unlock(&server->lock);
    return !inside && atomic_load(&server->begun) == 0;
}

/* Clients do not say that they leave, which would cost every operation something: this polls. */
static muster_status server_await_quiet(muster_server *server, const char *where, int64_t fail_after_ns) {
    int64_t progress_ns = mst_now_ns();
    uint64_t seen = server_served(server);
    while (!server_is_quiet(server)) {
        if (atomic_load(&server->life) == MST_SERVER_REFUSING) server_drain(server);
        const int64_t now = mst_now_ns();
        const uint64_t sum = server_served(server);
        if (sum != seen) progress_ns = now;
        seen = sum;
        if (fail_after_ns >= 0 && now - progress_ns >= fail_after_ns)
            return mst_error(MUSTER_TIMEOUT,
                             "%s: server '%.200s': waited %.3g s for operations that had begun, without progress; it refuses new ones",
                             where, server->name, (double)(now - progress_ns) * 1e-9);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    return MUSTER_OK;
}

/* First new operations are refused. When none is left, waits no longer look at the shards. Then the
 * shards are closed. */
static muster_status server_end(muster_server *server, const char *where, int64_t fail_after_ns) {
    uint32_t open = MST_SERVER_OPEN;
    if (server_has_ended(server)) return MUSTER_OK;
    atomic_compare_exchange_strong(&server->life, &open, MST_SERVER_REFUSING);
    MUSTER_TRY(server_await_quiet(server, where, fail_after_ns));
    atomic_store(&server->life, MST_SERVER_ENDING);
    while (!server_is_quiet(server)) nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    mst_progress_stop(server);
    mst_server_close_shards(server);
    atomic_store(&server->life, MST_SERVER_ENDED);
    return MUSTER_OK;
}

/* ---- after fork ---- */

/* Forks are counted where they happen: to ask for the process id would be a system call for each
 * send. */
static _Atomic uint32_t forks;
static void server_count_fork(void) { atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); }
static void server_watch_forks(void) { (void)pthread_atfork(NULL, NULL, server_count_fork); }

uint32_t mst_server_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, server_watch_forks);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

bool mst_server_is_from_before_fork(const muster_server *server) {
    return server->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

muster_status mst_server_refuse_child(const char *where) {
    return mst_error(MUSTER_BAD_STATE, "%s: the runtime was opened before fork and has no threads in this process", where);
}

muster_status mst_server_refuse_destroyed(const muster_server *server, const char *where) {
    return mst_error(MUSTER_BAD_STATE, "%s: server '%.200s' has been destroyed", where, server->name);
}

muster_status mst_server_refuse_in_rule(const char *where) {
    return mst_error(MUSTER_BAD_STATE, "%s: called inside a rule or a completion function of server '%.200s', which must not call a server",
                     where, mst_server_in_rule->name);
}

muster_status muster_server_destroy(muster_server *server) {
    static const char where[] = "muster_server_destroy";
    if (!server) return MUSTER_OK;
    if (mst_server_is_from_before_fork(server)) return mst_server_refuse_child(where);
    if (mst_current_worker())
        return mst_error(MUSTER_BAD_STATE, "%s: called inside a running function (rank %" PRId32 ")", where,
                         mst_worker_public_rank(mst_current_worker()));
    if (mst_server_in_rule) return mst_server_refuse_in_rule(where);
    mst_owned *ended = NULL;
    pthread_mutex_lock(&server->ending);
    const muster_status status = server_has_ended(server)
                                     ? mst_server_refuse_destroyed(server, where)
                                     : server_end(server, where, mst_pool_settings(server->runtime->pool)->fail_after_ns);
    if (status == MUSTER_OK) ended = mst_server_take_owned(server);
    pthread_mutex_unlock(&server->ending);
    mst_owned_end(ended);
    return status;
}

/* ---- questions ---- */

static bool server_is_open(const muster_server *server) {
    return server && atomic_load(&((muster_server *)server)->life) == MST_SERVER_OPEN;
}

int32_t muster_server_count(const muster_server *server) { return server ? server->count : -1; }
int32_t muster_server_shards(const muster_server *server) { return server ? server->shards : -1; }
int64_t muster_server_elements(const muster_server *server, int32_t index) {
    return server_is_open(server) && index >= 0 && index < server->count ? server->values[index].elements : -1;
}

muster_dtype mst_server_dtype(const muster_server *server, int32_t index) { return server->values[index].dtype; }
int64_t mst_server_elements(const muster_server *server, int32_t index) { return server->values[index].elements; }

muster_status muster_server_shard(const muster_server *server, int32_t index, int32_t shard, int64_t *first, int64_t *elements) {
    static const char where[] = "muster_server_shard";
    if (!server) return mst_error_null(where, "server", "a server");
    if (!first || !elements) return mst_error_null(where, first ? "elements" : "first", "the address of a number");
    if (!server_is_open(server)) return mst_server_refuse_destroyed(server, where);
    if (index < 0 || index >= server->count)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %" PRId32 ", received %" PRId32, where, server->count - 1, index);
    if (shard < 0 || shard >= server->shards)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: shard: expected 0 to %" PRId32 ", received %" PRId32, where, server->shards - 1, shard);
    *first = server->values[index].shards[shard].first;
    *elements = server->values[index].shards[shard].count;
    return MUSTER_OK;
}

static void server_add_counts(muster_server_statistics *to, const mst_counts *from) {
    to->sends += atomic_load_explicit(&((mst_counts *)from)->sends, memory_order_relaxed);
    to->receives += atomic_load_explicit(&((mst_counts *)from)->receives, memory_order_relaxed);
    to->bytes += atomic_load_explicit(&((mst_counts *)from)->bytes, memory_order_relaxed);
}

muster_status muster_server_get_statistics(const muster_server *server, muster_server_statistics *statistics) {
    static const char where[] = "muster_server_get_statistics";
    if (!server) return mst_error_null(where, "server", "a server");
    if (!statistics) return mst_error_null(where, "statistics", "the address of the statistics");
    muster_server *asked = (muster_server *)server;
    muster_server_statistics sum = {.struct_size = sizeof sum};
    pthread_mutex_lock(&asked->lock);
    server_add_counts(&sum, &server->others);
    server_add_counts(&sum, &server->closed);
    for (int32_t r = 0; r < server->runtime_size; r++) server_add_counts(&sum, &server->workers[r].counts);
    for (const muster_client *client = server->clients; client; client = client->next) server_add_counts(&sum, &client->counts);
    pthread_mutex_unlock(&asked->lock);
    return mst_result_write(where, "statistics", "muster_server_statistics", &sum, sizeof sum, statistics);
}
