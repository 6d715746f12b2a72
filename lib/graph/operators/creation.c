/* Expressions without operands: inputs, parameters, numbers, constants. */
#include "operators_private.h"

static muster_status infer_number(mst_draft *draft) {
    draft->types[0] = (mst_type){.dtype = MUSTER_DTYPE_NONE};
    return MUSTER_OK;
}

static const char is_leaf[] = "it depends on nothing";
const mst_operator mst_operator_input = {MST_ANY_OPERATOR(input, "an input of the function"), .flags = MST_OPERATOR_HIDDEN,
                                         .no_gradient = is_leaf};
const mst_operator mst_operator_parameter = {MST_ANY_OPERATOR(parameter, "the value of a variable"), .flags = MST_OPERATOR_HIDDEN,
                                             .no_gradient = is_leaf};
const mst_operator mst_operator_number = {MST_ANY_OPERATOR(number, "a number that takes the dtype of its neighbour"),
                                          .attributes = {{"value", MST_VALUE_NUMBER}}, .flags = MST_OPERATOR_HIDDEN, .infer = infer_number,
                                          .no_gradient = is_leaf};

/* ---- results beside the first ---- */

static muster_status infer_result(mst_draft *draft) {
    draft->types[0] = draft->inputs[0]->more[draft->values[0].integer - 1];
    return MUSTER_OK;
}

const mst_operator mst_operator_result = {MST_ANY_OPERATOR(result, "another result of an operation with several"),
                                          .operands = {"x"},
                                          .attributes = {{"index", MST_VALUE_INTEGER}},
                                          .flags = MST_OPERATOR_HIDDEN,
                                          .infer = infer_result,
                                          .no_gradient = "only the first result of an operation has one"};

/* ---- stop_gradient ---- */

static muster_status infer_stop_gradient(mst_draft *draft) {
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_ALL_DTYPES));
    draft->types[0] = draft->inputs[0]->type;
    return MUSTER_OK;
}

static bool view_stop_gradient(const mst_step_run *run, muster_tensor *result) {
    for (int32_t d = 0; d < result->ndim; d++) result->strides[d] = run->in[0]->strides[d];
    return true;
}

const mst_operator mst_operator_stop_gradient = {MST_ANY_OPERATOR(stop_gradient, "x, whose gradient is taken as 0"), .operands = {"x"},
                                                 .infer = infer_stop_gradient, .view = view_stop_gradient, .gradient = mst_gradient_zero};

/* ---- constants ---- */

enum { SHAPE, VALUE, DTYPE };

static muster_status infer_full(mst_draft *draft) {
    mst_type *type = &draft->types[0];
    type->dtype = (muster_dtype)draft->values[DTYPE].integer;
    type->ndim = draft->values[SHAPE].count;
    for (int32_t d = 0; d < type->ndim; d++) {
        type->dims[d] = (mst_dim)draft->values[SHAPE].list[d];
        if (type->dims[d] == MST_DIM_NONE)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "shape: entry %d: expected a size, received MUSTER_INFER", (int)d);
    }
    return MUSTER_OK;
}

static muster_status run_full(muster_worker *worker, const mst_step_run *run) {
    return muster_fill(worker, run->node->values[VALUE].number, *run->out[0]);
}

const mst_operator mst_operator_full = {MST_ANY_OPERATOR(full, "the value in every element"),
                                        .attributes = {{"shape", MST_VALUE_DIMS, .required = true},
                                                       {"value", MST_VALUE_NUMBER, .required = true},
                                                       {"dtype", MST_VALUE_DTYPE, .required = true}},
                                        .infer = infer_full, .run = run_full, .no_gradient = is_leaf};

static muster_status infer_extent(mst_draft *draft) {
    draft->types[0] = (mst_type){.dtype = (muster_dtype)draft->values[1].integer};
    return MUSTER_OK;
}

static muster_status run_extent(muster_worker *worker, const mst_step_run *run) {
    return muster_fill(worker, (double)mst_dim_value(run->node->graph, (mst_dim)run->node->values[0].list[0], run->sizes), *run->out[0]);
}

const mst_operator mst_operator_extent = {
    MST_ANY_OPERATOR(extent, "a size that only a call knows, as a number"),
    .attributes = {{"size", MST_VALUE_DIMS, .required = true}, {"dtype", MST_VALUE_DTYPE, .required = true}},
    .flags = MST_OPERATOR_HIDDEN,
    .infer = infer_extent,
    .run = run_extent,
    .no_gradient = is_leaf};
