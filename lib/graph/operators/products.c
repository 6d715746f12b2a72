/* Products of matrices and vectors. */
#include "operators_private.h"
#include "product/integer_product_impl.h"
#include "runtime_impl.h"

static muster_status infer_matmul(mst_draft *draft);

static bool is_integer(muster_dtype dtype) { return (MST_DTYPE_BIT(dtype) & MST_NUMBER_DTYPES & ~MST_FLOAT_DTYPES) != 0; }

static bool all_on_host(const muster_runtime *runtime) {
    for (int32_t r = 0; r < runtime->size; r++)
        if (!mst_device_is_host(runtime->devices[r])) return false;
    return true;
}

/* The product of integers, for which devices have no code of their own: the elements are multiplied
 * one by one and summed. Both wrap around. */
static muster_expr *product_of_integers(mst_draft *draft) {
    muster_expr *a = draft->inputs[0], *b = draft->inputs[1];
    const muster_dtype dtype = a->type.dtype;
    mst_dim rows[MUSTER_MAX_DIMS], columns[MUSTER_MAX_DIMS];
    const int32_t left = a->type.ndim, right = b->type.ndim;
    if (!is_integer(dtype) || left < 2 || right < 2 || all_on_host(draft->graph->runtime)) return NULL;
    if (infer_matmul(draft) != MUSTER_OK) return draft->graph->error;
    if (draft->types[0].ndim == MUSTER_MAX_DIMS) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 0, "expected at most %d dimensions of integers, received %d", MUSTER_MAX_DIMS - 1,
                               (int)draft->types[0].ndim);
        return draft->graph->error;
    }
    for (int32_t d = 0; d < left; d++) rows[d] = a->type.dims[d];
    rows[left] = MST_DIM_ONE;
    for (int32_t d = 0; d < right - 2; d++) columns[d] = b->type.dims[d];
    columns[right - 2] = MST_DIM_ONE;
    columns[right - 1] = b->type.dims[right - 2];
    columns[right] = b->type.dims[right - 1];
    muster_expr *products = MST_APPLY(draft->graph, multiply, mst_reshape_to(a, left + 1, rows), mst_reshape_to(b, right + 1, columns));
    return mst_reduced(products, MST_OPERATOR_sum, MST_AXES((int64_t[]){-2}, 1), false, dtype);
}

/* Vectors become matrices, as in NumPy: a (k) is (1, k) on the left and (k, 1) on the right. */
static muster_expr *expand_matmul(mst_draft *draft) {
    muster_expr *a = draft->inputs[0], *b = draft->inputs[1];
    const int32_t left = a->type.ndim, right = b->type.ndim;
    if (left != 1 && right != 1) return product_of_integers(draft);
    for (int32_t i = 0; i < 2; i++)
        if (draft->inputs[i]->type.ndim == 0) {
            (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, i, "expected 1 dimension or more, received a scalar");
            return draft->graph->error;
        }
    if (left == 1) a = mst_reshape_to(a, 2, (mst_dim[]){MST_DIM_ONE, a->type.dims[0]});
    if (right == 1) b = mst_reshape_to(b, 2, (mst_dim[]){b->type.dims[0], MST_DIM_ONE});
    if (mst_node_is_error(a) || mst_node_is_error(b)) return draft->graph->error;
    /* The message about a refused product names the operands of the program. */
    const mst_dim inner = a->type.dims[a->type.ndim - 1], outer = b->type.dims[b->type.ndim - 2];
    if (inner == outer) {
        muster_expr *product = MST_APPLY(draft->graph, matmul, a, b);
        if (mst_node_is_error(product)) return product;
        mst_dim dims[MUSTER_MAX_DIMS];
        int32_t ndim = 0;
        for (int32_t d = 0; d < product->type.ndim; d++) {
            const bool added = (left == 1 && d == product->type.ndim - 2) || (right == 1 && d == product->type.ndim - 1);
            if (!added) dims[ndim++] = product->type.dims[d];
        }
        return mst_reshape_to(product, ndim, dims);
    }
    return NULL;
}

static muster_status refuse_inner(mst_draft *draft, int32_t axis) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT], extent[64];
    const muster_expr *a = draft->inputs[0], *b = draft->inputs[1];
    (void)mst_dim_print(draft->graph, a->type.dims[a->type.ndim - 1], extent, sizeof extent);
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected extent %s in axis %d (the last of %s), received %s", extent,
                            (int)axis, mst_node_text(a, "a", expected), mst_type_text(draft->graph, &b->type, received));
}

static muster_status infer_matmul(mst_draft *draft) {
    muster_dtype dtype;
    mst_type *type = &draft->types[0];
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    const mst_type *a = &draft->inputs[0]->type, *b = &draft->inputs[1]->type;
    for (int32_t i = 0; i < 2; i++)
        if (draft->inputs[i]->type.ndim == 0)
            return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, i, "expected 1 dimension or more, received a scalar");
    if (b->ndim == 1 || a->ndim == 1) return refuse_inner(draft, b->ndim == 1 ? 0 : b->ndim - 2);
    if (a->dims[a->ndim - 1] != b->dims[b->ndim - 2]) return refuse_inner(draft, b->ndim - 2);
    /* the axes before the matrices broadcast */
    type->dtype = dtype;
    type->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int32_t d = 0; d < type->ndim - 2; d++) {
        const int32_t from_a = d - (type->ndim - a->ndim), from_b = d - (type->ndim - b->ndim);
        const mst_dim x = from_a >= 0 ? a->dims[from_a] : MST_DIM_ONE, y = from_b >= 0 ? b->dims[from_b] : MST_DIM_ONE;
        if (x != y && x != MST_DIM_ONE && y != MST_DIM_ONE) {
            char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
            return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1,
                                    "expected axes before the last two that broadcast with those of %s, received %s",
                                    mst_node_text(draft->inputs[0], "a", expected), mst_type_text(draft->graph, b, received));
        }
        type->dims[d] = x == MST_DIM_ONE ? y : x;
    }
    type->dims[type->ndim - 2] = a->dims[a->ndim - 2];
    type->dims[type->ndim - 1] = b->dims[b->ndim - 1];
    return MUSTER_OK;
}

/* The product with a vector is not checked again: its operands have been since they were inferred,
 * and in a small call the checks and the copies of three tensors are a part that counts. */
static muster_status run_matmul(muster_worker *worker, const mst_step_run *run) {
    const muster_tensor *a = run->in[0], *b = run->in[1], *c = run->out[0];
    if (is_integer(c->dtype)) return mst_integer_product(worker, a, b, c);
    if (c->ndim != 2) return muster_gemm_batched(worker, 1, *a, *b, 0, *c);
    const bool blas = c->dtype == MUSTER_F32 || c->dtype == MUSTER_F64;
    return blas && b->shape[1] == 1 ? mst_gemv_launch(worker, a, b, c) : muster_gemm(worker, 1, *a, *b, 0, *c);
}

static muster_expr *swap_last(muster_expr *node) {
    int64_t axes[MUSTER_MAX_DIMS];
    const int32_t ndim = node->type.ndim;
    if (mst_node_is_error(node)) return node;
    for (int32_t d = 0; d < ndim; d++) axes[d] = d;
    axes[ndim - 2] = ndim - 1;
    axes[ndim - 1] = ndim - 2;
    return mst_transpose_to(node, axes);
}

/* Is b one matrix for a stack of them, whose axes can become one? An axis that several become can
 * be cut along the rows only where these are the first. */
static bool matmul_is_stack_by_matrix(const muster_expr *a, const muster_expr *b) {
    for (int32_t d = 1; d < a->type.ndim - 1; d++)
        if (mst_axis_has_rows(a->graph, &a->type, d)) return false;
    return a->type.ndim > 2 && b->type.ndim == 2;
}

/* A stack of matrices as one matrix, in which they lie one below the other. */
static muster_expr *stack_to_matrix(muster_expr *stack) {
    const int32_t last = stack->type.ndim - 1;
    mst_dim dims[2] = {MST_DIM_ONE, stack->type.dims[last]};
    for (int32_t d = 0; d < last; d++) dims[0] = mst_dim_multiply(stack->graph, dims[0], stack->type.dims[d]);
    return mst_reshape_to(stack, 2, dims);
}

static void gradient_matmul(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *a = node->inputs[0], *b = node->inputs[1];
    if (is_integer(node->type.dtype)) return; /* no gradient flows through integers */
    if (mst_gradient_wanted(gradients, node, 0)) mst_gradient_add(gradients, node, 0, MST_APPLY(node->graph, matmul, dy, swap_last(b)));
    if (!mst_gradient_wanted(gradients, node, 1)) return;
    /* One product then sums over the stack, too. Its parts would be as many matrices like b. */
    if (matmul_is_stack_by_matrix(a, b)) {
        a = stack_to_matrix(a);
        dy = stack_to_matrix(dy);
    }
    mst_gradient_add(gradients, node, 1, MST_APPLY(node->graph, matmul, swap_last(a), dy));
}

static double operations_matmul(const muster_expr *node, const int64_t *sizes) {
    const mst_type *a = &node->inputs[0]->type;
    return 2 * (double)mst_dim_value(node->graph, a->dims[a->ndim - 1], sizes);
}

/* The axes of the result are those of one operand or of both; the inner axis may be cut, too: then
 * each worker has partial sums. */
static bool distribute_matmul(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const int32_t ndim = node->type.ndim, left = node->inputs[0]->type.ndim, right = node->inputs[1]->type.ndim;
    if (result.kind == MST_PARTIAL && way > 0) return way < 3 && mst_distribute_scaled(node, result, way - 1, operands);
    if (way || (result.kind == MST_PARTIAL && result.op != MUSTER_SUM)) return false;
    if (result.kind == MST_CUT && result.axis < ndim - 2) return mst_distribute_elementwise(node, result, way, operands);
    operands[0] = operands[1] = MST_DISTRIBUTED_SAME;
    if (result.kind == MST_PARTIAL || result.axis == ndim - 2)
        operands[0] = MST_DISTRIBUTED_CUT(result.kind == MST_PARTIAL ? left - 1 : left - 2);
    if (result.kind == MST_PARTIAL || result.axis == ndim - 1)
        operands[1] = MST_DISTRIBUTED_CUT(result.kind == MST_PARTIAL ? right - 2 : right - 1);
    return true;
}

const mst_operator mst_operator_matmul = {
    MST_ANY_OPERATOR(matmul, "the product of matrices; axes before the last two are stacks, which broadcast; of integers it wraps around"),
    .operands = {"a", "b"},
    .dtypes = MST_NUMBER_DTYPES,
    .flags = MST_OPERATOR_BY_SHARD,
    .expand = expand_matmul,
    .infer = infer_matmul,
    .distribute = distribute_matmul,
    .operations = operations_matmul,
    .run = run_matmul,
    .gradient = gradient_matmul};

/* ---- composites ---- */

/* NumPy's dot: scalars multiply; vectors, matrices and stacks on the left are matmul. */
static muster_expr *expand_dot(mst_draft *draft) {
    muster_expr *a = draft->inputs[0], *b = draft->inputs[1];
    if (a->type.ndim == 0 || b->type.ndim == 0) return MST_APPLY(draft->graph, multiply, a, b);
    if (b->type.ndim > 2) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 1, "expected at most 2 dimensions, received %d (muster_expr_matmul takes stacks)",
                               (int)b->type.ndim);
        return draft->graph->error;
    }
    return MST_APPLY(draft->graph, matmul, a, b);
}

const mst_operator mst_operator_dot = {MST_ANY_OPERATOR(dot, "matmul, or the product of a scalar and an array"), .operands = {"a", "b"},
                                       .expand = expand_dot, .infer = mst_draft_composite};

/* NumPy's inner: the sum over the last axis of both. */
static muster_expr *expand_inner(mst_draft *draft) {
    muster_expr *a = draft->inputs[0], *b = draft->inputs[1];
    if (a->type.ndim == 0 || b->type.ndim == 0) return MST_APPLY(draft->graph, multiply, a, b);
    if (b->type.ndim > 2) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 1, "expected at most 2 dimensions, received %d", (int)b->type.ndim);
        return draft->graph->error;
    }
    return MST_APPLY(draft->graph, matmul, a, b->type.ndim == 2 ? swap_last(b) : b);
}

const mst_operator mst_operator_inner = {MST_ANY_OPERATOR(inner, "the sum of the products along the last axis of both"),
                                         .operands = {"a", "b"}, .expand = expand_inner, .infer = mst_draft_composite};
