/* The host side: unique ids, making and ending communicators. */
#include "nccl_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t nccl_lock = PTHREAD_MUTEX_INITIALIZER;
static sim_gate host_gate;
static nccl_clique *cliques;
static struct ncclComm *communicators;
static uint64_t ids_made, cliques_made;

uint32_t nccl_look(void) { return sim_gate_look(&host_gate); }
void nccl_wait_a_moment(uint32_t seen) { sim_gate_wait(&host_gate, seen); }
void nccl_bump(void) { sim_gate_bump(&host_gate); }

/* ---- ids ---- */

static const char id_text[] = "simulated NCCL id";

mst_nccl_result nccl_id_make(mst_nccl_id *id) {
    pthread_mutex_lock(&nccl_lock);
    uint64_t number = ++ids_made;
    pthread_mutex_unlock(&nccl_lock);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%s %llu of %llx", id_text, (unsigned long long)number, (unsigned long long)sim_seed());
    return MST_NCCL_SUCCESS;
}

/* ---- cliques; under the lock ---- */

static nccl_clique *make_clique(int size) {
    nccl_clique *clique = calloc(1, sizeof *clique);
    if (!clique) return NULL;
    clique->ranks = calloc((size_t)size, sizeof *clique->ranks);
    if (!clique->ranks) {
        free(clique);
        return NULL;
    }
    clique->size = size;
    clique->number = ++cliques_made;
    pthread_mutex_init(&clique->lanes, NULL);
    clique->next = cliques;
    return cliques = clique;
}

static nccl_clique *clique_of(const mst_nccl_id *id, int size) {
    for (nccl_clique *clique = cliques; clique; clique = clique->next)
        if (memcmp(&clique->id, id, sizeof *id) == 0) return clique;
    nccl_clique *clique = make_clique(size);
    if (clique) clique->id = *id;
    return clique;
}

static struct ncclComm *make_communicator(nccl_clique *clique, int rank, int device, bool blocking) {
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm) return NULL;
    comm->magic = NCCL_COMM_MAGIC;
    comm->clique = clique;
    comm->rank = rank;
    comm->device = device;
    comm->blocking = blocking;
    comm->random = sim_seed() + clique->number * 1000 + (uint64_t)rank;
    comm->next = communicators;
    communicators = comm;
    sim_handle_made(NCCL_KIND, device);
    return comm;
}

/* 0 to 3 */
static int some_polls(struct ncclComm *comm) { return (int)(sim_random(&comm->random) % 4); }

void nccl_pending_begin(struct ncclComm *comm, nccl_pending pending) {
    comm->pending = pending;
    comm->polls = some_polls(comm);
    atomic_store_explicit(&comm->state, MST_NCCL_IN_PROGRESS, memory_order_relaxed);
}

static void take_place(nccl_clique *clique, struct ncclComm *comm, int size) {
    if (clique->size != size || clique->ranks[comm->rank]) {
        clique->spoiled = true;
        sim_hazard("NCCL communicator %llu: rank %d of %d comes where there are %d ranks%s: nobody will get out of ncclCommInitRankConfig "
                   "but by an abort",
                   (unsigned long long)clique->number, comm->rank, size, clique->size,
                   clique->size == size ? " and one of this number already" : "");
        return;
    }
    clique->ranks[comm->rank] = comm;
    clique->joined++;
    clique->devices |= 1u << comm->device;
}

/* ---- starting ---- */

static mst_nccl_result check_config(const mst_nccl_config *c) {
    if (!c) return MST_NCCL_SUCCESS;
    if (c->size < offsetof(mst_nccl_config, blocking) + sizeof c->blocking || c->magic != MST_NCCL_MAGIC)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    if (c->blocking != MST_NCCL_UNDEFINED && c->blocking != 0 && c->blocking != 1)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "Invalid config blocking attribute value %d", c->blocking);
    if (c->size < sizeof *c) return MST_NCCL_SUCCESS;
    bool least = c->min_ctas != MST_NCCL_UNDEFINED, most = c->max_ctas != MST_NCCL_UNDEFINED;
    if ((least && c->min_ctas <= 0) || (most && c->max_ctas <= 0) || (least && most && c->min_ctas > c->max_ctas))
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "Invalid config min/max channels attribute value %d/%d", c->min_ctas, c->max_ctas);
    if (c->split_share != MST_NCCL_UNDEFINED && c->split_share != 0 && c->split_share != 1)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "Invalid config splitShare attribute value %d", c->split_share);
    return MST_NCCL_SUCCESS;
}

static bool blocks(const mst_nccl_config *config, bool otherwise) {
    return !config || config->blocking == MST_NCCL_UNDEFINED ? otherwise : config->blocking != 0;
}

static mst_nccl_result join_clique(struct ncclComm **comm, int size, const mst_nccl_id *id, int rank, bool blocking) {
    int device = sim_current_device() < 0 ? 0 : sim_current_device(); /* as the CUDA runtime takes it */
    if (sim_device_error(device))
        return nccl_fail(MST_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %u on device %d", sim_device_error(device), device);
    nccl_clique *clique = clique_of(id, size);
    if (clique && clique->joined == clique->size) return nccl_fail(MST_NCCL_SYSTEM_ERROR, "the id was used for a communicator before");
    *comm = clique ? make_communicator(clique, rank, device, blocking) : NULL;
    if (!*comm) return nccl_fail(MST_NCCL_SYSTEM_ERROR, "out of memory");
    take_place(clique, *comm, size);
    nccl_pending_begin(*comm, NCCL_STARTING);
    nccl_bump();
    return MST_NCCL_SUCCESS;
}

mst_nccl_result nccl_join(struct ncclComm **comm, int size, const mst_nccl_id *id, int rank, const mst_nccl_config *config, bool hangs) {
    if (!comm) return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "CommInitRank : newcomm argument is NULL");
    *comm = NULL;
    if (size < 1 || size > NCCL_RANKS_MAX || rank < 0 || rank >= size)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "Invalid rank requested : %d/%d", rank, size);
    if (strncmp(id->internal, id_text, sizeof id_text - 1) != 0)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "the id is none of ncclGetUniqueId");
    mst_nccl_result result = check_config(config);
    if (result != MST_NCCL_SUCCESS) return result;
    sim_hazard_creation("ncclCommInitRankConfig");
    pthread_mutex_lock(&nccl_lock);
    result = join_clique(comm, size, id, rank, blocks(config, true));
    if (result == MST_NCCL_SUCCESS && hangs) (*comm)->polls = NCCL_HANGS;
    pthread_mutex_unlock(&nccl_lock);
    return result == MST_NCCL_SUCCESS ? nccl_group_wait_for(*comm) : result;
}

/* How the start of this rank has ended. As in NCCL, only the ranks that share a device are told of
 * it; the others find that a peer has gone. */
static mst_nccl_result started(const struct ncclComm *comm) {
    const nccl_clique *clique = comm->clique;
    if (clique->spoiled || clique->joined < clique->size) return MST_NCCL_IN_PROGRESS;
    uint32_t seen = 0, twice = 0;
    for (int rank = 0; rank < clique->size; rank++) {
        uint32_t bit = 1u << clique->ranks[rank]->device;
        twice |= seen & bit;
        seen |= bit;
    }
    if (twice & 1u << comm->device)
        return nccl_fail(MST_NCCL_INVALID_USAGE, "Duplicate GPU detected : rank %d and another both on CUDA device %s", comm->rank,
                         sim_device_pci(comm->device));
    return twice ? nccl_fail(MST_NCCL_REMOTE_ERROR, "rank %d: a peer has closed its connection", comm->rank) : MST_NCCL_SUCCESS;
}

/* ---- splitting ---- */

static nccl_split *split_of(nccl_clique *clique, uint64_t number) {
    for (nccl_split *split = clique->splits; split; split = split->next)
        if (split->number == number) return split;
    nccl_split *split = calloc(1, sizeof *split + (size_t)clique->size * sizeof split->ranks[0]);
    if (!split) return NULL;
    split->number = number;
    split->next = clique->splits;
    return clique->splits = split;
}

/* The place of a rank among those of its color: by key, then by rank. */
static int place_in_part(const nccl_split *split, int size, int rank, int *part_size) {
    int place = 0;
    *part_size = 0;
    for (int other = 0; other < size; other++) {
        if (split->ranks[other].color != split->ranks[rank].color) continue;
        ++*part_size;
        place += split->ranks[other].key < split->ranks[rank].key || (split->ranks[other].key == split->ranks[rank].key && other < rank);
    }
    return place;
}

static bool make_parts(const nccl_clique *clique, nccl_split *split) {
    for (int rank = 0; rank < clique->size; rank++) {
        if (split->ranks[rank].color < 0 || split->ranks[rank].child) continue;
        nccl_clique *part = NULL;
        for (int other = rank; other < clique->size; other++) {
            if (split->ranks[other].color != split->ranks[rank].color) continue;
            int size, place = place_in_part(split, clique->size, other, &size);
            if (!part && !(part = make_clique(size))) return false;
            struct ncclComm *child = make_communicator(part, place, clique->ranks[other]->device, split->ranks[other].blocking);
            if (!child) return false;
            take_place(part, child, size);
            split->ranks[other].child = child;
        }
    }
    return split->done = true;
}

static mst_nccl_result enter_split(struct ncclComm *comm, int color, int key, bool blocking) {
    nccl_split *split = split_of(comm->clique, comm->splits++);
    if (!split) return nccl_fail(MST_NCCL_SYSTEM_ERROR, "out of memory");
    split->ranks[comm->rank].in = true;
    split->ranks[comm->rank].color = color;
    split->ranks[comm->rank].key = key;
    split->ranks[comm->rank].blocking = blocking;
    if (++split->arrived == comm->clique->size && !make_parts(comm->clique, split))
        return nccl_fail(MST_NCCL_SYSTEM_ERROR, "out of memory");
    comm->split = split;
    nccl_pending_begin(comm, NCCL_SPLITTING);
    nccl_bump();
    return MST_NCCL_SUCCESS;
}

mst_nccl_result nccl_split_enter(struct ncclComm *comm, int color, int key, struct ncclComm **part, const mst_nccl_config *config) {
    if (!part) return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "CommSplit : newcomm argument is NULL");
    *part = NULL;
    if (color < MST_NCCL_NO_COLOR) return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "CommSplit : invalid color %d", color);
    mst_nccl_result result = check_config(config);
    if (result != MST_NCCL_SUCCESS) return result;
    sim_hazard_creation("ncclCommSplit");
    pthread_mutex_lock(&nccl_lock);
    result = enter_split(comm, color, key, blocks(config, comm->blocking));
    pthread_mutex_unlock(&nccl_lock);
    comm->part = part;
    return result == MST_NCCL_SUCCESS ? nccl_group_wait_for(comm) : result;
}

static mst_nccl_result split_done(struct ncclComm *comm) {
    if (!comm->split->done) return MST_NCCL_IN_PROGRESS;
    struct ncclComm *child = comm->split->ranks[comm->rank].child;
    *comm->part = child;
    if (!child) return MST_NCCL_SUCCESS;
    atomic_fetch_add_explicit(&child->clique->ready, 1, memory_order_relaxed);
    return nccl_take_memory(child, NCCL_START_BYTES);
}

/* ---- progress ---- */

bool nccl_all_over(struct ncclComm *comm) {
    return atomic_load_explicit(&comm->over, memory_order_relaxed) >= atomic_load_explicit(&comm->plans, memory_order_relaxed);
}

static mst_nccl_result advance(struct ncclComm *comm, bool wait) {
    mst_nccl_result result = MST_NCCL_SUCCESS;
    if (sim_device_error(comm->device))
        return nccl_fail(MST_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %u on device %d", sim_device_error(comm->device), comm->device);
    if (comm->pending == NCCL_ISSUING) return nccl_job_issue(&comm->job->plans, wait);
    if (comm->pending == NCCL_ENDING) return nccl_all_over(comm) ? MST_NCCL_SUCCESS : MST_NCCL_IN_PROGRESS;
    pthread_mutex_lock(&nccl_lock);
    if (comm->pending == NCCL_STARTING)
        result = started(comm);
    else if (comm->pending == NCCL_SPLITTING)
        result = split_done(comm);
    pthread_mutex_unlock(&nccl_lock);
    if (result == MST_NCCL_SUCCESS && comm->pending == NCCL_STARTING) result = nccl_take_memory(comm, NCCL_START_BYTES);
    return result;
}

void nccl_pending_end(struct ncclComm *comm, mst_nccl_result result) {
    if (comm->pending == NCCL_STARTING && result == MST_NCCL_SUCCESS)
        atomic_fetch_add_explicit(&comm->clique->ready, 1, memory_order_relaxed);
    nccl_job *job = comm->job;
    for (int i = 0; job && i < job->user_count; i++) {
        struct ncclComm *user = job->users[i];
        user->job = NULL;
        user->pending = NCCL_IDLE;
        atomic_store_explicit(&user->state, result, memory_order_relaxed);
    }
    for (nccl_plan *plan = job ? job->plans : NULL, *next; plan; plan = next) {
        next = plan->next;
        nccl_plan_free(plan);
    }
    free(job);
    comm->pending = NCCL_IDLE;
    atomic_store_explicit(&comm->state, result, memory_order_relaxed);
}

mst_nccl_result nccl_progress(struct ncclComm *comm, bool wait) {
    while (comm->pending != NCCL_IDLE) {
        uint32_t seen = nccl_look();
        if (!wait && comm->polls > 0) {
            comm->polls -= comm->polls != NCCL_HANGS;
            return MST_NCCL_IN_PROGRESS;
        }
        mst_nccl_result result = atomic_load_explicit(&comm->aborted, memory_order_relaxed) ? MST_NCCL_INTERNAL_ERROR : advance(comm, wait);
        if (result == MST_NCCL_IN_PROGRESS && !wait) return result;
        if (result == MST_NCCL_IN_PROGRESS)
            nccl_wait_a_moment(seen);
        else
            nccl_pending_end(comm, result);
    }
    mst_nccl_result state = atomic_load_explicit(&comm->state, memory_order_relaxed);
    if (state == MST_NCCL_SUCCESS && sim_device_error(comm->device)) state = MST_NCCL_UNHANDLED_CUDA_ERROR;
    return state;
}

/* ---- checking ---- */

mst_nccl_result nccl_check(struct ncclComm *comm, const char *symbol) {
    if (!comm) return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "%s : comm argument is NULL", symbol);
    if (comm->magic == NCCL_COMM_MAGIC && !atomic_load_explicit(&comm->gone, memory_order_relaxed)) return MST_NCCL_SUCCESS;
    sim_hazard("%s: the communicator was destroyed or aborted before", symbol);
    return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "Error: corrupted comm object detected");
}

mst_nccl_result nccl_check_ready(struct ncclComm *comm, const char *symbol) {
    mst_nccl_result result = nccl_check(comm, symbol);
    if (result != MST_NCCL_SUCCESS) return result;
    mst_nccl_result state = atomic_load_explicit(&comm->state, memory_order_relaxed);
    if (state != MST_NCCL_IN_PROGRESS) return state;
    return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "Attempt to use communicator before the previous operation returned ncclSuccess");
}

/* ---- reset ---- */

static void free_clique(nccl_clique *clique) {
    for (nccl_split *split = clique->splits, *next; split; split = next) {
        next = split->next;
        free(split);
    }
    for (nccl_round *round = clique->rounds, *next; round; round = next) {
        next = round->next;
        free(round);
    }
    pthread_mutex_destroy(&clique->lanes);
    free(clique->ranks);
    free(clique);
}

static void forget(void) {
    nccl_endings_leave();
    pthread_mutex_lock(&nccl_lock);
    nccl_group_forget();
    for (struct ncclComm *comm = communicators; comm; comm = comm->next)
        if (comm->job) nccl_pending_end(comm, MST_NCCL_INTERNAL_ERROR);
    for (struct ncclComm *comm = communicators, *next; comm; comm = next) {
        next = comm->next;
        free(comm);
    }
    for (nccl_clique *clique = cliques, *next; clique; clique = next) {
        next = clique->next;
        free_clique(clique);
    }
    communicators = NULL;
    cliques = NULL;
    pthread_mutex_unlock(&nccl_lock);
}

__attribute__((constructor)) static void enlist(void) { sim_on_reset(forget); }
