/* The length of spins. The hot path, a spin of the full length that ends in time, is in the
 * header. */
#include "spin_impl.h"

void mst_spin_lengthen(mst_spin *spin) {
    if (++spin->paid < MST_SPIN_PAID) return;
    spin->paid = 0;
    spin->halvings--;
    if (spin->halvings == 0 && spin->tries > 0) spin->tries--;
}

void mst_spin_wasted(mst_spin *spin, bool interrupted) {
    spin->paid = 0;
    spin->halvings += interrupted ? MST_SPIN_MOST_HALVINGS : MST_SPIN_WASTED_HALVINGS;
    if (spin->halvings > MST_SPIN_MOST_HALVINGS) spin->halvings = MST_SPIN_MOST_HALVINGS;
}

/* Both sides may sleep only because both do: whether a spin would pay, only a try can tell. */
void mst_spin_slept(mst_spin *spin, int64_t waited_ns, int64_t full_ns) {
    if (spin->halvings == 0 || waited_ns >= full_ns) return;
    if (++spin->near < MST_SPIN_NEAR << spin->tries) return;
    spin->near = 0;
    spin->paid = 0;
    spin->halvings = 1;
    if (spin->tries < MST_SPIN_MOST_TRIES) spin->tries++;
}
