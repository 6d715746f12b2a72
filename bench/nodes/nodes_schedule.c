/* A schedule of Muster alone, in memory where the wire wants it: without the agreement before it,
 * and without the copies into Muster's buffers and out of them. What is left is what the table of
 * algorithms decides about. */
#include "clock.h"
#include "nodes/schedule_private.h"
#include "nodes_wire.h"

#include <stdlib.h>

struct nodes_schedules {
    mst_wire wire;
    mst_channel channel;
    mst_schedule schedule;
    int64_t bytes[COLLECTIVE_RANKS];
};

static struct nodes_schedules *open_schedules(struct nodes_wire *wire) {
    struct nodes_schedules *s = calloc(1, sizeof *s);
    if (!s || wire->size > COLLECTIVE_RANKS) return NULL;
    s->wire = (mst_wire){.table = wire->table, .state = wire->state, .process = wire->rank, .processes = wire->size};
    pthread_mutex_init(&s->wire.lock, NULL);
    s->channel = (mst_channel){.wire = &s->wire, .lane = 1, .size = wire->size, .rank = wire->rank};
    if (mst_schedule_prepare(&s->schedule, &s->channel, 0, 0) != MUSTER_OK) return NULL;
    return s;
}

static bool describe(struct nodes_schedules *s, const nodes_player *player, mst_move *move) {
    const collective_job *job = &player->job;
    const int64_t bytes = collective_job_bytes(job);
    *move = (mst_move){.algorithm = (mst_move_algorithm)job->variant,
                       .dtype = MUSTER_F32,
                       .op = MUSTER_SUM,
                       .root = job->root,
                       .count = job->count,
                       .bytes = s->bytes,
                       .send_bytes = s->bytes,
                       .from = player->buffers.input,
                       .to = player->buffers.output,
                       .any_order = true};
    for (int32_t m = 0; m < job->ranks; m++) s->bytes[m] = bytes / job->ranks;
    switch (job->op) {
    case COLLECTIVE_ALL_REDUCE:
        move->kind = MST_MOVE_ALL_REDUCE;
        return true;
    case COLLECTIVE_REDUCE_SCATTER:
        move->kind = MST_MOVE_REDUCE_SCATTER;
        return true;
    case COLLECTIVE_ALL_GATHER:
        move->kind = MST_MOVE_ALL_GATHER;
        return true;
    case COLLECTIVE_ALL_TO_ALL:
        move->kind = MST_MOVE_ALL_TO_ALL;
        return true;
    case COLLECTIVE_BROADCAST:
        move->kind = MST_MOVE_BROADCAST;
        move->count = bytes;
        move->from = NULL;
        if (player->rank == job->root) move->to = player->buffers.input;
        return true;
    default:
        return false;
    }
}

bool nodes_schedule_operate(nodes_player *player) {
    struct nodes_wire *wire = player->self;
    if (!wire->schedules) wire->schedules = open_schedules(wire);
    struct nodes_schedules *s = wire->schedules;
    mst_move move;
    if (!s || !describe(s, player, &move) || mst_schedule_begin(&s->schedule, &move) != MUSTER_OK) return false;
    mst_progress progress;
    while ((progress = mst_schedule_progress(&s->schedule)) == MST_PROGRESS_RUNNING)
        if (!s->schedule.machine.moved) bench_relax();
    /* It has one buffer, as MPI has. */
    if (progress == MST_PROGRESS_DONE && move.kind == MST_MOVE_BROADCAST && player->rank == player->job.root)
        for (int64_t i = 0; i < player->job.count; i++) player->buffers.output[i] = player->buffers.input[i];
    return progress == MST_PROGRESS_DONE;
}
