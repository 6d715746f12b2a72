/* The communicator whose data goes through host memory, as the files of this folder share it.
 * Members on devices that host code cannot read take part with copies of their tensors in host
 * memory. */
#ifndef MST_HOST_IMPL_H
#define MST_HOST_IMPL_H

#include "algorithm_impl.h"

#include <pthread.h>

/* Host memory for copies of tensors; grows, and is kept. */
typedef struct mst_aside {
    char *memory;
    int64_t capacity, used;
} mst_aside;

/* A message on offer. It lies in the sender's memory until it is taken. */
typedef struct mst_message {
    const void *data; /* host memory; on_device: the sender's, to be read after its event */
    int64_t count, tag;
    int32_t to;
    uint8_t dtype;
    bool on_device;
    bool taken; /* written by the receiver */
} mst_message;

/* What a member keeps between collectives. Written by that member only; the slots are read by the
 * others. */
typedef struct mst_host_member {
    _Alignas(MST_CACHE_LINE) char slots[2][MST_SLOT_BYTES]; /* beside the two lines, used in turn like them */
    _Alignas(MST_CACHE_LINE) char chunk[MST_CHUNK_BYTES];
    _Alignas(MST_CACHE_LINE) mst_aside aside, mail; /* of collectives, of messages */
    mst_message *messages;                          /* [MST_GROUP_REQUESTS] of a group, made on first use */
    int32_t message_count;
    uint64_t *post_tags;          /* [size], of this group's posts by receiver */
    const mst_request **requests; /* [size], the view of the collective in progress */
    /* what goes with the two lines, used in turn like them: the others read beta there, for
     * messages */
    mst_momentum momentum[2];
    struct mst_nccl_link *link; /* its rank of the NCCL communicator, NULL: none */
    _Atomic uint64_t decision;  /* on the part that this member has made last, see agree in split.c */
    int32_t rank;               /* in the pool */
} mst_host_member;

typedef struct mst_host_communicator {
    muster_communicator base; /* first */
    mst_pool *pool;
    mst_team *team;
    mst_host_member *members; /* [base.size] */
    mst_algorithm_kind forced;
    /* of members on devices with memory of their own, see ../mover_impl.h */
    struct mst_movers *movers;            /* the world's; NULL: everything goes through host memory */
    bool peers;                           /* each reaches the memory of all others */
    struct mst_nccl_unique_id *unique_id; /* NULL: no NCCL between these */
    /* of what was split off */
    struct mst_host_communicator *world, *next;
    _Atomic int32_t users; /* members that have not released it */
    /* of the world */
    pthread_mutex_t lock; /* of the list */
    struct mst_host_communicator *parts;
} mst_host_communicator;

typedef struct mst_movers mst_movers;

static inline mst_host_communicator *mst_host_of(muster_communicator *communicator) { return (mst_host_communicator *)communicator; }

extern const mst_communicator_table mst_host_table;   /* several members */
extern const mst_communicator_table mst_single_table; /* one: copies, and mst_host_run for the rest */

/* ranks[size] in the pool. where: for messages. */
muster_status mst_host_create(const char *where, mst_pool *pool, const int32_t *ranks, int32_t size, mst_algorithm_kind forced,
                              mst_host_communicator **communicator);
void mst_host_destroy(mst_host_communicator *communicator);
/* split.c */
muster_status mst_host_split(muster_communicator *self, muster_worker *worker, int32_t color, int32_t key, muster_communicator **part);
/* The last member's release destroys it. */
void mst_host_release(mst_host_communicator *part);
muster_status mst_host_run(muster_communicator *self, muster_worker *worker, mst_request *requests, int32_t count);

/* Do the tensors of members stay on their devices, and do these move the data? The same for all
 * members. */
static inline bool mst_host_on_devices(const mst_host_communicator *self) {
    return self->movers && (self->peers || self->unique_id) && (self->forced == 0 || self->forced == MST_P2P || self->forced == MST_NCCL);
}

/* How messages name a member: "rank 1 (worker 3)". */
static inline const char *mst_member_text(const mst_host_communicator *self, int32_t rank, char text[MST_RANK_TEXT]) {
    return mst_team_rank_text(self->team, self->members[rank].rank, text);
}

/* round.c: ABORTED if the run is aborted. A rank must not write its line, or the boxes of its
 * messages, again then, since others may still be reading them; and one that waits for nobody
 * learns here that the others have given up. */
muster_status mst_refuse_lost(const mst_host_communicator *self, muster_worker *worker, const char *name);

/* staging.c. begin: gives everything back and makes room for `bytes`, the sum of mst_aside_bytes of
 * what will be taken. */
muster_status mst_aside_begin(mst_aside *aside, int64_t bytes);
int64_t mst_aside_bytes(int64_t bytes);
void *mst_aside_take(mst_aside *aside, int64_t bytes);
/* complete on return */
muster_status mst_copy_out(muster_worker *worker, void *to_host, const void *from_device, int64_t bytes);
muster_status mst_copy_in(muster_worker *worker, void *to_device, const void *from_host, int64_t bytes);

/* check.c: do the requests of all ranks fit each other? Every rank gives the same answer. counts:
 * looks into the arrays of an uneven all_to_all, so inside a section. */
muster_status mst_check_heads(const mst_host_communicator *self, const mst_view *view);
muster_status mst_check_counts(const mst_host_communicator *self, const mst_view *view);
int64_t mst_request_input_bytes(const mst_request *request);
int64_t mst_request_output_bytes(const mst_request *request); /* of the memory behind output on this rank */

/* messages.c. check: is every message of this rank to itself sent and received in these requests?
 * run: one message by itself. post, receive, finish: those of a group; finish after every post,
 * with the status so far, which it returns unless it was OK. */
muster_status mst_messages_check(const mst_host_communicator *self, const muster_worker *worker, const mst_request *requests,
                                 int32_t count);
muster_status mst_message_run(mst_host_communicator *self, muster_worker *worker, const mst_request *request);
muster_status mst_messages_post(mst_host_communicator *self, muster_worker *worker, const mst_request *requests, int32_t count);
muster_status mst_messages_receive(mst_host_communicator *self, muster_worker *worker, mst_request *requests, int32_t count);
muster_status mst_messages_finish(mst_host_communicator *self, muster_worker *worker, muster_status status);

#endif
