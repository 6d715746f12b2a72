/* The loop FUNCTION of an iterator, whose at[0] points to the values and at[1] to the accumulators,
 * of type A: the accumulator a becomes RESULT, an expression of a and the value v. The stride of
 * the accumulators is nearly always 0 (all values go to one accumulator) or 8 (the accumulators are
 * contiguous). Other parameters: T, LOAD, as in each_float_loops.h. */
MST_CLONES static void FUNCTION(void *context, char *const *at, const int64_t *stride, int64_t n) {
    (void)context;
    A *to = (A *)(void *)at[1];
    if (stride[1] == 0) {
        A a = *to;
        for (int64_t i = 0; i < n; i++) {
            A v = (A)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
            a = RESULT;
        }
        *to = a;
    } else if (stride[1] == (int64_t)sizeof(A) && stride[0] == (int64_t)sizeof(T)) {
        const T *from = (const T *)(void *)at[0];
        MST_INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            A a = to[i], v = (A)LOAD(from[i]);
            to[i] = RESULT;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            A *one = (A *)(void *)(at[1] + i * stride[1]);
            A a = *one, v = (A)LOAD(*(const T *)(void *)(at[0] + i * stride[0]));
            *one = RESULT;
        }
    }
}

#undef FUNCTION
#undef RESULT
