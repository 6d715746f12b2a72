/* Programs on CPU cores, by OpenCL: for the host backend's table. One state serves the whole
 * process: a context over one sub-device for each core, which the devices of the host backend take
 * in turn. It is made by the first program and stays until the process ends: implementations keep
 * their threads anyway, and closing a context that another library of the program may share gains
 * nothing. A device that has a program has a queue of its own. */
#ifndef MST_OPENCL_IMPL_H
#define MST_OPENCL_IMPL_H

#include "program_impl.h"

typedef struct mst_opencl_device mst_opencl_device;

/* The device's part: NULL until its first program. All functions below are table entries, or called
 * by them. */
typedef struct mst_opencl_slot {
    mst_opencl_device *device;
    int32_t ordinal; /* of the host device: which core */
} mst_opencl_slot;

/* Is there OpenCL with a device for CPU cores? */
muster_status mst_opencl_probe(void);

muster_status mst_opencl_open(mst_device *head, mst_opencl_slot *slot, const mst_program_request *request, mst_program **program,
                              char **log);
void mst_opencl_close(mst_program *program);
muster_status mst_opencl_limits(const mst_program *program, int32_t kernel, mst_program_limits *limits);
/* Does not set head->queued. */
muster_status mst_opencl_launch(mst_program *program, int32_t kernel, const mst_program_grid *grid, const mst_program_value *values);
/* Waits for what was launched last, asking head's interrupt now and then. */
muster_status mst_opencl_wait(mst_device *head, mst_opencl_slot *slot);
/* Gives the queue back; where the device is lost, nothing is given back. */
void mst_opencl_end(mst_opencl_slot *slot);

#endif
