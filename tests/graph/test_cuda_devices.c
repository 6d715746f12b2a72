/* Graphs with one meaning on simulated GPUs against one host device: the suites test_devices@cuda
 * and test_devices_random@cuda compare several GPUs with one GPU, so one GPU is compared here. */
#include "base_seed.h"
#include "graph_invariance.h"

enum { GRAPHS = 4, FULL_GRAPHS = 200, STRIDE = 4 };
static const int64_t rows[] = {7, 1, 64};
static const char *const machines[] = {"cuda:1", "cuda:2"};

static void compare(const invariance_case *its, const char *devices, muster_dtype dtype, bool unfused) {
    const invariance_way way = {.dtype = dtype, .rows = rows, .calls = 3, .unfused = unfused};
    const double tolerance = its->exact ? 0 : dtype == MUSTER_F64 ? 1e-11 : 1e-5;
    invariance_values expected, values;
    invariance_run(devices_open("host:1"), its, &way, &expected);
    invariance_run(devices_open(devices), its, &way, &values);
    const double distance = invariance_distance(&expected, &values);
    if (!(distance <= tolerance))
        fail_msg("%s, seed %llu, %s on %s: differs by %g from one host device (\"%s\", \"%s\")", its->name, (unsigned long long)its->seed,
                 muster_dtype_name(dtype), devices, distance, expected.message, values.message);
    invariance_free(&expected);
    invariance_free(&values);
}

/* Each case on one GPU; a sample of them in groups, whose kernels take long to compile, and on
 * two. */
static void a_list_of_graphs_has_the_values_of_a_host_device(void **state) {
    int32_t compared = 0;
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t i = 0; i < 4; i++) {
            const bool sampled = i == 0 || test_is_full() || (uint64_t)(c + i) % STRIDE == test_seed() % STRIDE;
            if (!sampled) continue;
            compare(&invariance_cases[c], machines[i / 2], c % 2 ? MUSTER_F64 : MUSTER_F32, i % 2 == 0);
            compared++;
        }
    assert_in_range(compared, test_is_full() ? 4 * invariance_case_count : invariance_case_count + 3 * (invariance_case_count / STRIDE),
                    4 * invariance_case_count);
}

static void random_graphs_have_the_values_of_a_host_device(void **state) {
    const int32_t wanted = test_is_full() ? FULL_GRAPHS : GRAPHS;
    (void)state;
    for (int32_t i = 0; i < wanted; i++) {
        const invariance_case its = invariance_random(test_seed() * 1000003u + (uint64_t)i);
        compare(&its, machines[0], MUSTER_F64, i % 4 != 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_graphs_has_the_values_of_a_host_device),
        cmocka_unit_test(random_graphs_have_the_values_of_a_host_device),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
