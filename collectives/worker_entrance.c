/* The way into a collective: what every public function of collectives, messages and groups checks
 * first, and how it hands its request on. */
#include "worker_entrance_private.h"

const char *mst_entrance_member_text(const mst_entrance *e, char text[MST_MEMBER_TEXT]) {
    return mst_member_text(e->communicator, e->rank, text);
}

muster_status mst_entrance_open(mst_entrance *e, const char *where, muster_worker *worker, muster_communicator *communicator) {
    MUSTER_TRY(mst_worker_check(worker, where));
    if (!communicator)
        communicator = mst_worker_communicator(worker);
    else if (__builtin_expect(communicator->pool != worker->pool, 0))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: communicator: expected one of this runtime, received one of another", where);
    const int32_t member = mst_communicator_rank(communicator, worker);
    *e = (mst_entrance){.where = where,
                        .worker = worker,
                        .communicator = communicator,
                        .rank = mst_communicator_public(communicator, member),
                        .size = mst_communicator_total(communicator),
                        .member = member,
                        .input = "input",
                        .output = "output"};
    if (e->rank < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: communicator: expected one of which worker %d is a member, received another", where,
                         mst_worker_public_rank(worker));
    if (e->size > 1 && mst_worker_is_single(worker))
        return mst_error(MUSTER_BAD_STATE, "%s: communicator: expected one of 1 rank in a single call, received one of %d", where, e->size);
    if (__builtin_expect(!communicator->members[e->member].group.released, 1)) return mst_worker_drain(worker);
    char own_name[MST_MEMBER_TEXT];
    return mst_error(MUSTER_BAD_STATE, "%s: communicator: %s has released it", where, mst_entrance_member_text(e, own_name));
}

muster_status mst_entrance_check_no_group(const mst_entrance *e, const char *what) {
    if (!mst_entrance_group_open(e)) return MUSTER_OK;
    char own_name[MST_MEMBER_TEXT];
    return mst_error(MUSTER_BAD_STATE, "%s: %s: expected no open group, received one of %s", e->where, what,
                     mst_entrance_member_text(e, own_name));
}

muster_status mst_entrance_end(const mst_entrance *e, muster_status status) {
    return __builtin_expect(status == MUSTER_OK, 1) ? status : mst_collective_error(e->where, status);
}

muster_status mst_entrance_submit(const mst_entrance *e, mst_request request) {
    request.exact = mst_collectives_of(e->worker)->exact;
    if (__builtin_expect(!mst_entrance_group_open(e), 1))
        return mst_entrance_end(e, mst_communicator_run_of_body(e->communicator, e->worker, &request, 1));
    mst_group *group = &e->communicator->members[e->member].group;
    if (group->count == MST_GROUP_REQUESTS)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: expected at most %d collectives in a group, received one more", e->where,
                         MST_GROUP_REQUESTS);
    group->requests[group->count++] = request;
    return MUSTER_OK;
}

/* ---- arguments ---- */

muster_status mst_entrance_check_tensor(const mst_entrance *e, const muster_tensor *tensor, const char *what) {
    const muster_worker *worker = e->worker;
    if (mst_tensor_absent(tensor)) MUSTER_TRY(mst_worker_kept_failure(worker, e->where, what));
    MUSTER_TRY(mst_tensor_check(*tensor, e->where, what));
    bool reachable = tensor->device == worker->rank || (tensor->device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device));
    if (!reachable)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a tensor in the memory of device %d, received one of device %d",
                         e->where, what, mst_worker_public_rank(worker),
                         tensor->device == MUSTER_DEVICE_HOST ? tensor->device : mst_worker_first(worker) + tensor->device);
    if (!mst_tensor_contiguous(*tensor))
        return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected a contiguous tensor, received a strided one", e->where, what);
    return MUSTER_OK;
}

muster_status mst_entrance_check_rank(const mst_entrance *e, int32_t rank, const char *what) {
    if (rank >= 0 && rank < e->size) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: %s: expected a rank from 0 to %d, received %d", e->where, what, e->size - 1, rank);
}

static muster_status check_dtype(const mst_entrance *e, const muster_tensor *input, const muster_tensor *output) {
    if (output->dtype == input->dtype) return MUSTER_OK;
    return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected dtype %s as the %s, received %s", e->where, e->output,
                     muster_dtype_name(input->dtype), e->input, muster_dtype_name(output->dtype));
}

muster_status mst_entrance_check_count(const mst_entrance *e, const char *what, int64_t expected, const char *like_what, int64_t received) {
    if (received == expected) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %lld elements as %s, received %lld", e->where, what, (long long)expected,
                     like_what, (long long)received);
}

muster_status mst_entrance_check_overlap(const mst_entrance *e, const mst_request *r, int64_t offset) {
    int64_t element = muster_dtype_size(r->dtype), in_bytes = r->input_count * element, out_bytes = r->output_count * element;
    const char *in = r->input, *out = r->output;
    if (in_bytes == 0 || out_bytes == 0 || in + in_bytes <= out || out + out_bytes <= in) return MUSTER_OK;
    if (offset >= 0 && (in_bytes <= out_bytes ? in - out : out - in) == offset * element) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected the %s's memory in the form that is allowed in place, or memory apart from it, received an overlap",
                     e->where, e->output, e->input);
}

muster_status mst_entrance_check_whole(const mst_entrance *e, const mst_request *r) {
    MUSTER_TRY(mst_entrance_check_count(e, "output", r->input_count, "the input", r->output_count));
    return mst_entrance_check_overlap(e, r, 0);
}

muster_status mst_entrance_check_not_per_shard(const mst_entrance *e) {
    if (!mst_collectives_of(e->worker)->per_shard) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE,
                     "%s: the body runs once per logical shard, so its workers cannot meet; use muster_function_set_shards_together and "
                     "muster_worker_all_reduce_shards",
                     e->where);
}

muster_status mst_entrance_check_both(const mst_entrance *e, mst_request *r, const muster_tensor *input, const muster_tensor *output) {
    MUSTER_TRY(mst_entrance_check_not_per_shard(e));
    MUSTER_TRY(mst_entrance_check_tensor(e, input, e->input));
    MUSTER_TRY(mst_entrance_check_tensor(e, output, e->output));
    MUSTER_TRY(check_dtype(e, input, output));
    mst_entrance_set_input(r, input);
    mst_entrance_set_output(r, output);
    return MUSTER_OK;
}
