/* Code of other libraries on a thread of its own. The caller's thread may have a small stack, and a
 * signal mask that threads of such a library would inherit. */
#ifndef MST_OWN_THREAD_IMPL_H
#define MST_OWN_THREAD_IMPL_H

#include "status_impl.h"

#include <pthread.h>
#include <signal.h>

/* Runs task(argument) on a new thread, which has 8 MiB of stack and blocks all signals, and waits
 * for its end. The result and the message of a failure become those of the calling thread. `where`
 * begins the message if the thread cannot be started. Errors: OUT_OF_MEMORY (no thread), or the
 * task's. */
muster_status mst_own_thread_run(muster_status (*task)(void *argument), void *argument, const char *where);

/* Runs task(argument) on `count` such threads at the same time, 1 or more, and waits for all of
 * them. Fewer threads run if the system does not start as many; none is an error. The result is the
 * failure of one of the threads that failed. Errors: as mst_own_thread_run. */
muster_status mst_own_threads_run(muster_status (*task)(void *argument), void *argument, int32_t count, const char *where);

/* Starts such a thread, which the caller joins. 0, or an error number, and no thread: also where an
 * allocation is refused (memory_impl.h). */
int mst_own_thread_start(pthread_t *id, void *(*main)(void *argument), void *argument);

/* Blocks all signals in this thread, so that threads that are started until mst_signals_restore
 * leave every signal to the threads of the program. */
static inline sigset_t mst_signals_block(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

static inline void mst_signals_restore(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

#endif
