/* The loops of the binary operations for one dtype; see each_float_loops.h. Integers wrap: they are
 * computed as uint64_t, and the low bits are kept. */
#if IS_FLOAT
#define FUNCTION MST_JOIN(add_, SUFFIX)
#define RESULT a + b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(sub_, SUFFIX)
#define RESULT a - b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(mul_, SUFFIX)
#define RESULT a *b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(div_, SUFFIX)
#define RESULT a / b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(pow_, SUFFIX)
#define RESULT POW(a, b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(maximum_, SUFFIX)
#define RESULT (a > b || a != a) ? a : b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(minimum_, SUFFIX)
#define RESULT (a < b || a != a) ? a : b
#include "elementwise_two_loops.h"
#else
#undef C
#define C uint64_t
#define FUNCTION MST_JOIN(add_, SUFFIX)
#define RESULT a + b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(sub_, SUFFIX)
#define RESULT a - b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(mul_, SUFFIX)
#define RESULT a *b
#include "elementwise_two_loops.h"
#undef C
#define C T
#define FUNCTION MST_JOIN(maximum_, SUFFIX)
#define RESULT a > b ? a : b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(minimum_, SUFFIX)
#define RESULT a < b ? a : b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(div_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 ? 0 : b == -1 ? (T)(0 - (uint64_t)a) : a / b
#else
#define RESULT b == 0 ? 0 : a / b
#endif
#include "elementwise_two_loops.h"
#endif
