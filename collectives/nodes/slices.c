/* Several exchanges at the same time. */
#include "slices_private.h"

#include "core/view_private.h"
#include "memory_impl.h"

static mst_progress slices_progress(mst_machine *machine) {
    mst_slices *all = (mst_slices *)machine;
    mst_progress worst = MST_PROGRESS_DONE;
    machine->moved = false;
    for (int32_t i = 0; i < all->count; i++) {
        mst_schedule *schedule = &all->slices[i].schedule;
        const mst_progress progress = mst_schedule_progress(schedule);
        machine->moved |= schedule->machine.moved;
        if (progress == MST_PROGRESS_FAILED || progress == MST_PROGRESS_LOST) return progress;
        if (progress == MST_PROGRESS_RUNNING) worst = progress;
    }
    all->running = worst != MST_PROGRESS_DONE;
    return worst;
}

static int32_t slices_wait_for(const mst_machine *machine) {
    const mst_slices *all = (const mst_slices *)machine;
    int32_t process = -1;
    for (int32_t i = 0; i < all->count && process < 0; i++)
        process = all->slices[i].schedule.machine.waits_for(&all->slices[i].schedule.machine);
    return process;
}

muster_status mst_slices_open(const mst_channel *channel, int32_t count, mst_slices **slices) {
    mst_slices *all = mst_alloc(sizeof *all);
    if (!all) return mst_out_of_memory("the slices of a reduction between processes", sizeof *all);
    *all = (mst_slices){.machine = {.progress = slices_progress, .waits_for = slices_wait_for}};
    for (const int32_t most = count < MST_SLICES_MOST ? count : MST_SLICES_MOST; all->count < most; all->count++) {
        mst_slice *slice = &all->slices[all->count];
        slice->channel = *channel;
        slice->channel.slice = 1 + all->count;
        const muster_status status =
            mst_schedule_prepare(&slice->schedule, &slice->channel, 1u << MST_MOVE_EXCHANGE, MST_SCRATCH_BYTES / most);
        if (status != MUSTER_OK) return mst_slices_free(all), status;
    }
    *slices = all;
    return MUSTER_OK;
}

void mst_slices_free(mst_slices *slices) {
    if (!slices) return;
    for (int32_t i = 0; i < slices->count; i++) mst_schedule_free(&slices->slices[i].schedule);
    mst_free(slices);
}

bool mst_slices_in_flight(const mst_slices *slices) {
    for (int32_t i = 0; slices && i < slices->count; i++)
        if (mst_schedule_in_flight(&slices->slices[i].schedule)) return true;
    return false;
}

muster_status mst_slices_begin(mst_slices *slices, const mst_move *move) {
    const int64_t element = muster_dtype_size(move->dtype);
    for (int32_t i = 0; i < slices->count; i++) {
        mst_slice *slice = &slices->slices[i];
        int64_t begin, end;
        mst_segment(move->count, element, slices->count, i, &begin, &end);
        if (begin == end) continue;
        slice->move = *move;
        slice->move.algorithm = MST_MOVE_EXCHANGE;
        slice->move.count = end - begin;
        slice->move.from = (const char *)move->from + begin * element;
        slice->move.to = move->to ? (char *)move->to + begin * element : NULL;
        MUSTER_TRY(mst_schedule_begin(&slice->schedule, &slice->move));
    }
    slices->running = true;
    return MUSTER_OK;
}
