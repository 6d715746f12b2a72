/* Gradients against central differences. */
#include "check_private.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

static const char where[] = "muster_gradient_check";
/* At least so many steps are tried, each an eighth of the one before, and at most so many. */
enum { FEW_STEPS = 3, MOST_STEPS = 8 };

/* A compiled loss with its gradients, and memory for a call. */
typedef struct comparison {
    mst_check *check;
    muster_function *function;
    const mst_check_leaf *leaves;
    int32_t count;
    muster_tensor *in, *out; /* out[0] is the loss, out[1 + i] the gradient of leaf i, if it is checked */
    int32_t out_count;
    double loss, at_point;
    mst_check_scope scope;
} comparison;

static muster_status loss_at(comparison *c, double *loss) {
    muster_tensor *none = c->out + c->out_count; /* the gradients are not wanted */
    MUSTER_TRY(muster_function_call_single(c->function, c->in, c->count, none, c->out_count, NULL));
    *loss = c->loss;
    return MUSTER_OK;
}

/* The error is of the order of h^4. */
static muster_status difference_by(comparison *c, double *x, double h, double *difference) {
    static const double steps[4] = {-2, -1, 1, 2};
    const double value = *x;
    double sides[4];
    muster_status status = MUSTER_OK;
    for (int32_t s = 0; status == MUSTER_OK && s < 4; s++) {
        *x = value + steps[s] * h;
        status = loss_at(c, &sides[s]);
    }
    *x = value;
    if (status == MUSTER_OK) *difference = (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / (12 * h);
    return status;
}

static double allowed_of(const comparison *c, double gradient, double difference) {
    const muster_gradient_check_options *o = &c->check->options;
    return o->absolute + o->relative * fmax(fabs(gradient), fabs(difference));
}

/* A difference cannot be closer than this. */
static double rounding_of(const comparison *c, double h) { return 16 * DBL_EPSILON * fabs(c->at_point) / h; }

static double error_of(const comparison *c, double h, double gradient, double difference) {
    const double distance = fabs(gradient - difference);
    if (distance == 0) return 0;
    return isfinite(distance) ? distance / (allowed_of(c, gradient, difference) + rounding_of(c, h)) : INFINITY;
}

/* Differences with a step h, and with 8 h, that differ say that the loss varies over such steps.
 * A smaller step helps, until the rounding of the loss says more than the difference. */
static bool may_converge(const comparison *c, double h, double before, double difference) {
    if (rounding_of(c, h / 8) > allowed_of(c, 0, difference)) return false;
    return !(fabs(difference - before) <= allowed_of(c, before, difference));
}

/* Can nothing be said about the element? Where results of an operation are infinite, its rule may
 * give 0 times infinity. */
static bool is_undecided(const comparison *c, double gradient, double difference) {
    return c->scope == MST_CHECK_FINITE_RESULTS && !(isfinite(gradient) && isfinite(difference));
}

static muster_status compare_element(comparison *c, int32_t leaf, int64_t element, double gradient, mst_check_worst *worst) {
    double *x = (double *)c->leaves[leaf].value.data + element, difference = 0, before = 0, best = 0, error = INFINITY;
    double h = c->check->options.step * fmax(1, fabs(*x));
    for (int32_t step = 0; step < MOST_STEPS && !(error <= 1); step++, h /= 8) {
        if (step >= FEW_STEPS && !may_converge(c, 8 * h, before, difference)) break;
        before = difference;
        MUSTER_TRY(difference_by(c, x, h, &difference));
        const double with_h = error_of(c, h, gradient, difference);
        if (step && !(with_h < (step < FEW_STEPS ? error : error / 2))) continue; /* less is rounding */
        error = with_h;
        best = difference;
    }
    if (is_undecided(c, gradient, best)) return MUSTER_OK;
    worst->compared++;
    worst->wrong += !(error <= 1);
    if (worst->leaf < 0 || error > worst->error) {
        worst->leaf = leaf;
        worst->element = element;
        worst->gradient = gradient;
        worst->difference = best;
        worst->error = error;
    }
    return MUSTER_OK;
}

/* The first finite element from `from` on, before `end`; else `end`. */
static int64_t finite_from(const double *elements, int64_t from, int64_t end) {
    while (from < end && !isfinite(elements[from])) from++;
    return from;
}

static muster_status no_finite_element(const comparison *c, int32_t leaf, int64_t count) {
    char text[MST_NODE_TEXT];
    const muster_expr *from = c->leaves[leaf].from;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: loss: gradient of %.90s: expected a finite element to check, received %lld that are infinite or NaN", where,
                     mst_node_text(from, mst_node_is(from, MST_OPERATOR_input) ? "input" : "parameter", text), (long long)count);
}

/* One element of each of `most` equal parts, the next that is finite. */
static muster_status compare_leaf(comparison *c, int32_t leaf, const double *gradient, mst_check_worst *worst) {
    const double *elements = c->leaves[leaf].value.data;
    const int64_t count = muster_tensor_count(c->leaves[leaf].value);
    const int64_t parts = count < c->check->options.elements ? count : c->check->options.elements;
    const double part = parts ? (double)count / (double)parts : 0;
    if (count && finite_from(elements, 0, count) == count)
        return c->scope == MST_CHECK_WHOLE ? no_finite_element(c, leaf, count) : MUSTER_OK;
    for (int64_t k = 0; k < parts; k++) {
        const double within = parts < count ? mst_check_draw(c->check) : 0;
        const int64_t begin = (int64_t)((double)k * part), end = k + 1 < parts ? (int64_t)((double)(k + 1) * part) : count;
        int64_t element = finite_from(elements, (int64_t)(((double)k + within) * part), end);
        if (element >= end) element = finite_from(elements, begin, end);
        if (element < end) MUSTER_TRY(compare_element(c, leaf, element, gradient[element], worst));
    }
    return MUSTER_OK;
}

static muster_status compare_all(comparison *c, mst_check_worst *worst) {
    for (int32_t i = 0; i < c->count; i++) c->in[i] = c->leaves[i].value;
    c->out[0] = c->out[c->out_count] = muster_f64(&c->loss);
    for (int32_t i = 0, at = 1; i < c->count; i++) {
        if (!c->leaves[i].checked) continue;
        c->out[at] = c->leaves[i].value;
        c->out[at].data = mst_alloc((size_t)muster_tensor_count(c->out[at]) * sizeof(double));
        if (!c->out[at++].data) return mst_out_of_memory(where, muster_tensor_bytes(c->out[at]));
    }
    MUSTER_TRY(muster_function_call_single(c->function, c->in, c->count, c->out, c->out_count, NULL));
    if (!isfinite(c->loss) && c->scope != MST_CHECK_WHOLE) return MUSTER_OK; /* nothing can be said */
    if (!isfinite(c->loss))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: loss: expected a finite value at the point, received %g", where, c->loss);
    c->at_point = c->loss;
    for (int32_t i = 0, at = 1; i < c->count; i++)
        if (c->leaves[i].checked) MUSTER_TRY(compare_leaf(c, i, c->out[at++].data, worst));
    return MUSTER_OK;
}

/* The outputs of the copy: the loss, then the gradients of the checked leaves. */
static muster_status outputs_add(const mst_check_copy *copy, muster_expr *loss, const mst_check_leaf *leaves, int32_t count,
                                 muster_expr **wanted, int32_t *out_count) {
    const mst_graph *graph = copy->graph->graph;
    muster_expr **gradients = wanted + count;
    int32_t found = 0;
    for (int32_t i = 0; i < count; i++)
        if (leaves[i].checked) wanted[found++] = graph->inputs.items[i].node;
    MUSTER_TRY((muster_gradient)(loss, wanted, found, gradients));
    MUSTER_TRY(muster_graph_output(copy->graph, "loss", loss, MUSTER_MASTER));
    for (int32_t i = 0; i < found; i++) {
        char name[24];
        snprintf(name, sizeof name, "%d", (int)i);
        MUSTER_TRY(muster_graph_output(copy->graph, name, gradients[i], MUSTER_MASTER));
    }
    *out_count = 1 + found;
    return MUSTER_OK;
}

muster_status mst_check_compare(mst_check *check, const mst_check_copy *copy, muster_expr *loss, const mst_check_leaf *leaves,
                                int32_t count, mst_check_scope scope, mst_check_worst *worst) {
    comparison c = {.check = check, .leaves = leaves, .count = count, .scope = scope};
    *worst = (mst_check_worst){.leaf = -1};
    muster_expr **nodes = mst_alloc(2 * (size_t)(count + 1) * sizeof *nodes);
    c.in = mst_alloc(3 * (size_t)(count + 1) * sizeof *c.in); /* and out, and out without gradients */
    muster_status status = nodes && c.in ? MUSTER_OK : mst_out_of_memory(where, count);
    if (status == MUSTER_OK) status = outputs_add(copy, loss, leaves, count, nodes, &c.out_count);
    if (status == MUSTER_OK) status = mst_check_compile(copy, &c.function);
    if (status == MUSTER_OK) {
        c.out = c.in + count;
        status = compare_all(&c, worst);
        for (int32_t o = 1; o < c.out_count; o++) mst_free(c.out[o].data);
    }
    (void)muster_function_destroy(c.function);
    mst_free(c.in);
    mst_free(nodes);
    return status;
}
