/* A peer that lives in a process of its own, because its settings are read when it starts. It is
 * stopped by signal between its blocks: a library whose idle threads spin would otherwise take the
 * cores from the program that is measured next.
 *
 * Protocol, on the standard input and output of the peer, native byte order: the peer says one
 * line, "ok DESCRIPTION" or "no REASON", once
 * it is ready. Request: a bench_request. Answer: int64 number of wrong results, then `calls`
 * doubles, nanoseconds, and a newline: the mpirun of Open MPI 5 holds back what comes after the
 * last one. End of input: leave. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include "bench.h"

typedef struct bench_request {
    int32_t warm, calls;
    int64_t pause_ns;
} bench_request;

typedef struct bench_process bench_process;

/* argv ends with NULL; settings ("NAME=value", NULL at the end) go over the environment. NULL: it
 * could not be started or said no; says why in one line, after `name`. */
bench_process *bench_process_open(const char *name, char *const *argv, const char *const *settings);
const char *bench_process_description(const bench_process *process);
void bench_process_close(void *self);
bool bench_process_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

/* The same for a peer that sleeps by itself between its blocks, may have children (mpirun), and
 * leaves when its input ends: it is not stopped by signal, and close gives it time to leave.
 * exchange: any request, and the answer: int64 number of wrong results, `calls` doubles. */
bench_process *bench_process_open_sleeper(const char *name, char *const *argv, const char *const *settings);
bool bench_process_exchange(const bench_process *process, const void *request, size_t bytes, int32_t calls, double *ns, int64_t *wrong);

/* The path of a file beside this program; gives `path`. */
const char *bench_sibling_path(char path[1024], const char *file) __attribute__((nonnull));

/* Adds to the row: libgomp parallel regions with `threads` threads, active and passive; and with
 * peer.py, each library that each interpreter of MUSTER_BENCH_PYTHON (separated by colons) can
 * import, on so many threads. arguments: the case and its sizes, NULL at the end. */
void bench_add_libgomp(bench_row *row, int32_t threads);
void bench_add_python(bench_row *row, const char *library, int32_t threads, const char *const *arguments);

/* Adds the row's limit: the convolutions and dense layers of a network alone, by
 * muster-bench-onednn, where it was built, and copies that move so many megabytes. */
void bench_add_network_limit(bench_row *row, const char *model, int64_t batch, int64_t megabytes);

#endif
