/* The updates of parameters for one dtype; see each_float_loops.h. */

MST_CLONES static void MST_JOIN(update_, SUFFIX)(void *x, const void *parameter, const void *values, int64_t count, double factor) {
    T *to = x;
    const T *before = parameter;
    const C *sum = values;
    C alpha = (C)factor;
    MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) to[i] = STORE(LOAD(before[i]) + alpha * sum[i]);
}

MST_CLONES static void MST_JOIN(update_pair_, SUFFIX)(void *x, void *y, const void *parameter, const void *first, const void *second,
                                                      int64_t count, double factor) {
    T *to = x, *also = y ? y : x;
    const T *before = parameter, *from = first, *other = second;
    C alpha = (C)factor;
    MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        C sum = LOAD(from[i]) + LOAD(other[i]);
        to[i] = also[i] = STORE(LOAD(before[i]) + alpha * sum);
    }
}

MST_CLONES static void MST_JOIN(momentum_, SUFFIX)(void *x, const void *parameter, void *state, const void *values, int64_t count,
                                                   double factor, double decay) {
    T *to = x, *velocity = state;
    const T *before = parameter;
    const C *sum = values;
    C alpha = (C)factor, beta = (C)decay;
    MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        velocity[i] = STORE(beta * LOAD(velocity[i]) + alpha * sum[i]);
        to[i] = STORE(LOAD(before[i]) + LOAD(velocity[i]));
    }
}
