/* Opening MPI and a communicator of it. */
#include "mpi/mpi_private.h"

#include "clock_impl.h"
#include "memory_impl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The MPI of this process: once chosen it stays. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static mpi_shim open_shim;

void mst_mpi_describe(char text[MST_MPI_TEXT]) {
    pthread_mutex_lock(&open_lock);
    text[0] = 0;
    if (open_shim.table) {
        char version[64];
        open_shim.table->version(version, sizeof version);
        snprintf(text, MST_MPI_TEXT, "%.*s by %.120s (%.100s)", (int)strcspn(version, ","), version, open_shim.path, open_shim.why);
    }
    pthread_mutex_unlock(&open_lock);
}

void mst_mpi_get_facts(mst_library_facts *facts) {
    static mpi_shim shim; /* the lock guards it; a path is long */
    pthread_mutex_lock(&open_lock);
    if (open_shim.table) shim = open_shim;
    if (open_shim.table || mpi_shim_find(NULL, &shim) == MUSTER_OK) {
        char version[64];
        shim.table->version(version, sizeof version);
        snprintf(facts->version, sizeof facts->version, "%.*s", (int)strcspn(version, ","), version);
        snprintf(facts->path, sizeof facts->path, "%.500s", shim.path);
        snprintf(facts->text, sizeof facts->text, "%s", shim.why);
        facts->found = true;
    } else {
        mst_library_missing(facts);
    }
    pthread_mutex_unlock(&open_lock);
}

int32_t mpi_wait(const muster_wire_table *table, muster_wire *wire, muster_wire_request *request, int64_t deadline_ns, bool *done) {
    const struct timespec nap = {.tv_nsec = 100000};
    for (int64_t tests = 0;; tests++) {
        int32_t is_done = 0;
        const int32_t result = table->test(wire, request, &is_done, NULL);
        *done = result == MUSTER_WIRE_OK && is_done;
        if (result != MUSTER_WIRE_OK || is_done) return result;
        if (deadline_ns >= 0 && mst_now_ns() > deadline_ns) return MUSTER_WIRE_OK;
        if (tests < 1000)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
}

static muster_status open_error(const muster_wire_table *table, const char *what) {
    char text[256] = "";
    table->error(text, sizeof text);
    return mst_error(MUSTER_SYSTEM, "muster_runtime_open: %s: %s", what, text[0] ? text : "MPI gives no reason");
}

/* communicator: as options->mpi_communicator. */
static muster_status open_duplicate(const muster_wire_table *table, int64_t communicator, int64_t fail_after_ns, muster_wire **state) {
    muster_wire_request request = 0;
    bool done = false;
    const int64_t parent = communicator - 1;
    if (parent != (int32_t)parent)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "muster_runtime_open: mpi_communicator: expected MPI_Comm_c2f of a communicator and 1 more, received %lld",
                         (long long)communicator);
    const int64_t deadline = fail_after_ns < 0 ? -1 : mst_now_ns() + fail_after_ns;
    int32_t result = table->open(communicator != 0, communicator ? (int32_t)parent : 0, state, &request);
    if (result == MUSTER_WIRE_OK) result = mpi_wait(table, *state, &request, deadline, &done);
    if (result != MUSTER_WIRE_OK) return open_error(table, communicator ? "mpi_communicator" : "MPI_COMM_WORLD");
    if (done) return MUSTER_OK;
    return mst_error(MUSTER_TIMEOUT,
                     "muster_runtime_open: nodes: after %.1f s not all processes of the launch have opened a runtime with nodes: they "
                     "all do, in the same order",
                     1e-9 * (double)fail_after_ns);
}

/* ---- initialising ---- */

static muster_status open_check_threads(int32_t threads, bool ours) {
    static const char *const names[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    if (threads >= MUSTER_WIRE_SERIALIZED) return MUSTER_OK;
    const char *name = names[threads < 0 ? 0 : threads];
    if (ours)
        return mst_error(MUSTER_UNAVAILABLE, "muster_runtime_open: nodes: expected an MPI with MPI_THREAD_SERIALIZED, received one with %s",
                         name);
    return mst_error(MUSTER_BAD_STATE,
                     "muster_runtime_open: nodes: expected MPI to be initialised with MPI_THREAD_SERIALIZED or more, since workers call it "
                     "in turn, found %s: the program calls MPI_Init_thread, or leaves it to Muster",
                     name);
}

/* MPI is initialised afterwards, by whomever. */
static muster_status open_initialise(const muster_wire_table *table, const mst_nodes_options *options) {
    muster_wire *all = NULL;
    int32_t initialised = 0, finalised = 0, threads = 0;
    if (table->state(&initialised, &finalised, &threads) != MUSTER_WIRE_OK) return open_error(table, "the state of MPI");
    if (finalised)
        return mst_error(MUSTER_BAD_STATE, "muster_runtime_open: nodes: MPI was finalised in this process, and cannot begin again");
    if (initialised) return open_check_threads(threads, false);
    mpi_init_watch *watch = mpi_init_begin(options);
    const int32_t result = table->initialise(&threads);
    mpi_init_end(watch);
    if (result != MUSTER_WIRE_OK) return open_error(table, "MPI_Init_thread");
    MUSTER_TRY(open_duplicate(table, 0, options->fail_after_ns, &all));
    MUSTER_TRY(mpi_exit_begin(table, all));
    return open_check_threads(threads, true);
}

/* The shim of this process, opened at the first call. */
static muster_status open_choose(const char *path, const mst_nodes_options *options) {
    mpi_shim found;
    if (open_shim.table && !path) return MUSTER_OK;
    MUSTER_TRY(mpi_shim_find(path, &found));
    if (open_shim.table) {
        if (!memcmp(found.identity, open_shim.identity, sizeof found.identity)) return MUSTER_OK;
        return mst_error(MUSTER_BAD_STATE,
                         "muster_runtime_open: nodes: this process has opened MPI by %.150s: expected the same, received %.150s",
                         open_shim.path, found.path);
    }
    open_shim = found;
    mpi_log(options, MUSTER_LOG_INFO, "MPI: %s, %s (%s)", found.table->name, found.path, found.why);
    return MUSTER_OK;
}

/* ---- a communicator ---- */

static void open_close(mst_wire *wire, mst_wire_end end) {
    mpi_exit_remove(wire, end);
    if (end == MST_WIRE_FREE && !wire->stale) wire->table->close(wire->state);
    pthread_mutex_destroy(&wire->lock);
    mst_free(wire);
}

/* A launcher of another MPI starts processes each of which is alone. */
static muster_status open_check_size(const mst_nodes_options *options, int32_t processes) {
    const mpi_launch launch = mpi_launch_find();
    if (options->mpi_communicator || processes > 1 || launch.processes < 2) return MUSTER_OK;
    return mst_error(
        MUSTER_BAD_STATE,
        "muster_runtime_open: nodes: the launcher has started %d processes (%s), and %s knows of 1: start them by the mpirun "
        "of this MPI, by srun --mpi=pmix (or =pmi2; srun --mpi=list), or name the shim of the launcher's MPI (MUSTER_MPI_SHIM)",
        launch.processes, launch.variable, open_shim.table->name);
}

static muster_status open_wire(const mst_nodes_options *options, mst_wire **wire) {
    const muster_wire_table *table = open_shim.table;
    muster_wire *state = NULL;
    MUSTER_TRY(open_duplicate(table, options->mpi_communicator, options->fail_after_ns, &state));
    const int32_t processes = table->size(state);
    muster_status status = open_check_size(options, processes);
    mst_wire *opened = NULL;
    if (status == MUSTER_OK && processes > 1) {
        opened = mst_alloc(sizeof *opened);
        if (!opened) status = mst_error(MUSTER_OUT_OF_MEMORY, "muster_runtime_open: no memory for %zu bytes", sizeof *opened);
    }
    if (opened) {
        opened->table = table;
        opened->close = open_close;
        opened->state = state;
        opened->process = table->rank(state);
        opened->processes = processes;
        status = mpi_exit_add(opened, options->exit_after_ns);
        if (status != MUSTER_OK) mst_free(opened), opened = NULL;
    }
    if (!opened) {
        table->close(state);
        if (status == MUSTER_OK) mpi_log(options, MUSTER_LOG_DEBUG, "MPI: the launch has one process, which goes on without");
        return status;
    }
    pthread_mutex_init(&opened->lock, NULL);
    *wire = opened;
    return MUSTER_OK;
}

muster_status mst_mpi_open(const mst_nodes_options *options, mst_wire **wire) {
    mpi_asked asked;
    const char *path;
    *wire = NULL;
    MUSTER_TRY(mpi_asked_for(options, &asked, &path));
    if (asked == MPI_ASKED_NONE) {
        mpi_launch_unasked(options);
        return MUSTER_OK;
    }
    pthread_mutex_lock(&open_lock);
    muster_status status = open_choose(path, options);
    if (status == MUSTER_OK) status = open_initialise(open_shim.table, options);
    if (status == MUSTER_OK) status = open_wire(options, wire);
    pthread_mutex_unlock(&open_lock);
    return status;
}
