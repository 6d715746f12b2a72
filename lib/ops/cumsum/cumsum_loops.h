/* The rows of a running sum for one dtype; see each_float_loops.h. Floats are summed in double,
 * integers wrap around. wide_: y has another dtype than x, which cumsum_store knows. */
#if IS_FLOAT
#define A double
#define STORE_WIDE cumsum_store_float
#else
#define A uint64_t
#define STORE_WIDE cumsum_store_integer
#endif
/* Rows that lie beside each other: their sums advance together, in vectors. */
MST_CLONES static void MST_JOIN(adjacent_, SUFFIX)(const mst_rows_parameters *p, const char *x, char *y, int64_t n) {
    A sums[ADJACENT] = {0};
    for (int64_t j = 0; j < p->length; j++) {
        const T *from = (const T *)(const void *)(x + j * p->stride[0]);
        T *to = (T *)(void *)(y + j * p->stride[1]);
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            sums[i] += (A)LOAD(from[i]);
            to[i] = (T)STORE((C)sums[i]);
        }
    }
}

static void MST_JOIN(rows_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_rows_parameters *p = context;
    int64_t i = 0;
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(T))
        for (; n - i >= FEWEST; i += n - i < ADJACENT ? n - i : ADJACENT)
            MST_JOIN(adjacent_, SUFFIX)(p, at[0] + i * stride[0], at[1] + i * stride[1], n - i < ADJACENT ? n - i : ADJACENT);
    for (; i < n; i++) {
        const char *x = at[0] + i * stride[0];
        char *y = at[1] + i * stride[1];
        A sum = 0;
        for (int64_t j = 0; j < p->length; j++) {
            sum += (A)LOAD(*(const T *)(const void *)(x + j * p->stride[0]));
            *(T *)(void *)(y + j * p->stride[1]) = STORE((C)sum);
        }
    }
}

static void MST_JOIN(wide_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_rows_parameters *p = context;
    for (int64_t i = 0; i < n; i++) {
        const char *x = at[0] + i * stride[0];
        char *y = at[1] + i * stride[1];
        A sum = 0;
        for (int64_t j = 0; j < p->length; j++) {
            sum += (A)LOAD(*(const T *)(const void *)(x + j * p->stride[0]));
            STORE_WIDE(p->result, y + j * p->stride[1], sum);
        }
    }
}
#undef A
#undef STORE_WIDE
