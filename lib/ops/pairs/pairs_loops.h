/* The loops of all pairs for the type T, and the table of them, PAIRS. The operands lie behind each
 * other: a, b and c, as far as the operations take them, and the result. */
#define LOOP(SECOND, second, second_operands, second_formula, FIRST, first, first_operands, first_formula, ...) \
    MST_CLONES static void first##_##second(void *context, char *const *at, const int64_t *stride, int64_t n) { \
        const T *p = (const T *)(void *)at[0], *q = (const T *)(void *)at[(first_operands)-1];                  \
        const T *r = (const T *)(void *)at[(first_operands) + (second_operands)-2];                             \
        T *y = (T *)(void *)at[(first_operands) + (second_operands)-1];                                         \
        (void)context, (void)stride;                                                                            \
        MST_INDEPENDENT                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                       \
            const T a = p[i], b = q[i], c = r[i];                                                               \
            const T t = first_formula;                                                                          \
            (void)b, (void)c;                                                                                   \
            y[i] = second_formula;                                                                              \
        }                                                                                                       \
    }
#define LOOPS(...) MST_PAIR_SECOND(LOOP, __VA_ARGS__)
MST_PAIR_FIRST(LOOPS, )

#define ENTRY(SECOND, second, second_operands, second_formula, FIRST, first, ...) [MST_PAIR_SECOND_##SECOND] = first##_##second,
#define ROW(FIRST, ...) [MST_PAIR_FIRST_##FIRST] = {MST_PAIR_SECOND(ENTRY, FIRST, __VA_ARGS__)},
const mst_iterator_loop PAIRS[MST_PAIR_FIRSTS][MST_PAIR_SECONDS] = {MST_PAIR_FIRST(ROW, )};

#undef LOOP
#undef LOOPS
#undef ENTRY
#undef ROW
