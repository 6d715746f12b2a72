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

static muster_status write_vector(muster_worker *worker, const batch *b, int which, muster_tensor to) {
    return muster_worker_write(worker, muster_tensor_make(to.dtype, b->vectors[which], 1, &b->length), to);
}

/* What rank 0 has. */
static muster_status keep(muster_worker *worker, const batch *b, muster_tensor from, char *kept) {
    return worker->rank == 0 ? muster_worker_read(worker, from, muster_tensor_make(from.dtype, kept, 1, &b->length)) : MUSTER_OK;
}

/* x: the gradient; y, z: for the parameter and the velocity. */
static muster_status reference_updates(muster_worker *worker, const batch *b, muster_tensor x, muster_tensor y, muster_tensor z) {
    MUSTER_TRY(write_vector(worker, b, CELL_RANKS, y));
    MUSTER_TRY(muster_worker_all_reduce_axpy(worker, b->communicators[0], SHOT_ALPHA, x, y));
    MUSTER_TRY(keep(worker, b, y, b->updated));
    MUSTER_TRY(write_vector(worker, b, CELL_RANKS, y));
    MUSTER_TRY(muster_fill(worker, 0, z));
    for (int i = 0; i < SHOT_STEPS; i++)
        MUSTER_TRY(muster_worker_all_reduce_momentum(worker, b->communicators[0], SHOT_ALPHA, x, SHOT_BETA, z, y));
    return keep(worker, b, y, b->stepped);
}

/* The bits that all others are compared with: those of the reference algorithm on rank 0. */
static muster_status reference_task(muster_worker *worker, void *argument) {
    batch *b = argument;
    muster_dtype dtype = b->cells->dtype;
    muster_tensor x = muster_worker_scratch(worker, dtype, 1, &b->length), y = muster_worker_scratch(worker, dtype, 1, &b->length);
    muster_tensor z = muster_worker_scratch(worker, dtype, 1, &b->length);
    MUSTER_TRY(write_vector(worker, b, worker->rank, x));
    if (b->cells->op == MUSTER_SUM) MUSTER_TRY(reference_updates(worker, b, x, y, z));
    MUSTER_TRY(muster_worker_all_reduce(worker, b->communicators[0], b->cells->op, x, y));
    return keep(worker, b, y, b->combined);
}

static void check_reference(const batch *b, const char *what, int64_t differs, const char *received) {
    const cell *c = b->cells;
    if (differs < 0) return;
    fail_msg("%s%s of %s on %d ranks: element %lld is %.17g", what, mst_reduction_name(c->op), muster_dtype_name(c->dtype), c->ranks,
             (long long)differs, oracle_value(c->dtype, received, differs));
}

static void check_references(const batch *b) {
    const cell *c = b->cells;
    void *const *vectors = (void *const *)b->vectors;
    const oracle_steps steps = {SHOT_ALPHA, SHOT_BETA, SHOT_STEPS};
    check_reference(b, "", oracle_float(c->op, c->dtype, vectors, c->ranks, NULL, 0, b->combined, b->length), b->combined);
    if (c->op != MUSTER_SUM) return;
    check_reference(b, "update by the ",
                    oracle_float(c->op, c->dtype, vectors, c->ranks, vectors[CELL_RANKS], SHOT_ALPHA, b->updated, b->length), b->updated);
    check_reference(b, "steps with momentum by the ",
                    oracle_momentum(c->dtype, vectors, c->ranks, vectors[CELL_RANKS], &steps, b->stepped, b->length), b->stepped);
}

static void set_expected(batch *b, collectives_pool *pool) {
    const cell *c = b->cells;
    if (c->dtype > MUSTER_F64) {
        oracle_whole(c->op, c->dtype, (void *const *)b->vectors, c->ranks, b->combined, b->length);
        return;
    }
    assert_ok(collectives_run(pool, reference_task, b));
    check_references(b);
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
    for (int a = 0; a < CELL_ALGORITHMS; a++) assert_ok(collectives_check_served(b->communicators[a]));
    *run += b->run;
}

static void run_dtype(collectives_pool *pool, muster_communicator *const *communicators, const cell *cells, int64_t count, int64_t *run) {
    batch b = {.length = longest(cells, count)};
    size_t bytes = (size_t)(b.length * muster_dtype_size(cells->dtype));
    memcpy(b.communicators, communicators, sizeof b.communicators);
    char *block = mst_alloc_uninitialised((CELL_RANKS + 4) * bytes);
    assert_non_null(block);
    for (int r = 0; r <= CELL_RANKS; r++) {
        b.vectors[r] = block + (size_t)r * bytes;
        if (r < cells->ranks || r == CELL_RANKS) oracle_fill(cells->dtype, b.vectors[r], b.length, (uint64_t)r);
    }
    b.combined = block + (CELL_RANKS + 1) * bytes;
    b.updated = b.combined + bytes;
    b.stepped = b.updated + bytes;
    for (int64_t begin = 0, end; begin < count; begin = end) {
        end = end_of(cells, begin, count, 4);
        b.cells = cells + begin;
        b.count = end - begin;
        run_op(pool, &b, run);
    }
    mst_free(block);
}

/* Where these devices have no such way, copies in host memory. */
static muster_communicator *open_communicator(collectives_pool *pool, const char *algorithm) {
    muster_communicator *made = NULL;
    muster_status status = collectives_create(pool->pool, algorithm, &made);
    if (status == MUSTER_UNAVAILABLE) status = collectives_create(pool->pool, "staged", &made);
    assert_ok(status);
    return made;
}

static void run_pool(const cell *cells, int64_t count, int64_t *run) {
    int32_t ranks = cells->ranks, host = cells->devices == CELL_HOST ? ranks : cells->devices == CELL_DISCRETE ? 0 : (ranks + 1) / 2;
    collectives_pool pool;
    muster_communicator *communicators[CELL_ALGORITHMS];
    collectives_open(&pool, host, ranks - host);
    for (int a = 0; a < CELL_ALGORITHMS; a++) communicators[a] = open_communicator(&pool, cell_algorithm(a));
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
