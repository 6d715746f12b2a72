/* Selects the algorithm for a collective. The size limits are in the algorithms' own files; they
 * are the sizes up to which `inline` is faster. If every rank has a core, it hardly ever is, since
 * writing a slot again costs as much as the second rendezvous. If ranks share cores, the second
 * rendezvous costs a context switch. Measured by `muster-bench collectives` with 2 ranks, and with
 * 4 ranks on 2 cores, that had just rewritten their inputs. */
#include "algorithm_private.h"

static const mst_algorithm *const algorithms[MST_ALGORITHM_COUNT] = {
#define MST_ALGORITHM(name) [MST_ALGORITHM_##name] = &mst_algorithm_##name,
#include "algorithms.def"
#undef MST_ALGORITHM
};

const mst_algorithm *mst_algorithm_at(int32_t number) { return number > 0 && number < MST_ALGORITHM_COUNT ? algorithms[number] : NULL; }

static bool can_serve(const mst_algorithm *algorithm, mst_collective collective, int64_t bytes, bool in_batch) {
    if (!algorithm->run[collective]) return false;
    return algorithm->offer != MST_OFFER_SLOT || (!in_batch && bytes <= MST_SLOT_BYTES);
}

int32_t mst_algorithm_select(mst_collective collective, bool shared_cores, int64_t bytes, bool in_batch, int32_t forced) {
    if (forced && can_serve(algorithms[forced], collective, bytes, in_batch)) return forced;
    for (int32_t a = 1; a < MST_ALGORITHM_COUNT; a++) {
        const mst_range *selected = &algorithms[a]->selected[collective];
        if (bytes >= (shared_cores ? selected->shared_cores : selected->own_cores)) continue;
        if (!in_batch || algorithms[a]->offer != MST_OFFER_SLOT) return a;
    }
    return MST_ALGORITHM_direct;
}
