/* Messages through host memory. */
#include "staged_private.h"

static mst_staging *mail_of(const mst_mail *mail) { return &mst_staged_members(mail->communicator)[mail->rank].mail; }

static muster_status staged_begin(const mst_mail *mail, const mst_request *requests, int32_t count) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        if (requests[i].collective == MST_SEND) bytes += mst_staging_bytes(mst_message_bytes(&requests[i]));
    return mst_device_is_host(mail->worker->device) ? MUSTER_OK : mst_staging_begin(mail_of(mail), bytes);
}

static muster_status staged_offer(const mst_mail *mail, const mst_request *request, mst_message *message) {
    const int64_t bytes = mst_message_bytes(request);
    if (mst_device_is_host(mail->worker->device)) return MUSTER_OK;
    void *copy = mst_staging_take(mail_of(mail), bytes);
    message->data = copy;
    return mst_staged_copy_out(mail->worker, copy, request->input, bytes);
}

static muster_status staged_take(const mst_mail *mail, int32_t from, const mst_request *wanted, const mst_message *message) {
    (void)from;
    return mst_staged_copy_in(mail->worker, wanted->output, message->data, mst_message_bytes(wanted));
}

const mst_message_table mst_staged_messages = {.begin = staged_begin, .offer = staged_offer, .take = staged_take};
