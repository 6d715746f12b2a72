/* The interface of an algorithm: it computes a collective between ranks on host memory after all of
 * them have arrived. Each algorithm has a file and a row in algorithms.def. */
#ifndef MST_ALGORITHM_PRIVATE_H
#define MST_ALGORITHM_PRIVATE_H

#include "core/view_private.h"

enum {
    MST_SLOT_BYTES = 16384, /* the size of a slot, the buffer that goes with a flag line */
    MST_CHUNK_BYTES =
        16384 /* the size of an accumulator; small enough for the first-level cache together with the inputs that it accumulates */
};

/* What a rank offers to the others.
 *
 * TENSORS: the tensors themselves. No rank leaves before all have finished.
 *
 * SLOT: a copy of the input in the slot of its flag line. The two slots alternate as the flag lines
 * do, so no rank has to wait until the others have left. Other ranks do not access its output.
 *
 * COPY: a copy of the input in staging memory. Other ranks do not access its output, except in an
 * all_reduce_apply, where the states of a rank allow it only its own portion. */
typedef enum { MST_OFFER_TENSORS, MST_OFFER_SLOT, MST_OFFER_COPY } mst_offer;

/* The sizes of input for which an algorithm is selected: one limit if every rank has a core of its
 * own, one if ranks share cores. Written with MST_UP_TO (the largest sizes). Zeros: the algorithm
 * is used only if it is requested by name. */
typedef struct mst_range {
    int64_t own_cores, shared_cores; /* the smallest number of bytes for which it is not selected */
} mst_range;
#define MST_UP_TO(OWN_CORES, SHARED_CORES) \
    { (OWN_CORES) + 1, (SHARED_CORES) + 1 }
#define MST_ANY_SIZE \
    { INT64_MAX, INT64_MAX }

/* How this rank serves an all_reduce_apply. */
typedef struct mst_apply_use {
    muster_worker *worker;
    /* Of a rank on a device, whose sums are only written to `sums`, and which does the rest there.
     * Of a whole step that is a vector as long as the shared one; in the phase SUM one with the
     * offsets of the gradients. */
    bool on_device;
    char *sums;
    muster_status status; /* of the rule */
    bool pairs;           /* the rule has added pairs of gradients */
} mst_apply_use;

typedef struct mst_algorithm {
    const char *name;
    mst_offer offer;
    void (*run[MST_COLLECTIVE_COUNT])(const mst_view *view); /* by collective; NULL: the algorithm does not serve it */
    mst_range selected[MST_COLLECTIVE_COUNT];
} mst_algorithm;

/* The numbers of the algorithms, from 1 on, such as MST_ALGORITHM_direct. 0: none. */
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

/* Selects an algorithm before the requests of the other ranks are known: `forced` (0: none) if it
 * serves the collective, else the first one that is selected for the size. `bytes` is the size of
 * this rank's input, which it may have to copy; 0 if it has none. In a batch no algorithm with
 * slots is selected, since a rank has only one slot per rendezvous. If the ranks select different
 * algorithms, all of them use `direct`, which can read every kind of offer. */
int32_t mst_algorithm_select(mst_collective collective, bool shared_cores, int64_t bytes, bool in_batch, int32_t forced);
/* The algorithm with this number (from 1 on); NULL if there is none. */
const mst_algorithm *mst_algorithm_at(int32_t number);

#endif
