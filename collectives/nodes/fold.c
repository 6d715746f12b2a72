/* Reductions of what members bring, in their order: the same bits whichever algorithm asks. */
#include "flow_private.h"
#include "host/many_private.h"
#include "tensor_impl.h"

#include <string.h>

int64_t mst_fold_batch(const mst_schedule *schedule, int32_t inputs) {
    const int64_t bytes = 2 * MST_FOLD_BYTES / (inputs > 2 ? inputs : 2), count = bytes / muster_dtype_size(schedule->move->dtype);
    return count < 64 ? 64 : count / 64 * 64;
}

static double fold_scale(const mst_move *move, int32_t member) { return move->scales ? move->scales[member] : 1; }

void mst_fold(mst_schedule *schedule, void *to, const void *const *inputs, int64_t count) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size;
    if (size == 2 && !move->scales) {
        mst_reduction_pair(move->op, move->dtype, to, NULL, inputs[0], inputs[1], count, 1);
        return;
    }
    const muster_dtype compute = mst_dtype_compute(move->dtype);
    bool direct = compute == move->dtype;
    for (int32_t i = 0; i < size && direct; i++) direct = inputs[i] != to;
    void *sum = direct ? to : schedule->scratch;
    if (!move->scales)
        mst_many_accumulate(move->op, move->dtype, sum, inputs, size, count, 1);
    else
        for (int32_t i = 0; i < size; i++)
            mst_reduction_accumulate(move->op, move->dtype, sum, inputs[i], count, fold_scale(move, i), i == 0);
    if (!direct) mst_convert(move->dtype, to, compute, sum, count);
}

void mst_fold_own(const mst_schedule *schedule, void *sum, int64_t first, int64_t count, bool begin) {
    const mst_move *move = schedule->move;
    if (move->fold) {
        move->fold(move->user, sum, first, count, begin);
        return;
    }
    const char *values = (const char *)move->from + first * muster_dtype_size(move->dtype);
    mst_reduction_accumulate(move->op, move->dtype, sum, values, count, fold_scale(move, schedule->channel->rank), begin);
}
