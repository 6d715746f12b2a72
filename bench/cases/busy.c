/* What a call costs on a machine that other programs keep busy. */
#include "busy.h"

#include "fork_join.h"
#include "muster_case.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PROGRAMS = 64, COUNT = 1024, REDUCTIONS = 10, RANKS = 2 };

/* ---- the other programs ---- */

typedef struct programs {
    pid_t ids[MOST_PROGRAMS];
    int32_t count;
} programs;

static void stop(programs *p) {
    for (int32_t i = 0; i < p->count; i++) kill(p->ids[i], SIGKILL);
    for (int32_t i = 0; i < p->count; i++) waitpid(p->ids[i], NULL, 0);
    p->count = 0;
}

/* Programs that compute and never wait. They end with this one. */
static bool start(programs *p, int32_t count) {
    while (p->count < count) {
        const pid_t id = fork();
        if (id == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile uint64_t i = 0;; i++) {}
        }
        if (id < 0) {
            stop(p);
            return false;
        }
        p->ids[p->count++] = id;
    }
    return true;
}

/* ---- the contenders ---- */

typedef struct reductions {
    muster_runtime *runtime;
    muster_function *function;
    float *from[RANKS], *to[RANKS];
} reductions;

static muster_status reduce(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    reductions *r = user;
    const int32_t rank = muster_worker_rank(w);
    for (int32_t i = 0; i < REDUCTIONS; i++)
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, muster_f32(r->from[rank], COUNT), muster_f32(r->to[rank], COUNT)));
    return MUSTER_OK;
}

static bool reductions_open(reductions *r, int64_t spin_ns) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.spin_ns = spin_ns;
    for (int32_t rank = 0; rank < RANKS; rank++) {
        r->from[rank] = malloc(COUNT * sizeof(float));
        r->to[rank] = calloc(COUNT, sizeof(float));
        if (!r->from[rank] || !r->to[rank]) return false;
        for (int32_t i = 0; i < COUNT; i++) r->from[rank][i] = (float)(rank + 1);
    }
    return bench_muster_ok(muster_runtime_open(&options, &r->runtime), "muster") &&
           bench_muster_ok(muster_function_create(r->runtime, "ten all-reduces", reduce, r, &r->function), "muster");
}

static bool reductions_close(reductions *r) {
    const bool ok = !r->runtime || bench_muster_ok(muster_runtime_close(r->runtime), "muster");
    for (int32_t rank = 0; rank < RANKS; rank++) {
        free(r->from[rank]);
        free(r->to[rank]);
    }
    return ok;
}

/* The program of one call rests before each; the thread of the caller sleeps then. */
static void rest(const bench_block *block) {
    if (block->pause_ns > 0) nanosleep(&(struct timespec){0, block->pause_ns}, NULL);
}

static bool reductions_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    reductions *r = self;
    const bench_block once = {0, 1, 0};
    muster_status status = MUSTER_OK;
    for (int32_t rank = 0; rank < RANKS; rank++) memset(r->to[rank], 0, COUNT * sizeof(float));
    for (int32_t i = -block->warm; i < block->calls; i++) {
        double took;
        rest(block);
        BENCH_TIME(&once, &took, status |= muster_function_call(r->function, NULL, 0, NULL, 0, NULL));
        if (i >= 0) ns[i] = took;
    }
    for (int32_t i = 0; i < RANKS * COUNT; i++) *wrong += r->to[i / COUNT][i % COUNT] != 3;
    return bench_muster_ok(status, "muster");
}

/* As many rendezvous as the call has: one for each reduction, and one for the call. */
static bool fork_joins_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const bench_block once = {0, REDUCTIONS + 1, 0};
    double each[REDUCTIONS + 1];
    for (int32_t i = -block->warm; i < block->calls; i++) {
        double sum = 0;
        rest(block);
        if (!bench_fork_join_block(self, &once, each, wrong)) return false;
        for (int32_t k = 0; k <= REDUCTIONS; k++) sum += each[k];
        if (i >= 0) ns[i] = sum;
    }
    return true;
}

/* ---- the rows ---- */

/* Adds Muster to the row, which has its peer, and measures it beside `count` programs. */
static bool measure(bench_row *row, int32_t count, reductions *spinning, reductions *sleeping, const bench_options *options) {
    programs others = {.count = 0};
    bench_muster_add(row, "muster, 2 devices", spinning, reductions_block);
    bench_add(row, BENCH_PEER, "muster, spinning off", sleeping, reductions_block, NULL);
    if (!start(&others, count)) {
        bench_log("%s: the programs beside could not be started", row->name);
        bench_close_row(row);
        return false;
    }
    const bool ok = bench_run(row, options);
    stop(&others);
    return ok;
}

static void add_fork_joins(bench_row *row) {
    bench_fork_join *team = bench_fork_join_open(RANKS, true);
    if (team)
        bench_add(row, BENCH_PEER, "eleven times futex fork and join", team, fork_joins_block, bench_fork_join_close);
    else
        bench_log("not measured: futex fork and join: no memory or no threads");
}

static bool busy_row(int32_t count, int64_t pause_ns, const bench_options *options) {
    bench_row row = {.block = {2, 20, pause_ns}, .round_count = 12};
    snprintf(row.name, sizeof row.name, "dispatch: busy, %d programs beside, ten all-reduces of 4 KiB%s, 2 devices", count,
             pause_ns > 0 ? ", after 5 ms" : "");
    if (!bench_wanted(options, row.name)) return true;
    reductions spinning = {.runtime = NULL}, sleeping = {.runtime = NULL};
    bool ok = reductions_open(&spinning, 0) && reductions_open(&sleeping, -1);
    if (ok) {
        add_fork_joins(&row);
        bench_target_add(&row, BENCH_RATIO, "muster, spinning off", 1.25);
        bench_target_add(&row, BENCH_RATIO, "eleven times", 1.25);
        ok = measure(&row, count, &spinning, &sleeping, options);
    }
    ok = reductions_close(&spinning) && ok;
    return reductions_close(&sleeping) && ok;
}

bool bench_busy(const bench_options *options) {
    static const int32_t counts[] = {0, 2, 8, 48};
    bool ok = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ok = busy_row(counts[i], 0, options) && ok;
        ok = busy_row(counts[i], 5000000, options) && ok;
    }
    return ok;
}
