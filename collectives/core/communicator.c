/* The life of a communicator. */
#include "nodes/nodes_impl.h"
#include "rendezvous_private.h"

#include <stdio.h>
#include <stdlib.h>

/* Creating NCCL's communicators has taken a minute on machines with 8 GPUs. */
static const int64_t NCCL_CREATE_NS = 300 * 1000000000ll;

static const char opening[] = "muster_runtime_open: communicator";

/* ---- one communicator ---- */

static muster_status make_members(const char *where, muster_communicator *made, const int32_t *ranks) {
    const size_t size = (size_t)made->size;
    made->members = mst_alloc(size * sizeof *made->members);
    if (!made->members) return mst_out_of_memory(where, (int64_t)(size * sizeof *made->members));
    for (size_t r = 0; r < size; r++) {
        made->members[r].rank = ranks[r];
        made->members[r].requests = mst_alloc(size * sizeof(mst_request *));
        made->members[r].post_tags = mst_alloc(size * sizeof(uint64_t));
        if (!made->members[r].requests || !made->members[r].post_tags) return mst_out_of_memory(where, (int64_t)size * 16);
    }
    return MUSTER_OK;
}

static muster_status make_team(const char *where, muster_communicator *made, const int32_t *ranks) {
    muster_status status = mst_team_create(made->pool, ranks, made->size, &made->team);
    if (status == MUSTER_OK) return MUSTER_OK;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    return mst_error(status, "%s: %.400s", where, message);
}

static muster_status make_parts(const char *where, muster_communicator *made, const int32_t *ranks) {
    const int32_t pool_size = mst_pool_size(made->pool);
    made->rank_of = mst_alloc((size_t)pool_size * sizeof(int32_t));
    if (!made->rank_of) return mst_out_of_memory(where, (int64_t)pool_size * 4);
    for (int32_t r = 0; r < pool_size; r++) made->rank_of[r] = -1;
    for (int32_t r = 0; r < made->size; r++) made->rank_of[ranks[r]] = r;
    MUSTER_TRY(make_members(where, made, ranks));
    return make_team(where, made, ranks);
}

muster_status mst_communicator_make(const char *where, mst_pool *pool, const int32_t *ranks, int32_t size, muster_communicator *parent,
                                    mst_forced forced, mst_rank_span *span, muster_communicator **communicator) {
    muster_communicator *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(where, sizeof *made);
    made->size = size;
    made->pool = pool;
    made->forced = forced;
    made->span = span;
    made->world = parent ? parent->world : made;
    atomic_init(&made->users, size);
    pthread_mutex_init(&made->lock, NULL);
    muster_status status = make_parts(where, made, ranks);
    if (status == MUSTER_OK && parent) status = mst_transport_create_all(where, made, parent);
    if (status != MUSTER_OK) {
        made->span = NULL;
        mst_communicator_free(made);
        return status;
    }
    if (span) {
        mst_team_name_members(made->team, span->ranks);
        mst_team_name_members(span->local->team, span->ranks);
    }
    *communicator = made;
    return MUSTER_OK;
}

static void free_member(mst_member *member) {
    mst_free(member->group.requests);
    mst_free(member->messages);
    mst_free(member->post_tags);
    mst_free(member->requests);
}

void mst_communicator_free(muster_communicator *communicator) {
    if (!communicator) return;
    while (communicator->parts) {
        muster_communicator *part = communicator->parts;
        communicator->parts = part->next;
        mst_communicator_free(part);
    }
    mst_transport_destroy_all(communicator);
    if (communicator->span && communicator->span->local != communicator->world) mst_communicator_free(communicator->span->local);
    mst_rank_span_free(communicator->span);
    mst_free(communicator->workers);
    for (int32_t r = 0; communicator->members && r < communicator->size; r++) free_member(&communicator->members[r]);
    mst_team_destroy(communicator->team);
    mst_free(communicator->members);
    mst_free(communicator->rank_of);
    pthread_mutex_destroy(&communicator->lock);
    mst_free(communicator);
}

/* ---- that of all workers ---- */

static muster_status make_world(mst_pool *pool, mst_forced forced, muster_communicator **world) {
    const int32_t size = mst_pool_size(pool);
    int32_t *ranks = mst_alloc((size_t)size * sizeof *ranks);
    if (!ranks) return mst_out_of_memory(opening, (int64_t)size * 4);
    for (int32_t r = 0; r < size; r++) ranks[r] = r;
    muster_status status = mst_communicator_make(opening, pool, ranks, size, NULL, forced, NULL, world);
    mst_free(ranks);
    return status;
}

static muster_status make_alone(muster_communicator *world) {
    const int32_t zero = 0;
    world->alone = world;
    if (world->size == 1) return MUSTER_OK;
    muster_communicator *alone;
    MUSTER_TRY(mst_communicator_make(opening, world->pool, &zero, 1, world, world->forced, NULL, &alone));
    alone->alone = alone;
    world->alone = alone;
    return MUSTER_OK;
}

/* The communicator of the workers of all processes. */
static muster_status make_global(muster_communicator *world, mst_nodes *nodes, mst_forced forced) {
    const int32_t total = mst_nodes_total(nodes);
    mst_rank_span *span = NULL;
    int32_t *ranks = mst_alloc((size_t)total * sizeof *ranks);
    if (!ranks) return mst_out_of_memory(opening, (int64_t)total * 4);
    for (int32_t r = 0; r < total; r++) ranks[r] = r;
    muster_status status = mst_rank_span_make(opening, nodes, MST_SPAN_WORLD_LANE, ranks, total, &span);
    if (status == MUSTER_OK) {
        span->local = world;
        status = mst_communicator_make(opening, world->pool, ranks, world->size, world, forced, span, &world->global);
    }
    if (status != MUSTER_OK) mst_rank_span_free(span);
    mst_free(ranks);
    return status;
}

static muster_status set_slots(muster_communicator *world) {
    const size_t bytes = (size_t)world->size * sizeof *world->workers;
    world->global = world;
    world->workers = mst_alloc(bytes);
    if (!world->workers) return mst_out_of_memory(opening, (int64_t)bytes);
    for (int32_t r = 0; r < world->size; r++) {
        world->workers[r].world = world;
        mst_pool_worker(world->pool, r)->slots[MST_SLOT_COLLECTIVES] = &world->workers[r];
    }
    return MUSTER_OK;
}

static muster_status open_world(muster_communicator *world, mst_nodes *nodes, mst_forced between) {
    MUSTER_TRY(mst_thresholds_find(mst_member_device(world, 0), &world->thresholds));
    MUSTER_TRY(set_slots(world));
    MUSTER_TRY(mst_transport_open_all(world));
    MUSTER_TRY(mst_transport_create_all(opening, world, NULL));
    MUSTER_TRY(mst_transport_check_forced(world));
    MUSTER_TRY(make_alone(world));
    return nodes ? make_global(world, nodes, between) : MUSTER_OK;
}

static void close_world(muster_communicator *world) {
    for (int32_t r = 0; r < world->size; r++) mst_pool_worker(world->pool, r)->slots[MST_SLOT_COLLECTIVES] = NULL;
    mst_transport_close_all(world);
    if (world->global != world) mst_communicator_free(world->global);
    if (world->alone != world) mst_communicator_free(world->alone);
    mst_communicator_free(world);
}

muster_status mst_communicator_create(mst_pool *pool, const mst_communicator_options *options, muster_communicator **communicator) {
    mst_forced forced, between = {.transport = NULL};
    muster_communicator *world;
    mst_nodes *nodes = options ? options->nodes : NULL;
    MUSTER_TRY(mst_transport_find(options && options->algorithm ? options->algorithm : getenv("MUSTER_COLLECTIVE_ALGORITHM"), &forced));
    if (forced.transport && forced.transport->spans) {
        between = forced;
        MUSTER_TRY(between.transport->inside(between, nodes, &forced));
    }
    MUSTER_TRY(make_world(pool, forced, &world));
    world->fixed_order = options && options->fixed_order;
    world->checks = options && options->checks;
    world->wire_dtype = options ? options->wire_dtype : MUSTER_DTYPE_NONE;
    world->stream_bytes = options ? options->stream_bytes : 0;
    world->nccl_create_ns = options && options->nccl_create_ns ? options->nccl_create_ns : NCCL_CREATE_NS;
    muster_status status = open_world(world, nodes, between);
    if (status != MUSTER_OK) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        close_world(world);
        return mst_error_restore(status, message);
    }
    *communicator = world;
    return MUSTER_OK;
}

void mst_communicator_destroy(muster_communicator *communicator) {
    if (!communicator) return;
    close_world(communicator);
}

void mst_communicator_ready(muster_communicator *communicator) {
    for (int32_t t = 0; __builtin_expect(communicator->recovers, 0) && t < MST_TRANSPORT_COUNT; t++) {
        const mst_transport *transport = mst_transport_at(t);
        if (transport->recover && communicator->open[t]) transport->recover(communicator);
    }
}

/* ---- what its members do ---- */

muster_communicator *mst_worker_communicator(const muster_worker *worker) {
    muster_communicator *world = mst_collectives_of(worker)->world;
    if (__builtin_expect(world->global != world, 0)) return mst_worker_is_single(worker) ? world->alone : world->global;
    return worker->size == 1 ? world->alone : world;
}

muster_communicator *mst_worker_neighbours(const muster_worker *worker) {
    muster_communicator *world = mst_collectives_of(worker)->world;
    return worker->size == 1 ? world->alone : world;
}

muster_status mst_communicator_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count) {
    if (worker->device->work_queue == MST_QUEUE_COMPUTE) MUSTER_TRY(mst_device_exchange_end(worker->device));
    if (communicator->size == 1 && !communicator->span) return mst_single_run(communicator, worker, requests, count);
    if (__builtin_expect(count == 1 && !mst_request_is_message(requests), 1))
        return mst_rendezvous_run(communicator, worker, requests, NULL, 1);
    return mst_batch_run(communicator, worker, requests, count);
}

static muster_status reserve_in(muster_communicator *communicator, muster_worker *worker, int64_t bytes) {
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++) {
        const mst_transport *transport = mst_transport_at(t);
        if (transport->reserve && communicator->state[t]) MUSTER_TRY(transport->reserve(communicator, worker, bytes));
    }
    return MUSTER_OK;
}

muster_status mst_worker_reserve(muster_worker *worker, int64_t bytes) {
    return mst_worker_reserves(worker) ? reserve_in(mst_worker_neighbours(worker), worker, bytes) : MUSTER_OK;
}

muster_status mst_worker_reserve_of_all(muster_worker *worker, int64_t bytes) {
    muster_communicator *communicator = mst_worker_communicator(worker);
    return communicator->span ? reserve_in(communicator, worker, bytes) : mst_worker_reserve(worker, bytes);
}

muster_status mst_worker_reserve_apply(muster_worker *worker, const mst_apply_layout *layout, int64_t length) {
    muster_communicator *communicator = mst_worker_communicator(worker);
    const mst_apply_offer offer = {.phase = MST_APPLY_WHOLE, .bucket = MST_APPLY_ALL_BUCKETS, .layout = *layout, .length = length};
    const mst_request request = {.collective = MST_ALL_REDUCE_APPLY,
                                 .dtype = (uint8_t)layout->dtype,
                                 .root = -1,
                                 .shards = 1,
                                 .apply = &offer,
                                 .input = length > 0 ? &request : NULL,
                                 .input_count = length,
                                 .output_count = layout->count};
    if (!communicator->span && !mst_worker_reserves(worker)) return MUSTER_OK;
    for (int32_t i = 0; i < communicator->shared_count; i++) /* all of them prepare, whichever serves */
        if (communicator->shared[i]->reserve_apply) MUSTER_TRY(communicator->shared[i]->reserve_apply(communicator, worker, &request));
    if (mst_transport_winner(communicator, &request, NULL)) return MUSTER_OK;
    const mst_transport *exclusive = communicator->exclusive[MST_ALL_REDUCE_APPLY];
    return exclusive && exclusive->reserve_apply ? exclusive->reserve_apply(communicator, worker, &request) : MUSTER_OK;
}

/* ---- its description ---- */

static void add_words(const muster_communicator *communicator, const mst_transport *transport, char *text, size_t size) {
    char words[MST_MESSAGE_SIZE] = "";
    const size_t at = strlen(text);
    transport->describe(communicator, words, sizeof words);
    if (*words) snprintf(text + at, size - at, "%s%.800s", at > 0 ? "; " : "", words);
}

static void describe_inside(const muster_communicator *communicator, char *text, size_t size) {
    const mst_transport *exclusive = communicator->exclusive[MST_ALL_REDUCE];
    for (int32_t i = 0; i < communicator->shared_count; i++) add_words(communicator, communicator->shared[i], text, size);
    if (!*text && exclusive) add_words(communicator, exclusive, text, size);
    if (communicator->forced.name) {
        const size_t at = strlen(text);
        snprintf(text + at, size - at, ", as asked for (%s)", communicator->forced.name);
        return;
    }
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT; t++)
        if (!communicator->state[t]) add_words(communicator, mst_transport_at(t), text, size);
}

const char *mst_communicator_description(const muster_communicator *communicator, char *text, size_t size) {
    *text = '\0';
    describe_inside(communicator, text, size);
    for (int32_t t = 0; t < MST_TRANSPORT_COUNT && communicator->global; t++)
        if (mst_transport_at(t)->spans && communicator->global->span) add_words(communicator->global, mst_transport_at(t), text, size);
    return text;
}
