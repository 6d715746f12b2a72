/* Messages of a communicator over several processes. Those between two ranks of this process go by
 * the communicator of its members; the others by the machine of nodes_mail.c. */
#include "rounds_private.h"

#include "nodes_mail_private.h"
#include "nodes_staging_private.h"
#include "nodes_transport_private.h"
#include "slabs_private.h"

/* ---- memory ---- */

/* One block: the notes, and a note with a piece. */
static int64_t block_bytes(int32_t count) { return (int64_t)(count + 1) * (int64_t)sizeof(mst_nodes_note) + MST_NODES_CHUNK_BYTES; }

typedef struct letters {
    mst_nodes_call call;
    void *block, *arrays;
} letters;

static muster_status letters_open(letters *l, const char *what, int32_t count) {
    const int64_t each = (int64_t)sizeof(mst_nodes_letter) + (int64_t)sizeof(muster_wire_request);
    char *memory = mst_wire_memory(block_bytes(count), &l->block);
    l->arrays = memory ? mst_alloc((size_t)(count * each)) : NULL;
    if (!l->arrays) {
        if (memory) mst_wire_memory_free(l->block, block_bytes(count), false);
        return mst_out_of_memory(what, block_bytes(count) + count * each);
    }
    l->call.notes = (mst_nodes_note *)memory;
    l->call.chunk = memory + count * (int64_t)sizeof(mst_nodes_note);
    l->call.letters = l->arrays;
    l->call.note_requests = (muster_wire_request *)(l->call.letters + count);
    return MUSTER_OK;
}

static void letters_close(letters *l, bool in_use) {
    mst_wire_memory_free(l->block, block_bytes(l->call.count), in_use);
    mst_free(l->arrays);
}

/* ---- serving ---- */

static muster_status refused(const muster_communicator *communicator, const mst_nodes_call *call) {
    const mst_request *wanted = call->wanted->request;
    const bool sends = wanted->collective == MST_SEND;
    char own_name[MST_MEMBER_TEXT], other[MST_MEMBER_TEXT];
    const mst_nodes_note *note = &call->refused;
    const char *receiver = mst_member_text(communicator, sends ? note->from : call->rank, own_name);
    const char *sender = mst_member_text(communicator, sends ? call->rank : note->from, other);
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_worker_recv: %s expected %lld %s with tag %lld from %s, which waits to send %lld %s with tag %lld", receiver,
                     (long long)(sends ? note->count : wanted->output_count), muster_dtype_name(sends ? note->dtype : wanted->dtype),
                     (long long)(sends ? note->tag : wanted->tag), sender, (long long)(sends ? wanted->input_count : note->count),
                     muster_dtype_name(sends ? wanted->dtype : note->dtype), (long long)(sends ? wanted->tag : note->tag));
}

static muster_status exchange(muster_communicator *communicator, muster_worker *worker, const char *what, letters *l) {
    mst_nodes_state *state = mst_nodes_of(communicator);
    l->call.rank = mst_communicator_public(communicator, mst_communicator_rank(communicator, worker));
    mst_nodes_mail_begin(state->mail, &l->call, mst_nodes_epoch(state->span->nodes));
    const muster_status status = mst_nodes_drive_call(state, worker, what, &l->call.machine);
    const bool in_use = mst_nodes_mail_end(&l->call);
    const muster_status outcome = status == MUSTER_OK && l->call.failed ? refused(communicator, &l->call) : status;
    letters_close(l, in_use);
    return outcome;
}

/* Requests to ranks of other processes; on a device they go through copies in host memory. */
static muster_status run_remote(muster_communicator *communicator, muster_worker *worker, const char *what, mst_request *requests,
                                int32_t count) {
    letters l = {.call = {.count = count}};
    mst_request *staged = NULL;
    MUSTER_TRY(letters_open(&l, what, count));
    muster_status status = mst_nodes_stage(communicator, worker, requests, count, &staged);
    if (status != MUSTER_OK) return letters_close(&l, false), status;
    for (int32_t i = 0; i < count; i++)
        l.call.letters[i] =
            (mst_nodes_letter){.request = staged ? &staged[i] : &requests[i], .moved = requests[i].collective == MST_SEND ? -1 : 0};
    status = exchange(communicator, worker, what, &l);
    if (status == MUSTER_OK) status = mst_nodes_unstage(worker, requests, count, staged);
    mst_free(staged);
    return status;
}

/* ---- a message outside of a group ---- */

static bool is_local(const mst_rank_span *span, int32_t rank) { return span->process_of[rank] == span->here; }

muster_status mst_nodes_message(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    const mst_rank_span *span = communicator->span;
    mst_request one = *request;
    if (is_local(span, one.root)) {
        one.root = span->index_of[one.root];
        return mst_message_run(span->local, worker, &one);
    }
    const uint64_t event = mst_record_message_begin(&worker->recorder, mst_collective_name(request->collective), ++worker->sequence,
                                                    mst_message_bytes(request), span->worker_of[request->root], request->tag);
    const muster_status status = run_remote(communicator, worker, mst_request_function(request), &one, 1);
    mst_record_end(&worker->recorder, event);
    return status;
}

/* ---- the messages of a group ---- */

/* Puts those that stay in the process first, with ranks of span->local. Returns their number. */
static int32_t partition(const mst_rank_span *span, const mst_request *requests, int32_t count, mst_request *sorted) {
    int32_t locals = 0, next = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!is_local(span, requests[i].root)) continue;
        sorted[locals] = requests[i];
        sorted[locals++].root = span->index_of[requests[i].root];
    }
    next = locals;
    for (int32_t i = 0; i < count; i++)
        if (!is_local(span, requests[i].root)) sorted[next++] = requests[i];
    return locals;
}

muster_status mst_nodes_group(muster_communicator *communicator, muster_worker *worker, mst_request *collectives, mst_request *array,
                              int32_t collective_count, const mst_request *messages, int32_t count) {
    muster_communicator *local = communicator->span->local;
    mst_request *sorted = mst_alloc((size_t)count * sizeof *sorted);
    if (!sorted) return mst_out_of_memory("muster_worker_group_end: its messages", count * (int64_t)sizeof *sorted);
    const int32_t locals = partition(communicator->span, messages, count, sorted);
    muster_status status = mst_messages_post(local, worker, sorted, locals);
    if (status == MUSTER_OK && collective_count > 0)
        status = mst_rendezvous_run(communicator, worker, collectives, array, collective_count);
    if (status == MUSTER_OK && count > locals)
        status = run_remote(communicator, worker, "muster_worker_group_end", sorted + locals, count - locals);
    if (status == MUSTER_OK) status = mst_messages_receive(local, worker, sorted, locals);
    status = mst_messages_finish(local, worker, status);
    mst_free(sorted);
    return status;
}
