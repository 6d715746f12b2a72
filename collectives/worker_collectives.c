/* The public collectives of a worker. */
#include "worker_entrance_private.h"

#include <string.h>

muster_status muster_worker_all_reduce(muster_worker *worker, muster_communicator *communicator, muster_reduction op, muster_tensor input,
                                       muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE, .reduction = (uint8_t)op, .root = -1, .shards = 1};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_reduce", worker, communicator));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &input, &output));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    MUSTER_TRY(mst_entrance_check_whole(&e, &r));
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_all_reduce_shards(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                              muster_tensor input, muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE, .reduction = (uint8_t)op, .root = -1};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_reduce_shards", worker, communicator));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &input, &output));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    if (input.ndim < 1)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: input: expected a first axis of shards, received a tensor without axes", e.where);
    int64_t expected;
    r.shards = input.shape[0];
    if (__builtin_mul_overflow(r.shards, r.output_count, &expected)) expected = INT64_MAX;
    MUSTER_TRY(mst_entrance_check_count(&e, "input", expected, "shards times the output", r.input_count));
    if (r.output_count == 0 && r.shards > 1) r.shards = 1; /* there is nothing to combine */
    MUSTER_TRY(mst_entrance_check_overlap(&e, &r, -1));
    return mst_entrance_submit(&e, r);
}

/* Checks a gradient and the parameter that it updates. */
static muster_status check_gradient(mst_entrance *e, mst_request *r, const muster_tensor *gradient, const muster_tensor *parameter) {
    e->input = "gradient";
    e->output = "parameter";
    MUSTER_TRY(mst_entrance_check_both(e, r, gradient, parameter));
    if (!mst_dtype_is_float(gradient->dtype))
        return mst_error(MUSTER_UNSUPPORTED, "%s: gradient: expected a float dtype, received %s", e->where,
                         muster_dtype_name(gradient->dtype));
    MUSTER_TRY(mst_entrance_check_count(e, "parameter", r->input_count, "the gradient", r->output_count));
    return mst_entrance_check_overlap(e, r, -1);
}

muster_status muster_worker_all_reduce_axpy(muster_worker *worker, muster_communicator *communicator, double alpha, muster_tensor gradient,
                                            muster_tensor parameter) {
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE_AXPY, .reduction = MUSTER_SUM, .root = -1, .alpha = alpha};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_reduce_axpy", worker, communicator));
    MUSTER_TRY(check_gradient(&e, &r, &gradient, &parameter));
    return mst_entrance_submit(&e, r);
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
    mst_entrance e;
    mst_momentum momentum = {.beta = beta};
    mst_request r = {
        .collective = MST_ALL_REDUCE_AXPY, .reduction = MUSTER_SUM, .root = fingerprint(beta), .alpha = alpha, .momentum = &momentum};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_reduce_momentum", worker, communicator));
    MUSTER_TRY(mst_entrance_check_no_group(&e, "communicator"));
    e.input = "velocity";
    e.output = "parameter";
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &velocity, &parameter));
    MUSTER_TRY(mst_entrance_check_count(&e, "velocity", r.output_count, "the parameter", r.input_count));
    MUSTER_TRY(mst_entrance_check_overlap(&e, &r, -1));
    MUSTER_TRY(check_gradient(&e, &r, &gradient, &parameter));
    momentum.velocity = muster_tensor_address(velocity);
    mst_request apart = r;
    apart.output = momentum.velocity;
    e.output = "velocity";
    MUSTER_TRY(mst_entrance_check_overlap(&e, &apart, -1));
    return mst_entrance_submit(&e, r);
}

/* Enters a collective with a root. The root passes both tensors; the other ranks pass only an
 * input, or only an output. */
typedef enum { ALL_BRING_INPUTS, ALL_BRING_OUTPUTS } others;
static muster_status enter_rooted(mst_entrance *e, mst_request *r, const char *where, muster_worker *worker,
                                  muster_communicator *communicator, others others, const muster_tensor *input,
                                  const muster_tensor *output) {
    MUSTER_TRY(mst_entrance_open(e, where, worker, communicator));
    MUSTER_TRY(mst_entrance_check_rank(e, r->root, "root"));
    MUSTER_TRY(mst_entrance_check_not_per_shard(e));
    if (e->rank == r->root) return mst_entrance_check_both(e, r, input, output);
    if (others == ALL_BRING_INPUTS) {
        MUSTER_TRY(mst_entrance_check_tensor(e, input, "input"));
        mst_entrance_set_input(r, input);
    } else {
        MUSTER_TRY(mst_entrance_check_tensor(e, output, "output"));
        mst_entrance_set_output(r, output);
    }
    return MUSTER_OK;
}

static bool is_root(const mst_entrance *e, const mst_request *r) { return e->rank == r->root; }

muster_status muster_worker_reduce(muster_worker *worker, muster_communicator *communicator, muster_reduction op, int32_t root,
                                   muster_tensor input, muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_REDUCE, .reduction = (uint8_t)op, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_reduce", worker, communicator, ALL_BRING_INPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(mst_entrance_check_whole(&e, &r));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_broadcast(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                      muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_BROADCAST, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_broadcast", worker, communicator, ALL_BRING_OUTPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(mst_entrance_check_whole(&e, &r));
    return mst_entrance_submit(&e, r);
}

/* The smaller of the two tensors may lie inside the larger one. Whether it lies at this rank's part
 * depends on the other ranks' counts, so check.c checks that after the rendezvous. Only an overlap
 * that is never allowed is refused here. */
static muster_status check_part(const mst_entrance *e, mst_request *r) {
    int64_t element = muster_dtype_size(r->dtype), in_bytes = r->input_count * element, out_bytes = r->output_count * element;
    const char *in = r->input, *out = r->output;
    int64_t smaller = in_bytes <= out_bytes ? in_bytes : out_bytes, larger = in_bytes + out_bytes - smaller,
            offset = in_bytes <= out_bytes ? in - out : out - in;
    bool inside = smaller > 0 && offset >= 0 && offset + smaller <= larger;
    if (!inside) return mst_entrance_check_overlap(e, r, -1);
    r->place = 1 + offset;
    return MUSTER_OK;
}

muster_status muster_worker_all_gather(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                       muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_GATHER, .root = -1};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_gather", worker, communicator));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &input, &output));
    MUSTER_TRY(check_part(&e, &r));
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_gather(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                   muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_GATHER, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_gather", worker, communicator, ALL_BRING_INPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(check_part(&e, &r));
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_scatter(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                    muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_SCATTER, .root = root};
    MUSTER_TRY(enter_rooted(&e, &r, "muster_worker_scatter", worker, communicator, ALL_BRING_OUTPUTS, &input, &output));
    if (is_root(&e, &r)) MUSTER_TRY(check_part(&e, &r));
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_reduce_scatter(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                           muster_tensor input, muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_REDUCE_SCATTER, .reduction = (uint8_t)op, .root = -1};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_reduce_scatter", worker, communicator));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &input, &output));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, e.where));
    MUSTER_TRY(check_part(&e, &r));
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_all_to_all(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                       muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_TO_ALL, .root = -1};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_to_all", worker, communicator));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &input, &output));
    MUSTER_TRY(mst_entrance_check_count(&e, "output", r.input_count, "the input", r.output_count));
    if (r.input_count % e.size != 0)
        return mst_error(MUSTER_SHAPE_MISMATCH,
                         "%s: input: expected a multiple of %d elements, received %lld; use muster_worker_all_to_all_uneven", e.where,
                         e.size, (long long)r.input_count);
    MUSTER_TRY(mst_entrance_check_overlap(&e, &r, 0));
    return mst_entrance_submit(&e, r);
}

static muster_status check_counts(const mst_entrance *e, const int64_t *counts, const char *what, const char *tensor, int64_t count) {
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
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_TO_ALL, .root = -1, .send_counts = send_counts, .recv_counts = recv_counts};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_to_all_uneven", worker, communicator));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &input, &output));
    MUSTER_TRY(check_counts(&e, send_counts, "send_counts", "input", r.input_count));
    MUSTER_TRY(check_counts(&e, recv_counts, "recv_counts", "output", r.output_count));
    MUSTER_TRY(mst_entrance_check_overlap(&e, &r, -1));
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_barrier(muster_worker *worker, muster_communicator *communicator) {
    mst_entrance e;
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_barrier", worker, communicator));
    MUSTER_TRY(mst_entrance_check_not_per_shard(&e));
    return mst_entrance_submit(&e, (mst_request){.collective = MST_BARRIER, .root = -1});
}
