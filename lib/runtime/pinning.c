/* Which CPUs the workers of a runtime are pinned to, beside other runtimes of the process. */
#include "device_list_private.h"
#include "runtime_impl.h"
#include "topology_impl.h"

#include <unistd.h>

muster_status mst_runtime_claim_cpus(muster_runtime *runtime, const int32_t *cores, int32_t core_count, mst_device_request *requests,
                                     int32_t count) {
    const int64_t bytes = count * (int64_t)sizeof(int32_t);
    runtime->claimed_cpus = mst_alloc((size_t)bytes);
    if (!runtime->claimed_cpus) return mst_out_of_memory("muster_runtime_open: the CPUs of the workers", bytes);
    const int64_t mask_bytes = count * (int64_t)sizeof(cpu_set_t);
    runtime->cpu_masks = mst_alloc((size_t)mask_bytes);
    if (!runtime->cpu_masks) return mst_out_of_memory("muster_runtime_open: the CPUs of the workers", mask_bytes);
    for (int32_t i = 0; i < count; i++) runtime->claimed_cpus[i] = requests[i].cpu;
    mst_topology_claim(cores, core_count, runtime->claimed_cpus, count);
    runtime->claimed_count = count;
    mst_topology_masks(runtime->claimed_cpus, count, runtime->cpu_masks);
    for (int32_t i = 0; i < count; i++) requests[i].cpu = runtime->claimed_cpus[i];
    return MUSTER_OK;
}

/* In a child after fork the workers of the parent still use them. */
void mst_runtime_release_cpus(muster_runtime *runtime) {
    if (runtime->process == getpid()) mst_topology_release(runtime->claimed_cpus, runtime->claimed_count);
    mst_free(runtime->claimed_cpus);
    mst_free(runtime->cpu_masks);
    runtime->cpu_masks = NULL;
    runtime->claimed_cpus = NULL;
    runtime->claimed_count = 0;
}
