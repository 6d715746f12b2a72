/* Running a program: the body of a compiled function. */
#include "communicator_impl.h"
#include "observe_private.h"
#include "op_impl.h"
#include "runtime_impl.h"
#include "variable_impl.h"
#include "worker_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- the instance for this run ---- */

static bool same_layouts(const muster_tensor *made, const muster_tensor *given, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const muster_tensor *x = &made[i], *y = &given[i];
        if (x->dtype != y->dtype || x->ndim != y->ndim) return false;
        for (int32_t d = 0; d < x->ndim; d++)
            if (x->shape[d] != y->shape[d] || x->strides[d] != y->strides[d]) return false;
    }
    return true;
}

static bool same_sharing(const mst_sharing *made, const mst_sharing *now) {
    return made->size == now->size && made->rows == now->rows &&
           memcmp(made->row_edges, now->row_edges, (size_t)(now->size + 1) * sizeof *now->row_edges) == 0;
}

static bool fits(const mst_graph_program *program, const mst_graph_program_rank *rank, const mst_instance *instance,
                 const muster_tensor *given, const muster_tensor *out) {
    return same_layouts(instance->given, given, program->input_count + program->variable_count) &&
           same_layouts(instance->targets, out, program->output_count) &&
           same_layouts(instance->targets + program->output_count, rank->updates, program->update_count) &&
           (!program->distributed || same_sharing(&instance->sharing, &rank->sharing));
}

/* The one that was used last the longest ago makes room. */
static mst_instance **instance_slot(mst_graph_program_rank *rank) {
    mst_instance **oldest = &rank->instances[0];
    for (int32_t i = 0; i < MST_INSTANCES; i++) {
        if (!rank->instances[i]) return &rank->instances[i];
        if (rank->instances[i]->used < (*oldest)->used) oldest = &rank->instances[i];
    }
    if (rank->last == *oldest) rank->last = NULL;
    mst_instance_free(*oldest);
    *oldest = NULL;
    return oldest;
}

/* The first block that is larger than the limit. */
static void limit_compare(mst_graph_program *program, const mst_instance *instance) {
    char line[MST_MESSAGE_SIZE];
    if (!program->memory_limit || instance->arena_bytes <= program->memory_limit || atomic_exchange(&program->limit_missed, true)) return;
    snprintf(line, sizeof line,
             "graph \"%.100s\": memory_limit: expected at least %lld bytes for intermediate values, received %lld; the call takes the "
             "former, since no other value is cheap to compute again",
             program->graph->name, (long long)instance->arena_bytes, (long long)program->memory_limit);
    mst_runtime_log(program->graph->runtime, MUSTER_LOG_WARNING, line);
}

/* The last run had another: finds the one for this run, or makes it. */
static __attribute__((noinline)) muster_status instance_change(mst_graph_program *program, mst_graph_program_rank *rank,
                                                               const muster_tensor *given, const muster_tensor *out) {
    mst_instance *found = NULL;
    for (int32_t i = 0; i < MST_INSTANCES && !found; i++)
        if (rank->instances[i] && fits(program, rank, rank->instances[i], given, out)) found = rank->instances[i];
    if (!found) {
        MUSTER_TRY(mst_instance_make(program, (int32_t)(rank - program->ranks), given, out, rank->updates, &found));
        if (found->arena_bytes > rank->largest_bytes) rank->largest_bytes = found->arena_bytes;
        limit_compare(program, found);
        *instance_slot(rank) = found;
    }
    rank->last = found;
    return MUSTER_OK;
}

/* Sets rank->last to the instance for this run; where there can be none, it stays. */
static muster_status instance_find(mst_graph_program *program, mst_graph_program_rank *rank, const muster_tensor *given,
                                   const muster_tensor *out) {
    if (!rank->last || !fits(program, rank, rank->last, given, out)) MUSTER_TRY(instance_change(program, rank, given, out));
    rank->last->used = ++rank->clock;
    return MUSTER_OK;
}

/* ---- addresses ---- */

/* noinline: the addresses of most calls are those of the call before. */
__attribute__((noinline)) void mst_base_move_slowly(mst_instance *instance, int32_t base, const muster_tensor *memory) {
    char *address = muster_tensor_address(*memory);
    instance->addresses[base] = address;
    for (int32_t i = instance->first_place[base]; i < instance->first_place[base + 1]; i++) {
        const mst_place *place = &instance->places[i];
        place->tensor->data = address + place->offset;
        place->tensor->device = memory->device;
    }
}

/* Has the worker the scratch memory that the steps may take? */
static muster_status scratch_ensure(muster_worker *worker, const mst_graph_program *program, mst_instance *instance) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor spare;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_U8, 1, &instance->scratch_bytes, &spare));
    MUSTER_TRY(muster_worker_scratch_release(worker, mark));
    if (instance->exchanged) MUSTER_TRY(mst_worker_reserve_of_all(worker, instance->exchanged));
    if (instance->exchanged && program->pass) MUSTER_TRY(mst_pass_reserve(worker, program, instance));
    instance->exchanged = 0;
    return MUSTER_OK;
}

static muster_status bases_move(muster_worker *worker, const mst_graph_program *program, const mst_graph_program_rank *rank,
                                mst_instance *instance, const muster_tensor *given, const muster_tensor *out) {
    if (instance->first_place[1]) {
        muster_tensor arena;
        MUSTER_TRY(
            muster_worker_scratch(worker, MUSTER_U8, 1, (const int64_t[]){instance->arena_bytes ? instance->arena_bytes : 1}, &arena));
        mst_base_move(instance, MST_BASE_ARENA, &arena);
    }
    if (instance->scratch_bytes) MUSTER_TRY(scratch_ensure(worker, program, instance));
    for (int32_t i = 0; i < program->input_count + program->variable_count; i++)
        mst_base_move(instance, mst_base_input(program, i), &given[i]);
    for (int32_t o = 0; o < program->output_count; o++)
        if (out[o].dtype != MUSTER_DTYPE_NONE) mst_base_move(instance, mst_base_output(program, o), &out[o]);
    for (int32_t u = 0; u < program->update_count; u++) mst_base_move(instance, mst_base_update(program, u), &rank->updates[u]);
    return MUSTER_OK;
}

/* ---- steps ---- */

/* The message gets the place of the node in the program. */
static muster_status step_failed(const mst_graph_program_step *step, muster_status status) {
    char message[MST_MESSAGE_SIZE], place[MST_NODE_TEXT];
    const muster_expr *node = step->node;
    const char *name = node->name ? node->name : mst_node_asked_name(node);
    (void)mst_origin_text(&node->origin, place);
    mst_error_save(message);
    return mst_error(status, "%.340s (in %s%s%s%s%s)", message, node->name ? "\"" : "", name, node->name ? "\"" : "", *place ? ", " : "",
                     place);
}

muster_status mst_graph_step_run(muster_worker *worker, mst_instance *instance, mst_graph_program_step *step) {
    if (__builtin_expect(mst_worker_is_cancelled(worker), 0)) MUSTER_TRY(mst_worker_refuse(worker, "muster_function_call"));
    if (step->tile) {
        MUSTER_TRY(mst_worker_drain(worker));
        mst_tile_run(step->tile);
        return MUSTER_OK;
    }
    if (step->launch) return mst_fused_launch_run(worker, step->launch);
    if (step->loop) return mst_loop_run(worker, instance, step);
    if (step->combines) return mst_combine_run(worker, instance, step);
    if (step->by_shard) return mst_step_run_shards(worker, instance, step);
    const mst_step_run run = {.node = step->node,
                              .in = step->in,
                              .out = step->out,
                              .sizes = instance->sizes,
                              .sharing = mst_instance_sharing(instance),
                              .state = &step->state};
    return step->copy_from < 0 ? step->node->op->run(worker, &run) : muster_copy(worker, instance->tensors[step->copy_from], *step->out[0]);
}

/* A step that says itself where it failed, or has no place of its own. */
static bool step_has_place(const mst_graph_program_step *step) { return !step->tile && !step->loop; }

static muster_status steps_run(muster_worker *worker, const mst_graph_program *program, mst_instance *instance) {
    for (int32_t s = 0; s < instance->step_count; s++) {
        mst_graph_program_step *step = &instance->steps[s];
        const muster_status status = mst_graph_step_run(worker, instance, step);
        if (__builtin_expect(status != MUSTER_OK, 0)) return step_has_place(step) ? step_failed(step, status) : status;
        if (__builtin_expect(s == instance->begins_at, 0)) MUSTER_TRY(mst_pass_begin(worker, program, instance, s));
    }
    return MUSTER_OK;
}

static muster_status steps_observe(muster_worker *worker, const mst_graph_program *program, mst_instance *instance) {
    for (int32_t s = 0; s < instance->step_count; s++) {
        mst_graph_program_step *step = &instance->steps[s];
        const mst_step_watch watch = mst_step_begin(worker, program, step, s);
        const muster_status status = mst_graph_step_run(worker, instance, step);
        const muster_status ended = mst_step_end(worker, program, step, watch);
        if (status != MUSTER_OK) return step_has_place(step) ? step_failed(step, status) : status;
        MUSTER_TRY(ended);
        if (s == instance->begins_at) MUSTER_TRY(mst_pass_begin(worker, program, instance, s));
    }
    return MUSTER_OK;
}

static muster_status steps_run_checked(muster_worker *worker, mst_instance *instance) {
    MUSTER_TRY(mst_guard_begin(worker, instance));
    for (int32_t s = 0; s < instance->step_count; s++) {
        const muster_status status = mst_guard_step(worker, instance, s);
        if (status != MUSTER_OK) return instance->steps[s].loop ? status : step_failed(&instance->steps[s], status);
    }
    return MUSTER_OK;
}

muster_status mst_steps_run(muster_worker *worker, const mst_graph_program *program, mst_instance *instance) {
    if (program->checked) return steps_run_checked(worker, instance);
    return program->observed ? steps_observe(worker, program, instance) : steps_run(worker, program, instance);
}

static muster_status variables_read(muster_worker *worker, const mst_graph_program *program, muster_tensor *given, muster_tensor *updates) {
    for (int32_t v = 0; v < program->variable_count; v++) {
        MUSTER_TRY(muster_worker_variable(worker, program->graph->variables.items[v].variable, &given[program->input_count + v]));
    }
    for (int32_t u = 0; u < program->update_count; u++) {
        updates[u] = muster_tensor_none();
        if (program->graph->updates.items[u].pass != MST_PORT_ALONE) continue;
        MUSTER_TRY(muster_worker_update(worker, program->graph->updates.items[u].variable, &updates[u]));
    }
    return program->pass ? mst_pass_targets(worker, program, given, updates) : MUSTER_OK;
}

/* The first run: all others take the same scratch memory. */
static muster_status steps_measure(muster_worker *worker, const mst_graph_program *program, mst_instance *instance) {
    const int64_t peak = worker->scratch_peak, height = mst_worker_scratch_watch(worker);
    const muster_status status = mst_steps_run(worker, program, instance);
    const int64_t bytes = worker->scratch_peak - height;
    if (status == MUSTER_OK) instance->workspace_bytes = bytes ? bytes : -1;
    mst_worker_scratch_watched(worker, peak);
    return status;
}

static muster_status program_run(muster_worker *worker, mst_graph_program *program, mst_graph_program_rank *rank,
                                 const muster_tensor *given, const muster_tensor *out) {
    MUSTER_TRY(instance_find(program, rank, given, out));
    mst_instance *instance = rank->last;
    MUSTER_TRY(bases_move(worker, program, rank, instance, given, out));
    if (program->pass) mst_pass_open(program, instance, given, rank->updates);
    MUSTER_TRY(__builtin_expect(instance->workspace_bytes != 0, 1) ? mst_steps_run(worker, program, instance)
                                                                   : steps_measure(worker, program, instance));
    return program->pass ? mst_pass_run(worker, program, instance) : MUSTER_OK;
}

muster_status mst_graph_program_run(muster_worker *worker, mst_graph_program *program, mst_graph_program_rank *rank,
                                    const muster_tensor *given, const muster_tensor *out) {
    rank->running = true;
    const muster_status status = program_run(worker, program, rank, given, out);
    rank->running = false;
    return status;
}

/* What a call asks that would not be what one device with all rows computes. */
static muster_status call_check(muster_worker *worker, const mst_graph_program *program) {
    if ((program->all_rows || program->exchanges) && muster_worker_slices(worker) > 1)
        return mst_error(MUSTER_UNSUPPORTED,
                         "slices: expected 1, since values of a graph with MUSTER_ONE_DEVICE are made of all rows, and a slice has some "
                         "(muster_graph_options.micro_batches keeps the meaning), received %lld",
                         (long long)muster_worker_slices(worker));
    if (program->distributed && program->update_count && muster_worker_size(worker) < program->graph->runtime->total)
        return mst_error(MUSTER_UNSUPPORTED,
                         "muster_function_call_single: expected a graph without updates, or one device, since the replicas of \"%s\" on "
                         "the other devices would keep their values, received %d devices",
                         program->graph->updates.items[0].name, (int)program->graph->runtime->total);
    return MUSTER_OK;
}

muster_status mst_graph_program_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    mst_graph_program *program = user;
    mst_graph_program_rank *rank = &program->ranks[worker->rank];
    MUSTER_TRY(call_check(worker, program));
    const muster_tensor *given = in;
    if (program->variable_count || program->update_count) {
        for (int32_t i = 0; i < program->input_count; i++) rank->given[i] = in[i];
        MUSTER_TRY(variables_read(worker, program, rank->given, rank->updates));
        given = rank->given;
    }
    if (program->distributed) MUSTER_TRY(mst_sharing_find(worker, program, rank, given));
    rank->call_rows = muster_worker_total_rows(worker);
    const muster_status status = mst_graph_program_run(worker, program, rank, given, out);
    rank->call_rows = 0;
    return status;
}

void mst_graph_program_parts_free(mst_graph_program *program) {
    mst_fused_close(program->fused);
    mst_step_names_free(program->step_names);
    mst_free(program->groups);
    mst_free(program->group_of);
    mst_free(program->order);
    mst_free(program->position);
    mst_free(program->results);
}

void mst_graph_program_destroy(void *user) {
    mst_graph_program *program = user;
    for (int32_t r = 0; program->ranks && r < program->rank_count; r++) {
        for (int32_t i = 0; i < MST_INSTANCES; i++) mst_instance_free(program->ranks[r].instances[i]);
        mst_free(program->ranks[r].given);
        mst_free(program->ranks[r].row_edges);
        mst_free(program->ranks[r].written);
    }
    mst_free(program->ranks);
    mst_loop_free(program->loop);
    mst_pass_drop(program);
    mst_graph_program_parts_free(program);
    mst_free(program->phase);
    mst_free(program->channels_last);
    if (program->graph->frozen) mst_update_rules_end(program->graph);
    mst_graph_release(program->graph);
    mst_free(program);
}
