/* Calls that fail when their pass has begun to write: never silently half an update. */
#include "nodes/nodes_impl.h"
#include "pass_private.h"
#include "variable_impl.h"

#include <stdio.h>
#include <string.h>

muster_status mst_pass_make_notes(mst_graph_program *program) {
    const size_t bytes = (size_t)program->pass->count * sizeof *program->ranks->written;
    for (int32_t r = 0; r < program->rank_count; r++) {
        program->ranks[r].written = mst_alloc(bytes);
        if (!program->ranks[r].written) return mst_out_of_memory("muster_graph_compile", (int64_t)bytes);
    }
    return MUSTER_OK;
}

void mst_pass_note_written(mst_graph_program_rank *rank, int32_t first, int32_t count, const bool *which) {
    for (int32_t i = 0; i < count; i++) rank->written[first + i] |= !which || which[i];
}

/* By any worker: the new values of one are written to all devices. */
static bool rule_has_written(const mst_graph_program *program, int32_t index) {
    for (int32_t r = 0; r < program->rank_count; r++)
        if (program->ranks[r].written[index]) return true;
    return false;
}

static void rule_set_undefined(const mst_graph_program *program, const mst_pass_rule *rule) {
    const mst_update_rule_entry *entry = &program->graph->rules->entries[rule->entry];
    mst_variable_set_undefined(entry->variable);
    for (int32_t s = 0; s < entry->state_count; s++) mst_variable_set_undefined(entry->states[s].variable);
}

/* What has been written in one process is undefined in all, whose parameters would differ. A rule
 * is a bit; those of programs with more rules share them. A process that has given up the call does
 * not come to the round, so that there is none. */
static void rules_agree(const mst_graph_program *program) {
    uint8_t mine[MST_ROUND_BYTES] = {0}, all[MST_ROUND_BYTES] = {0};
    mst_nodes *nodes = program->graph->runtime->nodes;
    const int32_t most = 8 * MST_ROUND_BYTES, bytes = program->pass->count < most ? (program->pass->count + 7) / 8 : MST_ROUND_BYTES;
    mst_round round = {.where = "muster_function_call", .rank = -1, .signature = 3, .payload = mine, .payload_bytes = bytes};
    for (int32_t i = 0; i < program->pass->count; i++)
        if (rule_has_written(program, i)) mine[i % most / 8] |= (uint8_t)(1 << i % 8);
    snprintf(round.text, sizeof round.text, "the end of graph '%.100s' after a failure", program->graph->name);
    const bool asked = !mst_nodes_given_up(nodes) && mst_nodes_begin(nodes, &round) == MUSTER_OK;
    for (int32_t p = 0; p < nodes->processes; p++) /* a process that cannot be asked may have written all */
        for (int32_t b = 0; b < bytes; b++) all[b] |= asked ? ((const uint8_t *)round.all)[p * bytes + b] : 0xff;
    for (int32_t i = 0; i < program->pass->count; i++) program->ranks[0].written[i] |= (all[i % most / 8] >> i % 8 & 1) != 0;
}

static muster_status pass_failed(const mst_graph_program *program, muster_status status) {
    char message[MST_MESSAGE_SIZE], others[48] = "";
    const char *name = NULL;
    int32_t count = 0;
    mst_error_save(message);
    if (program->graph->runtime->nodes) rules_agree(program);
    (void)mst_error_restore(status, message);
    for (int32_t i = 0; i < program->pass->count; i++) {
        const mst_pass_rule *rule = &program->pass->rules[i];
        if (!rule_has_written(program, i)) continue;
        rule_set_undefined(program, rule);
        if (count++ == 0) name = program->graph->variables.items[rule->parameter].name;
    }
    if (!name) return status;
    if (count > 1) snprintf(others, sizeof others, " and %d others", (int)(count - 1));
    return mst_error(status,
                     "%.360s; the call had begun to update variable '%.60s'%s: set %s and the states of %s rule again, which are undefined "
                     "until then",
                     message, name, others, count > 1 ? "them" : "it", count > 1 ? "their" : "its");
}

muster_status mst_pass_ended(void *user, muster_status status) {
    const mst_graph_program *program = user;
    if (__builtin_expect(status != MUSTER_OK, 0)) status = pass_failed(program, status);
    for (int32_t r = 0; r < program->rank_count; r++)
        memset(program->ranks[r].written, 0, (size_t)program->pass->count * sizeof *program->ranks[r].written);
    return status;
}
