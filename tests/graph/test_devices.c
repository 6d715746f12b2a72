/* Graphs with one meaning on one device and on many: a fixed list of graphs gives the values of one
 * device on every number of devices, for every number of rows, way of giving rows, and way of
 * compiling. One device is the oracle; what it computes is checked by other suites. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"

#include <math.h>

enum { DEVICES_MOST = 8 };

/* ---- comparing ---- */

static const int64_t changing[] = {7, 1, 64, 3, 64, 7}, with_none[] = {4, 0, 9, 0};

static invariance_way way_of(muster_dtype dtype, const int64_t *rows, int32_t calls) {
    return (invariance_way){.dtype = dtype, .rows = rows, .calls = calls};
}

static double tolerance(const invariance_case *its, muster_dtype dtype) { return its->exact ? 0 : dtype == MUSTER_F64 ? 1e-11 : 1e-5; }

/* Compares the case on these devices with one device. */
static void compare(const invariance_case *its, const invariance_way *way, const invariance_values *expected, const char *devices) {
    invariance_values values;
    invariance_run(devices_open(devices), its, way, &values);
    const double distance = invariance_distance(expected, &values);
    if (!(distance <= tolerance(its, way->dtype)))
        fail_msg("%s on %s, %s: differs from one device by %g (\"%s\", \"%s\")", its->name, devices, muster_dtype_name(way->dtype),
                 distance, expected->message, values.message);
    invariance_free(&values);
}

static const char *host_devices(int32_t count) {
    static const char *const names[] = {"host:1", "host:2", "host:3", "host:4", "host:5", "host:6", "host:7", "host:8"};
    return names[count - 1];
}
static const char *const others[] = {"discrete:2", "discrete:3", "host:1,discrete:2"};
enum { OTHERS = 3 };

static int32_t compare_all(const invariance_case *its, const invariance_way *way, uint32_t counts, bool with_others) {
    invariance_values expected;
    int32_t compared = 0;
    invariance_run(devices_open("host:1"), its, way, &expected);
    for (int32_t n = 1; n <= DEVICES_MOST; n++)
        if (counts >> n & 1) compare(its, way, &expected, host_devices(n)), compared++;
    for (int32_t o = 0; with_others && o < OTHERS; o++, compared++) compare(its, way, &expected, others[o]);
    invariance_free(&expected);
    return compared;
}

#if defined(MUSTER_TEST_SANITIZED)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif
enum { ALL_COUNTS = 0x1fe, GPU_COUNTS = 1 << 2 | 1 << 4, SOME_COUNTS = 1 << 2 | 1 << 3, MORE_COUNTS = SOME_COUNTS | 1 << 5 | 1 << 8 };

static uint32_t device_counts(void) {
    return on_gpus() ? GPU_COUNTS : test_is_full() ? ALL_COUNTS : SLOW_BUILD ? SOME_COUNTS : MORE_COUNTS;
}

static void any_number_of_devices_is_one_device(void **state) {
    int32_t compared = 0, expected = 0;
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t wide = 0; wide < 2; wide++) {
            if (!wide && !test_keeps(c, test_one_in(1, 2, 4))) continue;
            const invariance_way way = way_of(wide ? MUSTER_F64 : MUSTER_F32, changing, on_gpus() ? 3 : 6);
            compared += compare_all(&invariance_cases[c], &way, device_counts(), wide);
            expected += __builtin_popcount(device_counts()) + (wide ? OTHERS : 0);
        }
    assert_int_equal(compared, expected);
}

static void no_rows_are_no_rows_on_any_number_of_devices(void **state) {
    int32_t compared = 0, expected = 0;
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++) {
        const invariance_way way = way_of(MUSTER_F64, with_none, 4);
        compared += compare_all(&invariance_cases[c], &way, device_counts(), true);
        expected += __builtin_popcount(device_counts()) + OTHERS;
    }
    assert_int_equal(compared, expected);
}

/* ---- other ways to give rows, to want outputs, to compile ---- */

static const struct {
    const char *name;
    invariance_way way;
} ways[] = {
    {"a range of rows", {.selection = MUSTER_SELECT_RANGE}},
    {"a list of rows", {.selection = MUSTER_SELECT_LIST}},
    {"the selected rows only", {.selection = MUSTER_SELECT_LIST, .minibatch = true}},
    {"asynchronous", {.asynchronous = true}},
    {"the first output only", {.unwanted = ~1u}},
    {"all outputs but the first", {.unwanted = 1}},
    {"no outputs", {.unwanted = ~0u}},
    {"unshared memory", {.unshared = true}},
    {"unfused", {.unfused = true}},
    {"unsimplified", {.unsimplified = true}},
    {"checked", {.checked = true}},
    {"shared out for one row", {.expected_rows = 1}},
    {"shared out for a million rows", {.expected_rows = 1000000}},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* A sample: each case meets some of the ways, each way some of the cases. */
static void every_way_of_calling_gives_the_values_of_one_device(void **state) {
    int32_t compared = 0, expected = 0;
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t w = 0; w < WAYS; w++) {
            if (!test_is_full() && (c + w) % (on_gpus() || SLOW_BUILD ? 8 : 2)) continue;
            invariance_way way = ways[w].way;
            way.dtype = w % 2 ? MUSTER_F64 : MUSTER_F32;
            way.rows = changing;
            way.calls = on_gpus() ? 2 : 4;
            const uint32_t counts = on_gpus() ? 1 << 2 : test_is_full() ? ALL_COUNTS : SOME_COUNTS;
            compared += compare_all(&invariance_cases[c], &way, counts, false);
            expected += __builtin_popcount(counts);
        }
    assert_int_equal(compared, expected);
    assert_true(compared >= invariance_case_count);
}

/* The largest of no rows is refused in the same words. */
static void the_largest_of_no_rows_is_refused_in_the_same_words(void **state) {
    static const int64_t none[] = {0};
    int32_t refused = 0, wanted = 0;
    (void)state;
    for (int32_t c = 0; c < invariance_case_count; c++) {
        const invariance_way way = way_of(MUSTER_F64, none, 1);
        invariance_values one, many;
        invariance_run(devices_open("host:1"), &invariance_cases[c], &way, &one);
        wanted += invariance_cases[c].needs_rows;
        if (invariance_cases[c].needs_rows != (one.message[0] != 0)) fail_msg("%s: \"%s\"", invariance_cases[c].name, one.message);
        for (int32_t n = 2; n <= (on_gpus() ? 2 : DEVICES_MOST) && invariance_cases[c].needs_rows; n++, refused++) {
            invariance_run(devices_open(host_devices(n)), &invariance_cases[c], &way, &many);
            /* the rank at the end may be another */
            const size_t length = strstr(one.message, " (rank ") ? (size_t)(strstr(one.message, " (rank ") - one.message) : 0;
            if (strncmp(one.message, many.message, length) != 0 || !strstr(many.message + length, " (rank "))
                fail_msg("%s: \"%s\" on one device, \"%s\" on %d", invariance_cases[c].name, one.message, many.message, (int)n);
            invariance_free(&many);
        }
        invariance_free(&one);
    }
    assert_int_equal(refused, wanted * (on_gpus() ? 1 : 7));
    assert_int_equal(wanted, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_devices_is_one_device),
        cmocka_unit_test(no_rows_are_no_rows_on_any_number_of_devices),
        cmocka_unit_test(every_way_of_calling_gives_the_values_of_one_device),
        cmocka_unit_test(the_largest_of_no_rows_is_refused_in_the_same_words),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}
