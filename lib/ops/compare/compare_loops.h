/* The loops of the comparisons for one dtype; see each_float_loops.h. The result type R is bool.
 * Unsigned integers have only those that ask for an order: the others ask for the bits, as those of
 * the signed dtype of this size do. */
#define FUNCTION MST_JOIN(less_, SUFFIX)
#define RESULT a < b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(less_equal_, SUFFIX)
#define RESULT a <= b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(greater_, SUFFIX)
#define RESULT a > b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(greater_equal_, SUFFIX)
#define RESULT a >= b
#include "elementwise_two_loops.h"
#if IS_FLOAT || IS_SIGNED
#define FUNCTION MST_JOIN(equal_, SUFFIX)
#define RESULT a == b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(not_equal_, SUFFIX)
#define RESULT a != b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(logical_and_, SUFFIX)
#define RESULT (a != 0) & (b != 0)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(logical_or_, SUFFIX)
#define RESULT (a != 0) | (b != 0)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(logical_xor_, SUFFIX)
#define RESULT (a != 0) ^ (b != 0)
#include "elementwise_two_loops.h"
#endif
