/* The formulas of the reductions for one dtype; see each_float_loops.h. Includes the header
 * MST_REDUCTION once for each operation, with these parameters:
 *   FUNCTION  the name of the function
 *   FIRST     the accumulator's first value, from the first input's value u
 *   NEXT      the accumulator's next value, from its value a and the next input's value v
 * The scaled value of an average is not rounded before it is added, so that weights such as 1/3 add
 * up; only the sum is rounded to the accumulator's dtype. Integers wrap. */
#if IS_FLOAT
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define FIRST u
#define NEXT a + v
#include MST_REDUCTION
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define FIRST u
#define NEXT a *v
#include MST_REDUCTION
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define FIRST u
#define NEXT (v > a || v != v) ? v : a
#include MST_REDUCTION
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define FIRST u
#define NEXT (v < a || v != v) ? v : a
#include MST_REDUCTION
#define FUNCTION MST_JOIN(avg_, SUFFIX)
#define FIRST scale *(double)u
#define NEXT (double)a + scale *(double)v
#include MST_REDUCTION
#else
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define FIRST u
#define NEXT (uint64_t) a + (uint64_t)v
#include MST_REDUCTION
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define FIRST u
#define NEXT (uint64_t) a *(uint64_t)v
#include MST_REDUCTION
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define FIRST u
#define NEXT v > a ? v : a
#include MST_REDUCTION
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define FIRST u
#define NEXT v < a ? v : a
#include MST_REDUCTION
#endif
