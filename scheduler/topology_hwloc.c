/* The cores of the machine from hwloc, opened at run time: its functions are called by the types of
 * the headers with which Muster was built. */
#include "topology_private.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<hwloc.h>)
#include <hwloc.h>
#define HAVE_HWLOC 1
#endif
#endif

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

static bool hwloc_refuse(mst_library_facts *facts, const char *reason) {
    snprintf(facts->text, sizeof(facts->text), "hwloc: %.400s; the cores are read from /sys/devices/system/cpu", reason);
    return false;
}

static bool hwloc_find_calls(void *library, hwloc_calls *calls, mst_library_facts *facts) {
    static const char *const names[] = {"hwloc_get_api_version",  "hwloc_topology_init",  "hwloc_topology_set_flags", "hwloc_topology_load",
                                        "hwloc_topology_destroy", "hwloc_get_type_depth", "hwloc_get_obj_by_depth",   "hwloc_bitmap_next"};
    void *found[sizeof(names) / sizeof(names[0])];
    char reason[128];
    _Static_assert(sizeof(found) == sizeof(*calls), "one name per call");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found[i] = dlsym(library, names[i]);
        if (found[i]) continue;
        snprintf(reason, sizeof(reason), "libhwloc.so.15 lacks the symbol %s", names[i]);
        return hwloc_refuse(facts, reason);
    }
    memcpy(calls, found, sizeof(found));
    const unsigned version = calls->get_api_version();
    snprintf(facts->version, sizeof(facts->version), "%u.%u.%u", version >> 16 & 255, version >> 8 & 255, version & 255);
    if (version >> 16 == HWLOC_API_VERSION >> 16) return true;
    snprintf(reason, sizeof(reason), "expected version %d, found %s", HWLOC_API_VERSION >> 16, facts->version);
    facts->version[0] = '\0';
    return hwloc_refuse(facts, reason);
}

static bool hwloc_read_cores(const hwloc_calls *calls, hwloc_topology_t topology, int32_t core_of[CPU_SETSIZE]) {
    int depth = calls->get_type_depth(topology, HWLOC_OBJ_CORE);
    if (depth < 0) return false;
    hwloc_obj_t core;
    for (unsigned i = 0; (core = calls->get_obj_by_depth(topology, depth, i)) != NULL; i++) {
        int first = calls->bitmap_next(core->cpuset, -1);
        for (int cpu = first; cpu >= 0 && cpu < CPU_SETSIZE; cpu = calls->bitmap_next(core->cpuset, cpu)) core_of[cpu] = first;
    }
    return true;
}

static bool hwloc_ask(void *library, int32_t core_of[CPU_SETSIZE], mst_library_facts *facts) {
    hwloc_calls calls;
    hwloc_topology_t topology;
    if (!hwloc_find_calls(library, &calls, facts)) return false;
    if (calls.topology_init(&topology) != 0) return hwloc_refuse(facts, "hwloc_topology_init failed");
    /* All of the machine: which part this process may use is read at each question. */
    calls.topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    const bool known = calls.topology_load(topology) == 0 && hwloc_read_cores(&calls, topology, core_of);
    calls.topology_destroy(topology);
    if (!known) return hwloc_refuse(facts, "it knows no cores of this machine");
    mst_library_found(facts, &calls.get_api_version);
    return true;
}

bool mst_topology_ask_hwloc(int32_t core_of[CPU_SETSIZE], mst_library_facts *facts) {
    /* Never unloaded: hwloc 2.7 puts a string of its own into the environment, which getenv then
     * reads for as long as the process lives. */
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *reason = dlerror();
        return hwloc_refuse(facts, reason ? reason : "libhwloc.so.15 cannot be opened");
    }
    const bool known = hwloc_ask(library, core_of, facts);
    dlclose(library);
    return known;
}
#else
bool mst_topology_ask_hwloc(int32_t core_of[CPU_SETSIZE], mst_library_facts *facts) {
    (void)core_of;
    snprintf(facts->text, sizeof(facts->text),
             "Muster was built without hwloc.h (Debian: libhwloc-dev); the cores are read from "
             "/sys/devices/system/cpu");
    return false;
}
#endif
