/* The data functions of nodes_impl.h: memory of any kind goes through a slab, as much at a time as
 * fits. They serve what the rounds are too small for, outside of calls: variables, inputs and
 * outputs. */
#include "nodes_data_private.h"

#include "dtype_impl.h"
#include "hash_impl.h"
#include "memory_impl.h"
#include "rounds_private.h"
#include "tensor_impl.h"
#include "ways_private.h"

#include <stdio.h>
#include <string.h>

muster_status mst_nodes_data_open(mst_nodes *nodes, const char *where) {
    int64_t bytes;
    MUSTER_TRY(mst_slabs_size(&bytes));
    mst_nodes_data *data = mst_alloc(sizeof *data + sizeof(double) * (size_t)nodes->processes + sizeof(int64_t) * (size_t)nodes->processes);
    if (!data) return mst_out_of_memory(where, (int64_t)sizeof *data);
    data->scales = (double *)(data + 1);
    data->bytes = (int64_t *)(data->scales + nodes->processes);
    data->channel = (mst_channel){.wire = nodes->wire, .lane = 0, .size = nodes->processes, .rank = nodes->process};
    for (int32_t p = 0; p < nodes->processes; p++) data->scales[p] = 1.0 / nodes->processes;
    nodes->slabs = &data->slabs;
    muster_status status = mst_slabs_open(&data->slabs, where, bytes);
    if (status == MUSTER_OK) status = mst_schedule_prepare(&data->schedule, &data->channel, 0, 0);
    if (status != MUSTER_OK) mst_nodes_data_close(nodes);
    return status;
}

void mst_nodes_data_close(mst_nodes *nodes) {
    mst_nodes_data *data = (mst_nodes_data *)nodes->slabs;
    if (!data) return;
    nodes->slabs = NULL;
    mst_slabs_close(&data->slabs, mst_schedule_in_flight(&data->schedule));
    mst_schedule_free(&data->schedule);
    mst_free(data);
}

static mst_nodes_data *data_of(const mst_nodes *nodes) { return (mst_nodes_data *)nodes->slabs; }

/* ---- after a transfer without some ---- */

uint64_t mst_nodes_data_number(const mst_nodes *nodes) {
    const mst_nodes_data *data = data_of(nodes);
    return data ? (uint64_t)data->lanes << 32 | data->moves : 0;
}

/* Other slabs and another schedule: those in use are leaked, and counted. */
static muster_status renew_memory(mst_nodes_data *data, const char *where) {
    mst_slabs slabs;
    mst_schedule schedule;
    MUSTER_TRY(mst_slabs_open(&slabs, where, 2 * data->slabs.bytes));
    const muster_status status = mst_schedule_prepare(&schedule, &data->channel, 0, 0);
    if (status != MUSTER_OK) {
        mst_slabs_close(&slabs, false);
        return status;
    }
    mst_slabs_close(&data->slabs, true);
    mst_schedule_free(&data->schedule);
    data->slabs = slabs;
    data->schedule = schedule;
    return MUSTER_OK;
}

muster_status mst_nodes_data_renew(mst_nodes *nodes, const char *where, uint64_t most) {
    mst_nodes_data *data = data_of(nodes);
    const uint32_t lanes = (uint32_t)(most >> 32) + 1;
    if (!data) return MUSTER_OK;
    if (lanes > MST_NODES_DATA_LANES)
        return mst_error(MUSTER_BAD_STATE,
                         "%s: more than %d calls were given up while data were on their way between processes; this runtime can only be "
                         "closed",
                         where, MST_NODES_DATA_LANES);
    if (mst_schedule_in_flight(&data->schedule)) MUSTER_TRY(renew_memory(data, where));
    data->channel.lane = MST_WIRE_LANES - (int32_t)lanes;
    data->lanes = lanes;
    data->moves = 0;
    return MUSTER_OK;
}

/* TIMEOUT, and the call is not given up: wait.late is lost. A process that packs much, or copies to
 * its device, is silent for so long, and answers the next search. */
static muster_status data_wait(mst_nodes *nodes, mst_nodes_wait *wait, mst_machine *machine) {
    mst_suspicion suspicion = {0};
    for (;;) {
        const muster_status status = mst_nodes_wait_run(nodes, wait, machine);
        if (status != MUSTER_TIMEOUT || mst_nodes_given_up(nodes) || mst_late_is_lost(&suspicion, wait, wait->silent)) return status;
    }
}

/* Moves what is in the first slab. */
static muster_status data_move(mst_nodes *nodes, const char *where, mst_move *move) {
    mst_nodes_data *data = data_of(nodes);
    if (nodes->lost || mst_schedule_in_flight(&data->schedule)) return mst_nodes_lost_before(nodes, where);
    MUSTER_TRY(mst_schedule_begin(&data->schedule, move));
    data->moves++;
    char doing[64];
    snprintf(doing, sizeof doing, "%s (%s)", where, mst_move_kind_name(move->kind));
    mst_nodes_wait wait = {.waiter = {.doing = doing, .lane = 0, .epoch = nodes->rounds->epoch},
                           .where = where,
                           .phase = MST_WAIT_ROUND,
                           .spin_ns = nodes->spin_ns,
                           .warn_after_ns = nodes->warn_after_ns,
                           .fail_after_ns = nodes->fail_after_ns};
    const muster_status status = data_wait(nodes, &wait, &data->schedule.machine);
    if (status != MUSTER_TIMEOUT || mst_nodes_given_up(nodes)) return status;
    /* All have agreed to take part, so who is silent now is not in code of the program: it is
     * lost. One that answers waits for yet another. */
    if (wait.silent) return mst_nodes_lose(nodes, where, wait.late, "does not take part in a transfer that it has begun");
    char late[MST_MESSAGE_SIZE];
    mst_error_save(late);
    mst_error(MUSTER_NODE_LOST, "%.*s; this runtime can only be closed", MST_MESSAGE_SIZE - 40, late);
    mst_error_save(late);
    return mst_nodes_lose_as(nodes, late);
}

/* The bytes of `bytes` before segment i of `segments`, rounded down: no product overflows. */
static int64_t data_before(int64_t bytes, int64_t i, int64_t segments) { return bytes / segments * i + bytes % segments * i / segments; }

/* A concatenation of bytes[p] bytes of each process moves in segments, in each of which every
 * process has the same part of its bytes, so that all work all the time. */
typedef struct data_parts {
    mst_nodes *nodes;
    const int64_t *bytes;
    int64_t segment, segments;
} data_parts;

static data_parts data_parts_of(mst_nodes *nodes, const int64_t *bytes) {
    int64_t all = 0;
    for (int32_t p = 0; p < nodes->processes; p++) all += bytes[p];
    const int64_t most = data_of(nodes)->slabs.bytes - nodes->processes;
    return (data_parts){.nodes = nodes, .bytes = bytes, .segments = (all + most - 1) / most};
}

/* Sets data->bytes to those of the segment. */
static void data_parts_measure(const data_parts *parts) {
    for (int32_t p = 0; p < parts->nodes->processes; p++)
        data_of(parts->nodes)->bytes[p] = data_before(parts->bytes[p], parts->segment + 1, parts->segments) -
                                          data_before(parts->bytes[p], parts->segment, parts->segments);
}

/* Copies the segment of the processes from `first` to before `last` between `buffer`, the
 * concatenation, and the slab; `but` is passed over. */
static void data_parts_copy(const data_parts *parts, char *buffer, bool to_slab, int32_t first, int32_t last, int32_t but) {
    const mst_nodes_data *data = data_of(parts->nodes);
    char *slab = data->slabs.memory[0];
    for (int32_t p = 0; p < last; slab += data->bytes[p], buffer += parts->bytes[p++]) {
        char *at = buffer + data_before(parts->bytes[p], parts->segment, parts->segments);
        if (p < first || p == but) continue;
        memcpy(to_slab ? slab : at, to_slab ? at : slab, (size_t)data->bytes[p]);
    }
}

/* The segment of the bytes of this process, which begin at `first`. */
static char *data_parts_own(const data_parts *parts, char *first) {
    return first + data_before(parts->bytes[parts->nodes->process], parts->segment, parts->segments);
}

muster_status mst_nodes_all_gather(mst_nodes *nodes, const char *where, void *buffer, const int64_t *bytes) {
    mst_nodes_data *data = data_of(nodes);
    for (data_parts parts = data_parts_of(nodes, bytes); parts.segment < parts.segments; parts.segment++) {
        data_parts_measure(&parts);
        data_parts_copy(&parts, buffer, true, nodes->process, nodes->process + 1, -1);
        mst_move move = {.kind = MST_MOVE_ALL_GATHER, .bytes = data->bytes, .to = data->slabs.memory[0]};
        MUSTER_TRY(data_move(nodes, where, &move));
        data_parts_copy(&parts, buffer, false, 0, nodes->processes, nodes->process);
    }
    return MUSTER_OK;
}

muster_status mst_nodes_gather(mst_nodes *nodes, const char *where, int32_t root, void *buffer, const int64_t *bytes) {
    mst_nodes_data *data = data_of(nodes);
    const bool gets = nodes->process == root;
    char *slab = data->slabs.memory[0];
    for (data_parts parts = data_parts_of(nodes, bytes); parts.segment < parts.segments; parts.segment++) {
        data_parts_measure(&parts);
        if (gets)
            data_parts_copy(&parts, buffer, true, root, root + 1, -1);
        else
            memcpy(slab, data_parts_own(&parts, buffer), (size_t)data->bytes[nodes->process]);
        mst_move move = {.kind = MST_MOVE_GATHER, .root = root, .bytes = data->bytes, .from = gets ? NULL : slab, .to = gets ? slab : NULL};
        MUSTER_TRY(data_move(nodes, where, &move));
        if (gets) data_parts_copy(&parts, buffer, false, 0, nodes->processes, root);
    }
    return MUSTER_OK;
}

muster_status mst_nodes_scatter(mst_nodes *nodes, const char *where, int32_t root, void *buffer, const int64_t *bytes) {
    mst_nodes_data *data = data_of(nodes);
    const bool gives = nodes->process == root;
    char *slab = data->slabs.memory[0];
    for (data_parts parts = data_parts_of(nodes, bytes); parts.segment < parts.segments; parts.segment++) {
        data_parts_measure(&parts);
        if (gives) data_parts_copy(&parts, buffer, true, 0, nodes->processes, root);
        mst_move move = {
            .kind = MST_MOVE_SCATTER, .root = root, .bytes = data->bytes, .from = gives ? slab : NULL, .to = gives ? NULL : slab};
        MUSTER_TRY(data_move(nodes, where, &move));
        if (!gives) memcpy(data_parts_own(&parts, buffer), slab, (size_t)data->bytes[nodes->process]);
    }
    return MUSTER_OK;
}

muster_status mst_nodes_all_reduce(mst_nodes *nodes, const char *where, muster_reduction op, muster_dtype dtype, void *buffer,
                                   int64_t count) {
    mst_nodes_data *data = data_of(nodes);
    const muster_dtype compute = mst_dtype_compute(dtype);
    const int64_t element = muster_dtype_size(compute), most = data->slabs.bytes / element;
    for (int64_t first = 0; first < count; first += most) {
        const int64_t part = count - first < most ? count - first : most;
        char *at = (char *)buffer + first * element;
        memcpy(data->slabs.memory[0], at, (size_t)(part * element));
        mst_move move = {.kind = MST_MOVE_ALL_REDUCE,
                         .dtype = compute,
                         .op = op,
                         .count = part,
                         .scales = op == MUSTER_AVG ? data->scales : NULL,
                         .from = data->slabs.memory[0],
                         .to = data->slabs.memory[0]};
        MUSTER_TRY(data_move(nodes, where, &move));
        memcpy(at, data->slabs.memory[0], (size_t)(part * element));
    }
    return MUSTER_OK;
}

muster_status mst_nodes_broadcast(mst_nodes *nodes, const char *where, int32_t from, void *buffer, int64_t bytes) {
    mst_nodes_data *data = data_of(nodes);
    char *slab = data->slabs.memory[0];
    for (int64_t first = 0; first < bytes; first += data->slabs.bytes) {
        const int64_t part = bytes - first < data->slabs.bytes ? bytes - first : data->slabs.bytes;
        if (from == nodes->process) memcpy(slab, (const char *)buffer + first, (size_t)part);
        mst_move move = {.kind = MST_MOVE_BROADCAST, .root = from, .count = part, .to = slab};
        MUSTER_TRY(data_move(nodes, where, &move));
        if (from != nodes->process) memcpy((char *)buffer + first, slab, (size_t)part);
    }
    return MUSTER_OK;
}

/* ---- the MPI's own sums ---- */

/* Values of many sizes, so that a sum of three or more depends on their order. */
static double try_value(int32_t process, int64_t i) {
    const uint64_t mixed = mst_hash_number(mst_hash_number(MST_HASH_START, process), i);
    const double magnitude = (double)(mixed >> 8 & 0xfffff) * (double)((uint64_t)1 << (mixed >> 40 & 15));
    return mixed >> 60 & 1 ? -magnitude : magnitude;
}

static muster_status try_sum(mst_nodes *nodes, const char *where, muster_dtype dtype, int64_t count, uint64_t *hash) {
    mst_nodes_data *data = data_of(nodes);
    const int64_t element = muster_dtype_size(dtype);
    char *values = data->slabs.memory[0];
    for (int64_t i = 0; i < count; i++) {
        const double value = try_value(nodes->process, i);
        mst_convert(dtype, values + i * element, MUSTER_F64, &value, 1);
    }
    mst_move move = {.kind = MST_MOVE_ALL_REDUCE,
                     .algorithm = MST_MOVE_MPI,
                     .dtype = dtype,
                     .op = MUSTER_SUM,
                     .count = count,
                     .from = values,
                     .to = data->slabs.memory[1],
                     .any_order = true};
    MUSTER_TRY(data_move(nodes, where, &move));
    *hash = mst_hash_bytes(*hash, data->slabs.memory[1], count * element);
    return MUSTER_OK;
}

muster_status mst_nodes_try_sums(mst_nodes *nodes, const char *where, uint64_t *hash) {
    static const int64_t bytes[] = {64, 4096, 8192, 32768, 131072};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        MUSTER_TRY(try_sum(nodes, where, MUSTER_F32, bytes[i] / (int64_t)sizeof(float), hash));
        MUSTER_TRY(try_sum(nodes, where, MUSTER_F64, bytes[i] / (int64_t)sizeof(double), hash));
    }
    return MUSTER_OK;
}
