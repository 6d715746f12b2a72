/* The rows of the case nodes: launches, and what is measured in them. */
#ifndef BENCH_NODES_ROWS_H
#define BENCH_NODES_ROWS_H

#include "nodes_report.h"

/* All launches for one number of processes. */
typedef struct bench_stage {
    int32_t processes, devices, count;
    bench_launch launches[BENCH_LAUNCHES];
} bench_stage;
/* false: no MPI starts; it has said so. */
bool bench_stage_open(bench_stage *on, int32_t processes, int32_t devices, const bench_options *options);
void bench_stage_close(bench_stage *on);

/* The contenders of one row. */
typedef struct bench_nodes_all {
    bench_nodes_contender at[BENCH_CONTENDERS];
    int32_t count;
    char json[256];
} bench_nodes_all;

/* nodes_contenders.c */
void bench_nodes_add(bench_row *row, bench_nodes_all *all, bench_kind kind, const char *name, const bench_launch *launch, nodes_way way,
                     collective_job job);
/* first: the Muster of the row, and once more as its noise figure; else a peer. */
void bench_nodes_add_muster(bench_row *row, bench_nodes_all *all, const bench_launch *launch, bool first, const collective_job *job);
/* Muster, the bare wire and the peers of every launch. */
void bench_nodes_add_all(bench_row *row, bench_nodes_all *all, const bench_stage *on, const collective_job *job,
                         const bench_options *options);

/* A row whose operations move `moved` bytes each. */
bench_row bench_nodes_row(const bench_options *options, const bench_nodes_all *all, int64_t moved);

/* nodes_asked.c: adds the row's targets when it is measured, and returns its number in the list of
 * bench/README.md; 0: none. */
int32_t bench_nodes_ask(bench_row *row, const bench_stage *on, const collective_job *job);
/* Row 6: the same with f16 on the wire, where the links are narrow. */
bool bench_nodes_half(const bench_stage *on, const collective_job *job, const bench_options *options);
/* Those of rows 1, 2 and 4 that are wanted. */
bool bench_nodes_asked(const bench_options *options);

#endif
