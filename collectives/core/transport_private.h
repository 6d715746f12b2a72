/* The interface of a transport: one table per folder. A transport moves the data of a collective
 * between the members of a communicator after their rendezvous (core/rendezvous.c). */
#ifndef MST_TRANSPORT_PRIVATE_H
#define MST_TRANSPORT_PRIVATE_H

#include "communicator_impl.h"
#include "view_private.h"

/* The requests of one rendezvous: a single request, or those of a group. */
typedef struct mst_batch {
    muster_communicator *communicator;
    mst_member *member; /* this rank's */
    muster_worker *worker;
    const mst_request *requests; /* [count] as the caller made them */
    /* [count] as the other members see them: in the payload of the flag line, or in an array */
    mst_request *offered;
    int32_t count, rank;
    uint64_t tag;
    const char *name;     /* for the recorder */
    const char *function; /* the public function, for messages */
    const void *plan;     /* an exclusive transport passes it from ends_at_arrival to run */
    mst_view view;        /* of a single request, after all members have arrived */
    /* [count] MST_TRANSPORT_*: which of the sharing transports serves each request */
    uint8_t *winners, winner;
} mst_batch;

/* The requests of all ranks for item `item` of the batch. Valid until the next call. */
mst_view mst_batch_view(const mst_batch *batch, int32_t item);

/* A message that a sender offers. It stays in the sender's memory until the receiver has taken
 * it. */
struct mst_message {
    const void *data; /* where the receiver's transport reads it */
    int64_t count, tag;
    int32_t to;
    uint8_t dtype;
    bool taken; /* written by the receiver */
};

/* A rank that sends or receives, and its communicator. */
typedef struct mst_mail {
    muster_communicator *communicator;
    mst_member *member;
    muster_worker *worker;
    int32_t rank;
} mst_mail;

/* How a transport moves messages; the same table for all members. An entry may be NULL.
 *
 * The sender calls `begin` before its first message, with all requests; `offer` for each message;
 * `post` when all messages are ready to be posted; and `taken` when a receiver has taken its
 * messages. The receiver calls `take` for each message, and `took` after it has taken what it wants
 * from one post of a sender. */
struct mst_message_table {
    muster_status (*begin)(const mst_mail *mail, const mst_request *requests, int32_t count);
    muster_status (*offer)(const mst_mail *mail, const mst_request *request, mst_message *message);
    muster_status (*post)(const mst_mail *mail);
    muster_status (*taken)(const mst_mail *mail, int32_t to);
    muster_status (*take)(const mst_mail *mail, int32_t from, const mst_request *wanted, const mst_message *message);
    muster_status (*took)(const mst_mail *mail);
};
int64_t mst_message_bytes(const mst_request *request);

/* Some transports need a joint step of all members of a new part, at the same time, while their
 * devices are idle: the members join. Only parts of the world can join. */
typedef struct mst_invitation {
    int32_t size, rank;
    char bytes[128];
} mst_invitation;
typedef struct mst_join_table {
    /* Do parts of this world join in this run? All ranks get the same answer. */
    bool (*wanted)(const muster_communicator *world);
    /* Runs inside a read section, because the leader may free the part as soon as something fails.
     * Copies from the part what this member needs for joining. Returns false if the part does not
     * join. */
    bool (*invite)(const muster_communicator *part, const muster_worker *worker, mst_invitation *invitation);
    /* A failure aborts the run. On success the member passes *joined to `keep` or to `abandon`. */
    muster_status (*join)(muster_communicator *world, muster_worker *worker, const mst_invitation *invitation, void **joined);
    /* Called at the same time by all members that have joined: does it work? A failure aborts the
     * run. */
    muster_status (*prove)(muster_communicator *world, muster_worker *worker, void *joined);
    void (*keep)(muster_communicator *part, muster_worker *worker, void *joined);
    void (*abandon)(muster_communicator *world, muster_worker *worker, void *joined);
} mst_join_table;

/* An entry may be NULL if the transport has nothing to do there, except describe, create, bid and
 * run. */
struct mst_transport {
    const char *name;
    int32_t number; /* MST_TRANSPORT_<name> */
    /* true: it moves tensors in place, without copies, and shares a rendezvous with the other
     * transports that do so. false: an exclusive transport, which serves a rendezvous alone and may
     * offer copies. */
    bool sharing;
    bool spans;  /* it serves communicators over several processes, which the others do not */
    bool costly; /* not opened if another transport is requested by name */
    /* The name of algorithm 0, 1, ...; NULL after the last one. Users request these algorithms by
     * name, and not the transport. */
    const char *(*algorithm_name)(int32_t algorithm);
    /* Writes a few words for the runtime's description; for a transport that is not open, the
     * reason. Writes an empty text if there is nothing to mention. */
    void (*describe)(const muster_communicator *communicator, char *text, size_t size);

    /* Called for the world, between runs. open sets world->open[number]. If these devices do not
     * support the transport, open returns what mst_transport_refuse returns. close is
     * also called if the transport is not open. */
    muster_status (*open)(muster_communicator *world);
    void (*close)(muster_communicator *world);
    /* Called between mst_pool_enter and a run: recovers what an aborted run has broken. Cheap if
     * nothing is broken. */
    void (*recover)(muster_communicator *world);
    /* Called for each communicator: the world (no parent), the communicator of rank 0 alone (its
     * parent is the world), and each part (its parent is the communicator that is split; called in
     * the thread of the part's leader). create sets state[number] if the transport can serve these
     * members. `where` is for error messages. */
    muster_status (*create)(const char *where, muster_communicator *communicator, const muster_communicator *parent);
    void (*destroy)(muster_communicator *communicator);
    const mst_join_table *join;
    void (*release)(muster_communicator *part, muster_worker *worker); /* this member releases the part */

    /* A score of how well the transport serves a request; 0: not at all. With a view, the requests
     * of all ranks decide, and all members get the same score. Without one (NULL), this rank
     * estimates before the others have arrived.
     *
     * An exclusive transport is asked once per collective when the communicator is created, with a
     * request that has only its `collective` set. So the choice costs nothing in a call. */
    int32_t (*bid)(const muster_communicator *communicator, const mst_request *request, const mst_view *view);
    /* Called before the rank arrives. batch->offered holds copies of the requests; prepare changes
     * them into what the other members shall see. */
    muster_status (*prepare)(mst_batch *batch);
    /* Called for a single request after all members have arrived. true: no member reads more of
     * another member's memory than its flag line and the buffers that live as long as the flag
     * line, so the rendezvous has ended. NULL means false. */
    bool (*ends_at_arrival)(mst_batch *batch);
    /* Serves the batch; a sharing transport serves only the requests that it has won. Runs inside a
     * read section, in which no peer frees or overwrites what it has offered, unless the rendezvous
     * has ended at arrival. */
    muster_status (*run)(const mst_batch *batch);
    /* Called after all members have left the rendezvous. */
    muster_status (*finish)(const mst_batch *batch);
    /* Makes room, so that requests with inputs and outputs of at most `bytes` allocate nothing.
     * Called if create has set state[number]. */
    muster_status (*reserve)(muster_communicator *communicator, muster_worker *worker, int64_t bytes);
    /* The same for an all_reduce_apply with the counts, dtype and shards of this request. An
     * exclusive transport has it, and a sharing one that takes memory for it. */
    muster_status (*reserve_apply)(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
    /* Of a transport that spans processes: an algorithm of its own was asked for. Refuses one that
     * does not serve this launch, alike in all processes. *inside: what binds the communicator of a
     * process's own workers, of which nothing is known yet; nodes NULL: there is one process. */
    muster_status (*inside)(mst_forced asked, const struct mst_nodes *nodes, mst_forced *inside);
    /* A split; a message outside of a group; and a group with
     * messages, whose collectives array[collective_count] serves, as in mst_rendezvous_run. */
    muster_status (*split)(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t key,
                           muster_communicator **part);
    muster_status (*message)(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
    muster_status (*group)(muster_communicator *communicator, muster_worker *worker, mst_request *collectives, mst_request *array,
                           int32_t collective_count, const mst_request *messages, int32_t count);
    const mst_message_table *messages; /* NULL: this transport does not move messages */
};

/* Scores. MST_BID_FORCED is added to a nonzero bid of the transport that is requested by name. */
enum { MST_BID_COPIES = 10, MST_BID_SPARE = 30, MST_BID_GOOD = 50, MST_BID_BEST = 60, MST_BID_FORCED = 1000 };

#define MST_TRANSPORT(name) extern const mst_transport mst_transport_##name;
#include "transports.def"
#undef MST_TRANSPORT

/* transport.c. `number` is an MST_TRANSPORT_*. */
const mst_transport *mst_transport_at(int32_t number);
/* Records why a transport is not open in this world. Copies `reason`. Errors: OUT_OF_MEMORY. */
muster_status mst_transport_refuse(muster_communicator *world, const mst_transport *transport, const char *reason);
/* Finds the transport or algorithm of this name; nothing is forced if name is NULL or empty.
 * Returns MUSTER_INVALID_ARGUMENT for an unknown name. */
muster_status mst_transport_find(const char *name, mst_forced *forced);
/* Call it after the transports are opened: is the transport that is requested by name available? */
muster_status mst_transport_check_forced(const muster_communicator *world);
muster_status mst_transport_open_all(muster_communicator *world);
void mst_transport_close_all(muster_communicator *world);
/* Creates the state of all transports, and chooses those that will serve. */
muster_status mst_transport_create_all(const char *where, muster_communicator *communicator, const muster_communicator *parent);
void mst_transport_destroy_all(muster_communicator *communicator);
int32_t mst_transport_bid(const mst_transport *transport, const muster_communicator *communicator, const mst_request *request,
                          const mst_view *view);
/* The sharing transport with the highest bid; NULL: none can serve the request. */
const mst_transport *mst_transport_winner(const muster_communicator *communicator, const mst_request *request, const mst_view *view);

static inline const mst_device *mst_member_device(const muster_communicator *communicator, int32_t rank) {
    return mst_pool_worker(communicator->pool, communicator->members[rank].rank)->device;
}

#endif
