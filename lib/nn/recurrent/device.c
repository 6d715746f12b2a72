/* Steps of recurrent layers on devices whose code is recurrent.cu. */
#include "own_private.h"

muster_status mst_cell_device_forward(muster_worker *worker, const mst_cell_parameters *p) {
    static mst_code_kernel kernel = {.name = "mst_cell_forward"};
    return mst_op_code(worker, &kernel, p->rows * p->width, p, sizeof *p);
}
muster_status mst_cell_device_gradient(muster_worker *worker, const mst_cell_parameters *p) {
    static mst_code_kernel kernel = {.name = "mst_cell_gradient"};
    return mst_op_code(worker, &kernel, p->rows * p->width, p, sizeof *p);
}
