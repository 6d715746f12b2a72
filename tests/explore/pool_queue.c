/* Calls that no thread waits for: the queue's thread makes each once, in the order in which they
 * came, beside a thread that has the pool for itself, and ends when the queue is closed. */
#include "explorer.h"
#include "pool_state_private.h"

enum { JOBS = 3 };

typedef struct queue_plan {
    bool holds;     /* the first caller has the pool for itself before it submits */
    bool times_out; /* job 2, which may find the first caller before it, waits for a time only */
    bool cancels;   /* the second caller ends the calls that have come before it submits */
    bool together;  /* other processes make the same calls: jobs that are ended have the pool, and are told */
    int32_t length; /* of the queue; 0: longer than needed */
} queue_plan;

/* Memory of the scenario. */
static struct queue_memory {
    mst_job jobs[JOBS];
    mst_counter submitted; /* 1: by the first caller */
    int64_t inside;        /* plain memory, which the pool guards: how often it was held */
    int64_t held;          /* by the first caller */
    int32_t ran[JOBS];
    bool missed[JOBS]; /* the submission has failed */
    bool waited;       /* job 1 had its place when the second caller ended the calls, and had not run when that was done */
    int32_t run_count, order[JOBS];
} * m;
static mst_pool *pool;
static const queue_plan *plan;

static const mst_device_table device_table = {.backend = "host", .flags = MST_DEVICE_HOST_MEMORY};
static mst_device device = {.table = &device_table, .name = "host", .cpu = -1};

static void use(void) { explore_write(&m->inside, explore_read(&m->inside) + 1); }

static void run_job(mst_job *job, muster_status status) {
    const int32_t number = (int32_t)(job - m->jobs);
    m->ran[number]++;
    m->order[m->run_count++] = number;
    EXPLORE_CHECK(status == MUSTER_OK || (plan->times_out && number == 2 && status == MUSTER_TIMEOUT) ||
                      (plan->cancels && !plan->together && number != 2 && status == MUSTER_CANCELLED),
                  "job %d got status %d", (int)number, (int)status);
    if (status != MUSTER_OK) return;
    use();
    if (plan->together) {
        const bool told = mst_pool_must_end(pool);
        EXPLORE_CHECK(number != 2 || !told, "job 2, which came later, is told to end");
        EXPLORE_CHECK(number != 1 || !m->waited || told, "job 1, which waited when the calls were ended, is not told");
    }
    mst_pool_leave(pool);
}

/* One that waited for a place in vain does not run. */
static void submit(int32_t number) {
    m->jobs[number].run = run_job;
    const int64_t timeout_ns = plan->times_out && number == 2 ? 1 : 0;
    const muster_status status = mst_pool_submit(pool, &m->jobs[number], "test", timeout_ns);
    const bool may_miss = plan->length && ((plan->times_out && number == 2 && status == MUSTER_TIMEOUT) ||
                                           (plan->cancels && number == 1 && status == MUSTER_CANCELLED));
    EXPLORE_CHECK(status == MUSTER_OK || may_miss, "job %d is refused", (int)number);
    if (status != MUSTER_OK) m->missed[number] = true;
}

static void *first_caller(void *argument) {
    (void)argument;
    if (plan->holds) {
        EXPLORE_CHECK(mst_pool_enter(pool, "test", 0) == MUSTER_OK, "no pool");
        use();
        m->held = 1;
        mst_pool_leave(pool);
    }
    submit(1);
    mst_counter_publish(&m->submitted, 1);
    return NULL;
}

static void *second_caller(void *argument) {
    static const mst_wait for_ever = {.timeout_ns = -1};
    (void)argument;
    const bool placed = atomic_load(&m->submitted.value) == 1;
    if (plan->cancels) mst_pool_cancel(pool);
    m->waited = placed && m->ran[1] == 0;
    submit(2);
    mst_counter_wait(&m->submitted, 1, &for_ever);
    mst_call_queue_close(&pool->queue, false);
    EXPLORE_CHECK(m->run_count == JOBS - m->missed[1] - m->missed[2], "%d jobs have run when the queue is closed", (int)m->run_count);
    return NULL;
}

static void prepare(const void *context) {
    mst_device *devices[] = {&device};
    plan = context;
    const mst_pool_options options = {.spin_ns = 0, .warn_after_ns = -1, .fail_after_ns = -1, .total = plan->together ? 2 : 0};
    m = explore_alloc(sizeof(*m));
    EXPLORE_CHECK(mst_pool_create(&options, devices, 1, &pool) == MUSTER_OK, "no pool");
    explore_lock_word(&pool->tickets.state);
    explore_name(&pool->tickets.state, sizeof(pool->tickets.state), "state");
    explore_name(&pool->tickets.lock, sizeof(pool->tickets.lock), "mutex of the tickets");
    explore_name(&pool->queue.lock, sizeof(pool->queue.lock), "mutex of the queue");
    explore_name(&pool->queue.changed, sizeof(pool->queue.changed), "changed");
    explore_name(&m->inside, sizeof(m->inside), "inside");
    explore_name(&m->submitted.value, sizeof(m->submitted.value), "submitted");
    explore_counter(&m->submitted.eventcount.generation, &m->submitted.eventcount.sleepers);
    for (int32_t i = 0; i < JOBS; i++) {
        explore_name(&m->jobs[i].waiter.served, 8, "ticket of job %d", (int)i);
        explore_name(&m->jobs[i].placed, 8, "place of job %d", (int)i);
    }
    for (int32_t i = 0; i < MST_TICKET_EVENTCOUNTS; i++)
        explore_counter(&pool->tickets.eventcounts[i].generation, &pool->tickets.eventcounts[i].sleepers);
    explore_counter(&pool->queue.places.generation, &pool->queue.places.sleepers);
    if (plan->length) pool->queue.length = plan->length;
    explore_queue_pool = pool;
    submit(0); /* starts the thread */
    explore_queue_pool = NULL;
    explore_thread("caller 1", first_caller, NULL);
    explore_thread("caller 2", second_caller, NULL);
}

static void finish(const void *context) {
    (void)context;
    for (int32_t i = 0; i < JOBS; i++) EXPLORE_CHECK(m->ran[i] == !m->missed[i], "job %d ran %d times", (int)i, (int)m->ran[i]);
    EXPLORE_CHECK(m->order[0] == 0, "job %d, which came later, ran before job 0", (int)m->order[0]);
    EXPLORE_CHECK(pool->queue.count == 0 && !pool->queue.first && !pool->queue.last, "a job is left in the queue");
    EXPLORE_CHECK(!pool->queue.first_outside && !pool->queue.last_outside, "a job is left outside of the queue");
    EXPLORE_CHECK(atomic_load(&pool->tickets.state) == MST_TICKET_LOCK_FREE, "the pool is not free");
}

static const queue_plan two_callers = {.holds = false}, one_holds = {.holds = true}, one_times_out = {.holds = true, .times_out = true},
                        short_queue = {.length = 1}, short_times_out = {.length = 1, .times_out = true}, cancelled = {.cancels = true},
                        short_cancelled = {.length = 1, .cancels = true}, told = {.cancels = true, .together = true};

#define QUEUE_SCENARIO(text, data) \
    { .name = text, .prepare = prepare, .finish = finish, .context = &(data) }

const explore_scenario explore_pool_queue_scenarios[] = {
    QUEUE_SCENARIO("call_queue/2_callers", two_callers),
    QUEUE_SCENARIO("call_queue/beside_a_call", one_holds),
    QUEUE_SCENARIO("call_queue/beside_a_call_with_a_timeout", one_times_out),
    QUEUE_SCENARIO("call_queue/a_wait_for_a_place", short_queue),
    QUEUE_SCENARIO("call_queue/a_wait_for_a_place_with_a_timeout", short_times_out),
    QUEUE_SCENARIO("call_queue/cancelled", cancelled),
    QUEUE_SCENARIO("call_queue/told_to_end", told),
    QUEUE_SCENARIO("call_queue/cancelled_beside_a_wait_for_a_place", short_cancelled),
    {0},
};
