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
#define FUNCTION MST_JOIN(floor_divide_, SUFFIX)
#define RESULT (C) mst_floor_quotient((double)a, (double)b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(remainder_, SUFFIX)
#define RESULT (C) mst_floor_remainder((double)a, (double)b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(fmod_, SUFFIX)
#define RESULT FMOD(a, b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(atan2_, SUFFIX)
#define RESULT ATAN2(a, b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(hypot_, SUFFIX)
#define RESULT HYPOT(a, b)
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
#define FUNCTION MST_JOIN(bitwise_and_, SUFFIX)
#define RESULT a &b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(bitwise_or_, SUFFIX)
#define RESULT a | b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(bitwise_xor_, SUFFIX)
#define RESULT a ^ b
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
#define FUNCTION MST_JOIN(floor_divide_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 ? 0 : b == -1 ? (T)(0 - (uint64_t)a) : a / b - (a % b != 0 && (a < 0) != (b < 0))
#else
#define RESULT b == 0 ? 0 : a / b
#endif
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(remainder_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)
#else
#define RESULT b == 0 ? 0 : a % b
#endif
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(fmod_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 || b == -1 ? 0 : a % b
#else
#define RESULT b == 0 ? 0 : a % b
#endif
#include "elementwise_two_loops.h"
#endif
