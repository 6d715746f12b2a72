/* What the cases share of Muster's side. */
#ifndef BENCH_MUSTER_CASE_H
#define BENCH_MUSTER_CASE_H

#include "bench.h"

#include <muster/muster.h>

/* Says the last error and returns false unless `status` is MUSTER_OK. */
bool bench_muster_ok(muster_status status, const char *what);

/* A runtime of `devices` host devices; NULL after saying why. */
muster_runtime *bench_muster_open(int32_t devices);

/* Adds Muster twice, as two contenders that run the same: their ratio is the noise figure of the
 * row. */
void bench_muster_add(bench_row *row, const char *name, void *self, bool (*block)(void *, const bench_block *, double *, int64_t *));

#endif
