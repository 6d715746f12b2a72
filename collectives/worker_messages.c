/* Messages between workers, groups of collectives, and parts of communicators: the public
 * functions. */
#include "worker_entrance_private.h"

/* ---- messages ---- */

static muster_status check_message(const mst_entrance *e, int32_t peer, const char *what, int32_t tag) {
    MUSTER_TRY(mst_entrance_check_rank(e, peer, what));
    MUSTER_TRY(mst_entrance_check_not_per_shard(e));
    if (tag < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tag: expected at least 0, received %d", e->where, tag);
    if (peer != e->rank || mst_entrance_group_open(e)) return MUSTER_OK;
    char own_name[MST_MEMBER_TEXT];
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected another than %s, received this one; a message to itself goes into a group",
                     e->where, what, mst_entrance_member_text(e, own_name));
}

muster_status muster_worker_send(muster_worker *worker, muster_communicator *communicator, int32_t to, int32_t tag, muster_tensor input) {
    mst_entrance e;
    mst_request r = {.collective = MST_SEND, .root = to, .tag = tag};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_send", worker, communicator));
    MUSTER_TRY(check_message(&e, to, "to", tag));
    MUSTER_TRY(mst_entrance_check_tensor(&e, &input, "input"));
    mst_entrance_set_input(&r, &input);
    return mst_entrance_submit(&e, r);
}

muster_status muster_worker_recv(muster_worker *worker, muster_communicator *communicator, int32_t from, int32_t tag,
                                 muster_tensor output) {
    mst_entrance e;
    mst_request r = {.collective = MST_RECV, .root = from, .tag = tag};
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_recv", worker, communicator));
    MUSTER_TRY(check_message(&e, from, "from", tag));
    MUSTER_TRY(mst_entrance_check_tensor(&e, &output, "output"));
    mst_entrance_set_output(&r, &output);
    return mst_entrance_submit(&e, r);
}

/* ---- groups and parts ---- */

muster_status muster_worker_group_begin(muster_worker *worker, muster_communicator *communicator) {
    mst_entrance e;
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_group_begin", worker, communicator));
    MUSTER_TRY(mst_entrance_check_not_per_shard(&e));
    MUSTER_TRY(mst_entrance_check_no_group(&e, "communicator"));
    return mst_group_begin(e.communicator, worker, e.where);
}

muster_status muster_worker_group_end(muster_worker *worker, muster_communicator *communicator) {
    mst_entrance e;
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_group_end", worker, communicator));
    if (!mst_entrance_group_open(&e))
        return mst_error(MUSTER_BAD_STATE, "%s: communicator: expected an open group, received none", e.where);
    return mst_entrance_end(&e, mst_group_end(e.communicator, worker));
}

muster_status muster_worker_split(muster_worker *worker, muster_communicator *communicator, int32_t color, int32_t key,
                                  muster_communicator **part) {
    mst_entrance e;
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_split", worker, communicator));
    if (!part) return mst_error_null(e.where, "part", "the address of a pointer");
    MUSTER_TRY(mst_entrance_check_no_group(&e, "communicator"));
    MUSTER_TRY(mst_entrance_check_not_per_shard(&e));
    *part = NULL;
    return mst_entrance_end(&e, mst_communicator_split(e.communicator, worker, color, key, part));
}

muster_status muster_worker_release(muster_worker *worker, muster_communicator *part) {
    mst_entrance e;
    if (!part) return MUSTER_OK; /* the rank joined no part */
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_release", worker, part));
    const muster_communicator *world = mst_collectives_of(worker)->world;
    if (part == world || part == world->global || part == world->alone)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: part: expected one made by muster_worker_split, received that of all workers",
                         e.where);
    MUSTER_TRY(mst_entrance_check_no_group(&e, "part"));
    mst_communicator_release(part, worker);
    return MUSTER_OK;
}

/* ---- queries ---- */

muster_communicator *muster_worker_communicator(muster_worker *worker) { return worker ? mst_worker_communicator(worker) : NULL; }

int32_t muster_communicator_size(const muster_communicator *communicator) {
    return communicator ? mst_communicator_total(communicator) : -1;
}

int32_t muster_communicator_rank(const muster_communicator *communicator, const muster_worker *worker) {
    if (!communicator || !worker || communicator->pool != worker->pool) return -1;
    return mst_communicator_public(communicator, mst_communicator_rank(communicator, worker));
}
