/* Events. A record has a number; a wait or a query is about the last record at the moment it is
 * issued, and learns from that record alone that it has happened. */
#include "state_impl.h"

#include <stdlib.h>

static sim_event events[SIM_EVENTS];
static atomic_uint next_place;

/* How many have been taken, ever. */
static int places(void) {
    unsigned taken = atomic_load_explicit(&next_place, memory_order_relaxed);
    return taken < SIM_EVENTS ? (int)taken : SIM_EVENTS;
}

sim_result sim_event_create(sim_context *context, sim_event **result) {
    for (int i = 0; i < SIM_EVENTS; i++) {
        sim_event *event = &events[atomic_fetch_add_explicit(&next_place, 1, memory_order_relaxed) % SIM_EVENTS];
        int life = atomic_load_explicit(&event->life, memory_order_relaxed);
        if (life == SIM_ALIVE || atomic_load(&event->users)) continue;
        if (!atomic_compare_exchange_strong(&event->life, &life, SIM_ALIVE)) continue;
        event->context = context;
        atomic_store_explicit(&event->capture, NULL, memory_order_relaxed);
        atomic_store(&event->recorded, 0);
        for (int m = 0; m < SIM_MARKS; m++) atomic_store(&event->marks[m].done, 0);
        *result = event;
        return SIM_OK;
    }
    return SIM_OUT_OF_MEMORY;
}

sim_event *sim_event_of(void *handle) {
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)events;
    if (offset >= sizeof events || offset % sizeof *events) return NULL;
    sim_event *event = &events[offset / sizeof *events];
    int life = atomic_load_explicit(&event->life, memory_order_relaxed);
    if (life == SIM_DESTROYED) sim_hazard("use of a destroyed event");
    return life == SIM_ALIVE ? event : NULL;
}

void sim_event_destroy(sim_event *event) {
    if (atomic_load_explicit(&event->queued, memory_order_relaxed) && !sim_context_error(event->context))
        sim_hazard("cuEventDestroy: device %d: a queued record of the event, or a wait for it, is not done", event->context->device);
    atomic_store_explicit(&event->life, SIM_DESTROYED, memory_order_relaxed);
}

/* ---- what streams do ---- */
typedef struct mark {
    sim_event *event;
    uint64_t number;
    sim_stream *stream; /* of the record */
} mark;

static bool happened(sim_event *event, uint64_t number) {
    return atomic_load_explicit(&event->marks[number % SIM_MARKS].done, memory_order_acquire) >= number;
}

/* Also without having run: a thread that waits for the record of a lost device must go on. */
static void drop_record(void *data) {
    mark *record = data;
    atomic_fetch_sub_explicit(&record->event->queued, 1, memory_order_relaxed);
    atomic_store_explicit(&record->event->marks[record->number % SIM_MARKS].done, record->number, memory_order_release);
    atomic_fetch_sub_explicit(&record->event->users, 1, memory_order_relaxed);
    sim_gate_bump(&record->stream->progress);
    free(record);
}

static sim_result run_wait(void *data, sim_stream *stream) {
    const mark *awaited = data;
    for (;;) {
        uint32_t seen = sim_gate_look(&awaited->stream->progress);
        if (happened(awaited->event, awaited->number) || sim_stream_ended(stream)) return SIM_OK;
        sim_gate_wait(&awaited->stream->progress, seen);
    }
}

static void drop_wait(void *data) {
    mark *awaited = data;
    atomic_fetch_sub_explicit(&awaited->event->queued, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&awaited->event->users, 1, memory_order_relaxed);
    free(awaited);
}

static sim_result push(const mark *what, sim_stream *stream, sim_entry *entry) {
    mark *data = malloc(sizeof *data);
    if (!data) return SIM_OUT_OF_MEMORY;
    *data = *what;
    entry->data = data;
    atomic_fetch_add_explicit(&what->event->users, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&what->event->queued, 1, memory_order_relaxed);
    sim_result result = sim_stream_push(stream, entry);
    if (result) {
        atomic_fetch_sub_explicit(&what->event->queued, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&what->event->users, 1, memory_order_relaxed);
        free(data);
    }
    return result;
}

/* ---- what callers do ---- */
sim_result sim_event_record(sim_event *event, sim_stream *stream) {
    bool captured;
    const sim_result refused = sim_capture_issue(stream, &captured);
    if (refused) return refused;
    sim_capture_record(event, stream);
    if (captured) return SIM_OK;
    mark record = {event, atomic_load_explicit(&event->recorded, memory_order_relaxed) + 1, stream};
    /* no two threads record one event, or one records while another waits, unless something else
     * orders them */
    event->touched++;
    atomic_store_explicit(&event->marks[record.number % SIM_MARKS].stream, stream, memory_order_relaxed);
    sim_result result = push(&record, stream, &(sim_entry){.what = "cuEventRecord", .drop = drop_record});
    if (!result) atomic_store_explicit(&event->recorded, record.number, memory_order_release);
    return result;
}

sim_result sim_event_wait(sim_event *event, sim_stream *stream) {
    volatile const int *touched = &event->touched;
    (void)*touched;
    bool captured;
    const sim_result refused = sim_capture_wait(event, stream, &captured);
    if (refused || captured) return refused;
    uint64_t number = atomic_load_explicit(&event->recorded, memory_order_acquire);
    if (number == 0) return SIM_OK;
    sim_stream *recorded_on = atomic_load_explicit(&event->marks[number % SIM_MARKS].stream, memory_order_relaxed);
    return push(&(mark){event, number, recorded_on}, stream,
                &(sim_entry){.what = "cuStreamWaitEvent", .run = run_wait, .drop = drop_wait, .waits = true});
}

bool sim_event_done(sim_event *event) {
    volatile const int *touched = &event->touched;
    (void)*touched;
    uint64_t number = atomic_load_explicit(&event->recorded, memory_order_acquire);
    return number == 0 || happened(event, number);
}

static int count_events(int device, bool destroy) {
    int count = 0;
    for (int i = 0; i < places(); i++) {
        if (atomic_load_explicit(&events[i].life, memory_order_relaxed) != SIM_ALIVE || events[i].context->device != device) continue;
        count++;
        if (destroy) atomic_store(&events[i].life, SIM_DESTROYED);
    }
    return count;
}

void sim_events_end_capture(const sim_capture *capture) {
    for (int i = 0; i < places(); i++)
        if (atomic_load_explicit(&events[i].capture, memory_order_relaxed) == capture)
            atomic_store_explicit(&events[i].capture, NULL, memory_order_relaxed);
}

int sim_events_of(int device) { return count_events(device, false); }
int sim_events_destroy_all(int device) { return count_events(device, true); }

void sim_events_end(void) {
    for (int i = 0; i < places(); i++) {
        atomic_store(&events[i].life, SIM_NEVER);
        atomic_store(&events[i].users, 0);
        atomic_store(&events[i].queued, 0);
    }
    atomic_store(&next_place, 0);
}
