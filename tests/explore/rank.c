#include "rank.h"

shared *s;
static const rank_scenario *scenario;

static const mst_device_table device_table = {.backend = "host", .flags = MST_DEVICE_HOST_MEMORY};

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

int64_t rank_value(int32_t round, int32_t rank) { return 1 + s->run * 100 + round * 10 + rank; }

static muster_status task(muster_worker *worker, void *argument) {
    const run_plan *plan = argument;
    muster_status status = plan->body(worker, plan);
    s->statuses[s->run][worker->rank] = status;
    return status;
}

/* Without mst_pool_enter: the threads of a scenario share its thread-local variable. */
static muster_status make_call(const run_plan *plan) {
    if (mst_ticket_lock_acquire(&s->pool->tickets, 0, false) != MST_TICKET_TAKEN) return MUSTER_TIMEOUT;
    const muster_status status = mst_pool_call(s->pool, task, (void *)(uintptr_t)plan);
    mst_ticket_lock_leave(&s->pool->tickets);
    return status;
}

static muster_status make_run(const run_plan *plan) {
    if (scenario->cancels) return make_call(plan);
    return (plan->single ? mst_pool_run_single : mst_pool_run)(s->pool, task, (void *)(uintptr_t)plan);
}

static void *canceller(void *argument) {
    (void)argument;
    if (scenario->in_body) mst_counter_wait(&s->begun, 1, &(mst_wait){.timeout_ns = -1});
    mst_pool_cancel(s->pool);
    mst_counter_publish(&s->cancelled, 1);
    return NULL;
}

/* The caller's thread: all runs, one after another. */
static void *caller(void *argument) {
    (void)argument;
    for (int32_t run = 0; run < RUNS && scenario->runs[run].body; run++) {
        s->run = run;
        if (scenario->runs[run].deadline) mst_pool_set_deadlines(s->pool, -1, 1);
        if (scenario->cancels && run) mst_counter_wait(&s->cancelled, 1, &(mst_wait){.timeout_ns = -1});
        s->outcomes[run] = make_run(&scenario->runs[run]);
        if (s->outcomes[run] != MUSTER_OK && mst_failure_epoch(atomic_load(&s->pool->failure)) == s->pool->epoch)
            explore_has_read(s->pool->states[mst_failure_rank(atomic_load(&s->pool->failure))].message);
        if (scenario->after_run) scenario->after_run(run);
    }
    if (scenario->destroys) mst_pool_destroy(s->pool);
    return NULL;
}

static void name_word(const void *word, size_t bytes, const char *what, int32_t rank) {
    explore_name(word, bytes, "%s of rank %d", what, (int)rank);
}

static void name_eventcount(const mst_eventcount *eventcount, const char *what, int32_t rank) {
    explore_name(&eventcount->sleepers, sizeof(eventcount->sleepers), "sleepers of %s %d", what, (int)rank);
    explore_name(&eventcount->generation, sizeof(eventcount->generation), "generation of %s %d", what, (int)rank);
    explore_counter(&eventcount->generation, &eventcount->sleepers);
}

static void name_pool(mst_pool *pool) {
    explore_name(&pool->dispatch.value, 8, "epoch");
    name_eventcount(&pool->dispatch.eventcount, "dispatch", 0);
    explore_name(&pool->master.value, 8, "master");
    name_eventcount(&pool->master.eventcount, "master", 0);
    explore_name(&pool->done.value, 8, "done");
    name_eventcount(&pool->done.eventcount, "done", 0);
    explore_name(&pool->failure, 8, "failure");
    explore_name(&pool->least_epoch, 8, "least_epoch");
    explore_name(&s->heard.value, 8, "heard");
    name_eventcount(&s->heard.eventcount, "heard", 0);
    for (int32_t rank = 0; rank < pool->size; rank++) {
        mst_worker_state *state = &pool->states[rank];
        name_eventcount(&state->eventcount, "rank", rank);
        name_word(&state->finished, 8, "finished", rank);
        name_word(state->message, sizeof(state->message), "message", rank);
        explore_ignore(&state->worker.recorder, sizeof(state->worker.recorder));
        explore_ignore(state->message, sizeof(state->message));
    }
}

static void name_team(mst_team *team) {
    for (int32_t member = 0; member < team->size; member++) {
        mst_team_member *state = &team->members[member];
        for (int32_t line = 0; line < 2; line++) {
            name_word(&state->lines[line].arrived, 8, line ? "arrived[1]" : "arrived[0]", state->rank);
            name_word(state->lines[line].payload, MST_FLAG_PAYLOAD, line ? "payload[1]" : "payload[0]", state->rank);
        }
        name_word(&state->left, 8, "left", state->rank);
        name_word(&state->reading, 8, "reading", state->rank);
        name_word(&state->boxes, 8, "boxes", state->rank);
        name_word(&s->offered[state->rank], 8, "memory", state->rank);
    }
}

static void open_boxes(void) {
    for (int32_t to = 0; to < s->team->size; to++) {
        EXPLORE_CHECK(mst_box_open(s->team, to) == MUSTER_OK, "no boxes");
        for (int32_t from = 0; from < s->team->size; from++) {
            const mst_box *box = &atomic_load(&s->team->members[to].boxes)[from];
            explore_name(&box->posted, 8, "posted %d to %d", (int)from, (int)to);
            explore_name(box->payload, MST_BOX_PAYLOAD, "message %d to %d", (int)from, (int)to);
            explore_name(&box->taken, 8, "taken %d to %d", (int)from, (int)to);
            explore_name(&box->reading, 8, "reading %d to %d", (int)from, (int)to);
        }
    }
}

/* What the runs of this scenario do not need. */
static void promise(void) {
    bool goes_well = true;
    for (int32_t run = 0; run < RUNS; run++)
        goes_well = goes_well && scenario->runs[run].outcomes[0] == MUSTER_OK && !scenario->runs[run].deadline;
    if (scenario->cancels) return;
    explore_constant(&s->pool->tickets.state, sizeof(s->pool->tickets.state)); /* no call waits, and none is ended */
    if (goes_well) explore_constant(&s->pool->failure, sizeof(s->pool->failure));
    if (!scenario->runs[1].body && !scenario->awake && !scenario->destroys) explore_quiet(&s->pool->dispatch, sizeof(s->pool->dispatch));
}

void rank_prepare(const void *context) {
    scenario = context;
    mst_device *device = explore_alloc(sizeof(*device));
    mst_device *const hosts[RANKS] = {device, device, device};
    mst_pool_options options = {.spin_ns = scenario->spin_ns,
                                .warn_after_ns = -1,
                                .fail_after_ns = -1,
                                .dedicated_rank0 = scenario->dedicated_rank0,
                                .log = no_log};
    *device = (mst_device){.table = &device_table, .name = "host", .cpu = -1};
    s = explore_alloc(sizeof(*s));
    EXPLORE_CHECK(mst_pool_create(&options, scenario->devices ? scenario->devices : hosts, scenario->size, &s->pool) == MUSTER_OK,
                  "no pool");
    if (!scenario->awake) explore_drain();
    EXPLORE_CHECK(mst_team_create(s->pool, scenario->member_count ? scenario->members : NULL, scenario->member_count, &s->team) ==
                      MUSTER_OK,
                  "no team");
    name_pool(s->pool);
    name_team(s->team);
    if (scenario->cancels) {
        explore_lock_word(&s->pool->tickets.state);
        explore_name(&s->pool->tickets.state, 4, "state");
        explore_name(&s->pool->tickets.cancels, 4, "cancels");
        name_eventcount(&s->cancelled.eventcount, "cancelled", 0);
        name_eventcount(&s->begun.eventcount, "begun", 0);
        explore_thread("canceller", canceller, NULL);
    }
    if (scenario->boxes) open_boxes();
    promise();
    if (!scenario->destroys) {
        explore_may_sleep(&s->pool->dispatch.eventcount.generation);
        if (scenario->dedicated_rank0) explore_may_sleep(&s->pool->master.eventcount.generation);
    }
    explore_thread(scenario->dedicated_rank0 ? "caller" : "rank 0", caller, NULL);
}

static bool one_of(muster_status status, const muster_status three[3]) {
    return status == three[0] || status == three[1] || status == three[2];
}

void rank_finish(const void *context) {
    (void)context;
    for (int32_t run = 0; run < RUNS && scenario->runs[run].body; run++) {
        const run_plan *plan = &scenario->runs[run];
        EXPLORE_CHECK(one_of(s->outcomes[run], plan->outcomes), "run %d ended with %d", (int)run, (int)s->outcomes[run]);
        if (plan->refused) continue;
        bool all_right = true;
        for (int32_t rank = 0; rank < scenario->size; rank++) {
            all_right = all_right && s->statuses[run][rank] == MUSTER_OK;
            if (plan->how != 0 && rank == plan->failing) continue;
            EXPLORE_CHECK(one_of(s->statuses[run][rank], plan->statuses), "in run %d the body of rank %d returned %d", (int)run, (int)rank,
                          (int)s->statuses[run][rank]);
        }
        EXPLORE_CHECK(all_right == (s->outcomes[run] == MUSTER_OK), "run %d ended with %d, which is not what its bodies returned", (int)run,
                      (int)s->outcomes[run]);
    }
}

/* Either all ranks have written, and the call says so, or none has. */
void rank_finish_cancelled(const void *context) {
    (void)context;
    int32_t written = 0;
    for (int32_t rank = 0; rank < scenario->size; rank++) written += s->written[rank];
    EXPLORE_CHECK(s->outcomes[0] == MUSTER_OK || s->outcomes[0] == MUSTER_CANCELLED, "the call ended with %d", (int)s->outcomes[0]);
    EXPLORE_CHECK(written == (s->outcomes[0] == MUSTER_OK ? scenario->size : 0), "%d ranks have written, and the call ended with %d",
                  (int)written, (int)s->outcomes[0]);
    EXPLORE_CHECK(s->outcomes[1] == MUSTER_OK, "the later call ended with %d", (int)s->outcomes[1]);
}

bool rank_fails(const muster_worker *worker, const run_plan *plan, int32_t round, int32_t how) {
    return plan->how == how && worker->rank == plan->failing && round == plan->rounds - 1;
}
