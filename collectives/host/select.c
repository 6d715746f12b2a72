/* Which algorithm serves a collective. To add an algorithm: its line in `algorithms` and its rows
 * here. */
#include "algorithm_impl.h"

#include <string.h>

static const mst_algorithm *const algorithms[MST_ALGORITHM_COUNT] = {
    [MST_REFERENCE] = &mst_algorithm_reference, [MST_INLINE] = &mst_algorithm_inline, [MST_DIRECT] = &mst_algorithm_direct};

/* Up to max_bytes copied aside. */
typedef enum { EVER, CROWDED } when;
typedef struct row {
    mst_algorithm_kind kind;
    when when;
    int64_t max_bytes;
} row;

/* Best first; the first that fits is taken, a forced algorithm wherever it fits. The numbers say up
 * to how many bytes `inline` is the faster one: where every rank has a core, hardly ever, since to
 * write a slot again costs as much as the second rendezvous; where ranks share cores (CROWDED) that
 * rendezvous is a switch of threads. Measured by `muster-bench collectives` with 2 ranks, and 4
 * ranks on 2 cores, that had just rewritten their inputs. */
enum { ROWS = 5 };
#define FROM(OWN_CORES, SHARED_CORES)                                                                      \
    {                                                                                                      \
        {MST_INLINE, EVER, OWN_CORES}, {MST_INLINE, CROWDED, SHARED_CORES}, {MST_DIRECT, EVER, INT64_MAX}, \
            {MST_INLINE, EVER, MST_SLOT_BYTES}, {                                                          \
            MST_REFERENCE, EVER, INT64_MAX                                                                 \
        }                                                                                                  \
    }
static const row rows[MST_COLLECTIVE_COUNT][ROWS] = {
    [MST_ALL_REDUCE] = FROM(256, 2048),
    [MST_ALL_REDUCE_AXPY] = FROM(256, 2048),
    [MST_REDUCE] = FROM(256, 4096),
    [MST_BROADCAST] = FROM(512, 8192),
    [MST_ALL_GATHER] = FROM(256, 4096),
    [MST_GATHER] = FROM(256, 4096),
    [MST_SCATTER] = FROM(512, MST_SLOT_BYTES),
    [MST_REDUCE_SCATTER] = FROM(512, 4096),
    [MST_ALL_TO_ALL] = FROM(512, 8192),
    [MST_BARRIER] = {{MST_INLINE, EVER, INT64_MAX}},
    [MST_END_OF_BODY] = {{MST_INLINE, EVER, INT64_MAX}},
};

static bool fits(const row *row, bool crowded, int64_t bytes) {
    return row->kind && (row->when == EVER || crowded) && bytes <= row->max_bytes;
}

mst_algorithm_kind mst_algorithm_select(mst_collective collective, bool crowded, int64_t bytes, mst_algorithm_kind forced) {
    const row *of = rows[collective];
    for (int32_t i = 0; forced && i < ROWS; i++) {
        if (of[i].kind == forced && fits(&of[i], crowded, bytes)) return forced;
    }
    for (int32_t i = 0; i < ROWS; i++) {
        if (fits(&of[i], crowded, bytes)) return of[i].kind;
    }
    return MST_DIRECT;
}

mst_algorithm_kind mst_algorithm_named(const char *name) {
    for (int kind = 1; kind < MST_ALGORITHM_COUNT; kind++) {
        if (strcmp(algorithms[kind]->name, name) == 0) return (mst_algorithm_kind)kind;
    }
    if (strcmp(name, "p2p") == 0) return MST_P2P;
    if (strcmp(name, "nccl") == 0) return MST_NCCL;
    if (strcmp(name, "staged") == 0) return MST_STAGED;
    return 0;
}

const mst_algorithm *mst_algorithm_of(mst_algorithm_kind kind) { return kind > 0 && kind < MST_ALGORITHM_COUNT ? algorithms[kind] : NULL; }

/* ---- between devices ---- */

/* Up to so many bytes of the largest tensor of any rank a kernel that reads its peers' memory takes
 * less time to begin than NCCL's. Not measured on hardware yet. */
enum { P2P_BYTES = 256 << 10 };

mst_algorithm_kind mst_algorithm_select_device(bool peers, bool nccl, bool native, int64_t bytes, mst_algorithm_kind forced) {
    if (forced == MST_NCCL && nccl) return MST_NCCL;
    if (forced == MST_P2P && peers) return MST_P2P;
    if (peers && (!nccl || !native || bytes <= P2P_BYTES)) return MST_P2P;
    return nccl ? MST_NCCL : MST_STAGED;
}
