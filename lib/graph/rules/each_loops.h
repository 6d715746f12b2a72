/* The loops of all rules for the type T, and the table of them, LOOPS. In a formula p is the old
 * value of the parameter, g the gradient, s and u the states; it gives the new ones in place of
 * them. */
#define SGD p = p - rate * g;
#define MOMENTUM                 \
    s = momentum * s - rate * g; \
    p = p + s;
#define NESTEROV                 \
    s = momentum * s - rate * g; \
    p = p + momentum * s - rate * g;
#define ADAGRAD    \
    s = s + g * g; \
    p = p - rate * g / (ROOT(s) + epsilon);
#define RMSPROP                 \
    s = rho * s + rest * g * g; \
    p = p - rate * g / ROOT(s + epsilon);
#define ADADELTA                                                \
    s = rho * s + rest * g * g;                                 \
    const T change = g * ROOT(u + epsilon) / ROOT(s + epsilon); \
    u = rho * u + rest * change * change;                       \
    p = p - rate * change;
#define ADAM                       \
    s = beta1 * s + rest1 * g;     \
    u = beta2 * u + rest2 * g * g; \
    p = p - rate * s / (ROOT(u) + epsilon);
#define ADAMAX                                             \
    s = beta1 * s + rest1 * g;                             \
    const T older = beta2 * u;                             \
    const T newer = ABSOLUTE(g);                           \
    u = (older > newer || older != older) ? older : newer; \
    p = p - rate * s / (u + epsilon);

/* RULE(name, NAME, states) */
/* clang-format off */
#define RULES(RULE)             \
    RULE(sgd, SGD, 0)           \
    RULE(momentum, MOMENTUM, 1) \
    RULE(nesterov, NESTEROV, 1) \
    RULE(adagrad, ADAGRAD, 1)   \
    RULE(rmsprop, RMSPROP, 1)   \
    RULE(adadelta, ADADELTA, 2) \
    RULE(adam, ADAM, 2)         \
    RULE(adamax, ADAMAX, 2)
/* clang-format on */

/* Elements [begin, begin + count). A pair: the gradients are added, and the new values also go to
 * `to`. */
#define ELEMENTS(name, states_, formula)                                                                                                 \
    static MST_ALWAYS_INLINE void name##_elements(const mst_rule_numbers *n, const mst_rule_vectors *v, bool pair, T *to, int64_t begin, \
                                                  int64_t count) {                                                                       \
        const T rate = (T)n->rate, momentum = (T)n->momentum, epsilon = (T)n->epsilon;                                                   \
        const T beta1 = (T)n->beta1, beta2 = (T)n->beta2, rest1 = (T)(1 - n->beta1), rest2 = (T)(1 - n->beta2);                          \
        const T rho = (T)n->rho, rest = (T)(1 - n->rho);                                                                                 \
        const T *a = (const T *)v->gradients[0] + begin, *b = pair ? (const T *)v->gradients[1] + begin : NULL;                          \
        T *at = (T *)v->parameter + begin;                                                                                               \
        T *x = (states_) > 0 ? (T *)v->states[0] + begin : NULL, *y = (states_) > 1 ? (T *)v->states[1] + begin : NULL;                  \
        (void)rate, (void)momentum, (void)epsilon, (void)beta1, (void)beta2, (void)rest1, (void)rest2, (void)rho, (void)rest;            \
        (void)x, (void)y;                                                                                                                \
        MST_INDEPENDENT                                                                                                                  \
        for (int64_t i = 0; i < count; i++) {                                                                                            \
            const T g = pair ? a[i] + b[i] : a[i];                                                                                       \
            T p = at[i], s = (states_) > 0 ? x[i] : 0, u = (states_) > 1 ? y[i] : 0;                                                     \
            (void)s, (void)u;                                                                                                            \
            formula at[i] = p;                                                                                                           \
            if (pair) to[i] = p;                                                                                                         \
            if ((states_) > 0) x[i] = s;                                                                                                 \
            if ((states_) > 1) y[i] = u;                                                                                                 \
        }                                                                                                                                \
    }

/* The copy bypasses the cache a block at a time. Steps of 1 and 4 KiB, each with a loop that
 * updates and one that copies, were slower than no bypass (bench/README.md). */
enum { BLOCK = 4 * MST_CACHE_LINE / sizeof(T) };

#define THREE(name, NAME, states)                                                                                  \
    ELEMENTS(name, states, NAME)                                                                                   \
    MST_CLONES static void name##_single(const mst_rule_numbers *n, const mst_rule_vectors *v, int64_t count) {    \
        name##_elements(n, v, false, NULL, 0, count);                                                              \
    }                                                                                                              \
    MST_CLONES static void name##_pair(const mst_rule_numbers *n, const mst_rule_vectors *v, int64_t count) {      \
        name##_elements(n, v, true, v->copy, 0, count);                                                            \
    }                                                                                                              \
    MST_CLONES static void name##_streaming(const mst_rule_numbers *n, const mst_rule_vectors *v, int64_t count) { \
        _Alignas(MST_CACHE_LINE) T block[BLOCK];                                                                   \
        T *copy = v->copy;                                                                                         \
        int64_t i = (int64_t)(-(uintptr_t)copy % MST_CACHE_LINE / sizeof(T));                                      \
        if (i > count) i = count;                                                                                  \
        name##_elements(n, v, true, copy, 0, i);                                                                   \
        for (; count - i >= BLOCK; i += BLOCK) {                                                                   \
            name##_elements(n, v, true, block, i, BLOCK);                                                          \
            mst_stream_lines(copy + i, block, 4);                                                                  \
        }                                                                                                          \
        name##_elements(n, v, true, copy + i, i, count - i);                                                       \
    }
RULES(THREE)

#define ENTRY(name, NAME, states) [MUSTER_##NAME] = {name##_single, name##_pair, name##_streaming},
const mst_rule_loops LOOPS[] = {RULES(ENTRY)};
