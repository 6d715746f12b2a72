/* A question about one value: for predicate.cu, which learns it from its parameters, and for
 * programs that know it when they are compiled. */
#ifndef MST_PREDICATE_CUH
#define MST_PREDICATE_CUH

#include "tensor.cuh"

template <typename C> static inline bool mst_predicate_value(int32_t op, C v) {
    bool nan = v != v, finite = v - v == 0;
    return op == MUSTER_LOGICAL_NOT ? v == 0 : op == MUSTER_ISNAN ? nan : op == MUSTER_ISFINITE ? finite : !finite && !nan;
}

#endif
