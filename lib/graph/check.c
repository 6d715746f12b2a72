/* muster_gradient_check: its arguments, the whole loss, and its message. */
#include "check_private.h"
#include "nodes/nodes_impl.h"
#include "options_impl.h"
#include "program_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char where[] = "muster_gradient_check";

void muster_gradient_check_options_init_sized(muster_gradient_check_options *options, size_t size) { mst_options_init(options, size); }

/* ---- the whole loss ---- */

static muster_status copy_loss(const mst_check *check, mst_check_copy *copy) {
    MUSTER_TRY(mst_check_copy_begin(check, copy));
    for (int32_t i = 0; i < check->leaf_count; i++) MUSTER_TRY(mst_check_copy_leaf(check, copy, check->leaves[i].from));
    for (int32_t id = 0; id <= check->loss->id; id++)
        if (check->used[id] && !copy->map[id]) MUSTER_TRY(mst_check_copy_node(check, copy, check->graph->nodes[id]));
    return MUSTER_OK;
}

static void element_text(const muster_tensor *tensor, int64_t element, char text[MST_NODE_TEXT]) {
    int64_t index[MUSTER_MAX_DIMS];
    size_t length = (size_t)snprintf(text, MST_NODE_TEXT, "(");
    for (int32_t d = tensor->ndim - 1; d >= 0; d--) {
        index[d] = element % tensor->shape[d];
        element /= tensor->shape[d];
    }
    for (int32_t d = 0; d < tensor->ndim && length < 140; d++)
        length += (size_t)snprintf(text + length, MST_NODE_TEXT - length, d ? ", %lld" : "%lld", (long long)index[d]);
    snprintf(text + length, MST_NODE_TEXT - length, tensor->ndim == 1 ? ",)" : ")");
}

static muster_status wrong_gradient(mst_check *check, const mst_check_worst *worst) {
    char place[MST_NODE_TEXT], leaf[MST_NODE_TEXT], element[MST_NODE_TEXT], by[MST_NODE_TEXT], blamed[2 * MST_NODE_TEXT] = "";
    const mst_check_leaf *at = &check->leaves[worst->leaf];
    const muster_expr *node;
    (void)mst_origin_text(&check->loss->origin, place);
    element_text(&at->value, worst->element, element);
    MUSTER_TRY(mst_check_blame(check, &node));
    if (node) {
        (void)mst_origin_text(&node->origin, by);
        snprintf(blamed, sizeof blamed, "; the gradient of muster_expr_%s%s%.40s%s is wrong by itself%s%.90s%s", node->op->name,
                 node->name ? " \"" : "", node->name ? node->name : "", node->name ? "\"" : "", *by ? " (" : "", by, *by ? ")" : "");
    }
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%.80s%s%s: loss: gradient of %.90s, element %.50s: expected %.9g, as differences say, received %.9g; %lld of %lld "
                     "elements are wrong%s",
                     place, *place ? ": " : "", where,
                     mst_node_text(at->from, mst_node_is(at->from, MST_OPERATOR_input) ? "input" : "parameter", leaf), element,
                     worst->difference, worst->gradient, (long long)worst->wrong, (long long)worst->compared, blamed);
}

static muster_status check_whole(mst_check *check, muster_expr *const *expressions, int32_t count, mst_check_worst *worst) {
    mst_check_copy copy = {0};
    MUSTER_TRY(mst_check_point(check, expressions, count));
    muster_status status = copy_loss(check, &copy);
    if (status == MUSTER_OK)
        status = mst_check_compare(check, &copy, copy.map[check->loss->id], check->leaves, check->leaf_count, MST_CHECK_WHOLE, worst);
    mst_check_copy_end(&copy);
    if (status == MUSTER_OK && worst->wrong) return wrong_gradient(check, worst);
    return status;
}

/* ---- arguments ---- */

static muster_status check_expressions(const muster_expr *loss, muster_expr *const *expressions, int32_t count) {
    char text[MST_NODE_TEXT], what[40];
    for (int32_t i = 0; i < count; i++) {
        snprintf(what, sizeof what, "expressions[%d]", (int)i);
        MUSTER_TRY(mst_expr_check(loss->graph, expressions[i], where, what));
        if (mst_node_is_error(expressions[i])) return mst_error_restore(loss->graph->status, loss->graph->message);
        if (!mst_node_is(expressions[i], MST_OPERATOR_input) && !mst_node_is(expressions[i], MST_OPERATOR_parameter))
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected an input or a parameter, received muster_expr_%s %s", where, what,
                             expressions[i]->op->name, mst_node_text(expressions[i], NULL, text));
        if (!mst_dtype_is_float(expressions[i]->type.dtype))
            return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected a float dtype, received %s", where, what,
                             mst_node_text(expressions[i], NULL, text));
    }
    return MUSTER_OK;
}

static muster_status check_arguments(const muster_expr *loss, muster_expr *const *expressions, int32_t count) {
    char text[MST_NODE_TEXT];
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where, (int)count);
    if (count && !expressions) return mst_error_null(where, "expressions", "an array");
    if (expressions && !count) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 1 or more, received 0", where);
    if (mst_node_is_error(loss)) return mst_error_restore(loss->graph->status, loss->graph->message);
    if (loss->type.ndim != 0 || !mst_dtype_is_float(loss->type.dtype))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: loss: expected a scalar of a float dtype, received %s", where,
                         mst_node_text(loss, NULL, text));
    return check_expressions(loss, expressions, count);
}

static muster_status refuse_option(const char *name, const char *expected, double received) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected %s, received %g", where, name, expected, received);
}

static muster_status options_fill(const mst_graph *graph, muster_gradient_check_options *o) {
    MUSTER_TRY(mst_options_check_reserved(where, o->reserved));
    if (!(o->low <= o->high) || !isfinite(o->high - o->low)) return refuse_option("low", "a number that is at most high", o->low);
    if (o->size < 0) return refuse_option("size", "0 or more", (double)o->size);
    if (o->elements < 0) return refuse_option("elements", "0 or more", (double)o->elements);
    if (!(o->step >= 0) || !isfinite(o->step)) return refuse_option("step", "0 or more", o->step);
    if (!(o->relative >= 0) || !isfinite(o->relative)) return refuse_option("relative", "0 or more", o->relative);
    if (!(o->absolute >= 0) || !isfinite(o->absolute)) return refuse_option("absolute", "0 or more", o->absolute);
    if (o->value_count != (o->values ? graph->inputs.count : 0))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: value_count: expected %d, %s, received %d", where,
                         o->values ? (int)graph->inputs.count : 0, o->values ? "the inputs of the graph" : "since values is NULL",
                         (int)o->value_count);
    if (o->low == 0 && o->high == 0) o->low = -1, o->high = 1;
    if (o->size == 0) o->size = 3;
    if (o->elements == 0) o->elements = 100;
    if (o->step == 0) o->step = 1e-3;
    if (o->relative == 0 && o->absolute == 0) o->relative = o->absolute = 1e-6;
    return MUSTER_OK;
}

static muster_status use_make(mst_check *check) {
    check->used = mst_alloc((size_t)check->graph->node_count);
    return check->used ? MUSTER_OK : mst_out_of_memory(where, check->graph->node_count);
}

muster_status muster_gradient_check(muster_expr *loss, muster_expr *const *expressions, int32_t count,
                                    const muster_gradient_check_options *options, double *result) {
    mst_check check = {.loss = loss};
    mst_check_worst worst = {.leaf = -1};
    if (!loss) return mst_error_null(where, "loss", "an expression");
    check.graph = loss->graph;
    MUSTER_TRY(mst_graph_check_runtime(check.graph, where));
    const uint64_t failed_rounds = mst_nodes_failed_rounds();
    muster_status status = check_arguments(loss, expressions, count);
    if (status == MUSTER_OK)
        status = mst_options_read(where, "muster_gradient_check_options", options, &check.options, sizeof check.options);
    if (status == MUSTER_OK) status = options_fill(check.graph, &check.options);
    check.random = check.options.seed;
    if (status == MUSTER_OK) status = use_make(&check);
    if (status == MUSTER_OK) status = check_whole(&check, expressions, count, &worst);
    if (status != MUSTER_OK && mst_nodes_failed_rounds() == failed_rounds) status = mst_program_refuse(check.graph, status);
    for (int32_t i = 0; i < check.leaf_count; i++) mst_free(check.leaves[i].value.data);
    mst_free(check.leaves);
    mst_free(check.used);
    if (result) *result = worst.error;
    return status;
}
