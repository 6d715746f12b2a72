/* The state machine of messages between ranks of different processes. */
#include "nodes_mail_private.h"

#include "memory_impl.h"
#include "slabs_private.h"

#include <string.h>

enum { INCOMING_BYTES = sizeof(mst_nodes_note) + MST_NODES_CHUNK_BYTES };

muster_status mst_nodes_mail_open(mst_nodes_mail *mail, const mst_channel *channel, const mst_rank_span *span) {
    *mail = (mst_nodes_mail){.channel = *channel, .span = span};
    mail->incoming = mst_wire_memory(INCOMING_BYTES, &mail->block);
    return mail->incoming ? MUSTER_OK : mst_out_of_memory("messages between processes", INCOMING_BYTES);
}

static void free_list(mst_nodes_ready *list) {
    while (list) {
        mst_nodes_ready *next = list->next;
        mst_free(list);
        list = next;
    }
}

void mst_nodes_mail_close(mst_nodes_mail *mail) {
    if (!mail->block) return;
    free_list(mail->ready);
    free_list(mail->unused);
    mst_wire_memory_free(mail->block, INCOMING_BYTES, mail->request != 0);
}

static int32_t process_of(const mst_nodes_mail *mail, int32_t rank) {
    return mst_channel_process(&mail->channel, mail->span->process_of[rank]);
}

static int64_t bytes_of(const mst_request *r) {
    return muster_dtype_size(r->dtype) * (r->collective == MST_SEND ? r->input_count : r->output_count);
}

/* ---- what has come ---- */

static bool keep_ready(mst_nodes_mail *mail, const mst_nodes_note *note) {
    mst_nodes_ready *kept = mail->unused, **end = &mail->ready;
    if (kept)
        mail->unused = kept->next;
    else
        kept = mst_alloc(sizeof *kept);
    if (!kept) return false;
    while (*end) end = &(*end)->next;
    *kept = (mst_nodes_ready){.note = *note};
    *end = kept;
    return true;
}

static mst_nodes_letter *expected_letter(mst_nodes_call *call, const mst_nodes_note *note) {
    for (int32_t i = 0; i < call->count; i++) {
        mst_nodes_letter *letter = &call->letters[i];
        if (letter->done || letter->request->collective != MST_RECV || letter->request->root != note->from) continue;
        if (note->refused || letter->request->tag == note->tag) return letter;
    }
    return NULL;
}

/* A piece for a call that has ended is dropped. */
static void take_chunk(mst_nodes_mail *mail, const mst_nodes_note *note, const char *chunk, int64_t bytes) {
    mst_nodes_call *call = mail->calls;
    while (call && call->rank != note->to) call = call->next;
    mst_nodes_letter *letter = call ? expected_letter(call, note) : NULL;
    if (!letter) return;
    if (note->refused) {
        call->failed = true;
        call->refused = *note;
        call->wanted = letter;
        return;
    }
    const int64_t all_bytes = bytes_of(letter->request);
    if (note->offset + bytes > all_bytes) return;
    memcpy((char *)letter->request->output + note->offset, chunk, (size_t)bytes);
    letter->moved = note->offset + bytes;
    call->took = true;
    letter->done = letter->moved == all_bytes;
}

static mst_progress take_incoming(mst_nodes_mail *mail, int64_t bytes) {
    mst_nodes_note note;
    memcpy(&note, mail->incoming, sizeof note);
    if (note.epoch != mail->epoch) return MST_PROGRESS_RUNNING; /* of a call that was given up */
    if (mail->is_ready_note) {
        if (keep_ready(mail, &note)) return MST_PROGRESS_RUNNING;
        mst_out_of_memory("messages between processes", sizeof(mst_nodes_ready));
        return MST_PROGRESS_FAILED;
    }
    take_chunk(mail, &note, mail->incoming + sizeof note, bytes - (int64_t)sizeof note);
    return MST_PROGRESS_RUNNING;
}

/* Begins to receive a message of this kind, if there is one. */
static int32_t look_for(mst_nodes_mail *mail, mst_kind kind) {
    const mst_wire *wire = mail->channel.wire;
    const int32_t tag = mst_channel_tag(&mail->channel, kind);
    int32_t there = 0;
    muster_wire_status status;
    int32_t result = wire->table->probe(wire->state, -1, tag, &there, &status);
    if (result != MUSTER_WIRE_OK || !there) return result;
    mail->is_ready_note = kind == MST_KIND_READY;
    return wire->table->receive(wire->state, mail->incoming, INCOMING_BYTES, status.from, tag, &mail->request);
}

enum { TRIES = 4 }; /* messages that one call of `progress` takes */
static mst_progress take_all(mst_nodes_mail *mail) {
    const mst_wire *wire = mail->channel.wire;
    for (int32_t attempt_number = 0; attempt_number < TRIES; attempt_number++) {
        int32_t result = MUSTER_WIRE_OK, done = 0;
        muster_wire_status status;
        if (mail->request == 0) result = look_for(mail, MST_KIND_READY);
        if (result == MUSTER_WIRE_OK && mail->request == 0) result = look_for(mail, MST_KIND_MESSAGE);
        if (result == MUSTER_WIRE_OK && mail->request == 0) return MST_PROGRESS_RUNNING;
        if (result == MUSTER_WIRE_OK) result = wire->table->test(wire->state, &mail->request, &done, &status);
        if (result != MUSTER_WIRE_OK) return mst_channel_failed(&mail->channel, result, "a message");
        if (!done) return MST_PROGRESS_RUNNING;
        if (take_incoming(mail, status.bytes) == MST_PROGRESS_FAILED) return MST_PROGRESS_FAILED;
    }
    return MST_PROGRESS_RUNNING;
}

/* ---- what goes ---- */

static int32_t send_notes(mst_nodes_call *call) {
    mst_nodes_mail *mail = call->mail;
    for (; call->ready < call->count; call->ready++) {
        const mst_request *request = call->letters[call->ready].request;
        if (request->collective != MST_RECV) continue;
        int32_t more = 0;
        for (int32_t i = call->ready + 1; i < call->count; i++)
            more += call->letters[i].request->collective == MST_RECV && call->letters[i].request->root == request->root;
        mst_nodes_note *note = &call->notes[call->ready];
        *note = (mst_nodes_note){.epoch = mail->epoch,
                                 .tag = request->tag,
                                 .count = request->output_count,
                                 .from = call->rank,
                                 .to = request->root,
                                 .more = more,
                                 .dtype = request->dtype};
        const int32_t result = mst_wire_send(mail->channel.wire, note, sizeof *note, process_of(mail, request->root),
                                             mst_channel_tag(&mail->channel, MST_KIND_READY), false, &call->note_requests[call->ready]);
        if (result != MUSTER_WIRE_OK) return result;
    }
    return MUSTER_WIRE_OK;
}

/* The first send to this rank that waits, of any tag where `tag` is NULL; NULL: none. */
static mst_nodes_letter *sendable(mst_nodes_call *call, int32_t peer, const int64_t *tag) {
    for (int32_t i = 0; i < call->count; i++) {
        mst_nodes_letter *letter = &call->letters[i];
        if (letter->done || letter->moved >= 0 || letter->request->collective != MST_SEND) continue;
        if (letter->request->root == peer && (!tag || letter->request->tag == *tag)) return letter;
    }
    return NULL;
}

static int32_t send_chunk(mst_nodes_call *call, mst_nodes_letter *letter, bool refused) {
    mst_nodes_mail *mail = call->mail;
    const mst_request *request = letter->request;
    const int64_t all_bytes = bytes_of(request), left = all_bytes - letter->moved;
    const int64_t bytes = refused ? 0 : left < MST_NODES_CHUNK_BYTES ? left : MST_NODES_CHUNK_BYTES;
    const mst_nodes_note note = {.epoch = mail->epoch,
                                 .tag = request->tag,
                                 .count = request->input_count,
                                 .offset = letter->moved,
                                 .from = call->rank,
                                 .to = request->root,
                                 .dtype = request->dtype,
                                 .refused = refused};
    memcpy(call->chunk, &note, sizeof note);
    if (bytes > 0) memcpy(call->chunk + sizeof note, (const char *)request->input + letter->moved, (size_t)bytes);
    letter->moved += bytes;
    call->took = true;
    call->sending = (int32_t)(letter - call->letters);
    /* the last piece is done only when the receiver has it */
    return mst_wire_send(mail->channel.wire, call->chunk, (int64_t)sizeof note + bytes, process_of(mail, request->root),
                         mst_channel_tag(&mail->channel, MST_KIND_MESSAGE), letter->moved == all_bytes, &call->chunk_request);
}

static void drop(mst_nodes_mail *mail, mst_nodes_ready **at) {
    mst_nodes_ready *dropped = *at;
    *at = dropped->next;
    dropped->next = mail->unused;
    mail->unused = dropped;
}

static int32_t refuse(mst_nodes_call *call, mst_nodes_letter *letter, mst_nodes_ready **at) {
    call->failed = true;
    call->refused = (*at)->note;
    call->wanted = letter;
    drop(call->mail, at);
    letter->moved = 0;
    return send_chunk(call, letter, true);
}

/* Looks for a receiver that is ready for something that this call sends. A receiver that has said
 * all that it is ready for, and wants nothing of what waits for it, never will. */
static int32_t begin_send(mst_nodes_call *call) {
    mst_nodes_mail *mail = call->mail;
    for (mst_nodes_ready **at = &mail->ready; *at; at = &(*at)->next) {
        const mst_nodes_note note = (*at)->note;
        mst_nodes_letter *letter = note.to == call->rank ? sendable(call, note.from, &note.tag) : NULL;
        if (!letter) continue;
        if (note.dtype != letter->request->dtype || note.count != letter->request->input_count) return refuse(call, letter, at);
        drop(mail, at);
        letter->moved = 0;
        return send_chunk(call, letter, false);
    }
    for (mst_nodes_ready **at = &mail->ready; *at; at = &(*at)->next) {
        if ((*at)->note.to != call->rank || (*at)->note.more > 0) continue;
        mst_nodes_letter *letter = sendable(call, (*at)->note.from, NULL);
        if (letter) return refuse(call, letter, at);
    }
    return MUSTER_WIRE_OK;
}

static int32_t send_some(mst_nodes_call *call) {
    const mst_wire *wire = call->mail->channel.wire;
    int32_t done = 0, result = MUSTER_WIRE_OK;
    if (call->sending < 0) return call->failed ? result : begin_send(call);
    result = wire->table->test(wire->state, &call->chunk_request, &done, NULL);
    if (result != MUSTER_WIRE_OK || !done) return result;
    mst_nodes_letter *letter = &call->letters[call->sending];
    call->sending = -1;
    letter->done = letter->moved == bytes_of(letter->request);
    if (letter->done || call->failed) return call->failed ? result : begin_send(call);
    return send_chunk(call, letter, false);
}

/* ---- the machine ---- */

static int32_t test_notes(mst_nodes_call *call, bool *all) {
    const mst_wire *wire = call->mail->channel.wire;
    *all = true;
    for (int32_t i = 0; i < call->count; i++) {
        int32_t done = 1;
        if (call->note_requests[i] == 0) continue;
        const int32_t result = wire->table->test(wire->state, &call->note_requests[i], &done, NULL);
        if (result != MUSTER_WIRE_OK) return result;
        *all &= done;
    }
    return MUSTER_WIRE_OK;
}

static mst_progress progress(mst_machine *machine) {
    mst_nodes_call *call = (mst_nodes_call *)machine;
    bool all;
    int32_t result = send_notes(call);
    if (result == MUSTER_WIRE_OK) result = test_notes(call, &all);
    if (result != MUSTER_WIRE_OK) return mst_channel_failed(&call->mail->channel, result, "a message");
    if (take_all(call->mail) == MST_PROGRESS_FAILED) return MST_PROGRESS_FAILED;
    result = send_some(call);
    if (result != MUSTER_WIRE_OK) return mst_channel_failed(&call->mail->channel, result, "a message");
    for (int32_t i = 0; i < call->count; i++) all &= call->failed || call->letters[i].done;
    machine->moved = call->took;
    call->took = false;
    return all && call->sending < 0 ? MST_PROGRESS_DONE : MST_PROGRESS_RUNNING;
}

static int32_t waits_for(const mst_machine *machine) {
    const mst_nodes_call *call = (const mst_nodes_call *)machine;
    for (int32_t i = 0; i < call->count; i++)
        if (!call->letters[i].done) return process_of(call->mail, call->letters[i].request->root);
    return -1;
}

/* ---- the life of a call ---- */

static void enter_call(mst_nodes_mail *mail, uint64_t epoch) {
    while (mail->epoch != epoch && mail->ready) drop(mail, &mail->ready);
    mail->epoch = epoch;
}

bool mst_nodes_mail_waits(mst_nodes_mail *mail, uint64_t epoch, const mst_control_wanted *wanted) {
    enter_call(mail, epoch);
    if (take_all(mail) != MST_PROGRESS_RUNNING) return false; /* who drives the next machine learns why */
    for (const mst_nodes_ready *ready = mail->ready; ready; ready = ready->next)
        if (ready->note.from == wanted->rank && ready->note.to == wanted->peer && ready->note.tag == wanted->tag) return true;
    return false;
}

void mst_nodes_mail_begin(mst_nodes_mail *mail, mst_nodes_call *call, uint64_t epoch) {
    call->machine = (mst_machine){.progress = progress, .waits_for = waits_for};
    call->mail = mail;
    call->ready = 0;
    call->sending = -1;
    call->failed = call->took = false;
    pthread_mutex_lock(&mail->channel.wire->lock);
    enter_call(mail, epoch);
    call->next = mail->calls;
    mail->calls = call;
    pthread_mutex_unlock(&mail->channel.wire->lock);
}

bool mst_nodes_mail_end(mst_nodes_call *call) {
    mst_nodes_mail *mail = call->mail;
    bool in_use = call->chunk_request != 0;
    pthread_mutex_lock(&mail->channel.wire->lock);
    mst_nodes_call **at = &mail->calls;
    while (*at != call) at = &(*at)->next;
    *at = call->next;
    for (int32_t i = 0; i < call->count; i++) in_use |= call->note_requests[i] != 0;
    pthread_mutex_unlock(&mail->channel.wire->lock);
    return in_use;
}
