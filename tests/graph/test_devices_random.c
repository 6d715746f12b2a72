/* Random graphs, seeded, whose values have rows, and whose parameters are split by chance: on any
 * number of devices they give the values of one device, with their gradients. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"

enum { GRAPHS = 150, FULL_GRAPHS = 3000, GPU_GRAPHS = 8 };

static const struct {
    const char *devices;
    int64_t micro_batches;
} machines[] = {{"host:2", 0}, {"host:3", 0},     {"host:4", 0}, {"host:5", 0}, {"host:6", 0}, {"host:7", 0},
                {"host:8", 0}, {"discrete:3", 0}, {"host:1", 3}, {"host:2", 5}, {"host:3", 2}, {"host:6", 4}};
enum { MACHINES = 12 };

static void random_graphs_do_not_depend_on_the_number_of_devices(void **state) {
    static const int64_t rows[] = {7, 1, 64};
    const int32_t graphs = GRAPHS / (int32_t)test_one_in(1, 3, 6);
    const int32_t wanted = test_is_full() ? FULL_GRAPHS : on_gpus() ? GPU_GRAPHS : graphs;
    int32_t compared = 0;
    (void)state;
    for (int32_t i = 0; i < wanted; i++) {
        const invariance_case its = invariance_random(test_seed() * 1000003u + (uint64_t)i);
        invariance_way way = {.dtype = MUSTER_F64, .rows = rows, .calls = 3};
        invariance_values expected, values;
        invariance_run(devices_open("host:1"), &its, &way, &expected);
        if (*expected.message) fail_msg("seed %llu: %s", (unsigned long long)its.seed, expected.message);
        for (int32_t m = 0; m < MACHINES; m++) {
            if (!test_is_full() && (m + i) % 3) continue;
            way.micro_batches = machines[m].micro_batches;
            invariance_run(devices_open(machines[m].devices), &its, &way, &values);
            const double distance = invariance_distance(&expected, &values);
            if (!(distance <= 1e-11))
                fail_msg("seed %llu on %s, %d micro-batches: differs by %g from one device %s", (unsigned long long)its.seed,
                         machines[m].devices, (int)way.micro_batches, distance, values.message);
            invariance_free(&values);
            compared++;
        }
        invariance_free(&expected);
    }
    assert_int_equal(compared, test_is_full() ? wanted * MACHINES : wanted * MACHINES / 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_do_not_depend_on_the_number_of_devices)};
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
