/* The MPI's own collectives, where the wire has them. They move data and fold it as the MPI thinks
 * best: integers have the same bits in any order, sums of floats only where the caller allows any.
 * MPI's maximum and minimum of floats do not promise what becomes of NaN, and those of unsigned
 * integers are wrong with MPICH 4.0.2, which compares them as signed ones.
 *
 * An MPI orders the collectives of a communicator by the order of their calls, so only the channel
 * of all processes has them: lane 0 outside of calls, lane 1 inside of them. */
#include "flow_private.h"

#include <limits.h>

static const int32_t mpi_types[MST_DTYPE_COUNT] = {
    [MUSTER_F32] = 1 + MUSTER_WIRE_F32, [MUSTER_F64] = 1 + MUSTER_WIRE_F64, [MUSTER_I8] = 1 + MUSTER_WIRE_I8,
    [MUSTER_U8] = 1 + MUSTER_WIRE_U8,   [MUSTER_I16] = 1 + MUSTER_WIRE_I16, [MUSTER_I32] = 1 + MUSTER_WIRE_I32,
    [MUSTER_I64] = 1 + MUSTER_WIRE_I64, [MUSTER_U32] = 1 + MUSTER_WIRE_U32, [MUSTER_U64] = 1 + MUSTER_WIRE_U64,
};
static const int32_t mpi_operations[] = {
    [MUSTER_SUM] = 1 + MUSTER_WIRE_SUM,
    [MUSTER_PROD] = 1 + MUSTER_WIRE_PROD,
    [MUSTER_MAX] = 1 + MUSTER_WIRE_MAX,
    [MUSTER_MIN] = 1 + MUSTER_WIRE_MIN,
    [MUSTER_AVG] = 0,
};

static int32_t mpi_flows(int32_t size) {
    (void)size;
    return 0;
}

static bool mpi_reduces(const mst_move *move) {
    if (!mpi_types[move->dtype] || !mpi_operations[move->op] || move->scales || move->fold) return false;
    const bool is_unsigned = move->dtype == MUSTER_U8 || move->dtype == MUSTER_U32 || move->dtype == MUSTER_U64;
    if (is_unsigned && (move->op == MUSTER_MAX || move->op == MUSTER_MIN)) return false;
    return !mst_dtype_is_float(move->dtype) || (move->any_order && move->op == MUSTER_SUM);
}

/* The members of a channel are the processes of the wire, in their order. */
static bool mpi_is_whole(const mst_channel *channel) {
    if (channel->lane > 1 || channel->size != channel->wire->processes) return false;
    for (int32_t i = 0; i < channel->size; i++)
        if (mst_channel_process(channel, i) != i) return false;
    return true;
}

static bool mpi_serves(const mst_schedule *schedule, const mst_move *move) {
    const mst_channel *channel = schedule->channel;
    const muster_wire_table *table = channel->wire->table;
    if (!mpi_is_whole(channel)) return false;
    int64_t most = move->count;
    switch (move->kind) {
    case MST_MOVE_ALL_REDUCE:
        return table->all_reduce && mpi_reduces(move) && most <= INT32_MAX;
    case MST_MOVE_REDUCE_SCATTER:
        most = 0;
        for (int32_t i = 0; i < channel->size; i++) most += move->bytes[i] / muster_dtype_size(move->dtype);
        return table->reduce_scatter && mpi_reduces(move) && most <= INT32_MAX;
    case MST_MOVE_BROADCAST:
        return table->broadcast && most <= INT32_MAX;
    case MST_MOVE_ALL_GATHER:
        most = 0;
        for (int32_t i = 0; i < channel->size; i++) most += move->bytes[i];
        return table->all_gather && most <= INT32_MAX;
    default:
        return false; /* all_to_all: its bytes differ between members, and so could the answer */
    }
}

static void mpi_numbers(mst_schedule *schedule, int64_t size) {
    int32_t *counts = schedule->numbers, *offsets = counts + schedule->channel->size;
    int64_t offset = 0;
    for (int32_t i = 0; i < schedule->channel->size; i++) {
        counts[i] = (int32_t)(schedule->move->bytes[i] / size);
        offsets[i] = (int32_t)(offset / size);
        offset += schedule->move->bytes[i];
    }
}

static int32_t mpi_begin(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const mst_channel *channel = schedule->channel;
    const mst_wire *wire = channel->wire;
    muster_wire_request *request = schedule->requests;
    atomic_fetch_add_explicit(&schedule->channel->wire->collectives, 1, memory_order_relaxed);
    const int32_t type = mpi_types[move->dtype] - 1, operation = mpi_operations[move->op] - 1;
    switch (move->kind) {
    case MST_MOVE_ALL_REDUCE:
        return wire->table->all_reduce(wire->state, move->from, move->to, move->count, type, operation, request);
    case MST_MOVE_REDUCE_SCATTER:
        mpi_numbers(schedule, muster_dtype_size(move->dtype));
        return wire->table->reduce_scatter(wire->state, move->from, move->to, schedule->numbers, type, operation, request);
    case MST_MOVE_BROADCAST:
        return wire->table->broadcast(wire->state, move->to, move->count, move->root, request);
    default: {
        mpi_numbers(schedule, 1);
        const int32_t *offsets = schedule->numbers + channel->size;
        const void *from = move->from ? move->from : (const char *)move->to + offsets[channel->rank];
        return wire->table->all_gather(wire->state, from, (int32_t)move->bytes[channel->rank], move->to, schedule->numbers, offsets,
                                       request);
    }
    }
}

/* schedule->step: 0 before the call of the MPI. */
static int32_t mpi_call(mst_schedule *schedule) {
    int32_t result = MUSTER_WIRE_OK, done = 0;
    if (!schedule->step) {
        schedule->step = 1;
        result = mpi_begin(schedule);
        schedule->busy = schedule->requests[0] != 0;
    }
    if (result != MUSTER_WIRE_OK || !schedule->busy) return result;
    const mst_wire *wire = schedule->channel->wire;
    result = wire->table->test(wire->state, schedule->requests, &done, NULL);
    if (done) schedule->busy = 0;
    return result;
}

const mst_schedule_row mst_schedule_mpi = {mpi_flows, NULL, NULL, mpi_serves, mpi_call};
