/* f16, bf16, f32 and f64 */
#include "p2p.cuh"

MST_KERNEL(mst_p2p_reduce, mst_p2p_reduce_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name) \
    case MUSTER_##NAME:  \
        return p2p_floats<mst_##name>(p);
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}
