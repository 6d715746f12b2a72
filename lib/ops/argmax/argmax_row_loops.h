/* FUNCTION: the index of the first element of a row than which no other is BETTER; see
 * argmax_loops.h. */
#if IS_FLOAT
#define IS_NAN(value) ((value) != (value))
#else
#define IS_NAN(value) false
#endif
MST_CLONES static int64_t MST_JOIN(FUNCTION, _contiguous)(const T *row, int64_t k) {
    enum { LANES = 64 / sizeof(C) * 4, BLOCK = 4096 / LANES * LANES };
    int64_t first = 0; /* of the block that has the best so far */
    C best = (C)(LOAD(row[0]));
    for (int64_t begin = 0; begin < k && !IS_NAN(best); begin += BLOCK) {
        const int64_t end = k - begin < BLOCK ? k : begin + BLOCK;
        C lanes[LANES];
        int nan = 0;
        int64_t j = begin;
        for (int64_t l = 0; l < LANES; l++) lanes[l] = best;
        for (; j + LANES <= end; j += LANES)
            for (int64_t l = 0; l < LANES; l++) {
                const C value = (C)(LOAD(row[j + l]));
                lanes[l] = BETTER(value, lanes[l]) ? value : lanes[l];
                nan |= IS_NAN(value);
            }
        for (; j < end; j++) {
            const C value = (C)(LOAD(row[j]));
            lanes[0] = BETTER(value, lanes[0]) ? value : lanes[0];
            nan |= IS_NAN(value);
        }
        C found = best;
        for (int64_t l = 0; l < LANES; l++) found = BETTER(lanes[l], found) ? lanes[l] : found;
        if (nan) {
            for (j = begin; !IS_NAN((C)(LOAD(row[j])));) j++;
            return j;
        }
        if (BETTER(found, best)) best = found, first = begin;
    }
    if (IS_NAN(best)) return 0;
    while ((C)(LOAD(row[first])) != best) first++;
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
