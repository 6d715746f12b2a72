/* The loops of the reductions for one dtype; see each_float_loops.h.
 *
 * The scaled value is not rounded before it is added, so that weights such as 1/3 add up; only the
 * sum is rounded to the accumulator's dtype. Integers wrap. */
#if IS_FLOAT
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define FIRST u
#define NEXT a + v
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define FIRST u
#define NEXT a *v
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define FIRST u
#define NEXT (v > a || v != v) ? v : a
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define FIRST u
#define NEXT (v < a || v != v) ? v : a
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(avg_, SUFFIX)
#define FIRST scale *(double)u
#define NEXT (double)a + scale *(double)v
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#else
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define FIRST u
#define NEXT (uint64_t) a + (uint64_t)v
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define FIRST u
#define NEXT (uint64_t) a *(uint64_t)v
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define FIRST u
#define NEXT v > a ? v : a
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define FIRST u
#define NEXT v < a ? v : a
#include "reduction/combine_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#endif
