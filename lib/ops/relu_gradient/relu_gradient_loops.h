/* The loop of relu_gradient for one dtype; see each_float_loops.h. */
#define FUNCTION MST_JOIN(relu_gradient_, SUFFIX)
#define RESULT a > 0 ? b : 0
#include "elementwise_two_loops.h"
