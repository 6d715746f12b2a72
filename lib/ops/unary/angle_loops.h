/* sin, cos and tan of f32. A block in which no element has an angle of its own column is computed
 * by vectors. */
MST_CLONES static bool angles_are_near(const char *x, int64_t stride, int64_t n) {
    int32_t large = 0;
    if (stride == (int64_t)sizeof(float))
        for (int64_t i = 0; i < n; i++) large |= !mst_angle_is_near(((const float *)(const void *)x)[i]);
    else
        for (int64_t i = 0; i < n; i++) large |= !mst_angle_is_near(*(const float *)(const void *)(x + i * stride));
    return !large;
}

static void each_angle(mst_iterator_loop near, mst_iterator_loop any, char *const *at, const int64_t *stride, int64_t n) {
    enum { BLOCK = 512 };
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        char *const x = at[0] + i * stride[0], *const y = at[1] + i * stride[1];
        (angles_are_near(x, stride[0], count) ? near : any)(NULL, (char *const[]){x, y}, stride, count);
    }
}

#define FUNCTION near_sin
#define RESULT mst_vector_sinf(v, 0)
#include "elementwise_one_loops.h"
#define FUNCTION any_sin
#define RESULT mst_vector_sinf(v, mst_angle_column(v))
#include "elementwise_one_loops.h"
static void sin_f32(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    each_angle(near_sin, any_sin, at, stride, n);
}

#define FUNCTION near_cos
#define RESULT mst_vector_cosf(v, 0)
#include "elementwise_one_loops.h"
#define FUNCTION any_cos
#define RESULT mst_vector_cosf(v, mst_angle_column(v))
#include "elementwise_one_loops.h"
static void cos_f32(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    each_angle(near_cos, any_cos, at, stride, n);
}

#define FUNCTION near_tan
#define RESULT mst_vector_tanf(v, 0)
#include "elementwise_one_loops.h"
#define FUNCTION any_tan
#define RESULT mst_vector_tanf(v, mst_angle_column(v))
#include "elementwise_one_loops.h"
static void tan_f32(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    each_angle(near_tan, any_tan, at, stride, n);
}
