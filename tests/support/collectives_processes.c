#include "collectives_processes.h"

#include "base_check.h"
#include "pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    _Atomic int64_t joint, alone, tasks, rows, rows_of_calls, bytes;
    _Atomic int32_t most; /* devices that a runtime or a pool was asked for */
    pid_t pid;            /* not of a child that a test forks */
    char path[4000];
} report;

bool processes_launched(void) {
    const char *asked = getenv("MUSTER_TEST_PROCESSES");
    return asked && *asked;
}

static int32_t number_of(const char *openmpi, const char *mpich, int32_t otherwise) {
    const char *text = getenv(openmpi);
    if (!processes_launched()) return otherwise;
    if (!text) text = getenv(mpich);
    return text ? (int32_t)strtol(text, NULL, 10) : otherwise;
}

int32_t processes_count(void) { return number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1); }
int32_t processes_own(void) { return number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0); }

bool processes_share(int32_t devices, int32_t *first, int32_t *count) {
    const int32_t processes = processes_count(), own = processes_own();
    for (int32_t most = report.most; most < devices && !atomic_compare_exchange_weak(&report.most, &most, devices);) {}
    *first = 0;
    *count = devices;
    if (processes == 1 || devices < processes) return false;
    const int32_t each = devices / processes, more = devices % processes;
    *first = own * each + (own < more ? own : more);
    *count = each + (own < more);
    return true;
}

/* ---- what this process has done ---- */

static void write_report(void) {
    if (report.pid != getpid()) return;
    FILE *file = fopen(report.path, "w");
    if (!file) return;
    fprintf(file, "process %d of %d: %lld joint, %lld alone, %lld tasks, %lld rows of %lld, %lld bytes sent, %d devices\n",
            (int)processes_own(), (int)processes_count(), (long long)report.joint, (long long)report.alone, (long long)report.tasks,
            (long long)report.rows, (long long)report.rows_of_calls, (long long)report.bytes, (int)report.most);
    fclose(file);
}

static __attribute__((constructor)) void begin_report(void) {
    const char *folder = getenv("MUSTER_TEST_PROCESSES_REPORT");
    if (!folder || !*folder) return;
    report.pid = getpid();
    snprintf(report.path, sizeof report.path, "%s/%d", folder, (int)processes_own());
    unsetenv("MUSTER_TEST_PROCESSES_REPORT"); /* not of programs that a test starts */
    atexit(write_report);
}

void processes_count_open(bool joint) { atomic_fetch_add(joint ? &report.joint : &report.alone, 1); }
void processes_count_rows(int64_t computed, int64_t of_call) {
    atomic_fetch_add(&report.rows, computed);
    atomic_fetch_add(&report.rows_of_calls, of_call);
}

/* The linker's option --wrap leads what the library calls here. */
void __real_mst_nodes_close(mst_nodes *nodes);
void __wrap_mst_nodes_close(mst_nodes *nodes);
muster_status __real_mst_pool_run(mst_pool *pool, mst_task task, void *argument);
muster_status __wrap_mst_pool_run(mst_pool *pool, mst_task task, void *argument);
muster_status __real_mst_pool_call(mst_pool *pool, mst_task task, void *argument);
muster_status __wrap_mst_pool_call(mst_pool *pool, mst_task task, void *argument);

void __wrap_mst_nodes_close(mst_nodes *nodes) {
    if (nodes) atomic_fetch_add(&report.bytes, atomic_load(&nodes->wire->sent_bytes));
    __real_mst_nodes_close(nodes);
}

muster_status __wrap_mst_pool_run(mst_pool *pool, mst_task task, void *argument) {
    atomic_fetch_add(&report.tasks, mst_pool_size(pool));
    return __real_mst_pool_run(pool, task, argument);
}

muster_status __wrap_mst_pool_call(mst_pool *pool, mst_task task, void *argument) {
    atomic_fetch_add(&report.tasks, mst_pool_size(pool));
    return __real_mst_pool_call(pool, task, argument);
}

#ifndef MUSTER_CMOCKA_STAND_IN
/* ---- tests of one process ---- */

int __real__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                                   CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                                   CMFixtureFunction teardown);

/* Is it a word of the text? */
static bool names(const char *text, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += length)
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

/* Without those that MUSTER_TEST_PROCESSES_SKIP names. */
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                                   CMFixtureFunction teardown) {
    const char *skipped = getenv("MUSTER_TEST_PROCESSES_SKIP");
    struct CMUnitTest kept[128];
    size_t left = 0;
    if (!skipped || !*skipped || count > 128) return __real__cmocka_run_group_tests(group, tests, count, setup, teardown);
    for (size_t i = 0; i < count; i++)
        if (!names(skipped, tests[i].name)) kept[left++] = tests[i];
    return __real__cmocka_run_group_tests(group, kept, left, setup, teardown);
}
#endif

/* ---- what tests exchange ---- */

void processes_gather(mst_nodes *nodes, void *buffer, const int64_t *bytes) {
    if (!nodes) return;
    mst_round round = {.where = "test", .text = "the test's own values", .signature = 4711, .rank = -1};
    assert_ok(mst_nodes_begin(nodes, &round));
    assert_ok(mst_nodes_all_gather(nodes, "test", buffer, bytes));
}

void processes_gather_ranks(mst_nodes *nodes, void *array, int64_t size) {
    int64_t bytes[64];
    if (!nodes) return;
    assert_true(nodes->processes <= 64);
    for (int32_t p = 0; p < nodes->processes; p++) bytes[p] = (nodes->first[p + 1] - nodes->first[p]) * size;
    processes_gather(nodes, array, bytes);
}
