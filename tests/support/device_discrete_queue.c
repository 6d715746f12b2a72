/* The queues of the discrete device: each is served by a thread of its own, in the order of issue.
 * */
#include "device_discrete_private.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t async_copies;
static _Atomic int32_t stalled_ordinal = -1;
static _Thread_local mst_device *current_context;

int64_t mst_discrete_async_copies(void) { return atomic_load(&async_copies); }
void mst_discrete_stall(int32_t ordinal) { atomic_store(&stalled_ordinal, ordinal); }
mst_device *mst_discrete_context(void) { return current_context; }
void mst_discrete_set_context(mst_device *device) { current_context = device; }

/* ---- the device's own threads ---- */

static void wait_a_little(discrete_queue *queue) {
    const discrete_device *device = queue->device;
    if (device->longest_us <= 0) return;
    usleep((useconds_t)((discrete_random(&queue->random) >> 33) % ((uint64_t)device->longest_us + 1)));
}

static bool is_closing(discrete_device *device) {
    pthread_mutex_lock(&device->lock);
    const bool closing = device->closing;
    pthread_mutex_unlock(&device->lock);
    return closing;
}

/* A stalled device does nothing until the stall or the device ends. */
static void wait_while_stalled(discrete_device *device) {
    while (atomic_load(&stalled_ordinal) == device->ordinal && !is_closing(device)) usleep(500);
}

/* Comes back with the lock. */
static void run_next(discrete_queue *queue, const discrete_work *work, bool dropped) {
    discrete_device *device = queue->device;
    wait_a_little(queue);
    wait_while_stalled(device);
    muster_status status = dropped || device->head.lost ? MUSTER_OK : work->run(device, work);
    pthread_mutex_lock(&device->lock);
    if (status != MUSTER_OK) {
        device->failure = status;
        mst_error_save(device->message);
    }
}

/* After a failure the rest of the queues is dropped until the next synchronize, because a host
 * device would not have been given it. */
static void *serve(void *argument) {
    discrete_queue *queue = argument;
    discrete_device *device = queue->device;
    pthread_mutex_lock(&device->lock);
    for (;;) {
        while (queue->finished == queue->issued && !device->closing) pthread_cond_wait(&device->changed, &device->lock);
        if (queue->finished == queue->issued) break;
        const bool dropped = device->failure != MUSTER_OK;
        pthread_mutex_unlock(&device->lock);
        run_next(queue, &queue->works[queue->finished % DISCRETE_QUEUE_LENGTH], dropped);
        queue->finished++;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

static muster_status start_thread(discrete_queue *queue) {
    sigset_t all, before;
    sigfillset(&all);
    if (mst_memory_refuse()) return mst_out_of_memory("discrete device: thread", 0);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for this thread */
    int failed = pthread_create(&queue->thread, NULL, serve, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? mst_error(MUSTER_SYSTEM, "discrete device: thread: %s", strerror(failed)) : MUSTER_OK;
}

void discrete_stop_threads(discrete_device *device, int32_t count) {
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    for (int32_t q = 0; q < count; q++) pthread_join(device->queues[q].thread, NULL);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->lock);
}

muster_status discrete_start_threads(discrete_device *device) {
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->changed, NULL);
    for (int32_t q = 0; q < DISCRETE_QUEUES; q++) {
        device->queues[q].device = device;
        muster_status status = start_thread(&device->queues[q]);
        if (status == MUSTER_OK) continue;
        discrete_stop_threads(device, q);
        return status;
    }
    return MUSTER_OK;
}

void discrete_free_queues(discrete_device *device) {
    for (int32_t q = 0; q < DISCRETE_QUEUES; q++) mst_free(device->queues[q].works);
}

muster_status discrete_make_queues(discrete_device *device) {
    for (int32_t q = 0; q < DISCRETE_QUEUES; q++) {
        device->queues[q].works = mst_alloc(DISCRETE_QUEUE_LENGTH * sizeof(discrete_work));
        if (!device->queues[q].works)
            return mst_out_of_memory("discrete device: queue", DISCRETE_QUEUE_LENGTH * (int64_t)sizeof(discrete_work));
    }
    return MUSTER_OK;
}

/* ---- issuing and waiting ---- */

/* With the lock: sleeps for a millisecond or until something changes; then the head's interrupt may
 * end the wait. */
static muster_status wait_for_change(discrete_device *device) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&device->changed, &device->lock, &until);
    if (!device->head.interrupt) return MUSTER_OK;
    pthread_mutex_unlock(&device->lock);
    const muster_status status = device->head.interrupt(device->head.interrupt_user);
    pthread_mutex_lock(&device->lock);
    return status;
}

muster_status discrete_next_work(discrete_device *device, mst_queue which, discrete_run run, discrete_work **work) {
    discrete_queue *queue = &device->queues[which];
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&device->lock);
    while (queue->issued - queue->finished == DISCRETE_QUEUE_LENGTH && status == MUSTER_OK) status = wait_for_change(device);
    *work = &queue->works[queue->issued % DISCRETE_QUEUE_LENGTH];
    pthread_mutex_unlock(&device->lock);
    if (status == MUSTER_OK) (*work)->run = run;
    return status;
}

void discrete_submit(discrete_device *device, mst_queue queue) {
    pthread_mutex_lock(&device->lock);
    device->queues[queue].issued++;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

static bool all_done(const discrete_device *device) {
    bool done = true;
    for (int32_t q = 0; q < DISCRETE_QUEUES; q++) done = done && device->queues[q].issued == device->queues[q].finished;
    return done;
}

bool discrete_is_idle(discrete_device *device) {
    pthread_mutex_lock(&device->lock);
    const bool idle = all_done(device);
    pthread_mutex_unlock(&device->lock);
    return idle;
}

/* With the lock: the failure of what has been done, once. */
static muster_status take_failure(discrete_device *device) {
    const muster_status status = device->failure;
    device->failure = MUSTER_OK;
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, device->message);
}

muster_status discrete_synchronize(mst_device *head) {
    discrete_device *device = discrete_begin_issue(head);
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&device->lock);
    while (status == MUSTER_OK && !all_done(device)) status = wait_for_change(device);
    if (status == MUSTER_OK) status = take_failure(device);
    if (status == MUSTER_OK) device->head.exchange_busy = mst_device_exchange_goes_on(head);
    pthread_mutex_unlock(&device->lock);
    return discrete_end_issue(device, status);
}

static muster_status discrete_poll(mst_device *head, bool *done) {
    discrete_device *device = discrete_begin_issue(head);
    pthread_mutex_lock(&device->lock);
    *done = all_done(device);
    const muster_status status = *done ? take_failure(device) : MUSTER_OK;
    pthread_mutex_unlock(&device->lock);
    return discrete_end_issue(device, status);
}

/* ---- copies ---- */

static muster_status run_copy(discrete_device *device, const discrete_work *work) {
    (void)device;
    memcpy(work->to, work->from, (size_t)work->bytes);
    return MUSTER_OK;
}

static muster_status run_async_copy(discrete_device *device, const discrete_work *work) {
    const muster_status status = run_copy(device, work);
    atomic_fetch_add(&async_copies, 1);
    return status;
}

muster_status discrete_enqueue_copy(discrete_device *device, mst_queue queue, void *to, const void *from, int64_t bytes) {
    discrete_work *work;
    MUSTER_TRY(discrete_next_work(device, queue, queue == MST_QUEUE_COPY ? run_async_copy : run_copy, &work));
    work->to = to;
    work->from = from;
    work->bytes = bytes;
    discrete_submit(device, queue);
    return MUSTER_OK;
}

static muster_status copy_in_async(discrete_device *device, void *to_device, const void *from_host, int64_t bytes) {
    void *to;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(discrete_translate(device, to_device, bytes, &to));
    return discrete_enqueue_copy(device, MST_QUEUE_COPY, to, from_host, bytes);
}

static muster_status discrete_copy_in_async(mst_device *head, void *to_device, const void *from_host, int64_t bytes) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, copy_in_async(device, to_device, from_host, bytes));
}

/* ---- functions of the host ---- */

static muster_status run_function(discrete_device *device, const discrete_work *work) {
    (void)device;
    return work->function(work->user);
}

static muster_status enqueue_function(discrete_device *device, mst_discrete_function function, void *user) {
    discrete_work *work;
    MUSTER_TRY(discrete_next_work(device, MST_QUEUE_COMPUTE, run_function, &work));
    work->function = function;
    work->user = user;
    discrete_submit(device, MST_QUEUE_COMPUTE);
    return MUSTER_OK;
}

muster_status mst_discrete_call(mst_device *head, mst_discrete_function function, void *user) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, enqueue_function(device, function, user));
}

/* ---- events ---- */

typedef struct discrete_event {
    mst_device_event head;
    mst_queue queue;
    int64_t position;
} discrete_event;

static muster_status discrete_event_create(mst_device *head, mst_device_event **event) {
    discrete_device *device = discrete_begin_issue(head);
    if (device->head.in_flight) discrete_misuse(device, "an event is made while collectives are in flight");
    discrete_event *made = mst_alloc(sizeof *made);
    *event = made ? &made->head : NULL;
    if (!made) return discrete_end_issue(device, mst_out_of_memory("discrete device: event", sizeof *made));
    *made = (discrete_event){.head.device = head};
    device->event_count++;
    return discrete_end_issue(device, MUSTER_OK);
}

static void discrete_event_destroy(mst_device_event *event) {
    discrete_device *device = discrete_begin_issue(event->device);
    device->event_count--;
    mst_free(event);
    discrete_end_issue(device, MUSTER_OK);
}

static muster_status discrete_event_record(mst_device_event *event, mst_queue queue) {
    discrete_device *device = discrete_begin_issue(event->device);
    discrete_event *recorded = (discrete_event *)event;
    recorded->queue = queue;
    recorded->position = device->queues[queue].issued;
    return discrete_end_issue(device, MUSTER_OK);
}

static muster_status run_wait(discrete_device *device, const discrete_work *work) {
    discrete_device *awaited = work->awaited;
    (void)device;
    pthread_mutex_lock(&awaited->lock);
    while (awaited->queues[work->awaited_queue].finished < work->bytes && !awaited->closing)
        pthread_cond_wait(&awaited->changed, &awaited->lock);
    pthread_mutex_unlock(&awaited->lock);
    return MUSTER_OK;
}

static muster_status discrete_event_wait(mst_device *head, mst_queue queue, mst_device_event *event) {
    discrete_device *device = discrete_begin_issue(head);
    const discrete_event *awaited = (const discrete_event *)event;
    discrete_work *work;
    muster_status status = discrete_next_work(device, queue, run_wait, &work);
    if (status != MUSTER_OK) return discrete_end_issue(device, status);
    work->awaited = (discrete_device *)event->device;
    work->awaited_queue = awaited->queue;
    work->bytes = awaited->position;
    discrete_submit(device, queue);
    return discrete_end_issue(device, MUSTER_OK);
}

static muster_status discrete_event_query(mst_device_event *event, bool *done) {
    discrete_device *device = discrete_begin_issue(event->device);
    const discrete_event *asked = (const discrete_event *)event;
    pthread_mutex_lock(&device->lock);
    *done = device->queues[asked->queue].finished >= asked->position;
    pthread_mutex_unlock(&device->lock);
    return discrete_end_issue(device, MUSTER_OK);
}

static muster_status discrete_join(mst_device *head, mst_queue earlier, mst_queue later) {
    discrete_device *device = discrete_begin_issue(head);
    discrete_work *work;
    const int64_t position = device->queues[earlier].issued;
    muster_status status = discrete_next_work(device, later, run_wait, &work);
    if (status != MUSTER_OK) return discrete_end_issue(device, status);
    work->awaited = device;
    work->awaited_queue = earlier;
    work->bytes = position;
    discrete_submit(device, later);
    return discrete_end_issue(device, MUSTER_OK);
}

/* ---- contexts ---- */

static muster_status discrete_enter(mst_device *head) {
    ((discrete_device *)head)->previous = current_context;
    current_context = head;
    return MUSTER_OK;
}

static muster_status discrete_leave(mst_device *head) {
    discrete_device *device = (discrete_device *)head;
    if (current_context != head) discrete_misuse(device, "left where it was not entered");
    current_context = device->previous;
    return MUSTER_OK;
}

const mst_device_queue_table discrete_queue_table = {
    .enter = discrete_enter,
    .leave = discrete_leave,
    .poll = discrete_poll,
    .copy_in_async = discrete_copy_in_async,
    .event_create = discrete_event_create,
    .event_destroy = discrete_event_destroy,
    .event_record = discrete_event_record,
    .event_wait = discrete_event_wait,
    .event_query = discrete_event_query,
    .join = discrete_join,
};
