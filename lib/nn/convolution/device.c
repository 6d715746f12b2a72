/* Convolutions on devices whose code is convolution.cu. */
#include "own_private.h"

muster_status mst_convolution_device(muster_worker *worker, const mst_convolution_call *call) {
    static mst_code_kernel kernels[MST_CONVOLUTION_KINDS] = {
        {.name = "mst_convolve_forward"}, {.name = "mst_convolve_data"}, {.name = "mst_convolve_weights"}};
    const mst_convolution_geometry *g = &call->geometry;
    const mst_convolution_layout *result = g->kind == MST_CONVOLUTION_FORWARD ? &g->y : g->kind == MST_CONVOLUTION_DATA ? &g->x : &g->w;
    int64_t elements = 1;
    for (int32_t d = 0; d < MST_CONVOLUTION_DIMS; d++) elements *= result->shape[d];
    return mst_op_code(worker, &kernels[g->kind], elements, call, sizeof *call);
}
