/* Programs on CPU cores by OpenCL, for the host backend's table. One state serves the whole
 * process: a context over one sub-device per core, which the devices of the host backend use round
 * robin. The first program creates it, and it stays until the process ends: implementations keep
 * their threads anyway, and other libraries of the program may share the context, so closing it
 * would gain nothing. Each device that has a program has its own queue. */
#ifndef MST_OPENCL_PRIVATE_H
#define MST_OPENCL_PRIVATE_H

#include "program_impl.h"

typedef struct mst_opencl_device mst_opencl_device;

/* The OpenCL part of a host device, NULL until its first program. The functions below are entries
 * of the host backend's table or called by them. */
typedef struct mst_opencl_slot {
    mst_opencl_device *device;
    int32_t ordinal; /* the host device's ordinal, which selects the core */
} mst_opencl_slot;

/* Fails unless there is an OpenCL device for CPU cores. */
muster_status mst_opencl_probe(void);

muster_status mst_opencl_open(mst_device *head, mst_opencl_slot *slot, const mst_program_request *request, mst_program **program,
                              char **log);
void mst_opencl_close(mst_program *program);
muster_status mst_opencl_limits(const mst_program *program, int32_t kernel, mst_program_limits *limits);
/* The caller sets head->queued. */
muster_status mst_opencl_launch(mst_program *program, int32_t kernel, const mst_program_grid *grid, const mst_program_value *values);
/* Waits for the last launch, and calls head's interrupt repeatedly meanwhile. */
muster_status mst_opencl_wait(mst_device *head, mst_opencl_slot *slot);
/* Releases the queue. If the device is lost, or in a child after fork, nothing is released. */
void mst_opencl_end(mst_opencl_slot *slot);

#endif
