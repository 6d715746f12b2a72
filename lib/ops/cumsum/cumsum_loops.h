/* The rows of a running sum for one dtype; see each_float_loops.h. Floats are summed in double,
 * integers wrap around. */
#if IS_FLOAT
#define A double
#else
#define A uint64_t
#endif
static void MST_JOIN(rows_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_rows_parameters *p = context;
    for (int64_t i = 0; i < n; i++) {
        const char *x = at[0] + i * stride[0];
        char *y = at[1] + i * stride[1];
        A sum = 0;
        for (int64_t j = 0; j < p->length; j++) {
            sum += (A)LOAD(*(const T *)(const void *)(x + j * p->stride[0]));
            *(T *)(void *)(y + j * p->stride[1]) = STORE((C)sum);
        }
    }
}
#undef A
