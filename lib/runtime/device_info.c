/* What is known about devices: of an open runtime, and of the machine. */
#include "device_list_private.h"
#include "options_impl.h"
#include "runtime_impl.h"
#include "topology_impl.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BITS = 64, WORDS = sizeof((muster_device_info *)0)->cpus / sizeof(uint64_t) };

/* Like snprintf with "%s", and a text that is too long is cut. */
static void info_copy(char *to, size_t size, const char *text) { snprintf(to, size, "%.*s", (int)size - 1, text); }

static void info_add_cpu(muster_device_info *info, int32_t cpu) {
    if (cpu >= 0 && cpu / WORD_BITS < WORDS) info->cpus[cpu / WORD_BITS] |= (uint64_t)1 << cpu % WORD_BITS;
}

/* As far as the struct has bits for them. */
static void info_add_cpus(muster_device_info *info, const cpu_set_t *set) {
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, set)) info_add_cpu(info, cpu);
}

/* The CPUs that the process may use. */
static void info_add_allowed(muster_device_info *info) {
    cpu_set_t allowed;
    if (sched_getaffinity(getpid(), sizeof allowed, &allowed) == 0) info_add_cpus(info, &allowed);
}

/* The memory of the machine: the two lines of the kernel's file, which counts in KiB (proc(5)). */
static void info_read_memory(muster_device_info *info) {
    char line[128];
    long long kib;
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %lld kB", &kib) == 1) info->memory_total = 1024 * kib;
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) info->memory_free = 1024 * kib;
    }
    fclose(file);
}

static muster_device_info info_make(const mst_device_table *table, int32_t ordinal) {
    muster_device_info info = {.struct_size = sizeof info, .ordinal = ordinal, .memory_total = -1, .memory_free = -1};
    info_copy(info.backend, sizeof info.backend, table->backend);
    return info;
}

/* cpu: -1 for a device that is not pinned. */
static void info_of_host(muster_device_info *info, int32_t cpu) {
    info_read_memory(info);
    if (cpu >= 0)
        info_add_cpu(info, cpu);
    else
        info_add_allowed(info);
}

/* device: NULL if it is not open. */
static muster_status info_of_hardware(muster_device_info *info, const mst_device_table *table, mst_device *device) {
    mst_device_facts facts;
    MUSTER_TRY(table->hardware->get_facts(info->ordinal, device, &facts));
    info_copy(info->name, sizeof info->name, facts.name);
    info_copy(info->uuid, sizeof info->uuid, facts.uuid);
    info_copy(info->blas, sizeof info->blas, facts.blas);
    info->memory_total = facts.memory_total;
    info->memory_free = facts.memory_free;
    info->capability_major = facts.major;
    info->capability_minor = facts.minor;
    return MUSTER_OK;
}

/* ---- of a runtime ---- */

/* The place of a device without hardware of its own among those of its backend. */
static int32_t info_place(const muster_runtime *runtime, int32_t rank) {
    int32_t place = 0;
    for (int32_t r = 0; r < rank; r++) place += runtime->devices[r]->table == runtime->devices[rank]->table;
    return place;
}

static muster_status info_of_rank(const muster_runtime *runtime, int32_t rank, muster_device_info *info) {
    mst_device *device = runtime->devices[rank];
    const mst_device_table *table = device->table;
    *info = info_make(table, table->hardware ? table->hardware->ordinal(device) : info_place(runtime, rank));
    if (table->hardware) MUSTER_TRY(info_of_hardware(info, table, device));
    if (!table->hardware) info_of_host(info, runtime->cpu_masks ? device->cpu : -1);
    if (!table->hardware && runtime->cpu_masks) info_add_cpus(info, &runtime->cpu_masks[rank]);
    if (mst_device_is_host(device)) info_copy(info->blas, sizeof info->blas, mst_blas_get()->description);
    info_copy(info->name, sizeof info->name, device->name);
    return MUSTER_OK;
}

muster_status muster_runtime_get_device_info(muster_runtime *runtime, int32_t rank, muster_device_info *info) {
    static const char where[] = "muster_runtime_get_device_info";
    muster_device_info known;
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    if (!info) return mst_error_null(where, "info", "the address of a struct");
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    int32_t local;
    muster_status status = mst_runtime_local_rank(runtime, rank, where, "rank", &local);
    if (status == MUSTER_OK) status = info_of_rank(runtime, local, &known);
    mst_pool_leave(runtime->pool);
    return status == MUSTER_OK ? mst_result_write(where, "info", "muster_device_info", &known, sizeof known, info) : status;
}

/* ---- of the machine ---- */

/* The devices of one backend, which a runtime could open. */
static int32_t info_count(const mst_device_table *table) {
    mst_device_probe found;
    if (table == &mst_host_device_table) {
        int32_t cores[1];
        return mst_topology_cores(cores, 1);
    }
    if (!table->hardware) return 0;
    table->hardware->probe(&found);
    return found.count;
}

int32_t muster_device_count(void) {
    int32_t count = 0;
    const mst_device_table *table;
    for (int32_t place = 0; (table = mst_device_backend(place)); place++) count += info_count(table);
    return count;
}

static muster_status info_of_core(int32_t ordinal, const char *where, muster_device_info *info) {
    const int64_t bytes = (ordinal + (int64_t)1) * (int64_t)sizeof(int32_t);
    int32_t *cores = mst_alloc((size_t)bytes);
    if (!cores) return mst_out_of_memory(where, bytes);
    const int32_t count = mst_topology_cores(cores, ordinal + 1);
    const int32_t cpu = ordinal < count ? cores[ordinal] : -1; /* -1: the affinity has changed meanwhile */
    mst_free(cores);
    info_of_host(info, cpu);
    snprintf(info->name, sizeof info->name, cpu >= 0 ? "host cpu %d" : "host", (int)cpu);
    return MUSTER_OK;
}

muster_status muster_device_get_info(int32_t index, muster_device_info *info) {
    static const char where[] = "muster_device_get_info";
    const mst_device_table *table;
    int32_t before = 0;
    if (!info) return mst_error_null(where, "info", "the address of a struct");
    for (int32_t place = 0; index >= 0 && (table = mst_device_backend(place)); place++) {
        const int32_t count = info_count(table);
        if (index - before < count) {
            muster_device_info known = info_make(table, index - before);
            MUSTER_TRY(table->hardware ? info_of_hardware(&known, table, NULL) : info_of_core(known.ordinal, where, &known));
            return mst_result_write(where, "info", "muster_device_info", &known, sizeof known, info);
        }
        before += count;
    }
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %" PRId32 ", received %" PRId32, where, muster_device_count() - 1,
                     index);
}
