/* Telling the program of the end of a request, for event loops. */
#include "server_private.h"

#include <inttypes.h>

/* Inside the client of the request. */
static muster_status notify_refuse(const muster_request *request, const char *where) {
    const muster_client *client = request->client;
    if (client->worker)
        return mst_error(MUSTER_UNSUPPORTED, "%s: request: expected one of a client of muster_client_open, received one of rank %" PRId32,
                         where, client->worker->rank);
    if (client->server->progress_count == 0)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: request: server '%.200s' has no threads (options.progress), so that its operations may need a wait to be "
                         "applied",
                         where, client->server->name);
    if (request->completion.function) return mst_error(MUSTER_BAD_STATE, "%s: request: expected one without a notification so far", where);
    return MUSTER_OK;
}

static muster_status notify_request(muster_request *request, const char *where, mst_completion completion) {
    bool ended = true;
    if (request) {
        MUSTER_TRY(mst_request_enter(&request, where));
        const muster_status status = notify_refuse(request, where);
        if (status == MUSTER_OK) ended = !mst_request_watch(request, completion);
        mst_client_leave(request->client);
        MUSTER_TRY(status);
    }
    if (ended) mst_completion_call(completion);
    return MUSTER_OK;
}

muster_status muster_request_notify(muster_request *request, muster_completion_function function, void *user) {
    static const char where[] = "muster_request_notify";
    if (!function) return mst_error_null(where, "function", "a function");
    return notify_request(request, where, (mst_completion){function, user});
}

muster_status muster_request_notify_fd(muster_request *request, int32_t fd) {
    static const char where[] = "muster_request_notify_fd";
    mst_completion completion;
    MUSTER_TRY(mst_completion_of_fd(where, fd, &completion));
    return notify_request(request, where, completion);
}
