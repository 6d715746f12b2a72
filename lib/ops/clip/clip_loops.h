/* The loop of clip for one dtype; see each_float_loops.h. NaN is not below and not above a bound,
 * so it stays. */
MST_CLONES static void MST_JOIN(clip_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const clip_bounds *bounds = context;
    C low, high;
    memcpy(&low, &bounds->low, sizeof low);
    memcpy(&high, &bounds->high, sizeof high);
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(T)) {
        const T *x = (const T *)(void *)at[0];
        T *y = (T *)(void *)at[1];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            const C v = (C)LOAD(x[i]);
            y[i] = (T)STORE(v < low ? low : v > high ? high : v);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const C v = (C)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
        *(T *)(void *)(at[1] + i * stride[1]) = (T)STORE(v < low ? low : v > high ? high : v);
    }
}
