/* Attention on a CPU core, for each matrix of the stack and for tiles of queries and keys. The
 * products are those of BLAS; between them, the scores of a tile stay in the cache near the core.
 * Both directions have tiles of the same sizes, so that the scores are the same to the bit. */
#include "own_private.h"
#include "product/product_private.h"

#include <math.h>
#include <string.h>

enum { TILE_QUERIES = 256, TILE_KEYS = 256 };

typedef struct host_work {
    const mst_attention_call *call;
    muster_dtype computed;
    int64_t size;                        /* bytes of an element of it */
    double scale;                        /* of the scores */
    int64_t most_queries, most_keys;     /* of a tile */
    char *at[MST_ATTENTION_OPERANDS];    /* first elements of this matrix of the stack */
    char *tiles[MST_ATTENTION_OPERANDS]; /* scratch memory for a tile of the operand; of dk and dv, for all keys */
    char *scores, *more, *top, *inner;   /* scratch memory: more: dp; inner: of y and dy */
    double *sum;
} host_work;

/* A range of queries or of keys. */
typedef struct host_range {
    int64_t first, count;
} host_range;

static host_range host_range_at(int64_t first, int64_t all, int64_t most) {
    return (host_range){.first = first, .count = all - first < most ? all - first : most};
}

/* ---- memory ---- */

static muster_status host_scratch(const host_work *h, muster_worker *worker, int64_t elements, char **memory) {
    void *address;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, elements * h->size, &address));
    *memory = address;
    return MUSTER_OK;
}

/* Do products take the operand where it is? */
static bool host_is_direct(const host_work *h, int32_t operand, int64_t rows, int64_t columns) {
    const mst_attention_operand *o = &h->call->operands[operand];
    if (h->call->dtype != (int32_t)h->computed) return false;
    return ((o->column == 1 || columns == 1) && o->row >= columns) || (o->row == 1 && o->column >= rows);
}

static muster_status host_tile_of(host_work *h, muster_worker *worker, int32_t operand, int64_t rows, int64_t columns) {
    return host_scratch(h, worker, rows * columns, &h->tiles[operand]);
}

static muster_status host_prepare(host_work *h, muster_worker *worker, const mst_attention_call *call) {
    *h = (host_work){.call = call, .computed = call->dtype == MUSTER_F64 ? MUSTER_F64 : MUSTER_F32, .scale = call->scale};
    h->size = muster_dtype_size(h->computed);
    h->most_queries = call->queries < TILE_QUERIES ? call->queries : TILE_QUERIES;
    h->most_keys = call->keys < TILE_KEYS ? call->keys : TILE_KEYS;
    MUSTER_TRY(host_scratch(h, worker, h->most_queries * h->most_keys, &h->scores));
    MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_Q, h->most_queries, call->width));
    MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_Y, h->most_queries, call->values));
    MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_LSE, h->most_queries, 1));
    MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_REST, h->most_queries, 1));
    if (!host_is_direct(h, MST_ATTENTION_K, call->keys, call->width))
        MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_K, h->most_keys, call->width));
    if (!host_is_direct(h, MST_ATTENTION_V, call->keys, call->values))
        MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_V, h->most_keys, call->values));
    if (call->operands[MST_ATTENTION_MASK].data) MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_MASK, h->most_queries, h->most_keys));
    return MUSTER_OK;
}

static muster_status host_prepare_forward(host_work *h, muster_worker *worker) {
    void *sum;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, h->most_queries * (int64_t)sizeof *h->sum, &sum));
    h->sum = sum;
    return host_scratch(h, worker, h->most_queries, &h->top);
}

static bool host_wants(const host_work *h, int32_t operand) { return h->call->operands[operand].data != NULL; }
/* dv needs p alone. */
static bool host_wants_scores(const host_work *h) {
    return host_wants(h, MST_ATTENTION_DQ) || host_wants(h, MST_ATTENTION_DK) || host_wants(h, MST_ATTENTION_DMASK);
}

static muster_status host_prepare_gradient(host_work *h, muster_worker *worker) {
    const mst_attention_call *call = h->call;
    if (host_wants_scores(h)) {
        MUSTER_TRY(host_scratch(h, worker, h->most_queries * h->most_keys, &h->more));
        MUSTER_TRY(host_scratch(h, worker, h->most_queries, &h->inner));
    }
    MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_DY, h->most_queries, call->values));
    if (host_wants(h, MST_ATTENTION_DQ)) MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_DQ, h->most_queries, call->width));
    if (host_wants(h, MST_ATTENTION_DK)) MUSTER_TRY(host_tile_of(h, worker, MST_ATTENTION_DK, call->keys, call->width));
    return host_wants(h, MST_ATTENTION_DV) ? host_tile_of(h, worker, MST_ATTENTION_DV, call->keys, call->values) : MUSTER_OK;
}

/* ---- tiles of operands ---- */

/* Matrix i of the stack. */
static void host_select(host_work *h, int64_t i) {
    const mst_attention_call *call = h->call;
    int64_t index[MST_ATTENTION_STACK];
    for (int32_t d = MST_ATTENTION_STACK - 1; d >= 0; d--) {
        index[d] = i % call->stack[d];
        i /= call->stack[d];
    }
    for (int32_t k = 0; k < MST_ATTENTION_OPERANDS; k++) {
        const mst_attention_operand *o = &call->operands[k];
        int64_t offset = 0;
        for (int32_t d = 0; d < MST_ATTENTION_STACK; d++) {
            const bool grouped = d == MST_ATTENTION_STACK - 1 && MST_ATTENTION_OF_KEYS(k);
            offset += (grouped ? index[d] / call->group : index[d]) * o->stack[d];
        }
        const bool computed = MST_ATTENTION_OF_QUERIES(k) || k == MST_ATTENTION_DMASK;
        const int64_t size = computed ? h->size : muster_dtype_size(call->dtype);
        h->at[k] = o->data ? o->data + offset * size : NULL;
    }
}

/* Rows of an operand: where it is, and in contiguous memory of the dtype to compute in. */
static void host_views(const host_work *h, int32_t operand, host_range rows, int64_t column, int64_t columns, char *inside,
                       muster_tensor views[2]) {
    const mst_attention_operand *o = &h->call->operands[operand];
    const muster_dtype dtype = MST_ATTENTION_OF_QUERIES(operand) ? h->computed : (muster_dtype)h->call->dtype;
    const int64_t shape[2] = {rows.count, columns};
    views[0] = muster_tensor_make(dtype, h->at[operand] + (rows.first * o->row + column * o->column) * muster_dtype_size(dtype), 2, shape);
    views[0].strides[0] = o->row;
    views[0].strides[1] = o->column;
    views[1] = muster_tensor_make(h->computed, inside, 2, shape);
}

static mst_matrix host_read(const host_work *h, int32_t operand, host_range rows, int64_t columns) {
    muster_tensor views[2];
    host_views(h, operand, rows, 0, columns, h->tiles[operand], views);
    mst_copy_host(&views[0], &views[1]);
    return (mst_matrix){.data = h->tiles[operand], .rows = columns, .columns = 1};
}

static void host_write(const host_work *h, int32_t operand, host_range rows, int64_t columns) {
    muster_tensor views[2];
    if (!h->at[operand]) return;
    host_views(h, operand, rows, 0, columns, h->tiles[operand], views);
    mst_copy_host(&views[1], &views[0]);
}

/* Rows of k or v. */
static mst_matrix host_keys(const host_work *h, int32_t operand, host_range keys, int64_t columns) {
    const mst_attention_operand *o = &h->call->operands[operand];
    if (h->tiles[operand]) return host_read(h, operand, keys, columns);
    return (mst_matrix){.data = h->at[operand] + keys.first * o->row * h->size, .rows = o->row, .columns = o->column};
}

/* The queries, scaled. */
static mst_matrix host_queries(const host_work *h, host_range queries) {
    const mst_matrix q = host_read(h, MST_ATTENTION_Q, queries, h->call->width);
    mst_attention_scale(h->computed, queries.count * h->call->width, h->scale, q.data);
    return q;
}

/* The keys from `first` on that the tile has; none behind those that its last query sees. */
static host_range host_keys_at(const host_work *h, int64_t first, host_range queries) {
    int64_t all = h->call->keys;
    if (h->call->causal && queries.first + queries.count < all) all = queries.first + queries.count;
    return host_range_at(first, all, h->most_keys);
}

static mst_attention_tile host_scores(const host_work *h, mst_matrix q, host_range queries, mst_matrix k, host_range keys) {
    mst_attention_tile tile = {.dtype = h->computed, .rows = queries.count, .keys = keys.count, .scores = h->scores};
    const mst_matrix scores = {.data = h->scores, .rows = keys.count, .columns = 1};
    tile.seen = h->call->causal ? queries.first + 1 - keys.first : keys.count;
    mst_matrix_product(h->computed, queries.count, keys.count, h->call->width, q, mst_matrix_turned(k), false, scores);
    if (h->at[MST_ATTENTION_MASK]) {
        muster_tensor views[2];
        host_views(h, MST_ATTENTION_MASK, queries, keys.first, keys.count, h->tiles[MST_ATTENTION_MASK], views);
        mst_copy_host(&views[0], &views[1]);
        tile.mask = h->tiles[MST_ATTENTION_MASK];
    }
    return tile;
}

/* ---- products of p ---- */

/* A matrix from row i on. */
static mst_matrix host_from(const host_work *h, mst_matrix matrix, int64_t i) {
    matrix.data += i * matrix.rows * h->size;
    return matrix;
}

/* p may be 0 where a query sees no key, but 0 times infinity is NaN. */
static bool host_is_whole(const host_work *h, const mst_attention_tile *tile, int64_t rows, int64_t columns, mst_matrix b) {
    return tile->seen >= tile->keys || mst_attention_is_finite(h->computed, rows, b.rows, columns, b.columns, b.data);
}

/* to = p b + (add ? to : 0), where b has a row for each key. */
static void host_of_queries(const host_work *h, const mst_attention_tile *tile, int64_t columns, mst_matrix b, bool add, mst_matrix to) {
    const mst_matrix p = {.data = tile->scores, .rows = tile->keys, .columns = 1};
    if (host_is_whole(h, tile, tile->keys, columns, b)) {
        mst_matrix_product(h->computed, tile->rows, columns, tile->keys, p, b, add, to);
        return;
    }
    for (int64_t r = 0; r < tile->rows; r++)
        mst_matrix_product(h->computed, 1, columns, mst_attention_seen(tile, r), host_from(h, p, r), b, add, host_from(h, to, r));
}

/* to += p^T b, where b has a row for each query. */
static void host_of_keys(const host_work *h, const mst_attention_tile *tile, int64_t columns, mst_matrix b, mst_matrix to) {
    const mst_matrix p = {.data = tile->scores, .rows = tile->keys, .columns = 1}, turned = mst_matrix_turned(p);
    if (host_is_whole(h, tile, tile->rows, columns, b)) {
        mst_matrix_product(h->computed, tile->keys, columns, tile->rows, turned, b, true, to);
        return;
    }
    for (int64_t j = 0; j < tile->keys; j++) {
        const int64_t first = j < tile->seen ? 0 : j + 1 - tile->seen; /* the query that sees the key first */
        const mst_matrix of_key = host_from(h, mst_matrix_turned(host_from(h, p, first)), j);
        mst_matrix_product(h->computed, 1, columns, tile->rows - first, of_key, host_from(h, b, first), true, host_from(h, to, j));
    }
}

/* ---- forward ---- */

#define START(T) \
    for (int64_t r = 0; r < count; r++) ((T *)(void *)h->top)[r] = -(T)INFINITY;

static mst_attention_rows host_rows(const host_work *h, int64_t count) {
    if (h->computed == MUSTER_F32) {
        START(float)
    } else {
        START(double)
    }
    memset(h->sum, 0, (size_t)count * sizeof *h->sum);
    memset(h->tiles[MST_ATTENTION_Y], 0, (size_t)(count * h->call->values * h->size));
    return (mst_attention_rows){.top = h->top, .sum = h->sum, .y = h->tiles[MST_ATTENTION_Y], .values = h->call->values};
}

static void host_forward(const host_work *h, host_range queries) {
    const mst_attention_call *call = h->call;
    const mst_attention_rows rows = host_rows(h, queries.count);
    const mst_matrix q = host_queries(h, queries), y = {.data = rows.y, .rows = call->values, .columns = 1};
    for (int64_t first = 0;;) {
        const host_range keys = host_keys_at(h, first, queries);
        if (keys.count <= 0) break;
        const mst_attention_tile tile = host_scores(h, q, queries, host_keys(h, MST_ATTENTION_K, keys, call->width), keys);
        mst_attention_tile_forward(&tile, &rows, first == 0);
        host_of_queries(h, &tile, call->values, host_keys(h, MST_ATTENTION_V, keys, call->values), first > 0, y);
        first += keys.count;
    }
    mst_attention_rows_finish(h->computed, queries.count, &rows, h->tiles[MST_ATTENTION_LSE], h->tiles[MST_ATTENTION_REST]);
    host_write(h, MST_ATTENTION_Y, queries, call->values);
    host_write(h, MST_ATTENTION_LSE, queries, 1);
    host_write(h, MST_ATTENTION_REST, queries, 1);
}

static muster_status host_run_forward(muster_worker *worker, const mst_attention_call *call) {
    host_work h;
    MUSTER_TRY(host_prepare(&h, worker, call));
    MUSTER_TRY(host_prepare_forward(&h, worker));
    for (int64_t i = 0; i < call->count; i++) {
        host_select(&h, i);
        for (int64_t first = 0; first < call->queries; first += h.most_queries)
            host_forward(&h, host_range_at(first, call->queries, h.most_queries));
    }
    return MUSTER_OK;
}

/* ---- gradient ---- */

static mst_matrix host_sums(const host_work *h, int32_t operand, int64_t first, int64_t columns) {
    return (mst_matrix){.data = h->tiles[operand] + first * columns * h->size, .rows = columns, .columns = 1};
}

static void host_mask(const host_work *h, const mst_attention_tile *tile, host_range queries, host_range keys) {
    const mst_attention_operand *o = &h->call->operands[MST_ATTENTION_DMASK];
    char *to = h->at[MST_ATTENTION_DMASK] + (queries.first * o->row + keys.first * o->column) * h->size;
    mst_attention_tile_add(tile, to, o->row, o->column);
}

/* dk and dv have one more tile of queries. What is not wanted is not computed. */
static void host_gradient_tile(const host_work *h, mst_matrix q, host_range queries, mst_matrix dy, host_range keys) {
    const mst_attention_call *call = h->call;
    const mst_matrix k = host_keys(h, MST_ATTENTION_K, keys, call->width), dp = {.data = h->more, .rows = keys.count, .columns = 1};
    const mst_attention_tile tile = host_scores(h, q, queries, k, keys);
    mst_attention_tile_again(&tile, h->tiles[MST_ATTENTION_LSE], h->tiles[MST_ATTENTION_REST]);
    if (host_wants(h, MST_ATTENTION_DV)) host_of_keys(h, &tile, call->values, dy, host_sums(h, MST_ATTENTION_DV, keys.first, call->values));
    if (!host_wants_scores(h)) return;
    mst_matrix_product(h->computed, queries.count, keys.count, call->values, dy,
                       mst_matrix_turned(host_keys(h, MST_ATTENTION_V, keys, call->values)), false, dp);
    mst_attention_tile_gradient(&tile, h->more, h->inner);
    if (host_wants(h, MST_ATTENTION_DMASK)) host_mask(h, &tile, queries, keys);
    if (host_wants(h, MST_ATTENTION_DK)) host_of_keys(h, &tile, call->width, q, host_sums(h, MST_ATTENTION_DK, keys.first, call->width));
    if (host_wants(h, MST_ATTENTION_DQ))
        host_of_queries(h, &tile, call->width, k, keys.first > 0, host_sums(h, MST_ATTENTION_DQ, 0, call->width));
}

static void host_gradient_queries(const host_work *h, host_range queries) {
    const mst_attention_call *call = h->call;
    const mst_matrix q = host_queries(h, queries), dy = host_read(h, MST_ATTENTION_DY, queries, call->values);
    (void)host_read(h, MST_ATTENTION_LSE, queries, 1);
    (void)host_read(h, MST_ATTENTION_REST, queries, 1);
    if (host_wants_scores(h)) {
        const mst_matrix y = host_read(h, MST_ATTENTION_Y, queries, call->values);
        mst_attention_rows_inner(h->computed, queries.count, call->values, y.data, dy.data, h->inner);
    }
    for (int64_t first = 0;;) {
        const host_range keys = host_keys_at(h, first, queries);
        if (keys.count <= 0) break;
        host_gradient_tile(h, q, queries, dy, keys);
        first += keys.count;
    }
    if (!host_wants(h, MST_ATTENTION_DQ)) return;
    mst_attention_scale(h->computed, queries.count * call->width, h->scale, h->tiles[MST_ATTENTION_DQ]);
    host_write(h, MST_ATTENTION_DQ, queries, call->width);
}

static void host_clear(const host_work *h, int32_t operand, int64_t rows, int64_t columns) {
    if (host_wants(h, operand)) memset(h->tiles[operand], 0, (size_t)(rows * columns * h->size));
}

static muster_status host_run_gradient(muster_worker *worker, const mst_attention_call *call) {
    host_work h;
    const host_range all = {.count = call->keys};
    MUSTER_TRY(host_prepare(&h, worker, call));
    MUSTER_TRY(host_prepare_gradient(&h, worker));
    for (int64_t i = 0; i < call->count; i++) {
        host_select(&h, i);
        if (i % call->group == 0) {
            host_clear(&h, MST_ATTENTION_DK, call->keys, call->width);
            host_clear(&h, MST_ATTENTION_DV, call->keys, call->values);
        }
        host_clear(&h, MST_ATTENTION_DQ, h.most_queries, call->width);
        for (int64_t first = 0; first < call->queries; first += h.most_queries)
            host_gradient_queries(&h, host_range_at(first, call->queries, h.most_queries));
        if (i % call->group < call->group - 1) continue; /* more queries have these keys */
        host_write(&h, MST_ATTENTION_DK, all, call->width);
        host_write(&h, MST_ATTENTION_DV, all, call->values);
    }
    return MUSTER_OK;
}

muster_status mst_attention_host_forward(muster_worker *worker, const mst_attention_call *call) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(host_run_forward(worker, call));
    return muster_worker_scratch_release(worker, mark);
}

muster_status mst_attention_host_gradient(muster_worker *worker, const mst_attention_call *call) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(host_run_gradient(worker, call));
    return muster_worker_scratch_release(worker, mark);
}
