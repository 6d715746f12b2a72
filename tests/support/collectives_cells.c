#include "collectives_cells.h"

#include "base_check.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"
#include "collectives_shot.h"

static bool every_root(const cell *c) { return cell_rooted(c) && cell_count(c) <= 1000; }
static int32_t one_root(const cell *c) { return cell_rooted(c) ? (c->dtype + c->op + c->in_place) % c->ranks : 0; }

static muster_status run_cells(const seat *seat) {
    batch *b = seat->batch;
    int64_t run = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const cell *c = &b->cells[i];
        int32_t first = every_root(c) ? 0 : one_root(c), last = every_root(c) ? c->ranks - 1 : first;
        for (int32_t root = first; root <= last; root++, run++) MUSTER_TRY(seat_run(seat, c, root));
    }
    if (muster_worker_rank(seat->worker) == 0) b->run = run;
    return MUSTER_OK;
}

static muster_status batch_task(muster_worker *worker, void *argument) {
    seat seat;
    MUSTER_TRY(seat_take(&seat, worker, argument));
    muster_status status = run_cells(&seat);
    seat_leave(&seat);
    return status;
}

/* The bits that all others are compared with: those of the reference algorithm on rank 0. */
static muster_status reference_task(muster_worker *worker, void *argument) {
    batch *b = argument;
    muster_dtype dtype = b->cells->dtype;
    muster_tensor x = muster_worker_scratch(worker, dtype, 1, &b->length), y = muster_worker_scratch(worker, dtype, 1, &b->length);
    bool updates = b->updated && b->cells->op == MUSTER_SUM;
    MUSTER_TRY(muster_worker_write(worker, muster_tensor_make(dtype, b->vectors[worker->rank], 1, &b->length), x));
    MUSTER_TRY(muster_worker_write(worker, muster_tensor_make(dtype, b->vectors[CELL_RANKS], 1, &b->length), y));
    if (updates) MUSTER_TRY(muster_worker_all_reduce_axpy(worker, b->communicators[0], SHOT_ALPHA, x, y));
    if (updates && worker->rank == 0) MUSTER_TRY(muster_worker_read(worker, y, muster_tensor_make(dtype, b->updated, 1, &b->length)));
    MUSTER_TRY(muster_worker_all_reduce(worker, b->communicators[0], b->cells->op, x, y));
    return worker->rank == 0 ? muster_worker_read(worker, y, muster_tensor_make(dtype, b->combined, 1, &b->length)) : MUSTER_OK;
}

static void check_reference(const batch *b, const void *parameter, const char *received) {
    const cell *c = b->cells;
    int64_t at = oracle_float(c->op, c->dtype, (void *const *)b->vectors, c->ranks, parameter, SHOT_ALPHA, received, b->length);
    if (at < 0) return;
    fail_msg("%s%s of %s on %d ranks: element %lld is %.17g", parameter ? "update by the " : "", mst_reduction_name(c->op), muster_dtype_name(c->dtype), c->ranks,
             (long long)at, oracle_value(c->dtype, received, at));
}

static void set_expected(batch *b, collectives_pool *pool) {
    const cell *c = b->cells;
    if (c->dtype > MUSTER_F64) {
        oracle_whole(c->op, c->dtype, (void *const *)b->vectors, c->ranks, b->combined, b->length);
        return;
    }
    assert_ok(collectives_run(pool, reference_task, b));
    check_reference(b, NULL, b->combined);
    if (c->op == MUSTER_SUM) check_reference(b, b->vectors[CELL_RANKS], b->updated);
}

/* ---- batches ---- */

/* Cells from `begin` that have the first `fields` fields in common. */
static int64_t end_of(const cell *cells, int64_t begin, int64_t count, size_t fields) {
    int64_t end = begin;
    while (end < count && memcmp(&cells[end], &cells[begin], fields) == 0) end++;
    return end;
}

static int64_t longest(const cell *cells, int64_t count) {
    int64_t length = 0;
    for (int64_t i = 0; i < count; i++) length = cell_count(&cells[i]) > length ? cell_count(&cells[i]) : length;
    return length + SHOT_SLACK;
}

static void run_op(collectives_pool *pool, batch *b, int64_t *run) {
    set_expected(b, pool);
    assert_ok(collectives_run(pool, batch_task, b));
    *run += b->run;
}

static void run_dtype(collectives_pool *pool, muster_communicator *const *communicators, const cell *cells, int64_t count, int64_t *run) {
    batch b = {.length = longest(cells, count)};
    size_t bytes = (size_t)(b.length * muster_dtype_size(cells->dtype));
    memcpy(b.communicators, communicators, sizeof b.communicators);
    char *block = mst_alloc_uninitialised((CELL_RANKS + 3) * bytes);
    assert_non_null(block);
    for (int r = 0; r <= CELL_RANKS; r++) {
        b.vectors[r] = block + (size_t)r * bytes;
        if (r < cells->ranks || r == CELL_RANKS) oracle_fill(cells->dtype, b.vectors[r], b.length, (uint64_t)r);
    }
    b.combined = block + (CELL_RANKS + 1) * bytes;
    b.updated = b.combined + bytes;
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = end_of(cells, begin, count, 4);
        b.cells = cells + begin;
        b.count = end - begin;
        run_op(pool, &b, run);
    }
    mst_free(block);
}

static void run_pool(const cell *cells, int64_t count, int64_t *run) {
    int32_t ranks = cells->ranks, host = cells->devices == CELL_HOST ? ranks : cells->devices == CELL_FAR ? 0 : (ranks + 1) / 2;
    collectives_pool pool;
    muster_communicator *communicators[CELL_ALGORITHMS];
    collectives_open(&pool, host, ranks - host);
    for (int a = 0; a < CELL_ALGORITHMS; a++) assert_ok(mst_communicator_create(pool.pool, &(mst_communicator_options){cell_algorithm(a)}, &communicators[a]));
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = end_of(cells, begin, count, 3);
        run_dtype(&pool, communicators, cells + begin, end - begin, run);
    }
    for (int a = 0; a < CELL_ALGORITHMS; a++) mst_communicator_destroy(communicators[a]);
    collectives_close(&pool);
}

int64_t cells_run(const cell *cells, int64_t count) {
    int64_t run = 0;
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = end_of(cells, begin, count, 2);
        run_pool(cells + begin, end - begin, &run);
    }
    return run;
}
