/* The table and the curves of the case collectives. */
#ifndef BENCH_COLLECTIVES_REPORT_H
#define BENCH_COLLECTIVES_REPORT_H

#include "bench.h"
#include "collective.h"
#include "plot.h"

/* One size, both forms: [0] out of place, [1] in place. */
typedef struct bench_cell {
    collective_job job;
    bench_row rows[2];
} bench_cell;

void bench_cell_heading(const collective_job *job, bool peers);
void bench_cell_print(const bench_cell *cell);
/* Adds the bus bandwidths of a form to its curves, which bench_cell_curves has begun. */
enum { BENCH_CELL_CURVES = 5 };
void bench_cell_curves(bench_curve curves[BENCH_CELL_CURVES]);
void bench_cell_point(const bench_cell *cell, int32_t form, bench_curve curves[BENCH_CELL_CURVES]);
/* The members that a row of this job has more in the JSON file. */
void bench_cell_json(const collective_job *job, char *text, size_t size);

#endif
