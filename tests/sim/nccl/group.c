/* Groups: what a thread has noted, and how it gets into the streams. */
#include "nccl_sim.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WAITING = 64, MOST_ENDING = 256 };

typedef struct nccl_group {
    uint64_t machine; /* the group is of this machine, else of one that was reset */
    int depth;
    bool hangs;
    mst_nccl_result error;
    nccl_operation *first, *last;
    struct ncclComm *waiting[MOST_WAITING]; /* start or split */
    int waiting_count;
    struct {
        struct ncclComm *comm;
        bool abort;
    } ending[MOST_ENDING];
    int ending_count;
    int blocking;     /* of all its communicators; -1: none yet */
    uint32_t devices; /* that sim_nccl_begin was called for */
} nccl_group;

static _Thread_local nccl_group group;
static _Atomic uint64_t machine;

void nccl_group_forget(void) { atomic_fetch_add(&machine, 1); }

static void clear(void) {
    for (nccl_operation *o = group.first, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    group = (nccl_group){.machine = atomic_load(&machine), .blocking = -1};
}

int nccl_group_depth(void) { return group.machine == atomic_load(&machine) ? group.depth : 0; }

void nccl_group_start(void) {
    if (group.depth == 0 || group.machine != atomic_load(&machine)) clear();
    group.depth++;
}

void nccl_group_hang(void) { group.hangs = true; }

/* ---- noting ---- */

static mst_nccl_result join_group(struct ncclComm *comm) {
    if (group.blocking >= 0 && group.blocking != (int)comm->blocking)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "Blocking and nonblocking communicators are not allowed in the same group.");
    group.blocking = comm->blocking;
    return MST_NCCL_SUCCESS;
}

mst_nccl_result nccl_group_wait_for(struct ncclComm *comm) {
    mst_nccl_result result = join_group(comm);
    if (result != MST_NCCL_SUCCESS) return result;
    if (group.waiting_count == MOST_WAITING)
        return nccl_fail(MST_NCCL_INVALID_USAGE, "more than %d communicators in one group", MOST_WAITING);
    group.waiting[group.waiting_count++] = comm;
    return MST_NCCL_SUCCESS;
}

/* As in NCCL, such a group blocks, whatever its communicators do. */
mst_nccl_result nccl_group_add_end(struct ncclComm *comm, bool abort) {
    if (group.ending_count == MOST_ENDING)
        return nccl_fail(MST_NCCL_INVALID_USAGE, "more than %d communicators end in one group", MOST_ENDING);
    group.ending[group.ending_count].comm = comm;
    group.ending[group.ending_count++].abort = abort;
    return MST_NCCL_SUCCESS;
}

mst_nccl_result nccl_group_add(const nccl_operation *operation) {
    struct ncclComm *comm = operation->comm;
    mst_nccl_result result = join_group(comm);
    if (result != MST_NCCL_SUCCESS) return result;
    if (!(group.devices & 1u << comm->device)) sim_nccl_begin(comm->device, operation->symbol);
    group.devices |= 1u << comm->device;
    /* as NCCL: it is not even noted */
    if (operation->count == 0 && operation->kind < NCCL_SEND) return MST_NCCL_SUCCESS;
    nccl_operation *copy = malloc(sizeof *copy);
    if (!copy) return nccl_fail(MST_NCCL_SYSTEM_ERROR, "out of memory");
    *copy = *operation;
    copy->next = NULL;
    if (group.last)
        group.last->next = copy;
    else
        group.first = copy;
    group.last = copy;
    return MST_NCCL_SUCCESS;
}

/* ---- plans ---- */

void nccl_plan_free(nccl_plan *plan) {
    /* it was counted, and has never come into a stream */
    if (plan->counted) atomic_fetch_add_explicit(&plan->comm->over, 1, memory_order_relaxed);
    for (nccl_operation *o = plan->first, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(plan);
}

static void free_plans(nccl_plan *plans) {
    for (nccl_plan *plan = plans, *next; plan; plan = next) {
        next = plan->next;
        nccl_plan_free(plan);
    }
}

static nccl_plan *plan_of(nccl_plan **plans, struct ncclComm *comm) {
    nccl_plan **at = plans;
    while (*at && (*at)->comm != comm) at = &(*at)->next;
    if (!*at && (*at = calloc(1, sizeof **at)) != NULL) (*at)->comm = comm;
    return *at;
}

static bool add_stream(nccl_plan *plan, sim_stream *stream) {
    for (int i = 0; i < plan->stream_count; i++)
        if (plan->streams[i] == stream) return true;
    if (plan->stream_count == (int)(sizeof plan->streams / sizeof *plan->streams)) return false;
    plan->streams[plan->stream_count++] = stream;
    return true;
}

/* The group's operations, by communicator; in the order of each one's first. */
static mst_nccl_result make_plans(nccl_plan **plans) {
    while (group.first) {
        nccl_operation *o = group.first;
        nccl_plan *plan = plan_of(plans, o->comm);
        if (!plan) return nccl_fail(MST_NCCL_SYSTEM_ERROR, "out of memory");
        if (!add_stream(plan, o->stream)) return nccl_fail(MST_NCCL_INVALID_USAGE, "more streams in a group than are simulated");
        group.first = o->next;
        if (!group.first) group.last = NULL;
        o->next = NULL;
        if (plan->last)
            plan->last->next = o;
        else
            plan->first = o;
        plan->last = o;
        plan->collectives += o->kind < NCCL_SEND;
    }
    return MST_NCCL_SUCCESS;
}

static mst_nccl_result check_messages_to_itself(const nccl_plan *plan) {
    int balance = 0;
    for (const nccl_operation *o = plan->first; o; o = o->next)
        if (o->kind >= NCCL_SEND && o->root == o->comm->rank) balance += o->kind == NCCL_SEND ? 1 : -1;
    if (balance > 0) return nccl_fail(MST_NCCL_INVALID_USAGE, "Trying to send to self without a matching recv");
    if (balance < 0) return nccl_fail(MST_NCCL_INVALID_USAGE, "Trying to recv to self without a matching send");
    return MST_NCCL_SUCCESS;
}

static void number_plan(nccl_plan *plan) {
    struct ncclComm *comm = plan->comm;
    plan->number = atomic_fetch_add_explicit(&comm->plans, 1, memory_order_relaxed);
    plan->counted = true;
    plan->first_collective = comm->collectives;
    comm->collectives += (uint64_t)plan->collectives;
    atomic_store_explicit(&comm->announced, comm->collectives, memory_order_relaxed);
    nccl_announce(plan);
}

/* Does this collective wait for the ranks' host threads although it connects nothing? By chance,
 * the same for all ranks. */
static bool waits(const nccl_clique *clique, uint64_t collective) {
    uint64_t state = sim_seed() ^ clique->number << 40 ^ collective;
    return sim_random(&state) % 8 == 0;
}

static bool peers_have_come(const nccl_plan *plan) {
    const nccl_clique *clique = plan->comm->clique;
    if (!nccl_can_connect(plan)) return false;
    if (plan->collectives == 0 || !waits(clique, plan->first_collective)) return true;
    for (int rank = 0; rank < clique->size; rank++)
        if (atomic_load_explicit(&clique->ranks[rank]->announced, memory_order_relaxed) <= plan->first_collective) return false;
    return true;
}

/* ---- issuing ---- */

static void list_uses(const nccl_plan *plan, sim_entry *entry) {
    for (const nccl_operation *o = plan->first; o && entry->use_count + 2 <= SIM_USES_MAX; o = o->next) {
        size_t in, out;
        nccl_bytes(o, &in, &out);
        if (in) entry->uses[entry->use_count++] = (sim_use){o->from, in};
        if (out) entry->uses[entry->use_count++] = (sim_use){o->to, out};
    }
}

/* The devices that the plan meets: of messages those of their peers. */
static uint32_t devices_of(const nccl_plan *plan) {
    const nccl_clique *clique = plan->comm->clique;
    uint32_t devices = 1u << plan->comm->device;
    if (plan->collectives > 0) return clique->devices;
    for (const nccl_operation *o = plan->first; o; o = o->next) devices |= 1u << clique->ranks[o->root]->device;
    return devices;
}

static void check_started(const nccl_plan *plan) {
    const nccl_clique *clique = plan->comm->clique;
    if (atomic_load_explicit(&clique->ready, memory_order_relaxed) < clique->size)
        sim_hazard("%s: issued on device %d while other ranks of communicator %llu still start: a barrier belongs between",
                   plan->first->symbol, plan->comm->device, (unsigned long long)clique->number);
}

static mst_nccl_result issue(nccl_plan *plan) {
    struct ncclComm *comm = plan->comm;
    nccl_clique *clique = comm->clique;
    sim_stream *streams[sizeof plan->streams / sizeof *plan->streams];
    int count = plan->stream_count, device = comm->device;
    sim_result result = SIM_OK;
    sim_entry entry = {.what = plan->first->symbol, .run = nccl_plan_run, .drop = nccl_plan_drop, .data = plan};
    plan->counted = false; /* from now on its end counts */
    memcpy(streams, plan->streams, sizeof streams);
    list_uses(plan, &entry);
    atomic_store(&plan->references, count);
    for (int i = 0; i < count; i++) sim_issue_begin(streams[i], entry.what);
    sim_communicator_used(clique->number, device, devices_of(plan));
    sim_collective_begin(device, entry.what);
    for (int i = 0; i < count; i++) { /* the last push gives the plan away */
        if (result == SIM_OK) result = sim_stream_push(streams[i], &entry);
        if (result == SIM_OK) continue;
        atomic_store_explicit(&plan->cancelled, true, memory_order_relaxed);
        nccl_plan_drop(plan);
    }
    for (int i = 0; i < count; i++) sim_issue_end(streams[i]);
    return result == SIM_OK ? MST_NCCL_SUCCESS : nccl_fail(MST_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %u on device %d", result, device);
}

static mst_nccl_result may_go(const nccl_plan *plan) {
    struct ncclComm *comm = plan->comm;
    if (atomic_load_explicit(&comm->aborted, memory_order_relaxed))
        return nccl_fail(MST_NCCL_INTERNAL_ERROR, "the communicator is aborted");
    if (sim_device_error(comm->device))
        return nccl_fail(MST_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %u on device %d", sim_device_error(comm->device), comm->device);
    return peers_have_come(plan) ? MST_NCCL_SUCCESS : MST_NCCL_IN_PROGRESS;
}

mst_nccl_result nccl_job_issue(nccl_plan **plans, bool wait) {
    for (const nccl_plan *plan = *plans; plan;) {
        uint32_t seen = nccl_look();
        mst_nccl_result result = may_go(plan);
        if (result == MST_NCCL_SUCCESS)
            plan = plan->next;
        else if (result != MST_NCCL_IN_PROGRESS || !wait)
            return result;
        else
            nccl_wait_a_moment(seen);
    }
    mst_nccl_result result = MST_NCCL_SUCCESS;
    for (const nccl_plan *plan = *plans; plan && result == MST_NCCL_SUCCESS; plan = plan->next) result = nccl_connect(plan);
    while (*plans && result == MST_NCCL_SUCCESS) {
        nccl_plan *plan = *plans;
        *plans = plan->next;
        result = issue(plan);
    }
    return result;
}

static mst_nccl_result leave_for_later(nccl_plan **plans) {
    nccl_job *job = calloc(1, sizeof *job);
    if (!job) return nccl_fail(MST_NCCL_SYSTEM_ERROR, "out of memory");
    job->plans = *plans;
    *plans = NULL;
    for (nccl_plan *plan = job->plans; plan && job->user_count < NCCL_JOB_USERS; plan = plan->next) {
        struct ncclComm *comm = job->users[job->user_count++] = plan->comm;
        comm->job = job;
        comm->pending = NCCL_ISSUING;
        if (comm->polls != NCCL_HANGS) comm->polls = group.hangs ? NCCL_HANGS : (int)(sim_random(&comm->random) % 4);
        atomic_store_explicit(&comm->state, MST_NCCL_IN_PROGRESS, memory_order_relaxed);
    }
    return MST_NCCL_IN_PROGRESS;
}

static mst_nccl_result run_operations(void) {
    nccl_plan *plans = NULL;
    mst_nccl_result result = make_plans(&plans);
    for (nccl_plan *plan = plans; plan && result == MST_NCCL_SUCCESS; plan = plan->next) result = check_messages_to_itself(plan);
    if (result == MST_NCCL_SUCCESS && plans) {
        for (nccl_plan *plan = plans; plan; plan = plan->next) {
            check_started(plan);
            number_plan(plan);
        }
        nccl_bump();
        bool later = group.blocking == 0 && (sim_random(&plans->comm->random) % 2 || group.hangs);
        result = later ? MST_NCCL_IN_PROGRESS : nccl_job_issue(&plans, group.blocking != 0);
        if (result == MST_NCCL_IN_PROGRESS) result = leave_for_later(&plans);
    }
    free_plans(plans);
    return result;
}

static mst_nccl_result run_waits(void) {
    mst_nccl_result result = MST_NCCL_SUCCESS;
    for (int i = 0; i < group.waiting_count; i++) {
        mst_nccl_result one = nccl_progress(group.waiting[i], group.waiting[i]->blocking);
        if (result == MST_NCCL_SUCCESS || (result == MST_NCCL_IN_PROGRESS && one != MST_NCCL_SUCCESS)) result = one;
    }
    return result;
}

static mst_nccl_result run_group(void) {
    if (group.error != MST_NCCL_SUCCESS) return group.error;
    if (group.first && group.waiting_count) {
        sim_hazard("a group holds both operations and the making of communicators");
        return nccl_fail(MST_NCCL_INVALID_USAGE, "operations and the making of communicators in one group");
    }
    return group.waiting_count ? run_waits() : run_operations();
}

mst_nccl_result nccl_group_end(mst_nccl_result result) {
    if (result != MST_NCCL_SUCCESS && result != MST_NCCL_IN_PROGRESS) group.error = result;
    if (--group.depth > 0) return result;
    result = run_group();
    for (int i = 0; i < group.ending_count; i++) nccl_reclaim(group.ending[i].comm, group.ending[i].abort);
    for (int device = 0; device < MUSTER_SIM_DEVICES_MAX; device++)
        if (group.devices & 1u << device) sim_nccl_end(device);
    clear();
    return result;
}
