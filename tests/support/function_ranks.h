/* Bodies that each rank of a launch runs, for 1 to 4 ranks spread over processes in every way that
 * matters: all in one process, each in one of its own, two and two, three and one, and so on. The
 * processes are threads on the wire of tests/sim/wire. Where mpirun has started the test
 * (MUSTER_TEST_PROCESSES, collectives_processes.h), they are its processes, and the layouts are
 * those of so many. */
#ifndef FUNCTION_RANKS_H
#define FUNCTION_RANKS_H

#include "muster/communicator.h"
#include "muster/function.h"
#include "runtime_launch.h"

typedef struct ranks_layout {
    int32_t processes, ranks;
    int32_t each[4]; /* the ranks of each process */
} ranks_layout;
enum { RANKS_MOST = 4 };

/* What one rank does; a failure is the test's. */
typedef muster_status (*ranks_body)(muster_worker *worker, int32_t rank, int32_t size);
/* Every rank of every layout runs the body, for each name of a communicator. On GPUs of one process
 * by the library's choice only, on those of several also as non_cuda_aware. Asserts that each of
 * them did. */
void ranks_run(ranks_body body);
/* How often ranks_run runs the body in this process: once for each rank of each layout and name. A
 * sanitizer runs a sample of them: then how often the last ranks_run did. */
int32_t ranks_in_all(void);
/* The same for a launch with a process for each digit, which names its host, and one rank in each:
 * by the library's choice. Nothing where this run has no launch of so many. */
void ranks_run_on(const char *hosts, ranks_body body);
/* The same as ranks_run where every process of several ranks must return `expected`, with a
 * sentence that holds `text`. */
void ranks_refused(ranks_body body, muster_status expected, const char *text);

/* While bodies run: in which layout, and by which name; NULL: the library's choice. */
const ranks_layout *ranks_current_layout(void);
const char *ranks_current_name(void);

/* ---- in a body ---- */

/* A tensor in the worker's memory, every element of which is `value`. */
muster_status ranks_filled(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, double value,
                           muster_tensor *tensor);
/* The same with given values, or the numbers from `first` on. */
muster_status ranks_given(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, const double *values,
                          muster_tensor *tensor);
muster_status ranks_counted(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, double first,
                            muster_tensor *tensor);
/* Fails, naming `what`, unless the elements are exactly these, or all are `value`. */
muster_status ranks_expect(muster_worker *worker, muster_tensor tensor, const double *values, const char *what);
muster_status ranks_expect_all(muster_worker *worker, muster_tensor tensor, double value, const char *what);
/* The same for means, which rounding may change where the number of ranks is no power of two. */
muster_status ranks_expect_means(muster_worker *worker, muster_tensor tensor, const double *values, const char *what);
muster_status ranks_expect_mean(muster_worker *worker, muster_tensor tensor, double value, const char *what);

#endif
