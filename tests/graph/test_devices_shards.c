/* Graphs that mean one device, in a runtime with logical shards: the bits of outputs, parameters
 * and states are the same for every number of devices that divides the number of shards. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_shards.h"

#include <stdio.h>

static void train(int32_t devices, int32_t shards, int64_t rows, muster_update_rule rule, shards_results *r) {
    char text[16];
    snprintf(text, sizeof text, "host:%d", (int)devices);
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = text;
    options.logical_shards = shards;
    assert_ok(muster_runtime_open(&options, &runtime));
    shards_train(runtime, rows, rule, r);
    assert_ok(muster_runtime_close(runtime));
}

static void test_bits_do_not_depend_on_the_number_of_devices(void **state) {
    static const int32_t sets[2][5] = {{8, 1, 2, 4, 8}, {6, 1, 2, 3, 6}};
    static const int64_t row_counts[] = {1, 7, 64};
    static shards_results one, several;
    const bool gpus = on_gpus();
    int32_t cases = 0;
    (void)state;
    for (int32_t s = 0; s < 2; s++)
        for (int32_t n = 0; n < 3; n++)
            for (muster_update_rule rule = MUSTER_SGD; rule <= MUSTER_ADAMAX; rule++) {
                if (!test_is_full() && (rule + n + s) % (gpus ? 8 : 3)) continue; /* a sample */
                train(1, sets[s][0], row_counts[n], rule, &one);
                for (int32_t d = 2; d < (gpus ? 4 : 5); d++, cases++) {
                    train(sets[s][d], sets[s][0], row_counts[n], rule, &several);
                    if (!shards_equal(&one, &several))
                        fail_msg("%d shards, %lld rows, rule %d: expected the bits of 1 device on %d", (int)sets[s][0],
                                 (long long)row_counts[n], (int)rule, (int)sets[s][d]);
                }
            }
    assert_int_equal(cases, test_is_full() ? (gpus ? 96 : 144) : gpus ? 12 : 48);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits_do_not_depend_on_the_number_of_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
