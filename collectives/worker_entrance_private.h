/* The way into a collective, for the files of its public functions. They check everything that one
 * rank can check alone, before its rendezvous with the peers. */
#ifndef MST_WORKER_ENTRANCE_PRIVATE_H
#define MST_WORKER_ENTRANCE_PRIVATE_H

#include "communicator_impl.h"

/* A call of a public function by one rank. */
typedef struct mst_entrance {
    const char *where; /* the public function */
    muster_worker *worker;
    muster_communicator *communicator;
    int32_t rank, size;         /* among the members of all processes */
    int32_t member;             /* the rank among those of this process */
    const char *input, *output; /* the names of these arguments in messages */
} mst_entrance;

/* Checks worker and communicator (NULL: that of all workers), and fills the entrance. */
muster_status mst_entrance_open(mst_entrance *e, const char *where, muster_worker *worker, muster_communicator *communicator);
/* Runs the request, or appends it to the group that is open. */
muster_status mst_entrance_submit(const mst_entrance *e, mst_request request);
/* The outcome, with the name of the function: messages from transports and devices do not know
 * which one was called. */
muster_status mst_entrance_end(const mst_entrance *e, muster_status status);
/* Is a group of this rank open? */
static inline bool mst_entrance_group_open(const mst_entrance *e) {
    return e->communicator->members[e->member].group.epoch == e->worker->epoch;
}
/* Names this rank in messages. */
const char *mst_entrance_member_text(const mst_entrance *e, char text[MST_MEMBER_TEXT]);

/* ---- checks of arguments; `what` is the argument ---- */

muster_status mst_entrance_check_no_group(const mst_entrance *e, const char *what);
/* Refuses a body that runs once for each logical shard. */
muster_status mst_entrance_check_not_per_shard(const mst_entrance *e);
/* If the tensor is "no tensor" because a scratch request failed, returns that failure; its message
 * is still this thread's last error. */
muster_status mst_entrance_check_tensor(const mst_entrance *e, const muster_tensor *tensor, const char *what);
muster_status mst_entrance_check_rank(const mst_entrance *e, int32_t rank, const char *what);
muster_status mst_entrance_check_count(const mst_entrance *e, const char *what, int64_t expected, const char *like_what, int64_t received);
/* Input and output may overlap only if the smaller one begins `offset` elements after the larger
 * one. A negative offset allows no overlap. */
muster_status mst_entrance_check_overlap(const mst_entrance *e, const mst_request *r, int64_t offset);
/* Input and output must have equal counts; they may be the same memory. */
muster_status mst_entrance_check_whole(const mst_entrance *e, const mst_request *r);
/* Checks both tensors, which must have one dtype, and puts them into the request. */
muster_status mst_entrance_check_both(const mst_entrance *e, mst_request *r, const muster_tensor *input, const muster_tensor *output);

static inline void mst_entrance_set_input(mst_request *r, const muster_tensor *input) {
    r->input = muster_tensor_address(*input);
    r->input_count = muster_tensor_count(*input);
    r->dtype = (uint8_t)input->dtype;
}

static inline void mst_entrance_set_output(mst_request *r, const muster_tensor *output) {
    r->output = muster_tensor_address(*output);
    r->output_count = muster_tensor_count(*output);
    r->dtype = (uint8_t)output->dtype;
}

#endif
