/* The length of spins. The hot path, a spin of the full length that ends in time, is in the
 * header. */
#include "spin_impl.h"

void mst_spin_lengthen(mst_spin *spin) {
    if (++spin->paid < MST_SPIN_PAID) return;
    spin->paid = 0;
    spin->level--;
    if (spin->level == 0 && spin->tries > 0) spin->tries--;
}

/* A try has failed if it was interrupted, or if its first spin was in vain. */
static void spin_count_tries(mst_spin *spin, bool interrupted) {
    if (spin->level == MST_SPIN_TRIED && (interrupted || spin->paid == 0) && spin->tries < MST_SPIN_MOST_TRIES) spin->tries++;
    if (interrupted && spin->tries < MST_SPIN_INTERRUPTED_TRIES) spin->tries = MST_SPIN_INTERRUPTED_TRIES;
}

void mst_spin_wasted(mst_spin *spin, bool interrupted) {
    spin_count_tries(spin, interrupted);
    spin->paid = 0;
    if (spin->level == 0) spin->level = MST_SPIN_TRIED;
    spin->level += interrupted ? MST_SPIN_SHORTEST : MST_SPIN_WASTED_LEVELS;
    if (spin->level > MST_SPIN_SHORTEST) spin->level = MST_SPIN_SHORTEST;
}

/* Both sides may sleep only because both do: whether a spin would pay, only a try can tell. The try
 * is of the full length, since a pause between two calls may take nearly as long. */
void mst_spin_slept(mst_spin *spin, int64_t waited_ns, int64_t full_ns) {
    if (spin->level <= MST_SPIN_TRIED || waited_ns >= full_ns) return;
    if (++spin->near < MST_SPIN_NEAR << spin->tries) return;
    spin->near = 0;
    spin->paid = 0;
    spin->level = MST_SPIN_TRIED;
}
