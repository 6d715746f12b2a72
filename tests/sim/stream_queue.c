/* The queue of a stream, and the thread that does what is in it, in order, after a random delay.
 * The queue is a list with one reader; an entry is published by the store of its predecessor's
 * next, so that nothing flows back to the thread that issues. */
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

/* ---- the stream's thread ---- */
bool sim_stream_ended(const sim_stream *stream) {
    return atomic_load_explicit(&sim_state.ending, memory_order_relaxed) || sim_device_error(stream->device) != SIM_OK;
}

static void delay(sim_stream *stream) {
    uint32_t longest = sim_state.options.longest_delay, one_of = sim_state.options.delay_one_of;
    if (!longest || (one_of > 1 && sim_random(&stream->chance) % one_of != 0) || sim_stream_ended(stream)) return;
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

/* Nothing of a lost device runs on. Its queues wait for nothing any more, so that their records say
 * to others that its work is done, although a kernel of another queue may be in the midst of
 * writing. Only who comes here is ordered behind that kernel: it orders no queues of a device that
 * works. */
static void await_running(const sim_stream *stream) {
    while (atomic_load_explicit(&sim_state.devices[stream->device].running, memory_order_acquire) != 0)
        nanosleep(&(struct timespec){0, 20000}, NULL);
}

static void run_entry(sim_stream *stream, const sim_entry *entry) {
    atomic_int *running = &sim_state.devices[stream->device].running;
    if (!entry->run) return;
    if (!entry->waits) atomic_fetch_add_explicit(running, 1, memory_order_relaxed);
    if (!sim_stream_ended(stream)) {
        sim_result result = entry->run(entry->data, stream);
        if (result) sim_device_fail(stream->device, result);
    }
    if (!entry->waits) atomic_fetch_sub_explicit(running, 1, memory_order_release);
}

static void run_node(sim_stream *stream, sim_node *node) {
    const sim_entry *entry = &node->entry;
    await_turn(stream->connection, node->turn);
    if (!entry->waits) end_turn(stream->connection);
    run_entry(stream, entry);
    if (entry->waits) end_turn(stream->connection);
    if (sim_stream_ended(stream)) await_running(stream);
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

static bool start(sim_stream *stream) {
    pthread_t thread;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int result = pthread_create(&thread, &attributes, serve, stream);
    pthread_attr_destroy(&attributes);
    return result == 0;
}

sim_result sim_stream_open_queue(sim_stream *stream) {
    sim_node *first = calloc(1, sizeof *first);
    if (!first) return SIM_OUT_OF_MEMORY;
    const unsigned place = atomic_fetch_add_explicit(&next_connection[stream->device], 1, memory_order_relaxed);
    stream->connection = &connections[stream->device][place % (unsigned)sim_state.options.connections];
    pthread_mutex_init(&stream->issue, NULL);
    stream->head = stream->tail = first;
    atomic_store(&stream->issued, 0);
    atomic_store(&stream->issuer, 0);
    atomic_store(&stream->done, 0);
    atomic_store(&stream->ending, 0);
    atomic_store(&stream->closing, false);
    atomic_store(&stream->held, false);
    if (start(stream)) return SIM_OK;
    free(first);
    return SIM_OPERATING_SYSTEM;
}

void sim_connections_reset(void) {
    memset(connections, 0, sizeof connections);
    memset(next_connection, 0, sizeof next_connection);
}

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
    for (sim_stream *other = sim_streams_next(NULL); other; other = sim_streams_next(other)) {
        const bool together = other->context == stream->context && other->blocking;
        const sim_result result = together ? join(stream, other) : SIM_OK;
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

/* ---- standing still ---- */
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
