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

MST_CLONES static void MST_JOIN(update_stream_, SUFFIX)(void *x, void *y, const void *parameter, const void *first, const void *second,
                                                        int64_t count, double factor) {
    T *to = x, *also = y;
    const T *before = parameter, *from = first, *other = second;
    C alpha = (C)factor;
    enum { BLOCK = STREAM_BYTES / sizeof(T) };
    int64_t at = 0;
    for (; at + BLOCK <= count; at += BLOCK) {
        _Alignas(64) T block[BLOCK];
        for (int64_t i = 0; i < BLOCK; i++) {
            C sum = LOAD(from[at + i]) + LOAD(other[at + i]);
            block[i] = STORE(LOAD(before[at + i]) + alpha * sum);
        }
        __builtin_memcpy(to + at, block, sizeof block);
        stream(also + at, block);
    }
    MST_JOIN(update_pair_, SUFFIX)(to + at, also + at, before + at, from + at, other + at, count - at, factor);
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

MST_CLONES static void MST_JOIN(momentum_pair_, SUFFIX)(void *x, void *y, const void *parameter, void *state, const void *first,
                                                        const void *second, int64_t count, double factor, double decay) {
    T *to = x, *also = y ? y : x, *velocity = state;
    const T *before = parameter, *from = first, *other = second;
    C alpha = (C)factor, beta = (C)decay;
    MST_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        C sum = LOAD(from[i]) + LOAD(other[i]);
        T next = STORE(beta * LOAD(velocity[i]) + alpha * sum);
        velocity[i] = next;
        to[i] = also[i] = STORE(LOAD(before[i]) + LOAD(next));
    }
}

MST_CLONES static void MST_JOIN(momentum_stream_, SUFFIX)(void *x, void *y, const void *parameter, void *state, const void *first,
                                                          const void *second, int64_t count, double factor, double decay) {
    T *to = x, *also = y, *velocity = state;
    const T *before = parameter, *from = first, *other = second;
    C alpha = (C)factor, beta = (C)decay;
    enum { BLOCK = STREAM_BYTES / sizeof(T) };
    int64_t at = 0;
    for (; at + BLOCK <= count; at += BLOCK) {
        _Alignas(64) T block[BLOCK];
        for (int64_t i = 0; i < BLOCK; i++) {
            C sum = LOAD(from[at + i]) + LOAD(other[at + i]);
            T next = STORE(beta * LOAD(velocity[at + i]) + alpha * sum);
            velocity[at + i] = next;
            block[i] = STORE(LOAD(before[at + i]) + LOAD(next));
        }
        __builtin_memcpy(to + at, block, sizeof block);
        stream(also + at, block);
    }
    MST_JOIN(momentum_pair_, SUFFIX)(to + at, also + at, before + at, velocity + at, from + at, other + at, count - at, factor, decay);
}
