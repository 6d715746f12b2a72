/* Collectives whose values travel inside the arrival: the messages on the wire are counted, on both
 * sides of the bound, and the sums have the bits of the processes' sums in their order. */
#include "base_check.h"
#include "collectives_spans.h"

#include <stdlib.h>
#include <string.h>

enum { LIMIT = 4096 / 4 }; /* elements of f32 that a process brings inside an arrival, at most */

typedef enum { ALL_REDUCE, AVERAGE, REDUCE, AXPY, REDUCE_SCATTER, BROADCAST, ALL_GATHER, GATHER, BARRIER, KINDS } kind;
typedef struct one_case {
    kind kind;
    int64_t count; /* of the vector; of gathers: of a rank */
} one_case;

static muster_tensor vector(void *data, int64_t count) { return muster_tensor_make(MUSTER_F32, data, 1, &count); }
/* Sums of these depend on their order. */
static float value_of(int32_t rank, int64_t i) { return (float)((i * 37 + rank * 11) % 101) / 7.0f * (rank % 2 ? 1e3f : 1e-3f); }

static spans_launch launch;

/* The ranks of a process in order, then the processes. */
static float sum_of(int64_t i, double scale) {
    float sum = 0;
    for (int32_t p = 0, r = 0; p < launch.processes; p++) {
        float part = 0;
        for (int32_t m = 0; m < launch.process[p].count; m++, r++) {
            const float v = scale == 1 ? value_of(r, i) : (float)scale * value_of(r, i);
            part = m ? part + v : v;
        }
        sum = p ? sum + part : part;
    }
    return sum;
}

static muster_status expect(const one_case *c, muster_worker *w, int64_t i, float received, float expected) {
    return memcmp(&received, &expected, 4) == 0
               ? MUSTER_OK
               : mst_error(MUSTER_USER, "kind %d of %lld: element %lld of rank %d: expected %.9g, received %.9g", (int)c->kind,
                           (long long)c->count, (long long)i, spans_rank(w), (double)expected, (double)received);
}

static muster_status enter(const one_case *c, muster_worker *w, float *in, float *out) {
    const int64_t n = c->count, size = spans_size(w);
    switch (c->kind) {
    case ALL_REDUCE:
        return muster_worker_all_reduce(w, NULL, MUSTER_SUM, vector(in, n), vector(out, n));
    case AVERAGE:
        return muster_worker_all_reduce(w, NULL, MUSTER_AVG, vector(in, n), vector(out, n));
    case REDUCE:
        return muster_worker_reduce(w, NULL, MUSTER_SUM, 1, vector(in, n), vector(out, n));
    case AXPY:
        return muster_worker_all_reduce_axpy(w, NULL, 0.5, vector(in, n), vector(out, n));
    case REDUCE_SCATTER:
        return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, vector(in, n * size), vector(out, n));
    case BROADCAST:
        return muster_worker_broadcast(w, NULL, 1, vector(in, n), vector(out, n));
    case ALL_GATHER:
        return muster_worker_all_gather(w, NULL, vector(in, n), vector(out, n * size));
    case GATHER:
        return muster_worker_gather(w, NULL, 1, vector(in, n), vector(out, n * size));
    default:
        return muster_worker_barrier(w, NULL);
    }
}

static float expected_of(const one_case *c, int32_t rank, int64_t i) {
    switch (c->kind) {
    case AVERAGE:
        return sum_of(i, 1.0f / (double)launch.total);
    case AXPY:
        return 2 + 0.5f * sum_of(i, 1);
    case REDUCE_SCATTER:
        return sum_of(rank * c->count + i, 1);
    case BROADCAST:
        return value_of(1, i);
    case ALL_GATHER:
    case GATHER:
        return value_of((int32_t)(i / c->count), i % c->count);
    default:
        return sum_of(i, 1);
    }
}

static muster_status task(muster_worker *w, void *argument) {
    const one_case *c = argument;
    const int32_t rank = spans_rank(w), size = spans_size(w);
    const int64_t in_count = c->kind == REDUCE_SCATTER ? c->count * size : c->count;
    const int64_t out_count = c->kind == BARRIER ? 0 : c->kind == ALL_GATHER || c->kind == GATHER ? c->count * size : c->count;
    float *in = malloc((size_t)(in_count + 1) * 4), *out = malloc((size_t)(out_count + 1) * 4);
    for (int64_t i = 0; i < in_count; i++) in[i] = value_of(rank, i);
    for (int64_t i = 0; i < out_count; i++) out[i] = 2;
    muster_status status = enter(c, w, in, out);
    const bool gets = rank == 1 || (c->kind != REDUCE && c->kind != GATHER);
    for (int64_t i = 0; i < out_count && status == MUSTER_OK && gets; i++) status = expect(c, w, i, out[i], expected_of(c, rank, i));
    free(in);
    free(out);
    return status;
}

static int64_t sent_messages(void) {
    int64_t messages = 0;
    for (int32_t p = 0; p < launch.processes; p++) messages += atomic_load(&launch.process[p].nodes->wire->sent_messages);
    return messages;
}

static muster_status nothing(muster_worker *w, void *argument) { return (void)w, (void)argument, MUSTER_OK; }

/* The messages of the rounds around the body are those of a body that does nothing. */
static int64_t messages_of(mst_task body, one_case *c) {
    const int64_t before = sent_messages();
    assert_ok(spans_run(&launch, body, c));
    return sent_messages() - before;
}

/* The elements of a rank with which a process brings 4 KiB. */
static int64_t limit_of(kind k) {
    int32_t most = 0;
    for (int32_t p = 0; p < launch.processes; p++) most = launch.process[p].count > most ? launch.process[p].count : most;
    if (k == ALL_GATHER || k == GATHER) return LIMIT / most / 4 * 4;
    return k == REDUCE_SCATTER ? LIMIT / launch.total : LIMIT;
}

static void run_layout(const int32_t *counts, int32_t processes, int32_t steps) {
    int32_t cases = 0;
    spans_open(&launch, &(spans_options){.counts = counts, .processes = processes});
    const int64_t rounds = messages_of(nothing, NULL);
    for (kind k = 0; k < KINDS; k++)
        for (int64_t which = 0; which < 4; which++, cases++) {
            one_case c = {k, (const int64_t[]){1, 3, limit_of(k), limit_of(k) + 4}[which]};
            const int64_t messages = messages_of(task, &c) - rounds;
            if (which < 3 || k == BARRIER)
                assert_int_equal(messages, steps * processes);
            else
                assert_true(messages > steps * processes);
        }
    assert_int_equal(cases, 4 * KINDS);
    spans_close(&launch);
}

static void test_two_processes_exchange_once(void **state) {
    (void)state;
    run_layout((const int32_t[]){1, 1}, 2, 1);
}
static void test_two_by_two(void **state) {
    (void)state;
    run_layout((const int32_t[]){2, 2}, 2, 1);
}
static void test_three_processes(void **state) {
    (void)state;
    run_layout((const int32_t[]){1, 2, 1}, 3, 2);
}
static void test_four_processes(void **state) {
    (void)state;
    run_layout((const int32_t[]){1, 1, 1, 1}, 4, 2);
}

/* Parts of other lengths in each process: they agree once more, and move. */
static muster_status uneven(muster_worker *w, void *argument) {
    const int32_t rank = spans_rank(w), size = spans_size(w);
    float in[SPANS_RANKS], out[SPANS_RANKS * SPANS_RANKS];
    (void)argument;
    for (int32_t i = 0; i <= rank; i++) in[i] = value_of(rank, i);
    MUSTER_TRY(muster_worker_all_gather(w, NULL, vector(in, rank + 1), vector(out, size * (size + 1) / 2)));
    for (int32_t r = 0, at = 0; r < size; at += ++r)
        for (int32_t i = 0; i <= r; i++) MUSTER_TRY(expect(&(one_case){KINDS, 0}, w, at + i, out[at + i], value_of(r, i)));
    return MUSTER_OK;
}

static void test_parts_of_other_lengths(void **state) {
    (void)state;
    spans_open(&launch, &(spans_options){.counts = (const int32_t[]){1, 2, 1}, .processes = 3});
    assert_ok(spans_run(&launch, uneven, NULL));
    spans_close(&launch);
}

/* ---- which sends of an agreement wait for their receivers ---- */

static const muster_wire_table *plain;
static _Atomic int32_t matched_sends;

static int32_t count_matched(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    atomic_fetch_add(&matched_sends, 1);
    return plain->send_matched(wire, from, bytes, to, tag, request);
}

/* The matched sends of a small all_reduce of two processes, and of the rounds around it. */
static int32_t matched_of(const char *hosts) {
    one_case c = {ALL_REDUCE, 3};
    spans_open(&launch, &(spans_options){.counts = (const int32_t[]){1, 1}, .processes = 2, .hosts = hosts});
    assert_ok(spans_run(&launch, task, &c)); /* the first arrival of a channel is always matched */
    plain = launch.process[0].nodes->wire->table;
    muster_wire_table counting = *plain;
    counting.send_matched = count_matched;
    for (int32_t p = 0; p < 2; p++) launch.process[p].nodes->wire->table = &counting;
    atomic_store(&matched_sends, 0);
    assert_ok(spans_run(&launch, task, &c));
    for (int32_t p = 0; p < 2; p++) launch.process[p].nodes->wire->table = plain;
    spans_close(&launch);
    return atomic_load(&matched_sends);
}

static void test_sends_wait_for_their_receivers_between_hosts(void **state) {
    (void)state;
    assert_true(matched_of("01") >= 2);
}
static void test_sends_do_not_wait_on_one_host(void **state) {
    (void)state;
    assert_int_equal(matched_of("00"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_processes_exchange_once),
        cmocka_unit_test(test_two_by_two),
        cmocka_unit_test(test_three_processes),
        cmocka_unit_test(test_four_processes),
        cmocka_unit_test(test_parts_of_other_lengths),
        cmocka_unit_test(test_sends_wait_for_their_receivers_between_hosts),
        cmocka_unit_test(test_sends_do_not_wait_on_one_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
