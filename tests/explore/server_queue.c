/* Clients of a parameter server at one shard: operations that find it taken are queued, and a
 * thread that waits applies them when nobody else does. A client that gives up, at its deadline or
 * because its call was aborted, takes its operation back or waits until it has been applied. One
 * whose call is ended leaves it to go on from a copy. */
#include "explorer.h"
#include "pool_state_private.h"
#include "server_private.h"

enum { MOST = 3 };

typedef struct queue_plan {
    int32_t clients;
    bool cancels;   /* client 1 takes its operation back, if it still can */
    bool times_out; /* client 1 is that of a worker in a call with a deadline */
    bool aborts;    /* that call is aborted */
    bool ends;      /* that call is ended: its operation goes on without it */
} queue_plan;

/* Memory of the scenario. */
static struct queue_memory {
    mst_shard shard;
    mst_value values;
    muster_server server;
    muster_client clients[MOST];
    int64_t value; /* plain memory, which the combiner writes */
    int64_t tensors[MOST];
    int64_t copies[MOST];        /* of the tensors, for operations that go on */
    int32_t applied[MOST];       /* how often */
    bool taken_back[MOST];       /* by mst_shard_cancel alone */
    bool gave_up[MOST];          /* at the deadline, in the end of the run */
    muster_status outcome[MOST]; /* of the wait */
} * m;
static muster_request *requests[MOST];
static const queue_plan *plan;
static mst_pool *pool;
static char server_name[] = "server";
static muster_runtime runtime; /* set by prepare, and constant after it */

static muster_status add_one(mst_shard *shard, const mst_operation *operation) {
    (void)shard;
    explore_read(operation->memory);
    explore_write(&m->value, explore_read(&m->value) + 1);
    const int64_t at = (const int64_t *)(const void *)operation->memory - m->tensors;
    m->applied[at % MOST]++; /* the copies lie behind the tensors */
    return MUSTER_OK;
}
static const mst_shard_table table = {.apply = add_one, .fetch = add_one};
static const mst_rule rule;

void mst_request_add_done(muster_request *request, uint64_t shards) {
    atomic_fetch_add(&request->done, shards);
    mst_eventcount_notify(&m->server.eventcount);
}

void mst_request_fail(muster_request *request, muster_status status) {
    if (atomic_exchange(&request->failing, true)) return;
    mst_error_save(request->message);
    atomic_store(&request->status, status);
}

muster_status mst_request_reserve_copy(muster_request *request, const char *where, int64_t bytes) {
    (void)where, (void)bytes;
    const int64_t number = request->client - m->clients;
    explore_write(&m->copies[number], explore_read(&m->tensors[number]));
    request->copy = (char *)&m->copies[number];
    return MUSTER_OK;
}

/* The tensor is the client's again. */
static void end(int32_t number, muster_status outcome) {
    m->outcome[number] = outcome;
    explore_write(&m->tensors[number], -1);
}

static void *client_main(void *argument) {
    const int32_t number = (int32_t)(intptr_t)argument;
    muster_request *request = requests[number];
    muster_status status;
    if (mst_shard_try(&m->shard)) {
        status = mst_shard_serve(&m->shard, &request->operation);
        mst_shard_leave(&m->server, &m->shard);
        end(number, status);
        return NULL;
    }
    mst_shard_queue(&m->shard, &request->nodes[0]);
    if (plan->cancels && number == 1 && mst_shard_cancel(&m->shard, &request->nodes[0])) {
        m->taken_back[number] = true;
        return NULL;
    }
    mst_shard_combine(&m->server, &m->shard, &request->nodes[0]);
    while (!mst_request_finish(request, "test", true, &status)) {}
    end(number, status);
    if (!request->left) return NULL;
    request->left = false; /* the end of the run */
    request->drains = true;
    while (!mst_request_finish(request, "test", true, &status)) {}
    m->gave_up[number] = status == MUSTER_TIMEOUT;
    return NULL;
}

/* Another rank of the call in which client 1 waits. */
static void *aborter_main(void *argument) {
    (void)argument;
    mst_pool_abort(&pool->states[0].worker, MUSTER_USER);
    return NULL;
}

/* Another thread of the program. */
static void *ender_main(void *argument) {
    (void)argument;
    mst_pool_cancel(pool);
    return NULL;
}

static void make_pool(void) {
    static const mst_device_table host = {.backend = "host", .flags = MST_DEVICE_HOST_MEMORY};
    mst_device *device = explore_alloc(sizeof *device);
    const mst_pool_options options = {.spin_ns = 0, .warn_after_ns = -1, .fail_after_ns = -1};
    *device = (mst_device){.table = &host, .name = "host", .cpu = -1};
    EXPLORE_CHECK(mst_pool_create(&options, &device, 1, &pool) == MUSTER_OK, "no pool");
    pool->states[0].worker.epoch = 1; /* its first run */
    if (plan->times_out) mst_pool_set_deadlines(pool, -1, 1);
    if (plan->ends) atomic_store(&pool->tickets.state, MST_TICKET_LOCK_HELD);
    if (!plan->aborts && !plan->times_out && !plan->ends) explore_constant(&pool->failure, sizeof pool->failure);
    explore_name(&pool->failure, sizeof pool->failure, "failure");
    explore_ignore(&pool->states[0].worker.recorder, sizeof pool->states[0].worker.recorder);
    explore_ignore(pool->states[0].message, sizeof pool->states[0].message);
    runtime.pool = pool;
}

static void make_server(void) {
    m->shard.table = &table;
    m->values.shards = &m->shard;
    m->server.runtime = &runtime;
    m->server.name = server_name;
    m->server.shards = m->server.count = 1;
    m->server.values = &m->values;
    m->server.cpus = MOST;
    explore_constant(&m->server.life, sizeof m->server.life);
    explore_constant(&m->server.client_count, sizeof m->server.client_count);
    explore_lock_word(&m->shard.state);
    explore_name(&m->shard.state, sizeof(m->shard.state), "state");
    explore_name(&m->shard.served, sizeof(m->shard.served), "served");
    explore_name(&m->shard.lock, sizeof(m->shard.lock), "mutex");
    explore_name(&m->server.eventcount.sleepers, 4, "sleepers");
    explore_name(&m->server.eventcount.generation, 4, "generation");
    explore_name(&m->value, sizeof(m->value), "value");
    explore_counter(&m->server.eventcount.generation, &m->server.eventcount.sleepers);
    explore_ignore(m->server.rules, sizeof(m->server.rules));
}

static void make_request(int32_t i) {
    muster_request *request = explore_alloc(sizeof(muster_request) + sizeof(mst_node));
    m->clients[i].server = &m->server;
    if (i == 1 && (plan->times_out || plan->aborts || plan->ends)) m->clients[i].worker = &pool->states[0].worker;
    request->client = &m->clients[i];
    request->operation = (mst_operation){.value = &m->values, .rule = plan->ends ? &rule : NULL, .memory = (char *)&m->tensors[i]};
    request->nodes[0].request = request;
    request->target = MST_REQUEST_UNWATCHED + 1;
    atomic_store(&request->done, MST_REQUEST_UNWATCHED);
    explore_name(&request->done, 8, "done of client %d", (int)i);
    explore_name(&request->status, 4, "status of client %d", (int)i);
    explore_name(&request->failing, 1, "failing of client %d", (int)i);
    explore_name(&request->nodes[0].queued, 1, "queued of client %d", (int)i);
    explore_name(&request->nodes[0].serving, 8, "serving of client %d", (int)i);
    explore_name(&request->leaving, 1, "leaving of client %d", (int)i);
    explore_name(&m->tensors[i], 8, "tensor of client %d", (int)i);
    explore_name(request->message, sizeof request->message, "message of client %d", (int)i);
    explore_ignore(request->message, sizeof(request->message));
    requests[i] = request;
}

static void prepare(const void *context) {
    static const char *const names[MOST] = {"client 0", "client 1", "client 2"};
    plan = context;
    m = explore_alloc(sizeof(*m));
    make_pool();
    make_server();
    for (int32_t i = 0; i < plan->clients; i++) make_request(i);
    for (int32_t i = 0; i < plan->clients; i++) explore_thread(names[i], client_main, (void *)(intptr_t)i);
    if (plan->aborts) explore_thread("rank 1", aborter_main, NULL);
    if (plan->ends) explore_thread("ender", ender_main, NULL);
}

static bool may_end_so(int32_t client, muster_status outcome) {
    if (outcome == MUSTER_OK) return true;
    if (client == 1 && plan->ends && outcome == MUSTER_CANCELLED) return true;
    return client == 1 && ((plan->aborts && outcome == MUSTER_ABORTED) || (plan->times_out && outcome == MUSTER_TIMEOUT));
}

static void finish(const void *context) {
    (void)context;
    int64_t sum = 0;
    for (int32_t i = 0; i < plan->clients; i++) {
        const bool good = (m->outcome[i] == MUSTER_OK || m->outcome[i] == MUSTER_CANCELLED) && !m->taken_back[i] && !m->gave_up[i];
        EXPLORE_CHECK(may_end_so(i, m->outcome[i]), "the wait of client %d ended with %d", (int)i, (int)m->outcome[i]);
        EXPLORE_CHECK(m->applied[i] == 1 || (!good && m->applied[i] == 0), "the operation of client %d was applied %d times", (int)i,
                      (int)m->applied[i]);
        EXPLORE_CHECK(!m->taken_back[i] || m->applied[i] == 0, "the operation of client %d was taken back and applied", (int)i);
        sum += m->applied[i];
    }
    EXPLORE_CHECK(m->value == sum, "%lld operations were applied instead of %lld", (long long)m->value, (long long)sum);
    EXPLORE_CHECK(!m->shard.first_node && !m->shard.last_node, "an operation is left in the queue");
    EXPLORE_CHECK(atomic_load(&m->shard.state) == 0, "the shard is not free");
}

static const queue_plan two = {.clients = 2}, three = {.clients = 3}, two_cancel = {.clients = 2, .cancels = true},
                        three_cancel = {.clients = 3, .cancels = true}, two_time_out = {.clients = 2, .times_out = true},
                        three_time_out = {.clients = 3, .times_out = true}, two_abort = {.clients = 2, .times_out = true, .aborts = true},
                        three_end = {.clients = 3, .times_out = true, .ends = true};

#define QUEUE_SCENARIO(text, data, bound) \
    { .name = text, .prepare = prepare, .finish = finish, .context = &(data), .preemptions = bound }

const explore_scenario explore_server_queue_scenarios[] = {
    QUEUE_SCENARIO("server_queue/2_clients", two, 0),
    QUEUE_SCENARIO("server_queue/2_clients_of_which_1_cancels", two_cancel, 0),
    QUEUE_SCENARIO("server_queue/2_clients_of_which_1_times_out", two_time_out, 0),
    QUEUE_SCENARIO("server_queue/2_clients_of_which_1_is_aborted", two_abort, 0),
    QUEUE_SCENARIO("server_queue/3_clients_of_which_1_is_ended", three_end, 2),
    QUEUE_SCENARIO("server_queue/3_clients", three, 4),
    QUEUE_SCENARIO("server_queue/3_clients_of_which_1_cancels", three_cancel, 4),
    QUEUE_SCENARIO("server_queue/3_clients_of_which_1_times_out", three_time_out, 3),
    {0},
};

/* ---- what shard.c and wait.c ask of other files, and these scenarios never do ---- */

void mst_stage_advance(muster_client *client, muster_request *request) { (void)client, (void)request; }
void mst_stage_cancel(muster_request *request) { (void)request; }
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
