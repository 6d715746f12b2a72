/* Bounds that the loops of vector_math_private.h and its like read. */
#include "vector_exponentials_private.h"

const double mst_exp_least = -160, mst_exp_most = 160;
const float mst_expf_least = -104, mst_expf_most = 89;
const float mst_gelu_most = 15;
const double mst_least_divisor = 0x1p-800;
const uint64_t mst_no_bits = 0;
