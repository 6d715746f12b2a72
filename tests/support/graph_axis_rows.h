/* More rows for the suites that look at every operator (graph_operator_rows.h): operations along an
 * axis, with rows at every place, the axis itself too. */
#ifndef GRAPH_AXIS_ROWS_H
#define GRAPH_AXIS_ROWS_H

#include "graph_operator_rows.h"

/* Row i, or NULL behind the last one. */
const operator_row *operator_axis_row(int32_t i);

/* The operand of a row whose shape begins with p or q, as indices, i64: of all places along the
 * axis of x, or from 0 to OPERATOR_PLACES - 1 where x is NULL. `uniform` is the operand as the
 * shape says it, f64 in (-1, 1). */
enum { OPERATOR_PLACES = 9 };
muster_expr *operator_places(muster_expr *uniform, muster_expr *x, int32_t axis);

#endif
