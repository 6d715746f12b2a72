/* The loops of the reductions for one dtype; see each_float_loops.h. Floats accumulate in double,
 * integers in 64 bits. */
#if IS_FLOAT
#define A double
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define RESULT a + v
#include "accumulate_loops.h"
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define RESULT a *v
#include "accumulate_loops.h"
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define RESULT (v > a || v != v) ? v : a
#include "accumulate_loops.h"
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define RESULT (v < a || v != v) ? v : a
#include "accumulate_loops.h"
#else
#define A uint64_t
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define RESULT a + v
#include "accumulate_loops.h"
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define RESULT a *v
#include "accumulate_loops.h"
#if IS_SIGNED
#undef A
#define A int64_t
#endif
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define RESULT v > a ? v : a
#include "accumulate_loops.h"
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define RESULT v < a ? v : a
#include "accumulate_loops.h"
#endif
#undef A
