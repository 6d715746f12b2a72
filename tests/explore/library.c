/* What the scheduler's files need of the other files, as small as can be: no formatting, no
 * allocation that a state would have to carry, and threads of the explorer. Every function here
 * does what its header says. */
#include "explorer.h"
#include "locale_impl.h"
#include "pool_state_private.h"
#include "topology_impl.h"

#include <stdlib.h>

muster_status mst_error(muster_status code, const char *format, ...) {
    (void)format;
    return code;
}

/* The message of a failure is one cell of plain memory: a thread that may not read it yet is found
 * out. */
void mst_error_save(char message[MST_MESSAGE_SIZE]) { explore_wrote(message); }

muster_status mst_error_restore(muster_status code, const char *message) {
    explore_has_read(message);
    return code;
}

const char *muster_last_error(void) { return ""; }

int mst_snprintf(char *text, size_t size, const char *format, ...) {
    (void)format;
    if (size > 0) text[0] = 0;
    return 0;
}

/* What mst_error_count reads. */
_Thread_local uint64_t mst_errors_of_thread;
muster_status mst_out_of_memory(const char *what, int64_t bytes) {
    (void)what, (void)bytes;
    return MUSTER_OUT_OF_MEMORY;
}
const char *muster_status_name(muster_status status) {
    (void)status;
    return "";
}

void *mst_alloc(size_t bytes) { return explore_alloc(bytes); }
void mst_free(void *block) { (void)block; }
bool mst_memory_refuse(void) { return false; }

/* Nobody gets on while time passes. */
uint64_t mst_recorder_progress(const mst_recorder *recorder) {
    (void)recorder;
    return 0;
}
const char *mst_recorder_last(const mst_recorder *recorder, char *text, size_t size) {
    (void)recorder;
    if (size > 0) text[0] = 0;
    return text;
}

/* There are no other processes. */
bool mst_worker_failed_elsewhere(const muster_worker *worker) {
    (void)worker;
    return false;
}

int32_t mst_topology_allowed(void) { return EXPLORE_THREADS; }
void mst_worker_scratch_reset(muster_worker *worker) { (void)worker; }
void mst_worker_scratch_release(muster_worker *worker) { (void)worker; }

const mst_pool *explore_queue_pool;

/* The pool starts its threads in the order of their ranks, from 1, or from 0 where rank 0 has
 * one. */
int explore_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*entry)(void *), void *argument);
int explore_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*entry)(void *), void *argument) {
    static const char *const names[] = {"rank 0", "rank 1", "rank 2", "rank 3"};
    (void)attributes;
    const bool queue = explore_queue_pool && argument == explore_queue_pool;
    *thread = (pthread_t)explore_thread(queue ? "queue" : names[((mst_worker_state *)argument)->worker.rank], entry, argument);
    return 0;
}

int explore_pthread_join(pthread_t thread, void **result);
int explore_pthread_join(pthread_t thread, void **result) {
    (void)result;
    explore_operation(EXPLORE_JOIN, __ATOMIC_SEQ_CST, NULL, 0, (uint64_t)thread, 0);
    return 0;
}
