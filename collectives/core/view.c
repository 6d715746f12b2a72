/* Which elements a rank works on, and where they lie. */
#include "view_private.h"

enum { PAGE = 4096, MANY_PAGES = 16 };

static int64_t edge(int64_t count, int64_t unit, int32_t size, int32_t rank) {
    int64_t units = count / unit + (count % unit != 0);
    __int128 at = (__int128)units * rank / size * unit;
    return at < count ? (int64_t)at : count;
}

void mst_segment(int64_t count, int64_t element, int32_t size, int32_t rank, int64_t *begin, int64_t *end) {
    int64_t pages = count / (PAGE / element) / size;
    int64_t unit = (pages >= MANY_PAGES ? PAGE : MST_CACHE_LINE) / element;
    *begin = edge(count, unit, size, rank);
    *end = edge(count, unit, size, rank + 1);
}

/* A gather concatenates the inputs; a scatter cuts the outputs from the concatenation. */
int64_t mst_view_part(const mst_view *view, int32_t rank) {
    const mst_request *request = view->requests[rank];
    bool joins = request->collective == MST_ALL_GATHER || request->collective == MST_GATHER;
    return joins ? request->input_count : request->output_count;
}

int64_t mst_view_offset(const mst_view *view, int32_t rank) {
    int64_t offset = 0;
    for (int32_t r = 0; r < rank; r++) offset += mst_view_part(view, r);
    return offset;
}

static int64_t pair_part(const int64_t *counts, int64_t total, int32_t size, int32_t peer) { return counts ? counts[peer] : total / size; }

static int64_t pair_offset(const int64_t *counts, int64_t total, int32_t size, int32_t peer) {
    if (!counts) return total / size * peer;
    int64_t offset = 0;
    for (int32_t r = 0; r < peer; r++) offset += counts[r];
    return offset;
}

mst_block mst_view_block(const mst_view *view, int32_t from, int32_t to) {
    const mst_request *sender = view->requests[from], *receiver = view->requests[to];
    int64_t element = muster_dtype_size(sender->dtype);
    int64_t sent = pair_offset(sender->send_counts, sender->input_count, view->size, to) * element;
    int64_t received = pair_offset(receiver->recv_counts, receiver->output_count, view->size, from) * element;
    int64_t count = pair_part(sender->send_counts, sender->input_count, view->size, to);
    return (mst_block){mst_at(sender->input, sent), mst_at(receiver->output, received), count};
}

int64_t mst_view_shards(const mst_view *view) {
    int64_t shards = 0;
    for (int32_t r = 0; r < view->size; r++) shards += mst_request_shards(view->requests[r]);
    return shards;
}

int64_t mst_view_largest_bytes(const mst_view *view) {
    int64_t largest = 0;
    for (int32_t r = 0; r < view->size; r++) {
        int64_t in = mst_request_input_bytes(view->requests[r]), out = mst_request_output_bytes(view->requests[r]);
        largest = in > largest ? in : largest;
        largest = out > largest ? out : largest;
    }
    return largest;
}

int64_t mst_view_touched_bytes(const mst_view *view) {
    int64_t bytes = 0;
    for (int32_t r = 0; r < view->size; r++) {
        const mst_request *request = view->requests[r];
        bytes += request->output_count * muster_dtype_size(request->dtype);
        if (request->input != request->output) bytes += request->input_count * muster_dtype_size(request->dtype);
    }
    /* Of an apply: the parameter of each rank, and the states as one vector. */
    if (mst_request_applies(mst_view_own(view))) return bytes + mst_view_own(view)->output_count * mst_view_element(view);
    /* Each rank reads and writes its segment of its velocity; together that is one velocity. */
    if (mst_view_momentum(view)) bytes += mst_request_output_bytes(mst_view_own(view));
    return bytes;
}
