/* Calls that fail when their pass has begun to write: never silently half an update. */
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

static muster_status pass_failed(const mst_graph_program *program, muster_status status) {
    char message[MST_MESSAGE_SIZE], others[48] = "";
    const char *name = NULL;
    int32_t count = 0;
    for (int32_t i = 0; i < program->pass->count; i++) {
        const mst_pass_rule *rule = &program->pass->rules[i];
        if (!rule_has_written(program, i)) continue;
        rule_set_undefined(program, rule);
        if (count++ == 0) name = program->graph->variables.items[rule->parameter].name;
    }
    if (!name) return status;
    if (count > 1) snprintf(others, sizeof others, " and %d others", (int)(count - 1));
    mst_error_save(message);
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
