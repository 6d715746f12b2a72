/* The loops of the unary operations for one dtype; see each_float_loops.h. Integers wrap: they are
 * computed as uint64_t, and the low bits are kept. */
#if IS_FLOAT
#define FUNCTION MST_JOIN(neg_, SUFFIX)
#define RESULT -v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(abs_, SUFFIX)
#define RESULT F(fabs, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(square_, SUFFIX)
#define RESULT v *v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(sqrt_, SUFFIX)
#define RESULT F(sqrt, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(relu_, SUFFIX)
#define RESULT v < 0 ? 0 : v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(reciprocal_, SUFFIX)
#define RESULT 1 / v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(rsqrt_, SUFFIX)
#define RESULT 1 / F(sqrt, v)
#include "elementwise_one_loops.h"
#if !IS_HALF /* those go through the loops of f32 (unary.c) */
#define FUNCTION MST_JOIN(exp_, SUFFIX)
#define RESULT V(vector_expf, exp, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(log_, SUFFIX)
#define RESULT V(mst_vector_logf, log, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(tanh_, SUFFIX)
#define RESULT V(mst_vector_tanhf, tanh, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(sigmoid_, SUFFIX)
#define RESULT V(vector_sigmoidf, plain_sigmoid, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(softplus_, SUFFIX)
#define RESULT V(vector_softplusf, plain_softplus, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(asin_, SUFFIX)
#define RESULT V(mst_vector_asinf, asin, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(acos_, SUFFIX)
#define RESULT V(mst_vector_acosf, acos, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(atan_, SUFFIX)
#define RESULT V(mst_vector_atanf, atan, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(sinh_, SUFFIX)
#define RESULT V(mst_vector_sinhf, sinh, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(cosh_, SUFFIX)
#define RESULT V(mst_vector_coshf, cosh, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(erf_, SUFFIX)
#define RESULT V(mst_vector_erff, erf, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(log1p_, SUFFIX)
#define RESULT V(mst_vector_log1pf, log1p, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(expm1_, SUFFIX)
#define RESULT V(mst_vector_expm1f, expm1, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(log2_, SUFFIX)
#define RESULT V(mst_vector_log2f, log2, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(exp2_, SUFFIX)
#define RESULT V(mst_vector_exp2f, exp2, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(log10_, SUFFIX)
#define RESULT V(mst_vector_log10f, log10, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(gelu_, SUFFIX)
#define RESULT V(mst_vector_geluf, plain_gelu, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(gelu_derivative_, SUFFIX)
#define RESULT V(mst_vector_gelu_derivativef, plain_gelu_derivative, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(silu_, SUFFIX)
#define RESULT V(mst_vector_siluf, plain_silu, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(floor_, SUFFIX)
#define RESULT F(floor, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(ceil_, SUFFIX)
#define RESULT F(ceil, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(round_, SUFFIX)
#define RESULT F(rint, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(trunc_, SUFFIX)
#define RESULT F(trunc, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(sign_, SUFFIX)
#define RESULT v > 0 ? 1 : v < 0 ? -1 : v == 0 ? 0 : v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(any_sin_, SUFFIX)
#define RESULT V(any_sinf, sin, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(any_cos_, SUFFIX)
#define RESULT V(any_cosf, cos, v)
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(any_tan_, SUFFIX)
#define RESULT V(any_tanf, tan, v)
#include "elementwise_one_loops.h"
#endif
#else
#undef C
#define C uint64_t
#define FUNCTION MST_JOIN(bitwise_not_, SUFFIX)
#define RESULT ~v
#include "elementwise_one_loops.h"
#if IS_SIGNED
#define FUNCTION MST_JOIN(neg_, SUFFIX)
#define RESULT 0 - v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(abs_, SUFFIX)
#define RESULT v >> 63 ? 0 - v : v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(square_, SUFFIX)
#define RESULT v *v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(relu_, SUFFIX)
#define RESULT v >> 63 ? 0 : v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(sign_, SUFFIX)
#define RESULT v >> 63 ? 0 - (uint64_t)1 : v != 0
#include "elementwise_one_loops.h"
#else
#define FUNCTION MST_JOIN(abs_, SUFFIX)
#define RESULT v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(square_, SUFFIX)
#define RESULT v *v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(relu_, SUFFIX)
#define RESULT v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(sign_, SUFFIX)
#define RESULT v != 0
#include "elementwise_one_loops.h"
#endif
#undef C
#define C T
#endif
