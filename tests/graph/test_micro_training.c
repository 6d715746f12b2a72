/* Micro-batches in training: the memory that they need, every rule, sums of small dtypes, failures
 * in the middle of a call, and what is refused. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_network.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 4 };
static const char *const machines[] = {"host:1", "host:2", "host:3"};
enum { MACHINES = 3 };

static muster_graph_options options_of(int64_t micro_batches) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.micro_batches = micro_batches;
    return options;
}

/* ---- every rule ---- */

static void network_train(const char *devices, muster_update_rule rule, double clip, const muster_graph_options *options,
                          network_results *r) {
    static const int64_t rows[STEPS] = {40, 7, 1, 40};
    network net;
    assert_ok(network_open(&net, devices, rule, clip, options));
    for (int32_t s = 0; s < STEPS; s++) assert_ok(network_call(&net, rows[s], r));
    network_parameters(&net, muster_runtime_size(net.runtime) - 1, r);
    assert_ok(muster_runtime_close(net.runtime));
}

static void every_rule_trains_as_with_all_rows_at_once(void **state) {
    static const int64_t counts[] = {2, 3, 7, 64};
    enum { RULES = 8, COUNTS = 4 };
    static network_results expected, got;
    int32_t compared = 0, turn = 0;
    (void)state;
    for (int32_t rule = 0; rule < RULES; rule++)
        for (int32_t clipped = 0; clipped < 2; clipped++) {
            network_train("host:1", MUSTER_SGD + rule, clipped ? 0.05 : 0, NULL, &expected);
            for (int32_t i = 0; i < COUNTS * MACHINES; i++, turn++) {
                if (!test_is_full() && turn % (on_gpus() ? 37 : 5)) continue;
                const muster_graph_options options = options_of(counts[i % COUNTS]);
                network_train(machines[i / COUNTS], MUSTER_SGD + rule, clipped ? 0.05 : 0, &options, &got);
                if (!(network_distance(&expected, &got) < 1e-11))
                    fail_msg("rule %d, %d micro-batches on %s: differs by %g", (int)rule, (int)options.micro_batches, machines[i / COUNTS],
                             network_distance(&expected, &got));
                compared++;
            }
        }
    assert_int_equal(turn, RULES * 2 * COUNTS * MACHINES);
    assert_int_equal(compared, test_is_full() ? turn : (turn + (on_gpus() ? 36 : 4)) / (on_gpus() ? 37 : 5));
}

/* 0 and 1 are no micro-batches: not one bit differs. */
static void one_micro_batch_is_none(void **state) {
    static network_results expected, got;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        const muster_graph_options options = options_of(1);
        network_train(machines[m], MUSTER_ADAM, 0, NULL, &expected);
        network_train(machines[m], MUSTER_ADAM, 0, &options, &got);
        assert_memory_equal(&expected, &got, sizeof got);
    }
}

/* The gradients of all micro-batches are one step, behind which the buckets begin. */
static void buckets_and_eager_updates_wait_for_all_micro_batches(void **state) {
    static network_results expected, got;
    int32_t compared = 0;
    (void)state;
    network_train("host:1", MUSTER_MOMENTUM, 0, NULL, &expected);
    for (int32_t m = 1; m < MACHINES; m++)
        for (int32_t eager = 0; eager < 2; eager++, compared++) {
            muster_graph_options options = options_of(3);
            options.eager_updates = eager;
            options.bucket_bytes = 256;
            network_train(machines[m], MUSTER_MOMENTUM, 0, &options, &got);
            assert_true(network_distance(&expected, &got) < 1e-11);
        }
    assert_int_equal(compared, 4);
}

/* ---- memory ---- */

static int64_t number_before(const char *dump, const char *prefix) {
    const char *at = strstr(dump, prefix);
    if (!at) fail_msg("no \"%s\" in the dump: %.200s", prefix, dump);
    return atoll(at + strlen(prefix));
}

/* The bytes of the block; *loop: those of a micro-batch, 0 without. */
static int64_t block_of(const char *devices, int64_t micro_batches, int64_t usual_rows, int64_t *loop) {
    static network_results r;
    network net;
    muster_graph_options options = options_of(micro_batches);
    options.rows = usual_rows;
    assert_ok(network_open(&net, devices, MUSTER_SGD, 0, &options));
    assert_ok(network_call(&net, NETWORK_ROWS, &r));
    char *dump = graph_dump_text(net.function), expected[64];
    const int64_t bytes = number_before(dump, "a block of ");
    *loop = 0;
    if (micro_batches > 1) {
        snprintf(expected, sizeof expected, ", %d micro-batches of ", (int)micro_batches);
        *loop = number_before(dump, expected);
        assert_non_null(strstr(dump, "in micro-batches"));
    } else {
        assert_null(strstr(dump, "micro-batch"));
    }
    free(dump);
    assert_ok(muster_runtime_close(net.runtime));
    return bytes;
}

/* An activation of all rows has NETWORK_ROWS * NETWORK_HIDDEN doubles, 128 KiB; the gradients of
 * all parameters have less than 3 KiB. */
static void the_block_becomes_smaller(void **state) {
    (void)state;
    for (int32_t m = 0; m < MACHINES - 1; m++) {
        int64_t loop, before = block_of(machines[m], 0, 0, &loop);
        const int64_t all = before;
        assert_true(all >= 2 * NETWORK_ROWS * NETWORK_HIDDEN * 8 / (m + 1));
        for (int64_t k = 2; k <= 16; k *= 2) {
            /* even if it seems that so few rows are gathered at no cost */
            const int64_t bytes = block_of(machines[m], k, k % 4 ? 0 : 1, &loop);
            assert_in_range(loop, 1, bytes);
            if (!(bytes < before && bytes < all / k + 8192)) /* what is left: gradients, and their alignment */
                fail_msg("%s: %lld bytes in %d micro-batches, %lld in half as many", machines[m], (long long)bytes, (int)k,
                         (long long)before);
            before = bytes;
        }
    }
}

static void steady_calls_allocate_nothing(void **state) {
    static network_results r;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        network net;
        const muster_graph_options options = options_of(3);
        assert_ok(network_open(&net, machines[m], MUSTER_MOMENTUM, 0, &options));
        for (int32_t i = 0; i < 3; i++) assert_ok(network_call(&net, 40, &r));
        const int64_t before = mst_memory_count();
        for (int32_t i = 0; i < 10; i++) assert_ok(network_call(&net, 40, &r));
        assert_int_equal(mst_memory_count() - before, 0);
        assert_ok(muster_runtime_close(net.runtime));
    }
}

/* ---- failures ---- */

/* The operator fails in one micro-batch after the other: the message names it, and no parameter has
 * another value. The call after that is right. */
static void a_micro_batch_that_fails_updates_nothing(void **state) {
    enum { PARTS = 5 };
    static network_results start, expected, got;
    network net;
    const muster_graph_options options = options_of(PARTS);
    (void)state;
    assert_ok(network_open(&net, "host:1", MUSTER_SGD, 0, &options));
    network_parameters(&net, 0, &start);
    for (network_fails_at = 1; network_fails_at <= PARTS; network_fails_at++) {
        network_applied = 0;
        assert_refused(network_call(&net, 40, &got), MUSTER_OUT_OF_RANGE, "the cat sat on the keys (in pass_on");
        assert_int_equal(network_applied, network_fails_at);
        network_parameters(&net, 0, &got);
        assert_memory_equal(start.parameters, got.parameters, sizeof got.parameters);
    }
    network_applied = 0;
    assert_ok(network_call(&net, 40, &got)); /* network_fails_at is one more than there are */
    assert_int_equal(network_applied, PARTS);
    network_fails_at = 0;
    network_parameters(&net, 0, &got);
    assert_ok(muster_runtime_close(net.runtime));
    assert_ok(network_open(&net, "host:1", MUSTER_SGD, 0, NULL));
    assert_ok(network_call(&net, 40, &expected));
    network_parameters(&net, 0, &expected);
    assert_true(network_distance(&expected, &got) < 1e-11 && got.loss > 0);
    assert_ok(muster_runtime_close(net.runtime));
}

/* Each allocation fails once, of compiling and of the first call. */
static void memory_that_runs_out_is_said(void **state) {
    static network_results got;
    int32_t failed = 0;
    bool done = false;
    (void)state;
    for (int64_t k = 1; !done; k += test_is_full() ? 1 : 3) {
        network net;
        const muster_graph_options options = options_of(3);
        assert_ok(network_open(&net, "host:1", MUSTER_SGD, 0, &options));
        mst_memory_fail_at(k);
        const muster_status status = network_call(&net, 40, &got);
        mst_memory_fail_at(0);
        done = status == MUSTER_OK;
        failed += !done;
        if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
        assert_ok(network_call(&net, 40, &got));
        assert_ok(muster_runtime_close(net.runtime));
    }
    assert_true(failed > 5);
    for (network_memory_fails_at = 1, done = false; !done; network_memory_fails_at += test_is_full() ? 1 : 7) {
        network net;
        const muster_graph_options options = options_of(3);
        const muster_status status = network_open(&net, "host:2", MUSTER_SGD, 0, &options);
        done = status == MUSTER_OK;
        failed += !done;
        if (!done && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)network_memory_fails_at, muster_last_error());
        assert_ok(muster_runtime_close(net.runtime));
    }
    network_memory_fails_at = 0;
    assert_true(failed > 20);
}

/* With a limit the steps are planned a second time. An allocation that fails then leaves nothing
 * behind of the first plan. */
static void failures_under_a_limit_leave_no_memory_behind(void **state) {
    static network_results got;
    int64_t live = 0;
    int32_t failed = 0;
    bool done = false;
    (void)state;
    for (int64_t k = 0; !done; k += k && !test_is_full() ? 3 : 1) { /* 0: nothing fails, for what the library keeps */
        network net;
        muster_graph_options options = options_of(3);
        options.memory_limit = 1;
        assert_ok(network_open(&net, "host:1", MUSTER_SGD, 0, &options));
        mst_memory_fail_at(k);
        const muster_status status = network_call(&net, 40, &got);
        mst_memory_fail_at(0);
        done = k && status == MUSTER_OK;
        failed += status != MUSTER_OK;
        if (status != MUSTER_OK && status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)k, muster_last_error());
        assert_ok(muster_runtime_close(net.runtime));
        if (!k) live = mst_memory_live();
        if (mst_memory_live() != live) fail_msg("allocation %d: %lld blocks are left", (int)k, (long long)(mst_memory_live() - live));
    }
    assert_true(failed > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_trains_as_with_all_rows_at_once),
        cmocka_unit_test(one_micro_batch_is_none),
        cmocka_unit_test(buckets_and_eager_updates_wait_for_all_micro_batches),
        cmocka_unit_test(the_block_becomes_smaller),
        cmocka_unit_test(steady_calls_allocate_nothing),
        cmocka_unit_test(a_micro_batch_that_fails_updates_nothing),
        cmocka_unit_test(memory_that_runs_out_is_said),
        cmocka_unit_test(failures_under_a_limit_leave_no_memory_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
