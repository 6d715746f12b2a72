/* Which rows each worker of a distributed program has in a run. */
#include "communicator_impl.h"
#include "owner_impl.h"
#include "program_private.h"
#include "variable_impl.h"

/* row_edges[]: the sums of the workers' rows. */
static muster_status sharing_gather(muster_worker *worker, int64_t rows, int64_t *row_edges) {
    const int32_t size = muster_worker_size(worker);
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor mine, all;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_I64, 1, (const int64_t[]){1}, &mine));
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_I64, 1, (const int64_t[]){size}, &all));
    MUSTER_TRY(muster_worker_write(worker, muster_tensor_make(MUSTER_I64, &rows, 1, (const int64_t[]){1}), mine));
    MUSTER_TRY(muster_worker_all_gather(worker, muster_worker_communicator(worker), mine, all));
    MUSTER_TRY(muster_worker_read(worker, all, muster_tensor_make(MUSTER_I64, row_edges + 1, 1, (const int64_t[]){size})));
    for (int32_t r = 1; r <= size; r++) row_edges[r] += row_edges[r - 1];
    return muster_worker_scratch_release(worker, mark);
}

/* The shards of this worker. Rows that lie elsewhere than a call distributes them belong to
 * none. */
static muster_status sharing_find_shards(muster_worker *worker, mst_graph_program_rank *rank) {
    mst_sharing *sharing = &rank->sharing;
    const int32_t size = sharing->size, shards = muster_worker_shards(worker), first = muster_worker_shard(worker);
    const int64_t rows = rank->row_edges[size];
    int64_t *edges = rank->row_edges + size + 1;
    for (int32_t r = 0; r <= size; r++)
        if (rank->row_edges[r] != mst_edge(rows, size, r))
            return mst_error(MUSTER_UNSUPPORTED,
                             "muster_graph_parameter_rows: expected variables whose %lld rows are distributed as muster_variables_scatter "
                             "does, so that logical shards are the same on any number of devices, received %lld rows on ranks 0 to %d",
                             (long long)rows, (long long)rank->row_edges[r], (int)r - 1);
    sharing->shards_here = muster_worker_shards_here(worker);
    sharing->shard_edges = edges;
    for (int32_t s = 0; s <= sharing->shards_here; s++) edges[s] = mst_edge(rows, shards, first + s) - rank->row_edges[sharing->rank];
    return MUSTER_OK;
}

/* Of a slice nothing is exchanged. Its rows lie between those before it and those behind it, which
 * no worker has: one worker more takes them. */
static void sharing_slice(const muster_worker *worker, mst_graph_program_rank *rank) {
    const int64_t first = muster_worker_first_row(worker), rows = muster_worker_rows(worker);
    const int32_t size = ++rank->sharing.size;
    for (int32_t r = 0; r < size; r++) rank->row_edges[r] = r <= rank->sharing.rank ? first : first + rows;
    rank->row_edges[size] = muster_worker_total_rows(worker);
}

muster_status mst_sharing_find(muster_worker *worker, const mst_graph_program *program, mst_graph_program_rank *rank,
                               const muster_tensor *given) {
    const int32_t size = muster_worker_size(worker);
    rank->sharing = (mst_sharing){.rank = muster_worker_rank(worker), .size = size, .row_edges = rank->row_edges};
    if (size == 1) rank->sharing.rank = 0;
    for (int32_t r = 0; r <= size; r++) rank->row_edges[r] = program->rows_given ? mst_edge(muster_worker_total_rows(worker), size, r) : 0;
    for (int32_t v = 0; v < program->variable_count && !program->rows_given; v++) {
        if (program->graph->variables.items[v].mode != MUSTER_USE_READ_SLICEABLE) continue;
        MUSTER_TRY(sharing_gather(worker, given[program->input_count + v].shape[0], rank->row_edges));
        break;
    }
    if (program->rows_given && muster_worker_slices(worker) <= 1 && size > 1 && mst_worker_rows_are_own(worker))
        MUSTER_TRY(sharing_gather(worker, muster_worker_rows(worker), rank->row_edges));
    if (program->rows_given && muster_worker_slices(worker) > 1) sharing_slice(worker, rank);
    rank->sharing.rows = rank->row_edges[rank->sharing.size];
    return program->graph->runtime->logical_shards ? sharing_find_shards(worker, rank) : MUSTER_OK;
}
