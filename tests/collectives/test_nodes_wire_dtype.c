/* Sums and averages that travel between processes as f16 or bf16: every reduction, by each name of
 * a communicator, has the bits of plain loops with explicit roundings, on all ranks. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_spans.h"
#include "collectives_wire.h"
#include "core/request_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { ALL_REDUCE, GROUP, SHARDS, REDUCE, REDUCE_SCATTER, AXPY, MOMENTUM, WEIGHTED, APPLY, KINDS } kind;
typedef struct layout {
    const int32_t *counts;
    int32_t processes, discrete;
} layout;
static const layout layouts[] = {{(const int32_t[]){1, 1}, 2, 0},    {(const int32_t[]){2, 2}, 2, 0},
                                 {(const int32_t[]){3, 1}, 2, 0},    {(const int32_t[]){1, 3}, 2, 1},
                                 {(const int32_t[]){1, 1, 1}, 3, 0}, {(const int32_t[]){2, 1, 1, 1}, 4, 0}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };
static const char *const names[] = {NULL, "naive", "flat", "hierarchical", "two_dimensional", "single_node", "non_cuda_aware"};
enum { NAMES = sizeof names / sizeof *names };
static const muster_dtype wires[] = {MUSTER_F16, MUSTER_BF16, MUSTER_DTYPE_NONE};

typedef struct one_case {
    kind kind;
    muster_dtype dtype;
    bool average;
    int64_t count;
} one_case;

static spans_launch launch;
static muster_dtype wire;
static const char *name;
static int32_t cases_run;
/* What the ranks have received in the case: all must have the same bytes. */
static char *received_by[SPANS_RANKS];

/* ---- values ---- */

/* What is easily rounded wrongly: the largest and the smallest halves, ties, what is no number. */
static double value_of(int32_t rank, int64_t i) {
    const double others = rank + 1;
    const double hard[] = {40000,
                           3e-8 * others, /* less than the smallest half, and about it */
                           ldexp(others, -24),
                           65504,
                           rank == 1 ? 65520 : 65519,
                           1 + ldexp(1, -11),
                           1 + ldexp(3, -11),
                           -1 - ldexp(others, -9),
                           rank == 1 ? INFINITY : 2,
                           rank == 0 ? NAN : 1,
                           rank == 0   ? -INFINITY
                           : rank == 1 ? INFINITY
                                       : 0,
                           2049 * others,
                           rank % 2 ? 1e-3 : -1e-3};
    const int64_t count = sizeof hard / sizeof *hard;
    return i % 17 < count ? hard[i % 17] : (double)((i * 37 + rank * 101) % 8191) / 4096.0 - 1 + 1e-5 * others;
}

static double number_at(muster_dtype dtype, const void *values, int64_t i) {
    double number = 0;
    mst_convert(MUSTER_F64, &number, dtype, (const char *)values + i * muster_dtype_size(dtype), 1);
    return number;
}

/* Vectors of a rank: of what counts shards two, none, one, ... */
static int32_t vectors_of(const one_case *c, int32_t rank) { return c->kind == SHARDS ? (rank * 2 + 2) % 3 : 1; }
static double weight_of(int32_t rank) { return rank == 1 ? 0 : 1 + 0.75 * rank; }

static double expected_of(const one_case *c, int64_t i) {
    const bool apart = name && (!strcmp(name, "naive") || !strcmp(name, "flat")) && c->kind != APPLY;
    const bool narrow = wire && c->dtype != MUSTER_F64;
    wire_element e = {.processes = launch.processes, .dtype = c->dtype, .wire = narrow ? wire : MUSTER_F32, .apart = apart};
    e.average = c->average;
    e.weighted = c->kind == WEIGHTED;
    int32_t rank = 0, vector = 0;
    for (int32_t p = 0; p < launch.processes; p++)
        for (int32_t m = 0; m < launch.process[p].count; m++, rank++)
            for (int32_t v = 0; v < vectors_of(c, rank); v++, vector++, e.each[p]++) {
                e.values[vector] = wire_rounded(c->dtype, value_of(rank, i + v));
                e.weights[vector] = weight_of(rank);
            }
    return c->kind == APPLY && narrow ? wire_gradient(&e) : wire_result(&e);
}

/* ---- what a rank does ---- */

static muster_tensor shaped(muster_worker *w, muster_tensor block, int64_t count) {
    muster_tensor part = muster_tensor_make(block.dtype, block.data, 1, &count);
    part.byte_offset = block.byte_offset;
    part.device = w->rank;
    return part;
}

static muster_status takes_the_sum(void *context, muster_worker *worker, const mst_apply_part *part) {
    (void)context;
    muster_tensor from = muster_tensor_make(part->dtype, (void *)(uintptr_t)part->gradient, 1, &part->count),
                  to = muster_tensor_make(part->dtype, part->after, 1, &part->count);
    from.device = to.device = worker->rank;
    return muster_copy(worker, from, to);
}

static muster_status apply(muster_worker *w, muster_tensor in, muster_tensor out) {
    const mst_apply_segment segment = {.count = muster_tensor_count(in), .parameter = muster_tensor_address(out)};
    const mst_apply_request request = {.gradients = in, .segments = &segment, .segment_count = 1, .function = takes_the_sum};
    return mst_worker_all_reduce_apply(w, NULL, &request);
}

static muster_status enter(muster_worker *w, const one_case *c, muster_tensor in, muster_tensor out, muster_tensor velocity) {
    const muster_reduction op = c->average ? MUSTER_AVG : MUSTER_SUM;
    const int64_t shards[] = {vectors_of(c, spans_rank(w)), c->count};
    muster_tensor all = muster_tensor_make(c->dtype, in.data, 2, shards);
    all.byte_offset = in.byte_offset;
    all.device = in.device;
    switch (c->kind) {
    case SHARDS:
        return muster_worker_all_reduce_shards(w, NULL, op, all, out);
    case REDUCE:
        return muster_worker_reduce(w, NULL, op, 1, in, out);
    case REDUCE_SCATTER:
        return muster_worker_reduce_scatter(w, NULL, op, in, out);
    case AXPY:
        return muster_worker_all_reduce_axpy(w, NULL, 1, in, out);
    case MOMENTUM:
        return muster_worker_all_reduce_momentum(w, NULL, 1, in, 0, velocity, out);
    case WEIGHTED:
        return muster_worker_all_reduce_weighted(w, NULL, weight_of(spans_rank(w)), in, out);
    case APPLY:
        return apply(w, in, out);
    case GROUP:
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, op, in, out));
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, op, in, velocity));
        return muster_worker_group_end(w, NULL);
    default:
        return muster_worker_all_reduce(w, NULL, op, in, out);
    }
}

static int64_t begin_of(const one_case *c, int32_t rank) { return c->count * rank / launch.total; }

static muster_status compare(muster_worker *w, const one_case *c, const char *received, int64_t first, int64_t count) {
    /* of a long vector one in 61, and what is near the ends */
    for (int64_t i = 0; i<count; i += i> 40 && i + 100 < count && count > 9999 ? 61 : 1) {
        const double expected = expected_of(c, first + i), got = number_at(c->dtype, received, i);
        if (expected == got || (isnan(expected) && isnan(got))) continue;
        return mst_error(MUSTER_USER,
                         "%s: kind %d, %s as %s, average %d, %lld elements, rank %d, element %lld: expected %.9g, received %.9g",
                         name ? name : "by size", (int)c->kind, muster_dtype_name(c->dtype), muster_dtype_name(wire), (int)c->average,
                         (long long)c->count, spans_rank(w), (long long)(first + i), expected, got);
    }
    return MUSTER_OK;
}

static muster_status run_case(muster_worker *w, void *argument) {
    const one_case *c = argument;
    const int32_t rank = spans_rank(w);
    const int64_t most = 2 * c->count + 1, element = muster_dtype_size(c->dtype), first = begin_of(c, rank);
    const int64_t count = c->kind == REDUCE_SCATTER ? begin_of(c, rank + 1) - first : c->count;
    mst_worker_scratch_rewind(w);
    muster_tensor blocks[3];
    char *values = malloc((size_t)(most * element));
    for (int64_t v = 0; v < 2; v++)
        for (int64_t i = 0; i < c->count; i++) {
            const double value = wire_rounded(c->dtype, value_of(rank, i + v));
            mst_convert(c->dtype, values + (v * c->count + i) * element, MUSTER_F64, &value, 1);
        }
    muster_status status = MUSTER_OK;
    for (int32_t b = 0; b < 3 && status == MUSTER_OK; b++) {
        MUSTER_TRY(muster_worker_scratch(w, c->dtype, 1, &most, &blocks[b]));
        status = muster_fill(w, 0, blocks[b]);
    }
    const int64_t in_count = 2 * c->count;
    if (status == MUSTER_OK)
        status = muster_worker_write(w, muster_tensor_make(c->dtype, values, 1, &in_count), shaped(w, blocks[0], in_count));
    const muster_tensor out = shaped(w, blocks[1], count);
    if (status == MUSTER_OK) status = enter(w, c, shaped(w, blocks[0], c->count), out, shaped(w, blocks[2], c->count));
    const bool gets = c->kind != REDUCE || rank == 1;
    if (status == MUSTER_OK) status = muster_worker_read(w, out, muster_tensor_make(c->dtype, values, 1, &count));
    if (status == MUSTER_OK && gets) status = compare(w, c, values, c->kind == REDUCE_SCATTER ? first : 0, count);
    free(received_by[rank]);
    received_by[rank] = values;
    return status;
}

/* ---- all cases ---- */

static void check_case(one_case c) {
    assert_ok(spans_run(&launch, run_case, &c));
    for (int32_t r = 1; r < launch.total && c.kind != REDUCE && c.kind != REDUCE_SCATTER; r++)
        assert_memory_equal(received_by[0], received_by[r], (size_t)(c.count * muster_dtype_size(c.dtype)));
    cases_run++;
}

static void open_layout(const layout *l, const char *algorithm, muster_dtype dtype) {
    name = algorithm;
    wire = dtype;
    const bool one_host = algorithm && strcmp(algorithm, "single_node") == 0;
    spans_open(&launch, &(spans_options){.counts = l->counts,
                                         .processes = l->processes,
                                         .discrete = l->discrete,
                                         .algorithm = algorithm,
                                         .processes_per_host = one_host ? l->processes : 1,
                                         .wire_dtype = dtype});
}

static void close_layout(void) {
    for (int32_t r = 0; r < launch.total; r++) {
        free(received_by[r]);
        received_by[r] = NULL;
    }
    spans_close(&launch);
}

/* Of f32 2048 elements are the last that travel inside the arrival. */
static void check_layout(const layout *l, const char *algorithm, muster_dtype dtype) {
    static const int64_t counts[] = {1, 37, 2048, 2049};
    enum { COUNTS = 4 };
    open_layout(l, algorithm, dtype);
    for (kind k = 0; k < KINDS; k++)
        for (muster_dtype d = MUSTER_F16; d <= MUSTER_F32; d++)
            for (int32_t average = 0; average < 2; average++) {
                if (average && (k == AXPY || k == MOMENTUM || k == APPLY || k == WEIGHTED)) continue;
                for (size_t n = d == MUSTER_F32 ? 1 : 0; n < (d == MUSTER_F32 ? COUNTS : 2); n++)
                    check_case((one_case){k, d, average != 0, counts[n]});
            }
    close_layout();
}

static void test_results_have_the_bits_of_plain_loops(void **state) {
    (void)state;
    const int64_t one_in = test_one_in(8, 8, 16);
    int64_t number = 0;
    int32_t drawn = 0;
    cases_run = 0;
    for (int32_t l = 0; l < LAYOUTS; l++)
        for (int32_t n = 0; n < NAMES; n++)
            for (int32_t d = 0; d < 3; d++) {
                if (!test_keeps(number++, one_in)) continue;
                check_layout(&layouts[l], names[n], wires[d]);
                drawn++;
            }
    print_message("%d layouts, %d cases\n", (int)drawn, (int)cases_run);
    assert_int_equal(drawn, test_kept(LAYOUTS * NAMES * 3, one_in));
    assert_int_equal(cases_run, drawn * (5 * 2 + 4) * 7);
}

/* The last element of a round and the first of the next. */
static void test_rounds_have_bounds(void **state) {
    (void)state;
    enum { ROUND = 480 * 1024 / 2 };
    cases_run = 0;
    for (int32_t n = 0; n < 4; n++) {
        open_layout(&layouts[1], names[n], MUSTER_F16);
        for (int64_t count = ROUND - 1; count <= ROUND + 1; count++) check_case((one_case){ALL_REDUCE, MUSTER_F32, true, count});
        check_case((one_case){REDUCE_SCATTER, MUSTER_F32, false, ROUND + 1});
        check_case((one_case){APPLY, MUSTER_F32, false, ROUND + 1});
        close_layout();
    }
    assert_int_equal(cases_run, 20);
}

/* ---- bytes ---- */

static int64_t bytes_of(kind k, muster_dtype dtype) {
    enum { COUNT = 40000 };
    one_case c = {k, MUSTER_F32, false, COUNT};
    open_layout(&layouts[1], NULL, dtype);
    const int64_t before = spans_sent_bytes(&launch);
    check_case(c);
    const int64_t bytes = spans_sent_bytes(&launch) - before;
    close_layout();
    return bytes;
}

/* An all_reduce of two processes sends n elements there and n back, a reduce_scatter n, an
 * all_reduce_apply n sums, and n parameters, which are not rounded. */
static void test_half_of_the_bytes_travel(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    static const struct {
        kind kind;
        int64_t saved;
    } rows[] = {{ALL_REDUCE, 4 * COUNT}, {AXPY, 4 * COUNT}, {REDUCE_SCATTER, 2 * COUNT}, {APPLY, 2 * COUNT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(bytes_of(rows[i].kind, MUSTER_DTYPE_NONE) - bytes_of(rows[i].kind, MUSTER_F16), rows[i].saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_have_the_bits_of_plain_loops),
        cmocka_unit_test(test_rounds_have_bounds),
        cmocka_unit_test(test_half_of_the_bytes_travel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
