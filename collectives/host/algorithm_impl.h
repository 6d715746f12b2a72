/* How a collective between ranks on host memory is computed, once all of them have arrived. One
 * file per algorithm, one row per (collective, sizes). */
#ifndef MST_ALGORITHM_IMPL_H
#define MST_ALGORITHM_IMPL_H

#include "communicator_impl.h"

/* reference: every rank copies its input aside before it arrives, and computes its own output from
 * the copies; element by element, obviously right.
 * inline: the same from a copy beside the line of arrival, double buffered, so that nobody has to
 * wait for anybody to leave.
 * direct: ranks read and write each other's tensors, each byte once; nobody leaves before all have
 * finished. */
typedef enum {
    MST_REFERENCE = 1,
    MST_INLINE,
    MST_DIRECT,
    MST_ALGORITHM_COUNT,
    /* Between devices with memory of their own, ../mover_impl.h; staged: copies in host memory, and
     * one of the above there. */
    MST_P2P = MST_ALGORITHM_COUNT,
    MST_NCCL,
    MST_STAGED
} mst_algorithm_kind;

enum {
    MST_SLOT_BYTES = 16384, /* what fits beside a line */
    MST_CHUNK_BYTES = 16384 /* of an accumulator: stays in the first-level cache beside the inputs it is fed from */
};

/* One collective as every rank asked for it: all checks passed, counts agree. request(r)->input is
 * where rank r's input can be read (its tensor or its copy), request(r)->output where its output
 * goes. Outputs of other ranks may be written by `direct` only. */
typedef struct mst_view {
    const mst_request *const *requests; /* [size], by rank */
    int32_t size, rank;
    char *chunk; /* [MST_CHUNK_BYTES], this rank's own, line-aligned */
} mst_view;

typedef struct mst_algorithm {
    const char *name;
    mst_algorithm_kind kind;
    void (*serve[MST_COLLECTIVE_COUNT])(const mst_view *view); /* by collective; NULL: not served */
} mst_algorithm;

extern const mst_algorithm mst_algorithm_reference, mst_algorithm_inline, mst_algorithm_direct;

/* The selection: the first row of the collective that fits; `forced` (0: none) wins wherever it has
 * one. bytes: what this rank would have to copy aside (its input; 0 where it has none). crowded:
 * more workers than CPUs. Called before the other ranks are known: reference is used by all or
 * none; where some ranks chose inline and others direct, the round is direct. */
mst_algorithm_kind mst_algorithm_select(mst_collective collective, bool crowded, int64_t bytes, mst_algorithm_kind forced);
/* Also "p2p", "nccl" and "staged". 0: no such name. */
mst_algorithm_kind mst_algorithm_named(const char *name);
const mst_algorithm *mst_algorithm_of(mst_algorithm_kind kind);

/* The same between devices, after all ranks' requests are known, so that they agree. peers, nccl:
 * can these serve it? native: does NCCL combine values as Muster does?
 * bytes: the largest tensor of any rank. */
mst_algorithm_kind mst_algorithm_select_device(bool peers, bool nccl, bool native, int64_t bytes, mst_algorithm_kind forced);

/* What algorithms share. Elements [*begin, *end) of `count` that rank r of size deals with: whole
 * cache lines (whole pages when there are many), so that no two ranks write to the same one. */
void mst_segment(int64_t count, int64_t element, int32_t size, int32_t rank, int64_t *begin, int64_t *end);
/* Elements before rank r's part, and in it, in the concatenation that the collective makes or
 * cuts. */
int64_t mst_view_offset(const mst_view *view, int32_t rank);

#endif
