/* Sums contiguous elements of type T by independent running sums, which are added to a double after
 * every block. Where a running sum overflows, its block is added element by element. SUFFIX is the
 * name of the dtype. */
#define PART MST_JOIN(part_, SUFFIX)
#define SUMS MST_JOIN(sums_, SUFFIX)
typedef T PART __attribute__((vector_size(8 * sizeof(T)), aligned(_Alignof(T)), may_alias));
typedef double SUMS __attribute__((vector_size(8 * sizeof(double))));

MST_CLONES static double MST_JOIN(contiguous_, SUFFIX)(const T *x, int64_t n) {
    enum { LANES = 16, BLOCK = 1024 };
    double total = 0, rest = 0;
    int64_t i = 0;
    while (n - i >= LANES) {
        const int64_t begin = i;
        PART low = {0}, high = {0};
        int64_t end = n - i < BLOCK ? n : i + BLOCK;
        for (; i + LANES <= end; i += LANES) {
            low += *(const PART *)(x + i);
            high += *(const PART *)(x + i + LANES / 2);
        }
        const SUMS s = __builtin_convertvector(low, SUMS) + __builtin_convertvector(high, SUMS);
        double block = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
        if (__builtin_expect(!__builtin_isfinite(block), 0)) {
            block = 0;
            for (int64_t j = begin; j < i; j++) block += (double)x[j];
        }
        total += block;
    }
    for (; i < n; i++) rest += (double)x[i];
    return total + rest;
}

#undef PART
#undef SUMS
#undef SUFFIX
#undef T
