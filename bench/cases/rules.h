/* The exchange of gradients and the update of parameters by each rule, a part of the case
 * `train`. */
#ifndef BENCH_RULES_H
#define BENCH_RULES_H

#include "bench.h"

bool bench_rules(const bench_options *options);

#endif
