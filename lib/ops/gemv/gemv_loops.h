/* The loops for elements of type T in vectors of LANES elements, which SUM_FOUR adds up; MASK_LANE
 * is an integer of the size of T. SUFFIX is the name of the dtype. */
#define VECTOR MST_JOIN(vector_, SUFFIX)
#define UNALIGNED MST_JOIN(unaligned_, SUFFIX)
#define MASK MST_JOIN(mask_, SUFFIX)

typedef T VECTOR __attribute__((vector_size(LANES * sizeof(T))));
typedef T UNALIGNED __attribute__((vector_size(LANES * sizeof(T)), aligned(_Alignof(T)), may_alias));
typedef MASK_LANE MASK __attribute__((vector_size(LANES * sizeof(T))));
/* sums[r] = row r . x for four rows. The last LANES elements overlap earlier ones, which the mask
 * excludes. */
static inline void MST_JOIN(four_, SUFFIX)(const T *a, int64_t ld, const T *x, int64_t k, const MASK *mask, T sums[4]) {
    VECTOR s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int64_t j = 0;
    for (; j + LANES <= k; j += LANES) {
        VECTOR v = *(const UNALIGNED *)(x + j);
        s0 += *(const UNALIGNED *)(a + j) * v;
        s1 += *(const UNALIGNED *)(a + ld + j) * v;
        s2 += *(const UNALIGNED *)(a + 2 * ld + j) * v;
        s3 += *(const UNALIGNED *)(a + 3 * ld + j) * v;
    }
    if (j < k) {
        j = k - LANES;
        VECTOR v = (VECTOR)((MASK) * (const UNALIGNED *)(x + j) & *mask);
        s0 += (VECTOR)((MASK) * (const UNALIGNED *)(a + j) & *mask) * v;
        s1 += (VECTOR)((MASK) * (const UNALIGNED *)(a + ld + j) & *mask) * v;
        s2 += (VECTOR)((MASK) * (const UNALIGNED *)(a + 2 * ld + j) & *mask) * v;
        s3 += (VECTOR)((MASK) * (const UNALIGNED *)(a + 3 * ld + j) & *mask) * v;
    }
    SUM_FOUR(s0, s1, s2, s3, sums);
}

/* The same sums for rows of one to two vectors: x stays in two registers. Returns the number of
 * rows that it has done. */
static inline int64_t MST_JOIN(short_, SUFFIX)(const T *a, int64_t ld, const T *x, int64_t n, int64_t k, const MASK *mask,
                                               T *restrict sums) {
    const VECTOR zero = {0}, first = *(const UNALIGNED *)x, last = (VECTOR)((MASK) * (const UNALIGNED *)(x + k - LANES) & *mask);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, a += 4 * ld) {
        const T *end = a + k - LANES;
        VECTOR s0 = zero + *(const UNALIGNED *)a * first, s1 = zero + *(const UNALIGNED *)(a + ld) * first;
        VECTOR s2 = zero + *(const UNALIGNED *)(a + 2 * ld) * first, s3 = zero + *(const UNALIGNED *)(a + 3 * ld) * first;
        s0 += (VECTOR)((MASK) * (const UNALIGNED *)end & *mask) * last;
        s1 += (VECTOR)((MASK) * (const UNALIGNED *)(end + ld) & *mask) * last;
        s2 += (VECTOR)((MASK) * (const UNALIGNED *)(end + 2 * ld) & *mask) * last;
        s3 += (VECTOR)((MASK) * (const UNALIGNED *)(end + 3 * ld) & *mask) * last;
        SUM_FOUR(s0, s1, s2, s3, (sums + i));
    }
    return i;
}

MST_CLONES static void MST_JOIN(rows_, SUFFIX)(const T *a, int64_t ld, const T *x, int64_t n, int64_t k, T *sums) {
    MASK mask;
    for (int i = 0; i < LANES; i++) mask[i] = i >= LANES - k % LANES ? -1 : 0;
    int64_t i = k > LANES && k < 2 * LANES ? MST_JOIN(short_, SUFFIX)(a, ld, x, n, k, &mask, sums) : 0;
    if (k >= LANES)
        for (; i + 4 <= n; i += 4) MST_JOIN(four_, SUFFIX)(a + i * ld, ld, x, k, &mask, sums + i);
    for (; i < n; i++) {
        T sum = 0;
        if (k >= LANES) {
            T four[4];
            MST_JOIN(four_, SUFFIX)(a + i * ld, 0, x, k, &mask, four);
            sum = four[0];
        } else
            for (int64_t j = 0; j < k; j++) sum += a[i * ld + j] * x[j];
        sums[i] = sum;
    }
}

MST_CLONES static void MST_JOIN(columns_, SUFFIX)(const T *a, int64_t ld, const T *x, int64_t stride, int64_t n, int64_t k,
                                                  T *restrict sums) {
    memset(sums, 0, (size_t)n * sizeof(T));
    int64_t j = 0;
    for (; j + 4 <= k; j += 4) {
        const T *c0 = a + j * ld, *c1 = c0 + ld, *c2 = c1 + ld, *c3 = c2 + ld;
        T x0 = x[j * stride], x1 = x[(j + 1) * stride], x2 = x[(j + 2) * stride], x3 = x[(j + 3) * stride];
        for (int64_t i = 0; i < n; i++) sums[i] += (c0[i] * x0 + c1[i] * x1) + (c2[i] * x2 + c3[i] * x3);
    }
    for (; j < k; j++)
        for (int64_t i = 0; i < n; i++) sums[i] += a[j * ld + i] * x[j * stride];
}

MST_CLONES static void MST_JOIN(finish_, SUFFIX)(const gemv_parameters *p, int64_t begin, int64_t n, const T *sums) {
    T *y = (T *)muster_tensor_address(*p->y) + begin * p->y->strides[0], alpha = (T)p->alpha, beta = (T)p->beta;
    int64_t stride = p->y->strides[0];
    if (p->beta == 0 && stride == 1)
        for (int64_t i = 0; i < n; i++) y[i] = alpha * sums[i];
    else if (p->beta == 0)
        for (int64_t i = 0; i < n; i++) y[i * stride] = alpha * sums[i];
    else
        for (int64_t i = 0; i < n; i++) y[i * stride] = alpha * sums[i] + beta * y[i * stride];
}

static void MST_JOIN(gemv_, SUFFIX)(const gemv_parameters *p) {
    const T *a = muster_tensor_address(*p->a), *x = muster_tensor_address(*p->x);
    int64_t n = p->a->shape[0], k = p->a->shape[1], row_stride = p->a->strides[0], column_stride = p->a->strides[1];
    int64_t stride = p->x->strides[0];
    const bool direct = p->alpha == 1 && p->beta == 0 && p->y->strides[0] == 1; /* y does not overlap a or x */
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        T block[BLOCK], *sums = direct ? (T *)muster_tensor_address(*p->y) + begin : block;
        int64_t count = n - begin < BLOCK ? n - begin : BLOCK;
        const T *rows = a + begin * row_stride;
        if ((column_stride == 1 && stride == 1) || k == 0)
            MST_JOIN(rows_, SUFFIX)(rows, row_stride, x, count, k, sums);
        else if (row_stride == 1)
            MST_JOIN(columns_, SUFFIX)(rows, column_stride, x, stride, count, k, sums);
        else
            for (int64_t i = 0; i < count; i++) {
                T sum = 0;
                for (int64_t j = 0; j < k; j++) sum += rows[i * row_stride + j * column_stride] * x[j * stride];
                sums[i] = sum;
            }
        if (!direct) MST_JOIN(finish_, SUFFIX)(p, begin, count, sums);
    }
}

#undef VECTOR
#undef UNALIGNED
#undef MASK
#undef SUFFIX
#undef T
#undef LANES
#undef MASK_LANE
#undef SUM_FOUR
