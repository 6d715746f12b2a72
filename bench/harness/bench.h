/* A row: several contenders that do the same work, measured interleaved. Every round gives each
 * contender one short block, in an order that rotates, so that whatever the machine does to one it
 * does to all; ratios are taken within a round and reported with their spread. */
#ifndef BENCH_H
#define BENCH_H

#include "clock.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { BENCH_CONTENDERS = 32, BENCH_TARGETS = 8, BENCH_NAME = 96 };

/* What a contender is to the row: the others are divided by the limit; Muster is divided by each
 * peer. */
typedef enum { BENCH_LIMIT, BENCH_MUSTER, BENCH_MUSTER_AGAIN, BENCH_PEER } bench_kind;

typedef struct bench_contender {
    char name[BENCH_NAME];
    bench_kind kind;
    void *self;
    /* Runs one block; ns[block->calls] out. Adds the wrong results to *wrong. false: it cannot go
     * on (it has said why). On return nothing of it burns CPU time for longer than the rest between
     * blocks. */
    bool (*block)(void *self, const bench_block *block, double *ns, int64_t *wrong);
    void (*close)(void *self); /* NULL: nothing to close */
    /* measured */
    double *samples; /* [rounds * calls] */
    double *rounds;  /* [rounds], the typical time of each block */
    double p50, p95, p99, least;
    double typical;                         /* the median over the rounds */
    double limit_ratio[3], muster_ratio[3]; /* this / limit, muster / this: median, p10, p90 over the rounds */
    int64_t wrong;
    bool dropped;
} bench_contender;

/* A bound that the row should keep. */
typedef enum { BENCH_RATIO, BENCH_RATIO_P99, BENCH_DIFFERENCE_NS, BENCH_MEDIAN_NS, BENCH_SPEEDUP } bench_measure;
typedef struct bench_target {
    /* of Muster against `reference`: ratio of times; SPEEDUP: reference time / Muster's, at
     * least */
    bench_measure measure;
    char reference[BENCH_NAME]; /* contender whose name begins so; the fastest of several */
    double bound;
} bench_target;

typedef struct bench_row {
    char name[BENCH_NAME];
    bench_block block;
    int32_t round_count;
    int64_t rest_ns; /* between blocks; 0: 0.2 ms */
    /* a block's figure is its median, not its trimmed mean: where the kernel's scheduling disturbs
     * calls now and then */
    bool median;
    const char *json; /* more members for the row's JSON object, each with a comma before it; NULL: none */
    double items;     /* per call, for the column of items/s; 0: no such column */
    const char *items_name;
    bench_contender contenders[BENCH_CONTENDERS];
    int32_t count;
    bench_target targets[BENCH_TARGETS];
    int32_t target_count;
} bench_row;

typedef struct bench_options {
    const char *json; /* NULL: none */
    int32_t rounds;   /* 0: as the row likes */
    bool quick;
    const char *row; /* only rows with this in their name; NULL: all */
    bool list;       /* operations: print the names of the rows, measure nothing */
    /* collectives: as in nccl-tests. Zero or NULL: the default; calls and warm -1: by size */
    int64_t begin, end; /* bytes */
    double factor;
    int32_t calls, warm;
    const char *ranks, *ops, *plot;
    bool no_peers;
    const char *mpi; /* nodes: the MPIs, "openmpi,mpich"; NULL: all of this machine */
    bool schedules;  /* nodes: each schedule alone, too */
} bench_options;

/* Adds a contender and takes it over (close is called when the row ends). A contender that does not
 * fit is closed. */
void bench_add(bench_row *row, bench_kind kind, const char *name, void *self,
               bool (*block)(void *, const bench_block *, double *, int64_t *), void (*close)(void *));
void bench_target_add(bench_row *row, bench_measure measure, const char *reference, double bound);

/* Is the row asked for? */
bool bench_wanted(const bench_options *options, const char *row_name);

/* Measures, prints, writes to the JSON file, closes the contenders and frees what was measured.
 * false: out of memory, or Muster failed. */
bool bench_run(bench_row *row, const bench_options *options);
/* The same in parts, for cases with a table of their own. Close also a row that could not be
 * measured. */
bool bench_measure_row(bench_row *row, const bench_options *options);
bool bench_close_row(bench_row *row);
/* The contender of this kind whose name begins so (NULL: any), the fastest by the median over its
 * rounds; NULL: none was measured. */
const bench_contender *bench_fastest(const bench_row *row, bench_kind kind, const char *name);

/* statistics.c. Both sort a copy; percentile by nearest rank. */
/* The middle of a block's sorted times: the mean without the outer 5 % at each end, because the
 * processor's counter may advance in steps (10 ns in some virtual machines) that a median of short
 * calls would keep; the median where there are few. */
double bench_typical(const double *sorted, int64_t count);
double bench_percentile(const double *sorted, int64_t count, double percent);
void bench_sort(double *values, int64_t count);
void bench_analyse(bench_row *row);
/* Muster's figure for the target; false: there is no such contender. reference: the name found. */
bool bench_target_value(const bench_row *row, const bench_target *target, double *value, const char **reference);
/* A limit is at fault if anything else in its row takes less than 1 - BENCH_LIMIT_SLACK of its
 * time: then it is none. Returns the fastest such contender; NULL: there is none, or no limit. */
#define BENCH_LIMIT_SLACK 0.05
const bench_contender *bench_limit_fault(const bench_row *row);
/* Counts an analysed row. bench_limits_print prints the numbers of limits and of faults so far, and
 * returns the latter. */
void bench_limits_count(const bench_row *row);
int32_t bench_limits_print(void);
bool bench_target_met(const bench_target *target, double value);

/* report.c, json.c */
void bench_print(const bench_row *row);
void bench_print_targets(const bench_row *row, const char *before); /* each line begins with `before` */
bool bench_json_open(const char *path, const char *case_name);
void bench_json_row(const bench_row *row);
bool bench_json_close(void);
void bench_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* machine.c. cpu: the i-th allowed CPU, one per physical core first; -1 beyond the last. */
void bench_machine_init(void);
int32_t bench_cpu(int32_t i);
int32_t bench_cores(void);
void bench_pin(int32_t cpu); /* this thread */
void bench_unpin(void);      /* back to what the program was started with */
const char *bench_machine(void);

/* cases */
bool bench_dispatch(const bench_options *options);
bool bench_gpu_case(const bench_options *options);
bool bench_kernels(const bench_options *options);
bool bench_call(const bench_options *options);
bool bench_collectives(const bench_options *options);
bool bench_train(const bench_options *options);
bool bench_graph(const bench_options *options);
bool bench_nodes(const bench_options *options);
bool bench_server(const bench_options *options);
bool bench_operations(const bench_options *options);
bool bench_loops(const bench_options *options);
bool bench_models(const bench_options *options);
bool bench_networks(const bench_options *options);

#endif
