/* Says who waits in MPI_Init, and for what. MPI_Init cannot be left, and what the other processes
 * do is not known before it has returned. */
#include "mpi/mpi_private.h"

#include "clock_impl.h"
#include "memory_impl.h"
#include "own_thread_impl.h"

#include <stdio.h>
#include <time.h>

struct mpi_init_watch {
    mst_nodes_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

static void init_log(const mst_nodes_options *options) {
    const mpi_launch launch = mpi_launch_find();
    char host[MST_HOST_TEXT], number[16] = "";
    mst_host_name(NULL, host);
    if (launch.process >= 0) snprintf(number, sizeof number, " %d", (int)launch.process);
    mpi_log(options, MUSTER_LOG_WARNING,
            "process%s (host %s) has waited %.3g s in MPI_Init for the other processes of the launch: each of them opens a runtime with "
            "MUSTER_NODES=mpi or the option nodes, and one that has ended or does not open one keeps the others waiting without end",
            number, host, 1e-9 * (double)options->warn_after_ns);
}

static void *init_watch(void *argument) {
    mpi_init_watch *watch = argument;
    const int64_t end_ns = mst_now_ns() + watch->options.warn_after_ns;
    const struct timespec end = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    pthread_mutex_lock(&watch->lock);
    int late = 0;
    while (!watch->over && !late) late = pthread_cond_timedwait(&watch->changed, &watch->lock, &end);
    const bool over = watch->over;
    pthread_mutex_unlock(&watch->lock);
    if (!over) init_log(&watch->options);
    return NULL;
}

static void init_free(mpi_init_watch *watch) {
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    mst_free(watch);
}

mpi_init_watch *mpi_init_begin(const mst_nodes_options *options) {
    if (options->warn_after_ns <= 0 || !options->log || mpi_launch_find().processes < 2) return NULL;
    mpi_init_watch *watch = mst_alloc(sizeof *watch);
    if (!watch) return NULL;      /* only a line of the log is missing then */
    pthread_condattr_t monotonic; /* the clock of mst_now_ns */
    watch->options = *options;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (mst_own_thread_start(&watch->thread, init_watch, watch) == 0) return watch;
    init_free(watch);
    return NULL;
}

void mpi_init_end(mpi_init_watch *watch) {
    if (!watch) return;
    pthread_mutex_lock(&watch->lock);
    watch->over = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    init_free(watch);
}
