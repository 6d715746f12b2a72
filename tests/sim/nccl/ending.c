/* The end of communicators. Nothing of a clique is freed here but its device memory: see the head
 * of nccl_sim.h. */
#include "nccl_sim.h"

#include <time.h>

static atomic_int reclaiming; /* threads in nccl_reclaim */

mst_nccl_result nccl_finalize(struct ncclComm *comm, bool hangs) {
    if (comm->finalized) return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "the communicator has been finalized before");
    comm->finalized = true;
    nccl_pending_begin(comm, NCCL_ENDING);
    if (hangs) comm->polls = NCCL_HANGS;
    return nccl_progress(comm, comm->blocking);
}

/* A rank that still starts waits for a peer that has been aborted, until it is aborted, too. */
static void abort_rank(struct ncclComm *comm) {
    atomic_store_explicit(&comm->aborted, true, memory_order_relaxed);
    pthread_mutex_lock(&nccl_lock);
    if (comm->clique->joined < comm->clique->size) comm->clique->spoiled = true;
    pthread_mutex_unlock(&nccl_lock);
}

mst_nccl_result nccl_end(struct ncclComm *comm, bool abort) {
    nccl_clique *clique = comm->clique;
    if (abort) abort_rank(comm);
    /* else a thread waits in it, and will find that it is aborted */
    if (!comm->blocking && comm->pending != NCCL_IDLE) nccl_pending_end(comm, MST_NCCL_INTERNAL_ERROR);
    atomic_store_explicit(&comm->gone, true, memory_order_relaxed);
    sim_gate_bump(&clique->gate);
    nccl_bump();
    sim_handle_gone(NCCL_KIND, comm->device);
    if (abort) sim_communicator_aborted(clique->number);
    return nccl_group_add_end(comm, abort);
}

/* What NCCL does in the host for a rank that has not finalized: it waits for a stream of its own,
 * which ends with the last operation of the communicator, and so for all that is in front of it. */
static void wait_over(const nccl_clique *clique, bool abort) {
    bool said = abort;
    for (int rank = 0; rank < clique->size; rank++) {
        struct ncclComm *comm = clique->ranks[rank]; /* NULL: ranks that contradict each other have come */
        while (comm && !comm->finalized && !nccl_all_over(comm)) {
            if (!said) sim_hazard_waits("ncclCommDestroy");
            said = true;
            nccl_wait_a_moment(nccl_look());
        }
    }
}

/* Acquire and release, as NCCL counts its ranks: the last one reads what the others wrote. */
void nccl_reclaim(struct ncclComm *comm, bool abort) {
    nccl_clique *clique = comm->clique;
    atomic_fetch_add(&reclaiming, 1);
    if (atomic_fetch_add_explicit(&clique->gone, 1, memory_order_acq_rel) + 1 == clique->size) {
        wait_over(clique, abort);
        for (int rank = 0; rank < clique->size; rank++)
            if (clique->ranks[rank]) nccl_give_memory(clique->ranks[rank]);
    }
    atomic_fetch_sub(&reclaiming, 1);
}

void nccl_endings_leave(void) {
    while (atomic_load(&reclaiming) > 0) nanosleep(&(struct timespec){0, 100000}, NULL);
}
