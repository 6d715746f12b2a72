/* Reading the ring of events beside its writer. */
#include "locale_impl.h"
#include "recorder_impl.h"

#include <inttypes.h>

muster_status mst_recorder_open(mst_recorder *recorder, int64_t events, bool nvtx, const char *where) {
    recorder->off = events == 0;
    if (events != 0 && events != MST_RECORDER_EVENTS) {
        size_t bytes = (size_t)events * sizeof(mst_event);
        mst_event *ring = mst_alloc_uninitialised(bytes); /* nobody reads an event that has not begun */
        if (!ring) return mst_out_of_memory(where, (int64_t)bytes);
        recorder->ring = ring;
        recorder->mask = (uint64_t)events - 1;
    }
    recorder->nvtx = nvtx;
    return MUSTER_OK;
}

void mst_recorder_close(mst_recorder *recorder) {
    mst_free(recorder->ring);
    recorder->ring = NULL;
}

const char *mst_event_kind_name(mst_event_kind kind) {
    static const char *const names[] = {"event", "call", "body", "collective", "stage", "collect", "message", "server", "step"};
    return (size_t)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : names[0];
}

/* The words of a message's event hold more than others'. */
static void unpack_message(mst_recorded *taken) {
    taken->tag = (int64_t)(taken->sequence & ((1u << MST_EVENT_TAG_BITS) - 1));
    taken->sequence >>= MST_EVENT_TAG_BITS;
    taken->peer = (int32_t)(taken->bytes >> MST_EVENT_BYTES_BITS);
    taken->bytes &= (1ll << MST_EVENT_BYTES_BITS) - 1;
}

/* false: the writer has begun to overwrite this event. Acquire loads keep the last load of count
 * behind the reads of the fields. */
static bool take(const mst_recorder *recorder, uint64_t index, mst_recorded *taken) {
    const mst_event *event = mst_recorder_slot(recorder, index);
    uint64_t sequence_kind = atomic_load_explicit(&event->sequence_kind, memory_order_acquire);
    taken->start = atomic_load_explicit(&event->start, memory_order_acquire);
    taken->end = atomic_load_explicit(&event->end, memory_order_acquire);
    taken->name = atomic_load_explicit(&event->name, memory_order_acquire);
    taken->bytes = atomic_load_explicit(&event->bytes, memory_order_acquire);
    taken->sequence = sequence_kind >> MST_EVENT_KIND_BITS;
    taken->kind = (mst_event_kind)(sequence_kind & 255);
    taken->tag = 0;
    taken->peer = -1;
    if (taken->kind == MST_EVENT_MESSAGE) unpack_message(taken);
    /* The slot of event `count` is the one being written, so that index + length == count is too
     * late already. */
    return atomic_load_explicit(&recorder->count, memory_order_acquire) < index + mst_recorder_length(recorder);
}

/* Events that were recorded. */
static uint64_t recorded(const mst_recorder *recorder) {
    return recorder->off ? 0 : atomic_load_explicit(&recorder->count, memory_order_acquire);
}

int64_t mst_recorder_read(const mst_recorder *recorder, mst_recorded *events, int64_t capacity, uint64_t *begun) {
    uint64_t count = recorded(recorder);
    uint64_t wanted = mst_recorder_length(recorder) - 1;
    int64_t taken = 0;
    if (wanted > (uint64_t)capacity) wanted = (uint64_t)capacity;
    for (uint64_t index = count > wanted ? count - wanted : 0; index < count; index++) taken += take(recorder, index, &events[taken]);
    if (begun) *begun = count;
    return taken;
}

void mst_recorder_each_name(const mst_recorder *recorder, void (*each)(void *user, const char *name), void *user) {
    const uint64_t count = recorded(recorder), length = mst_recorder_length(recorder);
    for (uint64_t index = count > length ? count - length : 0; index < count; index++) {
        const char *name = atomic_load_explicit(&mst_recorder_slot(recorder, index)->name, memory_order_acquire);
        if (name) each(user, name);
    }
}

uint64_t mst_recorder_progress(const mst_recorder *recorder) {
    uint64_t count = atomic_load_explicit(&recorder->count, memory_order_acquire);
    if (count == 0) return 0;
    const mst_event *newest = mst_recorder_slot(recorder, count - 1);
    return 2 * count - (atomic_load_explicit(&newest->end, memory_order_relaxed) == 0);
}

static double seconds(uint64_t from, uint64_t to) { return to > from ? (double)(to - from) / mst_ticks_per_ns() * 1e-9 : 0; }

static void describe(const mst_recorded *event, char *text, size_t size) {
    char message[64] = "", bytes[40] = "";
    if (event->peer >= 0) snprintf(message, sizeof(message), " with worker %" PRId32 ", tag %" PRId64, event->peer, event->tag);
    if (event->bytes > 0) snprintf(bytes, sizeof(bytes), ", %" PRId64 " bytes", event->bytes);
    uint64_t now = mst_ticks();
    const char *name = event->name ? event->name : "?";
    if (event->end == 0) {
        mst_snprintf(text, size, "%s %s #%" PRIu64 "%s%s, since %.3g s", mst_event_kind_name(event->kind), name, event->sequence, message,
                     bytes, seconds(event->start, now));
    } else {
        mst_snprintf(text, size, "%s %s #%" PRIu64 "%s%s, took %.3g s, finished %.3g s ago", mst_event_kind_name(event->kind), name,
                     event->sequence, message, bytes, seconds(event->start, event->end), seconds(event->end, now));
    }
}

const char *mst_recorder_last(const mst_recorder *recorder, char *text, size_t size) {
    for (int32_t attempt = 0; attempt < 8; attempt++) {
        uint64_t count = recorded(recorder);
        if (count == 0) {
            snprintf(text, size, recorder->off ? "unknown, since the recorder is off" : "nothing yet");
            return text;
        }
        mst_recorded event;
        if (take(recorder, count - 1, &event)) {
            describe(&event, text, size);
            return text;
        }
    }
    /* a ring overwritten eight times in a row: it is making progress */
    snprintf(text, size, "more events than can be read");
    return text;
}

void mst_recorder_dump(const mst_recorder *recorder, int32_t rank, int32_t events, void (*write)(void *user, const char *line),
                       void *user) {
    uint64_t count = recorded(recorder);
    uint64_t readable = mst_recorder_length(recorder) - 1;
    uint64_t wanted = events < 0 ? 0 : (uint64_t)events;
    if (wanted > readable) wanted = readable;
    for (uint64_t index = count > wanted ? count - wanted : 0; index < count; index++) {
        mst_recorded event;
        if (!take(recorder, index, &event)) continue;
        char text[160], line[200];
        describe(&event, text, sizeof(text));
        snprintf(line, sizeof(line), "rank %" PRId32 ": %s", rank, text);
        write(user, line);
    }
}
