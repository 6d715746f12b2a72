/* Threads that make calls at the same time: the lock serves them in the order in which they came,
 * and nobody is forgotten. */
#include "explorer.h"
#include "pool_state_private.h"

enum { MOST = 3 };

typedef struct lock_plan {
    int32_t threads, rounds;
    bool times_out; /* thread 1 waits for a time only */
    bool in_order;  /* thread 2 comes only when thread 1 has its place, which comes after thread 0 has the lock */
} lock_plan;

/* Memory of the scenario. */
static struct lock_memory {
    mst_ticket_lock tickets;
    int64_t inside; /* plain memory, which the lock guards: how often it was held */
    int64_t served[MOST];
    mst_counter held, queued; /* 1: thread 0 has the lock; 1: thread 1 has its place */
} * m;
static const lock_plan *plan;
static const mst_wait for_ever = {.timeout_ns = -1};

static void use(int32_t number) {
    explore_write(&m->inside, explore_read(&m->inside) + 1);
    if (plan->in_order && number == 2) {
        EXPLORE_CHECK(explore_read(&m->served[1]) == 1, "thread 2 has the lock before thread 1, which came before it");
    }
    explore_write(&m->served[number], explore_read(&m->served[number]) + 1);
}

static void *caller_0(void *argument) {
    (void)argument;
    for (int32_t round = 0; round < plan->rounds; round++) {
        EXPLORE_CHECK(mst_ticket_lock_acquire(&m->tickets, 0, false) == MST_TICKET_TAKEN, "no lock");
        if (plan->in_order) {
            mst_counter_publish(&m->held, 1);
            mst_counter_wait(&m->queued, 1, &for_ever);
        }
        use(0);
        mst_ticket_lock_release(&m->tickets);
    }
    return NULL;
}

static void *caller_1(void *argument) {
    (void)argument;
    for (int32_t round = 0; round < plan->rounds; round++) {
        mst_ticket ticket;
        if (plan->in_order) mst_counter_wait(&m->held, 1, &for_ever);
        const bool free = mst_ticket_lock_queue(&m->tickets, &ticket);
        if (plan->in_order) mst_counter_publish(&m->queued, 1);
        if (!free && mst_ticket_lock_wait(&m->tickets, &ticket, plan->times_out ? 1 : 0) != MST_TICKET_TAKEN) {
            EXPLORE_CHECK(plan->times_out, "no lock");
            continue;
        }
        use(1);
        mst_ticket_lock_release(&m->tickets);
    }
    return NULL;
}

static void *caller_2(void *argument) {
    (void)argument;
    for (int32_t round = 0; round < plan->rounds; round++) {
        if (plan->in_order) mst_counter_wait(&m->queued, 1, &for_ever);
        EXPLORE_CHECK(mst_ticket_lock_acquire(&m->tickets, 0, false) == MST_TICKET_TAKEN, "no lock");
        use(2);
        mst_ticket_lock_release(&m->tickets);
    }
    return NULL;
}

static void prepare(const void *context) {
    static const struct {
        const char *name;
        void *(*entry)(void *);
    } callers[MOST] = {{"caller 0", caller_0}, {"caller 1", caller_1}, {"caller 2", caller_2}};
    plan = context;
    m = explore_alloc(sizeof(*m));
    EXPLORE_CHECK(mst_ticket_lock_open(&m->tickets) == MUSTER_OK, "no lock");
    explore_lock_word(&m->tickets.state);
    explore_name(&m->tickets.state, sizeof(m->tickets.state), "state");
    explore_name(&m->tickets.lock, sizeof(m->tickets.lock), "mutex");
    for (int32_t i = 0; i < MST_TICKET_EVENTCOUNTS; i++)
        explore_counter(&m->tickets.eventcounts[i].generation, &m->tickets.eventcounts[i].sleepers);
    explore_name(&m->inside, sizeof(m->inside), "inside");
    explore_name(m->served, sizeof(m->served), "served");
    explore_name(&m->held, sizeof(m->held), "held");
    explore_name(&m->queued, sizeof(m->queued), "queued");
    explore_counter(&m->held.eventcount.generation, &m->held.eventcount.sleepers);
    explore_counter(&m->queued.eventcount.generation, &m->queued.eventcount.sleepers);
    for (int32_t i = 0; i < plan->threads; i++) explore_thread(callers[i].name, callers[i].entry, NULL);
}

static void finish(const void *context) {
    (void)context;
    int64_t sum = 0;
    for (int32_t i = 0; i < plan->threads; i++) {
        const bool all = m->served[i] == plan->rounds, may_miss = plan->times_out && i == 1;
        EXPLORE_CHECK(all || may_miss, "caller %d had the lock %lld times", (int)i, (long long)m->served[i]);
        sum += m->served[i];
    }
    EXPLORE_CHECK(m->inside == sum, "two had the lock at the same time");
    EXPLORE_CHECK(!m->tickets.first && !m->tickets.last, "a ticket is left");
    EXPLORE_CHECK(atomic_load(&m->tickets.state) == 0, "the lock is not free");
}

static const lock_plan two_twice = {.threads = 2, .rounds = 2}, three = {.threads = 3, .rounds = 1},
                       two_time_out = {.threads = 2, .rounds = 2, .times_out = true},
                       three_time_out = {.threads = 3, .rounds = 1, .times_out = true},
                       in_order = {.threads = 3, .rounds = 1, .in_order = true};

#define LOCK_SCENARIO(text, data, bound) \
    { .name = text, .prepare = prepare, .finish = finish, .context = &(data), .preemptions = bound }

const explore_scenario explore_ticket_lock_scenarios[] = {
    LOCK_SCENARIO("ticket_lock/2_callers_twice", two_twice, 0),
    LOCK_SCENARIO("ticket_lock/2_callers_of_which_1_times_out", two_time_out, 0),
    LOCK_SCENARIO("ticket_lock/3_callers", three, 0),
    LOCK_SCENARIO("ticket_lock/3_callers_of_which_1_times_out", three_time_out, 0),
    LOCK_SCENARIO("ticket_lock/in_the_order_of_coming", in_order, 0),
    {0},
};
