/* Checking gradients by differences. The checked graph is a copy of the program's, in f64, with a
 * number for every size. */
#ifndef MST_CHECK_PRIVATE_H
#define MST_CHECK_PRIVATE_H

#include "graph_private.h"

/* An input or a parameter that the loss depends on. */
typedef struct mst_check_leaf {
    const muster_expr *from;
    muster_tensor value; /* dense, on the host; f64 for every float dtype */
    bool checked;
} mst_check_leaf;

typedef struct mst_check {
    mst_graph *graph; /* of the program */
    muster_expr *loss;
    muster_gradient_check_options options; /* with the defaults filled in */
    int64_t sizes[MST_SIZES];
    bool *used; /* by id: does the loss depend on it? */
    mst_check_leaf *leaves;
    int32_t leaf_count;
    uint64_t random; /* the state of what is drawn */
} mst_check;

/* The worst element of all that were compared. */
typedef struct mst_check_worst {
    int32_t leaf; /* -1: none was compared */
    int64_t element;
    double gradient, difference;
    double error; /* as a part of what is allowed */
    int64_t compared, wrong;
} mst_check_worst;

/* check_point.c: the leaves that the loss depends on, and the point. From 0 to 1, below 1. */
double mst_check_draw(mst_check *check);
/* Dense memory of the dtype that the check computes in. Errors: OUT_OF_MEMORY, OVERFLOW. */
muster_status mst_check_tensor(const mst_check *check, const mst_type *type, muster_tensor *tensor);
muster_status mst_check_point(mst_check *check, muster_expr *const *expressions, int32_t count);

/* check_copy.c: a graph to compute in; its inputs stand for leaves. */
typedef struct mst_check_copy {
    muster_graph *graph;
    muster_expr **map; /* by id in the program's graph; NULL: not copied */
} mst_check_copy;
muster_status mst_check_copy_begin(const mst_check *check, mst_check_copy *copy);
/* An input in the place of `node`. */
muster_status mst_check_copy_leaf(const mst_check *check, mst_check_copy *copy, const muster_expr *node);
/* The node, whose operands have been copied. */
muster_status mst_check_copy_node(const mst_check *check, mst_check_copy *copy, const muster_expr *node);
void mst_check_copy_end(mst_check_copy *copy);
/* The function of the copy, whose outputs are set. */
muster_status mst_check_compile(const mst_check_copy *copy, muster_function **function);

/* check_compare.c. What the loss is: that of the program; a sum over the results of one operation,
 * whose operands have the values of the point; such a sum over those results that are finite. */
typedef enum mst_check_scope { MST_CHECK_WHOLE, MST_CHECK_RESULTS, MST_CHECK_FINITE_RESULTS } mst_check_scope;
/* Compares the gradients of the loss, a node of the copy, with respect to the leaves, which are the
 * inputs of the copy in their order. Elements that are infinite or NaN are left out. If a leaf has
 * no other, or the loss is not finite, the loss of the program is refused, and of an operation
 * nothing is compared. */
muster_status mst_check_compare(mst_check *check, const mst_check_copy *copy, muster_expr *loss, const mst_check_leaf *leaves,
                                int32_t count, mst_check_scope scope, mst_check_worst *worst);

/* check_blame.c. The first node whose own gradient is wrong at the point; NULL: none. */
muster_status mst_check_blame(mst_check *check, const muster_expr **node);

#endif
