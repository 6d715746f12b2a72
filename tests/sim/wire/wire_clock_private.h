/* The clock of a simulated launch. */
#ifndef SIM_WIRE_CLOCK_PRIVATE_H
#define SIM_WIRE_CLOCK_PRIVATE_H

#include "wire_clock.h"
#include "wire_launch_private.h"

typedef enum {
    WIRE_EVENT_HEAD,
    WIRE_EVENT_ARRIVED,
    WIRE_EVENT_DATA,
    WIRE_EVENT_DATA_THERE,
    WIRE_EVENT_WAKE,
    WIRE_EVENT_CALL
} wire_event_kind;

typedef struct wire_event {
    int64_t time, number; /* of equal times the lower number comes first */
    wire_event_kind kind;
    int32_t process;
    wire_message *message;
    void (*function)(void *user);
    void *user;
} wire_event;

/* The times of a process. */
typedef struct wire_times {
    int64_t now, out, in; /* its own; when its wires are free */
    int64_t acts;
    bool stopped, over;
    bool woken; /* with choice: something has happened to it since it has looked */
} wire_times;

typedef struct wire_clock {
    wire_clock_options options;
    wire_times *times; /* [processes] */
    wire_event *heap;
    int64_t count, limit, number, now; /* now: of the last event */
    wire_message *flying;              /* with jitter or choice: those whose first byte is not there, in the order of their sends */
    wire_message **flying_end;
} wire_clock;

void wire_clock_push(wire_launch *launch, wire_event event);
/* False: there is none. */
bool wire_clock_pop(wire_launch *launch, wire_event *event);
/* Does what an event means, but for WAKE. */
void wire_clock_do(wire_launch *launch, const wire_event *event);

#endif
