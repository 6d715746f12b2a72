/* The graph in which gradients are checked: every float dtype is f64, every size a number. */
#include "check_private.h"
#include "custom/custom_private.h"

#include <stdio.h>
#include <string.h>

static muster_dtype dtype_of(muster_dtype dtype) { return mst_dtype_is_float(dtype) ? MUSTER_F64 : dtype; }

/* The size in the copy. */
static mst_dim dim_of(const mst_check *check, mst_graph *to, mst_dim dim) {
    const int64_t value = mst_dim_value(check->graph, dim, check->sizes);
    return value < 0 ? MST_DIM_NONE : mst_dim_number(to, value);
}

static muster_status type_of(const mst_check *check, mst_graph *to, const mst_type *from, mst_type *type) {
    char text[MST_NODE_TEXT];
    *type = (mst_type){.dtype = dtype_of(from->dtype), .ndim = from->ndim};
    for (int32_t d = 0; d < from->ndim; d++)
        if ((type->dims[d] = dim_of(check, to, from->dims[d])) == MST_DIM_NONE)
            return mst_error(MUSTER_OVERFLOW, "muster_gradient_check: size: expected one for which 64 bits hold %s, received %lld",
                             mst_type_text(check->graph, from, text), (long long)check->options.size);
    return MUSTER_OK;
}

muster_status mst_check_copy_begin(const mst_check *check, mst_check_copy *copy) {
    char name[200];
    *copy = (mst_check_copy){0};
    snprintf(name, sizeof name, "gradient check of %.150s", check->graph->name);
    copy->map = mst_alloc((size_t)check->graph->node_count * sizeof *copy->map);
    if (!copy->map) return mst_out_of_memory("muster_gradient_check", check->graph->node_count);
    return muster_graph_create(check->graph->runtime, name, &copy->graph);
}

void mst_check_copy_end(mst_check_copy *copy) {
    (void)muster_graph_destroy(copy->graph);
    mst_free(copy->map);
}

muster_status mst_check_copy_leaf(const mst_check *check, mst_check_copy *copy, const muster_expr *node) {
    char name[24];
    int64_t shape[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < node->type.ndim; d++) shape[d] = mst_dim_value(check->graph, node->type.dims[d], check->sizes);
    snprintf(name, sizeof name, "%d", (int)copy->graph->graph->inputs.count); /* unlike names, it is used once */
    muster_expr *made = (muster_graph_input)(copy->graph, name, dtype_of(node->type.dtype), node->type.ndim, shape, MUSTER_BROADCAST);
    if (muster_graph_status(copy->graph) != MUSTER_OK) return copy->graph->graph->status;
    made->name = node->name;
    copy->map[node->id] = made;
    return MUSTER_OK;
}

static muster_status values_of(const mst_check *check, mst_graph *to, const muster_expr *node, mst_graph_value *values) {
    for (int32_t a = 0; a < mst_operator_attribute_count(node->op); a++) {
        values[a] = node->values[a];
        if (node->op->attributes[a].kind == MST_VALUE_DTYPE) values[a].integer = dtype_of((muster_dtype)values[a].integer);
        if (node->op->attributes[a].kind != MST_VALUE_DIMS || !values[a].count) continue;
        int64_t *dims = mst_arena_take(&to->arena, (size_t)values[a].count * sizeof *dims);
        if (!dims) return mst_out_of_memory("muster_gradient_check", values[a].count);
        for (int32_t i = 0; i < values[a].count; i++) dims[i] = dim_of(check, to, (mst_dim)node->values[a].list[i]);
        values[a].list = dims;
    }
    return MUSTER_OK;
}

/* An operator of the program says by its rule whether it takes f64, and what it makes of it. */
static muster_status rule_ask(mst_draft *draft, const muster_expr *node) {
    static const char expected[] = "muster_gradient_check: loss: expected operators that take f64, in which the check computes";
    char place[MST_NODE_TEXT], message[MST_MESSAGE_SIZE];
    mst_type types[MST_RESULTS];
    memcpy(types, draft->types, sizeof types);
    (void)mst_origin_text(&node->origin, place);
    muster_status status = mst_custom_infer(draft);
    if (status == MUSTER_OUT_OF_MEMORY) return status;
    if (status != MUSTER_OK) {
        mst_error_save(message);
        return mst_error(MUSTER_UNSUPPORTED, "%.80s%s%s, received muster_expr_%s, which refuses it: %.250s", place, *place ? ": " : "",
                         expected, node->op->name, message);
    }
    for (int32_t r = 0; r < node->op->results; r++)
        if (draft->types[r].dtype != types[r].dtype)
            return mst_error(MUSTER_UNSUPPORTED, "%.80s%s%s, received muster_expr_%s, whose rule then gives %s as result %d, and not %s",
                             place, *place ? ": " : "", expected, node->op->name, muster_dtype_name(draft->types[r].dtype), (int)r,
                             muster_dtype_name(types[r].dtype));
    memcpy(draft->types, types, sizeof types);
    return MUSTER_OK;
}

muster_status mst_check_copy_node(const mst_check *check, mst_check_copy *copy, const muster_expr *node) {
    mst_graph *to = copy->graph->graph;
    mst_graph_value values[MST_GRAPH_ATTRIBUTES];
    muster_expr **inputs = mst_arena_take(&to->arena, (size_t)(node->input_count + 1) * sizeof *inputs);
    mst_draft draft = {.graph = to, .op = node->op, .inputs = inputs, .count = node->input_count, .values = values};
    if (!inputs) return mst_out_of_memory("muster_gradient_check", node->input_count);
    if (!mst_node_is_known(node) && mst_dtype_is_float(node->type.dtype) && node->op->dtypes &&
        !(node->op->dtypes & MST_DTYPE_BIT(MUSTER_F64)))
        return mst_error(MUSTER_UNSUPPORTED, "muster_gradient_check: loss: expected operators that take f64, received %s", node->op->name);
    for (int32_t i = 0; i < node->input_count; i++) inputs[i] = copy->map[node->inputs[i]->id];
    MUSTER_TRY(values_of(check, to, node, values));
    MUSTER_TRY(type_of(check, to, &node->type, &draft.types[0]));
    for (int32_t r = 1; r < node->op->results; r++) MUSTER_TRY(type_of(check, to, &node->more[r - 1], &draft.types[r]));
    if (node->op->id == MST_OPERATORS) MUSTER_TRY(rule_ask(&draft, node));
    to->origin = node->origin;
    to->origin.next = NULL;
    muster_expr *made = mst_node_make(&draft);
    to->origin = (mst_origin){0};
    if (mst_node_is_error(made)) return to->status;
    if (!made->name) made->name = node->name;
    copy->map[node->id] = made;
    return MUSTER_OK;
}

muster_status mst_check_compile(const mst_check_copy *copy, muster_function **function) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER; /* one worker computes it */
    options.unfused = 1;                 /* a few calls are not worth compiling kernels on GPUs */
    return muster_graph_compile(copy->graph, &options, function);
}
