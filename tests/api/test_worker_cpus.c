/* On which CPUs bodies run, and with them the threads that they start. */
#include "base_check.h"
#include "muster/function.h"
#include "runtime_impl.h"
#include "topology_impl.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 2 };

/* The CPUs that the thread of each rank may use, and those that the runtime says. */
typedef struct worker_cpus {
    cpu_set_t masks[RANKS], told[RANKS];
    int own[RANKS];
} worker_cpus;

static muster_status read_mask(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    worker_cpus *cpus = user;
    return sched_getaffinity(0, sizeof(cpu_set_t), &cpus->masks[muster_worker_rank(worker)]) == 0 ? MUSTER_OK : MUSTER_SYSTEM;
}

static void run_on(muster_runtime *runtime, worker_cpus *cpus) {
    muster_function *function;
    memset(cpus, 0, sizeof *cpus);
    assert_ok(muster_function_create(runtime, "masks", read_mask, cpus, &function));
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    for (int32_t rank = 0; rank < muster_runtime_size(runtime); rank++) {
        muster_device_info info;
        muster_device_info_init(&info);
        assert_ok(muster_runtime_get_device_info(runtime, rank, &info));
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (info.cpus[cpu / 64] >> cpu % 64 & 1) CPU_SET(cpu, &cpus->told[rank]);
        assert_int_equal(sscanf(info.name, "host cpu %d", &cpus->own[rank]), 1);
    }
}

static muster_runtime *opened(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static cpu_set_t own_mask(void) {
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    return mask;
}

static void rank_0_has_the_cpus_of_the_caller(void **state) {
    (void)state;
    const cpu_set_t all = own_mask();
    muster_runtime *runtime = opened("host:1");
    worker_cpus cpus;
    run_on(runtime, &cpus);
    assert_true(CPU_EQUAL(&cpus.masks[0], &all));
    assert_true(CPU_ISSET(cpus.own[0], &cpus.told[0]));
    assert_int_equal(CPU_COUNT(&cpus.told[0]), mst_topology_allowed());
    assert_ok(muster_runtime_close(runtime));
}

static void rank_1_has_its_own_cpu_and_half_of_the_spare_ones(void **state) {
    (void)state;
    const cpu_set_t all = own_mask();
    int32_t core[1];
    const bool two_cores = mst_topology_cores(core, 1) > 1;
    muster_runtime *runtime = opened("host:2");
    worker_cpus cpus;
    cpu_set_t both;
    run_on(runtime, &cpus);
    assert_true(CPU_EQUAL(&cpus.masks[0], &all));
    assert_true(CPU_EQUAL(&cpus.masks[1], &cpus.told[1]));
    assert_true(CPU_ISSET(cpus.own[1], &cpus.masks[1]));
    assert_int_equal(CPU_COUNT(&cpus.masks[1]), two_cores ? mst_topology_allowed() / 2 : 1);
    CPU_AND(&both, &cpus.told[0], &cpus.told[1]);
    assert_int_equal(CPU_COUNT(&both), two_cores ? 0 : 1);
    assert_ok(muster_runtime_close(runtime));
}

/* As under `taskset -c N`. */
static void both_ranks_have_the_only_cpu(void **state) {
    (void)state;
    const cpu_set_t all = own_mask();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t one;
        worker_cpus cpus;
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        muster_runtime *runtime = opened("host:2");
        run_on(runtime, &cpus);
        for (int32_t rank = 0; rank < RANKS; rank++) {
            assert_int_equal(cpus.own[rank], cpu);
            assert_true(CPU_EQUAL(&cpus.masks[rank], &one));
            assert_true(CPU_EQUAL(&cpus.told[rank], &one));
        }
        assert_ok(muster_runtime_close(runtime));
        assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_has_the_cpus_of_the_caller),
        cmocka_unit_test(rank_1_has_its_own_cpu_and_half_of_the_spare_ones),
        cmocka_unit_test(both_ranks_have_the_only_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
