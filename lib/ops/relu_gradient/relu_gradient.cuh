/* dy where y is positive, else 0. */
#ifndef MST_RELU_GRADIENT_CUH
#define MST_RELU_GRADIENT_CUH

template <typename C> static inline C mst_relu_gradient_value(C y, C dy) { return y > 0 ? dy : (C)0; }

#endif
