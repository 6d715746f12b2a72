/* Keeps launches from compiling. When a kernel is first launched with a new number of threads per
 * group (and again for large grids), PoCL generates code for that number, which takes 50 to 100 ms
 * each time. If the environment variable POCL_WORK_GROUP_SPECIALIZATION is 0, it uses its code for
 * any number of threads instead, which it generates anyway when the program's binary is asked for.
 * That code was as fast in our measurements.
 *
 * PoCL 3 reads the variable when it looks for a kernel's code, and remembers the value. So a first
 * kernel that does nothing runs while an environment with the variable briefly replaces the
 * program's own. Afterwards the program and its children have their own environment again. If the
 * user has set the variable, nothing is changed. PoCL 6 asks for it again at each launch: there a
 * first launch compiles, unless the user has set it. */
#include "opencl_state_private.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char variable[] = "POCL_WORK_GROUP_SPECIALIZATION=0";
static const char name[] = "POCL_WORK_GROUP_SPECIALIZATION";
static const int64_t SLEEP_NS = 50 * 1000;

static const mst_code_program nothing = {.name = "muster_nothing", .text = "__kernel void muster_nothing(void) {}\n"};

typedef struct first_kernel {
    mst_cl_program program;
    mst_cl_kernel kernel;
    mst_cl_queue queue;
} first_kernel;

static muster_status load(const mst_opencl *cl, const mst_code_image *image, first_kernel *first) {
    const size_t bytes = (size_t)image->bytes;
    const unsigned char *data = image->data;
    mst_cl_result each = MST_CL_SUCCESS, result = MST_CL_SUCCESS;
    first->program = cl->api->clCreateProgramWithBinary(cl->context, 1, cl->devices, &bytes, &data, &each, &result);
    MUSTER_TRY(mst_opencl_check(result, "clCreateProgramWithBinary", cl->name));
    MUSTER_TRY(MST_CL(cl, cl->name, clBuildProgram, first->program, 1, cl->devices, "", NULL, NULL));
    first->kernel = cl->api->clCreateKernel(first->program, nothing.name, &result);
    MUSTER_TRY(mst_opencl_check(result, "clCreateKernel", cl->name));
    first->queue = cl->api->clCreateCommandQueue(cl->context, cl->devices[0], 0, &result);
    return mst_opencl_check(result, "clCreateCommandQueue", cl->name);
}

/* The kernel does nothing, so the wait needs no deadline. */
static muster_status run(const mst_opencl *cl, const first_kernel *first) {
    const size_t one = 1;
    mst_cl_event event = NULL;
    int32_t state = 1;
    MUSTER_TRY(MST_CL(cl, cl->name, clEnqueueNDRangeKernel, first->queue, first->kernel, 1, NULL, &one, &one, 0, NULL, &event));
    muster_status status = MST_CL(cl, cl->name, clFlush, first->queue);
    while (status == MUSTER_OK && state > MST_CL_COMPLETE) {
        status = MST_CL(cl, cl->name, clGetEventInfo, event, MST_CL_EVENT_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (state > MST_CL_COMPLETE) nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
    (void)cl->api->clReleaseEvent(event);
    return status;
}

/* setenv could free the array that getenv in another thread is reading. This function leaves the
 * old array as it is, and never frees the new one. */
static muster_status run_in_own_environment(const mst_opencl *cl, const first_kernel *first) {
    size_t count = 0;
    char **before = environ;
    while (before && before[count]) count++;
    char **with = malloc((count + 2) * sizeof *with); /* not mst_alloc, because it is never freed */
    if (!with) return mst_out_of_memory("OpenCL: environment", (int64_t)(count + 2) * (int64_t)sizeof *with);
    for (size_t i = 0; i < count; i++) with[i] = before[i];
    with[count] = variable;
    with[count + 1] = NULL;
    static char **kept; /* reachable, for leak checkers */
    kept = with;
    environ = with;
    muster_status status = run(cl, first);
    /* otherwise another thread has set a variable meanwhile: the environment is then a copy that
     * includes our variable */
    if (environ == kept) environ = before;
    return status;
}

static void release(const mst_opencl *cl, const first_kernel *first) {
    if (first->queue) (void)cl->api->clReleaseCommandQueue(first->queue);
    if (first->kernel) (void)cl->api->clReleaseKernel(first->kernel);
    if (first->program) (void)cl->api->clReleaseProgram(first->program);
}

muster_status mst_opencl_prepare(const mst_opencl *cl) {
    if (!cl->is_pocl || getenv(name)) return MUSTER_OK;
    mst_opencl_maker maker = {cl, cl->devices[0]};
    const mst_code_target target = {.compiler = &mst_opencl_compiler, .user = &maker};
    mst_code_image image = {0};
    first_kernel first = {0};
    muster_status status = mst_code_build(&target, &nothing, &image);
    if (status == MUSTER_OK) status = load(cl, &image, &first);
    if (status == MUSTER_OK) status = run_in_own_environment(cl, &first);
    release(cl, &first);
    mst_code_release(&image);
    return status;
}
