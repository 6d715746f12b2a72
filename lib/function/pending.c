/* Asynchronous calls: keeps their arguments until a thread of the pool makes the call, and then
 * their result. */
#include "processes_private.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct muster_pending {
    mst_job job;               /* must be the first member */
    muster_function *function; /* NULL: the handle has ended */
    const char *where;
    mst_counter done;     /* 1: status and message are set */
    pthread_mutex_t lock; /* held while `done` is published: a thread that has seen `done` takes the lock before it frees this */
    pid_t process;
    muster_status status;
    mst_completion completion; /* under the lock */
    char message[MST_MESSAGE_SIZE];
    muster_call_options options;
    int32_t input_count, output_count;
    muster_tensor tensors[]; /* inputs, then outputs, then the selections of replica_batch, then the buffers */
};

/* ---- on the pool's thread ---- */

/* The owner may end the handle as soon as the lock is free, in the completion function too. */
static void pending_finish(muster_pending *pending, muster_status status) {
    pending->status = status;
    if (status) mst_error_save(pending->message);
    pthread_mutex_lock(&pending->lock);
    const mst_completion completion = pending->completion;
    mst_counter_publish(&pending->done, 1);
    pthread_mutex_unlock(&pending->lock);
    if (completion.function) mst_completion_call(completion);
}

/* Leaves the pool before it publishes the result, so that a thread that then closes the runtime
 * finds the pool free. */
static void pending_serve(mst_job *job, muster_status status) {
    muster_pending *pending = (muster_pending *)job;
    if (!status) {
        muster_function *function = pending->function;
        mst_pool *pool = function->object.runtime->pool;
        status =
            mst_function_call_entered(function, &(mst_arguments){pending->where, pending->tensors, pending->tensors + pending->input_count,
                                                                 pending->input_count, pending->output_count, &pending->options, false});
        mst_pool_leave(pool);
    }
    pending_finish(pending, status);
}

/* ---- making one ---- */

static void pending_free_unmade(muster_pending *pending) {
    pthread_mutex_destroy(&pending->lock);
    mst_free(pending);
}

static void pending_keep(muster_pending *pending, const muster_tensor *inputs, const muster_tensor *outputs) {
    const muster_call_options *options = &pending->options;
    muster_selection *selections = (muster_selection *)(pending->tensors + pending->input_count + pending->output_count);
    if (pending->input_count) memcpy(pending->tensors, inputs, (size_t)pending->input_count * sizeof *inputs);
    if (pending->output_count) memcpy(pending->tensors + pending->input_count, outputs, (size_t)pending->output_count * sizeof *outputs);
    if (options->replica_batch_count) memcpy(selections, options->replica_batch, (size_t)options->replica_batch_count * sizeof *selections);
    pending->options.replica_batch = selections;
    if (!options->output_buffers) return;
    muster_buffer **buffers = (muster_buffer **)(selections + options->replica_batch_count);
    memcpy(buffers, options->output_buffers, (size_t)pending->output_count * sizeof *buffers);
    pending->options.output_buffers = buffers;
}

static muster_status pending_make(muster_function *function, const char *where, const muster_tensor *inputs, int32_t input_count,
                                  const muster_tensor *outputs, int32_t output_count, const muster_call_options *options,
                                  muster_pending **made) {
    const size_t bytes = sizeof(muster_pending) + (size_t)(input_count + output_count) * sizeof(muster_tensor) +
                         (size_t)options->replica_batch_count * sizeof(muster_selection) +
                         (options->output_buffers ? (size_t)output_count * sizeof(muster_buffer *) : 0);
    muster_pending *pending = mst_alloc(bytes);
    if (!pending) return mst_out_of_memory(where, (int64_t)bytes);
    if (mst_memory_refuse() || pthread_mutex_init(&pending->lock, NULL) != 0) {
        mst_free(pending);
        return mst_out_of_memory(where, sizeof(pthread_mutex_t));
    }
    pending->job.run = pending_serve;
    pending->job.unlimited = function->object.runtime->nodes != NULL; /* the queues of the processes are not equally full */
    pending->function = function;
    pending->where = where;
    pending->process = getpid();
    pending->options = *options;
    pending->input_count = input_count;
    pending->output_count = output_count;
    pending_keep(pending, inputs, outputs);
    *made = pending;
    return MUSTER_OK;
}

/* ---- refusing one ---- */

/* A call that this process has refused. It takes the place of the call in the queue, and tells the
 * other processes, which wait for the call. */
typedef struct pending_refusal {
    mst_job job; /* must be the first member */
    muster_function *function;
    const char *where;
    muster_call_options options; /* of which the deadlines count */
    muster_status refused;
    char message[MST_MESSAGE_SIZE];
} pending_refusal;

static void refusal_serve(mst_job *job, muster_status status) {
    pending_refusal *refusal = (pending_refusal *)job;
    if (!status) {
        mst_pool *pool = refusal->function->object.runtime->pool;
        const mst_arguments arguments = {.where = refusal->where, .options = &refusal->options};
        (void)mst_processes_refuse(refusal->function, &arguments, mst_error_restore(refusal->refused, refusal->message));
        mst_pool_leave(pool);
    }
    mst_free(refusal);
}

/* Waits for the other processes only where there is no memory or no thread for the refusal. The
 * thread of the queue, in a completion function, would wait for itself: there they are not told. */
static muster_status pending_refuse(muster_function *function, const char *where, const muster_call_options *options,
                                    muster_status refused) {
    char message[MST_MESSAGE_SIZE];
    mst_pool *pool = function->object.runtime->pool;
    if (!function->object.runtime->nodes) return refused;
    mst_error_save(message);
    pending_refusal *refusal = mst_alloc(sizeof *refusal);
    if (refusal) {
        *refusal =
            (pending_refusal){.job = {.run = refusal_serve, .unlimited = true}, .function = function, .where = where, .refused = refused};
        memcpy(refusal->message, message, sizeof refusal->message);
        if (mst_call_options_read(where, options, &refusal->options) != MUSTER_OK) refusal->options = mst_call_options_default;
        if (mst_pool_submit(pool, &refusal->job, where, 0) == MUSTER_OK) return mst_error_restore(refused, message);
        mst_free(refusal);
    }
    mst_error_restore(refused, message);
    return mst_pool_is_queue_thread(pool) ? refused : mst_processes_refuse_options(function, where, false, refused);
}

muster_status muster_function_call_async(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                         const muster_tensor *outputs, int32_t output_count, const muster_call_options *options,
                                         muster_pending **pending) {
    static const char where[] = "muster_function_call_async";
    muster_call_options known;
    muster_pending *made;
    if (pending) *pending = NULL;
    if (!function) return mst_error_null(where, "function", "a function");
    mst_pool *pool = function->object.runtime->pool;
    MUSTER_TRY(mst_pool_ready(pool, where));
    muster_status status = pending ? mst_plan_check(function, where, inputs, input_count, outputs, output_count, options, &known)
                                   : mst_error_null(where, "pending", "the address of a pointer");
    if (!status) status = pending_make(function, where, inputs, input_count, outputs, output_count, &known, &made);
    if (status) return pending_refuse(function, where, options, status);
    status = mst_pool_submit(pool, &made->job, where, known.queue_timeout_ns);
    if (!status) return *pending = made, MUSTER_OK;
    pending_free_unmade(made);
    return pending_refuse(function, where, options, status);
}

/* ---- its end ---- */

static muster_status pending_check(const muster_pending *pending, const char *where) {
    if (pending->function) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: pending: expected the handle of a call, received a copy of one that has ended", where);
}

static bool is_done(const muster_pending *pending) { return atomic_load(&pending->done.value) == 1; }

static muster_status wait_done(muster_pending *pending, const char *where) {
    MUSTER_TRY(pending_check(pending, where));
    if (mst_current_worker())
        return mst_error(MUSTER_BAD_STATE, "%s: called inside a running function, which the call may have to wait for", where);
    if (!is_done(pending) && pending->process != getpid())
        return mst_error(MUSTER_BAD_STATE, "%s: the call was made before fork, and the thread that serves it is not in this process",
                         where);
    if (!is_done(pending) && mst_pool_is_queue_thread(pending->function->object.runtime->pool))
        return mst_error(MUSTER_BAD_STATE, "%s: called inside a completion function, whose thread has yet to make the call", where);
    mst_counter_wait(&pending->done, 1, &(mst_wait){.timeout_ns = -1});
    return MUSTER_OK;
}

/* Of a call that has ended. The thread that made it may still hold the lock. The program may hold
 * copies of the handle. */
static void pending_retire(muster_pending *pending) {
    pthread_mutex_lock(&pending->lock);
    pthread_mutex_unlock(&pending->lock);
    pthread_mutex_destroy(&pending->lock);
    pending->function = NULL;
    mst_retire(pending);
}

/* Of a call that has ended: its outcome. */
static muster_status pending_end(muster_pending **pending) {
    const muster_status status = (*pending)->status ? mst_error_restore((*pending)->status, (*pending)->message) : MUSTER_OK;
    pending_retire(*pending);
    *pending = NULL;
    return status;
}

muster_status muster_pending_wait(muster_pending **pending) {
    static const char where[] = "muster_pending_wait";
    if (!pending) return mst_error_null(where, "pending", "the address of a pointer");
    if (!*pending) return MUSTER_OK;
    MUSTER_TRY(wait_done(*pending, where));
    return pending_end(pending);
}

muster_status muster_pending_test(muster_pending **pending, int32_t *done) {
    static const char where[] = "muster_pending_test";
    if (!done) return mst_error_null(where, "done", "the address of a number");
    *done = 0;
    if (!pending) return mst_error_null(where, "pending", "the address of a pointer");
    if (*pending) MUSTER_TRY(pending_check(*pending, where));
    *done = !*pending || is_done(*pending);
    return *pending && *done ? pending_end(pending) : MUSTER_OK;
}

muster_status muster_pending_destroy(muster_pending *pending) {
    if (!pending) return MUSTER_OK;
    MUSTER_TRY(wait_done(pending, "muster_pending_destroy"));
    pending_retire(pending);
    return MUSTER_OK;
}

/* ---- news of its end ---- */

static muster_status pending_report_to(muster_pending *pending, const char *where, mst_completion completion) {
    bool done = true;
    if (pending) {
        MUSTER_TRY(pending_check(pending, where));
        pthread_mutex_lock(&pending->lock);
        const bool taken = pending->completion.function != NULL;
        done = is_done(pending);
        if (!taken) pending->completion = completion;
        pthread_mutex_unlock(&pending->lock);
        if (taken) return mst_error(MUSTER_BAD_STATE, "%s: pending: expected a call without a notification so far", where);
    }
    if (done) mst_completion_call(completion);
    return MUSTER_OK;
}

muster_status muster_pending_notify(muster_pending *pending, muster_completion_function function, void *user) {
    static const char where[] = "muster_pending_notify";
    if (!function) return mst_error_null(where, "function", "a function");
    return pending_report_to(pending, where, (mst_completion){function, user});
}

muster_status muster_pending_notify_fd(muster_pending *pending, int32_t fd) {
    static const char where[] = "muster_pending_notify_fd";
    mst_completion completion;
    MUSTER_TRY(mst_completion_of_fd(where, fd, &completion));
    return pending_report_to(pending, where, completion);
}
