/* A run: its launch, what goes wrong in it, and what is left of it. */
#include "cells_private.h"

#include "memory_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cell_text[] = "function 'train'", cell_other_text[] = "function 'evaluate'";
cells_state cells_now;

const char *cell_name(const cell *c, int32_t process, char text[MST_PROCESS_TEXT]) {
    snprintf(text, MST_PROCESS_TEXT, "process %d (host host%c)", (int)process, c->hosts[process]);
    return text;
}

/* ---- memory that is kept because the wire may still use it: until the launch is gone ---- */

void __wrap_mst_wire_keep(void *block);
void __wrap_mst_wire_keep(void *block) {
    if (cells_now.kept_count == CELLS_KEPT) abort();
    cells_now.kept[cells_now.kept_count++] = block;
}

void __real_mst_nodes_data_close(mst_nodes *nodes);
void __wrap_mst_nodes_data_close(mst_nodes *nodes);
void __wrap_mst_nodes_data_close(mst_nodes *nodes) {
    mst_nodes_data *data = (mst_nodes_data *)nodes->slabs;
    if (!data || !mst_schedule_in_flight(&data->schedule)) {
        __real_mst_nodes_data_close(nodes);
        return;
    }
    nodes->slabs = NULL;
    cells_now.data[cells_now.data_count++] = data;
}

static void cells_free_kept(void) {
    for (int32_t i = 0; i < cells_now.kept_count; i++) mst_free(cells_now.kept[i]);
    for (int32_t i = 0; i < cells_now.data_count; i++) {
        mst_nodes_data *data = cells_now.data[i];
        data->schedule.busy = 0;
        mst_slabs_close(&data->slabs, false);
        mst_schedule_free(&data->schedule);
        mst_free(data);
    }
    cells_now.kept_count = cells_now.data_count = 0;
}

/* ---- what goes wrong ---- */

static void cells_pass(void *unused) {
    const cell *c = &cells_now.run->cell;
    (void)unused;
    if (c->kind == CELL_STOPPED) wire_clock_continue(cells_now.launch, c->victim);
    if (c->kind == CELL_CUT) wire_launch_heal(cells_now.launch, c->victim, c->other);
    if (c->kind != CELL_DIES) return;
    wire_launch_join(cells_now.launch, c->other); /* the launcher */
    wire_launch_table(cells_now.launch)->abort(NULL, CELLS_CODE);
    wire_launch_join(NULL, 0);
}

static void cells_strike(int32_t place) {
    cell_run *run = cells_now.run;
    const cell *c = &run->cell;
    if (run->struck_ns) return;
    run->struck_ns = wire_fibers_now_ns();
    run->struck = (cell_place)place;
    if (c->kind == CELL_EXITS) wire_launch_table(cells_now.launch)->abort(cells_now.wires[c->victim]->state, CELLS_CODE);
    if (c->kind == CELL_KILLED || c->kind == CELL_DIES || c->kind == CELL_EXITS) wire_launch_kill(cells_now.launch, c->victim);
    if (c->kind == CELL_STOPPED) wire_clock_stop(cells_now.launch, c->victim);
    if (c->kind == CELL_CUT) wire_launch_cut(cells_now.launch, c->victim, c->other);
    if (c->kind == CELL_STOPPED || c->kind == CELL_CUT || c->kind == CELL_DIES)
        wire_clock_at(cells_now.launch, (wire_clock_time(cells_now.launch, c->victim) / 1000 + (int64_t)c->ms * CELLS_MS) * 1000,
                      cells_pass, NULL);
}

static bool cells_strikes(const cell *c) {
    if (c->kind == CELL_EXITS) return c->place != CELL_BEGIN;
    return c->kind <= CELL_CUT;
}

void cells_come(int32_t p, int32_t call, int32_t place) {
    const cell *c = &cells_now.run->cell;
    cells_process *s = &cells_now.processes[p];
    const bool here = p == c->victim && call == c->call && cells_strikes(c);
    const bool leaves = c->inside && s->call == call && s->place == (int32_t)c->place;
    s->call = call;
    s->place = place;
    s->sleeps = 0;
    if (here && (leaves || (!c->inside && place == (int32_t)c->place))) {
        cells_strike(place);
        wire_fibers_sleep(1); /* for ever, if the process is gone */
    }
}

static void cells_rest(void *unused, int32_t p) {
    const cell *c = &cells_now.run->cell;
    cells_process *s = &cells_now.processes[p];
    (void)unused;
    if (p != c->victim || s->call != c->call || s->place != (int32_t)c->place || !c->inside || !cells_strikes(c)) return;
    if (++s->sleeps == c->inside) cells_strike(s->place);
}

/* ---- all of it ---- */

/* A process that ended in the midst of something, or lives on beyond the time: what it has on the
 * wire goes with the launch. */
static void cells_bury(mst_nodes *nodes) {
    mst_control *control = &nodes->rounds->control;
    mst_arrival *arrival = &nodes->rounds->arrival;
    control->receive = 0;
    for (int32_t i = 0; i < MST_CONTROL_SLOTS; i++) control->slots[i].request = 0;
    for (int32_t type = 0; type < MST_CONTROL_POISON_KINDS; type++) {
        control->to_flood[type] = 0;
        for (int32_t i = 0; i < MST_CONTROL_STEPS; i++) control->flood[type][i].request = 0;
    }
    memset(arrival->sends, 0, sizeof arrival->sends);
    memset(arrival->receives, 0, sizeof arrival->receives);
    atomic_store(&nodes->lost, true);
    mst_nodes_close(nodes);
}

static void cells_end(int32_t p) {
    cells_process *s = &cells_now.processes[p];
    memset(s->arrival.sends, 0, sizeof s->arrival.sends);
    memset(s->arrival.receives, 0, sizeof s->arrival.receives);
    mst_arrival_close(&s->arrival);
    for (int32_t call = 0; call < CELL_CALLS; call++) {
        s->schedules[call].busy = 0;
        mst_schedule_free(&s->schedules[call]);
    }
    if (s->nodes) cells_bury(s->nodes);
    free(s->memory);
}

static bool cells_open(mst_wire **wire) {
    *wire = cells_now.wires[wire_fibers_process()];
    return true;
}

bool cell_do(cell_run *run) {
    enum { LATENCY = 20000000, OVERHEAD = 1000000, GAP = 200000, BYTE = 85 };
    const cell *c = &run->cell;
    const wire_launch_options options = {
        .processes = c->processes, .hosts = c->hosts, .fault_tolerance = c->kind == CELL_KILLED, .seed = c->seed};
    const wire_clock_options clock = {
        .latency = LATENCY, .overhead = OVERHEAD, .gap = GAP, .byte = BYTE, .jitter = (int64_t)(c->seed % 4) * LATENCY};
    memset(&cells_now, 0, sizeof cells_now);
    memset(run->seen, 0, sizeof run->seen);
    run->struck_ns = 0;
    cells_now.run = run;
    cells_now.launch = wire_launch_create(&options);
    if (!cells_now.launch) return false;
    bool right = wire_clock_start(cells_now.launch, &clock) && wire_clock_open(cells_now.launch, cells_now.wires);
    for (int32_t p = 0; p < c->processes; p++) {
        cells_now.processes[p].memory = malloc((size_t)c->processes * (size_t)c->bytes + 64);
        right &= cells_now.processes[p].memory != NULL;
    }
    wire_fibers fibers = {.body = cells_main, .rests = cells_rest, .late = c->late, .most_ns = 120 * INT64_C(1000000000)};
    mst_wire_test_open = cells_open;
    right = right && wire_fibers_run(cells_now.launch, &fibers);
    mst_wire_test_open = NULL;
    run->aborted = wire_launch_aborted(cells_now.launch);
    run->rested = fibers.rested;
    for (int32_t p = 0; p < c->processes; p++) {
        run->seen[p].over = fibers.over[p];
        run->seen[p].over_ns = fibers.over_ns[p];
        cells_end(p);
    }
    wire_launch_destroy(cells_now.launch);
    cells_free_kept();
    return right;
}
