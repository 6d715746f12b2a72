/* Batch normalisation. Statistics are sums around the running mean, in f64, over the rows of all
 * devices: so few and uneven rows give the same numbers on any number of devices, and large means
 * leave digits for small variances. The rest is made of other operations. */
#include "normalisation_private.h"
#include "runtime_impl.h"

enum { CHANNELS = MST_CHANNEL_AXIS };
enum { MEAN = 1, VARIANCE, SCALE, BIAS };

static muster_expr *cast64(muster_expr *x) { return mst_cast_to(x, MUSTER_F64); }
static muster_expr *number64(const muster_expr *x, double value) { return mst_number(x->graph, MUSTER_F64, value); }
#define MAKE(name, ...) MST_APPLY(x->graph, name, __VA_ARGS__)

typedef struct statistics {
    muster_expr *mean, *variance; /* f64, for each channel, or for each channel of each device */
    muster_expr *shift;           /* mean - center */
} statistics;

static statistics statistics_of(muster_expr *x, muster_expr *center, bool per_device) {
    const mst_sums sums = mst_channel_sums_of(x, center, NULL, per_device);
    muster_expr *count = mst_channel_count(x, per_device), *shift = MAKE(divide, sums.sum, count);
    muster_expr *variance = MAKE(subtract, MAKE(divide, sums.product, count), MAKE(square, shift));
    return (statistics){MAKE(add, shift, cast64(center)), MAKE(maximum, variance, number64(x, 0)), shift};
}

/* What the dtype of x loses of the numbers. */
static muster_expr *lost(muster_expr *x, muster_expr *numbers) {
    return MAKE(subtract, numbers, cast64(mst_cast_to(numbers, x->type.dtype)));
}

/* x - mean for each channel, times the scale of mst_normal_scale: `distance` is that of x from the
 * mean as the dtype of x has it, `rest` what the distance has too much, for a mean that is large
 * beside the distances has digits that its f32 has not, and `over` is inverse / scale. */
typedef struct scaled {
    muster_expr *distance, *rest, *over; /* rest NULL: 0; rest and over: f64, for each channel */
} scaled;

static scaled scaled_distance(muster_expr *x, muster_expr *mean, muster_expr *inverse) {
    const muster_dtype dtype = x->type.dtype;
    muster_expr *scale = mst_normal_scale(inverse, dtype), *center = mst_cast_to(mean, dtype);
    if (!scale) return (scaled){MAKE(subtract, x, mst_by_channel(center, x)), NULL, inverse};
    muster_expr *by = mst_cast_to(scale, dtype);
    muster_expr *distance = MAKE(subtract, MAKE(multiply, x, mst_by_channel(by, x)), mst_by_channel(MAKE(multiply, center, by), x));
    return (scaled){distance, MAKE(multiply, lost(x, mean), scale), MAKE(divide, inverse, scale)};
}

static muster_expr *times_scale(muster_expr *numbers, muster_expr *scale) {
    return scale ? MST_APPLY(numbers->graph, multiply, numbers, cast64(scale)) : numbers;
}

/* ---- the gradient ---- */

/* normalised(y, x, mean, inverse, scale, bias) is y, which has been made of the others; inverse is
 * 1 / sqrt(variance + epsilon). Its gradient is that of x with its statistics: by parts it would
 * need a sum over the rows, and an exchange, for each of them. */
enum { Y_OF, X_OF, MEAN_OF, INVERSE_OF, SCALE_OF, BIAS_OF };

static muster_expr *operand_of(const muster_expr *node, int32_t i) { return node->input_count > i ? node->inputs[i] : NULL; }

/* With the sums over the elements of a channel, n of them, d = x - mean, a = scale inverse:
 * dx = a (dy - sum(dy) / n - d inverse^2 sum(dy d) / n), dscale = sum(dy d) inverse, dbias =
 * sum(dy). What is large is multiplied by what is small in f64: neither's square need be an f32. */
static void gradient_normalised(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *x = node->inputs[X_OF], *mean = node->inputs[MEAN_OF], *inverse = node->inputs[INVERSE_OF];
    muster_expr *scale = operand_of(node, SCALE_OF);
    const muster_dtype dtype = x->type.dtype;
    const bool per_device = mean->type.ndim > 1;
    const mst_sums sums = mst_channel_sums_of(x, mst_cast_to(mean, dtype), dy, per_device);
    muster_expr *product = dtype == MUSTER_F64 ? sums.product : MAKE(subtract, sums.product, MAKE(multiply, lost(x, mean), sums.sum));
    if (scale && mst_gradient_wanted(gradients, node, SCALE_OF))
        mst_gradient_add(gradients, node, SCALE_OF, mst_over_devices(mst_cast_to(MAKE(multiply, product, inverse), dtype)));
    if (operand_of(node, BIAS_OF) && mst_gradient_wanted(gradients, node, BIAS_OF))
        mst_gradient_add(gradients, node, BIAS_OF, mst_over_devices(mst_cast_to(sums.sum, dtype)));
    if (!mst_gradient_wanted(gradients, node, X_OF)) return;
    muster_expr *count = mst_channel_count(x, per_device), *mean_dy = MAKE(divide, sums.sum, count);
    const scaled d = scaled_distance(MAKE(anew, x), mean, inverse); /* so that that of the forward pass need not be kept */
    muster_expr *slope = MAKE(multiply, d.over, MAKE(divide, MAKE(multiply, inverse, product), count));
    if (d.rest) mean_dy = MAKE(subtract, mean_dy, MAKE(multiply, d.rest, slope));
    muster_expr *centred = MAKE(subtract, dy, mst_by_channel(mst_cast_to(mean_dy, dtype), x));
    muster_expr *taken = MAKE(multiply, d.distance, mst_by_channel(mst_cast_to(slope, dtype), x));
    muster_expr *a = mst_cast_to(times_scale(inverse, scale), dtype);
    mst_gradient_add(gradients, node, X_OF, MAKE(multiply, MAKE(subtract, centred, taken), mst_by_channel(a, x)));
}

static bool distribute_normalised(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (way || result.kind != MST_CUT) return false;
    for (int32_t i = 0; i < node->input_count; i++)
        operands[i] = i <= X_OF ? result : node->inputs[i]->type.ndim > 1 ? MST_DISTRIBUTED_CUT(0) : MST_DISTRIBUTED_SAME;
    return true;
}

const mst_operator mst_operator_normalised = {MST_ANY_OPERATOR(normalised, "y, with the gradient of batch_norm"),
                                              .operands = {"y", "x", "mean", "inverse", "scale", "bias"},
                                              .optional = 2,
                                              .dtypes = MST_BLAS_DTYPES,
                                              .flags = MST_OPERATOR_HIDDEN,
                                              .infer = mst_draft_same,
                                              .distribute = distribute_normalised,
                                              .view = mst_view_same,
                                              .gradient = gradient_normalised};

/* ---- operands ---- */

/* Statistics and parameters of halves may be f32. */
static bool dtypes_fit(mst_draft *draft) {
    char text[MST_NODE_TEXT];
    if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK) return false;
    const muster_dtype dtype = X->type.dtype, compute = mst_dtype_compute(dtype);
    for (int32_t i = 1; i < draft->count; i++) {
        const muster_dtype received = draft->inputs[i]->type.dtype;
        if (received == dtype || received == compute) continue;
        (void)mst_draft_refuse(draft, MUSTER_DTYPE_MISMATCH, i, "expected %s%s, the dtype of %s, received %s (muster_expr_cast converts)",
                               muster_dtype_name(dtype), dtype == compute ? "" : " or f32", mst_node_text(X, "x", text),
                               received == MUSTER_DTYPE_NONE ? "a plain number" : muster_dtype_name(received));
        return false;
    }
    return true;
}

static bool operands_fit(mst_draft *draft) {
    if (!dtypes_fit(draft) || !mst_has_channels(draft, CHANNELS + 1, MUSTER_MAX_DIMS)) return false;
    const mst_type channels = {.dtype = X->type.dtype, .ndim = 1, .dims = {X->type.dims[CHANNELS]}};
    return mst_parameters_fit(draft, &channels);
}

/* Operand i in the dtype that is computed with; NULL: it is missing. */
static muster_expr *operand(const mst_draft *draft, int32_t i) {
    return i < draft->count ? mst_cast_to(draft->inputs[i], mst_dtype_compute(X->type.dtype)) : NULL;
}

/* ---- batch_norm ---- */

enum { TRAINING, EPSILON, PER_DEVICE };

/* Statistics of each device: on one device they are those of all rows. */
static bool own_fits(mst_draft *draft, bool *per_device) {
    const muster_runtime *runtime = draft->graph->runtime;
    *per_device = draft->values[PER_DEVICE].integer && draft->values[TRAINING].integer && runtime->total > 1;
    if (mst_draft_flag(draft, TRAINING) != MUSTER_OK || mst_draft_flag(draft, PER_DEVICE) != MUSTER_OK) return false;
    if (draft->values[PER_DEVICE].integer && runtime->logical_shards) {
        (void)mst_draft_refuse(
            draft, MUSTER_UNSUPPORTED, -1,
            "per_device: expected 0 in a runtime with logical shards, whose results do not depend on the devices, received 1");
        return false;
    }
    if (!*per_device || draft->values[EPSILON].number > 0) return true;
    (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1,
                           "epsilon: expected a number above 0 with per_device, since a device may have no rows, received %g",
                           draft->values[EPSILON].number);
    return false;
}

/* bias - rest. */
static muster_expr *shift_of(muster_expr *bias, muster_expr *rest, muster_dtype dtype) {
    const muster_expr *x = rest;
    return mst_cast_to(bias ? MAKE(subtract, cast64(bias), rest) : MAKE(negative, rest), dtype);
}

static muster_expr *in_training(mst_draft *draft, muster_expr *x, bool per_device) {
    muster_expr *scale = operand(draft, SCALE), *bias = operand(draft, BIAS);
    const statistics s = statistics_of(x, operand(draft, MEAN), per_device);
    muster_expr *inverse = MAKE(rsqrt, MAKE(add, s.variance, number64(x, draft->values[EPSILON].number)));
    const scaled d = scaled_distance(x, s.mean, inverse);
    muster_expr *a = times_scale(d.over, scale), *shift = bias;
    muster_expr *y = MAKE(multiply, d.distance, mst_by_channel(mst_cast_to(a, x->type.dtype), x));
    if (d.rest) shift = shift_of(bias, MAKE(multiply, d.rest, a), x->type.dtype);
    if (shift) y = MAKE(add, y, mst_by_channel(shift, x));
    muster_expr *const inputs[] = {y, x, s.mean, inverse, scale, bias};
    return mst_apply(x->graph, MST_OPERATOR_normalised, inputs, bias ? 6 : scale ? 5 : 4, NULL);
}

static muster_expr *in_inference(mst_draft *draft, muster_expr *x) {
    muster_expr *a = E(rsqrt, E(add, operand(draft, VARIANCE), mst_number(x->graph, x->type.dtype, draft->values[EPSILON].number)));
    if (draft->count > SCALE) a = E(multiply, a, operand(draft, SCALE));
    muster_expr *y = E(multiply, E(subtract, x, mst_by_channel(operand(draft, MEAN), x)), mst_by_channel(a, x));
    return draft->count > BIAS ? E(add, y, mst_by_channel(operand(draft, BIAS), x)) : y;
}

static muster_expr *expand_batch_norm(mst_draft *draft) {
    bool per_device;
    const double epsilon = draft->values[EPSILON].number;
    if (!operands_fit(draft)) return draft->graph->error;
    if (!(epsilon >= 0)) return mst_epsilon_refused(draft, epsilon);
    if (!own_fits(draft, &per_device)) return draft->graph->error;
    muster_expr *x = operand(draft, 0);
    return mst_cast_to(draft->values[TRAINING].integer ? in_training(draft, x, per_device) : in_inference(draft, x), X->type.dtype);
}

#define NORM(expanding) .dtypes = MST_FLOAT_DTYPES, .expand = expanding, .infer = mst_draft_composite

const mst_operator mst_operator_batch_norm = {
    MST_ANY_OPERATOR(
        batch_norm, "(x - mean) / sqrt(variance + epsilon) for each channel of x (n, c, ...), times scale, plus bias (each (c)); scale and "
                    "bias may be missing; training = 1: mean and variance of x over all rows, or with per_device = 1 over those of each "
                    "device, in place of the operands; the mean operand is then a number near the mean, which keeps digits"),
    .operands = {"x", "mean", "variance", "scale", "bias"}, .optional = 2,
    .attributes = {{"training", MST_VALUE_INTEGER}, {"epsilon", MST_VALUE_NUMBER, .number = 1e-5}, {"per_device", MST_VALUE_INTEGER}},
    NORM(expand_batch_norm)};

/* ---- running statistics ---- */

enum { MOMENTUM, DDOF };

static bool momentum_fits(mst_draft *draft) {
    const double momentum = draft->values[MOMENTUM].number;
    if (momentum >= 0 && momentum <= 1) return true;
    (void)mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "momentum: expected a number from 0 to 1, received %g", momentum);
    return false;
}

static muster_expr *expand_mean(mst_draft *draft) {
    if (!operands_fit(draft) || !momentum_fits(draft)) return draft->graph->error;
    muster_expr *x = operand(draft, 0), *mean = draft->inputs[MEAN];
    const statistics s = statistics_of(x, operand(draft, MEAN), false);
    return mst_cast_to(MAKE(add, cast64(mean), MAKE(multiply, s.shift, number64(x, draft->values[MOMENTUM].number))), mean->type.dtype);
}

const mst_operator mst_operator_batch_norm_mean = {
    MST_ANY_OPERATOR(batch_norm_mean,
                     "the new running mean: (1 - momentum) mean + momentum times the mean of each channel of x (n, c, ...) over all rows"),
    .operands = {"x", "mean"}, .attributes = {{"momentum", MST_VALUE_NUMBER, .number = 0.1}}, NORM(expand_mean)};

static muster_expr *expand_variance(mst_draft *draft) {
    const int64_t ddof = draft->values[DDOF].integer;
    if (!operands_fit(draft) || !momentum_fits(draft)) return draft->graph->error;
    if (ddof < 0) {
        (void)mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "ddof: expected a number from 0 on, received %lld", (long long)ddof);
        return draft->graph->error;
    }
    muster_expr *x = operand(draft, 0), *variance = draft->inputs[VARIANCE], *old = cast64(variance);
    muster_expr *found = statistics_of(x, operand(draft, MEAN), false).variance, *count = mst_channel_count(x, false);
    if (ddof)
        found = MAKE(multiply, found, MAKE(divide, count, MAKE(maximum, MAKE(subtract, count, number64(x, (double)ddof)), number64(x, 1))));
    muster_expr *step = MAKE(multiply, MAKE(subtract, found, old), number64(x, draft->values[MOMENTUM].number));
    return mst_cast_to(MAKE(add, old, step), variance->type.dtype);
}

const mst_operator mst_operator_batch_norm_variance = {
    MST_ANY_OPERATOR(
        batch_norm_variance,
        "the new running variance: (1 - momentum) variance + momentum times the variance of each channel of x (n, c, ...) over "
        "all rows, divided by their number of elements - ddof, but at least by 1; mean: the old running mean"),
    .operands = {"x", "mean", "variance"}, .attributes = {{"momentum", MST_VALUE_NUMBER, .number = 0.1}, {"ddof", MST_VALUE_INTEGER}},
    NORM(expand_variance)};
