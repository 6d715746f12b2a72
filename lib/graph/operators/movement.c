/* Operations that move elements: views where the layout of the operand allows one. */
#include "operators_private.h"

#include <string.h>

static muster_status infer_nothing(mst_draft *draft) { return mst_draft_refuse(draft, MUSTER_INTERNAL, -1, "a composite operation"); }

static void set_dims(mst_type *type, const mst_type *like, const mst_graph_value *shape) {
    type->dtype = like->dtype;
    type->ndim = shape->count;
    for (int32_t d = 0; d < shape->count; d++) type->dims[d] = (mst_dim)shape->list[d];
}

/* ---- reshape ---- */

static mst_dim product_of(mst_graph *graph, const mst_type *type) {
    mst_dim product = MST_DIM_ONE;
    for (int32_t d = 0; d < type->ndim; d++) product = mst_dim_multiply(graph, product, type->dims[d]);
    return product;
}

static muster_status refuse_reshape(mst_draft *draft, const mst_type *wanted) {
    char x[MST_NODE_TEXT], shape[MST_NODE_TEXT];
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, -1, "shape: expected as many elements as %s has, received %s",
                            mst_node_text(draft->inputs[0], "x", x), mst_type_text(draft->graph, wanted, shape));
}

static muster_status infer_reshape(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    const mst_graph_value *shape = &draft->values[0];
    mst_type *type = &draft->types[0];
    int32_t inferred = -1;
    int64_t *list = mst_arena_take(&graph->arena, MUSTER_MAX_DIMS * sizeof *list);
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    set_dims(type, &draft->inputs[0]->type, shape);
    for (int32_t d = 0; d < type->ndim; d++) {
        if (type->dims[d] != MST_DIM_NONE) continue;
        if (inferred >= 0) return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "shape: expected one size to infer, received two");
        inferred = d;
        type->dims[d] = MST_DIM_ONE;
    }
    const mst_dim total = product_of(graph, &draft->inputs[0]->type), known = product_of(graph, type);
    if (total == MST_DIM_NONE || known == MST_DIM_NONE) return graph->status;
    if (inferred >= 0) {
        type->dims[inferred] = mst_dim_divide(graph, total, known);
        if (type->dims[inferred] == MST_DIM_NONE) {
            type->dims[inferred] = MST_DIM_ONE;
            return refuse_reshape(draft, type);
        }
    } else if (total != known) {
        return refuse_reshape(draft, type);
    }
    for (int32_t d = 0; d < type->ndim; d++) list[d] = type->dims[d];
    draft->values[0].list = list;
    return MUSTER_OK;
}

static muster_expr *fold_reshape(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    const mst_graph_value *shape = &draft->values[0];
    bool same = shape->count == x->type.ndim;
    for (int32_t d = 0; same && d < shape->count; d++) same = shape->list[d] == x->type.dims[d];
    if (same) return x;
    /* a reshape of a reshape */
    if (!mst_node_is(x, MST_OPERATOR_reshape)) return NULL;
    return mst_apply(draft->graph, MST_OPERATOR_reshape, x->inputs, 1, draft->values);
}

/* Goes through both shapes in groups of axes with equal products. Within a group the elements of x
 * must lie one behind the other. */
static bool view_reshape(const mst_step_run *run, muster_tensor *result) {
    const muster_tensor *x = run->in[0];
    int64_t shape[MUSTER_MAX_DIMS], strides[MUSTER_MAX_DIMS];
    int32_t count = 0, from = 0, to = 0;
    if (muster_tensor_count(*x) == 0) return false;
    for (int32_t d = 0; d < x->ndim; d++) {
        if (x->shape[d] == 1) continue;
        shape[count] = x->shape[d];
        strides[count++] = x->strides[d];
    }
    while (from < count) {
        int64_t given = shape[from], wanted = 1;
        int32_t begin = from, first = to;
        while (wanted < given || wanted % given != 0 || given % wanted != 0) {
            if (wanted <= given && to < result->ndim && wanted != given)
                wanted *= result->shape[to++];
            else if (from + 1 < count)
                given *= shape[++from];
            else
                return false;
        }
        for (int32_t d = begin; d < from; d++)
            if (strides[d] != shape[d + 1] * strides[d + 1]) return false;
        int64_t stride = strides[from];
        for (int32_t d = to - 1; d >= first; d--) {
            result->strides[d] = stride;
            stride *= result->shape[d];
        }
        from++;
    }
    for (; to < result->ndim; to++) result->strides[to] = 1; /* axes of size 1 at the end */
    return true;
}

static muster_status run_reshape(muster_worker *worker, const mst_step_run *run) {
    return muster_copy(worker, *run->in[0], muster_tensor_reshape(*run->out[0], run->in[0]->ndim, run->in[0]->shape));
}

#define X (node->inputs[0])
static void gradient_reshape(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_reshape_to(dy, X->type.ndim, X->type.dims));
}

const mst_operator mst_operator_reshape = {MST_ANY_OPERATOR(reshape, "the elements of x in another shape"),
                                           .operands = {"x"},
                                           .attributes = {{"shape", MST_VALUE_DIMS, .required = true}},
                                           .expand = fold_reshape,
                                           .infer = infer_reshape,
                                           .view = view_reshape,
                                           .run = run_reshape,
                                           .gradient = gradient_reshape};

/* ---- axes of size 1 ---- */

static muster_expr *expand_expand_dims(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    const int32_t ndim = x->type.ndim + 1;
    const int64_t given = draft->values[0].integer, axis = given < 0 ? given + ndim : given;
    mst_dim dims[MUSTER_MAX_DIMS + 1];
    if (axis < 0 || axis >= ndim || ndim > MUSTER_MAX_DIMS) {
        char text[MST_NODE_TEXT];
        (void)mst_draft_refuse(draft, ndim > MUSTER_MAX_DIMS ? MUSTER_UNSUPPORTED : MUSTER_OUT_OF_RANGE, -1,
                               "axis: expected a place for one of at most %d axes beside those of %s, received %lld", MUSTER_MAX_DIMS,
                               mst_node_text(x, "x", text), (long long)given);
        return draft->graph->error;
    }
    for (int32_t d = 0; d < ndim; d++) dims[d] = d == axis ? MST_DIM_ONE : x->type.dims[d < axis ? d : d - 1];
    return mst_reshape_to(x, ndim, dims);
}

const mst_operator mst_operator_expand_dims = {MST_ANY_OPERATOR(expand_dims, "x with a new axis of size 1"), .operands = {"x"},
                                               .attributes = {{"axis", MST_VALUE_INTEGER, .required = true}}, .expand = expand_expand_dims,
                                               .infer = infer_nothing};

static muster_expr *expand_squeeze(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    uint32_t mask = 0;
    const bool all = draft->values[0].count == 0;
    mst_dim dims[MUSTER_MAX_DIMS];
    int32_t ndim = 0;
    if (mst_draft_axes(draft, 0, &mask) != MUSTER_OK) return draft->graph->error;
    for (int32_t d = 0; d < x->type.ndim; d++) {
        const bool one = x->type.dims[d] == MST_DIM_ONE;
        if (!(mask >> d & 1) || (all && !one)) {
            dims[ndim++] = x->type.dims[d];
            continue;
        }
        if (one) continue;
        char text[MST_NODE_TEXT];
        (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected size 1 in axis %d, received %s", (int)d,
                               mst_type_text(draft->graph, &x->type, text));
        return draft->graph->error;
    }
    return mst_reshape_to(x, ndim, dims);
}

const mst_operator mst_operator_squeeze = {MST_ANY_OPERATOR(squeeze, "x without the axes, whose size is 1, or without all axes of size 1"),
                                           .operands = {"x"}, .attributes = {{"axis", MST_VALUE_LIST}}, .expand = expand_squeeze,
                                           .infer = infer_nothing};

/* ---- broadcast_to ---- */

static muster_status infer_broadcast_to(mst_draft *draft) {
    const mst_type *x = &draft->inputs[0]->type;
    mst_type *type = &draft->types[0];
    set_dims(type, x, &draft->values[0]);
    bool fits = x->ndim <= type->ndim;
    for (int32_t d = 0; d < type->ndim; d++) {
        const int32_t axis = d - (type->ndim - x->ndim);
        if (type->dims[d] == MST_DIM_NONE) fits = false;
        if (axis >= 0 && x->dims[axis] != MST_DIM_ONE && x->dims[axis] != type->dims[d]) fits = false;
    }
    if (fits) return MUSTER_OK;
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    for (int32_t d = 0; d < type->ndim; d++)
        if (type->dims[d] == MST_DIM_NONE)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "shape: entry %d: expected a size, received MUSTER_INFER", (int)d);
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected a shape that broadcasts to %s, received %s",
                            mst_type_text(draft->graph, type, expected), mst_type_text(draft->graph, x, received));
}

static bool view_broadcast_to(const mst_step_run *run, muster_tensor *result) {
    const muster_tensor *x = run->in[0];
    for (int32_t d = 0; d < result->ndim; d++) {
        const int32_t axis = d - (result->ndim - x->ndim);
        result->strides[d] = axis >= 0 && x->shape[axis] == result->shape[d] ? x->strides[axis] : 0;
    }
    return true;
}

static void gradient_broadcast_to(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, dy); /* which sums it to the shape of x */
}

const mst_operator mst_operator_broadcast_to = {
    MST_ANY_OPERATOR(broadcast_to, "x repeated along its axes of size 1 and along new first axes"),
    .operands = {"x"},
    .attributes = {{"shape", MST_VALUE_DIMS, .required = true}},
    .infer = infer_broadcast_to,
    .view = view_broadcast_to,
    .gradient = gradient_broadcast_to};

/* ---- transpose ---- */

static muster_status infer_transpose(mst_draft *draft) {
    const mst_type *x = &draft->inputs[0]->type;
    mst_graph_value *axes = &draft->values[0];
    int64_t *list = mst_arena_take(&draft->graph->arena, MUSTER_MAX_DIMS * sizeof *list);
    uint32_t seen = 0;
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    for (int32_t d = 0; d < x->ndim; d++) {
        const int64_t given = axes->count ? (d < axes->count ? axes->list[d] : -100) : x->ndim - 1 - d;
        list[d] = given < 0 ? given + x->ndim : given;
        if (axes->count == x->ndim || !axes->count)
            if (list[d] >= 0 && list[d] < x->ndim) seen |= 1u << list[d];
    }
    if (seen != (1u << x->ndim) - 1 || (axes->count && axes->count != x->ndim)) {
        char text[MST_NODE_TEXT];
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "axes: expected each axis of %s once, received %d axes",
                                mst_node_text(draft->inputs[0], "x", text), (int)axes->count);
    }
    *axes = (mst_graph_value){.list = list, .count = x->ndim};
    draft->types[0] = *x;
    for (int32_t d = 0; d < x->ndim; d++) draft->types[0].dims[d] = x->dims[list[d]];
    return MUSTER_OK;
}

static bool view_transpose(const mst_step_run *run, muster_tensor *result) {
    for (int32_t d = 0; d < result->ndim; d++) result->strides[d] = run->in[0]->strides[run->node->values[0].list[d]];
    return true;
}

static void gradient_transpose(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_axes_back(dy, node->values[0].list));
}

const mst_operator mst_operator_transpose = {MST_ANY_OPERATOR(transpose, "x with its axes in another order, or in reverse"),
                                             .operands = {"x"},
                                             .attributes = {{"axes", MST_VALUE_LIST}},
                                             .infer = infer_transpose,
                                             .view = view_transpose,
                                             .gradient = gradient_transpose};

static muster_expr *expand_swapaxes(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    int64_t axes[MUSTER_MAX_DIMS];
    int32_t first, second;
    if (mst_draft_axis(draft, 0, &first) != MUSTER_OK || mst_draft_axis(draft, 1, &second) != MUSTER_OK) return draft->graph->error;
    for (int32_t d = 0; d < x->type.ndim; d++) axes[d] = d == first ? second : d == second ? first : d;
    return mst_transpose_to(x, axes);
}

const mst_operator mst_operator_swapaxes = {
    MST_ANY_OPERATOR(swapaxes, "x with two axes exchanged"), .operands = {"x"},
    .attributes = {{"axis1", MST_VALUE_INTEGER, .required = true}, {"axis2", MST_VALUE_INTEGER, .required = true}},
    .expand = expand_swapaxes, .infer = infer_nothing};

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
                                    "start: expected all of axis %d, whose size only a call knows, received a part (%s)", (int)d,
                                    mst_type_text(draft->graph, &draft->inputs[0]->type, text));
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
                                        .attributes = {{"axis", MST_VALUE_LIST}}, .expand = expand_flip, .infer = infer_nothing};

static muster_status infer_slice_gradient(mst_draft *draft) {
    set_dims(&draft->types[0], &draft->inputs[0]->type, &draft->values[SHAPE]);
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
    .run = run_slice_gradient,
    .gradient = gradient_slice_gradient};

/* ---- pad ---- */

static muster_expr *expand_pad(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    int64_t start[MUSTER_MAX_DIMS], step[MUSTER_MAX_DIMS], dims[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < x->type.ndim; d++) {
        const int64_t before = entry(&draft->values[0], d, 0), after = entry(&draft->values[1], d, 0);
        const int64_t n = mst_dim_constant(draft->graph, x->type.dims[d]);
        int64_t sum;
        if (before < 0 || after < 0 || __builtin_add_overflow(before, after, &sum) || (n >= 0 && __builtin_add_overflow(sum, n, &sum)) ||
            (n < 0 && sum > 0)) {
            (void)mst_draft_refuse(draft, n < 0 ? MUSTER_UNSUPPORTED : MUSTER_INVALID_ARGUMENT, -1,
                                   "before: expected %s in axis %d, received before = %lld, after = %lld",
                                   n < 0 ? "no padding of a size that only a call knows" : "sizes from 0 on", (int)d, (long long)before,
                                   (long long)after);
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

const mst_operator mst_operator_pad = {MST_ANY_OPERATOR(pad, "x with zeros before and after its elements along each axis"),
                                       .operands = {"x"}, .attributes = {{"before", MST_VALUE_LIST}, {"after", MST_VALUE_LIST}},
                                       .expand = expand_pad, .infer = infer_nothing};

/* ---- concatenate ---- */

static muster_status infer_concatenate(mst_draft *draft) {
    muster_dtype dtype;
    int32_t axis;
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    MUSTER_TRY(mst_draft_axis(draft, 0, &axis));
    draft->values[0].integer = axis;
    mst_type *type = &draft->types[0];
    *type = draft->inputs[0]->type;
    for (int32_t i = 1; i < draft->count; i++) {
        const mst_type *x = &draft->inputs[i]->type;
        bool fits = x->ndim == type->ndim;
        for (int32_t d = 0; fits && d < type->ndim; d++) fits = d == axis || x->dims[d] == type->dims[d];
        const mst_dim sum = fits ? mst_dim_add(draft->graph, type->dims[axis], x->dims[axis]) : MST_DIM_NONE;
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

const mst_operator mst_operator_concatenate = {MST_ANY_OPERATOR(concatenate, "the operands, one behind the other along the axis"),
                                               .operands = {"x", "..."},
                                               .attributes = {{"axis", MST_VALUE_INTEGER}},
                                               .infer = infer_concatenate,
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
                                         .attributes = {{"axis", MST_VALUE_INTEGER}}, .expand = expand_stack, .infer = infer_nothing};
