/* How a collective between ranks on host memory is computed, once all of them have arrived: one
 * file per algorithm, one row in algorithms.def. */
#ifndef MST_ALGORITHM_PRIVATE_H
#define MST_ALGORITHM_PRIVATE_H

#include "core/view_private.h"

enum {
    MST_SLOT_BYTES = 16384, /* what fits into a slot beside a flag line */
    MST_CHUNK_BYTES = 16384 /* of an accumulator: stays in the first-level cache beside the inputs it is fed from */
};

/* What a rank offers to the others.
 * TENSORS: its tensors themselves. Nobody leaves before all have finished.
 * SLOT: a copy of its input beside its flag line; nobody else touches its output. There are two
 * slots, used in turn like the lines, so that nobody has to wait for anybody to leave.
 * COPY: a copy of its input in staging memory; nobody else touches its output. */
typedef enum { MST_OFFER_TENSORS, MST_OFFER_SLOT, MST_OFFER_COPY } mst_offer;

/* An algorithm is selected for a collective up to this many bytes of input, where every rank has a
 * core of its own, and where ranks share cores. Written with MST_UP_TO; none: only by name. */
typedef struct mst_range {
    int64_t own_cores, shared_cores; /* the first number of bytes for which it is not selected */
} mst_range;
#define MST_UP_TO(OWN_CORES, SHARED_CORES) \
    { (OWN_CORES) + 1, (SHARED_CORES) + 1 }
#define MST_ANY_SIZE \
    { INT64_MAX, INT64_MAX }

typedef struct mst_algorithm {
    const char *name;
    mst_offer offer;
    void (*run[MST_COLLECTIVE_COUNT])(const mst_view *view); /* by collective; NULL: it does not serve it */
    mst_range selected[MST_COLLECTIVE_COUNT];
} mst_algorithm;

/* Numbers of algorithms, from 1 on: MST_ALGORITHM_direct. 0: none. */
enum {
    MST_ALGORITHM_none,
#define MST_ALGORITHM(name) MST_ALGORITHM_##name,
#include "algorithms.def"
#undef MST_ALGORITHM
    MST_ALGORITHM_COUNT
};
#define MST_ALGORITHM(name) extern const mst_algorithm mst_algorithm_##name;
#include "algorithms.def"
#undef MST_ALGORITHM

/* The selection, before the other ranks are known: `forced` (0: none) wherever it serves, else the
 * first one that is selected for the size. bytes: what this rank would have to copy (its input; 0
 * where it has none). in_batch: slots, of which there is one, cannot be used. Where ranks have
 * selected different algorithms all of them take `direct`, to which every offer is legible. */
int32_t mst_algorithm_select(mst_collective collective, bool shared_cores, int64_t bytes, bool in_batch, int32_t forced);
/* Of a number from 1 on; NULL: none. */
const mst_algorithm *mst_algorithm_at(int32_t number);

#endif
