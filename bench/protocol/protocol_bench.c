/* What the protocol of a call costs on this machine: one round trip between two threads and its
 * variants, calls after a pause, and more workers than cores; and what one event of the recorder
 * costs. All variants of a question are measured alternately in the same run; their ratio is taken
 * round by round.
 *
 * protocol_bench [rounds]    (default 60) */
#include "pool_impl.h"
#include "topology_impl.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ROUNDS = 1000, CALLS = 2000, WORKERS = 4, SPARE_LINES = 64 };

static const int64_t SPIN_NS = 20000;

/* ---- statistics ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts `values`. */
static double quantile(double *values, int32_t count, double q) {
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return values[(int32_t)(q * (count - 1) + 0.5)];
}

static double ns_since(uint64_t begin) { return (double)(mst_ticks() - begin) / mst_ticks_per_ns(); }

/* ---- teams: the dispatch and the end of a run, written out, so that one thing at a time can be
 * changed ---- */

typedef enum { INLINE_DESCRIPTOR, POINTED_DESCRIPTOR } placement;
typedef enum { BY_SPIN_THEN_FUTEX, BY_FUTEX, BY_YIELD } waiting;

typedef struct descriptor {
    void (*task)(void *argument);
    void *argument;
} descriptor;

typedef struct team {
    _Alignas(MST_CACHE_LINE) mst_counter dispatch;
    descriptor in_line;
    descriptor *pointed;
    _Alignas(MST_CACHE_LINE) mst_counter done;
    _Alignas(MST_CACHE_LINE) struct { _Alignas(MST_CACHE_LINE) descriptor descriptor; } lines[SPARE_LINES];
    placement placement;
    waiting waiting;
    int32_t size;
    uint64_t epoch;
    pthread_t threads[WORKERS];
} team;

static void nothing(void *argument) { (void)argument; }

static void wait_for(mst_counter *counter, uint64_t target, waiting how) {
    mst_wait wait = {.spin_ns = how == BY_SPIN_THEN_FUTEX ? SPIN_NS : 0, .timeout_ns = -1};
    /* A yield that is not bounded would never let an idle program rest: 200 of them, then sleep. */
    for (int32_t i = 0; how == BY_YIELD && i < 200; i++) {
        if (atomic_load(&counter->value) >= target) return;
        sched_yield();
    }
    mst_counter_wait(counter, target, &wait);
}

static void *team_main(void *context) {
    team *t = context;
    for (uint64_t epoch = 1;; epoch++) {
        wait_for(&t->dispatch, epoch, t->waiting);
        descriptor d = t->placement == INLINE_DESCRIPTOR ? t->in_line : *t->pointed;
        if (!d.task) return NULL;
        d.task(d.argument);
        uint64_t target = epoch * (uint64_t)(t->size - 1);
        if (atomic_fetch_add(&t->done.value, 1) + 1 == target) mst_eventcount_notify(&t->done.eventcount);
    }
}

static void team_dispatch(team *t, descriptor d) {
    t->epoch++;
    t->pointed = &t->lines[t->epoch % SPARE_LINES].descriptor;
    if (t->placement == INLINE_DESCRIPTOR)
        t->in_line = d;
    else
        *t->pointed = d;
    mst_counter_publish(&t->dispatch, t->epoch);
}

static void team_run(team *t) {
    team_dispatch(t, (descriptor){nothing, t});
    nothing(t);
    wait_for(&t->done, t->epoch * (uint64_t)(t->size - 1), t->waiting);
}

static team *team_open(int32_t size, placement placement, waiting waiting) {
    team *t = mst_alloc(sizeof(*t));
    if (!t) exit(1);
    t->size = size;
    t->placement = placement;
    t->waiting = waiting;
    for (int32_t i = 1; i < size; i++) {
        if (pthread_create(&t->threads[i], NULL, team_main, t) != 0) exit(1);
    }
    return t;
}

static void team_close(team *t) {
    team_dispatch(t, (descriptor){NULL, NULL});
    for (int32_t i = 1; i < t->size; i++) pthread_join(t->threads[i], NULL);
    mst_free(t);
}

/* ---- the pool itself ---- */

static muster_status no_sync(mst_device *device) {
    (void)device;
    return MUSTER_OK;
}
static const mst_device_table bench_table = {.backend = "bench", .flags = MST_DEVICE_HOST_MEMORY, .synchronize = no_sync};
static void print_line(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    fprintf(stderr, "%s\n", line);
}
static muster_status empty_task(muster_worker *worker, void *argument) {
    (void)worker, (void)argument;
    return MUSTER_OK;
}

static mst_pool *pool_open(int32_t size, int64_t spin_ns, bool pin) {
    static mst_device made[WORKERS];
    mst_device *devices[WORKERS];
    int32_t cpus[WORKERS], cores = mst_topology_cores(cpus, WORKERS);
    for (int32_t i = 0; i < size; i++) {
        made[i] = (mst_device){.table = &bench_table, .name = "bench", .cpu = size <= cores ? cpus[i] : -1};
        devices[i] = &made[i];
    }
    mst_pool_options options = {
        .spin_ns = spin_ns, .pin = pin, .warn_after_ns = 30000000000, .fail_after_ns = 600000000000, .log = print_line};
    mst_pool *pool = NULL;
    if (mst_pool_create(&options, devices, size, &pool) != MUSTER_OK) exit(1);
    return pool;
}

static void pool_run(mst_pool *pool) {
    if (mst_pool_enter(pool, "protocol_bench", 0) != MUSTER_OK || mst_pool_run(pool, empty_task, NULL) != MUSTER_OK) exit(1);
    mst_pool_leave(pool);
}

/* ---- measuring ---- */

typedef struct variant {
    const char *name;
    team *team;
    mst_pool *pool;
    double medians[MOST_ROUNDS], p99[MOST_ROUNDS], ratios[MOST_ROUNDS];
} variant;

static void run_once(variant *v) {
    if (v->pool)
        pool_run(v->pool);
    else
        team_run(v->team);
}

static void run_round(variant *v, int32_t round, int32_t calls, int64_t pause_ns) {
    static double times[CALLS];
    for (int32_t warm = 0; pause_ns == 0 && warm < 50; warm++) run_once(v);
    for (int32_t i = 0; i < calls; i++) {
        if (pause_ns > 0) nanosleep(&(struct timespec){0, pause_ns}, NULL);
        uint64_t begin = mst_ticks();
        run_once(v);
        times[i] = ns_since(begin);
    }
    v->medians[round] = quantile(times, calls, 0.5);
    v->p99[round] = quantile(times, calls, 0.99);
}

/* Ratios are to variant 0, of the same round. The order changes from round to round. */
static void compare(const char *title, variant *variants, int32_t count, int32_t rounds, int32_t calls, int64_t pause_ns) {
    for (int32_t round = 0; round < rounds; round++) {
        for (int32_t i = 0; i < count; i++) run_round(&variants[(i + round) % count], round, calls, pause_ns);
        for (int32_t i = 0; i < count; i++) variants[i].ratios[round] = variants[i].medians[round] / variants[0].medians[round];
    }
    printf("%s\n  %-44s %10s %10s %8s %17s\n", title, "", "median us", "p99 us", "ratio", "its 10%..90%");
    for (int32_t i = 0; i < count; i++) {
        variant *v = &variants[i];
        printf("  %-44s %10.3f %10.3f %8.3f %8.3f..%-8.3f\n", v->name, quantile(v->medians, rounds, 0.5) / 1000,
               quantile(v->p99, rounds, 0.5) / 1000, quantile(v->ratios, rounds, 0.5), quantile(v->ratios, rounds, 0.1),
               quantile(v->ratios, rounds, 0.9));
    }
    fflush(stdout);
}

static void close_all(variant *variants, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (variants[i].team) team_close(variants[i].team);
        mst_pool_destroy(variants[i].pool);
    }
}

static variant of_team(const char *name, int32_t size, placement placement, waiting waiting) {
    return (variant){.name = name, .team = team_open(size, placement, waiting)};
}
static variant of_pool(const char *name, int32_t size, int64_t spin_ns, bool pin) {
    return (variant){.name = name, .pool = pool_open(size, spin_ns, pin)};
}

static void round_trips(int32_t rounds) {
    static variant v[4];
    v[0] = of_team("bare round trip, descriptor in the line", 2, INLINE_DESCRIPTOR, BY_SPIN_THEN_FUTEX);
    v[1] = of_team("the same program again", 2, INLINE_DESCRIPTOR, BY_SPIN_THEN_FUTEX);
    v[2] = of_team("descriptor in a line of its own", 2, POINTED_DESCRIPTOR, BY_SPIN_THEN_FUTEX);
    v[3] = of_pool("the pool: enter, empty run, leave", 2, SPIN_NS, true);
    compare("round trip of 2 spinning threads", v, 4, rounds, CALLS, 0);
    close_all(v, 4);
}

static void cold_calls(int32_t rounds) {
    static const struct {
        const char *title;
        int64_t pause_ns;
        int32_t calls;
    } pauses[] = {{"2 workers, call after a pause of 10 us", 10000, 200},
                  {"2 workers, call after a pause of 1 ms", 1000000, 40},
                  {"2 workers, call after a pause of 100 ms", 100000000, 2}};
    for (int32_t i = 0; i < 3; i++) {
        static variant v[4];
        v[0] = of_pool("pool, pinned, futex at once", 2, 0, true);
        v[1] = of_pool("pool, pinned, spins 20 us, then futex", 2, SPIN_NS, true);
        v[2] = of_pool("pool, pinned, spins 200 us, then futex", 2, 200000, true);
        v[3] = of_pool("pool, not pinned, spins 20 us, then futex", 2, SPIN_NS, false);
        compare(pauses[i].title, v, 4, i == 2 ? (rounds < 10 ? rounds : 10) : rounds / 2 + 1, pauses[i].calls, pauses[i].pause_ns);
        close_all(v, 4);
    }
}

static void oversubscribed(int32_t rounds) {
    static variant v[4];
    v[0] = of_team("bare fork-join by futex", WORKERS, INLINE_DESCRIPTOR, BY_FUTEX);
    v[1] = of_team("bare fork-join by yield (200), then futex", WORKERS, INLINE_DESCRIPTOR, BY_YIELD);
    v[2] = of_team("bare fork-join by spin (20 us), then futex", WORKERS, INLINE_DESCRIPTOR, BY_SPIN_THEN_FUTEX);
    v[3] = of_pool("the pool", WORKERS, SPIN_NS, true);
    compare("4 workers on the CPUs of this process", v, 4, rounds / 2 + 1, 300, 0);
    close_all(v, 4);
}

/* ---- the recorder ---- */

static double record_once(mst_recorder *recorder) {
    enum { EVENTS = 10000 };
    uint64_t begin = mst_ticks();
    for (uint64_t i = 0; i < EVENTS; i++) mst_record_end(recorder, mst_record_begin(recorder, MST_EVENT_COLLECTIVE, "all_reduce", i, 4096));
    return ns_since(begin) / EVENTS;
}

/* What only reading the counter costs, twice as for an event: no event can cost less. */
static double read_ticks_twice(void) {
    enum { EVENTS = 10000 };
    static volatile uint64_t kept[2];
    uint64_t begin = mst_ticks();
    for (int32_t i = 0; i < EVENTS; i++) {
        kept[0] = mst_ticks();
        kept[1] = mst_ticks();
    }
    (void)kept;
    return ns_since(begin) / EVENTS;
}

static void recorder(int32_t rounds) {
    static double ticks[MOST_ROUNDS], mine[MOST_ROUNDS], longer[MOST_ROUNDS];
    mst_recorder *recorders[2] = {mst_alloc(sizeof(mst_recorder)), mst_alloc(sizeof(mst_recorder))};
    if (!recorders[0] || !recorders[1] || mst_recorder_open(recorders[1], 65536, false, "protocol_bench") != MUSTER_OK) exit(1);
    for (int32_t i = 0; i < 10; i++) record_once(recorders[1]); /* its pages exist */
    for (int32_t round = 0; round < rounds; round++) {
        ticks[round] = read_ticks_twice();
        mine[round] = record_once(recorders[0]);
        longer[round] = record_once(recorders[1]);
    }
    printf("recorder: begin and end of one event, median ns: %.1f (ring of 256), %.1f (ring of 65536), %.1f (the two readings of the "
           "counter alone)\n",
           quantile(mine, rounds, 0.5), quantile(longer, rounds, 0.5), quantile(ticks, rounds, 0.5));
    for (int32_t i = 0; i < 2; i++) {
        mst_recorder_close(recorders[i]);
        mst_free(recorders[i]);
    }
}

int main(int argc, char **argv) {
    int32_t rounds = argc > 1 ? atoi(argv[1]) : 60;
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "protocol_bench: rounds: expected 1 to %d\n", MOST_ROUNDS);
        return 2;
    }
    printf("%d CPUs allowed, topology from %s\n", (int)mst_topology_allowed(), mst_topology_source());
    recorder(rounds);
    round_trips(rounds);
    cold_calls(rounds);
    oversubscribed(rounds);
    return 0;
}
