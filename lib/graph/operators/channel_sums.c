/* Sums over the elements of each channel, for batch normalisation: of all rows, which are exchanged
 * once, or of the rows of each device, which are not. Gradients of any order are made of them. */
#include "channels/channel_sums_impl.h"
#include "normalisation_private.h"
#include "runtime_impl.h"

#include <string.h>

enum { CHANNELS = MST_CHANNEL_AXIS };
enum { CENTER = 1, FACTOR };

/* ---- what they are made into ---- */

static muster_expr *row_of(muster_expr *sums, int64_t row) {
    if (mst_node_is_error(sums)) return sums;
    const int32_t axis = sums->type.ndim - 2;
    int64_t start[2] = {MUSTER_NONE, MUSTER_NONE}, stop[2] = {MUSTER_NONE, MUSTER_NONE};
    start[axis] = row;
    stop[axis] = row + 1;
    const mst_dim dims[2] = {sums->type.dims[0], sums->type.dims[axis + 1]};
    muster_expr *one = mst_apply(sums->graph, MST_OPERATOR_slice, &sums, 1,
                                 (mst_graph_value[]){{.list = start, .count = axis + 1}, {.list = stop, .count = axis + 1}, {.count = 0}});
    return mst_node_is_error(one) ? one : mst_reshape_to(one, axis + 1, dims + 1 - axis);
}

mst_sums mst_channel_sums_of(muster_expr *x, muster_expr *center, muster_expr *factor, bool per_device) {
    muster_expr *const inputs[] = {x, center, factor};
    muster_expr *sums =
        mst_apply(x->graph, per_device ? MST_OPERATOR_own_channel_sums : MST_OPERATOR_channel_sums, inputs, factor ? 3 : 2, NULL);
    if (!per_device) sums = MST_APPLY(x->graph, exchanged, sums);
    return (mst_sums){row_of(sums, 0), row_of(sums, 1)};
}

muster_expr *mst_channel_count(muster_expr *x, bool per_device) {
    if (mst_node_is_error(x)) return x;
    return per_device ? MST_APPLY(x->graph, own_count, x) : mst_extent(x, ((1u << x->type.ndim) - 1) & ~(1u << CHANNELS), MUSTER_F64);
}

muster_expr *mst_by_channel(muster_expr *numbers, muster_expr *x) {
    if (mst_node_is_error(numbers) || mst_node_is_error(x)) return x->graph->error;
    if (numbers->type.ndim == 2) numbers = MST_APPLY(x->graph, spread, numbers, x);
    if (mst_node_is_error(numbers)) return numbers;
    mst_dim dims[MUSTER_MAX_DIMS];
    int32_t ndim = numbers->type.ndim;
    memcpy(dims, numbers->type.dims, (size_t)ndim * sizeof *dims);
    for (int32_t d = CHANNELS + 1; d < x->type.ndim; d++) dims[ndim++] = MST_DIM_ONE;
    return mst_reshape_to(numbers, ndim, dims);
}

muster_expr *mst_over_devices(muster_expr *numbers) {
    if (mst_node_is_error(numbers) || numbers->type.ndim < 2) return numbers;
    return MST_APPLY(numbers->graph, over_devices, numbers);
}

/* ---- the sums ---- */

static muster_status size_find(mst_draft *draft, int64_t number, mst_dim *size) {
    *size = mst_dim_number(draft->graph, number);
    return *size == MST_DIM_NONE ? draft->graph->status : MUSTER_OK;
}

static muster_status infer_sums(mst_draft *draft) {
    mst_dim two;
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_BLAS_DTYPES));
    MUSTER_TRY(size_find(draft, 2, &two));
    draft->types[0] = (mst_type){.dtype = MUSTER_F64, .ndim = 2, .dims = {two, draft->inputs[0]->type.dims[CHANNELS]}};
    return MUSTER_OK;
}

static muster_status infer_own_sums(mst_draft *draft) {
    mst_type *type = &draft->types[0];
    mst_dim devices;
    MUSTER_TRY(infer_sums(draft));
    MUSTER_TRY(size_find(draft, draft->graph->runtime->total, &devices));
    *type = (mst_type){.dtype = MUSTER_F64, .ndim = 3, .dims = {devices, type->dims[0], type->dims[1]}};
    return MUSTER_OK;
}

/* Along the channels the sums are cut as x is. Along other axes the workers have partial sums. */
static bool distribute_sums(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    mst_distribution x = MST_DISTRIBUTED_CUT(CHANNELS);
    operands[CENTER] = MST_DISTRIBUTED_CUT(0);
    if (result.kind == MST_CUT && (way || result.axis != 1)) return false;
    if (result.kind != MST_CUT) {
        const int32_t axis = way < CHANNELS ? way : way + 1;
        if (result.op != MUSTER_SUM || axis >= node->inputs[0]->type.ndim) return false;
        x = MST_DISTRIBUTED_CUT(axis);
        operands[CENTER] = MST_DISTRIBUTED_SAME;
    }
    operands[0] = x;
    if (node->input_count > FACTOR) operands[FACTOR] = x;
    return true;
}

/* The parts of devices, cut along the first axis as the rows of x are. */
static bool distribute_own(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (way || result.kind != MST_CUT || result.axis != 0) return false;
    for (int32_t i = 0; i < node->input_count; i++) operands[i] = result;
    if (node->input_count > CENTER && node->inputs[CENTER]->type.ndim == 1) operands[CENTER] = MST_DISTRIBUTED_SAME;
    return true;
}

static int64_t elements_of(const muster_expr *x, const int64_t sizes[MST_SIZES]) {
    int64_t count = 1;
    for (int32_t d = 0; d < x->type.ndim; d++)
        if (d != CHANNELS) count *= mst_dim_value(x->graph, x->type.dims[d], sizes);
    return count;
}

static double operations_sums(const muster_expr *node, const int64_t sizes[MST_SIZES]) {
    const int64_t count = elements_of(node->inputs[0], sizes);
    return count < 0 ? 0x1p62 : (double)count;
}

static muster_status sums_run(muster_worker *worker, const mst_step_run *run, const muster_tensor *center, const muster_tensor *sums) {
    const muster_expr *x = run->node->inputs[0];
    char text[MST_NODE_TEXT];
    if (!elements_of(x, run->sizes))
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_expr_batch_norm: x: expected at least one element in each channel, received %s",
                         mst_node_text(x, NULL, text));
    return mst_channel_sums(worker, run->in[0], center, run->node->input_count > FACTOR ? run->in[FACTOR] : NULL, sums);
}

static muster_status run_sums(muster_worker *worker, const mst_step_run *run) {
    return sums_run(worker, run, run->in[CENTER], run->out[0]);
}

/* One of the places for the sums of devices. A worker has its own; in a graph whose workers compute
 * each for itself it has all, which get the same. */
static muster_tensor place_of(const muster_tensor *all, int64_t place) {
    muster_tensor per_device = *all;
    per_device.byte_offset += place * all->strides[0] * (int64_t)muster_dtype_size(all->dtype);
    per_device.ndim--;
    for (int32_t d = 0; d < per_device.ndim; d++) {
        per_device.shape[d] = all->shape[d + 1];
        per_device.strides[d] = all->strides[d + 1];
    }
    return per_device;
}

static muster_status run_own_sums(muster_worker *worker, const mst_step_run *run) {
    const muster_tensor first = place_of(run->out[0], 0);
    const muster_tensor center = run->in[CENTER]->ndim > 1 ? place_of(run->in[CENTER], 0) : *run->in[CENTER];
    MUSTER_TRY(sums_run(worker, run, &center, &first));
    for (int64_t place = 1; place < run->out[0]->shape[0]; place++) MUSTER_TRY(muster_copy(worker, first, place_of(run->out[0], place)));
    return MUSTER_OK;
}

/* sum = the sum of f, product = that of f d, where d = x - center and f is d if there is no factor:
 * so dx = dproduct f and df = dsum + dproduct d. */
static void gradient_sums(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *x = node->inputs[0], *center = node->inputs[CENTER], *factor = node->input_count > FACTOR ? node->inputs[FACTOR] : NULL;
    const muster_dtype dtype = x->type.dtype;
    muster_expr *d = MST_APPLY(node->graph, subtract, x, mst_by_channel(center, x));
    muster_expr *dsum = mst_by_channel(mst_cast_to(row_of(dy, 0), dtype), x);
    muster_expr *dproduct = mst_by_channel(mst_cast_to(row_of(dy, 1), dtype), x);
    muster_expr *df = MST_APPLY(node->graph, add, dsum, MST_APPLY(node->graph, multiply, dproduct, d));
    muster_expr *dx = MST_APPLY(node->graph, multiply, dproduct, factor ? factor : d);
    if (factor)
        mst_gradient_add(gradients, node, FACTOR, df);
    else
        dx = MST_APPLY(node->graph, add, dx, df);
    mst_gradient_add(gradients, node, 0, dx);
    if (!mst_gradient_wanted(gradients, node, CENTER) || mst_node_is_error(dx)) return;
    const mst_type channels = {.dtype = dtype, .ndim = 1, .dims = {x->type.dims[CHANNELS]}};
    const bool per_device = center->type.ndim > 1;
    muster_expr *sum = mst_channel_sums_of(dx, mst_full(node->graph, &channels, 0), NULL, per_device).sum;
    mst_gradient_add(gradients, node, CENTER, MST_APPLY(node->graph, negative, mst_cast_to(sum, dtype)));
}

#define SUMS .operands = {"x", "center", "factor"}, .optional = 1, .operations = operations_sums, .gradient = gradient_sums

const mst_operator mst_operator_channel_sums = {
    MST_ANY_OPERATOR(channel_sums, "the sums of a factor and of factor (x - center) over the elements of each channel, f64"),
    SUMS,
    .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_BY_SHARD,
    .infer = infer_sums,
    .distribute = distribute_sums,
    .run = run_sums};

const mst_operator mst_operator_own_channel_sums = {MST_ANY_OPERATOR(own_channel_sums, "channel_sums of the rows of each device"),
                                                    SUMS,
                                                    .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_OWN_ROWS,
                                                    .infer = infer_own_sums,
                                                    .distribute = distribute_own,
                                                    .run = run_own_sums};

/* ---- the number of elements of each device ---- */

static muster_status infer_count(mst_draft *draft) {
    mst_dim devices;
    MUSTER_TRY(size_find(draft, draft->graph->runtime->total, &devices));
    draft->types[0] = (mst_type){.dtype = MUSTER_F64, .ndim = 2, .dims = {devices, MST_DIM_ONE}};
    return MUSTER_OK;
}

/* A device without rows counts one, so that its averages are numbers, which no row needs. */
static muster_status run_count(muster_worker *worker, const mst_step_run *run) {
    int64_t count = 1;
    for (int32_t d = 0; d < run->in[0]->ndim; d++)
        if (d != CHANNELS) count *= run->in[0]->shape[d];
    return muster_fill(worker, count > 1 ? (double)count : 1, *run->out[0]);
}

const mst_operator mst_operator_own_count = {MST_ANY_OPERATOR(own_count, "the number of elements of a channel that each device has"),
                                             .operands = {"x"},
                                             .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_OWN_ROWS,
                                             .infer = infer_count,
                                             .distribute = distribute_own,
                                             .run = run_count,
                                             .gradient = mst_gradient_zero};

/* ---- numbers of each device for its rows ---- */

static muster_status infer_spread(mst_draft *draft) {
    const mst_type *numbers = &draft->inputs[0]->type;
    draft->types[0] = (mst_type){.dtype = numbers->dtype, .ndim = 2, .dims = {draft->inputs[1]->type.dims[0], numbers->dims[1]}};
    return MUSTER_OK;
}

static bool view_spread(const mst_step_run *run, muster_tensor *result) {
    result->strides[0] = 0;
    result->strides[1] = run->in[0]->shape[1] > 1 ? run->in[0]->strides[1] : 0;
    return true;
}

static void gradient_spread(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const mst_type channels = {.dtype = node->type.dtype, .ndim = 1, .dims = {node->type.dims[1]}};
    muster_expr *sum = mst_channel_sums_of(dy, mst_full(node->graph, &channels, 0), NULL, true).sum;
    mst_gradient_add(gradients, node, 0, mst_cast_to(sum, node->type.dtype));
}

const mst_operator mst_operator_spread = {MST_ANY_OPERATOR(spread, "the numbers of its device for each row of x"),
                                          .operands = {"numbers", "x"},
                                          .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_OWN_ROWS,
                                          .infer = infer_spread,
                                          .distribute = distribute_own,
                                          .view = view_spread,
                                          .gradient = gradient_spread};

/* ---- the sum over devices ---- */

static muster_status infer_over(mst_draft *draft) {
    const mst_type *numbers = &draft->inputs[0]->type;
    draft->types[0] = (mst_type){.dtype = numbers->dtype, .ndim = 1, .dims = {numbers->dims[1]}};
    return MUSTER_OK;
}

/* The numbers of each device are its part of the sum. */
static bool distribute_over(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    (void)node;
    operands[0] = MST_DISTRIBUTED_CUT(0);
    return way == 0 && result.kind == MST_PARTIAL && result.op == MUSTER_SUM;
}

static muster_status run_over(muster_worker *worker, const mst_step_run *run) {
    if (run->node->distribution.kind == MST_SAME) return muster_reduce_axes(worker, MUSTER_SUM, *run->in[0], 1, *run->out[0]);
    return muster_copy(worker, place_of(run->in[0], 0), *run->out[0]);
}

static void gradient_over(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_broadcast_to(dy, &node->inputs[0]->type));
}

const mst_operator mst_operator_over_devices = {MST_ANY_OPERATOR(over_devices, "the sum of the numbers of all devices"),
                                                .operands = {"numbers"},
                                                .flags = MST_OPERATOR_HIDDEN,
                                                .infer = infer_over,
                                                .distribute = distribute_over,
                                                .run = run_over,
                                                .gradient = gradient_over};

/* ---- a value that is exchanged as it is ---- */

static void gradient_exchanged(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, MST_APPLY(node->graph, exchanged, dy));
}

/* It has no way to be computed from parts, so that the workers exchange all sums at once rather
 * than what is made of them one by one. */
const mst_operator mst_operator_exchanged = {MST_ANY_OPERATOR(exchanged, "x, on every worker"),
                                             .operands = {"x"},
                                             .flags = MST_OPERATOR_HIDDEN,
                                             .infer = mst_draft_same,
                                             .dtypes = MST_FLOAT_DTYPES,
                                             .view = mst_view_same,
                                             .gradient = gradient_exchanged};
