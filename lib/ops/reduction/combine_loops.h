/* Three loops whose names begin with FUNCTION. Accumulators have the compute dtype C. FIRST is an
 * expression of the first value u; NEXT is an expression of the accumulator a and the next value v.
 * Other parameters: T, LOAD, STORE, as in each_float_loops.h. */

MST_CLONES static void FUNCTION(void *accumulator, const void *values, int64_t count, double scale, bool first) {
    C *restrict to = accumulator;
    const T *restrict from = values;
    (void)scale;
    if (first)
        for (int64_t i = 0; i < count; i++) {
            C u = (C)LOAD(from[i]);
            to[i] = (C)(FIRST);
        }
    else
        for (int64_t i = 0; i < count; i++) {
            C a = to[i], v = (C)LOAD(from[i]);
            to[i] = (C)(NEXT);
        }
}

MST_CLONES static void MST_JOIN(FUNCTION, _pair)(void *x, void *y, const void *first, const void *second, int64_t count, double scale) {
    T *to = x, *also = y;
    const T *from = first, *other = second;
    (void)scale;
    if (also) MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        C u = (C)LOAD(from[i]), v = (C)LOAD(other[i]), a = (C)(FIRST);
        to[i] = also[i] = STORE((C)(NEXT));
    }
    else MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        C u = (C)LOAD(from[i]), v = (C)LOAD(other[i]), a = (C)(FIRST);
        to[i] = STORE((C)(NEXT));
    }
}

MST_CLONES static void MST_JOIN(FUNCTION, _stream)(void *x, void *y, const void *first, const void *second, int64_t count, double scale) {
    T *to = x, *also = y;
    const T *from = first, *other = second;
    enum { BLOCK = STREAM_BYTES / sizeof(T) };
    int64_t at = 0;
    for (; at + BLOCK <= count; at += BLOCK) {
        _Alignas(64) T block[BLOCK];
        for (int64_t i = 0; i < BLOCK; i++) {
            C u = (C)LOAD(from[at + i]), v = (C)LOAD(other[at + i]), a = (C)(FIRST);
            block[i] = STORE((C)(NEXT));
        }
        stream(to + at, block);
        if (also) stream(also + at, block);
    }
    MST_JOIN(FUNCTION, _pair)(to + at, also ? also + at : NULL, from + at, other + at, count - at, scale);
}

#undef FUNCTION
#undef FIRST
#undef NEXT
