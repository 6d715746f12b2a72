#include "relu_gradient.cuh"
#include "tensor.cuh"

MST_KERNEL(mst_relu_gradient, mst_element_parameters) {
    switch (p.dtype) {
#define CASE(NAME, name)                                                                                                    \
    case MUSTER_##NAME: {                                                                                                   \
        typedef mst_##name::computed C;                                                                                     \
        return mst_map<mst_##name, 2>(p.iterator, p.count, [](const C *v) { return mst_relu_gradient_value(v[0], v[1]); }); \
    }
        MST_EACH_FLOAT_TYPE(CASE)
#undef CASE
    }
}
