/* The rows of the softmax family for one dtype; see each_float_loops.h. EXP is the exponential
 * function of C. A row has three passes: its largest element (top_), the sum of the exponentials
 * (exp_sum_), and the results. Each goes by blocks of BLOCK elements. Elements of another type than
 * C and those that lie apart are loaded into an array of contiguous C, since loops over such arrays
 * are what the compiler vectorises; others are read and written where they lie. */

/* ---- blocks ---- */

#if !IS_HALF /* half_blocks_private.h has those */
static MST_ALWAYS_INLINE void MST_JOIN(mst_load_, SUFFIX)(const char *x, int64_t stride, int64_t n, C *v) {
    if (stride == (int64_t)sizeof(T))
        for (int64_t i = 0; i < n; i++) v[i] = LOAD(((const T *)(const void *)x)[i]);
    else
        for (int64_t i = 0; i < n; i++) v[i] = LOAD(*(const T *)(const void *)(x + i * stride));
}

static MST_ALWAYS_INLINE void MST_JOIN(mst_store_, SUFFIX)(char *y, int64_t stride, int64_t n, const C *v) {
    if (stride == (int64_t)sizeof(T))
        for (int64_t i = 0; i < n; i++) ((T *)(void *)y)[i] = STORE(v[i]);
    else
        for (int64_t i = 0; i < n; i++) *(T *)(void *)(y + i * stride) = STORE(v[i]);
}
#endif

/* The elements as C: where they lie, if they are contiguous there, or loaded into v. */
static MST_ALWAYS_INLINE const C *MST_JOIN(values_, SUFFIX)(const char *x, int64_t stride, int64_t n, C *v) {
    if (sizeof(T) == sizeof(C) && stride == (int64_t)sizeof(T)) return (const C *)(const void *)x;
    MST_JOIN(mst_load_, SUFFIX)(x, stride, n, v);
    return v;
}

/* Where the elements can be written as C: where they belong, or in v, from where store_ brings them
 * there. */
static MST_ALWAYS_INLINE C *MST_JOIN(place_, SUFFIX)(char *y, int64_t stride, C *v) {
    return y && sizeof(T) == sizeof(C) && stride == (int64_t)sizeof(T) ? (C *)(void *)y : v;
}

/* In LANES sums, which are added up in their order, and then the elements that are left. So the
 * bits do not depend on the size of vectors. */
static MST_ALWAYS_INLINE double MST_JOIN(sum_of_, SUFFIX)(const C *v, int64_t n) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++) lanes[l] += (double)v[i + l];
    for (int64_t l = 0; l < LANES; l++) sum += lanes[l];
    for (; i < n; i++) sum += (double)v[i];
    return sum;
}

/* ---- the passes over a row ---- */

/* The largest element, which is subtracted so that exp cannot overflow; 0 if it is infinite. NaN is
 * not counted: it makes the sum NaN. */
MST_CLONES static C MST_JOIN(top_, SUFFIX)(const char *x, int64_t stride, int64_t length) {
    C v[BLOCK], lanes[LANES];
    for (int64_t l = 0; l < LANES; l++) lanes[l] = -(C)INFINITY;
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const int64_t n = length - begin < BLOCK ? length - begin : BLOCK;
        int64_t i = 0;
        const C *from = MST_JOIN(values_, SUFFIX)(x + begin * stride, stride, n, v);
        for (; i + LANES <= n; i += LANES)
            for (int64_t l = 0; l < LANES; l++) lanes[l] = from[i + l] > lanes[l] ? from[i + l] : lanes[l];
        for (; i < n; i++) lanes[0] = from[i] > lanes[0] ? from[i] : lanes[0];
    }
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; l++) lanes[l] = lanes[l + half] > lanes[l] ? lanes[l + half] : lanes[l];
    return lanes[0] - lanes[0] == 0 ? lanes[0] : 0;
}

/* The sum of exp(x - top). Writes the exponentials to y unless it is NULL. */
MST_CLONES static double MST_JOIN(exp_sum_, SUFFIX)(const char *x, int64_t stride, int64_t length, C top, char *y, int64_t y_stride) {
    C v[BLOCK];
    double sum = 0;
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const int64_t n = length - begin < BLOCK ? length - begin : BLOCK;
        const C *from = MST_JOIN(values_, SUFFIX)(x + begin * stride, stride, n, v);
        C *to = MST_JOIN(place_, SUFFIX)(y ? y + begin * y_stride : NULL, y_stride, v);
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) to[i] = (C)EXP(from[i] - top);
        sum += MST_JOIN(sum_of_, SUFFIX)(to, n);
        if (y && to == v) MST_JOIN(mst_store_, SUFFIX)(y + begin * y_stride, y_stride, n, v);
    }
    return sum;
}

/* y = exp(x - top) factor, or x factor if the exponentials are in x already. */
MST_CLONES static void MST_JOIN(scale_, SUFFIX)(const char *x, int64_t stride, int64_t length, bool done, C top, double factor, char *y,
                                                int64_t y_stride) {
    C v[BLOCK];
    const C scale = (C)factor;
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const int64_t n = length - begin < BLOCK ? length - begin : BLOCK;
        const C *from = MST_JOIN(values_, SUFFIX)(x + begin * stride, stride, n, v);
        C *to = MST_JOIN(place_, SUFFIX)(y + begin * y_stride, y_stride, v);
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) to[i] = (done ? from[i] : (C)EXP(from[i] - top)) * scale;
        if (to == v) MST_JOIN(mst_store_, SUFFIX)(y + begin * y_stride, y_stride, n, v);
    }
}

/* y = (x - top) - logarithm: of large elements top + logarithm may be top. */
MST_CLONES static void MST_JOIN(subtract_, SUFFIX)(const char *x, int64_t stride, int64_t length, double top, double logarithm, char *y,
                                                   int64_t y_stride) {
    C v[BLOCK];
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const int64_t n = length - begin < BLOCK ? length - begin : BLOCK;
        const C *from = MST_JOIN(values_, SUFFIX)(x + begin * stride, stride, n, v);
        C *to = MST_JOIN(place_, SUFFIX)(y + begin * y_stride, y_stride, v);
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) to[i] = (C)((double)from[i] - top - logarithm);
        if (to == v) MST_JOIN(mst_store_, SUFFIX)(y + begin * y_stride, y_stride, n, v);
    }
}

/* softmax of f32 and f64 keeps the exponentials in y between the passes. Of halves they would be
 * rounded twice, so they are computed twice. */
static void MST_JOIN(row_, SUFFIX)(const mst_rows_parameters *p, const char *x, char *y) {
    const bool keeps = p->op == MST_SOFTMAX && sizeof(T) == sizeof(C);
    const C top = MST_JOIN(top_, SUFFIX)(x, p->stride[0], p->length);
    const double sum = MST_JOIN(exp_sum_, SUFFIX)(x, p->stride[0], p->length, top, keeps ? y : NULL, p->stride[1]);
    const double logarithm = log(sum);
    const C total = (C)((double)top + logarithm);
    if (p->op == MST_LOGSUMEXP)
        *(T *)(void *)y = STORE(total);
    else if (p->op == MST_LOG_SOFTMAX)
        MST_JOIN(subtract_, SUFFIX)(x, p->stride[0], p->length, (double)top, logarithm, y, p->stride[1]);
    else
        MST_JOIN(scale_, SUFFIX)(keeps ? y : x, p->stride[keeps], p->length, keeps, top, 1 / sum, y, p->stride[1]);
}

#include "adjacent_loops.h"
#include "gradient_loops.h"

/* ---- the loop of an iterator over rows ---- */

static void MST_JOIN(rows_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_rows_parameters *p = context;
    int64_t i = 0;
    if (p->work)
        for (; n - i >= FEWEST; i += n - i < ADJACENT ? n - i : ADJACENT)
            MST_JOIN(adjacent_, SUFFIX)(p, at[0] + i * stride[0], at[1] + i * stride[1], stride[1], n - i < ADJACENT ? n - i : ADJACENT);
    for (; i < n; i++) {
        if (p->op >= MST_SOFTMAX_GRADIENT)
            MST_JOIN(gradient_row_, SUFFIX)(p, at[0] + i * stride[0], at[1] + i * stride[1], at[2] + i * stride[2]);
        else
            MST_JOIN(row_, SUFFIX)(p, at[0] + i * stride[0], at[1] + i * stride[1]);
    }
}
