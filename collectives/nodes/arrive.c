/* The arrival: all that the processes of a channel agree on goes through this state machine. */
#include "arrive_private.h"

#include "memory_impl.h"

#include <string.h>

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* ---- partners and sizes ---- */

/* The member that is 2^step above this one, from which it receives, or below. */
static int32_t member_above(const mst_arrival *a, int32_t step) {
    return (int32_t)(((int64_t)a->channel.rank + (1 << step)) % a->channel.size);
}
static int32_t member_below(const mst_arrival *a, int32_t step) {
    return (int32_t)(((int64_t)a->channel.rank + a->channel.size - (1 << step)) % a->channel.size);
}

/* How many members' payloads travel in a step. */
static int32_t blocks_of(const mst_arrival *a, int32_t step) { return smaller(1 << step, a->channel.size - (1 << step)); }

static int64_t most_bytes(const mst_arrival *a, int32_t step) {
    return (int64_t)sizeof(mst_arrival_header) + (int64_t)blocks_of(a, step) * a->capacity;
}

/* The bytes behind the header in a step, if all members match. */
static int64_t payload_of(const mst_arrival *a, int32_t step) {
    return a->input.carry ? a->input.payload_bytes : (int64_t)blocks_of(a, step) * a->input.payload_bytes;
}

static int32_t shape_of(const mst_arrival_input *input) { return input->carry ? -input->payload_bytes : input->payload_bytes; }

/* ---- what is known ---- */

/* Of two pairs of extremes with their members: signatures have 64 bits, the others 32. */
#define WIDEN(known, other)                                                                                                   \
    do {                                                                                                                      \
        if ((other)->least < (known)->least || ((other)->least == (known)->least && (other)->least_at < (known)->least_at)) { \
            (known)->least = (other)->least;                                                                                  \
            (known)->least_at = (other)->least_at;                                                                            \
        }                                                                                                                     \
        if ((other)->most > (known)->most || ((other)->most == (known)->most && (other)->most_at < (known)->most_at)) {       \
            (known)->most = (other)->most;                                                                                    \
            (known)->most_at = (other)->most_at;                                                                              \
        }                                                                                                                     \
    } while (0)

/* Does the failure of `other` decide rather than that of `known`? */
static bool decides(const mst_arrival_header *other, const mst_arrival_header *known) {
    if (other->status == MUSTER_OK || known->status == MUSTER_OK) return other->status != MUSTER_OK && known->status == MUSTER_OK;
    if ((other->status == MUSTER_ABORTED) != (known->status == MUSTER_ABORTED)) return known->status == MUSTER_ABORTED;
    if (other->rank != known->rank) return other->rank < known->rank;
    return other->at < known->at;
}

static void combine(mst_arrival_header *known, const mst_arrival_header *other) {
    WIDEN(known, other);
    WIDEN(&known->kind, &other->kind);
    WIDEN(&known->payload, &other->payload);
    if (decides(other, known)) {
        known->status = other->status;
        known->rank = other->rank;
        known->at = other->at;
    }
    known->carried |= other->carried;
    if (other->number.least < known->number.least) known->number.least = other->number.least;
    if (other->number.most > known->number.most) known->number.most = other->number.most;
}

/* Blocks of `count` members from `first` on, which may go past the last one, between `all` and a
 * message. */
static void copy_blocks(mst_arrival *a, int32_t first, int32_t count, unsigned char *message, bool to_message) {
    const int32_t bytes = a->input.payload_bytes, before = smaller(count, a->channel.size - first);
    unsigned char *parts[2] = {a->all + (int64_t)first * bytes, a->all};
    const int64_t sizes[2] = {(int64_t)before * bytes, (int64_t)(count - before) * bytes};
    for (int32_t i = 0; i < 2; message += sizes[i], i++)
        if (sizes[i] > 0) memcpy(to_message ? message : parts[i], to_message ? parts[i] : message, (size_t)sizes[i]);
}

/* Halves that this member does not have yet. */
static void take_carried(mst_arrival *a, uint32_t there, const unsigned char *payload) {
    const int64_t half = a->input.payload_bytes / 2;
    for (int32_t i = 0; i < 2; i++)
        if ((there & ~a->header.carried) >> i & 1) memcpy(a->all + i * half, payload + i * half, (size_t)half);
}

/* ---- steps ---- */

static mst_progress post(mst_arrival *a, int32_t step) {
    const mst_channel *c = &a->channel;
    const int32_t result =
        c->wire->table->receive(c->wire->state, a->received[step], most_bytes(a, step), mst_channel_process(c, member_above(a, step)),
                                mst_channel_tag(c, MST_KIND_ARRIVAL), &a->receives[step]);
    return result == MUSTER_WIRE_OK ? MST_PROGRESS_DONE : mst_channel_failed(c, result, "an arrival posts a receive");
}

/* DONE when the last send of this step's memory, which may belong to an arrival that was given up,
 * is done. */
static mst_progress finish_send(mst_arrival *a, int32_t step) {
    const mst_channel *c = &a->channel;
    if (a->sends[step] == 0) return MST_PROGRESS_DONE;
    int32_t done = 0;
    const int32_t result = c->wire->table->test(c->wire->state, &a->sends[step], &done, NULL);
    if (result != MUSTER_WIRE_OK) return mst_channel_failed(c, result, "an arrival sends");
    return done ? MST_PROGRESS_DONE : MST_PROGRESS_RUNNING;
}

/* Must the sender of so many bytes wait until they have been taken? What other messages of the last
 * arrival and of this one hold went to other members. */
static bool waits_for_receiver(const mst_arrival *a, int64_t bytes) {
    const mst_wire *wire = a->channel.wire;
    if (!a->used) return true;
    if (!a->input.matched) return false;
    if (a->ended < 2 || atomic_load_explicit(&wire->collectives, memory_order_relaxed) != a->taken.collectives) return true;
    const int64_t others =
        atomic_load_explicit(&wire->sent_bytes, memory_order_relaxed) - a->taken.bytes - a->last.arrival_bytes - a->now.arrival_bytes;
    return others + 2 * bytes > MST_ARRIVAL_IN_FLIGHT;
}

static void note_sent(mst_arrival *a, int64_t bytes) {
    const mst_wire *wire = a->channel.wire;
    a->now = (mst_arrival_sent){.bytes = atomic_load_explicit(&wire->sent_bytes, memory_order_relaxed),
                                .collectives = atomic_load_explicit(&wire->collectives, memory_order_relaxed),
                                .arrival_bytes = a->now.arrival_bytes + bytes};
}

static mst_progress send(mst_arrival *a, int32_t step) {
    const mst_channel *c = &a->channel;
    mst_progress progress = finish_send(a, step);
    if (progress != MST_PROGRESS_DONE) return progress;
    int64_t bytes = sizeof a->header;
    memcpy(a->sent[step], &a->header, sizeof a->header);
    if (a->header.payload.least == a->header.payload.most && a->input.payload_bytes > 0) {
        if (a->input.carry)
            memcpy(a->sent[step] + bytes, a->all, (size_t)a->input.payload_bytes);
        else
            copy_blocks(a, a->channel.rank, blocks_of(a, step), a->sent[step] + bytes, true);
        bytes += payload_of(a, step);
    }
    const int32_t result = mst_wire_send(c->wire, a->sent[step], bytes, mst_channel_process(c, member_below(a, step)),
                                         mst_channel_tag(c, MST_KIND_ARRIVAL), waits_for_receiver(a, bytes), &a->sends[step]);
    if (result != MUSTER_WIRE_OK) return mst_channel_failed(c, result, "an arrival sends");
    note_sent(a, bytes);
    return MST_PROGRESS_DONE;
}

/* A message of this arrival: 0; of an earlier one: negative; of a later one: positive. */
static int age(const mst_arrival *a, const mst_arrival_header *header) {
    if (header->epoch != a->input.epoch) return header->epoch < a->input.epoch ? -1 : 1;
    return header->sequence == a->input.sequence ? 0 : header->sequence < a->input.sequence ? -1 : 1;
}

static mst_progress take(mst_arrival *a, int32_t step, const mst_arrival_header *header) {
    const bool same = header->payload.least == header->payload.most && header->payload.least == shape_of(&a->input);
    const int64_t behind = same ? payload_of(a, step) : -1;
    if (same && a->received_bytes[step] != (int64_t)sizeof *header + behind) {
        mst_error(MUSTER_INTERNAL, "an arrival: expected %lld bytes behind the header of process %d, received %lld", (long long)behind,
                  (int)mst_channel_process(&a->channel, member_above(a, step)),
                  (long long)a->received_bytes[step] - (long long)sizeof *header);
        a->received_bytes[step] = 0;
        return MST_PROGRESS_FAILED;
    }
    if (behind > 0) {
        unsigned char *payload = a->received[step] + sizeof *header;
        if (a->input.carry)
            take_carried(a, header->carried, payload);
        else
            copy_blocks(a, member_above(a, step), blocks_of(a, step), payload, false);
    }
    combine(&a->header, header);
    a->received_bytes[step] = 0;
    return MST_PROGRESS_DONE;
}

/* DONE when the message of this step has been taken. Those of earlier arrivals are dropped; one of
 * a later arrival stays, and this one goes on only if the caller gives it up. */
static mst_progress receive(mst_arrival *a, int32_t step) {
    const mst_channel *c = &a->channel;
    for (;;) {
        if (a->received_bytes[step] == 0) {
            int32_t done = 0;
            muster_wire_status status = {0};
            const int32_t result = c->wire->table->test(c->wire->state, &a->receives[step], &done, &status);
            if (result != MUSTER_WIRE_OK) return mst_channel_failed(c, result, "an arrival receives");
            if (!done) return MST_PROGRESS_RUNNING;
            a->received_bytes[step] = status.bytes;
        }
        mst_arrival_header header = {0};
        if (a->received_bytes[step] >= (int64_t)sizeof header) memcpy(&header, a->received[step], sizeof header);
        if (header.magic != MST_ARRIVAL_MAGIC) {
            mst_error(
                MUSTER_INTERNAL,
                "an arrival: process %d sent %lld bytes that are no header of this version of Muster: do all processes run the same one?",
                (int)mst_channel_process(c, member_above(a, step)), (long long)a->received_bytes[step]);
            a->received_bytes[step] = 0;
            return MST_PROGRESS_FAILED;
        }
        const int order = age(a, &header);
        if (order > 0) return MST_PROGRESS_RUNNING;
        if (order == 0) return take(a, step, &header);
        a->received_bytes[step] = 0;
        const mst_progress progress = post(a, step);
        if (progress != MST_PROGRESS_DONE) return progress;
    }
}

static mst_progress post_all(mst_arrival *a) {
    for (; a->posted < a->steps; a->posted++) {
        if (a->receives[a->posted] != 0 || a->received_bytes[a->posted] != 0) continue;
        const mst_progress progress = post(a, a->posted);
        if (progress != MST_PROGRESS_DONE) return progress;
    }
    return MST_PROGRESS_DONE;
}

mst_progress mst_arrival_listen(mst_arrival *a) {
    a->listens = true;
    a->posted = 0;
    return post_all(a);
}

mst_progress mst_arrival_progress(mst_arrival *a) {
    const mst_progress posted = post_all(a);
    if (posted != MST_PROGRESS_DONE) return posted;
    while (a->step < a->steps) {
        mst_progress progress = a->sent_steps > a->step ? MST_PROGRESS_DONE : send(a, a->step);
        if (progress != MST_PROGRESS_DONE) return progress;
        a->sent_steps = a->step + 1;
        progress = receive(a, a->step);
        if (progress != MST_PROGRESS_DONE) return progress;
        a->step++;
    }
    mst_progress all = MST_PROGRESS_DONE;
    for (int32_t step = 0; step < a->steps; step++) {
        const mst_progress progress = finish_send(a, step);
        if (progress != MST_PROGRESS_DONE) all = progress;
        if (progress > MST_PROGRESS_DONE) return progress;
    }
    if (all != MST_PROGRESS_DONE) return all;
    a->used = true;
    a->taken = a->last;
    a->last = a->now;
    a->now.arrival_bytes = 0;
    a->in_progress = false;
    if (a->ended < 2) a->ended++;
    return a->listens ? mst_arrival_listen(a) : all;
}

/* ---- the life of an arrival ---- */

static mst_progress machine_progress(mst_machine *machine) { return mst_arrival_progress((mst_arrival *)machine); }

static int32_t machine_waits_for(const mst_machine *machine) {
    const mst_arrival *a = (const mst_arrival *)machine;
    if (a->step < a->steps && a->sent_steps > a->step) return mst_channel_process(&a->channel, member_above(a, a->step));
    for (int32_t step = 0; step < a->steps; step++)
        if (a->sends[step] != 0) return mst_channel_process(&a->channel, member_below(a, step));
    return -1;
}

static int64_t aligned(int64_t bytes) { return (bytes + MST_CACHE_LINE - 1) / MST_CACHE_LINE * MST_CACHE_LINE; }

muster_status mst_arrival_open(mst_arrival *a, const mst_channel *channel, int32_t capacity) {
    *a = (mst_arrival){.machine = {machine_progress, machine_waits_for}, .channel = *channel, .capacity = capacity};
    if (channel->size > MST_ARRIVAL_MEMBERS)
        return mst_error(MUSTER_UNSUPPORTED, "an arrival: expected at most %d processes, received %d", (int)MST_ARRIVAL_MEMBERS,
                         (int)channel->size);
    while ((int64_t)1 << a->steps < channel->size) a->steps++;
    int64_t bytes = aligned((int64_t)channel->size * capacity);
    for (int32_t step = 0; step < a->steps; step++) bytes += 2 * aligned(most_bytes(a, step));
    a->memory = mst_alloc_uninitialised((size_t)bytes);
    if (!a->memory) return mst_out_of_memory("the memory of arrivals", bytes);
    unsigned char *next = a->memory;
    a->all = next;
    next += aligned((int64_t)channel->size * capacity);
    for (int32_t step = 0; step < a->steps; step++) {
        a->received[step] = next;
        a->sent[step] = next + aligned(most_bytes(a, step));
        next += 2 * aligned(most_bytes(a, step));
    }
    return MUSTER_OK;
}

void mst_arrival_begin(mst_arrival *a, const mst_arrival_input *input) {
    const int32_t rank = a->channel.rank, shape = shape_of(input);
    a->input = *input;
    if (a->in_progress) a->ended = 0; /* it was given up */
    a->in_progress = true;
    a->now.arrival_bytes = 0;
    a->step = a->posted = a->sent_steps = 0;
    a->header = (mst_arrival_header){.epoch = input->epoch,
                                     .sequence = input->sequence,
                                     .least = input->signature,
                                     .most = input->signature,
                                     .least_at = rank,
                                     .most_at = rank,
                                     .kind = {input->kind, input->kind, rank, rank},
                                     .payload = {shape, shape, rank, rank},
                                     .status = input->status,
                                     .rank = input->rank,
                                     .at = rank,
                                     .carried = input->carry ? input->carried : 0,
                                     .number = {input->number, input->number},
                                     .magic = MST_ARRIVAL_MAGIC};
    if (input->payload_bytes > 0)
        memcpy(a->all + (input->carry ? 0 : (int64_t)rank * input->payload_bytes), input->payload, (size_t)input->payload_bytes);
    a->input.payload = NULL; /* the caller's memory is not needed any more */
}

void mst_arrival_close(mst_arrival *a) {
    bool leaving = false;
    for (int32_t step = 0; step < a->steps && a->memory; step++) {
        const mst_wire *wire = a->channel.wire;
        if (a->receives[step] != 0 && wire->table->cancel(wire->state, &a->receives[step]) != MUSTER_WIRE_OK) leaving = true;
        if (finish_send(a, step) != MST_PROGRESS_DONE) leaving = true;
    }
    if (leaving)
        mst_wire_keep(a->memory);
    else
        mst_free(a->memory);
    *a = (mst_arrival){0};
}
