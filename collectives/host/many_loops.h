/* The loops of many.c for one dtype; see each_float_loops.h. The formulas are those of
 * lib/ops/reduction. */
#if IS_FLOAT
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define FIRST u
#define NEXT a + v
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define FIRST u
#define NEXT a *v
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define FIRST u
#define NEXT (v > a || v != v) ? v : a
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define FIRST u
#define NEXT (v < a || v != v) ? v : a
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(avg_, SUFFIX)
#define FIRST scale *(double)u
#define NEXT (double)a + scale *(double)v
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#else
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define FIRST u
#define NEXT (uint64_t) a + (uint64_t)v
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define FIRST u
#define NEXT (uint64_t) a *(uint64_t)v
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define FIRST u
#define NEXT v > a ? v : a
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define FIRST u
#define NEXT v < a ? v : a
#include "host/many_inputs_loops.h"
#undef FUNCTION
#undef FIRST
#undef NEXT
#endif
