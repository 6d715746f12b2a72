/* What happens when the process exits. MPI is finalised only where Muster has initialised it, and
 * only after all processes have come to their exit: MPI_Finalize waits for the others, and a
 * process that waits there for one which has failed hangs the launch, often with its launcher.
 *
 *   all runtimes were closed          waits for the others, which may work on, and finalises
 *   a runtime is open, all exit       the same: nobody waits for this process
 *   a runtime is open, others do not  after a grace: says so, and aborts the launch
 *   the same, but this process has failed, and others did not close with it
 *                                     as with an open runtime
 *   other processes are lost          leaves without finalising
 *   MPI_Finalize does not return      says so, and leaves: MPICH before 4.2 over UCX waits for a
 *                                     process that is past its own waits, and makes no progress
 */
#include "mpi/mpi_private.h"

#include "clock_impl.h"
#include "environment_impl.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_WIRES = 64, EXIT_TAG = MST_WIRE_LANES * MST_WIRE_KINDS - 1 };
static const int64_t exit_grace_ns = 2000000000, exit_notice_ns = 10000000000, exit_read_ns = 10000000000;
/* All processes have come to it, so it takes milliseconds; more among many. */
static const int64_t exit_finalise_ns = 10000000000, exit_finalise_each_ns = 1000000;

static struct {
    pthread_mutex_t lock;
    const muster_wire_table *table;
    bool ours;        /* Muster has initialised MPI */
    bool lost;        /* other processes are gone */
    bool kept;        /* a runtime was closed while other processes worked on */
    pid_t process;    /* 0: not registered yet */
    muster_wire *all; /* all processes, where MPI is ours */
    mst_wire *wires[EXIT_WIRES];
    int32_t count;
    int64_t after_ns; /* muster_runtime_options.exit_after_ns; 0: nobody has set it */
    int32_t number;   /* of this process, in the wire that was opened last */
} at_exit = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* "process 1 (host b)" */
static const char *exit_name(char text[MST_PROCESS_TEXT]) {
    char host[MST_HOST_TEXT];
    mst_host_name(at_exit.table, host);
    snprintf(text, MST_PROCESS_TEXT, "process %d (host %s)", (int)at_exit.number, host);
    return text;
}

/* ---- the last barrier ---- */

static int32_t exit_wait_one(muster_wire *wire, muster_wire_request *request, int64_t deadline_ns, bool *done) {
    const int64_t notice = mst_now_ns() + exit_notice_ns;
    int32_t result = mpi_wait(at_exit.table, wire, request, deadline_ns < 0 ? notice : deadline_ns, done);
    if (deadline_ns >= 0 || *done || result != MUSTER_WIRE_OK) return result;
    char name[MST_PROCESS_TEXT];
    fprintf(stderr, "muster: %s waits in its exit for the other processes of the launch\n", exit_name(name));
    return mpi_wait(at_exit.table, wire, request, -1, done);
}

/* One message in each direction at each distance. False at the deadline, or where a process is
 * gone. */
static bool exit_barrier(muster_wire *wire, int64_t deadline_ns) {
    const muster_wire_table *table = at_exit.table;
    const int32_t process = table->rank(wire), processes = table->size(wire);
    for (int32_t distance = 1; distance < processes; distance *= 2) {
        static char bytes[2];
        bool done = false;
        muster_wire_request sent = 0, received = 0;
        int32_t result = table->receive(wire, &bytes[0], 1, (process - distance % processes + processes) % processes, EXIT_TAG, &received);
        if (result == MUSTER_WIRE_OK) result = table->send(wire, &bytes[1], 1, (process + distance) % processes, EXIT_TAG, &sent);
        if (result == MUSTER_WIRE_OK) result = exit_wait_one(wire, &sent, deadline_ns, &done);
        if (result == MUSTER_WIRE_OK && done) result = exit_wait_one(wire, &received, deadline_ns, &done);
        if (result != MUSTER_WIRE_OK || !done) return false;
    }
    return true;
}

/* A process that has closed its runtimes waits without end: another one may work for hours after
 * that. Where one is killed, the launcher ends the others. Where this one has failed and others did
 * not close with it, they may wait without end for what it will not do any more. The option
 * exit_after_ns sets an end, or MUSTER_EXIT_AFTER. */
static bool exit_wait(muster_wire *wire, int status) {
    int64_t after = at_exit.count || (at_exit.kept && status) ? exit_grace_ns : -1;
    if (at_exit.after_ns)
        after = at_exit.after_ns;
    else
        (void)mst_environment_seconds("MUSTER_EXIT_AFTER", &after);
    return exit_barrier(wire, after < 0 ? -1 : mst_now_ns() + after);
}

/* ---- the end ---- */

/* A launcher that is told to abort may throw away what it has not yet read, and passed on: so it
 * is given time, and on a busy machine until the pipe is empty, but not for ever. */
static void exit_let_read(void) {
    const int64_t patience = mst_now_ns() + exit_read_ns;
    struct stat kind;
    int left = fstat(STDERR_FILENO, &kind) == 0 && S_ISFIFO(kind.st_mode);
    while (left && ioctl(STDERR_FILENO, FIONREAD, &left) == 0 && left && mst_now_ns() < patience)
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
}

static void exit_abort(int status) {
    char name[MST_PROCESS_TEXT];
    fflush(NULL);
    fprintf(stderr,
            "muster: %s exits with code %d%s, and other processes do not exit: the launch is aborted. All processes close their runtimes "
            "(muster_runtime_close) before they exit.\n",
            exit_name(name), status, at_exit.count ? " and an open runtime" : "");
    fflush(stderr);
    exit_let_read();
    at_exit.table->abort(NULL, status ? status : 1);
    _exit(status ? status : 1);
}

static struct {
    _Atomic bool done;
    char name[MST_PROCESS_TEXT];
    int32_t processes;
    int status;
} finalising;

/* Ends the process where MPI_Finalize hangs. */
static void *exit_watch(void *unused) {
    (void)unused;
    const int64_t most = exit_finalise_ns + finalising.processes * exit_finalise_each_ns, end = mst_now_ns() + most;
    while (!atomic_load(&finalising.done)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        if (mst_now_ns() < end || atomic_load(&finalising.done)) continue;
        fprintf(stderr, "muster: %s: MPI_Finalize has not returned for %lld s, though all processes are in it: exits without it\n",
                finalising.name, (long long)(most / 1000000000));
        _exit(finalising.status);
    }
    return NULL;
}

/* The program's signal handlers do not run in the thread that watches. */
static void exit_begin_watch(const muster_wire_table *table, muster_wire *wire, int status) {
    sigset_t all, before;
    pthread_t thread;
    exit_name(finalising.name);
    finalising.processes = table->size(wire);
    finalising.status = status;
    fflush(NULL); /* what _exit would lose */
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before)) return;
    if (pthread_create(&thread, NULL, exit_watch, NULL) == 0) (void)pthread_detach(thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void exit_run(int status, void *unused) {
    (void)unused;
    const muster_wire_table *table = at_exit.table;
    int32_t initialised = 0, finalised = 0, threads = 0;
    if (at_exit.process != getpid()) return; /* a child of this process */
    if (table->state(&initialised, &finalised, &threads) != MUSTER_WIRE_OK || !initialised || finalised) return;
    if (at_exit.lost) { /* MPI_Finalize would wait for them */
        char name[MST_PROCESS_TEXT];
        fprintf(stderr, "muster: %s exits without MPI_Finalize, which would wait for processes that are lost or did not open with it\n",
                exit_name(name));
        return;
    }
    muster_wire *wire = at_exit.all ? at_exit.all : at_exit.count ? at_exit.wires[0]->state : NULL;
    if (!wire) return; /* the program's own MPI, and all is closed */
    if (!exit_wait(wire, status)) exit_abort(status);
    if (!at_exit.ours) return;
    exit_begin_watch(table, wire, status);
    if (!at_exit.count) table->close(at_exit.all);
    const int32_t result = table->finalise();
    atomic_store(&finalising.done, true);
    if (result == MUSTER_WIRE_OK) return;
    char text[256];
    table->error(text, sizeof text);
    fprintf(stderr, "muster: %s\n", text);
}

#ifndef __GLIBC__ /* has no on_exit: the code is not known */
static void exit_run_plain(void) { exit_run(0, NULL); }
#endif

static muster_status exit_register(const muster_wire_table *table) {
    if (at_exit.process == getpid()) return MUSTER_OK;
#ifdef __GLIBC__
    const int refused = on_exit(exit_run, NULL);
#else
    const int refused = atexit(exit_run_plain);
#endif
    if (refused) return mst_error(MUSTER_OUT_OF_MEMORY, "muster_runtime_open: nodes: no memory for a function that runs at exit");
    at_exit.table = table;
    at_exit.process = getpid();
    return MUSTER_OK;
}

muster_status mpi_exit_begin(const muster_wire_table *table, muster_wire *all) {
    pthread_mutex_lock(&at_exit.lock);
    const muster_status status = exit_register(table);
    at_exit.ours = true;
    at_exit.all = all;
    at_exit.number = table->rank(all);
    pthread_mutex_unlock(&at_exit.lock);
    return status;
}

muster_status mpi_exit_add(mst_wire *wire, int64_t after_ns) {
    pthread_mutex_lock(&at_exit.lock);
    const muster_status status = exit_register(wire->table);
    if (status == MUSTER_OK && after_ns) at_exit.after_ns = after_ns;
    if (!at_exit.ours) at_exit.number = wire->process;
    if (status == MUSTER_OK && at_exit.count < EXIT_WIRES) at_exit.wires[at_exit.count++] = wire;
    pthread_mutex_unlock(&at_exit.lock);
    return status;
}

void mpi_exit_remove(mst_wire *wire, mst_wire_end end) {
    pthread_mutex_lock(&at_exit.lock);
    for (int32_t i = 0; i < at_exit.count; i++)
        if (at_exit.wires[i] == wire) at_exit.wires[i--] = at_exit.wires[--at_exit.count];
    at_exit.lost |= end == MST_WIRE_LOST;
    at_exit.kept |= end == MST_WIRE_KEEP;
    pthread_mutex_unlock(&at_exit.lock);
}
