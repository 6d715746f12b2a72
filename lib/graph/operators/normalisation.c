/* Normalisation: elements less their mean, over their deviation; made of other operations. A mean
 * over rows is one over the rows of all devices. Halves are normalised in f32, since the roundings
 * of their squares would be seen in the results. */
#include "normalisation_private.h"

enum { CHANNELS = MST_CHANNEL_AXIS };

static muster_expr *refused(mst_draft *draft, muster_status status, int32_t operand, const char *format, long long received) {
    (void)mst_draft_refuse(draft, status, operand, format, received);
    return draft->graph->error;
}

muster_expr *mst_epsilon_refused(mst_draft *draft, double epsilon) {
    (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "epsilon: expected a number from 0 on, received %g", epsilon);
    return draft->graph->error;
}

/* y times operand 1 plus operand 2, as far as they are given, each of these dims. In the dtype of
 * operand 0. */
static muster_expr *scaled(mst_draft *draft, muster_expr *y, int32_t ndim, const mst_dim *dims) {
    for (int32_t i = 1; i < draft->count && !mst_node_is_error(y); i++) {
        muster_expr *p = mst_cast_to(mst_reshape_to(draft->inputs[i], ndim, dims), y->type.dtype);
        y = i == 1 ? E(multiply, y, p) : E(add, y, p);
    }
    return mst_cast_to(y, X->type.dtype);
}

bool mst_parameters_fit(mst_draft *draft, const mst_type *wanted) {
    for (int32_t i = 1; i < draft->count; i++)
        if (mst_draft_dims(draft, i, wanted) != MUSTER_OK) return false;
    return true;
}

/* ---- over the last axes ---- */

static muster_expr *expand_last(mst_draft *draft, bool centred) {
    muster_dtype dtype;
    int32_t axis;
    int64_t axes[MUSTER_MAX_DIMS];
    const double epsilon = draft->values[1].number;
    if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK || mst_draft_axis(draft, 0, &axis) != MUSTER_OK) return draft->graph->error;
    if (!(epsilon >= 0)) return mst_epsilon_refused(draft, epsilon);
    mst_type last = X->type;
    last.ndim = X->type.ndim - axis;
    for (int32_t d = 0; d < last.ndim; d++) {
        last.dims[d] = X->type.dims[axis + d];
        axes[d] = axis + d;
    }
    if (!mst_parameters_fit(draft, &last)) return draft->graph->error;
    return scaled(draft, mst_normalised_rows(mst_cast_to(X, mst_dtype_compute(dtype)), MST_AXES(axes, last.ndim), centred, epsilon),
                  last.ndim, last.dims);
}

static muster_expr *expand_layer_norm(mst_draft *draft) { return expand_last(draft, true); }
static muster_expr *expand_rms_norm(mst_draft *draft) { return expand_last(draft, false); }

#define EPSILON \
    { "epsilon", MST_VALUE_NUMBER, .number = 1e-5 }
#define SCALE_AND_BIAS .operands = {"x", "scale", "bias"}, .optional = 2
#define NORM(expanding) .dtypes = MST_FLOAT_DTYPES, .expand = expanding, .infer = mst_draft_composite

const mst_operator mst_operator_layer_norm = {
    MST_ANY_OPERATOR(
        layer_norm,
        "(x - mean) / sqrt(variance + epsilon) over `axis` and all axes behind it, times scale, plus bias, which have the shape of "
        "these axes and may be missing"),
    SCALE_AND_BIAS, .attributes = {{"axis", MST_VALUE_INTEGER, .number = -1}, EPSILON}, NORM(expand_layer_norm)};

const mst_operator mst_operator_rms_norm = {
    MST_ANY_OPERATOR(
        rms_norm,
        "x / sqrt(mean(x x) + epsilon) over `axis` and all axes behind it, times scale, which has the shape of these axes and may "
        "be missing"),
    .operands = {"x", "scale"}, .optional = 1, .attributes = {{"axis", MST_VALUE_INTEGER, .number = -1}, EPSILON}, NORM(expand_rms_norm)};

/* ---- over the elements of channels ---- */

/* One number of a parameter for each channel. */
static muster_expr *scaled_by_channel(mst_draft *draft, muster_expr *y) {
    mst_type channels = X->type;
    channels.ndim = 1;
    channels.dims[0] = X->type.dims[CHANNELS];
    mst_dim dims[MUSTER_MAX_DIMS] = {channels.dims[0]};
    for (int32_t d = CHANNELS + 1; d < X->type.ndim; d++) dims[d - CHANNELS] = MST_DIM_ONE;
    return mst_parameters_fit(draft, &channels) ? scaled(draft, y, X->type.ndim - CHANNELS, dims) : draft->graph->error;
}

bool mst_has_channels(mst_draft *draft, int32_t least, int32_t most) {
    char received[MST_NODE_TEXT];
    if (X->type.ndim >= least && X->type.ndim <= most) return true;
    (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected %d to %d axes (rows, channels, ...), received %s", (int)least,
                           (int)most, mst_type_text(draft->graph, &X->type, received));
    return false;
}

static muster_expr *expand_group_norm(mst_draft *draft) {
    muster_dtype dtype;
    char received[MST_NODE_TEXT];
    const int64_t groups = draft->values[0].integer;
    const double epsilon = draft->values[1].number;
    mst_graph *graph = draft->graph;
    if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK || !mst_has_channels(draft, CHANNELS + 1, MUSTER_MAX_DIMS - 1)) return graph->error;
    if (groups < 1) return refused(draft, MUSTER_OUT_OF_RANGE, -1, "groups: expected a number from 1 on, received %lld", groups);
    if (!(epsilon >= 0)) return mst_epsilon_refused(draft, epsilon);
    const mst_type *x = &X->type;
    if (graph->dims[x->dims[CHANNELS]].factor % groups) {
        (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected channels that %lld groups divide, received %s", (long long)groups,
                               mst_type_text(graph, x, received));
        return graph->error;
    }
    const mst_dim count = mst_dim_number(graph, groups);
    mst_dim dims[MUSTER_MAX_DIMS] = {x->dims[0], count, mst_dim_divide(graph, x->dims[CHANNELS], count)};
    int64_t axes[MUSTER_MAX_DIMS] = {2};
    for (int32_t d = CHANNELS + 1; d < x->ndim; d++) {
        dims[d + 1] = x->dims[d];
        axes[d - CHANNELS] = d + 1;
    }
    muster_expr *in_groups = mst_reshape_to(mst_cast_to(X, mst_dtype_compute(dtype)), x->ndim + 1, dims);
    return scaled_by_channel(
        draft, mst_reshape_to(mst_normalised_rows(in_groups, MST_AXES(axes, x->ndim - CHANNELS), true, epsilon), x->ndim, x->dims));
}

const mst_operator mst_operator_group_norm = {
    MST_ANY_OPERATOR(
        group_norm,
        "(x - mean) / sqrt(variance + epsilon) for each row and each of `groups` groups of the channels of x (n, c, ...), times "
        "scale (c), plus bias (c), which may be missing"),
    SCALE_AND_BIAS, .attributes = {{"groups", MST_VALUE_INTEGER, .required = true}, EPSILON}, NORM(expand_group_norm)};

static muster_expr *expand_instance_norm(mst_draft *draft) {
    muster_dtype dtype;
    int64_t axes[MUSTER_MAX_DIMS];
    const double epsilon = draft->values[0].number;
    if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK || !mst_has_channels(draft, CHANNELS + 2, MUSTER_MAX_DIMS))
        return draft->graph->error;
    if (!(epsilon >= 0)) return mst_epsilon_refused(draft, epsilon);
    for (int32_t d = CHANNELS + 1; d < X->type.ndim; d++) axes[d - CHANNELS - 1] = d;
    return scaled_by_channel(
        draft, mst_normalised_rows(mst_cast_to(X, mst_dtype_compute(dtype)), MST_AXES(axes, X->type.ndim - CHANNELS - 1), true, epsilon));
}

const mst_operator mst_operator_instance_norm = {
    MST_ANY_OPERATOR(
        instance_norm,
        "(x - mean) / sqrt(variance + epsilon) for each row and each channel of x (n, c, ...), times scale (c), plus bias (c), "
        "which may be missing"),
    SCALE_AND_BIAS, .attributes = {EPSILON}, NORM(expand_instance_norm)};

/* ---- over neighbouring channels ---- */

static muster_expr *shifted(muster_expr *padded, int64_t by, int64_t channels) {
    const int64_t start[] = {MUSTER_NONE, by}, stop[] = {MUSTER_NONE, by + channels};
    return mst_apply(padded->graph, MST_OPERATOR_slice, &padded, 1,
                     (mst_graph_value[]){{.list = start, .count = 2}, {.list = stop, .count = 2}, {.count = 0}});
}

/* Krizhevsky and others, "ImageNet classification with deep convolutional neural networks", 2012,
 * section 3.3; alpha is divided by size, as in Caffe and PyTorch. */
static muster_expr *expand_local_response_norm(mst_draft *draft) {
    enum { SIZE, ALPHA, BETA, K };
    mst_graph *graph = draft->graph;
    char received[MST_NODE_TEXT];
    const mst_graph_value *v = draft->values;
    const int64_t size = v[SIZE].integer;
    if (mst_draft_dtype(draft, 0, MST_FLOAT_DTYPES) != MUSTER_OK || !mst_has_channels(draft, CHANNELS + 1, MUSTER_MAX_DIMS))
        return graph->error;
    if (size < 1) return refused(draft, MUSTER_OUT_OF_RANGE, -1, "size: expected a number of channels from 1 on, received %lld", size);
    const int64_t channels = mst_dim_constant(graph, X->type.dims[CHANNELS]);
    if (channels < 1) {
        (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected a known number of channels, received %s",
                               mst_type_text(graph, &X->type, received));
        return graph->error;
    }
    int64_t before[MUSTER_MAX_DIMS] = {0}, after[MUSTER_MAX_DIMS] = {0};
    before[CHANNELS] = size / 2 < channels ? size / 2 : channels - 1;
    after[CHANNELS] = (size - 1) / 2 < channels ? (size - 1) / 2 : channels - 1;
    muster_expr *x = mst_cast_to(X, mst_dtype_compute(X->type.dtype)), *padded = E(square, x), *sum = NULL;
    padded = mst_apply(graph, MST_OPERATOR_pad, &padded, 1,
                       (mst_graph_value[]){{.list = before, .count = X->type.ndim}, {.list = after, .count = X->type.ndim}});
    for (int64_t by = 0; by <= before[CHANNELS] + after[CHANNELS]; by++) {
        muster_expr *one = shifted(padded, by, channels);
        sum = sum ? E(add, sum, one) : one;
    }
    const muster_dtype dtype = mst_dtype_compute(X->type.dtype);
    muster_expr *base =
        E(add, E(multiply, sum, mst_number(graph, dtype, v[ALPHA].number / (double)size)), mst_number(graph, dtype, v[K].number));
    return mst_cast_to(E(multiply, x, E(power, base, mst_number(graph, dtype, -v[BETA].number))), X->type.dtype);
}

const mst_operator mst_operator_local_response_norm = {
    MST_ANY_OPERATOR(
        local_response_norm,
        "x / (k + alpha / size s) ** beta, where s is the sum of the squares of `size` channels of x (n, c, ...): this one, size "
        "/ 2 before it and (size - 1) / 2 behind it, as far as they exist"),
    .operands = {"x"},
    .attributes = {{"size", MST_VALUE_INTEGER, .required = true},
                   {"alpha", MST_VALUE_NUMBER, .number = 1e-4},
                   {"beta", MST_VALUE_NUMBER, .number = 0.75},
                   {"k", MST_VALUE_NUMBER, .number = 1}},
    .dtypes = MST_FLOAT_DTYPES,
    .expand = expand_local_response_norm,
    .infer = mst_draft_composite};
