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

#define LOOP(name, states_, gradient, copied, formula)                                                                        \
    MST_CLONES static void name(const mst_rule_numbers *n, const mst_rule_vectors *v, int64_t count) {                        \
        const T rate = (T)n->rate, momentum = (T)n->momentum, epsilon = (T)n->epsilon;                                        \
        const T beta1 = (T)n->beta1, beta2 = (T)n->beta2, rest1 = (T)(1 - n->beta1), rest2 = (T)(1 - n->beta2);               \
        const T rho = (T)n->rho, rest = (T)(1 - n->rho);                                                                      \
        const T *a = v->gradients[0], *b = v->gradients[1];                                                                   \
        T *at = v->parameter, *copy = v->copy, *x = v->states[0], *y = v->states[1];                                          \
        (void)rate, (void)momentum, (void)epsilon, (void)beta1, (void)beta2, (void)rest1, (void)rest2, (void)rho, (void)rest; \
        (void)b, (void)copy, (void)x, (void)y;                                                                                \
        MST_INDEPENDENT                                                                                                       \
        for (int64_t i = 0; i < count; i++) {                                                                                 \
            const T g = gradient;                                                                                             \
            T p = at[i], s = (states_) > 0 ? x[i] : 0, u = (states_) > 1 ? y[i] : 0;                                          \
            (void)s, (void)u;                                                                                                 \
            formula at[i] = p;                                                                                                \
            if (copied) copy[i] = p;                                                                                          \
            if ((states_) > 0) x[i] = s;                                                                                      \
            if ((states_) > 1) y[i] = u;                                                                                      \
        }                                                                                                                     \
    }
#define BOTH(name, NAME, states)                   \
    LOOP(name##_single, states, a[i], false, NAME) \
    LOOP(name##_pair, states, a[i] + b[i], true, NAME)
RULES(BOTH)

#define ENTRY(name, NAME, states) [MUSTER_##NAME] = {name##_single, name##_pair},
const mst_rule_loops LOOPS[] = {RULES(ENTRY)};
