#include "rule_loops.h"

#include <math.h>
#include <string.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

enum { AT_ONCE = 64 }; /* elements whose new values are kept before any is written: 4 cache lines */

/* What a rule needs of its numbers: rate is that of this step. */
typedef struct factors {
    float rate, momentum, beta1, beta2, rho, epsilon;
} factors;

static const struct {
    const char *name;
    int32_t states;
    double rate, momentum, beta1, beta2, rho, epsilon;
} rules[BENCH_RULES] = {[BENCH_SGD] = {"sgd", 0, .rate = 0.01},
                        [BENCH_MOMENTUM] = {"momentum", 1, .rate = 0.01, .momentum = 0.9},
                        [BENCH_NESTEROV] = {"nesterov", 1, .rate = 0.01, .momentum = 0.9},
                        [BENCH_ADAGRAD] = {"adagrad", 1, .rate = 1, .epsilon = 1e-6},
                        [BENCH_RMSPROP] = {"rmsprop", 1, .rate = 1, .rho = 0.9, .epsilon = 1e-6},
                        [BENCH_ADADELTA] = {"adadelta", 2, .rate = 1, .rho = 0.95, .epsilon = 1e-6},
                        [BENCH_ADAM] = {"adam", 2, .rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
                        [BENCH_ADAMAX] = {"adamax", 2, .rate = 0.002, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}};

const char *bench_rule_name(bench_rule rule) { return rules[rule].name; }
int32_t bench_rule_states(bench_rule rule) { return rules[rule].states; }
double bench_rule_rate(bench_rule rule) { return rules[rule].rate; }

static double rate_of(bench_rule rule, int64_t t) {
    double rate = rules[rule].rate;
    if (rule == BENCH_ADAM) rate *= sqrt(1 - pow(rules[rule].beta2, (double)t));
    return rule == BENCH_ADAM || rule == BENCH_ADAMAX ? rate / (1 - pow(rules[rule].beta1, (double)t)) : rate;
}

/* ---- one element ---- */

/* RULE(name, statements that change p, s and u): `real` is float or double. */
#define RULES(RULE)                                                                                                                \
    RULE(sgd, BENCH_SGD, p -= f->rate * g;)                                                                                        \
    RULE(momentum, BENCH_MOMENTUM, s = f->momentum * s - f->rate * g; p += s;)                                                     \
    RULE(nesterov, BENCH_NESTEROV, s = f->momentum * s - f->rate * g; p += f->momentum * s - f->rate * g;)                         \
    RULE(adagrad, BENCH_ADAGRAD, s += g * g; p -= f->rate * g / (ROOT(s) + f->epsilon);)                                           \
    RULE(rmsprop, BENCH_RMSPROP, s = f->rho * s + (1 - f->rho) * g * g; p -= f->rate * g / ROOT(s + f->epsilon);)                  \
    RULE(adadelta, BENCH_ADADELTA, s = f->rho * s + (1 - f->rho) * g * g; d = g * ROOT(u + f->epsilon) / ROOT(s + f->epsilon);     \
         u = f->rho * u + (1 - f->rho) * d * d; p -= f->rate * d;)                                                                 \
    RULE(adam, BENCH_ADAM, s = f->beta1 * s + (1 - f->beta1) * g; u = f->beta2 * u + (1 - f->beta2) * g * g;                       \
         p -= f->rate * s / (ROOT(u) + f->epsilon);)                                                                               \
    RULE(adamax, BENCH_ADAMAX, s = f->beta1 * s + (1 - f->beta1) * g; d = g < 0 ? -g : g; u = f->beta2 * u > d ? f->beta2 * u : d; \
         p -= f->rate * s / (u + f->epsilon);)

/* ---- loops ---- */

INLINE void put(float *to, const float *values, bool streaming) {
#if defined(__SSE2__)
    if (streaming) {
        for (int k = 0; k < AT_ONCE; k += 4) _mm_stream_ps(to + k, _mm_load_ps(values + k));
        return;
    }
#else
    (void)streaming;
#endif
    memcpy(to, values, AT_ONCE * sizeof *values);
}

static bool is_line(const float *address) { return (uintptr_t)address % 64 == 0; }

#define ROOT(x) __builtin_sqrtf(x)
#define LOOP(name, number, statements)                                                                                                    \
    INLINE void elements_##name(const factors *f, const bench_rule_vectors *v, int rank, int64_t i, int count, float *next) {             \
        const float *restrict a = v->gradients[0] + i, *restrict b = v->gradients[1] + i, *restrict q = v->parameters[rank] + i;          \
        const int states = rules[number].states; /* states that the rule has not are not touched */                                       \
        float *restrict x = states > 0 ? v->states[0] + i : next, *restrict y = states > 1 ? v->states[1] + i : next;                     \
        for (int k = 0; k < count; k++) {                                                                                                 \
            const float g = a[k] + b[k];                                                                                                  \
            float p = q[k], s = STATE_OF(number, 0) ? x[k] : 0, u = STATE_OF(number, 1) ? y[k] : 0, d = 0;                                \
            (void)d;                                                                                                                      \
            statements next[k] = p;                                                                                                       \
            if (STATE_OF(number, 0)) x[k] = s;                                                                                            \
            if (STATE_OF(number, 1)) y[k] = u;                                                                                            \
        }                                                                                                                                 \
    }                                                                                                                                     \
    CLONES static void loop_##name(const factors *f, const bench_rule_vectors *v, int rank, int64_t begin, int64_t end, bool streaming) { \
        _Alignas(64) float next[AT_ONCE];                                                                                                 \
        int64_t i = begin;                                                                                                                \
        for (; i + AT_ONCE <= end; i += AT_ONCE) {                                                                                        \
            elements_##name(f, v, rank, i, AT_ONCE, next);                                                                                \
            put(v->parameters[rank] + i, next, false);                                                                                    \
            put(v->parameters[1 - rank] + i, next, streaming);                                                                            \
        }                                                                                                                                 \
        elements_##name(f, v, rank, i, (int)(end - i), next);                                                                             \
        for (int64_t k = i; k < end; k++) v->parameters[rank][k] = v->parameters[1 - rank][k] = next[k - i];                              \
    }
#define STATE_OF(number, index) ((number) >= BENCH_ADADELTA || ((number) != BENCH_SGD && (index) == 0))
RULES(LOOP)
#undef ROOT

void bench_rule_loop(bench_rule rule, const bench_rule_vectors *v, int rank, int64_t begin, int64_t end, int64_t t, bool streaming) {
    const factors f = {(float)rate_of(rule, t),  (float)rules[rule].momentum, (float)rules[rule].beta1,
                       (float)rules[rule].beta2, (float)rules[rule].rho,      (float)rules[rule].epsilon};
    const bool stream = streaming && is_line(v->parameters[1 - rank] + begin);
    switch (rule) {
#define CALL(name, number, statements)                \
    case number:                                      \
        loop_##name(&f, v, rank, begin, end, stream); \
        break;
        RULES(CALL)
    default:
        break;
    }
#if defined(__SSE2__)
    if (stream) _mm_sfence();
#endif
}

/* ---- what is right ---- */

void bench_rule_step(bench_rule rule, double g, int64_t t, double v[1 + BENCH_RULE_STATES]) {
    const struct {
        double rate, momentum, beta1, beta2, rho, epsilon;
    } numbers = {rate_of(rule, t), rules[rule].momentum, rules[rule].beta1, rules[rule].beta2, rules[rule].rho, rules[rule].epsilon},
      *f = &numbers;
    double p = v[0], s = v[1], u = v[2], d = 0;
#define ROOT(x) sqrt(x)
    switch (rule) {
#define STEP(name, number, statements) \
    case number:                       \
        statements break;
        RULES(STEP)
    default:
        break;
    }
    (void)d;
    v[0] = p;
    v[1] = s;
    v[2] = u;
}
