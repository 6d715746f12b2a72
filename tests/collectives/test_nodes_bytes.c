/* The bytes that collectives send between two processes, exactly: what each needs of the other, and
 * the requests of all ranks. And that nothing is allocated any more when all has been done once. */
#include "base_check.h"
#include "collectives_spans.h"
#include "memory_impl.h"

#include <stdlib.h>

typedef enum {
    ALL_REDUCE,
    REDUCE_SCATTER,
    BROADCAST,
    ALL_GATHER,
    GATHER,
    SCATTER,
    ALL_TO_ALL,
    UNEVEN,
    BARRIER,
    AXPY,
    GROUP,
    MESSAGE,
    KINDS
} kind;
typedef struct one_case {
    kind kind;
    int64_t count; /* elements of f32 of a rank's part */
} one_case;

static spans_launch launch;
static char *memory[SPANS_RANKS][2];
enum { HEADER = 128, PART = 40000, MOST = PART * SPANS_RANKS };

static muster_tensor vector(void *data, int64_t count) { return muster_tensor_make(MUSTER_F32, data, 1, &count); }

/* Rank r sends (r + 1) * count / size elements to every rank. */
static muster_status uneven(muster_worker *w, const one_case *c, void *in, void *out) {
    const int32_t size = spans_size(w), rank = spans_rank(w);
    int64_t sent[SPANS_RANKS], received[SPANS_RANKS], all_sent = 0, all_received = 0;
    for (int32_t r = 0; r < size; r++) {
        all_sent += sent[r] = c->count / size * (rank + 1);
        all_received += received[r] = c->count / size * (r + 1);
    }
    return muster_worker_all_to_all_uneven(w, NULL, vector(in, all_sent), sent, vector(out, all_received), received);
}

static muster_status group(muster_worker *w, int64_t n, void *in, void *out) {
    const int32_t size = spans_size(w), rank = spans_rank(w);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(in, n), vector(out, n)));
    MUSTER_TRY(muster_worker_send(w, NULL, (rank + 1) % size, 7, vector(in, n)));
    MUSTER_TRY(muster_worker_recv(w, NULL, (rank + size - 1) % size, 7, vector((float *)out + n, n)));
    return muster_worker_group_end(w, NULL);
}

static muster_status task(muster_worker *w, void *argument) {
    const one_case *c = argument;
    const int64_t n = c->count, all = n * spans_size(w);
    char *in = memory[spans_rank(w)][0], *out = memory[spans_rank(w)][1];
    switch (c->kind) {
    case ALL_REDUCE:
        return muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(in, n), vector(out, n));
    case REDUCE_SCATTER:
        return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, vector(in, all), vector(out, n));
    case BROADCAST:
        return muster_worker_broadcast(w, NULL, 1, vector(in, n), vector(out, n));
    case ALL_GATHER:
        return muster_worker_all_gather(w, NULL, vector(in, n), vector(out, all));
    case GATHER:
        return muster_worker_gather(w, NULL, 0, vector(in, n), vector(out, all));
    case SCATTER:
        return muster_worker_scatter(w, NULL, 0, vector(in, all), vector(out, n));
    case ALL_TO_ALL:
        return muster_worker_all_to_all(w, NULL, vector(in, all), vector(out, all));
    case UNEVEN:
        return uneven(w, c, in, out);
    case AXPY:
        return muster_worker_all_reduce_axpy(w, NULL, 0.0, vector(in, n), vector(out, n));
    case GROUP:
        return group(w, n, in, out);
    case MESSAGE:
        if (spans_rank(w) == 0) return muster_worker_send(w, NULL, spans_size(w) - 1, 3, vector(in, n));
        return spans_rank(w) == spans_size(w) - 1 ? muster_worker_recv(w, NULL, 0, 3, vector(out, n)) : MUSTER_OK;
    default:
        return muster_worker_barrier(w, NULL);
    }
}

static muster_status nothing(muster_worker *w, void *argument) { return (void)w, (void)argument, MUSTER_OK; }

static int64_t bytes_of(mst_task body, const one_case *c) {
    const int64_t before = spans_sent_bytes(&launch);
    assert_ok(spans_run(&launch, body, (void *)(uintptr_t)c));
    return spans_sent_bytes(&launch) - before;
}

/* What the values take: `each` ranks in each of two processes. */
static int64_t values_of(const one_case *c, int64_t each) {
    const int64_t n = 4 * c->count;
    switch (c->kind) {
    case ALL_REDUCE:
    case AXPY:
        return 2 * n; /* half of the vector each way, and back */
    case REDUCE_SCATTER:
        return 2 * each * n; /* the other's results */
    case BROADCAST:
        return n;
    case ALL_GATHER:
        return 2 * each * n;
    case GATHER:
    case SCATTER:
        return each * n;
    case ALL_TO_ALL:
        return 2 * each * each * n;
    default: /* ranks of both processes to the ranks of the other one */
        return each * n / (2 * each) * (2 * each) * (2 * each + 1) / 2;
    }
}

static void open_launch(const int32_t *counts) {
    spans_open(&launch, &(spans_options){.counts = counts, .processes = 2});
    for (int32_t r = 0; r < launch.total; r++)
        for (int32_t i = 0; i < 2; i++) memory[r][i] = calloc(MOST, 4);
}

static void close_launch(void) {
    for (int32_t r = 0; r < launch.total; r++)
        for (int32_t i = 0; i < 2; i++) free(memory[r][i]);
    spans_close(&launch);
}

static void check_bytes(int32_t each) {
    open_launch((const int32_t[]){each, each});
    const int64_t rounds = bytes_of(nothing, NULL), requests = bytes_of(task, &(one_case){BARRIER, 0}) - rounds; /* which moves nothing */
    int32_t cases = 0;
    for (kind k = 0; k < BARRIER; k++) {
        const one_case c = {k, PART};
        int64_t agreement = requests;
        if (k == UNEVEN) agreement += 2 * (HEADER + each * 2 * 2 * each * 8);
        const int64_t got = bytes_of(task, &c) - rounds - agreement;
        if (got != values_of(&c, each))
            fail_msg("kind %d: expected %lld bytes, received %lld", (int)k, (long long)values_of(&c, each), (long long)got);
        cases++;
    }
    assert_true(requests >= 2 * HEADER && requests <= 2 * (HEADER + each * 128));
    assert_int_equal(cases, 8);
    close_launch();
}

static void test_bytes(void **state) {
    (void)state;
    check_bytes(1);
    check_bytes(2);
}

/* A run of the pool and its rounds allocate nothing either. */
static void test_steady(void **state) {
    (void)state;
    static const int64_t counts[] = {10, PART};
    int32_t cases = 0;
    open_launch((const int32_t[]){2, 2});
    for (kind k = 0; k < KINDS; k++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++, cases++) {
            one_case c = {k, counts[i]};
            for (int32_t warm = 0; warm < 3; warm++) assert_ok(spans_run(&launch, task, &c));
            const int64_t before = mst_memory_count();
            assert_ok(spans_run(&launch, task, &c));
            if (mst_memory_count() != before)
                fail_msg("kind %d, %lld: %lld allocations", (int)k, (long long)counts[i], (long long)(mst_memory_count() - before));
        }
    assert_int_equal(cases, 2 * KINDS);
    close_launch();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_steady)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
