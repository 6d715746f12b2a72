/* Integers and bool. They are a family of their own, which NVRTC compiles beside that of the
 * floats. */
#include "p2p.cuh"

MST_KERNEL(mst_p2p_reduce_integers, mst_p2p_reduce_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return p2p_integers<mst_##name>(p);
        MST_EACH_SIGNED_TYPE(CASE)
        MST_EACH_UNSIGNED_TYPE(CASE)
        CASE(BOOL, bool)
#undef CASE
    }
}
