/* Rows that the workers of a process compute, for the report of collectives_processes.h: those of
 * all processes together are the rows of the calls. */
#include "call_private.h"
#include "collectives_processes.h"

/* The linker's option --wrap leads what the library calls here. */
muster_status __real_mst_call_run_rank(mst_call *call, muster_worker *worker);
muster_status __wrap_mst_call_run_rank(mst_call *call, muster_worker *worker);

muster_status __wrap_mst_call_run_rank(mst_call *call, muster_worker *worker) {
    int64_t rows = 0;
    const int32_t count = mst_call_shards_per_rank(call);
    for (int32_t s = worker->rank * count; s < (worker->rank + 1) * count; s++) rows += call->shards[s].rows;
    if (!mst_worker_is_single(worker) && call->function->object.runtime->nodes)
        processes_count_rows(rows, worker->rank == 0 ? call->function->plan.count : 0);
    return __real_mst_call_run_rank(call, worker);
}
