/* Stream capture. What is put into a capturing stream is not done, and calls that a graph could not
 * repeat are refused meanwhile and spoil the capture, as each thread's mode says. A graph is no
 * more than its handle: it cannot be launched. */
#include "state_impl.h"

#include <string.h>

enum { CAPTURES = 32 };

struct sim_capture {
    atomic_bool active, spoiled;
    atomic_ulong thread; /* that has begun it */
    atomic_uint mode;
    sim_stream *_Atomic origin;
};

static sim_capture captures[CAPTURES];
static atomic_int active_count;
static _Thread_local struct {
    unsigned generation; /* of the machine */
    unsigned mode;
} own;

static bool any(void) { return atomic_load_explicit(&active_count, memory_order_relaxed) > 0; }

static unsigned *own_mode(void) {
    const unsigned generation = atomic_load_explicit(&sim_state.generation, memory_order_relaxed);
    if (own.generation != generation) own.mode = SIM_CAPTURE_GLOBAL;
    own.generation = generation;
    return &own.mode;
}

unsigned sim_capture_exchange_mode(unsigned mode) {
    const unsigned before = *own_mode();
    *own_mode() = mode;
    return before;
}

static sim_capture *capture_of(const sim_stream *stream) { return atomic_load_explicit(&stream->capture, memory_order_relaxed); }

static void spoil(sim_capture *capture) { atomic_store_explicit(&capture->spoiled, true, memory_order_relaxed); }

/* ---- what is refused ---- */
static bool refuses(const sim_capture *capture) {
    const unsigned mode = *own_mode(), other = atomic_load_explicit(&capture->mode, memory_order_relaxed);
    if (atomic_load_explicit(&capture->thread, memory_order_relaxed) == sim_thread_id())
        return mode != SIM_CAPTURE_RELAXED && other != SIM_CAPTURE_RELAXED;
    return mode == SIM_CAPTURE_GLOBAL && other == SIM_CAPTURE_GLOBAL;
}

sim_result sim_capture_refuse_unsafe(void) {
    sim_result result = SIM_OK;
    for (int i = 0; any() && i < CAPTURES; i++) {
        if (!atomic_load_explicit(&captures[i].active, memory_order_relaxed) || !refuses(&captures[i])) continue;
        spoil(&captures[i]);
        result = SIM_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

/* The legacy default stream waits for all blocking streams of its context, which a capturing one
 * does not allow. */
static sim_result refuse_default(const sim_stream *stream, bool spoils) {
    sim_result result = SIM_OK;
    if (!any() || stream != atomic_load(&stream->context->default_stream)) return SIM_OK;
    for (const sim_stream *other = sim_streams_next(NULL); other; other = sim_streams_next(other)) {
        sim_capture *capture = capture_of(other);
        if (!capture || !other->blocking || other->context != stream->context) continue;
        if (spoils) spoil(capture);
        result = SIM_STREAM_CAPTURE_IMPLICIT;
    }
    return result;
}

sim_result sim_capture_refuse_wait(sim_stream *stream) {
    const sim_result implicit = refuse_default(stream, true);
    if (implicit) return implicit;
    sim_capture *capture = capture_of(stream);
    if (!capture) return sim_capture_refuse_unsafe();
    spoil(capture);
    return SIM_STREAM_CAPTURE_UNSUPPORTED;
}

sim_result sim_capture_refuse_event_wait(sim_event *event) {
    sim_capture *capture = atomic_load_explicit(&event->capture, memory_order_relaxed);
    if (!capture) return sim_capture_refuse_unsafe();
    spoil(capture);
    return SIM_CAPTURED_EVENT;
}

/* ---- what is put into streams ---- */
sim_result sim_capture_issue(sim_stream *stream, bool *captured) {
    sim_capture *capture = capture_of(stream);
    *captured = capture != NULL;
    if (!capture) return refuse_default(stream, true);
    return atomic_load_explicit(&capture->spoiled, memory_order_relaxed) ? SIM_STREAM_CAPTURE_INVALIDATED : SIM_OK;
}

void sim_capture_record(sim_event *event, const sim_stream *stream) {
    atomic_store_explicit(&event->capture, capture_of(stream), memory_order_relaxed);
}

/* A stream that waits for an event of a capture takes part in it from then on. */
sim_result sim_capture_wait(const sim_event *event, sim_stream *stream, bool *captured) {
    sim_capture *theirs = atomic_load_explicit(&event->capture, memory_order_relaxed), *ours = capture_of(stream);
    *captured = theirs || ours;
    if (theirs == ours) return SIM_OK;
    if (ours) spoil(ours);
    if (ours && theirs) spoil(theirs);
    if (ours) return theirs ? SIM_STREAM_CAPTURE_MERGE : SIM_STREAM_CAPTURE_ISOLATION;
    atomic_store_explicit(&stream->capture, theirs, memory_order_relaxed);
    return SIM_OK;
}

/* ---- begin, end, status ---- */
sim_result sim_capture_begin(sim_stream *stream, unsigned mode) {
    if (mode > SIM_CAPTURE_RELAXED) return SIM_INVALID_VALUE;
    if (stream == atomic_load(&stream->context->default_stream)) return SIM_STREAM_CAPTURE_UNSUPPORTED;
    if (capture_of(stream)) return SIM_ILLEGAL_STATE;
    for (int i = 0; i < CAPTURES; i++) {
        bool active = false;
        if (!atomic_compare_exchange_strong_explicit(&captures[i].active, &active, true, memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_store_explicit(&captures[i].spoiled, false, memory_order_relaxed);
        atomic_store_explicit(&captures[i].thread, sim_thread_id(), memory_order_relaxed);
        atomic_store_explicit(&captures[i].mode, mode, memory_order_relaxed);
        atomic_store_explicit(&captures[i].origin, stream, memory_order_relaxed);
        atomic_store_explicit(&stream->capture, &captures[i], memory_order_relaxed);
        atomic_fetch_add_explicit(&active_count, 1, memory_order_relaxed);
        return SIM_OK;
    }
    return SIM_OUT_OF_MEMORY;
}

/* How many streams took part, beside the one that began. */
static int detach(sim_capture *capture) {
    int others = 0;
    for (sim_stream *stream = sim_streams_next(NULL); stream; stream = sim_streams_next(stream)) {
        if (capture_of(stream) != capture) continue;
        others += stream != capture->origin;
        atomic_store_explicit(&stream->capture, NULL, memory_order_relaxed);
    }
    sim_events_end_capture(capture);
    return others;
}

sim_result sim_capture_end(sim_stream *stream, void **graph) {
    sim_capture *capture = capture_of(stream);
    *graph = NULL;
    if (!capture) return SIM_ILLEGAL_STATE;
    if (capture->origin != stream) return SIM_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != SIM_CAPTURE_RELAXED && capture->thread != sim_thread_id()) return SIM_STREAM_CAPTURE_WRONG_THREAD;
    const int others = detach(capture);
    const bool spoiled = atomic_load(&capture->spoiled);
    atomic_fetch_sub_explicit(&active_count, 1, memory_order_relaxed);
    atomic_store_explicit(&capture->active, false, memory_order_relaxed);
    if (spoiled) return SIM_STREAM_CAPTURE_INVALIDATED;
    if (others) return SIM_STREAM_CAPTURE_UNJOINED;
    *graph = capture;
    return SIM_OK;
}

sim_result sim_capture_status(const sim_stream *stream, unsigned *status) {
    const sim_capture *capture = capture_of(stream);
    const sim_result implicit = refuse_default(stream, false);
    if (implicit) return implicit;
    *status = !capture ? SIM_CAPTURE_NONE : atomic_load(&capture->spoiled) ? SIM_CAPTURE_INVALIDATED : SIM_CAPTURE_ACTIVE;
    return SIM_OK;
}

void sim_captures_end(void) {
    for (int i = 0; i < CAPTURES; i++) atomic_store(&captures[i].active, false);
    atomic_store(&active_count, 0);
}
