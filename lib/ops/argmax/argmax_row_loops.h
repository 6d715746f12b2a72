/* FUNCTION: the index of the first element of a row than which no other is BETTER; see
 * argmax_loops.h. */
#if IS_FLOAT
#define IS_NAN(value) ((value) != (value))
#else
#define IS_NAN(value) false
#endif
/* The index of the first element from `i` on that is `best`: there is one before `end`. */
static MST_ALWAYS_INLINE int64_t MST_JOIN(FUNCTION, _place)(const T *row, int64_t i, int64_t end, C best) {
    enum { LANES = 128 / sizeof(C) };
    for (; i + LANES <= end; i += LANES) {
        int found = 0;
        for (int64_t l = 0; l < LANES; l++) found |= (C)(LOAD(row[i + l])) == best;
        if (found) break;
    }
    while ((C)(LOAD(row[i])) != best) i++;
    return i;
}

/* The elements of a block are compared in lanes. Where a block has a better element than those
 * before it, it is read again for the first place of that element. */
MST_CLONES static int64_t MST_JOIN(FUNCTION, _contiguous)(const T *row, int64_t k) {
    enum { LANES = 128 / sizeof(C), BLOCK = 2048 };
    int64_t first = 0;
    C best = (C)(LOAD(row[0]));
    if (IS_NAN(best)) return 0;
    for (int64_t begin = 0, j = 0; begin < k; begin = j) {
        const int64_t end = k - begin < BLOCK ? k : begin + BLOCK;
        C lanes[LANES];
        int nans[LANES] = {0};
        int nan = 0;
        for (int64_t l = 0; l < LANES; l++) lanes[l] = best;
        for (; j + LANES <= end; j += LANES)
            for (int64_t l = 0; l < LANES; l++) {
                const C value = (C)(LOAD(row[j + l]));
                lanes[l] = BETTER(value, lanes[l]) ? value : lanes[l];
                nans[l] |= IS_NAN(value);
            }
        for (int64_t l = 0; l < LANES; l++) nan |= nans[l];
        for (int64_t half = LANES / 2; half > 0; half /= 2)
            for (int64_t l = 0; l < half; l++) lanes[l] = BETTER(lanes[l + half], lanes[l]) ? lanes[l + half] : lanes[l];
        C top = lanes[0];
        for (; j < end; j++) {
            const C value = (C)(LOAD(row[j]));
            top = BETTER(value, top) ? value : top;
            nan |= IS_NAN(value);
        }
        for (int64_t i = begin; nan; i++)
            if (IS_NAN((C)(LOAD(row[i])))) return i;
        if (BETTER(top, best)) {
            best = top;
            first = MST_JOIN(FUNCTION, _place)(row, begin, end, best);
        }
    }
    return first;
}

static int64_t FUNCTION(const char *row, int64_t stride, int64_t k) {
    if (stride == (int64_t)sizeof(T)) return MST_JOIN(FUNCTION, _contiguous)((const T *)(const void *)row, k);
    int64_t best = 0;
    C value_of_best = (C)(LOAD(*(const T *)(const void *)row));
    for (int64_t j = 1; j < k && !IS_NAN(value_of_best); j++) {
        const C value = (C)(LOAD(*(const T *)(const void *)(row + j * stride)));
        if (BETTER(value, value_of_best) || IS_NAN(value)) {
            value_of_best = value;
            best = j;
        }
    }
    return best;
}
#undef IS_NAN
#undef BETTER
#undef FUNCTION
