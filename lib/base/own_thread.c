#include "own_thread_impl.h"

#include "memory_impl.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* What a program's main thread usually has. Only the pages that are used take memory. */
enum { STACK_BYTES = 8 << 20 };

typedef struct own_thread {
    pthread_t id;
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

int mst_own_thread_start(pthread_t *id, void *(*main)(void *argument), void *argument) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const sigset_t before = mst_signals_block();
    if (!error) error = mst_memory_refuse() ? EAGAIN : pthread_create(id, &attributes, main, argument);
    mst_signals_restore(&before);
    pthread_attr_destroy(&attributes);
    return error;
}

static muster_status own_thread_refuse(const char *where, int error) {
    return mst_error(MUSTER_OUT_OF_MEMORY, "%s: out of memory, starting a thread with %d bytes of stack: %s", where, STACK_BYTES,
                     strerror(error));
}

static muster_status own_thread_end(const own_thread *thread) {
    pthread_join(thread->id, NULL);
    return thread->status == MUSTER_OK ? MUSTER_OK : mst_error_restore(thread->status, thread->message);
}

muster_status mst_own_thread_run(muster_status (*task)(void *argument), void *argument, const char *where) {
    own_thread thread = {.task = task, .argument = argument};
    const int error = mst_own_thread_start(&thread.id, own_thread_main, &thread);
    return error ? own_thread_refuse(where, error) : own_thread_end(&thread);
}

muster_status mst_own_threads_run(muster_status (*task)(void *argument), void *argument, int32_t count, const char *where) {
    own_thread *threads = mst_alloc((size_t)count * sizeof *threads);
    if (!threads) return mst_out_of_memory(where, count * (int64_t)sizeof *threads);
    int32_t started = 0;
    int error = 0;
    for (; started < count && !error; started += !error) {
        threads[started] = (own_thread){.task = task, .argument = argument};
        error = mst_own_thread_start(&threads[started].id, own_thread_main, &threads[started]);
    }
    muster_status status = started > 0 ? MUSTER_OK : own_thread_refuse(where, error);
    for (int32_t i = 0; i < started; i++) {
        const muster_status ended = own_thread_end(&threads[i]);
        if (ended != MUSTER_OK) status = ended;
    }
    mst_free(threads);
    return status;
}
