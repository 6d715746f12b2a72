/* Collectives over several processes: every collective, dtype and reduction, and sizes on both
 * sides of every bound, against an oracle that shares no code with the library. */
#ifndef COLLECTIVES_NODE_CASES_H
#define COLLECTIVES_NODE_CASES_H

#include "muster/communicator.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Sanitizers make all slower: one small case in five or eleven by MUSTER_SEED, which is all kinds,
 * dtypes, reductions and sizes between them, because a dtype and reduction of a kind has 4, 7 or 8
 * cases. With the sanitizer of threads one large one in three. */
enum { NODE_CASES_SMALL = 1784 };
int64_t node_cases_one_in(void);
int64_t node_cases_large_one_in(void);
enum { NODE_CASES_LARGE = 22, NODE_CASES_LARGE_COUNT = 524288 + 3 }; /* several rounds */

typedef struct node_case_list {
    struct node_case *cases; /* the caller's to free */
    int64_t count, room, met, met_large;
} node_case_list;
/* The small ones, and with `large` the large ones, for so many ranks. */
node_case_list node_cases_all(int32_t size, bool large);

typedef struct node_cases_progress {
    const node_case_list *list;
    _Atomic int64_t entered; /* by all workers of this process */
} node_cases_progress;
/* A task of every worker, with a node_cases_progress. Errors: USER, with what is wrong. */
muster_status node_cases_run(muster_worker *worker, void *progress);

#endif
