/* The names by which a program chooses how processes reduce. The oracle is `naive`, which has the
 * bits of one process, as `flat` has; the others combine the ranks of a process first. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_oracle.h"
#include "collectives_pool.h"
#include "collectives_spans.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"naive", "flat", "hierarchical", "two_dimensional", "single_node", "non_cuda_aware"};
enum { NAMES = sizeof names / sizeof *names };

typedef enum { ALL_REDUCE, SHARDS, REDUCE, REDUCE_SCATTER, AXPY, GATHERED, KINDS } kind;
static const muster_dtype dtypes[] = {MUSTER_BOOL, MUSTER_U8, MUSTER_I32, MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };
static const muster_reduction ops[] = {MUSTER_SUM, MUSTER_PROD, MUSTER_MAX, MUSTER_MIN, MUSTER_AVG};
enum { OPS = sizeof ops / sizeof *ops };
static const int64_t counts[] = {0, 1, 5, 1000};
enum { COUNTS = sizeof counts / sizeof *counts };
enum { LARGE = 300007 }; /* elements: several pieces */
enum { MANY = 545, FEW = 82 };

typedef struct one_case {
    kind kind;
    muster_dtype dtype;
    muster_reduction op;
    int64_t count;
} one_case;

typedef struct case_list {
    one_case cases[KINDS * DTYPES * OPS * COUNTS + 8];
    int32_t count;
} case_list;

static bool is_float(muster_dtype d) { return d == MUSTER_F16 || d == MUSTER_BF16 || d == MUSTER_F32 || d == MUSTER_F64; }

static bool is_case(const one_case *c) {
    if (c->kind == AXPY) return is_float(c->dtype) && c->op == MUSTER_SUM;
    if (c->kind == GATHERED) return c->op == MUSTER_SUM;
    return oracle_defines(c->op, c->dtype);
}

/* few: one case of seven, and not the large ones. Under the sanitizer of threads there are only few
 * small ones. */
static bool has_few(bool few) { return few || test_one_in(1, 1, 7) > 1; }

static void list_cases(case_list *list, bool few) {
    list->count = 0;
    for (kind k = 0; k < KINDS; k++)
        for (size_t i = 0; i < (size_t)DTYPES * OPS * COUNTS; i++) {
            const one_case c = {k, dtypes[i / (OPS * COUNTS)], ops[i / COUNTS % OPS], counts[i % COUNTS]};
            if (is_case(&c) && (!has_few(few) || (i + k) % 7 == 0)) list->cases[list->count++] = c;
        }
    if (few) return;
    for (kind k = ALL_REDUCE; k <= AXPY; k++) list->cases[list->count++] = (one_case){k, MUSTER_F32, MUSTER_SUM, LARGE};
}

/* ---- a case on one rank ---- */

typedef struct seen {
    char *bytes;
    int64_t count, room;
} seen;

typedef struct battery {
    const case_list *list;
    bool reversed; /* on a part with the ranks in reverse order */
    seen seen[SPANS_RANKS];
    const char *served[SPANS_RANKS];
    _Atomic int32_t entered;
} battery;

/* A part of the memory of `whole`, from element `first` on. */
static muster_tensor view_of(muster_tensor whole, int32_t ndim, const int64_t *shape) {
    muster_tensor view = muster_tensor_make(whole.dtype, whole.data, ndim, shape);
    view.device = whole.device;
    view.byte_offset = whole.byte_offset;
    return view;
}
static muster_tensor first_of(muster_tensor whole, int64_t count) { return view_of(whole, 1, &count); }

static int64_t part_of(const one_case *c, int32_t rank, int32_t size) { return c->count * (rank + 1) / size - c->count * rank / size; }

/* The shards of a rank: none of the second one. */
static int64_t shards_of(int32_t rank) { return rank == 1 ? 0 : 1 + rank % 2; }

static muster_status enter(muster_worker *w, muster_communicator *on, const one_case *c, muster_tensor input, muster_tensor output,
                           int64_t *written) {
    const int32_t rank = muster_communicator_rank(on, w), size = muster_communicator_size(on);
    const muster_tensor in = first_of(input, c->count), out = first_of(output, c->count);
    *written = c->count;
    if (c->kind == ALL_REDUCE) return muster_worker_all_reduce(w, on, c->op, in, out);
    if (c->kind == SHARDS) {
        const muster_tensor shards = view_of(input, 2, (const int64_t[]){shards_of(rank), c->count});
        return muster_worker_all_reduce_shards(w, on, c->op, shards, out);
    }
    if (c->kind == REDUCE) {
        if (rank != size - 1) *written = 0;
        return muster_worker_reduce(w, on, c->op, size - 1, in, out);
    }
    if (c->kind == AXPY) return muster_worker_all_reduce_axpy(w, on, -0.25, in, out);
    *written = part_of(c, rank, size);
    if (c->kind == REDUCE_SCATTER) return muster_worker_reduce_scatter(w, on, c->op, in, first_of(output, *written));
    const int64_t own = *written;
    *written = c->count;
    return muster_worker_all_gather(w, on, first_of(input, own), out);
}

/* Each result begins at a multiple of 16 bytes. */
static int64_t padded(int64_t bytes) { return (bytes + 15) / 16 * 16; }
static void keep(seen *s, const char *bytes, int64_t count) {
    if (s->count + padded(count) > s->room) {
        s->room = 2 * (s->count + padded(count)) + 4096;
        s->bytes = realloc(s->bytes, (size_t)s->room);
    }
    if (count > 0) memcpy(s->bytes + s->count, bytes, (size_t)count);
    s->count += padded(count);
}

static muster_status run_case(muster_worker *w, muster_communicator *on, const one_case *c, seen *s) {
    const int64_t element = muster_dtype_size(c->dtype), room = 2 * c->count + 1, mark = muster_worker_scratch_mark(w);
    char *bytes = malloc((size_t)(room * element));
    muster_tensor input, output;
    MUSTER_TRY(muster_worker_scratch(w, c->dtype, 1, &room, &input));
    MUSTER_TRY(muster_worker_scratch(w, c->dtype, 1, &room, &output));
    const muster_tensor host = muster_tensor_make(c->dtype, bytes, 1, &room);
    int64_t written = 0;
    oracle_fill(c->dtype, bytes, room, (uint64_t)muster_communicator_rank(on, w) + 1);
    muster_status status = muster_worker_write(w, host, input);
    oracle_fill(c->dtype, bytes, room, 99); /* of axpy: the parameter */
    if (status == MUSTER_OK) status = muster_worker_write(w, host, output);
    if (status == MUSTER_OK) status = enter(w, on, c, input, output, &written);
    if (status == MUSTER_OK) status = muster_worker_read(w, output, host);
    if (status == MUSTER_OK) keep(s, bytes, written * element);
    free(bytes);
    return status == MUSTER_OK ? muster_worker_scratch_release(w, mark) : status;
}

static muster_status battery_task(muster_worker *w, void *argument) {
    battery *b = argument;
    const int32_t rank = spans_rank(w);
    muster_communicator *on = muster_worker_communicator(w), *part = NULL;
    if (b->reversed) MUSTER_TRY(muster_worker_split(w, NULL, 0, -rank, &part));
    if (b->reversed) on = part;
    for (int32_t i = 0; i < b->list->count; i++) {
        MUSTER_TRY(run_case(w, on, &b->list->cases[i], &b->seen[rank]));
        atomic_fetch_add(&b->entered, 1);
    }
    b->served[rank] = on->members[on->rank_of[w->rank]].served_algorithm;
    return b->reversed ? muster_worker_release(w, part) : MUSTER_OK;
}

static void free_battery(battery *b) {
    for (int32_t r = 0; r < SPANS_RANKS; r++) free(b->seen[r].bytes);
}

/* ---- comparing two batteries ---- */

static int64_t written_of(const one_case *c, int32_t rank, int32_t size) {
    if (c->kind == REDUCE) return rank == size - 1 ? c->count : 0;
    return c->kind == REDUCE_SCATTER ? part_of(c, rank, size) : c->count;
}

/* How far a float may be from the one of the oracle: the processes' sums are rounded on the way. */
static double distance(muster_dtype d, double value) {
    const double size = value < 0 ? -value : value;
    return d == MUSTER_F64 ? 1e-12 * (1 + size) : d == MUSTER_F32 ? 1e-5 * (1 + size) : (d == MUSTER_F16 ? 2e-3 : 1.6e-2) * (1 + size);
}

static bool same_case(const one_case *c, const char *a, const char *b, int64_t count, bool bits) {
    const bool rounded = is_float(c->dtype) && c->kind != GATHERED && c->op != MUSTER_MAX && c->op != MUSTER_MIN;
    if (bits || !rounded) return count == 0 || memcmp(a, b, (size_t)(count * muster_dtype_size(c->dtype))) == 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = oracle_value(c->dtype, a, i), y = oracle_value(c->dtype, b, i), far = x - y;
        if (!((far < 0 ? -far : far) <= distance(c->dtype, x))) return false;
    }
    return true;
}

/* bits: sums of floats, too, have the same bits. Returns the cases that were compared. */
static int64_t compare(const battery *a, const battery *b, int32_t size, bool bits, const char *what) {
    int64_t compared = 0;
    for (int32_t r = 0; r < size; r++) {
        int64_t at = 0;
        for (int32_t i = 0; i < a->list->count; i++) {
            const one_case *c = &a->list->cases[i];
            const int64_t count = written_of(c, a->reversed ? size - 1 - r : r, size);
            if (!same_case(c, a->seen[r].bytes + at, b->seen[r].bytes + at, count, bits))
                fail_msg("%s, rank %d of %d: kind %d, %s, op %d, %d elements", what, (int)r, (int)size, (int)c->kind,
                         muster_dtype_name(c->dtype), (int)c->op, (int)c->count);
            at += padded(count * muster_dtype_size(c->dtype));
            compared++;
        }
        assert_int_equal(at, a->seen[r].count);
        assert_int_equal(at, b->seen[r].count);
    }
    return compared;
}

/* ---- launches ---- */

typedef struct layout {
    int32_t processes, counts[SPANS_PROCESSES], discrete;
} layout;

static int32_t total_of(const layout *l) {
    int32_t total = 0;
    for (int32_t p = 0; p < l->processes; p++) total += l->counts[p];
    return total;
}

static void run_launch(const layout *l, const char *name, battery *b) {
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = l->counts,
                                         .processes = l->processes,
                                         .discrete = l->discrete,
                                         .algorithm = name,
                                         .processes_per_host = strcmp(name, "single_node") == 0 ? l->processes : 1});
    assert_ok(spans_run(&launch, battery_task, b));
    assert_int_equal(b->entered, b->list->count * launch.total);
    for (int32_t r = 0; r < launch.total; r++) assert_string_equal(b->served[r], name);
    spans_close(&launch);
}

static void run_one_process(int32_t total, battery *b) {
    collectives_pool pool;
    collectives_open(&pool, total, 0);
    assert_ok(collectives_run(&pool, battery_task, b));
    collectives_close(&pool);
}

static void run_names(const layout *l, bool few, bool reversed) {
    static case_list list;
    const int32_t total = total_of(l);
    list_cases(&list, few);
    battery one = {.list = &list, .reversed = reversed}, naive = one;
    run_one_process(total, &one);
    run_launch(l, "naive", &naive);
    int64_t compared = compare(&naive, &one, total, true, "naive and one process");
    for (size_t i = 1; i < NAMES; i++) {
        battery named = {.list = &list, .reversed = reversed};
        run_launch(l, names[i], &named);
        compared += compare(&named, &naive, total, strcmp(names[i], "flat") == 0, names[i]);
        free_battery(&named);
    }
    assert_int_equal(list.count, few ? FEW : has_few(few) ? FEW + AXPY + 1 : MANY);
    assert_int_equal(compared, (int64_t)NAMES * list.count * total);
    free_battery(&naive);
    free_battery(&one);
}

static void test_two_processes(void **state) {
    (void)state;
    run_names(&(layout){2, {1, 1}, 0}, false, false);
}

static void test_unequal_processes(void **state) {
    (void)state;
    run_names(&(layout){2, {3, 1}, 0}, true, false);
    run_names(&(layout){3, {1, 2, 1}, 0}, true, false);
    run_names(&(layout){4, {2, 1, 1, 3}, 0}, true, false);
}

static void test_reversed_parts(void **state) {
    (void)state;
    run_names(&(layout){3, {2, 1, 2}, 0}, true, true);
}

static void test_devices(void **state) {
    (void)state;
    run_names(&(layout){2, {2, 1}, 1}, true, false);
}

/* ---- one process ---- */

static void test_one_process(void **state) {
    (void)state;
    static case_list list;
    static const char *const served[NAMES] = {"reference", "direct"};
    list_cases(&list, true);
    battery one = {.list = &list};
    run_one_process(3, &one);
    for (size_t i = 0; i < NAMES; i++) {
        collectives_pool pool;
        battery named = {.list = &list};
        char text[1200];
        collectives_open_with(&pool, 3, 0, names[i], -1);
        assert_ok(collectives_run(&pool, battery_task, &named));
        assert_int_equal(compare(&named, &one, 3, true, names[i]), 3 * FEW);
        for (int32_t r = 0; served[i] && r < 3; r++) assert_string_equal(named.served[r], served[i]);
        mst_communicator_description(pool.communicator, text, sizeof text);
        assert_non_null(strstr(text, names[i]));
        collectives_close(&pool);
        free_battery(&named);
    }
    free_battery(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_processes), cmocka_unit_test(test_unequal_processes), cmocka_unit_test(test_reversed_parts),
        cmocka_unit_test(test_devices),       cmocka_unit_test(test_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
