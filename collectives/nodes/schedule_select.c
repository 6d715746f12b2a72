/* Which algorithm AUTOMATIC means. A table, so that a measured one can take its place; it is looked
 * up by what all members know, and never by a clock, or bits would change between runs. */
#include "schedule_private.h"

#include <limits.h>

/* {kind, algorithm, most members, least and most bytes, least bytes per member}. Measured with two
 * processes on one host by `muster-bench nodes --schedules` (sums of f32; us with Open MPI 4.1.4
 * and MPICH 4.0.2): all_reduce of 1 KiB by gather 0.75 and 1.0, by exchange 1.4 and 1.7, by chain
 * 1.0 and 1.3; 4 KiB 2.9 and 1.3, 1.6 and 2.0, 4.6 and 1.7; 64 KiB 12 and 12, 10 and 10, 47 and 11;
 * 16 MiB 3400, 1800, 2200 with both; all_gather of 1 MiB by bruck 67, by ring 123. Open MPI's own
 * collectives are slower (1 KiB 1.2, 64 KiB 14, 16 MiB 2800). Between 8 and 32 KiB gather is faster
 * with Open MPI (16 KiB: 4.6, exchange 5.9), and slower with MPICH (4.7, 2.7). For more members the
 * limits are by calculation: an exchange among many sends slices that are too small. */
static const mst_schedule_choice schedule_choices[] = {
    {MST_MOVE_ALL_REDUCE, MST_MOVE_GATHER_FOLD, INT32_MAX, 0, 2048, 0},
    {MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, 16, 0, INT64_MAX, 0},
    {MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, INT32_MAX, 0, INT64_MAX, 65536},
    {MST_MOVE_ALL_REDUCE, MST_MOVE_CHAIN, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_ALL_REDUCE, MST_MOVE_EXCHANGE, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_REDUCE, MST_MOVE_GATHER_FOLD, INT32_MAX, 0, 4096, 0},
    {MST_MOVE_REDUCE, MST_MOVE_EXCHANGE, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_ALL_GATHER, MST_MOVE_BRUCK, 2, 0, INT64_MAX, 0},
    {MST_MOVE_ALL_GATHER, MST_MOVE_BRUCK, INT32_MAX, 0, 8191, 0},
    {MST_MOVE_ALL_GATHER, MST_MOVE_RING, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_REDUCE_SCATTER, MST_MOVE_EXCHANGE, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_BROADCAST, MST_MOVE_TREE, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_GATHER, MST_MOVE_DIRECT, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_SCATTER, MST_MOVE_DIRECT, INT32_MAX, 0, INT64_MAX, 0},
    {MST_MOVE_ALL_TO_ALL, MST_MOVE_DIRECT, INT32_MAX, 0, INT64_MAX, 0},
};
static const mst_schedule_table schedule_table = {schedule_choices, sizeof schedule_choices / sizeof *schedule_choices};

/* The bytes by which a row is chosen: of what a member has, of the concatenation of an
 * all_gather; 0 where members know their own bytes only. */
static int64_t select_bytes(const mst_schedule *schedule, const mst_move *move) {
    int64_t bytes = 0;
    switch (move->kind) {
    case MST_MOVE_ALL_REDUCE:
    case MST_MOVE_REDUCE:
        return move->count * muster_dtype_size(move->dtype);
    case MST_MOVE_BROADCAST:
        return move->count;
    case MST_MOVE_REDUCE_SCATTER:
    case MST_MOVE_ALL_GATHER:
        for (int32_t i = 0; i < schedule->channel->size; i++) bytes += move->bytes[i];
        return bytes;
    default:
        return 0;
    }
}

mst_move_algorithm mst_schedule_select(const mst_schedule *schedule, const mst_move *move) {
    const mst_schedule_table *table = schedule->table ? schedule->table : &schedule_table;
    const int64_t bytes = select_bytes(schedule, move);
    const int32_t size = schedule->channel->size;
    for (int32_t i = 0; i < table->count; i++) {
        const mst_schedule_choice *row = &table->rows[i];
        if (row->kind == move->kind && size <= row->most_members && bytes >= row->least_bytes && bytes <= row->most_bytes &&
            bytes / size >= row->least_member_bytes && mst_schedule_serves(schedule, move, row->algorithm))
            return row->algorithm;
    }
    /* What the table does not know, and what a schedule was not prepared for. */
    for (int32_t i = 1; i < MST_MOVE_ALGORITHMS; i++)
        if (i != MST_MOVE_MPI && mst_schedule_serves(schedule, move, i)) return i;
    return MST_MOVE_AUTOMATIC;
}
