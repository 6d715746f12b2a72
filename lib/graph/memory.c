/* What the memory of a compiled graph is, for programs. */
#include "instance_private.h"
#include "options_impl.h"
#include "owner_impl.h"
#include "runtime_impl.h"

static int32_t repeated_steps(const mst_instance *instance) {
    int32_t count = instance->repeated_steps;
    for (int32_t s = 0; s < instance->step_count; s++)
        if (instance->steps[s].loop) count += mst_loop_repeated_steps(instance->steps[s].loop);
    return count;
}

static muster_graph_memory memory_of(const mst_graph_program_rank *rank) {
    const mst_instance *last = rank->last;
    muster_graph_memory memory = {.struct_size = sizeof memory, .largest_bytes = rank->largest_bytes};
    if (!last) return memory;
    memory.block_bytes = last->arena_bytes;
    memory.unlimited_bytes = last->unlimited_bytes ? last->unlimited_bytes : last->arena_bytes;
    memory.workspace_bytes = last->workspace_bytes > 0 ? last->workspace_bytes : 0;
    memory.repeated_steps = repeated_steps(last);
    return memory;
}

muster_status muster_graph_function_memory(muster_function *function, int32_t rank, muster_graph_memory *memory) {
    static const char where[] = "muster_graph_function_memory";
    void *user;
    int32_t local;
    if (!function) return mst_error_null(where, "function", "a function");
    if (!memory) return mst_error_null(where, "memory", "the address of the result");
    MUSTER_TRY(mst_function_enter(function, mst_graph_program_body, where, "one that muster_graph_compile gave", &user));
    const mst_graph_program *program = user;
    muster_status status = mst_runtime_local_rank(program->graph->runtime, rank, where, "rank", &local);
    if (status == MUSTER_OK) {
        const muster_graph_memory found = memory_of(&program->ranks[local]);
        status = mst_result_write(where, "memory", "muster_graph_memory", &found, sizeof found, memory);
    }
    mst_function_leave(function);
    return status;
}
