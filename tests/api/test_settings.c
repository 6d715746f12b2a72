/* Options and variables of the environment that are out of range are refused, also where nothing
 * would read them: these runtimes have CPU devices only. */
#include "embedding.h"

#include <math.h>

static int cases;

static muster_status open_with(const muster_runtime_options *options) {
    muster_runtime *runtime;
    const muster_status status = muster_runtime_open(options, &runtime);
    if (status == MUSTER_OK) muster_runtime_close(runtime);
    return status;
}

static void check_variable(const char *name, const char *bad, const char *good, const char *text) {
    const muster_runtime_options options = {.struct_size = sizeof options, .devices = "host:1"};
    const char *kept = getenv(name);
    char *copy = kept ? strdup(kept) : NULL;
    setenv(name, bad, 1);
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, text);
    assert_non_null(strstr(muster_last_error(), name));
    assert_non_null(strstr(muster_last_error(), bad));
    setenv(name, good, 1);
    assert_ok(open_with(&options));
    setenv(name, "", 1);
    assert_ok(open_with(&options));
    if (copy)
        setenv(name, copy, 1);
    else
        unsetenv(name);
    free(copy);
    cases++;
}

static void test_wrong_variables_are_refused(void **state) {
    (void)state;
    cases = 0;
    check_variable("MUSTER_DEVICE_MEMORY", "64M", "1048576", "expected a number of bytes");
    check_variable("MUSTER_DEVICE_MEMORY", "-1", "0", "expected a number of bytes");
    check_variable("MUSTER_DEVICE_MEMORY", "1000000000000000000", "999999999999999999", "expected a number of bytes");
    check_variable("MUSTER_CUDA_LIBRARIES", "lib", "/nowhere", "expected an absolute path");
    check_variable("MUSTER_TF32", "yes", "1", "expected 0 or 1");
    check_variable("MUSTER_TF32", "2", "0", "expected 0 or 1");
    check_variable("MUSTER_P2P", "no", "0", "expected 0 or 1");
    check_variable("MUSTER_P2P", "2", "1", "expected 0 or 1");
    check_variable("MUSTER_OPENCL_LIBRARY", "libOpenCL.so.1", "none", "expected an absolute path or \"none\"");
    check_variable("MUSTER_OPENCL_LIBRARY", "None", "/nowhere/libOpenCL.so.1", "expected an absolute path or \"none\"");
    check_variable("MUSTER_LOGICAL_SHARDS", "65537", "65536", "from 0 to 65536");
    check_variable("MUSTER_THRESHOLDS", "/nowhere/thresholds", "/dev/null", "expected a file of thresholds");
    check_variable("MUSTER_WIRE_DTYPE", "half", "bf16", "expected f16, bf16 or f32");
    check_variable("MUSTER_WIRE_DTYPE", "f64", "f32", "expected f16, bf16 or f32");
    check_variable("MUSTER_WIRE_DTYPE", "F16", "f16", "expected f16, bf16 or f32");
    assert_int_equal(cases, 15);
}

static void test_wrong_runtime_options_are_refused(void **state) {
    (void)state;
    muster_runtime_options options = {.struct_size = sizeof options, .devices = "host:1"};
    options.keep_blas_threads = -3;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_open: options: keep_blas_threads: expected 0 or 1, received -3");
    options.keep_blas_threads = 2;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "received 2");
    options.keep_blas_threads = 1;
    options.no_pinning = 2;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "no_pinning: expected 0 or 1, received 2");
    options.no_pinning = 1;
    options.tf32 = 2;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "tf32: expected 0, 1 or a negative number, received 2");
    options.tf32 = 1;
    options.p2p = 2;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "p2p: expected 0, 1 or a negative number, received 2");
    options.p2p = -1;
    options.on_lost = 2;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT,
                   "on_lost: expected MUSTER_LOST_ABORT (0) or MUSTER_LOST_ERROR (1), received 2");
    options.on_lost = MUSTER_LOST_ERROR;
    options.mpi_communicator = -2147483648;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT,
                   "mpi_communicator: expected 1 + MPI_Comm_c2f of a communicator, which has 32 bits, or 0, received -2147483648");
    options.mpi_communicator = 2147483649;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "mpi_communicator: expected 1 + MPI_Comm_c2f of a communicator");
    options.mpi_communicator = -2147483647; /* the least handle, as MPICH's are */
    options.device_memory = 1000000000000000000;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "device_memory: expected at most 999999999999999999 bytes, received 1000");
    options.device_memory = 999999999999999999;
    static const int64_t wrong[] = {1, 15, 17, 24, 16777217, 33554432, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.recorder_events = wrong[i];
        assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT,
                       "recorder_events: expected a power of two from 16 to 16777216, 0 or a");
    }
    options.recorder_events = 0;
    options.logical_shards = 65537;
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "logical_shards: expected at most 65536, received 65537");
    options.logical_shards = 65536;
    assert_ok(open_with(&options));
    options.logical_shards = INT32_MIN;
    assert_ok(open_with(&options));
}

static void test_wrong_wire_dtypes_are_refused(void **state) {
    (void)state;
    muster_runtime_options options = {.struct_size = sizeof options, .devices = "host:1"};
    static const muster_dtype no_wire[] = {-1, MUSTER_F64, MUSTER_I8, MUSTER_BOOL, MUSTER_BOOL + 1};
    for (size_t i = 0; i < sizeof no_wire / sizeof *no_wire; i++) {
        options.wire_dtype = no_wire[i];
        assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT,
                       "muster_runtime_open: options: wire_dtype: expected MUSTER_F16, MUSTER_BF16, MUSTER_F32 or 0, received ");
    }
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_BF16; dtype++) {
        options.logical_shards = 8;
        options.wire_dtype = dtype;
        assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT,
                       "muster_runtime_open: options: wire_dtype: expected none in the reproducible mode (8 logical shards)");
        options.logical_shards = 0;
        assert_ok(open_with(&options));
    }
    options.logical_shards = 8;
    options.wire_dtype = MUSTER_F32;
    assert_ok(open_with(&options));
    options.wire_dtype = MUSTER_DTYPE_NONE;
    setenv("MUSTER_WIRE_DTYPE", "f16", 1);
    assert_refused(open_with(&options), MUSTER_INVALID_ARGUMENT, "the environment's MUSTER_WIRE_DTYPE: expected none in the reproducible");
    options.wire_dtype = MUSTER_F32; /* goes before the variable */
    assert_ok(open_with(&options));
    unsetenv("MUSTER_WIRE_DTYPE");
}

/* ---- an option goes before its variable ---- */

/* A runtime with these options, whose description has the line; with the variable set to `text`,
 * which may be wrong. */
static void check_line(const muster_runtime_options *options, const char *variable, const char *text, const char *line) {
    muster_runtime *runtime;
    setenv(variable, text, 1);
    assert_ok(muster_runtime_open(options, &runtime));
    if (!strstr(muster_runtime_description(runtime), line))
        fail_msg("%s=%s: expected the line '%s' in:\n%s", variable, text, line, muster_runtime_description(runtime));
    assert_ok(muster_runtime_close(runtime));
    unsetenv(variable);
    cases++;
}

static void test_an_option_goes_before_its_variable(void **state) {
    (void)state;
    cases = 0;
    const muster_runtime_options none = {.struct_size = sizeof none, .devices = "host:2"};
    muster_runtime_options o = none;
    o.recorder_events = 64;
    check_line(&none, "MUSTER_RECORDER_EVENTS", "32", "recorder: 32 events");
    check_line(&o, "MUSTER_RECORDER_EVENTS", "32", "recorder: 64 events");
    check_line(&o, "MUSTER_RECORDER_EVENTS", "33", "recorder: 64 events");
    o.recorder_events = -1;
    check_line(&o, "MUSTER_RECORDER_EVENTS", "32", "recorder: 0 events");
    o = none;
    o.logical_shards = 4;
    check_line(&none, "MUSTER_LOGICAL_SHARDS", "2", "logical shards: 2,");
    check_line(&o, "MUSTER_LOGICAL_SHARDS", "2", "logical shards: 4,");
    check_line(&o, "MUSTER_LOGICAL_SHARDS", "x", "logical shards: 4,");
    o.logical_shards = -1;
    check_line(&o, "MUSTER_LOGICAL_SHARDS", "2", "logical shards: off");
    o = none;
    o.devices = NULL;
    check_line(&o, "MUSTER_DEVICES", "host:3", "devices: 3 (");
    check_line(&none, "MUSTER_DEVICES", "host:3", "devices: 2 (");
    check_line(&none, "MUSTER_DEVICES", "no device", "devices: 2 (");
    assert_int_equal(cases, 11);
}

/* Close writes the file; the one that the other source names does not appear. */
static void check_trace(const char *option, const char *variable, const char *written, const char *absent) {
    muster_runtime_options o = {.struct_size = sizeof o, .devices = "host:1", .trace = option};
    if (variable) setenv("MUSTER_TRACE", variable, 1);
    assert_ok(open_with(&o));
    unsetenv("MUSTER_TRACE");
    if (written) assert_int_equal(unlink(written), 0);
    if (absent) assert_int_equal(access(absent, F_OK), -1);
    cases++;
}

static void test_traces_by_option_and_variable(void **state) {
    (void)state;
    cases = 0;
    check_trace(NULL, NULL, NULL, "by_variable.json");
    check_trace(NULL, "by_variable.json", "by_variable.json", NULL);
    check_trace("by_option.json", NULL, "by_option.json.1", NULL); /* the second runtime with a trace */
    check_trace("by_option.json", "by_variable.json", "by_option.json.2", "by_variable.json.2");
    check_trace("", "by_variable.json", NULL, "by_variable.json.3");
    assert_int_equal(cases, 5);
}

static muster_status nothing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static void test_wrong_options_of_calls_are_refused(void **state) {
    (void)state;
    embedded e;
    muster_function *f;
    muster_pending *pending;
    muster_call_options options = {.struct_size = sizeof options};
    embedded_open(&e);
    assert_ok(muster_function_create(e.runtime, "f", nothing, NULL, &f));
    options.queue_timeout_ns = -1;
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, &options), MUSTER_INVALID_ARGUMENT,
                   "muster_function_call: options: queue_timeout_ns: expected 0 (for ever) or more, received -1");
    assert_refused(muster_function_call_async(f, NULL, 0, NULL, 0, &options, &pending), MUSTER_INVALID_ARGUMENT,
                   "muster_function_call_async: options: queue_timeout_ns");
    options.queue_timeout_ns = 0;
    options.reserved = -7;
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, &options), MUSTER_INVALID_ARGUMENT, "reserved: expected 0, received -7");
    options.reserved = 0;
    assert_ok(muster_function_call(f, NULL, 0, NULL, 0, &options));
    embedded_close(&e);
}

static void test_wrong_options_of_servers_and_kernels_are_refused(void **state) {
    (void)state;
    embedded e;
    float one = 1;
    const muster_tensor value = muster_f32(&one, 1);
    muster_server *server;
    muster_client *client;
    muster_kernel *kernel;
    muster_server_options options = {.struct_size = sizeof options, .reserved = 2};
    muster_kernel_options kernel_options = {.struct_size = sizeof kernel_options, .reserved = 3};
    embedded_open(&e);
    assert_refused(muster_server_create(e.runtime, "s", &value, 1, &options, &server), MUSTER_INVALID_ARGUMENT,
                   "muster_server_create: options: reserved: expected 0, received 2");
    assert_refused(muster_kernel_create(e.runtime, "k", "KERNEL void k(ga_size n) { }", (int32_t[]){MUSTER_PARAMETER_SIZE}, 1,
                                        &kernel_options, &kernel),
                   MUSTER_INVALID_ARGUMENT, "muster_kernel_create: options: reserved: expected 0, received 3");
    assert_ok(muster_server_create(e.runtime, "s", &value, 1, NULL, &server));
    assert_ok(muster_client_open(server, &client));
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++)
        assert_refused(muster_client_send(client, 0, MUSTER_RULE_ADD_SCALED, bad[i], value, 0, NULL), MUSTER_INVALID_ARGUMENT,
                       "muster_client_send: scale: expected a finite number");
    assert_ok(muster_client_send(client, 0, MUSTER_RULE_ADD, NAN, value, 0, NULL)); /* which has no scale */
    assert_ok(muster_client_send(client, 0, MUSTER_RULE_ADD_SCALED, 0.5, value, 0, NULL));
    assert_ok(muster_client_receive(client, 0, value, NULL));
    assert_true(one == 2.5f);
    assert_ok(muster_client_close(client));
    embedded_close(&e);
}

static muster_status no_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static muster_status no_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count, double scale) {
    (void)user, (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return MUSTER_OK;
}

static void test_names_are_utf8(void **state) {
    (void)state;
    static const char *const bad[] = {"\xff", "a\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "fa\xe7on"};
    static const char good[] = "fa\xc3\xa7on \xe2\x82\xac \xf0\x9f\x98\x80";
    float x = 1;
    embedded e;
    muster_function *f, *g;
    muster_variable *v;
    muster_server *s, *other;
    muster_rule rule;
    embedded_open(&e);
    assert_ok(muster_function_create(e.runtime, "f", no_body, NULL, &f));
    assert_ok(muster_server_create(e.runtime, "s", (muster_tensor[]){muster_f32(&x, 1)}, 1, NULL, &s));
    cases = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++, cases++) {
        static const char text[] = "name: expected UTF-8, received byte 0x";
        assert_refused(muster_function_create(e.runtime, bad[i], no_body, NULL, &g), MUSTER_INVALID_ARGUMENT, text);
        assert_refused(muster_function_input(f, bad[i], MUSTER_F32, 1, MUSTER_SCATTER), MUSTER_INVALID_ARGUMENT, text);
        assert_refused(muster_function_output(f, bad[i], MUSTER_F32, 1, MUSTER_SUM), MUSTER_INVALID_ARGUMENT, text);
        assert_refused(muster_variable_create(e.runtime, bad[i], muster_f32(&x, 1), &v), MUSTER_INVALID_ARGUMENT, text);
        assert_refused(muster_runtime_name_device(e.runtime, bad[i], 0), MUSTER_INVALID_ARGUMENT, text);
        assert_refused(muster_server_add_rule(s, bad[i], no_rule, NULL, &rule), MUSTER_INVALID_ARGUMENT, text);
        assert_refused(muster_server_create(e.runtime, bad[i], (muster_tensor[]){muster_f32(&x, 1)}, 1, NULL, &other),
                       MUSTER_INVALID_ARGUMENT, text);
    }
    assert_int_equal(cases, 7);
    assert_refused(muster_function_create(e.runtime, bad[6], no_body, NULL, &g), MUSTER_INVALID_ARGUMENT,
                   "muster_function_create: name: expected UTF-8, received byte 0xe7 at position 2 of 'fa?on'");
    assert_ok(muster_function_create(e.runtime, good, no_body, NULL, &g));
    assert_ok(muster_variable_create(e.runtime, good, muster_f32(&x, 1), &v));
    assert_ok(muster_runtime_name_device(e.runtime, good, 0));
    assert_ok(muster_server_add_rule(s, good, no_rule, NULL, &rule));
    embedded_close(&e);
}

/* Must be the first: a driver that is open once stays open. */
static void test_a_device_that_cannot_be_opened_is_named(void **state) {
    (void)state;
    static const char *const lists[][2] = {
        {"cuda:1", "muster_runtime_open: devices: device 0 of 'cuda:1': the CUDA driver was not found"},
        {"cuda@0", "muster_runtime_open: devices: device 0 of 'cuda@0': the CUDA driver was not found"},
        {"host:2,cuda:1", "muster_runtime_open: devices: device 2 of 'host:2,cuda:1': the CUDA driver was not found"},
    };
    muster_runtime *runtime;
    const char *before = getenv("MUSTER_CUDA_LIBRARIES");
    char *kept = before ? strdup(before) : NULL;
    setenv("MUSTER_CUDA_LIBRARIES", "/nowhere", 1);
    cases = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++, cases++) {
        const muster_runtime_options options = {.struct_size = sizeof options, .devices = lists[i][0]};
        assert_refused(muster_runtime_open(&options, &runtime), MUSTER_UNAVAILABLE, lists[i][1]);
        assert_null(runtime);
    }
    assert_int_equal(cases, 3);
    if (kept)
        setenv("MUSTER_CUDA_LIBRARIES", kept, 1);
    else
        unsetenv("MUSTER_CUDA_LIBRARIES");
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_that_cannot_be_opened_is_named),
        cmocka_unit_test(test_names_are_utf8),
        cmocka_unit_test(test_wrong_variables_are_refused),
        cmocka_unit_test(test_wrong_runtime_options_are_refused),
        cmocka_unit_test(test_wrong_wire_dtypes_are_refused),
        cmocka_unit_test(test_an_option_goes_before_its_variable),
        cmocka_unit_test(test_traces_by_option_and_variable),
        cmocka_unit_test(test_wrong_options_of_calls_are_refused),
        cmocka_unit_test(test_wrong_options_of_servers_and_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
