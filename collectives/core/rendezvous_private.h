/* The rendezvous of a batch, and the checks in it. */
#ifndef MST_RENDEZVOUS_PRIVATE_H
#define MST_RENDEZVOUS_PRIVATE_H

#include "transport_private.h"

/* rendezvous.c. array: [count], where the offers of several requests can lie. */
muster_status mst_rendezvous_run(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, mst_request *array,
                                 int32_t count);
/* ABORTED if the run is aborted. A rank must not write its flag line, or the boxes of its
 * messages, again then, since others may still be reading them; and one that waits for nobody
 * learns here that the others have given up. */
muster_status mst_refuse_aborted(const muster_communicator *communicator, muster_worker *worker, const char *name);

/* check.c: do the requests of all ranks fit each other? Every rank gives the same answer. counts:
 * looks into the arrays of an uneven all_to_all, so inside a section. */
muster_status mst_check_heads(const muster_communicator *communicator, const mst_view *view);
muster_status mst_check_counts(const muster_communicator *communicator, const mst_view *view);

/* single.c, group.c: requests of a communicator of one rank; what is more than one collective. */
muster_status mst_single_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
muster_status mst_batch_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);

/* messages.c. check: is every message of this rank to itself sent and received in these requests?
 * run: one message by itself. post, receive, finish: those of a group; finish after every post,
 * with the status so far, which it returns unless it was OK. */
muster_status mst_messages_check(const muster_communicator *communicator, const muster_worker *worker, const mst_request *requests,
                                 int32_t count);
muster_status mst_message_run(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
muster_status mst_messages_post(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, int32_t count);
muster_status mst_messages_receive(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
muster_status mst_messages_finish(muster_communicator *communicator, muster_worker *worker, muster_status status);

/* communicator.c. ranks[size] in the pool. parent NULL: the world. */
muster_status mst_communicator_make(const char *where, mst_pool *pool, const int32_t *ranks, int32_t size, muster_communicator *parent,
                                    mst_forced forced, muster_communicator **communicator);
void mst_communicator_free(muster_communicator *communicator);

#endif
