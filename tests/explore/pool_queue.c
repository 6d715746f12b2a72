/* Calls that no thread waits for: the queue's thread makes each once, in the order in which they
 * came, beside a thread that has the pool for itself, and ends when the queue is closed. */
#include "explorer.h"
#include "pool_state_private.h"

enum { JOBS = 3 };

typedef struct queue_plan {
    bool holds;     /* the first caller has the pool for itself before it submits */
    bool times_out; /* job 2, which may find the first caller before it, waits for a time only */
} queue_plan;

/* Memory of the scenario. */
static struct queue_memory {
    mst_job jobs[JOBS];
    mst_counter submitted; /* 1: by the first caller */
    int64_t inside;        /* plain memory, which the pool guards: how often it was held */
    int64_t held;          /* by the first caller */
    int32_t ran[JOBS];
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
    EXPLORE_CHECK(status == MUSTER_OK || (plan->times_out && number == 2 && status == MUSTER_TIMEOUT), "job %d got status %d", (int)number,
                  (int)status);
    if (status != MUSTER_OK) return;
    use();
    mst_pool_leave(pool);
}

static void submit(int32_t number) {
    m->jobs[number].run = run_job;
    const int64_t timeout_ns = plan->times_out && number == 2 ? 1 : 0;
    EXPLORE_CHECK(mst_pool_submit(pool, &m->jobs[number], "test", timeout_ns) == MUSTER_OK, "job %d is refused", (int)number);
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
    submit(2);
    mst_counter_wait(&m->submitted, 1, &for_ever);
    mst_call_queue_close(&pool->queue, false);
    EXPLORE_CHECK(m->run_count == JOBS, "%d jobs have run when the queue is closed", (int)m->run_count);
    return NULL;
}

static void prepare(const void *context) {
    mst_device *devices[] = {&device};
    const mst_pool_options options = {.spin_ns = 0, .warn_after_ns = -1, .fail_after_ns = -1};
    plan = context;
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
        mst_eventcount *eventcount = &m->jobs[i].waiter.counter.eventcount;
        explore_name(&m->jobs[i].waiter.counter.value, 8, "ticket of job %d", (int)i);
        explore_counter(&eventcount->generation, &eventcount->sleepers);
    }
    explore_queue_pool = pool;
    submit(0); /* starts the thread */
    explore_queue_pool = NULL;
    explore_thread("caller 1", first_caller, NULL);
    explore_thread("caller 2", second_caller, NULL);
}

static void finish(const void *context) {
    (void)context;
    for (int32_t i = 0; i < JOBS; i++) EXPLORE_CHECK(m->ran[i] == 1, "job %d ran %d times", (int)i, (int)m->ran[i]);
    EXPLORE_CHECK(m->order[0] == 0, "job %d, which came later, ran before job 0", (int)m->order[0]);
    EXPLORE_CHECK(pool->queue.count == 0 && !pool->queue.first && !pool->queue.last, "a job is left in the queue");
    EXPLORE_CHECK(atomic_load(&pool->tickets.state) == MST_TICKET_LOCK_FREE, "the pool is not free");
}

static const queue_plan two_callers = {.holds = false}, one_holds = {.holds = true}, one_times_out = {.holds = true, .times_out = true};

#define QUEUE_SCENARIO(text, data) \
    { .name = text, .prepare = prepare, .finish = finish, .context = &(data) }

const explore_scenario explore_pool_queue_scenarios[] = {
    QUEUE_SCENARIO("call_queue/2_callers", two_callers),
    QUEUE_SCENARIO("call_queue/beside_a_call", one_holds),
    QUEUE_SCENARIO("call_queue/beside_a_call_with_a_timeout", one_times_out),
    {0},
};
