/* On which CPUs the OpenMP team of a body may run: beside rank 0 on those of the worker where
 * workers are pinned, and on all that the program may use where they are not. Two runtimes are open
 * at once. */
#include <muster/muster.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, TEAM = 3 };

#define CHECK(condition, ...)                               \
    do {                                                    \
        if (!(condition)) {                                 \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                   \
            fprintf(stderr, ": %s\n", muster_last_error()); \
            exit(1);                                        \
        }                                                   \
    } while (0)

/* The CPUs of each thread of each rank's team, and the sum that the teams have computed. */
typedef struct teams {
    cpu_set_t cpus[RANKS][TEAM];
    int32_t threads[RANKS], processors[RANKS];
    int64_t sums[RANKS];
} teams;

static muster_status body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    teams *t = user;
    const int32_t rank = muster_worker_rank(worker);
    int64_t sum = 0;
    t->processors[rank] = omp_get_num_procs();
#pragma omp parallel num_threads(TEAM) reduction(+ : sum)
    {
        const int me = omp_get_thread_num();
        sched_getaffinity(0, sizeof t->cpus[rank][me], &t->cpus[rank][me]);
#pragma omp single
        t->threads[rank] = omp_get_num_threads();
#pragma omp for
        for (int64_t i = 1; i <= 1000; i++) sum += i;
    }
    t->sums[rank] = sum;
    return MUSTER_OK;
}

static muster_runtime *open_two(int32_t no_pinning) {
    muster_runtime_options options;
    muster_runtime *runtime = NULL;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.no_pinning = no_pinning;
    CHECK(muster_runtime_open(&options, &runtime) == MUSTER_OK, "open");
    return runtime;
}

static void run_teams(muster_runtime *runtime, teams *t) {
    muster_function *function = NULL;
    memset(t, 0, sizeof *t);
    CHECK(muster_function_create(runtime, "teams", body, t, &function) == MUSTER_OK, "create");
    CHECK(muster_function_call(function, NULL, 0, NULL, 0, NULL) == MUSTER_OK, "call");
    for (int32_t rank = 0; rank < RANKS; rank++) {
        CHECK(t->threads[rank] == TEAM, "rank %d had %d threads", (int)rank, (int)t->threads[rank]);
        CHECK(t->sums[rank] == 500500, "rank %d computed %lld", (int)rank, (long long)t->sums[rank]);
    }
}

static int32_t check_team(const teams *t, int32_t rank, const cpu_set_t *expected) {
    for (int32_t thread = 0; thread < TEAM; thread++)
        CHECK(CPU_EQUAL(&t->cpus[rank][thread], expected), "thread %d of rank %d may use %d CPUs instead of %d", (int)thread, (int)rank,
              CPU_COUNT(&t->cpus[rank][thread]), CPU_COUNT(expected));
    CHECK(t->processors[rank] == CPU_COUNT(expected), "rank %d has %d CPUs instead of %d", (int)rank, (int)t->processors[rank],
          CPU_COUNT(expected));
    return TEAM;
}

static cpu_set_t cpus_of(muster_runtime *runtime, int32_t rank) {
    muster_device_info info;
    cpu_set_t set;
    muster_device_info_init(&info);
    CHECK(muster_runtime_get_device_info(runtime, rank, &info) == MUSTER_OK, "info");
    CPU_ZERO(&set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (info.cpus[cpu / 64] >> cpu % 64 & 1) CPU_SET(cpu, &set);
    return set;
}

int main(void) {
    cpu_set_t all, after, mask;
    teams t;
    int32_t checked = 0;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0, "no affinity");

    muster_runtime *pinned = open_two(0), *free_runtime = open_two(1);
    run_teams(free_runtime, &t);
    for (int32_t rank = 0; rank < RANKS; rank++) checked += check_team(&t, rank, &all);

    run_teams(pinned, &t);
    checked += check_team(&t, 0, &all); /* the caller's thread, which is left alone */
    mask = cpus_of(pinned, 1);
    checked += check_team(&t, 1, &mask);
    CHECK(checked == 4 * TEAM, "checked %d threads", (int)checked);

    CHECK(muster_runtime_close(free_runtime) == MUSTER_OK, "close");
    CHECK(muster_runtime_close(pinned) == MUSTER_OK, "close");
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&all, &after), "the program's CPUs have changed");
    return 0;
}
