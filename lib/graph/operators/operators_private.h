/* What the operators share. */
#ifndef MST_OPERATORS_PRIVATE_H
#define MST_OPERATORS_PRIVATE_H

#include "graph_private.h"
#include "ways_private.h"

#define MST_ANY_OPERATOR(op_name, text) .name = #op_name, .brief = text, .id = MST_OPERATOR_##op_name

/* What indices and labels may be. */
enum { MST_INDEX_DTYPES = MST_DTYPE_BIT(MUSTER_U8) | MST_DTYPE_BIT(MUSTER_I32) | MST_DTYPE_BIT(MUSTER_I64) };

/* The infer of an operation whose result has the dtype and the shape of its first operand. */
muster_status mst_draft_same(mst_draft *draft);
/* The result is operand 0 as it lies. */
bool mst_view_same(const mst_step_run *run, muster_tensor *result);
/* The gradient of an operation whose result does not change where it has a derivative. */
void mst_gradient_zero(mst_gradients *gradients, muster_expr *node, muster_expr *dy);
/* The infer of a composite operation, which is never a node. */
muster_status mst_draft_composite(mst_draft *draft);
/* The dtype of `like` and the sizes of an attribute. */
void mst_type_of_shape(mst_type *type, const mst_type *like, const mst_graph_value *shape);
/* Gives the operands from `first` on one dtype: that of those which have one. Plain numbers become
 * constants of it. Errors: DTYPE_MISMATCH, UNSUPPORTED (the operator has no such dtype),
 * OUT_OF_RANGE (a number that the dtype does not hold). */
muster_status mst_draft_unify(mst_draft *draft, int32_t first, muster_dtype *dtype);
/* Operand i, a plain number, becomes a constant of the dtype. Errors: OUT_OF_RANGE. */
muster_status mst_draft_number(mst_draft *draft, int32_t i, muster_dtype dtype);
/* ---- exact.c: integers beyond 2^53 ---- */
__extension__ typedef __int128 mst_wide;
/* The integer that a plain number is: value->number + value->integer. false: it has a fraction, or
 * is larger than any dtype holds. */
bool mst_value_integer(const mst_graph_value *value, mst_wide *integer);
mst_graph_value mst_value_of_integer(mst_wide integer);
/* Does the dtype hold the number? A float dtype rounds it. */
bool mst_dtype_holds(muster_dtype dtype, const mst_graph_value *value);
/* Refuses a number of an attribute that the dtype does not hold. */
muster_status mst_draft_holds(mst_draft *draft, int32_t attribute, muster_dtype dtype);
enum { MST_NUMBER_TEXT = 32 };
const char *mst_value_text(const mst_graph_value *value, char text[MST_NUMBER_TEXT]);
/* A number that the dtype holds. */
muster_expr *mst_exact_number(mst_graph *graph, muster_dtype dtype, const mst_graph_value *value);
/* Any number, converted as muster_expr_cast does. */
muster_expr *mst_number_cast(mst_graph *graph, muster_dtype dtype, const mst_graph_value *value);
/* *result = the sum, difference or product of two integers, in all digits. false: another
 * operation, or other numbers. */
bool mst_integers_combine(int32_t op, const mst_graph_value *a, const mst_graph_value *b, mst_graph_value *result);

/* ---- dtypes.c: dtypes of results that the operands do not have ---- */
/* The smallest float dtype that holds both, in which both are computed. */
muster_dtype mst_dtype_wider(muster_dtype a, muster_dtype b);
/* Is the attribute, a dtype, a float dtype or not given? Refuses others. */
bool mst_draft_float_asked(mst_draft *draft, int32_t attribute);
/* The reduction of x along these axes. MUSTER_DTYPE_NONE: in the operation's own dtype. */
muster_expr *mst_reduced(muster_expr *x, int32_t reduction, const mst_graph_value *axes, bool keepdims, muster_dtype dtype);
#define MST_AXES(from, number) (&(const mst_graph_value){.list = (from), .count = (number)})
/* The `expand` of sum and prod, of mean, and of divide. NULL: one node computes it. */
muster_expr *mst_expand_total(mst_draft *draft);
muster_expr *mst_expand_mean(mst_draft *draft);
muster_expr *mst_expand_divide(mst_draft *draft);
/* ---- reductions.c ---- */
/* NULL without keepdims; else the reduction and a new shape. */
muster_expr *mst_expand_keepdims(mst_draft *draft);

/* ---- numbers.c: the `expand` of operations that plain numbers have; NULL: another operand ---- */
muster_expr *mst_fold_function(mst_draft *draft); /* of one operand, computed element by element */
muster_expr *mst_fold_shift(mst_draft *draft);
muster_expr *mst_integer_power(mst_draft *draft); /* NULL: of floats */
muster_expr *mst_where_of_numbers(mst_draft *draft);

/* Refuses a dtype that is not in the set. */
muster_status mst_draft_dtype(mst_draft *draft, int32_t operand, uint32_t dtypes);
muster_status mst_draft_ndim(mst_draft *draft, int32_t operand, int32_t ndim);
/* type->dims = the shape to which all operands broadcast. */
muster_status mst_draft_broadcast(mst_draft *draft, mst_type *type);
/* Is the value of the attribute 0 or 1? */
muster_status mst_draft_flag(mst_draft *draft, int32_t attribute);
/* Has the attribute so many entries, each of them a size? */
muster_status mst_draft_sizes(mst_draft *draft, int32_t attribute, int32_t count);
/* Does the operand have the dims of `wanted`? */
muster_status mst_draft_dims(mst_draft *draft, int32_t operand, const mst_type *wanted);
/* Does the operand broadcast to the dims of `type`? */
muster_status mst_draft_broadcasts(mst_draft *draft, int32_t operand, const mst_type *type);
/* Reads a list of axes of operand 0: sorted, from 0 on, each once. No entries: all axes. */
muster_status mst_draft_axes(mst_draft *draft, int32_t attribute, uint32_t *mask);
/* One axis of operand 0; negative ones count from the end. */
muster_status mst_draft_axis(mst_draft *draft, int32_t attribute, int32_t *axis);
/* Are all operands plain numbers? Then *values are theirs. */
bool mst_draft_numbers(const mst_draft *draft, double values[2]);

static inline double mst_number_of(const muster_expr *node) { return node->values[1].number; } /* of a full */
/* x in this dtype: itself, if it has that. */
static inline muster_expr *mst_cast_to(muster_expr *x, muster_dtype dtype) {
    if (mst_node_is_error(x) || x->type.dtype == dtype) return x;
    return mst_apply(x->graph, MST_OPERATOR_cast, &x, 1, (mst_graph_value[]){{.integer = dtype}});
}
/* transpose(node, axes), and its gradient. */
muster_expr *mst_transpose_to(muster_expr *node, const int64_t *axes);
/* The node with these axes (a mask) moved to the end, in their order; axes receives the order. */
muster_expr *mst_axes_last(muster_expr *node, uint32_t mask, int64_t axes[MUSTER_MAX_DIMS]);
/* The other way. */
muster_expr *mst_axes_back(muster_expr *node, const int64_t axes[MUSTER_MAX_DIMS]);
/* dy, which lacks the reduced axes, with these as axes of size 1. */
muster_expr *mst_keep_axes(muster_expr *dy, const mst_type *type, uint32_t mask);
/* x as a matrix (n, k): k counts the elements along the axes of the mask, *rows = n those along the
 * others. */
muster_expr *mst_as_rows(muster_expr *x, uint32_t mask, mst_dim *rows);
uint32_t mst_axes_mask(const mst_graph_value *value, int32_t ndim);
/* running.c. The gradient of prod. */
void mst_gradient_prod(mst_gradients *gradients, muster_expr *node, muster_expr *dy);
/* The message of an operator that can say only now that it has no gradient. */
void mst_gradient_refuse(mst_gradients *gradients, muster_expr *node, const char *reason);

#endif
