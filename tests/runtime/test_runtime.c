/* Opening, describing and closing runtimes. */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "runtime_impl.h"
#include "topology_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static void assert_text_refused(const char *devices, muster_status code, const char *message) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_refused(muster_runtime_open(&options, &runtime), code, message);
    assert_null(runtime);
}

static void test_device_texts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int32_t size;
    } cases[] = {{"host:1", 1},
                 {"host:4", 4},
                 {"discrete", 1},
                 {"discrete:2", 2},
                 {"host:2,discrete:3", 5},
                 {"discrete@7", 1},
                 {"discrete@0+0+0+0", 4},
                 {"discrete@2+1,host:1,discrete:2", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_runtime *runtime = open_text(cases[i].text);
        assert_int_equal(muster_runtime_size(runtime), cases[i].size);
        assert_ok(muster_runtime_close(runtime));
    }
}

static void test_device_texts_that_cannot_be_read(void **state) {
    (void)state;
    assert_text_refused("", MUSTER_INVALID_ARGUMENT, "expected the name of a backend at position 0, received ''");
    assert_text_refused("host:", MUSTER_INVALID_ARGUMENT, "expected a count from 1 to 1024 at position 5, received 'host:'");
    assert_text_refused("host:0", MUSTER_INVALID_ARGUMENT, "at position 5");
    assert_text_refused("host:-1", MUSTER_INVALID_ARGUMENT, "at position 5");
    assert_text_refused("host:99999999999", MUSTER_INVALID_ARGUMENT, "at position 5");
    assert_text_refused("host:2x", MUSTER_INVALID_ARGUMENT, "expected a comma or the end at position 6");
    assert_text_refused("host:2,", MUSTER_INVALID_ARGUMENT, "expected the name of a backend at position 7");
    assert_text_refused("host:1024,host:1", MUSTER_INVALID_ARGUMENT, "expected at most 1024 devices");
    assert_text_refused(" host", MUSTER_INVALID_ARGUMENT, "there is no backend ' host'");
    assert_text_refused("nothing:2", MUSTER_INVALID_ARGUMENT, "devices: expected one of the backends cuda, host");
    assert_ok(muster_runtime_close(open_text("host:2")));
}

static void test_ids_name_devices(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete@2+0+2,host:1,discrete:1");
    assert_string_equal(muster_runtime_device(runtime, 0), "discrete 2");
    assert_string_equal(muster_runtime_device(runtime, 1), "discrete 0");
    assert_string_equal(muster_runtime_device(runtime, 2), "discrete 2");
    assert_string_equal(muster_runtime_device(runtime, 4), "discrete 3"); /* counts go on behind the ids */
    assert_ok(muster_runtime_close(runtime));
    assert_text_refused("discrete@", MUSTER_INVALID_ARGUMENT,
                        "expected an ordinal, a UUID or a PCI id at position 9, received 'discrete@'");
    assert_text_refused("discrete@0+", MUSTER_INVALID_ARGUMENT, "at position 11");
    assert_text_refused("discrete@0,,", MUSTER_INVALID_ARGUMENT, "at position 11");
    assert_text_refused("host@0", MUSTER_INVALID_ARGUMENT, "expected a count of host devices, which have no ids");
    /* the backend's to read, with its colons */
    assert_text_refused("discrete@0000:3b:00.0", MUSTER_INVALID_ARGUMENT, "received \"discrete:0000:3b:00.0\"");
    assert_text_refused("discrete@0000000000000000000000000000000000000000000000000000000000000000", MUSTER_INVALID_ARGUMENT,
                        "at most 63 characters");
}

/* Without a choice the devices are GPUs, or hosts and the reason. */
static void test_default_devices(void **state) {
    (void)state;
    muster_runtime *runtime = open_text(NULL);
    const char *backend = muster_runtime_device(runtime, 0);
    const bool host = strncmp(backend, "host", 4) == 0;
    const char *description = muster_runtime_description(runtime);
    assert_true(host == (strstr(description, "\nGPUs: none used, ") != NULL));
    assert_true(host == (strstr(description, "\nGPUs: driver for CUDA ") == NULL));
    for (int32_t r = 0; !host && r < muster_runtime_size(runtime); r++) {
        char line[64];
        snprintf(line, sizeof line, "\ndevice %d: cuda:%d: compute capability ", (int)r, (int)r);
        assert_non_null(strstr(description, line));
    }
    assert_ok(muster_runtime_close(runtime));
    runtime = open_text("host:1");
    assert_null(strstr(muster_runtime_description(runtime), "GPUs: none used"));
    assert_ok(muster_runtime_close(runtime));
}

static void test_registering_memory(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        int64_t locks;
    } cases[] = {{"host:2", 0}, {"discrete:1", 1}, {"discrete:2,host:1", 2}};
    static char memory[4096];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_runtime *runtime = open_text(cases[i].devices);
        assert_ok(muster_runtime_register_memory(runtime, memory + 1024, 1024));
        assert_int_equal(mst_discrete_pinned(), on_gpus() ? 0 : cases[i].locks);
        assert_refused(muster_runtime_register_memory(runtime, memory + 2047, 1), MUSTER_INVALID_ARGUMENT,
                       "of which a part is in the 1024 bytes");
        assert_refused(muster_runtime_register_memory(runtime, memory, 4096), MUSTER_INVALID_ARGUMENT,
                       "expected memory that is not registered");
        assert_refused(muster_runtime_unregister_memory(runtime, memory), MUSTER_INVALID_ARGUMENT, "expected one that is registered");
        assert_refused(muster_runtime_register_memory(runtime, NULL, 1), MUSTER_INVALID_ARGUMENT, "received NULL");
        assert_refused(muster_runtime_register_memory(runtime, memory, 0), MUSTER_INVALID_ARGUMENT, "received 0");
        assert_refused(muster_runtime_register_memory(NULL, memory, 1), MUSTER_INVALID_ARGUMENT, "runtime");
        assert_ok(muster_runtime_register_memory(runtime, memory, 1024));
        assert_ok(muster_runtime_register_memory(runtime, memory + 2048, 1));
        assert_int_equal(mst_discrete_pinned(), on_gpus() ? 0 : 3 * cases[i].locks);
        assert_ok(muster_runtime_unregister_memory(runtime, memory + 1024));
        assert_int_equal(mst_discrete_pinned(), on_gpus() ? 0 : 2 * cases[i].locks);
        assert_ok(muster_runtime_register_memory(runtime, memory + 1024, 1024));
        assert_ok(muster_runtime_close(runtime)); /* unlocks what is left */
        assert_int_equal(mst_discrete_pinned(), 0);
    }
}

static void test_memory_that_a_device_cannot_lock_is_not_registered(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: it counts the allocations of the discrete device");
    static char memory[64];
    muster_runtime *runtime = open_text("discrete:2");
    mst_memory_fail_at(2); /* the list of ranges, then the first device; the list is there the second time */
    assert_int_equal(muster_runtime_register_memory(runtime, memory, sizeof memory), MUSTER_OUT_OF_MEMORY);
    mst_memory_fail_at(2); /* the second device */
    assert_int_equal(muster_runtime_register_memory(runtime, memory, sizeof memory), MUSTER_OUT_OF_MEMORY);
    mst_memory_fail_at(0);
    assert_int_equal(mst_discrete_pinned(), 0);
    assert_ok(muster_runtime_register_memory(runtime, memory, sizeof memory));
    assert_ok(muster_runtime_close(runtime));
}

static void test_environment_names_devices(void **state) {
    (void)state;
    muster_runtime *runtime;
    setenv("MUSTER_DEVICES", "host:3", 1);
    assert_ok(muster_runtime_open(NULL, &runtime));
    assert_int_equal(muster_runtime_size(runtime), 3);
    assert_ok(muster_runtime_close(runtime));
    setenv("MUSTER_DEVICES", "host:x", 1);
    assert_refused(muster_runtime_open(NULL, &runtime), MUSTER_INVALID_ARGUMENT, "the environment's MUSTER_DEVICES");
    unsetenv("MUSTER_DEVICES");
    assert_ok(muster_runtime_open(NULL, &runtime));
    if (!on_gpus()) assert_int_equal(muster_runtime_size(runtime), mst_topology_cores(NULL, 0));
    assert_ok(muster_runtime_close(runtime));
}

static void test_options_of_other_sizes(void **state) {
    (void)state;
    struct {
        muster_runtime_options known;
        int64_t later;
    } newer = {.later = 0};
    muster_runtime *runtime;
    muster_runtime_options_init(&newer.known);
    newer.known.devices = "host:2";
    newer.known.struct_size = sizeof newer;
    assert_ok(muster_runtime_open(&newer.known, &runtime));
    assert_ok(muster_runtime_close(runtime));
    newer.later = 1;
    assert_refused(
        muster_runtime_open(&newer.known, &runtime), MUSTER_UNSUPPORTED,
        "muster_runtime_open: options: expected the 176 bytes of muster_runtime_options that this library knows, with nothing but zeros "
        "behind them, received 184 bytes with a field set at offset 176");
    newer.known.struct_size = offsetof(muster_runtime_options, spin_ns);
    assert_ok(muster_runtime_open(&newer.known, &runtime));
    assert_int_equal(muster_runtime_size(runtime), 2);
    assert_ok(muster_runtime_close(runtime));
    newer.known.struct_size = 0;
    assert_refused(muster_runtime_open(&newer.known, &runtime), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_open: options: struct_size of muster_runtime_options: expected the size of the program's struct, a "
                   "multiple of 8 up to 4096 (muster_runtime_options_init sets 176), received 0");
    newer.known.struct_size = 81; /* no struct that begins with a size_t has such a size */
    assert_refused(muster_runtime_open(&newer.known, &runtime), MUSTER_INVALID_ARGUMENT, "received 81");
    newer.known.struct_size = SIZE_MAX - 7; /* never set: nothing may be read so far away */
    assert_refused(muster_runtime_open(&newer.known, &runtime), MUSTER_INVALID_ARGUMENT, "received 18446744073709551608");
    assert_refused(muster_runtime_open(NULL, NULL), MUSTER_INVALID_ARGUMENT, "received NULL");
}

static void test_description(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:1,discrete:1");
    const char *text = muster_runtime_description(runtime);
    assert_non_null(strstr(text, "devices: 2 (host cpu "));
    assert_non_null(strstr(text, "\nBLAS: "));
    assert_non_null(strstr(text, "\ntopology: "));
    assert_non_null(strstr(text, "\nspin: "));
    assert_non_null(muster_runtime_device(runtime, 1));
    assert_null(muster_runtime_device(runtime, 2));
    assert_null(muster_runtime_device(runtime, -1));
    assert_int_equal(muster_runtime_size(NULL), -1);
    assert_null(muster_runtime_description(NULL));
    assert_ok(muster_runtime_close(runtime));
}

static const char *spin_line(muster_runtime *runtime) { return strstr(muster_runtime_description(runtime), "\nspin: ") + 1; }

static void assert_spin_line(int64_t option_ns, const char *environment, const char *expected) {
    muster_runtime_options options;
    muster_runtime *runtime = NULL;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.spin_ns = option_ns;
    unsetenv("MUSTER_SPIN_NS"); /* which the suites on simulated GPUs set */
    if (environment) setenv("MUSTER_SPIN_NS", environment, 1);
    assert_ok(muster_runtime_open(&options, &runtime));
    unsetenv("MUSTER_SPIN_NS");
    assert_memory_equal(spin_line(runtime), expected, strlen(expected));
    assert_ok(muster_runtime_close(runtime));
}

static void test_length_of_spins(void **state) {
    (void)state;
    const char *const wrong[] = {"-1", "1.5", "2ms", " 1", "+1", "x", "9223372036854775808", "1 "};
    assert_spin_line(0, NULL, "spin: at most 2000000 ns before a wait sleeps, shorter after spins in vain (default)\n");
    assert_spin_line(0, "", "spin: at most 2000000 ns before a wait sleeps, shorter after spins in vain (default)\n");
    assert_spin_line(0, "1", "spin: at most 1 ns before a wait sleeps, shorter after spins in vain (the environment's MUSTER_SPIN_NS)\n");
    assert_spin_line(0, "9223372036854775807", "spin: at most 9223372036854775807 ns before");
    assert_spin_line(0, "0", "spin: never (the environment's MUSTER_SPIN_NS)\n");
    assert_spin_line(7, "0", "spin: at most 7 ns before a wait sleeps, shorter after spins in vain (option spin_ns)\n");
    assert_spin_line(-1, "5", "spin: never (option spin_ns)\n");
    assert_spin_line(7, "x", "spin: at most 7 ns before"); /* the option goes before it, whatever it is */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[200];
        muster_runtime *runtime = NULL;
        setenv("MUSTER_SPIN_NS", wrong[i], 1);
        snprintf(message, sizeof message,
                 "muster_runtime_open: the environment's MUSTER_SPIN_NS: expected a number of nanoseconds (0: never spin), received '%s'",
                 wrong[i]);
        assert_refused(muster_runtime_open(NULL, &runtime), MUSTER_INVALID_ARGUMENT, message);
        assert_null(runtime);
    }
    unsetenv("MUSTER_SPIN_NS");
    char more[32];
    snprintf(more, sizeof more, "host:%ld", sysconf(_SC_NPROCESSORS_ONLN) + 1);
    muster_runtime *crowded = open_text(more);
    assert_memory_equal(spin_line(crowded), "spin: never (more workers than allowed CPUs", 43);
    assert_ok(muster_runtime_close(crowded));
}

/* Each runtime has one worker. On more than one core the second gets another core than the first,
 * which the third gets when the first is closed. */
static void test_runtimes_take_different_cpus(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: it is about the CPUs of workers");
    char first_name[64], second_name[64];
    muster_runtime *first = open_text("host:1"), *second = open_text("host:1");
    snprintf(first_name, sizeof first_name, "%s", muster_runtime_device(first, 0));
    snprintf(second_name, sizeof second_name, "%s", muster_runtime_device(second, 0));
    int32_t cpus[2];
    if (mst_topology_cores(cpus, 2) > 1) assert_string_not_equal(first_name, second_name);
    assert_ok(muster_runtime_close(first));
    muster_runtime *third = open_text("host:1");
    assert_string_equal(muster_runtime_device(third, 0), first_name);
    muster_runtime *refused = NULL;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.logical_shards = 2;
    options.collective_algorithm = "none such"; /* fails when the CPUs have been claimed */
    assert_refused(muster_runtime_open(&options, &refused), MUSTER_INVALID_ARGUMENT, "none such");
    assert_ok(muster_runtime_close(second));
    muster_runtime *fourth = open_text("host:1");
    assert_string_equal(muster_runtime_device(fourth, 0), second_name);
    assert_ok(muster_runtime_close(third));
    assert_ok(muster_runtime_close(fourth));
}

static void test_thousand_opens_leave_nothing(void **state) {
    (void)state;
    int64_t live = mst_memory_live();
    for (int i = 0; i < (on_gpus() ? 100 : 1000); i++) assert_ok(muster_runtime_close(open_text("host:2")));
    assert_int_equal(mst_memory_live(), live);
    assert_ok(muster_runtime_close(NULL));
}

static void test_every_failing_allocation_of_open(void **state) {
    (void)state;
    int64_t live = mst_memory_live();
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:3,discrete:1";
    int64_t refused = 0;
    for (int64_t k = 1;; k++) {
        muster_runtime *runtime;
        mst_memory_fail_at(k);
        muster_status status = muster_runtime_open(&options, &runtime);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) {
            assert_ok(muster_runtime_close(runtime));
            if (k > 60) break; /* an allocation whose failure has a fallback lets open succeed earlier */
        } else {
            assert_null(runtime);
            assert_true(muster_last_error()[0] != '\0');
            refused++;
        }
        assert_int_equal(mst_memory_live(), live);
        assert_int_equal(mst_discrete_live(), 0);
    }
    assert_true(refused >= 8);
}

static muster_status close_task(muster_worker *worker, void *argument) {
    return worker->rank == 0 ? muster_runtime_close(argument) : MUSTER_OK;
}

static void test_close_inside_a_run_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    muster_status status = mst_pool_run(runtime->pool, close_task, runtime);
    mst_pool_leave(runtime->pool);
    assert_refused(status, MUSTER_BAD_STATE, "muster_runtime_close");
    assert_ok(muster_runtime_close(runtime));
}

static void test_a_child_may_close(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    pid_t child = fork();
    if (child == 0) _exit(muster_runtime_close(runtime) == MUSTER_OK ? 0 : 1);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_ok(muster_runtime_close(runtime));
}

static void test_a_child_cannot_dump(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    pid_t child = fork();
    if (child == 0) {
        const muster_status status = muster_runtime_dump(runtime, 10);
        _exit(status == MUSTER_BAD_STATE && strstr(muster_last_error(), "muster_runtime_dump: the runtime was opened before fork") ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_ok(muster_runtime_dump(runtime, 0));
    assert_ok(muster_runtime_close(runtime));
}

static void count_line(void *user, muster_log_level level, const char *line) {
    *(int *)user += level == MUSTER_LOG_WARNING && line[0] != '\0';
}
static muster_status barrier_task(muster_worker *worker, void *argument) { return (void)argument, muster_worker_barrier(worker, NULL); }

static void test_dump(void **state) {
    (void)state;
    int lines = 0;
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.log = count_line;
    options.log_user = &lines;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    assert_ok(mst_pool_run(runtime->pool, barrier_task, NULL));
    mst_pool_leave(runtime->pool);
    assert_ok(muster_runtime_dump(runtime, 10));
    assert_true(lines >= 2);
    assert_refused(muster_runtime_dump(NULL, 1), MUSTER_INVALID_ARGUMENT, "received NULL");
    assert_refused(muster_runtime_dump(runtime, -1), MUSTER_INVALID_ARGUMENT, "received -1");
    assert_ok(muster_runtime_close(runtime));
}

static int setup(void **state) {
    (void)state;
    unsetenv("MUSTER_DEVICES");
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_texts),
        cmocka_unit_test(test_device_texts_that_cannot_be_read),
        cmocka_unit_test(test_ids_name_devices),
        cmocka_unit_test(test_default_devices),
        cmocka_unit_test(test_registering_memory),
        cmocka_unit_test(test_memory_that_a_device_cannot_lock_is_not_registered),
        cmocka_unit_test(test_environment_names_devices),
        cmocka_unit_test(test_options_of_other_sizes),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_length_of_spins),
        cmocka_unit_test(test_runtimes_take_different_cpus),
        cmocka_unit_test(test_thousand_opens_leave_nothing),
        cmocka_unit_test(test_every_failing_allocation_of_open),
        cmocka_unit_test(test_close_inside_a_run_is_refused),
        cmocka_unit_test(test_a_child_may_close),
        cmocka_unit_test(test_a_child_cannot_dump),
        cmocka_unit_test(test_dump),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
