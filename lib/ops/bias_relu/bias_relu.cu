#include "tensor.cuh"

MST_KERNEL(mst_bias_relu, mst_element_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name)                                                                                                     \
    case MUSTER_##NAME: {                                                                                                    \
        typedef mst_##name::computed C;                                                                                      \
        return mst_map<mst_##name, 2>(p.iterator, p.count, [](const C *v) { return v[0] + v[1] < 0 ? (C)0 : v[0] + v[1]; }); \
    }
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}
