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

/* The buffer of an operand or result of a step, or -1. */
static int32_t buffer_of(const mst_plan *plan, const muster_tensor *tensor) {
    if (!tensor || tensor == &plan->instance->none) return -1;
    return plan->values[tensor - plan->instance->tensors].buffer;
}

/* May this operand's memory, which has the buffer `root`, be written while the step reads all
 * operands? Each element is read before the same element is written. */
static bool may_write_over(const mst_plan *plan, const mst_graph_program_step *s, int32_t i, int32_t root) {
    for (int32_t k = 0; k < s->in_count; k++) {
        const int32_t other = buffer_of(plan, s->in[k]);
        if (other >= 0 && buffer_root(plan, other) == root && !same_layout(s->in[k], s->in[i])) return false;
    }
    return true;
}

/* The buffer of an operand whose memory the result of the step may take over, or -1. */
static int32_t find_in_place(const mst_plan *plan, int32_t step, const muster_tensor *result) {
    const mst_graph_program_step *s = &plan->instance->steps[step];
    const uint32_t operands = s->group ? ~0u : s->node->op->in_place;
    if (plan->program->unshared) return -1;
    for (int32_t i = 0; i < s->in_count && i < 32; i++) {
        const int32_t buffer = operands >> i & 1 ? buffer_of(plan, s->in[i]) : -1;
        if (buffer < 0) continue;
        const int32_t root = buffer_root(plan, buffer);
        if (plan->buffers[root].last == step && same_layout(s->in[i], result) && may_write_over(plan, s, i, root)) return root;
    }
    return -1;
}

static muster_status place_result(mst_plan *plan, block *b, int32_t step, const muster_tensor *result, bool may_reuse) {
    const int32_t buffer = buffer_of(plan, result);
    if (buffer < 0) return MUSTER_OK;
    /* of two results that nothing needs, both would take over the same operand */
    const bool is_needed = plan->buffers[buffer].last > step;
    const int32_t root = may_reuse && is_needed ? find_in_place(plan, step, result) : -1;
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

/* Places the results of the step, and notes in which step each is used last: ends[s] begins the
 * list of step s. */
static muster_status place_results(mst_plan *plan, block *b, int32_t s, int32_t *ends) {
    const mst_graph_program_step *step = &plan->instance->steps[s];
    if (step->copy_from >= 0) return MUSTER_OK;
    for (int32_t r = 0; r < step->out_count; r++) {
        const int32_t buffer = buffer_of(plan, step->out[r]);
        if (buffer < 0) continue;
        MUSTER_TRY(place_result(plan, b, s, step->out[r], !step->loop && (r == 0 || step->group)));
        plan->buffers[buffer].next = ends[plan->buffers[buffer].last];
        ends[plan->buffers[buffer].last] = buffer;
    }
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
        status = place_results(plan, &b, s, ends);
        if (plan->program->unshared) continue;
        for (int32_t i = ends[s]; i >= 0; i = plan->buffers[i].next) {
            /* the memory of a root is free when the last that took it over is */
            const int32_t root = buffer_root(plan, i);
            if (plan->buffers[root].last == s && plan->buffers[root].bytes) {
                block_give(&b, plan->buffers[root].offset, plan->buffers[root].bytes);
                if (instance->dead)
                    instance->dead[instance->dead_count++] = (mst_dead_range){s, plan->buffers[root].offset, plan->buffers[root].bytes};
                plan->buffers[root].last = -1;
            }
        }
    }
    instance->arena_bytes = b.end;
    mst_free(b.holes);
    mst_free(ends);
    return status;
}
