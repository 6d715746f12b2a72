/* The chunks of a flow are sent and received through a window of requests. They are seen as done in
 * their order. */
#include "flow_private.h"

#include "wire/wire_impl.h"

/* So many requests are tested at once, so that one call of `progress` takes a bounded time however
 * many members there are. */
enum { FLOW_TESTED = 128, FLOW_BEGUN = 64 };

void mst_flows_clear(mst_schedule *schedule) { schedule->flow_count = schedule->request_count = schedule->request_next = 0; }

static mst_flow *flow_new(mst_schedule *schedule, bool sends, int32_t member, mst_kind kind, int32_t window) {
    mst_flow *flow = &schedule->flows[schedule->flow_count++];
    *flow = (mst_flow){.sends = sends, .member = member, .kind = kind, .window = window, .first_request = schedule->request_count};
    schedule->request_count += window;
    return flow;
}

mst_flow *mst_flow_add(mst_schedule *schedule, bool sends, int32_t member, mst_kind kind, void *at, int64_t bytes, int64_t chunk,
                       int32_t window) {
    mst_flow *flow = flow_new(schedule, sends, member, kind, window);
    flow->at = at;
    flow->bytes = bytes;
    flow->chunk = chunk;
    flow->chunks = mst_flow_chunks(bytes, chunk);
    return flow;
}

mst_flow *mst_flow_add_token(mst_schedule *schedule, bool sends, int32_t member, mst_kind kind) {
    mst_flow *flow = flow_new(schedule, sends, member, kind, 1);
    flow->at = schedule->scratch;
    flow->chunk = 1;
    flow->chunks = 1;
    flow->answered = true;
    return flow;
}

mst_flow *mst_flow_add_ring(mst_schedule *schedule, bool sends, int32_t member, void *at, int32_t block, int64_t chunk, int32_t window) {
    mst_flow *flow = flow_new(schedule, sends, member, MST_KIND_DATA, window);
    const int32_t size = schedule->channel->size;
    flow->at = at;
    flow->chunk = chunk;
    flow->block = block;
    flow->blocks = size - 1;
    for (int32_t i = 0; i < flow->blocks; i++) {
        const int32_t part = (block - i + size) % size;
        flow->chunks += mst_flow_chunks(schedule->offsets[part + 1] - schedule->offsets[part], chunk);
    }
    return flow;
}

/* The address and the bytes of the next chunk to begin. */
static char *flow_next(const mst_schedule *schedule, mst_flow *flow, int64_t *bytes) {
    if (!flow->blocks) {
        *bytes = mst_flow_chunk_bytes(flow->bytes, flow->chunk, flow->begun);
        return flow->at + (flow->slots ? flow->begun % flow->slots : flow->begun) * flow->chunk;
    }
    const int32_t size = schedule->channel->size;
    const int64_t *offsets = schedule->offsets;
    while (flow->block_done == offsets[flow->block + 1] - offsets[flow->block]) {
        flow->block = (flow->block - 1 + size) % size;
        flow->block_done = 0;
    }
    const int64_t rest = offsets[flow->block + 1] - offsets[flow->block] - flow->block_done;
    char *at = flow->at + offsets[flow->block] + flow->block_done;
    *bytes = rest < flow->chunk ? rest : flow->chunk;
    flow->block_done += *bytes;
    return at;
}

static int32_t flow_begin_chunk(mst_schedule *schedule, mst_flow *flow) {
    const mst_channel *channel = schedule->channel;
    mst_wire *wire = channel->wire;
    int64_t bytes;
    char *at = flow_next(schedule, flow, &bytes);
    muster_wire_request *request = &schedule->requests[flow->first_request + flow->begun % flow->window];
    const int32_t process = mst_channel_process(channel, flow->member), tag = mst_channel_tag(channel, flow->kind);
    flow->begun++;
    int32_t result;
    if (flow->sends) {
        /* The last one to each member has left the queues of this process before the move is done:
         * what MPI still has in them does not travel while the program computes. */
        result = mst_wire_send(wire, at, bytes, process, tag, !flow->answered && flow->begun == flow->chunks, request);
        schedule->sent_messages++;
        schedule->sent_bytes += bytes;
    } else {
        result = wire->table->receive(wire->state, at, bytes, process, tag, request);
    }
    if (*request) schedule->busy++;
    schedule->machine.moved = true;
    return result;
}

static void flow_look(mst_schedule *schedule, mst_flow *flow) {
    while (flow->done < flow->begun && !schedule->requests[flow->first_request + flow->done % flow->window]) flow->done++;
}

static bool flow_may_begin(const mst_flow *flow) {
    return flow->begun < flow->allowed && flow->begun < flow->chunks && flow->begun - flow->done < flow->window;
}

static int32_t flows_test(mst_schedule *schedule) {
    if (!schedule->busy) return MUSTER_WIRE_OK;
    const mst_wire *wire = schedule->channel->wire;
    const int32_t first = schedule->request_next, rest = schedule->request_count - first;
    const int32_t count = rest < FLOW_TESTED ? rest : FLOW_TESTED;
    int32_t done = 0;
    const int32_t result = wire->table->test_some(wire->state, count, schedule->requests + first, &done, schedule->done, NULL);
    schedule->busy -= done;
    if (done) schedule->machine.moved = true;
    schedule->request_next = first + count == schedule->request_count ? 0 : first + count;
    return result;
}

/* One chunk of each flow that may go on, so that no member waits for several chunks of another
 * one. */
static int32_t flows_begin(mst_schedule *schedule, int32_t *begun) {
    int32_t result = MUSTER_WIRE_OK;
    for (int32_t i = 0; result == MUSTER_WIRE_OK && i < schedule->flow_count && *begun < FLOW_BEGUN; i++) {
        mst_flow *flow = &schedule->flows[i];
        flow_look(schedule, flow);
        if (!flow_may_begin(flow)) continue;
        result = flow_begin_chunk(schedule, flow);
        flow_look(schedule, flow);
        ++*begun;
    }
    return result;
}

int32_t mst_flows_progress(mst_schedule *schedule) {
    int32_t result = flows_test(schedule), begun = 0;
    for (int32_t before = -1; result == MUSTER_WIRE_OK && begun > before && begun < FLOW_BEGUN;) {
        before = begun;
        result = flows_begin(schedule, &begun);
    }
    return result;
}

bool mst_flows_ended(const mst_schedule *schedule) {
    for (int32_t i = 0; i < schedule->flow_count; i++)
        if (!mst_flow_ended(&schedule->flows[i])) return false;
    return true;
}

int32_t mst_flows_wait_for(const mst_schedule *schedule) {
    int32_t sent_to = -1;
    for (int32_t i = 0; i < schedule->flow_count; i++) {
        const mst_flow *flow = &schedule->flows[i];
        if (flow->done == flow->begun) continue;
        if (!flow->sends) return flow->member;
        if (sent_to < 0) sent_to = flow->member;
    }
    return sent_to;
}
