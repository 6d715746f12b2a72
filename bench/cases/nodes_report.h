/* The tables of the case nodes: that of the OSU micro-benchmarks for each operation, and the list
 * of what the project asks of itself. */
#ifndef BENCH_NODES_REPORT_H
#define BENCH_NODES_REPORT_H

#include "nodes_launch.h"
#include "plot.h"

const char *bench_nodes_op_name(int32_t op); /* "all_reduce", "latency" */
int32_t bench_nodes_op_find(const char *name);
/* Has the operation a bandwidth as its figure? */
bool bench_nodes_is_stream(int32_t op);

void bench_nodes_heading(int32_t op, int32_t processes, int32_t devices);
/* The lines of one size. What the contenders point to is bench_nodes_contender. */
void bench_nodes_print(const bench_row *row, int32_t op, int64_t bytes);
/* Keeps what has become of the row's targets. number: of the table that is printed at the end. */
void bench_nodes_keep(const bench_row *row, int32_t number);
/* That table; not_measured: says for rows that no line was kept of what would measure them. */
void bench_nodes_print_kept(void);

/* Curves of a panel: bus bandwidth, or that of messages. */
enum { BENCH_NODES_CURVES = 6 };
void bench_nodes_curves(bench_curve curves[BENCH_NODES_CURVES]);
void bench_nodes_point(const bench_row *row, const collective_job *job, bench_curve curves[BENCH_NODES_CURVES]);

#endif
