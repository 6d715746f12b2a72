/* Running products (cumprod), and the gradient of products (prod). Both are written with one hidden
 * operator, `recurrence`, whose gradient is written with it again. Nothing is divided by an
 * element, so derivatives of any order are right where elements are 0. */
#include "elementwise_private.h"
#include "recurrence/recurrence_impl.h"

/* ---- the recurrence ----
 * Along each row of the matrices a and b: e[0] = first, and e[j + 1] = a[j] e[j] + b[j]. The result
 * is y[j] = e[j + 1] if `inclusive`, else y[j] = e[j]. Without b it is 0. So with first = 1 and
 * without b the result is the running product of a. */

enum { FIRST, INCLUSIVE };
enum { RECURRENCE_DTYPES = MST_BLAS_DTYPES | MST_DTYPE_BIT(MUSTER_I64) | MST_DTYPE_BIT(MUSTER_U64) };

static muster_expr *recurrence(muster_expr *a, muster_expr *b, double first, bool inclusive) {
    muster_expr *inputs[] = {a, b};
    return mst_apply(a->graph, MST_OPERATOR_recurrence, inputs, b ? 2 : 1, (mst_graph_value[]){{.number = first}, {.integer = inclusive}});
}

static muster_expr *reversed(muster_expr *x) {
    return mst_apply(x->graph, MST_OPERATOR_flip, &x, 1, (mst_graph_value[]){{.list = (int64_t[]){1}, .count = 1}});
}

/* From the end of each row on: r[j] = a[j + 1] r[j + 1] + b[j + 1], and 0 for the last j. */
static muster_expr *recurrence_back(muster_expr *a, muster_expr *b) { return reversed(recurrence(reversed(a), reversed(b), 0, false)); }

static muster_status run_recurrence(muster_worker *worker, const mst_step_run *run) {
    const mst_graph_value *values = run->node->values;
    return mst_recurrence(worker, run->in[0], run->node->input_count > 1 ? run->in[1] : NULL, values[FIRST].number,
                          values[INCLUSIVE].integer != 0, run->out[0]);
}

static bool distribute_recurrence(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return way == 0 && result.kind == MST_CUT && mst_distribute_alike(node, result, 2, operands);
}

/* With g[j] the gradient of e[j + 1], that of a[j] is g[j] e[j], and that of b[j] is g[j]. The next
 * step has a[j + 1] e[j + 1], so g[j] has the term a[j + 1] g[j + 1]. Besides, e[j + 1] is
 *     y[j], if inclusive: g[j] = dy[j] + r[j], with r[j] = a[j + 1] g[j + 1]
 *                                                        = a[j + 1] r[j + 1] + a[j + 1] dy[j + 1]
 *     y[j + 1], if not:   g[j] = a[j + 1] g[j + 1] + dy[j + 1] */
static void gradient_recurrence(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const bool inclusive = node->values[INCLUSIVE].integer != 0;
    muster_expr *b = node->input_count > 1 ? Y : NULL;
    muster_expr *before = inclusive ? recurrence(X, b, node->values[FIRST].number, false) : node; /* e[j] */
    muster_expr *g = inclusive ? G(add, dy, recurrence_back(X, G(multiply, X, dy))) : recurrence_back(X, dy);
    if (mst_gradient_wanted(gradients, node, 0)) mst_gradient_add(gradients, node, 0, G(multiply, g, before));
    if (b && mst_gradient_wanted(gradients, node, 1)) mst_gradient_add(gradients, node, 1, g);
}

const mst_operator mst_operator_recurrence = {
    MST_ANY_OPERATOR(recurrence, "e before, or with `inclusive` after, each step along the rows, which makes a e + b of it"),
    .operands = {"a", "b"},
    .optional = 1,
    .attributes = {{"first", MST_VALUE_NUMBER}, {"inclusive", MST_VALUE_INTEGER}},
    .dtypes = RECURRENCE_DTYPES,
    .flags = MST_OPERATOR_HIDDEN,
    .infer = mst_draft_same,
    .distribute = distribute_recurrence,
    .run = run_recurrence,
    .gradient = gradient_recurrence};

/* ---- cumprod ---- */

enum { CUMPROD_AXIS, CUMPROD_DTYPE };

/* The dtype in which running products of dtype `from` are computed whose result has dtype `to`. */
static muster_dtype product_dtype(muster_dtype from, muster_dtype to) {
    if (mst_dtype_is_float(from) && mst_dtype_is_float(to)) return mst_dtype_compute(mst_dtype_wider(from, to));
    return mst_dtype_is_float(from) || mst_dtype_is_float(to) ? MUSTER_F64 : mst_dtype_summed(from);
}

static muster_status check_cumprod(mst_draft *draft, int32_t *axis) {
    char text[128];
    MUSTER_TRY(mst_draft_dtype(draft, 0, draft->op->dtypes));
    MUSTER_TRY(mst_draft_axis(draft, CUMPROD_AXIS, axis));
    if (draft->values[CUMPROD_DTYPE].integer != MUSTER_BOOL) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "dtype: expected %s, received bool", mst_dtypes_text(text, MST_NUMBER_DTYPES));
}

/* The axis goes last, so that x is a matrix whose rows are multiplied up; then it goes back. */
static muster_expr *expand_cumprod(mst_draft *draft) {
    int32_t axis;
    int64_t axes[MUSTER_MAX_DIMS];
    mst_dim rows = MST_DIM_ONE;
    if (check_cumprod(draft, &axis) != MUSTER_OK) return draft->graph->error;
    const muster_dtype asked = (muster_dtype)draft->values[CUMPROD_DTYPE].integer;
    const muster_dtype from = draft->inputs[0]->type.dtype, dtype = asked ? asked : mst_dtype_summed(from);
    muster_expr *x = mst_cast_to(draft->inputs[0], product_dtype(from, dtype));
    if (mst_node_is_error(x)) return x;
    const muster_expr *last = mst_axes_last(x, 1u << axis, axes);
    muster_expr *matrix = mst_as_rows(x, 1u << axis, &rows);
    if (mst_node_is_error(last) || mst_node_is_error(matrix)) return draft->graph->error;
    muster_expr *products = recurrence(matrix, NULL, 1, true);
    if (mst_node_is_error(products)) return products;
    return mst_cast_to(mst_axes_back(mst_reshape_to(products, last->type.ndim, last->type.dims), axes), dtype);
}

const mst_operator mst_operator_cumprod = {
    MST_ANY_OPERATOR(cumprod, "the products up to and with each element along the axis, in the dtype of prod; dtype: of the result"),
    .operands = {"x"},
    .attributes = {{"axis", MST_VALUE_INTEGER, .required = true}, {"dtype", MST_VALUE_DTYPE}},
    .dtypes = MST_ALL_DTYPES,
    .expand = expand_cumprod,
    .infer = mst_draft_composite};

/* ---- the gradient of prod ---- */

/* The gradient of each element is the product of all others: of those before it, times that of
 * those behind it. In f64, since neither need be in the range of f32. */
void mst_gradient_prod(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    int64_t axes[MUSTER_MAX_DIMS];
    mst_dim rows = MST_DIM_ONE;
    const uint32_t mask = mst_axes_mask(&node->values[0], X->type.ndim);
    if (!mst_dtype_is_float(X->type.dtype)) return; /* no gradient flows through integers */
    muster_expr *x = mst_cast_to(X, MUSTER_F64);
    if (mst_node_is_error(x)) return;
    muster_expr *matrix = mst_as_rows(x, mask, &rows);
    if (mst_node_is_error(matrix)) return;
    muster_expr *before = recurrence(matrix, NULL, 1, false), *behind = reversed(recurrence(reversed(matrix), NULL, 1, false));
    muster_expr *others = G(multiply, before, behind);
    muster_expr *dy_of_row = mst_reshape_to(mst_cast_to(dy, MUSTER_F64), 2, (mst_dim[]){rows, MST_DIM_ONE});
    muster_expr *part = G(multiply, others, dy_of_row);
    if (mst_node_is_error(part)) return;
    const muster_expr *last = mst_axes_last(x, mask, axes);
    muster_expr *dx = mst_axes_back(mst_reshape_to(part, last->type.ndim, last->type.dims), axes);
    mst_gradient_add(gradients, node, 0, mst_cast_to(dx, X->type.dtype));
}
