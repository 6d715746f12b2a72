/* What fault_suite.py starts under mpirun: a launch in which one process does something wrong.
 *   fault_program lethal FOLDER KIND PLACE VICTIM SEED
 *     one fault that the launch, or the runtime, does not survive
 *   fault_program cells FOLDER CELL...
 *     survivable ones in one runtime; a CELL is KIND:PLACE:VICTIM:SEED
 * Each process writes what it sees to FOLDER/PROCESS, a line for each call:
 *   NUMBER WHAT STATUS right|wrong MICROSECONDS MESSAGE
 * Exit: 0 when it has come to its end, whatever the calls returned. */
#include "faults.h"

#include "clock_impl.h"
#include "memory_impl.h"
#include "nodes/nodes_impl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int output = -1;
static int32_t number;
static int64_t begun_ns;

static void write_line(const char *line) {
    if (write(output, line, strlen(line)) < 0) perror("fault_program");
}

static void say(const char *what, muster_status status, bool right) {
    char line[1200];
    const int64_t now = mst_now_ns();
    snprintf(line, sizeof line - 1, "%" PRId32 " %s %s %s %" PRId64 " %s", number, what, muster_status_name(status),
             right ? "right" : "wrong", (now - begun_ns) / 1000, status == MUSTER_OK ? "" : muster_last_error());
    for (char *c = line; *c; c++)
        if (*c == '\n') *c = ' ';
    strcat(line, "\n");
    write_line(line);
    begun_ns = mst_now_ns();
}

static void program_log(void *user, muster_log_level level, const char *line) {
    (void)user;
    char text[1200];
    /* What is killed in MPI_Init the launcher sees; who exits there may hang in MPI. */
    const bool seen = fault_now.kind == FAULT_KILL || fault_now.kind == FAULT_MEMORY;
    if (seen && fault_now.seed % 2 && strncmp(line, "MPI: ", 5) == 0) fault_strike_soon(FAULT_OPEN);
    snprintf(text, sizeof text, "%" PRId32 " log %d - 0 %s\n", number, (int)level, line);
    write_line(text);
}

static int32_t launched_as(void) {
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    if (!text) text = getenv("PMI_RANK");
    return text ? atoi(text) : 0;
}

static bool parse(const char *kind, const char *place, const char *victim, const char *seed, bool survivable) {
    const int32_t k = fault_kind_named(kind), p = fault_place_named(place);
    fault_now.kind = k < 0 ? FAULT_NONE : (fault_kind)k;
    fault_now.place = p < 0 ? FAULT_OPEN : (fault_place)p;
    fault_now.victim = atoi(victim);
    fault_now.seed = (uint32_t)strtoul(seed, NULL, 10);
    fault_now.survivable = survivable;
    if (k >= 0 && p >= 0) return true;
    fprintf(stderr, "fault_program: no fault %s at %s\n", kind, place);
    return false;
}

static bool open_file(const char *folder) {
    char path[400];
    snprintf(path, sizeof path, "%s/%" PRId32, folder, fault_now.process);
    output = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (output < 0) perror(path);
    return output >= 0;
}

/* By --wrap: MPI is open, and the others wait for this process to join them. */
muster_status __real_mst_nodes_join(mst_nodes *nodes, muster_status status, int32_t ranks, const char *agreement, const char *names,
                                    char **all_names);
muster_status __wrap_mst_nodes_join(mst_nodes *nodes, muster_status status, int32_t ranks, const char *agreement, const char *names,
                                    char **all_names);
muster_status __wrap_mst_nodes_join(mst_nodes *nodes, muster_status status, int32_t ranks, const char *agreement, const char *names,
                                    char **all_names) {
    snprintf(fault_now.host, sizeof fault_now.host, "host%d", (int)fault_now.victim + 1); /* as tests/net/hosts names it */
    fault_strike(FAULT_OPEN);
    return __real_mst_nodes_join(nodes, status, ranks, agreement, names, all_names);
}

/* Its own deadlines are longer than those of calls: processes do not start at the same time. */
static muster_status open_runtime(muster_runtime **runtime) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.nodes = "mpi";
    options.no_pinning = 1;
    options.warn_after_ns = -1;
    const char *patience_ms = getenv("FAULT_FAIL_AFTER_MS"); /* that of a launch which ends; longer on a busy machine */
    const int64_t lethal_ms = patience_ms ? strtoll(patience_ms, NULL, 10) : 2000;
    options.fail_after_ns = (fault_now.survivable ? 60000 : lethal_ms) * INT64_C(1000000);
    options.log = program_log;
    const char *lost = getenv("FAULT_ON_LOST");
    if (lost && !strcmp(lost, "error")) options.on_lost = MUSTER_LOST_ERROR;
    if (fault_is_here(FAULT_OPEN)) {
        if (fault_now.kind == FAULT_REFUSE) options.devices = "host:0";
        if (fault_now.kind == FAULT_FAIL) options.devices = "nonsense";
        if (fault_now.kind == FAULT_DIFFERENT) options.logical_shards = 8;
    }
    const muster_status status = muster_runtime_open(&options, runtime);
    mst_memory_fail_at(0);
    return status;
}

static int run_lethal(void) {
    muster_runtime *runtime = NULL;
    fault_calls calls;
    begun_ns = mst_now_ns();
    const muster_status opened = open_runtime(&runtime);
    say("open", opened, true);
    if (opened != MUSTER_OK) return 0;
    snprintf(fault_now.host, sizeof fault_now.host, "%s", muster_runtime_host(runtime, fault_now.victim));
    say("make", fault_calls_make(runtime, &calls), true);
    fault_call_after(&calls, say); /* one that is right */
    number = 1;
    if (fault_now.place != FAULT_OPEN && fault_now.place != FAULT_CLOSE) fault_call(&calls, say);
    if (fault_now.kind == FAULT_ORDER && !fault_is_here(FAULT_CLOSE)) fault_call(&calls, say); /* the victim closes instead */
    fault_strike(FAULT_CLOSE);
    say("close", muster_runtime_close(runtime), true);
    return 0;
}

static int run_cells(int count, char **cells) {
    muster_runtime *runtime = NULL;
    fault_calls calls;
    begun_ns = mst_now_ns();
    const muster_status opened = open_runtime(&runtime);
    say("open", opened, true);
    if (opened != MUSTER_OK) return 1;
    say("make", fault_calls_make(runtime, &calls), true);
    for (number = 1; number <= count; number++) {
        char *kind = strtok(cells[number - 1], ":"), *place = strtok(NULL, ":"), *victim = strtok(NULL, ":"), *seed = strtok(NULL, ":");
        if (!seed || !parse(kind, place, victim, seed, true)) return 2;
        snprintf(fault_now.host, sizeof fault_now.host, "%s", muster_runtime_host(runtime, fault_now.victim));
        fault_call(&calls, say);
        fault_call_after(&calls, say);
    }
    say("close", muster_runtime_close(runtime), true);
    return 0;
}

int main(int count, char **arguments) {
    fault_prepare();
    fault_now.process = launched_as();
    fault_now.survivable = true;
    if (count == 7 && !strcmp(arguments[1], "lethal"))
        return parse(arguments[3], arguments[4], arguments[5], arguments[6], false) && open_file(arguments[2]) ? run_lethal() : 2;
    if (count >= 4 && !strcmp(arguments[1], "cells")) return open_file(arguments[2]) ? run_cells(count - 3, arguments + 3) : 2;
    fprintf(stderr, "fault_program: lethal FOLDER KIND PLACE VICTIM SEED, or cells FOLDER CELL...\n");
    return 2;
}
