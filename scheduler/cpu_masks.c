/* Which CPUs each worker of a runtime may use beside its own. */
#include "topology_impl.h"
#include "topology_private.h"

static bool mask_wanted(int32_t cpu) { return cpu >= 0 && cpu < CPU_SETSIZE; }

static int32_t mask_workers(const int32_t *cpus, int32_t count) {
    int32_t workers = 0;
    for (int32_t i = 0; i < count; i++) workers += mask_wanted(cpus[i]);
    return workers;
}

/* Spare CPUs for each worker. A quota counts the workers' own CPUs, too. */
static int32_t mask_spare(const mst_topology_view *view, int32_t workers) {
    int32_t spare = CPU_COUNT(&view->allowed);
    if (view->limit > 0 && spare > view->limit - workers) spare = view->limit - workers;
    return spare > 0 ? spare / workers : 0;
}

/* Moves up to `most` CPUs of one core from the spare ones to a mask. Returns their number. */
static int32_t mask_take(cpu_set_t *spare, const int32_t *core_of, int32_t core, int32_t most, cpu_set_t *mask) {
    int32_t taken = 0;
    for (int32_t cpu = 0; cpu < CPU_SETSIZE && taken < most; cpu++) {
        if (!CPU_ISSET(cpu, spare) || core_of[cpu] != core) continue;
        CPU_CLR(cpu, spare);
        CPU_SET(cpu, mask);
        taken++;
    }
    return taken;
}

/* First each worker takes what its own core has. What is left goes to the workers in order, core by
 * core: so the CPUs of a mask are neighbours, and few cores are in two masks. */
void mst_topology_divide(const mst_topology_view *view, const int32_t *cpus, int32_t count, cpu_set_t *masks) {
    const int32_t workers = mask_workers(cpus, count), size = workers > 0 ? mask_spare(view, workers) : 0;
    cpu_set_t spare = view->allowed;
    for (int32_t i = 0; i < count; i++) {
        CPU_ZERO(&masks[i]);
        if (!mask_wanted(cpus[i])) continue;
        CPU_SET(cpus[i], &masks[i]);
        mask_take(&spare, view->core_of, view->core_of[cpus[i]], size, &masks[i]);
    }
    int32_t core = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!mask_wanted(cpus[i])) continue;
        int32_t left = size + 1 - CPU_COUNT(&masks[i]);
        while (left > 0 && core < CPU_SETSIZE) {
            left -= mask_take(&spare, view->core_of, core, left, &masks[i]);
            core += left > 0; /* that core has no more */
        }
    }
}

void mst_topology_masks(const int32_t *cpus, int32_t count, cpu_set_t *masks) {
    mst_topology_view view;
    mst_topology_look(&view);
    mst_topology_remove_claimed(&view.allowed);
    mst_topology_divide(&view, cpus, count, masks);
}
