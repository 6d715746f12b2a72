/* FUNCTION: the index of the first of the largest elements; NaN counts as larger than all numbers.
 * Other parameters: T, C, LOAD, IS_FLOAT, as in each_float_loops.h. */
#if IS_FLOAT
#define IS_NAN(value) ((value) != (value))
#else
#define IS_NAN(value) false
#endif
static int64_t FUNCTION(const char *row, int64_t stride, int64_t k) {
    int64_t best = 0;
    C largest = LOAD(*(const T *)(const void *)row);
    for (int64_t j = 1; j < k && !IS_NAN(largest); j++) {
        C value = LOAD(*(const T *)(const void *)(row + j * stride));
        if (value > largest || IS_NAN(value)) {
            largest = value;
            best = j;
        }
    }
    return best;
}
#undef IS_NAN
