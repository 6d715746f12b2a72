/* The loops of the predicates for one dtype; see each_float_loops.h. The result type R is bool. */
#define FUNCTION MST_JOIN(logical_not_, SUFFIX)
#define RESULT v == 0
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(isnan_, SUFFIX)
#define RESULT v != v
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(isfinite_, SUFFIX)
#define RESULT v - v == 0
#include "elementwise_one_loops.h"
#define FUNCTION MST_JOIN(isinf_, SUFFIX)
#define RESULT (v - v != 0) & (v == v)
#include "elementwise_one_loops.h"
