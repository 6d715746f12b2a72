/* Calls: compares a call with the one before, plans it anew where it differs, and runs it. A plan
 * that is `repeatable` runs the body at most once on each rank, in the caller's memory or in memory
 * that the rank keeps. The first run with such a plan goes the general way (run.c); the calls after
 * it go the short way here. */
#include "output_private.h"
#include "place_private.h"
#include "processes_private.h"

#include <string.h>

/* ---- does this call look like the one before? ---- */

/* The tensor of the plan has been checked, so its ndim is in range. */
static inline bool same_layout(const muster_tensor *given, const muster_tensor *planned) {
    if (given->dtype != planned->dtype || given->ndim != planned->ndim || given->device != planned->device ||
        given->reserved0 != planned->reserved0 || given->reserved[1] != planned->reserved[1])
        return false;
    for (int32_t d = 0; d < planned->ndim; d++)
        if (given->shape[d] != planned->shape[d] || given->strides[d] != planned->strides[d]) return false;
    return true;
}

static bool same_options(const mst_plan *plan, const muster_call_options *options) {
    const muster_selection *a = &options->batch, *b = &plan->batch;
    return options->replica_batch_count == 0 && !options->output_buffers && a->kind == b->kind && a->start == b->start &&
           a->stop == b->stop && a->index_count == b->index_count && options->slices == plan->slices &&
           options->warn_after_ns == plan->warn_after_ns && options->fail_after_ns == plan->fail_after_ns;
}

typedef enum { PLAN_DIFFERS, PLAN_SAME, PLAN_MOVED } plan_likeness;

/* Takes an address that is not the one of the call before. A wrong one is refused when the plan is
 * made anew. */
static __attribute__((noinline)) plan_likeness move_tensor(const muster_tensor *given, void **planned) {
    void *address = muster_tensor_address(*given);
    if (!given->dtype) return PLAN_SAME; /* an output that the call does not want */
    if (!given->data || (uintptr_t)address % (uintptr_t)muster_dtype_size(given->dtype) != 0) return PLAN_DIFFERS;
    *planned = address;
    return PLAN_MOVED;
}

/* Compares the tensors with those of the plan, and takes their addresses into it. */
static inline plan_likeness compare_tensors(const muster_tensor *given, const muster_tensor *planned, void **addresses, int64_t count) {
    plan_likeness likeness = PLAN_SAME;
    for (int64_t i = 0; i < count; i++) {
        if (!same_layout(&given[i], &planned[i])) return PLAN_DIFFERS;
        if (addresses[i] == muster_tensor_address(given[i])) continue;
        const plan_likeness moved = move_tensor(&given[i], &addresses[i]);
        if (moved == PLAN_DIFFERS) return PLAN_DIFFERS;
        if (moved == PLAN_MOVED) likeness = PLAN_MOVED;
    }
    return likeness;
}

static inline plan_likeness compare_call(muster_function *function, const mst_arguments *arguments) {
    mst_plan *plan = &function->plan;
    const int64_t inputs = function->input_count, outputs = function->output_count;
    plan_likeness of_inputs = PLAN_SAME, of_outputs = PLAN_SAME;
    if (!plan->valid || plan->single != arguments->single || arguments->input_count != inputs || arguments->output_count != outputs)
        return PLAN_DIFFERS;
    if ((arguments->options != &mst_call_options_default || !plan->by_default) && !same_options(plan, arguments->options))
        return PLAN_DIFFERS;
    if (inputs) {
        if (!arguments->inputs) return PLAN_DIFFERS;
        of_inputs = compare_tensors(arguments->inputs, plan->inputs, plan->addresses, inputs);
        if (of_inputs == PLAN_DIFFERS) return PLAN_DIFFERS;
    }
    if (outputs) {
        if (!arguments->outputs) return PLAN_DIFFERS;
        of_outputs = compare_tensors(arguments->outputs, plan->outputs, plan->addresses + inputs, outputs);
    }
    return of_outputs == PLAN_SAME ? of_inputs : of_outputs;
}

static __attribute__((noinline)) muster_status renew_plan(muster_function *function, const mst_arguments *arguments, bool moved) {
    mst_plan *plan = &function->plan;
    if (!moved) return mst_plan_make(function, arguments);
    plan->valid = false;
    MUSTER_TRY(mst_call_check_aliases(function, arguments->where, arguments->inputs, arguments->outputs, plan->spans));
    plan->valid = true;
    return MUSTER_OK;
}

/* ---- the short way ---- */

static inline void repeat_prepare(const mst_call *call, mst_rank *rank) {
    const muster_function *function = call->function;
    void *const *addresses = function->plan.addresses;
    for (int64_t i = 0; i < function->input_count; i++) rank->in[i].data = addresses[i];
    for (int64_t i = 0; i < function->output_count; i++) {
        mst_part *part = &rank->shard->parts[i];
        rank->out[i] = rank->kept_out[i];
        if (!rank->out[i].dtype) continue;
        if (function->outputs[i].mode == MUSTER_GATHER) { /* the body may have left its place in the call before */
            part->direct = true;
            part->rows = 0;
            part->pending = rank->body.rows;
        }
        if (part->direct) rank->out[i].data = addresses[function->input_count + i];
    }
}

static inline muster_status repeat_finish(mst_call *call, muster_worker *worker, mst_rank *rank) {
    const muster_function *function = call->function;
    for (int64_t i = 0; i < function->output_count; i++) {
        mst_part *part = &rank->shard->parts[i];
        if (!mst_wanted(&function->plan, i)) continue;
        if (function->outputs[i].mode == MUSTER_GATHER) {
            part->rows = part->pending;
            MUSTER_TRY(mst_gather_finish(call, worker, i));
        } else {
            MST_SET(part->weight, rank->body.weight);
        }
    }
    return MUSTER_OK;
}

/* The views and parts of the general run before stay right: only addresses and weights change. */
static inline muster_status repeat_run(mst_call *call, muster_worker *worker, mst_rank *rank) {
    const muster_function *function = call->function;
    worker->slots[MST_SLOT_FUNCTION] = rank;
    rank->body.weight = (double)rank->body.rows;
    repeat_prepare(call, rank);
    const uint64_t errors = mst_error_count();
    const muster_status status = function->bodies[worker->rank](worker, rank->in, rank->out, function->user);
    if (__builtin_expect(status || mst_worker_has_open_group(worker), 0)) return mst_call_body_failed(call, &rank->body, status, errors);
    MUSTER_TRY(mst_worker_drain(worker));
    return function->output_count ? repeat_finish(call, worker, rank) : MUSTER_OK;
}

/* ---- a run ---- */

static muster_status call_task(muster_worker *worker, void *argument) {
    mst_call *call = argument;
    mst_rank *rank = mst_call_rank(call, worker);
    const mst_plan *plan = &call->function->plan;
    const uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_CALL, call->function->object.name, worker->epoch, 0);
    const muster_status status =
        plan->repeatable && rank->kept_plan == plan->number ? repeat_run(call, worker, rank) : mst_call_run_rank(call, worker);
    worker->slots[MST_SLOT_FUNCTION] = NULL;
    mst_record_end(&worker->recorder, event);
    return status;
}

static inline muster_status check_variables(const mst_call *call, const char *where) {
    const muster_function *function = call->function;
    for (int64_t u = 0; u < function->use_count; u++)
        if (function->uses[u].read) MUSTER_TRY(mst_variable_check_defined(function->uses[u].variable, 0, call->size, where));
    return MUSTER_OK;
}

/* The pool knows no names. */
static __attribute__((noinline)) muster_status call_failed(const mst_call *call, const char *where, muster_status status) {
    char reason[MST_MESSAGE_SIZE];
    if (status != MUSTER_CANCELLED) {
        /* a collective that ends the run says why before the body returns with it (run.c) */
        mst_error_save(reason);
        if (strncmp(reason, "muster_worker_", 14) != 0 || strstr(reason, "function '")) return status;
        return mst_error(status, "function '%s': %.440s", mst_function_name(call->function), reason);
    }
    return mst_error(status, "%s: function '%s': %s", where, mst_function_name(call->function), mst_cancel_reason);
}

static inline __attribute__((always_inline)) muster_status call_run_pool(mst_call *call, const char *where, bool single) {
    muster_function *function = call->function;
    const muster_runtime *runtime = function->object.runtime;
    const muster_status status =
        single ? mst_pool_call_single(runtime->pool, call_task, call) : mst_pool_call(runtime->pool, call_task, call);
    if (__builtin_expect(status, 0)) return call_failed(call, where, status);
    if (function->output_count) MUSTER_TRY(mst_outputs_collect(call, where));
    if (function->use_count) mst_updates_apply(call);
    return MUSTER_OK;
}

/* Prepares what only some plans have: device memory, placed outputs, whole copies, deadlines. */
static __attribute__((noinline)) muster_status call_make_ready(muster_function *function, mst_call *call, const char *where) {
    const muster_runtime *runtime = function->object.runtime;
    if (function->on_devices) {
        mst_communicator_ready(runtime->communicator);
        MUSTER_TRY(mst_call_reserve(call, where, false));
        if (function->plan.placed) MUSTER_TRY(mst_places_fetch(call, where));
    }
    if (function->plan.copies_whole) MUSTER_TRY(mst_wholes_copy(call, where));
    if (function->plan.warn_after_ns | function->plan.fail_after_ns)
        mst_pool_set_deadlines(runtime->pool, function->plan.warn_after_ns, function->plan.fail_after_ns);
    return MUSTER_OK;
}

/* Checks the variables of a call and prepares its run, while no run is in progress. */
static inline __attribute__((always_inline)) muster_status call_ready(muster_function *function, mst_call *call, const char *where) {
    if (function->use_count) MUSTER_TRY(check_variables(call, where));
    return __builtin_expect(function->plan.readies, 0) ? call_make_ready(function, call, where) : MUSTER_OK;
}

static inline __attribute__((always_inline)) muster_status call_run(muster_function *function, const char *where, bool single) {
    mst_call *call = single ? &function->single : &function->together;
    MUSTER_TRY(call_ready(function, call, where));
    const muster_status status = call_run_pool(call, where, single);
    return __builtin_expect(function->ended != NULL, 0) ? function->ended(function->user, status) : status;
}

muster_status mst_call_check_variables(const mst_call *call, const char *where) {
    return call->function->use_count ? check_variables(call, where) : MUSTER_OK;
}

muster_status mst_call_run_workers(mst_call *call, const char *where, bool *began) {
    *began = false;
    MUSTER_TRY(call_ready(call->function, call, where));
    *began = true;
    mst_pool *pool = call->function->object.runtime->pool;
    const muster_status status =
        call == &call->function->single ? mst_pool_call_single(pool, call_task, call) : mst_pool_call(pool, call_task, call);
    return status ? call_failed(call, where, status) : MUSTER_OK;
}

/* With several processes no plan is valid for the next call, so every call comes here. */
static __attribute__((noinline)) muster_status call_changed(muster_function *function, const mst_arguments *arguments, bool moved) {
    if (function->object.runtime->nodes) {
        const muster_status status = mst_output_buffers_check(function, arguments->where, NULL, arguments->options->output_buffers);
        return status ? mst_processes_refuse(function, arguments, status) : mst_processes_call(function, arguments);
    }
    MUSTER_TRY(renew_plan(function, arguments, moved));
    return call_run(function, arguments->where, arguments->single);
}

static inline __attribute__((always_inline)) muster_status call_entered(muster_function *function, const mst_arguments *arguments) {
    const plan_likeness likeness = compare_call(function, arguments);
    if (likeness != PLAN_SAME) return call_changed(function, arguments, likeness == PLAN_MOVED);
    return call_run(function, arguments->where, arguments->single);
}

muster_status mst_function_call_entered(muster_function *function, const mst_arguments *arguments) {
    return call_entered(function, arguments);
}

/* The options are those that the caller gave. */
static muster_status call_function(muster_function *function, mst_arguments *arguments) {
    if (!function) return mst_error_null(arguments->where, "function", "a function");
    muster_call_options known;
    int64_t queue_timeout_ns = 0;
    if (arguments->options) {
        const muster_status read = mst_call_options_read(arguments->where, arguments->options, &known);
        if (read) return mst_processes_refuse_options(function, arguments->where, arguments->single, read);
        arguments->options = &known;
        queue_timeout_ns = known.queue_timeout_ns;
    } else {
        arguments->options = &mst_call_options_default;
    }
    mst_pool *pool = function->object.runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, arguments->where, queue_timeout_ns));
    const muster_status status = call_entered(function, arguments);
    mst_pool_leave(pool);
    return status;
}

muster_status muster_function_call(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                   const muster_tensor *outputs, int32_t output_count, const muster_call_options *options) {
    return call_function(function, &(mst_arguments){"muster_function_call", inputs, outputs, input_count, output_count, options, false});
}

muster_status muster_function_call_single(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                          const muster_tensor *outputs, int32_t output_count, const muster_call_options *options) {
    return call_function(function,
                         &(mst_arguments){"muster_function_call_single", inputs, outputs, input_count, output_count, options, true});
}

/* The plan serves the next call that looks alike. */
static muster_status prepare_entered(muster_function *function, const mst_arguments *arguments) {
    MUSTER_TRY(mst_plan_make(function, arguments));
    MUSTER_TRY(mst_wholes_reserve(&function->together, arguments->where));
    return mst_call_reserve(&function->together, arguments->where, true);
}

muster_status muster_function_prepare(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                      const muster_tensor *outputs, int32_t output_count, const muster_call_options *options) {
    static const char where[] = "muster_function_prepare";
    muster_call_options known;
    if (!function) return mst_error_null(where, "function", "a function");
    const muster_status read = options ? mst_call_options_read(where, options, &known) : MUSTER_OK;
    if (read) return mst_processes_refuse_options(function, where, false, read);
    mst_arguments arguments = {where, inputs, outputs, input_count, output_count, options ? &known : &mst_call_options_default, false};
    mst_pool *pool = function->object.runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, where, arguments.options->queue_timeout_ns));
    muster_status status = MUSTER_OK;
    if (!function->object.runtime->nodes)
        status = prepare_entered(function, &arguments);
    else if ((status = mst_output_buffers_check(function, where, NULL, arguments.options->output_buffers)))
        status = mst_processes_refuse(function, &arguments, status);
    else
        status = mst_processes_prepare(function, &arguments);
    mst_pool_leave(pool);
    return status;
}
