/* Sums contiguous elements of type T by independent running sums, which are added to a double after
 * every block. SUFFIX is the name of the dtype. */
MST_CLONES static double MST_JOIN(contiguous_, SUFFIX)(const T *x, int64_t n) {
    enum { LANES = 16, BLOCK = 1024 };
    double total = 0;
    int64_t i = 0;
    while (n - i >= LANES) {
        T lanes[LANES] = {0};
        int64_t end = n - i < BLOCK ? n : i + BLOCK;
        for (; i + LANES <= end; i += LANES)
            for (int64_t j = 0; j < LANES; j++) lanes[j] += x[i + j];
        for (int64_t j = 0; j < LANES; j++) total += (double)lanes[j];
    }
    for (; i < n; i++) total += (double)x[i];
    return total;
}

#undef SUFFIX
#undef T
