/* The recorder: what each worker did last. One writer (the worker), a ring of fixed size, always on. A reader of another thread may see the
 * newest events torn; it checks the sequence and leaves those out. */
#ifndef MST_RECORDER_IMPL_H
#define MST_RECORDER_IMPL_H

#include "clock_impl.h"
#include "memory_impl.h"

#include <stdatomic.h>
#include <stdio.h>

enum { MST_RECORDER_EVENTS = 256 }; /* a power of two */

typedef enum { MST_EVENT_CALL = 1, MST_EVENT_BODY, MST_EVENT_COLLECTIVE, MST_EVENT_STAGE, MST_EVENT_COLLECT } mst_event_kind;

/* Fields are relaxed atomics so that a reader beside the writer is defined. */
typedef struct mst_event {
    _Atomic uint64_t start, end; /* ticks; end 0: not finished */
    const char *_Atomic name;    /* a string that outlives the recorder's runtime (interned, or a literal) */
    _Atomic uint64_t sequence_kind; /* sequence << 8 | kind */
    _Atomic int64_t bytes;
} mst_event;

typedef struct mst_recorder {
    _Atomic uint64_t count; /* events begun */
    mst_event events[MST_RECORDER_EVENTS];
} mst_recorder;

static inline uint64_t mst_record_begin(mst_recorder *recorder, mst_event_kind kind, const char *name, uint64_t sequence, int64_t bytes) {
    uint64_t index = atomic_load_explicit(&recorder->count, memory_order_relaxed);
    mst_event *event = &recorder->events[index % MST_RECORDER_EVENTS];
    atomic_store_explicit(&event->end, 0, memory_order_relaxed);
    atomic_store_explicit(&event->name, name, memory_order_relaxed);
    atomic_store_explicit(&event->sequence_kind, sequence << 8 | (uint64_t)kind, memory_order_relaxed);
    atomic_store_explicit(&event->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&event->start, mst_ticks(), memory_order_relaxed);
    atomic_store_explicit(&recorder->count, index + 1, memory_order_release);
    return index;
}

static inline void mst_record_end(mst_recorder *recorder, uint64_t index) {
    atomic_store_explicit(&recorder->events[index % MST_RECORDER_EVENTS].end, mst_ticks(), memory_order_relaxed);
}

/* Number of events begun or ended: grows whenever the worker makes progress. */
uint64_t mst_recorder_progress(const mst_recorder *recorder);
/* The text of the newest event ("collective all_reduce #12, 4096 bytes, since 1.2 s"), "nothing yet" without one. Returns text. */
const char *mst_recorder_last(const mst_recorder *recorder, char *text, size_t size);
/* One line per event, oldest first, at most `events`; write is called per line. */
void mst_recorder_dump(const mst_recorder *recorder, int32_t rank, int32_t events, void (*write)(void *user, const char *line), void *user);

#endif
