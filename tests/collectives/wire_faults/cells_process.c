/* What a process of a run does: three calls, each with rounds, data of the runtime, an arrival and
 * a move. */
#include "cells_private.h"

#include "memory_impl.h"

#include <stdio.h>
#include <string.h>

static const char cells_function[] = "muster_function_call", cells_reduce[] = "muster_worker_all_reduce",
                  cells_gather[] = "muster_worker_all_gather";

/* Does this process go wrong so in this call? */
static bool cells_is(int32_t p, int32_t call, cell_kind kind, cell_place place) {
    const cell *c = &cells_now.run->cell;
    return p == c->victim && call == c->call && c->kind == kind && c->place == place;
}

/* ---- notes ---- */

static muster_status cells_note(cell_note *note, muster_status status) {
    note->noted = true;
    note->status = status;
    if (status != MUSTER_OK) mst_error_save(note->message);
    return status;
}

static muster_status cells_note_place(int32_t p, int32_t call, cell_place place, muster_status status) {
    return cells_note(&cells_now.run->seen[p].notes[call - 1][place], status);
}

static void cells_log(void *user, muster_log_level level, const char *line) {
    cell_seen *seen = user;
    const size_t length = strlen(seen->log);
    (void)level;
    snprintf(seen->log + length, sizeof seen->log - length, "%s\n", line);
}

/* ---- a call ---- */

static unsigned char cells_byte(int32_t call, int32_t p, int64_t i) { return (unsigned char)(call * 31 + p * 101 + i * 7); }

/* Fills the part of the process in the concatenation, or looks at all of it. */
static bool cells_bytes(int32_t p, int32_t call, bool fills) {
    const cell *c = &cells_now.run->cell;
    unsigned char *memory = (unsigned char *)cells_now.processes[p].memory;
    bool right = true;
    for (int32_t q = 0; q < c->processes; q++)
        for (int64_t i = 0; i < c->bytes; i++) {
            unsigned char *byte = &memory[q * c->bytes + i];
            if (fills)
                *byte = q == p ? cells_byte(call, p, i) : 0xee;
            else
                right &= *byte == cells_byte(call, q, i);
        }
    return right;
}

static muster_status cells_transfer(int32_t p, int32_t call) {
    const cell *c = &cells_now.run->cell;
    cells_process *s = &cells_now.processes[p];
    int64_t bytes[CELL_MOST];
    for (int32_t q = 0; q < c->processes; q++) bytes[q] = c->bytes;
    cells_bytes(p, call, true);
    const muster_status status = mst_nodes_all_gather(s->nodes, cells_function, s->memory, bytes);
    if (status == MUSTER_OK) cells_now.run->seen[p].right[call - 1] = cells_bytes(p, call, false);
    return status;
}

static muster_status cells_wait(const cells_process *s, const char *where, const char *doing, int32_t lane, mst_machine *machine) {
    mst_nodes_wait wait = {.waiter = {.doing = doing, .epoch = mst_nodes_epoch(s->nodes), .lane = lane},
                           .where = where,
                           .phase = MST_WAIT_CALL,
                           .warn_after_ns = s->nodes->warn_after_ns,
                           .fail_after_ns = s->nodes->fail_after_ns};
    return mst_nodes_wait_run(s->nodes, &wait, machine);
}

static muster_status cells_arrive(cells_process *s) {
    const mst_arrival_input input = {.epoch = mst_nodes_epoch(s->nodes), .matched = !mst_nodes_one_host(s->nodes)};
    mst_arrival_begin(&s->arrival, &input);
    return cells_wait(s, cells_reduce, "all_reduce", 1, &s->arrival.machine);
}

/* What was given up before does not meet it: the move goes on another lane, as that of a
 * communicator does. */
static muster_status cells_move(int32_t p, int32_t call) {
    const cell *c = &cells_now.run->cell;
    cells_process *s = &cells_now.processes[p];
    mst_schedule *schedule = &s->schedules[call - 1];
    int64_t bytes[CELL_MOST];
    for (int32_t q = 0; q < c->processes; q++) bytes[q] = c->bytes;
    s->channels[call - 1] = (mst_channel){.wire = s->nodes->wire, .lane = 1 + call, .size = c->processes, .rank = p};
    MUSTER_TRY(mst_schedule_prepare(schedule, &s->channels[call - 1], 1u << c->algorithm, CELLS_SCRATCH));
    cells_bytes(p, call, true);
    const mst_move move = {.kind = MST_MOVE_ALL_GATHER, .algorithm = c->algorithm, .bytes = bytes, .to = s->memory};
    MUSTER_TRY(mst_schedule_begin(schedule, &move));
    const muster_status status = cells_wait(s, cells_gather, "all_gather", 1 + call, &schedule->machine);
    if (status == MUSTER_OK) cells_now.run->seen[p].right[call - 1] &= cells_bytes(p, call, false);
    return status;
}

static muster_status cells_fail(const cells_process *s, int32_t p, mst_round *round) {
    round->rank = cell_rank(p);
    mst_error(MUSTER_USER, "the body of rank %d says no", (int)round->rank);
    mst_nodes_poison(s->nodes, MUSTER_USER, round->rank);
    return MUSTER_USER;
}

static muster_status cells_body(int32_t p, int32_t call, mst_round *round) {
    cells_process *s = &cells_now.processes[p];
    cells_come(p, call, CELL_ARRIVAL);
    if (cells_is(p, call, CELL_FAILS, CELL_ARRIVAL)) return cells_note_place(p, call, CELL_ARRIVAL, cells_fail(s, p, round));
    MUSTER_TRY(cells_note_place(p, call, CELL_ARRIVAL, cells_arrive(s)));
    cells_come(p, call, CELL_DATA);
    if (cells_is(p, call, CELL_FAILS, CELL_DATA)) return cells_note_place(p, call, CELL_DATA, cells_fail(s, p, round));
    return cells_note_place(p, call, CELL_DATA, cells_move(p, call));
}

static mst_round cells_round(int32_t p, int32_t call) {
    mst_round round = {.where = cells_function, .rank = -1, .payload = "abcdefgh", .payload_bytes = 4};
    const bool differs = cells_is(p, call, CELL_DIFFERS, CELL_BEGIN), text = cells_now.run->cell.seed % 2;
    snprintf(round.text, sizeof round.text, "%s", differs && text ? cell_other_text : cell_text);
    round.signature = 7 + (uint64_t)differs;
    if (cells_is(p, call, CELL_REFUSES, CELL_BEGIN)) {
        round.status = mst_error(MUSTER_SHAPE_MISMATCH, "%s: input 'x': 3 rows", cells_function);
        round.rank = cell_rank(p);
    }
    return round;
}

static void cells_call(int32_t p, int32_t call) {
    cells_process *s = &cells_now.processes[p];
    mst_round round = cells_round(p, call);
    cells_come(p, call, CELL_BEGIN);
    if (cells_note_place(p, call, CELL_BEGIN, mst_nodes_begin(s->nodes, &round)) != MUSTER_OK) return;
    cells_come(p, call, CELL_TRANSFER);
    if (cells_note_place(p, call, CELL_TRANSFER, cells_transfer(p, call)) != MUSTER_OK) return;
    round.status = cells_body(p, call, &round);
    cells_come(p, call, CELL_END);
    if (cells_is(p, call, CELL_FAILS, CELL_END)) round.status = cells_fail(s, p, &round);
    if (cells_is(p, call, CELL_DIFFERS, CELL_END)) round.payload_bytes = 8;
    cells_note_place(p, call, CELL_END, mst_nodes_end(s->nodes, &round));
}

/* ---- a process ---- */

static bool cells_is_over(const cell_run *run) {
    const cell *c = &run->cell;
    return c->kind == CELL_REFUSES || c->kind == CELL_FAILS || c->kind == CELL_DIFFERS || c->ms < CELL_EVER_MS;
}

/* Before a call: until all have ended the one before, if nothing goes wrong, and until what went
 * wrong has passed. Some come a little later. */
static void cells_calm(int32_t p, int32_t call) {
    enum { CALL_MS = 500, SKEW_US = 3000 };
    const cell_run *run = cells_now.run;
    int64_t until = wire_fibers_epoch_ns + (int64_t)call * CALL_MS * CELLS_MS;
    if (call > run->cell.call && cells_is_over(run) && run->struck_ns)
        until = run->struck_ns + (int64_t)(run->cell.ms + CALL_MS) * CELLS_MS;
    until += (int64_t)((run->cell.seed * 31 + (uint64_t)(p * 7 + call)) * 2654435761u % SKEW_US) * 1000;
    const int64_t ns = until - wire_fibers_now_ns();
    if (ns > 0) wire_fibers_sleep(ns);
}

static void cells_calls(int32_t p) {
    const cell *c = &cells_now.run->cell;
    cells_process *s = &cells_now.processes[p];
    for (int32_t call = 1; call <= CELL_CALLS; call++) {
        const bool short_of_time = call == c->call || !cells_is_over(cells_now.run);
        cells_calm(p, call);
        s->nodes->fail_after_ns = (int64_t)(short_of_time ? CELL_DEADLINE_MS : CELL_PATIENT_MS) * CELLS_MS;
        s->nodes->warn_after_ns = short_of_time && c->seed % 3 ? (int64_t)CELL_DEADLINE_MS * 2 / 3 * CELLS_MS : -1;
        if (cells_is(p, call, CELL_EXITS, CELL_BEGIN)) return;
        cells_call(p, call);
        cells_now.run->seen[p].returned_ns[call - 1] = wire_fibers_now_ns();
        cells_come(p, call, CELL_PLACES);
    }
}

void cells_main(void *unused, int32_t p) {
    cell_seen *seen = &cells_now.run->seen[p];
    cells_process *s = &cells_now.processes[p];
    const mst_nodes_options options = {.warn_after_ns = -1,
                                       .fail_after_ns = (int64_t)CELL_PATIENT_MS * CELLS_MS,
                                       .on_lost = cells_now.run->cell.on_lost,
                                       .log = cells_log,
                                       .log_user = seen};
    char *names = NULL;
    (void)unused;
    muster_status status = mst_nodes_open(&options, &s->nodes);
    if (status == MUSTER_OK) s->nodes->rounds->lost_grace_ns = CELL_GRACE_MS * CELLS_MS;
    if (status == MUSTER_OK) status = mst_nodes_join(s->nodes, MUSTER_OK, p + 1, "version=1\n", "device\n", &names);
    mst_free(names);
    const mst_channel channel = {.wire = cells_now.wires[p], .lane = 1, .size = cells_now.run->cell.processes, .rank = p};
    if (status == MUSTER_OK) status = mst_arrival_open(&s->arrival, &channel, 0);
    cells_note(&seen->opened, status);
    if (status == MUSTER_OK) cells_calls(p);
    seen->closed = true;
    mst_nodes *nodes = s->nodes;
    s->nodes = NULL;
    mst_nodes_close(nodes);
}
