/* A begin round that one process gives up at the moment at which the others complete it: they are
 * on their way to move data by then. All return TIMEOUT, nobody is lost, and the next calls are
 * right, without what is left of the data. */
#include "base_await.h"
#include "collectives_nodes.h"
#include "nodes/nodes_data_private.h"

#include <stdlib.h>
#include <string.h>

typedef enum data_kind { BROADCAST, ALL_GATHER, ALL_REDUCE, KINDS } data_kind;
enum { PART = 1000, CALLS = 3, AWAIT_NS = 100000, FAIL_NS = 150000000 };
static const int64_t long_ns = 10000000000; /* that no right run needs */

typedef struct trial {
    data_kind kind;
    int32_t times; /* how often it happens */
} trial;

static int32_t value_at(int32_t process, int64_t i, int32_t call) { return (int32_t)(i * 7 % 1000) + process * 1000 + call * 10000; }

/* The transfer of call number `call`. */
static muster_status move(const trial *t, mst_nodes *nodes, int32_t call, bool *right) {
    const int32_t processes = nodes->processes, own = nodes->process;
    int64_t bytes[NODES_MOST];
    int32_t *x = calloc((size_t)processes * PART, sizeof *x), *at = t->kind == ALL_GATHER ? x + (int64_t)own * PART : x;
    for (int32_t p = 0; p < processes; p++) bytes[p] = PART * (int64_t)sizeof *x;
    for (int64_t i = 0; i < PART; i++) at[i] = value_at(own, i, call);
    const muster_status status = t->kind == ALL_GATHER  ? mst_nodes_all_gather(nodes, "here", x, bytes)
                                 : t->kind == BROADCAST ? mst_nodes_broadcast(nodes, "here", 1, x, bytes[0])
                                                        : mst_nodes_all_reduce(nodes, "here", MUSTER_SUM, MUSTER_I32, x, PART);
    *right = status == MUSTER_OK;
    for (int64_t i = 0; i < PART * (t->kind == ALL_GATHER ? processes : 1); i++) {
        int32_t expected = value_at(t->kind == ALL_GATHER ? (int32_t)(i / PART) : 1, i % PART, call);
        if (t->kind == ALL_REDUCE) expected = 0;
        for (int32_t p = 0; t->kind == ALL_REDUCE && p < processes; p++) expected += value_at(p, i, call);
        *right = *right && x[i] == expected;
    }
    free(x);
    return status;
}

static muster_status call(const trial *t, mst_nodes *nodes, int32_t number, bool *right) {
    mst_round round = nodes_round("a call");
    *right = false;
    MUSTER_TRY(mst_nodes_begin(nodes, &round));
    MUSTER_TRY(move(t, nodes, number, right));
    return mst_nodes_end(nodes, &round);
}

/* Process 0 arrives first, and what the others send to it is held until it has given up. */
static muster_status give_up(nodes_test *test, const trial *t, mst_nodes *nodes, int32_t number) {
    const int32_t last = nodes->processes - 1;
    bool right;
    await_barrier_wait(&test->barrier);
    const int64_t sent = wire_launch_count(test->launch).sent;
    await_barrier_wait(&test->barrier);
    if (nodes->process == last) { /* process 0's messages are there: with three processes it has sent two, and process 1 one */
        TEST_AWAIT(wire_launch_count(test->launch).sent >= sent + (last == 1 ? 1 : 3), AWAIT_NS);
        wire_launch_cut(test->launch, 0, last);
    }
    nodes->fail_after_ns = nodes->process == 0 ? FAIL_NS : long_ns;
    const muster_status status = call(t, nodes, number, &right);
    if (nodes->process == 0) wire_launch_heal(test->launch, 0, last);
    nodes->fail_after_ns = long_ns;
    await_barrier_wait(&test->barrier);
    return status;
}

static void body(nodes_test *test, mst_nodes *nodes, int32_t process) {
    const trial *t = test->user;
    int32_t number = 0;
    bool right;
    for (int32_t k = 0; k < t->times && !nodes->lost; k++) {
        const muster_status given_up = give_up(test, t, nodes, number++);
        nodes_note(test, process, given_up);
        nodes_note(test, process, call(t, nodes, number++, &right));
        nodes_note(test, process, right ? MUSTER_OK : mst_error(MUSTER_USER, "wrong data"));
    }
}

static void test_others_go_on(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t processes = 2; processes <= 3; processes++) {
        for (data_kind kind = 0; kind < KINDS; kind++, cases++) {
            static nodes_test test;
            trial t = {.kind = kind, .times = 2};
            test = (nodes_test){.launch_options = {.processes = processes}, .on_lost = MST_LOST_ERROR, .body = body, .user = &t};
            nodes_run(&test);
            for (int32_t p = 0; p < processes; p++) {
                for (int32_t k = 0; k < 3 * t.times; k++) {
                    if (test.notes[p] <= k) fail_msg("%d processes, kind %d: process %d has no note %d", processes, kind, p, k);
                    if (test.status[p][k] != (k % 3 == 0 ? MUSTER_TIMEOUT : MUSTER_OK))
                        fail_msg("%d processes, kind %d: process %d, note %d: %s", processes, kind, p, k, test.message[p][k]);
                }
            }
        }
    }
    assert_int_equal(cases, 2 * KINDS);
}

int main(void) {
    setenv("MUSTER_WIRE_MEMORY", "262144", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
