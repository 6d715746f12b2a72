#include "own_thread_impl.h"

#include "memory_impl.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* What a program's main thread usually has. Only the pages that are used take memory. */
enum { STACK_BYTES = 8 << 20 };

typedef struct own_thread {
    muster_status (*task)(void *argument);
    void *argument;
    muster_status status;
    char message[MST_MESSAGE_SIZE];
} own_thread;

static void *own_thread_main(void *context) {
    own_thread *thread = context;
    thread->status = thread->task(thread->argument);
    if (thread->status != MUSTER_OK) mst_error_save(thread->message);
    return NULL;
}

static int own_thread_start(pthread_t *id, own_thread *thread) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const sigset_t before = mst_signals_block();
    if (!error) error = mst_memory_refuse() ? EAGAIN : pthread_create(id, &attributes, own_thread_main, thread);
    mst_signals_restore(&before);
    pthread_attr_destroy(&attributes);
    return error;
}

muster_status mst_own_thread_run(muster_status (*task)(void *argument), void *argument, const char *where) {
    own_thread thread = {.task = task, .argument = argument};
    pthread_t id;
    const int error = own_thread_start(&id, &thread);
    if (error)
        return mst_error(MUSTER_OUT_OF_MEMORY, "%s: out of memory, starting a thread with %d bytes of stack: %s", where, STACK_BYTES,
                         strerror(error));
    pthread_join(id, NULL);
    return thread.status == MUSTER_OK ? MUSTER_OK : mst_error_restore(thread.status, thread.message);
}
