/* What the operations of normalisation share. */
#ifndef MST_NORMALISATION_PRIVATE_H
#define MST_NORMALISATION_PRIVATE_H

#include "composite_private.h"

enum { MST_CHANNEL_AXIS = 1 };

muster_expr *mst_epsilon_refused(mst_draft *draft, double epsilon);
/* Has x from `least` to `most` axes? Else it is refused. */
bool mst_has_channels(mst_draft *draft, int32_t least, int32_t most);
/* Have all operands behind x these dims? Else one is refused. */
bool mst_parameters_fit(mst_draft *draft, const mst_type *wanted);

/* ---- normalised_rows.c ---- */

/* (x - mean) / sqrt(mean of (x - mean) (x - mean) + epsilon), the means along the axes; not
 * centred: with 0 in place of the mean. x: f32 or f64. */
muster_expr *mst_normalised_rows(muster_expr *x, const mst_graph_value *axes, bool centred, double epsilon);
/* With what x of the dtype is multiplied before a mean is subtracted, in f64: inverse is 1 over the
 * deviation. NULL: with nothing. The distance of two f32 may be no f32, and 1 over a large
 * deviation may have lost digits; 1 for deviations that are not large. */
muster_expr *mst_normal_scale(muster_expr *inverse, muster_dtype dtype);

/* ---- channel_sums.c: sums over the elements of each channel of x (n, c, ...), in f64 ----
 * Of the whole x they are (c). Of the rows of each device, on several, they are (devices, c): row d
 * is that of device d, which has this row only. */

/* The sums of a factor, and of the factor times x - center. factor NULL: x - center. center: (c),
 * or (devices, c), of the dtype of x. */
typedef struct mst_sums {
    muster_expr *sum, *product;
} mst_sums;
mst_sums mst_channel_sums_of(muster_expr *x, muster_expr *center, muster_expr *factor, bool per_device);
/* So many elements they have. */
muster_expr *mst_channel_count(muster_expr *x, bool per_device);
/* A number for each channel as a value that broadcasts to x. */
muster_expr *mst_by_channel(muster_expr *numbers, muster_expr *x);
/* The sum over devices, where there are sums for each. */
muster_expr *mst_over_devices(muster_expr *numbers);

#endif
