/* The parts of topology.c that read text and folders, apart from the real machine so that tests can
 * give them others. */
#ifndef MST_TOPOLOGY_PRIVATE_H
#define MST_TOPOLOGY_PRIVATE_H

#include "library_facts_impl.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* "0-3,8\n" into set. false: not such a list. */
bool mst_topology_parse_list(const char *text, cpu_set_t *set);
/* Text of a v2 cpu.max ("150000 100000", "max 100000"): CPUs' worth of time, 0: no limit. */
double mst_topology_parse_cpu_max(const char *text);
/* The smallest limit on the way from the process's cgroup (text of /proc/self/cgroup) to the root,
 * v2 and v1, under `mount` ("/sys/fs/cgroup");
 * 0: none. */
double mst_topology_quota(const char *cgroup_text, const char *mount);
/* core_of[cpu] = the lowest CPU of the same core, for every CPU in set, from
 * <folder>/cpu<n>/topology; itself where the files are missing. */
void mst_topology_kernel_cores(const char *folder, const cpu_set_t *set, int32_t core_of[CPU_SETSIZE]);
/* The same for all CPUs from hwloc, which is opened at run time. false: it is not there, or does
 * not know; core_of is unchanged, and *facts says why. */
bool mst_topology_ask_hwloc(int32_t core_of[CPU_SETSIZE], mst_library_facts *facts);
/* One CPU of each core that has any in `allowed`, ascending, at most `limit` (0: no limit) of them.
 * Returns their number, stores `capacity`. */
int32_t mst_topology_choose(const cpu_set_t *allowed, const int32_t core_of[CPU_SETSIZE], int32_t limit, int32_t *cpus, int32_t capacity);

/* The CPUs that the calling thread may use, the core of each CPU, and the whole CPUs that the quota
 * is worth, rounded up (0: no quota). */
typedef struct mst_topology_view {
    cpu_set_t allowed;
    const int32_t *core_of; /* [CPU_SETSIZE] */
    int32_t limit;
} mst_topology_view;
void mst_topology_look(mst_topology_view *view);
/* Removes from the set the CPUs that workers of this process have claimed. */
void mst_topology_remove_claimed(cpu_set_t *set);
/* mst_topology_masks of this view, whose `allowed` are the spare CPUs alone. */
void mst_topology_divide(const mst_topology_view *view, const int32_t *cpus, int32_t count, cpu_set_t *masks);

#endif
