/* The library's own convolutions, on CPU cores and on GPUs. */
#ifndef MST_CONVOLUTION_OWN_PRIVATE_H
#define MST_CONVOLUTION_OWN_PRIVATE_H

#include "convolution/convolution_parameters_private.h"
#include "op_impl.h"
#include "product/product_private.h"

typedef mst_convolution_parameters mst_convolution_call;

/* ---- host.c, depthwise.c, device.c ---- */

/* On a CPU core. Scratch memory is the worker's. */
muster_status mst_convolution_host(muster_worker *worker, const mst_convolution_call *call);
/* Has each group one channel of x? Then the sums are short, and loops are faster than products. */
bool mst_convolution_is_depthwise(const mst_convolution_geometry *g);
muster_status mst_convolution_depthwise(muster_worker *worker, const mst_convolution_call *call);
/* On another device, by its kernels. */
muster_status mst_convolution_device(muster_worker *worker, const mst_convolution_call *call);

/* ---- columns.c ---- */

/* Places of y are numbered from 0 on through all images: (n, p) has the number n * places + p. The
 * columns of a group are a matrix (k, count): row (c', k) holds the elements of x that are
 * multiplied by w[o, c', k] for `count` places, from `first` on. With `last` its transpose lies in
 * memory, and the rows are in the order (k, c'). All elements are of the dtype to compute in. */
typedef struct mst_convolution_panel {
    int64_t group, first, count;
    bool last;
} mst_convolution_panel;

/* Places of y one behind the other along its last axis, which is where loops are long. */
typedef struct mst_places_run {
    int64_t image, place[MST_CONVOLUTION_AXES], length;
    int64_t at; /* the first one's number in the panel */
} mst_places_run;
/* Goes through the runs of a panel; *run is zeroed at first. false: there are no more. */
bool mst_places_next(const mst_convolution_geometry *g, const mst_convolution_panel *panel, mst_places_run *run);

static inline int64_t mst_convolution_volume(const int64_t *shape) { return shape[2] * shape[3] * shape[4]; }
static inline muster_dtype mst_convolution_computed(const mst_convolution_geometry *g) {
    return g->dtype == MUSTER_F64 ? MUSTER_F64 : MUSTER_F32;
}
void mst_columns_fill(const mst_convolution_call *call, const mst_convolution_panel *panel, void *columns);
/* The elements of x that a run of places reads for one element of the window: those from place
 * `first` of the run up to place `end`; the others read padding. */
typedef struct mst_columns_spot {
    int64_t first, end;
    int64_t offset; /* of the element of place `first`, in the first channel of the group */
} mst_columns_spot;
mst_columns_spot mst_columns_spot_of(const mst_convolution_geometry *g, const mst_convolution_layout *x, int64_t group,
                                     const mst_places_run *run, int64_t element);
/* From the element of x of a place to that of the next place along the last axis. */
static inline int64_t mst_columns_step(const mst_convolution_geometry *g, const mst_convolution_layout *x) {
    return g->stride[MST_CONVOLUTION_AXES - 1] * x->strides[MST_CONVOLUTION_DIMS - 1];
}
/* Adds the columns to the elements of x that they come from. x has the dtype to compute in. */
void mst_columns_add(const mst_convolution_call *call, const mst_convolution_panel *panel, const void *columns,
                     const mst_convolution_layout *layout, void *x);

/* ---- panels.c: elements in memory of their own, converted to the dtype to compute in ---- */

/* The elements of y of the panel's group and places, as a matrix (o / groups, count); with `last`
 * its transpose lies in memory. */
void mst_places_read(const mst_convolution_call *call, const mst_convolution_panel *panel, void *tile);
void mst_places_write(const mst_convolution_call *call, const mst_convolution_panel *panel, const void *tile);
/* The weights of all groups, (o, c', k), or with `last` (o, k, c'). */
void mst_weights_read(const mst_convolution_call *call, bool last, void *weights);
void mst_weights_write(const mst_convolution_call *call, bool last, const void *weights);
/* The channels of a group of image n of x, from contiguous memory. */
void mst_image_write(const mst_convolution_call *call, int64_t n, int64_t group, const void *image);

#endif
