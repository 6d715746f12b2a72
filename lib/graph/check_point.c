/* The point at which a gradient is checked: sizes, and a value for each input and parameter that
 * the loss depends on. A function reads the values in f64, from wherever they are. */
#include "check_private.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "muster_gradient_check";

double mst_check_draw(mst_check *check) {
    uint64_t z = check->random += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

muster_status mst_check_tensor(const mst_check *check, const mst_type *type, muster_tensor *tensor) {
    int64_t shape[MUSTER_MAX_DIMS], count = 1;
    bool fits = true;
    for (int32_t d = 0; d < type->ndim; d++) {
        shape[d] = mst_dim_value(check->graph, type->dims[d], check->sizes);
        fits = fits && shape[d] >= 0 && mst_multiply(count, shape[d], &count);
    }
    char text[MST_NODE_TEXT];
    if (!fits || count > INT64_MAX / 16)
        return mst_error(MUSTER_OVERFLOW, "%s: size: expected one for which 64 bits count the elements of %s, received %lld", where,
                         mst_type_text(check->graph, type, text), (long long)check->options.size);
    void *data = mst_alloc((size_t)count * 8);
    if (!data) return mst_out_of_memory(where, count * 8);
    *tensor = muster_tensor_make(mst_dtype_is_float(type->dtype) ? MUSTER_F64 : type->dtype, data, type->ndim, shape);
    return MUSTER_OK;
}

/* ---- which leaves, which sizes ---- */

static muster_status check_operation(const muster_expr *node) {
    const char *reason = node->op->flags & MST_OPERATOR_UNIQUE           ? "which each call draws anew"
                         : mst_node_is(node, MST_OPERATOR_stop_gradient) ? "through which differences see what the gradient does not"
                                                                         : NULL;
    char place[MST_NODE_TEXT];
    if (!reason) return MUSTER_OK;
    (void)mst_origin_text(&node->origin, place);
    return mst_error(MUSTER_UNSUPPORTED, "%s%s%s: loss: expected operations that differences can check, received muster_expr_%s, %s", place,
                     *place ? ": " : "", where, node->op->name, reason);
}

static muster_status find_leaves(mst_check *check) {
    const mst_graph *graph = check->graph;
    int32_t count = 0;
    check->used[check->loss->id] = true;
    for (int32_t id = check->loss->id; id >= 0; id--) {
        const muster_expr *node = graph->nodes[id];
        if (!check->used[id]) continue;
        MUSTER_TRY(check_operation(node));
        for (int32_t i = 0; i < node->input_count; i++) check->used[node->inputs[i]->id] = true;
        count += mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter);
    }
    check->leaves = mst_alloc((size_t)(count + 1) * sizeof *check->leaves);
    if (!check->leaves) return mst_out_of_memory(where, (int64_t)sizeof *check->leaves);
    for (int32_t id = 0; id <= check->loss->id; id++) {
        const muster_expr *node = graph->nodes[id];
        if (check->used[id] && (mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter)))
            check->leaves[check->leaf_count++].from = node;
    }
    return MUSTER_OK;
}

/* The value that the program gives; "no tensor": none. */
static muster_tensor value_given(const mst_check *check, const muster_expr *leaf) {
    return mst_node_is(leaf, MST_OPERATOR_input) && check->options.values ? check->options.values[leaf->at] : muster_tensor_none();
}

/* The shape of the given value or of the variable; false: neither. */
static bool shape_given(const mst_check *check, const muster_expr *leaf, int32_t *ndim, int64_t shape[MUSTER_MAX_DIMS]) {
    const muster_tensor value = value_given(check, leaf);
    if (mst_node_is(leaf, MST_OPERATOR_parameter)) {
        *ndim = leaf->type.ndim;
        return muster_variable_shape(check->graph->variables.items[leaf->at].variable, 0, *ndim, shape) == MUSTER_OK;
    }
    if (value.dtype == MUSTER_DTYPE_NONE) return false;
    *ndim = value.ndim;
    for (int32_t d = 0; d < value.ndim; d++) shape[d] = value.shape[d];
    return true;
}

static void bind_size(mst_check *check, mst_dim dim, int64_t value) {
    for (int32_t s = 0; s < check->graph->size_count; s++) {
        mst_monomial single = {.factor = 1};
        single.powers[s] = 1;
        if (check->sizes[s] < 0 && memcmp(&check->graph->dims[dim], &single, sizeof single) == 0) check->sizes[s] = value;
    }
}

static muster_status refuse_shape(const muster_expr *leaf, const muster_tensor *value) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT] = "(";
    size_t length = 1;
    for (int32_t d = 0; d < value->ndim && length < 120; d++)
        length += (size_t)snprintf(received + length, sizeof received - length, d ? ", %lld" : "%lld", (long long)value->shape[d]);
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: values[%d]: expected %s with the same value for each size, received %s)", where,
                     (int)leaf->at, mst_node_text(leaf, "input", expected), received);
}

static muster_status bind_sizes(mst_check *check) {
    int64_t shape[MUSTER_MAX_DIMS];
    int32_t ndim;
    for (int32_t s = 0; s < MST_SIZES; s++) check->sizes[s] = -1;
    for (int32_t i = 0; i < check->leaf_count; i++) {
        const muster_expr *leaf = check->leaves[i].from;
        if (!shape_given(check, leaf, &ndim, shape)) continue;
        for (int32_t d = 0; d < ndim && d < leaf->type.ndim; d++) bind_size(check, leaf->type.dims[d], shape[d]);
    }
    for (int32_t s = 0; s < MST_SIZES; s++)
        if (check->sizes[s] < 0) check->sizes[s] = check->options.size;
    for (int32_t i = 0; i < check->leaf_count; i++) {
        const muster_expr *leaf = check->leaves[i].from;
        const muster_tensor value = value_given(check, leaf);
        if (!shape_given(check, leaf, &ndim, shape)) continue;
        bool same = ndim == leaf->type.ndim;
        for (int32_t d = 0; same && d < ndim; d++) same = mst_dim_value(check->graph, leaf->type.dims[d], check->sizes) == shape[d];
        if (!same) return refuse_shape(leaf, &value);
    }
    return MUSTER_OK;
}

/* ---- values ---- */

/* In f64, also what becomes an integer. NULL: out of memory. */
static double *draw_elements(mst_check *check, const mst_check_leaf *leaf) {
    const muster_gradient_check_options *o = &check->options;
    const int64_t count = muster_tensor_count(leaf->value);
    double *elements = mst_alloc((size_t)count * sizeof *elements);
    for (int64_t e = 0; elements && e < count; e++)
        elements[e] = mst_dtype_is_float(leaf->from->type.dtype) ? o->low + (o->high - o->low) * mst_check_draw(check)
                                                                 : (double)(mst_check_draw(check) < 0.5);
    return elements;
}

/* An input or a parameter of the reading graph, cast to the dtype of the check. */
static muster_status reader_add(const mst_check *check, const mst_check_copy *reader, const mst_check_leaf *leaf,
                                const muster_tensor *given) {
    char name[24];
    const muster_expr *from = leaf->from;
    const mst_graph *graph = reader->graph->graph;
    snprintf(name, sizeof name, "%d", (int)(leaf - check->leaves));
    muster_expr *node = mst_node_is(from, MST_OPERATOR_parameter)
                            ? muster_graph_parameter(reader->graph, check->graph->variables.items[from->at].variable)
                            : (muster_graph_input)(reader->graph, name, given->dtype, given->ndim, given->shape, MUSTER_BROADCAST);
    if (graph->status != MUSTER_OK) return graph->status;
    node = mst_apply(reader->graph->graph, MST_OPERATOR_cast, &node, 1, (mst_graph_value[]){{.integer = leaf->value.dtype}});
    return mst_node_is_error(node) ? graph->status : muster_graph_output(reader->graph, name, node, MUSTER_MASTER);
}

static muster_status value_check(const mst_check_leaf *leaf, const muster_tensor *given) {
    const muster_dtype wanted = leaf->from->type.dtype;
    if (given->dtype == wanted || (mst_dtype_is_float(wanted) && mst_dtype_is_float(given->dtype))) return MUSTER_OK;
    return mst_error(MUSTER_DTYPE_MISMATCH, "%s: values[%d]: expected %s for input \"%.60s\", received %s", where, (int)leaf->from->at,
                     mst_dtype_is_float(wanted) ? "floats" : muster_dtype_name(wanted), leaf->from->name, muster_dtype_name(given->dtype));
}

static muster_status values_read(mst_check *check, const mst_check_copy *reader, muster_tensor *in, muster_tensor *out, double **drawn) {
    muster_function *function;
    int32_t inputs = 0;
    for (int32_t i = 0; i < check->leaf_count; i++) {
        mst_check_leaf *leaf = &check->leaves[i];
        muster_tensor given = value_given(check, leaf->from);
        MUSTER_TRY(mst_check_tensor(check, &leaf->from->type, &leaf->value));
        out[i] = leaf->value;
        if (given.dtype != MUSTER_DTYPE_NONE) {
            MUSTER_TRY(value_check(leaf, &given));
        } else if (!mst_node_is(leaf->from, MST_OPERATOR_parameter)) {
            if (!(drawn[i] = draw_elements(check, leaf))) return mst_out_of_memory(where, muster_tensor_bytes(leaf->value));
            given = muster_tensor_make(MUSTER_F64, drawn[i], leaf->value.ndim, leaf->value.shape);
        }
        if (!mst_node_is(leaf->from, MST_OPERATOR_parameter)) in[inputs++] = given;
        MUSTER_TRY(reader_add(check, reader, leaf, &given));
    }
    MUSTER_TRY(mst_check_compile(reader, &function));
    const muster_status status = muster_function_call_single(function, in, inputs, out, check->leaf_count, NULL);
    (void)muster_function_destroy(function);
    return status;
}

static muster_status choose_checked(mst_check *check, muster_expr *const *expressions, int32_t count) {
    int32_t checked = 0;
    for (int32_t i = 0; i < check->leaf_count; i++) {
        mst_check_leaf *leaf = &check->leaves[i];
        leaf->checked = !expressions && mst_dtype_is_float(leaf->from->type.dtype);
        for (int32_t e = 0; e < count; e++) leaf->checked |= expressions[e] == leaf->from;
        checked += leaf->checked;
    }
    if (checked) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: loss: expected one that depends on %s, received one that does not", where,
                     expressions ? "the expressions" : "inputs or parameters of float dtypes");
}

muster_status mst_check_point(mst_check *check, muster_expr *const *expressions, int32_t count) {
    mst_check_copy reader;
    MUSTER_TRY(find_leaves(check));
    MUSTER_TRY(bind_sizes(check));
    MUSTER_TRY(choose_checked(check, expressions, count));
    muster_status status = mst_check_copy_begin(check, &reader);
    muster_tensor *tensors = status == MUSTER_OK ? mst_alloc(2 * (size_t)check->leaf_count * sizeof *tensors) : NULL;
    double **drawn = tensors ? mst_alloc((size_t)check->leaf_count * sizeof *drawn) : NULL;
    if (status == MUSTER_OK)
        status = drawn ? values_read(check, &reader, tensors, tensors + check->leaf_count, drawn)
                       : mst_out_of_memory(where, (int64_t)check->leaf_count);
    for (int32_t i = 0; drawn && i < check->leaf_count; i++) mst_free(drawn[i]);
    mst_free(drawn);
    mst_free(tensors);
    mst_check_copy_end(&reader);
    return status;
}
