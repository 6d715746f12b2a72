/* Checked runs: every value that is not needed any more, or not made yet, is NaN; no operation
 * changes an operand; and an operator of the program does what it has declared. It runs twice, each
 * time in memory of its own that is filled with another pattern and has a zone before and behind
 * it: what differs has not been written, and what has been written outside is seen in the zones. */
#include "custom/custom_private.h"
#include "program_private.h"

#include <string.h>

enum { ZONE = 256, NOTHING = 0xff, FIRST_PATTERN = 0xa5, SECOND_PATTERN = 0x5a };

/* ---- values on the host ---- */

typedef struct guard_copy {
    unsigned char *bytes; /* NULL: none */
    int64_t size;
} guard_copy;

static muster_tensor contiguous_like(const muster_tensor *like) {
    muster_tensor made = *like;
    int64_t elements = 1;
    made.byte_offset = 0;
    for (int32_t d = made.ndim - 1; d >= 0; d--) {
        made.strides[d] = elements;
        elements *= made.shape[d];
    }
    return made;
}

static muster_status copy_read(muster_worker *worker, const muster_tensor *tensor, guard_copy *copy) {
    muster_tensor from = *tensor, to = contiguous_like(tensor);
    copy->size = muster_tensor_bytes(to);
    copy->bytes = mst_alloc((size_t)copy->size + 1);
    if (!copy->bytes) return mst_out_of_memory("a checked graph", copy->size);
    if (copy->size == 0) return MUSTER_OK;
    if (!muster_tensor_is_contiguous(from)) {
        from = muster_worker_scratch(worker, to.dtype, to.ndim, to.shape);
        MUSTER_TRY(muster_copy(worker, *tensor, from));
    }
    to.data = copy->bytes;
    to.device = MUSTER_DEVICE_HOST;
    return muster_worker_read(worker, from, to);
}

static void copy_free(guard_copy *copy) { mst_free(copy->bytes); }

/* The place of the first element that differs, or -1. */
static int64_t first_difference(const guard_copy *a, const guard_copy *b, muster_dtype dtype) {
    for (int64_t i = 0; i < a->size; i++)
        if (a->bytes[i] != b->bytes[i]) return i / muster_dtype_size(dtype);
    return -1;
}

/* ---- memory that nothing needs ---- */

static muster_status fill_bytes(muster_worker *worker, char *data, int32_t device, int64_t bytes, int32_t pattern) {
    const muster_tensor range = {.data = data, .dtype = MUSTER_U8, .ndim = 1, .shape = {bytes}, .strides = {1}, .device = device};
    return bytes ? muster_fill(worker, pattern, range) : MUSTER_OK;
}

static int32_t arena_device(const mst_instance *instance) { return instance->places[instance->first_place[0]].tensor->device; }

muster_status mst_guard_begin(muster_worker *worker, const mst_instance *instance) {
    if (!instance->first_place[1]) return MUSTER_OK; /* there is no block */
    return fill_bytes(worker, instance->addresses[MST_BASE_ARENA], arena_device(instance), instance->arena_bytes, NOTHING);
}

static muster_status fill_dead(muster_worker *worker, const mst_instance *instance, int32_t step) {
    for (int32_t i = 0; i < instance->dead_count; i++)
        if (instance->dead[i].step == step)
            MUSTER_TRY(fill_bytes(worker, instance->addresses[MST_BASE_ARENA] + instance->dead[i].offset, arena_device(instance),
                                  instance->dead[i].bytes, NOTHING));
    return MUSTER_OK;
}

/* ---- messages ---- */

static muster_status guard_refuse(const muster_expr *node, int32_t index, const char *kind, const char *format, const char *name,
                                  int64_t element) {
    char text[200];
    snprintf(text, sizeof text, format, name, (long long)element);
    return mst_error(node->op->id == MST_OPERATORS ? MUSTER_USER : MUSTER_INTERNAL, "operator \"%s\": %s %d: %s", node->op->name, kind,
                     (int)index, text);
}

/* ---- an operator of the program ---- */

typedef struct guard_step {
    muster_worker *worker;
    mst_instance *instance;
    mst_graph_program_step *step;
    muster_tensor made[MST_RESULTS]; /* in memory of its own */
    guard_copy values[2][MST_RESULTS];
} guard_step;

static bool zone_is(const unsigned char *zone, int32_t pattern) {
    for (int32_t i = 0; i < ZONE; i++)
        if (zone[i] != pattern) return false;
    return true;
}

/* Reads result r with its zones. */
static muster_status result_read(guard_step *g, int32_t r, const muster_tensor *block, int32_t pattern, guard_copy *values) {
    guard_copy all = {0};
    const char *name = muster_dtype_name(g->made[r].dtype);
    muster_status status = copy_read(g->worker, block, &all);
    values->size = all.size - 2 * ZONE;
    values->bytes = status == MUSTER_OK ? mst_alloc((size_t)values->size + 1) : NULL;
    if (status == MUSTER_OK && !values->bytes) status = mst_out_of_memory("a checked graph", values->size);
    if (status == MUSTER_OK) memcpy(values->bytes, all.bytes + ZONE, (size_t)values->size);
    if (status == MUSTER_OK && (!zone_is(all.bytes, pattern) || !zone_is(all.bytes + ZONE + values->size, pattern)))
        status = guard_refuse(g->step->node, r, "result",
                              "expected writes inside of the shape that the rule says, received one outside (%s)", name, 0);
    copy_free(&all);
    return status;
}

static muster_status custom_run_once(guard_step *g, int32_t again) {
    const int32_t pattern = again ? SECOND_PATTERN : FIRST_PATTERN, results = g->step->node->op->results;
    muster_tensor blocks[MST_RESULTS], *out[MST_RESULTS];
    for (int32_t r = 0; r < results; r++) {
        out[r] = g->step->out[r];
        if (!out[r]->dtype) continue;
        g->made[r] = contiguous_like(out[r]);
        const int64_t bytes[] = {muster_tensor_bytes(g->made[r]) + 2 * ZONE};
        blocks[r] = muster_worker_scratch(g->worker, MUSTER_U8, 1, bytes);
        MUSTER_TRY(muster_fill(g->worker, pattern, blocks[r]));
        g->made[r].data = (char *)blocks[r].data + blocks[r].byte_offset + ZONE;
        g->made[r].device = blocks[r].device;
        out[r] = &g->made[r];
    }
    const mst_step_run run = {.node = g->step->node,
                              .in = g->step->in,
                              .out = out,
                              .sizes = g->instance->sizes,
                              .sharing = mst_instance_sharing(g->instance),
                              .state = &g->step->state};
    MUSTER_TRY(g->step->node->op->run(g->worker, &run));
    for (int32_t r = 0; r < results; r++)
        if (g->step->out[r]->dtype) MUSTER_TRY(result_read(g, r, &blocks[r], pattern, &g->values[again][r]));
    return MUSTER_OK;
}

static bool overlap(const muster_tensor *a, const muster_tensor *b) {
    const char *first[2], *last[2];
    const muster_tensor *both[] = {a, b};
    for (int32_t i = 0; i < 2; i++) {
        first[i] = last[i] = muster_tensor_address(*both[i]);
        for (int32_t d = 0; d < both[i]->ndim; d++) {
            if (both[i]->shape[d] == 0) return false;
            const int64_t bytes = (both[i]->shape[d] - 1) * both[i]->strides[d] * muster_dtype_size(both[i]->dtype);
            if (bytes < 0)
                first[i] += bytes;
            else
                last[i] += bytes;
        }
    }
    return a->device == b->device && first[0] <= last[1] && first[1] <= last[0];
}

/* The operand whose memory result 0 has, or -1. */
static int32_t operand_in_place(const mst_graph_program_step *step) {
    for (int32_t i = 0; i < step->in_count; i++)
        if (step->in[i] && step->out[0]->dtype && overlap(step->in[i], step->out[0])) return i;
    return -1;
}

/* The results go where they belong: by the same body if it writes over an operand, else as
 * copies. */
static muster_status custom_place(guard_step *g) {
    const mst_graph_program_step *step = g->step;
    const int32_t operand = operand_in_place(step);
    if (operand < 0) {
        for (int32_t r = 0; r < step->node->op->results; r++)
            if (step->out[r]->dtype) MUSTER_TRY(muster_copy(g->worker, g->made[r], *step->out[r]));
        return MUSTER_OK;
    }
    guard_copy values = {0};
    MUSTER_TRY(mst_graph_step_run(g->worker, g->instance, g->step));
    muster_status status = copy_read(g->worker, step->out[0], &values);
    const int64_t element = status == MUSTER_OK ? first_difference(&values, &g->values[0][0], step->out[0]->dtype) : -1;
    if (element >= 0)
        status = guard_refuse(
            step->node, 0, "result",
            "in_place: expected the same values in the memory of operand %s as elsewhere, received others from element %lld on",
            step->node->op->operands[operand], element);
    copy_free(&values);
    return status;
}

/* Is the view that the operator declares what its body computes? */
static muster_status custom_view_check(guard_step *g) {
    const muster_expr *node = g->step->node;
    if (!node->op->view || !g->step->out[0]->dtype) return MUSTER_OK;
    muster_tensor view = contiguous_like(&g->made[0]);
    const mst_step_run run = {
        .node = node, .in = g->step->in, .out = g->step->out, .sizes = g->instance->sizes, .sharing = mst_instance_sharing(g->instance)};
    bool outside = false;
    guard_copy values = {0};
    view.data = g->step->in[0]->data;
    view.device = g->step->in[0]->device;
    if (!mst_custom_view_make(&run, &view, &outside)) return MUSTER_OK;
    if (outside)
        return guard_refuse(node, 0, "result", "view: expected elements of operand %s, received some outside of it", node->op->operands[0],
                            0);
    muster_status status = copy_read(g->worker, &view, &values);
    const int64_t element = status == MUSTER_OK ? first_difference(&values, &g->values[0][0], view.dtype) : -1;
    if (element >= 0)
        status =
            guard_refuse(node, 0, "result", "view: expected the values of the body, received others of operand %s from element %lld on",
                         node->op->operands[0], element);
    copy_free(&values);
    return status;
}

static bool result_overlaps(const mst_graph_program_step *step, int32_t operand) {
    for (int32_t r = 0; r < step->out_count; r++)
        if (step->out[r]->dtype && overlap(step->in[operand], step->out[r])) return true;
    return false;
}

/* elsewhere: the results are not where the step writes them otherwise, so that no operand may
 * change. */
static muster_status operands_compare(muster_worker *worker, const mst_graph_program_step *step, const guard_copy *before, bool elsewhere) {
    for (int32_t i = 0; i < step->in_count; i++) {
        guard_copy after = {0};
        if (!before[i].bytes || (!elsewhere && result_overlaps(step, i))) continue;
        muster_status status = copy_read(worker, step->in[i], &after);
        const int64_t element = status == MUSTER_OK ? first_difference(&before[i], &after, step->in[i]->dtype) : -1;
        if (element >= 0)
            status = guard_refuse(step->node, i, "operand", "expected values that stay, received another %s in element %lld",
                                  muster_dtype_name(step->in[i]->dtype), element);
        copy_free(&after);
        MUSTER_TRY(status);
    }
    return MUSTER_OK;
}

static muster_status custom_check(guard_step *g, const guard_copy *before) {
    const muster_expr *node = g->step->node;
    MUSTER_TRY(custom_run_once(g, 0));
    MUSTER_TRY(operands_compare(g->worker, g->step, before, true));
    MUSTER_TRY(custom_run_once(g, 1));
    for (int32_t r = 0; r < node->op->results; r++) {
        if (!g->step->out[r]->dtype) continue;
        const int64_t element = first_difference(&g->values[0][r], &g->values[1][r], g->made[r].dtype);
        if (element >= 0)
            return guard_refuse(node, r, "result",
                                "expected the same values from the same operands, with every element of the shape that the rule "
                                "says written, received another %s in element %lld",
                                muster_dtype_name(g->made[r].dtype), element);
    }
    MUSTER_TRY(custom_view_check(g));
    return custom_place(g);
}

static muster_status custom_run(muster_worker *worker, mst_instance *instance, mst_graph_program_step *step, const guard_copy *before) {
    guard_step g = {.worker = worker, .instance = instance, .step = step};
    const muster_status status = custom_check(&g, before);
    for (int32_t again = 0; again < 2; again++)
        for (int32_t r = 0; r < MST_RESULTS; r++) copy_free(&g.values[again][r]);
    return status;
}

/* ---- one step ---- */

muster_status mst_guard_step(muster_worker *worker, mst_instance *instance, int32_t index) {
    mst_graph_program_step *step = &instance->steps[index];
    const int64_t mark = muster_worker_scratch_mark(worker);
    guard_copy *before = mst_alloc((size_t)(step->in_count + 1) * sizeof *before);
    muster_status status = before ? MUSTER_OK : mst_out_of_memory("a checked graph", step->in_count);
    for (int32_t i = 0; status == MUSTER_OK && i < step->in_count; i++)
        if (step->in[i]) status = copy_read(worker, step->in[i], &before[i]);
    const bool custom = step->copy_from < 0 && !step->group && !step->loop && step->node->op->id == MST_OPERATORS;
    if (status == MUSTER_OK) status = custom ? custom_run(worker, instance, step, before) : mst_graph_step_run(worker, instance, step);
    if (status == MUSTER_OK) status = operands_compare(worker, step, before, false);
    if (status == MUSTER_OK) status = fill_dead(worker, instance, index);
    for (int32_t i = 0; before && i < step->in_count; i++) copy_free(&before[i]);
    mst_free(before);
    const muster_status given_back = muster_worker_scratch_release(worker, mark);
    return status == MUSTER_OK ? given_back : status;
}
