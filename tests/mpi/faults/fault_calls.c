/* The calls in which faults happen. Their body has a small collective, a large one, and a broadcast
 * from the victim, after which it may fail while the others still receive. */
#include "faults.h"

#include "memory_impl.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_COLUMNS = 3, CALLS_ROWS_MOST = 40, CALLS_SMALL = 64, CALLS_PATIENCE_S = 60 };

static bool faulty; /* this call has the fault */

static bool is_kind_here(fault_kind kind, fault_place place) { return faulty && fault_now.kind == kind && fault_is_here(place); }

/* ---- the body ---- */

static int64_t large_count(void) {
    if (fault_now.place != FAULT_DATA) return 1024;
    return fault_now.survivable ? 200000 + fault_now.seed % 1000 : 4000000;
}

/* Adds 2 (1 + ... + ranks). */
static muster_status body_reduce(muster_worker *worker, int64_t count, double *sum) {
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, &count, &x));
    float *values = muster_tensor_address(x);
    if (!values) return MUSTER_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++) values[i] = (float)(muster_worker_rank(worker) + 1);
    MUSTER_TRY(muster_worker_all_reduce(worker, muster_worker_communicator(worker), MUSTER_SUM, x, x));
    *sum += (double)values[0] + (double)values[count - 1];
    return MUSTER_OK;
}

/* Adds nothing. */
static muster_status body_broadcast(muster_worker *worker, int32_t root, int64_t count, double *sum) {
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, &count, &x));
    float *values = muster_tensor_address(x);
    if (!values) return MUSTER_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++) values[i] = (float)muster_worker_rank(worker);
    MUSTER_TRY(muster_worker_broadcast(worker, muster_worker_communicator(worker), root, x, x));
    *sum += (double)values[count - 1] - (double)root;
    return MUSTER_OK;
}

/* What the victim does in place of what the others do. */
static muster_status body_answer(muster_worker *worker, fault_place place) {
    if (is_kind_here(FAULT_FAIL, place)) return muster_fail(MUSTER_USER, "the body of the victim fails");
    if (is_kind_here(FAULT_REFUSE, place)) {
        const muster_tensor none = muster_tensor_none();
        return muster_worker_all_reduce(worker, muster_worker_communicator(worker), MUSTER_SUM, none, none);
    }
    return MUSTER_OK;
}

static muster_status body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const fault_calls *calls = user;
    const int32_t root = muster_runtime_first_rank(calls->runtime, fault_now.victim);
    const int64_t large = large_count();
    double sum = (double)in[0].shape[0];
    MUSTER_TRY(body_answer(worker, FAULT_ARRIVAL));
    if (faulty) fault_strike(FAULT_ARRIVAL);
    if (is_kind_here(FAULT_ORDER, FAULT_ARRIVAL)) MUSTER_TRY(body_broadcast(worker, root, CALLS_SMALL, &sum));
    MUSTER_TRY(body_reduce(worker, is_kind_here(FAULT_DIFFERENT, FAULT_ARRIVAL) ? CALLS_SMALL + 1 : CALLS_SMALL, &sum));
    if (faulty) fault_strike_soon(FAULT_DATA);
    if (is_kind_here(FAULT_ORDER, FAULT_DATA)) MUSTER_TRY(body_broadcast(worker, root, large, &sum));
    MUSTER_TRY(body_reduce(worker, is_kind_here(FAULT_DIFFERENT, FAULT_DATA) ? large + 1 : large, &sum));
    MUSTER_TRY(body_broadcast(worker, root, large, &sum));
    MUSTER_TRY(body_answer(worker, FAULT_DATA)); /* while the others still receive */
    MUSTER_TRY(body_reduce(worker, CALLS_SMALL, &sum));
    MUSTER_TRY(body_answer(worker, FAULT_END));
    if (faulty) fault_strike(FAULT_END);
    *(double *)muster_tensor_address(out[0]) = sum;
    return MUSTER_OK;
}

/* ---- functions and calls ---- */

static muster_status make(fault_calls *calls, const char *name, muster_function **function) {
    MUSTER_TRY(muster_function_create(calls->runtime, name, body, calls, function));
    MUSTER_TRY(muster_function_input(*function, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    return muster_function_output(*function, "sum", MUSTER_F64, 0, MUSTER_SUM);
}

muster_status fault_calls_make(muster_runtime *runtime, fault_calls *calls) {
    calls->runtime = runtime;
    MUSTER_TRY(make(calls, "train", &calls->train));
    return make(calls, "evaluate", &calls->evaluate);
}

static void call(const fault_calls *calls, muster_function *function, int64_t deadline_ms, const char *what, fault_report report) {
    static float x[CALLS_ROWS_MOST * CALLS_COLUMNS];
    const double ranks = muster_runtime_size(calls->runtime);
    const int64_t rows = 12 + fault_now.seed % (CALLS_ROWS_MOST - 12);
    muster_call_options options;
    muster_call_options_init(&options);
    options.warn_after_ns = faulty ? deadline_ms * 500000 : -1;
    options.fail_after_ns = deadline_ms * 1000000;
    double sum = 0;
    const muster_tensor in =
        is_kind_here(FAULT_REFUSE, FAULT_BEGIN) ? muster_f32(x, rows * CALLS_COLUMNS) : muster_f32(x, rows, CALLS_COLUMNS);
    const muster_status status = muster_function_call(function, &in, 1, (muster_tensor[]){muster_f64(&sum)}, 1, &options);
    report(what, status, sum == (double)rows + ranks * 6 * (ranks * (ranks + 1) / 2));
}

void fault_call(fault_calls *calls, fault_report report) {
    muster_function *first = NULL; /* a call that is not its function's first one allocates next to nothing */
    if (fault_now.kind == FAULT_MEMORY) report("make", make(calls, "first", &first), true);
    const bool ordered = fault_now.kind == FAULT_ORDER && fault_now.place == FAULT_BEGIN;
    faulty = true;
    const bool other = is_kind_here(FAULT_DIFFERENT, FAULT_BEGIN) || is_kind_here(FAULT_ORDER, FAULT_BEGIN);
    fault_strike(FAULT_BEGIN);
    call(calls, first ? first : other ? calls->evaluate : calls->train, FAULT_DEADLINE_MS, "call", report);
    if (ordered) call(calls, other ? calls->train : calls->evaluate, FAULT_DEADLINE_MS, "second", report);
    faulty = false;
    mst_memory_fail_at(0);
    if (first) report("make", muster_function_destroy(first), true);
}

void fault_call_after(const fault_calls *calls, fault_report report) {
    call(calls, calls->train, CALLS_PATIENCE_S * 1000, "after", report);
}
