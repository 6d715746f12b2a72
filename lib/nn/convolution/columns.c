/* Columns: for each place of y the elements of x that its sums read, which makes a convolution a
 * product of matrices. */
#include "own_private.h"

#include <string.h>

static int64_t columns_ceiling(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

mst_columns_spot mst_columns_spot_of(const mst_convolution_geometry *g, const mst_convolution_layout *x, int64_t group,
                                     const mst_places_run *run, int64_t element) {
    enum { LAST = MST_CONVOLUTION_AXES - 1 };
    const int64_t *window = g->w.shape + 2, *extents = x->shape + 2, *strides = x->strides + 2;
    mst_columns_spot spot = {.end = run->length, .offset = run->image * x->strides[0] + group * g->w.shape[1] * x->strides[1]};
    bool inside = true;
    for (int32_t d = LAST; d >= 0; d--) {
        const int64_t k = element % window[d], origin = k * g->dilation[d] - g->before[d];
        element /= window[d];
        int64_t at = run->place[d] * g->stride[d] + origin;
        if (d == LAST) {
            spot.first = columns_ceiling(-at, g->stride[d]);
            const int64_t end = columns_ceiling(extents[d] - at, g->stride[d]);
            if (spot.end > end) spot.end = end;
            at += spot.first * g->stride[d];
        } else {
            inside = inside && at >= 0 && at < extents[d];
        }
        spot.offset += at * strides[d];
    }
    if (!inside || spot.first > spot.end) spot.first = spot.end = 0;
    return spot;
}

#define FLOATS
#define SUFFIX f32
#define T float
#define C float
#define LOAD MST_LOAD_PLAIN
#include "columns_loops.h"
#define SUFFIX f64
#define T double
#define C double
#define LOAD MST_LOAD_PLAIN
#include "columns_loops.h"
#undef FLOATS
#define SUFFIX f16
#define T uint16_t
#define C float
#define LOAD muster_f16_to_f32
#include "columns_loops.h"
#define SUFFIX bf16
#define T uint16_t
#define C float
#define LOAD muster_bf16_to_f32
#include "columns_loops.h"

void mst_columns_fill(const mst_convolution_call *call, const mst_convolution_panel *panel, void *columns) {
    switch (call->geometry.dtype) {
#define CASE(NAME, name, ...)                                \
    case MUSTER_##NAME:                                      \
        if (panel->last)                                     \
            columns_fill_last_##name(call, panel, columns);  \
        else                                                 \
            columns_fill_first_##name(call, panel, columns); \
        break;
        MST_EACH_FLOAT(CASE)
#undef CASE
    }
}

void mst_columns_add(const mst_convolution_call *call, const mst_convolution_panel *panel, const void *columns,
                     const mst_convolution_layout *layout, void *x) {
    if (mst_convolution_computed(&call->geometry) == MUSTER_F32)
        (panel->last ? columns_add_last_f32 : columns_add_first_f32)(&call->geometry, panel, columns, layout, x);
    else
        (panel->last ? columns_add_last_f64 : columns_add_first_f64)(&call->geometry, panel, columns, layout, x);
}
