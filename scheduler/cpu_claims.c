/* Which CPUs the runtimes of this process have taken for their workers. */
#include "topology_impl.h"
#include "topology_private.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

static pthread_mutex_t claims_lock = PTHREAD_MUTEX_INITIALIZER;
static int32_t claims[CPU_SETSIZE]; /* runtimes that have claimed this CPU, each as often as it has workers there */

static bool known(int32_t cpu) { return cpu >= 0 && cpu < CPU_SETSIZE; }

/* before[count]: claims. The place of the one that is number `wanted` when they are sorted by them.
 * Equal ones keep their order. */
static int32_t place_by_claims(const int32_t *before, int32_t count, int32_t wanted) {
    for (int32_t level = 0;; level++) {
        int32_t next = INT32_MAX;
        for (int32_t i = 0; i < count; i++) {
            if (before[i] == level && wanted-- == 0) return i;
            if (before[i] > level && before[i] < next) next = before[i];
        }
        if (next == INT32_MAX) return 0;
        level = next - 1;
    }
}

static int32_t place_of(const int32_t *cores, int32_t count, int32_t cpu) {
    for (int32_t i = 0; i < count; i++) {
        if (cores[i] == cpu) return i;
    }
    return -1;
}

void mst_topology_claim(const int32_t *cores, int32_t core_count, int32_t *cpus, int32_t count) {
    int32_t before[CPU_SETSIZE];
    if (core_count > CPU_SETSIZE) core_count = CPU_SETSIZE;
    pthread_mutex_lock(&claims_lock);
    for (int32_t i = 0; i < core_count; i++) before[i] = known(cores[i]) ? claims[cores[i]] : 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t place = place_of(cores, core_count, cpus[i]);
        if (place < 0) continue;
        cpus[i] = cores[place_by_claims(before, core_count, place)];
        if (known(cpus[i])) claims[cpus[i]]++;
    }
    pthread_mutex_unlock(&claims_lock);
}

void mst_topology_release(const int32_t *cpus, int32_t count) {
    pthread_mutex_lock(&claims_lock);
    for (int32_t i = 0; i < count; i++) {
        if (known(cpus[i])) claims[cpus[i]]--;
    }
    pthread_mutex_unlock(&claims_lock);
}

void mst_topology_remove_claimed(cpu_set_t *set) {
    pthread_mutex_lock(&claims_lock);
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (claims[cpu] > 0) CPU_CLR(cpu, set);
    }
    pthread_mutex_unlock(&claims_lock);
}
