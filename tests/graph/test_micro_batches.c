/* Micro-batches: a fixed list of graphs gives the values of all rows at once, whatever the
 * number of micro-batches, of devices and of rows, and in every way of calling and compiling. A
 * graph without micro-batches on one device is the oracle; what it computes is checked by other
 * suites. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"

#include <math.h>

static const int64_t changing[] = {7, 1, 64, 3, 64, 7}, with_none[] = {4, 0, 9, 0};
static const int64_t counts[] = {2, 3, 7, 100};
static const char *const machines[] = {"host:1", "host:2", "host:3", "discrete:2"};
enum { COUNTS = 4, MACHINES = 4 };

static double tolerance(muster_dtype dtype) { return dtype == MUSTER_F64 ? 1e-11 : 1e-5; }

static void compare(const invariance_case *its, const invariance_way *way, const invariance_values *expected, const char *devices) {
    invariance_values values;
    invariance_run(devices_open(devices), its, way, &values);
    const double distance = invariance_distance(expected, &values);
    if (!(distance <= tolerance(way->dtype)))
        fail_msg("%s, %d micro-batches on %s, %s: differs from all rows at once by %g (\"%s\", \"%s\")", its->name, (int)way->micro_batches,
                 devices, muster_dtype_name(way->dtype), distance, expected->message, values.message);
    invariance_free(&values);
}

/* A sample, unless the full tests are asked for: every so many of all comparisons. No number of
 * micro-batches and no machine is left out, since the two are coprime with it. */
static int32_t stride(void) { return test_is_full() ? 1 : on_gpus() ? 17 : 5; }

static void compare_all(const int64_t *rows, int32_t calls) {
    int32_t compared = 0, turn = 0;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t wide = 0; wide < 2; wide++) {
            invariance_way way = {.dtype = wide ? MUSTER_F64 : MUSTER_F32, .rows = rows, .calls = calls};
            invariance_values expected;
            invariance_run(devices_open("host:1"), &invariance_cases[c], &way, &expected);
            for (int32_t i = 0; i < COUNTS * MACHINES; i++) {
                way.micro_batches = counts[i % COUNTS];
                if (turn++ % stride()) continue;
                compare(&invariance_cases[c], &way, &expected, machines[i / COUNTS]);
                compared++;
            }
            invariance_free(&expected);
        }
    assert_int_equal(turn, 2 * invariance_case_count * COUNTS * MACHINES);
    assert_int_equal(compared, (turn + stride() - 1) / stride());
}

static void micro_batches_give_the_values_of_all_rows(void **state) {
    (void)state;
    compare_all(changing, on_gpus() ? 2 : 6);
}

static void no_rows_are_no_rows_in_micro_batches(void **state) {
    (void)state;
    compare_all(with_none, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_give_the_values_of_all_rows),
        cmocka_unit_test(no_rows_are_no_rows_in_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
