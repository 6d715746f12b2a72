/* Pooling on devices whose code is pooling.cu. */
#include "own_private.h"

muster_status mst_pooling_device(muster_worker *worker, const mst_pooling_parameters *p) {
    static mst_code_kernel kernels[MST_POOLING_KINDS] = {{.name = "mst_pool_max"},
                                                         {.name = "mst_pool_take"},
                                                         {.name = "mst_pool_max_gradient"},
                                                         {.name = "mst_pool_sum"},
                                                         {.name = "mst_pool_sum_gradient"}};
    const bool of_x = p->kind == MST_POOLING_MAX_GRADIENT || p->kind == MST_POOLING_SUM_GRADIENT;
    int64_t elements = 1;
    for (int32_t d = 0; d < MST_POOLING_DIMS; d++) elements *= (of_x ? &p->x : &p->y)->shape[d];
    return mst_op_code(worker, &kernels[p->kind], elements, p, sizeof *p);
}
