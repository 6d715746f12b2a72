/* The names by which a program chooses how processes reduce: what moves the data, what is refused,
 * and what the description says. */
#include "base_check.h"
#include "collectives_spans.h"
#include "nodes/nodes_transport_private.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {"naive", "flat", "hierarchical", "two_dimensional", "single_node", "non_cuda_aware"};
enum { NAMES = sizeof names / sizeof *names };

/* ---- what moves the data ---- */

enum { COUNT = 4096 };

static muster_status sum_task(muster_worker *w, void *argument) {
    float values[COUNT];
    (void)argument;
    for (int64_t i = 0; i < COUNT; i++) values[i] = (float)(spans_rank(w) + i % 7);
    const muster_tensor x = muster_tensor_make(MUSTER_F32, values, 1, &(int64_t){COUNT});
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    for (int64_t i = 0; i < COUNT; i++)
        if (values[i] != (float)(15 + 6 * (i % 7))) return mst_error(MUSTER_USER, "element %d: %g", (int)i, (double)values[i]);
    return MUSTER_OK;
}

/* A sum on any ranks. */
static muster_status right_task(muster_worker *w, void *argument) {
    float values[COUNT];
    (void)argument;
    for (int64_t i = 0; i < COUNT; i++) values[i] = 1;
    const muster_tensor x = muster_tensor_make(MUSTER_F32, values, 1, &(int64_t){COUNT});
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values[COUNT - 1] == (float)spans_size(w) ? MUSTER_OK : mst_error(MUSTER_USER, "a sum of %g", (double)values[COUNT - 1]);
}

/* The moves of process 0 by each algorithm, for one sum of the ranks of three processes; and the
 * bytes that all processes send, without arrivals. */
typedef struct moves {
    int64_t direct, exchange, gather, tree, slices;
} moves;

static moves count_moves(const spans_launch *launch) {
    const mst_nodes_state *state = mst_nodes_of(launch->process[0].communicator->global);
    const int64_t *served = state->schedule.served;
    moves m = {served[MST_MOVE_DIRECT], served[MST_MOVE_EXCHANGE], served[MST_MOVE_RING] + served[MST_MOVE_BRUCK], served[MST_MOVE_TREE],
               0};
    for (int32_t i = 0; state->slices && i < state->slices->count; i++)
        m.slices += state->slices->slices[i].schedule.served[MST_MOVE_EXCHANGE];
    return m;
}

static void expect_moves(const char *name, moves expected, int64_t values) {
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = (const int32_t[]){3, 1, 2}, .processes = 3, .algorithm = name, .processes_per_host = 3});
    const int64_t before = spans_sent_bytes(&launch);
    assert_ok(spans_run(&launch, sum_task, NULL));
    const int64_t control = 32768; /* arrivals and rounds, at most */
    const int64_t sent = spans_sent_bytes(&launch) - before, least = values * 4;
    const moves m = count_moves(&launch);
    if (memcmp(&m, &expected, sizeof m) != 0 || sent < least || sent > least + control)
        fail_msg("%s: %d direct, %d exchange, %d gather, %d tree, %d slices; %lld bytes, expected %lld and a little", name, (int)m.direct,
                 (int)m.exchange, (int)m.gather, (int)m.tree, (int)m.slices, (long long)sent, (long long)least);
    spans_close(&launch);
}

static void test_what_moves(void **state) {
    (void)state;
    /* the vectors of three ranks to process 0, and the sum to two processes */
    expect_moves("naive", (moves){.direct = 1, .tree = 1}, 5 * COUNT);
    /* each rank's slices to the ranks of the other processes: a rank of the process with n ranks
     * sends (6 - n) / 6 of its vector; and the sum to three processes, but for what they have */
    expect_moves("flat", (moves){.direct = 1, .gather = 1}, (3 * 3 + 1 * 5 + 2 * 4) * COUNT / 6 + 2 * COUNT);
    /* 2 (M - 1) vectors in all */
    expect_moves("hierarchical", (moves){.exchange = 1}, 4 * COUNT);
    expect_moves("two_dimensional", (moves){.slices = 3}, 4 * COUNT);
    expect_moves("non_cuda_aware", (moves){.exchange = 1}, 4 * COUNT);
    expect_moves("single_node", (moves){.exchange = 1}, 4 * COUNT);
}

/* ---- what is refused ---- */

static void expect_refused(const char *name, int32_t per_host, muster_status code, const char *sentence) {
    spans_launch launch;
    const muster_status status = spans_try_open(
        &launch, &(spans_options){.counts = (const int32_t[]){1, 1, 1}, .processes = 3, .algorithm = name, .processes_per_host = per_host});
    assert_int_equal(status, code);
    for (int32_t p = 0; p < 3; p++) {
        assert_int_equal(launch.process[p].status, code);
        if (!strstr(launch.process[p].message, sentence))
            fail_msg("process %d: expected \"%s\", received \"%s\"", (int)p, sentence, launch.process[p].message);
    }
    spans_close(&launch);
}

static void test_refusals(void **state) {
    (void)state;
    expect_refused("single_node", 2, MUSTER_UNSUPPORTED,
                   "expected one for 2 hosts, received \"single_node\", which is for one: there are process 0 (host host0) and process 2 "
                   "(host host1)");
    expect_refused("pure_nccl", 3, MUSTER_UNSUPPORTED,
                   "expected one for 3 processes, received \"pure_nccl\": NCCL works between the GPUs of one process only so far");
    expect_refused("dummy", 3, MUSTER_INVALID_ARGUMENT,
                   "expected reference, inline, direct, p2p, nccl, staged, naive, flat, hierarchical, two_dimensional, single_node, "
                   "non_cuda_aware or pure_nccl, received \"dummy\"");
}

/* ---- what is left in the wire ---- */

typedef enum { REFUSED_COUNT, REFUSED_SHARDS, REFUSED_MESSAGE, REFUSALS } refusal;

static muster_status refused_task(muster_worker *w, void *argument) {
    static float shards[COUNT * 160], values[SPANS_RANKS][COUNT];
    const refusal kind = *(const refusal *)argument;
    const int32_t rank = spans_rank(w);
    const muster_tensor x =
        muster_tensor_make(MUSTER_F32, values[rank], 1, &(int64_t){kind == REFUSED_COUNT && rank == 1 ? COUNT - 1 : COUNT});
    const int64_t many[] = {COUNT * 160, 1}, one = 1;
    if (kind == REFUSED_SHARDS)
        return muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, muster_tensor_make(MUSTER_F32, shards, 2, many),
                                               muster_tensor_make(MUSTER_F32, values[rank], 1, &one));
    if (kind == REFUSED_MESSAGE && rank == 2) return muster_fail(MUSTER_USER, "before it enters");
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
}

/* After a sum that is right, one that is refused, and a right one again. */
static int32_t leave_nothing(const char *name, const int32_t *counts, int32_t hosts) {
    int32_t refused = 0;
    for (refusal kind = REFUSED_COUNT; kind < REFUSALS; kind++) {
        spans_launch launch;
        spans_open(&launch, &(spans_options){.counts = counts, .processes = 3, .algorithm = name, .processes_per_host = hosts});
        assert_ok(spans_run(&launch, right_task, NULL));
        const muster_status status = spans_run(&launch, refused_task, &kind);
        refused += status != MUSTER_OK;
        if (kind != REFUSED_SHARDS) assert_int_equal(status, kind == REFUSED_COUNT ? MUSTER_INVALID_ARGUMENT : MUSTER_USER);
        assert_ok(spans_run(&launch, right_task, NULL));
        spans_close(&launch);
        if (launch.left) fail_msg("%s, refusal %d: %lld messages and requests are left", name, (int)kind, (long long)launch.left);
    }
    return refused;
}

static void test_nothing_is_left(void **state) {
    (void)state;
    static const int32_t counts[2][3] = {{1, 1, 1}, {3, 1, 2}};
    int32_t refused = 0;
    for (size_t i = 0; i < NAMES - 2; i++) /* single_node is for one host, and the last one is as hierarchical */
        for (int32_t c = 0; c < 4; c++) refused += leave_nothing(names[i], counts[c / 2], c % 2 ? 3 : 1);
    assert_in_range(refused, 4 * 4 * 2, 4 * 4 * 3);
}

/* ---- the description ---- */

static void test_descriptions(void **state) {
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        spans_launch launch;
        char text[1200], start[80];
        spans_open(&launch,
                   &(spans_options){.counts = (const int32_t[]){1, 1}, .processes = 2, .algorithm = names[i], .processes_per_host = 2});
        mst_communicator_description(launch.process[1].communicator, text, sizeof text);
        snprintf(start, sizeof start, "between 2 processes %s: ", names[i]);
        if (!strstr(text, start) || !strstr(text, "as asked for")) fail_msg("\"%s\"", text);
        spans_close(&launch);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_moves),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_descriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
