/* A call that several processes make together: plan, begin round, run, end round, collect. Every
 * process returns the same status. What fails before the begin round has ended is refused by all,
 * and nothing has been touched; what fails later fails the call everywhere. */
#include "processes_private.h"

#include "output_private.h"

#include <stdio.h>
#include <string.h>

/* ---- what a function keeps ---- */

muster_status mst_processes_make(muster_function *function, const char *where) {
    const mst_nodes *nodes = function->object.runtime->nodes;
    if (!nodes) return MUSTER_OK;
    const size_t inputs = (size_t)function->input_count, outputs = (size_t)function->output_count, count = (size_t)nodes->processes;
    mst_processes_state *made = function->processes = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(where, sizeof *made);
    made->rows = mst_alloc(count * sizeof *made->rows);
    made->bytes = mst_alloc(count * sizeof *made->bytes);
    made->inputs = mst_alloc(inputs * sizeof *made->inputs);
    made->outputs = mst_alloc(outputs * sizeof *made->outputs);
    made->received = mst_alloc((inputs + outputs) * sizeof *made->received);
    made->partials = mst_alloc(outputs * sizeof *made->partials);
    made->slots = mst_alloc(outputs * sizeof *made->slots);
    made->master_rows = mst_alloc(outputs * sizeof *made->master_rows);
    if (!made->rows || !made->bytes || !made->inputs || !made->outputs || !made->received || !made->partials || !made->slots ||
        !made->master_rows)
        return mst_out_of_memory(where, (int64_t)(count * sizeof *made->rows));
    for (int32_t p = 0; p < nodes->processes; p++) {
        const int32_t shards = mst_processes_shards(&function->together, p);
        if (shards > made->most_shards) made->most_shards = shards;
    }
    return MUSTER_OK;
}

void mst_processes_free(muster_function *function) {
    mst_processes_state *made = function->processes;
    if (!made) return;
    for (int64_t i = 0; made->received && i < function->input_count + function->output_count; i++) mst_host_store_free(&made->received[i]);
    for (int64_t i = 0; made->partials && i < function->output_count; i++) mst_host_store_free(&made->partials[i]);
    mst_host_store_free(&made->block);
    mst_host_store_free(&made->blocks);
    mst_host_store_free(&made->gathered);
    mst_free(made->rows);
    mst_free(made->bytes);
    mst_free(made->inputs);
    mst_free(made->outputs);
    mst_free(made->received);
    mst_free(made->partials);
    mst_free(made->slots);
    mst_free(made->master_rows);
    mst_free(made);
    function->processes = NULL;
}

/* ---- the name of the call ---- */

/* At most `most` bytes of `more`, at text[at]. Returns where it ends. Without printf, because every
 * call of several processes comes here. */
static size_t append(char text[MST_ROUND_TEXT], size_t at, const char *more, size_t most) {
    for (; most > 0 && *more && at + 1 < MST_ROUND_TEXT; most--) text[at++] = *more++;
    if (at < MST_ROUND_TEXT) text[at] = 0; /* as it always is, which GCC does not see */
    return at;
}

static size_t name_function(const muster_function *function, bool single, size_t most, char text[MST_ROUND_TEXT]) {
    const size_t at = append(text, 0, single ? "a single call of function '" : "function '", MST_ROUND_TEXT);
    return append(text, append(text, at, mst_function_name(function), most), "'", 1);
}

static const char *mode_text(const mst_port *port, bool output) {
    static const char *const collected[] = {
        [MUSTER_SUM] = " sum", [MUSTER_PROD] = " prod",     [MUSTER_MAX] = " max",       [MUSTER_MIN] = " min",
        [MUSTER_AVG] = " avg", [MUSTER_GATHER] = " gather", [MUSTER_MASTER] = " master",
    };
    if (!output) return port->mode == MUSTER_BROADCAST ? " broadcast" : port->mode == MUSTER_MINIBATCH ? " minibatch" : "";
    return port->mode >= 0 && port->mode < (int32_t)(sizeof collected / sizeof *collected) && collected[port->mode] ? collected[port->mode]
                                                                                                                    : "";
}

/* "function 'train' (x 64x784, y 64 -> loss avg)", as far as there is room. "x [rows]x784" where
 * the processes may pass different numbers of rows: calls that go together have the same text. */
static void describe(const muster_function *function, const mst_arguments *arguments, bool planned, char text[MST_ROUND_TEXT]) {
    const int64_t inputs = function->input_count, ports = planned ? inputs + function->output_count : 0;
    size_t at = name_function(function, arguments->single, 60, text);
    for (int64_t i = 0; i < ports && at + 60 < MST_ROUND_TEXT; i++) {
        const bool output = i >= inputs;
        const mst_port *port = output ? &function->outputs[i - inputs] : &function->inputs[i];
        const muster_tensor *tensor = output ? NULL : &arguments->inputs[i];
        at = append(text, at, i == 0 ? " (" : i == inputs ? " " : ", ", MST_ROUND_TEXT);
        at = append(text, append(text, at, i == inputs ? "-> " : "", MST_ROUND_TEXT), port->name, 20);
        const bool by_rows = !output && mst_processes_input_by_rows(port);
        for (int32_t d = 0; tensor && d < tensor->ndim && at + 30 < MST_ROUND_TEXT; d++)
            at += (size_t)(d == 0 && by_rows
                               ? snprintf(text + at, MST_ROUND_TEXT - at, " [rows]")
                               : snprintf(text + at, MST_ROUND_TEXT - at, "%s%lld", d ? "x" : " ", (long long)tensor->shape[d]));
        at = append(text, at, mode_text(port, output), MST_ROUND_TEXT);
        if (i + 1 == ports || at + 60 >= MST_ROUND_TEXT) at = append(text, at, ")", 1);
    }
}

/* ---- the begin round ---- */

static bool is_master(const muster_function *function) { return function->object.runtime->nodes->process == 0; }

static muster_status plan_alone(muster_function *function, const mst_arguments *arguments) {
    MUSTER_TRY(mst_plan_make(function, arguments));
    if (!arguments->single) MUSTER_TRY(mst_processes_reserve_inputs(function, arguments->where));
    if (arguments->single && !is_master(function)) return MUSTER_OK; /* the replica that is read is process 0's */
    return mst_call_check_variables(arguments->single ? &function->single : &function->together, arguments->where);
}

void mst_processes_set_deadlines(const mst_arguments *arguments, mst_round *round) {
    if (!arguments->options) return;
    round->warn_after_ns = arguments->options->warn_after_ns;
    round->fail_after_ns = arguments->options->fail_after_ns;
}

void mst_processes_let_end(const muster_function *function, mst_round *round) {
    round->must_end = mst_pool_must_end;
    round->must_end_context = function->object.runtime->pool;
}

static muster_status agree(muster_function *function, const mst_arguments *arguments, muster_status planned) {
    mst_round round = {.where = arguments->where, .status = planned, .rank = -1};
    mst_processes_let_end(function, &round);
    mst_processes_set_deadlines(arguments, &round);
    const mst_processes_passed passed = {function, arguments};
    round.signature = mst_processes_signature(function, arguments, planned == MUSTER_OK);
    if (planned == MUSTER_OK) round.details = mst_processes_details;
    round.details_context = &passed;
    describe(function, arguments, planned == MUSTER_OK, round.text);
    return mst_nodes_begin(function->object.runtime->nodes, &round);
}

/* An unsealed function has no memory for the round of counts, so it is sealed first. A process that
 * cannot do that refuses in the round that the others make. */
static muster_status seal(muster_function *function, const mst_arguments *arguments) {
    MUSTER_TRY(mst_plan_check_arguments(function, arguments));
    return function->sealed ? MUSTER_OK : mst_function_seal(function, arguments->where);
}

static muster_status plan_together(muster_function *function, const mst_arguments *arguments, mst_arguments *planned) {
    const bool counted = !arguments->single && mst_processes_are_counted(function);
    muster_status status = seal(function, arguments);
    *planned = *arguments;
    if (status) return agree(function, arguments, status);
    if (counted) {
        MUSTER_TRY(mst_processes_count(function, arguments, planned, &status));
    } else {
        memset(function->plan.parts, 0, (size_t)(function->input_count + function->output_count) * sizeof *function->plan.parts);
        memset(function->plan.packed, 0, (size_t)function->input_count * sizeof *function->plan.packed);
        for (int64_t i = 0; !arguments->single && i < function->output_count; i++)
            function->plan.parts[function->input_count + i] = function->outputs[i].ways == MUSTER_TARGET_OWN;
    }
    return agree(function, planned, status ? status : plan_alone(function, planned));
}

muster_status mst_processes_refuse(muster_function *function, const mst_arguments *arguments, muster_status refused) {
    return agree(function, arguments, refused);
}

muster_status mst_processes_refuse_options(muster_function *function, const char *where, bool single, muster_status refused) {
    char message[MST_MESSAGE_SIZE];
    mst_pool *pool = function->object.runtime->pool;
    if (!function->object.runtime->nodes) return refused;
    mst_error_save(message);
    MUSTER_TRY(mst_pool_enter(pool, where, 0));
    const mst_arguments arguments = {.where = where, .options = &mst_call_options_default, .single = single};
    const muster_status status = mst_processes_refuse(function, &arguments, mst_error_restore(refused, message));
    mst_pool_leave(pool);
    return status;
}

muster_status mst_processes_prepare(muster_function *function, const mst_arguments *arguments) {
    mst_arguments planned;
    return plan_together(function, arguments, &planned);
}

/* ---- the run, and the end round ---- */

/* A single call is process 0's: the others get its outputs. */
static muster_status run_part(mst_call *call, const char *where, bool *began) {
    *began = false;
    if (!mst_call_is_joint(call)) {
        if (is_master(call->function)) return mst_call_run_workers(call, where, began);
        call->function->ranks[0].body.weight = 0; /* muster_function_weights: it does not run */
        return MUSTER_OK;
    }
    MUSTER_TRY(mst_processes_send_inputs(call->function, where));
    return mst_call_run_workers(call, where, began);
}

static muster_status make_block(mst_call *call, const char *where) {
    if (mst_call_is_joint(call)) return mst_processes_make_block(call, where);
    if (is_master(call->function)) MUSTER_TRY(mst_outputs_collect(call, where));
    return mst_processes_make_single_block(call, where);
}

static const char no_block[MST_ROUND_BYTES];

/* What can fail in one process alone when the outputs travel, it tells behind them. before: the
 * end round. */
static muster_status end_late(mst_nodes *nodes, const mst_round *before, muster_status status) {
    mst_round round = {.where = before->where, .signature = 2, .status = status, .rank = mst_nodes_first(nodes)};
    memcpy(round.text, before->text, sizeof round.text);
    return mst_nodes_end(nodes, &round);
}

/* *failed: what the call has failed with, apart from its outputs. The status is the same in all
 * processes. */
static muster_status end(mst_call *call, const mst_arguments *arguments, muster_status status, bool began, muster_status *failed) {
    muster_function *function = call->function;
    mst_nodes *nodes = function->object.runtime->nodes;
    const bool joint = mst_call_is_joint(call);
    mst_round round = {.where = arguments->where, .signature = 1, .rank = mst_nodes_first(nodes)};
    mst_processes_set_deadlines(arguments, &round);
    if (joint) {
        round.absence = mst_call_absence;
        round.absence_context = call;
    }
    if (!began || !mst_pool_is_sealed(function->object.runtime->pool)) mst_processes_let_end(function, &round);
    if (status && began && status != MUSTER_CANCELLED) round.rank = mst_pool_failed_rank(function->object.runtime->pool);
    if (!status) status = make_block(call, arguments->where);
    if (status) mst_nodes_poison(nodes, status, status == MUSTER_CANCELLED ? -1 : round.rank);
    round.status = status;
    const int64_t bytes = joint ? mst_processes_block_bytes(call) : mst_processes_single_bytes(call);
    round.payload = status ? no_block : function->processes->block.address;
    if (bytes > 0) round.payload_bytes = (int32_t)sizeof(mst_block_head) + (int32_t)(bytes <= MST_BLOCK_BYTES ? bytes : 0);
    (void)name_function(function, false, 100, round.text);
    *failed = mst_nodes_end(nodes, &round);
    if (*failed) return *failed;
    const bool late = mst_processes_end_late(call, round.all, round.payload_bytes);
    status = joint ? mst_processes_collect(call, arguments->where, round.all, bytes)
                   : mst_processes_collect_single(call, arguments->where, round.all, bytes);
    return late ? end_late(nodes, &round, status) : status;
}

muster_status mst_processes_call(muster_function *function, const mst_arguments *arguments) {
    mst_call *call = arguments->single ? &function->single : &function->together;
    mst_arguments planned;
    bool began;
    MUSTER_TRY(plan_together(function, arguments, &planned));
    muster_status status = run_part(call, planned.where, &began);
    muster_status failed;
    status = end(call, &planned, status, began, &failed);
    if (!status && began && function->use_count) mst_updates_apply(call);
    if (!function->ended) return status;
    if (status == failed) return function->ended(function->user, status);
    (void)function->ended(function->user, MUSTER_OK); /* only outputs have failed */
    return status;
}
