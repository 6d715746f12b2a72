/* The pairs of cheap operations that have a loop of their own. */
#ifndef MST_PAIRS_PRIVATE_H
#define MST_PAIRS_PRIVATE_H

#include "../op_impl.h"

/* The first operation computes t from a and b, the second one the result from t and c. The formulas
 * are those of the operations' own loops (binary_loops.h, unary_loops.h). X(NAME, name, operands,
 * formula, more arguments) */
#define MST_PAIR_FIRST(X, ...)                                     \
    X(ADD, add, 2, a + b, __VA_ARGS__)                             \
    X(SUB, sub, 2, a - b, __VA_ARGS__)                             \
    X(MUL, mul, 2, a *b, __VA_ARGS__)                              \
    X(MAXIMUM, maximum, 2, (a > b || a != a) ? a : b, __VA_ARGS__) \
    X(MINIMUM, minimum, 2, (a < b || a != a) ? a : b, __VA_ARGS__) \
    X(RELU, relu, 1, a < 0 ? 0 : a, __VA_ARGS__)                   \
    X(ABS, abs, 1, MST_PAIR_ABS(a), __VA_ARGS__)                   \
    X(SQUARE, square, 1, a *a, __VA_ARGS__)
#define MST_PAIR_SECOND(X, ...)                                                    \
    X(ADD, add, 2, t + c, __VA_ARGS__)                                             \
    X(MUL, mul, 2, t *c, __VA_ARGS__)                                              \
    X(SUB, sub, 2, t - c, __VA_ARGS__)                                             \
    X(SUB_SWAPPED, sub_swapped, 2, c - t, __VA_ARGS__)                             \
    X(MAXIMUM, maximum, 2, (t > c || t != t) ? t : c, __VA_ARGS__)                 \
    X(MAXIMUM_SWAPPED, maximum_swapped, 2, (c > t || c != c) ? c : t, __VA_ARGS__) \
    X(MINIMUM, minimum, 2, (t < c || t != t) ? t : c, __VA_ARGS__)                 \
    X(MINIMUM_SWAPPED, minimum_swapped, 2, (c < t || c != c) ? c : t, __VA_ARGS__) \
    X(RELU, relu, 1, t < 0 ? 0 : t, __VA_ARGS__)                                   \
    X(ABS, abs, 1, MST_PAIR_ABS(t), __VA_ARGS__)                                   \
    X(SQUARE, square, 1, t *t, __VA_ARGS__)

enum {
#define NUMBER(NAME, ...) MST_PAIR_FIRST_##NAME,
    MST_PAIR_FIRST(NUMBER, ) MST_PAIR_FIRSTS
#undef NUMBER
};
enum {
#define NUMBER(NAME, ...) MST_PAIR_SECOND_##NAME,
    MST_PAIR_SECOND(NUMBER, ) MST_PAIR_SECONDS
#undef NUMBER
};

extern const mst_iterator_loop mst_pairs_f32[MST_PAIR_FIRSTS][MST_PAIR_SECONDS];
extern const mst_iterator_loop mst_pairs_f64[MST_PAIR_FIRSTS][MST_PAIR_SECONDS];

#endif
