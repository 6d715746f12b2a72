/* What ways_suite.py starts under mpirun: every collective over the processes of the launch, each
 * of which has a few ranks, and how many of them went by the MPI's own. */
#include "collectives_node_cases.h"
#include "collectives_spans.h"
#include "muster/status.h"
#include "nodes/nodes_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static muster_status run(spans_process *process) {
    node_case_list list = node_cases_all(mst_nodes_total(process->nodes), true);
    node_cases_progress progress = {.list = &list};
    process->task = node_cases_run;
    process->argument = &progress;
    const int64_t before = atomic_load(&process->nodes->wire->collectives);
    const muster_status status = spans_process_run(process);
    char text[2048] = "";
    mst_nodes_ways_describe(process->nodes, text, sizeof text);
    text[strcspn(text, "\n")] = 0;
    printf("process %d of %d: %lld cases of %d, %lld collectives of the MPI at open and %lld then; %s\n", (int)process->nodes->process,
           (int)process->nodes->processes, (long long)list.count, (int)process->count, (long long)before,
           (long long)(atomic_load(&process->nodes->wire->collectives) - before), text);
    free(list.cases);
    return status;
}

int main(int count, char **arguments) {
    static spans_launch launch = {.fail_after_ns = 60000000000ll};
    spans_process *process = &launch.process[0];
    process->launch = &launch;
    process->count = count > 1 ? atoi(arguments[1]) : 1;
    muster_status status = spans_process_open(process);
    if (status == MUSTER_OK && process->nodes) status = run(process);
    if (status != MUSTER_OK) printf("failed %s: %s\n", muster_status_name(status), muster_last_error());
    fflush(stdout);
    if (process->nodes) spans_process_close(process);
    return status != MUSTER_OK;
}
