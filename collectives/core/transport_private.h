/* What a transport is: one table per folder. A transport moves the data of a collective between the
 * members of a communicator, once they have met (core/rendezvous.c). */
#ifndef MST_TRANSPORT_PRIVATE_H
#define MST_TRANSPORT_PRIVATE_H

#include "communicator_impl.h"
#include "view_private.h"

/* The requests of one rendezvous: one, or those of a group. */
typedef struct mst_batch {
    muster_communicator *communicator;
    mst_member *member; /* this rank's */
    muster_worker *worker;
    const mst_request *requests; /* [count], as the caller asked */
    /* [count], as the others see them; the payload of the flag line, or an array */
    mst_request *offered;
    int32_t count, rank;
    uint64_t tag;
    const char *name;
    const void *plan; /* of the transport that has the rendezvous to itself, between ends_at_arrival and run */
    mst_view view;    /* of a single request, when all have arrived */
    /* [count], an MST_TRANSPORT_* each: which of those that share the rendezvous serves it */
    uint8_t *winners, winner;
} mst_batch;

/* The requests of all ranks for one of the batch, until the next view is asked for. */
mst_view mst_batch_view(const mst_batch *batch, int32_t item);

/* A message on offer. It lies in the sender's memory until it is taken. */
struct mst_message {
    const void *data; /* where the receiver's transport reads it */
    int64_t count, tag;
    int32_t to;
    uint8_t dtype;
    bool taken; /* written by the receiver */
};

/* One rank that sends or receives. */
typedef struct mst_mail {
    muster_communicator *communicator;
    mst_member *member;
    muster_worker *worker;
    int32_t rank;
} mst_mail;

/* How messages go. The same for all members; what is NULL is not needed. begin, offer, post,
 * taken are the sender's: before its first message with the bytes of all, for each of them, when
 * all are ready to be posted, and when a receiver has taken its own. take, took are the
 * receiver's: for each message, and after those of one sender's post. */
struct mst_message_table {
    muster_status (*begin)(const mst_mail *mail, const mst_request *requests, int32_t count);
    muster_status (*offer)(const mst_mail *mail, const mst_request *request, mst_message *message);
    muster_status (*post)(const mst_mail *mail);
    muster_status (*taken)(const mst_mail *mail, int32_t to);
    muster_status (*take)(const mst_mail *mail, int32_t from, const mst_request *wanted, const mst_message *message);
    muster_status (*took)(const mst_mail *mail);
};
int64_t mst_message_bytes(const mst_request *request);

/* What all members of a part must do at the same time to get the transport, while their devices are
 * idle. Only parts of the world join. */
typedef struct mst_invitation {
    int32_t size, rank;
    char bytes[128];
} mst_invitation;
typedef struct mst_join_table {
    /* Do parts of this world join in this run? The same answer on every rank. */
    bool (*wanted)(const muster_communicator *world);
    /* Inside a section: copies what this member needs to know of the part, which its leader may
     * free as soon as something fails. false: the part does not join. */
    bool (*invite)(const muster_communicator *part, const muster_worker *worker, mst_invitation *invitation);
    /* A failure aborts the run. joined: kept by the member, or abandoned. */
    muster_status (*join)(muster_communicator *world, muster_worker *worker, const mst_invitation *invitation, void **joined);
    void (*keep)(muster_communicator *part, muster_worker *worker, void *joined);
    void (*abandon)(muster_communicator *world, muster_worker *worker, void *joined);
} mst_join_table;

/* Entries may be NULL where nothing is to be done, but for describe, create, bid and run. */
struct mst_transport {
    const char *name;
    int32_t number; /* MST_TRANSPORT_<name> */
    /* It moves tensors from where they are, and so shares a rendezvous with others that do. Else it
     * offers what it likes and has the rendezvous to itself. */
    bool shares;
    bool costly; /* not opened where another one was asked for by name */
    /* Its algorithms by number, from 0 on; NULL behind the last one. They are asked for by their
     * names instead of the transport by its own. */
    const char *(*algorithm_name)(int32_t algorithm);
    /* A few words for the runtime's description; of a transport that is not open, why not.
     * Empty: it goes without saying. */
    void (*describe)(const muster_communicator *communicator, char *text, size_t size);

    /* The world, between runs. open sets world->open[number]; where these devices cannot have
     * it, it sets a reason (mst_transport_refuse) and returns OK. close: also of what has not
     * been opened. */
    muster_status (*open)(muster_communicator *world);
    void (*close)(muster_communicator *world);
    /* Between mst_pool_enter and a run: repairs what an aborted run has broken. Cheap where
     * nothing is. */
    void (*recover)(muster_communicator *world);
    /* One communicator: the world, rank 0 alone (parent: the world), or a part (parent: what it
     * is split from; in its leader's thread). Sets state[number] if it can serve these members.
     * where: for messages. */
    muster_status (*create)(const char *where, muster_communicator *communicator, const muster_communicator *parent);
    void (*destroy)(muster_communicator *communicator);
    const mst_join_table *join;
    void (*release)(muster_communicator *part, muster_worker *worker); /* this member gives the part back */

    /* How well it serves a request; 0: not at all. view: all ranks' requests, so that all
     * members get the same answer; NULL: as far as one rank can tell before the others have
     * come. Of a transport that has the rendezvous to itself it is asked once for each
     * collective, with nothing but its number, when the communicator is made: calls pay nothing
     * for the choice. */
    int32_t (*bid)(const muster_communicator *communicator, const mst_request *request, const mst_view *view);
    /* Before the arrival: makes of batch->offered, copies of the requests, what the others are to
     * see. */
    muster_status (*prepare)(mst_batch *batch);
    /* A single request, all have arrived: does nobody read another's memory but its flag line
     * and what is kept as long as that? Then the rendezvous has ended. NULL: no. */
    bool (*ends_at_arrival)(mst_batch *batch);
    /* Serves the batch, or of those that share the rendezvous the requests that it has won.
     * Inside a section, unless the rendezvous has ended: no peer frees or overwrites what it has
     * offered. */
    muster_status (*run)(const mst_batch *batch);
    /* After everybody has left. */
    muster_status (*finish)(const mst_batch *batch);
    muster_status (*reserve)(muster_communicator *communicator, muster_worker *worker, int64_t bytes);
    const mst_message_table *messages; /* NULL: messages go by another transport */
};

/* Scores. What was asked for by name gets MST_BID_FORCED on top of a bid that is not 0. */
enum { MST_BID_COPIES = 10, MST_BID_SPARE = 30, MST_BID_GOOD = 50, MST_BID_BEST = 60, MST_BID_FORCED = 1000 };

#define MST_TRANSPORT(name) extern const mst_transport mst_transport_##name;
#include "transports.def"
#undef MST_TRANSPORT

/* transport.c. By MST_TRANSPORT_*. */
const mst_transport *mst_transport_at(int32_t number);
/* Why a transport is not open in this world, formatted. */
void mst_transport_refuse(muster_communicator *world, const mst_transport *transport, const char *reason);
/* NULL or empty: nothing is forced. INVALID_ARGUMENT: no such name. */
muster_status mst_transport_find(const char *name, mst_forced *forced);
/* world, after open: is what was asked for by name there? */
muster_status mst_transport_check_forced(const muster_communicator *world);
muster_status mst_transport_open_all(muster_communicator *world);
void mst_transport_close_all(muster_communicator *world);
/* State of all transports, and the choice of those that serve. */
muster_status mst_transport_create_all(const char *where, muster_communicator *communicator, const muster_communicator *parent);
void mst_transport_destroy_all(muster_communicator *communicator);
int32_t mst_transport_bid(const mst_transport *transport, const muster_communicator *communicator, const mst_request *request,
                          const mst_view *view);
/* The one of those that share a rendezvous which bids most; NULL: none. */
const mst_transport *mst_transport_winner(const muster_communicator *communicator, const mst_request *request, const mst_view *view);

static inline const mst_device *mst_member_device(const muster_communicator *communicator, int32_t rank) {
    return mst_pool_worker(communicator->pool, communicator->members[rank].rank)->device;
}

#endif
