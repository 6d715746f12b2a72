/* The CPUs that this process may use. */
#ifndef MST_TOPOLOGY_IMPL_H
#define MST_TOPOLOGY_IMPL_H

#include "library_facts_impl.h"

#include <sched.h>
#include <stdint.h>

/* Fills cpus[capacity] with one logical CPU of each physical core that the process may use, at most
 * as many as the cgroup's quota allows, and returns the number of these cores (1 or more). The
 * cores come from hwloc, which is opened at run time, or else from the kernel's files. */
int32_t mst_topology_cores(int32_t *cpus, int32_t capacity);
/* The number of logical CPUs that the affinity mask and the quota allow. */
int32_t mst_topology_allowed(void);
/* Claims a CPU of this process for each of `count` workers, and writes it to cpus[i]. On entry
 * cpus[i] is the CPU of cores[core_count] that the worker would have in a process without other
 * claims, or -1 for a worker that is not pinned. The CPUs with the fewest claims are taken first,
 * in the order of `cores`. Threads: any. */
void mst_topology_claim(const int32_t *cores, int32_t core_count, int32_t *cpus, int32_t count);
/* Gives back what claim has written. Threads: any. */
void mst_topology_release(const int32_t *cpus, int32_t count);
/* The CPUs of which each worker may use several, for the threads that its task starts. cpus[count]
 * is what claim has written. masks[i] becomes cpus[i] and the spare CPUs of worker i: those of the
 * process that no worker of any runtime has claimed, equally many for each worker, those of its own
 * core first. Empty for a worker that is not pinned. Threads: any. */
void mst_topology_masks(const int32_t *cpus, int32_t count, cpu_set_t *masks);
const char *mst_topology_source(void); /* "hwloc 2.9.0" or "kernel" */
/* As the functions of library_facts_impl.h. */
void mst_topology_get_hwloc_facts(mst_library_facts *facts);

#endif
