/* The loops of the reductions for one dtype; see each_float_loops.h. Floats are summed and
 * multiplied in double, integers in 64 bits, or in double (_f64_). The largest and the
 * smallest are values of the dtype. */
#if IS_FLOAT
#define A double
#else
#define A uint64_t
#endif
#define FUNCTION MST_JOIN(sum_, SUFFIX)
#define RESULT a + v
#include "accumulate_loops.h"
#define FUNCTION MST_JOIN(prod_, SUFFIX)
#define RESULT a *v
#include "accumulate_loops.h"
#undef A
#if !IS_FLOAT
#define A double
#define FUNCTION MST_JOIN(sum_f64_, SUFFIX)
#define RESULT a + v
#include "accumulate_loops.h"
#define FUNCTION MST_JOIN(prod_f64_, SUFFIX)
#define RESULT a *v
#include "accumulate_loops.h"
#undef A
#endif
#define FUNCTION MST_JOIN(max_, SUFFIX)
#define BETTER(value, best) ((value) > (best))
#include "best_loops.h"
#define FUNCTION MST_JOIN(min_, SUFFIX)
#define BETTER(value, best) ((value) < (best))
#include "best_loops.h"
