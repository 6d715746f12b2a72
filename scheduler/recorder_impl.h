/* The recorder: what each worker did last. One writer (the worker), a ring of fixed length, on
 * unless it is asked not to be. A reader of another thread may see the events torn that the writer
 * is about to overwrite; it can tell, and leaves those out. */
#ifndef MST_RECORDER_IMPL_H
#define MST_RECORDER_IMPL_H

#include "clock_impl.h"
#include "memory_impl.h"
#include "nvtx_impl.h"

#include <stdatomic.h>
#include <stdio.h>

/* powers of two */
enum { MST_RECORDER_EVENTS = 256, MST_RECORDER_LEAST_EVENTS = 16, MST_RECORDER_MOST_EVENTS = 1 << 24 };

typedef enum {
    MST_EVENT_CALL = 1,
    MST_EVENT_BODY,
    MST_EVENT_COLLECTIVE,
    MST_EVENT_STAGE,
    MST_EVENT_COLLECT,
    MST_EVENT_MESSAGE,
    MST_EVENT_SERVER,
    MST_EVENT_STEP /* of a compiled graph */
} mst_event_kind;

typedef struct mst_event {
    _Atomic uint64_t start, end;    /* ticks; end 0: not finished */
    const char *_Atomic name;       /* a string that outlives the recorder's runtime (interned, or a literal) */
    _Atomic uint64_t sequence_kind; /* sequence << 8 | kind */
    _Atomic int64_t bytes;
} mst_event;

/* An event of a message says with whom and under which tag, too, in the words that any event has:
 * sequence << 39 | tag << 8 | kind, and peer << 48 | bytes. So of its sequence the lowest 25 bits
 * are kept. */
enum { MST_EVENT_KIND_BITS = 8, MST_EVENT_TAG_BITS = 31, MST_EVENT_BYTES_BITS = 48 };

/* Zeroed memory is a recorder with a ring of MST_RECORDER_EVENTS. */
typedef struct mst_recorder {
    _Atomic uint64_t count; /* events begun */
    mst_event *ring;        /* NULL: own_events */
    uint64_t mask;          /* length of `ring` - 1 */
    bool nvtx;              /* every event is a range for the profiler, too */
    bool off;               /* events are only counted, which the deadlines want; none can be read */
    mst_event own_events[MST_RECORDER_EVENTS];
} mst_recorder;

static inline uint64_t mst_recorder_length(const mst_recorder *recorder) {
    return recorder->ring ? recorder->mask + 1 : MST_RECORDER_EVENTS;
}

static inline const mst_event *mst_recorder_slot(const mst_recorder *recorder, uint64_t index) {
    return recorder->ring ? &recorder->ring[index & recorder->mask] : &recorder->own_events[index % MST_RECORDER_EVENTS];
}

/* Event `index + length` is written only after count has become index + length. All its stores
 * release and all loads of a reader acquire, so a reader that has seen any part of it sees that
 * count afterwards, on every machine; x86 stores release anyway. */
static inline uint64_t mst_record_words(mst_recorder *recorder, const char *name, uint64_t sequence_kind, int64_t peer_bytes,
                                        int64_t bytes) {
    uint64_t index = atomic_load_explicit(&recorder->count, memory_order_relaxed);
    mst_event *event = (mst_event *)mst_recorder_slot(recorder, index);
    if (__builtin_expect(recorder->nvtx, false)) mst_nvtx_push(name, (uint32_t)(sequence_kind & 255), bytes);
    if (__builtin_expect(recorder->off, false)) {
        atomic_store_explicit(&recorder->count, index + 1, memory_order_release);
        return index;
    }
    atomic_store_explicit(&event->end, 0, memory_order_release);
    atomic_store_explicit(&event->name, name, memory_order_release);
    atomic_store_explicit(&event->sequence_kind, sequence_kind, memory_order_release);
    atomic_store_explicit(&event->bytes, peer_bytes, memory_order_release);
    atomic_store_explicit(&event->start, mst_ticks(), memory_order_release);
    atomic_store_explicit(&recorder->count, index + 1, memory_order_release);
    return index;
}

static inline uint64_t mst_record_begin(mst_recorder *recorder, mst_event_kind kind, const char *name, uint64_t sequence, int64_t bytes) {
    return mst_record_words(recorder, name, sequence << MST_EVENT_KIND_BITS | (uint64_t)kind, bytes, bytes);
}

/* name: "send" or "recv"; peer: its public rank; tag: 0 to 2^31 - 1; bytes: below 2^48. */
static inline uint64_t mst_record_message_begin(mst_recorder *recorder, const char *name, uint64_t sequence, int64_t bytes, int32_t peer,
                                                int64_t tag) {
    uint64_t sequence_kind = (sequence << MST_EVENT_TAG_BITS | (uint64_t)tag) << MST_EVENT_KIND_BITS | MST_EVENT_MESSAGE;
    return mst_record_words(recorder, name, sequence_kind, (int64_t)peer << MST_EVENT_BYTES_BITS | bytes, bytes);
}

static inline void mst_record_end(mst_recorder *recorder, uint64_t index) {
    uint64_t begun = atomic_load_explicit(&recorder->count, memory_order_relaxed) - index;
    mst_event *event = (mst_event *)mst_recorder_slot(recorder, index);
    /* Not if the events inside this one have filled the ring: the slot is another's by now. */
    if (__builtin_expect(begun <= mst_recorder_length(recorder) && !recorder->off, true))
        atomic_store_explicit(&event->end, mst_ticks(), memory_order_release);
    if (__builtin_expect(recorder->nvtx, false)) mst_nvtx_pop();
}

/* Before the first event. events: the length of the ring, a power of two between least and most; 0:
 * off; OUT_OF_MEMORY names `where`. close: after the last event and the last reader; needed only
 * after an open. */
muster_status mst_recorder_open(mst_recorder *recorder, int64_t events, bool nvtx, const char *where);
void mst_recorder_close(mst_recorder *recorder);

/* An event as it was read. */
typedef struct mst_recorded {
    uint64_t start, end, sequence;
    const char *name;
    int64_t bytes;
    int64_t tag;  /* of a message, with the next */
    int32_t peer; /* public rank; -1: no message */
    mst_event_kind kind;
} mst_recorded;

const char *mst_event_kind_name(mst_event_kind kind);
/* The newest events, at most `capacity`, oldest first; returns their number. An enclosing event
 * that is read as finished has only finished events in it.
 * begun: number of events so far; may be NULL. */
int64_t mst_recorder_read(const mst_recorder *recorder, mst_recorded *events, int64_t capacity, uint64_t *begun);

/* Calls `each` with the name of each event that the ring holds. */
void mst_recorder_each_name(const mst_recorder *recorder, void (*each)(void *user, const char *name), void *user);

/* Number of events begun or ended: grows whenever the worker makes progress. */
uint64_t mst_recorder_progress(const mst_recorder *recorder);
/* The text of the newest event ("collective all_reduce #12, 4096 bytes, since 1.2 s"), "nothing
 * yet" without one, another when off. Returns text. */
const char *mst_recorder_last(const mst_recorder *recorder, char *text, size_t size);
/* One line per event, oldest first, at most `events`; write is called per line. */
void mst_recorder_dump(const mst_recorder *recorder, int32_t rank, int32_t events, void (*write)(void *user, const char *line), void *user);

#endif
