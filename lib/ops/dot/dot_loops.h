/* The sum of x[i] y[i] of elements of type T: sixteen running sums, which are added to a double
 * after every block, so that the error does not grow with the length. SUFFIX is the name of the
 * dtype. */
MST_CLONES static double MST_JOIN(dot_, SUFFIX)(const T *x, int64_t x_stride, const T *y, int64_t y_stride, int64_t n) {
    enum { LANES = 16, BLOCK = 2048 };
    double total = 0;
    int64_t i = 0;
    while (x_stride == 1 && y_stride == 1 && n - i >= LANES) {
        T lanes[LANES] = {0};
        int64_t end = n - i < BLOCK ? n : i + BLOCK;
        for (; i + LANES <= end; i += LANES)
            for (int64_t j = 0; j < LANES; j++) lanes[j] += x[i + j] * y[i + j];
        for (int64_t j = 0; j < LANES; j++) total += (double)lanes[j];
    }
    for (; i < n; i++) total += (double)x[i * x_stride] * (double)y[i * y_stride];
    return total;
}

#undef SUFFIX
#undef T
