/* Activations that are made of other operations, with ONNX's words. */
#include "composite_private.h"

#include <math.h>

#define ACTIVATION(op_name, text, ...)                                                              \
    static muster_expr *make_##op_name(mst_draft *draft);                                           \
    static muster_expr *expand_##op_name(mst_draft *draft) {                                        \
        if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK) return draft->graph->error;  \
        return make_##op_name(draft);                                                               \
    }                                                                                               \
    const mst_operator mst_operator_##op_name = {                                                   \
        MST_ANY_OPERATOR(op_name, text), .operands = {"x"},          .dtypes = MST_FLOAT_DTYPES,    \
        .attributes = {__VA_ARGS__},     .expand = expand_##op_name, .infer = mst_draft_composite}; \
    static muster_expr *make_##op_name(mst_draft *draft)

static muster_expr *clip_to(muster_expr *x, double low, double high) {
    return mst_apply(x->graph, MST_OPERATOR_clip, &x, 1, (mst_graph_value[]){{.number = low}, {.number = high}});
}

/* x where x > 0, else `negative`, whose gradient is that of x = 0 too. */
static muster_expr *where_positive(mst_draft *draft, muster_expr *positive, muster_expr *negative) {
    return E(where, E(greater, X, NUMBER(0)), positive, negative);
}

/* exp of a large x is not computed: 0 times infinity would be the gradient. */
static muster_expr *at_most_0(mst_draft *draft) { return E(minimum, X, NUMBER(0)); }

ACTIVATION(leaky_relu, "x where x > 0, else alpha x", {"alpha", MST_VALUE_NUMBER, .number = 0.01}) {
    return where_positive(draft, X, E(multiply, X, NUMBER(draft->values[0].number)));
}

ACTIVATION(elu, "x where x > 0, else alpha (exp(x) - 1)", {"alpha", MST_VALUE_NUMBER, .number = 1}) {
    return where_positive(draft, X, E(multiply, E(expm1, at_most_0(draft)), NUMBER(draft->values[0].number)));
}

ACTIVATION(celu, "x where x > 0, else alpha (exp(x / alpha) - 1)", {"alpha", MST_VALUE_NUMBER, .number = 1}) {
    const double alpha = draft->values[0].number;
    if (!(alpha > 0)) {
        (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "alpha: expected a number above 0, received %g", alpha);
        return draft->graph->error;
    }
    return where_positive(draft, X, E(multiply, E(expm1, E(divide, at_most_0(draft), NUMBER(alpha))), NUMBER(alpha)));
}

/* Klambauer, Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks", 2017. */
ACTIVATION(selu, "1.0507009873554805 elu(x, 1.6732632423543772)", {0}) {
    const double scale = 1.0507009873554805, alpha = 1.6732632423543772;
    return where_positive(draft, E(multiply, X, NUMBER(scale)), E(multiply, E(expm1, at_most_0(draft)), NUMBER(scale * alpha)));
}

ACTIVATION(hard_sigmoid, "x alpha + beta, limited to [0, 1]", {"alpha", MST_VALUE_NUMBER, .number = 0.2},
           {"beta", MST_VALUE_NUMBER, .number = 0.5}) {
    return clip_to(E(add, E(multiply, X, NUMBER(draft->values[0].number)), NUMBER(draft->values[1].number)), 0, 1);
}

ACTIVATION(hard_swish, "x (x / 6 + 1/2, limited to [0, 1])", {0}) {
    return E(multiply, X, clip_to(E(add, E(multiply, X, NUMBER(1. / 6)), NUMBER(0.5)), 0, 1));
}

/* From 40 on it is x, in every dtype; the product would have the gradient 0 times infinity there.
 * */
ACTIVATION(mish, "x tanh(log(1 + exp(x)))", {0}) {
    muster_expr *bounded = E(minimum, X, NUMBER(40));
    return E(where, E(greater, X, NUMBER(40)), X, E(multiply, bounded, E(tanh, E(softplus, bounded))));
}

ACTIVATION(softsign, "x / (1 + |x|)", {0}) {
    /* f16 and bf16 in f32: the two parts of its gradient are nearly equal where x is large */
    muster_expr *wide = mst_cast_to(X, mst_dtype_compute(X->type.dtype));
    return mst_cast_to(E(divide, wide, E(add, E(absolute, wide), mst_number(draft->graph, wide->type.dtype, 1))), X->type.dtype);
}
