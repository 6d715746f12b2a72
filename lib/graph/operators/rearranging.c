/* Operations that rearrange or repeat elements, made of reshape, transpose, slice and
 * broadcast_to. */
#include "composite_private.h"

static muster_expr *refuse(mst_draft *draft, muster_status status, const char *attribute, const char *expected, int64_t received) {
    (void)mst_draft_refuse(draft, status, -1, "%s: expected %s, received %lld", attribute, expected, (long long)received);
    return draft->graph->error;
}

static bool dim_product(mst_graph *graph, const mst_dim *dims, int32_t count, mst_dim *product) {
    *product = MST_DIM_ONE;
    for (int32_t d = 0; d < count && *product != MST_DIM_NONE; d++) *product = mst_dim_multiply(graph, *product, dims[d]);
    return *product != MST_DIM_NONE;
}

/* ---- ravel, outer ---- */

static muster_expr *raveled(muster_expr *x) {
    mst_dim total;
    if (mst_node_is_error(x) || !dim_product(x->graph, x->type.dims, x->type.ndim, &total)) return x->graph->error;
    return mst_reshape_to(x, 1, &total);
}

static muster_expr *expand_ravel(mst_draft *draft) {
    return mst_draft_dtype(draft, 0, MST_ALL_DTYPES) == MUSTER_OK ? raveled(X) : draft->graph->error;
}

const mst_operator mst_operator_ravel = {MST_ANY_OPERATOR(ravel, "the elements of x as a vector"), .operands = {"x"},
                                         .expand = expand_ravel, .infer = mst_draft_composite};

static muster_expr *expand_outer(mst_draft *draft) {
    muster_dtype dtype;
    if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK) return draft->graph->error;
    muster_expr *a = raveled(X), *b = raveled(Y);
    if (mst_node_is_error(a) || mst_node_is_error(b)) return draft->graph->error;
    return E(multiply, mst_reshape_to(a, 2, (mst_dim[]){a->type.dims[0], MST_DIM_ONE}), b);
}

const mst_operator mst_operator_outer = {MST_ANY_OPERATOR(outer, "a[i] b[j] for all i and j, of the elements of a and b as vectors"),
                                         .operands = {"a", "b"}, .dtypes = MST_NUMBER_DTYPES, .expand = expand_outer,
                                         .infer = mst_draft_composite};

/* ---- moveaxis ---- */

enum { SOURCE, DESTINATION };

/* The axes of a list, from 0 on; each once. */
static bool read_axes(mst_draft *draft, int32_t attribute, int64_t axes[MUSTER_MAX_DIMS]) {
    const mst_graph_value *list = &draft->values[attribute];
    const char *name = draft->op->attributes[attribute].name;
    const int32_t ndim = X->type.ndim;
    uint32_t seen = 0;
    for (int32_t i = 0; i < list->count; i++) {
        const int64_t axis = list->list[i] < 0 ? list->list[i] + ndim : list->list[i];
        if (axis < 0 || axis >= ndim) {
            (void)refuse(draft, MUSTER_OUT_OF_RANGE, name, "axes of x", list->list[i]);
            return false;
        }
        if (seen >> axis & 1) {
            (void)refuse(draft, MUSTER_INVALID_ARGUMENT, name, "each axis once", list->list[i]);
            return false;
        }
        seen |= 1u << axis;
        axes[i] = axis;
    }
    return true;
}

static muster_expr *expand_moveaxis(mst_draft *draft) {
    int64_t source[MUSTER_MAX_DIMS], destination[MUSTER_MAX_DIMS], order[MUSTER_MAX_DIMS];
    const int32_t ndim = X->type.ndim, count = draft->values[SOURCE].count;
    uint32_t moved = 0, taken = 0;
    if (count != draft->values[DESTINATION].count)
        return refuse(draft, MUSTER_INVALID_ARGUMENT, "destination", "as many axes as source has", draft->values[DESTINATION].count);
    if (!read_axes(draft, SOURCE, source) || !read_axes(draft, DESTINATION, destination)) return draft->graph->error;
    for (int32_t i = 0; i < count; i++) {
        order[destination[i]] = source[i];
        moved |= 1u << source[i];
        taken |= 1u << destination[i];
    }
    /* the others keep their order in the places that are left */
    for (int32_t place = 0, axis = 0; place < ndim; place++) {
        if (taken >> place & 1) continue;
        while (moved >> axis & 1) axis++;
        order[place] = axis++;
    }
    return mst_transpose_to(X, order);
}

const mst_operator mst_operator_moveaxis = {
    MST_ANY_OPERATOR(moveaxis, "x with the axes `source` at the places `destination`; the others keep their order"), .operands = {"x"},
    .attributes = {{"source", MST_VALUE_LIST, .required = true}, {"destination", MST_VALUE_LIST, .required = true}},
    .expand = expand_moveaxis, .infer = mst_draft_composite};

/* ---- split ---- */

enum { SECTIONS, INDEX, SPLIT_AXIS };

static muster_expr *expand_split(mst_draft *draft) {
    const int64_t sections = draft->values[SECTIONS].integer, index = draft->values[INDEX].integer;
    int64_t start[MUSTER_MAX_DIMS], stop[MUSTER_MAX_DIMS];
    int32_t axis;
    if (mst_draft_axis(draft, SPLIT_AXIS, &axis) != MUSTER_OK) return draft->graph->error;
    const int64_t n = mst_dim_constant(draft->graph, X->type.dims[axis]);
    if (n < 0)
        return refuse(draft, MUSTER_UNSUPPORTED, "axis", "one whose size does not depend on the call, since parts of others have no size",
                      axis);
    if (sections < 1 || n % sections != 0)
        return refuse(draft, MUSTER_INVALID_ARGUMENT, "sections", "a number that divides the size of the axis", sections);
    if (index < 0 || index >= sections) return refuse(draft, MUSTER_OUT_OF_RANGE, "index", "one of the sections, from 0 on", index);
    for (int32_t d = 0; d < X->type.ndim; d++) start[d] = stop[d] = MUSTER_NONE;
    start[axis] = n / sections * index;
    stop[axis] = n / sections * (index + 1);
    return mst_apply(draft->graph, MST_OPERATOR_slice, &X, 1,
                     (mst_graph_value[]){{.list = start, .count = X->type.ndim}, {.list = stop, .count = X->type.ndim}, MST_NO_VALUE});
}

const mst_operator mst_operator_split = {MST_ANY_OPERATOR(split, "part `index` of the equal sections of x along the axis"),
                                         .operands = {"x"},
                                         .attributes = {{"sections", MST_VALUE_INTEGER, .required = true},
                                                        {"index", MST_VALUE_INTEGER, .required = true},
                                                        {"axis", MST_VALUE_INTEGER}},
                                         .expand = expand_split, .infer = mst_draft_composite};

/* ---- repetitions ---- */

/* x seen as (before, after), each row of it `times` times. */
static muster_expr *repeat_rows(muster_expr *x, mst_dim before, mst_dim after, int64_t times, const mst_type *result) {
    const mst_dim many = mst_dim_number(x->graph, times);
    if (many == MST_DIM_NONE) return x->graph->error;
    muster_expr *rows = mst_reshape_to(x, 3, (mst_dim[]){before, MST_DIM_ONE, after});
    rows = mst_broadcast_to(rows, &(mst_type){.dtype = x->type.dtype, .ndim = 3, .dims = {before, many, after}});
    return mst_node_is_error(rows) ? rows : mst_reshape_to(rows, result->ndim, result->dims);
}

static muster_expr *repeat_axis(muster_expr *x, int32_t axis, int64_t times, bool elements) {
    mst_graph *graph = x->graph;
    mst_type result;
    mst_dim before, after;
    if (mst_node_is_error(x) || times == 1) return x;
    result = x->type;
    const int32_t middle = axis + (elements ? 1 : 0); /* np.repeat repeats each part of the axis, np.tile all of it */
    result.dims[axis] = mst_dim_multiply(graph, result.dims[axis], mst_dim_number(graph, times));
    if (result.dims[axis] == MST_DIM_NONE || !dim_product(graph, x->type.dims, middle, &before) ||
        !dim_product(graph, x->type.dims + middle, x->type.ndim - middle, &after))
        return graph->error;
    return repeat_rows(x, before, after, times, &result);
}

static muster_expr *expand_repeat(mst_draft *draft) {
    int32_t axis = 0;
    const int64_t times = draft->values[0].integer;
    muster_expr *x = X;
    if (mst_draft_dtype(draft, 0, MST_ALL_DTYPES) != MUSTER_OK) return draft->graph->error;
    if (times < 0) return refuse(draft, MUSTER_INVALID_ARGUMENT, "repeats", "0 or more", times);
    if (draft->values[1].integer == MUSTER_NONE)
        x = raveled(x);
    else if (mst_draft_axis(draft, 1, &axis) != MUSTER_OK)
        return draft->graph->error;
    return repeat_axis(x, axis, times, true);
}

const mst_operator mst_operator_repeat = {
    MST_ANY_OPERATOR(repeat, "each part of x along the axis, or each element of the vector (MUSTER_NONE), so many times in a row"),
    .operands = {"x"},
    .attributes = {{"repeats", MST_VALUE_INTEGER, .required = true}, {"axis", MST_VALUE_INTEGER, .number = (double)MUSTER_NONE}},
    .expand = expand_repeat, .infer = mst_draft_composite};

static muster_expr *expand_tile(mst_draft *draft) {
    const mst_graph_value *reps = &draft->values[0];
    muster_expr *x = X;
    mst_dim dims[MUSTER_MAX_DIMS];
    const int32_t ndim = reps->count > x->type.ndim ? reps->count : x->type.ndim, added = ndim - x->type.ndim;
    if (mst_draft_dtype(draft, 0, MST_ALL_DTYPES) != MUSTER_OK) return draft->graph->error;
    if (ndim > MUSTER_MAX_DIMS) return refuse(draft, MUSTER_UNSUPPORTED, "reps", "at most 8 entries", reps->count);
    for (int32_t i = 0; i < reps->count; i++)
        if (reps->list[i] < 0) return refuse(draft, MUSTER_INVALID_ARGUMENT, "reps", "numbers from 0 on", reps->list[i]);
    for (int32_t d = 0; d < ndim; d++) dims[d] = d < added ? MST_DIM_ONE : x->type.dims[d - added];
    x = mst_reshape_to(x, ndim, dims);
    for (int32_t i = 0; i < reps->count; i++) x = repeat_axis(x, ndim - reps->count + i, reps->list[i], false);
    return x;
}

const mst_operator mst_operator_tile = {MST_ANY_OPERATOR(tile, "x so many times along each axis; the last entry is for the last axis"),
                                        .operands = {"x"}, .attributes = {{"reps", MST_VALUE_LIST, .required = true}},
                                        .expand = expand_tile, .infer = mst_draft_composite};

/* ---- diagonals ---- */

enum { OFFSET, AXIS1, AXIS2, DTYPE };

/* Of matrices (n, m) that lie one element behind the other, the diagonal is every (m + 1)th
 * element. */
static muster_expr *diagonal_of(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    int32_t first = 0, second = 1;
    int64_t axes[MUSTER_MAX_DIMS], start[MUSTER_MAX_DIMS], stop[MUSTER_MAX_DIMS], step[MUSTER_MAX_DIMS];
    const int64_t offset = draft->values[OFFSET].integer;
    const int32_t ndim = X->type.ndim;
    char text[MST_NODE_TEXT];
    if (ndim < 2) {
        (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected 2 dimensions or more, received %s",
                               mst_type_text(graph, &X->type, text));
        return graph->error;
    }
    if ((draft->values[AXIS1].integer != 0 || draft->values[AXIS2].integer != 0) &&
        (mst_draft_axis(draft, AXIS1, &first) != MUSTER_OK || mst_draft_axis(draft, AXIS2, &second) != MUSTER_OK))
        return graph->error;
    if (first == second) return refuse(draft, MUSTER_INVALID_ARGUMENT, "axis2", "another axis than axis1", second);
    const int64_t n = mst_dim_constant(graph, X->type.dims[first]), m = mst_dim_constant(graph, X->type.dims[second]);
    if (n < 0 || m < 0)
        return refuse(draft, MUSTER_UNSUPPORTED, "axis1", "two axes whose sizes do not depend on the call, since slices need numbers",
                      n < 0 ? first : second);
    int32_t count = 0;
    for (int32_t d = 0; d < ndim; d++)
        if (d != first && d != second) axes[count++] = d;
    axes[count] = first;
    axes[count + 1] = second;
    muster_expr *last = mst_transpose_to(X, axes);
    if (mst_node_is_error(last)) return last;
    mst_dim dims[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < count; d++) dims[d] = last->type.dims[d];
    dims[count] = mst_dim_multiply(graph, last->type.dims[count], last->type.dims[count + 1]);
    if (dims[count] == MST_DIM_NONE) return graph->error;
    last = mst_reshape_to(last, count + 1, dims);
    const bool outside = offset >= m || offset <= -n;
    const int64_t elements = outside ? 0 : offset >= 0 ? (n < m - offset ? n : m - offset) : (n + offset < m ? n + offset : m);
    for (int32_t d = 0; d <= count; d++) start[d] = stop[d] = MUSTER_NONE, step[d] = 1;
    start[count] = elements == 0 ? 0 : offset >= 0 ? offset : -offset * m;
    stop[count] = elements == 0 ? 0 : start[count] + (elements - 1) * (m + 1) + 1;
    step[count] = elements == 0 ? 1 : m + 1;
    return mst_apply(
        graph, MST_OPERATOR_slice, &last, 1,
        (mst_graph_value[]){{.list = start, .count = count + 1}, {.list = stop, .count = count + 1}, {.list = step, .count = count + 1}});
}

static muster_expr *expand_diagonal(mst_draft *draft) {
    return mst_draft_dtype(draft, 0, MST_ALL_DTYPES) == MUSTER_OK ? diagonal_of(draft) : draft->graph->error;
}

static muster_expr *expand_trace(mst_draft *draft) {
    if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK) return draft->graph->error;
    return mst_reduced(diagonal_of(draft), MST_OPERATOR_sum, MST_AXES((int64_t[]){-1}, 1), false,
                       (muster_dtype)draft->values[DTYPE].integer);
}

#define DIAGONAL_AXES \
    {"offset", MST_VALUE_INTEGER}, {"axis1", MST_VALUE_INTEGER}, { "axis2", MST_VALUE_INTEGER }
#define DIAGONAL(op_name, text, ...)                                                              \
    const mst_operator mst_operator_##op_name = {                                                 \
        MST_ANY_OPERATOR(op_name, text), .operands = {"x"},          .attributes = {__VA_ARGS__}, \
        .dtypes = MST_ALL_DTYPES,        .expand = expand_##op_name, .infer = mst_draft_composite}
DIAGONAL(diagonal, "the elements x[i, i + offset] of two axes, the first two if none are given, as a new last axis", DIAGONAL_AXES);
DIAGONAL(trace, "the sum of the elements of the diagonal; dtype: of the result, as of sum", DIAGONAL_AXES, {"dtype", MST_VALUE_DTYPE});
