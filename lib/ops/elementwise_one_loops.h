/* The loop FUNCTION of an iterator: y = RESULT, an expression of the element v, which has the type
 * C. y has the type R, or T if R is not defined. Other parameters: T, LOAD, STORE, as in
 * each_float_loops.h. Contiguous operands have a loop of their own, which the compiler
 * vectorises. */
#ifdef R
#define RESULT_TYPE R
#define RESULT_STORE(value) (value)
#else
#define RESULT_TYPE T
#define RESULT_STORE STORE
#endif
MST_CLONES static void FUNCTION(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == (int64_t)sizeof(RESULT_TYPE)) {
        const T *x = (const T *)(void *)at[0];
        RESULT_TYPE *y = (RESULT_TYPE *)(void *)at[1];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            C v = (C)LOAD(x[i]);
            y[i] = (RESULT_TYPE)RESULT_STORE(RESULT);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        C v = (C)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
        *(RESULT_TYPE *)(void *)(at[1] + i * stride[1]) = (RESULT_TYPE)RESULT_STORE(RESULT);
    }
}

#undef FUNCTION
#undef RESULT
#undef RESULT_TYPE
#undef RESULT_STORE
