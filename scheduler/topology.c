/* Which CPUs this process may use: physical cores from hwloc (opened at run time) or from the
 * kernel's files, affinity, and the quota of the control group. Which CPUs share a core is read
 * once in the process; affinity and quota are read each time, as they may change. */
#include "topology_private.h"

#include "own_thread_impl.h"
#include "topology_impl.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<hwloc.h>)
#include <hwloc.h>
#define HAVE_HWLOC 1
#endif
#endif

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

/* ---- hwloc ---- */

static struct {
    int32_t core_of[CPU_SETSIZE];
    char source[32];
} machine;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

#ifdef HAVE_HWLOC
typedef struct hwloc_calls {
    unsigned (*get_api_version)(void);
    int (*topology_init)(hwloc_topology_t *);
    int (*topology_set_flags)(hwloc_topology_t, unsigned long);
    int (*topology_load)(hwloc_topology_t);
    void (*topology_destroy)(hwloc_topology_t);
    int (*get_type_depth)(hwloc_topology_t, hwloc_obj_type_t);
    hwloc_obj_t (*get_obj_by_depth)(hwloc_topology_t, int, unsigned);
    int (*bitmap_next)(hwloc_const_bitmap_t, int);
} hwloc_calls;

static bool find_calls(void *library, hwloc_calls *calls) {
    static const char *const names[] = {"hwloc_get_api_version",  "hwloc_topology_init",  "hwloc_topology_set_flags", "hwloc_topology_load",
                                        "hwloc_topology_destroy", "hwloc_get_type_depth", "hwloc_get_obj_by_depth",   "hwloc_bitmap_next"};
    void *found[sizeof(names) / sizeof(names[0])];
    _Static_assert(sizeof(found) == sizeof(*calls), "one name per call");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found[i] = dlsym(library, names[i]);
        if (!found[i]) return false;
    }
    memcpy(calls, found, sizeof(found));
    return calls->get_api_version() >> 16 == HWLOC_API_VERSION >> 16;
}

static bool read_cores(const hwloc_calls *calls, hwloc_topology_t topology) {
    int depth = calls->get_type_depth(topology, HWLOC_OBJ_CORE);
    if (depth < 0) return false;
    hwloc_obj_t core;
    for (unsigned i = 0; (core = calls->get_obj_by_depth(topology, depth, i)) != NULL; i++) {
        int first = calls->bitmap_next(core->cpuset, -1);
        for (int cpu = first; cpu >= 0 && cpu < CPU_SETSIZE; cpu = calls->bitmap_next(core->cpuset, cpu)) machine.core_of[cpu] = first;
    }
    return true;
}

static bool ask_hwloc(void *library) {
    hwloc_calls calls;
    hwloc_topology_t topology;
    if (!find_calls(library, &calls) || calls.topology_init(&topology) != 0) return false;
    /* All of the machine: which part this process may use is read at each question. */
    calls.topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    bool known = calls.topology_load(topology) == 0 && read_cores(&calls, topology);
    calls.topology_destroy(topology);
    unsigned version = calls.get_api_version();
    if (known) snprintf(machine.source, sizeof(machine.source), "hwloc %u.%u.%u", version >> 16 & 255, version >> 8 & 255, version & 255);
    return known;
}

static bool open_hwloc(void) {
    /* Never unloaded: hwloc 2.7 puts a string of its own into the environment, which getenv then
     * reads for as long as the process lives. */
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return false;
    bool known = ask_hwloc(library);
    dlclose(library);
    return known;
}
#else
static bool open_hwloc(void) { return false; }
#endif

static muster_status try_hwloc(void *known) {
    *(bool *)known = open_hwloc();
    return MUSTER_OK;
}

/* hwloc runs on a thread of its own: its plugins need a large stack, and may start threads. */
static void read_machine(void) {
    bool known = false;
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) machine.core_of[cpu] = cpu;
    (void)mst_own_thread_run(try_hwloc, &known, "muster_runtime_open: hwloc");
    if (known) return;
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
