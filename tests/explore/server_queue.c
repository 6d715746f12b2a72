/* Clients of a parameter server at one shard: operations that find it taken are queued, and a
 * thread that waits applies them when nobody else does. The waits are those of lib/server/wait.c,
 * without its deadlines. */
#include "explorer.h"
#include "server_private.h"

enum { MOST = 3 };

typedef struct queue_plan {
    int32_t clients;
    bool cancels; /* client 1 takes its operation back, if it still can */
} queue_plan;

/* Memory of the scenario. */
static struct queue_memory {
    mst_shard shard;
    muster_server server;
    muster_client client;
    int64_t value;      /* plain memory, which the combiner writes */
    bool applied[MOST]; /* of clients that have not taken theirs back */
} * m;
static muster_request *requests[MOST];
static const queue_plan *plan;

static muster_status add_one(mst_shard *shard, const mst_operation *operation) {
    (void)shard, (void)operation;
    explore_write(&m->value, explore_read(&m->value) + 1);
    return MUSTER_OK;
}
static const mst_shard_table table = {.fetch = add_one};

void mst_request_add_done(muster_request *request, uint64_t shards) {
    atomic_fetch_add(&request->done, shards);
    mst_eventcount_notify(&m->server.eventcount);
}

static bool needs_combiner(void *context) {
    muster_request *request = context;
    return atomic_load(&request->nodes[0].queued) && mst_shard_needs_combiner(&m->shard);
}

static void wait_until_done(muster_request *request) {
    const mst_wait wait = {.timeout_ns = -1, .stop = needs_combiner, .context = request};
    for (;;) {
        if (needs_combiner(request)) mst_shard_combine(&m->server, &m->shard, &request->nodes[0]);
        if (atomic_load(&request->done) >= 1) return;
        mst_eventcount_wait(&m->server.eventcount, &request->done, 1, &wait);
    }
}

static void *client_main(void *argument) {
    const int32_t number = (int32_t)(intptr_t)argument;
    muster_request *request = requests[number];
    m->applied[number] = true;
    if (mst_shard_try(&m->shard)) {
        EXPLORE_CHECK(mst_shard_serve(&m->shard, &request->operation) == MUSTER_OK, "not served");
        mst_shard_leave(&m->server, &m->shard);
        return NULL;
    }
    mst_shard_queue(&m->shard, &request->nodes[0]);
    if (plan->cancels && number == 1 && mst_shard_cancel(&m->shard, &request->nodes[0])) {
        m->applied[number] = false;
        return NULL;
    }
    mst_shard_combine(&m->server, &m->shard, &request->nodes[0]);
    wait_until_done(request);
    return NULL;
}

static void prepare(const void *context) {
    static const char *const names[MOST] = {"client 0", "client 1", "client 2"};
    plan = context;
    m = explore_alloc(sizeof(*m));
    m->shard.table = &table;
    m->client.server = &m->server;
    explore_lock_word(&m->shard.state);
    explore_name(&m->shard.state, sizeof(m->shard.state), "state");
    explore_name(&m->shard.served, sizeof(m->shard.served), "served");
    explore_name(&m->shard.lock, sizeof(m->shard.lock), "mutex");
    explore_name(&m->server.eventcount.sleepers, 4, "sleepers");
    explore_name(&m->server.eventcount.generation, 4, "generation");
    explore_name(&m->value, sizeof(m->value), "value");
    explore_counter(&m->server.eventcount.generation, &m->server.eventcount.sleepers);
    for (int32_t i = 0; i < plan->clients; i++) {
        requests[i] = explore_alloc(sizeof(muster_request) + sizeof(mst_node));
        requests[i]->client = &m->client;
        requests[i]->nodes[0].request = requests[i];
        explore_name(&requests[i]->done, 8, "done of client %d", (int)i);
        explore_name(&requests[i]->nodes[0].queued, 1, "queued of client %d", (int)i);
        explore_ignore(requests[i]->message, sizeof(requests[i]->message));
    }
    explore_ignore(m->server.rules, sizeof(m->server.rules));
    for (int32_t i = 0; i < plan->clients; i++) explore_thread(names[i], client_main, (void *)(intptr_t)i);
}

static void finish(const void *context) {
    (void)context;
    int64_t expected = 0;
    for (int32_t i = 0; i < plan->clients; i++) expected += m->applied[i];
    EXPLORE_CHECK(m->value == expected, "%lld operations were applied instead of %lld", (long long)m->value, (long long)expected);
    EXPLORE_CHECK(!m->shard.first_node && !m->shard.last_node, "an operation is left in the queue");
    EXPLORE_CHECK(atomic_load(&m->shard.state) == 0, "the shard is not free");
}

static const queue_plan two = {.clients = 2}, three = {.clients = 3}, two_cancel = {.clients = 2, .cancels = true},
                        three_cancel = {.clients = 3, .cancels = true};

#define QUEUE_SCENARIO(text, data, bound) \
    { .name = text, .prepare = prepare, .finish = finish, .context = &(data), .preemptions = bound }

const explore_scenario explore_server_queue_scenarios[] = {
    QUEUE_SCENARIO("server_queue/2_clients", two, 0),
    QUEUE_SCENARIO("server_queue/2_clients_of_which_1_cancels", two_cancel, 0),
    QUEUE_SCENARIO("server_queue/3_clients", three, 4),
    QUEUE_SCENARIO("server_queue/3_clients_of_which_1_cancels", three_cancel, 4),
    {0},
};

/* ---- what shard.c asks of other files, and these scenarios never do ---- */

void mst_request_fail(muster_request *request, muster_status status) { (void)request, (void)status; }
muster_status mst_rule_apply(const mst_rule *rule, mst_shard *shard, const void *tensor, double scale) {
    (void)rule, (void)shard, (void)tensor, (void)scale;
    return MUSTER_INTERNAL;
}
void mst_convert(muster_dtype to_dtype, void *to, muster_dtype from_dtype, const void *from, int64_t count) {
    (void)to_dtype, (void)to, (void)from_dtype, (void)from, (void)count;
}
int64_t muster_dtype_size(muster_dtype dtype) { return dtype == MUSTER_DTYPE_NONE ? 0 : 4; }
void *mst_alloc_uninitialised(size_t bytes) { return explore_alloc(bytes); }
muster_dtype mst_dtype_compute(muster_dtype dtype) { return dtype; }
