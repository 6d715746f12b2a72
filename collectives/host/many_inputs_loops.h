/* The loop FUNCTION. FIRST is an expression of the first value u; NEXT is an expression of the
 * accumulator a, in the compute dtype C, and the next value v. Other parameters: T, LOAD, as in
 * each_float_loops.h. */

MST_CLONES static void FUNCTION(void *accumulator, const void *const *inputs, int64_t count, double scale) {
    C *to = accumulator;
    const T *p = inputs[0], *q = inputs[1], *r = inputs[2], *s = inputs[3];
    (void)scale;
    if (s) MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        C u = (C)LOAD(p[i]), a = (C)(FIRST);
        TAKE(C, LOAD, NEXT, q);
        TAKE(C, LOAD, NEXT, r);
        TAKE(C, LOAD, NEXT, s);
        to[i] = a;
    }
    else MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        C u = (C)LOAD(p[i]), a = (C)(FIRST);
        TAKE(C, LOAD, NEXT, q);
        TAKE(C, LOAD, NEXT, r);
        to[i] = a;
    }
}

#undef FUNCTION
#undef FIRST
#undef NEXT
