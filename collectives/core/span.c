/* Where the members of a communicator over several processes are. */
#include "nodes/nodes_impl.h"
#include "rendezvous_private.h"

#include <stdio.h>

const char *mst_member_text(const muster_communicator *communicator, int32_t rank, char text[MST_MEMBER_TEXT]) {
    const mst_rank_span *span = communicator->span;
    if (!span) return mst_team_rank_text(communicator->team, communicator->members[rank].rank, text);
    const int32_t worker = span->worker_of[rank];
    char number[24] = "", process[MST_PROCESS_TEXT];
    if (worker != rank) snprintf(number, sizeof number, "worker %d, ", worker);
    mst_nodes_process_text(span->nodes, span->numbers[span->process_of[rank]], process);
    snprintf(text, MST_MEMBER_TEXT, "rank %d (%s%s)", rank, number, process);
    return text;
}

void mst_rank_span_free(mst_rank_span *span) {
    if (!span) return;
    mst_free(span->numbers); /* and all the others */
    mst_free(span);
}

static muster_status span_allocate(const char *where, mst_rank_span *span, int32_t processes, int32_t size) {
    const int64_t numbers = 2 * (int64_t)processes + 4 * (int64_t)size;
    int32_t *next = mst_alloc((size_t)numbers * sizeof *next);
    if (!next) return mst_out_of_memory(where, numbers * (int64_t)sizeof *next);
    span->numbers = next;
    span->counts = next += processes;
    span->process_of = next += processes;
    span->index_of = next += size;
    span->worker_of = next += size;
    span->ranks = next + size;
    return MUSTER_OK;
}

/* Numbers the processes that have members, in ascending order. Returns how many. */
static int32_t span_processes(const mst_nodes *nodes, const int32_t *workers, int32_t size, int32_t *numbers) {
    int32_t count = 0;
    for (int32_t p = 0; p < nodes->processes; p++) {
        bool has = false;
        for (int32_t r = 0; r < size && !has; r++) has = workers[r] >= nodes->first[p] && workers[r] < nodes->first[p + 1];
        if (!has) continue;
        if (numbers) numbers[count] = p;
        count++;
    }
    return count;
}

int32_t mst_rank_span_count(const mst_nodes *nodes, const int32_t *workers, int32_t size) {
    return span_processes(nodes, workers, size, NULL);
}

muster_status mst_rank_span_make(const char *where, mst_nodes *nodes, int32_t lane, const int32_t *workers, int32_t size,
                                 mst_rank_span **made) {
    mst_rank_span *span = mst_alloc(sizeof *span);
    if (!span) return mst_out_of_memory(where, sizeof *span);
    const int32_t processes = mst_rank_span_count(nodes, workers, size);
    *span = (mst_rank_span){.nodes = nodes, .lane = lane, .size = size, .processes = processes, .here = -1};
    const muster_status status = span_allocate(where, span, processes, size);
    if (status != MUSTER_OK) return mst_free(span), status;
    span_processes(nodes, workers, size, span->numbers);
    for (int32_t r = 0; r < size; r++) {
        const int32_t number = mst_nodes_process_of(nodes, workers[r]);
        int32_t p = 0;
        while (span->numbers[p] != number) p++;
        span->worker_of[r] = workers[r];
        span->process_of[r] = p;
        span->index_of[r] = span->counts[p]++;
        if (number == nodes->process) span->ranks[span->index_of[r]] = r;
        if (span->counts[p] > span->most) span->most = span->counts[p];
        if (number == nodes->process) span->here = p;
    }
    *made = span;
    return MUSTER_OK;
}
