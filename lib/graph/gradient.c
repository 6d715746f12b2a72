/* Reverse-mode gradients. One sweep from the loss back to the expressions asked for, over the nodes
 * that lie between them only. Gradients are ordinary nodes, so that they have gradients too. */
#include "operators/operators_private.h"
#include "rewrite_private.h"

static const char where_gradient[] = "muster_gradient";

/* Does the gradient of the loss flow through the node, by id? */
struct mst_gradients {
    mst_graph *graph;
    bool *wanted;
    muster_expr **sums; /* by id; NULL: 0 so far */
    muster_expr **wide; /* by id, of halves: the sum of two terms and more in f32, which is rounded when it is read */
    int32_t count;      /* of nodes when the sweep began */
};

muster_expr *mst_gradient_of(const mst_gradients *gradients, const muster_expr *node) {
    if (node->id >= gradients->count) return NULL;
    muster_expr *sum = gradients->sums[node->id], *wide = gradients->wide[node->id];
    return sum || !wide ? sum : mst_cast_to(wide, node->type.dtype);
}

bool mst_gradient_wanted(const mst_gradients *gradients, const muster_expr *node, int32_t operand) {
    return gradients->wanted[node->inputs[operand]->id];
}

void mst_gradient_refuse(mst_gradients *gradients, muster_expr *node, const char *reason) {
    char place[MST_NODE_TEXT];
    const mst_origin *origin = &node->origin;
    (void)mst_origin_text(origin, place);
    (void)mst_graph_fail(gradients->graph, MUSTER_UNSUPPORTED,
                         "%s%s%s: loss: expected operations with a gradient, received muster_expr_%s%s%.60s%s: %s", place,
                         *place ? ": " : "", where_gradient, node->op->name, node->name ? " \"" : "", node->name ? node->name : "",
                         node->name ? "\"" : "", reason);
}

/* A part of a sum of parts side by side stays one. */
static muster_expr *term_wide(muster_expr *part) {
    if (mst_node_is_error(part) || !mst_node_is(part, MST_OPERATOR_slice_gradient)) return mst_cast_to(part, MUSTER_F32);
    muster_expr *x = mst_cast_to(part->inputs[0], MUSTER_F32);
    return mst_apply(part->graph, MST_OPERATOR_slice_gradient, &x, 1, part->values);
}

/* Two halves are added as such; the sum of more would be rounded after each. */
static void term_add(mst_gradients *gradients, const muster_expr *input, muster_expr *part) {
    muster_expr **sum = &gradients->sums[input->id], **wide = &gradients->wide[input->id], *before = *sum;
    mst_graph *graph = gradients->graph;
    const bool is_half = input->type.dtype == MUSTER_F16 || input->type.dtype == MUSTER_BF16;
    if (!before && !*wide) {
        *sum = part;
    } else if (!is_half) {
        *sum = MST_APPLY(graph, add, before, part);
    } else {
        *sum = *wide ? NULL : MST_APPLY(graph, add, before, part);
        *wide = MST_APPLY(graph, add, *wide ? *wide : term_wide(before), term_wide(part));
    }
}

void mst_gradient_add(mst_gradients *gradients, muster_expr *node, int32_t operand, muster_expr *part) {
    muster_expr *input = node->inputs[operand];
    if (!gradients->wanted[input->id] || mst_node_is_error(part)) return;
    part = mst_sum_to(part, &input->type);
    term_add(gradients, input, part);
}

static bool has_float_result(const muster_expr *node) {
    bool found = mst_dtype_is_float(node->type.dtype);
    for (int32_t r = 1; node->op->flags & MST_OPERATOR_ALL_GRADIENTS && r < node->op->results; r++)
        found = found || mst_dtype_is_float(node->more[r - 1].dtype);
    return found;
}

/* Marks what depends on the expressions asked for, and of that what the loss depends on. Ids of
 * operands are smaller than those of what is made from them. */
static bool find_paths(mst_gradients *gradients, const muster_expr *loss, muster_expr *const *expressions, int32_t count) {
    const mst_graph *graph = gradients->graph;
    bool *used = mst_alloc((size_t)gradients->count);
    if (!used) return false;
    for (int32_t i = 0; i < count; i++) gradients->wanted[expressions[i]->id] = true;
    for (int32_t id = 0; id <= loss->id; id++) {
        const muster_expr *node = graph->nodes[id];
        for (int32_t i = 0; i < node->input_count && !gradients->wanted[id]; i++)
            gradients->wanted[id] = gradients->wanted[node->inputs[i]->id];
        gradients->wanted[id] &= has_float_result(node);
    }
    used[loss->id] = true;
    for (int32_t id = loss->id; id >= 0; id--)
        for (int32_t i = 0; used[id] && i < graph->nodes[id]->input_count; i++) used[graph->nodes[id]->inputs[i]->id] = true;
    for (int32_t id = 0; id < gradients->count; id++) gradients->wanted[id] &= used[id];
    mst_free(used);
    return true;
}

static bool has_wanted_operand(const mst_gradients *gradients, const muster_expr *node) {
    for (int32_t i = 0; i < node->input_count; i++)
        if (gradients->wanted[node->inputs[i]->id]) return true;
    return false;
}

static void sweep(mst_gradients *gradients, muster_expr *loss) {
    mst_graph *graph = gradients->graph;
    gradients->sums[loss->id] = mst_full(graph, &loss->type, 1);
    for (int32_t id = loss->id; id >= 0 && graph->status == MUSTER_OK; id--) {
        muster_expr *node = graph->nodes[id];
        if ((!gradients->sums[id] && !gradients->wide[id]) || !has_wanted_operand(gradients, node)) continue;
        graph->origin = (mst_origin){.forward = node};
        muster_expr *dy = mst_gradient_of(gradients, node);
        if (mst_node_is_error(dy)) break;
        if (node->op->gradient)
            node->op->gradient(gradients, node, dy);
        else
            mst_gradient_refuse(gradients, node, node->op->no_gradient);
    }
    graph->origin = (mst_origin){0};
}

static muster_status gradient_arguments(const char *where, muster_expr *loss, muster_expr *const *expressions, int32_t count,
                                        muster_expr **results) {
    if (!loss) return mst_error_null(where, "loss", "an expression");
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where, (int)count);
    if (count && (!expressions || !results)) return mst_error_null(where, expressions ? "gradients" : "expressions", "an array");
    return MUSTER_OK;
}

static muster_status gradient_check(const char *where, muster_expr *loss, muster_expr *const *expressions, int32_t count) {
    mst_graph *graph = loss->graph;
    char text[MST_NODE_TEXT], what[40];
    MUSTER_TRY(mst_graph_check_open(graph, where));
    for (int32_t i = 0; i < count; i++) {
        snprintf(what, sizeof what, "expressions[%d]", (int)i);
        MUSTER_TRY(mst_expr_check(graph, expressions[i], where, what));
        if (mst_node_is_error(expressions[i])) return graph->status;
    }
    if (mst_node_is_error(loss)) return graph->status;
    if (loss->type.ndim != 0 || !mst_dtype_is_float(loss->type.dtype))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: loss: expected a scalar of a float dtype, received %s", where,
                         mst_node_text(loss, NULL, text));
    for (int32_t i = 0; i < count; i++)
        if (!mst_dtype_is_float(expressions[i]->type.dtype))
            return mst_error(MUSTER_UNSUPPORTED, "%s: expressions[%d]: expected a float dtype, received %s", where, (int)i,
                             mst_node_text(expressions[i], NULL, text));
    return MUSTER_OK;
}

/* ---- the forms whose gradients are close ---- */

/* The gradient of log(softmax(x)) divides by what may have become 0; that of log_softmax(x) does
 * not. */
typedef struct stabilising {
    mst_rewrite rewrite;
    muster_expr *const *expressions;
    int32_t count;
} stabilising;

static bool is_asked(const stabilising *s, const muster_expr *node) {
    for (int32_t i = 0; i < s->count; i++)
        if (s->rewrite.replaced[s->expressions[i]->id] == node) return true;
    return false;
}

/* Lies an expression that the gradient is asked for between the node and x? */
static bool asked_between(const stabilising *s, const muster_expr *node, const muster_expr *x) {
    for (int32_t i = 0; i < node->input_count; i++) {
        const muster_expr *input = node->inputs[i];
        if (input->id > x->id && (is_asked(s, input) || asked_between(s, input, x))) return true;
    }
    return false;
}

static muster_expr *stable_rule(muster_expr *node, void *context) {
    muster_expr *x, *made = mst_stable_form(node, &x);
    return made && !asked_between(context, node, x) ? made : NULL;
}

static muster_status stabilise(stabilising *s, muster_expr **loss) {
    MUSTER_TRY(mst_rewrite_begin(&s->rewrite, (*loss)->graph));
    s->rewrite.rule = stable_rule;
    s->rewrite.context = s;
    mst_rewrite_use(&s->rewrite, *loss);
    MUSTER_TRY(mst_rewrite_sweep(&s->rewrite));
    *loss = s->rewrite.replaced[(*loss)->id];
    return MUSTER_OK;
}

static muster_status gradients_make(muster_expr *loss, muster_expr *const *expressions, int32_t count, muster_expr **results) {
    mst_graph *graph = loss->graph;
    mst_gradients gradients = {.graph = graph, .count = graph->node_count};
    gradients.wanted = mst_alloc((size_t)graph->node_count);
    gradients.sums = mst_alloc((size_t)graph->node_count * sizeof *gradients.sums);
    gradients.wide = mst_alloc((size_t)graph->node_count * sizeof *gradients.wide);
    muster_status status = MUSTER_OK;
    if (!gradients.wanted || !gradients.sums || !gradients.wide || !find_paths(&gradients, loss, expressions, count))
        status = mst_graph_keep(graph, mst_out_of_memory(where_gradient, (int64_t)graph->node_count));
    if (status == MUSTER_OK) {
        sweep(&gradients, loss);
        status = graph->status;
    }
    for (int32_t i = 0; i < count; i++) {
        muster_expr *found = status == MUSTER_OK ? mst_gradient_of(&gradients, expressions[i]) : graph->error;
        results[i] = found ? found : mst_full(graph, &expressions[i]->type, 0);
    }
    mst_free(gradients.wanted);
    mst_free(gradients.sums);
    mst_free(gradients.wide);
    return graph->status; /* the zeros may lack memory, too */
}

static muster_status gradients_of(muster_expr *loss, muster_expr *const *expressions, int32_t count, muster_expr **results) {
    mst_graph *graph = loss->graph;
    stabilising s = {.expressions = expressions, .count = count};
    muster_status status = stabilise(&s, &loss);
    muster_expr **stable = mst_alloc((size_t)(count + 1) * sizeof *stable);
    if (status == MUSTER_OK && !stable) status = mst_out_of_memory(where_gradient, count);
    for (int32_t i = 0; status == MUSTER_OK && i < count; i++) {
        muster_expr *replaced = s.rewrite.replaced[expressions[i]->id];
        stable[i] = replaced ? replaced : expressions[i];
    }
    if (status == MUSTER_OK) {
        status = gradients_make(loss, stable, count, results);
    } else {
        (void)mst_graph_keep(graph, status);
        for (int32_t i = 0; i < count; i++) results[i] = graph->error;
    }
    mst_free(stable);
    mst_rewrite_end(&s.rewrite);
    return status;
}

muster_status(muster_gradient)(muster_expr *loss, muster_expr *const *expressions, int32_t count, muster_expr **results) {
    return muster_gradient_at(NULL, loss, expressions, count, results);
}

muster_status muster_gradient_at(const char *place, muster_expr *loss, muster_expr *const *expressions, int32_t count,
                                 muster_expr **results) {
    char where[MST_PLACE_TEXT];
    mst_place_text(place, where_gradient, where);
    MUSTER_TRY(gradient_arguments(where, loss, expressions, count, results));
    mst_graph *graph = loss->graph;
    muster_status status = gradient_check(where, loss, expressions, count);
    if (status == MUSTER_OK) return gradients_of(loss, expressions, count, results);
    for (int32_t i = 0; i < count; i++) results[i] = graph->error;
    return mst_graph_keep(graph, status);
}
