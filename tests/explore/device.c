/* A rank whose device works by itself, beside a rank on the host: what was issued is waited for
 * before anybody may touch its memory, also when the wait is broken off, and an abort reaches the
 * thread that waits for its device.
 *
 * A real device is polled, with looks at the interrupt in between. Here the wait sleeps instead
 * until something happens that a look could see: the end of the work, an abort, a passed deadline.
 * So a change that no look sees is a wake-up that is lost. */
#include "clock_impl.h"
#include "rank.h"

enum { OWN_RANK = 1, SLICE_NS = 1000000000 };

/* Memory of the scenario. */
static struct device_memory {
    mst_device host, device;
    mst_counter issued, ended; /* pieces of work */
    mst_counter peer;          /* pieces of work whose peer has come, or that were cancelled */
    int64_t begin_ns;
    muster_status interrupt; /* what the last look of the wait said */
    int64_t tensor;          /* memory of the program, which the work reads */
} * m;
static mst_device *devices[2]; /* set by prepare */

/* What the bodies and the device do; of the scenario. */
static const struct device_plan {
    bool waits_for_peer; /* the work ends only when rank 0 has come, or when it is cancelled */
    bool cancels;        /* a wait that is broken off cancels the work */
    bool leaves_open;    /* the body does not wait for its work */
} * plan;

/* ---- the device ---- */

static const mst_wait for_ever = {.timeout_ns = -1};

static void *device_main(void *argument) {
    (void)argument;
    for (uint64_t piece = 1; piece <= RUNS; piece++) {
        mst_counter_wait(&m->issued, piece, &for_ever);
        if (plan->waits_for_peer) mst_counter_wait(&m->peer, piece, &for_ever);
        explore_read(&m->tensor);
        atomic_store(&m->ended.value, piece);
        mst_eventcount_notify(&s->pool->states[OWN_RANK].eventcount);
    }
    return NULL;
}

static bool look(void *context) {
    const mst_device *device = context;
    m->interrupt = device->interrupt(device->interrupt_user);
    return m->interrupt != MUSTER_OK;
}

static muster_status synchronize(mst_device *device) {
    const uint64_t issued = atomic_load(&m->issued.value);
    const bool deadline = s->pool->fail_after_ns >= 0;
    const mst_wait wait = {.timeout_ns = deadline ? SLICE_NS : -1, .stop = look, .context = device};
    for (;;) {
        const mst_wait_result result = mst_eventcount_wait(&s->pool->states[OWN_RANK].eventcount, &m->ended.value, issued, &wait);
        if (result == MST_REACHED) return MUSTER_OK;
        if (result == MST_TIMED_OUT && !look(device)) continue;
        if (plan->cancels) mst_counter_publish(&m->peer, issued);
        return m->interrupt;
    }
}

static muster_status enter(mst_device *device) {
    (void)device;
    return MUSTER_OK;
}

static const mst_device_table host_table = {.backend = "host", .flags = MST_DEVICE_HOST_MEMORY};
static const mst_device_queue_table queue_table = {.enter = enter, .leave = enter};
static const mst_device_table device_table = {.backend = "modelled", .synchronize = synchronize, .queue = &queue_table};

/* ---- the bodies ---- */

static muster_status of_rank_0(muster_worker *worker, const run_plan *run) {
    if (rank_fails(worker, run, 0, 1)) return MUSTER_USER;
    if (plan->waits_for_peer && !run->deadline) mst_counter_publish(&m->peer, (uint64_t)s->run + 1);
    return MUSTER_OK;
}

static muster_status body(muster_worker *worker, const run_plan *run) {
    if (worker->rank != OWN_RANK) return of_rank_0(worker, run);
    mst_counter_publish(&m->issued, (uint64_t)s->run + 1);
    if (plan->leaves_open) return MUSTER_OK;
    const muster_status status = mst_worker_sync(worker);
    if (m->device.lost)
        EXPLORE_CHECK(mst_worker_sync(worker) == MUSTER_DEVICE_LOST, "a lost device is waited for");
    else
        explore_write(&m->tensor, s->run);
    return status;
}

static void after_run(int32_t run) {
    if (!m->device.lost) explore_write(&m->tensor, 10 + run);
}

/* ---- scenarios ---- */

typedef struct device_scenario {
    rank_scenario ranks;
    struct device_plan plan;
    bool is_lost; /* in the end */
} device_scenario;

static void name_counter(const mst_counter *counter, const char *name) {
    explore_name(&counter->value, sizeof counter->value, "%s", name);
    explore_name(&counter->eventcount.sleepers, sizeof counter->eventcount.sleepers, "sleepers of %s", name);
    explore_name(&counter->eventcount.generation, sizeof counter->eventcount.generation, "generation of %s", name);
    explore_counter(&counter->eventcount.generation, &counter->eventcount.sleepers);
}

static void prepare(const void *context) {
    const device_scenario *scenario = context;
    plan = &scenario->plan;
    m = explore_alloc(sizeof(*m));
    m->begin_ns = mst_now_ns();
    m->host = (mst_device){.table = &host_table, .name = "host", .cpu = -1};
    m->device = mst_device_head(&device_table);
    devices[0] = &m->host;
    devices[OWN_RANK] = &m->device;
    rank_prepare(&scenario->ranks);
    name_counter(&m->issued, "issued");
    name_counter(&m->peer, "peer");
    explore_name(&m->ended.value, sizeof m->ended.value, "ended");
    explore_name(&m->tensor, sizeof m->tensor, "tensor");
    if (scenario->is_lost) explore_may_sleep(&m->peer.eventcount.generation);
    explore_thread("device", device_main, NULL);
}

static void finish(const void *context) {
    const device_scenario *scenario = context;
    rank_finish(&scenario->ranks);
    /* one slice until the wait is late, and two, which are 2 s, until the device is given up */
    EXPLORE_CHECK(mst_now_ns() == m->begin_ns + (scenario->is_lost ? 3 : 0) * (int64_t)SLICE_NS, "the waits took %lld ns",
                  (long long)(mst_now_ns() - m->begin_ns));
    EXPLORE_CHECK(m->device.lost == scenario->is_lost, "the device is %s", m->device.lost ? "lost" : "not lost");
    EXPLORE_CHECK(atomic_load(&m->ended.value) == (scenario->is_lost ? 0 : RUNS), "%d pieces of work have ended",
                  (int)atomic_load(&m->ended.value));
}

#define RANKS_AND_DEVICES .size = 2, .devices = devices, .after_run = after_run
#define OUTCOMES(code) .outcomes = {code, code, code}
#define STATUSES(code, other) .statuses = {code, other, other}
#define FAILS .body = body, .rounds = 1, .how = 1, OUTCOMES(MUSTER_USER)
#define GOES_WELL \
    { .body = body, .rounds = 1 }

static const device_scenario waited_for = {.ranks = {RANKS_AND_DEVICES, .runs = {GOES_WELL, GOES_WELL}}};
static const device_scenario left_open = {.ranks = {RANKS_AND_DEVICES, .runs = {GOES_WELL, GOES_WELL}}, .plan = {.leaves_open = true}};
/* The abort comes before, while, or after the wait ends. */
static const device_scenario beside = {.ranks = {RANKS_AND_DEVICES, .runs = {{FAILS, STATUSES(MUSTER_OK, MUSTER_ABORTED)}, GOES_WELL}}};
static const device_scenario beside_left_open = {.ranks = {RANKS_AND_DEVICES, .runs = {{FAILS, STATUSES(MUSTER_OK, MUSTER_OK)}, GOES_WELL}},
                                                 .plan = {.leaves_open = true}};
static const device_scenario peer_fails = {
    .ranks = {RANKS_AND_DEVICES, .runs = {{FAILS, STATUSES(MUSTER_ABORTED, MUSTER_ABORTED)}, GOES_WELL}},
    .plan = {.waits_for_peer = true, .cancels = true}};
static const device_scenario given_up = {
    .ranks = {RANKS_AND_DEVICES,
              .runs = {{.body = body, .rounds = 1, .deadline = true, OUTCOMES(MUSTER_TIMEOUT), STATUSES(MUSTER_TIMEOUT, MUSTER_OK)},
                       {.body = body, .rounds = 1, .refused = true, OUTCOMES(MUSTER_DEVICE_LOST)}}},
    .plan = {.waits_for_peer = true},
    .is_lost = true};

#define DEVICE_SCENARIO(text, data) \
    { .name = text, .prepare = prepare, .finish = finish, .context = &(data) }

const explore_scenario explore_device_scenarios[] = {
    DEVICE_SCENARIO("device/work_is_waited_for", waited_for),
    DEVICE_SCENARIO("device/the_end_of_the_run_waits", left_open),
    DEVICE_SCENARIO("device/an_abort_beside_work", beside),
    DEVICE_SCENARIO("device/an_abort_beside_work_left_open", beside_left_open),
    DEVICE_SCENARIO("device/a_peer_that_failed", peer_fails),
    DEVICE_SCENARIO("device/given_up_at_the_deadline", given_up),
    {0},
};
