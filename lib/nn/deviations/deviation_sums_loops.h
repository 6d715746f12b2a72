/* The loops of deviation_sums.c for elements of one type: T, SUFFIX. `f` NULL: the factor is x -
 * center. */

/* Elements of one sum that lie behind each other. */
MST_CLONES static double MST_JOIN(one_sum_, SUFFIX)(const T *x, const T *f, int64_t n, double center) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; f && i + LANES <= n; i += LANES)
        for (int32_t k = 0; k < LANES; k++) lanes[k] += (double)f[i + k] * ((double)x[i + k] - center);
    for (; !f && i + LANES <= n; i += LANES)
        for (int32_t k = 0; k < LANES; k++) {
            const double d = (double)x[i + k] - center;
            lanes[k] += d * d;
        }
    for (; i < n; i++) {
        const double d = (double)x[i] - center;
        sum += (f ? (double)f[i] : d) * d;
    }
    for (int32_t half = LANES / 2; half > 0; half /= 2)
        for (int32_t k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return sum + lanes[0];
}

/* One element of each sum; the sums lie behind each other. The stride of the centers is 0 or 1. */
MST_CLONES static void MST_JOIN(each_sum_, SUFFIX)(const T *x, const T *f, int64_t n, const double *center, int64_t stride, double *sums) {
    if (f) {
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) sums[i] += (double)f[i] * ((double)x[i] - center[i * stride]);
        return;
    }
    MST_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - center[i * stride];
        sums[i] += d * d;
    }
}

/* The loop of an iterator over x, the center, the sums and the factor. context NULL: there is no
 * factor. */
static void MST_JOIN(sums_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    enum { X, CENTER, SUMS, FACTOR, ELEMENT = sizeof(T) };
    const double *center = (const double *)(const void *)at[CENTER];
    const int64_t f_stride = context ? stride[FACTOR] : ELEMENT;
    double *sums = (double *)(void *)at[SUMS];
    const T *x = (const T *)(const void *)at[X], *f = context ? (const T *)(const void *)at[FACTOR] : NULL;
    const bool behind = stride[X] == ELEMENT && f_stride == ELEMENT;
    if (behind && stride[SUMS] == 0 && stride[CENTER] == 0) {
        *sums += MST_JOIN(one_sum_, SUFFIX)(x, f, n, *center);
        return;
    }
    if (behind && stride[SUMS] == sizeof(double) && (stride[CENTER] == 0 || stride[CENTER] == sizeof(double))) {
        MST_JOIN(each_sum_, SUFFIX)(x, f, n, center, stride[CENTER] / (int64_t)sizeof(double), sums);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double d =
            (double)*(const T *)(const void *)(at[X] + i * stride[X]) - *(const double *)(const void *)(at[CENTER] + i * stride[CENTER]);
        *(double *)(void *)(at[SUMS] + i * stride[SUMS]) +=
            (context ? (double)*(const T *)(const void *)(at[FACTOR] + i * f_stride) : d) * d;
    }
}
