/* The number of logical shards: from the options, from the environment, refused, described. */
#include "base_check.h"
#include "runtime_impl.h"

#include <stdlib.h>

static muster_status open_with(const char *devices, int32_t shards, muster_runtime **runtime) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = shards;
    return muster_runtime_open(&options, runtime);
}

static void assert_shards(const char *devices, int32_t shards, int32_t expected, const char *line) {
    muster_runtime *runtime;
    assert_ok(open_with(devices, shards, &runtime));
    assert_int_equal(runtime->logical_shards, expected);
    if (!strstr(muster_runtime_description(runtime), line)) fail_msg("\"%s\" lacks \"%s\"", muster_runtime_description(runtime), line);
    assert_ok(muster_runtime_close(runtime));
}

static void test_off_by_default(void **state) {
    (void)state;
    muster_runtime *runtime;
    assert_shards("host:3", 0, 0, "\nlogical shards: off\n");
    assert_ok(muster_runtime_open(NULL, &runtime));
    assert_int_equal(runtime->logical_shards, 0);
    assert_ok(muster_runtime_close(runtime));
}

static void test_every_divisor(void **state) {
    (void)state;
    assert_shards("host:1", 8, 8, "\nlogical shards: 8, 8 on each device\n");
    assert_shards("host:2", 8, 8, "\nlogical shards: 8, 4 on each device\n");
    assert_shards("host:8", 8, 8, "\nlogical shards: 8, 1 on each device\n");
    assert_shards("host:3", 12, 12, "\nlogical shards: 12, 4 on each device\n");
}

static void test_others_are_refused_with_both_numbers(void **state) {
    (void)state;
    muster_runtime *runtime;
    const int64_t live = mst_memory_live();
    assert_refused(open_with("host:3", 8, &runtime), MUSTER_INVALID_ARGUMENT,
                   "logical_shards: expected a multiple of the number of devices, received 8 logical shards for 3 devices");
    assert_null(runtime);
    assert_refused(open_with("host:4", 2, &runtime), MUSTER_INVALID_ARGUMENT, "received 2 logical shards for 4 devices");
    assert_int_equal(mst_memory_live(), live);
}

static void test_environment(void **state) {
    (void)state;
    muster_runtime *runtime;
    setenv("MUSTER_LOGICAL_SHARDS", "6", 1);
    assert_shards("host:2", 0, 6, "\nlogical shards: 6, 3 on each device\n");
    assert_shards("host:2", 4, 4, "\nlogical shards: 4, 2 on each device\n"); /* the option goes first */
    assert_shards("host:4", -1, 0, "\nlogical shards: off\n");
    assert_refused(
        open_with("host:4", 0, &runtime), MUSTER_INVALID_ARGUMENT,
        "the environment's MUSTER_LOGICAL_SHARDS: expected a multiple of the number of devices, received 6 logical shards for 4 devices");
    setenv("MUSTER_LOGICAL_SHARDS", "0", 1);
    assert_shards("host:2", 0, 0, "\nlogical shards: off\n");
    setenv("MUSTER_LOGICAL_SHARDS", "", 1);
    assert_shards("host:2", 0, 0, "\nlogical shards: off\n");
    static const char *const bad[] = {"x", "8x", "-8", " 8", "+8", "8 ", "2147483648", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("MUSTER_LOGICAL_SHARDS", bad[i], 1);
        assert_refused(open_with("host:2", 0, &runtime), MUSTER_INVALID_ARGUMENT,
                       "MUSTER_LOGICAL_SHARDS: expected a number from 0 to 65536, received '");
        assert_shards("host:2", 8, 8, "\nlogical shards: 8, 4 on each device\n"); /* not asked */
    }
    unsetenv("MUSTER_LOGICAL_SHARDS");
}

static void test_options_of_older_programs(void **state) {
    (void)state;
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.logical_shards = 5; /* what an older program has behind its options */
    options.struct_size = offsetof(muster_runtime_options, logical_shards);
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_int_equal(runtime->logical_shards, 0);
    assert_ok(muster_runtime_close(runtime));
}

static int setup(void **state) {
    (void)state;
    unsetenv("MUSTER_DEVICES");
    return unsetenv("MUSTER_LOGICAL_SHARDS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_by_default),
        cmocka_unit_test(test_every_divisor),
        cmocka_unit_test(test_others_are_refused_with_both_numbers),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_options_of_older_programs),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
