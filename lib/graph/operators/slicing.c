/* Operations that take parts of arrays, or put arrays together. */
#include "operators_private.h"

#define X (node->inputs[0])

/* ---- slice ---- */

enum { START, STOP, STEP, SHAPE = 3 };

static int64_t entry(const mst_graph_value *value, int32_t d, int64_t otherwise) { return d < value->count ? value->list[d] : otherwise; }

/* As Python counts, for an axis of n elements: negative ones from the end, limited to the axis. */
static int64_t place(int64_t given, int64_t n, int64_t low, int64_t high) {
    if (given < 0) given += n;
    return given < low ? low : given > high ? high : given;
}

/* The first element, the step and the number of elements along axis d. */
static muster_status slice_axis(mst_draft *draft, int32_t d, int64_t *start, int64_t *step, mst_dim *dim) {
    const mst_graph_value *values = draft->values;
    const mst_dim size = draft->inputs[0]->type.dims[d];
    const int64_t n = mst_dim_constant(draft->graph, size), first = entry(&values[START], d, MUSTER_NONE),
                  end = entry(&values[STOP], d, MUSTER_NONE);
    *step = entry(&values[STEP], d, 1);
    if (*step == 0 || *step == INT64_MIN)
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "step: expected a step in axis %d, received %lld", (int)d,
                                (long long)*step);
    if (n < 0) {
        if ((first != MUSTER_NONE && !(first == 0 && *step > 0)) || end != MUSTER_NONE || *step > 1 || *step < -1) {
            char text[MST_NODE_TEXT];
            return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1,
                                    "start: expected all of axis %d, whose size only a call knows, received a part (%s); take(x, indices, "
                                    "axis) gathers some%s",
                                    (int)d, mst_type_text(draft->graph, &draft->inputs[0]->type, text),
                                    mst_dim_is_rows(draft->graph, size) ? ", and batch of muster_call_options selects rows of a call" : "");
        }
        *start = *step < 0 ? MUSTER_NONE : 0;
        *dim = size;
        return MUSTER_OK;
    }
    const bool up = *step > 0;
    *start = first == MUSTER_NONE ? (up ? 0 : n - 1) : place(first, n, up ? 0 : -1, up ? n : n - 1);
    const int64_t stop = end == MUSTER_NONE ? (up ? n : -1) : place(end, n, up ? 0 : -1, up ? n : n - 1);
    const int64_t distance = up ? stop - *start : *start - stop, by = up ? *step : -*step;
    const int64_t count = distance > 0 ? (distance - 1) / by + 1 : 0;
    if (count == 0) *start = 0;
    if (count <= 1) *step = 1; /* equal slices are equal nodes */
    *dim = mst_dim_number(draft->graph, count);
    return MUSTER_OK;
}

static muster_status infer_slice(mst_draft *draft) {
    const mst_type *x = &draft->inputs[0]->type;
    int64_t *lists = mst_arena_take(&draft->graph->arena, 2 * MUSTER_MAX_DIMS * sizeof *lists);
    if (!lists) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    for (int32_t a = START; a <= STEP; a++)
        if (draft->values[a].count > x->ndim) {
            char text[MST_NODE_TEXT];
            return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, -1,
                                    "%s: expected at most %d entries, one for each axis of %s, received %d", draft->op->attributes[a].name,
                                    (int)x->ndim, mst_node_text(draft->inputs[0], "x", text), (int)draft->values[a].count);
        }
    draft->types[0] = *x;
    for (int32_t d = 0; d < x->ndim; d++)
        MUSTER_TRY(slice_axis(draft, d, &lists[d], &lists[MUSTER_MAX_DIMS + d], &draft->types[0].dims[d]));
    draft->values[START] = (mst_graph_value){.list = lists, .count = x->ndim};
    draft->values[STEP] = (mst_graph_value){.list = lists + MUSTER_MAX_DIMS, .count = x->ndim};
    /* `stop` follows from the shape; here it tells slices apart that begin alike */
    int64_t *counts = mst_arena_take(&draft->graph->arena, MUSTER_MAX_DIMS * sizeof *counts);
    if (!counts) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    for (int32_t d = 0; d < x->ndim; d++) counts[d] = draft->types[0].dims[d];
    draft->values[STOP] = (mst_graph_value){.list = counts, .count = x->ndim};
    return MUSTER_OK;
}

/* A slice of `base` in the shape of `part`, whose strides and offset are set. */
static void slice_view(const muster_expr *node, const muster_tensor *base, muster_tensor *part) {
    part->byte_offset = base->byte_offset;
    for (int32_t d = 0; d < part->ndim; d++) {
        const int64_t step = node->values[STEP].list[d], given = node->values[START].list[d];
        const int64_t start = given == MUSTER_NONE ? base->shape[d] - 1 : given;
        part->strides[d] = step * base->strides[d];
        if (part->shape[d] > 0) part->byte_offset += start * base->strides[d] * muster_dtype_size(base->dtype);
    }
}

static bool view_slice(const mst_step_run *run, muster_tensor *result) {
    slice_view(run->node, run->in[0], result);
    return true;
}

/* Axes of which the slice takes all, as they lie, may be cut. */
static bool distribute_slice(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const int32_t d = result.axis;
    if (way || !mst_distribute_alike(node, result, 0, operands)) return false;
    return result.kind == MST_PARTIAL || (node->values[START].list[d] == 0 && node->values[STEP].list[d] == 1);
}

static void gradient_slice(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    int64_t dims[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < X->type.ndim; d++) dims[d] = X->type.dims[d];
    mst_gradient_add(
        gradients, node, 0,
        mst_apply(node->graph, MST_OPERATOR_slice_gradient, &dy, 1,
                  (mst_graph_value[]){node->values[START], MST_NO_VALUE, node->values[STEP], {.list = dims, .count = X->type.ndim}}));
}

const mst_operator mst_operator_slice = {
    MST_ANY_OPERATOR(slice, "x[start:stop:step] along each axis, as in Python; MUSTER_NONE leaves a bound out"),
    .operands = {"x"},
    .attributes = {{"start", MST_VALUE_LIST}, {"stop", MST_VALUE_LIST}, {"step", MST_VALUE_LIST}},
    .infer = infer_slice,
    .distribute = distribute_slice,
    .view = view_slice,
    .gradient = gradient_slice};

static muster_expr *expand_flip(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    int64_t start[MUSTER_MAX_DIMS], stop[MUSTER_MAX_DIMS], step[MUSTER_MAX_DIMS];
    uint32_t mask;
    if (mst_draft_axes(draft, 0, &mask) != MUSTER_OK) return draft->graph->error;
    for (int32_t d = 0; d < x->type.ndim; d++) {
        start[d] = stop[d] = MUSTER_NONE;
        step[d] = mask >> d & 1 ? -1 : 1;
    }
    const int32_t ndim = x->type.ndim;
    return mst_apply(draft->graph, MST_OPERATOR_slice, &x, 1,
                     (mst_graph_value[]){{.list = start, .count = ndim}, {.list = stop, .count = ndim}, {.list = step, .count = ndim}});
}

const mst_operator mst_operator_flip = {MST_ANY_OPERATOR(flip, "x in reverse along the axes, or along all"), .operands = {"x"},
                                        .attributes = {{"axis", MST_VALUE_LIST}}, .expand = expand_flip, .infer = mst_draft_composite};

static muster_status infer_slice_gradient(mst_draft *draft) {
    mst_type_of_shape(&draft->types[0], &draft->inputs[0]->type, &draft->values[SHAPE]);
    return MUSTER_OK;
}

static muster_status run_slice_gradient(muster_worker *worker, const mst_step_run *run) {
    muster_tensor part = *run->in[0];
    const muster_tensor *base = run->out[0];
    MUSTER_TRY(muster_fill(worker, 0, *base));
    part.data = base->data;
    slice_view(run->node, base, &part);
    return muster_tensor_count(part) ? muster_copy(worker, *run->in[0], part) : MUSTER_OK;
}

static void gradient_slice_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    int64_t stop[MUSTER_MAX_DIMS];
    mst_graph *graph = node->graph;
    for (int32_t d = 0; d < X->type.ndim; d++) {
        const int64_t start = node->values[START].list[d], step = node->values[STEP].list[d];
        const int64_t count = mst_dim_constant(graph, X->type.dims[d]), end = count < 0 ? 0 : start + step * count;
        stop[d] = count < 0 || end < 0 ? MUSTER_NONE : end;
    }
    mst_gradient_add(gradients, node, 0,
                     mst_apply(graph, MST_OPERATOR_slice, &dy, 1,
                               (mst_graph_value[]){node->values[START], {.list = stop, .count = X->type.ndim}, node->values[STEP]}));
}

const mst_operator mst_operator_slice_gradient = {
    MST_ANY_OPERATOR(slice_gradient, "x at the places of a slice of zeros: the gradient of slice"),
    .operands = {"x"},
    .attributes = {{"start", MST_VALUE_LIST}, {"stop", MST_VALUE_LIST}, {"step", MST_VALUE_LIST}, {"shape", MST_VALUE_DIMS}},
    .flags = MST_OPERATOR_HIDDEN,
    .infer = infer_slice_gradient,
    .distribute = distribute_slice,
    .run = run_slice_gradient,
    .gradient = gradient_slice_gradient};

/* ---- pad ---- */

/* One entry is for all axes, as in NumPy; else there is one for each. */
static bool pad_fits(mst_draft *draft, int32_t attribute) {
    char text[MST_NODE_TEXT];
    const int32_t count = draft->values[attribute].count, ndim = draft->inputs[0]->type.ndim;
    if (count <= 1 || count == ndim) return true;
    (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, -1, "%s: expected one entry for all axes, or one for each axis of %s, received %d",
                           draft->op->attributes[attribute].name, mst_node_text(draft->inputs[0], "x", text), (int)count);
    return false;
}

static int64_t pad_entry(const mst_graph_value *list, int32_t d) { return list->count == 1 ? list->list[0] : entry(list, d, 0); }

static muster_expr *expand_pad(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    const mst_graph_value *first = &draft->values[0], *second = draft->values[1].count ? &draft->values[1] : first;
    int64_t start[MUSTER_MAX_DIMS], step[MUSTER_MAX_DIMS], dims[MUSTER_MAX_DIMS];
    if (!pad_fits(draft, 0) || !pad_fits(draft, 1)) return draft->graph->error;
    for (int32_t d = 0; d < x->type.ndim; d++) {
        const int64_t before = pad_entry(first, d), after = pad_entry(second, d);
        const int64_t n = mst_dim_constant(draft->graph, x->type.dims[d]);
        int64_t sum;
        if (before < 0 || after < 0 || __builtin_add_overflow(before, after, &sum) || (n >= 0 && __builtin_add_overflow(sum, n, &sum)) ||
            (n < 0 && sum > 0)) {
            const bool negative = before < 0 || after < 0;
            (void)mst_draft_refuse(draft,
                                   negative ? MUSTER_INVALID_ARGUMENT
                                   : n < 0  ? MUSTER_UNSUPPORTED
                                            : MUSTER_OVERFLOW,
                                   -1, "before: expected %s in axis %d, received before = %lld, after = %lld",
                                   negative ? "sizes from 0 on"
                                   : n < 0  ? "no padding of a size that only a call knows"
                                            : "a sum of sizes that 64 bits hold",
                                   (int)d, (long long)before, (long long)after);
            return draft->graph->error;
        }
        start[d] = before;
        step[d] = 1;
        dims[d] = n < 0 ? x->type.dims[d] : mst_dim_number(draft->graph, sum);
        if (dims[d] == MST_DIM_NONE) return draft->graph->error;
    }
    const int32_t ndim = x->type.ndim;
    return mst_apply(
        draft->graph, MST_OPERATOR_slice_gradient, &x, 1,
        (mst_graph_value[]){{.list = start, .count = ndim}, MST_NO_VALUE, {.list = step, .count = ndim}, {.list = dims, .count = ndim}});
}

const mst_operator mst_operator_pad = {
    MST_ANY_OPERATOR(pad, "x with zeros before and after its elements; one entry is for all axes; without `after` as many as before"),
    .operands = {"x"}, .attributes = {{"before", MST_VALUE_LIST}, {"after", MST_VALUE_LIST}}, .expand = expand_pad,
    .infer = mst_draft_composite};

/* ---- concatenate ---- */

/* The rows of a call lie on several workers: what is put behind them would be behind the rows of
 * each. */
static muster_status refuse_rows(mst_draft *draft, int32_t axis) {
    char text[MST_NODE_TEXT];
    for (int32_t i = 0; draft->count > 1 && i < draft->count; i++) {
        const mst_type *x = &draft->inputs[i]->type;
        if (axis < x->ndim && draft->graph->dims[x->dims[axis]].powers[MST_SIZE_ROWS])
            return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, i,
                                    "expected operands without rows in axis %d, since the rows of a call are spread over its workers, "
                                    "received %s",
                                    (int)axis, mst_type_text(draft->graph, x, text));
    }
    return MUSTER_OK;
}

static muster_status infer_concatenate(mst_draft *draft) {
    muster_dtype dtype;
    int32_t axis;
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    MUSTER_TRY(mst_draft_axis(draft, 0, &axis));
    MUSTER_TRY(refuse_rows(draft, axis));
    draft->values[0].integer = axis;
    mst_type *type = &draft->types[0];
    *type = draft->inputs[0]->type;
    for (int32_t i = 1; i < draft->count; i++) {
        const mst_type *x = &draft->inputs[i]->type;
        bool fits = x->ndim == type->ndim;
        for (int32_t d = 0; fits && d < type->ndim; d++) fits = d == axis || x->dims[d] == type->dims[d];
        const mst_dim sum = fits ? mst_dim_add(draft->graph, type->dims[axis], x->dims[axis]) : MST_DIM_NONE;
        if (sum == MST_DIM_NONE && draft->graph->latest == MUSTER_OUT_OF_MEMORY) return draft->graph->latest;
        if (sum == MST_DIM_NONE) {
            char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
            return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, i,
                                    "expected the shape of %s but for axis %d, whose sizes can be added, received %s",
                                    mst_node_text(draft->inputs[0], "x", expected), (int)axis, mst_type_text(draft->graph, x, received));
        }
        type->dims[axis] = sum;
    }
    return MUSTER_OK;
}

static muster_status run_concatenate(muster_worker *worker, const mst_step_run *run) {
    const int32_t axis = (int32_t)run->node->values[0].integer;
    int64_t at = 0;
    for (int32_t i = 0; i < run->node->input_count; i++) {
        const int64_t end = at + run->in[i]->shape[axis];
        if (muster_tensor_count(*run->in[i]))
            MUSTER_TRY(muster_copy(worker, *run->in[i], muster_tensor_slice_axis(*run->out[0], axis, at, end)));
        at = end;
    }
    return MUSTER_OK;
}

static void gradient_concatenate(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const int32_t axis = (int32_t)node->values[0].integer, ndim = node->type.ndim;
    int64_t start[MUSTER_MAX_DIMS], stop[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < ndim; d++) start[d] = stop[d] = MUSTER_NONE;
    start[axis] = 0;
    for (int32_t i = 0; i < node->input_count; i++) {
        const int64_t n = mst_dim_constant(node->graph, node->inputs[i]->type.dims[axis]);
        if (n < 0) {
            mst_gradient_refuse(gradients, node, "a slice of a size that only a call knows has no expression");
            return;
        }
        stop[axis] = start[axis] + n;
        mst_gradient_add(gradients, node, i,
                         mst_apply(node->graph, MST_OPERATOR_slice, &dy, 1,
                                   (mst_graph_value[]){{.list = start, .count = ndim}, {.list = stop, .count = ndim}, MST_NO_VALUE}));
        start[axis] = stop[axis];
    }
}

static bool distribute_concatenate(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return way == 0 && mst_distribute_alike(node, result, 1u << node->values[0].integer, operands);
}

const mst_operator mst_operator_concatenate = {
    MST_ANY_OPERATOR(concatenate, "the operands, one behind the other along the axis, which holds no rows"),
    .operands = {"x", "..."},
    .attributes = {{"axis", MST_VALUE_INTEGER}},
    .infer = infer_concatenate,
    .distribute = distribute_concatenate,
    .run = run_concatenate,
    .gradient = gradient_concatenate};

static muster_expr *expand_stack(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    muster_expr **parts = mst_arena_take(&graph->arena, (size_t)draft->count * sizeof *parts);
    if (!parts) {
        (void)mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
        return graph->error;
    }
    for (int32_t i = 0; i < draft->count; i++)
        parts[i] = mst_apply(graph, MST_OPERATOR_expand_dims, &draft->inputs[i], 1, (mst_graph_value[]){draft->values[0]});
    return mst_apply(graph, MST_OPERATOR_concatenate, parts, draft->count, (mst_graph_value[]){draft->values[0]});
}

const mst_operator mst_operator_stack = {MST_ANY_OPERATOR(stack, "the operands along a new axis"), .operands = {"x", "..."},
                                         .attributes = {{"axis", MST_VALUE_INTEGER}}, .expand = expand_stack, .infer = mst_draft_composite};
