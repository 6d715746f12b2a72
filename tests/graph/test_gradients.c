/* Every operation that has a gradient, against central differences in f64: the loss is a weighted
 * sum of its result, with other weights for every element. Second order: the same for the sum of
 * the squares of the gradients. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "graph_private.h"

#include <math.h>

enum { OPERANDS = 7, ELEMENTS = 64 };
typedef struct gradient_case {
    const char *operation;
    const char *shapes[OPERANDS]; /* digits: the sizes of the axes, "-": a scalar; i...: indices below 3 */
    muster_attribute attributes[5];
    double low, high; /* of the elements; kinks lie outside */
    int32_t first_order_only;
} gradient_case;

/* On GPUs the groups of hundreds of graphs are compiled with --full only. test_cuda_groups has each
 * operation in a group. */
static muster_function *compile(muster_graph *graph) {
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.unfused = on_gpus() && !test_is_full();
    assert_ok(muster_graph_compile(graph, &options, &function));
    return function;
}

static const gradient_case cases[] = {
    {"leaky_relu", {"23"}, {NUMBER("alpha", 0.1)}, .low = 0.2, .high = 2},
    {"leaky_relu", {"23"}, {NUMBER("alpha", 0.1)}, .low = -2, .high = -0.2},
    {"elu", {"23"}, {NUMBER("alpha", 1.5)}, .low = 0.2, .high = 2},
    {"elu", {"23"}, {NUMBER("alpha", 1.5)}, .low = -2, .high = -0.2},
    {"celu", {"23"}, {NUMBER("alpha", 1.5)}, .low = 0.2, .high = 2},
    {"celu", {"23"}, {NUMBER("alpha", 1.5)}, .low = -2, .high = -0.2},
    {"selu", {"23"}, .low = 0.2, .high = 2},
    {"selu", {"23"}, .low = -2, .high = -0.2},
    {"hard_sigmoid", {"23"}, {NUMBER("alpha", 0.2), NUMBER("beta", 0.5)}, .low = -2, .high = 2},
    {"hard_sigmoid", {"23"}, {NUMBER("alpha", 0.2), NUMBER("beta", 0.5)}, .low = 3, .high = 5},
    {"hard_swish", {"23"}, .low = -2, .high = 2},
    {"hard_swish", {"23"}, .low = 4, .high = 6},
    {"mish", {"23"}, .low = -2, .high = 2},
    {"softsign", {"23"}, .low = 0.2, .high = 2},
    {"std", {"234"}, {ENTRIES("axis", 0, 2)}, .low = -2, .high = 2},
    {"norm", {"234"}, {NUMBER("ord", 2), ENTRIES("axis", 1)}, .low = -2, .high = 2},
    {"norm", {"234"}, .low = -2, .high = 2},
    {"norm", {"23"}, {NUMBER("ord", 1), INTEGER("keepdims", 1)}, .low = 0.2, .high = 2},
    {"norm", {"23"}, {NUMBER("ord", 3)}, .low = 0.2, .high = 2},
    {"norm", {"23"}, {NUMBER("ord", INFINITY), ENTRIES("axis", 0)}, .low = 0.2, .high = 2},
    {"ravel", {"234"}, .low = -2, .high = 2},
    {"outer", {"22", "3"}, .low = -2, .high = 2},
    {"moveaxis", {"234"}, {ENTRIES("source", 0, -1), ENTRIES("destination", 1, 0)}, .low = -2, .high = 2},
    {"split", {"26"}, {INTEGER("sections", 3), INTEGER("index", 1), INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"tile", {"23"}, {ENTRIES("reps", 2, 1, 3)}, .low = -2, .high = 2},
    {"repeat", {"234"}, {INTEGER("repeats", 2), INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"repeat", {"23"}, {INTEGER("repeats", 3), INTEGER("axis", MUSTER_NONE)}, .low = -2, .high = 2},
    {"diagonal", {"34"}, {INTEGER("offset", 1)}, .low = -2, .high = 2},
    {"diagonal", {"324"}, {INTEGER("offset", -1), INTEGER("axis1", 2), INTEGER("axis2", 0)}, .low = -2, .high = 2},
    {"trace", {"333"}, .low = -2, .high = 2},
    {"einsum", {"23", "34"}, {WORDS("subscripts", "ij,jk")}, .low = -2, .high = 2},
    {"einsum", {"223", "234"}, {WORDS("subscripts", "bij, bjk -> kbi")}, .low = -2, .high = 2},
    {"einsum", {"234", "42"}, {WORDS("subscripts", "abc,ca->b")}, .low = -2, .high = 2},
    {"einsum", {"333"}, {WORDS("subscripts", "iij->ij")}, .low = -2, .high = 2},
    {"einsum", {"3", "2"}, {WORDS("subscripts", "i,j->ji")}, .low = -2, .high = 2},
    {"take_along_axis", {"34", "i24"}, {INTEGER("axis", 0)}, .low = -2, .high = 2},
    {"take_along_axis", {"234", "i232"}, {INTEGER("axis", -1)}, .low = -2, .high = 2},
    {"add_along_axis", {"54", "i54"}, {ENTRIES("size", 3), INTEGER("axis", 0)}, .low = -2, .high = 2},
    {"scatter_add", {"252", "i5"}, {ENTRIES("rows", 3), INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"embedding", {"34", "i22"}, .low = -2, .high = 2},
    {"mean_squared_error", {"23", "3"}, {ENTRIES("axis", 0)}, .low = -2, .high = 2},
    {"dropout", {"25", "i-"}, {NUMBER("p", 0.5), INTEGER("seed", 1)}, .low = -2, .high = 2},
    {"huber", {"23", "23"}, {NUMBER("delta", 5)}, .low = -2, .high = 2},
    {"huber", {"23", "-"}, {NUMBER("delta", 0.05)}, .low = -2, .high = 2},
    {"hinge", {"23", "23"}, .low = -0.9, .high = 0.9},
    {"hinge", {"23", "23"}, .low = 1.1, .high = 2},
    {"sigmoid_cross_entropy", {"23", "23"}, .low = -2, .high = 2},
    {"negative_log_likelihood", {"53", "i5"}, {INTEGER("ignore", MUSTER_NONE)}, .low = -2, .high = 2},
    {"cross_entropy", {"233", "i23"}, {INTEGER("ignore", 1)}, .low = -2, .high = 2},
    {"negative", {"23"}, .low = -2, .high = 2},
    {"absolute", {"23"}, .low = 0.2, .high = 2},
    {"absolute", {"23"}, .low = -2, .high = -0.2},
    {"square", {"23"}, .low = -2, .high = 2},
    {"sqrt", {"23"}, .low = 0.5, .high = 2},
    {"exp", {"23"}, .low = -2, .high = 2},
    {"log", {"23"}, .low = 0.5, .high = 2},
    {"tanh", {"23"}, .low = -2, .high = 2},
    {"sigmoid", {"23"}, .low = -2, .high = 2},
    {"relu", {"23"}, .low = 0.2, .high = 2},
    {"relu", {"23"}, .low = -2, .high = -0.2},
    {"reciprocal", {"23"}, .low = 0.5, .high = 2},
    {"softplus", {"23"}, .low = -2, .high = 2},
    {"sin", {"23"}, .low = -2, .high = 2},
    {"cos", {"23"}, .low = -2, .high = 2},
    {"tan", {"23"}, .low = -1, .high = 1},
    {"asin", {"23"}, .low = -0.7, .high = 0.7},
    {"acos", {"23"}, .low = -0.7, .high = 0.7},
    {"atan", {"23"}, .low = -2, .high = 2},
    {"sinh", {"23"}, .low = -2, .high = 2},
    {"cosh", {"23"}, .low = -2, .high = 2},
    {"erf", {"23"}, .low = -2, .high = 2},
    {"log1p", {"23"}, .low = -0.5, .high = 2},
    {"expm1", {"23"}, .low = -2, .high = 2},
    {"log2", {"23"}, .low = 0.5, .high = 2},
    {"exp2", {"23"}, .low = -2, .high = 2},
    {"log10", {"23"}, .low = 0.5, .high = 2},
    {"rsqrt", {"23"}, .low = 0.5, .high = 2},
    {"gelu", {"23"}, .low = -2, .high = 2},
    {"gelu_derivative", {"23"}, .low = -2, .high = 2},
    {"silu", {"23"}, .low = -2, .high = 2},
    {"sign", {"23"}, .low = 0.2, .high = 2},
    {"floor", {"23"}, .low = 0.2, .high = 0.8},
    {"ceil", {"23"}, .low = 0.2, .high = 0.8},
    {"round", {"23"}, .low = 0.6, .high = 1.4},
    {"trunc", {"23"}, .low = 0.2, .high = 0.8},
    {"var", {"234"}, {ENTRIES("axis", 0, 2)}, .low = -2, .high = 2},
    {"var", {"23"}, {INTEGER("keepdims", 1)}, .low = -2, .high = 2},
    {"logsumexp", {"234"}, {ENTRIES("axis", 1)}, .low = -2, .high = 2},
    {"logsumexp", {"23"}, {ENTRIES("axis", 1), INTEGER("keepdims", 1)}, .low = -2, .high = 2},
    {"softmax", {"23"}, {ENTRIES("axis", -1)}, .low = -2, .high = 2},
    {"log_softmax", {"23"}, {ENTRIES("axis", 0)}, .low = -2, .high = 2},
    {"swapaxes", {"234"}, {INTEGER("axis1", 0), INTEGER("axis2", -1)}, .low = -2, .high = 2},
    {"flip", {"23"}, {ENTRIES("axis", 1)}, .low = -2, .high = 2},
    {"stack", {"23", "23", "23"}, {INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"add", {"23", "3"}, .low = -2, .high = 2},
    {"subtract", {"3", "23"}, .low = -2, .high = 2},
    {"multiply", {"21", "13"}, .low = -2, .high = 2},
    {"divide", {"23", "-"}, .low = 0.5, .high = 2},
    {"maximum", {"23", "3"}, .low = -2, .high = 2},
    {"minimum", {"23", "21"}, .low = -2, .high = 2},
    {"power", {"23", "3"}, .low = 0.5, .high = 2},
    {"remainder", {"23", "3"}, .low = 0.6, .high = 0.9},
    {"fmod", {"23", "3"}, .low = 0.6, .high = 0.9},
    {"floor_divide", {"23", "3"}, .low = 0.6, .high = 0.9},
    {"atan2", {"23", "3"}, .low = 0.5, .high = 2},
    {"hypot", {"21", "13"}, .low = 0.5, .high = 2},
    {"softmax", {"234"}, {ENTRIES("axis", 1)}, .low = -2, .high = 2},
    {"softmax", {"-"}, .low = -2, .high = 2},
    {"log_softmax", {"23"}, {ENTRIES("axis", 1)}, .low = -2, .high = 2},
    {"log_softmax", {"234"}, {ENTRIES("axis", 0, 2)}, .low = -2, .high = 2},
    {"logsumexp", {"23"}, {ENTRIES("axis", -1)}, .low = -2, .high = 2},
    {"logsumexp", {"23"}, .low = -2, .high = 2},
    {"cumsum", {"234"}, {INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"sort", {"25"}, .low = -2, .high = 2},
    {"top_k", {"225"}, {ENTRIES("k", 3)}, .low = -2, .high = 2},
    {"tril", {"234"}, .low = -2, .high = 2},
    {"triu", {"33"}, {INTEGER("k", 1)}, .low = -2, .high = 2},
    {"clip", {"23"}, {NUMBER("low", -1), NUMBER("high", 1)}, .low = -0.9, .high = 0.9},
    {"clip", {"23"}, {NUMBER("low", -1), NUMBER("high", 1)}, .low = 1.1, .high = 2},
    {"relu_gradient", {"23", "23"}, .low = 0.2, .high = 2},
    {"sum", {"234"}, .low = -2, .high = 2},
    {"sum", {"234"}, {ENTRIES("axis", 1)}, .low = -2, .high = 2},
    {"sum", {"234"}, {ENTRIES("axis", 0, -1), INTEGER("keepdims", 1)}, .low = -2, .high = 2},
    {"mean", {"234"}, .low = -2, .high = 2},
    {"mean", {"234"}, {ENTRIES("axis", 2, 0)}, .low = -2, .high = 2},
    {"max", {"234"}, {ENTRIES("axis", 1)}, .low = -2, .high = 2},
    {"max", {"23"}, .low = -2, .high = 2},
    {"min", {"234"}, {ENTRIES("axis", 0, 2)}, .low = -2, .high = 2},
    {"prod", {"23"}, .low = -2, .high = 2},
    {"prod", {"234"}, {ENTRIES("axis", 0, 2), INTEGER("keepdims", 1)}, .low = -1.5, .high = 1.5},
    {"cumprod", {"234"}, {INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"var", {"234"}, {ENTRIES("axis", 0, 2), INTEGER("ddof", 1)}, .low = -2, .high = 2},
    {"cumprod", {"42"}, {INTEGER("axis", 0)}, .low = -2, .high = 2},
    {"sort", {"234"}, {ENTRIES("axis", 1), INTEGER("descending", 1)}, .low = -2, .high = 2},
    {"logaddexp", {"23", "3"}, .low = -2, .high = 2},
    {"logaddexp2", {"23", "23"}, .low = -2, .high = 2},
    {"log_sigmoid", {"23"}, .low = -2, .high = 2},
    {"matmul", {"23", "34"}, .low = -2, .high = 2},
    {"matmul", {"3", "34"}, .low = -2, .high = 2},
    {"matmul", {"23", "3"}, .low = -2, .high = 2},
    {"matmul", {"3", "3"}, .low = -2, .high = 2},
    {"matmul", {"223", "34"}, .low = -2, .high = 2},
    {"matmul", {"1223", "2132"}, .low = -2, .high = 2},
    {"dot", {"-", "23"}, .low = -2, .high = 2},
    {"einsum", {"223", "234"}, {WORDS("subscripts", "...ij,...jk->...ki")}, .low = -2, .high = 2},
    {"einsum", {"23", "34", "14"}, {WORDS("subscripts", "ij,jk,ik->k")}, .low = -2, .high = 2},
    {"inner", {"23", "43"}, .low = -2, .high = 2},
    {"max_pool", {"2145"}, {ENTRIES("size", 2, 3), ENTRIES("stride", 1, 2), ENTRIES("padding", 1, 0, 0, 1)}, .low = -2, .high = 2},
    {"max_pool",
     {"129"},
     {ENTRIES("size", 3), ENTRIES("dilation", 2), ENTRIES("padding", 2), INTEGER("ceil_mode", 1)},
     .low = -2,
     .high = 2},
    {"average_pool",
     {"1254"},
     {ENTRIES("size", 3), ENTRIES("stride", 2), ENTRIES("padding", 1), INTEGER("ceil_mode", 1)},
     .low = -2,
     .high = 2},
    {"average_pool",
     {"12333"},
     {ENTRIES("size", 2, 1, 3), ENTRIES("padding", 1, 0, 1), INTEGER("exclude_padding", 1)},
     .low = -2,
     .high = 2},
    {"l2_pool", {"135"}, {ENTRIES("size", 3), ENTRIES("stride", 2), ENTRIES("padding", 1)}, .low = 0.5, .high = 2},
    {"global_max_pool", {"2234"}, .low = -2, .high = 2},
    {"global_average_pool", {"2234"}, .low = -2, .high = 2},
    {"attention", {"2232", "2242", "2243"}, .low = -2, .high = 2, .first_order_only = 1},
    {"attention", {"243", "233", "232"}, {NUMBER("scale", -0.5), INTEGER("causal", 1)}, .low = -2, .high = 2, .first_order_only = 1},
    {"attention", {"2232", "2242", "2243", "34"}, .low = -2, .high = 2, .first_order_only = 1},
    {"attention", {"1432", "1232", "1231", "413"}, {INTEGER("causal", 1)}, .low = -2, .high = 2, .first_order_only = 1},
    {"rnn", {"343", "23", "22", "2", "2"}, {INTEGER("reverse", 1)}, .low = -2, .high = 2, .first_order_only = 1},
    {"rnn", {"232", "22", "22", "2"}, {INTEGER("relu", 1)}, .low = 0.1, .high = 1, .first_order_only = 1},
    {"lstm", {"343", "83", "82", "8", "32", "12", "i3"}, .low = -2, .high = 2, .first_order_only = 1},
    {"lstm", {"233", "43", "41", "4"}, {INTEGER("reverse", 1)}, .low = -2, .high = 2, .first_order_only = 1},
    {"gru", {"343", "63", "62", "8", "32", "i3"}, {INTEGER("reverse", 1)}, .low = -2, .high = 2, .first_order_only = 1},
    {"layer_norm", {"23", "3", "3"}, {NUMBER("epsilon", 0.1)}, .low = -2, .high = 2},
    {"layer_norm", {"223", "23"}, {INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"rms_norm", {"23", "3"}, .low = -2, .high = 2},
    {"group_norm", {"243", "4", "4"}, {INTEGER("groups", 2)}, .low = -2, .high = 2},
    {"instance_norm", {"234", "3", "3"}, .low = -2, .high = 2},
    {"batch_norm", {"43", "3", "3", "3", "3"}, {INTEGER("training", 1), NUMBER("epsilon", 0.1)}, .low = -2, .high = 2},
    {"batch_norm", {"232", "3", "3", "3"}, {INTEGER("training", 1)}, .low = -2, .high = 2},
    {"batch_norm", {"23122", "3", "3"}, {INTEGER("training", 1)}, .low = -2, .high = 2},
    {"batch_norm", {"232", "3", "3", "3", "3"}, .low = 0.5, .high = 2},
    {"batch_norm_mean", {"243", "4"}, {NUMBER("momentum", 0.25)}, .low = -2, .high = 2},
    {"batch_norm_variance", {"43", "3", "3"}, {NUMBER("momentum", 0.25), INTEGER("ddof", 1)}, .low = -2, .high = 2},
    {"local_response_norm", {"253"}, {INTEGER("size", 4), NUMBER("alpha", 2)}, .low = -2, .high = 2},
    {"convolution", {"1244", "2232", "2"}, {ENTRIES("stride", 2, 1), ENTRIES("padding", 1, 0, 0, 1)}, .low = -2, .high = 2},
    {"convolution", {"245", "422"}, {INTEGER("groups", 2), ENTRIES("dilation", 2), ENTRIES("padding", 1)}, .low = -2, .high = 2},
    {"convolution", {"1323", "3121"}, {INTEGER("groups", 3)}, .low = -2, .high = 2},
    {"convolution_transpose", {"123", "232", "3"}, {ENTRIES("stride", 2), ENTRIES("output_padding", 1)}, .low = -2, .high = 2},
    {"reshape", {"234"}, {ENTRIES("shape", 4, MUSTER_INFER)}, .low = -2, .high = 2},
    {"broadcast_to", {"21"}, {ENTRIES("shape", 3, 2, 4)}, .low = -2, .high = 2},
    {"expand_dims", {"23"}, {INTEGER("axis", -1)}, .low = -2, .high = 2},
    {"squeeze", {"213"}, .low = -2, .high = 2},
    {"transpose", {"234"}, {ENTRIES("axes", 1, 2, 0)}, .low = -2, .high = 2},
    {"slice", {"34"}, {ENTRIES("start", 1, MUSTER_NONE), ENTRIES("stop", MUSTER_NONE, 0), ENTRIES("step", 1, -2)}, .low = -2, .high = 2},
    {"pad", {"23"}, {ENTRIES("before", 1, 0), ENTRIES("after", 0, 2)}, .low = -2, .high = 2},
    {"concatenate", {"23", "43", "13"}, .low = -2, .high = 2},
    {"concatenate", {"23", "21"}, {INTEGER("axis", 1)}, .low = -2, .high = 2},
    {"take", {"34", "i5"}, .low = -2, .high = 2},
    {"take", {"43", "i22"}, {INTEGER("axis", -1)}, .low = -2, .high = 2},
    {"scatter_add", {"52", "i5"}, {ENTRIES("rows", 3)}, .low = -2, .high = 2},
    {"softmax_cross_entropy", {"53", "i5"}, .low = -2, .high = 2, .first_order_only = 1},
};
enum { CASES = sizeof cases / sizeof *cases };

/* `where` and `cast` have cases of their own below, since their operands have several dtypes. */
static const char *const elsewhere[] = {"where", "cast", "stop_gradient"};

typedef struct operand {
    muster_expr *node;
    double values[ELEMENTS];
    int64_t labels[ELEMENTS];
    muster_tensor tensor;
    int64_t count;
    int32_t index;
} operand;

static uint64_t state_of_numbers;
static double next_number(double low, double high) {
    state_of_numbers = state_of_numbers * 6364136223846793005ull + 1442695040888963407ull;
    return low + (high - low) * (double)(state_of_numbers >> 11) * 0x1p-53;
}

static void operand_make(muster_graph *graph, operand *o, const char *shape, const char *name, double low, double high) {
    int64_t sizes[MUSTER_MAX_DIMS];
    int32_t ndim = 0;
    o->index = *shape == 'i';
    if (o->index) shape++;
    if (*shape == '-') shape++;
    o->count = 1;
    for (; *shape; shape++) {
        sizes[ndim] = *shape - '0';
        o->count *= sizes[ndim++];
    }
    assert_true(o->count <= ELEMENTS);
    for (int64_t i = 0; i < o->count; i++) {
        o->values[i] = next_number(low, high);
        o->labels[i] = (int64_t)next_number(0, 3);
    }
    o->tensor = o->index ? muster_tensor_make(MUSTER_I64, o->labels, ndim, sizes) : muster_tensor_make(MUSTER_F64, o->values, ndim, sizes);
    o->node = muster_graph_input(graph, name, o->index ? MUSTER_I64 : MUSTER_F64, ndim, sizes, MUSTER_BROADCAST);
}

/* sum(x w), w of the shape of x; w is the last input of the function. */
static muster_expr *weighted(muster_graph *graph, muster_expr *x, operand *w) {
    char shape[MUSTER_MAX_DIMS + 1] = "-";
    for (int32_t d = 0; d < x->type.ndim; d++) shape[d] = (char)('0' + mst_dim_constant(x->graph, x->type.dims[d]));
    operand_make(graph, w, shape, "w", 0.5, 1.5);
    return APPLY(graph, "sum", APPLY(graph, "multiply", x, w->node));
}

typedef struct checked {
    muster_function *function;
    operand *operands; /* and w behind them */
    int32_t count;
    const char *name;
} checked;

static double loss_of(const checked *c) {
    muster_tensor in[OPERANDS + 1], out[1 + OPERANDS];
    double loss;
    for (int32_t i = 0; i <= c->count; i++) in[i] = c->operands[i].tensor;
    for (int32_t i = 0; i <= c->count; i++) out[i] = muster_tensor_none();
    out[0] = muster_f64(&loss);
    assert_ok(muster_function_call(c->function, in, c->count + 1, out, muster_function_port_count(c->function) - c->count - 1, NULL));
    return loss;
}

/* Every element of every operand: the gradient is that of differences to 9 digits. */
static int32_t compare(const checked *c) {
    muster_tensor in[OPERANDS + 1], out[1 + OPERANDS];
    double loss, gradients[OPERANDS][ELEMENTS];
    int32_t outputs = 1, compared = 0;
    for (int32_t i = 0; i <= c->count; i++) in[i] = c->operands[i].tensor;
    out[0] = muster_f64(&loss);
    for (int32_t i = 0; i < c->count; i++) {
        if (c->operands[i].index) continue;
        out[outputs] = c->operands[i].tensor;
        out[outputs++].data = gradients[i];
    }
    assert_ok(muster_function_call(c->function, in, c->count + 1, out, outputs, NULL));
    for (int32_t i = 0; i < c->count; i++)
        for (int64_t e = 0; !c->operands[i].index && e < c->operands[i].count; e++, compared++) {
            double *x = &c->operands[i].values[e], value = *x, sides[4];
            static const double steps[4] = {-2e-3, -1e-3, 1e-3, 2e-3};
            for (int32_t s = 0; s < 4; s++) {
                *x = value + steps[s];
                sides[s] = loss_of(c);
            }
            *x = value;
            const double difference = (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / 12e-3; /* error O(h^4) */
            if (fabs(difference - gradients[i][e]) > 1e-8 * (1 + fabs(difference)))
                fail_msg("%s: operand %d, element %d: gradient %.12g, differences %.12g", c->name, (int)i, (int)e, gradients[i][e],
                         difference);
        }
    return compared;
}

/* order 2: the loss is the sum of the squares of the gradients of order 1. */
static int32_t check_case(muster_runtime *runtime, const gradient_case *c, int32_t order) {
    operand operands[OPERANDS + 1];
    muster_graph *graph;
    muster_expr *nodes[OPERANDS], *floats[OPERANDS], *gradients[OPERANDS];
    checked check = {.operands = operands, .name = c->operation};
    int32_t wanted = 0;
    assert_ok(muster_graph_create(runtime, "checked", &graph));
    state_of_numbers = 1;
    for (; check.count < OPERANDS && c->shapes[check.count]; check.count++) {
        static const char *const names[OPERANDS] = {"a", "b", "c", "d", "e", "f", "g"};
        operand_make(graph, &operands[check.count], c->shapes[check.count], names[check.count], c->low, c->high);
        nodes[check.count] = operands[check.count].node;
        if (!operands[check.count].index) floats[wanted++] = nodes[check.count];
    }
    muster_expr *loss = weighted(graph, apply(graph, c->operation, nodes, check.count, c->attributes), &operands[check.count]);
    for (int32_t o = 0; o < order; o++) {
        assert_ok(muster_gradient(loss, floats, wanted, gradients));
        if (o + 1 == order) break;
        loss = APPLY(graph, "sum", APPLY(graph, "square", gradients[0]));
        for (int32_t i = 1; i < wanted; i++) loss = APPLY(graph, "add", loss, APPLY(graph, "sum", APPLY(graph, "square", gradients[i])));
    }
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    for (int32_t i = 0; i < wanted; i++) {
        static const char *const names[OPERANDS] = {"da", "db", "dc", "dd", "de", "df", "dg"};
        assert_ok(muster_graph_output(graph, names[i], gradients[i], MUSTER_MASTER));
    }
    check.function = compile(graph);
    assert_ok(muster_graph_destroy(graph));
    const int32_t compared = compare(&check);
    assert_ok(muster_function_destroy(check.function));
    return compared;
}

static void gradients_are_those_of_differences(void **state) {
    muster_runtime *runtime = *state;
    int32_t compared = 0;
    for (int32_t i = 0; i < CASES; i++) {
        const int32_t of_case = check_case(runtime, &cases[i], 1);
        assert_true(of_case > 0);
        compared += of_case;
    }
    assert_int_equal(compared, 3220);
}

static void second_gradients_are_those_of_differences(void **state) {
    muster_runtime *runtime = *state;
    int32_t checked = 0;
    for (int32_t i = 0; i < CASES; i++) {
        if (cases[i].first_order_only) continue;
        (void)check_case(runtime, &cases[i], 2);
        checked++;
    }
    assert_int_equal(checked, CASES - 10);
}

/* An operation without a case, or without a gradient and a reason, fails here. */
static void every_operation_has_a_case_or_a_reason(void **state) {
    (void)state;
    int32_t with = 0, without = 0;
    for (int32_t id = 0; id < MST_OPERATORS; id++) {
        const mst_operator *op = mst_operators[id];
        bool found = false;
        assert_true(op->gradient || op->no_gradient || (op->expand && !op->run)); /* a composite has those of its parts */
        if (!op->gradient && op->no_gradient) {
            without++;
            continue;
        }
        for (int32_t i = 0; i < CASES; i++) found |= strcmp(cases[i].operation, op->name) == 0;
        for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) found |= strcmp(elsewhere[i], op->name) == 0;
        found |= (op->flags & MST_OPERATOR_HIDDEN) != 0; /* part of a case of another */
        if (!found) fail_msg("%s has no case", op->name);
        with++;
    }
    assert_int_equal(with + without, MST_OPERATORS);
    assert_true(with > 30);
}

/* where(a > b, a b, a + b), and a gradient through a conversion to f32 and back. */
static void gradients_pass_selections_and_conversions(void **state) {
    muster_runtime *runtime = *state;
    muster_graph *graph;
    operand operands[3];
    muster_expr *gradients[2];
    checked check = {.operands = operands, .count = 2, .name = "where"};
    state_of_numbers = 7;
    assert_ok(muster_graph_create(runtime, "checked", &graph));
    operand_make(graph, &operands[0], "23", "a", -2, 2);
    operand_make(graph, &operands[1], "3", "b", -2, 2);
    muster_expr *a = operands[0].node, *b = operands[1].node, *both[2] = {a, b};
    muster_expr *chosen = APPLY(graph, "where", APPLY(graph, "greater", a, b), APPLY(graph, "multiply", a, b), APPLY(graph, "add", a, b));
    muster_expr *loss = weighted(graph, chosen, &operands[2]);
    assert_ok(muster_gradient(loss, both, 2, gradients));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "da", gradients[0], MUSTER_MASTER));
    assert_ok(muster_graph_output(graph, "db", gradients[1], MUSTER_MASTER));
    check.function = compile(graph);
    assert_int_equal(compare(&check), 9);
    assert_ok(muster_function_destroy(check.function));
    assert_ok(muster_graph_destroy(graph));

    /* d/dx sum(f64(f32(x))) is 1 exactly */
    double x[3] = {0.5, 1.25, -3}, dx[3] = {0};
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "conversion", &graph));
    muster_expr *in = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(3), MUSTER_BROADCAST), *d;
    muster_expr *narrow = apply(graph, "cast", &in, 1, ATTRIBUTES(INTEGER("dtype", MUSTER_F32)));
    muster_expr *wide = apply(graph, "cast", &narrow, 1, ATTRIBUTES(INTEGER("dtype", MUSTER_F64)));
    assert_ok(muster_gradient(APPLY(graph, "sum", wide), &in, 1, &d));
    assert_ok(muster_graph_output(graph, "dx", d, MUSTER_MASTER));
    function = compile(graph);
    const muster_tensor input = muster_f64(x, 3), output = muster_f64(dx, 3);
    assert_ok(muster_function_call(function, &input, 1, &output, 1, NULL));
    for (int32_t i = 0; i < 3; i++) assert_true(dx[i] == 1);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

/* No expression has a matrix of the shape of w for each of the rows, where rows are the first axis.
 * Where they are not, each device needs its rows of the stack, which stays one. */
static void a_matrix_of_a_stack_has_one_product_as_its_gradient(void **state) {
    for (int32_t rows_first = 0; rows_first < 2; rows_first++) {
        muster_graph *graph;
        assert_ok(muster_graph_create(*state, "stack", &graph));
        (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, 64), MUSTER_SCATTER);
        muster_expr *w = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(64, 5), MUSTER_BROADCAST), *d;
        muster_expr *loss = muster_expr_parse(graph, rows_first ? "sum((x @ w) ** 2)" : "sum((swapaxes(x, 0, 1) @ w) ** 2)");
        assert_ok(muster_gradient(loss, &w, 1, &d));
        assert_string_equal(muster_expr_shape(d), "(64, 5)");
        const char *stack = rows_first ? "(rows, 64, 5)" : "(3, 64, 5)";
        int32_t stacks = 0;
        for (int32_t id = 0; id < d->graph->node_count; id++) stacks += strcmp(muster_expr_shape(d->graph->nodes[id]), stack) == 0;
        assert_int_equal(stacks, rows_first ? 0 : 1);
        assert_ok(muster_graph_destroy(graph));
    }
}

static void operations_without_a_gradient_say_why(void **state) {
    muster_runtime *runtime = *state;
    muster_graph *graph;
    muster_expr *d;
    assert_ok(muster_graph_create(runtime, "refused", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    muster_expr *q = apply(graph, "reshape", &x, 1, ATTRIBUTES(ENTRIES("shape", 1, 3)));
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "attention", q, q, q)), &x, 1, &d));
    assert_refused(muster_gradient(APPLY(graph, "sum", APPLY(graph, "square", d)), &x, 1, &d), MUSTER_UNSUPPORTED,
                   "muster_gradient: loss: expected operations with a gradient, received muster_expr_attention_gradient: for second "
                   "derivatives write softmax(scale * q @ swapaxes(k, -1, -2), axis=-1) @ v in place of attention");
    assert_refused(muster_graph_status(graph), MUSTER_UNSUPPORTED, "received muster_expr_attention_gradient");
    assert_int_equal(muster_expr_ndim(d), -1);
    assert_ok(muster_graph_destroy(graph));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_differences),     cmocka_unit_test(second_gradients_are_those_of_differences),
        cmocka_unit_test(every_operation_has_a_case_or_a_reason), cmocka_unit_test(gradients_pass_selections_and_conversions),
        cmocka_unit_test(operations_without_a_gradient_say_why),  cmocka_unit_test(a_matrix_of_a_stack_has_one_product_as_its_gradient),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
