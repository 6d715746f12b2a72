/* What two cores need at least for the exchange and update of a rule: two pinned threads, each sums
 * one half of the two vectors of gradients, updates its states and one set of parameters, and
 * writes both; a spin barrier before and after. */
#ifndef BENCH_RULE_LIMIT_H
#define BENCH_RULE_LIMIT_H

#include "pair.h"
#include "rule_loops.h"

typedef struct bench_rule_limit bench_rule_limit;
/* NULL: no memory. Two contenders, by the way in which the other set is written. */
bench_rule_limit *bench_rule_limit_open(bench_pair *pair, bench_rule rule, int64_t parameters);
void bench_rule_limit_close(bench_rule_limit *limit);
bool bench_rule_limit_block(void *limit, const bench_block *block, double *ns, int64_t *wrong);
bool bench_rule_limit_streaming_block(void *limit, const bench_block *block, double *ns, int64_t *wrong);

/* The bytes that have to be read or written: both vectors of gradients, the states of each
 * parameter, one set of parameters; and the states and both sets. */
int64_t bench_rule_bytes(bench_rule rule, int64_t parameters);

/* ---- for every contender of such a row ---- */

/* Element i of the gradient of a rank in step t: the sum over both is exact. */
static inline float bench_rule_gradient(int32_t rank, int64_t t, int64_t i) {
    return (float)((i * 7 % 15 - 7) * (1 + rank) * (t % 2 ? 1 : -1)) / 32;
}
/* Elements whose values are known: v begins with zeros. */
enum { BENCH_RULE_WATCHED = 15 };
typedef struct bench_rule_watch {
    int64_t t; /* the steps so far */
    double v[BENCH_RULE_WATCHED][1 + BENCH_RULE_STATES];
} bench_rule_watch;
void bench_rule_watch_step(bench_rule_watch *watch, bench_rule rule);
/* Is the parameter of an element i right? */
bool bench_rule_watch_agrees(const bench_rule_watch *watch, int64_t i, float value);

#endif
