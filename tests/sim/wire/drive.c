/* Driving all processes in one thread, in the order of their times. */
#include "wire_clock_private.h"

int64_t wire_clock_time(wire_launch *launch, int32_t process) {
    if (process >= 0) return launch->clock->times[process].now;
    int64_t latest = 0;
    for (int32_t p = 0; p < launch->options.processes; p++)
        if (launch->clock->times[p].now > latest) latest = launch->clock->times[p].now;
    return latest;
}

int64_t wire_clock_acts(wire_launch *launch, int32_t process) { return launch->clock->times[process].acts; }

static void drive_wake(wire_launch *launch, int32_t process) {
    wire_clock_push(launch, (wire_event){.time = launch->clock->times[process].now, .kind = WIRE_EVENT_WAKE, .process = process});
}

void wire_clock_work(wire_launch *launch, int32_t process, int64_t ps) { launch->clock->times[process].now += ps; }

void wire_clock_stop(wire_launch *launch, int32_t process) { launch->clock->times[process].stopped = true; }

void wire_clock_continue(wire_launch *launch, int32_t process) {
    wire_clock *clock = launch->clock;
    clock->times[process].stopped = false;
    if (clock->times[process].now < clock->now) clock->times[process].now = clock->now;
    drive_wake(launch, process);
}

void wire_clock_at(wire_launch *launch, int64_t time, void (*function)(void *user), void *user) {
    wire_clock_push(launch, (wire_event){.time = time, .kind = WIRE_EVENT_CALL, .function = function, .user = user});
}

bool wire_clock_open(wire_launch *launch, mst_wire **wires) {
    bool right = true;
    for (int32_t p = 0; p < launch->options.processes; p++) {
        muster_wire *state = NULL;
        muster_wire_request request = 0;
        wire_launch_join(launch, p);
        right &= launch->table.open(0, 0, &state, &request) == MUSTER_WIRE_OK;
        wires[p] = right ? wire_launch_wrap(launch, state) : NULL;
        right &= wires[p] != NULL;
        wire_request *opened = wire_request_find(launch, request);
        if (opened) wire_request_free(launch, opened);
    }
    wire_launch_join(NULL, 0);
    for (int32_t p = 0; !right && p < launch->options.processes; p++)
        if (wires[p]) wires[p]->close(wires[p], MST_WIRE_LOST);
    return right;
}

/* One process, until it waits. */
static void drive_process(wire_launch *launch, wire_drive *drive, int32_t process) {
    wire_times *times = &launch->clock->times[process];
    const int32_t calls = drive->idle_calls ? drive->idle_calls : 2;
    wire_launch_join(launch, process);
    for (int32_t idle = 0; idle < calls && !times->over; idle++) {
        const int64_t acts = times->acts;
        drive->steps++;
        if (drive->step(drive->user, process)) {
            times->over = true;
            drive->waiting--;
        }
        if (times->acts != acts) idle = -1;
    }
    wire_launch_join(NULL, 0);
}

/* Nothing is on its way. Some may have work of their own left. */
static bool drive_everybody(wire_launch *launch, wire_drive *drive) {
    bool acted = false;
    for (int32_t p = 0; p < launch->options.processes; p++) {
        wire_times *times = &launch->clock->times[p];
        if (times->over || times->stopped || launch->dead[p]) continue;
        const int64_t acts = times->acts;
        drive_process(launch, drive, p);
        acted |= times->acts != acts || times->over;
    }
    return acted;
}

static int32_t drive_alive(const wire_launch *launch) {
    int32_t count = 0;
    for (int32_t p = 0; p < launch->options.processes; p++) {
        const wire_times *times = &launch->clock->times[p];
        count += !times->over && !times->stopped && !launch->dead[p];
    }
    return count;
}

wire_verdict wire_clock_drive(wire_launch *launch, wire_drive *drive) {
    enum { QUIET_ROUNDS = 600 }; /* in which work of their own may be left */
    const int64_t most = drive->most_steps ? drive->most_steps : 100000000;
    drive->steps = 0;
    drive->waiting = launch->options.processes;
    for (int32_t p = 0; p < launch->options.processes; p++) {
        launch->clock->times[p].over = false;
        drive_wake(launch, p);
    }
    int32_t quiet = 0;
    for (wire_event event; drive->steps < most;) {
        if (!drive->waiting) return WIRE_ALL_OVER;
        if (!wire_clock_pop(launch, &event)) {
            if (!drive_alive(launch)) return WIRE_ALL_OVER;
            quiet = drive_everybody(launch, drive) ? 0 : quiet + 1;
            if (quiet == QUIET_ROUNDS) return WIRE_STUCK;
            continue;
        }
        quiet = 0;
        if (event.kind != WIRE_EVENT_WAKE) {
            wire_clock_do(launch, &event);
            continue;
        }
        wire_times *times = &launch->clock->times[event.process];
        if (times->over || times->stopped || launch->dead[event.process]) continue;
        if (times->now < event.time) times->now = event.time;
        if (times->now > event.time) { /* it is busy until then */
            drive_wake(launch, event.process);
            continue;
        }
        drive_process(launch, drive, event.process);
    }
    return WIRE_ENDLESS;
}

void wire_clock_settle(wire_launch *launch) {
    for (wire_event event; wire_clock_pop(launch, &event);) wire_clock_do(launch, &event);
}
