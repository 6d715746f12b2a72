/* Messages between ranks of different processes. A receiver says first what it is ready for; then
 * the sender sends. So a send that is given up has left nothing behind, and a message finds its
 * place.
 *
 * All that is shared here is guarded by the lock of the wire: whoever drives a machine takes what
 * has come for any rank of its process. */
#ifndef MST_NODES_MAIL_PRIVATE_H
#define MST_NODES_MAIL_PRIVATE_H

#include "communicator_impl.h"
#include "control_private.h"

enum { MST_NODES_CHUNK_BYTES = 64 * 1024 };

/* What travels: of READY alone, of MESSAGE before a piece of the data. */
typedef struct mst_nodes_note {
    uint64_t epoch;
    int64_t tag, count; /* of the whole message, in elements */
    int64_t offset;     /* MESSAGE: of the piece, in bytes */
    int32_t from, to;   /* ranks of the communicator: who sends this note, and to whom */
    int32_t more;       /* READY: how many follow from the same call */
    uint8_t dtype;
    bool refused; /* MESSAGE: the sender has nothing that the receiver asks for; the note says what it has */
} mst_nodes_note;

/* A note of a receiver for which there is no send yet. */
typedef struct mst_nodes_ready {
    struct mst_nodes_ready *next;
    mst_nodes_note note;
} mst_nodes_ready;

/* A message of a call. */
typedef struct mst_nodes_letter {
    mst_request *request; /* its addresses are in host memory; root: the peer */
    int64_t moved;        /* bytes; -1: no peer has agreed to it yet */
    bool done;
} mst_nodes_letter;

/* The messages of one member in one call. */
typedef struct mst_nodes_call {
    mst_machine machine; /* first */
    struct mst_nodes_call *next;
    struct mst_nodes_mail *mail;
    int32_t rank, count, ready; /* ready: how many notes have been sent */
    mst_nodes_letter *letters;  /* [count] */
    mst_nodes_note *notes;      /* [count] memory of the wire */
    muster_wire_request *note_requests;
    char *chunk; /* memory of the wire: a note and a piece */
    muster_wire_request chunk_request;
    int32_t sending; /* the letter of the piece; -1: none */
    bool failed;     /* the peer has something else; refused: what it has */
    bool took;       /* a piece has come since the last call of `progress` of the machine */
    mst_nodes_note refused;
    const mst_nodes_letter *wanted;
} mst_nodes_call;

/* Of one communicator. */
typedef struct mst_nodes_mail {
    mst_channel channel;
    const mst_rank_span *span;
    uint64_t epoch;
    mst_nodes_call *calls;
    mst_nodes_ready *ready, *unused;
    char *incoming; /* memory of the wire: a note and a piece */
    void *block;
    muster_wire_request request;
    bool is_ready_note; /* what the request receives */
} mst_nodes_mail;

/* The memory of a member for its messages: it grows, and is kept from call to call. */
typedef struct mst_nodes_desk {
    mst_nodes_call call;
    mst_request *sorted, *staged; /* [capacity] */
    int32_t capacity;
    void *arrays, *block;
} mst_nodes_desk;
/* Room for so many messages. what: for the message of OUT_OF_MEMORY. */
muster_status mst_nodes_desk_open(mst_nodes_desk *desk, const char *what, int32_t count);
/* in_use: the wire may still use its memory, which is leaked then. */
void mst_nodes_desk_close(mst_nodes_desk *desk, bool in_use);

/* The caller holds no lock. */
muster_status mst_nodes_mail_open(mst_nodes_mail *mail, const mst_channel *channel, const mst_rank_span *span);
void mst_nodes_mail_close(mst_nodes_mail *mail);
/* Begins the call, whose count, rank, letters and memory are set. Then its machine is driven; then
 * it ends. epoch: of the call of the function. Returns whether the wire may still use its
 * memory. */
void mst_nodes_mail_begin(mst_nodes_mail *mail, mst_nodes_call *call, uint64_t epoch);
bool mst_nodes_mail_end(mst_nodes_call *call);
/* Has no piece of it travelled yet? The caller holds the lock. */
static inline bool mst_nodes_letter_waits(const mst_nodes_letter *letter) {
    return !letter->done && letter->moved == (letter->request->collective == MST_SEND ? -1 : 0);
}
/* Has rank wanted->rank of another process said that it is ready for such a message of
 * wanted->peer, which is here, and nobody has begun to send it? The caller holds the lock. */
bool mst_nodes_mail_waits(mst_nodes_mail *mail, uint64_t epoch, const mst_control_wanted *wanted);

#endif
