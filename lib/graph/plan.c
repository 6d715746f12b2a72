/* Memory of an instance: values that are not needed at the same time share it, and an operation
 * that may writes over an operand that nothing needs later. One block for all, found by going
 * through the steps as an allocator would. */
#include "program_private.h"

enum { ALIGNMENT = 64 };

/* Free parts of the block, in the order of their places. */
typedef struct hole {
    int64_t begin, end;
} hole;
typedef struct block {
    hole *holes;
    int32_t count;
    int64_t end; /* of the block so far */
} block;

static void hole_remove(block *b, int32_t i) {
    for (b->count--; i < b->count; i++) b->holes[i] = b->holes[i + 1];
}

/* The smallest hole that is large enough, else new memory at the end. */
static bool block_take(block *b, int64_t bytes, int64_t *offset) {
    int32_t best = -1;
    for (int32_t i = 0; i < b->count; i++) {
        const int64_t size = b->holes[i].end - b->holes[i].begin;
        if (size >= bytes && (best < 0 || size < b->holes[best].end - b->holes[best].begin)) best = i;
    }
    if (best >= 0) {
        *offset = b->holes[best].begin;
        b->holes[best].begin += bytes;
        if (b->holes[best].begin == b->holes[best].end) hole_remove(b, best);
        return true;
    }
    if (b->count && b->holes[b->count - 1].end == b->end) { /* the last hole grows */
        *offset = b->holes[b->count - 1].begin;
        b->count--;
    } else {
        *offset = b->end;
    }
    return !__builtin_add_overflow(*offset, bytes, &b->end);
}

static void block_give(block *b, int64_t begin, int64_t bytes) {
    int32_t i = 0;
    const int64_t end = begin + bytes;
    while (i < b->count && b->holes[i].begin < begin) i++;
    const bool joins_left = i > 0 && b->holes[i - 1].end == begin, joins_right = i < b->count && b->holes[i].begin == end;
    if (joins_left && joins_right) {
        b->holes[i - 1].end = b->holes[i].end;
        hole_remove(b, i);
    } else if (joins_left) {
        b->holes[i - 1].end = end;
    } else if (joins_right) {
        b->holes[i].begin = begin;
    } else {
        for (int32_t k = b->count++; k > i; k--) b->holes[k] = b->holes[k - 1];
        b->holes[i] = (hole){begin, end};
    }
}

static int32_t buffer_root(const mst_plan *plan, int32_t buffer) {
    while (plan->buffers[buffer].shared >= 0) buffer = plan->buffers[buffer].shared;
    return buffer;
}

static bool same_layout(const muster_tensor *a, const muster_tensor *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim && a->byte_offset == b->byte_offset;
    for (int32_t d = 0; same && d < a->ndim; d++) same = a->shape[d] == b->shape[d] && a->strides[d] == b->strides[d];
    return same;
}

/* The buffer of an operand whose memory the result of the step may take over, or -1. */
static int32_t find_in_place(const mst_plan *plan, int32_t step, const mst_graph_program_step *s) {
    const muster_expr *node = s->node;
    const int32_t at = plan->program->position[node->id];
    if (plan->program->unshared) return -1;
    for (int32_t i = 0; i < node->input_count; i++) {
        if (!(node->op->in_place >> i & 1) || !s->in[i]) continue;
        const int32_t from = plan->program->position[node->inputs[i]->id], buffer = plan->values[from].buffer;
        if (buffer < 0) continue;
        const int32_t root = buffer_root(plan, buffer);
        if (plan->buffers[root].last != step || !same_layout(s->in[i], &plan->instance->tensors[at])) continue;
        bool good = true;
        for (int32_t k = 0; k < node->input_count; k++) {
            if (!s->in[k]) continue;
            const int32_t other = plan->values[plan->program->position[node->inputs[k]->id]].buffer;
            if (other >= 0 && buffer_root(plan, other) == root && !same_layout(s->in[k], s->in[i])) good = false;
        }
        if (good) return root;
    }
    return -1;
}

static muster_status place_result(mst_plan *plan, block *b, int32_t step, int32_t position, bool may_reuse) {
    const int32_t buffer = plan->values[position].buffer;
    if (buffer < 0) return MUSTER_OK;
    const int32_t root = may_reuse ? find_in_place(plan, step, &plan->instance->steps[step]) : -1;
    if (root >= 0) {
        plan->buffers[buffer].shared = root;
        if (plan->buffers[root].last < plan->buffers[buffer].last) plan->buffers[root].last = plan->buffers[buffer].last;
        return MUSTER_OK;
    }
    mst_plan_buffer *made = &plan->buffers[buffer];
    if (made->bytes > INT64_MAX - ALIGNMENT || !block_take(b, made->bytes, &made->offset))
        return mst_error(MUSTER_OVERFLOW, "graph \"%s\": intermediate values need more memory than 64 bits count",
                         plan->program->graph->name);
    return MUSTER_OK;
}

muster_status mst_plan_memory(mst_plan *plan) {
    mst_instance *instance = plan->instance;
    block b = {.holes = mst_alloc((size_t)(plan->buffer_count + 1) * sizeof *b.holes)};
    /* ends[s]: the buffers whose last step is s, as a list */
    int32_t *ends = mst_alloc((size_t)(instance->step_count + 1) * sizeof *ends);
    muster_status status = b.holes && ends ? MUSTER_OK : mst_out_of_memory("muster_function_call", (int64_t)plan->buffer_count);
    for (int32_t s = 0; ends && s < instance->step_count; s++) ends[s] = -1;
    for (int32_t i = 0; i < plan->buffer_count; i++)
        plan->buffers[i].bytes = (plan->buffers[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (int32_t s = 0; status == MUSTER_OK && s < instance->step_count; s++) {
        const mst_graph_program_step *step = &instance->steps[s];
        if (step->copy_from < 0) {
            const int32_t at = plan->program->position[step->node->id];
            status = place_result(plan, &b, s, at, true);
            for (int32_t r = 1; status == MUSTER_OK && r < MST_RESULTS; r++) {
                const int32_t other = plan->program->results[at][r];
                if (other >= 0 && plan->values[other].base != MST_BASE_NONE) status = place_result(plan, &b, s, other, false);
            }
            for (int32_t r = 0; r < MST_RESULTS; r++) {
                const int32_t made = r ? plan->program->results[at][r] : at;
                const int32_t buffer = made >= 0 ? plan->values[made].buffer : -1;
                if (buffer < 0) continue;
                plan->buffers[buffer].next = ends[plan->buffers[buffer].last];
                ends[plan->buffers[buffer].last] = buffer;
            }
        }
        if (plan->program->unshared) continue;
        for (int32_t i = ends[s]; i >= 0; i = plan->buffers[i].next) {
            /* the memory of a root is free when the last that took it over is */
            const int32_t root = buffer_root(plan, i);
            if (plan->buffers[root].last == s && plan->buffers[root].bytes) {
                block_give(&b, plan->buffers[root].offset, plan->buffers[root].bytes);
                plan->buffers[root].last = -1;
            }
        }
    }
    instance->arena_bytes = b.end;
    mst_free(b.holes);
    mst_free(ends);
    return status;
}
