/* The rendezvous of a batch, and the checks in it. */
#ifndef MST_RENDEZVOUS_PRIVATE_H
#define MST_RENDEZVOUS_PRIVATE_H

#include "transport_private.h"

/* rendezvous.c. array[count] holds the offered requests if there are several. */
muster_status mst_rendezvous_run(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, mst_request *array,
                                 int32_t count);
/* All ranks are known to have arrived with requests that match: from here on a failure may leave
 * parameters undefined. A transport that spans processes calls it, since only it knows; a failure,
 * which only tests make, does not end what the other processes count on. */
muster_status mst_rendezvous_begin_writes(const mst_batch *batch);
/* Returns MUSTER_ABORTED if the run is aborted. In an aborted run a rank must not write its flag
 * line or its mailboxes again, because other ranks may still be reading them. A rank that waits for
 * no other rank learns from this call that the others have given up. */
muster_status mst_refuse_aborted(const muster_communicator *communicator, muster_worker *worker, const char *function);

/* check.c: do the requests of all ranks match? Every rank computes the same answer.
 * mst_check_counts also reads the other ranks' arrays of an uneven all_to_all, so it must run
 * inside a read section. */
muster_status mst_check_heads(const muster_communicator *communicator, const mst_view *view);
muster_status mst_check_counts(const muster_communicator *communicator, const mst_view *view);

/* single.c serves the requests of a communicator of one rank; group.c serves batches and
 * messages. */
muster_status mst_single_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
muster_status mst_batch_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);

/* messages.c. mst_messages_check: do these requests contain both sides of every message of this
 * rank to itself? mst_message_run serves a message outside of a group. The other three serve the
 * messages of a group, in this order. mst_messages_finish must follow every mst_messages_post. It
 * takes the status so far and returns it unless it is OK. Between them mst_messages_look receives
 * what is there already, and does not wait; what is received becomes a barrier in `requests`. */
muster_status mst_messages_check(const muster_communicator *communicator, const muster_worker *worker, const mst_request *requests,
                                 int32_t count);
muster_status mst_message_run(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
muster_status mst_messages_post(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, int32_t count);
muster_status mst_messages_receive(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
muster_status mst_messages_look(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
muster_status mst_messages_finish(muster_communicator *communicator, muster_worker *worker, muster_status status);

/* split.c, for a transport that splits itself: the last rendezvous of a split, in which the leaders
 * hand out the parts that they have made. leader: the rank of this member's leader, and `made` its
 * part (NULL: another rank leads). prepared: what this member has come to so far. Frees the part
 * unless all members of this process get it. */
muster_status mst_split_hand_out(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t leader,
                                 muster_communicator *made, muster_status prepared, muster_communicator **part);

/* communicator.c. ranks[size] are ranks in the pool. The world has no parent (NULL). span: NULL, or
 * where the members are, of which ranks[size] are those of this process; the communicator gets it
 * on success. */
muster_status mst_communicator_make(const char *where, mst_pool *pool, const int32_t *ranks, int32_t size, muster_communicator *parent,
                                    mst_forced forced, mst_rank_span *span, muster_communicator **communicator);
void mst_communicator_free(muster_communicator *communicator);

/* span.c. workers[size]: the members' ranks in the runtime, in the order of their ranks here. At
 * least one member is in this process. *made is freed by mst_rank_span_free, which accepts NULL;
 * its `local` belongs to the caller. mst_rank_span_count: how many processes have these workers. */
muster_status mst_rank_span_make(const char *where, struct mst_nodes *nodes, int32_t lane, const int32_t *workers, int32_t size,
                                 mst_rank_span **made);
void mst_rank_span_free(mst_rank_span *span);
int32_t mst_rank_span_count(const struct mst_nodes *nodes, const int32_t *workers, int32_t size);

#endif
