/* FUNCTION: the index of the first element of a row than which no other is BETTER; see
 * argmax_loops.h. */
#if IS_FLOAT
#define IS_NAN(value) ((value) != (value))
#else
#define IS_NAN(value) false
#endif
/* The elements are compared in lanes. Where a block has a better element than those before it, the
 * lanes that hold it are read again for its first place. */
MST_CLONES static int64_t MST_JOIN(FUNCTION, _contiguous)(const T *row, int64_t k) {
    enum { LANES = 128 / sizeof(C), BLOCK = 4096 };
    int64_t first = 0;
    C best = (C)(LOAD(row[0]));
    if (IS_NAN(best)) return 0;
    for (int64_t begin = 0, j = 0; begin < k; begin = j) {
        const int64_t end = k - begin < BLOCK ? k : begin + BLOCK;
        C lanes[LANES], found[LANES];
        int nan = 0;
        for (int64_t l = 0; l < LANES; l++) lanes[l] = best;
        for (; j + LANES <= end; j += LANES)
            for (int64_t l = 0; l < LANES; l++) {
                const C value = (C)(LOAD(row[j + l]));
                lanes[l] = BETTER(value, lanes[l]) ? value : lanes[l];
                nan |= IS_NAN(value);
            }
        for (int64_t i = begin; nan; i++)
            if (IS_NAN((C)(LOAD(row[i])))) return i;
        for (int64_t l = 0; l < LANES; l++) found[l] = lanes[l];
        for (int64_t half = LANES / 2; half > 0; half /= 2)
            for (int64_t l = 0; l < half; l++) found[l] = BETTER(found[l + half], found[l]) ? found[l + half] : found[l];
        if (BETTER(found[0], best)) {
            best = found[0];
            first = end;
            int tied = 0, lane = 0;
            for (int l = 0; l < LANES; l++) {
                const int holds = lanes[l] == best;
                tied += holds;
                lane = holds ? l : lane;
            }
            for (int64_t l = tied == 1 ? lane : 0; l < LANES; l = tied == 1 ? LANES : l + 1) {
                int64_t i = begin + l;
                if (lanes[l] != best) continue;
                while (i < first && (C)(LOAD(row[i])) != best) i += LANES;
                first = i < first ? i : first;
            }
        }
        for (; j < end; j++) {
            const C value = (C)(LOAD(row[j]));
            if (IS_NAN(value)) return j;
            if (BETTER(value, best)) best = value, first = j;
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
