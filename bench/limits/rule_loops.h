/* The update rules of muster/rule.h as plain loops over floats, two vectors of gradients and two
 * sets of parameters at a time, for every vector unit the processor may have; and in double for one
 * number, which says what is right. */
#ifndef BENCH_RULE_LOOPS_H
#define BENCH_RULE_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    BENCH_SGD,
    BENCH_MOMENTUM,
    BENCH_NESTEROV,
    BENCH_ADAGRAD,
    BENCH_RMSPROP,
    BENCH_ADADELTA,
    BENCH_ADAM,
    BENCH_ADAMAX,
    BENCH_RULES
} bench_rule;
enum { BENCH_RULE_STATES = 2 };

const char *bench_rule_name(bench_rule rule); /* "adam" */
int32_t bench_rule_states(bench_rule rule);   /* vectors of the size of the parameters */
double bench_rule_rate(bench_rule rule);      /* the default */

typedef struct bench_rule_vectors {
    const float *gradients[2];
    float *parameters[2];
    float *states[BENCH_RULE_STATES];
} bench_rule_vectors;

/* Elements [begin, end) of step t, counted from 1, with the defaults of the rule: the gradients are
 * added, the states and parameters[rank] are updated, and parameters[1 - rank] written; if
 * `streaming`, by stores that bypass the cache where the processor has them. */
void bench_rule_loop(bench_rule rule, const bench_rule_vectors *vectors, int rank, int64_t begin, int64_t end, int64_t t, bool streaming);

/* The same for one element: v is the parameter, then its states. */
void bench_rule_step(bench_rule rule, double gradient, int64_t t, double v[1 + BENCH_RULE_STATES]);

#endif
