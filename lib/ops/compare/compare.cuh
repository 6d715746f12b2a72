/* A comparison of two values: for compare.cu, which learns it from its parameters, and for programs
 * that know it when they are compiled. */
#ifndef MST_COMPARE_CUH
#define MST_COMPARE_CUH

#include "tensor.cuh"

template <typename C> static inline bool mst_compare_values(int32_t op, C a, C b) {
    switch (op) {
    case MUSTER_EQUAL:
        return a == b;
    case MUSTER_NOT_EQUAL:
        return a != b;
    case MUSTER_LESS:
        return a < b;
    case MUSTER_LESS_EQUAL:
        return a <= b;
    case MUSTER_GREATER:
        return a > b;
    case MUSTER_GREATER_EQUAL:
        return a >= b;
    case MUSTER_LOGICAL_AND:
        return a != 0 && b != 0;
    case MUSTER_LOGICAL_OR:
        return a != 0 || b != 0;
    default:
        return (a != 0) != (b != 0);
    }
}

#endif
