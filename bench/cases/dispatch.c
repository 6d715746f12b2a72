/* What a call costs that computes nothing. */
#include "busy.h"
#include "collectives_muster.h"
#include "fork_join.h"
#include "muster_case.h"
#include "pair.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>

typedef struct empty_call {
    muster_function *function;
    muster_tensor inputs[2], outputs[1];
    int32_t input_count, output_count;
    float x[4][10], y[10], result;
} empty_call;

static muster_status nothing(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

/* One device only: its output is the caller's to see, and the store is all that is computed. */
static muster_status one(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)user;
    *(float *)muster_tensor_address(out[0]) = 1;
    return MUSTER_OK;
}

static bool empty_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    empty_call *call = self;
    muster_status status = MUSTER_OK;
    call->result = call->output_count ? 0 : 1;
    BENCH_TIME(block, ns,
               status |= muster_function_call(call->function, call->inputs, call->input_count, call->outputs, call->output_count, NULL));
    *wrong += call->result != 1;
    return bench_muster_ok(status, "muster");
}

static void plain(void) { __asm__ volatile("" ::: "memory"); }
static void (*volatile plain_pointer)(void) = plain;

static bool plain_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    (void)self, (void)wrong;
    BENCH_TIME(block, ns, plain_pointer());
    return true;
}

static bool describe(muster_runtime *runtime, bool tensors, empty_call *call) {
    if (!bench_muster_ok(
            muster_function_create(runtime, tensors ? "two in, one out" : "empty", tensors ? one : nothing, NULL, &call->function),
            "muster"))
        return false;
    if (!tensors) return true;
    call->inputs[0] = muster_f32(call->x, 4, 10);
    call->inputs[1] = muster_f32(call->y, 10);
    call->outputs[0] = muster_f32(&call->result);
    call->input_count = 2;
    call->output_count = 1;
    return bench_muster_ok(muster_function_input(call->function, "x", MUSTER_F32, 2, MUSTER_SCATTER), "muster") &&
           bench_muster_ok(muster_function_input(call->function, "y", MUSTER_F32, 1, MUSTER_BROADCAST), "muster") &&
           bench_muster_ok(muster_function_output(call->function, "r", MUSTER_F32, 0, MUSTER_AVG), "muster");
}

/* Adds Muster to the row, which has its limits and peers, and runs it. */
static bool dispatch_row(bench_row *row, int32_t devices, bool tensors, const bench_options *options) {
    empty_call call = {0};
    muster_runtime *runtime = bench_muster_open(devices);
    bool described = runtime && describe(runtime, tensors, &call);
    char name[BENCH_NAME];
    snprintf(name, sizeof name, "muster, %d device%s", devices, devices > 1 ? "s" : "");
    if (described) bench_muster_add(row, name, &call, empty_block);
    bool ok = bench_run(row, options) && described;
    if (runtime) ok = bench_muster_ok(muster_runtime_close(runtime), "muster") && ok;
    return ok;
}

static bool on_one(const bench_options *options, bool tensors) {
    bench_row row = {.block = {20, 500, 0}, .round_count = 200};
    snprintf(row.name, sizeof row.name, tensors ? "dispatch: two inputs and an output, 1 device" : "dispatch: empty function, 1 device");
    if (!bench_wanted(options, row.name)) return true;
    bench_add(&row, BENCH_LIMIT, "plain function call", NULL, plain_block, NULL);
    bench_target_add(&row, BENCH_DIFFERENCE_NS, "plain function call", tensors ? 150 : 100);
    return dispatch_row(&row, 1, tensors, options);
}

static void add_fork_join(bench_row *row, int32_t threads, bool pinned) {
    char name[BENCH_NAME];
    snprintf(name, sizeof name, "futex fork and join, %d %s threads", threads, pinned ? "pinned" : "free");
    bench_fork_join *team = bench_fork_join_open(threads, pinned);
    if (team)
        bench_add(row, BENCH_PEER, name, team, bench_fork_join_block, bench_fork_join_close);
    else
        bench_log("not measured: %s: no memory or no threads", name);
}

static bool on_two(const bench_options *options, int64_t pause_ns) {
    bench_row row = {.block = {50, 300, 0}, .round_count = 150};
    if (pause_ns > 0) {
        row.block = (bench_block){1, 20, pause_ns};
        row.round_count = 30;
    }
    snprintf(row.name, sizeof row.name, "dispatch: empty function, 2 devices%s", pause_ns > 0 ? ", after a pause" : "");
    if (!bench_wanted(options, row.name)) return true;
    bench_pair *pair = bench_pair_open();
    if (pair) {
        bench_add(&row, BENCH_LIMIT, "two spin barriers, 2 threads", pair, bench_pair_barriers_block, NULL);
        bench_add(&row, BENCH_PEER, "one round trip, 2 spinning threads", pair, bench_pair_round_trip_block, NULL);
    } else
        bench_log("not measured: two spinning threads: only one core is allowed");
    add_fork_join(&row, 2, true);
    bench_add_libgomp(&row, 2);
    if (pause_ns > 0)
        bench_target_add(&row, BENCH_MEDIAN_NS, "muster", 12000);
    else {
        bench_target_add(&row, BENCH_RATIO, "two spin barriers", 1.6);
        bench_target_add(&row, BENCH_RATIO_P99, "two spin barriers", 3);
        bench_target_add(&row, BENCH_RATIO, "libgomp parallel, active", 1);
    }
    bool ok = dispatch_row(&row, 2, false, options);
    bench_pair_close(pair);
    return ok;
}

static bool on_four(const bench_options *options) {
    bench_row row = {.block = {20, 100, 0}, .round_count = 100};
    snprintf(row.name, sizeof row.name, "dispatch: empty function, 4 devices");
    if (!bench_wanted(options, row.name)) return true;
    add_fork_join(&row, 4, true);
    add_fork_join(&row, 4, false);
    bench_add_libgomp(&row, 4);
    bench_target_add(&row, BENCH_RATIO, "futex fork and join, 4", 1.2);
    bench_target_add(&row, BENCH_RATIO_P99, "futex fork and join, 4", 2);
    return dispatch_row(&row, 4, false, options);
}

/* A runtime with as many events of each worker as the environment may ask for; NULL: the default.
 * The environment is left as it was. */
static bench_muster_collectives *open_with_events(int32_t ranks, const char *events) {
    static const char *const name = "MUSTER_RECORDER_EVENTS";
    char *before = getenv(name) ? strdup(getenv(name)) : NULL;
    if (events)
        setenv(name, events, 1);
    else
        unsetenv(name);
    bench_muster_collectives *muster = bench_muster_collectives_open(ranks);
    if (before)
        setenv(name, before, 1);
    else
        unsetenv(name);
    free(before);
    return muster;
}

/* What the recorder adds to a small all-reduce. Where in memory a runtime happens to lie matters
 * more than that, so several runtimes of each kind are measured, of which one runs at a time, and
 * the fastest ones are compared. */
static bool recorder_row(const bench_options *options) {
    enum { BYTES = 4096, RUNTIMES = 8 };
    bench_row row = {.block = {50, 1000, 0}, .round_count = 60, .rest_ns = 3000000};
    snprintf(row.name, sizeof row.name, "dispatch: an all-reduce of 4 KiB in a call, with and without the recorder, 2 devices");
    if (!bench_wanted(options, row.name)) return true;
    collective_job job = {.op = COLLECTIVE_ALL_REDUCE, .ranks = 2, .count = BYTES / (int64_t)sizeof(float)};
    bench_muster_contender contenders[RUNTIMES];
    bool ok = true;
    for (int r = 0; r < RUNTIMES; r++) {
        bool off = r % 2 == 0;
        char name[BENCH_NAME];
        snprintf(name, sizeof name, off ? "recorder off, runtime %d" : "muster, runtime %d", r + 1);
        contenders[r] = (bench_muster_contender){open_with_events(job.ranks, off ? "0" : NULL), job};
        if (contenders[r].muster)
            bench_add(&row, off ? BENCH_LIMIT : BENCH_MUSTER, name, &contenders[r], bench_muster_collective_block, NULL);
        else
            ok = false;
    }
    bench_target_add(&row, BENCH_RATIO, "recorder off", 1.05);
    ok = bench_run(&row, options) && ok;
    for (int r = 0; r < RUNTIMES; r++) ok = bench_muster_collectives_close(contenders[r].muster) && ok;
    return ok;
}

bool bench_dispatch(const bench_options *options) {
    bool ok = on_one(options, false);
    ok = on_one(options, true) && ok;
    ok = on_two(options, 0) && ok;
    ok = on_two(options, 1000000) && ok;
    ok = on_four(options) && ok;
    ok = recorder_row(options) && ok;
    return bench_busy(options) && ok;
}
