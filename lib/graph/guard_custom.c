/* Checked runs of an operator of the program: it does what it has declared. It runs twice, each
 * time in memory of its own that is filled with another pattern and has a zone before and behind
 * it: what differs has not been written, and what has been written outside is seen in the zones. */
#include "custom/custom_private.h"
#include "guard_private.h"
#include "tensor_impl.h"

#include <string.h>

enum { ZONE = 256, FIRST_PATTERN = 0xa5, SECOND_PATTERN = 0x5a };
/* The third with the operands in other strides, where the operator says that it takes them. */
enum { FIRST_RUN, SECOND_RUN, STRIDED_RUN, RUNS };

typedef struct guard_step {
    muster_worker *worker;
    mst_instance *instance;
    mst_graph_program_step *step;
    muster_tensor made[MST_RESULTS]; /* in memory of its own */
    mst_guard_copy values[RUNS][MST_RESULTS];
} guard_step;

static bool zone_is(const unsigned char *zone, int32_t pattern) {
    for (int32_t i = 0; i < ZONE; i++)
        if (zone[i] != pattern) return false;
    return true;
}

/* Reads result r with its zones. */
static muster_status result_read(guard_step *g, int32_t r, const muster_tensor *block, int32_t pattern, mst_guard_copy *values) {
    mst_guard_copy all = {0};
    const char *name = muster_dtype_name(g->made[r].dtype);
    muster_status status = mst_guard_read(g->worker, block, &all);
    values->size = all.size - 2 * ZONE;
    values->bytes = status == MUSTER_OK ? mst_alloc((size_t)values->size + 1) : NULL;
    if (status == MUSTER_OK && !values->bytes) status = mst_out_of_memory("a checked graph", values->size);
    if (status == MUSTER_OK) memcpy(values->bytes, all.bytes + ZONE, (size_t)values->size);
    if (status == MUSTER_OK && (!zone_is(all.bytes, pattern) || !zone_is(all.bytes + ZONE + values->size, pattern)))
        status = mst_guard_refuse(g->step->node, r, "result",
                                  "expected writes inside of the shape that the rule says, received one outside (%s)", name, 0);
    mst_guard_free(&all);
    return status;
}

static muster_status custom_run_once(guard_step *g, int32_t number, const muster_tensor *const *in) {
    const int32_t pattern = number == SECOND_RUN ? SECOND_PATTERN : FIRST_PATTERN, results = g->step->node->op->results;
    muster_tensor blocks[MST_RESULTS], *out[MST_RESULTS];
    for (int32_t r = 0; r < results; r++) {
        out[r] = g->step->out[r];
        if (!out[r]->dtype) continue;
        g->made[r] = mst_guard_plain(out[r]);
        const int64_t bytes[] = {muster_tensor_bytes(g->made[r]) + 2 * ZONE};
        MUSTER_TRY(muster_worker_scratch(g->worker, MUSTER_U8, 1, bytes, &blocks[r]));
        MUSTER_TRY(muster_fill(g->worker, pattern, blocks[r]));
        g->made[r].data = (char *)blocks[r].data + blocks[r].byte_offset + ZONE;
        g->made[r].device = blocks[r].device;
        out[r] = &g->made[r];
    }
    const mst_step_run run = {.node = g->step->node,
                              .in = in,
                              .out = out,
                              .sizes = g->instance->sizes,
                              .sharing = mst_instance_sharing(g->instance),
                              .state = &g->step->state};
    MUSTER_TRY(g->step->node->op->run(g->worker, &run));
    for (int32_t r = 0; r < results; r++)
        if (g->step->out[r]->dtype) MUSTER_TRY(result_read(g, r, &blocks[r], pattern, &g->values[number][r]));
    return MUSTER_OK;
}

/* The operand whose memory result 0 has, or -1. */
static int32_t operand_in_place(const mst_graph_program_step *step) {
    for (int32_t i = 0; i < step->in_count; i++)
        if (step->in[i] && step->out[0]->dtype && mst_guard_overlap(step->in[i], step->out[0])) return i;
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
    mst_guard_copy values = {0};
    MUSTER_TRY(mst_graph_step_run(g->worker, g->instance, g->step));
    muster_status status = mst_guard_read(g->worker, step->out[0], &values);
    const int64_t element = status == MUSTER_OK ? mst_guard_difference(&values, &g->values[0][0], step->out[0]->dtype) : -1;
    if (element >= 0)
        status = mst_guard_refuse(
            step->node, 0, "result",
            "in_place: expected the same values in the memory of operand %s as elsewhere, received others from element %lld on",
            step->node->op->operands[operand], element);
    mst_guard_free(&values);
    return status;
}

/* Refuses an operator whose declared view has other elements than those that its body computes. */
static muster_status custom_view_check(guard_step *g) {
    const muster_expr *node = g->step->node;
    if (!node->op->view || !g->step->out[0]->dtype) return MUSTER_OK;
    muster_tensor view = mst_guard_plain(&g->made[0]);
    const mst_step_run run = {
        .node = node, .in = g->step->in, .out = g->step->out, .sizes = g->instance->sizes, .sharing = mst_instance_sharing(g->instance)};
    bool outside = false;
    mst_guard_copy values = {0};
    view.data = g->step->in[0]->data;
    view.device = g->step->in[0]->device;
    if (!mst_custom_view_make(&run, &view, &outside)) return MUSTER_OK;
    if (outside)
        return mst_guard_refuse(node, 0, "result", "view: expected elements of operand %s, received some outside of it",
                                node->op->operands[0], 0);
    muster_status status = mst_guard_read(g->worker, &view, &values);
    const int64_t element = status == MUSTER_OK ? mst_guard_difference(&values, &g->values[0][0], view.dtype) : -1;
    if (element >= 0)
        status =
            mst_guard_refuse(node, 0, "result", "view: expected the values of the body, received others of operand %s from element %lld on",
                             node->op->operands[0], element);
    mst_guard_free(&values);
    return status;
}

/* The operand once more: the first axis varies fastest, and each second element is NaN. */
static muster_status operand_spread(muster_worker *worker, const muster_tensor *operand, muster_tensor *spread) {
    const int64_t bytes = 2 * mst_tensor_bytes(*operand);
    int64_t stride = 2;
    muster_tensor block;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_U8, 1, &bytes, &block));
    MUSTER_TRY(muster_fill(worker, MST_GUARD_NOTHING, block));
    *spread = *operand;
    spread->data = block.data;
    spread->byte_offset = block.byte_offset;
    spread->device = block.device;
    for (int32_t d = 0; d < spread->ndim; d++) {
        spread->strides[d] = stride;
        stride *= spread->shape[d];
    }
    return muster_copy(worker, *operand, *spread);
}

static muster_status custom_strided_check(guard_step *g) {
    const muster_expr *node = g->step->node;
    const uint32_t mask = mst_custom_of(node->op)->options.strided_operands;
    muster_tensor spread[32];
    if (!mask) return MUSTER_OK;
    const muster_tensor **in = mst_alloc((size_t)g->step->in_count * sizeof *in);
    muster_status status = in ? MUSTER_OK : mst_out_of_memory("a checked graph", g->step->in_count);
    for (int32_t i = 0; status == MUSTER_OK && i < g->step->in_count; i++) {
        in[i] = g->step->in[i];
        if (i >= 32 || !(mask >> i & 1)) continue;
        status = operand_spread(g->worker, in[i], &spread[i]);
        in[i] = &spread[i];
    }
    if (status == MUSTER_OK) status = custom_run_once(g, STRIDED_RUN, in);
    mst_free(in);
    MUSTER_TRY(status);
    for (int32_t r = 0; r < node->op->results; r++) {
        if (!g->step->out[r]->dtype) continue;
        const int64_t element = mst_guard_difference(&g->values[FIRST_RUN][r], &g->values[STRIDED_RUN][r], g->made[r].dtype);
        if (element >= 0)
            return mst_guard_refuse(node, r, "result",
                                    "strided_operands: expected the same values from operands with other strides, received another %s in "
                                    "element %lld",
                                    muster_dtype_name(g->made[r].dtype), element);
    }
    return MUSTER_OK;
}

static muster_status custom_check(guard_step *g, const mst_guard_copy *before) {
    const muster_expr *node = g->step->node;
    MUSTER_TRY(custom_run_once(g, FIRST_RUN, g->step->in));
    MUSTER_TRY(mst_guard_compare(g->worker, g->step, before, true));
    MUSTER_TRY(custom_run_once(g, SECOND_RUN, g->step->in));
    for (int32_t r = 0; r < node->op->results; r++) {
        if (!g->step->out[r]->dtype) continue;
        const int64_t element = mst_guard_difference(&g->values[0][r], &g->values[1][r], g->made[r].dtype);
        if (element >= 0)
            return mst_guard_refuse(node, r, "result",
                                    "expected the same values from the same operands, with every element of the shape that the rule "
                                    "says written, received another %s in element %lld",
                                    muster_dtype_name(g->made[r].dtype), element);
    }
    MUSTER_TRY(custom_strided_check(g));
    MUSTER_TRY(custom_view_check(g));
    return custom_place(g);
}

muster_status mst_guard_custom(muster_worker *worker, mst_instance *instance, mst_graph_program_step *step, const mst_guard_copy *before) {
    guard_step g = {.worker = worker, .instance = instance, .step = step};
    const muster_status status = custom_check(&g, before);
    for (int32_t number = 0; number < RUNS; number++)
        for (int32_t r = 0; r < MST_RESULTS; r++) mst_guard_free(&g.values[number][r]);
    return status;
}
