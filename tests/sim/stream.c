/* Streams: where they are, how they are made and destroyed, and what is asked of all streams of a
 * device. */
#include "state_impl.h"

#include <time.h>

static sim_stream streams[SIM_STREAMS];
static atomic_uint next_place;

/* How many have been taken, ever. */
static int places(void) {
    unsigned taken = atomic_load_explicit(&next_place, memory_order_relaxed);
    return taken < SIM_STREAMS ? (int)taken : SIM_STREAMS;
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

sim_result sim_stream_create(sim_context *context, bool blocking, sim_stream **result) {
    sim_stream *stream = take_place();
    if (!stream) return SIM_OUT_OF_MEMORY;
    stream->context = context;
    stream->device = context->device;
    stream->blocking = blocking;
    atomic_store(&stream->owner, 0);
    atomic_store(&stream->capture, NULL);
    stream->chance = sim_state.options.seed * 1000003 + (uint64_t)(stream - streams) * 8 + (uint64_t)stream->device;
    const sim_result opened = sim_stream_open_queue(stream);
    if (opened) {
        atomic_store(&stream->used, false);
        return opened;
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
    sim_connections_reset();
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

/* ---- all streams of a device ---- */
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

void sim_device_stall(int device, uint32_t milliseconds) {
    for (int i = 0; i < places(); i++)
        if (atomic_load_explicit(&streams[i].life, memory_order_acquire) == SIM_ALIVE && streams[i].device == device)
            sim_stream_stall(&streams[i], milliseconds);
}
