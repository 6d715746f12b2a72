/* The loop FUNCTION of an iterator: y = RESULT, an expression of the element v, which has the type
 * C. Other parameters: T, LOAD, STORE, as in each_float_loops.h. Contiguous operands have a loop of
 * their own, which the compiler vectorises. */
MST_CLONES static void FUNCTION(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(T)) {
        const T *x = (const T *)(void *)at[0];
        T *y = (T *)(void *)at[1];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            C v = (C)LOAD(x[i]);
            y[i] = (T)STORE(RESULT);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        C v = (C)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
        *(T *)(void *)(at[1] + i * stride[1]) = (T)STORE(RESULT);
    }
}

#undef FUNCTION
#undef RESULT
