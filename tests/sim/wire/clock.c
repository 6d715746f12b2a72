/* The clock: events in the order of their times, and what a message costs. */
#include "wire_clock_private.h"

#include <stdlib.h>
#include <string.h>

static bool event_before(const wire_event *a, const wire_event *b) {
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

void wire_clock_push(wire_launch *launch, wire_event event) {
    wire_clock *clock = launch->clock;
    if (clock->count == clock->limit) {
        const int64_t limit = clock->limit ? 2 * clock->limit : 256;
        wire_event *heap = wire_allocate(launch, (size_t)limit * sizeof *heap);
        if (!heap) abort();
        if (clock->count) memcpy(heap, clock->heap, (size_t)clock->count * sizeof *heap);
        wire_free(launch, clock->heap, (size_t)clock->limit * sizeof *heap);
        clock->heap = heap;
        clock->limit = limit;
    }
    event.number = clock->number++;
    int64_t i = clock->count++;
    for (; i && event_before(&event, &clock->heap[(i - 1) / 2]); i = (i - 1) / 2) clock->heap[i] = clock->heap[(i - 1) / 2];
    clock->heap[i] = event;
}

bool wire_clock_pop(wire_launch *launch, wire_event *event) {
    wire_clock *clock = launch->clock;
    if (!clock->count) return false;
    *event = clock->heap[0];
    const wire_event last = clock->heap[--clock->count];
    int64_t i = 0;
    while (2 * i + 1 < clock->count) {
        int64_t child = 2 * i + 1;
        if (child + 1 < clock->count && event_before(&clock->heap[child + 1], &clock->heap[child])) child++;
        if (!event_before(&clock->heap[child], &last)) break;
        clock->heap[i] = clock->heap[child];
        i = child;
    }
    clock->heap[i] = last;
    if (clock->now < event->time) clock->now = event->time;
    return true;
}

bool wire_clock_start(wire_launch *launch, const wire_clock_options *options) {
    wire_clock *clock = wire_allocate(launch, sizeof *clock);
    wire_times *times = wire_allocate(launch, sizeof *times * (size_t)launch->options.processes);
    if (!clock || !times) {
        wire_free(launch, clock, sizeof *clock);
        wire_free(launch, times, sizeof *times * (size_t)launch->options.processes);
        return false;
    }
    clock->options = *options;
    clock->times = times;
    clock->flying_end = &clock->flying;
    launch->clock = clock;
    return true;
}

void wire_clock_free(wire_launch *launch) {
    wire_clock *clock = launch->clock;
    if (!clock) return;
    wire_event event;
    while (wire_clock_pop(launch, &event))
        if (event.message) wire_message_free(launch, event.message);
    while (clock->options.chosen && clock->flying) {
        wire_message *message = clock->flying;
        clock->flying = message->flying;
        wire_message_free(launch, message);
    }
    wire_free(launch, clock->heap, (size_t)clock->limit * sizeof *clock->heap);
    wire_free(launch, clock->times, sizeof *clock->times * (size_t)launch->options.processes);
    wire_free(launch, clock, sizeof *clock);
    launch->clock = NULL;
}

static wire_times *clock_of(const muster_wire *wire) { return &wire->launch->clock->times[wire_process(wire->comm, wire->rank)]; }

void wire_clock_act(muster_wire *wire) {
    if (wire->launch->clock) clock_of(wire)->acts++;
}

int64_t wire_clock_now(const muster_wire *wire) { return wire->launch->clock ? clock_of(wire)->now : 0; }

void wire_clock_told(muster_wire *wire, const wire_request *request) {
    if (!wire->launch->clock) return;
    clock_of(wire)->acts++;
    if (request->kind == WIRE_RECEIVE && request->result != MUSTER_WIRE_LOST) clock_of(wire)->now += wire->launch->clock->options.overhead;
}

/* A request is done at this time: its process may want to know. */
void wire_clock_done(wire_request *request, int64_t time) {
    wire_launch *launch = request->wire->launch;
    if (!launch->clock) return;
    if (request->done_at < time) request->done_at = time;
    const int32_t process = wire_process(request->wire->comm, request->wire->rank);
    launch->clock->times[process].woken = true;
    if (!launch->clock->options.chosen)
        wire_clock_push(launch, (wire_event){.time = request->done_at, .kind = WIRE_EVENT_WAKE, .process = process});
}

void wire_clock_wake_all(wire_launch *launch) {
    for (int32_t p = 0; launch->clock && p < launch->options.processes; p++) launch->clock->times[p].woken = true;
    if (!launch->clock || launch->clock->options.chosen) return;
    for (int32_t p = 0; p < launch->options.processes; p++)
        wire_clock_push(launch,
                        (wire_event){.time = launch->clock->now + launch->clock->options.latency, .kind = WIRE_EVENT_WAKE, .process = p});
}

void wire_clock_collective(const wire_comm *comm, const wire_collective *collective, int64_t bytes) {
    wire_launch *launch = comm->members[0].launch;
    if (!launch->clock) return;
    const wire_clock_options *options = &launch->clock->options;
    int64_t last = 0;
    for (int32_t rank = 0; rank < comm->size; rank++)
        if (last < wire_clock_now(&comm->members[rank])) last = wire_clock_now(&comm->members[rank]);
    for (int32_t distance = 1; distance < comm->size; distance *= 2)
        last += options->latency + 2 * options->overhead + bytes * options->byte;
    for (int32_t rank = 0; rank < comm->size; rank++)
        if (collective->parts[rank].request) wire_clock_done(collective->parts[rank].request, last);
}

void wire_clock_arrived(const muster_wire *wire, const wire_message *message) {
    wire_clock *clock = wire->launch->clock;
    if (clock) clock->times[wire_process(wire->comm, wire->rank)].woken = true;
    if (!clock || clock->options.chosen) return;
    wire_clock_push(wire->launch,
                    (wire_event){.time = message->time, .kind = WIRE_EVENT_WAKE, .process = wire_process(wire->comm, wire->rank)});
}

/* When n bytes begin to leave a process that is ready at `time`. */
static int64_t clock_leave(wire_launch *launch, wire_times *times, int64_t time, int64_t bytes) {
    const wire_clock_options *options = &launch->clock->options;
    const int64_t start = time > times->out ? time : times->out;
    times->out = start + bytes * options->byte + options->gap;
    return start;
}

static int64_t clock_jitter(wire_launch *launch) {
    const int64_t jitter = launch->clock->options.jitter;
    return jitter ? (int64_t)(wire_random(launch) % (uint64_t)(jitter + 1)) : 0;
}

static bool clock_keeps_order(const wire_clock *clock) { return clock->options.jitter || clock->options.chosen; }

void wire_clock_send(wire_launch *launch, wire_message *message) {
    wire_clock *clock = launch->clock;
    wire_times *times = &clock->times[wire_process(message->comm, message->from)];
    times->acts++;
    times->now += clock->options.overhead;
    message->asks = message->bytes > launch->options.eager_bytes || launch->options.eager_bytes < 0;
    const int64_t bytes = message->asks ? 0 : message->bytes;
    const int64_t start = clock_leave(launch, times, times->now, bytes);
    if (!message->rendezvous) {
        message->send->done_at = start + bytes * clock->options.byte;
        wire_clock_done(message->send, message->send->done_at);
    }
    message->aloft = true;
    message->time = start + clock->options.latency + clock_jitter(launch);
    if (clock_keeps_order(clock)) {
        *clock->flying_end = message;
        clock->flying_end = &message->flying;
    }
    if (!clock->options.chosen) wire_clock_push(launch, (wire_event){.time = message->time, .kind = WIRE_EVENT_HEAD, .message = message});
}

static void clock_land(wire_clock *clock, wire_message *message) {
    for (wire_message **link = &clock->flying; *link; link = &(*link)->flying)
        if (*link == message) {
            *link = message->flying;
            if (!*link) clock->flying_end = link;
            message->flying = NULL;
            return;
        }
}

/* An earlier message of the same sender, receiver and tag that is on its way. */
static wire_message *clock_earlier(const wire_clock *clock, const wire_message *message) {
    for (wire_message *m = clock->flying; m && m != message; m = m->flying)
        if (m->comm == message->comm && m->from == message->from && m->to == message->to && m->tag == message->tag) return m;
    return NULL;
}

/* The first byte has come. */
static void clock_head(wire_launch *launch, wire_message *message, int64_t now) {
    wire_clock *clock = launch->clock;
    if (clock_keeps_order(clock)) {
        const wire_message *earlier = clock_earlier(clock, message);
        if (earlier) {
            message->time = earlier->time > now ? earlier->time : now;
            wire_clock_push(launch, (wire_event){.time = message->time, .kind = WIRE_EVENT_HEAD, .message = message});
            return;
        }
        clock_land(clock, message);
    }
    wire_times *times = &clock->times[wire_process(message->comm, message->to)];
    const int64_t start = now > times->in ? now : times->in;
    const int64_t there = start + (message->asks ? 0 : message->bytes * clock->options.byte);
    times->in = there + clock->options.gap;
    message->time = there;
    wire_clock_push(launch, (wire_event){.time = there, .kind = WIRE_EVENT_ARRIVED, .message = message});
}

bool wire_clock_match(wire_launch *launch, wire_message *message, wire_request *receive) {
    wire_clock *clock = launch->clock;
    if (!clock || clock->options.chosen) return false;
    const int64_t matched = receive->done_at > message->time ? receive->done_at : message->time;
    if (!message->asks) {
        receive->done_at = matched;
        if (message->send && message->rendezvous) message->send->done_at = matched + clock->options.latency;
        return false;
    }
    /* The bytes follow. */
    wire_times *from = &clock->times[wire_process(message->comm, message->from)];
    const int64_t start = clock_leave(launch, from, matched + clock->options.latency, message->bytes);
    if (message->send) {
        wire_request *send = message->send;
        if (!wire_message_keep(launch, message)) abort();
        wire_request_end(send, MUSTER_WIRE_OK, NULL);
        wire_clock_done(send, start + message->bytes * clock->options.byte);
    }
    receive->message = message;
    message->receive = receive;
    message->aloft = message->matched = true;
    wire_clock_push(
        launch, (wire_event){.time = start + clock->options.latency + clock_jitter(launch), .kind = WIRE_EVENT_DATA, .message = message});
    return true;
}

void wire_clock_release(wire_launch *launch, wire_message *message) {
    message->aloft = true;
    wire_clock_push(launch, (wire_event){.time = launch->clock->now, .kind = WIRE_EVENT_DATA, .message = message});
}

void wire_clock_do(wire_launch *launch, const wire_event *event) {
    wire_clock *clock = launch->clock;
    wire_message *message = event->message;
    if (event->kind == WIRE_EVENT_CALL) {
        event->function(event->user);
        return;
    }
    if (event->kind == WIRE_EVENT_WAKE) return;
    if (message->dropped) {
        if (clock_keeps_order(clock)) clock_land(clock, message);
        wire_message_free(launch, message);
        return;
    }
    if (event->kind == WIRE_EVENT_HEAD) {
        clock_head(launch, message, event->time);
    } else if (event->kind == WIRE_EVENT_ARRIVED) {
        message->aloft = false;
        wire_arrive(launch, message);
    } else if (event->kind == WIRE_EVENT_DATA && wire_is_cut(launch, message->comm, message->from, message->to)) {
        wire_hold(message);
    } else if (event->kind == WIRE_EVENT_DATA) {
        wire_times *to = &clock->times[wire_process(message->comm, message->to)];
        const int64_t start = event->time > to->in ? event->time : to->in;
        message->time = start + message->bytes * clock->options.byte;
        to->in = message->time + clock->options.gap;
        wire_clock_push(launch, (wire_event){.time = message->time, .kind = WIRE_EVENT_DATA_THERE, .message = message});
    } else {
        message->aloft = false;
        if (message->receive) {
            message->receive->done_at = message->time;
            message->receive->message = NULL;
        }
        wire_message_take(launch, message->receive, message);
    }
}

/* ---- choosing ---- */

int32_t wire_clock_choices(wire_launch *launch) {
    int32_t count = 0;
    for (wire_message *message = launch->clock->flying; message; message = message->flying) count += !clock_earlier(launch->clock, message);
    return count;
}

wire_choice wire_clock_choose(wire_launch *launch, int32_t choice) {
    wire_clock *clock = launch->clock;
    wire_message *message = clock->flying;
    for (;; message = message->flying)
        if (!clock_earlier(clock, message) && choice-- == 0) break;
    wire_choice chosen = {.from = wire_process(message->comm, message->from),
                          .to = wire_process(message->comm, message->to),
                          .tag = message->tag,
                          .bytes_hash = 1469598103934665603u};
    const unsigned char *bytes = message->copy ? message->copy : message->source;
    for (int64_t i = 0; i < message->bytes; i++) chosen.bytes_hash = (chosen.bytes_hash ^ bytes[i]) * 1099511628211u;
    clock_land(clock, message);
    message->aloft = false;
    if (message->dropped)
        wire_message_free(launch, message);
    else
        wire_arrive(launch, message);
    return chosen;
}
