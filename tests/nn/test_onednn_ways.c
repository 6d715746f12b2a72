/* How a convolution whose channels lie last is computed where oneDNN makes code for AVX2: a table
 * of shapes, with both sides of every bound. Machines with AVX-512 never ask. */
#include "base_check.h"
#include "convolution/library_private.h"
#include "device_impl.h"
#include "product/product_private.h"

enum { FORWARD = MST_CONVOLUTION_FORWARD, DATA = MST_CONVOLUTION_DATA, WEIGHTS = MST_CONVOLUTION_WEIGHTS };
enum { LIE = MST_AS_THEY_LIE, REORDERED = MST_REORDERED, PRODUCTS = MST_BY_PRODUCTS };

typedef struct row {
    int kind, extent, channels, outputs, window, stride, groups, way;
    bool channels_first;
} row;

static const row rows[] = {
    /* forward: by products where the window moves by more than one element */
    {FORWARD, 56, 64, 64, 1, 1, 1, LIE, false},
    {FORWARD, 56, 64, 64, 3, 1, 1, REORDERED, false},
    {FORWARD, 56, 64, 64, 3, 2, 1, PRODUCTS, false},
    {FORWARD, 56, 64, 64, 1, 2, 1, PRODUCTS, false},
    {FORWARD, 56, 64, 63, 3, 1, 1, LIE, false}, /* the reorders do not pay */
    {FORWARD, 56, 63, 64, 3, 2, 1, LIE, false}, /* few channels */
    {FORWARD, 56, 64, 64, 3, 2, 2, LIE, false}, /* groups */
    {FORWARD, 56, 64, 64, 3, 2, 1, LIE, true},
    /* the gradient by x: by products where there are few places */
    {DATA, 7, 64, 64, 3, 1, 1, PRODUCTS, false},
    {DATA, 8, 64, 64, 3, 1, 1, REORDERED, false},
    {DATA, 14, 64, 64, 3, 2, 1, PRODUCTS, false},
    {DATA, 14, 64, 64, 1, 1, 1, PRODUCTS, false},
    {DATA, 15, 64, 64, 3, 2, 1, REORDERED, false},
    {DATA, 15, 64, 64, 1, 1, 1, LIE, false},
    /* the gradient by w: by products, but for large planes and a window of one element */
    {WEIGHTS, 29, 64, 64, 1, 1, 1, LIE, false},
    {WEIGHTS, 28, 64, 64, 1, 1, 1, PRODUCTS, false},
    {WEIGHTS, 29, 64, 64, 1, 2, 1, PRODUCTS, false},
    {WEIGHTS, 29, 64, 64, 3, 1, 1, PRODUCTS, false},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* (8, channels, 1, extent, extent). */
static mst_convolution_layout layout_of(int64_t channels, int64_t extent, bool channels_first) {
    mst_convolution_layout l = {.shape = {8, channels, 1, extent, extent}};
    const int64_t plane = extent * extent;
    const int64_t first[] = {channels * plane, plane, plane, extent, 1},
                  last[] = {channels * plane, 1, channels * plane, channels * extent, channels};
    for (int d = 0; d < MST_CONVOLUTION_DIMS; d++) l.strides[d] = (channels_first ? first : last)[d];
    return l;
}

static mst_convolution_geometry geometry_of(const row *r) {
    mst_convolution_geometry g = {
        .kind = r->kind, .groups = r->groups, .stride = {1, r->stride, r->stride}, .dilation = {1, 1, 1}, .axes = 2};
    g.x = layout_of(r->channels * r->groups, r->extent, r->channels_first);
    g.y = layout_of(r->outputs, (r->extent - 1) / r->stride + 1, r->channels_first);
    g.w = (mst_convolution_layout){.shape = {r->outputs, r->channels, 1, r->window, r->window}};
    return g;
}

static void each_shape_goes_its_way(void **state) {
    int32_t cases = 0;
    (void)state;
    assert_ok(mst_blas_open(false));
    const bool has_blas = mst_blas_get()->sgemm != NULL;
    for (int32_t i = 0; i < ROWS; i++) {
        const row *r = &rows[i];
        const mst_convolution_geometry g = geometry_of(r);
        const int without = r->window > 1 && r->outputs >= 64 ? REORDERED : LIE; /* nobody computes products */
        const int expected = r->way == PRODUCTS && !has_blas ? without : r->way, received = (int)mst_convolution_onednn_fastest(&g);
        if (received != expected) fail_msg("row %d: expected way %d, received %d", i, expected, received);
        cases++;
    }
    assert_int_equal(cases, 18);
    mst_blas_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_shape_goes_its_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
