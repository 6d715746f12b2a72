/* muster-bench-nodes PLUGIN SHIM DEVICES: a process of a launch of `muster-bench nodes`, started by
 * mpirun. PLUGIN: libmuster-bench-mpi-NAME.so, SHIM: libmuster-mpi-NAME.so of the same MPI. */
#include "clock.h"
#include "nodes_wire.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool all(bool reads, int file, void *data, size_t bytes) {
    for (char *at = data; bytes > 0;) {
        const ssize_t moved = reads ? read(file, at, bytes) : write(file, at, bytes);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return false;
        at += moved;
        bytes -= (size_t)moved;
    }
    return true;
}

/* What prints on the standard output must not fall among the answers. */
static int answers = -1;

static int refuse(const char *why) {
    fprintf(stderr, "muster-bench-nodes: %s\n", why);
    dprintf(answers, "no %s\n", why);
    return 1;
}

static const nodes_mpi *open_plugin(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const nodes_mpi *mpi = library ? dlsym(library, nodes_mpi_symbol) : NULL;
    if (!library) fprintf(stderr, "muster-bench-nodes: %s\n", dlerror());
    return mpi && mpi->plugin == NODES_PLUGIN ? mpi : NULL;
}

static bool fit(nodes_program *program, int64_t count) {
    if (count <= program->count) return true;
    free(program->first);
    free(program->second);
    program->first = collective_allocate(count);
    program->second = collective_allocate(count);
    program->count = program->first && program->second ? count : 0;
    return program->count > 0;
}

/* One rank for each process: this thread plays it. */
static bool play_here(nodes_program *program, const nodes_request *request, bool (*operate)(nodes_player *), void *self) {
    if (!self || !fit(program, request->job.count + 64)) return false;
    nodes_player player = {.mpi = program->mpi,
                           .job = request->job,
                           .warm = request->warm,
                           .calls = request->calls,
                           .rank = program->process,
                           .process = program->process,
                           .first = program->first,
                           .second = program->second,
                           .operate = operate,
                           .self = self,
                           .ns = program->ns};
    nodes_play(&player);
    program->wrong = player.wrong;
    return true;
}

static bool mpi_operate(nodes_player *player) {
    return player->mpi->operate(&player->job, &player->buffers, player->first, player->second) != 0;
}

#ifdef BENCH_GLOO
/* The first time: opens it, in all processes or in none. */
static bool has_gloo(nodes_program *program) {
    static int32_t asked, all[COLLECTIVE_RANKS];
    char why[NODES_TEXT] = "";
    if (asked) return program->gloo != NULL;
    asked = 1;
    program->gloo = nodes_gloo_open(program->mpi, program->process, program->processes, why);
    if (!program->gloo) fprintf(stderr, "muster-bench-nodes: Gloo: %s\n", why);
    const int32_t mine = program->gloo != NULL;
    if (program->processes > COLLECTIVE_RANKS || !program->mpi->gather(&mine, all, sizeof mine)) program->mpi->abort();
    for (int32_t p = 0; p < program->processes; p++)
        if (!all[p]) program->gloo = NULL;
    return program->gloo != NULL;
}
#endif

/* A runtime that opens under a real-time policy never spins, because it may have to share cores.
 * Here each process has a core of its own, so runtimes open under the usual policy, and get the one
 * that the bench was started with (chrt) when they are open. */
static void set_policy(int policy, const struct sched_param *parameters) {
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; tasks && (task = readdir(tasks));)
        if (task->d_name[0] != '.') sched_setscheduler(atoi(task->d_name), policy, parameters);
    if (tasks) closedir(tasks);
}

/* The policy that the program was given; runtimes open between the two. */
typedef struct policy {
    int number;
    struct sched_param parameters;
} policy;

static policy leave_policy(void) {
    const struct sched_param usual = {0};
    policy given = {.number = sched_getscheduler(0)};
    sched_getparam(0, &given.parameters);
    if (given.number != SCHED_OTHER) set_policy(SCHED_OTHER, &usual);
    return given;
}

static void return_to_policy(const policy *given) {
    if (given->number != SCHED_OTHER) set_policy(given->number, &given->parameters);
}

/* The first time: opens it, in all processes or in none. */
static bool has_half(nodes_program *program) {
    static bool asked;
    char why[NODES_TEXT] = "";
    if (asked) return program->half != NULL;
    asked = true;
    const policy given = leave_policy();
    program->half = nodes_muster_open(program, NODES_HALF, why);
    return_to_policy(&given);
    if (!program->half) fprintf(stderr, "muster-bench-nodes: %s\n", why);
    return program->half != NULL;
}

/* Is there such a way here? The same answer in all processes. */
static bool is_there(nodes_program *program, const nodes_request *request) {
    if (request->way == NODES_HALF) return has_half(program);
    if (request->way != NODES_GLOO) return true;
#ifdef BENCH_GLOO
    return has_gloo(program) && nodes_gloo_serves(request->job.op);
#else
    (void)program;
    return false;
#endif
}

static bool block(nodes_program *program, const nodes_request *request) {
    program->wrong = 0;
    switch (request->way) {
    case NODES_MUSTER:
        return nodes_muster_block(program->muster, program, request);
    case NODES_HALF:
        return nodes_muster_block(program->half, program, request);
    case NODES_ALONE:
        return program->alone && nodes_muster_block(program->alone, program, request);
    case NODES_MPI:
        return play_here(program, request, mpi_operate, program);
    case NODES_WIRE:
        return play_here(program, request, nodes_wire_operate, program->wire);
    case NODES_SCHEDULE:
        return play_here(program, request, nodes_schedule_operate, program->wire);
#ifdef BENCH_GLOO
    case NODES_GLOO:
        return play_here(program, request, nodes_gloo_operate, program->gloo);
#endif
    default:
        return false;
    }
}

/* Of each process: its times, and the number of wrong elements. */
typedef struct part {
    int64_t wrong;
    double ns[COLLECTIVE_CALLS];
} part;

static double mean(const double *values, int32_t count) {
    double sum = 0;
    for (int32_t i = 0; i < count; i++) sum += values[i];
    return sum / count;
}

/* The ranks of a process become one: the one that takes longest. */
static void combine_ranks(const nodes_program *program, const nodes_request *request, part *mine) {
    const int32_t ranks = request->way == NODES_MUSTER || request->way == NODES_HALF ? program->devices : 1;
    mine->wrong = program->wrong;
    memcpy(mine->ns, program->ns, (size_t)request->calls * sizeof *mine->ns);
    for (int32_t i = request->calls; i < ranks * request->calls; i++)
        if (program->ns[i] > mine->ns[i % request->calls]) mine->ns[i % request->calls] = program->ns[i];
}

static void answer(const nodes_program *program, const nodes_request *request, part *parts) {
    const int32_t calls = request->calls, op = request->job.op;
    const bool messages = op == NODES_LATENCY || op == NODES_BANDWIDTH || op == NODES_BOTH_WAYS;
    const int32_t count = messages ? 1 : program->processes;
    double *ns = parts[0].ns, extra[3] = {0, mean(ns, calls), 0};
    int64_t wrong = 0;
    for (int32_t p = 0; p < count; p++) {
        const double process_mean = mean(parts[p].ns, calls);
        extra[0] += process_mean / count;
        if (process_mean < extra[1]) extra[1] = process_mean;
        if (process_mean > extra[2]) extra[2] = process_mean;
    }
    for (int32_t p = 0; p < program->processes; p++) wrong += parts[p].wrong;
    if (parts[0].wrong < 0) wrong = -1;
    for (int32_t p = 1; p < count; p++)
        for (int32_t i = 0; i < calls; i++)
            if (parts[p].ns[i] > ns[i]) ns[i] = parts[p].ns[i];
    (void)(all(false, answers, &wrong, sizeof wrong) && all(false, answers, ns, (size_t)calls * sizeof *ns) &&
           all(false, answers, extra, sizeof extra) && all(false, answers, (char[]){'\n'}, 1));
}

static int serve(nodes_program *program) {
    part *mine = calloc(1, sizeof *mine), *parts = calloc((size_t)program->processes, sizeof *parts);
    program->ns = calloc((size_t)program->devices * COLLECTIVE_CALLS, sizeof *program->ns);
    if (!mine || !parts || !program->ns) return refuse("no memory");
    for (;;) {
        nodes_request request = {.calls = 0};
        if (program->process == 0 && !all(true, 0, &request, sizeof request)) request.calls = 0;
        if (!program->mpi->pass_on(&request, (int32_t)sizeof request)) return 1;
        if (request.calls <= 0 || request.calls > COLLECTIVE_CALLS) break;
        if (!is_there(program, &request)) {
            memset(parts, 0, sizeof *parts);
            parts->wrong = -1;
            if (program->process == 0) answer(program, &request, parts);
            continue;
        }
        if (!block(program, &request)) {
            fprintf(stderr, "muster-bench-nodes: way %d, operation %d: cannot be measured\n", request.way, request.job.op);
            program->mpi->abort();
        }
        combine_ranks(program, &request, mine);
        if (!program->mpi->gather(mine, parts, (int32_t)sizeof *mine)) return 1;
        if (program->process == 0) answer(program, &request, parts);
    }
    free(program->ns);
    free(parts);
    free(mine);
    return 0;
}

static void open_ways(nodes_program *program, char why[NODES_TEXT]) {
    const policy given = leave_policy();
    program->wire = nodes_wire_open(program->shim, why);
    program->muster = program->wire ? nodes_muster_open(program, NODES_MUSTER, why) : NULL;
    if (program->muster && program->processes == 1) program->alone = nodes_muster_open(program, NODES_ALONE, why);
    return_to_policy(&given);
}

int main(int count, char **arguments) {
    answers = dup(1);
    dup2(2, 1);
    if (count != 4) return refuse("expected PLUGIN SHIM DEVICES");
    nodes_program program = {.mpi = open_plugin(arguments[1]), .shim = arguments[2], .devices = atoi(arguments[3])};
    char version[NODES_TEXT] = "", why[NODES_TEXT] = "no memory";
    if (!program.mpi || program.devices < 1) return refuse("no such plugin, or no devices");
    if (!program.mpi->open(&program.process, &program.processes, version)) return refuse("MPI does not start");
    open_ways(&program, why);
    if (!program.muster) {
        refuse(why);
        program.mpi->abort();
    }
    (void)bench_ns_per_tick();
    if (!program.mpi->barrier()) return 1;
    if (program.process == 0) dprintf(answers, "ok %.60s, %d processes\n", version, program.processes);
    const int status = serve(&program);
    nodes_muster_close(program.half);
    nodes_muster_close(program.alone);
    nodes_muster_close(program.muster);
    program.mpi->close();
    return status;
}
