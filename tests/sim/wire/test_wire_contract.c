/* The contract suite on the wire between threads, in all its ways; and on wires with a planted
 * fault, which it must find. */
#include "contract.h"
#include "wire_launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_pace.h"
#include "base_seed.h"

enum { CONTRACT_PROCESSES = 16 };

typedef struct contract_thread {
    pthread_t thread;
    wire_launch *launch;
    const muster_wire_table *table;
    int32_t process;
    wire_contract contract;
    bool right;
} contract_thread;

static void *contract_main(void *argument) {
    contract_thread *t = argument;
    wire_launch_join(t->launch, t->process);
    mst_wire *wire = NULL;
    if (!wire_launch_open(&wire)) return NULL;
    t->contract.table = t->table;
    t->contract.wire = wire->state;
    t->right = wire_contract_run(&t->contract);
    wire->close(wire, t->right ? MST_WIRE_FREE : MST_WIRE_LOST);
    wire_launch_join(NULL, 0);
    return NULL;
}

/* Runs the suite in threads. Returns how many processes have found it right. */
static int32_t contract_in_threads(wire_launch *launch, const muster_wire_table *table, int32_t processes, int64_t patience_ns,
                                   contract_thread *threads) {
    int32_t right = 0;
    for (int32_t p = 0; p < processes; p++) {
        threads[p] = (contract_thread){.launch = launch, .table = table, .process = p};
        threads[p].contract.seed = test_seed();
        threads[p].contract.patience_ns = patience_ns;
        assert_int_equal(pthread_create(&threads[p].thread, NULL, contract_main, &threads[p]), 0);
    }
    for (int32_t p = 0; p < processes; p++) {
        pthread_join(threads[p].thread, NULL);
        right += threads[p].right;
    }
    return right;
}

static int32_t contract_runs;

static void contract_holds(wire_launch_options options) {
    contract_thread threads[CONTRACT_PROCESSES];
    wire_launch *launch = wire_launch_create(&options);
    assert_non_null(launch);
    const int32_t right = contract_in_threads(launch, wire_launch_table(launch), options.processes, test_patience(15000000000), threads);
    for (int32_t p = 0; p < options.processes; p++)
        if (threads[p].contract.failure[0]) print_error("%s\n", threads[p].contract.failure);
    assert_int_equal(right, options.processes);
    for (int32_t p = 0; p < options.processes; p++) {
        assert_int_equal(threads[p].contract.left_out, options.no_collectives ? 6 : 0);
        assert_int_equal(threads[p].contract.cases + threads[p].contract.left_out, WIRE_CONTRACT_CASES);
    }
    const wire_launch_counts counts = wire_launch_count(launch);
    assert_int_equal(counts.messages, 0);
    assert_int_equal(counts.requests, 0);
    assert_int_equal(counts.wires, 0);
    wire_launch_destroy(launch);
    contract_runs++;
}

static void test_one_to_four_processes(void **state) {
    (void)state;
    for (int32_t processes = 1; processes <= 4; processes++) contract_holds((wire_launch_options){.processes = processes});
    contract_holds((wire_launch_options){.processes = 16});
    assert_int_equal(contract_runs, 5);
}

static void test_rendezvous_for_all_or_for_none(void **state) {
    (void)state;
    contract_runs = 0;
    for (int32_t processes = 1; processes <= 3; processes++) {
        contract_holds((wire_launch_options){.processes = processes, .eager_bytes = -1});
        contract_holds((wire_launch_options){.processes = processes, .eager_bytes = INT64_MAX});
        contract_holds((wire_launch_options){.processes = processes, .eager_bytes = 1});
    }
    assert_int_equal(contract_runs, 9);
}

static void test_lazy(void **state) {
    (void)state;
    contract_runs = 0;
    for (int32_t processes = 1; processes <= 4; processes++) contract_holds((wire_launch_options){.processes = processes, .lazy = true});
    assert_int_equal(contract_runs, 4);
}

static void test_by_chance(void **state) {
    (void)state;
    contract_runs = 0;
    const int32_t seeds = test_is_full() ? 20 : 2;
    for (int32_t i = 0; i < seeds; i++)
        for (int32_t processes = 1; processes <= 4; processes++)
            contract_holds((wire_launch_options){.processes = processes, .seed = test_seed() * 1000 + (uint64_t)i, .lazy = i & 1});
    assert_int_equal(contract_runs, 4 * seeds);
}

static void test_without_collectives_or_with_fault_tolerance(void **state) {
    (void)state;
    contract_runs = 0;
    contract_holds((wire_launch_options){.processes = 3, .no_collectives = true});
    contract_holds((wire_launch_options){.processes = 3, .fault_tolerance = true});
    assert_int_equal(contract_runs, 2);
}

/* ---- planted faults ---- */

static const muster_wire_table *planted_real;
static _Thread_local int32_t planted_calls;

static int32_t planted_test(muster_wire *wire, muster_wire_request *request, int32_t *done, muster_wire_status *status) {
    const int32_t result = planted_real->test(wire, request, done, status);
    if (*done && status && status->bytes) status->bytes++;
    return result;
}

static int32_t planted_test_some_bytes(muster_wire *wire, int32_t count, muster_wire_request *requests, int32_t *done_count, int32_t *done,
                                       muster_wire_status *statuses) {
    const int32_t result = planted_real->test_some(wire, count, requests, done_count, done, statuses);
    for (int32_t i = 0; statuses && i < *done_count; i++) statuses[i].bytes++;
    return result;
}

static int32_t planted_test_some_order(muster_wire *wire, int32_t count, muster_wire_request *requests, int32_t *done_count, int32_t *done,
                                       muster_wire_status *statuses) {
    const int32_t result = planted_real->test_some(wire, count, requests, done_count, done, statuses);
    for (int32_t i = 0, j = *done_count - 1; i < j; i++, j--) {
        const int32_t swapped = done[i];
        done[i] = done[j];
        done[j] = swapped;
    }
    return result;
}

/* The 150th message is never sent. */
static int32_t planted_dropped(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    if (++planted_calls != 150) return planted_real->send(wire, from, bytes, to, tag, request);
    *request = 0;
    return MUSTER_WIRE_OK;
}

/* Every message waits for the next one of the same tag, which overtakes it. */
static int32_t planted_overtaken(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag,
                                 muster_wire_request *request) {
    static _Thread_local const void *kept;
    static _Thread_local int64_t kept_bytes;
    if (tag != 11) return planted_real->send(wire, from, bytes, to, tag, request);
    if (!kept) {
        kept = from;
        kept_bytes = bytes;
        *request = 0;
        return MUSTER_WIRE_OK;
    }
    muster_wire_request first = 0;
    int32_t result = planted_real->send(wire, from, bytes, to, tag, request);
    if (!result) result = planted_real->send(wire, kept, kept_bytes, to, tag, &first);
    kept = NULL;
    return result;
}

/* Matched or not, it is done at once. */
static int32_t planted_told_early(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag,
                                  muster_wire_request *request) {
    return planted_real->send(wire, from, bytes, to, tag, request);
}

static int32_t planted_cancel(muster_wire *wire, muster_wire_request *request) {
    (void)wire;
    *request = 0; /* and the receive stays */
    return MUSTER_WIRE_OK;
}

static int32_t planted_any(muster_wire *wire, void *to, int64_t bytes, int32_t from, int32_t tag, muster_wire_request *request) {
    return planted_real->receive(wire, to, bytes, tag == 40 || tag == 41 ? -1 : from, tag, request);
}

static int32_t planted_tag(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    return planted_real->send(wire, from, bytes, to, tag & 16383, request);
}

static int32_t planted_probe(muster_wire *wire, int32_t from, int32_t tag, int32_t *there, muster_wire_status *status) {
    const int32_t result = planted_real->probe(wire, from, tag, there, status);
    if (*there && status) status->bytes = 0;
    return result;
}

static int32_t planted_reduce(muster_wire *wire, const void *from, void *to, int64_t count, int32_t type, int32_t operation,
                              muster_wire_request *request) {
    return planted_real->all_reduce(wire, from, to, count, type, operation == MUSTER_WIRE_MIN ? MUSTER_WIRE_MAX : operation, request);
}

static int32_t planted_found;

/* Three processes, which give up soon. */
static void planted_is_found(muster_wire_table *table) {
    contract_thread threads[CONTRACT_PROCESSES];
    wire_launch *launch = wire_launch_create(&(wire_launch_options){.processes = 3});
    assert_non_null(launch);
    planted_real = wire_launch_table(launch);
    const int32_t right = contract_in_threads(launch, table, 3, 150000000, threads);
    assert_int_equal(right, 0); /* who sees no fault waits for those who do */
    wire_launch_destroy(launch);
    planted_found++;
}

#define PLANT(entry, function)                               \
    do {                                                     \
        muster_wire_table table = *wire_launch_table(model); \
        table.entry = function;                              \
        planted_is_found(&table);                            \
    } while (0)

static void test_planted_faults_are_found(void **state) {
    (void)state;
    wire_launch *model = wire_launch_create(&(wire_launch_options){.processes = 1});
    assert_non_null(model);
    PLANT(test, planted_test);
    PLANT(test_some, planted_test_some_bytes);
    PLANT(test_some, planted_test_some_order);
    PLANT(send, planted_dropped);
    PLANT(send, planted_overtaken);
    PLANT(send, planted_tag);
    PLANT(send_matched, planted_told_early);
    PLANT(cancel, planted_cancel);
    PLANT(receive, planted_any);
    PLANT(probe, planted_probe);
    PLANT(all_reduce, planted_reduce);
    assert_int_equal(planted_found, 11);
    wire_launch_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_to_four_processes),
        cmocka_unit_test(test_rendezvous_for_all_or_for_none),
        cmocka_unit_test(test_lazy),
        cmocka_unit_test(test_by_chance),
        cmocka_unit_test(test_without_collectives_or_with_fault_tolerance),
        cmocka_unit_test(test_planted_faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
