#include "mpi_gloo.h"

#include <string.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 56 };

/* The tunings that were fastest for some operation and size, two ranks; with more ranks than cores,
 * the default and coll/sm. */
#define SHARED_MEMORY "--mca", "pml", "ob1", "--mca", "btl", "vader,self"
#define TUNED                                                                                                         \
    SHARED_MEMORY, "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_bcast_algorithm", "6", "--mca", \
        "coll_tuned_reduce_scatter_algorithm", "3"
#define KEEP_MEMORY "-x", "MALLOC_MMAP_THRESHOLD_=1073741824", "-x", "MALLOC_TRIM_THRESHOLD_=2147483647"
static const struct {
    const char *name;
    bool oversubscribed; /* also with more ranks than cores */
    const char *arguments[32];
} tunings[] = {
    {"OpenMPI, default", true, {NULL}},
    {"OpenMPI, coll/sm", true, {SHARED_MEMORY, "--mca", "coll_sm_priority", "100", NULL}},
    {"OpenMPI, two copies", false, {SHARED_MEMORY, "--mca", "btl_vader_single_copy_mechanism", "none", NULL}},
    {"OpenMPI, segmented ring",
     false,
     {TUNED, "--mca", "coll_tuned_allreduce_algorithm", "5", "--mca", "coll_tuned_allreduce_algorithm_segmentsize", "262144", KEEP_MEMORY,
      NULL}},
    {"OpenMPI, ring", false, {TUNED, "--mca", "coll_tuned_allreduce_algorithm", "4", KEEP_MEMORY, NULL}},
};

static void add_mpi(bench_collective_peer *peers, int32_t *count, int32_t ranks, bool oversubscribed, int32_t tuning) {
    char path[1024], number[16];
    const char *argv[MOST_ARGUMENTS] = {"mpirun"};
    int32_t used = 1;
    bench_sibling_path(path, "muster-bench-mpi");
    snprintf(number, sizeof number, "%d", ranks);
    if (geteuid() == 0) argv[used++] = "--allow-run-as-root";
    argv[used++] = "-np";
    argv[used++] = number;
    static const char *const own_cores[] = {"--bind-to", "core", NULL}, *const shared_cores[] = {
                                                                            "--oversubscribe",     "--bind-to", "none", "--mca",
                                                                            "mpi_yield_when_idle", "1",         NULL};
    for (const char *const *more = oversubscribed ? shared_cores : own_cores; *more; more++) argv[used++] = *more;
    for (int32_t i = 0; tunings[tuning].arguments[i]; i++) argv[used++] = tunings[tuning].arguments[i];
    argv[used++] = path;
    argv[used++] = oversubscribed ? "oversubscribed" : NULL;
    bench_collective_peer *peer = &peers[*count];
    memset(peer, 0, sizeof *peer);
    peer->process = bench_process_open_sleeper(tunings[tuning].name, (char *const *)argv, (const char *const[]){NULL});
    if (!peer->process) return;
    snprintf(peer->name, sizeof peer->name, "%s", tunings[tuning].name);
    (*count)++;
}

static void add_gloo(bench_collective_peer *peers, int32_t *count, int32_t ranks, bool oversubscribed) {
    char path[1024], number[16];
    bench_collective_peer *peer = &peers[*count];
    memset(peer, 0, sizeof *peer);
    bench_sibling_path(path, "muster-bench-gloo");
    snprintf(number, sizeof number, "%d", ranks);
    peer->process = bench_process_open_sleeper("Gloo", (char *const[]){path, number, oversubscribed ? "oversubscribed" : NULL, NULL},
                                               (const char *const[]){NULL});
    if (!peer->process) return;
    peer->gloo = true;
    snprintf(peer->name, sizeof peer->name, "Gloo, TCP");
    (*count)++;
}

static bool built(const char *program) {
    char path[1024];
    return access(bench_sibling_path(path, program), X_OK) == 0;
}

int32_t bench_collective_peers_open(int32_t ranks, bench_collective_peer *peers) {
    bool oversubscribed = ranks > bench_cores();
    int32_t count = 0;
    if (!built("muster-bench-mpi"))
        bench_log("not measured: OpenMPI: there was no mpicc when the bench was built");
    else
        for (int32_t i = 0; i < (int32_t)(sizeof tunings / sizeof *tunings); i++)
            if (!oversubscribed || tunings[i].oversubscribed) add_mpi(peers, &count, ranks, oversubscribed, i);
    if (!built("muster-bench-gloo"))
        bench_log("not measured: Gloo: its library was not there when the bench was built");
    else
        add_gloo(peers, &count, ranks, oversubscribed);
    return count;
}

void bench_collective_peers_close(bench_collective_peer *peers, int32_t count) {
    for (int32_t i = 0; i < count; i++) bench_process_close(peers[i].process);
}

/* Gloo's reduce_scatter has an older interface that no other operation shares; its all_to_all needs
 * two buffers. */
int32_t bench_collective_ways(const bench_collective_peer *peer, const collective_job *job) {
    if (collective_updates(job->op)) return 0;
    if (!peer->gloo) return job->op == COLLECTIVE_REDUCE_SCATTER ? 2 : 1;
    if (job->op == COLLECTIVE_REDUCE_SCATTER || (job->op == COLLECTIVE_ALL_TO_ALL && job->in_place)) return 0;
    return job->op == COLLECTIVE_ALL_REDUCE ? 2 : 1;
}

const char *bench_collective_way(const bench_collective_peer *peer, const collective_job *job) {
    if (bench_collective_ways(peer, job) < 2) return "";
    if (peer->gloo) return job->variant ? ", bcube" : ", ring";
    return job->variant ? ", block" : "";
}

bool bench_collective_peer_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const bench_peer_contender *contender = self;
    bench_collective_request request = {contender->job, block->warm, block->calls};
    return bench_process_exchange(contender->peer->process, &request, sizeof request, block->calls, ns, wrong);
}
