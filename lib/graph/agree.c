/* Compiling a graph in several processes: all must compile the same graph in the same way, since
 * the workers of all exchange its values. */
#include "hash_impl.h"
#include "nodes/nodes_impl.h"
#include "program_private.h"
#include "rules/pass_private.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "muster_graph_compile";

/* ---- what the program is ---- */

static uint64_t add_text(uint64_t hash, const char *text) {
    return text ? mst_hash_bytes(hash, text, (int64_t)strlen(text) + 1) : mst_hash_number(hash, 0);
}

static uint64_t add_values(uint64_t hash, const muster_expr *node) {
    for (int32_t v = 0; v < MST_GRAPH_ATTRIBUTES && node->values && node->op->attributes[v].name; v++) {
        const mst_graph_value *value = &node->values[v];
        hash = mst_hash_number(mst_hash_bytes(hash, &value->number, sizeof value->number), value->integer);
        hash = mst_hash_number(hash, value->count);
        if (value->list) hash = mst_hash_bytes(hash, value->list, (int64_t)value->count * (int64_t)sizeof *value->list);
    }
    return hash;
}

static uint64_t add_node(uint64_t hash, const mst_graph_program *program, const muster_expr *node) {
    const mst_distribution *is = &node->distribution;
    hash = mst_hash_number(add_text(hash, node->op->name), node->type.dtype);
    hash = mst_hash_number(mst_hash_number(mst_hash_number(hash, is->kind), is->axis), is->op);
    for (int32_t i = 0; i < node->input_count; i++) hash = mst_hash_number(hash, program->position[node->inputs[i]->id]);
    for (int32_t d = 0; d < node->type.ndim; d++) hash = mst_hash_number(hash, node->type.dims[d]);
    return add_values(hash, node);
}

static uint64_t add_ports(uint64_t hash, const mst_graph_program *program, const mst_ports *ports) {
    for (int32_t i = 0; i < ports->count; i++) {
        const mst_graph_port *port = &ports->items[i];
        hash = mst_hash_number(mst_hash_number(add_text(hash, port->name), port->mode), port->pass);
        hash = mst_hash_number(hash, port->node ? program->position[port->node->id] : -1);
    }
    return mst_hash_number(hash, ports->count);
}

static uint64_t signature_of(const mst_graph *graph, const mst_graph_program *program) {
    uint64_t hash = add_text(MST_HASH_START, graph->name);
    if (!program) return hash;
    hash = mst_hash_number(mst_hash_number(mst_hash_number(hash, program->checked), program->eager), program->distributed);
    hash = mst_hash_number(mst_hash_number(hash, program->memory_limit), program->pass ? program->pass->count : -1);
    for (int32_t b = 0; program->pass && b < program->pass->bucket_count; b++) hash = mst_hash_number(hash, program->pass->bucket_ends[b]);
    for (int32_t c = 0; program->pass && c < program->pass->clip_count; c++)
        hash = mst_hash_bytes(hash, &program->pass->norms[c], sizeof program->pass->norms[c]);
    for (int32_t at = 0; at < program->count; at++) hash = add_node(hash, program, program->order[at]);
    hash = add_ports(add_ports(hash, program, &graph->inputs), program, &graph->variables);
    return add_ports(add_ports(hash, program, &graph->outputs), program, &graph->updates);
}

/* ---- rounds ---- */

static muster_status round_run(const mst_graph *graph, mst_round *round) {
    mst_pool *pool = graph->runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, where, 0));
    const muster_status status = mst_nodes_begin(graph->runtime->nodes, round);
    mst_pool_leave(pool);
    return status;
}

static muster_status flag_agree(const mst_graph *graph, mst_round *round, bool *flag) {
    const mst_nodes *nodes = graph->runtime->nodes;
    const int8_t mine = *flag;
    round->payload = &mine;
    round->payload_bytes = sizeof mine;
    MUSTER_TRY(round_run(graph, round));
    for (int32_t p = 0; p < nodes->processes; p++) *flag |= ((const int8_t *)round->all)[p] != 0;
    return MUSTER_OK;
}

static void options_details(const void *context, mst_round_details *details) {
    const muster_graph_options *options = context;
    mst_round_detail(details, "options.meaning", "%s", options->meaning == MUSTER_ONE_DEVICE ? "MUSTER_ONE_DEVICE" : "MUSTER_PER_WORKER");
    mst_round_detail(details, "options.check_memory", "%d", options->check_memory != 0);
}

static void name_compilation(const mst_graph *graph, mst_round *round) {
    snprintf(round->text, sizeof round->text, "the compilation of graph '%.100s'", graph->name);
}

muster_status mst_program_refuse(const mst_graph *graph, muster_status refused) {
    bool flag = false;
    mst_round round = {.where = where, .status = refused, .rank = -1, .signature = signature_of(graph, NULL)};
    if (!graph->runtime->nodes) return refused;
    name_compilation(graph, &round);
    return flag_agree(graph, &round, &flag);
}

muster_status mst_program_agree_options(const mst_graph *graph, const muster_graph_options *options, muster_status status, bool *unfused) {
    mst_round round = {.where = where, .status = status, .rank = -1, .details_context = options};
    round.signature = signature_of(graph, NULL);
    if (status == MUSTER_OK) {
        round.details = options_details;
        round.signature = mst_hash_number(mst_hash_number(round.signature, options->meaning), options->check_memory != 0);
    }
    name_compilation(graph, &round);
    return flag_agree(graph, &round, unfused);
}

muster_status mst_program_agree_groups(const mst_graph *graph, muster_status status, bool *again) {
    mst_round round = {.where = where, .status = status, .rank = -1, .signature = mst_hash_number(signature_of(graph, NULL), 1)};
    snprintf(round.text, sizeof round.text, "the groups of graph '%.100s'", graph->name);
    return flag_agree(graph, &round, again);
}

muster_status mst_program_agree(const mst_graph *graph, const mst_graph_program *program, muster_status status) {
    mst_round round = {.where = where, .status = status, .rank = -1};
    if (!graph->runtime->nodes) return status;
    round.signature = signature_of(graph, status == MUSTER_OK ? program : NULL);
    snprintf(round.text, sizeof round.text, "graph '%.100s' of %d steps%s", graph->name, status == MUSTER_OK ? (int)program->count : 0,
             status == MUSTER_OK && program->pass ? ", with updates in one pass" : "");
    return round_run(graph, &round);
}

muster_status mst_program_agree_made(const mst_graph *graph, muster_status status) {
    mst_round round = {.where = where, .status = status, .rank = -1, .signature = 2};
    if (!graph->runtime->nodes) return status;
    snprintf(round.text, sizeof round.text, "the end of the compilation of graph '%.100s'", graph->name);
    return round_run(graph, &round);
}
