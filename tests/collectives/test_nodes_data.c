/* The data functions of processes that are threads of this program. */
#include "base_seed.h"
#include "collectives_nodes.h"
#include "collectives_oracle.h"
#include "nodes/nodes_data_private.h"

#include <stdlib.h>
#include <string.h>

/* A slab of 128 KiB, so that data goes in several segments. */
enum { SLAB = 128 * 1024, CASES = 12 };

static void fill(char *memory, int64_t bytes, int32_t which) {
    for (int64_t i = 0; i < bytes; i++) memory[i] = (char)(i * 7 + (i >> 8) + which * 31);
}

static bool is_filled(const char *memory, int64_t bytes, int32_t which) {
    for (int64_t i = 0; i < bytes; i++)
        if (memory[i] != (char)(i * 7 + (i >> 8) + which * 31)) return false;
    return true;
}

static void check(nodes_test *test, int32_t process, muster_status status, bool right) {
    nodes_note(test, process, status != MUSTER_OK || right ? status : mst_error(MUSTER_USER, "wrong data"));
}

static void all_gather(nodes_test *test, mst_nodes *nodes, int32_t process, int shape) {
    int64_t bytes[NODES_MOST], all = 0, at = 0;
    for (int32_t p = 0; p < nodes->processes; p++)
        all += bytes[p] = shape == 0 ? 100 : shape == 1 ? 3 * SLAB + p : p == nodes->processes - 1 ? SLAB + 5 : 0;
    char *buffer = calloc(1, (size_t)all);
    for (int32_t p = 0; p < process; p++) at += bytes[p];
    fill(buffer + at, bytes[process], process);
    const muster_status status = mst_nodes_all_gather(nodes, "here", buffer, bytes);
    bool right = true;
    at = 0;
    for (int32_t p = 0; p < nodes->processes; at += bytes[p++]) right &= is_filled(buffer + at, bytes[p], p);
    check(test, process, status, right);
    free(buffer);
}

/* Process `root` gets the parts of all, and then gives them back. The others have memory for their
 * own only. */
static void gather_and_scatter(nodes_test *test, mst_nodes *nodes, int32_t process, int shape, int32_t root) {
    int64_t bytes[NODES_MOST], all = 0, at = 0, before = 0;
    for (int32_t p = 0; p < nodes->processes; p++) {
        if (p < process) before = all + (shape == 0 ? 100 : shape == 1 ? 3 * SLAB + p : 0);
        all += bytes[p] = shape == 0 ? 100 : shape == 1 ? 3 * SLAB + p : p == nodes->processes - 1 ? SLAB + 5 : 0;
    }
    const int64_t held = process == root ? all : bytes[process];
    char *buffer = calloc(1, (size_t)held + 1), *own = process == root ? buffer + before : buffer;
    fill(own, bytes[process], process);
    muster_status status = mst_nodes_gather(nodes, "here", root, buffer, bytes);
    bool right = true;
    for (int32_t p = 0; process == root && p < nodes->processes; at += bytes[p++]) right &= is_filled(buffer + at, bytes[p], p);
    if (process != root) memset(buffer, 0, (size_t)held);
    if (status == MUSTER_OK) status = mst_nodes_scatter(nodes, "here", root, buffer, bytes);
    right &= is_filled(own, bytes[process], process) && !buffer[held];
    check(test, process, status, right);
    free(buffer);
}

static void all_reduce(nodes_test *test, mst_nodes *nodes, int32_t process, muster_reduction op) {
    enum { COUNT = SLAB / 4 * 2 + 77 };
    float *buffer = malloc(COUNT * sizeof *buffer);
    bool right = true;
    for (int32_t i = 0; i < COUNT; i++) buffer[i] = (float)(i % 1000 + process);
    const muster_status status = mst_nodes_all_reduce(nodes, "here", op, MUSTER_F16, buffer, COUNT);
    const int32_t m = nodes->processes;
    for (int32_t i = 0; i < COUNT; i++) {
        const double sum = (double)m * (i % 1000) + m * (m - 1) / 2.0;
        right &= op == MUSTER_AVG ? buffer[i] > sum / m - 1e-3 && buffer[i] < sum / m + 1e-3 : buffer[i] == sum;
    }
    check(test, process, status, right);
    free(buffer);
}

static void broadcast(nodes_test *test, mst_nodes *nodes, int32_t process, int64_t bytes) {
    char *buffer = calloc(1, (size_t)bytes + 1);
    const int32_t from = nodes->processes - 1;
    if (process == from) fill(buffer, bytes, 5);
    const muster_status status = mst_nodes_broadcast(nodes, "here", from, buffer, bytes);
    check(test, process, status, is_filled(buffer, bytes, 5) && !buffer[bytes]);
    free(buffer);
}

static void move_all(nodes_test *test, mst_nodes *nodes, int32_t process) {
    for (int shape = 0; shape < 3; shape++) all_gather(test, nodes, process, shape);
    for (int shape = 0; shape < 6; shape++) gather_and_scatter(test, nodes, process, shape % 3, shape < 3 ? 0 : nodes->processes - 1);
    all_reduce(test, nodes, process, MUSTER_SUM);
    all_reduce(test, nodes, process, MUSTER_AVG);
    broadcast(test, nodes, process, 2 * SLAB + 1);
}

static void test_data_comes_whole_through_small_slabs(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t size = 2; size <= 4; size++) {
        static nodes_test test;
        test =
            (nodes_test){.launch_options = {.processes = size, .seed = test_seed() + (uint64_t)size, .lazy = size == 3}, .body = move_all};
        nodes_run(&test);
        assert_int_equal(test.counts.messages + test.counts.requests, 0);
        for (int32_t k = 0; k < CASES; k++, cases += size) nodes_expect(&test, 0, size - 1, k, MUSTER_OK, "");
    }
    assert_int_equal(cases, (2 + 3 + 4) * CASES);
    assert_int_equal(mst_slabs_leaked(), 0);
}

/* Process 1 does not take part: it is stopped in its code, which is what a lost process looks
 * like. */
static void leave_out_one(nodes_test *test, mst_nodes *nodes, int32_t process) {
    char byte = 1;
    nodes->fail_after_ns = 100000000;
    nodes_note(test, process, process == 1 ? MUSTER_OK : mst_nodes_broadcast(nodes, "here", 1, &byte, 1));
    if (process != 1) nodes_note(test, process, mst_nodes_broadcast(nodes, "here", 1, &byte, 1));
    await_barrier_wait(&test->barrier);
}

static void test_a_lost_process_costs_the_slabs(void **state) {
    (void)state;
    static nodes_test test;
    const int64_t before = mst_slabs_leaked();
    test = (nodes_test){.launch_options = {.processes = 2}, .body = leave_out_one, .on_lost = MST_LOST_ERROR};
    nodes_run(&test);
    for (int32_t k = 0; k < 2; k++)
        nodes_expect(
            &test, 0, 0, k, MUSTER_NODE_LOST,
            "here: process 1 (host host0) does not take part in a transfer that it has begun: it is lost, and this runtime can only be "
            "closed");
    assert_true(mst_slabs_leaked() - before >= 2 * SLAB);
}

/* Process 1 is silent for longer than the deadline, as one that packs much data is, and comes. */
static void come_late(nodes_test *test, mst_nodes *nodes, int32_t process) {
    char byte = process == 1 ? 7 : 0;
    nodes->fail_after_ns = 1000000000;
    await_barrier_wait(&test->barrier);
    if (process == 1) nodes_sleep(1700000000);
    const muster_status status = mst_nodes_broadcast(nodes, "here", 1, &byte, 1);
    check(test, process, status, byte == 7);
}

static void test_a_process_that_packs_is_not_lost(void **state) {
    (void)state;
    static nodes_test test;
    test = (nodes_test){.launch_options = {.processes = 3}, .body = come_late, .on_lost = MST_LOST_ERROR};
    nodes_run(&test);
    nodes_expect(&test, 0, 2, 0, MUSTER_OK, "");
}

int main(void) {
    setenv("MUSTER_WIRE_MEMORY", "262144", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_comes_whole_through_small_slabs),
        cmocka_unit_test(test_a_lost_process_costs_the_slabs),
        cmocka_unit_test(test_a_process_that_packs_is_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
