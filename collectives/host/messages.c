/* Messages between two ranks. The sender posts an array of messages (one, outside of a group) in
 * its own memory and waits until all of it is taken; the receiver copies from there. Between
 * devices that reach each other's memory the receiver's queue copies, after the event of the
 * sender's, and the sender's queue goes on after the receiver's event; the host waits only for the
 * other side to come. Both block meanwhile, so a message that the other side does not ask for now
 * can never be received: an error at once. */
#include "../mover_impl.h"

#include <string.h>

typedef struct offer {
    mst_message *messages;
    int64_t count;
} offer;
_Static_assert(sizeof(offer) == MST_BOX_PAYLOAD, "an offer travels in a box");

typedef struct mail {
    mst_host_communicator *self;
    mst_host_member *own;
    muster_worker *worker;
    int32_t rank;
} mail;

static mail mail_of(mst_host_communicator *self, muster_worker *worker) {
    int32_t rank = mst_communicator_rank(&self->base, worker);
    return (mail){self, &self->members[rank], worker, rank};
}

static int64_t message_bytes(const mst_request *request) {
    return muster_dtype_size(request->dtype) * (request->collective == MST_SEND ? request->input_count : request->output_count);
}

/* ---- between devices ---- */

static bool stays_on_device(const mail *m) { return m->self->peers && mst_host_on_devices(m->self); }

/* ---- sending ---- */

/* The data where the receiver can read it. */
static muster_status fill(const mail *m, const mst_request *request, mst_message *message) {
    int64_t bytes = message_bytes(request);
    *message = (mst_message){
        .data = request->input, .count = request->input_count, .tag = request->tag, .to = request->root, .dtype = request->dtype};
    message->on_device = stays_on_device(m);
    if (message->on_device || mst_device_is_host(m->worker->device)) return MUSTER_OK;
    void *copy = mst_aside_take(&m->own->mail, bytes);
    message->data = copy;
    return mst_copy_out(m->worker, copy, request->input, bytes);
}

static uint64_t post(const mail *m, mst_message *messages, int64_t count) {
    offer o = {messages, count};
    return mst_box_post(m->self->team, m->worker, messages->to, &o);
}

/* Of the sender: before it posts what was filled, and after it was taken. */
static muster_status ready_to_post(const mail *m) {
    return stays_on_device(m) ? mst_peer_event_record(m->self, m->worker, MST_PEER_POSTED) : MUSTER_OK;
}
static muster_status after_taken(const mail *m, int32_t to) {
    return stays_on_device(m) ? mst_peer_event_wait(m->self, m->worker, to, MST_PEER_RECEIVED) : MUSTER_OK;
}

static bool copies_aside(const mail *m) { return !mst_device_is_host(m->worker->device) && !stays_on_device(m); }

static muster_status send_one(const mail *m, const mst_request *request) {
    mst_message message;
    MUSTER_TRY(mst_box_open(m->self->team, request->root));
    if (copies_aside(m)) MUSTER_TRY(mst_aside_begin(&m->own->mail, mst_aside_bytes(message_bytes(request))));
    MUSTER_TRY(fill(m, request, &message));
    MUSTER_TRY(ready_to_post(m));
    uint64_t tag = post(m, &message, 1);
    MUSTER_TRY(mst_box_wait_taken(m->self->team, m->worker, request->root, tag, "send", request->tag));
    return after_taken(m, request->root);
}

/* ---- receiving ---- */

static muster_status refuse(const mail *m, int32_t from, const mst_request *wanted, const mst_message *offered) {
    char own[MST_RANK_TEXT], sender[MST_RANK_TEXT];
    return mst_error(MUSTER_INVALID_ARGUMENT, "recv: %s expected %lld %s with tag %lld from %s, which waits to send %lld %s with tag %lld",
                     mst_member_text(m->self, m->rank, own), (long long)wanted->output_count, muster_dtype_name(wanted->dtype),
                     (long long)wanted->tag, mst_member_text(m->self, from, sender), (long long)offered->count,
                     muster_dtype_name(offered->dtype), (long long)offered->tag);
}

static mst_message *next_untaken(const offer *o, const int64_t *tag) {
    for (int64_t i = 0; i < o->count; i++) {
        mst_message *message = &o->messages[i];
        if (!message->taken && (!tag || message->tag == *tag)) return message;
    }
    return NULL;
}

static muster_status take_one(const mail *m, int32_t from, const mst_request *wanted, const mst_message *message) {
    mst_device *device = m->worker->device;
    const int64_t bytes = message_bytes(wanted);
    if (!message->on_device) return mst_copy_in(m->worker, wanted->output, message->data, bytes);
    MUSTER_TRY(mst_peer_event_wait(m->self, m->worker, from, MST_PEER_POSTED));
    return bytes == 0 || wanted->output == message->data ? MUSTER_OK : device->memory->copy(device, wanted->output, message->data, bytes);
}

/* Inside a section. Serves all requests from this sender that the offer holds; those served become
 * barriers. *left: how many were not. */
static muster_status take_offered(const mail *m, int32_t from, const offer *o, mst_request *requests, int32_t count, int32_t *left) {
    *left = 0;
    const mst_request *unserved = NULL;
    for (int32_t i = 0; i < count; i++) {
        mst_request *wanted = &requests[i];
        if (wanted->collective != MST_RECV || wanted->root != from) continue;
        mst_message *message = next_untaken(o, &wanted->tag);
        if (!message) {
            if (!unserved) unserved = wanted;
            ++*left;
            continue;
        }
        if (message->dtype != wanted->dtype || message->count != wanted->output_count) return refuse(m, from, wanted, message);
        MUSTER_TRY(take_one(m, from, wanted, message));
        message->taken = true;
        wanted->collective = MST_BARRIER;
    }
    const mst_message *stuck = next_untaken(o, NULL);
    return unserved && stuck ? refuse(m, from, unserved, stuck) : MUSTER_OK;
}

/* All requests from one sender, over as many posts as it takes. */
static muster_status receive_from(const mail *m, int32_t from, int64_t tag, mst_request *requests, int32_t count) {
    mst_team *team = m->self->team;
    for (int32_t left = 1; left > 0;) {
        mst_post box;
        offer o;
        MUSTER_TRY(mst_box_wait_post(team, m->worker, from, "recv", tag, &box));
        memcpy(&o, box.payload, sizeof o);
        MUSTER_TRY(mst_box_read_begin(team, m->worker, from, box.tag));
        muster_status status = take_offered(m, from, &o, requests, count, &left);
        if (status == MUSTER_OK && stays_on_device(m)) status = mst_peer_event_record(m->self, m->worker, MST_PEER_RECEIVED);
        bool all = status == MUSTER_OK && !next_untaken(&o, NULL);
        if (all)
            mst_box_take(team, m->worker, from, box.tag);
        else
            mst_box_read_end(team, m->worker, from);
        MUSTER_TRY(status);
    }
    return MUSTER_OK;
}

static muster_status receive_all(const mail *m, mst_request *requests, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (requests[i].collective != MST_RECV) continue;
        MUSTER_TRY(mst_box_open(m->self->team, m->rank));
        MUSTER_TRY(receive_from(m, requests[i].root, requests[i].tag, requests, count));
    }
    return MUSTER_OK;
}

muster_status mst_message_run(mst_host_communicator *self, muster_worker *worker, const mst_request *request) {
    mail m = mail_of(self, worker);
    mst_request copy = *request;
    uint64_t event = mst_record_message_begin(&worker->recorder, mst_collective_name(request->collective), ++worker->sequence,
                                              message_bytes(request), self->members[request->root].rank, request->tag);
    muster_status status = request->collective == MST_SEND ? send_one(&m, request) : receive_all(&m, &copy, 1);
    mst_record_end(&worker->recorder, event);
    return status;
}

/* ---- to itself ---- */

static bool to_itself(const mst_request *request, int32_t rank) {
    return (request->collective == MST_SEND || request->collective == MST_RECV) && request->root == rank;
}

/* The other side of a message to itself: they are paired as they are received, by tag and in the
 * order of the group. NULL: there is none. */
static const mst_request *partner_of(const mst_request *requests, int32_t count, const mst_request *of, int32_t rank) {
    int32_t before = 0;
    for (const mst_request *r = requests; r < of; r++) before += to_itself(r, rank) && r->collective == of->collective && r->tag == of->tag;
    for (const mst_request *r = requests; r < requests + count; r++) {
        if (to_itself(r, rank) && r->collective != of->collective && r->tag == of->tag && before-- == 0) return r;
    }
    return NULL;
}

static muster_status check_pair(const mst_request *sent, const mst_request *received) {
    if (sent->dtype != received->dtype || sent->input_count != received->output_count)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "recv: output: expected %lld %s as the rank sends to itself with tag %lld, received %lld %s",
                         (long long)sent->input_count, muster_dtype_name(sent->dtype), (long long)sent->tag,
                         (long long)received->output_count, muster_dtype_name(received->dtype));
    int64_t bytes = message_bytes(sent);
    const char *from = sent->input, *to = received->output;
    if (bytes == 0 || from == to || from + bytes <= to || to + bytes <= from) return MUSTER_OK;
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "recv: output: expected the memory that the rank sends to itself with tag %lld, or memory apart from it, received an overlap",
        (long long)sent->tag);
}

/* Nobody else can send or receive such a message, so that one without its other side would wait for
 * ever. */
muster_status mst_messages_check(const mst_host_communicator *self, const muster_worker *worker, const mst_request *requests,
                                 int32_t count) {
    int32_t rank = mst_communicator_rank(&self->base, worker);
    for (int32_t i = 0; i < count; i++) {
        const mst_request *request = &requests[i];
        if (!to_itself(request, rank)) continue;
        const mst_request *partner = partner_of(requests, count, request, rank);
        bool sends = request->collective == MST_SEND;
        char own[MST_RANK_TEXT];
        if (!partner)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: %s: expected a %s with tag %lld in the same group, since it is a message to itself, received none",
                             mst_collective_name(request->collective), mst_member_text(self, rank, own), sends ? "recv" : "send",
                             (long long)request->tag);
        if (sends) MUSTER_TRY(check_pair(request, partner));
    }
    return MUSTER_OK;
}

/* ---- in groups ---- */

static muster_status room_for_group(const mail *m, const mst_request *requests, int32_t count) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; i++) {
        if (requests[i].collective == MST_SEND) bytes += mst_aside_bytes(message_bytes(&requests[i]));
    }
    if (copies_aside(m)) MUSTER_TRY(mst_aside_begin(&m->own->mail, bytes));
    if (m->own->messages) return MUSTER_OK;
    size_t size = MST_GROUP_REQUESTS * sizeof *m->own->messages;
    m->own->messages = mst_alloc(size);
    return m->own->messages ? MUSTER_OK : mst_out_of_memory("group: its messages", (int64_t)size);
}

/* Ordered by receiver, in the order of the group for each. */
static muster_status fill_group(const mail *m, const mst_request *requests, int32_t count) {
    m->own->message_count = 0;
    for (int32_t to = 0; to < m->self->base.size; to++) {
        for (int32_t i = 0; i < count; i++) {
            if (requests[i].collective != MST_SEND || requests[i].root != to) continue;
            MUSTER_TRY(mst_box_open(m->self->team, to));
            MUSTER_TRY(fill(m, &requests[i], &m->own->messages[m->own->message_count++]));
        }
    }
    return MUSTER_OK;
}

static int32_t end_of_receiver(const mst_host_member *own, int32_t begin) {
    int32_t end = begin;
    while (end < own->message_count && own->messages[end].to == own->messages[begin].to) end++;
    return end;
}

muster_status mst_messages_post(mst_host_communicator *self, muster_worker *worker, const mst_request *requests, int32_t count) {
    mail m = mail_of(self, worker);
    m.own->message_count = 0;
    muster_status status = room_for_group(&m, requests, count);
    if (status == MUSTER_OK) status = fill_group(&m, requests, count);
    if (status == MUSTER_OK) status = ready_to_post(&m);
    if (status != MUSTER_OK) {
        m.own->message_count = 0; /* nothing is posted yet */
        return status;
    }
    for (int32_t begin = 0; begin < m.own->message_count; begin = end_of_receiver(m.own, begin)) {
        m.own->post_tags[m.own->messages[begin].to] = post(&m, &m.own->messages[begin], end_of_receiver(m.own, begin) - begin);
    }
    return MUSTER_OK;
}

muster_status mst_messages_receive(mst_host_communicator *self, muster_worker *worker, mst_request *requests, int32_t count) {
    mail m = mail_of(self, worker);
    uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, "group of messages", ++worker->sequence, 0);
    muster_status status = receive_all(&m, requests, count);
    mst_record_end(&worker->recorder, event);
    return status;
}

muster_status mst_messages_finish(mst_host_communicator *self, muster_worker *worker, muster_status status) {
    mail m = mail_of(self, worker);
    char message[MST_MESSAGE_SIZE];
    /* The receivers must hear of it now: this rank cannot return while one of them may still read
     * its messages. */
    if (status != MUSTER_OK) {
        mst_pool_abort(worker, status);
        mst_error_save(message);
    }
    for (int32_t begin = 0; begin < m.own->message_count; begin = end_of_receiver(m.own, begin)) {
        const mst_message *first = &m.own->messages[begin];
        muster_status taken = mst_box_wait_taken(self->team, worker, first->to, m.own->post_tags[first->to], "send", first->tag);
        if (taken == MUSTER_OK) taken = after_taken(&m, first->to);
        if (status == MUSTER_OK && taken != MUSTER_OK) {
            status = taken;
            mst_error_save(message);
        }
    }
    m.own->message_count = 0;
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}
