#include "nodes_play.h"

#include "clock.h"

#include <sched.h>
#include <stdio.h>

const char *const nodes_mpi_symbol = "muster_bench_nodes_mpi";

/* The ranks of a process. They may be more than its cores, so nobody spins for long. */
static void wait_inside(nodes_rendezvous *all) {
    const uint32_t generation = __atomic_load_n(&all->generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&all->arrived, 1, __ATOMIC_ACQ_REL) == all->ranks) {
        all->arrived = 0;
        __atomic_store_n(&all->generation, generation + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int tries = 0; __atomic_load_n(&all->generation, __ATOMIC_ACQUIRE) == generation; tries++) {
        if (tries < 1000)
            bench_relax();
        else
            sched_yield();
    }
}

/* Two threads of a process never call MPI at the same time: before the one that meets the others
 * does, all have returned from their operation. */
static void wait_all(nodes_player *player) {
    if (player->all) wait_inside(player->all);
    if (player->local == 0 && !player->mpi->barrier()) player->mpi->abort();
    if (player->all) wait_inside(player->all);
}

static void fail(const nodes_player *player, const char *what) {
    fprintf(stderr, "muster-bench-nodes: rank %d: %s failed, operation %d\n", player->rank, what, player->job.op);
    player->mpi->abort();
}

void nodes_play(nodes_player *player) {
    const collective_job *job = &player->job;
    const double scale = bench_ns_per_tick();
    const bool checked = nodes_is_collective(job->op);
    uint32_t iteration = 0;
    if (checked) player->buffers = collective_layout(job, player->rank, player->first, player->second, NULL);
    for (int32_t i = -player->warm; i < player->calls; i++) {
        iteration = (uint32_t)(i + player->warm);
        if (checked) collective_rewrite(job, player->rank, &player->buffers, iteration);
        wait_all(player);
        const uint64_t begin = bench_ticks();
        if (!player->operate(player)) fail(player, "the operation");
        const uint64_t end = bench_ticks();
        if (i >= 0) player->ns[i] = (double)(end - begin) * scale * (job->op == NODES_LATENCY ? 0.5 : 1);
    }
    player->wrong = checked ? collective_wrong(job, player->rank, &player->buffers, iteration) : 0;
    wait_all(player);
}
