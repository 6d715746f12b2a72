/* The loop of ANGLE, which is sin, cos or tan, for f32: a block in which no element has an angle of
 * its own column is computed by vectors. unary_loops.h has the loop for any angle. */
#define T float
#define C float
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN
#define FUNCTION MST_JOIN(near_, ANGLE)
#define RESULT MST_JOIN(MST_JOIN(mst_vector_, ANGLE), f)(v, 0)
#include "elementwise_one_loops.h"
static void MST_JOIN(ANGLE, _f32)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    each_angle(MST_JOIN(near_, ANGLE), MST_JOIN(MST_JOIN(any_, ANGLE), _f32), at, stride, n);
}
#undef ANGLE
#undef T
#undef C
#undef LOAD
#undef STORE
