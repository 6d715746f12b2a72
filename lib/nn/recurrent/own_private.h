/* Who computes a step of a recurrent layer. */
#ifndef MST_RECURRENT_OWN_PRIVATE_H
#define MST_RECURRENT_OWN_PRIVATE_H

#include "op_impl.h"
#include "recurrent/recurrent_parameters_private.h"

/* host.c: on a CPU core. */
typedef struct mst_cell_host {
    char *row; /* scratch memory for the gates of a row: MST_CELL_SCRATCH states */
} mst_cell_host;
enum { MST_CELL_SCRATCH = 4 };
muster_status mst_cell_host_open(muster_worker *worker, muster_dtype dtype, int64_t width, mst_cell_host *host);
void mst_cell_host_forward(const mst_cell_host *host, const mst_cell_parameters *p);
void mst_cell_host_gradient(const mst_cell_parameters *p);

/* device.c: on another device. */
muster_status mst_cell_device_forward(muster_worker *worker, const mst_cell_parameters *p);
muster_status mst_cell_device_gradient(muster_worker *worker, const mst_cell_parameters *p);

#endif
