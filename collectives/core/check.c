/* Do the requests of all ranks match? Each rank compares all requests with that of rank 0, so that
 * all ranks get the same answer. */
#include "apply_private.h"
#include "locale_impl.h"
#include "rendezvous_private.h"

#include <stdio.h>

const char *mst_collective_name(mst_collective collective) {
    static const char *const names[MST_COLLECTIVE_COUNT] = {"collective",
                                                            "all_reduce",
                                                            "all_reduce_axpy",
                                                            "reduce",
                                                            "broadcast",
                                                            "all_gather",
                                                            "gather",
                                                            "scatter",
                                                            "reduce_scatter",
                                                            "all_to_all",
                                                            "all_reduce_apply",
                                                            "barrier",
                                                            "end of the body",
                                                            "split",
                                                            "group",
                                                            "send",
                                                            "recv"};
    return names[collective];
}

const char *mst_request_function(const mst_request *r) {
    static const char *const names[MST_COLLECTIVE_COUNT] = {[MST_ALL_REDUCE] = "muster_worker_all_reduce",
                                                            [MST_ALL_REDUCE_AXPY] = "muster_worker_all_reduce_axpy",
                                                            [MST_ALL_REDUCE_APPLY] = "all_reduce_apply",
                                                            [MST_REDUCE] = "muster_worker_reduce",
                                                            [MST_BROADCAST] = "muster_worker_broadcast",
                                                            [MST_ALL_GATHER] = "muster_worker_all_gather",
                                                            [MST_GATHER] = "muster_worker_gather",
                                                            [MST_SCATTER] = "muster_worker_scatter",
                                                            [MST_REDUCE_SCATTER] = "muster_worker_reduce_scatter",
                                                            [MST_ALL_TO_ALL] = "muster_worker_all_to_all",
                                                            [MST_BARRIER] = "muster_worker_barrier",
                                                            [MST_END_OF_BODY] = "end of the body",
                                                            [MST_SPLIT] = "muster_worker_split",
                                                            [MST_GROUP] = "muster_worker_group_end",
                                                            [MST_SEND] = "muster_worker_send",
                                                            [MST_RECV] = "muster_worker_recv"};
    if (mst_request_momentum(r)) return "muster_worker_all_reduce_momentum";
    if (mst_request_is_uneven(r)) return "muster_worker_all_to_all_uneven";
    return r->collective == MST_ALL_REDUCE && r->shards != 1 ? "muster_worker_all_reduce_shards" : names[r->collective];
}

muster_status mst_collective_error(const char *function, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (strncmp(message, "muster_", 7) == 0 || strncmp(message, function, strlen(function)) == 0) return status;
    return mst_error(status, "%s: %.900s", function, message);
}

static int64_t compared_count(const mst_request *r) {
    switch (r->collective) {
    case MST_REDUCE:
    case MST_REDUCE_SCATTER:
        return r->input_count;
    case MST_GATHER:
        return -1; /* each rank's own */
    case MST_SCATTER:
        return -1;
    case MST_ALL_TO_ALL:
        return r->send_counts ? -1 : r->input_count;
    case MST_GROUP:
        return r->input_count;
    case MST_SPLIT:
    case MST_BARRIER:
    case MST_END_OF_BODY:
        return -1;
    default:
        return r->output_count;
    }
}

enum { REQUEST_TEXT = 320 };
/* Describes a request for messages, such as "all_reduce sum of 12 f32". The request lies in a flag
 * line or in the array of a group. Returns text. */
static const char *request_text(const muster_communicator *communicator, const mst_request *r, char text[REQUEST_TEXT]) {
    const mst_momentum *momentum = mst_request_momentum(r);
    const char *name = momentum ? "all_reduce_momentum" : mst_collective_name(r->collective), *dtype = muster_dtype_name(r->dtype);
    char reduction[16] = "", root[MST_MEMBER_TEXT + 16] = "", count[32] = "", member[MST_MEMBER_TEXT];
    if (r->reduction) snprintf(reduction, sizeof reduction, " %s", mst_reduction_name(r->reduction));
    if (r->collective == MST_REDUCE || r->collective == MST_GATHER)
        snprintf(root, sizeof root, " to %s", mst_member_text(communicator, r->root, member));
    if (r->collective == MST_BROADCAST || r->collective == MST_SCATTER)
        snprintf(root, sizeof root, " from %s", mst_member_text(communicator, r->root, member));
    if (r->collective == MST_GROUP) return snprintf(text, REQUEST_TEXT, "group of %lld", (long long)r->input_count), text;
    if (r->collective == MST_BARRIER || r->collective == MST_END_OF_BODY || r->collective == MST_SPLIT)
        return snprintf(text, REQUEST_TEXT, "%s", name), text;
    if (compared_count(r) >= 0) snprintf(count, sizeof count, " %lld", (long long)compared_count(r));
    if (r->collective == MST_ALL_REDUCE_AXPY) mst_snprintf(root, sizeof root, ", alpha %.17g", r->alpha);
    if (momentum) mst_snprintf(root, sizeof root, ", alpha %.17g, beta %.17g", r->alpha, momentum->beta);
    const char *kind = r->collective == MST_ALL_TO_ALL && r->send_counts ? " (uneven)"
                       : mst_request_process_weights(r)                  ? " (weighted)"
                                                                         : "";
    snprintf(text, REQUEST_TEXT, "%s%s%s of%s %s%s", name, kind, reduction, count, dtype, root);
    return text;
}

static const char *verb_of(const mst_request *r) { return r->collective == MST_END_OF_BODY ? "reached the" : "called"; }

static bool same_head(const mst_request *a, const mst_request *b) {
    if (a->collective != b->collective || a->reduction != b->reduction || a->dtype != b->dtype) return false;
    if (a->collective != MST_SPLIT && a->root != b->root) return false;
    if (a->collective == MST_ALL_REDUCE_AXPY && !(a->alpha == b->alpha || (a->alpha != a->alpha && b->alpha != b->alpha))) return false;
    if (a->collective == MST_ALL_REDUCE_AXPY && !a->momentum != !b->momentum) return false;
    if (a->collective == MST_ALL_TO_ALL && !a->send_counts != !b->send_counts) return false;
    if (!mst_request_process_weights(a) != !mst_request_process_weights(b)) return false;
    return compared_count(a) == compared_count(b);
}

static muster_status check_sum(const muster_communicator *communicator, const mst_view *view, const char *what, int64_t total,
                               int32_t owner, bool of_inputs) {
    int64_t sum = 0;
    for (int32_t r = 0; r < view->size; r++) sum += of_inputs ? view->requests[r]->input_count : view->requests[r]->output_count;
    if (sum == total) return MUSTER_OK;
    char member[MST_MEMBER_TEXT];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s of %s: expected %lld elements, the sum of all ranks' %ss, received %lld",
                     mst_request_function(view->requests[0]), what, mst_member_text(communicator, owner, member), (long long)sum,
                     of_inputs ? "input" : "output", (long long)total);
}

/* If the two tensors of a rank overlap, the smaller one must be exactly this rank's part of the
 * larger one. */
static muster_status check_in_place(const muster_communicator *communicator, const mst_view *view, int32_t r, int64_t offset) {
    const mst_request *q = view->requests[r];
    int64_t expected = offset * muster_dtype_size(q->dtype);
    if (q->place == 0 || q->place - 1 == expected) return MUSTER_OK;
    char member[MST_MEMBER_TEXT];
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: in place on %s: expected its part to begin at byte %lld, received byte %lld",
                     mst_request_function(q), mst_member_text(communicator, r, member), (long long)expected, (long long)(q->place - 1));
}

static muster_status check_parts(const muster_communicator *communicator, const mst_view *view, int32_t first, int32_t last) {
    int64_t offset = 0;
    bool of_inputs = view->requests[0]->collective == MST_ALL_GATHER || view->requests[0]->collective == MST_GATHER;
    for (int32_t r = 0; r < last; r++) {
        if (r >= first) MUSTER_TRY(check_in_place(communicator, view, r, offset));
        offset += of_inputs ? view->requests[r]->input_count : view->requests[r]->output_count;
    }
    return MUSTER_OK;
}

static muster_status check_shards(const mst_view *view) {
    if (mst_view_shards(view) > 0) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: expected at least one shard on all ranks together, received none",
                     mst_request_function(mst_view_own(view)));
}

muster_status mst_check_heads(const muster_communicator *communicator, const mst_view *view) {
    const mst_request *first = view->requests[0];
    for (int32_t r = 1; r < view->size; r++) {
        if (__builtin_expect(same_head(first, view->requests[r]), 1)) continue;
        char here[REQUEST_TEXT], there[REQUEST_TEXT], one[MST_MEMBER_TEXT], zero[MST_MEMBER_TEXT];
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: collective mismatch: %s %s %s, %s %s %s",
                         mst_request_function(first->collective == MST_END_OF_BODY ? view->requests[r] : first),
                         mst_member_text(communicator, r, one), verb_of(view->requests[r]),
                         request_text(communicator, view->requests[r], here), mst_member_text(communicator, 0, zero), verb_of(first),
                         request_text(communicator, first, there));
    }
    int32_t root = first->root;
    switch (first->collective) {
    case MST_ALL_REDUCE:
    case MST_ALL_REDUCE_APPLY:
        return check_shards(view);
    case MST_ALL_GATHER:
        MUSTER_TRY(check_sum(communicator, view, "output", first->output_count, 0, true));
        return check_parts(communicator, view, 0, view->size);
    case MST_GATHER:
        MUSTER_TRY(check_sum(communicator, view, "output", view->requests[root]->output_count, root, true));
        return check_parts(communicator, view, root, root + 1);
    case MST_SCATTER:
        MUSTER_TRY(check_sum(communicator, view, "input", view->requests[root]->input_count, root, false));
        return check_parts(communicator, view, root, root + 1);
    case MST_REDUCE_SCATTER:
        MUSTER_TRY(check_sum(communicator, view, "input", first->input_count, 0, false));
        return check_parts(communicator, view, 0, view->size);
    default:
        return MUSTER_OK;
    }
}

muster_status mst_check_counts(const muster_communicator *communicator, const mst_view *view) {
    if (mst_request_applies(view->requests[0])) return mst_apply_check(communicator, view);
    if (view->requests[0]->collective != MST_ALL_TO_ALL || !view->requests[0]->send_counts) return MUSTER_OK;
    for (int32_t from = 0; from < view->size; from++) {
        for (int32_t to = 0; to < view->size; to++) {
            int64_t sent = view->requests[from]->send_counts[to], expected = view->requests[to]->recv_counts[from];
            if (sent == expected) continue;
            char sender[MST_MEMBER_TEXT], receiver[MST_MEMBER_TEXT];
            return mst_error(MUSTER_SHAPE_MISMATCH,
                             "muster_worker_all_to_all_uneven: %s sends %lld elements to %s, which expects %lld from it",
                             mst_member_text(communicator, from, sender), (long long)sent, mst_member_text(communicator, to, receiver),
                             (long long)expected);
        }
    }
    return MUSTER_OK;
}
