/* Messages between peers. The receiver's queue waits for the sender's event and copies; the
 * sender's queue then waits for the receiver's event. The host threads wait only until the other
 * side has arrived. */
#include "p2p_private.h"

static muster_status p2p_post(const mst_mail *mail) { return mst_p2p_record(mail->communicator, mail->worker, MST_P2P_POSTED); }

static muster_status p2p_taken(const mst_mail *mail, int32_t to) {
    return mst_p2p_wait(mail->communicator, mail->worker, to, MST_P2P_RECEIVED);
}

static muster_status p2p_take(const mst_mail *mail, int32_t from, const mst_request *wanted, const mst_message *message) {
    mst_device *device = mail->worker->device;
    const int64_t bytes = mst_message_bytes(wanted);
    MUSTER_TRY(mst_p2p_wait(mail->communicator, mail->worker, from, MST_P2P_POSTED));
    return bytes == 0 || wanted->output == message->data ? MUSTER_OK : device->memory->copy(device, wanted->output, message->data, bytes);
}

static muster_status p2p_took(const mst_mail *mail) { return mst_p2p_record(mail->communicator, mail->worker, MST_P2P_RECEIVED); }

const mst_message_table mst_p2p_messages = {.post = p2p_post, .taken = p2p_taken, .take = p2p_take, .took = p2p_took};
