#include "collectives_node_cases.h"

#include "base_seed.h"
#include "collectives_oracle.h"
#include "collectives_spans.h"

#include <stdlib.h>
#include <string.h>

typedef enum { ALL_REDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALL_GATHER, GATHER, SCATTER, ALL_TO_ALL, UNEVEN, AXPY, MOMENTUM, KINDS } kind;

static const muster_dtype dtypes[] = {MUSTER_BOOL, MUSTER_I8,  MUSTER_U8,  MUSTER_I16,  MUSTER_I32, MUSTER_U32,
                                      MUSTER_I64,  MUSTER_U64, MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };
static const muster_reduction ops[] = {MUSTER_SUM, MUSTER_PROD, MUSTER_MAX, MUSTER_MIN, MUSTER_AVG};
enum { OPS = sizeof ops / sizeof *ops };

struct node_case {
    kind kind;
    muster_dtype dtype;
    muster_reduction op;
    int64_t count; /* elements of rank 0; of reductions: of every rank */
    int32_t root;
    bool in_place;
};
typedef struct node_case one_case;

/* What one rank of a case holds. */
typedef struct holder {
    muster_worker *worker;
    const one_case *c;
    int32_t rank, size;
    int64_t element;
} holder;

static bool is_float(muster_dtype d) { return d == MUSTER_F16 || d == MUSTER_BF16 || d == MUSTER_F32 || d == MUSTER_F64; }
static muster_tensor vector_of(const holder *h, void *data, int64_t count) { return muster_tensor_make(h->c->dtype, data, 1, &count); }

static char *filled(const holder *h, int64_t count, uint64_t which) {
    char *vector = malloc((size_t)(count * h->element + 1));
    oracle_fill(h->c->dtype, vector, count, which);
    return vector;
}

static muster_status differs(const holder *h, const char *what, int64_t at) {
    return mst_error(MUSTER_USER, "kind %d, %s, op %d, %lld elements, root %d, in place %d: %s %lld of rank %d is wrong", (int)h->c->kind,
                     muster_dtype_name(h->c->dtype), (int)h->c->op, (long long)h->c->count, h->c->root, h->c->in_place, what, (long long)at,
                     h->rank);
}

static muster_status expect_bytes(const holder *h, const void *received, const void *expected, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++)
        if (((const char *)received)[i] != ((const char *)expected)[i]) return differs(h, "byte", i);
    return MUSTER_OK;
}

/* ---- reductions ---- */

/* received[0, count): elements [first, first + count) of op over the vectors of all ranks. */
static muster_status expect_reduced(const holder *h, const char *received, int64_t first, int64_t count, const void *parameter,
                                    double alpha) {
    void *vectors[SPANS_RANKS], *at[SPANS_RANKS];
    for (int32_t r = 0; r < h->size; r++) {
        vectors[r] = filled(h, h->c->count, (uint64_t)r + 1);
        at[r] = (char *)vectors[r] + first * h->element;
    }
    muster_status status = MUSTER_OK;
    if (is_float(h->c->dtype)) {
        const int64_t wrong = oracle_float(h->c->op, h->c->dtype, at, h->size, parameter, alpha, received, count);
        if (wrong >= 0) status = differs(h, "element", wrong);
    } else {
        char *expected = malloc((size_t)(count * h->element + 1));
        oracle_whole(h->c->op, h->c->dtype, at, h->size, expected, count);
        status = expect_bytes(h, received, expected, count * h->element);
        free(expected);
    }
    for (int32_t r = 0; r < h->size; r++) free(vectors[r]);
    return status;
}

static int64_t part_of(const one_case *c, int32_t size, int32_t rank) { return c->count * (rank + 1) / size - c->count * rank / size; }
static int64_t offset_of(const one_case *c, int32_t size, int32_t rank) { return c->count * rank / size; }

static muster_status reduce_case(const holder *h, char *input, char *output) {
    const one_case *c = h->c;
    muster_tensor in = vector_of(h, input, c->count);
    if (c->kind == REDUCE_SCATTER) {
        const int64_t offset = offset_of(c, h->size, h->rank), count = part_of(c, h->size, h->rank);
        char *to = c->in_place ? input + offset * h->element : output;
        MUSTER_TRY(muster_worker_reduce_scatter(h->worker, NULL, c->op, in, vector_of(h, to, count)));
        return expect_reduced(h, to, offset, count, NULL, 0);
    }
    char *to = c->in_place ? input : output;
    const muster_tensor out = vector_of(h, to, c->count);
    if (c->kind == ALL_REDUCE) {
        MUSTER_TRY(muster_worker_all_reduce(h->worker, NULL, c->op, in, out));
        return expect_reduced(h, to, 0, c->count, NULL, 0);
    }
    MUSTER_TRY(muster_worker_reduce(h->worker, NULL, c->op, c->root, in, out));
    return h->rank == c->root ? expect_reduced(h, to, 0, c->count, NULL, 0) : MUSTER_OK;
}

/* Parameters are equal on all ranks, and stay so. */
static muster_status update_case(const holder *h, char *gradient, char *velocity) {
    const one_case *c = h->c;
    const oracle_steps steps = {.alpha = -0.25, .beta = 0.5, .steps = 2};
    char *parameter = filled(h, c->count, 99), *before = filled(h, c->count, 99);
    muster_status status = MUSTER_OK;
    memset(velocity, 0, (size_t)(c->count * h->element));
    const muster_tensor g = vector_of(h, gradient, c->count), p = vector_of(h, parameter, c->count), v = vector_of(h, velocity, c->count);
    if (c->kind == AXPY) {
        status = muster_worker_all_reduce_axpy(h->worker, NULL, -0.25, g, p);
        if (status == MUSTER_OK) status = expect_reduced(h, parameter, 0, c->count, before, -0.25);
    } else {
        void *vectors[SPANS_RANKS];
        for (int32_t i = 0; i < steps.steps && status == MUSTER_OK; i++)
            status = muster_worker_all_reduce_momentum(h->worker, NULL, steps.alpha, g, steps.beta, v, p);
        for (int32_t r = 0; r < h->size; r++) vectors[r] = filled(h, c->count, (uint64_t)r + 1);
        const int64_t wrong = status == MUSTER_OK ? oracle_momentum(c->dtype, vectors, h->size, before, &steps, parameter, c->count) : -1;
        if (wrong >= 0) status = differs(h, "element", wrong);
        for (int32_t r = 0; r < h->size; r++) free(vectors[r]);
    }
    free(parameter);
    free(before);
    return status;
}

/* ---- moves ---- */

static muster_status expect_part(const holder *h, const char *received, int32_t rank, int64_t first, int64_t count, int64_t whole) {
    char *expected = filled(h, whole, (uint64_t)rank + 1);
    const muster_status status = expect_bytes(h, received, expected + first * h->element, count * h->element);
    free(expected);
    return status;
}

static muster_status gather_case(const holder *h, char *output) {
    const one_case *c = h->c;
    const int64_t own = part_of(c, h->size, h->rank);
    char *input = filled(h, own, (uint64_t)h->rank + 1), *from = input;
    if (c->in_place && (c->kind == ALL_GATHER || h->rank == c->root)) {
        from = output + offset_of(c, h->size, h->rank) * h->element;
        memcpy(from, input, (size_t)(own * h->element));
    }
    const muster_tensor in = vector_of(h, from, own), out = vector_of(h, output, c->count);
    muster_status status = c->kind == ALL_GATHER ? muster_worker_all_gather(h->worker, NULL, in, out)
                                                 : muster_worker_gather(h->worker, NULL, c->root, in, out);
    for (int32_t r = 0; r < h->size && (c->kind == ALL_GATHER || h->rank == c->root) && status == MUSTER_OK; r++)
        status = expect_part(h, output + offset_of(c, h->size, r) * h->element, r, 0, part_of(c, h->size, r), part_of(c, h->size, r));
    free(input);
    return status;
}

static muster_status scatter_case(const holder *h, char *input, char *output) {
    const one_case *c = h->c;
    const int64_t own = part_of(c, h->size, h->rank), offset = offset_of(c, h->size, h->rank);
    char *to = c->in_place && h->rank == c->root ? input + offset * h->element : output;
    if (c->kind == BROADCAST) {
        to = c->in_place && h->rank == c->root ? input : output;
        MUSTER_TRY(muster_worker_broadcast(h->worker, NULL, c->root, vector_of(h, input, c->count), vector_of(h, to, c->count)));
        return expect_part(h, to, c->root, 0, c->count, c->count);
    }
    MUSTER_TRY(muster_worker_scatter(h->worker, NULL, c->root, vector_of(h, input, c->count), vector_of(h, to, own)));
    return expect_part(h, to, c->root, offset, own, c->count);
}

static int64_t uneven_count(const one_case *c, int32_t from, int32_t to) {
    return c->count / 4 * ((from * 3 + to * 5) % 4) + (from + to) % 3;
}

static muster_status uneven_case(const holder *h) {
    int64_t send[SPANS_RANKS], receive[SPANS_RANKS], sent = 0, received = 0;
    for (int32_t r = 0; r < h->size; r++) {
        sent += send[r] = uneven_count(h->c, h->rank, r);
        received += receive[r] = uneven_count(h->c, r, h->rank);
    }
    char *input = filled(h, sent, (uint64_t)h->rank + 1), *output = filled(h, received, 77), *at = output;
    muster_status status =
        muster_worker_all_to_all_uneven(h->worker, NULL, vector_of(h, input, sent), send, vector_of(h, output, received), receive);
    for (int32_t r = 0; r < h->size && status == MUSTER_OK; r++) {
        int64_t whole = 0, first = 0;
        for (int32_t to = 0; to < h->size; to++) whole += uneven_count(h->c, r, to);
        for (int32_t to = 0; to < h->rank; to++) first += uneven_count(h->c, r, to);
        status = expect_part(h, at, r, first, receive[r], whole);
        at += receive[r] * h->element;
    }
    free(input);
    free(output);
    return status;
}

static muster_status exchange_case(const holder *h, char *output) {
    const int64_t part = h->c->count / h->size, count = part * h->size;
    char *input = filled(h, count, (uint64_t)h->rank + 1), *to = h->c->in_place ? input : output;
    muster_status status = muster_worker_all_to_all(h->worker, NULL, vector_of(h, input, count), vector_of(h, to, count));
    for (int32_t r = 0; r < h->size && status == MUSTER_OK; r++)
        status = expect_part(h, to + r * part * h->element, r, h->rank * part, part, count);
    free(input);
    return status;
}

static muster_status run_case(const holder *h) {
    char *input = filled(h, h->c->count, (uint64_t)h->rank + 1), *output = filled(h, h->c->count, 77);
    muster_status status;
    switch (h->c->kind) {
    case ALL_REDUCE:
    case REDUCE:
    case REDUCE_SCATTER:
        status = reduce_case(h, input, output);
        break;
    case AXPY:
    case MOMENTUM:
        status = update_case(h, input, output);
        break;
    case ALL_GATHER:
    case GATHER:
        status = gather_case(h, output);
        break;
    case BROADCAST:
    case SCATTER:
        status = scatter_case(h, input, output);
        break;
    case UNEVEN:
        status = uneven_case(h);
        break;
    default:
        status = exchange_case(h, output);
    }
    free(input);
    free(output);
    return status;
}

/* ---- all cases ---- */

enum { LARGE_COUNT = NODE_CASES_LARGE_COUNT };
int64_t node_cases_one_in(void) { return test_one_in(1, 5, 11); }
int64_t node_cases_large_one_in(void) { return test_one_in(1, 1, 3); }

static void add(node_case_list *list, one_case c) {
    const bool large = c.count == LARGE_COUNT;
    if (!test_keeps(large ? list->met_large++ : list->met++, large ? node_cases_large_one_in() : node_cases_one_in())) return;
    if (list->count == list->room) {
        list->room = 2 * list->room + 64;
        list->cases = realloc(list->cases, (size_t)list->room * sizeof c);
    }
    list->cases[list->count++] = c;
}

static bool reduces(kind k) { return k == ALL_REDUCE || k == REDUCE || k == REDUCE_SCATTER; }
static bool rooted(kind k) { return k == REDUCE || k == BROADCAST || k == GATHER || k == SCATTER; }

static void add_sizes(node_case_list *list, one_case c, int32_t size, bool large) {
    static const int64_t small[] = {0, 1, 5, 1000};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        for (int32_t in_place = 0; in_place < (c.kind == UNEVEN || c.kind == AXPY || c.kind == MOMENTUM ? 1 : 2); in_place++) {
            c.count = small[i];
            c.in_place = in_place;
            c.root = rooted(c.kind) ? (int32_t)(i % (size_t)size) : 0;
            add(list, c);
        }
    if (!large) return;
    c.count = LARGE_COUNT;
    c.root = rooted(c.kind) ? size - 1 : 0;
    add(list, c);
}

node_case_list node_cases_all(int32_t size, bool large) {
    node_case_list list = {.cases = NULL};
    for (kind k = 0; k < KINDS; k++)
        for (size_t d = 0; d < DTYPES; d++)
            for (size_t o = 0; o < OPS; o++) {
                const bool updates = k == AXPY || k == MOMENTUM;
                if (reduces(k) ? !oracle_defines(ops[o], dtypes[d]) : ops[o] != MUSTER_SUM || (updates && !is_float(dtypes[d]))) continue;
                add_sizes(&list, (one_case){.kind = k, .dtype = dtypes[d], .op = ops[o]}, size,
                          large && (dtypes[d] == MUSTER_F32 || dtypes[d] == MUSTER_BF16) && ops[o] == MUSTER_SUM);
            }
    return list;
}

muster_status node_cases_run(muster_worker *worker, void *argument) {
    node_cases_progress *p = argument;
    for (int64_t i = 0; i < p->list->count; i++) {
        const one_case *c = &p->list->cases[i];
        const holder h = {worker, c, spans_rank(worker), spans_size(worker), muster_dtype_size(c->dtype)};
        MUSTER_TRY(run_case(&h));
        atomic_fetch_add(&p->entered, 1);
    }
    return MUSTER_OK;
}
