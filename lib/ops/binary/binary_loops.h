/* The loops of the binary operations for one dtype; see each_float_loops.h. Integers wrap: they are
 * computed as uint64_t, and the low bits are kept. */
#if IS_FLOAT
#define FUNCTION MST_JOIN(add_, SUFFIX)
#define RESULT a + b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(sub_, SUFFIX)
#define RESULT a - b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(mul_, SUFFIX)
#define RESULT a *b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(div_, SUFFIX)
#define RESULT a / b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(pow_, SUFFIX)
#define RESULT POW(a, b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(maximum_, SUFFIX)
#define RESULT (a > b || a != a) ? a : b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(minimum_, SUFFIX)
#define RESULT (a < b || a != a) ? a : b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(any_floor_divide_, SUFFIX)
#define RESULT (C) mst_floor_quotient((double)a, (double)b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(simple_floor_divide_, SUFFIX)
#define RESULT (C) floor((double)a / (double)b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(any_remainder_, SUFFIX)
#define RESULT (C) mst_floor_remainder((double)a, (double)b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(simple_remainder_, SUFFIX)
#define RESULT (C) simple_remainder((double)a, (double)b, (double)a / (double)b)
#include "elementwise_two_loops.h"

MST_CLONES static void MST_JOIN(simple_remainder_by_one_, SUFFIX)(const T *x, C b, T *y, int64_t n) {
    const double inverse = 1 / (double)b;
    MST_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)LOAD(x[i]);
        y[i] = (T)STORE((C)simple_remainder(a, (double)b, a * inverse));
    }
}

/* f16, bf16 and f32: the largest exponent of x, as it lies in the bits of a float. */
MST_CLONES static int32_t MST_JOIN(most_exponent_, SUFFIX)(const T *x, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t exponent = mst_vector_bits((float)LOAD(x[i])) & 0x7f800000u;
        most = exponent > most ? exponent : most;
    }
    return (int32_t)(most >> 23);
}

MST_CLONES static void MST_JOIN(short_remainder_by_one_, SUFFIX)(const T *x, float b, T *y, int64_t n) {
    const float inverse = 1 / b;
    MST_INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = (T)STORE((C)short_remainder((float)LOAD(x[i]), b, inverse));
}

/* Returns false, and does nothing, where a division is not simple. */
static bool MST_JOIN(remainder_by_one_, SUFFIX)(const T *x, C b, T *y, int64_t n) {
    const int32_t of_x = MST_JOIN(most_exponent_, SUFFIX)(x, n), of_b = (int32_t)(mst_vector_bits((float)b) >> 23 & 255);
    if (of_x == 255 || of_b == 255 || of_b == 0 || of_x - of_b > 25) return false;
    if (of_x - of_b < SHORT_QUOTIENT && of_x <= MOST_EXPONENT && divisor_is_short((float)b))
        MST_JOIN(short_remainder_by_one_, SUFFIX)(x, (float)b, y, n);
    else
        MST_JOIN(simple_remainder_by_one_, SUFFIX)(x, b, y, n);
    return true;
}

/* f16, bf16 and f32: is each division simple? */
MST_CLONES static bool MST_JOIN(all_simple_, SUFFIX)(char *const *at, const int64_t *stride, int64_t n) {
    const T *p = (const T *)(const void *)at[0], *q = (const T *)(const void *)at[1];
    uint32_t bad = 0;
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == 0) {
        const float b = (float)LOAD(*q);
        for (int64_t i = 0; i < n; i++) bad |= division_is_not_simple((float)LOAD(p[i]), b);
    } else if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(T))
        for (int64_t i = 0; i < n; i++) bad |= division_is_not_simple((float)LOAD(p[i]), (float)LOAD(q[i]));
    else
        for (int64_t i = 0; i < n; i++)
            bad |= division_is_not_simple((float)LOAD(*(const T *)(const void *)(at[0] + i * stride[0])),
                                          (float)LOAD(*(const T *)(const void *)(at[1] + i * stride[1])));
    return bad == 0;
}

/* Block by block, since one division that is not simple is slow for its block only. */
static void MST_JOIN(floor_divide_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    for (int64_t i = 0, count; i < n; i += count) {
        char *const here[] = {at[0] + i * stride[0], at[1] + i * stride[1], at[2] + i * stride[2]};
        count = n - i < DIVISIONS ? n - i : DIVISIONS;
        if (sizeof(C) == sizeof(float) && MST_JOIN(all_simple_, SUFFIX)(here, stride, count))
            MST_JOIN(simple_floor_divide_, SUFFIX)(context, here, stride, count);
        else
            MST_JOIN(any_floor_divide_, SUFFIX)(context, here, stride, count);
    }
}
static void MST_JOIN(remainder_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const bool wide = sizeof(C) != sizeof(float);
    const bool by_one = stride[0] == (int64_t)sizeof(T) && stride[1] == 0 && stride[2] == (int64_t)sizeof(T);
    for (int64_t i = 0, count; i < n; i += count) {
        char *const here[] = {at[0] + i * stride[0], at[1] + i * stride[1], at[2] + i * stride[2]};
        const T *x = (const T *)(const void *)here[0], *b = (const T *)(const void *)here[1];
        count = n - i < DIVISIONS ? n - i : DIVISIONS;
        if (!wide && by_one && MST_JOIN(remainder_by_one_, SUFFIX)(x, (C)LOAD(*b), (T *)(void *)here[2], count)) continue;
        if (!wide && !by_one && MST_JOIN(all_simple_, SUFFIX)(here, stride, count))
            MST_JOIN(simple_remainder_, SUFFIX)(context, here, stride, count);
        else
            MST_JOIN(any_remainder_, SUFFIX)(context, here, stride, count);
    }
}
#define FUNCTION MST_JOIN(fmod_, SUFFIX)
#define RESULT FMOD(a, b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(atan2_, SUFFIX)
#define RESULT ATAN2(a, b)
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(hypot_, SUFFIX)
#define RESULT HYPOT(a, b)
#include "elementwise_two_loops.h"
#else
#undef C
#define C uint64_t
#define FUNCTION MST_JOIN(add_, SUFFIX)
#define RESULT a + b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(sub_, SUFFIX)
#define RESULT a - b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(mul_, SUFFIX)
#define RESULT a *b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(bitwise_and_, SUFFIX)
#define RESULT a &b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(bitwise_or_, SUFFIX)
#define RESULT a | b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(bitwise_xor_, SUFFIX)
#define RESULT a ^ b
#include "elementwise_two_loops.h"
/* A negative b is a large one. */
#define FUNCTION MST_JOIN(left_shift_, SUFFIX)
#define RESULT b < 8 * sizeof(T) ? a << b : 0
#include "elementwise_two_loops.h"
#undef C
#define C T
#define FUNCTION MST_JOIN(right_shift_, SUFFIX)
#if IS_SIGNED
#define RESULT a >> ((uint64_t)b < 8 * sizeof(T) ? b : 8 * (int)sizeof(T) - 1)
#else
#define RESULT b < 8 * sizeof(T) ? a >> b : 0
#endif
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(maximum_, SUFFIX)
#define RESULT a > b ? a : b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(minimum_, SUFFIX)
#define RESULT a < b ? a : b
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(div_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 ? 0 : b == -1 ? (T)(0 - (uint64_t)a) : a / b
#else
#define RESULT b == 0 ? 0 : a / b
#endif
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(floor_divide_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 ? 0 : b == -1 ? (T)(0 - (uint64_t)a) : a / b - (a % b != 0 && (a < 0) != (b < 0))
#else
#define RESULT b == 0 ? 0 : a / b
#endif
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(remainder_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)
#else
#define RESULT b == 0 ? 0 : a % b
#endif
#include "elementwise_two_loops.h"
#define FUNCTION MST_JOIN(fmod_, SUFFIX)
#if IS_SIGNED
#define RESULT b == 0 || b == -1 ? 0 : a % b
#else
#define RESULT b == 0 ? 0 : a % b
#endif
#include "elementwise_two_loops.h"
#endif
