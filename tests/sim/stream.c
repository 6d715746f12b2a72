/* Streams: a queue, and a thread that does what is in it, in order, after a random delay. The queue
 * is a list with one reader; an entry is published by the store of its predecessor's next, so that
 * nothing flows back to who issues. */
#include "state_impl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sim_node {
    sim_node *_Atomic next;
    sim_entry entry;
    uint64_t turn; /* in its hardware queue */
    int user_count;
    atomic_int *users[];
};

/* A hardware queue. All counts are relaxed: sharing it orders nothing. Each wait is for something
 * that has an earlier turn, in any queue, so that the earliest turn can always begin. */
typedef struct sim_connection {
    atomic_ullong turns, begun; /* handed out; the entries whose turn is over */
    atomic_int waiters;
    sim_gate gate;
} sim_connection;

static sim_connection connections[SIM_DEVICES][SIM_CONNECTIONS_MAX];
static atomic_uint next_connection[SIM_DEVICES];
static sim_stream streams[SIM_STREAMS];
static atomic_uint next_place;

/* How many have been taken, ever. */
static int places(void) {
    unsigned taken = atomic_load_explicit(&next_place, memory_order_relaxed);
    return taken < SIM_STREAMS ? (int)taken : SIM_STREAMS;
}

/* ---- the stream's thread ---- */
bool sim_stream_ended(const sim_stream *stream) {
    return atomic_load_explicit(&sim_state.ending, memory_order_relaxed) || sim_device_error(stream->device) != SIM_OK;
}

static void delay(sim_stream *stream) {
    uint32_t longest = sim_state.options.longest_delay;
    if (!longest || sim_stream_ended(stream)) return;
    uint64_t nanoseconds = sim_random(&stream->chance) % ((uint64_t)longest * 1000 + 1);
    struct timespec pause = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
    nanosleep(&pause, NULL);
}

static void await_turn(sim_connection *connection, uint64_t turn) {
    if (atomic_load_explicit(&connection->begun, memory_order_relaxed) == turn) return;
    atomic_fetch_add_explicit(&connection->waiters, 1, memory_order_relaxed);
    for (;;) {
        uint32_t seen = sim_gate_look(&connection->gate);
        if (atomic_load_explicit(&connection->begun, memory_order_relaxed) == turn) break;
        sim_gate_wait(&connection->gate, seen);
    }
    atomic_fetch_sub_explicit(&connection->waiters, 1, memory_order_relaxed);
}

static void end_turn(sim_connection *connection) {
    atomic_fetch_add_explicit(&connection->begun, 1, memory_order_relaxed);
    if (atomic_load_explicit(&connection->waiters, memory_order_relaxed) > 0) sim_gate_bump(&connection->gate);
}

static void run_node(sim_stream *stream, sim_node *node) {
    const sim_entry *entry = &node->entry;
    await_turn(stream->connection, node->turn);
    if (!entry->waits) end_turn(stream->connection);
    if (entry->run && !sim_stream_ended(stream)) {
        sim_result result = entry->run(entry->data, stream);
        if (result) sim_device_fail(stream->device, result);
    }
    if (entry->waits) end_turn(stream->connection);
    atomic_fetch_add_explicit(&stream->ending, 1, memory_order_relaxed);
    if (entry->drop) entry->drop(entry->data);
    for (int i = 0; i < node->user_count; i++) atomic_fetch_sub_explicit(node->users[i], 1, memory_order_release);
}

/* The next entry; NULL: the stream ends. */
static sim_node *await_node(sim_stream *stream) {
    for (;;) {
        uint32_t seen = sim_gate_look(&stream->inbox);
        sim_node *node = atomic_load_explicit(&stream->head->next, memory_order_acquire);
        if (node) return node;
        if (atomic_load_explicit(&stream->closing, memory_order_acquire)) {
            if (!atomic_load_explicit(&stream->head->next, memory_order_acquire)) return NULL;
            continue;
        }
        sim_gate_wait(&stream->inbox, seen);
    }
}

static void *serve(void *argument) {
    sim_stream *stream = argument;
    sim_node *node;
    while ((node = await_node(stream)) != NULL) {
        free(stream->head);
        stream->head = node; /* kept as the list's end until there is a next one */
        delay(stream);
        run_node(stream, node);
        atomic_fetch_add_explicit(&stream->done, 1, memory_order_release);
        sim_gate_bump(&stream->progress);
    }
    free(stream->head);
    atomic_store_explicit(&stream->used, false, memory_order_release);
    return NULL;
}

/* ---- made and destroyed ---- */
static sim_stream *take_place(void) {
    for (int i = 0; i < SIM_STREAMS; i++) {
        sim_stream *stream = &streams[atomic_fetch_add_explicit(&next_place, 1, memory_order_relaxed) % SIM_STREAMS];
        bool used = false;
        if (atomic_compare_exchange_strong_explicit(&stream->used, &used, true, memory_order_acquire, memory_order_relaxed)) return stream;
    }
    return NULL;
}

static bool start(sim_stream *stream) {
    pthread_t thread;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int result = pthread_create(&thread, &attributes, serve, stream);
    pthread_attr_destroy(&attributes);
    return result == 0;
}

sim_result sim_stream_create(sim_context *context, bool blocking, sim_stream **result) {
    sim_stream *stream = take_place();
    sim_node *first = calloc(1, sizeof *first);
    if (!stream || !first) {
        free(first);
        if (stream) atomic_store(&stream->used, false);
        return SIM_OUT_OF_MEMORY;
    }
    stream->context = context;
    stream->device = context->device;
    stream->blocking = blocking;
    atomic_store(&stream->owner, 0);
    atomic_store(&stream->capture, NULL);
    const unsigned place = atomic_fetch_add_explicit(&next_connection[context->device], 1, memory_order_relaxed);
    stream->connection = &connections[context->device][place % (unsigned)sim_state.options.connections];
    pthread_mutex_init(&stream->issue, NULL);
    stream->head = stream->tail = first;
    atomic_store(&stream->issued, 0);
    atomic_store(&stream->issuer, 0);
    atomic_store(&stream->done, 0);
    atomic_store(&stream->ending, 0);
    atomic_store(&stream->closing, false);
    atomic_store(&stream->held, false);
    stream->chance = sim_state.options.seed * 1000003 + (uint64_t)(stream - streams) * 8 + (uint64_t)stream->device;
    if (!start(stream)) {
        free(first);
        atomic_store(&stream->used, false);
        return SIM_OPERATING_SYSTEM;
    }
    atomic_store_explicit(&stream->life, SIM_ALIVE, memory_order_release);
    *result = stream;
    return SIM_OK;
}

static void close_stream(sim_stream *stream) {
    atomic_store_explicit(&stream->life, SIM_DESTROYED, memory_order_release);
    atomic_store_explicit(&stream->closing, true, memory_order_release);
    sim_gate_bump(&stream->inbox);
}

void sim_stream_destroy(sim_stream *stream) {
    if (!sim_stream_idle(stream) && !sim_stream_ended(stream))
        sim_hazard("cuStreamDestroy: device %d: the stream has work that is not done", stream->device);
    close_stream(stream);
}

static int count_streams(int device, bool destroy) {
    int count = 0;
    for (int i = 0; i < places(); i++) {
        sim_stream *stream = &streams[i];
        if (atomic_load_explicit(&stream->life, memory_order_acquire) != SIM_ALIVE || stream->device != device) continue;
        count += stream != atomic_load(&stream->context->default_stream) && !atomic_load(&stream->owner);
        if (destroy) close_stream(stream);
    }
    return count;
}

int sim_streams_of(int device) { return count_streams(device, false); }
int sim_streams_destroy_all(int device) {
    sim_device_wait(device);
    return count_streams(device, true);
}

void sim_streams_end(void) {
    for (int i = 0; i < places(); i++)
        if (atomic_load(&streams[i].life) == SIM_ALIVE) close_stream(&streams[i]);
    sim_wake_all();
    for (int i = 0; i < places(); i++) {
        while (atomic_load_explicit(&streams[i].used, memory_order_acquire)) {
            sim_gate_bump(&streams[i].inbox);
            nanosleep(&(struct timespec){0, 100000}, NULL);
        }
        atomic_store(&streams[i].life, SIM_NEVER);
    }
    atomic_store(&next_place, 0);
    memset(connections, 0, sizeof connections);
    memset(next_connection, 0, sizeof next_connection);
}

void sim_wake_all(void) {
    for (int i = 0; i < places(); i++) {
        if (!atomic_load_explicit(&streams[i].used, memory_order_relaxed)) continue;
        sim_gate_bump(&streams[i].inbox);
        sim_gate_bump(&streams[i].progress);
    }
}

sim_stream *sim_streams_next(const sim_stream *stream) {
    for (int i = stream ? (int)(stream - streams) + 1 : 0; i < places(); i++)
        if (atomic_load_explicit(&streams[i].life, memory_order_acquire) == SIM_ALIVE) return &streams[i];
    return NULL;
}

/* ---- handles ---- */
static sim_stream *default_stream(void) {
    sim_context *context;
    if (sim_require(&context) != SIM_OK) return NULL;
    sim_stream *stream = atomic_load_explicit(&context->default_stream, memory_order_acquire);
    if (stream) return stream;
    pthread_mutex_lock(&sim_state_lock);
    stream = atomic_load(&context->default_stream);
    if (!stream && sim_stream_create(context, false, &stream) == SIM_OK) {
        atomic_store(&context->default_stream, stream);
        sim_trace("stream %d %p", (int)context->device, (void *)stream);
    }
    pthread_mutex_unlock(&sim_state_lock);
    return stream;
}

/* The calling thread's default stream in its current context, made when it is first used. */
static sim_stream *thread_stream(void) {
    sim_context *context;
    const unsigned long me = sim_thread_id();
    if (sim_require(&context) != SIM_OK) return NULL;
    for (sim_stream *stream = sim_streams_next(NULL); stream; stream = sim_streams_next(stream))
        if (stream->context == context && atomic_load_explicit(&stream->owner, memory_order_relaxed) == me) return stream;
    sim_stream *stream = NULL;
    if (sim_stream_create(context, true, &stream) != SIM_OK) return NULL;
    atomic_store(&stream->owner, me);
    sim_trace("stream %d %p", (int)context->device, (void *)stream);
    return stream;
}

sim_stream *sim_stream_of(void *handle) {
    if (!handle || handle == (void *)1) return default_stream(); /* CU_STREAM_LEGACY */
    if (handle == (void *)2) return thread_stream();             /* CU_STREAM_PER_THREAD */
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)streams;
    if (offset >= sizeof streams || offset % sizeof *streams) return NULL;
    sim_stream *stream = &streams[offset / sizeof *streams];
    int life = atomic_load_explicit(&stream->life, memory_order_acquire);
    if (life == SIM_DESTROYED) sim_hazard("use of a destroyed stream of device %d", stream->device);
    return life == SIM_ALIVE ? stream : NULL;
}

int sim_stream_device(const sim_stream *stream) { return stream->device; }
sim_context *sim_stream_context(const sim_stream *stream) { return stream->context; }

/* ---- issue ---- */
static void append(sim_stream *stream, sim_node *node) {
    pthread_mutex_lock(&stream->issue);
    /* before it counts as issued: who waits for it has a later turn */
    node->turn = atomic_fetch_add_explicit(&stream->connection->turns, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stream->issued, 1, memory_order_relaxed);
    atomic_store_explicit(&stream->tail->next, node, memory_order_release);
    stream->tail = node;
    pthread_mutex_unlock(&stream->issue);
    sim_gate_bump(&stream->inbox);
}

static sim_node *make_node(const sim_entry *entry, int users) {
    sim_node *node = calloc(1, sizeof *node + sizeof(atomic_int *) * (size_t)users);
    if (!node) return NULL;
    node->entry = *entry;
    node->user_count = users;
    return node;
}

typedef struct ticket {
    sim_stream *stream;
    uint64_t number;
} ticket;

static sim_result await_ticket(void *data, sim_stream *stream) {
    const ticket *awaited = data;
    for (;;) {
        uint32_t seen = sim_gate_look(&awaited->stream->progress);
        if (atomic_load_explicit(&awaited->stream->done, memory_order_acquire) >= awaited->number || sim_stream_ended(stream))
            return SIM_OK;
        sim_gate_wait(&awaited->stream->progress, seen);
    }
}

/* What `stream` does from now on comes after what `other` has been given. */
static sim_result join(sim_stream *stream, sim_stream *other) {
    if (sim_stream_idle(other)) return SIM_OK;
    ticket *awaited = malloc(sizeof *awaited);
    sim_node *node =
        awaited ? make_node(&(sim_entry){.what = "default stream", .run = await_ticket, .drop = free, .data = awaited, .waits = true}, 0)
                : NULL;
    if (!node) {
        free(awaited);
        return SIM_OUT_OF_MEMORY;
    }
    *awaited = (ticket){other, atomic_load_explicit(&other->issued, memory_order_relaxed)};
    append(stream, node);
    return SIM_OK;
}

/* The legacy default stream: ordered with all streams of its context but those made with
 * CU_STREAM_NON_BLOCKING. */
static sim_result join_default(sim_stream *stream) {
    sim_stream *defaults = atomic_load_explicit(&stream->context->default_stream, memory_order_acquire);
    if (!defaults) return SIM_OK;
    if (stream != defaults) return stream->blocking ? join(stream, defaults) : SIM_OK;
    for (int i = 0; i < places(); i++) {
        bool together = atomic_load_explicit(&streams[i].life, memory_order_acquire) == SIM_ALIVE &&
                        streams[i].context == stream->context && streams[i].blocking;
        sim_result result = together ? join(stream, &streams[i]) : SIM_OK;
        if (result) return result;
    }
    return SIM_OK;
}

static void lower(atomic_int *const *users, int count) {
    for (int i = 0; i < count; i++) atomic_fetch_sub_explicit(users[i], 1, memory_order_relaxed);
}

sim_result sim_stream_push_users(sim_stream *stream, const sim_entry *entry, atomic_int *const *users, int count) {
    bool captured = false;
    sim_context_enter(stream->device);
    sim_result result = sim_context_error(stream->context);
    if (!result) result = sim_capture_issue(stream, &captured);
    if (!result && captured) {
        lower(users, count);
        if (entry->drop) entry->drop(entry->data);
        return SIM_OK;
    }
    if (!result) result = join_default(stream);
    sim_node *node = result ? NULL : make_node(entry, count);
    if (!node) {
        lower(users, count);
        return result ? result : SIM_OUT_OF_MEMORY;
    }
    if (count) memcpy(node->users, users, sizeof *users * (size_t)count);
    append(stream, node);
    return SIM_OK;
}

sim_result sim_stream_push(sim_stream *stream, const sim_entry *entry) {
    atomic_int *users[SIM_USES_MAX];
    int count = 0;
    for (int i = 0; i < entry->use_count; i++) {
        const sim_use *use = &entry->uses[i];
        sim_block *block = sim_memory_find(-1, (uint64_t)(uintptr_t)use->address, use->bytes);
        sim_locked *locked = block ? NULL : sim_locked_find(-1, use->address, use->bytes);
        if (block || locked) users[count++] = block ? &block->users : &locked->users;
    }
    for (int i = 0; i < count; i++) atomic_fetch_add_explicit(users[i], 1, memory_order_relaxed);
    return sim_stream_push_users(stream, entry, users, count);
}

/* ---- waiting in the host ---- */
/* A thread that has seen the record at the end of the queue happen finds the queue empty: it waits
 * for the rest of that entry. */
bool sim_stream_idle(const sim_stream *stream) {
    uint64_t issued = atomic_load_explicit(&stream->issued, memory_order_relaxed);
    bool done;
    while (!(done = atomic_load_explicit(&stream->done, memory_order_acquire) >= issued)) {
        if (atomic_load_explicit(&stream->ending, memory_order_relaxed) < issued) break;
        sched_yield();
    }
    return done;
}

void sim_stream_wait(sim_stream *stream) {
    for (;;) {
        uint32_t seen = sim_gate_look(&stream->progress);
        if (sim_stream_idle(stream)) return;
        sim_gate_wait(&stream->progress, seen);
    }
}

/* A destroyed stream goes on until it is empty, and counts. */
void sim_device_wait(int device) {
    for (int i = 0; i < places(); i++)
        if (atomic_load_explicit(&streams[i].used, memory_order_acquire) && streams[i].device == device) sim_stream_wait(&streams[i]);
}

static bool has_done(const sim_stream *stream) {
    return atomic_load_explicit(&stream->done, memory_order_relaxed) >= atomic_load_explicit(&stream->issued, memory_order_relaxed);
}

void sim_device_drain(int device) {
    for (int i = 0; i < places(); i++) {
        sim_stream *stream = &streams[i];
        if (!atomic_load_explicit(&stream->used, memory_order_relaxed) || stream->device != device) continue;
        for (;;) {
            uint32_t seen = sim_gate_look(&stream->progress);
            if (has_done(stream) || atomic_load_explicit(&stream->held, memory_order_relaxed)) break;
            sim_gate_wait(&stream->progress, seen);
        }
    }
}

typedef struct stall {
    uint32_t milliseconds;
    unsigned since;
} stall;

static sim_result stand_still(void *data, sim_stream *stream) {
    const stall *what = data;
    atomic_store_explicit(&stream->held, true, memory_order_relaxed);
    sim_gate_bump(&stream->progress);
    sim_stall(what->milliseconds, what->since, stream);
    atomic_store_explicit(&stream->held, false, memory_order_relaxed);
    return SIM_OK;
}

sim_result sim_stream_stall(sim_stream *stream, uint32_t milliseconds) {
    stall *data = malloc(sizeof *data);
    if (!data) return SIM_OUT_OF_MEMORY;
    *data = (stall){milliseconds, sim_releases()};
    sim_result result = sim_stream_push(stream, &(sim_entry){.what = "stall", .run = stand_still, .drop = free, .data = data});
    if (result) free(data);
    return result;
}

void sim_device_stall(int device, uint32_t milliseconds) {
    for (int i = 0; i < places(); i++)
        if (atomic_load_explicit(&streams[i].life, memory_order_acquire) == SIM_ALIVE && streams[i].device == device)
            sim_stream_stall(&streams[i], milliseconds);
}
