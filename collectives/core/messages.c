/* Messages between two ranks. The sender posts an array of messages that lies in its own memory (a
 * single message outside of a group), and waits until the receiver has taken all of them. The
 * receiver copies from there by the communicator's transport for messages. Both ranks are blocked
 * meanwhile. So if the receiver does not ask for an offered message now, it never can, and that is
 * an error at once. */
#include "rendezvous_private.h"

#include <string.h>

typedef struct offer {
    mst_message *messages;
    int64_t count;
} offer;
_Static_assert(sizeof(offer) == MST_BOX_PAYLOAD, "an offer travels in a box");

static mst_mail mail_of(muster_communicator *communicator, muster_worker *worker) {
    int32_t rank = mst_communicator_rank(communicator, worker);
    return (mst_mail){communicator, &communicator->members[rank], worker, rank};
}

int64_t mst_message_bytes(const mst_request *request) {
    return muster_dtype_size(request->dtype) * (request->collective == MST_SEND ? request->input_count : request->output_count);
}

/* ---- sending ---- */

static muster_status begin(const mst_mail *m, const mst_request *requests, int32_t count) {
    const mst_message_table *table = m->communicator->messages;
    return table->begin ? table->begin(m, requests, count) : MUSTER_OK;
}

static muster_status fill(const mst_mail *m, const mst_request *request, mst_message *message) {
    const mst_message_table *table = m->communicator->messages;
    *message = (mst_message){
        .data = request->input, .count = request->input_count, .tag = request->tag, .to = request->root, .dtype = request->dtype};
    return table->offer ? table->offer(m, request, message) : MUSTER_OK;
}

static uint64_t post(const mst_mail *m, mst_message *messages, int64_t count) {
    offer o = {messages, count};
    return mst_box_post(m->communicator->team, m->worker, messages->to, &o);
}

static muster_status before_posting(const mst_mail *m) {
    return m->communicator->messages->post ? m->communicator->messages->post(m) : MUSTER_OK;
}

static muster_status after_taken(const mst_mail *m, int32_t to) {
    return m->communicator->messages->taken ? m->communicator->messages->taken(m, to) : MUSTER_OK;
}

static muster_status send_one(const mst_mail *m, const mst_request *request) {
    mst_message message;
    MUSTER_TRY(mst_box_open(m->communicator->team, request->root));
    MUSTER_TRY(begin(m, request, 1));
    MUSTER_TRY(fill(m, request, &message));
    MUSTER_TRY(before_posting(m));
    uint64_t tag = post(m, &message, 1);
    MUSTER_TRY(mst_box_wait_taken(m->communicator->team, m->worker, request->root, tag, "muster_worker_send", request->tag));
    return after_taken(m, request->root);
}

/* ---- receiving ---- */

static muster_status refuse(const mst_mail *m, int32_t from, const mst_request *wanted, const mst_message *offered) {
    char own_name[MST_MEMBER_TEXT], sender[MST_MEMBER_TEXT];
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_worker_recv: %s expected %lld %s with tag %lld from %s, which waits to send %lld %s with tag %lld",
                     mst_member_text(m->communicator, m->rank, own_name), (long long)wanted->output_count, muster_dtype_name(wanted->dtype),
                     (long long)wanted->tag, mst_member_text(m->communicator, from, sender), (long long)offered->count,
                     muster_dtype_name(offered->dtype), (long long)offered->tag);
}

static mst_message *next_untaken(const offer *o, const int64_t *tag) {
    for (int64_t i = 0; i < o->count; i++) {
        mst_message *message = &o->messages[i];
        if (!message->taken && (!tag || message->tag == *tag)) return message;
    }
    return NULL;
}

/* Runs inside a read section. Serves every request to receive from this sender that the offer
 * contains; a served request becomes a barrier. *left is the number of those that are not served
 * yet. */
static muster_status take_offered(const mst_mail *m, int32_t from, const offer *o, mst_request *requests, int32_t count, int32_t *left) {
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
        MUSTER_TRY(m->communicator->messages->take(m, from, wanted, message));
        message->taken = true;
        wanted->collective = MST_BARRIER;
    }
    const mst_message *stuck = next_untaken(o, NULL);
    return unserved && stuck ? refuse(m, from, unserved, stuck) : MUSTER_OK;
}

/* Takes from one post of a sender what is requested from it; *left as above. */
static muster_status take_post(const mst_mail *m, int32_t from, const mst_post *box, mst_request *requests, int32_t count, int32_t *left) {
    mst_team *team = m->communicator->team;
    offer o;
    memcpy(&o, box->payload, sizeof o);
    MUSTER_TRY(mst_box_read_begin(team, m->worker, from, box->tag));
    muster_status status = take_offered(m, from, &o, requests, count, left);
    if (status == MUSTER_OK && m->communicator->messages->took) status = m->communicator->messages->took(m);
    bool all = status == MUSTER_OK && !next_untaken(&o, NULL);
    if (all)
        mst_box_take(team, m->worker, from, box->tag);
    else
        mst_box_read_end(team, m->worker, from);
    return status;
}

/* Receives everything that is requested from one sender, from as many of its posts as necessary. */
static muster_status receive_from(const mst_mail *m, int32_t from, int64_t tag, mst_request *requests, int32_t count) {
    for (int32_t left = 1; left > 0;) {
        mst_post box;
        MUSTER_TRY(mst_box_wait_post(m->communicator->team, m->worker, from, "muster_worker_recv", tag, &box));
        MUSTER_TRY(take_post(m, from, &box, requests, count, &left));
    }
    return MUSTER_OK;
}

static muster_status receive_all(const mst_mail *m, mst_request *requests, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (requests[i].collective != MST_RECV) continue;
        MUSTER_TRY(mst_box_open(m->communicator->team, m->rank));
        MUSTER_TRY(receive_from(m, requests[i].root, requests[i].tag, requests, count));
    }
    return MUSTER_OK;
}

muster_status mst_message_run(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    mst_mail m = mail_of(communicator, worker);
    mst_request copy = *request;
    uint64_t event = mst_record_message_begin(&worker->recorder, mst_collective_name(request->collective), ++worker->sequence,
                                              mst_message_bytes(request),
                                              mst_worker_first(worker) + communicator->members[request->root].rank, request->tag);
    muster_status status = request->collective == MST_SEND ? send_one(&m, request) : receive_all(&m, &copy, 1);
    mst_record_end(&worker->recorder, event);
    return status;
}

/* ---- to itself ---- */

static bool to_itself(const mst_request *request, int32_t rank) { return mst_request_is_message(request) && request->root == rank; }

/* The other side of a message of this rank to itself. Sends and receives with the same tag are
 * paired in the order of the group, as they are in take_offered. NULL: there is none. */
static const mst_request *partner_of(const mst_request *requests, int32_t count, const mst_request *one, int32_t rank) {
    int32_t before = 0;
    for (const mst_request *r = requests; r < one; r++)
        before += to_itself(r, rank) && r->collective == one->collective && r->tag == one->tag;
    for (const mst_request *r = requests; r < requests + count; r++) {
        if (to_itself(r, rank) && r->collective != one->collective && r->tag == one->tag && before-- == 0) return r;
    }
    return NULL;
}

static muster_status check_pair(const mst_request *sent, const mst_request *received) {
    if (sent->dtype != received->dtype || sent->input_count != received->output_count)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "muster_worker_recv: output: expected %lld %s as the rank sends to itself with tag %lld, received %lld %s",
                         (long long)sent->input_count, muster_dtype_name(sent->dtype), (long long)sent->tag,
                         (long long)received->output_count, muster_dtype_name(received->dtype));
    int64_t bytes = mst_message_bytes(sent);
    const char *from = sent->input, *to = received->output;
    if (bytes == 0 || from == to || from + bytes <= to || to + bytes <= from) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_worker_recv: output: expected the memory that the rank sends to itself with tag %lld, or memory apart from "
                     "it, received an overlap",
                     (long long)sent->tag);
}

/* No other rank can send or receive a message of a rank to itself, so without its other side it
 * would wait for ever. */
muster_status mst_messages_check(const muster_communicator *communicator, const muster_worker *worker, const mst_request *requests,
                                 int32_t count) {
    int32_t rank = mst_communicator_public(communicator, mst_communicator_rank(communicator, worker));
    for (int32_t i = 0; i < count; i++) {
        const mst_request *request = &requests[i];
        if (!to_itself(request, rank)) continue;
        const mst_request *partner = partner_of(requests, count, request, rank);
        bool sends = request->collective == MST_SEND;
        char own_name[MST_MEMBER_TEXT];
        if (!partner)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: %s: expected a %s with tag %lld in the same group, since it is a message to itself, received none",
                             mst_request_function(request), mst_member_text(communicator, rank, own_name), sends ? "recv" : "send",
                             (long long)request->tag);
        if (sends) MUSTER_TRY(check_pair(request, partner));
    }
    return MUSTER_OK;
}

/* ---- in groups ---- */

static muster_status begin_group(const mst_mail *m, const mst_request *requests, int32_t count) {
    MUSTER_TRY(begin(m, requests, count));
    if (m->member->messages) return MUSTER_OK;
    size_t size = MST_GROUP_REQUESTS * sizeof *m->member->messages;
    m->member->messages = mst_alloc(size);
    return m->member->messages ? MUSTER_OK : mst_out_of_memory("muster_worker_group_end: its messages", (int64_t)size);
}

/* Orders the messages by receiver; those to one receiver keep the order of the group. */
static muster_status fill_group(const mst_mail *m, const mst_request *requests, int32_t count) {
    m->member->message_count = 0;
    for (int32_t to = 0; to < m->communicator->size; to++) {
        for (int32_t i = 0; i < count; i++) {
            if (requests[i].collective != MST_SEND || requests[i].root != to) continue;
            MUSTER_TRY(mst_box_open(m->communicator->team, to));
            MUSTER_TRY(fill(m, &requests[i], &m->member->messages[m->member->message_count++]));
        }
    }
    return MUSTER_OK;
}

static int32_t end_of_receiver(const mst_member *own_member, int32_t begin) {
    int32_t end = begin;
    while (end < own_member->message_count && own_member->messages[end].to == own_member->messages[begin].to) end++;
    return end;
}

muster_status mst_messages_post(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, int32_t count) {
    mst_mail m = mail_of(communicator, worker);
    m.member->message_count = 0;
    muster_status status = begin_group(&m, requests, count);
    if (status == MUSTER_OK) status = fill_group(&m, requests, count);
    if (status == MUSTER_OK) status = before_posting(&m);
    if (status != MUSTER_OK) {
        m.member->message_count = 0; /* nothing is posted yet */
        return status;
    }
    for (int32_t begin = 0; begin < m.member->message_count; begin = end_of_receiver(m.member, begin)) {
        m.member->post_tags[m.member->messages[begin].to] = post(&m, &m.member->messages[begin], end_of_receiver(m.member, begin) - begin);
    }
    return MUSTER_OK;
}

muster_status mst_messages_receive(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count) {
    mst_mail m = mail_of(communicator, worker);
    uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, "group of messages", ++worker->sequence, 0);
    muster_status status = receive_all(&m, requests, count);
    mst_record_end(&worker->recorder, event);
    return status;
}

muster_status mst_messages_look(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count) {
    const mst_mail m = mail_of(communicator, worker);
    for (int32_t i = 0; i < count; i++) {
        mst_post box;
        int32_t left = 1;
        if (requests[i].collective != MST_RECV) continue;
        MUSTER_TRY(mst_box_open(communicator->team, m.rank));
        while (left > 0 && mst_box_find_post(communicator->team, worker, requests[i].root, &box))
            MUSTER_TRY(take_post(&m, requests[i].root, &box, requests, count, &left));
    }
    return MUSTER_OK;
}

muster_status mst_messages_finish(muster_communicator *communicator, muster_worker *worker, muster_status status) {
    mst_mail m = mail_of(communicator, worker);
    char message[MST_MESSAGE_SIZE];
    /* Abort now, so that the receivers learn of the failure: this rank cannot return while one of
     * them may still read its messages. */
    if (status != MUSTER_OK) {
        mst_collective_error("muster_worker_group_end", status);
        mst_pool_abort(worker, status);
        mst_error_save(message);
    }
    for (int32_t begin = 0; begin < m.member->message_count; begin = end_of_receiver(m.member, begin)) {
        const mst_message *first = &m.member->messages[begin];
        muster_status taken =
            mst_box_wait_taken(communicator->team, worker, first->to, m.member->post_tags[first->to], "muster_worker_send", first->tag);
        if (taken == MUSTER_OK) taken = after_taken(&m, first->to);
        if (status == MUSTER_OK && taken != MUSTER_OK) {
            status = taken;
            mst_error_save(message);
        }
    }
    m.member->message_count = 0;
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}
