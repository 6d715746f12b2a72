/* Which algorithm serves a collective. To add an algorithm: its line in `algorithms` and its rows here. */
#include "algorithm_impl.h"

#include <string.h>

static const mst_algorithm *const algorithms[MST_ALGORITHM_COUNT] = {
    [MST_REFERENCE] = &mst_algorithm_reference, [MST_INLINE] = &mst_algorithm_inline, [MST_DIRECT] = &mst_algorithm_direct};

/* Ranks from min_size, up to max_bytes copied aside. */
typedef struct row {
    mst_collective collective;
    int32_t min_size;
    int64_t max_bytes;
    int32_t score;
    mst_algorithm_kind kind;
} row;

/* INLINE_BYTES: up to where `inline` was the faster one, measured on 2 ranks that each have a core and had just rewritten their inputs. A forced `inline` goes
 * up to the whole slot. */
#define ROWS(COLLECTIVE, INLINE_BYTES)                                  \
    {COLLECTIVE, 1, INT64_MAX, 1, MST_REFERENCE},                       \
    {COLLECTIVE, 1, MST_SLOT_BYTES, 2, MST_INLINE},                     \
    {COLLECTIVE, 1, INT64_MAX, 3, MST_DIRECT},                          \
    {COLLECTIVE, 1, INLINE_BYTES, 4, MST_INLINE}
static const row rows[] = {
    ROWS(MST_ALL_REDUCE, 1024),
    ROWS(MST_ALL_REDUCE_AXPY, 1024),
    ROWS(MST_REDUCE, 2048),
    ROWS(MST_BROADCAST, 4096),
    ROWS(MST_ALL_GATHER, 2048),
    ROWS(MST_GATHER, 2048),
    ROWS(MST_SCATTER, 4096),
    ROWS(MST_REDUCE_SCATTER, 4096),
    ROWS(MST_ALL_TO_ALL, 4096),
    /* The more ranks there are, the longer they wait for the last one to leave. */
    {MST_ALL_REDUCE, 3, 4096, 4, MST_INLINE},
    {MST_ALL_REDUCE_AXPY, 3, 4096, 4, MST_INLINE},
};

/* A forced algorithm wins over every score. */
static int32_t weight_of(const row *row, mst_algorithm_kind forced) { return row->score + (row->kind == forced ? 1000 : 0); }

mst_algorithm_kind mst_algorithm_select(mst_collective collective, int32_t size, int64_t bytes, mst_algorithm_kind forced) {
    const row *best = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *at = &rows[i];
        if (at->collective != collective || size < at->min_size || bytes > at->max_bytes) continue;
        if (!best || weight_of(at, forced) > weight_of(best, forced)) best = at;
    }
    return best ? best->kind : MST_DIRECT;
}

mst_algorithm_kind mst_algorithm_named(const char *name) {
    for (int kind = 1; kind < MST_ALGORITHM_COUNT; kind++) {
        if (strcmp(algorithms[kind]->name, name) == 0) return (mst_algorithm_kind)kind;
    }
    return 0;
}

const mst_algorithm *mst_algorithm_of(mst_algorithm_kind kind) { return kind > 0 && kind < MST_ALGORITHM_COUNT ? algorithms[kind] : NULL; }
