/* The statements of scale_add_loops.h for one kind of beta. RESULT is an expression of the elements
 * a of x and b of y. Contiguous operands have a loop of their own, which the compiler
 * vectorises. */
if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(T)) {
    const T *x = (const T *)(void *)at[0];
    T *y = (T *)(void *)at[1];
    MST_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        C a = LOAD(x[i]), b = LOAD(y[i]);
        (void)b;
        y[i] = STORE(RESULT);
    }
} else {
    for (int64_t i = 0; i < n; i++) {
        T *y = (T *)(void *)(at[1] + i * stride[1]);
        C a = LOAD(*(const T *)(void *)(at[0] + i * stride[0])), b = LOAD(*y);
        (void)b;
        *y = STORE(RESULT);
    }
}

#undef RESULT
