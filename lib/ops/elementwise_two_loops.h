/* The loop FUNCTION of an iterator: y = RESULT, an expression of the elements a and b, which have
 * the type C. Other parameters: T, LOAD, STORE, as in each_float_loops.h. Contiguous operands have
 * a loop of their own, which the compiler vectorises. */
MST_CLONES static void FUNCTION(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(T) && stride[2] == (int64_t)sizeof(T)) {
        const T *p = (const T *)(void *)at[0], *q = (const T *)(void *)at[1];
        T *y = (T *)(void *)at[2];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            C a = (C)LOAD(p[i]), b = (C)LOAD(q[i]);
            y[i] = (T)STORE(RESULT);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        C a = (C)LOAD(*(const T *)(void *)(at[0] + i * stride[0])), b = (C)LOAD(*(const T *)(void *)(at[1] + i * stride[1]));
        *(T *)(void *)(at[2] + i * stride[2]) = (T)STORE(RESULT);
    }
}

#undef FUNCTION
#undef RESULT
