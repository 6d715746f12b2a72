/* What all schedules have in common: their memory, how a move begins, and what `progress` does. */
#include "flow_private.h"
#include "memory_impl.h"
#include "slabs_private.h"

#include <string.h>

const char *mst_move_kind_name(mst_move_kind kind) {
    static const char *const names[MST_MOVE_KINDS] = {"all_reduce", "reduce_scatter", "reduce",  "broadcast",
                                                      "all_gather", "gather",         "scatter", "all_to_all"};
    return kind >= 0 && kind < MST_MOVE_KINDS ? names[kind] : "unknown";
}

const char *mst_move_algorithm_name(mst_move_algorithm algorithm) {
    static const char *const names[MST_MOVE_ALGORITHMS] = {"automatic", "gather", "exchange", "chain", "mpi",
                                                           "tree",      "ring",   "bruck",    "direct"};
    return algorithm >= 0 && algorithm < MST_MOVE_ALGORITHMS ? names[algorithm] : "unknown";
}

static const mst_schedule_row *const schedule_rows[MST_MOVE_ALGORITHMS] = {
    [MST_MOVE_GATHER_FOLD] = &mst_schedule_gather_fold,
    [MST_MOVE_EXCHANGE] = &mst_schedule_exchange,
    [MST_MOVE_CHAIN] = &mst_schedule_chain,
    [MST_MOVE_MPI] = &mst_schedule_mpi,
    [MST_MOVE_TREE] = &mst_schedule_tree,
    [MST_MOVE_RING] = &mst_schedule_ring,
    [MST_MOVE_BRUCK] = &mst_schedule_bruck,
    [MST_MOVE_DIRECT] = &mst_schedule_direct,
};

bool mst_schedule_serves(const mst_schedule *schedule, const mst_move *move, mst_move_algorithm algorithm) {
    return algorithm > MST_MOVE_AUTOMATIC && algorithm < MST_MOVE_ALGORITHMS && schedule->algorithms >> algorithm & 1 &&
           (!move->fold || algorithm == MST_MOVE_CHAIN) && schedule_rows[algorithm]->serves(schedule, move);
}

int64_t mst_schedule_slice(const mst_channel *channel, int64_t count, int64_t element_bytes, int32_t member) {
    /* Slices begin at cache lines. */
    const int64_t line = element_bytes < 64 ? 64 / element_bytes : 1, lines = (count + line - 1) / line;
    const int64_t first = (lines / channel->size * member + lines % channel->size * member / channel->size) * line;
    return member == channel->size || first > count ? count : first;
}

void mst_schedule_set_offsets(const mst_channel *channel, const int64_t *bytes, int64_t *offsets) {
    offsets[0] = 0;
    for (int32_t i = 0; i < channel->size; i++) offsets[i + 1] = offsets[i] + bytes[i];
}

int64_t mst_schedule_chunk(const mst_schedule *schedule, int64_t slots) {
    const int64_t chunk = (schedule->scratch_bytes - MST_ACCUMULATOR_BYTES) / slots / 64 * 64;
    return chunk < 64 ? 64 : chunk < MST_MESSAGE_BYTES ? chunk : MST_MESSAGE_BYTES;
}

void mst_schedule_copy(mst_schedule *schedule, void *to, const void *from, int64_t bytes) {
    if (!from || from == to) return;
    schedule->copy_from = from;
    schedule->copy_to = to;
    schedule->copy_bytes = bytes;
}

static void schedule_copy_batch(mst_schedule *schedule) {
    const int64_t batch = schedule->copy_bytes < MST_FOLD_BYTES ? schedule->copy_bytes : MST_FOLD_BYTES;
    memcpy(schedule->copy_to, schedule->copy_from, (size_t)batch);
    schedule->copy_to += batch;
    schedule->copy_from += batch;
    schedule->copy_bytes -= batch;
}

/* ---- the machine ---- */

static int32_t schedule_step(mst_schedule *schedule, bool *done) {
    const mst_schedule_row *row = schedule->row;
    if (row->call) {
        const int32_t result = row->call(schedule);
        *done = !schedule->busy;
        return result;
    }
    if (schedule->copy_bytes) {
        schedule_copy_batch(schedule);
        schedule->machine.moved = true;
    }
    const bool nothing_left = !row->advance || row->advance(schedule);
    const int32_t result = mst_flows_progress(schedule);
    *done = nothing_left && !schedule->copy_bytes && mst_flows_ended(schedule);
    return result;
}

static mst_progress schedule_progress(mst_machine *machine) {
    mst_schedule *schedule = (mst_schedule *)machine;
    bool done = false;
    machine->moved = false; /* where nothing runs, too: a wait for others would else never come to its deadline */
    if (!schedule->running) return MST_PROGRESS_DONE;
    const int32_t result = schedule_step(schedule, &done);
    if (result != MUSTER_WIRE_OK) return mst_channel_failed(schedule->channel, result, mst_move_kind_name(schedule->move->kind));
    if (!done) return MST_PROGRESS_RUNNING;
    schedule->running = false;
    return MST_PROGRESS_DONE;
}

static int32_t schedule_waits_for(const mst_machine *machine) {
    const mst_schedule *schedule = (const mst_schedule *)machine;
    const mst_channel *channel = schedule->channel;
    /* In a collective of the MPI nobody knows whose message is missing. Each answers with the next
     * one, so that a search comes to the one that does not answer. */
    if (schedule->running && schedule->row->call) return mst_channel_process(channel, (channel->rank + 1) % channel->size);
    const int32_t member = schedule->running ? mst_flows_wait_for(schedule) : -1;
    return member < 0 ? -1 : mst_channel_process(schedule->channel, member);
}

muster_status mst_schedule_begin(mst_schedule *schedule, const mst_move *move) {
    if (mst_schedule_in_flight(schedule))
        return mst_error(MUSTER_BAD_STATE, "%s between processes: the move before has not ended", mst_move_kind_name(move->kind));
    const mst_move_algorithm algorithm = move->algorithm ? move->algorithm : mst_schedule_select(schedule, move);
    if (!mst_schedule_serves(schedule, move, algorithm))
        return mst_error(MUSTER_UNSUPPORTED, "%s between processes: the algorithm '%s' does not serve it", mst_move_kind_name(move->kind),
                         mst_move_algorithm_name(algorithm));
    schedule->move = move;
    schedule->algorithm = algorithm;
    schedule->row = schedule_rows[algorithm];
    schedule->running = true;
    schedule->copy_bytes = schedule->chunks = schedule->folded = schedule->batch = schedule->segment = 0;
    schedule->step = schedule->next = 0;
    schedule->sent_messages = schedule->sent_bytes = 0;
    schedule->served[algorithm]++;
    mst_flows_clear(schedule);
    if (schedule->row->begin) schedule->row->begin(schedule);
    return MUSTER_OK;
}

/* ---- memory ---- */

enum {
    SCHEDULE_WINDOW = 4 /* requests of a flow, at most */,
    SCHEDULE_TESTED = 128,
    SCHEDULE_LEAST = 128,
    SCHEDULE_MOST_SCRATCH_BYTES = 8 << 20
};

/* TREE and CHAIN know a few members only. */
static bool schedule_has_parts(uint32_t algorithms) { return algorithms & ~(1u << MST_MOVE_TREE | 1u << MST_MOVE_CHAIN); }

static muster_status schedule_allocate(mst_schedule *schedule) {
    const size_t size = (size_t)schedule->channel->size;
    for (int32_t i = 1; i < MST_MOVE_ALGORITHMS; i++) {
        const int32_t flows = schedule->algorithms >> i & 1 ? schedule_rows[i]->flows(schedule->channel->size) : 0;
        if (flows > schedule->flow_limit) schedule->flow_limit = flows;
    }
    schedule->request_limit = schedule->flow_limit * SCHEDULE_WINDOW + 1;
    const bool parts = schedule_has_parts(schedule->algorithms);
    schedule->flows = mst_alloc(sizeof *schedule->flows * (size_t)schedule->flow_limit);
    schedule->requests = mst_alloc(sizeof *schedule->requests * (size_t)schedule->request_limit);
    schedule->done = mst_alloc(sizeof *schedule->done * SCHEDULE_TESTED);
    schedule->offsets = mst_alloc(parts ? sizeof *schedule->offsets * 2 * (size + 1) : 0);
    schedule->inputs = mst_alloc(parts ? sizeof *schedule->inputs * size : 0);
    if (!schedule->flows || !schedule->requests || !schedule->done || !schedule->offsets || !schedule->inputs)
        return mst_out_of_memory("a schedule between processes", (int64_t)(sizeof *schedule->flows * (size_t)schedule->flow_limit));
    /* The numbers lie behind the scratch memory, because a lost collective of the MPI may still
     * read them. */
    const int64_t scratch = (schedule->scratch_bytes + 7) / 8 * 8;
    const int64_t numbers = schedule->algorithms >> MST_MOVE_MPI & 1 ? (int64_t)(sizeof *schedule->numbers * 4 * size) : 0;
    schedule->scratch = mst_wire_memory(scratch + numbers, &schedule->scratch_block);
    if (!schedule->scratch) return mst_out_of_memory("a schedule between processes", scratch + numbers);
    schedule->numbers = (int32_t *)(void *)(schedule->scratch + scratch);
    return MUSTER_OK;
}

muster_status mst_schedule_prepare(mst_schedule *schedule, const mst_channel *channel, uint32_t algorithms, int64_t scratch_bytes) {
    if (!algorithms) algorithms = ~0u;
    const int64_t size = schedule_has_parts(algorithms) ? channel->size : 8, least = MST_ACCUMULATOR_BYTES + size * SCHEDULE_LEAST;
    /* The chunks of an exchange among many are not so small that their number counts. */
    const int64_t usual = size * MST_SCRATCH_BYTES / 8;
    *schedule = (mst_schedule){.machine = {schedule_progress, schedule_waits_for},
                               .channel = channel,
                               .algorithms = algorithms,
                               .scratch_bytes = scratch_bytes                         ? scratch_bytes
                                                : usual < MST_SCRATCH_BYTES           ? MST_SCRATCH_BYTES
                                                : usual < SCHEDULE_MOST_SCRATCH_BYTES ? usual
                                                                                      : SCHEDULE_MOST_SCRATCH_BYTES};
    if (schedule->scratch_bytes < least) schedule->scratch_bytes = least;
    const muster_status status = schedule_allocate(schedule);
    if (status != MUSTER_OK) mst_schedule_free(schedule);
    return status;
}

void mst_schedule_free(mst_schedule *schedule) {
    const bool in_flight = mst_schedule_in_flight(schedule);
    if (schedule->scratch_block) mst_wire_memory_free(schedule->scratch_block, schedule->scratch_bytes, in_flight);
    mst_free(schedule->flows);
    mst_free(schedule->requests);
    mst_free(schedule->done);
    mst_free(schedule->offsets);
    mst_free(schedule->inputs);
    *schedule = (mst_schedule){0};
}
