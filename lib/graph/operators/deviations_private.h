/* Sums of deviations in f64, for the operations that are made of squares. */
#ifndef MST_DEVIATIONS_PRIVATE_H
#define MST_DEVIATIONS_PRIVATE_H

#include "operators_private.h"

/* The kinds of centers. ANY: any number. MEAN: the mean of x; the sum of squares has its minimum
 * there, so that no gradient flows to the center. NOTHING: 0; the gradient is computed in the dtype
 * of x. */
typedef enum mst_deviations { MST_ABOUT_ANY, MST_ABOUT_MEAN, MST_ABOUT_NOTHING } mst_deviations;
/* The sums of factor (x - center) along the axes, which are left out: f64. x and factor: f32 or
 * f64. factor NULL: of the squares of x - center. center, f64: a number, or the dims of x with 1 in
 * place of the axes. */
muster_expr *mst_deviation_sums_of(muster_expr *x, muster_expr *center, muster_expr *factor, const mst_graph_value *axes,
                                   mst_deviations about);
/* The mean of x along the axes, which are kept, in f64. It is the sum divided once: the mean of
 * equal f32 is their value on any number of devices. */
muster_expr *mst_mean_wide(muster_expr *x, const mst_graph_value *axes);

#endif
