/* Muster for muster-bench-nodes: collectives and messages inside a body, empty calls outside. */
#include "nodes_play.h"

#include "clock.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nodes_muster {
    muster_runtime *runtime;
    muster_function *function, *empty;
    nodes_program *program; /* of the block that runs */
    nodes_request request;
    nodes_rendezvous rendezvous;
};

/* One rank's side of a block. */
typedef struct side {
    muster_worker *worker;
    muster_tensor input, output, first, second;
} side;

static muster_status stream(const side *mine, const collective_job *job) {
    muster_worker *w = mine->worker;
    const int32_t rank = muster_worker_rank(w), other = 1 - rank;
    const bool both = job->op == NODES_BOTH_WAYS;
    if (rank > 1) return MUSTER_OK;
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int32_t i = nodes_window(collective_job_bytes(job)); i > 0; i--) {
        if (both || rank == 0) MUSTER_TRY(muster_worker_send(w, NULL, other, 0, mine->first));
        if (both || rank == 1) MUSTER_TRY(muster_worker_recv(w, NULL, other, 0, mine->second));
    }
    return muster_worker_group_end(w, NULL);
}

static muster_status latency(const side *mine) {
    muster_worker *w = mine->worker;
    const int32_t rank = muster_worker_rank(w), other = 1 - rank;
    if (rank > 1) return MUSTER_OK;
    if (rank == 0) MUSTER_TRY(muster_worker_send(w, NULL, other, 0, mine->first));
    MUSTER_TRY(muster_worker_recv(w, NULL, other, 0, mine->second));
    return rank == 1 ? muster_worker_send(w, NULL, other, 0, mine->second) : MUSTER_OK;
}

static muster_status enter(const side *mine, const collective_job *job) {
    muster_worker *w = mine->worker;
    const muster_tensor in = mine->input, out = mine->output;
    switch (job->op) {
    case COLLECTIVE_ALL_REDUCE:
        return muster_worker_all_reduce(w, NULL, MUSTER_SUM, in, out);
    case COLLECTIVE_BROADCAST:
        return muster_worker_broadcast(w, NULL, job->root, in, out);
    case COLLECTIVE_ALL_GATHER:
        return muster_worker_all_gather(w, NULL, in, out);
    case COLLECTIVE_REDUCE_SCATTER:
        return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, in, out);
    case COLLECTIVE_REDUCE:
        return muster_worker_reduce(w, NULL, MUSTER_SUM, job->root, in, out);
    case COLLECTIVE_ALL_TO_ALL:
        return muster_worker_all_to_all(w, NULL, in, out);
    case COLLECTIVE_GATHER:
        return muster_worker_gather(w, NULL, job->root, in, out);
    case COLLECTIVE_SCATTER:
        return muster_worker_scatter(w, NULL, job->root, in, out);
    case NODES_LATENCY:
        return latency(mine);
    case NODES_BARRIER:
        return muster_worker_barrier(w, NULL);
    default:
        return stream(mine, job);
    }
}

static bool operate(nodes_player *player) {
    side *mine = player->self;
    if (enter(mine, &player->job) == MUSTER_OK) return true;
    fprintf(stderr, "muster-bench-nodes: %s\n", muster_last_error());
    return false;
}

/* `count` elements at `address`, which lies in one of two blocks of `most`. */
static muster_tensor part_of(const muster_tensor blocks[2], int64_t most, float *address, int64_t count) {
    if (!address) return muster_tensor_none();
    const uintptr_t at = (uintptr_t)address, begin = (uintptr_t)muster_tensor_address(blocks[0]);
    muster_tensor part = at >= begin && at < begin + (uintptr_t)most * sizeof(float) ? blocks[0] : blocks[1];
    part.byte_offset += (char *)address - (char *)muster_tensor_address(part);
    part.shape[0] = count;
    return part;
}

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    struct nodes_muster *muster = user;
    nodes_program *program = muster->program;
    const nodes_request *request = &muster->request;
    const int64_t most[] = {request->job.count + 1}; /* so that the last part, of no elements, lies in it too */
    muster_tensor blocks[2];
    for (int i = 0; i < 2; i++)
        if (muster_worker_scratch(w, MUSTER_F32, 1, most, &blocks[i]) != MUSTER_OK) program->mpi->abort();
    const int32_t rank = muster_worker_rank(w), local = rank - muster_runtime_first_rank(muster->runtime, program->process);
    side mine = {.worker = w};
    nodes_player player = {.mpi = program->mpi,
                           .job = request->job,
                           .warm = request->warm,
                           .calls = request->calls,
                           .rank = rank,
                           .process = program->process,
                           .local = local,
                           .all = program->devices > 1 ? &muster->rendezvous : NULL,
                           .first = muster_tensor_address(blocks[0]),
                           .second = muster_tensor_address(blocks[1]),
                           .operate = operate,
                           .self = &mine,
                           .ns = program->ns + (int64_t)local * request->calls};
    mine.first = part_of(blocks, most[0], player.first, request->job.count);
    mine.second = part_of(blocks, most[0], player.second, request->job.count);
    if (nodes_is_collective(request->job.op)) {
        const collective_buffers b = collective_layout(&request->job, rank, player.first, player.second, NULL);
        mine.input = part_of(blocks, most[0], b.input, b.input_count);
        mine.output = part_of(blocks, most[0], b.output, b.output_count);
    }
    nodes_play(&player);
    __atomic_add_fetch(&program->wrong, player.wrong, __ATOMIC_RELAXED);
    return MUSTER_OK;
}

static muster_status empty_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static bool call(nodes_player *player) {
    const struct nodes_muster *muster = player->self;
    return muster_function_call(muster->empty, NULL, 0, NULL, 0, NULL) == MUSTER_OK;
}

bool nodes_muster_block(struct nodes_muster *muster, nodes_program *program, const nodes_request *request) {
    muster->program = program;
    muster->request = *request;
    muster->rendezvous = (nodes_rendezvous){.ranks = program->devices};
    if (request->job.op == NODES_CALL) {
        nodes_player player = {.mpi = program->mpi,
                               .job = request->job,
                               .warm = request->warm,
                               .calls = request->calls,
                               .process = program->process,
                               .operate = call,
                               .self = muster,
                               .ns = program->ns};
        nodes_play(&player);
        for (int32_t i = request->calls; i < request->calls * program->devices; i++) program->ns[i] = program->ns[i % request->calls];
        return true;
    }
    if (muster_function_call(muster->function, NULL, 0, NULL, 0, NULL) == MUSTER_OK) return true;
    fprintf(stderr, "muster-bench-nodes: %s\n", muster_last_error());
    return false;
}

struct nodes_muster *nodes_muster_open(const nodes_program *program, nodes_way way, char why[NODES_TEXT]) {
    struct nodes_muster *muster = calloc(1, sizeof *muster);
    if (!muster) return NULL;
    char devices[32], nodes[1100];
    snprintf(devices, sizeof devices, "host:%d", program->devices);
    snprintf(nodes, sizeof nodes, way == NODES_ALONE ? "none" : "mpi:%s", program->shim);
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.nodes = nodes;
    options.log_level = MUSTER_LOG_WARNING;
    options.wire_dtype = way == NODES_HALF ? MUSTER_F16 : MUSTER_F32;
    if (muster_runtime_open(&options, &muster->runtime) == MUSTER_OK &&
        muster_function_create(muster->runtime, "nodes", body, muster, &muster->function) == MUSTER_OK &&
        muster_function_create(muster->runtime, "empty", empty_body, NULL, &muster->empty) == MUSTER_OK)
        return muster;
    snprintf(why, NODES_TEXT, "%.120s", muster_last_error());
    nodes_muster_close(muster);
    return NULL;
}

void nodes_muster_close(struct nodes_muster *muster) {
    if (muster && muster->runtime && muster_runtime_close(muster->runtime) != MUSTER_OK)
        fprintf(stderr, "muster-bench-nodes: %s\n", muster_last_error());
    free(muster);
}
