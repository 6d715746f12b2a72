/* The loop of bias_relu for one dtype; see each_float_loops.h. */
#define FUNCTION MST_JOIN(bias_relu_, SUFFIX)
#define RESULT a + b < 0 ? 0 : a + b
#include "elementwise_two_loops.h"
