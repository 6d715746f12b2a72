/* The rows of `dispatch` on a machine that other programs keep busy. */
#ifndef BENCH_BUSY_H
#define BENCH_BUSY_H

#include "bench.h"

bool bench_busy(const bench_options *options);

#endif
