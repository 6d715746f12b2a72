/* The rows of the softmax family for one dtype; see each_float_loops.h. EXP is the exponential
 * function of C. Rows are computed in blocks: loops over contiguous elements of type C, which the
 * compiler vectorises. */

static MST_ALWAYS_INLINE void MST_JOIN(load_, SUFFIX)(const char *x, int64_t stride, int64_t n, C *v) {
    if (stride == (int64_t)sizeof(T))
        for (int64_t i = 0; i < n; i++) v[i] = LOAD(((const T *)(const void *)x)[i]);
    else
        for (int64_t i = 0; i < n; i++) v[i] = LOAD(*(const T *)(const void *)(x + i * stride));
}

static MST_ALWAYS_INLINE void MST_JOIN(store_, SUFFIX)(char *y, int64_t stride, int64_t n, const C *v) {
    if (stride == (int64_t)sizeof(T))
        for (int64_t i = 0; i < n; i++) ((T *)(void *)y)[i] = STORE(v[i]);
    else
        for (int64_t i = 0; i < n; i++) *(T *)(void *)(y + i * stride) = STORE(v[i]);
}

static MST_ALWAYS_INLINE double MST_JOIN(sum_of_, SUFFIX)(const C *v, int64_t n) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++) lanes[l] += (double)v[i + l];
    for (int64_t l = 0; l < LANES; l++) sum += lanes[l];
    for (; i < n; i++) sum += (double)v[i];
    return sum;
}

/* The largest element, which is subtracted so that exp cannot overflow; 0 if it is infinite. NaN is
 * not counted: it makes the sum NaN. */
MST_CLONES static C MST_JOIN(top_, SUFFIX)(const char *x, int64_t stride, int64_t length) {
    C v[BLOCK], lanes[LANES];
    for (int64_t l = 0; l < LANES; l++) lanes[l] = -(C)INFINITY;
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const int64_t n = length - begin < BLOCK ? length - begin : BLOCK;
        int64_t i = 0;
        MST_JOIN(load_, SUFFIX)(x + begin * stride, stride, n, v);
        for (; i + LANES <= n; i += LANES)
            for (int64_t l = 0; l < LANES; l++) lanes[l] = v[i + l] > lanes[l] ? v[i + l] : lanes[l];
        for (; i < n; i++) lanes[0] = v[i] > lanes[0] ? v[i] : lanes[0];
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
        MST_JOIN(load_, SUFFIX)(x + begin * stride, stride, n, v);
        for (int64_t i = 0; i < n; i++) v[i] = (C)EXP(v[i] - top);
        sum += MST_JOIN(sum_of_, SUFFIX)(v, n);
        if (y) MST_JOIN(store_, SUFFIX)(y + begin * y_stride, y_stride, n, v);
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
        MST_JOIN(load_, SUFFIX)(x + begin * stride, stride, n, v);
        if (!done)
            for (int64_t i = 0; i < n; i++) v[i] = (C)EXP(v[i] - top);
        for (int64_t i = 0; i < n; i++) v[i] *= scale;
        MST_JOIN(store_, SUFFIX)(y + begin * y_stride, y_stride, n, v);
    }
}

MST_CLONES static void MST_JOIN(subtract_, SUFFIX)(const char *x, int64_t stride, int64_t length, double value, char *y, int64_t y_stride) {
    C v[BLOCK];
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const int64_t n = length - begin < BLOCK ? length - begin : BLOCK;
        MST_JOIN(load_, SUFFIX)(x + begin * stride, stride, n, v);
        for (int64_t i = 0; i < n; i++) v[i] = (C)((double)v[i] - value);
        MST_JOIN(store_, SUFFIX)(y + begin * y_stride, y_stride, n, v);
    }
}

/* Halves are not stored between the passes, since they would be rounded twice. */
static void MST_JOIN(row_, SUFFIX)(const mst_rows_parameters *p, const char *x, char *y) {
    const bool keeps = p->op == MST_SOFTMAX && sizeof(T) == sizeof(C);
    const C top = MST_JOIN(top_, SUFFIX)(x, p->stride[0], p->length);
    const double sum = MST_JOIN(exp_sum_, SUFFIX)(x, p->stride[0], p->length, top, keeps ? y : NULL, p->stride[1]);
    const C total = (C)((double)top + log(sum));
    if (p->op == MST_LOGSUMEXP)
        *(T *)(void *)y = STORE(total);
    else if (p->op == MST_LOG_SOFTMAX)
        MST_JOIN(subtract_, SUFFIX)(x, p->stride[0], p->length, (double)top + log(sum), y, p->stride[1]);
    else
        MST_JOIN(scale_, SUFFIX)(keeps ? y : x, p->stride[keeps], p->length, keeps, top, 1 / sum, y, p->stride[1]);
}

/* softmax: dx = y (dy - sum(y dy)); log_softmax: dx = dy - exp(y) sum(dy). */
MST_CLONES static void MST_JOIN(gradient_row_, SUFFIX)(const mst_rows_parameters *p, const char *y, const char *dy, char *dx) {
    const bool plain = p->op == MST_SOFTMAX_GRADIENT;
    C v[BLOCK], d[BLOCK];
    double sum = 0;
    for (int64_t begin = 0; begin < p->length; begin += BLOCK) {
        const int64_t n = p->length - begin < BLOCK ? p->length - begin : BLOCK;
        MST_JOIN(load_, SUFFIX)(y + begin * p->stride[0], p->stride[0], n, v);
        MST_JOIN(load_, SUFFIX)(dy + begin * p->stride[1], p->stride[1], n, d);
        if (plain)
            for (int64_t i = 0; i < n; i++) d[i] *= v[i];
        sum += MST_JOIN(sum_of_, SUFFIX)(d, n);
    }
    for (int64_t begin = 0; begin < p->length; begin += BLOCK) {
        const int64_t n = p->length - begin < BLOCK ? p->length - begin : BLOCK;
        MST_JOIN(load_, SUFFIX)(y + begin * p->stride[0], p->stride[0], n, v);
        MST_JOIN(load_, SUFFIX)(dy + begin * p->stride[1], p->stride[1], n, d);
        if (plain)
            for (int64_t i = 0; i < n; i++) d[i] = v[i] * (C)((double)d[i] - sum);
        else
            for (int64_t i = 0; i < n; i++) d[i] = (C)((double)d[i] - (double)EXP(v[i]) * sum);
        MST_JOIN(store_, SUFFIX)(dx + begin * p->stride[2], p->stride[2], n, d);
    }
}

static void MST_JOIN(rows_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_rows_parameters *p = context;
    for (int64_t i = 0; i < n; i++) {
        if (p->op >= MST_SOFTMAX_GRADIENT)
            MST_JOIN(gradient_row_, SUFFIX)(p, at[0] + i * stride[0], at[1] + i * stride[1], at[2] + i * stride[2]);
        else
            MST_JOIN(row_, SUFFIX)(p, at[0] + i * stride[0], at[1] + i * stride[1]);
    }
}
