/* Opens and launches the programs of one device. */
#include "opencl_state_private.h"
#include "own_thread_impl.h"

#include <string.h>

static const int64_t GROUPS_MAX = INT32_MAX; /* groups of a launch in all: implementations count them in 32 bits */

/* The argument that the kernel object holds now. A launch with the same argument does not set it
 * again, which saves a third of the cost of a queued launch. The object belongs to one device, on
 * which one thread issues. */
typedef struct opencl_argument {
    mst_cl_buffer buffer;
    void *address;
    int64_t bytes;
    bool scalar_set;
    unsigned char scalar[8];
} opencl_argument;

typedef struct opencl_kernel {
    mst_cl_kernel kernel;
    char *name;
    int32_t count;
    bool local;
    int32_t bytes[MST_PROGRAM_ARGUMENTS];
    opencl_argument given[MST_PROGRAM_ARGUMENTS];
    mst_program_limits limits;
} opencl_kernel;

typedef struct opencl_program {
    mst_program head;
    mst_opencl_device *device;
    mst_cl_program program;
    opencl_kernel *kernels;
    int32_t count;
} opencl_program;

/* ---- opening ---- */

static void free_buffers(const mst_opencl_api *api, opencl_kernel *kernel, bool release) {
    for (int32_t i = 0; i < kernel->count; i++) {
        const mst_cl_buffer buffer = kernel->given[i].buffer;
        if (buffer && release)
            (void)api->clReleaseMemObject(buffer);
        else if (buffer)
            mst_opencl_keep(buffer);
    }
}

static void free_program(opencl_program *program) {
    if (!program) return;
    const mst_opencl_api *api = program->device->cl->api;
    const bool release = mst_opencl_may_release(program->device);
    for (int32_t i = 0; program->kernels && i < program->count; i++) {
        if (program->kernels[i].kernel && release)
            (void)api->clReleaseKernel(program->kernels[i].kernel);
        else
            mst_opencl_keep(program->kernels[i].kernel);
        free_buffers(api, &program->kernels[i], release);
        mst_free(program->kernels[i].name);
    }
    if (program->program && release)
        (void)api->clReleaseProgram(program->program);
    else
        mst_opencl_keep(program->program);
    mst_free(program->kernels);
    mst_free(program->head.log);
    mst_free(program);
}

static muster_status refuse_need(const mst_device *head, const mst_program_request *request, const char *need) {
    return mst_error(MUSTER_UNAVAILABLE, "%s needs %s, which the device %s does not have", request->code.name, need, head->name);
}

static muster_status check_needs(const mst_device *head, const mst_opencl *cl, const mst_program_request *request) {
    if (request->needs & MST_NEEDS_CUDA) return refuse_need(head, request, "CUDA");
    if ((request->needs & MST_NEEDS_DOUBLE) && !cl->has_double) return refuse_need(head, request, "f64 arithmetic (OpenCL's cl_khr_fp64)");
    if ((request->needs & MST_NEEDS_SMALL) && !cl->has_small)
        return refuse_need(head, request, "stores of less than 4 bytes (OpenCL's cl_khr_byte_addressable_store)");
    return MUSTER_OK;
}

/* Sets every argument once, so that a mismatch between the source and the declared parameters is
 * found here and not at the first launch. */
static muster_status try_parameters(const opencl_program *program, const opencl_kernel *kernel) {
    const mst_opencl *cl = program->device->cl;
    static const char zeros[8];
    uint32_t count = 0;
    MUSTER_TRY(MST_CL(cl, kernel->name, clGetKernelInfo, kernel->kernel, MST_CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL));
    if ((int64_t)count != kernel->count + (kernel->local ? 1 : 0))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "kernel %s: expected a function with the %d parameters that were declared%s, received one with %u", kernel->name,
                         (int)kernel->count, kernel->local ? " and the dynamic local memory" : "", (unsigned)count);
    for (int32_t i = 0; i < kernel->count; i++) {
        const bool buffer = kernel->bytes[i] == 0;
        const mst_cl_buffer none = NULL;
        const mst_cl_result result = cl->api->clSetKernelArg(kernel->kernel, (uint32_t)i, buffer ? sizeof none : (size_t)kernel->bytes[i],
                                                             buffer ? (const void *)&none : zeros);
        /* Both may have 8 bytes, but only a buffer accepts NULL. */
        const bool takes_none = result == MST_CL_SUCCESS && (buffer || kernel->bytes[i] == 8) &&
                                cl->api->clSetKernelArg(kernel->kernel, (uint32_t)i, sizeof none, NULL) == MST_CL_SUCCESS;
        if (result == MST_CL_SUCCESS && (buffer || kernel->bytes[i] == 8) && takes_none != buffer)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "kernel %s: parameter %d: expected a %s, as declared, received a text with a %s there", kernel->name, (int)i,
                             buffer ? "buffer" : "scalar", buffer ? "scalar" : "buffer");
        if (result == MST_CL_SUCCESS) continue;
        (void)mst_opencl_error(result, "clSetKernelArg", NULL);
        char reason[MST_MESSAGE_SIZE];
        mst_error_save(reason);
        if (buffer)
            return mst_error(MUSTER_INVALID_ARGUMENT, "kernel %s: parameter %d: expected a buffer, as declared (%.200s)", kernel->name,
                             (int)i, reason);
        return mst_error(MUSTER_INVALID_ARGUMENT, "kernel %s: parameter %d: expected a scalar of %d bytes, as declared (%.200s)",
                         kernel->name, (int)i, (int)kernel->bytes[i], reason);
    }
    return MUSTER_OK;
}

static muster_status read_limits(const opencl_program *program, opencl_kernel *kernel) {
    const mst_opencl *cl = program->device->cl;
    const mst_cl_device device = program->device->device;
    size_t threads = 0, multiple = 0, sizes[16] = {0};
    uint64_t local = 0, used = 0;
    uint32_t units = 0;
    MUSTER_TRY(MST_CL(cl, kernel->name, clGetKernelWorkGroupInfo, kernel->kernel, device, MST_CL_KERNEL_WORK_GROUP_SIZE, sizeof threads,
                      &threads, NULL));
    MUSTER_TRY(MST_CL(cl, kernel->name, clGetKernelWorkGroupInfo, kernel->kernel, device, MST_CL_KERNEL_PREFERRED_MULTIPLE, sizeof multiple,
                      &multiple, NULL));
    MUSTER_TRY(
        MST_CL(cl, kernel->name, clGetKernelWorkGroupInfo, kernel->kernel, device, MST_CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used, NULL));
    MUSTER_TRY(MST_CL(cl, kernel->name, clGetDeviceInfo, device, MST_CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL));
    MUSTER_TRY(MST_CL(cl, kernel->name, clGetDeviceInfo, device, MST_CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL));
    MUSTER_TRY(MST_CL(cl, kernel->name, clGetDeviceInfo, device, MST_CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    if (used > local)
        return mst_error(MUSTER_UNAVAILABLE,
                         "kernel %s: expected at most the %llu bytes of local memory that the device has, received a text with %llu",
                         kernel->name, (unsigned long long)local, (unsigned long long)used);
    kernel->limits = (mst_program_limits){.threads = (int64_t)threads,
                                          .preferred = multiple > 0 ? (int64_t)multiple : 1,
                                          .processors = units > 0 ? units : 1,
                                          .local_bytes = (int64_t)(local - used)};
    for (int d = 0; d < MST_PROGRAM_DIMS; d++) {
        kernel->limits.threads_in[d] = (int64_t)sizes[d];
        kernel->limits.groups_in[d] = GROUPS_MAX;
    }
    return MUSTER_OK;
}

static muster_status make_kernel(opencl_program *program, const mst_program_kernel *asked, opencl_kernel *kernel) {
    const mst_opencl *cl = program->device->cl;
    if (asked->parameter_count < 0 || asked->parameter_count > MST_PROGRAM_ARGUMENTS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "kernel %s: expected at most %d parameters, received %d", asked->name,
                         MST_PROGRAM_ARGUMENTS, (int)asked->parameter_count);
    kernel->name = mst_strdup(asked->name);
    if (!kernel->name) return mst_out_of_memory("OpenCL: name of a kernel", (int64_t)strlen(asked->name) + 1);
    kernel->count = asked->parameter_count;
    kernel->local = asked->local;
    for (int32_t i = 0; i < kernel->count; i++) kernel->bytes[i] = asked->parameters[i].bytes;
    mst_cl_result result = MST_CL_SUCCESS;
    kernel->kernel = cl->api->clCreateKernel(program->program, asked->name, &result);
    if (result == MST_CL_INVALID_KERNEL_NAME)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "kernel %s: expected a function of that name with KERNEL before it, received a text without one", asked->name);
    MUSTER_TRY(mst_opencl_check(result, "clCreateKernel", asked->name));
    MUSTER_TRY(try_parameters(program, kernel));
    return read_limits(program, kernel);
}

static muster_status load_image(opencl_program *program, const mst_code_image *image) {
    const mst_opencl *cl = program->device->cl;
    const size_t bytes = (size_t)image->bytes;
    const unsigned char *data = image->data;
    mst_cl_result each = MST_CL_SUCCESS, result = MST_CL_SUCCESS;
    program->program = cl->api->clCreateProgramWithBinary(cl->context, 1, &program->device->device, &bytes, &data, &each, &result);
    MUSTER_TRY(mst_opencl_check(result, "clCreateProgramWithBinary", program->device->name));
    return MST_CL(cl, program->device->name, clBuildProgram, program->program, 1, &program->device->device, "", NULL, NULL);
}

/* An implementation may refuse a cached binary for a reason that its version does not show. Then
 * the program is compiled again. */
static muster_status load(opencl_program *program, const mst_code_target *target, const mst_program_request *request,
                          mst_code_image *image) {
    muster_status status = load_image(program, image);
    if (status == MUSTER_OK || !image->found) return status;
    if (program->program) (void)program->device->cl->api->clReleaseProgram(program->program);
    program->program = NULL;
    mst_code_release(image);
    MUSTER_TRY(target->compiler->compile(target, &request->code, image));
    return load_image(program, image);
}

static muster_status fill(opencl_program *program, const mst_program_request *request, mst_code_image *image) {
    mst_opencl_maker maker = {program->device->cl, program->device->device};
    mst_code_target target = {.compiler = &mst_opencl_compiler, .user = &maker};
    memcpy(target.options, request->options, sizeof target.options);
    MUSTER_TRY(check_needs(program->device->head, maker.cl, request));
    MUSTER_TRY(mst_code_build(&target, &request->code, image));
    MUSTER_TRY(load(program, &target, request, image));
    program->kernels = mst_alloc((size_t)request->kernel_count * sizeof *program->kernels);
    if (!program->kernels) return mst_out_of_memory("OpenCL: kernels", request->kernel_count * (int64_t)sizeof *program->kernels);
    program->count = request->kernel_count;
    for (int32_t i = 0; i < program->count; i++) MUSTER_TRY(make_kernel(program, &request->kernels[i], &program->kernels[i]));
    return MUSTER_OK;
}

typedef struct opencl_opening {
    opencl_program *program;
    const mst_program_request *request;
    mst_code_image image;
} opencl_opening;

/* On a thread of its own, since PoCL's compiler needs a large stack. */
static muster_status fill_apart(void *argument) {
    opencl_opening *opening = argument;
    const mst_signal_stack saved = mst_signal_stack_save();
    const muster_status status = fill(opening->program, opening->request, &opening->image);
    mst_signal_stack_restore(&saved);
    return status;
}

muster_status mst_opencl_open(mst_device *head, mst_opencl_slot *slot, const mst_program_request *request, mst_program **program,
                              char **log) {
    mst_opencl_device *device;
    *program = NULL;
    *log = NULL;
    MUSTER_TRY(mst_opencl_device_of(head, slot, &device));
    opencl_program *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory("OpenCL: program", sizeof *made);
    made->device = device;
    opencl_opening opening = {.program = made, .request = request};
    const muster_status status = mst_own_thread_run(fill_apart, &opening, "OpenCL");
    char *said = opening.image.log;
    const bool found = opening.image.found;
    opening.image.log = NULL;
    mst_code_release(&opening.image);
    if (status == MUSTER_OK) {
        made->head = (mst_program){.log = said, .found = found};
        *program = &made->head;
        return MUSTER_OK;
    }
    char reason[MST_MESSAGE_SIZE];
    mst_error_save(reason);
    free_program(made);
    *log = said;
    return mst_error_restore(status, reason);
}

void mst_opencl_close(mst_program *program) { free_program((opencl_program *)program); }

muster_status mst_opencl_limits(const mst_program *head, int32_t kernel, mst_program_limits *limits) {
    const opencl_program *program = (const opencl_program *)head;
    *limits = program->kernels[kernel].limits;
    return MUSTER_OK;
}

/* ---- launching ---- */

/* Creates a buffer around the memory itself. Kernels receive only the address, so the buffer's size
 * may be cut to the largest that the implementation allows. */
static muster_status set_buffer(const opencl_program *program, opencl_kernel *kernel, int32_t index, const mst_program_value *value) {
    const mst_opencl *cl = program->device->cl;
    opencl_argument *old = &kernel->given[index], new = {.address = value->address};
    mst_cl_result result = MST_CL_SUCCESS;
    if (value->address) {
        new.bytes = value->extent < 1 ? 1 : value->extent < cl->most_bytes ? value->extent : cl->most_bytes;
        if (old->buffer && old->address == new.address && old->bytes == new.bytes) return MUSTER_OK;
        new.buffer = cl->api->clCreateBuffer(cl->context, MST_CL_MEM_READ_WRITE | MST_CL_MEM_USE_HOST_PTR, (size_t) new.bytes,
                                             value->address, &result);
        if (result != MST_CL_SUCCESS) return mst_opencl_error(result, "clCreateBuffer", kernel->name);
    }
    const muster_status status = MST_CL(cl, kernel->name, clSetKernelArg, kernel->kernel, (uint32_t)index, sizeof new.buffer, &new.buffer);
    const mst_cl_buffer unused = status == MUSTER_OK ? old->buffer : new.buffer;
    if (unused) (void)cl->api->clReleaseMemObject(unused); /* the queue holds its own reference */
    if (status == MUSTER_OK) *old = new;
    return status;
}

static muster_status set_scalar(const opencl_program *program, opencl_kernel *kernel, int32_t index, const mst_program_value *value) {
    opencl_argument *given = &kernel->given[index];
    const size_t bytes = (size_t)kernel->bytes[index];
    if (given->scalar_set && memcmp(given->scalar, value->bytes, bytes) == 0) return MUSTER_OK;
    given->scalar_set = false;
    MUSTER_TRY(MST_CL(program->device->cl, kernel->name, clSetKernelArg, kernel->kernel, (uint32_t)index, bytes, value->bytes));
    given->scalar_set = true;
    memcpy(given->scalar, value->bytes, bytes);
    return MUSTER_OK;
}

static muster_status set_arguments(const opencl_program *program, opencl_kernel *kernel, const mst_program_grid *grid,
                                   const mst_program_value *values) {
    const mst_opencl *cl = program->device->cl;
    for (int32_t i = 0; i < kernel->count; i++) MUSTER_TRY((kernel->bytes[i] ? set_scalar : set_buffer)(program, kernel, i, &values[i]));
    if (!kernel->local) return MUSTER_OK;
    /* OpenCL has no local memory of 0 bytes */
    const size_t local = grid->local_bytes > 0 ? (size_t)grid->local_bytes : 1;
    return MST_CL(cl, kernel->name, clSetKernelArg, kernel->kernel, (uint32_t)kernel->count, local, NULL);
}

static muster_status refuse_grid(const opencl_kernel *kernel, const char *what, int64_t most, const int64_t *received, int32_t dims) {
    return mst_error(MUSTER_OUT_OF_RANGE, "kernel %s: expected at most %lld %s, received %lld x %lld x %lld", kernel->name, (long long)most,
                     what, (long long)received[0], (long long)(dims > 1 ? received[1] : 1), (long long)(dims > 2 ? received[2] : 1));
}

/* PoCL 3.1 ends the process at a launch of no threads, and does not run all groups if they are more
 * than it can count. */
static muster_status check_grid(const opencl_kernel *kernel, const mst_program_grid *grid) {
    int64_t groups = 1, threads = 1;
    for (int d = 0; d < grid->dims; d++) {
        if (grid->groups[d] < 1 || grid->threads[d] < 1)
            return mst_error(MUSTER_INTERNAL, "kernel %s: expected at least one group and one thread along each dimension, received none",
                             kernel->name);
        if (__builtin_mul_overflow(groups, grid->groups[d], &groups) || groups > GROUPS_MAX)
            return refuse_grid(kernel, "groups in all", GROUPS_MAX, grid->groups, grid->dims);
        if (__builtin_mul_overflow(threads, grid->threads[d], &threads) || threads > kernel->limits.threads)
            return refuse_grid(kernel, "threads in a group", kernel->limits.threads, grid->threads, grid->dims);
    }
    return MUSTER_OK;
}

static muster_status enqueue(opencl_program *program, const opencl_kernel *kernel, const mst_program_grid *grid) {
    mst_opencl_device *device = program->device;
    size_t threads[MST_PROGRAM_DIMS], group_threads[MST_PROGRAM_DIMS];
    mst_cl_event event = NULL;
    for (int d = 0; d < grid->dims; d++) {
        group_threads[d] = (size_t)grid->threads[d];
        threads[d] = (size_t)(grid->groups[d] * grid->threads[d]);
    }
    MUSTER_TRY(MST_CL(device->cl, kernel->name, clEnqueueNDRangeKernel, device->queue, kernel->kernel, (uint32_t)grid->dims, NULL, threads,
                      group_threads, 0, NULL, &event));
    if (device->last) (void)device->cl->api->clReleaseEvent(device->last);
    device->last = event;
    return MUSTER_OK;
}

muster_status mst_opencl_launch(mst_program *head, int32_t index, const mst_program_grid *grid, const mst_program_value *values) {
    opencl_program *program = (opencl_program *)head;
    opencl_kernel *kernel = &program->kernels[index];
    MUSTER_TRY(check_grid(kernel, grid));
    MUSTER_TRY(set_arguments(program, kernel, grid, values));
    return enqueue(program, kernel, grid);
}
