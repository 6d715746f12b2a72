/* What mpi_suite.py starts under mpirun: each way is one thing that a process of a launch does. */
#include "contract.h"
#include "memory_impl.h"
#include "mpi/mpi_impl.h"
#include "nodes/nodes_impl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void program_log(void *user, muster_log_level level, const char *line) {
    (void)user;
    printf("log %d: %s\n", level, line);
}

/* nodes: MUSTER_NODES says it. */
static const mst_nodes_options program_options = {.fail_after_ns = 300000000000, .log = program_log};

static mst_wire *program_open(const mst_nodes_options *options) {
    mst_wire *wire = NULL;
    const muster_status status = mst_mpi_open(options, &wire);
    if (status != MUSTER_OK) {
        printf("refused %s: %s\n", muster_status_name(status), muster_last_error());
        exit(0);
    }
    return wire;
}

static void program_say(const mst_wire *wire) {
    char text[MST_MPI_TEXT];
    mst_mpi_describe(text);
    printf("process %d of %d, %s\n", wire ? wire->process : 0, wire ? wire->processes : 1, text);
    fflush(stdout);
}

/* The other processes wait for this one: it says why, and ends them. */
static void program_failed(wire_contract *contract) {
    printf("contract of process %d: wrong, %s\n", contract->rank, contract->failure);
    contract->table->abort(NULL, 1);
}

static int program_contract(void) {
    mst_wire *wire = program_open(&program_options);
    wire_contract contract = {.seed = 1, .patience_ns = 300000000000, .failed = program_failed};
    contract.table = wire->table;
    contract.wire = wire->state;
    const bool right = wire_contract_run(&contract);
    printf("contract of process %d: %s, %d cases, %d left out, revoke %d %s\n", contract.rank, right ? "right" : "wrong", contract.cases,
           contract.left_out, wire->table->revoke != NULL, contract.failure);
    fflush(stdout);
    if (!right) wire->table->abort(NULL, 1);
    wire->close(wire, MST_WIRE_FREE);
    return 0;
}

/* Closes and opens again; two are open at the same time. */
static int program_again(void) {
    mst_wire *wire = program_open(&program_options);
    wire->close(wire, MST_WIRE_FREE);
    mst_wire *second = program_open(&program_options), *third = program_open(&program_options);
    program_say(second);
    program_say(third);
    third->close(third, MST_WIRE_FREE);
    second->close(second, MST_WIRE_FREE);
    return 0;
}

/* What a value of the option `nodes` is answered with. */
static int program_nodes(const char *value) {
    mst_nodes_options options = program_options;
    mst_wire *wire = NULL;
    options.nodes = value;
    const muster_status status = mst_mpi_open(&options, &wire);
    if (status != MUSTER_OK)
        printf("refused %s: %s\n", muster_status_name(status), muster_last_error());
    else
        printf("%s\n", wire ? "joined" : "alone");
    if (wire) wire->close(wire, MST_WIRE_FREE);
    return 0;
}

/* Process 1 opens late: process 0 says for whom it waits in MPI_Init. */
static int program_late(void) {
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (!number) number = getenv("PMI_RANK");
    mst_nodes_options options = program_options;
    options.warn_after_ns = 200000000;
    if (number && strcmp(number, "1") == 0) {
        options.warn_after_ns = -1;
        sleep(2);
    }
    mst_wire *wire = program_open(&options);
    wire->close(wire, MST_WIRE_FREE);
    return 0;
}

/* One process alone. */
static int program_alone(void) {
    mst_wire *wire = program_open(&program_options);
    program_say(wire);
    return 0;
}

/* Returns MPI_Finalize. */
static int (*program_initialise(const char *shim, int level, int *given))(void) {
    void *handle = dlopen(shim, RTLD_NOW | RTLD_LOCAL);
    int (*initialise)(int *, char ***, int, int *) = NULL;
    int (*finalise)(void) = NULL;
    void *symbol = dlsym(handle, "MPI_Init_thread");
    memcpy(&initialise, &symbol, sizeof initialise);
    symbol = dlsym(handle, "MPI_Finalize");
    memcpy(&finalise, &symbol, sizeof finalise);
    initialise(NULL, NULL, level, given);
    return finalise;
}

/* The program initialises MPI itself, at a level of threads, and finalises it. */
static int program_initialised(const char *shim, const char *level, const char *finalises) {
    int given = -1;
    int (*finalise)(void) = program_initialise(shim, atoi(level), &given);
    if (!strcmp(finalises, "first")) {
        finalise();
        program_open(&program_options);
        return 1;
    }
    mst_wire *wire = NULL;
    const muster_status status = mst_mpi_open(&program_options, &wire);
    if (status != MUSTER_OK)
        printf("level %d: refused %s: %s\n", given, muster_status_name(status), muster_last_error());
    else
        program_say(wire);
    if (!strcmp(finalises, "early")) finalise(); /* while the wire is open */
    if (wire) wire->close(wire, MST_WIRE_FREE);
    if (!strcmp(finalises, "late")) finalise();
    return 0;
}

/* A communicator of the program's own that there is not. */
static int program_part(const char *shim) {
    void *handle = dlopen(shim, RTLD_NOW | RTLD_LOCAL), *symbol;
    muster_wire_entry entry;
    symbol = dlsym(handle, MUSTER_WIRE_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry);
    int32_t threads;
    (void)entry(MUSTER_WIRE_ABI)->initialise(&threads);
    mst_nodes_options options = program_options;
    options.mpi_communicator = 123456;
    mst_wire *wire = NULL;
    const muster_status status = mst_mpi_open(&options, &wire);
    printf("refused %s: %s\n", muster_status_name(status), muster_last_error());
    fflush(stdout);
    return entry(MUSTER_WIRE_ABI)->finalise();
}

/* ---- ends ---- */

enum { WITHOUT_END = 3600 };

static int program_end(const char *way) {
    mst_nodes_options options = program_options;
    if (!strcmp(way, "sooner")) options.exit_after_ns = 300000000;
    if (!strcmp(way, "patient")) options.exit_after_ns = -1;
    mst_wire *wire = program_open(&options);
    const int32_t process = wire->process;
    if (!strcmp(way, "all_open")) return 0;
    if (!strcmp(way, "one_open")) { /* the others wait for it */
        if (process == 1) exit(3);
        sleep(WITHOUT_END);
        return 0;
    }
    if (!strcmp(way, "lost")) {
        wire->close(wire, MST_WIRE_LOST);
        return 0;
    }
    wire->close(wire, MST_WIRE_FREE);
    const bool late = !strcmp(way, "late") || !strcmp(way, "patient");
    if (process == 0 && (late || !strcmp(way, "later") || !strcmp(way, "sooner"))) { /* works on */
        sleep(late ? 3 : WITHOUT_END);
        printf("process 0 has ended its work\n");
    }
    if (!strcmp(way, "child") && process == 0 && fork() == 0) exit(0);
    return 0;
}

/* ---- a process closes while another one works on ---- */

/* Opens a runtime's processes as a runtime does. Closing then waits for 0.2 s only. */
static mst_nodes *work_open(void) {
    mst_nodes *nodes = NULL;
    char *names = NULL;
    muster_status status = mst_nodes_open(&program_options, &nodes);
    if (status == MUSTER_OK) status = mst_nodes_join(nodes, MUSTER_OK, 1, "", "device\n", &names);
    mst_free(names);
    if (status != MUSTER_OK) {
        printf("refused %s: %s\n", muster_status_name(status), muster_last_error());
        exit(1);
    }
    nodes->fail_after_ns = 200000000;
    return nodes;
}

static void work_call(mst_nodes *nodes) {
    mst_round round = {.where = "muster_function_call", .text = "function 'train'", .rank = -1};
    const muster_status status = mst_nodes_begin(nodes, &round);
    printf("process 0 calls: %s: %s\n", muster_status_name(status), muster_last_error());
}

/* The launcher of a process that leaves without MPI_Finalize ends the others within this time. */
enum { WORK_US = 500000, WORK_RESULTS = 5 };

/* The others say by the file `closed` that they have closed. */
static void work_on(const char *closed, int32_t others) {
    char path[400];
    for (int32_t other = 1; other <= others; other++)
        for (snprintf(path, sizeof path, "%s%d", closed, other); access(path, F_OK);) usleep(1000);
    for (int k = 1; k <= WORK_RESULTS; k++) {
        usleep(WORK_US / WORK_RESULTS);
        printf("result %d of %d\n", k, WORK_RESULTS);
    }
}

static void work_end(const char *closed, int32_t process) {
    char path[400];
    snprintf(path, sizeof path, "%s%d", closed, process);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
}

/* way: what process 0 does when it has written its results, and the others have closed: "closes";
 * "calls", and closes; "leaves", with an open runtime; "again": all open, work and close once more.
 * "fails": another process exits with a code of its own, and process 0 never comes back.
 * "finalises": the program has initialised MPI, and finalises it. */
static int program_work(const char *way, const char *closed, const char *shim) {
    int (*finalise)(void) = NULL, given;
    const bool own = !strcmp(way, "finalises");
    if (own) finalise = program_initialise(shim, 3, &given);
    for (int turn = 0; turn <= !strcmp(way, "again"); turn++) {
        char path[300];
        mst_nodes *nodes = work_open();
        const int32_t process = nodes->process;
        snprintf(path, sizeof path, "%s%d-", closed, turn);
        if (process == 0) work_on(path, nodes->processes - 1);
        if (process == 0 && !strcmp(way, "fails")) sleep(WITHOUT_END);
        if (process == 0 && !strcmp(way, "calls")) work_call(nodes);
        if (process == 0 && !strcmp(way, "leaves")) return 0;
        mst_nodes_close(nodes);
        work_end(path, process);
        if (process == 0) printf("process 0 has ended its work\n");
        if (process == 1 && !strcmp(way, "fails")) exit(5);
    }
    if (own) finalise();
    return 0;
}

/* The program finalises MPI while a runtime is open: calls are refused, and the close returns. */
static int program_ended(const char *shim) {
    int given;
    int (*finalise)(void) = program_initialise(shim, 3, &given);
    mst_nodes *nodes = work_open();
    finalise();
    mst_round round = {.where = "muster_function_call", .text = "call", .rank = -1};
    const muster_status status = mst_nodes_begin(nodes, &round);
    printf("call refused %s: %s\n", muster_status_name(status), muster_last_error());
    mst_nodes_close(nodes);
    printf("closed after MPI_Finalize\n");
    return 0;
}

/* MPICH's handles are the same in C and Fortran; those of communicators that programs make are
 * negative. */
static int program_handle(const char *shim) {
    enum { MPICH_COMM_WORLD = 0x44000000 };
    int given, made = 0;
    int (*finalise)(void) = program_initialise(shim, 3, &given), (*duplicate)(int parent, int *made);
    void *symbol = dlsym(dlopen(shim, RTLD_NOW | RTLD_LOCAL), "MPI_Comm_dup");
    memcpy(&duplicate, &symbol, sizeof duplicate);
    if (duplicate(MPICH_COMM_WORLD, &made)) return 3;
    mst_nodes_options options = program_options;
    options.mpi_communicator = INT64_C(1) + made;
    mst_wire *wire = program_open(&options);
    printf("a %s communicator: process %d of %d\n", made < 0 ? "negative" : "positive", (int)wire->process, (int)wire->processes);
    wire->close(wire, MST_WIRE_FREE);
    finalise();
    return 0;
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 1 << 14); /* whole lines: those of other processes come between */
    if (!strcmp(way, "contract")) return program_contract();
    if (!strcmp(way, "again")) return program_again();
    if (!strcmp(way, "alone")) return program_alone();
    if (!strcmp(way, "late")) return program_late();
    if (!strcmp(way, "initialised") && count == 5) return program_initialised(arguments[2], arguments[3], arguments[4]);
    if (!strcmp(way, "nodes") && count == 3) return program_nodes(arguments[2]);
    if (!strcmp(way, "part") && count == 3) return program_part(arguments[2]);
    if (!strcmp(way, "end") && count == 3) return program_end(arguments[2]);
    if (!strcmp(way, "ended") && count == 3) return program_ended(arguments[2]);
    if (!strcmp(way, "handle") && count == 3) return program_handle(arguments[2]);
    if (!strcmp(way, "work") && count == 5) return program_work(arguments[2], arguments[3], arguments[4]);
    fprintf(stderr, "mpi_program: unknown way %s\n", way);
    return 2;
}
