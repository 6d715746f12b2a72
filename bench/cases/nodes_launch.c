#include "nodes_launch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 48 };

const bench_mpi bench_mpis[] = {{"OpenMPI", "openmpi", "mpirun.openmpi", "mpirun"}, {"MPICH", "mpich", "mpirun.mpich", "mpiexec.hydra"}};
const int32_t bench_mpi_count = sizeof bench_mpis / sizeof *bench_mpis;

bool bench_in_hosts(void) {
    const char *agent = getenv("OMPI_MCA_plm_rsh_agent");
    return agent && strstr(agent, "hosts-on");
}

bool bench_is_launched(void) { return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK"); }

static bool is_in_path(const char *program) {
    char folders[4096];
    snprintf(folders, sizeof folders, "%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    char *rest = NULL;
    for (char *folder = strtok_r(folders, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest)) {
        char path[4400];
        snprintf(path, sizeof path, "%s/%s", folder, program);
        if (access(path, X_OK) == 0) return true;
    }
    return false;
}

/* Words that are added to the command line. */
typedef struct words {
    const char *at[MOST_ARGUMENTS];
    int32_t count;
} words;

static void add(words *line, const char *const *more) {
    for (; *more && line->count + 1 < MOST_ARGUMENTS; more++) line->at[line->count++] = *more;
}
#define ADD(line, ...) add(line, (const char *const[]){__VA_ARGS__, NULL})

/* With a core for each rank, each process has its own; else waits give the core away. */
static void add_places(words *line, const bench_launch *launch) {
    const bool openmpi = strcmp(launch->mpi->library, "openmpi") == 0, oversubscribed = launch->processes * launch->devices > bench_cores();
    if (bench_in_hosts()) { /* which say themselves where processes run */
        if (openmpi && launch->processes > 2) ADD(line, "--mca", "mpi_yield_when_idle", "1");
        return;
    }
    if (!openmpi) {
        if (!oversubscribed) ADD(line, "-bind-to", "core");
        return;
    }
    if (geteuid() == 0) ADD(line, "--allow-run-as-root");
    if (!oversubscribed)
        ADD(line, "--bind-to", "core");
    else
        ADD(line, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1");
}

/* Those of `collectives` that were fastest somewhere. */
static void add_tuning(words *line, const char *tuning) {
    if (strcmp(tuning, "default") == 0) return;
    if (!bench_in_hosts()) ADD(line, "--mca", "pml", "ob1", "--mca", "btl", "vader,self");
    ADD(line, "--mca", "coll_tuned_use_dynamic_rules", "1", "-x", "MALLOC_MMAP_THRESHOLD_=1073741824", "-x",
        "MALLOC_TRIM_THRESHOLD_=2147483647");
    if (strcmp(tuning, "ring") == 0)
        ADD(line, "--mca", "coll_tuned_allreduce_algorithm", "4");
    else
        ADD(line, "--mca", "coll_tuned_allreduce_algorithm", "5", "--mca", "coll_tuned_allreduce_algorithm_segmentsize", "262144");
}

static bool is_there(const char *path) { return access(path, R_OK) == 0; }

bool bench_launch_open(bench_launch *launch, const bench_mpi *mpi, int32_t processes, int32_t devices, const char *tuning) {
    char program[1024], plugin[1100], shim[1100], number[16], device_text[16], name[BENCH_NAME];
    *launch = (bench_launch){.mpi = mpi, .tuning = tuning ? tuning : "default", .processes = processes, .devices = devices};
    bench_sibling_path(program, "muster-bench-nodes");
    snprintf(number, sizeof number, "libmuster");
    char file[64];
    snprintf(file, sizeof file, "libmuster-bench-mpi-%s.so", mpi->library);
    bench_sibling_path(plugin, file);
    snprintf(file, sizeof file, "../libmuster-mpi-%s.so", mpi->library);
    bench_sibling_path(shim, file);
    snprintf(name, sizeof name, "%s, %d processes", mpi->name, processes);
    if (access(program, X_OK) != 0 || !is_there(plugin) || !is_there(shim)) {
        bench_log("not measured: %s: there was no mpicc of it when the bench was built", name);
        return false;
    }
    const char *launcher = is_in_path(mpi->launcher) ? mpi->launcher : mpi->plain_launcher;
    if (!is_in_path(launcher)) {
        bench_log("not measured: %s: there is no %s", name, mpi->launcher);
        return false;
    }
    words line = {.count = 0};
    snprintf(number, sizeof number, "%d", processes);
    snprintf(device_text, sizeof device_text, "%d", devices);
    ADD(&line, launcher, "-np", number);
    add_places(&line, launch);
    add_tuning(&line, launch->tuning);
    ADD(&line, program, plugin, shim, device_text);
    line.at[line.count] = NULL;
    launch->process = bench_process_open_sleeper(name, (char *const *)line.at, (const char *const[]){NULL});
    if (launch->process && strcmp(launch->tuning, "default") == 0)
        bench_log("%s x %d devices: %s", name, devices, bench_process_description(launch->process));
    return launch->process != NULL;
}

void bench_launch_close(bench_launch *launch) {
    if (launch->process) bench_process_close(launch->process);
    launch->process = NULL;
}

bool bench_nodes_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_nodes_contender *contender = self;
    static double answer[COLLECTIVE_CALLS + 3];
    contender->request.warm = block->warm;
    contender->request.calls = block->calls;
    int64_t wrong_here = 0;
    if (!bench_process_exchange(contender->launch->process, &contender->request, sizeof contender->request, block->calls + 3, answer,
                                &wrong_here) ||
        wrong_here < 0)
        return false;
    *wrong += wrong_here;
    memcpy(ns, answer, (size_t)block->calls * sizeof *ns);
    for (int32_t i = 0; i < 3 && contender->rounds < BENCH_NODES_ROUNDS; i++)
        contender->extra[i][contender->rounds] = answer[block->calls + i];
    if (contender->rounds < BENCH_NODES_ROUNDS) contender->rounds++;
    return true;
}
