/* The device side: what the threads of streams do. */
#include "nccl_sim.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1024 };

static bool is_message(const nccl_operation *operation) { return operation->kind >= NCCL_SEND; }

void nccl_bytes(const nccl_operation *o, size_t *in, size_t *out) {
    size_t one = o->count * sim_nccl_type_size(o->type), all = one * (size_t)o->comm->clique->size;
    bool root = o->comm->rank == o->root;
    *in = *out = one;
    switch (o->kind) {
    case NCCL_ALL_REDUCE:
        break;
    case NCCL_REDUCE:
        *out = root ? one : 0;
        break;
    case NCCL_BROADCAST:
        *in = root ? one : 0;
        break;
    case NCCL_ALL_GATHER:
        *out = all;
        break;
    case NCCL_REDUCE_SCATTER:
        *in = all;
        break;
    case NCCL_ALL_TO_ALL:
        *in = *out = all;
        break;
    case NCCL_GATHER:
        *out = root ? all : 0;
        break;
    case NCCL_SCATTER:
        *in = root ? all : 0;
        break;
    case NCCL_SEND:
        *out = 0;
        break;
    case NCCL_RECV:
        *in = 0;
        break;
    }
}

/* ---- addresses ---- */

static char *usable(int device, const void *address, size_t bytes) {
    static char nothing;
    if (bytes == 0) return &nothing;
    int owner = sim_memory_device(address);
    if (owner >= 0) return sim_reaches(device, owner) ? sim_memory_alias(owner, address, bytes) : NULL;
    return sim_memory_locked(device, address, bytes) ? (char *)(uintptr_t)address : NULL;
}

static bool resolve(nccl_operation *o) {
    size_t in, out;
    nccl_bytes(o, &in, &out);
    o->in = usable(o->comm->device, o->from, in);
    o->out = usable(o->comm->device, o->to, out);
    o->factor = (char *)&o->scale.scalar;
    if (o->scale.used && o->scale.address) o->factor = usable(o->comm->device, o->scale.address, sim_nccl_type_size(o->type));
    if (o->in && o->out && o->factor) return true;
    sim_hazard("%s: rank %d on device %d uses memory that this device cannot reach", o->symbol, o->comm->rank, o->comm->device);
    return false;
}

/* ---- what collectives do, once all ranks have come: by the thread that came last ---- */

static void scale_term(const nccl_operation *o, void *values, size_t count) {
    uint64_t reciprocal = 0;
    if (o->scale.used)
        sim_nccl_scale(o->type, values, count, o->factor);
    else if (o->operation == MST_NCCL_AVG && sim_nccl_is_float(o->type)) {
        sim_nccl_reciprocal(o->type, o->comm->clique->size, &reciprocal);
        sim_nccl_scale(o->type, values, count, &reciprocal);
    }
}

/* Elements [at, at + count) of the inputs, combined in rank order. */
static void reduce(nccl_operation *const *all, int size, size_t at, size_t count, void *result) {
    uint64_t term[CHUNK];
    const nccl_operation *o = all[0];
    size_t width = sim_nccl_type_size(o->type);
    int operation = o->operation <= MST_NCCL_MIN ? (int)o->operation : SIM_SUM;
    for (int rank = 0; rank < size; rank++) {
        void *into = rank ? (void *)term : result;
        memcpy(into, all[rank]->in + at * width, count * width);
        scale_term(all[rank], into, count);
        if (rank) sim_nccl_combine(o->type, operation, result, term, count);
    }
    if (o->operation == MST_NCCL_AVG && !sim_nccl_is_float(o->type)) sim_nccl_divide(o->type, result, count, size);
}

/* The elements [begin, begin + count) of the reduction, to each of the ranks [first, last]: their
 * output begins with element `begin`. */
static void reduce_to(nccl_operation *const *all, int size, size_t begin, int first, int last) {
    uint64_t result[CHUNK];
    size_t width = sim_nccl_type_size(all[0]->type), total = all[0]->count;
    for (size_t at = 0; at < total; at += CHUNK) {
        size_t count = total - at < CHUNK ? total - at : CHUNK;
        reduce(all, size, begin + at, count, result);
        for (int rank = first; rank <= last; rank++) memcpy(all[rank]->out + at * width, result, count * width);
    }
}

static void move(void *to, const void *from, size_t bytes) {
    if (to != from) memmove(to, from, bytes);
}

static void perform(nccl_operation *const *all, int size) {
    const nccl_operation *o = all[0];
    size_t part = o->count * sim_nccl_type_size(o->type);
    int root = o->root;
    if (o->kind == NCCL_ALL_REDUCE) reduce_to(all, size, 0, 0, size - 1);
    if (o->kind == NCCL_REDUCE) reduce_to(all, size, 0, root, root);
    for (int i = 0; i < size; i++) {
        size_t at = (size_t)i * part;
        if (o->kind == NCCL_REDUCE_SCATTER) reduce_to(all, size, (size_t)i * o->count, i, i);
        if (o->kind == NCCL_BROADCAST) move(all[i]->out, all[root]->in, part);
        if (o->kind == NCCL_GATHER) move(all[root]->out + at, all[i]->in, part);
        if (o->kind == NCCL_SCATTER) move(all[i]->out, all[root]->in + at, part);
        for (int j = 0; j < size && o->kind == NCCL_ALL_GATHER; j++) move(all[j]->out + at, all[i]->in, part);
        for (int j = 0; j < size && o->kind == NCCL_ALL_TO_ALL; j++) move(all[j]->out + at, all[i]->in + (size_t)j * part, part);
    }
}

/* ---- meeting ---- */

static void finish(nccl_operation *o) {
    o->done = true;
    o->plan->left--;
}

static bool agree(const nccl_operation *a, const nccl_operation *b) {
    return a->kind == b->kind && a->count == b->count && a->type == b->type && a->operation == b->operation && a->root == b->root;
}

static void report_mismatch(const nccl_operation *a, const nccl_operation *b) {
    sim_hazard("NCCL communicator %llu: rank %d enters %s (count %zu, type %u, operation %u, root %d), rank %d %s (count %zu, type %u, "
               "operation %u, root %d): "
               "they wait until they are aborted",
               (unsigned long long)a->comm->clique->number, a->comm->rank, a->symbol, a->count, a->type, a->operation, a->root,
               b->comm->rank, b->symbol, b->count, b->type, b->operation, b->root);
}

static nccl_round *find_round(nccl_clique *clique, uint64_t number) {
    nccl_round **at = &clique->rounds;
    while (*at && (*at)->number < number) at = &(*at)->next;
    if (*at && (*at)->number == number) return *at;
    nccl_round *round = calloc(1, sizeof *round + (size_t)clique->size * sizeof *round->operations);
    if (!round) return NULL;
    round->number = number;
    round->next = *at;
    *at = round;
    return round;
}

static void remove_round(nccl_clique *clique, nccl_round *round) {
    nccl_round **at = &clique->rounds;
    while (*at != round) at = &(*at)->next;
    *at = round->next;
    free(round);
}

static bool enter_round(nccl_clique *clique, nccl_operation *o) {
    nccl_round *round = find_round(clique, o->comm->collectives_posted++);
    if (!round) return false;
    for (int rank = 0; rank < clique->size && !round->stuck; rank++) {
        if (!round->operations[rank] || agree(round->operations[rank], o)) continue;
        report_mismatch(round->operations[rank], o);
        round->stuck = true;
    }
    round->operations[o->comm->rank] = o;
    if (++round->arrived < clique->size || round->stuck) return true;
    perform(round->operations, clique->size);
    for (int rank = 0; rank < clique->size; rank++) finish(round->operations[rank]);
    remove_round(clique, round);
    return true;
}

/* The oldest message that this one pairs with, or would if it were not stuck behind a mismatch. */
static nccl_operation **find_partner(nccl_clique *clique, const nccl_operation *o) {
    nccl_operation **at = &clique->messages;
    while (*at && ((*at)->kind == o->kind || (*at)->root != o->comm->rank || (*at)->comm->rank != o->root)) at = &(*at)->next_message;
    return at;
}

static bool has_earlier(const nccl_clique *clique, const nccl_operation *o) {
    for (const nccl_operation *other = clique->messages; other; other = other->next_message)
        if (other->kind == o->kind && other->comm == o->comm && other->root == o->root) return true;
    return false;
}

static void enter_message(nccl_clique *clique, nccl_operation *o) {
    nccl_operation **partner = has_earlier(clique, o) ? NULL : find_partner(clique, o);
    if (partner && *partner && !(*partner)->stuck) {
        nccl_operation *other = *partner, *send = o->kind == NCCL_SEND ? o : other, *receive = send == o ? other : o;
        if (o->count == other->count && o->type == other->type) {
            *partner = other->next_message;
            move(receive->out, send->in, send->count * sim_nccl_type_size(send->type));
            finish(o);
            finish(other);
            return;
        }
        report_mismatch(send, receive);
        o->stuck = other->stuck = true;
    }
    nccl_operation **end = &clique->messages;
    while (*end) end = &(*end)->next_message;
    o->next_message = NULL;
    *end = o;
}

static void cancel_message(nccl_clique *clique, nccl_operation *o) {
    nccl_operation **at = &clique->messages;
    while (*at && *at != o) at = &(*at)->next_message;
    if (*at) *at = o->next_message;
}

/* What the plan has posted and nobody has met: its memory is about to be gone. */
static void cancel(nccl_clique *clique, nccl_plan *plan) {
    for (nccl_operation *o = plan->first; o; o = o->next)
        if (!o->done && is_message(o)) cancel_message(clique, o);
    for (nccl_round *round = clique->rounds, *next; round; round = next) {
        next = round->next;
        nccl_operation **mine = &round->operations[plan->comm->rank];
        if (!*mine || (*mine)->plan != plan) continue;
        *mine = NULL;
        if (--round->arrived == 0) remove_round(clique, round);
    }
}

static sim_result post(nccl_clique *clique, nccl_plan *plan) {
    plan->posted = true;
    for (nccl_operation *o = plan->first; o; o = o->next) {
        o->plan = plan;
        plan->left++;
    }
    for (nccl_operation *o = plan->first; o; o = o->next)
        if (!resolve(o)) return SIM_ILLEGAL_ADDRESS;
    for (nccl_operation *o = plan->first; o; o = o->next) {
        if (is_message(o))
            enter_message(clique, o);
        else if (!enter_round(clique, o))
            return SIM_LAUNCH_FAILED;
    }
    sim_gate_bump(&clique->gate);
    return SIM_OK;
}

static bool given_up(const nccl_plan *plan, const sim_stream *stream) {
    return atomic_load_explicit(&plan->comm->aborted, memory_order_relaxed) ||
           atomic_load_explicit(&plan->cancelled, memory_order_relaxed) || sim_stream_ended(stream);
}

static bool its_turn(const nccl_plan *plan) {
    return !plan->posted && plan->arrived == plan->stream_count && plan->comm->plans_done == plan->number;
}

sim_result nccl_plan_run(void *data, sim_stream *stream) {
    nccl_plan *plan = data;
    struct ncclComm *comm = plan->comm;
    nccl_clique *clique = comm->clique;
    sim_result result = SIM_OK;
    pthread_mutex_lock(&clique->lanes);
    plan->arrived++;
    for (;;) {
        uint32_t seen = sim_gate_look(&clique->gate);
        if (given_up(plan, stream) || result != SIM_OK) {
            cancel(clique, plan);
            break;
        }
        if (its_turn(plan)) {
            result = post(clique, plan);
            /* its other streams need not wait */
            if (result != SIM_OK) atomic_store_explicit(&plan->cancelled, true, memory_order_relaxed);
            continue;
        }
        if (plan->posted && plan->left == 0) break;
        pthread_mutex_unlock(&clique->lanes);
        sim_gate_wait(&clique->gate, seen);
        pthread_mutex_lock(&clique->lanes);
    }
    if (comm->plans_done == plan->number) comm->plans_done++;
    sim_gate_bump(&clique->gate);
    pthread_mutex_unlock(&clique->lanes);
    return result;
}

void nccl_plan_drop(void *data) {
    nccl_plan *plan = data;
    struct ncclComm *comm = plan->comm;
    if (atomic_fetch_sub(&plan->references, 1) > 1) return;
    sim_collective_end(comm->device);
    atomic_fetch_add_explicit(&comm->over, 1, memory_order_relaxed);
    sim_gate_bump(&comm->clique->gate);
    nccl_plan_free(plan);
}
