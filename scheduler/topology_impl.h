/* The CPUs that this process may use. */
#ifndef MST_TOPOLOGY_IMPL_H
#define MST_TOPOLOGY_IMPL_H

#include <stdint.h>

/* cores: one logical CPU per allowed physical core (hwloc opened at run time, else the kernel's
 * files), cut to the cgroup quota. cpus[capacity] out. Returns the number of cores (>= 1). allowed:
 * number of logical CPUs (affinity and quota). */
int32_t mst_topology_cores(int32_t *cpus, int32_t capacity);
int32_t mst_topology_allowed(void);
const char *mst_topology_source(void); /* "hwloc 2.9.0" or "kernel" */

#endif
