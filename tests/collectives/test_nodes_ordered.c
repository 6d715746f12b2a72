/* The reproducible mode: reductions in bodies have the same bits however the ranks are spread over
 * processes. The bits to compare with are those of four ranks in one process, which other
 * transports make. Values depend on the order of their sum, and some are -0.0. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_spans.h"
#include "core/rendezvous_private.h"

#include <stdlib.h>
#include <string.h>

typedef enum { ALL_REDUCE, REDUCE, REDUCE_SCATTER, AXPY, MOMENTUM, KINDS } kind;
static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_F16, MUSTER_BF16};
static const muster_reduction ops[] = {MUSTER_SUM, MUSTER_AVG, MUSTER_PROD, MUSTER_MAX, MUSTER_MIN};
static const int64_t counts[] = {4, 500, 70000}; /* inside an arrival, and in one or several rounds */
enum { DTYPES = 4, OPS = 5, COUNTS = 3, RANKS = 4, CASES = DTYPES * (3 * (2 * OPS + 2) + 2 * COUNTS) };

static uint64_t bits[CASES][RANKS]; /* a hash of what the rank has got */
static spans_launch launch;

typedef struct one_case {
    kind kind;
    muster_dtype dtype;
    muster_reduction op;
    int64_t count;
} one_case;

static bool case_at(int32_t number, one_case *c) {
    for (c->kind = 0; c->kind < KINDS; c->kind++)
        for (int32_t i = 0; i < DTYPES * COUNTS * OPS; i++) {
            c->dtype = dtypes[i % DTYPES];
            c->count = counts[i / DTYPES % COUNTS];
            c->op = ops[i / DTYPES / COUNTS];
            if (c->kind >= AXPY && c->op != MUSTER_SUM) continue;
            if (c->count == counts[COUNTS - 1] && c->op != MUSTER_SUM && c->op != MUSTER_AVG) continue;
            if (number-- == 0) return true;
        }
    return false;
}

static double value_of(const one_case *c, int32_t rank, int64_t i) {
    const double u = (double)((i * 37 + rank * 11) % 101) / 101.0;
    if (c->op == MUSTER_PROD) return 0.6 + u;
    return i % 7 == 0 ? -0.0 : (u - 0.5) * (rank % 2 ? 300.0 : 0.1);
}

static uint64_t hash(const void *data, int64_t bytes) {
    uint64_t h = 14695981039346656037u;
    for (int64_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return h;
}

static muster_status enter(const one_case *c, muster_worker *w, muster_communicator *on, char *in, char *out, char *velocity) {
    const int64_t n = c->count, quarter = c->count / RANKS;
    const muster_tensor x = muster_tensor_make(c->dtype, in, 1, &n), y = muster_tensor_make(c->dtype, out, 1, &n),
                        part = muster_tensor_make(c->dtype, out, 1, &quarter), v = muster_tensor_make(c->dtype, velocity, 1, &n);
    switch (c->kind) {
    case ALL_REDUCE:
        return muster_worker_all_reduce(w, on, c->op, x, y);
    case REDUCE:
        return muster_worker_reduce(w, on, c->op, 2, x, y);
    case REDUCE_SCATTER:
        return muster_worker_reduce_scatter(w, on, c->op, x, part);
    case AXPY:
        return muster_worker_all_reduce_axpy(w, on, -0.3, x, y);
    default:
        return muster_worker_all_reduce_momentum(w, on, -0.3, x, 0.9, v, y);
    }
}

static muster_status run_case(muster_worker *w, muster_communicator *on, int32_t rank, int32_t number, bool compare) {
    one_case c;
    (void)case_at(number, &c);
    const int64_t element = muster_dtype_size(c.dtype), bytes = c.count * element;
    char *in = calloc((size_t)bytes, 1), *out = calloc((size_t)bytes, 1), *velocity = calloc((size_t)bytes, 1);
    for (int64_t i = 0; i < c.count; i++) {
        const double value = value_of(&c, rank, i);
        mst_convert(c.dtype, in + i * element, MUSTER_F64, &value, 1);
    }
    muster_status status = enter(&c, w, on, in, out, velocity);
    if (status == MUSTER_OK && c.kind == MOMENTUM) status = enter(&c, w, on, in, out, velocity); /* what the first has kept */
    const bool gets = c.kind != REDUCE || rank == 2;
    const uint64_t got = hash(out, gets ? c.kind == REDUCE_SCATTER ? bytes / RANKS : bytes : 0);
    if (!compare) bits[number][rank] = got;
    if (status == MUSTER_OK && got != bits[number][rank])
        status = mst_error(MUSTER_USER, "kind %d, %s, op %d, %lld elements: rank %d has other bits than in one process", (int)c.kind,
                           muster_dtype_name(c.dtype), (int)c.op, (long long)c.count, rank);
    free(in);
    free(out);
    free(velocity);
    return status;
}

/* Four ranks in one process: the fifth, in another one, has no part in it. */
static muster_status one_process(muster_worker *w, void *argument) {
    const int32_t rank = spans_rank(w);
    (void)argument;
    for (int32_t i = 0; i < CASES && rank < RANKS; i++) MUSTER_TRY(run_case(w, launch.process[0].communicator, rank, i, false));
    return MUSTER_OK;
}

/* Under the sanitizer of threads each layout compares some. */
static int32_t layouts_run;
static bool is_compared(int32_t i) { return test_keeps(i + layouts_run, test_one_in(1, 1, 5)); }

static muster_status several_processes(muster_worker *w, void *argument) {
    (void)argument;
    for (int32_t i = 0; i < CASES; i++)
        if (is_compared(i)) MUSTER_TRY(run_case(w, NULL, spans_rank(w), i, true));
    return MUSTER_OK;
}

/* Ranks 0 and 2 of the part are in one process, 1 and 3 in the other. */
static muster_status mixed_ranks(muster_worker *w, void *argument) {
    muster_communicator *part;
    const int32_t r = spans_rank(w), rank = r / 2 + r % 2 * 2;
    (void)argument;
    MUSTER_TRY(muster_worker_split(w, NULL, 0, rank, &part));
    for (int32_t i = 0; i < CASES; i++)
        if (is_compared(i)) MUSTER_TRY(run_case(w, part, rank, i, true));
    return muster_worker_release(w, part);
}

static void run(const int32_t *layout, int32_t processes, mst_task task) {
    spans_open(&launch, &(spans_options){.counts = layout, .processes = processes, .fixed_order = true});
    assert_ok(spans_run(&launch, task, NULL));
    spans_close(&launch);
    layouts_run++;
}

static void test_layouts(void **state) {
    one_case c;
    (void)state;
    assert_true(case_at(CASES - 1, &c));
    assert_false(case_at(CASES, &c));
    run((const int32_t[]){4, 1}, 2, one_process);
    run((const int32_t[]){2, 2}, 2, several_processes);
    run((const int32_t[]){1, 1, 1, 1}, 4, several_processes);
    run((const int32_t[]){1, 3}, 2, several_processes);
    run((const int32_t[]){3, 1}, 2, several_processes);
    run((const int32_t[]){1, 2, 1}, 3, several_processes);
    run((const int32_t[]){2, 2}, 2, mixed_ranks);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
