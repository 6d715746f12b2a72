/* Which GPUs there are, which is meant, and what opening and closing leave. */
#include "cuda/cublas_api_private.h"
#include "cuda/nvrtc_api_private.h"
#include "cuda_fixture.h"
#include "foreign_impl.h"

/* Must be the first: what is open once stays open. */
static void without_the_driver_there_is_a_reason(void **state) {
    (void)state;
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    char kept[4096];
    assert_non_null(folder);
    snprintf(kept, sizeof kept, "%s", folder);
    setenv("MUSTER_CUDA_LIBRARIES", "/nowhere", 1);
    mst_device_probe found = {.count = -1};
    mst_device *device = NULL;
    (void)mst_error(MUSTER_INTERNAL, "what was said before");
    mst_cuda_device_table.hardware->probe(&found);
    assert_int_equal(found.count, 0);
    assert_non_null(strstr(found.reason, "the CUDA driver was not found: tried libcuda.so.1 in /nowhere"));
    assert_string_equal(muster_last_error(), "what was said before");
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device), MUSTER_UNAVAILABLE, "the CUDA driver was not found");
    assert_null(device);
    setenv("MUSTER_CUDA_LIBRARIES", kept, 1);
}

static void all_are_counted(void **state) {
    (void)state;
    mst_device_probe found = {.reason = "none"};
    new_machine(&(muster_sim_options){.devices = 5});
    mst_cuda_device_table.hardware->probe(&found);
    assert_int_equal(found.count, 5);
    assert_string_equal(found.reason, "");
}

static void a_failing_cuInit_is_a_reason(void **state) {
    (void)state;
    mst_device_probe found = {.count = -1};
    new_machine(NULL);
    muster_sim_inject("cuInit", 1, MST_CU_NO_DEVICE);
    mst_cuda_device_table.hardware->probe(&found);
    assert_int_equal(found.count, 0);
    assert_non_null(strstr(found.reason, "cuInit: expected success, received CUDA_ERROR_NO_DEVICE (100: "));
}

/* The service MPS that cannot be had, a fabric that is not up (802), a GPU that the administrator
 * has closed: the GPUs cannot be used here, and none is lost. */
static void what_a_process_may_not_use_is_unavailable(void **state) {
    (void)state;
    mst_device *device = NULL;
    mst_device_probe found = {.count = -1};
    for (int code = MST_CU_MPS_CONNECTION_FAILED; code <= MST_CU_MPS_MAX_CONNECTIONS_REACHED; code++) {
        new_machine(NULL);
        muster_sim_inject("cuDevicePrimaryCtxRetain", 1, code);
        assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device), MUSTER_UNAVAILABLE,
                       "cuDevicePrimaryCtxRetain: expected success, received CUDA_ERROR_MPS_");
        closed(opened("0"));
        check_machine();
    }
    new_machine(NULL);
    muster_sim_inject("cuInit", 1, MST_CU_SYSTEM_NOT_READY);
    mst_cuda_device_table.hardware->probe(&found);
    assert_int_equal(found.count, 0);
    assert_non_null(strstr(found.reason, "CUDA_ERROR_SYSTEM_NOT_READY (802: "));
    new_machine(&(muster_sim_options){.prohibited = true});
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device), MUSTER_UNAVAILABLE,
                   "cuda:0: cuDevicePrimaryCtxRetain: expected a GPU that processes may use, received one in the compute mode");
    check_machine();
}

/* A real library beside the simulated driver. */
static void real_beside_simulated_is_refused(void **state) {
    (void)state;
    typedef struct functions {
        double (*cos)(double x);
    } functions;
#define MST_FOREIGN_STRUCT functions
    const mst_foreign_symbol symbols[] = {MST_FOREIGN_NEEDED(double, cos, (double))};
    const char *const sonames[] = {"libm.so.6"};
    const mst_foreign_library library = {"the mathematics", sonames, 1, symbols, 1};
    functions found = {0};
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", getenv("MUSTER_CUDA_LIBRARIES"));
    (void)driver();
    assert_true(mst_foreign_simulated());
    unsetenv("MUSTER_CUDA_LIBRARIES");
    assert_refused(mst_foreign_open(&library, &found), MUSTER_UNAVAILABLE,
                   "the mathematics: libm.so.6 is real, but the CUDA driver that this process has opened is simulated");
    setenv("MUSTER_CUDA_LIBRARIES", kept, 1);
    assert_null(found.cos);
}

static void uuid_text_as(const char *prefix, int ordinal, char text[64]) {
    mst_cu_uuid uuid;
    mst_cu_device device;
    assert_int_equal(driver()->cuDeviceGet(&device, ordinal), 0);
    assert_int_equal(driver()->cuDeviceGetUuid_v2(&uuid, device), 0);
    char *end = text + sprintf(text, "%s-", prefix);
    for (int i = 0; i < 16; i++)
        end += sprintf(end, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
}

static void uuid_text(int ordinal, char text[64]) { uuid_text_as("GPU", ordinal, text); }

static void a_device_is_found_by_ordinal_uuid_and_pci_id(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 8});
    (void)driver();
    for (int i = 0; i < 8; i++) {
        int32_t ordinal = -1;
        char text[64];
        snprintf(text, sizeof text, "%d", i);
        assert_ok(mst_cuda_find(text, &ordinal));
        assert_int_equal(ordinal, i);
        uuid_text(i, text);
        assert_ok(mst_cuda_find(text, &ordinal));
        assert_int_equal(ordinal, i);
        assert_int_equal(driver()->cuDeviceGetPCIBusId(text, sizeof text, i), 0);
        assert_ok(mst_cuda_find(text, &ordinal));
        assert_int_equal(ordinal, i);
    }
}

static void ids_that_name_none_are_refused(void **state) {
    (void)state;
    int32_t ordinal = 0;
    new_machine(&(muster_sim_options){.devices = 2});
    const char *const wrong[] = {"",
                                 "x",
                                 "-1",
                                 "1x",
                                 " 1",
                                 "GPU",
                                 "GPU-",
                                 "GPU-00000000-0000-0000-0000-000000000000",
                                 "MIG",
                                 "MIG-",
                                 "MIG-0000",
                                 "MIG-GPU-0000",
                                 "0000:ff:00.0",
                                 "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_refused(mst_cuda_find(wrong[i], &ordinal), MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected");
        assert_int_equal(ordinal, -1);
    }
    assert_refused(mst_cuda_find("2", &ordinal), MUSTER_OUT_OF_RANGE, "expected a GPU from 0 to 1, received \"2\"");
}

static void a_beginning_of_several_uuids_is_refused(void **state) {
    (void)state;
    char text[64];
    int32_t ordinal = 0;
    new_machine(&(muster_sim_options){.devices = 8});
    uuid_text(3, text);
    text[30] = '\0';
    assert_ok(mst_cuda_find(text, &ordinal));
    assert_int_equal(ordinal, 3);
    new_machine(&(muster_sim_options){.devices = 1});
    text[5] = '\0'; /* one digit: of one device it tells enough, if it is that device's */
    uuid_text(0, text);
    text[5] = '\0';
    assert_ok(mst_cuda_find(text, &ordinal));
}

/* As nvidia-smi names an instance, and as a program names it that knows only the 16 bytes. */
static void a_mig_instance_is_found_by_either_prefix(void **state) {
    (void)state;
    static const char *const prefixes[] = {"MIG", "GPU", "mig", "gpu"};
    int cases = 0;
    new_machine(&(muster_sim_options){.devices = 3, .mig_instances = 2});
    (void)driver();
    for (int ordinal = 0; ordinal < 3; ordinal++) {
        for (int i = 0; i < 4; i++, cases++) {
            char text[64];
            int32_t found = -1;
            uuid_text_as(prefixes[i], ordinal, text);
            assert_ok(mst_cuda_find(text, &found));
            assert_int_equal(found, ordinal);
            text[25] = '\0'; /* a beginning that no other has */
            assert_ok(mst_cuda_find(text, &found));
            assert_int_equal(found, ordinal);
        }
    }
    assert_int_equal(cases, 12);
}

static void the_instances_of_a_gpu_are_not_told_apart_by_pci_id(void **state) {
    (void)state;
    int32_t found = -1;
    new_machine(&(muster_sim_options){.devices = 3, .mig_instances = 2});
    (void)driver();
    assert_refused(mst_cuda_find("0000:11:00.0", &found), MUSTER_INVALID_ARGUMENT,
                   "expected the PCI id of one device, received \"0000:11:00.0\", which 2 MIG instances share");
    assert_int_equal(found, -1);
    assert_ok(mst_cuda_find("0000:33:00.0", &found));
    assert_int_equal(found, 2);
    new_machine(&(muster_sim_options){.devices = 2, .mig_instances = 1}); /* the one that the process sees */
    (void)driver();
    assert_ok(mst_cuda_find("0000:11:00.0", &found));
    assert_int_equal(found, 0);
}

static void a_mig_instance_says_that_it_is_one(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 3, .mig_instances = 2});
    (void)driver();
    for (int i = 0; i < 3; i++) {
        mst_device_facts facts;
        char text[64];
        uuid_text_as(i < 2 ? "MIG" : "GPU", i, text);
        assert_ok(mst_cuda_get_facts(i, NULL, &facts));
        assert_string_equal(facts.uuid, text);
        assert_int_equal(strstr(facts.name, "MIG 1g.5gb") != NULL, i < 2);
    }
    mst_device *a = opened("0"), *b = opened("1"), *c = opened("2");
    bool reached = true;
    assert_ok(a->table->code->peer_access(a, b, &reached));
    assert_false(reached);
    reached = true;
    assert_ok(c->table->code->peer_access(c, a, &reached));
    assert_false(reached);
    closed(a);
    closed(b);
    closed(c);
    check_machine();
}

static void an_open_device_says_what_it_is(void **state) {
    (void)state;
    new_machine(NULL);
    mst_device *device = opened("1");
    assert_string_equal(device->name, "cuda:1 Simulated GPU");
    assert_int_equal(device->cpu, -1);
    assert_int_equal(device->physical, 2);
    assert_false(mst_device_is_host(device));
    assert_int_equal(mst_cuda_ordinal(device), 1);
    assert_non_null(mst_cuda_stream(device));
    assert_non_null(mst_cuda_blas(device));
    closed(device);
    check_machine();
}

/* ---- old GPUs ---- */

static const char too_old[] = "cuda:0 (Simulated GPU): expected a GPU of compute capability 7.0 or later, received one of ";

static void check_open_of(int capability, muster_status expected, const char *words) {
    mst_device *device = NULL;
    new_machine(&(muster_sim_options){.devices = 1, .capability = {capability}});
    const muster_status status = mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device);
    if (expected != MUSTER_OK) {
        assert_refused(status, expected, words);
        assert_int_equal(muster_sim_calls("nvrtcCompileProgram"), 0);
    } else {
        assert_ok(status);
        closed(device);
    }
    check_machine();
}

static void a_gpu_that_is_too_old_is_refused_before_anything_is_made(void **state) {
    mst_device_probe found;
    (void)state;
    check_open_of(35, MUSTER_UNSUPPORTED, "received one of 3.5");
    check_open_of(62, MUSTER_UNSUPPORTED, too_old);
    assert_int_equal(muster_sim_calls("cuDevicePrimaryCtxRetain"), 0);
    (void)mst_error(MUSTER_INTERNAL, "what was said before");
    mst_cuda_probe(&found);
    assert_int_equal(found.count, 0);
    assert_non_null(strstr(found.reason, too_old));
    assert_string_equal(muster_last_error(), "what was said before");
    check_open_of(70, MUSTER_UNSUPPORTED, "use an older one (NVRTC 12 for 7.0 and 7.2)"); /* by this NVRTC, which is 13 */
    check_open_of(75, MUSTER_OK, NULL);
    check_open_of(121, MUSTER_OK, NULL);
}

/* CUDA lists the fastest first. */
static void old_gpus_behind_others_are_left_out_unless_they_are_asked_for(void **state) {
    mst_device_probe found;
    mst_device *device = NULL;
    char notice[MST_MESSAGE_SIZE];
    (void)state;
    new_machine(&(muster_sim_options){.devices = 3, .capability = {90, 75, 61}});
    (void)mst_error(MUSTER_INTERNAL, "what was said before");
    for (int round = 0; round < 2; round++) {
        mst_cuda_probe(&found);
        assert_int_equal(found.count, 2);
    }
    assert_string_equal(muster_last_error(), "what was said before");
    assert_true(mst_cuda_take_notice(notice));
    assert_non_null(strstr(notice, "cuda:2 (Simulated GPU): expected a GPU of compute capability 7.0 or later, received one of 6.1"));
    assert_false(mst_cuda_take_notice(notice)); /* said once */
    assert_refused(mst_cuda_device_table.open(&mst_cuda_device_table, "2", &device), MUSTER_UNSUPPORTED, "received one of 6.1");
    check_machine();
}

static void the_description_names_versions_and_memory(void **state) {
    (void)state;
    char text[192];
    new_machine(&(muster_sim_options){.devices = 1});
    setenv("MUSTER_DEVICE_MEMORY", "8388608", 1);
    mst_device *device = opened("0");
    unsetenv("MUSTER_DEVICE_MEMORY");
    mst_cuda_describe_libraries(device, text, sizeof text);
    assert_string_equal(text, "driver for CUDA 13.0 (lazy loading), cuBLAS 13.0.0, NVRTC 13.0, cuDNN 9.19.0, all simulated");
    mst_cuda_describe_device(device, text, sizeof text);
    assert_string_equal(text, "cuda:0: compute capability 9.0, 4 multiprocessors, 8 MiB of device memory reserved and 4 MiB for cuBLAS");
    (void)mst_error(MUSTER_INTERNAL, "what was said before");
    muster_sim_inject("cublasGetVersion_v2", 1, MST_CUBLAS_INTERNAL_ERROR);
    muster_sim_inject("nvrtcVersion", 1, MST_NVRTC_INTERNAL_ERROR);
    muster_sim_inject("cuModuleGetLoadingMode", 1, MST_CU_UNKNOWN);
    mst_cuda_describe_libraries(device, text, sizeof text);
    assert_string_equal(text,
                        "driver for CUDA 13.0, cuBLAS of an unknown version, NVRTC of an unknown version, cuDNN 9.19.0, all simulated");
    assert_string_equal(muster_last_error(), "what was said before");
    closed(device);
    check_machine();
}

static void virtual_devices_share_a_gpu_and_nothing_else(void **state) {
    (void)state;
    new_machine(NULL);
    mst_device *devices[4];
    for (int i = 0; i < 4; i++) devices[i] = opened("0");
    for (int i = 1; i < 4; i++) {
        assert_int_equal(devices[i]->physical, devices[0]->physical);
        assert_ptr_not_equal(mst_cuda_stream(devices[i]), mst_cuda_stream(devices[0]));
        assert_ptr_not_equal(mst_cuda_blas(devices[i]), mst_cuda_blas(devices[0]));
    }
    for (int i = 0; i < 4; i++) closed(devices[(i + 1) % 4]);
    check_machine();
}

static void the_callers_context_is_left_alone(void **state) {
    (void)state;
    new_machine(NULL);
    const mst_cuda_api *api = driver();
    mst_cu_context mine = NULL, now = NULL;
    assert_int_equal(api->cuDevicePrimaryCtxRetain(&mine, 1), 0);
    assert_int_equal(api->cuCtxSetCurrent(mine), 0);
    mst_device *device = opened("0");
    int value = 42;
    void *place = allocated(device, sizeof value);
    assert_ok(device->memory->copy_in(device, place, &value, sizeof value));
    assert_ok(device->table->synchronize(device));
    assert_int_equal(api->cuCtxGetCurrent(&now), 0);
    assert_ptr_equal(now, mine);
    closed(device);
    assert_int_equal(api->cuCtxGetCurrent(&now), 0);
    assert_ptr_equal(now, mine);
    assert_int_equal(api->cuCtxSetCurrent(NULL), 0);
    assert_int_equal(api->cuDevicePrimaryCtxRelease_v2(1), 0);
    check_machine();
}

static void enter_makes_the_context_current_until_leave(void **state) {
    (void)state;
    new_machine(NULL);
    mst_device *device = opened("1");
    mst_cu_context inside = NULL, after = NULL;
    assert_ok(device->queue->enter(device));
    assert_ok(device->queue->enter(device));
    assert_int_equal(driver()->cuCtxGetCurrent(&inside), 0);
    assert_non_null(inside);
    assert_ok(device->queue->leave(device));
    assert_int_equal(driver()->cuCtxGetCurrent(&after), 0);
    assert_ptr_equal(after, inside);
    assert_ok(device->queue->leave(device));
    assert_int_equal(driver()->cuCtxGetCurrent(&after), 0);
    assert_null(after);
    assert_ok(device->queue->enter(device));
    muster_sim_inject("cuCtxPopCurrent_v2", 1, MST_CU_OUT_OF_MEMORY);
    assert_refused(device->queue->leave(device), MUSTER_OUT_OF_MEMORY, "cuCtxPopCurrent_v2");
    closed(device);
    check_machine();
}

static void every_allocation_of_open_can_fail(void **state) {
    (void)state;
    new_machine(NULL);
    mst_device *device = NULL;
    int32_t k = 1;
    for (;; k++) {
        mst_memory_fail_at(k);
        muster_status status = mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) break;
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        assert_null(device);
        check_machine();
    }
    assert_true(k > 2);
    closed(device);
    check_machine();
}

/* Codes that are no success and do not spoil the context, by library. */
static int failure_of(const char *library) {
    return strcmp(library, "cublas") == 0 ? 14 : strcmp(library, "nvrtc") == 0 ? 11 : MST_CU_OPERATING_SYSTEM;
}

/* The k-th call of the symbol fails. True: there was one. What only tidies up, or only tells more,
 * may fail unseen. */
static bool open_with_failure(const char *symbol, const char *library, uint64_t k) {
    static const char *const unseen[] = {"cuCtxPopCurrent_v2", "cuMemGetInfo_v2",  "cuStreamQuery",
                                         "cuGetErrorName",     "cuGetErrorString", "cuCtxSetCurrent"};
    mst_device *device = NULL;
    new_machine(NULL);
    (void)driver();
    muster_sim_inject(symbol, k, failure_of(library));
    muster_status status = mst_cuda_device_table.open(&mst_cuda_device_table, "0", &device);
    bool met = muster_sim_injected() > 0;
    muster_sim_inject_clear();
    if (status == MUSTER_OK) {
        bool may_be_unseen = !met || strncmp(symbol, "cuMemFree", 9) == 0;
        may_be_unseen |= strcmp(symbol, "cuThreadExchangeStreamCaptureMode") == 0 && k > 1; /* putting the mode back is tried again */
        for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) may_be_unseen |= strcmp(symbol, unseen[i]) == 0;
        if (!may_be_unseen) fail_msg("call %d of %s failed, and open did not", (int)k, symbol);
        closed(device);
    } else if (!met || !strstr(muster_last_error(), symbol) || device) {
        fail_msg("call %d of %s: \"%s\"", (int)k, symbol, muster_last_error());
    }
    check_machine();
    return met;
}

static void every_call_of_open_can_fail(void **state) {
    (void)state;
    new_machine(NULL);
    closed(opened("0")); /* all libraries are open, and their symbols known */
    int32_t tried = 0;
    const char *library = NULL;
    for (int i = 0; muster_sim_symbol(i, &library); i++) {
        uint64_t k = 1;
        while (open_with_failure(muster_sim_symbol(i, &library), library, k)) k++;
        tried += (int32_t)k - 1;
    }
    print_message("%d calls\n", (int)tried);
    assert_int_equal(tried, 53); /* every call of open to a library */
}

/* What a device that works does to end is done in full, whatever the driver says. */
static void every_call_of_close_can_fail(void **state) {
    (void)state;
    const char *library = NULL;
    for (int i = 0; muster_sim_symbol(i, &library); i++) {
        for (uint64_t k = 1;; k++) {
            new_machine(NULL);
            mst_device *device = opened("0");
            muster_sim_inject(muster_sim_symbol(i, NULL), k, failure_of(library));
            uint64_t before = muster_sim_injected();
            closed(device);
            bool met = muster_sim_injected() > before;
            muster_sim_inject_clear();
            check_machine();
            if (!met) break;
        }
    }
}

static void blocking_launches_of_several_gpus_are_told_once(void **state) {
    (void)state;
    char notice[MST_MESSAGE_SIZE];
    new_machine(&(muster_sim_options){.devices = 2});
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    mst_device *a = opened("0"), *b = opened("1");
    unsetenv("CUDA_LAUNCH_BLOCKING");
    assert_true(mst_cuda_take_notice(notice));
    assert_non_null(strstr(notice, "CUDA_LAUNCH_BLOCKING=1"));
    assert_false(mst_cuda_take_notice(notice));
    closed(a);
    closed(b);
    check_machine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_driver_there_is_a_reason),
        cmocka_unit_test(all_are_counted),
        cmocka_unit_test(a_failing_cuInit_is_a_reason),
        cmocka_unit_test(what_a_process_may_not_use_is_unavailable),
        cmocka_unit_test(real_beside_simulated_is_refused),
        cmocka_unit_test(a_device_is_found_by_ordinal_uuid_and_pci_id),
        cmocka_unit_test(ids_that_name_none_are_refused),
        cmocka_unit_test(a_beginning_of_several_uuids_is_refused),
        cmocka_unit_test(a_mig_instance_is_found_by_either_prefix),
        cmocka_unit_test(the_instances_of_a_gpu_are_not_told_apart_by_pci_id),
        cmocka_unit_test(a_mig_instance_says_that_it_is_one),
        cmocka_unit_test(an_open_device_says_what_it_is),
        cmocka_unit_test(a_gpu_that_is_too_old_is_refused_before_anything_is_made),
        cmocka_unit_test(old_gpus_behind_others_are_left_out_unless_they_are_asked_for),
        cmocka_unit_test(the_description_names_versions_and_memory),
        cmocka_unit_test(virtual_devices_share_a_gpu_and_nothing_else),
        cmocka_unit_test(the_callers_context_is_left_alone),
        cmocka_unit_test(enter_makes_the_context_current_until_leave),
        cmocka_unit_test(every_allocation_of_open_can_fail),
        cmocka_unit_test(every_call_of_open_can_fail),
        cmocka_unit_test(every_call_of_close_can_fail),
        cmocka_unit_test(blocking_launches_of_several_gpus_are_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
