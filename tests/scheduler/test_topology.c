/* Topology: lists, quotas and cores, from text and folders that the tests write. */
#include "topology_private.h"

#include "topology_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/muster-topology-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    return system(command);
}

static void write_file(const char *path, const char *text) {
    char file_path[512], command[700];
    snprintf(file_path, sizeof(file_path), "%s/%s", root, path);
    snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s')\"", file_path);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(file_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void lists_of_cpus_are_read(void **state) {
    (void)state;
    cpu_set_t set;
    assert_true(mst_topology_parse_list("0-2,8\n", &set));
    assert_int_equal(CPU_COUNT(&set), 4);
    assert_true(CPU_ISSET(8, &set) && CPU_ISSET(2, &set) && !CPU_ISSET(3, &set));
    assert_true(mst_topology_parse_list("5", &set));
    assert_int_equal(CPU_COUNT(&set), 1);
    assert_true(mst_topology_parse_list("0-100000", &set));
    assert_int_equal(CPU_COUNT(&set), CPU_SETSIZE);
}

static void lists_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "x", "3-", "3-1", "1,,2", "1;2", "-4"};
    cpu_set_t set;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) assert_false(mst_topology_parse_list(bad[i], &set));
}

static void cpu_max_is_read(void **state) {
    (void)state;
    assert_true(mst_topology_parse_cpu_max("150000 100000\n") == 1.5);
    assert_true(mst_topology_parse_cpu_max("200000") == 2);
    assert_true(mst_topology_parse_cpu_max("max 100000\n") == 0);
    assert_true(mst_topology_parse_cpu_max("") == 0);
    assert_true(mst_topology_parse_cpu_max("100000 0") == 0);
}

static void the_smallest_quota_up_to_the_root_counts(void **state) {
    (void)state;
    write_file("v2/a/cpu.max", "300000 100000\n");
    write_file("v2/a/b/cpu.max", "max 100000\n");
    write_file("v2/a/b/c/cpu.max", "800000 100000\n");
    char mount[128];
    snprintf(mount, sizeof(mount), "%s/v2", root);
    assert_true(mst_topology_quota("0::/a/b/c\n", mount) == 3);
    assert_true(mst_topology_quota("0::/\n", mount) == 0);
    assert_true(mst_topology_quota("0::/not/here\n", mount) == 0);
}

static void the_quota_of_a_container_lies_in_the_mount_itself(void **state) {
    (void)state;
    write_file("inside/cpu.max", "250000 100000\n");
    char mount[128];
    snprintf(mount, sizeof(mount), "%s/inside", root);
    assert_true(mst_topology_quota("0::/docker/0123\n", mount) == 2.5);
}

static void quotas_of_version_1_are_read(void **state) {
    (void)state;
    write_file("v1/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
    write_file("v1/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    write_file("v1/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_file("v1/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    char mount[128];
    snprintf(mount, sizeof(mount), "%s/v1", root);
    assert_true(mst_topology_quota("3:cpuset:/job\n1:cpu,cpuacct:/job\n", mount) == 0.5);
    assert_true(mst_topology_quota("3:cpuset:/job\n1:cpu,cpuacct:/\n", mount) == 0);
    assert_true(mst_topology_quota("3:cpuset:/job\n", mount) == 0);
}

static void siblings_share_a_core(void **state) {
    (void)state;
    write_file("cpu/cpu0/topology/thread_siblings_list", "0,2\n");
    write_file("cpu/cpu1/topology/thread_siblings_list", "1,3\n");
    write_file("cpu/cpu2/topology/thread_siblings_list", "0,2\n");
    write_file("cpu/cpu3/topology/thread_siblings_list", "1,3\n");
    char folder[128];
    snprintf(folder, sizeof(folder), "%s/cpu", root);
    cpu_set_t all;
    memset(&all, 255, sizeof(all));
    int32_t core_of[CPU_SETSIZE];
    mst_topology_kernel_cores(folder, &all, core_of);
    assert_int_equal(core_of[0], 0);
    assert_int_equal(core_of[2], 0);
    assert_int_equal(core_of[3], 1);
    assert_int_equal(core_of[4], 4); /* no file: a core of its own */
}

static void one_cpu_of_each_allowed_core_is_chosen(void **state) {
    (void)state;
    int32_t core_of[CPU_SETSIZE], cpus[4] = {-1, -1, -1, -1};
    for (int32_t i = 0; i < CPU_SETSIZE; i++) core_of[i] = i % 4; /* 4 cores, 2 threads each, CPUs 0 to 7 */
    cpu_set_t allowed;
    assert_true(mst_topology_parse_list("1-6", &allowed));
    assert_int_equal(mst_topology_choose(&allowed, core_of, 0, cpus, 4), 4);
    static const int32_t expected[] = {1, 2, 3, 4}; /* core 0 through its second thread */
    assert_memory_equal(cpus, expected, sizeof(expected));
    assert_int_equal(mst_topology_choose(&allowed, core_of, 2, cpus, 4), 2);
    assert_int_equal(mst_topology_choose(&allowed, core_of, 0, cpus, 0), 4);
}

static void this_machine_has_cores(void **state) {
    (void)state;
    int32_t cpus[CPU_SETSIZE];
    int32_t cores = mst_topology_cores(cpus, CPU_SETSIZE);
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    assert_true(cores >= 1 && cores <= mst_topology_allowed());
    for (int32_t i = 0; i < cores; i++) assert_true(CPU_ISSET(cpus[i], &allowed));
    const char *source = mst_topology_source();
    assert_true(strncmp(source, "hwloc 2.", 8) == 0 || strcmp(source, "kernel") == 0);
}

static void affinity_limits_the_cores(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    int32_t cpus[CPU_SETSIZE], cores = mst_topology_cores(cpus, CPU_SETSIZE), last = cpus[cores - 1];
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    int32_t allowed = mst_topology_allowed(), left = mst_topology_cores(cpus, CPU_SETSIZE);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(allowed, 1);
    assert_int_equal(left, 1);
    assert_int_equal(cpus[0], last);
}

/* ---- claims: the CPUs of several runtimes ---- */

static const int32_t four_cores[] = {8, 2, 5, 3};

static void claim(int32_t *cpus, int32_t count) {
    for (int32_t i = 0; i < count; i++) cpus[i] = four_cores[i % 4];
    mst_topology_claim(four_cores, 4, cpus, count);
}

static void claims_of_several_runtimes_take_free_cpus_first(void **state) {
    (void)state;
    int32_t a[2], b[1], c[2], d[4], e[2];
    claim(a, 2);
    assert_memory_equal(a, ((int32_t[]){8, 2}), sizeof a);
    claim(b, 1);
    assert_memory_equal(b, ((int32_t[]){5}), sizeof b);
    claim(c, 2); /* one is free, then they are shared in order */
    assert_memory_equal(c, ((int32_t[]){3, 8}), sizeof c);
    mst_topology_release(b, 1);
    claim(d, 4); /* 5 has no claim, 2 and 3 have one, 8 has two */
    assert_memory_equal(d, ((int32_t[]){5, 2, 3, 8}), sizeof d);
    mst_topology_release(a, 2);
    mst_topology_release(d, 4);
    claim(e, 2); /* c has 3 and 8 */
    assert_memory_equal(e, ((int32_t[]){2, 5}), sizeof e);
    mst_topology_release(c, 2);
    mst_topology_release(e, 2);
    claim(a, 2);
    assert_memory_equal(a, ((int32_t[]){8, 2}), sizeof a);
    mst_topology_release(a, 2);
}

static void workers_that_are_not_pinned_claim_nothing(void **state) {
    (void)state;
    int32_t none[3] = {-1, -1, -1}, mixed[3] = {-1, 8, -1}, after[1];
    mst_topology_claim(four_cores, 4, none, 3);
    assert_memory_equal(none, ((int32_t[]){-1, -1, -1}), sizeof none);
    mst_topology_claim(four_cores, 4, mixed, 3);
    assert_memory_equal(mixed, ((int32_t[]){-1, 8, -1}), sizeof mixed);
    claim(after, 1);
    assert_int_equal(after[0], 2);
    mst_topology_release(after, 1);
    mst_topology_release(mixed, 3);
    mst_topology_release(none, 3);
    claim(after, 1);
    assert_int_equal(after[0], 8);
    mst_topology_release(after, 1);
}

static void several_workers_on_each_cpu_claim_it_as_often(void **state) {
    (void)state;
    int32_t eight[8], one[1], two[1];
    claim(one, 1);
    claim(eight, 8);
    assert_memory_equal(eight, ((int32_t[]){2, 5, 3, 8, 2, 5, 3, 8}), sizeof eight);
    mst_topology_release(one, 1);
    claim(two, 1);
    assert_int_equal(two[0], 8);
    mst_topology_release(two, 1);
    mst_topology_release(eight, 8);
}

/* The last CPU that a set can name, and one above it, which no table has. */
static void cpus_at_the_end_of_the_set_are_claimed_too(void **state) {
    (void)state;
    const int32_t cores[] = {CPU_SETSIZE, CPU_SETSIZE - 1, 0};
    int32_t last[1] = {CPU_SETSIZE - 1}, again[1] = {CPU_SETSIZE - 1};
    mst_topology_claim(cores + 1, 2, last, 1);
    assert_int_equal(last[0], CPU_SETSIZE - 1);
    mst_topology_claim(cores + 1, 2, again, 1);
    assert_int_equal(again[0], 0);
    mst_topology_release(last, 1);
    mst_topology_release(again, 1);
    int32_t beyond[1] = {CPU_SETSIZE};
    mst_topology_claim(cores, 3, beyond, 1);
    assert_int_equal(beyond[0], CPU_SETSIZE);
    mst_topology_release(beyond, 1);
}

/* ---- shares: the CPUs of a worker beside its own ---- */

enum { MASKS = 4, LAST_CPU = CPU_SETSIZE - 1 };

/* CPU c is on core c % cores. -2 ends the workers' CPUs. "" is an empty set. */
typedef struct mask_case {
    const char *spare;
    int32_t cores, limit;
    int32_t cpus[MASKS];
    const char *masks[MASKS];
} mask_case;

static const mask_case mask_cases[] = {
    /* a thread on each core: equally many spare CPUs for each worker, and what is left over for
     * none */
    {"", CPU_SETSIZE, 0, {0, 1, -2}, {"0", "1"}},
    {"2", CPU_SETSIZE, 0, {0, 1, -2}, {"0", "1"}},
    {"2,3", CPU_SETSIZE, 0, {0, 1, -2}, {"0,2", "1,3"}},
    {"2-7", CPU_SETSIZE, 0, {0, 1, -2}, {"0,2-4", "1,5-7"}},
    {"3-7", CPU_SETSIZE, 0, {0, 1, 2, -2}, {"0,3", "1,4", "2,5"}},
    {"1-7", CPU_SETSIZE, 0, {0, -2}, {"0-7"}},
    /* several threads on each core: first those of the worker's own core, then whole cores */
    {"4-7", 4, 0, {0, 1, 2, 3}, {"0,4", "1,5", "2,6", "3,7"}},
    {"2-7", 4, 0, {0, 1, -2}, {"0,4,2,6", "1,5,3,7"}},
    {"3-7", 2, 0, {0, 1, 2, -2}, {"0,4", "1,3", "2,6"}},
    {"5,6", 4, 0, {0, 1, -2}, {"0,6", "1,5"}},
    /* a quota counts the workers' own CPUs */
    {"2-7", CPU_SETSIZE, 1, {0, 1, -2}, {"0", "1"}},
    {"2-7", CPU_SETSIZE, 2, {0, 1, -2}, {"0", "1"}},
    {"2-7", CPU_SETSIZE, 3, {0, 1, -2}, {"0", "1"}},
    {"2-7", CPU_SETSIZE, 4, {0, 1, -2}, {"0,2", "1,3"}},
    {"2-7", CPU_SETSIZE, 8, {0, 1, -2}, {"0,2-4", "1,5-7"}},
    {"2-7", CPU_SETSIZE, 9, {0, 1, -2}, {"0,2-4", "1,5-7"}},
    /* several workers on a CPU, workers that are not pinned, and the ends of the set */
    {"6,7", CPU_SETSIZE, 0, {5, 5, -2}, {"5,6", "5,7"}},
    {"0-2", CPU_SETSIZE, 0, {-1, 3, CPU_SETSIZE, -2}, {"", "0-3", ""}},
    {"0-2", CPU_SETSIZE, 0, {-1, CPU_SETSIZE, -2}, {"", ""}},
    {"0,1022", CPU_SETSIZE, 0, {LAST_CPU, -2}, {"0,1022,1023"}},
    {"1023", CPU_SETSIZE, 0, {0, -2}, {"0,1023"}},
};

static void parse_set(const char *text, cpu_set_t *set) {
    CPU_ZERO(set);
    if (text[0]) assert_true(mst_topology_parse_list(text, set));
}

static void spare_cpus_are_divided_evenly(void **state) {
    (void)state;
    int32_t checked = 0;
    for (size_t i = 0; i < sizeof mask_cases / sizeof *mask_cases; i++) {
        const mask_case *c = &mask_cases[i];
        int32_t core_of[CPU_SETSIZE], count = 0;
        cpu_set_t masks[MASKS], expected;
        for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) core_of[cpu] = cpu % c->cores;
        while (count < MASKS && c->cpus[count] != -2) count++;
        mst_topology_view view = {.core_of = core_of, .limit = c->limit};
        parse_set(c->spare, &view.allowed);
        mst_topology_divide(&view, c->cpus, count, masks);
        for (int32_t worker = 0; worker < count; worker++, checked++) {
            parse_set(c->masks[worker], &expected);
            if (!CPU_EQUAL(&masks[worker], &expected)) fail_msg("case %d: worker %d: expected %s", (int)i, (int)worker, c->masks[worker]);
        }
    }
    assert_int_equal(checked, 44);
}

/* A runtime beside others of the process may use what none of them has claimed. */
static void claimed_cpus_are_not_spare(void **state) {
    (void)state;
    cpu_set_t allowed, mask;
    int32_t all[CPU_SETSIZE], own[CPU_SETSIZE], one[1], cpus = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed)) all[cpus++] = cpu;
    one[0] = all[0];
    mst_topology_claim(all, cpus, one, 1);
    mst_topology_masks(one, 1, &mask);
    assert_true(CPU_ISSET(one[0], &mask));
    assert_int_equal(CPU_COUNT(&mask), mst_topology_allowed());
    memcpy(own, all, sizeof own);
    mst_topology_claim(all, cpus, own, cpus);
    mst_topology_masks(one, 1, &mask);
    assert_true(CPU_ISSET(one[0], &mask));
    assert_int_equal(CPU_COUNT(&mask), 1);
    mst_topology_release(own, cpus);
    mst_topology_release(one, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_cpus_are_read),
        cmocka_unit_test(lists_that_are_none_are_refused),
        cmocka_unit_test(cpu_max_is_read),
        cmocka_unit_test(the_smallest_quota_up_to_the_root_counts),
        cmocka_unit_test(the_quota_of_a_container_lies_in_the_mount_itself),
        cmocka_unit_test(quotas_of_version_1_are_read),
        cmocka_unit_test(siblings_share_a_core),
        cmocka_unit_test(one_cpu_of_each_allowed_core_is_chosen),
        cmocka_unit_test(this_machine_has_cores),
        cmocka_unit_test(affinity_limits_the_cores),
        cmocka_unit_test(claims_of_several_runtimes_take_free_cpus_first),
        cmocka_unit_test(workers_that_are_not_pinned_claim_nothing),
        cmocka_unit_test(several_workers_on_each_cpu_claim_it_as_often),
        cmocka_unit_test(cpus_at_the_end_of_the_set_are_claimed_too),
        cmocka_unit_test(spare_cpus_are_divided_evenly),
        cmocka_unit_test(claimed_cpus_are_not_spare),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
