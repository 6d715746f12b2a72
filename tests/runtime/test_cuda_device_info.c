/* What is known about devices: those of a runtime, and those of the machine, with and without GPUs.
 * The simulated machine says what its GPUs are. */
#include "../device/cuda_fixture.h"
#include "muster/runtime.h"
#include "topology_impl.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static muster_runtime *opened_runtime(const char *devices) {
    muster_runtime *runtime;
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_device_info info_of_machine(int32_t index) {
    muster_device_info info;
    muster_device_info_init(&info);
    assert_ok(muster_device_get_info(index, &info));
    return info;
}

static muster_device_info info_of(muster_runtime *runtime, int32_t rank) {
    muster_device_info info;
    muster_device_info_init(&info);
    assert_ok(muster_runtime_get_device_info(runtime, rank, &info));
    return info;
}

static int cpus_of(const muster_device_info *info) {
    int count = 0;
    for (int i = 0; i < 16; i++) count += __builtin_popcountll(info->cpus[i]);
    return count;
}

static void assert_is_host(const muster_device_info *info, int32_t ordinal, const char *name) {
    const int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    assert_string_equal(info->backend, "host");
    assert_string_equal(info->name, name);
    assert_string_equal(info->uuid, "");
    assert_int_equal(info->ordinal, ordinal);
    assert_int_equal(info->capability_major + info->capability_minor, 0);
    assert_int_equal(info->memory_total, memory);
    assert_true(info->memory_free > 0 && info->memory_free < memory);
}

static void assert_is_gpu(const muster_device_info *info, int32_t ordinal) {
    char name[64];
    snprintf(name, sizeof name, "cuda:%d Simulated GPU", (int)ordinal);
    assert_string_equal(info->backend, "cuda");
    assert_string_equal(info->name, name);
    assert_true(strlen(info->uuid) == 40 && strncmp(info->uuid, "GPU-", 4) == 0);
    assert_int_equal(info->ordinal, ordinal);
    assert_int_equal(info->capability_major * 10 + info->capability_minor, 90);
    assert_int_equal(info->memory_total, 256 << 20);
    assert_int_equal(cpus_of(info), 0);
}

/* ---- the machine ---- */

/* GPUs first, then a host device for each core. Nothing is created, and the environment stays. */
static void the_machine_without_a_runtime(void **state) {
    (void)state;
    char **before = environ, *first = environ[0];
    int32_t cores[1], gpus = 0;
    const int32_t core_count = mst_topology_cores(cores, 1);
    for (int devices = 1; devices <= 5; devices += 2) {
        new_machine(&(muster_sim_options){.devices = devices});
        assert_int_equal(muster_device_count(), devices + core_count);
        muster_device_info infos[5];
        for (int32_t i = 0; i < devices; i++, gpus++) {
            infos[i] = info_of_machine(i);
            assert_is_gpu(&infos[i], i);
            assert_int_equal(infos[i].memory_free, -1);
            assert_string_equal(infos[i].blas, "");
            for (int32_t j = 0; j < i; j++) assert_string_not_equal(infos[i].uuid, infos[j].uuid);
        }
        assert_int_equal(muster_sim_calls("cuDevicePrimaryCtxRetain") + muster_sim_calls("cuMemGetInfo_v2"), 0);
        check_machine();
    }
    assert_int_equal(gpus, 1 + 3 + 5);
    assert_true(environ == before && environ[0] == first);
}

static void the_cores_of_the_machine(void **state) {
    (void)state;
    new_machine(&(muster_sim_options){.devices = 2});
    const int32_t core_count = muster_device_count() - 2;
    cpu_set_t allowed;
    uint64_t seen[16] = {0};
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_true(core_count >= 1 && core_count <= CPU_COUNT(&allowed));
    for (int32_t i = 0; i < core_count; i++) {
        const muster_device_info info = info_of_machine(2 + i);
        int cpu = -1;
        for (int c = 0; c < CPU_SETSIZE; c++)
            if (info.cpus[c / 64] >> c % 64 & 1) cpu = c;
        char name[64];
        snprintf(name, sizeof name, "host cpu %d", cpu);
        assert_is_host(&info, i, name);
        assert_int_equal(cpus_of(&info), 1);
        assert_true(CPU_ISSET(cpu, &allowed));
        assert_int_equal(seen[cpu / 64] >> cpu % 64 & 1, 0); /* each core once */
        seen[cpu / 64] |= (uint64_t)1 << cpu % 64;
        assert_string_equal(info.blas, "");
    }
    muster_device_info info;
    muster_device_info_init(&info);
    assert_refused(muster_device_get_info(-1, &info), MUSTER_OUT_OF_RANGE, "muster_device_get_info: index: expected 0 to ");
    assert_refused(muster_device_get_info(2 + core_count, &info), MUSTER_OUT_OF_RANGE, "index: expected 0 to ");
    assert_refused(muster_device_get_info(0, NULL), MUSTER_INVALID_ARGUMENT, "muster_device_get_info: info: ");
    info.struct_size = 3;
    assert_refused(muster_device_get_info(0, &info), MUSTER_INVALID_ARGUMENT, "struct_size of muster_device_info");
    check_machine();
}

/* As with CUDA_VISIBLE_DEVICES="": the driver has no device. */
static void a_machine_whose_gpus_are_hidden(void **state) {
    (void)state;
    int32_t cores[1];
    new_machine(NULL);
    muster_sim_inject("cuInit", 1, MST_CU_NO_DEVICE);
    assert_int_equal(muster_device_count(), mst_topology_cores(cores, 1));
    muster_sim_inject("cuInit", 1, MST_CU_NO_DEVICE);
    const muster_device_info info = info_of_machine(0);
    assert_string_equal(info.backend, "host");
}

/* ---- a runtime ---- */

static void the_gpus_of_a_runtime(void **state) {
    (void)state;
    static const int32_t ordinals[] = {2, 0, 2};
    new_machine(&(muster_sim_options){.devices = 3, .longest_delay = 20});
    muster_runtime *runtime = opened_runtime("cuda@2+0+2");
    for (int32_t rank = 0; rank < 3; rank++) {
        const muster_device_info info = info_of(runtime, rank), unopened = info_of_machine(ordinals[rank]);
        assert_is_gpu(&info, ordinals[rank]);
        assert_string_equal(info.uuid, unopened.uuid);
        assert_string_equal(info.name, muster_runtime_device(runtime, rank));
        assert_int_equal(info.memory_free, (256 << 20) - (int64_t)muster_sim_memory_used(ordinals[rank]));
        assert_true(strncmp(info.blas, "cuBLAS ", 7) == 0);
    }
    muster_sim_lose_device(0);
    const muster_device_info lost = info_of(runtime, 1);
    assert_is_gpu(&lost, 0);
    assert_int_equal(lost.memory_free, -1);
    (void)muster_runtime_close(runtime);
}

static void the_host_devices_of_a_runtime(void **state) {
    (void)state;
    new_machine(NULL);
    muster_runtime *runtime = opened_runtime("host:1,cuda@1,host:1");
    muster_device_info hosts[2];
    for (int32_t rank = 0; rank < 3; rank += 2) {
        const muster_device_info info = info_of(runtime, rank);
        assert_is_host(&info, rank / 2, muster_runtime_device(runtime, rank));
        assert_non_null(strstr(muster_runtime_description(runtime), info.blas[0] ? info.blas : "no BLAS"));
        hosts[rank / 2] = info;
    }
    /* each has its own CPU and equally many of the spare ones */
    int32_t core[1];
    const bool two_cores = mst_topology_cores(core, 1) > 1;
    for (int i = 0; i < 16 && two_cores; i++) assert_int_equal(hosts[0].cpus[i] & hosts[1].cpus[i], 0);
    for (int i = 0; i < 2; i++) assert_int_equal(cpus_of(&hosts[i]), two_cores ? mst_topology_allowed() / 2 : 1);
    const muster_device_info gpu = info_of(runtime, 1);
    assert_is_gpu(&gpu, 1);
    muster_device_info info;
    muster_device_info_init(&info);
    assert_refused(muster_runtime_get_device_info(NULL, 0, &info), MUSTER_INVALID_ARGUMENT, "runtime");
    assert_refused(muster_runtime_get_device_info(runtime, 0, NULL), MUSTER_INVALID_ARGUMENT, "info");
    assert_refused(muster_runtime_get_device_info(runtime, -1, &info), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 2, received -1");
    assert_refused(muster_runtime_get_device_info(runtime, 3, &info), MUSTER_OUT_OF_RANGE, "rank: expected 0 to 2, received 3");
    assert_ok(muster_runtime_close(runtime));
    check_machine();
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.no_pinning = 1;
    assert_ok(muster_runtime_open(&options, &runtime));
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    info = info_of(runtime, 1);
    assert_is_host(&info, 1, muster_runtime_device(runtime, 1));
    assert_int_equal(cpus_of(&info), CPU_COUNT(&allowed));
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_without_a_runtime),   cmocka_unit_test(the_cores_of_the_machine),
        cmocka_unit_test(a_machine_whose_gpus_are_hidden), cmocka_unit_test(the_host_devices_of_a_runtime),
        cmocka_unit_test(the_gpus_of_a_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
