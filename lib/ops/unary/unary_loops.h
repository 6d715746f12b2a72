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
#define FUNCTION MST_JOIN(relu_, SUFFIX)
#define RESULT v < 0 ? 0 : v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(reciprocal_, SUFFIX)
#define RESULT 1 / v
#include "elementwise_one_loops.h"
#else
#undef C
#define C uint64_t
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
#endif
#undef C
#define C T
#endif
