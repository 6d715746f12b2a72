/* Connections: what a plan needs of them, whether the host threads that must take part have come,
 * and the memory that they take. As in NCCL since 2.22, each algorithm of collectives connects when
 * it is first used, and messages when a peer first gets one. */
#include "nccl_sim.h"
#include "state_impl.h"

enum { TREE, RING, SWITCH, ALGORITHMS };
enum { SMALL = 64 << 10, LARGE = 1 << 20 }; /* bytes: below SMALL trees sum, from LARGE on the switch */

/* Not exported: for injection, and for counting. Each connection is a call of it. */
static sim_symbol connecting[] = {{.name = "ncclConnect"}};
static const int codes[] = {MST_NCCL_UNHANDLED_CUDA_ERROR, MST_NCCL_SYSTEM_ERROR, MST_NCCL_INTERNAL_ERROR};

__attribute__((constructor)) static void enlist(void) {
    sim_symbols_add("nccl", connecting, 1, codes, (int)(sizeof codes / sizeof *codes));
}

/* ---- memory ---- */

mst_nccl_result nccl_take_memory(struct ncclComm *comm, size_t bytes) {
    uint64_t address;
    if (comm->block_count == NCCL_BLOCKS) return nccl_fail(MST_NCCL_INTERNAL_ERROR, "more connections than are simulated");
    const sim_result result = sim_memory_allocate(comm->device, bytes, &address);
    if (result == SIM_OUT_OF_MEMORY) return nccl_fail(MST_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure 2 'out of memory'");
    if (result) return nccl_fail(MST_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %u on device %d", result, comm->device);
    comm->blocks[comm->block_count++] = address;
    return MST_NCCL_SUCCESS;
}

void nccl_give_memory(struct ncclComm *comm) {
    while (comm->block_count > 0) sim_memory_release(comm->blocks[--comm->block_count]);
}

/* ---- what a plan needs ---- */

static int algorithm_of(const nccl_operation *o) {
    const size_t one = o->count * sim_nccl_type_size(o->type);
    const bool parts = o->kind == NCCL_ALL_GATHER || o->kind == NCCL_REDUCE_SCATTER;
    const size_t bytes = parts ? one * (size_t)o->comm->clique->size : one;
    if (parts || o->kind == NCCL_ALL_REDUCE) {
        if (bytes >= LARGE) return SWITCH;
        if (bytes < SMALL && !parts) return TREE;
    }
    return RING;
}

static nccl_connections needs_of(const nccl_operation *o) {
    const int size = o->comm->clique->size, rank = o->comm->rank;
    const uint32_t own = 1u << rank % 32, all = (size < 32 ? (1u << size) - 1 : ~0u) & ~own, root = 1u << o->root % 32 & ~own;
    const bool at_root = rank == o->root;
    switch (o->kind) {
    case NCCL_ALL_TO_ALL:
        return (nccl_connections){.to = all, .from = all};
    case NCCL_GATHER:
        return (nccl_connections){.to = at_root ? 0 : root, .from = at_root ? all : 0};
    case NCCL_SCATTER:
        return (nccl_connections){.to = at_root ? all : 0, .from = at_root ? 0 : root};
    case NCCL_SEND:
        return (nccl_connections){.to = root};
    case NCCL_RECV:
        return (nccl_connections){.from = root};
    default:
        return (nccl_connections){.algorithms = size > 1 ? 1u << algorithm_of(o) : 0};
    }
}

static nccl_connections missing(const nccl_operation *o) {
    const nccl_connections needs = needs_of(o), made = o->comm->made;
    return (nccl_connections){needs.algorithms & ~made.algorithms, needs.to & ~made.to, needs.from & ~made.from};
}

static bool is_none(nccl_connections c) { return !c.algorithms && !c.to && !c.from; }

/* ---- the other ranks' host threads ---- */

void nccl_announce(const nccl_plan *plan) {
    for (const nccl_operation *o = plan->first; o; o = o->next) {
        if (o->kind == NCCL_SEND) atomic_fetch_or_explicit(&plan->comm->sends, 1u << o->root % 32, memory_order_relaxed);
        if (o->kind == NCCL_RECV) atomic_fetch_or_explicit(&plan->comm->receives, 1u << o->root % 32, memory_order_relaxed);
    }
}

static bool message_has_come(const nccl_operation *o) {
    struct ncclComm *peer = o->comm->clique->ranks[o->root];
    if (!peer) return false;
    return atomic_load_explicit(o->kind == NCCL_SEND ? &peer->receives : &peer->sends, memory_order_relaxed) >> o->comm->rank % 32 & 1;
}

static bool collective_has_come(const nccl_clique *clique, uint64_t number) {
    for (int rank = 0; rank < clique->size; rank++)
        if (!clique->ranks[rank] || atomic_load_explicit(&clique->ranks[rank]->announced, memory_order_relaxed) <= number) return false;
    return true;
}

bool nccl_can_connect(const nccl_plan *plan) {
    uint64_t number = plan->first_collective;
    for (const nccl_operation *o = plan->first; o; o = o->next) {
        const bool message = o->kind >= NCCL_SEND;
        if (!is_none(missing(o)) && !(message ? message_has_come(o) : collective_has_come(plan->comm->clique, number))) return false;
        number += !message;
    }
    return true;
}

/* ---- making them ---- */

/* One connection, whose bit of `made` is `bit`. */
static mst_nccl_result make(struct ncclComm *comm, uint32_t *made, uint32_t bit, size_t bytes) {
    const mst_nccl_result injected = sim_enter(connecting, comm->device);
    if (injected == MST_NCCL_IN_PROGRESS) comm->polls = NCCL_HANGS;
    if (injected == MST_NCCL_SYSTEM_ERROR)
        return nccl_fail(injected,
                         "Error while creating shared memory segment /dev/shm/nccl-XXXXXX (size 9637888), injected into ncclConnect");
    if (injected) return nccl_fail(injected, "injected into ncclConnect");
    const mst_nccl_result result = nccl_take_memory(comm, bytes);
    if (result == MST_NCCL_SUCCESS) *made |= bit;
    return result;
}

static mst_nccl_result make_each(struct ncclComm *comm, uint32_t *made, uint32_t bits, size_t bytes) {
    mst_nccl_result result = MST_NCCL_SUCCESS;
    for (int i = 0; i < 32 && result == MST_NCCL_SUCCESS; i++)
        if (bits >> i & 1) result = make(comm, made, 1u << i, bytes);
    return result;
}

mst_nccl_result nccl_connect(const nccl_plan *plan) {
    struct ncclComm *comm = plan->comm;
    mst_nccl_result result = MST_NCCL_SUCCESS;
    for (const nccl_operation *o = plan->first; o && result == MST_NCCL_SUCCESS; o = o->next) {
        const nccl_connections lacks = missing(o);
        result = make_each(comm, &comm->made.algorithms, lacks.algorithms, NCCL_ALGORITHM_BYTES);
        if (result == MST_NCCL_SUCCESS) result = make_each(comm, &comm->made.to, lacks.to, NCCL_PEER_BYTES);
        if (result == MST_NCCL_SUCCESS) result = make_each(comm, &comm->made.from, lacks.from, NCCL_PEER_BYTES);
    }
    return result;
}
