/* The public collectives of a worker. They check everything that one rank can check alone, before
 * its rendezvous with the peers. */
#include "worker_collectives_private.h"

#include <string.h>

typedef struct entrance {
    const char *where;
    muster_worker *worker;
    muster_communicator *communicator;
    int32_t rank, size;
    const char *input, *output; /* the names of these arguments in messages */
} entrance;

static const char *own_text(const entrance *e, char text[MST_RANK_TEXT]) { return mst_member_text(e->communicator, e->rank, text); }

static muster_status enter(entrance *e, const char *where, muster_worker *worker, muster_communicator *communicator) {
    MUSTER_TRY(mst_worker_check(worker, where));
    if (!communicator)
        communicator = mst_worker_communicator(worker);
    else if (__builtin_expect(communicator->pool != worker->pool, 0))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: communicator: expected one of this runtime, received one of another", where);
    *e = (entrance){where, worker, communicator, mst_communicator_rank(communicator, worker), communicator->size, "input", "output"};
    if (e->rank < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: communicator: expected one of which worker %d is a member, received another", where,
                         worker->rank);
    if (worker->size == 1 && e->size > 1)
        return mst_error(MUSTER_BAD_STATE, "%s: communicator: expected one of 1 rank in a single call, received one of %d", where, e->size);
    if (__builtin_expect(!communicator->members[e->rank].group.released, 1)) return mst_worker_drain(worker);
    char own_name[MST_RANK_TEXT];
    return mst_error(MUSTER_BAD_STATE, "%s: communicator: %s has released it", where, own_text(e, own_name));
}

static bool group_open(const entrance *e) { return e->communicator->members[e->rank].group.epoch == e->worker->epoch; }

static muster_status check_no_group(const entrance *e, const char *what) {
    if (!group_open(e)) return MUSTER_OK;
    char own_name[MST_RANK_TEXT];
    return mst_error(MUSTER_BAD_STATE, "%s: %s: expected no open group, received one of %s", e->where, what, own_text(e, own_name));
}

/* Messages from transports and devices do not know which function was called. */
static muster_status ended(const entrance *e, muster_status status) {
    return __builtin_expect(status == MUSTER_OK, 1) ? status : mst_collective_error(e->where, status);
}

static muster_status submit(const entrance *e, mst_request request) {
    if (__builtin_expect(!group_open(e), 1)) return ended(e, mst_communicator_run(e->communicator, e->worker, &request, 1));
    mst_group *group = &e->communicator->members[e->rank].group;
    if (group->count == MST_GROUP_REQUESTS)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: expected at most %d collectives in a group, received one more", e->where,
                         MST_GROUP_REQUESTS);
    group->requests[group->count++] = request;
    return MUSTER_OK;
}

/* ---- arguments ---- */

/* If the tensor is "no tensor" because a scratch request failed, returns that failure; its message
 * is still this thread's last error. */
static muster_status check_tensor(const entrance *e, const muster_tensor *tensor, const char *what) {
    const muster_worker *worker = e->worker;
    if (mst_tensor_absent(tensor)) MUSTER_TRY(mst_worker_kept_failure(worker, e->where, what));
    MUSTER_TRY(mst_tensor_check(*tensor, e->where, what));
    bool reachable = tensor->device == worker->rank || (tensor->device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device));
    if (!reachable)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a tensor in the memory of device %d, received one of device %d",
                         e->where, what, worker->rank, tensor->device);
    if (!mst_tensor_contiguous(*tensor))
        return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected a contiguous tensor, received a strided one", e->where, what);
    return MUSTER_OK;
}

static muster_status check_root(const entrance *e, int32_t root, const char *what) {
    if (root >= 0 && root < e->size) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: %s: expected a rank from 0 to %d, received %d", e->where, what, e->size - 1, root);
}

static muster_status check_dtype(const entrance *e, const muster_tensor *input, const muster_tensor *output) {
    if (output->dtype == input->dtype) return MUSTER_OK;
    return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected dtype %s as the %s, received %s", e->where, e->output,
                     muster_dtype_name(input->dtype), e->input, muster_dtype_name(output->dtype));
}

static muster_status check_count(const entrance *e, const char *what, int64_t expected, const char *like_what, int64_t received) {
    if (received == expected) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %lld elements as %s, received %lld", e->where, what, (long long)expected,
                     like_what, (long long)received);
}

/* Input and output may overlap only if the smaller one begins `offset` elements after the larger
 * one. A negative offset allows no overlap. */
static muster_status check_overlap(const entrance *e, const mst_request *r, int64_t offset) {
    int64_t element = muster_dtype_size(r->dtype), in_bytes = r->input_count * element, out_bytes = r->output_count * element;
    const char *in = r->input, *out = r->output;
    if (in_bytes == 0 || out_bytes == 0 || in + in_bytes <= out || out + out_bytes <= in) return MUSTER_OK;
    if (offset >= 0 && (in_bytes <= out_bytes ? in - out : out - in) == offset * element) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected the %s's memory in the form that is allowed in place, or memory apart from it, received an overlap",
                     e->where, e->output, e->input);
}

/* Input and output must have equal counts; they may be the same memory. */
static muster_status check_whole(const entrance *e, const mst_request *r) {
    MUSTER_TRY(check_count(e, "output", r->input_count, "the input", r->output_count));
    return check_overlap(e, r, 0);
}

static muster_status check_not_per_shard(const entrance *e) {
    if (!mst_collectives_of(e->worker)->per_shard) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE,
                     "%s: the body runs once per logical shard, so its workers cannot meet; use muster_function_set_shards_together and "
                     "muster_worker_all_reduce_shards",
                     e->where);
}

static void set_input(mst_request *r, const muster_tensor *input) {
    r->input = muster_tensor_address(*input);
    r->input_count = muster_tensor_count(*input);
    r->dtype = (uint8_t)input->dtype;
}

static void set_output(mst_request *r, const muster_tensor *output) {
    r->output = muster_tensor_address(*output);
    r->output_count = muster_tensor_count(*output);
    r->dtype = (uint8_t)output->dtype;
}

/* Checks both tensors, which must have one dtype, and puts them into the request. */
static muster_status check_both(const entrance *e, mst_request *r, const muster_tensor *input, const muster_tensor *output) {
    MUSTER_TRY(check_not_per_shard(e));
    MUSTER_TRY(check_tensor(e, input, e->input));
    MUSTER_TRY(check_tensor(e, output, e->output));
    MUSTER_TRY(check_dtype(e, input, output));
    set_input(r, input);
    set_output(r, output);
    return MUSTER_OK;
}

/* ---- collectives ---- */

muster_status muster_worker_all_reduce(muster_worker *worker, muster_communicator *communicator, muster_reduction op, muster_tensor input,
                                       muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE, .reduction = (uint8_t)op, .root = -1, .shards = 1};
    MUSTER_TRY(enter(&e, "muster_worker_all_reduce", worker, communicator));
    MUSTER_TRY(check_both(&e, &r, &input, &output));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    MUSTER_TRY(check_whole(&e, &r));
    return submit(&e, r);
}

muster_status muster_worker_all_reduce_shards(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                              muster_tensor input, muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE, .reduction = (uint8_t)op, .root = -1};
    MUSTER_TRY(enter(&e, "muster_worker_all_reduce_shards", worker, communicator));
    MUSTER_TRY(check_both(&e, &r, &input, &output));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    if (input.ndim < 1)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: input: expected a first axis of shards, received a tensor without axes", e.where);
    int64_t expected;
    r.shards = input.shape[0];
    if (__builtin_mul_overflow(r.shards, r.output_count, &expected)) expected = INT64_MAX;
    MUSTER_TRY(check_count(&e, "input", expected, "shards times the output", r.input_count));
    if (r.output_count == 0 && r.shards > 1) r.shards = 1; /* there is nothing to combine */
    MUSTER_TRY(check_overlap(&e, &r, -1));
    return submit(&e, r);
}

muster_status mst_collective_check_average(const char *where, muster_worker *worker, muster_communicator *communicator,
                                           const muster_tensor *input, const muster_tensor *output) {
    entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE, .root = -1};
    MUSTER_TRY(enter(&e, where, worker, communicator));
    MUSTER_TRY(check_no_group(&e, "communicator"));
    MUSTER_TRY(check_both(&e, &r, input, output));
    MUSTER_TRY(mst_reduction_check(MUSTER_AVG, input->dtype, where));
    return check_whole(&e, &r);
}

/* Checks a gradient and the parameter that it updates. */
static muster_status check_gradient(entrance *e, mst_request *r, const muster_tensor *gradient, const muster_tensor *parameter) {
    e->input = "gradient";
    e->output = "parameter";
    MUSTER_TRY(check_both(e, r, gradient, parameter));
    if (!mst_dtype_is_float(gradient->dtype))
        return mst_error(MUSTER_UNSUPPORTED, "%s: gradient: expected a float dtype, received %s", e->where,
                         muster_dtype_name(gradient->dtype));
    MUSTER_TRY(check_count(e, "parameter", r->input_count, "the gradient", r->output_count));
    return check_overlap(e, r, -1);
}

muster_status muster_worker_all_reduce_axpy(muster_worker *worker, muster_communicator *communicator, double alpha, muster_tensor gradient,
                                            muster_tensor parameter) {
    entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE_AXPY, .reduction = MUSTER_SUM, .root = -1, .alpha = alpha};
    MUSTER_TRY(enter(&e, "muster_worker_all_reduce_axpy", worker, communicator));
    MUSTER_TRY(check_gradient(&e, &r, &gradient, &parameter));
    return submit(&e, r);
}

/* Equal numbers have equal fingerprints. A fingerprint is never -1, which means "no root". */
static int32_t fingerprint(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits *= 0x9e3779b97f4a7c15u;
    return (int32_t)(bits >> 33);
}

muster_status muster_worker_all_reduce_momentum(muster_worker *worker, muster_communicator *communicator, double alpha,
                                                muster_tensor gradient, double beta, muster_tensor velocity, muster_tensor parameter) {
    entrance e;
    mst_momentum momentum = {.beta = beta};
    mst_request r = {
        .collective = MST_ALL_REDUCE_AXPY, .reduction = MUSTER_SUM, .root = fingerprint(beta), .alpha = alpha, .momentum = &momentum};
    MUSTER_TRY(enter(&e, "muster_worker_all_reduce_momentum", worker, communicator));
    MUSTER_TRY(check_no_group(&e, "communicator"));
    e.input = "velocity";
    e.output = "parameter";
    MUSTER_TRY(check_both(&e, &r, &velocity, &parameter));
    MUSTER_TRY(check_count(&e, "velocity", r.output_count, "the parameter", r.input_count));
    MUSTER_TRY(check_overlap(&e, &r, -1));
    MUSTER_TRY(check_gradient(&e, &r, &gradient, &parameter));
    momentum.velocity = muster_tensor_address(velocity);
    mst_request apart = r;
    apart.output = momentum.velocity;
    e.output = "velocity";
    MUSTER_TRY(check_overlap(&e, &apart, -1));
    return submit(&e, r);
}

/* Enters a collective with a root. The root passes both tensors; the other ranks pass only an
 * input, or only an output. */
typedef enum { ALL_BRING_INPUTS, ALL_BRING_OUTPUTS } others;
static muster_status enter_rooted(entrance *e, mst_request *r, const char *where, muster_worker *worker, muster_communicator *communicator,
                                  others others, const muster_tensor *input, const muster_tensor *output) {
    MUSTER_TRY(enter(e, where, worker, communicator));
    MUSTER_TRY(check_root(e, r->root, "root"));
    MUSTER_TRY(check_not_per_shard(e));
    if (e->rank == r->root) return check_both(e, r, input, output);
    if (others == ALL_BRING_INPUTS) {
        MUSTER_TRY(check_tensor(e, input, "input"));
        set_input(r, input);
    } else {
        MUSTER_TRY(check_tensor(e, output, "output"));
        set_output(r, output);
    }
    return MUSTER_OK;
}

static bool is_root(const entrance *e, const mst_request *r) { return e->rank == r->root; }

muster_status muster_worker_reduce(muster_worker *worker, muster_communicator *communicator, muster_reduction op, int32_t root,
                                   muster_tensor input, muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_REDUCE, .reduction = (uint8_t)op, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_reduce", worker, communicator, ALL_BRING_INPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(check_whole(&e, &r));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    return submit(&e, r);
}

muster_status muster_worker_broadcast(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                      muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_BROADCAST, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_broadcast", worker, communicator, ALL_BRING_OUTPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(check_whole(&e, &r));
    return submit(&e, r);
}

/* The smaller of the two tensors may lie inside the larger one. Whether it lies at this rank's part
 * depends on the other ranks' counts, so check.c checks that after the rendezvous. Only an overlap
 * that is never allowed is refused here. */
static muster_status check_part(const entrance *e, mst_request *r) {
    int64_t element = muster_dtype_size(r->dtype), in_bytes = r->input_count * element, out_bytes = r->output_count * element;
    const char *in = r->input, *out = r->output;
    int64_t smaller = in_bytes <= out_bytes ? in_bytes : out_bytes, larger = in_bytes + out_bytes - smaller,
            offset = in_bytes <= out_bytes ? in - out : out - in;
    bool inside = smaller > 0 && offset >= 0 && offset + smaller <= larger;
    if (!inside) return check_overlap(e, r, -1);
    r->place = 1 + offset;
    return MUSTER_OK;
}

muster_status muster_worker_all_gather(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                       muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_ALL_GATHER, .root = -1};
    MUSTER_TRY(enter(&e, "muster_worker_all_gather", worker, communicator));
    MUSTER_TRY(check_both(&e, &r, &input, &output));
    MUSTER_TRY(check_part(&e, &r));
    return submit(&e, r);
}

muster_status muster_worker_gather(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                   muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_GATHER, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_gather", worker, communicator, ALL_BRING_INPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(check_part(&e, &r));
    return submit(&e, r);
}

muster_status muster_worker_scatter(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                    muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_SCATTER, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_scatter", worker, communicator, ALL_BRING_OUTPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(check_part(&e, &r));
    return submit(&e, r);
}

muster_status muster_worker_reduce_scatter(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                           muster_tensor input, muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_REDUCE_SCATTER, .reduction = (uint8_t)op, .root = -1};
    MUSTER_TRY(enter(&e, "muster_worker_reduce_scatter", worker, communicator));
    MUSTER_TRY(check_both(&e, &r, &input, &output));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    MUSTER_TRY(check_part(&e, &r));
    return submit(&e, r);
}

muster_status muster_worker_all_to_all(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                       muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_ALL_TO_ALL, .root = -1};
    MUSTER_TRY(enter(&e, "muster_worker_all_to_all", worker, communicator));
    MUSTER_TRY(check_both(&e, &r, &input, &output));
    MUSTER_TRY(check_count(&e, "output", r.input_count, "the input", r.output_count));
    if (r.input_count % e.size != 0)
        return mst_error(MUSTER_SHAPE_MISMATCH,
                         "%s: input: expected a multiple of %d elements, received %lld; use muster_worker_all_to_all_uneven", e.where,
                         e.size, (long long)r.input_count);
    MUSTER_TRY(check_overlap(&e, &r, 0));
    return submit(&e, r);
}

static muster_status check_counts(const entrance *e, const int64_t *counts, const char *what, const char *tensor, int64_t count) {
    if (!counts) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %d numbers, received NULL", e->where, what, e->size);
    int64_t sum = 0;
    for (int32_t r = 0; r < e->size; r++) {
        if (counts[r] < 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s[%d]: expected a count of at least 0, received %lld", e->where, what, r,
                             (long long)counts[r]);
        if (__builtin_add_overflow(sum, counts[r], &sum))
            return mst_error(MUSTER_OVERFLOW, "%s: %s[%d]: expected counts of which the sum fits 64 bits, received %lld more", e->where,
                             what, r, (long long)counts[r]);
    }
    if (sum == count) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %lld elements, the sum of %s, received %lld", e->where, tensor,
                     (long long)sum, what, (long long)count);
}

muster_status muster_worker_all_to_all_uneven(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                              const int64_t *send_counts, muster_tensor output, const int64_t *recv_counts) {
    entrance e;
    mst_request r = {.collective = MST_ALL_TO_ALL, .root = -1, .send_counts = send_counts, .recv_counts = recv_counts};
    MUSTER_TRY(enter(&e, "muster_worker_all_to_all_uneven", worker, communicator));
    MUSTER_TRY(check_both(&e, &r, &input, &output));
    MUSTER_TRY(check_counts(&e, send_counts, "send_counts", "input", r.input_count));
    MUSTER_TRY(check_counts(&e, recv_counts, "recv_counts", "output", r.output_count));
    MUSTER_TRY(check_overlap(&e, &r, -1));
    return submit(&e, r);
}

muster_status muster_worker_barrier(muster_worker *worker, muster_communicator *communicator) {
    entrance e;
    MUSTER_TRY(enter(&e, "muster_worker_barrier", worker, communicator));
    MUSTER_TRY(check_not_per_shard(&e));
    return submit(&e, (mst_request){.collective = MST_BARRIER, .root = -1});
}

/* ---- messages ---- */

static muster_status check_message(const entrance *e, int32_t peer, const char *what, int32_t tag) {
    MUSTER_TRY(check_root(e, peer, what));
    MUSTER_TRY(check_not_per_shard(e));
    if (tag < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tag: expected at least 0, received %d", e->where, tag);
    if (peer != e->rank || group_open(e)) return MUSTER_OK;
    char own_name[MST_RANK_TEXT];
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected another than %s, received this one; a message to itself goes into a group",
                     e->where, what, own_text(e, own_name));
}

muster_status muster_worker_send(muster_worker *worker, muster_communicator *communicator, int32_t to, int32_t tag, muster_tensor input) {
    entrance e;
    mst_request r = {.collective = MST_SEND, .root = to, .tag = tag};
    MUSTER_TRY(enter(&e, "muster_worker_send", worker, communicator));
    MUSTER_TRY(check_message(&e, to, "to", tag));
    MUSTER_TRY(check_tensor(&e, &input, "input"));
    set_input(&r, &input);
    return submit(&e, r);
}

muster_status muster_worker_recv(muster_worker *worker, muster_communicator *communicator, int32_t from, int32_t tag,
                                 muster_tensor output) {
    entrance e;
    mst_request r = {.collective = MST_RECV, .root = from, .tag = tag};
    MUSTER_TRY(enter(&e, "muster_worker_recv", worker, communicator));
    MUSTER_TRY(check_message(&e, from, "from", tag));
    MUSTER_TRY(check_tensor(&e, &output, "output"));
    set_output(&r, &output);
    return submit(&e, r);
}

/* ---- groups and parts ---- */

muster_status muster_worker_group_begin(muster_worker *worker, muster_communicator *communicator) {
    entrance e;
    MUSTER_TRY(enter(&e, "muster_worker_group_begin", worker, communicator));
    MUSTER_TRY(check_not_per_shard(&e));
    MUSTER_TRY(check_no_group(&e, "communicator"));
    return mst_group_begin(e.communicator, worker, e.where);
}

muster_status muster_worker_group_end(muster_worker *worker, muster_communicator *communicator) {
    entrance e;
    MUSTER_TRY(enter(&e, "muster_worker_group_end", worker, communicator));
    if (!group_open(&e)) return mst_error(MUSTER_BAD_STATE, "%s: communicator: expected an open group, received none", e.where);
    return ended(&e, mst_group_end(e.communicator, worker));
}

muster_status muster_worker_split(muster_worker *worker, muster_communicator *communicator, int32_t color, int32_t key,
                                  muster_communicator **part) {
    entrance e;
    MUSTER_TRY(enter(&e, "muster_worker_split", worker, communicator));
    if (!part) return mst_error_null(e.where, "part", "the address of a pointer");
    MUSTER_TRY(check_no_group(&e, "communicator"));
    MUSTER_TRY(check_not_per_shard(&e));
    *part = NULL;
    return ended(&e, mst_communicator_split(e.communicator, worker, color, key, part));
}

muster_status muster_worker_release(muster_worker *worker, muster_communicator *part) {
    entrance e;
    if (!part) return MUSTER_OK; /* the rank joined no part */
    MUSTER_TRY(enter(&e, "muster_worker_release", worker, part));
    const muster_communicator *world = mst_collectives_of(worker)->world;
    if (part == world || part == world->alone)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: part: expected one made by muster_worker_split, received that of all workers",
                         e.where);
    MUSTER_TRY(check_no_group(&e, "part"));
    mst_communicator_release(part, worker);
    return MUSTER_OK;
}

/* ---- queries ---- */

muster_communicator *muster_worker_communicator(muster_worker *worker) { return worker ? mst_worker_communicator(worker) : NULL; }

int32_t muster_communicator_size(const muster_communicator *communicator) { return communicator ? communicator->size : -1; }

int32_t muster_communicator_rank(const muster_communicator *communicator, const muster_worker *worker) {
    return communicator && worker && communicator->pool == worker->pool ? mst_communicator_rank(communicator, worker) : -1;
}
