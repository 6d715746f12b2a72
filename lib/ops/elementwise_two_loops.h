/* The loop FUNCTION of an iterator: y = RESULT, an expression of the elements a and b, which have
 * the type C. y has the type R, or T if R is not defined. Other parameters: T, LOAD, STORE, as in
 * each_float_loops.h. Contiguous operands have loops of their own, which the compiler vectorises;
 * either input may also be a single element. */
#ifdef R
#define RESULT_TYPE R
#define RESULT_STORE(value) (value)
#else
#define RESULT_TYPE T
#define RESULT_STORE STORE
#endif
MST_CLONES static void FUNCTION(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const T *p = (const T *)(void *)at[0], *q = (const T *)(void *)at[1];
    RESULT_TYPE *y = (RESULT_TYPE *)(void *)at[2];
    const int64_t size = sizeof(T);
    (void)context;
    if (stride[2] == (int64_t)sizeof(RESULT_TYPE) && stride[0] == size && stride[1] == size) {
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            C a = (C)LOAD(p[i]), b = (C)LOAD(q[i]);
            y[i] = (RESULT_TYPE)RESULT_STORE(RESULT);
        }
    } else if (stride[2] == (int64_t)sizeof(RESULT_TYPE) && stride[0] == size && stride[1] == 0) {
        const C b = (C)LOAD(*q);
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            C a = (C)LOAD(p[i]);
            y[i] = (RESULT_TYPE)RESULT_STORE(RESULT);
        }
    } else if (stride[2] == (int64_t)sizeof(RESULT_TYPE) && stride[0] == 0 && stride[1] == size) {
        const C a = (C)LOAD(*p);
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            C b = (C)LOAD(q[i]);
            y[i] = (RESULT_TYPE)RESULT_STORE(RESULT);
        }
    } else
        for (int64_t i = 0; i < n; i++) {
            C a = (C)LOAD(*(const T *)(void *)(at[0] + i * stride[0])), b = (C)LOAD(*(const T *)(void *)(at[1] + i * stride[1]));
            *(RESULT_TYPE *)(void *)(at[2] + i * stride[2]) = (RESULT_TYPE)RESULT_STORE(RESULT);
        }
}

#undef FUNCTION
#undef RESULT
#undef RESULT_TYPE
#undef RESULT_STORE
