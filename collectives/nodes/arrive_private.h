/* The arrival: the one way in which the processes of a channel agree on something. Each brings a
 * header of 128 bytes and, if it likes, up to a few KiB of payload. After ceil(log2(size)) steps
 * all have the same header, combined from those of all members, and the payloads of all.
 *
 * Dissemination: in step k member i sends what it knows to member i - 2^k and learns from member i
 * + 2^k what that one knows. Payloads are gathered on the way, as Bruck's algorithm does.
 *
 * Members that do not match (another kind, other bytes of payload) go through the same steps, with
 * headers alone, and all of them learn who differs. An arrival that a process has given up stays in
 * the wire as stale messages, which later arrivals recognise by (epoch, sequence) and drop. */
#ifndef MST_ARRIVE_PRIVATE_H
#define MST_ARRIVE_PRIVATE_H

#include "channel_private.h"

enum { MST_ARRIVAL_STEPS = 16, MST_ARRIVAL_MEMBERS = 1 << MST_ARRIVAL_STEPS };

/* A value of all members: the least and the most, and the lowest members that have them. */
typedef struct mst_extremes {
    int32_t least, most, least_at, most_at;
} mst_extremes;

/* What travels. Members are numbers of the channel. */
typedef struct mst_arrival_header {
    uint64_t epoch, sequence;
    uint64_t least, most; /* signatures */
    int32_t least_at, most_at;
    mst_extremes kind;
    mst_extremes payload; /* bytes; negative: of a payload that is carried */
    /* The failure that decides: of the lowest rank; at is its member. ABORTED decides only where
     * nothing else has failed, since it follows from the failure of another rank. */
    muster_status status;
    int32_t rank, at;
    uint32_t carried; /* which of the two halves of a carried payload are there: bits 0 and 1 */
    struct mst_arrival_range {
        uint64_t least, most;
    } number;            /* of all members */
    int32_t reserved[5]; /* 0 */
    uint32_t magic;      /* MST_ARRIVAL_MAGIC: a message of another program, or of another version, is none of ours */
} mst_arrival_header;
enum { MST_ARRIVAL_MAGIC = 0x4d535435 };
_Static_assert(sizeof(mst_arrival_header) == 128, "the header of an arrival has 128 bytes");

/* What a member brings. */
typedef struct mst_arrival_input {
    /* The number of the call, and of the arrival in it and on this lane: what makes a stale message
     * known. Both only grow. */
    uint64_t epoch, sequence;
    uint64_t signature;
    int32_t kind;
    muster_status status; /* not OK: rank failed so. Of two failures the one of the lower rank decides */
    int32_t rank;
    uint64_t number; /* the header gets the least and the most of all members; not compared here */
    /* payload_bytes: at most the capacity. By default `all` becomes the payloads of all
     * members. carry: there is one payload for all, of two halves; a member brings those whose bits
     * are in `carried`, each of which one member has, and gets those of the others. */
    const void *payload;
    int32_t payload_bytes;
    bool carry;
    uint32_t carried;
    /* What this member has sent must travel without another call of the wire, because the process
     * may turn to other work. So the arrival ends only when the receivers have taken it, unless
     * little is on its way to them (MST_ARRIVAL_IN_FLIGHT). The first one of a channel always ends
     * so. Not needed where another arrival or data follow first. */
    bool matched;
} mst_arrival_input;

/* An MPI hands a message to the network at once where there is room for it. TCP takes at least
 * 16 KiB that have not arrived yet (Linux: net.ipv4.tcp_wmem). */
enum { MST_ARRIVAL_IN_FLIGHT = 16 * 1024 };

/* What this member had sent on the wire, to anybody and on all channels, at the last send of an
 * arrival. */
typedef struct mst_arrival_sent {
    int64_t bytes, collectives;
    int64_t arrival_bytes; /* the bytes of this arrival's messages */
} mst_arrival_sent;

typedef struct mst_arrival {
    mst_machine machine; /* first */
    mst_channel channel;
    int32_t capacity, steps;
    bool used; /* an arrival of this channel has ended well */
    /* now: what was sent in the arrival in progress. last: in the arrival before it. taken: in the
     * arrival before that one; all members have received those messages, since all have entered the
     * arrival behind it. ended: how many arrivals have ended well since one was given up, at most
     * 2. */
    mst_arrival_sent now, last, taken;
    int32_t ended;
    bool in_progress; /* begun, and not ended well */
    bool listens;     /* between arrivals, too */
    /* The arrival in progress. */
    int32_t step;       /* whose message is needed next; == steps: all have been taken */
    int32_t posted;     /* receives of steps below are posted, or their messages are there */
    int32_t sent_steps; /* steps below have been sent */
    mst_arrival_input input;
    mst_arrival_header header; /* of what is known; when done: of all */
    unsigned char *all;        /* [size][payload_bytes]; carried: [payload_bytes] */
    /* Of each step: the message that came, the one that goes. Memory of one block. */
    unsigned char *received[MST_ARRIVAL_STEPS], *sent[MST_ARRIVAL_STEPS];
    muster_wire_request receives[MST_ARRIVAL_STEPS], sends[MST_ARRIVAL_STEPS];
    int64_t received_bytes[MST_ARRIVAL_STEPS]; /* of a message that is there; 0: none */
    unsigned char *memory;
} mst_arrival;

/* Prepares the memory for payloads of up to `capacity` bytes of each member; nothing is allocated
 * afterwards. The capacity must be the same in all members. members of the channel stay the
 * caller's. Errors: OUT_OF_MEMORY, UNSUPPORTED (more than MST_ARRIVAL_MEMBERS members). */
muster_status mst_arrival_open(mst_arrival *arrival, const mst_channel *channel, int32_t capacity);
/* Begins an arrival; the one before it may have been given up. Does not touch the wire: the first
 * `progress` does. The payload is copied. Not before mst_arrival_open. */
void mst_arrival_begin(mst_arrival *arrival, const mst_arrival_input *input);
/* arrival->machine.progress. When it is DONE, header and all say what the members brought; if they
 * differ in the payload's bytes, `all` is undefined. */
mst_progress mst_arrival_progress(mst_arrival *arrival);
/* From now on the receives are posted between arrivals, too: what others send in an arrival that
 * this member never enters leaves them. The caller holds the lock of the wire, and no arrival is in
 * progress. */
mst_progress mst_arrival_listen(mst_arrival *arrival);
/* Do all members match, but for the signature? */
static inline bool mst_arrival_matches(const mst_arrival *arrival) {
    const mst_arrival_header *header = &arrival->header;
    return header->kind.least == header->kind.most && header->payload.least == header->payload.most;
}
/* Ends the receives that are posted, and frees the memory. The caller holds the lock of the wire. A
 * message of an arrival that was given up may still be leaving this process: then its memory is
 * kept until the process ends. Accepts an arrival of zeros. */
void mst_arrival_close(mst_arrival *arrival);

#endif
