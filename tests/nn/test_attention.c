/* Attention and its gradients against the plain formula in f64: random shapes, one tile and some,
 * any layout, all dtypes, masks, queries that see nothing, large finite masks, infinity where a
 * causal query does not look, heads that share keys and values; on CPU cores with BLAS and without,
 * and by the kernels. Memory does not grow with the number of scores. */
#include "attention/attention_impl.h"
#include "base_check.h"
#include "base_machine.h"
#include "base_seed.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "nn_impl.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <float.h>
#include <math.h>

enum { Q, K, V, MASK, Y, LSE, REST, DY, DQ, DK, DV, DMASK, OPERANDS, SCORES = 1 << 18 };
static const char *const names[OPERANDS] = {"q", "k", "v", "mask", "y", "lse", "rest", "dy", "dq", "dk", "dv", "dmask"};

/* ---- cases ---- */

typedef struct attention_case {
    mst_attention attention;
    bool masked, exact; /* exact: scores are whole multiples of a power of 2 */
    double large;       /* the mask of all keys of every second query; 0: -inf hides keys */
    uint32_t spoiled;   /* a mask of operands of which row `at` is infinite or NaN */
    int64_t at;
    int32_t stack; /* axes before the matrices */
    int64_t group; /* neighbours of the last of them that share keys and values; 0: 1 */
    int64_t count, queries, keys, width, values;
    int64_t shapes[OPERANDS][MUSTER_MAX_DIMS];
    int32_t ndim[OPERANDS];
} attention_case;

static int32_t cases, hidden, grouped, learned; /* learned: with the gradient of a mask */
static int64_t compared;                        /* elements */
static int32_t both;                            /* cases of several tiles of queries and of keys; every second one is causal */

/* Has the operand one number for each query? */
static bool is_of_queries(int32_t operand) { return operand == LSE || operand == REST; }

static int64_t between(int64_t low, int64_t high) { return low + ops_random(high - low + 1); }

static void set_shape(attention_case *c, int32_t operand, int64_t rows, int64_t columns) {
    c->ndim[operand] = c->stack + (is_of_queries(operand) ? 1 : 2);
    c->shapes[operand][c->stack] = rows;
    if (!is_of_queries(operand)) c->shapes[operand][c->stack + 1] = columns;
}

/* The stack and the sizes are set. */
static void finish_case(attention_case *c, const int64_t *stack) {
    c->count = 1;
    for (int32_t i = 0; i < OPERANDS; i++)
        for (int32_t d = 0; d < c->stack; d++) c->shapes[i][d] = stack[d];
    if (c->group == 0) c->group = 1;
    if (c->group > 1) c->shapes[K][c->stack - 1] = c->shapes[V][c->stack - 1] = stack[c->stack - 1] / c->group;
    if (c->group > 1) c->shapes[DK][c->stack - 1] = c->shapes[DV][c->stack - 1] = stack[c->stack - 1] / c->group;
    for (int32_t d = 0; d < c->stack; d++) c->count *= stack[d];
    set_shape(c, Q, c->queries, c->width), set_shape(c, DQ, c->queries, c->width);
    set_shape(c, K, c->keys, c->width), set_shape(c, DK, c->keys, c->width);
    set_shape(c, V, c->keys, c->values), set_shape(c, DV, c->keys, c->values);
    set_shape(c, Y, c->queries, c->values), set_shape(c, DY, c->queries, c->values);
    set_shape(c, LSE, c->queries, 0), set_shape(c, REST, c->queries, 0), set_shape(c, MASK, c->queries, c->keys);
    /* a mask repeats some axes, and lacks some of the first */
    const int32_t missing = (int32_t)ops_random(c->stack + 1);
    c->ndim[MASK] -= missing;
    for (int32_t d = 0; d < c->ndim[MASK]; d++) c->shapes[MASK][d] = ops_random(3) ? c->shapes[MASK][d + missing] : 1;
    const double scales[] = {0, 0.25, 0.0625, -0.5};
    c->attention = (mst_attention){.scale = scales[ops_random(4)], .causal = ops_random(2) == 1};
    c->exact = c->attention.scale != 0;
    c->masked = ops_random(2) == 1;
}

static void small_case(attention_case *c) {
    int64_t stack[] = {between(1, 3), ops_random(16) ? between(1, 3) : 0, between(1, 2)};
    *c = (attention_case){.stack = (int32_t)between(0, 3), .queries = between(1, 9), .keys = between(1, 9)};
    if (c->stack > 0 && ops_random(3) == 0) stack[c->stack - 1] *= c->group = between(2, 3);
    c->width = ops_random(12) ? between(1, 9) : 0;
    c->values = ops_random(12) ? between(1, 9) : 0;
    if (ops_random(12) == 0) c->keys = 0;
    if (ops_random(12) == 0) c->queries = 0;
    finish_case(c, stack);
}

/* Several tiles of queries, of keys, or of both. */
static void large_case(attention_case *c) {
    enum { TILE = 256 };
    *c = (attention_case){
        .stack = 1, .queries = between(1, 40), .keys = between(TILE + 1, 600), .width = between(1, 20), .values = between(1, 20)};
    const int64_t style = (cases + cases / 4) % 4, stack = style == 0 ? 1 : between(1, 2);
    if (style == 0) c->queries = between(TILE + 1, TILE + 40), c->keys = between(TILE + 1, TILE + 40);
    if (style == 1) c->queries = between(TILE + 1, 400), c->keys = between(1, 80);
    c->group = stack;
    finish_case(c, &stack);
    if (c->ndim[MASK] == 3) c->shapes[MASK][0] = 1;
    c->attention.scale = c->exact ? 0.0625 : 0;
    if (style == 0) both++, c->attention.causal = both % 2 == 1;
}

static int64_t storage_of(const attention_case *c, int32_t operand) {
    int64_t count = 1;
    for (int32_t d = 0; d < c->ndim[operand]; d++) count *= c->shapes[operand][d];
    return count;
}

/* ---- operands ---- */

static bool is_result(int32_t operand) { return operand == Y || is_of_queries(operand) || operand >= DQ; }

static muster_dtype dtype_of(muster_dtype dtype, int32_t operand) { return is_of_queries(operand) ? mst_dtype_compute(dtype) : dtype; }

/* Rows behind each other, columns behind each other, or, if there are few elements, anything. */
static ops_pair operand_of(muster_worker *w, muster_dtype dtype, const attention_case *c, int32_t operand) {
    const int64_t *shape = c->shapes[operand], count = storage_of(c, operand), layout = ops_random(3);
    const int32_t ndim = c->ndim[operand];
    if (layout == 0 && count < 600) return ops_view(w, dtype_of(dtype, operand), ndim, shape, !is_result(operand) && !c->spoiled);
    ops_pair pair = ops_make(w, dtype_of(dtype, operand), count);
    pair.host = muster_tensor_make(dtype_of(dtype, operand), pair.host_storage.data, ndim, shape);
    if (layout == 1 && ndim >= 2) {
        pair.host.strides[ndim - 1] = shape[ndim - 2];
        pair.host.strides[ndim - 2] = 1;
    }
    ops_place(&pair);
    return pair;
}

static void set_element(ops_pair *pair, const int64_t *index, double value) {
    char *at = muster_tensor_address(pair->host);
    for (int32_t d = 0; d < pair->host.ndim; d++) at += index[d] * pair->host.strides[d] * muster_dtype_size(pair->host.dtype);
    mst_convert(pair->host.dtype, at, MUSTER_F64, &value, 1);
}

/* Hides some keys, and from some queries all. */
static void hide_keys(muster_worker *w, const attention_case *c, ops_pair *mask) {
    int64_t index[MUSTER_MAX_DIMS] = {0};
    const int32_t row = c->ndim[MASK] - 2;
    if (storage_of(c, MASK)) do
            if (ops_random(4) == 0 || index[row] % 5 == 4) set_element(mask, index, -(double)INFINITY);
        while (ops_next(c->ndim[MASK], c->shapes[MASK], index));
    ops_send(w, mask);
}

/* All keys of every second query have the large mask, of the others some. */
static void mask_queries(muster_worker *w, const attention_case *c, ops_pair *mask) {
    int64_t index[MUSTER_MAX_DIMS] = {0};
    do
        if (index[c->ndim[MASK] - 2] % 2 == 0 || ops_random(4) == 0) set_element(mask, index, c->large);
    while (ops_next(c->ndim[MASK], c->shapes[MASK], index));
    ops_send(w, mask);
}

static void spoil(muster_worker *w, const attention_case *c, int32_t operand, ops_pair *pair) {
    const double others[] = {INFINITY, -INFINITY, NAN};
    int64_t index[MUSTER_MAX_DIMS] = {0};
    do
        if (index[c->stack] == c->at) set_element(pair, index, others[ops_random(3)]);
    while (ops_next(c->ndim[operand], c->shapes[operand], index));
    ops_send(w, pair);
}

/* Does row `row` of the result depend on a row that is spoiled? A query sees the keys up to its own
 * number. */
static bool is_spoiled(const attention_case *c, int32_t operand, int64_t row) {
    const bool of_keys = operand == DK || operand == DV;
    if (operand == DMASK) return c->spoiled != 0;
    if (c->spoiled & (1 << Q | 1 << DY)) return of_keys ? row <= c->at : row == c->at;
    if (c->spoiled == 1 << V && (operand == LSE || operand == DV)) return false; /* which p alone makes */
    return c->spoiled && (of_keys || row >= c->at);
}

/* ---- the oracle: matrices of scores; what bounds the error of a sum: the sum of the sizes ---- */

typedef struct numbers {
    double of[OPERANDS][OPS_STORAGE], size[OPERANDS][OPS_STORAGE];
    double mask[SCORES], p[SCORES];
    double spread; /* the largest size of a score, but for the mask */
    double apart;  /* how far scores with an exponential that is not 0 are below the largest of their query */
} numbers;

static void read_operand(const attention_case *c, const ops_pair *pair, int32_t operand, double *values) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, shape[MUSTER_MAX_DIMS], i = 0, count = 1;
    const int32_t ndim = operand == MASK ? c->stack + 2 : c->ndim[operand];
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = operand != MASK ? c->shapes[operand][d] : d < c->stack ? c->shapes[Q][d] : d == c->stack ? c->queries : c->keys;
        count *= shape[d];
    }
    if (count) do
            values[i++] = ops_element(pair->host, ndim, index);
        while (ops_next(ndim, shape, index));
}

static double scale_of(const attention_case *c) { return c->attention.scale != 0 ? c->attention.scale : 1 / sqrt((double)c->width); }

/* Row i of the matrix n of p, and its lse. Adding a large mask rounds a score that was exact. */
static double softmax_row(const attention_case *c, numbers *o, muster_dtype dtype, int64_t n, int64_t i) {
    const double least = dtype == MUSTER_F64 ? 708 : 87;
    double *p = o->p + (n * c->queries + i) * c->keys, top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < c->keys; j++) {
        double s = 0, size = 0;
        for (int64_t l = 0; l < c->width; l++) {
            const double term = o->of[Q][(n * c->queries + i) * c->width + l] * o->of[K][(n / c->group * c->keys + j) * c->width + l];
            s += term, size += fabs(term);
        }
        if (c->width == 0)
            s = 0, size = 0;
        else
            s *= scale_of(c), size *= fabs(scale_of(c));
        o->spread = fmax(o->spread, size);
        if (c->masked) s += o->mask[(n * c->queries + i) * c->keys + j];
        if (c->exact && dtype != MUSTER_F64) s = (double)(float)s;
        p[j] = c->attention.causal && j > i ? -INFINITY : s;
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < c->keys; j++)
        if (top - p[j] <= least) o->apart = fmax(o->apart, top - p[j]);
    for (int64_t j = 0; j < c->keys; j++) p[j] = top > -INFINITY ? exp(p[j] - top) : 0, sum += p[j];
    for (int64_t j = 0; j < c->keys; j++) p[j] = sum > 0 ? p[j] / sum : 0;
    return sum > 0 ? top + log(sum) : -INFINITY;
}

static void add_to(numbers *o, int32_t operand, int64_t at, double term, double size) {
    o->of[operand][at] += term;
    o->size[operand][at] += size;
}

/* The element of the mask for key j of query i of matrix n. */
static int64_t place_in_mask(const attention_case *c, int64_t n, int64_t i, int64_t j) {
    int64_t index[MUSTER_MAX_DIMS], place = 0;
    for (int32_t d = c->stack - 1; d >= 0; d--) {
        index[d] = n % c->shapes[Q][d];
        n /= c->shapes[Q][d];
    }
    index[c->stack] = i, index[c->stack + 1] = j;
    for (int32_t d = 0; d < c->ndim[MASK]; d++) {
        const int64_t extent = c->shapes[MASK][d];
        place = place * extent + (extent == 1 ? 0 : index[c->stack + 2 - c->ndim[MASK] + d]);
    }
    return place;
}

static void oracle_row(const attention_case *c, numbers *o, int64_t n, int64_t i) {
    const int64_t row = n * c->queries + i;
    const double *p = o->p + row * c->keys, scale = scale_of(c);
    double inner = 0, inner_size = 0, dp[1024], size[1024];
    for (int64_t j = 0; j < c->keys; j++) {
        const int64_t key = n / c->group * c->keys + j;
        dp[j] = size[j] = 0;
        for (int64_t l = 0; l < c->values; l++) {
            const double v = o->of[V][key * c->values + l], dy = o->of[DY][row * c->values + l];
            add_to(o, Y, row * c->values + l, p[j] * v, p[j] * fabs(v));
            add_to(o, DV, key * c->values + l, p[j] * dy, p[j] * fabs(dy));
            dp[j] += dy * v, size[j] += fabs(dy * v);
        }
        inner += p[j] * dp[j], inner_size += p[j] * size[j];
    }
    for (int64_t j = 0; j < c->keys; j++) {
        if (c->masked) add_to(o, DMASK, place_in_mask(c, n, i, j), p[j] * (dp[j] - inner), p[j] * (size[j] + inner_size));
        const double change = scale * p[j] * (dp[j] - inner), most = fabs(scale) * p[j] * (size[j] + inner_size);
        for (int64_t l = 0; l < c->width; l++) {
            const int64_t of_q = row * c->width + l, of_k = (n / c->group * c->keys + j) * c->width + l;
            add_to(o, DQ, of_q, change * o->of[K][of_k], most * fabs(o->of[K][of_k]));
            add_to(o, DK, of_k, change * o->of[Q][of_q], most * fabs(o->of[Q][of_q]));
        }
    }
}

static void oracle(const attention_case *c, numbers *o, muster_dtype dtype) {
    const int32_t results[] = {Y, DQ, DK, DV, DMASK};
    assert_true(c->count * c->queries * c->keys <= SCORES && c->keys <= 1024);
    o->spread = o->apart = 0;
    for (int32_t r = 0; r < 5; r++)
        for (int64_t i = 0; i < storage_of(c, results[r]); i++) o->of[results[r]][i] = o->size[results[r]][i] = 0;
    for (int64_t n = 0; n < c->count; n++)
        for (int64_t i = 0; i < c->queries; i++) {
            o->of[LSE][n * c->queries + i] = softmax_row(c, o, dtype, n, i);
            o->size[LSE][n * c->queries + i] = 1;
            oracle_row(c, o, n, i);
        }
}

/* ---- one case ---- */

/* The unit of rounding. Halves are computed in f32; y, which the gradient reads, is rounded. Scores
 * that are not exact are off by a part of their size; the exponent of p in the gradient by a part
 * of its own size, however large the scores are. */
static double limit_of(const attention_case *c, const numbers *o, muster_dtype dtype, int32_t operand, int64_t i) {
    const double unit = dtype == MUSTER_F64 ? 0x1p-53 : dtype == MUSTER_F32 ? 0x1p-24 : dtype == MUSTER_F16 ? 0x1p-11 : 0x1p-8;
    const double single = dtype == MUSTER_F64 ? 0x1p-53 : 0x1p-24;
    const double grown = 8 + 0.25 * (double)(c->keys + c->queries > 64 ? 64 : c->keys + c->queries);
    const double spread = !c->exact ? 8 + o->spread + 16 : operand >= DQ ? 8 + o->apart : 1;
    if (operand == LSE) return 4 * single * (8 + o->spread) + 4 * single * fabs(o->of[LSE][i]);
    const double tiny = dtype == MUSTER_F16 ? 0x1p-24 : 1e-37;
    return (unit * 2 + grown * single * spread) * o->size[operand][i] + tiny;
}

static void assert_result(const attention_case *c, const numbers *o, muster_dtype dtype, int32_t operand, const ops_pair *pair) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
    if (storage_of(c, operand)) do {
            const double received = ops_element(pair->host, c->ndim[operand], index), expected = o->of[operand][i];
            const double limit = limit_of(c, o, dtype, operand, i++);
            if (is_spoiled(c, operand, index[c->stack])) continue;
            compared++;
            if (received == expected || fabs(received - expected) <= limit) continue;
            fail_msg("%s, %s%s%s, %lld queries, %lld keys, element %lld: expected %.17g, received %.17g, limit %g", names[operand],
                     muster_dtype_name(dtype), c->attention.causal ? ", causal" : "", c->masked ? ", masked" : "", (long long)c->queries,
                     (long long)c->keys, (long long)i - 1, expected, received, limit);
        } while (ops_next(c->ndim[operand], c->shapes[operand], index));
}

/* `left_out`: a result that is not wanted; OPERANDS: all are. */
static void run_case(muster_worker *worker, const attention_case *its, muster_dtype dtype, int32_t left_out) {
    static numbers o;
    ops_pair pairs[OPERANDS];
    attention_case whole = *its;
    const attention_case *c = &whole;
    whole.ndim[DMASK] = c->ndim[MASK];
    memcpy(whole.shapes[DMASK], c->shapes[MASK], sizeof whole.shapes[DMASK]);
    grouped += c->group > 1;
    learned += c->masked;
    const int64_t mark = muster_worker_scratch_mark(worker);
    for (int32_t i = 0; i < OPERANDS; i++) {
        pairs[i] = operand_of(worker, dtype, c, i);
        if (i == MASK) (c->large != 0 ? mask_queries : hide_keys)(worker, c, &pairs[i]);
        if (i == Q || i == K || i == V || i == DY) read_operand(c, &pairs[i], i, o.of[i]);
        if (i == MASK && c->masked) read_operand(c, &pairs[i], i, o.mask);
    }
    oracle(c, &o, dtype);
    for (int32_t i = 0; i < OPERANDS; i++)
        if (c->spoiled & 1u << i) spoil(worker, c, i, &pairs[i]);
    mst_attention_tensors t = {.q = &pairs[Q].device, .k = &pairs[K].device, .v = &pairs[V].device, .y = &pairs[Y].device};
    t.mask = c->masked ? &pairs[MASK].device : NULL;
    t.lse = &pairs[LSE].device, t.rest = &pairs[REST].device;
    assert_ok(mst_attention_forward(worker, &c->attention, &t, "test"));
    t.dy = &pairs[DY].device;
    t.dq = left_out == DQ ? NULL : &pairs[DQ].device;
    t.dk = left_out == DK ? NULL : &pairs[DK].device;
    t.dv = left_out == DV ? NULL : &pairs[DV].device;
    assert_ok(mst_attention_gradient(worker, &c->attention, &t, "test"));
    t.dmask = &pairs[DMASK].device;
    if (c->masked) assert_ok(mst_attention_mask_gradient(worker, &c->attention, &t, "test"));
    for (int32_t i = 0; i < OPERANDS; i++) {
        if (!is_result(i) || i == REST || i == left_out || (i == DMASK && !c->masked))
            continue; /* the gradients show what is lost without `rest` */
        ops_fetch(worker, &pairs[i]);
        assert_result(c, &o, dtype, i, &pairs[i]);
    }
    assert_ok(muster_worker_scratch_release(worker, mark));
}

/* ---- many cases ---- */

static muster_status small_body(muster_worker *worker, void *unused) {
    const int rounds = ops_rounds(80, 2000);
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++) {
            attention_case c;
            do small_case(&c);
            while (storage_of(&c, DQ) > 4000 || storage_of(&c, DK) > 4000 || storage_of(&c, DV) > 4000);
            run_case(worker, &c, dtype, round % 4 == 3 ? DQ + (int32_t)ops_random(3) : OPERANDS);
            cases++;
            hidden += c.masked;
        }
    return MUSTER_OK;
}

static muster_status large_body(muster_worker *worker, void *unused) {
    const int rounds = ops_rounds(4, 60);
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++) {
            attention_case c;
            large_case(&c);
            if (storage_of(&c, MASK) > OPS_STORAGE) c.shapes[MASK][c.ndim[MASK] - 2] = 1;
            run_case(worker, &c, dtype, OPERANDS);
            cases++;
        }
    return MUSTER_OK;
}

/* Exponentials of these scores overflow, or are 0, unless the largest is subtracted, in each tile
 * anew. */
static muster_status extreme_body(muster_worker *worker, void *unused) {
    (void)unused;
    for (int round = 0; round < 8; round++)
        for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++) {
            attention_case c = {.stack = 1, .queries = 9, .keys = round % 2 ? 7 : 530, .width = 4, .values = 5};
            finish_case(&c, (const int64_t[]){2});
            if (c.ndim[MASK] == 3) c.shapes[MASK][0] = 1;
            c.attention.scale = round < 4 ? 8192 : -8192;
            c.exact = true;
            run_case(worker, &c, dtype, OPERANDS);
            cases++;
        }
    return MUSTER_OK;
}

/* A mask so large that the logarithm of the sum is lost in that of -1e9 and 4 exponentials. */
static muster_status large_masks_body(muster_worker *worker, void *unused) {
    static const struct {
        muster_dtype dtype;
        double mask;
    } masks[] = {{MUSTER_F32, -1e9},  {MUSTER_F32, -FLT_MAX}, {MUSTER_F32, -1e4},  {MUSTER_F64, -1e9},   {MUSTER_F64, -1e30},
                 {MUSTER_F64, -1e18}, {MUSTER_F16, -65504},   {MUSTER_BF16, -1e9}, {MUSTER_BF16, -3e38}, {MUSTER_F64, -DBL_MAX}};
    static const int64_t keys[] = {4, 7, 300};
    (void)unused;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (int32_t k = 0; k < 3; k++, cases++) {
            attention_case c = {.stack = 1, .queries = 9, .keys = keys[k], .width = 4, .values = 5, .large = masks[i].mask};
            finish_case(&c, (const int64_t[]){2});
            set_shape(&c, MASK, c.queries, c.keys);
            c.ndim[MASK] = 3, c.shapes[MASK][0] = 1;
            c.attention.scale = 0.0625;
            c.exact = c.masked = true;
            run_case(worker, &c, masks[i].dtype, OPERANDS);
        }
    return MUSTER_OK;
}

/* A sample of the dtypes. Each size and each way to spoil operands still meets some of them. */
static int64_t unseen_one_in(void) { return test_one_in(1, 2, 4); }

/* Rows of keys that queries before them do not see, and of queries that do not see the keys behind
 * them. */
static muster_status unseen_body(muster_worker *worker, void *unused) {
    static const uint32_t spoiled[] = {1 << V, 1 << K, 1 << K | 1 << V, 1 << Q, 1 << DY, 1 << Q | 1 << DY};
    static const int64_t sizes[][2] = {{2, 2}, {6, 9}, {9, 6}, {270, 280}, {20, 300}, {300, 20}};
    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int32_t s = 0; s < 6; s++)
            for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++) {
                if (!test_keeps((int64_t)i + s + (int64_t)dtype, unseen_one_in())) continue;
                cases++;
                const bool large = sizes[i][0] + sizes[i][1] > 64;
                const int64_t both_have = sizes[i][0] < sizes[i][1] ? sizes[i][0] : sizes[i][1];
                attention_case c = {.stack = 1, .queries = sizes[i][0], .keys = sizes[i][1], .width = 3, .values = between(1, 3)};
                finish_case(&c, (const int64_t[]){large ? 1 : 2});
                if (large) c.shapes[MASK][c.ndim[MASK] - 2] = 1; /* more would not fit */
                c.attention.causal = true;
                c.spoiled = spoiled[s];
                c.at = s < 3 ? between(1, both_have - 1) : between(0, both_have - 2);
                run_case(worker, &c, dtype, OPERANDS);
            }
    return MUSTER_OK;
}

static void run_everywhere(mst_task body) {
    static const char *const backends[] = {"host", "discrete"};
    for (int b = ops_first_backend(); b < 2; b++) {
        ops_seed();
        assert_ok(ops_run_on(backends[b], body, NULL));
    }
    if (on_gpus()) return;
    ops_seed();
    assert_ok(mst_blas_open(false));
    const bool blas = mst_blas_get()->sgemm != NULL;
    const muster_status status = ops_run_on("host", body, NULL);
    mst_blas_close();
    assert_ok(status);
    assert_true(blas);
}

static int32_t places_to_run(void) { return on_gpus() ? 2 - ops_first_backend() : 3; }

static void small_shapes_agree_with_the_formula(void **state) {
    (void)state;
    cases = hidden = grouped = learned = 0;
    run_everywhere(small_body);
    assert_int_equal(cases, ops_rounds(80, 2000) * 4 * places_to_run());
    assert_true(hidden > cases / 4 && hidden < cases * 3 / 4);
    assert_int_equal(learned, hidden);
    assert_true(grouped > cases / 8 && grouped < cases / 2);
}

static void shapes_of_several_tiles_agree_with_the_formula(void **state) {
    (void)state;
    cases = both = 0;
    run_everywhere(large_body);
    assert_int_equal(cases, ops_rounds(4, 60) * 4 * places_to_run());
    assert_int_equal(both, cases / 4);
}

static void extreme_scores_do_not_overflow(void **state) {
    (void)state;
    cases = 0;
    run_everywhere(extreme_body);
    assert_int_equal(cases, 16 * places_to_run());
}

static void large_finite_masks_leave_the_gradients_right(void **state) {
    (void)state;
    cases = 0, compared = 0;
    run_everywhere(large_masks_body);
    assert_int_equal(cases, 10 * 3 * places_to_run());
    assert_int_equal(compared, 10 * (2 * (3 * 9 * (5 + 1 + 4) + (4 + 7 + 300) * (4 + 5)) + 9 * (4 + 7 + 300)) * places_to_run());
}

static void what_a_causal_query_does_not_see_does_not_reach_it(void **state) {
    (void)state;
    cases = 0, compared = 0;
    run_everywhere(unseen_body);
    assert_int_equal(cases, 6 * 6 * 4 / unseen_one_in() * places_to_run());
    assert_true(compared > 100 * (int64_t)cases);
}

/* ---- memory ---- */

#ifdef MUSTER_TEST_SANITIZED
enum { FEW = 512, MANY = 1024, WIDTH = 8 };
#else
enum { FEW = 512, MANY = 4096, WIDTH = 8 };
#endif

static int64_t scratch_held(const muster_worker *worker) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < worker->scratch_count; i++) bytes += worker->scratch[i].bytes;
    return bytes;
}

enum { FORWARD, OF_Q = 1, OF_K = 2, OF_V = 4, ALL = OF_Q | OF_K | OF_V };

/* gradients: those that are wanted, or FORWARD. */
static void use_memory(muster_worker *worker, int64_t rows, int32_t gradients) {
    static float memory[3][MANY * WIDTH], results[5][MANY * WIDTH];
    const int64_t shape[] = {rows, WIDTH};
    const mst_attention attention = {.causal = false};
    muster_tensor in[3], out[5];
    for (int32_t i = 0; i < 3; i++) in[i] = muster_tensor_make(MUSTER_F32, memory[i], 2, shape);
    for (int32_t i = 0; i < 5; i++) out[i] = muster_tensor_make(MUSTER_F32, results[i], i >= 3 ? 1 : 2, shape);
    mst_attention_tensors t = {.q = &in[0], .k = &in[1], .v = &in[2], .y = &in[0], .lse = &out[3], .rest = &out[4], .dy = &in[1]};
    if (gradients & OF_Q) t.dq = &out[0];
    if (gradients & OF_K) t.dk = &out[1];
    if (gradients & OF_V) t.dv = &out[2];
    if (gradients) {
        assert_ok(mst_attention_gradient(worker, &attention, &t, "test"));
    } else {
        t.y = &out[0];
        assert_ok(mst_attention_forward(worker, &attention, &t, "test"));
    }
}

/* The scores would be 64 MiB, or 4 MiB. dk and dv take memory where they are wanted. */
static muster_status memory_body(muster_worker *worker, void *unused) {
    const int64_t of_keys = MANY * WIDTH * (int64_t)sizeof(float);
    (void)unused;
    use_memory(worker, FEW, FORWARD);
    const int64_t held = scratch_held(worker);
    use_memory(worker, MANY, FORWARD);
    assert_int_equal(scratch_held(worker), held);
    assert_in_range(held, 1, 1 << 20);
    use_memory(worker, FEW, OF_Q);
    const int64_t of_queries = scratch_held(worker);
    assert_true(of_queries <= 1 << 20);
    use_memory(worker, MANY, OF_Q);
    assert_int_equal(scratch_held(worker), of_queries);
    use_memory(worker, MANY, OF_V);
    assert_true(scratch_held(worker) <= (1 << 20) + of_keys);
    use_memory(worker, MANY, ALL);
    assert_true(scratch_held(worker) <= (1 << 20) + 2 * of_keys);
    return MUSTER_OK;
}

static void memory_does_not_grow_with_the_scores(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their kernels use no scratch memory");
    assert_ok(ops_run_on("host", memory_body, NULL));
}

/* ---- refusals ---- */

static muster_status refuse_body(muster_worker *worker, void *unused) {
    const mst_attention attention = {.causal = false};
    muster_tensor right[OPERANDS];
    int32_t refused = 0;
    (void)unused;
    for (int32_t i = 0; i < OPERANDS; i++) MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 3, (const int64_t[]){2, 3, 4}, &right[i]));
    right[K].shape[1] = right[V].shape[1] = right[DK].shape[1] = right[DV].shape[1] = right[MASK].shape[2] = right[DMASK].shape[2] = 2;
    right[LSE].ndim = right[REST].ndim = 2;
#define REFUSED(operand, change, status, message)                                                                                     \
    do {                                                                                                                              \
        muster_tensor t[OPERANDS];                                                                                                    \
        memcpy(t, right, sizeof t);                                                                                                   \
        muster_tensor *wrong = &t[operand];                                                                                           \
        change;                                                                                                                       \
        const mst_attention_tensors given = {&t[Q],    &t[K],  &t[V],  &t[MASK], &t[Y],  &t[LSE],                                     \
                                             &t[REST], &t[DY], &t[DQ], &t[DK],   &t[DV], &t[DMASK]};                                  \
        assert_refused((operand == DMASK ? mst_attention_mask_gradient : mst_attention_gradient)(worker, &attention, &given, "here"), \
                       status, message);                                                                                              \
        refused++;                                                                                                                    \
    } while (0)
    REFUSED(Q, wrong->dtype = MUSTER_I32, MUSTER_UNSUPPORTED, "here: q: expected f16, bf16, f32 or f64, received i32");
    REFUSED(Q, wrong->ndim = 1, MUSTER_SHAPE_MISMATCH, "here: q: expected 2 dimensions or more, received shape (2,)");
    REFUSED(K, wrong->dtype = MUSTER_F16, MUSTER_DTYPE_MISMATCH, "here: k: expected the dtype of q, f32, received f16");
    REFUSED(K, wrong->ndim = 2, MUSTER_SHAPE_MISMATCH, "here: k: expected 3 dimensions, received shape (2, 2)");
    REFUSED(K, wrong->shape[2] = 3, MUSTER_SHAPE_MISMATCH, "here: k: expected shape (2, 2, 4), received (2, 2, 3)");
    REFUSED(K, wrong->shape[0] = 3, MUSTER_SHAPE_MISMATCH, "here: k: expected in axis 0 a number that divides the 2 of q, received 3");
    REFUSED(K, wrong->shape[0] = 1, MUSTER_SHAPE_MISMATCH, "here: v: expected shape (1, 2, 4), received (2, 2, 4)");
    REFUSED(V, wrong->shape[1] = 3, MUSTER_SHAPE_MISMATCH, "here: v: expected shape (2, 2, 4), received (2, 3, 4)");
    REFUSED(V, wrong->shape[0] = 1, MUSTER_SHAPE_MISMATCH, "here: v: expected shape (2, 2, 4), received (1, 2, 4)");
    REFUSED(MASK, wrong->shape[2] = 3, MUSTER_SHAPE_MISMATCH,
            "here: mask: expected a shape that broadcasts to that of the scores, (2, 3, 2), received (2, 3, 3)");
    REFUSED(Y, wrong->shape[1] = 2, MUSTER_SHAPE_MISMATCH, "here: y: expected shape (2, 3, 4), received (2, 2, 4)");
    REFUSED(LSE, wrong->dtype = MUSTER_F64, MUSTER_UNSUPPORTED, "here: lse: expected f32, received f64");
    REFUSED(LSE, wrong->ndim = 1, MUSTER_SHAPE_MISMATCH, "here: lse: expected shape (2, 3), received (2,)");
    REFUSED(REST, wrong->dtype = MUSTER_F64, MUSTER_UNSUPPORTED, "here: rest: expected f32, received f64");
    REFUSED(REST, wrong->shape[1] = 2, MUSTER_SHAPE_MISMATCH, "here: rest: expected shape (2, 3), received (2, 2)");
    REFUSED(DY, wrong->shape[2] = 3, MUSTER_SHAPE_MISMATCH, "here: dy: expected shape (2, 3, 4), received (2, 3, 3)");
    REFUSED(DQ, wrong->shape[2] = 3, MUSTER_SHAPE_MISMATCH, "here: dq: expected shape (2, 3, 4), received (2, 3, 3)");
    REFUSED(DK, wrong->shape[1] = 3, MUSTER_SHAPE_MISMATCH, "here: dk: expected shape (2, 2, 4), received (2, 3, 4)");
    REFUSED(DV, wrong->shape[1] = 3, MUSTER_SHAPE_MISMATCH, "here: dv: expected shape (2, 2, 4), received (2, 3, 4)");
    REFUSED(DMASK, wrong->shape[1] = 1, MUSTER_SHAPE_MISMATCH, "here: dmask: expected shape (2, 3, 2), received (2, 1, 2)");
    assert_int_equal(refused, 20);
    return MUSTER_OK;
}

static void wrong_operands_are_refused(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", refuse_body, NULL));
}

static int add_code(void **state) {
    (void)state;
    return mst_code_add(&mst_nn_code) == MUSTER_OK && mst_discrete_register() == MUSTER_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes_agree_with_the_formula),
        cmocka_unit_test(shapes_of_several_tiles_agree_with_the_formula),
        cmocka_unit_test(extreme_scores_do_not_overflow),
        cmocka_unit_test(large_finite_masks_leave_the_gradients_right),
        cmocka_unit_test(what_a_causal_query_does_not_see_does_not_reach_it),
        cmocka_unit_test(memory_does_not_grow_with_the_scores),
        cmocka_unit_test(wrong_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, add_code, NULL);
}
