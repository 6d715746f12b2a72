/* What cannot become a function. */
#include "program_private.h"
#include "rules/rules_private.h"
#include "runtime_impl.h"
#include "variable_impl.h"

#include <string.h>

static const char where[] = "muster_graph_compile";

/* A bit for each size that a single axis of an input or a variable gives. */
static uint32_t sizes_given(const mst_graph *graph) {
    uint32_t given = 0;
    for (int32_t i = 0; i < graph->inputs.count + graph->variables.count; i++) {
        const mst_graph_port *port = i < graph->inputs.count ? &graph->inputs.items[i] : &graph->variables.items[i - graph->inputs.count];
        for (int32_t d = 0; d < port->node->type.ndim; d++) {
            const mst_monomial *m = &graph->dims[port->node->type.dims[d]];
            for (int32_t s = 0; s < MST_SIZES; s++) {
                mst_monomial single = {.factor = 1};
                single.powers[s] = 1;
                if (memcmp(m, &single, sizeof single) == 0) given |= 1u << s;
            }
        }
    }
    return given;
}

muster_status mst_compile_check_sizes(const mst_graph_program *program) {
    const mst_graph *graph = program->graph;
    const uint32_t given = sizes_given(graph);
    char text[MST_NODE_TEXT];
    for (int32_t at = 0; at < program->count; at++)
        for (int32_t d = 0; d < program->order[at]->type.ndim; d++)
            for (int32_t s = 0; s < MST_SIZES; s++)
                if (graph->dims[program->order[at]->type.dims[d]].powers[s] && !(given >> s & 1))
                    return mst_error(MUSTER_INVALID_ARGUMENT,
                                     "%s: graph \"%s\": expected an input with an axis of size \"%s\", which %s needs, received "
                                     "none",
                                     where, graph->name, graph->size_names[s], mst_node_text(program->order[at], NULL, text));
    return MUSTER_OK;
}

/* Only the values of one device can be in parts; shards must not depend on the number of
 * devices. */
static muster_status check_splits(const mst_graph *graph, const muster_graph_options *options) {
    const bool shards = graph->runtime->logical_shards > 0;
    if (options->meaning == MUSTER_ONE_DEVICE && !shards) return MUSTER_OK;
    for (int32_t i = 0; i < graph->variables.count; i++) {
        const int32_t axis = mst_variable_split_axis(graph->variables.items[i].variable);
        if (axis >= 0)
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: graph \"%s\": variable \"%.60s\": expected one that is not split %s, received one that "
                             "is split along axis %d",
                             where, graph->name, graph->variables.items[i].name,
                             shards ? "on a runtime with logical shards" : "with MUSTER_PER_WORKER", (int)axis);
    }
    return MUSTER_OK;
}

/* MUSTER_AUTO of a graph with MUSTER_PER_WORKER is the average. */
static muster_status check_averages(const mst_ports *ports, const char *kind, const char *choices) {
    for (int32_t i = 0; i < ports->count; i++) {
        const mst_graph_port *port = &ports->items[i];
        if (port->mode == MUSTER_AUTO && !mst_dtype_is_float(port->written->type.dtype))
            return mst_error(MUSTER_UNSUPPORTED, "%s: %s \"%.60s\": mode: expected %s, since %s has no average, received MUSTER_AUTO",
                             where, kind, port->name, choices, muster_dtype_name(port->written->type.dtype));
    }
    return MUSTER_OK;
}

static muster_status check_micro_batches(const mst_graph *graph, const muster_graph_options *options) {
    if (options->micro_batches < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: micro_batches: expected 0 or more, received %lld", where,
                         (long long)options->micro_batches);
    if (options->micro_batches <= 1) return MUSTER_OK;
    if (options->micro_batches > MST_MICRO_BATCHES)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: options: micro_batches: expected at most %d, received %lld", where, MST_MICRO_BATCHES,
                         (long long)options->micro_batches);
    if (options->meaning == MUSTER_PER_WORKER)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: options: micro_batches: expected 0 or 1 with MUSTER_PER_WORKER (the call option slices divides the rows of a "
                         "worker), received %lld",
                         where, (long long)options->micro_batches);
    if (graph->runtime->logical_shards)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: options: micro_batches: expected 0 or 1 on a runtime with logical shards, whose values must not depend on "
                         "how many rows are computed together, received %lld",
                         where, (long long)options->micro_batches);
    return MUSTER_OK;
}

static muster_status check_flags(const muster_graph_options *options) {
    const struct {
        const char *name;
        int32_t value;
    } flags[] = {{"unshared_memory", options->unshared_memory}, {"unfused", options->unfused},
                 {"unsimplified", options->unsimplified},       {"check_memory", options->check_memory},
                 {"step_times", options->step_times},           {"eager_updates", options->eager_updates},
                 {"plain_layout", options->plain_layout}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].value != 0 && flags[i].value != 1)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected 0 or 1, received %d", where, flags[i].name,
                             (int)flags[i].value);
    return MUSTER_OK;
}

static muster_status check_eager(const mst_graph *graph, const muster_graph_options *options) {
    for (int32_t c = 0; options->eager_updates && graph->rules && c < graph->rules->call_count; c++)
        if (graph->rules->calls[c].options.clip_norm > 0)
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: options: eager_updates: expected gradients that are not clipped, since the norm needs all of them before "
                             "the first update, received a clip_norm of %g",
                             where, graph->rules->calls[c].options.clip_norm);
    return MUSTER_OK;
}

muster_status mst_compile_check_first(const mst_graph *graph, const muster_graph_options *options) {
    if (graph->status != MUSTER_OK) return mst_error_restore(graph->status, graph->message);
    if (options->meaning == MUSTER_ONE_DEVICE || options->meaning == MUSTER_PER_WORKER) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: meaning: expected a muster_graph_meaning, received %d", where,
                     (int)options->meaning);
}

muster_status mst_compile_check_graph(const mst_graph *graph, const muster_graph_options *options) {
    MUSTER_TRY(mst_compile_check_first(graph, options));
    if (graph->outputs.count + graph->updates.count == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: graph \"%s\": expected an output or an update, received none", where, graph->name);
    if (options->rows < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: rows: expected 0 or more, received %lld", where, (long long)options->rows);
    if (options->memory_limit < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: memory_limit: expected 0 or more bytes, received %lld", where,
                         (long long)options->memory_limit);
    MUSTER_TRY(check_flags(options));
    MUSTER_TRY(check_micro_batches(graph, options));
    MUSTER_TRY(check_eager(graph, options));
    MUSTER_TRY(check_splits(graph, options));
    if (options->meaning == MUSTER_ONE_DEVICE) return MUSTER_OK;
    MUSTER_TRY(
        check_averages(&graph->outputs, "output", "MUSTER_GATHER, MUSTER_MASTER, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD or MUSTER_SUM"));
    return check_averages(&graph->updates, "update of", "MUSTER_MASTER, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD or MUSTER_SUM");
}

const muster_expr *mst_program_find_placed(const mst_graph_program *program) {
    for (int32_t at = 0; at < program->count; at++)
        if (mst_node_is(program->order[at], MST_OPERATOR_place) || mst_node_is(program->order[at], MST_OPERATOR_place_gradient))
            return program->order[at];
    return NULL;
}

muster_status mst_compile_check_places(const mst_graph_program *program, muster_graph_meaning meaning) {
    char place[MST_NODE_TEXT];
    const muster_expr *node = mst_program_find_placed(program);
    if (!node || (meaning == MUSTER_PER_WORKER && !program->graph->runtime->logical_shards)) return MUSTER_OK;
    (void)mst_origin_text(&node->origin, place);
    return mst_error(MUSTER_UNSUPPORTED, "%s: %s%smuster_expr_place: expected %s, received %s", where, place, *place ? ": " : "",
                     meaning == MUSTER_PER_WORKER ? "a runtime without logical shards, since their values must not depend on devices"
                                                  : "MUSTER_PER_WORKER, since no operation has a device of its own otherwise",
                     meaning == MUSTER_PER_WORKER ? "one with them" : "MUSTER_ONE_DEVICE");
}
