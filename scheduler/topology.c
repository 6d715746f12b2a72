/* Which CPUs this process may use: physical cores from hwloc (opened at run time) or from the
 * kernel's files, affinity, and the quota of the control group. Which CPUs share a core is read
 * once in the process; affinity and quota are read each time, as they may change. */
#include "topology_private.h"

#include "own_thread_impl.h"
#include "topology_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 4096 };

/* ---- text ---- */

bool mst_topology_parse_list(const char *text, cpu_set_t *set) {
    CPU_ZERO(set);
    for (;;) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text || first < 0) return false;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text || last < first) return false;
        }
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) CPU_SET((int)cpu, set);
        if (*end == '\0' || *end == '\n') return true;
        if (*end != ',') return false;
        text = end + 1;
    }
}

static double cpus_of(double quota, double period) { return quota > 0 && period > 0 ? quota / period : 0; }

double mst_topology_parse_cpu_max(const char *text) {
    double quota, period = 100000; /* the kernel's default */
    if (sscanf(text, "%lf %lf", &quota, &period) < 1) return 0;
    return cpus_of(quota, period);
}

/* ---- files ---- */

/* Replaces `text`, the path of a file, by what the file holds: one buffer serves for both, since
 * the caller's stack may be small. */
static bool read_text(char text[TEXT_SIZE]) {
    FILE *file = fopen(text, "re");
    if (!file) return false;
    size_t length = fread(text, 1, TEXT_SIZE - 1, file);
    text[length] = '\0';
    fclose(file);
    return length > 0;
}

static bool read_file(const char *folder, const char *name, char text[TEXT_SIZE]) {
    return snprintf(text, TEXT_SIZE, "%s/%s", folder, name) < TEXT_SIZE && read_text(text);
}

static double folder_quota(const char *folder, bool v2) {
    char text[TEXT_SIZE];
    if (v2) return read_file(folder, "cpu.max", text) ? mst_topology_parse_cpu_max(text) : 0;
    double quota, period;
    if (!read_file(folder, "cpu.cfs_quota_us", text) || sscanf(text, "%lf", &quota) != 1) return 0;
    if (!read_file(folder, "cpu.cfs_period_us", text) || sscanf(text, "%lf", &period) != 1) return 0;
    return cpus_of(quota, period);
}

static double smaller_quota(double a, double b) {
    if (a == 0) return b;
    return b == 0 || a < b ? a : b;
}

/* From the group up to the mount. A group's path may be the host's, which a container does not see:
 * its missing folders limit nothing. */
static double quota_upwards(const char *mount, const char *below, const char *group, int length, bool v2) {
    char folder[TEXT_SIZE];
    if (snprintf(folder, sizeof(folder), "%s%s%.*s", mount, below, length, group) >= (int)sizeof(folder)) return 0;
    double quota = 0;
    for (size_t root = strlen(mount) + strlen(below);;) {
        quota = smaller_quota(quota, folder_quota(folder, v2));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < root) return quota;
        *slash = '\0';
    }
}

/* Is "cpu" among the controllers, which commas separate? */
static bool has_cpu(const char *controllers, const char *end) {
    while (controllers < end) {
        const size_t length = strcspn(controllers, ",:");
        if (length == 3 && strncmp(controllers, "cpu", 3) == 0) return true;
        controllers += length + 1;
    }
    return false;
}

/* A line is "number:controllers:group"; v2 has no controllers. */
static double quota_of_line(const char *line, int length, const char *mount) {
    static const char *const v2_mounts[] = {"", "/unified"}, *const v1_mounts[] = {"/cpu", "/cpu,cpuacct"};
    const char *controllers = memchr(line, ':', (size_t)length), *end = line + length;
    const char *colon = controllers ? memchr(controllers + 1, ':', (size_t)(end - controllers - 1)) : NULL;
    if (!colon) return 0;
    const bool v2 = colon == controllers + 1;
    if (!v2 && !has_cpu(controllers + 1, colon)) return 0;
    double quota = 0;
    for (int32_t i = 0; i < 2; i++) {
        const char *below = v2 ? v2_mounts[i] : v1_mounts[i];
        quota = smaller_quota(quota, quota_upwards(mount, below, colon + 1, (int)(end - colon - 1), v2));
    }
    return quota;
}

double mst_topology_quota(const char *cgroup_text, const char *mount) {
    double quota = 0;
    while (*cgroup_text) {
        const size_t length = strcspn(cgroup_text, "\n");
        quota = smaller_quota(quota, quota_of_line(cgroup_text, (int)length, mount));
        cgroup_text += length + (cgroup_text[length] == '\n');
    }
    return quota;
}

void mst_topology_kernel_cores(const char *folder, const cpu_set_t *set, int32_t core_of[CPU_SETSIZE]) {
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        core_of[cpu] = cpu;
        char text[TEXT_SIZE];
        cpu_set_t siblings;
        if (!CPU_ISSET(cpu, set)) continue;
        if (snprintf(text, sizeof(text), "%s/cpu%d/topology/thread_siblings_list", folder, (int)cpu) >= (int)sizeof(text)) continue;
        if (!read_text(text) || !mst_topology_parse_list(text, &siblings)) continue;
        for (int32_t other = 0; other < cpu; other++) {
            if (!CPU_ISSET(other, &siblings)) continue;
            core_of[cpu] = other;
            break;
        }
    }
}

int32_t mst_topology_choose(const cpu_set_t *allowed, const int32_t core_of[CPU_SETSIZE], int32_t limit, int32_t *cpus, int32_t capacity) {
    cpu_set_t taken;
    CPU_ZERO(&taken);
    int32_t count = 0;
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed) || CPU_ISSET(core_of[cpu], &taken)) continue;
        if (limit > 0 && count == limit) break;
        CPU_SET(core_of[cpu], &taken);
        if (count < capacity) cpus[count] = cpu;
        count++;
    }
    return count;
}

/* ---- the machine ---- */

static struct {
    int32_t core_of[CPU_SETSIZE];
    char source[32];
    mst_library_facts hwloc;
} machine;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

static muster_status try_hwloc(void *known) {
    *(bool *)known = mst_topology_ask_hwloc(machine.core_of, &machine.hwloc);
    return MUSTER_OK;
}

/* hwloc runs on a thread of its own: its plugins need a large stack, and may start threads. */
static void read_machine(void) {
    bool known = false;
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) machine.core_of[cpu] = cpu;
    if (mst_own_thread_run(try_hwloc, &known, "muster_runtime_open: hwloc") != MUSTER_OK) mst_library_missing(&machine.hwloc);
    if (known) {
        snprintf(machine.source, sizeof(machine.source), "hwloc %.20s", machine.hwloc.version);
        return;
    }
    cpu_set_t all;
    memset(&all, 255, sizeof(all));
    mst_topology_kernel_cores("/sys/devices/system/cpu", &all, machine.core_of);
    snprintf(machine.source, sizeof(machine.source), "kernel");
}

/* ---- this process ---- */

static void allowed_cpus(cpu_set_t *set) {
    if (sched_getaffinity(0, sizeof(*set), set) == 0) return;
    /* More CPUs than the set has room for: the first ones serve. */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    CPU_ZERO(set);
    for (int32_t cpu = 0; cpu < online && cpu < CPU_SETSIZE; cpu++) CPU_SET(cpu, set);
}

/* Whole CPUs that the quota is worth, rounded up, at least 1; 0: no quota. */
static int32_t quota_limit(void) {
    char text[TEXT_SIZE] = "/proc/self/cgroup";
    if (!read_text(text)) return 0;
    double quota = mst_topology_quota(text, "/sys/fs/cgroup");
    return quota > 0 && quota < CPU_SETSIZE ? (int32_t)ceil(quota) : 0;
}

void mst_topology_look(mst_topology_view *view) {
    pthread_once(&machine_once, read_machine);
    allowed_cpus(&view->allowed);
    view->core_of = machine.core_of;
    view->limit = quota_limit();
}

int32_t mst_topology_cores(int32_t *cpus, int32_t capacity) {
    mst_topology_view view;
    mst_topology_look(&view);
    const int32_t cores = mst_topology_choose(&view.allowed, view.core_of, view.limit, cpus, capacity);
    return cores > 0 ? cores : 1;
}

int32_t mst_topology_allowed(void) {
    cpu_set_t allowed;
    allowed_cpus(&allowed);
    int32_t count = CPU_COUNT(&allowed), limit = quota_limit();
    if (limit > 0 && limit < count) count = limit;
    return count > 0 ? count : 1;
}

const char *mst_topology_source(void) {
    pthread_once(&machine_once, read_machine);
    return machine.source;
}

void mst_topology_get_hwloc_facts(mst_library_facts *facts) {
    pthread_once(&machine_once, read_machine);
    *facts = machine.hwloc;
}
