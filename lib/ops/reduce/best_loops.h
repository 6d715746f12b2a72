/* The loop FUNCTION of an iterator, whose at[0] points to the values and at[1] to the accumulators,
 * of type C: the accumulator becomes the BETTER of itself and the value, or NaN if either is. Other
 * parameters: T, C, LOAD, IS_FLOAT, as in each_float_loops.h. */
#if IS_FLOAT
#define IS_NAN(value) ((value) != (value))
#else
#define IS_NAN(value) 0
#endif

/* All values go to one accumulator: each lane has its own best. */
MST_CLONES static C MST_JOIN(FUNCTION, _contiguous)(const T *from, int64_t n, C best) {
    enum { LANES = 128 / sizeof(C) };
    C lanes[LANES];
    int nan = 0;
    int64_t i = 0;
    for (int64_t l = 0; l < LANES; l++) lanes[l] = best;
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++) {
            const C v = (C)LOAD(from[i + l]);
            lanes[l] = BETTER(v, lanes[l]) ? v : lanes[l];
            nan |= IS_NAN(v);
        }
    for (int64_t half = LANES / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; l++) lanes[l] = BETTER(lanes[l + half], lanes[l]) ? lanes[l + half] : lanes[l];
    for (; i < n; i++) {
        const C v = (C)LOAD(from[i]);
        lanes[0] = BETTER(v, lanes[0]) ? v : lanes[0];
        nan |= IS_NAN(v);
    }
    if (!nan) return lanes[0];
    for (i = 0; !IS_NAN((C)LOAD(from[i]));) i++;
    return (C)LOAD(from[i]);
}

MST_CLONES static void FUNCTION(void *context, char *const *at, const int64_t *stride, int64_t n) {
    C *to = (C *)(void *)at[1];
    (void)context;
    if (stride[1] == 0 && stride[0] == (int64_t)sizeof(T)) {
        *to = MST_JOIN(FUNCTION, _contiguous)((const T *)(void *)at[0], n, *to);
    } else if (stride[1] == (int64_t)sizeof(C) && stride[0] == (int64_t)sizeof(T)) {
        const T *from = (const T *)(void *)at[0];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            const C a = to[i], v = (C)LOAD(from[i]);
            to[i] = ((BETTER(v, a)) | IS_NAN(v)) ? v : a;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            C *one = (C *)(void *)(at[1] + i * stride[1]);
            const C a = *one, v = (C)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
            *one = BETTER(v, a) || IS_NAN(v) ? v : a;
        }
    }
}

#undef IS_NAN
#undef BETTER
#undef FUNCTION
