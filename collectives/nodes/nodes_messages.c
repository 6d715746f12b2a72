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

void mst_nodes_desk_close(mst_nodes_desk *desk, bool in_use) {
    if (!desk->arrays) return;
    mst_wire_memory_free(desk->block, block_bytes(desk->capacity), in_use);
    mst_free(desk->arrays);
    *desk = (mst_nodes_desk){.capacity = 0};
}

muster_status mst_nodes_desk_open(mst_nodes_desk *desk, const char *what, int32_t count) {
    const int64_t each = (int64_t)sizeof(mst_nodes_letter) + (int64_t)sizeof(muster_wire_request) + 2 * (int64_t)sizeof(mst_request);
    int32_t capacity = 4;
    if (count <= desk->capacity) return MUSTER_OK;
    while (capacity < count) capacity *= 2;
    mst_nodes_desk_close(desk, false);
    char *memory = mst_wire_memory(block_bytes(capacity), &desk->block);
    desk->arrays = memory ? mst_alloc((size_t)(capacity * each)) : NULL;
    if (!desk->arrays) {
        if (memory) mst_wire_memory_free(desk->block, block_bytes(capacity), false);
        return mst_out_of_memory(what, block_bytes(capacity) + capacity * each);
    }
    desk->capacity = capacity;
    desk->sorted = desk->arrays;
    desk->staged = desk->sorted + capacity;
    desk->call.letters = (mst_nodes_letter *)(desk->staged + capacity);
    desk->call.note_requests = (muster_wire_request *)(desk->call.letters + capacity);
    desk->call.notes = (mst_nodes_note *)memory;
    desk->call.chunk = memory + capacity * (int64_t)sizeof(mst_nodes_note);
    return MUSTER_OK;
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

/* Messages to and from ranks of other processes, and what else the group has to do meanwhile. */
typedef struct exchange {
    muster_communicator *communicator;
    muster_worker *worker;
    const char *what;
    mst_nodes_desk *desk;
    const mst_request *remote;
    int32_t remotes;
    mst_request *local; /* with ranks of span->local */
    int32_t locals;
    muster_status looked;     /* what looking for local messages has come to */
    int32_t questions;        /* so far */
    mst_nodes_letter *wanted; /* of the last question about a rank that may have returned */
    mst_unattended unattended;
} exchange;

/* On a device the messages go through copies in host memory. */
static muster_status exchange_begin(exchange *e) {
    mst_nodes_state *state = mst_nodes_of(e->communicator);
    mst_nodes_call *call = &e->desk->call;
    MUSTER_TRY(mst_nodes_stage(e->communicator, e->worker, e->remote, e->remotes, e->desk->staged));
    for (int32_t i = 0; i < e->remotes; i++) {
        call->letters[i] = (mst_nodes_letter){.request = &e->desk->staged[i], .moved = e->remote[i].collective == MST_SEND ? -1 : 0};
        call->note_requests[i] = 0;
    }
    call->count = e->remotes;
    call->rank = mst_communicator_public(e->communicator, mst_communicator_rank(e->communicator, e->worker));
    mst_nodes_mail_begin(state->mail, call, mst_nodes_epoch(state->span->nodes));
    return MUSTER_OK;
}

static muster_status exchange_end(exchange *e, muster_status status) {
    mst_nodes_call *call = &e->desk->call;
    const bool in_use = mst_nodes_mail_end(call);
    if (status == MUSTER_OK && call->failed) status = refused(e->communicator, call);
    if (status == MUSTER_OK) status = mst_nodes_unstage(e->worker, e->remote, e->remotes, e->desk->staged);
    if (in_use) mst_nodes_desk_close(e->desk, true); /* only of messages that were given up */
    return status;
}

/* In each turn of the wait for other processes: what members of this process offer is taken, since
 * others may need that before they send what this rank waits for. */
static bool exchange_look(void *context) {
    exchange *e = context;
    if (mst_pool_aborted(e->worker)) return true;
    e->looked = mst_messages_look(e->communicator->span->local, e->worker, e->local, e->locals);
    return e->looked != MUSTER_OK;
}

/* Each question is about the next message for which this rank waits. */
static int32_t exchange_wanted(void *context, mst_control_wanted *wanted) {
    exchange *e = context;
    const mst_rank_span *span = e->communicator->span;
    const mst_nodes_call *call = &e->desk->call;
    e->wanted = NULL;
    for (int32_t i = 0; i < call->count && !e->wanted; i++) {
        mst_nodes_letter *letter = &call->letters[e->questions++ % call->count];
        if (mst_nodes_letter_waits(letter)) e->wanted = letter;
    }
    if (!e->wanted) return -1;
    const mst_request *request = e->wanted->request;
    *wanted = (mst_control_wanted){.birth = mst_nodes_of(e->communicator)->lane->birth,
                                   .rank = call->rank,
                                   .peer = request->root,
                                   .tag = request->tag,
                                   .sends = request->collective == MST_SEND};
    return span->numbers[span->process_of[request->root]];
}

/* A message that has begun meanwhile comes to its end: both ranks stay until then. */
static bool exchange_holds(void *context) { return mst_nodes_letter_waits(((exchange *)context)->wanted); }

static muster_status exchange_refuse(void *context, int32_t process, const mst_control_message *answer) {
    const exchange *e = context;
    const mst_request *request = e->wanted->request;
    const mst_control_wanted wanted = {.rank = e->desk->call.rank, .tag = request->tag, .sends = request->collective == MST_SEND};
    (void)process;
    return mst_nodes_refuse_returned(mst_nodes_of(e->communicator), mst_request_function(request), &wanted, request->root, answer->text);
}

static muster_status exchange_drive(exchange *e) {
    const mst_nodes_wants wants = {.wanted = exchange_wanted, .holds = exchange_holds, .refuse = exchange_refuse, .context = e};
    mst_nodes_driven driven = {.what = e->what, .machine = &e->desk->call.machine, .ends = exchange_look, .context = e, .wants = &wants};
    const muster_status status = mst_nodes_drive_call(mst_nodes_of(e->communicator), e->worker, &driven);
    if (driven.returned || status == MUSTER_TIMEOUT) mst_pool_abort(e->worker, status); /* as between ranks of one process */
    return e->looked != MUSTER_OK ? e->looked : status;
}

/* ---- a message outside of a group ---- */

static bool is_local(const mst_rank_span *span, int32_t rank) { return span->process_of[rank] == span->here; }

static mst_nodes_desk *desk_of(const muster_communicator *communicator, const muster_worker *worker) {
    return &mst_nodes_of(communicator)->desks[mst_communicator_rank(communicator, worker)];
}

static muster_status send_or_receive(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    exchange e = {.communicator = communicator,
                  .worker = worker,
                  .what = mst_request_function(request),
                  .desk = desk_of(communicator, worker),
                  .remote = request,
                  .remotes = 1};
    MUSTER_TRY(mst_nodes_desk_open(e.desk, e.what, 1));
    MUSTER_TRY(exchange_begin(&e));
    return exchange_end(&e, exchange_drive(&e));
}

muster_status mst_nodes_message(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    const mst_rank_span *span = communicator->span;
    mst_request one = *request;
    if (is_local(span, one.root)) {
        one.root = span->index_of[one.root];
        return mst_message_run(span->local, worker, &one);
    }
    const uint64_t event = mst_record_message_begin(&worker->recorder, mst_collective_name(request->collective), ++worker->sequence,
                                                    mst_message_bytes(request), span->worker_of[request->root], request->tag);
    const muster_status status = send_or_receive(communicator, worker, &one);
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

/* A rank offers all its messages before it waits for another rank: two ranks whose messages wait
 * for each other would hang otherwise. */
muster_status mst_nodes_group(muster_communicator *communicator, muster_worker *worker, mst_request *collectives, mst_request *array,
                              int32_t collective_count, const mst_request *messages, int32_t count) {
    muster_communicator *local = communicator->span->local;
    mst_nodes *nodes = communicator->span->nodes;
    exchange e = {.communicator = communicator, .worker = worker, .what = "muster_worker_group_end", .desk = desk_of(communicator, worker)};
    MUSTER_TRY(mst_nodes_desk_open(e.desk, e.what, count));
    e.local = e.desk->sorted;
    e.locals = partition(communicator->span, messages, count, e.local);
    e.remote = e.local + e.locals;
    e.remotes = count - e.locals;
    if (e.remotes > 0) MUSTER_TRY(exchange_begin(&e));
    if (e.remotes > 0) mst_nodes_unattended_begin(nodes, &e.unattended, &e.desk->call.machine);
    muster_status status = mst_messages_post(local, worker, e.local, e.locals);
    if (status == MUSTER_OK && collective_count > 0)
        status = mst_rendezvous_run(communicator, worker, collectives, array, collective_count);
    if (e.remotes > 0) {
        const muster_status driven = mst_nodes_unattended_end(nodes, &e.unattended, e.what);
        if (status == MUSTER_OK) status = driven;
        if (status == MUSTER_OK) status = exchange_drive(&e);
        status = exchange_end(&e, status);
    }
    if (status == MUSTER_OK) status = mst_messages_receive(local, worker, e.local, e.locals);
    return mst_messages_finish(local, worker, status);
}
