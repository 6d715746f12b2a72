#include "collectives_muster.h"

#include <stdlib.h>
#include <string.h>

struct bench_muster_collectives {
    muster_runtime *runtime;
    muster_function *function;
    int32_t ranks;
    collective_session *session;
    collective_job job; /* of the block that runs */
    int32_t warm, calls;
};

/* One worker's side of a block. */
typedef struct side {
    muster_worker *worker;
    muster_tensor input, output, state;
    muster_status status;
} side;

static muster_status update(const side *mine, const collective_job *job) {
    muster_worker *w = mine->worker;
    bool momentum = job->op == COLLECTIVE_MOMENTUM;
    if (job->variant == 0 && momentum)
        return muster_worker_all_reduce_momentum(w, NULL, COLLECTIVE_RATE, mine->input, COLLECTIVE_DECAY, mine->state, mine->output);
    if (job->variant == 0) return muster_worker_all_reduce_axpy(w, NULL, COLLECTIVE_RATE, mine->input, mine->output);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, mine->input, mine->input));
    if (!momentum) return muster_axpy(w, COLLECTIVE_RATE, mine->input, mine->output);
    MUSTER_TRY(muster_scale_add(w, COLLECTIVE_RATE, mine->input, COLLECTIVE_DECAY, mine->state));
    return muster_axpy(w, 1, mine->state, mine->output);
}

static muster_status enter(const side *mine, const collective_job *job) {
    muster_worker *w = mine->worker;
    muster_tensor in = mine->input, out = mine->output;
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
    default:
        return update(mine, job);
    }
}

static bool operate(void *self, const collective_job *job, const collective_player *player) {
    (void)player;
    side *mine = self;
    mine->status = enter(mine, job);
    return mine->status == MUSTER_OK;
}

/* `count` elements at `address`, which lies in one of two scratch blocks of `most` elements. */
static muster_tensor part_of(const muster_tensor blocks[2], int64_t most, float *address, int64_t count) {
    if (!address) return muster_tensor_none();
    uintptr_t at = (uintptr_t)address, begin = (uintptr_t)muster_tensor_address(blocks[0]);
    muster_tensor part = at >= begin && at < begin + (uintptr_t)most * sizeof(float) ? blocks[0] : blocks[1];
    part.byte_offset += (char *)address - (char *)muster_tensor_address(part);
    part.shape[0] = count;
    return part;
}

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    bench_muster_collectives *muster = user;
    const collective_job *job = &muster->job;
    int32_t rank = muster_worker_rank(w);
    int64_t most[] = {job->count + 1}; /* so that the last part, of no elements, lies in it too */
    muster_tensor blocks[2], state = muster_tensor_none();
    if (muster_worker_scratch(w, MUSTER_F32, 1, most, &blocks[0]) != MUSTER_OK ||
        muster_worker_scratch(w, MUSTER_F32, 1, most, &blocks[1]) != MUSTER_OK ||
        (job->op == COLLECTIVE_MOMENTUM && muster_worker_scratch(w, MUSTER_F32, 1, &job->count, &state) != MUSTER_OK)) {
        collective_abort(muster->session);
        return MUSTER_OUT_OF_MEMORY;
    }
    collective_buffers buffers[COLLECTIVE_RANKS], *mine = &buffers[rank];
    *mine = collective_layout(job, rank, muster_tensor_address(blocks[0]), muster_tensor_address(blocks[1]),
                              state.data ? muster_tensor_address(state) : NULL);
    side self = {.worker = w,
                 .input = part_of(blocks, most[0], mine->input, mine->input_count),
                 .output = part_of(blocks, most[0], mine->output, mine->output_count),
                 .state = state};
    collective_player player = {muster->session, rank, muster->ranks, buffers, operate, &self};
    collective_play(&player, job, muster->warm, muster->calls);
    return self.status;
}

bool bench_muster_collectives_close(bench_muster_collectives *muster) {
    if (!muster) return true;
    bool ok = !muster->runtime || bench_muster_ok(muster_runtime_close(muster->runtime), "muster");
    free(muster->session);
    free(muster);
    return ok;
}

bench_muster_collectives *bench_muster_collectives_open(int32_t ranks) {
    bench_muster_collectives *muster = calloc(1, sizeof *muster);
    if (!muster) return NULL;
    muster->ranks = ranks;
    muster->session = calloc(1, sizeof *muster->session);
    muster->runtime = muster->session ? bench_muster_open(ranks) : NULL;
    if (muster->runtime &&
        bench_muster_ok(muster_function_create(muster->runtime, "collective", body, muster, &muster->function), "muster")) {
        collective_session_open(muster->session, ranks > bench_cores());
        return muster;
    }
    bench_muster_collectives_close(muster);
    return NULL;
}

bool bench_muster_collective_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_muster_contender *contender = self;
    bench_muster_collectives *muster = contender->muster;
    muster->job = contender->job;
    muster->warm = block->warm;
    muster->calls = block->calls;
    if (!bench_muster_ok(muster_function_call(muster->function, NULL, 0, NULL, 0, NULL), "muster")) return false;
    *wrong += collective_result(muster->session, &muster->job, muster->ranks, block->calls, ns);
    return true;
}
